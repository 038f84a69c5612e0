"""Rare categories of the file, merged into one: the only kind that looks at the confidential records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Reads, Scalar, key_of, label_problems, listed
from postrand.support import inputs
from postrand.support.arrow import from_texts


@dataclass(frozen=True, slots=True)
class MergeRare:
    """Merge categories of fewer than ``merge_rare`` records (below 1: than this share of them) into ``others``.

    ``merged`` are the categories that this was found to be. They are written down once, so that another version of the
    file does not change the meaning of the result in silence; None: not yet found, see :meth:`settled`.

    Examples
    --------
    >>> rule = MergeRare(10).settled({"nurse": 40, "astronaut": 2})
    >>> rule.merged, rule.to_arrow(pa.array(["astronaut", "nurse"])).to_pylist()
    (('astronaut',), ['Other', 'nurse'])
    """

    name: ClassVar[str] = "merging rare categories"
    marks: ClassVar[tuple[str, ...]] = ("merge_rare",)
    confidential: ClassVar[bool] = True
    remedy: ClassVar[str] = ""
    merge_rare: float
    others: str = "Other"
    merged: tuple[Scalar, ...] | None = None

    def __post_init__(self) -> None:
        if self.merged is not None and (held := inputs.listed(self.merged)) is not None:
            object.__setattr__(self, "merged", held)
        raise_all(SpecificationError, _problems(self))

    @property
    def reads(self) -> Reads:
        """Any values."""
        return "values"

    def settled(self, counts: Mapping[Scalar, int]) -> MergeRare:
        """Return the rule with the categories that are rare by these numbers of records; missing values do not count.

        Raises
        ------
        SpecificationError
            If no category would be left, or ``others`` is one that is not rare.
        """
        least = self.least(sum(counts.values()))
        rare = tuple(sorted((v for v, n in counts.items() if n < least), key=key_of))
        left = {key_of(v) for v in counts} - {key_of(v) for v in rare}
        if not left:
            raise SpecificationError(sentence("every category is rare by this rule", fix="lower merge_rare"))
        if self.others in left:
            what = f"{self.others!r} is a category of the file that is not rare"
            raise SpecificationError(sentence(what, fix="set others to another name"))
        return dataclasses.replace(self, merged=rare)

    def least(self, records: int) -> float:
        """Return how many records a category needs to stay, of so many with a value."""
        return self.merge_rare if self.merge_rare >= 1 else self.merge_rare * records

    @property
    def asks(self) -> str:
        """How many records a category needs to stay, in words."""
        return f"{self.merge_rare:g} records" if self.merge_rare >= 1 else f"{100 * self.merge_rare:g}% of the records"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the values, or the name of the rare ones; see :class:`postrand.recoding.Recoding`."""
        rare = {key_of(value) for value in self.merged or ()}
        texts = map(key_of, column.to_pylist())
        return from_texts([self.others if text in rare else text for text in texts])

    def categories(self) -> tuple[str, ...]:
        """Return (): the values of the column that are not rare remain."""
        return ()

    def in_words(self) -> str:
        """Return the rule and what it merged."""
        found = f": {listed(self.merged)}" if self.merged else ""
        return f"categories of fewer than {self.asks} in the confidential file merged into {self.others}{found}"


def _problems(kind: MergeRare) -> Iterable[str]:
    least = inputs.finite(kind.merge_rare)
    if math.isnan(least) or not (0 < least < 1 or (least > 1 and float(least).is_integer())):
        wanted = "a number of records of at least 2, or a share between 0 and 1"
        yield sentence("'merge_rare' is not valid", got=shown(kind.merge_rare, repr), wanted=wanted)
    yield from label_problems([kind.others], "the merged categories")
    if kind.merged is not None and (
        not isinstance(kind.merged, tuple) or not all(isinstance(v, Scalar) for v in kind.merged)
    ):
        fix = "leave it out, and run 'postrand recode' with --write"
        yield sentence("'merged' is not a list of categories", got=shown(kind.merged, repr), fix=fix)
