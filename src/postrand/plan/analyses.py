"""What analysts will do with a release, by name: a regression, a mean, shares or a table, read from short texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import is_names

Use = Literal["tables", "means", "models"]
Kind = Literal["table", "mean", "share", "model"]
Named = Literal["", "linear", "logistic", "poisson", "multinomial"]
"""The family of a regression; "": the first that its response can have."""

_MODEL = re.compile(r"\s*(?:(?:(linear|logistic|poisson|multinomial)\s+)?models?\s+)?([^~]+~[^~]+)")
_TERMS = re.compile(r"[~+*:]")
_MEAN = re.compile(r"\s*means?\s+(?:of\s+)?(\S.*?)(?:\s+by\s+(\S.*))?")
_SHARE = re.compile(r"\s*shares?\s+(?:of\s+)?(\S.*?)\s+by\s+(\S.*)")
_TABLE = re.compile(r"\s*tables?\s+(?:of\s+)?(\S.*)")
_NAMES = re.compile(r"\s*[,*×]\s*|\s+(?:x|by)\s+")
_CATEGORIES = re.compile(r"C\(([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Model:
    """Hold the variables of a regression, a table, or a mean or shares by groups that a plan is to be good for.

    Of a regression the response is first, and of a mean and of shares that of which they are.

    >>> str(Model(("wage", "educ", "sex"))), str(Model(("educ", "sex"), "table"))
    ('model wage ~ educ + sex', 'table educ x sex')
    >>> str(Model(("ill", "sex"), family="linear")), Model(("ill", "sex"), family="linear").formula
    ('linear model ill ~ sex', 'ill ~ sex')
    >>> str(Model(("wage", "educ", "sex"), "mean"))
    'mean wage by educ, sex'
    >>> str(Model(("ill", "sex"), "share"))
    'share ill by sex'
    """

    table: tuple[str, ...]
    kind: Kind = "model"
    family: Named = ""

    @property
    def use(self) -> Use:
        """Of which use it is."""
        uses: Mapping[Kind, Use] = {"table": "tables", "share": "tables", "mean": "means", "model": "models"}
        return uses[self.kind]

    @property
    def groups(self) -> tuple[str, ...]:
        """The variables whose combinations are the cells of a table, or the groups of a mean or share."""
        return self.table if self.kind == "table" else self.table[1:]

    def __str__(self) -> str:
        first, *rest = self.table
        if self.kind == "table":
            return f"table {' x '.join(self.table)}"
        if self.kind in ("mean", "share"):
            return f"{self.kind} {first}" + f" by {', '.join(rest)}" * bool(rest)
        return f"{self.family} model {self.formula}".strip()

    @property
    def formula(self) -> str:
        """The formula of a regression: the response, and the sum of the others."""
        first, *rest = self.table
        return f"{first} ~ {' + '.join(rest)}"


def is_named(text: str) -> bool:
    """Return whether a text names an analysis, and not a kind of questions such as ``tables``."""
    return bool(_MODEL.match(text) or any(kind.fullmatch(text) for kind in (_MEAN, _SHARE, _TABLE)))


def read(text: str, problems: list[str]) -> Model | None:
    """Return the regression, mean, shares or table that a text names; None of another text, or where it is not read.

    >>> [str(read(text, [])) for text in ("means of pay by sex, area", "table ill by sex, age", "tables")]
    ['mean pay by sex, area', 'table ill x sex x age', 'None']
    >>> str(read("shares of ill by sex x age", []))
    'share ill by sex, age'
    """
    found = _MODEL.match(text)
    if found is None:
        mean, share, cells = (kind.fullmatch(text) for kind in (_MEAN, _SHARE, _TABLE))
        parts = [] if cells is None else _NAMES.split(cells[1])
        of = mean or share
        parts = parts if of is None else [of[1], *_NAMES.split(of[2] or "")]
        names = tuple(dict.fromkeys(name for part in parts if (name := part.strip())))
        return Model(names, "mean" if mean else "share" if share else "table") if names else None
    parts = [_CATEGORIES.sub(r"\1", part).strip() for part in _TERMS.split(text[found.start(2) :])]
    table = tuple(dict.fromkeys(part for part in parts if part not in ("", "1", "0")))
    if len(table) > 1 and not any(sign in name for name in table for sign in "()"):
        family: Any = found[1] or ""
        return Model(table, family=family)
    what, wanted = "a model is not of the form that is wanted", "for example 'model pay ~ sex + age', names and + alone"
    problems.append(sentence(what, got=repr(text), wanted=wanted))
    return None


def unknown(book: Codebook, asked: Mapping[str, str], where: str = "") -> Iterator[str]:
    """Yield a sentence for each name that a codebook does not have; ``asked`` says how it begins: "a mean has"."""
    for name in (name for name in asked if name not in book):
        made = [recode.variable for recode in book.recodes if recode.source == name]
        what = f"{asked[name]} {name}, which the codebook "
        if made:
            what += f"recodes into {' and '.join(made)}"
            yield sentence(what, where=where, fix=f"name {' or '.join(made)} in its place")
        else:
            first, _, rest = name.partition(" ")
            meant = nearest(first, ("model",)) if rest in book.names else nearest(name, book.names)
            yield sentence(f"{what}does not have{meant}", where=where, wanted=", ".join(book.names))


def analyses_of(section: Any, book: Codebook | None, where: str) -> tuple[Model, ...]:
    """Return what ``[analysts]`` of a plan names, () without the section.

    Raises
    ------
    SpecificationError
        With all problems of the section: a text that names no analysis, a variable that the codebook does not have.

    Examples
    --------
    >>> [str(one) for one in analyses_of({"uses": ["mean pay by sex"]}, None, "[analysts]")]
    ['mean pay by sex']
    """
    if section is None:
        return ()
    fix = 'write uses = ["model pay ~ sex + age", "mean pay by sex"]'
    if not isinstance(section, Mapping) or not is_names(section.get("uses")):
        raise SpecificationError(sentence("'uses' is not a list of texts", where=where, fix=fix))
    problems = [
        sentence(f"unknown option {shown(name, repr)}{nearest(shown(name), ('uses',))}", where=where, wanted="uses")
        for name in section
        if name != "uses"
    ]
    found = []
    for text in section["uses"]:
        wrong: list[str] = []
        one = read(text, wrong)
        problems += [f"{where}: {problem}" for problem in wrong]
        if one is None and not wrong:
            problems.append(sentence("this names no analysis", where=where, got=repr(text), fix=fix))
        found += [] if one is None else [one]
    if book is not None:
        problems += unknown(book, {name: f"a {one.kind} has" for one in found for name in one.table}, where)
    raise_all(SpecificationError, problems)
    return tuple(dict.fromkeys(found))
