"""Groups of categories, each with a new name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Reads, Scalar, key_of, label_problems, listed, twice
from postrand.support.arrow import from_texts


@dataclass(frozen=True, slots=True)
class Groups:
    """Put old categories together under new names; ``others`` names the rest, which is refused without it.

    ``groups`` maps each new name to a list of old categories. One that keeps its name is a group of its own.

    Examples
    --------
    >>> marital = Groups({"Couple": ["Married", "Cohabiting"], "Single": ["Single"]}, others="Other")
    >>> marital.to_arrow(pa.array(["Cohabiting", "Single", "Widowed"])).to_pylist()
    ['Couple', 'Single', 'Other']
    """

    name: ClassVar[str] = "groups"
    marks: ClassVar[tuple[str, ...]] = ("groups",)
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = 'add the value to a group, or name the rest: others = "Other"'
    groups: tuple[tuple[str, tuple[Scalar, ...]], ...]
    others: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.groups, Mapping):
            pairs = self.groups.items()
            held = tuple((name, tuple(old) if isinstance(old, (list, tuple)) else (old,)) for name, old in pairs)
            object.__setattr__(self, "groups", held)
        raise_all(SpecificationError, _problems(self))

    @property
    def reads(self) -> Reads:
        """Any values."""
        return "values"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the name of each value's group; see :class:`postrand.recoding.Recoding`."""
        found = {key_of(value): name for name, old in self.groups for value in old}
        rest = self.others or None
        return from_texts([found.get(key_of(v), rest) for v in column.to_pylist()])

    def categories(self) -> tuple[str, ...]:
        """Return the new names in their order, that of the rest last."""
        names = tuple(name for name, _ in self.groups)
        return names if self.others in ("", *names) else (*names, self.others)

    def in_words(self) -> str:
        """Return the groups with their old categories."""
        parts = [f"{name} = {listed(old)}" for name, old in self.groups]
        return f"groups of categories: {'; '.join(parts)}" + (f"; {self.others} = all others" if self.others else "")


def _problems(kind: Groups) -> Iterable[str]:
    if not isinstance(kind.groups, tuple) or not kind.groups:
        fix = 'write [recodes.groups] and below it "New name" = ["old", "old"]'
        yield sentence("'groups' is not a table of names", fix=fix)
        return
    yield from label_problems([name for name, _ in kind.groups], "a group")
    if not isinstance(kind.others, str):
        yield sentence("'others' is not text", got=shown(kind.others, repr), fix='set others = "Other"')
    every = [value for _, old in kind.groups for value in old]
    if not all(isinstance(value, Scalar) for value in every):
        yield sentence("a group contains what is no category", wanted="texts, numbers or truth values")
        return
    yield from (sentence(f"group {name!r} has no category") for name, old in kind.groups if not old)
    for key in twice(key_of(value) for value in every):
        yield sentence(f"category {key!r} is in two groups", fix="keep it in one of them")
