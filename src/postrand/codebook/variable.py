"""A variable: its role, its categories in order, and the treatment of missing values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, has_controls, listed

Scalar = str | int | float | bool


Role = Literal["key", "sensitive", "other", "weight", "household", "record_key", "drop"]


MissingPolicy = Literal["error", "category", "keep"]


ROLES: tuple[str, ...] = get_args(Role)
RELEASED_ROLES = ("key", "sensitive", "other", "weight", "household")
"""The roles of what a release holds; a record key only where it is asked for."""


MISSING_POLICIES: tuple[str, ...] = get_args(MissingPolicy)


MAX_CATEGORIES = 100_000


MISSING = "(missing)"
"""The text of missing answers that are a category, in tables and rules."""


_LISTS = ("categories", "labels", "missing_codes")


@dataclass(frozen=True, slots=True)
class Variable:
    """Describe one column of the microdata file.

    Parameters
    ----------
    name
        The column's name, compared exactly, blanks included; without control characters such as a line break.
    role
        ``key`` (identifying), ``sensitive`` or ``other``: released; ``weight``: released unperturbed, for the analyst;
        ``household``: shows which records belong together, released with new numbers; ``record_key``: a unique integer
        identifier, released only on request; ``drop``: not released.
    categories
        The values in their order, of one type; empty for a numeric column that is released as it is.
    labels
        A text for each category (empty: the values need no labels).
    type
        The Arrow type of the column in the source file, for example ``string``, ``int64``, ``double``, ``bool``.
    missing
        ``error``: a missing value stops the run; ``category``: missing is one more category, perturbed like the
        others, with the code ``len(categories)``; ``keep``: released as missing, which discloses that it is missing.
    missing_codes
        Categories that mean "no answer" or "not applicable", for reports and tables.

    Raises
    ------
    SpecificationError
        With all problems of the variable together.

    Examples
    --------
    >>> Variable("sex", role="key", categories=("Female", "Male"), missing="category").size
    3
    """

    name: str
    role: Role
    categories: tuple[Scalar, ...] = ()
    labels: tuple[str, ...] = ()
    type: str = "string"
    ordered: bool = False
    missing: MissingPolicy = "error"
    missing_codes: tuple[Scalar, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        for field in _LISTS:
            if (held := listed(getattr(self, field))) is not None:
                object.__setattr__(self, field, held)
        raise_all(SpecificationError, _variable_problems(self))

    @property
    def is_categorical(self) -> bool:
        """Whether the variable has categories; only then it can be perturbed and tabulated."""
        return bool(self.categories)

    @property
    def size(self) -> int:
        """The number S of codes: the categories, and one more if missing is a category."""
        return len(self.categories) + (self.missing == "category")

    @property
    def code_labels(self) -> tuple[str, ...]:
        """A text for each code 0..S-1, the missing one last."""
        texts = self.labels or tuple(str(c) for c in self.categories)
        return (*texts, MISSING) if self.missing == "category" else texts


def _variable_problems(v: Variable) -> Iterable[str]:
    """Yield the problems of a variable; its fields can have any type, because they come from a file."""
    if not isinstance(v.name, str) or not v.name:
        yield sentence("a variable has no name")
    where = f"variable {shown(v.name, repr)}"
    if isinstance(v.name, str) and has_controls(v.name):
        fix = "rename the column in the file"
        yield sentence("the name contains a control character, such as a line break", where=where, fix=fix)
    if v.role is None or (isinstance(v.role, str) and not v.role):
        fix = f"set role for {shown(v.name, repr)}"
        yield sentence("the role is missing", where=where, wanted=", ".join(ROLES), fix=fix)
    elif not isinstance(v.role, str) or v.role not in ROLES:
        what = f"unknown role {shown(v.role, repr)}{nearest(shown(v.role), ROLES)}"
        yield sentence(what, where=where, wanted=", ".join(ROLES))
    if not isinstance(v.missing, str) or v.missing not in MISSING_POLICIES:
        what = f"unknown missing policy {shown(v.missing, repr)}{nearest(shown(v.missing), MISSING_POLICIES)}"
        yield sentence(what, where=where, wanted=", ".join(MISSING_POLICIES))
    for field, value in (("type", v.type), ("label", v.label)):
        if not isinstance(value, str):
            yield sentence(f"{field!r} is not text", where=where, got=shown(value, repr), fix=f'set {field} = "..."')
    if not isinstance(v.ordered, bool):
        yield sentence("'ordered' is not true or false", where=where, got=shown(v.ordered, repr))
    wrong = list(_list_problems(v, where))
    yield from wrong or _category_problems(v, where)


def _list_problems(v: Variable, where: str) -> Iterable[str]:
    for field in _LISTS:
        held = getattr(v, field)
        if not isinstance(held, tuple):
            yield sentence(f"{field} is not a list", where=where, got=shown(held, repr))
        elif field == "labels" and not all(isinstance(text, str) for text in held):
            yield sentence("a label is not text", where=where, fix="quote all of them")
        elif field != "labels" and not all(isinstance(value, Scalar) for value in held):
            wanted = "texts, numbers or truth values"
            yield sentence(
                f"{field} contains an invalid category", where=where, wanted=wanted, fix="write dates as text"
            )


def _category_problems(v: Variable, where: str) -> Iterable[str]:
    if len(v.categories) > MAX_CATEGORIES:
        yield sentence("too many categories", where=where, got=len(v.categories), wanted=f"<= {MAX_CATEGORIES}")
    if len({type(c) for c in v.categories}) > 1:
        yield sentence("the categories have several types", where=where, fix="quote all of them, or none")
    elif not all(isinstance(c, (str, bool)) or math.isfinite(finite(c)) for c in v.categories):
        yield sentence("a category is not a finite number", where=where, fix="use 'missing' for missing values")
    elif len(set(v.categories)) != len(v.categories):
        twice = next(c for i, c in enumerate(v.categories) if c in v.categories[:i])
        yield sentence(f"category {twice!r} is listed twice", where=where)
    if v.labels and len(v.labels) != len(v.categories):
        yield sentence(
            "the numbers of labels and categories differ", where=where, got=len(v.labels), wanted=len(v.categories)
        )
    for code in v.missing_codes:
        if code not in v.categories or type(code) is not type(v.categories[0]):
            what = f"missing code {shown(code, repr)} is not a category"
            yield sentence(what, where=where, fix="add it to categories")
    if not v.categories and isinstance(v.missing, str) and v.missing == "category":
        yield sentence("missing = 'category' needs categories", where=where, fix="use 'keep' or 'error'")


_FIELDS = tuple(f.name for f in dataclasses.fields(Variable))


_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Variable) if f.default is not dataclasses.MISSING}


def variable_to_dict(v: Variable) -> dict[str, Any]:
    """Return plain data; fields at their default are left out."""
    values = {name: getattr(v, name) for name in _FIELDS}
    kept = {k: x for k, x in values.items() if k not in _DEFAULTS or x != _DEFAULTS[k]}
    return {k: list(x) if isinstance(x, tuple) else x for k, x in kept.items()}


def variable_from_dict(entry: Any, where: str) -> Variable:
    """Build a variable from plain data; raises SpecificationError with all its problems together."""
    if not isinstance(entry, Mapping):
        raise SpecificationError(sentence("a variable is not a table", where=where))
    where = f"variable {entry['name']!r}" if isinstance(entry.get("name"), str) else where
    problems = [sentence(f"unknown field {k!r}{nearest(k, _FIELDS)}", where=where) for k in entry if k not in _FIELDS]
    problems += [sentence("the name is missing", where=where)] * ("name" not in entry)
    known = {k: entry[k] for k in entry if k in _FIELDS}
    try:
        variable = Variable(**{"name": where, "role": "", **known})
    except SpecificationError as error:
        raise SpecificationError((*problems, *error.problems)) from None
    raise_all(SpecificationError, problems)
    return variable


class Variables(Protocol):
    """Anything with variables by name, such as a codebook: the view that the codebook's own parts have of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names in column order."""

    def __contains__(self, name: object) -> bool:
        """Return whether a variable has this name."""

    def __getitem__(self, name: str) -> Variable:
        """Return the variable; raises SpecificationError if there is none."""
