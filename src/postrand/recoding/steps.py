"""Several recodings of one column, in order: rare categories merged, then grouped; limits, then bands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from postrand.errors import SpecificationError, raise_all, sentence
from postrand.recoding.apply import prepared
from postrand.recoding.base import Reads, Recoding, called, is_settled, key_of, listed, steps_of
from postrand.recoding.entries import OWN, kind_from
from postrand.support import inputs
from postrand.support.arrow import from_numpy, from_texts, is_null

_EMPTY = {"numbers": pa.float64(), "times": pa.date32(), "values": pa.string()}


@dataclass(frozen=True, slots=True)
class Steps:
    """Do each of ``steps`` to what the one before it gives: ``(f_k ∘ ... ∘ f_1)(x)``.

    A step that reads numbers or times cannot follow one that gives names. To others a recode with steps is one recode:
    it is recorded, applied and described as any other kind, and confidential if one of its steps is.

    Examples
    --------
    >>> ages = Steps.opened({"steps": [{"top": 85}, {"bands": [0, 18, 65]}]}, None)["steps"]
    >>> Steps(ages).to_arrow(pa.array([3, 99])).to_pylist(), Steps(ages).categories()
    (['0-17', '65+'], ('0-17', '18-64', '65+'))
    """

    name: ClassVar[str] = "several recodings in order"
    marks: ClassVar[tuple[str, ...]] = ("steps",)
    remedy: ClassVar[str] = "give the value a place in the step that has none for it"
    steps: tuple[Any, ...]

    def __post_init__(self) -> None:
        if (held := inputs.listed(self.steps)) is not None:
            object.__setattr__(self, "steps", held)
        raise_all(SpecificationError, _problems(self.steps))

    @staticmethod
    def opened(options: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
        """Return the options with each step as its kind; tables that a step names are read from ``folder``."""
        asked, problems, made = inputs.listed(options.get("steps")), list[str](), list[Any]()
        if asked is None:
            what = "'steps' is not a list of tables"
            raise SpecificationError(sentence(what, fix="set steps = [{ top = 85 }, { bands = [0, 18, 65] }]"))
        for number, step in enumerate(asked, 1):
            where = f"step {number}"
            if not isinstance(step, Mapping):
                problems.append(sentence("a step is not a table", where=where, fix="write { top = 85 }"))
            elif own := [name for name in OWN if name in step]:
                what = f"a step has no {' and no '.join(map(repr, own))} of its own"
                problems.append(sentence(what, where=where, fix="write it beside steps, for all of them"))
            else:
                try:
                    made.append(kind_from(step, where, folder))
                except SpecificationError as error:
                    problems += error.problems
        raise_all(SpecificationError, problems)
        return {**options, "steps": tuple(made)}

    @property
    def confidential(self) -> bool:
        """Whether one of the steps looks at the file."""
        return any(step.confidential for step in self.steps)

    @property
    def reads(self) -> Reads:
        """What the first step reads."""
        first: Recoding = self.steps[0]
        return first.reads

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return what the last step gives; see :class:`postrand.recoding.Recoding`."""
        at = np.arange(len(column))
        for step in self.steps:
            column = step.to_arrow(column)
            if column.null_count:  # no place in this step: none in the result
                held = ~is_null(column)
                at = np.where(at < 0, -1, np.where(held, np.cumsum(held) - 1, -1)[at])
                column = column.drop_null()
        return column.take(from_numpy(at, at < 0)) if (at < 0).any() else column

    def categories(self) -> tuple[str, ...]:
        """Return what the steps make of the first known list of categories; () where none is known."""
        known: tuple[str, ...] = ()
        for step in self.steps:
            known = _after(step, known)
        return known

    def in_words(self) -> str:
        """Return what each step does, in order."""
        return "; then ".join(step.in_words() for step in self.steps)


def _after(step: Recoding, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the categories after a step, in its order: what it makes of those that are known before it."""
    if not known:
        return step.categories()
    made = dict.fromkeys(step.to_arrow(from_texts(list(known))).drop_null().to_pylist())
    return tuple(name for name in step.categories() or made if name in made)


def _problems(steps: Any) -> Iterable[str]:
    if not isinstance(steps, tuple) or len(steps) < 2 or not all(hasattr(step, "to_arrow") for step in steps):
        yield sentence("'steps' are not two recodings or more", fix="for one recoding, write its options without steps")
        return
    known: tuple[str, ...] = ()
    for number, (before, step) in enumerate(pairwise((None, *steps)), 1):
        if isinstance(step, Steps):
            yield sentence("a step has steps of its own", where=f"step {number}", fix="write all of them in one list")
            return
        if before is not None and step.reads != "values" and _gives_names(before):
            what = f"{called(step)} reads {step.reads}, but step {number - 1} gives names"
            yield sentence(what, where=f"step {number}", fix="change their order")
            return
        if known and step.reads == "values":
            new = step.to_arrow(from_texts(list(known)))
            lost = [name for name, value in zip(known, new.to_pylist(), strict=True) if value is None]
            if lost:
                what = f"no place for what step {number - 1} gives: {listed(lost)}"
                yield sentence(what, where=f"step {number}", fix=step.remedy)
        known = _after(step, known)


def _gives_names(step: Recoding) -> bool:
    """Whether the results of a step are texts, of columns of any type that it reads."""
    return bool(pa.types.is_string(step.to_arrow(pa.nulls(0, _EMPTY[step.reads])).type))


def rules_of(kind: Any, counts: Mapping[Any, int], where: str) -> Iterator[tuple[Any, dict[Any, int]]]:
    """Yield each step and the numbers of records of the values that it reads; a step that is open is settled first.

    ``counts`` are of the values of the file's column, without missing ones.
    """
    held, steps = dict(counts), steps_of(kind)
    for number, step in enumerate(steps, 1):
        done = step if is_settled(step) else step.settled(held)
        yield done, held
        if number == len(steps):
            return
        new = done.to_arrow(prepared(done, from_texts([key_of(value) for value in held]), where)).to_pylist()
        passed: Counter[Any] = Counter()
        for value, count in zip(new, held.values(), strict=True):
            if value is not None:
                passed[int(value) if isinstance(value, float) and value.is_integer() else value] += count
        held = dict(passed)


def merged_into(kind: Any) -> Iterator[tuple[Any, str]]:
    """Yield each rule that merged rare categories, and the category of the result in which these are.

    A step after the rule can give them another name; where it has no place for them, they are missing.
    """
    steps = steps_of(kind)
    for number, rule in enumerate(steps, 1):
        if not getattr(rule, "merged", None):
            continue
        last = from_texts([rule.others])
        for step in steps[number:]:
            last = step.to_arrow(last) if not last.null_count else last
        if not last.null_count:
            yield rule, key_of(last[0].as_py())


def settled(kind: Any, counts: Mapping[Any, int], where: str) -> Any:
    """Return a kind whose rules on rare categories have looked at these numbers of records."""
    done = tuple(step for step, _ in rules_of(kind, counts, where))
    return Steps(done) if isinstance(kind, Steps) else done[0]


def unsettled(kind: Any) -> Any:
    """Return a kind whose rules on rare categories have not looked at any file."""
    free = tuple(replace(step, merged=None) if hasattr(step, "settled") else step for step in steps_of(kind))
    return Steps(free) if isinstance(kind, Steps) else free[0]


def with_found(entry: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return the plain data of a recode with the rare categories that its kind has found, each beside its rule."""
    found = [{"merged": list(step.merged or ())} if hasattr(step, "settled") else {} for step in steps_of(kind)]
    if not isinstance(kind, Steps):
        return {**entry, **found[0]}
    return {**entry, "steps": [{**step, **own} for step, own in zip(entry["steps"], found, strict=True)]}
