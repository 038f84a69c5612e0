"""A numerical variable of a mechanism: its rank law for n records, and the guarantee that follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.ranks.apply import not_averaged
from postrand.ranks.laws import RANK_LAWS, RankLaw, beta_lower
from postrand.ranks.values import MOST, ValueLevel
from postrand.support import options, wordings
from postrand.support.inputs import is_whole

Form = Literal["permute", "average"]
"""Release the values of neighbours in rank, or their averages."""
FORMS: tuple[str, ...] = get_args(Form)
ROLES = ("key", "sensitive", "other")
AVERAGED_TYPE = "double"


class RankWarning(UserWarning):
    """The release of a numerical column shows most of its values."""


@dataclass(frozen=True, slots=True)
class RankedColumn:
    """Release a numerical variable by a law on the ranks of the ``records`` that have a value.

    The rank law is an n x n bistochastic matrix over these records, so their number is part of it. ``level`` is the
    remaining uncertainty about their values, with equal values counted as one. Without it, the guarantee is only valid
    if no values are equal.

    Raises
    ------
    SpecificationError
        If the form is unknown, there are fewer records than the rank law's smallest run, or true values could be
        computed from the averages.

    Examples
    --------
    >>> from postrand.ranks import RankBlocks
    >>> RankedColumn("pay", RankBlocks(4), "permute", 1024).sentence
    'bistochastic privacy holds with β >= 0.199, 1.99 of 10 bits, provided that no two values are equal'
    >>> RankedColumn("pay", RankBlocks(4), "permute", 1024, ValueLevel(0.5, 1.0)).sentence.partition("; ")[2]
    'at most 50% of records are expected to keep their value'
    """

    variable: str
    law: RankLaw
    form: Form
    records: int
    level: ValueLevel | None = None

    def __post_init__(self) -> None:
        raise_all(SpecificationError, self._problems())
        object.__setattr__(self, "records", int(self.records))

    def _problems(self) -> Iterable[str]:
        where = f"numerical variable {shown(self.variable, repr)}"
        if not isinstance(self.variable, str) or not self.variable:
            yield sentence("a numerical column has no variable name")
        if not isinstance(self.form, str) or self.form not in FORMS:
            what = f"unknown form {shown(self.form, repr)}{nearest(shown(self.form), FORMS)}"
            yield sentence(what, where=where, wanted=" or ".join(FORMS))
        if not isinstance(self.law, RANK_LAWS):
            yield sentence(
                "the method is not a rank law", where=where, got=shown(self.law, repr), wanted="RankBlocks or RankBand"
            )
        elif not is_whole(self.records, 1):
            yield sentence("the number of records is not valid", where=where, wanted="a whole number >= 1")
        elif self.law.least > self.records:
            what = f"{options.describe(self.law)} needs more records with a value than the file has"
            yield sentence(what, where=where, fix="choose a smaller one, or leave the variable out")
        else:
            averaged, level = isinstance(self.form, str) and self.form == "average", self.level
            if averaged and self.law.cuts > 1:
                yield not_averaged(where)
            if level is not None and not (isinstance(level, ValueLevel) and (level.bits is None) == averaged):
                yield sentence("the level of its values does not belong to this form", where=where)

    @property
    def bits(self) -> float:
        """Bits of uncertainty of a record's released value, on average, rounded down; of ``log2(records)``."""
        law = self.law.entropy_lower(self.records) / math.log(2)
        return law if self.level is None or self.level.bits is None else min(law, self.level.bits)

    @property
    def beta(self) -> float:
        """``β = H(P) / ln n`` (RDF Definition 1), rounded down; equal values count as one, so it may be less."""
        of_law = beta_lower(self.law, self.records)
        return of_law if self.records == 1 else min(of_law, self.bits / math.log2(self.records) * (1 - 1e-12))

    @property
    def sentence(self) -> str:
        """What holds, in words: β and bits, rounded down, and what the release shows, rounded up."""
        return wordings.ranked(self.claim(), self.form)

    @property
    def in_words(self) -> str:
        """What happens to the values, in plain words: how many neighbours take part, and what stays known.

        >>> from postrand.ranks import RankBlocks
        >>> RankedColumn("pay", RankBlocks(4), "permute", 1024, ValueLevel(0.5, 1.0)).in_words
        'exchanged at random among at least 4 neighbours in rank; up to 50% of records are expected to keep their value'
        """
        known = None if self.level is None else wordings.FORMATS["percent"](self.level.shown)
        if self.form == "permute":
            text = f"exchanged at random among at least {self.law.least} neighbours in rank"
            kept = f"up to {known} of records are expected to keep their value"
            return f"{text}; {'an equal value may take the place of a value' if known is None else kept}"
        text = f"each value is the average of at least {self.law.least} neighbours in rank"
        return text if known is None else f"{text}; the averages give {known} of the values to within 0.5%"

    @property
    def warning(self) -> str:
        """What a curator is warned of: that most values are shown; or nothing."""
        if self.level is None or self.level.shown <= MOST + 1e-9:  # of a run of two, one half is only chance
            return ""
        share = wordings.FORMATS["percent"](self.level.shown)
        if self.form == "permute":
            what = f"{share} of the records are expected to keep their value: many values are equal"
            return sentence(what, where=self.variable, fix="make it categories and perturb it in [[blocks]]")
        what = f"the averages give {share} of the values to within 0.5%"
        return sentence(what, where=self.variable, fix="choose larger blocks")

    @property
    def done(self) -> str:
        """What was done, in words."""
        return "Permuted among neighbours in rank" if self.form == "permute" else "Averaged over neighbours in rank"

    @property
    def limit(self) -> dict[str, str]:
        """The certificate's entry of what does not follow from the release, or is not covered."""
        return {"code": "permuted" if self.form == "permute" else "averaged", "variable": self.variable}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        law = options.to_dict(self.law)
        level = {} if self.level is None else {"level": self.level.to_dict()}
        return {"variable": self.variable, "method": law, "form": self.form, "records": self.records, **level}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankedColumn:
        """Read plain data; raises SpecificationError where a field is missing, unknown or wrong."""
        wanted = {"variable", "method", "form", "records"}
        if not isinstance(data, Mapping) or set(data) - {"level"} != wanted:
            raise SpecificationError(sentence("a numerical column of the mechanism is not valid"))
        law = options.from_dict(RANK_LAWS, data["method"], f"numerical variable {data['variable']!r}")
        level = ValueLevel.from_dict(data["level"]) if "level" in data else None
        return cls(data["variable"], law, data["form"], data["records"], level)

    def claim(self) -> dict[str, Any]:
        """Return the certificate's entry: the law, and what it attains, rounded down."""
        law = self.to_dict()
        shared = {"shared": self.law.shared} if self.form == "average" else {}
        return {"variables": [law.pop("variable")], **law, "beta": self.beta, "bits": self.bits, **shared}


def column_problems(columns: Sequence[RankedColumn], perturbed: Iterable[str], book: Codebook | None) -> Iterable[str]:
    """Yield a sentence for each column that is in conflict with another, or with the codebook of the release."""
    names = [column.variable for column in columns]
    yield from variable_problems(names, perturbed, book, "")
    for column in columns:
        if book is not None and column.variable in book and column.form == "average":
            variable = book[column.variable]
            if variable.type != AVERAGED_TYPE:
                what = f"averages of {variable.name!r} are not whole numbers or text"
                yield sentence(what, got=variable.type, wanted=f"type = {AVERAGED_TYPE!r}")


def variable_problems(
    names: Sequence[str], perturbed: Iterable[str], book: Codebook | None, where: str
) -> Iterable[str]:
    """Yield a sentence for each variable that cannot be released by a rank law."""
    held = set(perturbed)
    for name in dict.fromkeys(names):
        if names.count(name) > 1 or name in held:
            yield sentence(f"variable {name!r} is in two places", where=where, fix="keep one")
        if book is None:
            continue
        if name not in book:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, book.names)}", where=where)
        elif book[name].is_categorical:
            fix = "perturb it in [[blocks]], or remove its categories from the codebook"
            yield sentence(f"variable {name!r} has categories", where=where, fix=fix)
        elif book[name].role not in ROLES:
            yield sentence(f"variable {name!r} has role {book[name].role!r}", where=where, wanted=", ".join(ROLES))
