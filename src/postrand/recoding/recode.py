"""A recode: which column of the file becomes which variable, and by which kind of recoding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Recoding, Scalar, called, steps_of
from postrand.recoding.base import twice as repeated
from postrand.recoding.entries import kind_from
from postrand.recoding.unchanged import Unchanged
from postrand.support.inputs import has_controls, listed

if TYPE_CHECKING:
    import pyarrow as pa

_PROVENANCES = ("public", "confidential")


@dataclass(frozen=True, slots=True)
class Recode:
    """Make ``variable`` from the column ``source`` of the file, which leaves the file.

    Parameters
    ----------
    variable
        The name of the result, a variable of the codebook; the codebook describes the result.
    kind
        What is done; see :class:`postrand.recoding.Recoding`.
    source
        The column of the file; by default of the same name.
    type
        The Arrow type of the column where the file does not tell, as in a CSV file.
    missing
        Values of the column that mean "no answer": they become missing.
    provenance
        ``confidential`` if the options were chosen by looking at the file, as rare categories always are; if not,
        ``public``, or empty where nothing is stated.
    states_missing
        Whether it is stated which values mean "no answer", none of them perhaps: ``missing = []`` says so beside other
        options too.

    Raises
    ------
    SpecificationError
        If a name or type is not text, ``missing`` is not a list of values, or the provenance is not that of the kind.

    Examples
    --------
    >>> Recode.from_dict({"variable": "age", "bands": [0, 18]}).kind.categories()
    ('0-17', '18+')
    """

    variable: str
    kind: Recoding
    source: str = ""
    type: str = ""
    missing: tuple[Scalar, ...] = ()
    provenance: str = ""
    states_missing: bool = False

    def __post_init__(self) -> None:
        if (held := listed(self.missing)) is not None:
            object.__setattr__(self, "missing", held)
        raise_all(SpecificationError, _problems(self))
        object.__setattr__(self, "source", self.source or self.variable)
        object.__setattr__(self, "states_missing", self.states_missing or bool(self.missing) or self.says_missing)
        if getattr(self.kind, "confidential", False):  # no kind: its problems are said elsewhere
            object.__setattr__(self, "provenance", "confidential")

    @property
    def is_confidential(self) -> bool:
        """Whether what the recode does follows from the confidential file."""
        return self.provenance == "confidential"

    @property
    def says_missing(self) -> bool:
        """Whether the recode does nothing but say which numbers mean no answer, none of them perhaps."""
        return isinstance(self.kind, Unchanged)

    @property
    def stand_for_more(self) -> dict[float, str]:
        """The numbers of the result that stand for ``"more"`` or ``"less"``, such as the limits of a top coding.

        >>> Recode.from_dict({"variable": "pay", "steps": [{"top": 5400}, {"rounding": 1000}]}).stand_for_more
        {5000: 'more'}
        """
        found = dict[float, str]()
        for step in steps_of(self.kind):
            found = _after(step, found) | getattr(step, "stand_for_more", {})
        return found

    @property
    def kinds(self) -> str:
        """The names of what is done, in order.

        >>> Recode.from_dict({"variable": "age", "steps": [{"top": 85}, {"bands": [0, 18]}]}).kinds
        'top coding, then bands'
        """
        return ", then ".join(called(step) for step in steps_of(self.kind))

    def apply(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the recoded column: text dictionary-encoded, numbers as numbers; missing values stay missing.

        Raises
        ------
        DataError
            If a value has no place in the result. It is never shown.
        """
        from postrand.recoding.apply import applied  # needs pyarrow, which reading a codebook does not

        return applied(self.kind, column, self.missing, self.place)

    @property
    def place(self) -> str:
        """What errors call the recode."""
        return f"recode of {self.source!r} into {self.variable!r}"

    def in_words(self) -> str:
        """Return in a sentence what was done to which column.

        >>> Recode.from_dict({"variable": "pay", "top": 5000}).in_words()
        'Recoded from pay before anything else: top coding: 5000 stands for 5000 and more.'
        """
        lost = "; no value means no answer" if self.states_missing else ""
        lost = f"; {', '.join(map(str, self.missing))} became missing" if self.missing else lost
        return f"Recoded from {self.source} before anything else: {self.kind.in_words()}{lost}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON or TOML; options at their default are left out."""
        own = {"variable": self.variable, "from": self.source, "type": self.type, "missing": list(self.missing)}
        own |= {"provenance": self.provenance} if self.is_confidential else {}
        kept = {name: value for name, value in own.items() if value and (name != "from" or value != self.variable)}
        kept |= {"missing": list(self.missing)} if self.states_missing else {}
        return kept | _options_of(self.kind)

    @classmethod
    def from_dict(cls, entry: Any, where: str = "recode", folder: Path | None = None) -> Recode:
        """Build a recode from plain data; tables that it names are read from ``folder``.

        Raises
        ------
        SpecificationError
            With all problems of the entry: no kind or several, unknown options, a table that cannot be read.
        """
        if not isinstance(entry, Mapping):
            raise SpecificationError(sentence("a recode is not a table", where=where))
        where = f"recode of {entry['variable']!r}" if isinstance(entry.get("variable"), str) else where
        own = {name: entry.get(name, "") for name in ("variable", "type", "provenance")}
        kind: Any = None
        problems = list[str]()
        try:
            kind = kind_from(entry, where, folder)
        except SpecificationError as error:
            problems += error.problems
        try:
            absent = {"missing": entry.get("missing", ()), "states_missing": "missing" in entry}
            made = cls(kind=kind, source=entry.get("from", ""), **absent, **own)
        except SpecificationError as error:
            problems += [f"{where}: {text}" for text in error.problems]
        raise_all(SpecificationError, problems)
        return made


def recodes_from(data: Mapping[str, Any], where: str, folder: Path | None = None) -> tuple[Recode, ...]:
    """Return the recodes of a codebook's plain data; raises SpecificationError with all their problems together."""
    entries = data.get("recodes", [])
    if not isinstance(entries, (list, tuple)):
        raise SpecificationError(sentence("the recodes are not a list of tables", where=where, fix="write [[recodes]]"))
    problems: list[str] = []
    found: list[Recode] = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(Recode.from_dict(entry, f"{where}, recode {number}", folder))
        except SpecificationError as error:
            problems += error.problems
    problems += twice([recode.variable for recode in found])
    raise_all(SpecificationError, problems)
    return tuple(found)


def twice(results: Sequence[str]) -> Iterable[str]:
    """Yield a sentence for each result that several recodes make, alike or not."""
    for name in repeated(results):
        yield sentence(f"two recodes of {name!r}", fix="keep one, or give one of the results another name")


def _after(step: Recoding, found: Mapping[float, str]) -> dict[float, str]:
    """Return what a step makes of numbers that stand for more; none where it gives names."""
    if not found:
        return {}
    import pyarrow as pa  # reading a codebook does not need it

    made = [step.to_arrow(pa.array([value]))[0].as_py() for value in found] if step.reads == "numbers" else []
    return {value: word for value, word in zip(made, found.values(), strict=False) if not isinstance(value, str)}


def _problems(recode: Recode) -> Iterable[str]:
    for what, name in (("variable", recode.variable), ("from", recode.source)):
        if not isinstance(name, str) or (what == "variable" and not name) or has_controls(name):
            yield sentence(f"{what!r} is not the name of a column", got=shown(name, repr), fix=f'set {what} = "age"')
    if not isinstance(recode.type, str):
        yield sentence("'type' is not text", got=shown(recode.type, repr), fix='set type = "int64"')
    if recode.provenance not in ("", *_PROVENANCES):
        wanted = " or ".join(_PROVENANCES)
        yield sentence("unknown provenance", got=shown(recode.provenance, repr), wanted=wanted)
    elif recode.provenance == "public" and getattr(recode.kind, "confidential", False):
        what = f"{recode.kind.name} looks at the file, so it is not public"
        yield sentence(what, fix='set provenance = "confidential", or leave it out')
    if not isinstance(recode.missing, tuple) or not all(isinstance(v, Scalar) for v in recode.missing):
        yield sentence("'missing' is not a list of values", got=shown(recode.missing, repr), fix="set missing = [99]")


def _options_of(kind: Any) -> dict[str, Any]:
    chosen = {f.name: (getattr(kind, f.name), f.default) for f in dataclasses.fields(kind)}
    return {name: _plain(value) for name, (value, usual) in chosen.items() if value != usual}


def _plain(value: Any) -> Any:
    """Return a value without tuples; pairs of a name and more become a table, as do the options of a step."""
    if dataclasses.is_dataclass(value):
        return _options_of(value)
    if not isinstance(value, tuple):
        return value
    if value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return {name: _plain(held) for name, held in value}
    return [_plain(one) for one in value]
