"""What the exact values of weights tell, of perturbed variables and of columns that are not released, and rounding.

Weights are cut into bins where other numbers are compared. But few values, each of many records, are often one for each
stratum: so values that many records have are compared one by one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.columns.recoded import unrecoded
from postrand.errors import DataError, raise_all, sentence
from postrand.formats import Source
from postrand.recoding.base import spelt, steps_of
from postrand.recoding.limits import Limits
from postrand.recoding.rounding import Rounding
from postrand.recoding.unchanged import Unchanged
from postrand.risk.finding import share_text
from postrand.risk.reveals import PairReveal, told
from postrand.risk.sample import Sample, Sampled, taken
from postrand.risk.singled import Codes
from postrand.risk.telling import (
    MAX_BINS,
    MAX_CELLS,
    categories,
    classes,
    cut_in,
    frequent,
    most_told,
    numbers_of,
    table_of,
    usable,
)
from postrand.support.arrow import from_numpy, to_floats

FEW = 20
"""So many different values of a weight, at most, are proposed."""
MAX_HIDDEN = 60
"""So many columns that are not released are compared with weights."""
Weights = Mapping[str, NDArray[np.float64]]
"""Weights of the sampled records by column."""
_PLAIN = ("string", "large_string", "bool", "int", "uint", "dictionary")
_TOTAL = 50
DISTORTED = 0.05
"""A curator is warned where the recode that is there changes a weighted total by more."""
_PROPOSED = 0.2
"""No rounding is proposed that changes one by more."""
TOTALS = (
    f"the weighted totals of all records, and of released categories of perturbed variables with {_TOTAL} or more "
    "records,"
)
"""Which totals are compared: those of other columns, and of values before they are recoded, can change by more."""


def weights_of(codebook: Codebook, clear: Sequence[str]) -> tuple[str, ...]:
    """Return the weights among the unperturbed columns: of the role, and of the survey design."""
    held = [v.name for v in codebook.with_role("weight")]
    survey = codebook.survey
    held += [] if survey is None or survey.weights is None else [survey.weights]
    return tuple(name for name in dict.fromkeys(held) if name in clear)


def hidden_of(codebook: Codebook, clear: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not released, and with which weights are compared; none without weights."""
    return hidden_in(codebook)[:MAX_HIDDEN] if weights_of(codebook, clear) else ()


def hidden_in(codebook: Codebook) -> tuple[str, ...]:
    """Return all columns that are not released, and whose values can be strata."""
    return tuple(v.name for v in codebook.with_role("drop") if v.type.startswith(_PLAIN))


@dataclass(frozen=True, slots=True)
class Rounded:
    """Say what rounding to multiples of ``base`` leaves and costs, of the records that were compared.

    ``before`` and ``after`` are the different values. ``total`` is the largest change of a weighted total, as a share
    of it; ``effective`` the change of Kish's effective number of records, ``(Σ w)² / Σ w²``, as a share of it. Both are
    changes from the weights of the file. ``again``: the codebook rounds them already, and this would take its place.
    ``behind``: it recodes them in another way, this would be one more step, and both are changes from its results.
    ``still``: the share of the records in which the best guess of ``of`` would still be right, from such weights.
    """

    base: float
    before: int
    after: int
    total: float
    effective: float
    again: bool = False
    behind: bool = False
    of: str = ""
    still: float = 0.0

    @property
    def in_words(self) -> str:
        """The base, what it leaves, and what it costs."""
        place = " as one more, last step of its recode" * self.behind
        place = ", in place of the rounding that is there," if self.again else place
        first = "the weights as they are recoded" if self.behind else "the weights of the file"
        return (
            f"rounding = {spelt(self.base)} in [[recodes]]{place} "
            f"leaves {values_text(self.after)} and, against {first}, changes {TOTALS} by no more than "
            f"{_percent(self.total)}, and the effective number of records by {_percent(self.effective)}{self._left}"
        )

    @property
    def _left(self) -> str:
        """What such weights still say."""
        return f"; then the best guess of {self.of} is right in about {100 * self.still:.0f}" if self.of else ""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Say of a weight how many different ``values`` it has, what ``much`` they reveal of which column, and rounding."""

    name: str
    values: int
    much: tuple[PairReveal, ...]
    cost: Rounded | None

    @property
    def about(self) -> tuple[str, ...]:
        """The columns of which its exact values reveal much."""
        return tuple(pair.perturbed for pair in self.much)

    @property
    def best(self) -> PairReveal:
        """What it reveals of the one of these columns that it reveals most of."""
        return most_told(self.much)


def weighed(
    sample: Sampled,
    codebook: Codebook,
    perturbed: Sequence[str],
    known: Collection[tuple[str, str]],
    original: Weights,
) -> Iterator[Weighed]:
    """Yield for each unperturbed weight what its exact values reveal of other columns, without what is ``known``.

    ``known`` are pairs of a perturbed column and a weight; ``original`` weights before they are recoded, by name.
    """
    original = {name: own for name, own in original.items() if _steps(codebook, name) == {Rounding}}
    hidden = hidden_of(codebook, list(sample.alone))
    made = {recode.variable for recode in codebook.recodes}
    true = {n: categories(sample, n, codebook[n].is_categorical) for n in dict.fromkeys((*perturbed, *hidden))}
    for name in weights_of(codebook, list(sample.alone)):
        exact, bins = sample.codes(name), classes(sample, name, codebook[name].is_categorical, MAX_BINS)
        seen = None if bins is None else frequent(exact, bins)
        held = [
            told(table_of(codes, seen), other, name, cut_in(sample, other, codes))
            for other, codes in usable({n: codes for n, codes in true.items() if (n, name) not in known}).items()
            if seen is not None and codes[1] * seen[1] <= MAX_CELLS
        ]
        # Every coarse weight rules out some strata that are not released: that is no finding.
        much = tuple(pair for pair in held if pair.says_values or (pair.is_much and pair.perturbed in perturbed))
        groups = usable({n: true[n] for n in perturbed})
        number = original.get(name, numbers_of(sample, name))
        cost = None if number is None else rounded(number, groups, exact[1] if name in original else None)
        if cost is not None and name in made and name not in original:
            cost = replace(cost, behind=True)
        about = most_told(much).perturbed if much else ""
        if cost is not None and number is not None and (codes := true.get(about)) is not None:
            cost = replace(cost, of=about, still=_right(number, cost.base, codes))
        yield Weighed(name, exact[1], much, cost)


def _right(weights: NDArray[np.float64], base: float, true: Codes) -> float:
    """Return the share of the records in which the best guess of a column is right from weights rounded so."""
    values, codes = np.unique(to_floats(Rounding(base).to_arrow(from_numpy(weights))), return_inverse=True)
    return told(table_of(true, (codes, values.size))).right


def made_zero(sample: Sampled, codebook: Codebook) -> dict[str, str]:
    """Return for each unperturbed weight that is recoded, and 0 for some records, what that means, by its name."""
    found, made = {}, {recode.variable for recode in codebook.recodes}
    for name in weights_of(codebook, list(sample.alone)):
        values = numbers_of(sample, name) if name in made else None
        share = 0.0 if values is None else float((values == 0).mean())
        if share:
            found[name] = (
                f"the weights ({name}) are 0 for {share_text(share)} of the records, as they are recoded: no weighted "
                "figure counts these persons; choose a smaller rounding, so that no weight becomes 0"
            )
    return found


def distorted(
    sample: Sampled, codebook: Codebook, original: Weights, perturbed: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield each weight that is recoded so that a weighted total changes by more than ``DISTORTED``, with by how much.

    ``original`` are weights before they are recoded, by name. Totals are those of all records, and of each category of
    the ``perturbed`` variables that at least 50 records are in.
    """
    true = {n: categories(sample, n, codebook[n].is_categorical) for n in perturbed}
    for name, before in original.items():
        after = numbers_of(sample, name)
        if after is None or not (np.isfinite(before).all() and np.isfinite(after).all() and before.sum() > 0):
            continue
        change, of = max(
            (
                (most, n)
                for n, held in usable(true).items()
                if (most := max(_changes(before, after, held), default=0.0))
            ),
            default=(0.0, ""),
        )
        whole = abs(float(after.sum() / before.sum()) - 1)
        if max(change, whole) > DISTORTED:
            is_rounded = _steps(codebook, name) == {Rounding}
            how, made = ("rounding", "rounded") if is_rounded else ("the recode", "recoded")
            fix = (
                "choose a smaller rounding" if is_rounded else "move fewer weights by bottom or top, or round them less"
            )
            category = f", and of a category of {of} by up to {_percent(change, 2)}" if of else ""
            yield (
                name,
                f"{how} of the weights ({name}) changes the weighted total of all records by {_percent(whole, 2)}"
                f"{category}: estimates are those of the {made} weights, and no interval shows it; {fix}",
            )


def unfit(sample: Sampled, codebook: Codebook) -> Iterator[tuple[str, str]]:
    """Yield each unperturbed weight that does not count all records, with why: it is missing for some, or 0."""
    for name in weights_of(codebook, list(sample.alone)):
        gone = np.isnan(_as_weights(sample, name))
        if gone.any():
            text = (
                f"the weights ({name}) are missing, or no number, for {share_text(float(gone.mean()))} of the records"
            )
            yield name, f"{text}: weighted estimates leave these out, or are refused; give each record its weight"
    yield from made_zero(sample, codebook).items()


def require_weights(sample: Sampled, codebook: Codebook) -> None:
    """Raise DataError with each unperturbed weight that is negative or infinite for a record of the whole file."""
    problems = []
    for name in weights_of(codebook, list(sample.alone)):
        least, largest = sample.ranges.get(name, (0.0, 0.0))
        if least < 0 or math.isinf(largest):
            what = "a weight is negative, perhaps a code for no answer, or infinite"
            fix = "make such values missing or correct them in the file, or give the column another role"
            problems.append(sentence(what, where=f"column {name!r}", fix=fix))
    raise_all(DataError, problems)


def _as_weights(sample: Sampled, name: str) -> NDArray[np.float64]:
    """Return the values of a weight, NaN where one is missing; all NaN where the column has texts that are none."""
    values = numbers_of(sample, name)
    return np.full(sample.table.num_rows, np.nan) if values is None else values


def _steps(codebook: Codebook, name: str) -> set[type]:
    """Return the kinds of recode that a weight goes through: none where it is as in the file."""
    return {type(step) for one in codebook.recodes if one.variable == name for step in steps_of(one.kind)}


def before_recoding(source: Source, sample: Sampled, codebook: Codebook) -> Weights:
    """Return the weights of the sampled records before the codebook recodes them, in one more pass; {} of others.

    Only what leaves numbers is undone, rounding and limits, of a source that is recoded as it is read.
    """
    plain, done = unrecoded(source)
    found: dict[str, NDArray[np.float64]] = {}
    for one in done:
        are_numbers = _steps(codebook, one.variable) <= {Rounding, Limits, Unchanged}
        if not are_numbers or one.variable not in weights_of(codebook, list(sample.alone)):
            continue
        if any(sample.household in (other.variable, other.source) for other in done):
            continue  # whole households are sampled by their numbers in the file, which are not those of the release
        own = taken(plain, Sample((one.source,), (), sample.household))
        values = numbers_of(own, one.source)
        if values is not None and values.size == sample.table.num_rows:
            found[one.variable] = values
    return found


def rounded(weights: NDArray[np.float64], groups: Mapping[str, Codes], now: int | None = None) -> Rounded | None:
    """Return the least rounding to 1, 2 or 5 times a power of ten that leaves at most ``FEW`` values.

    Or else the largest at which no weight becomes 0 and no total changes by more than ``_PROPOSED``; None where none
    makes fewer values. Totals are those of all records, and of each of the ``groups`` that at least 50 records are in.
    ``now``: so many values are left by the rounding that is there, and another must leave fewer.

    >>> found = rounded(np.repeat(np.arange(100.0, 200.0), 3), {})
    >>> found.base, found.after, found.total < 0.01
    (10.0, 11, True)
    """
    weights = weights[np.isfinite(weights)] if not groups else weights
    if not weights.size or not np.isfinite(weights).all() or not weights.min() > 0:
        return None
    before = np.unique(weights).size
    best: Rounded | None = None
    most = before if now is None else min(before, now)
    for base in _bases(float(weights.min())):
        made = to_floats(Rounding(base).to_arrow(from_numpy(weights)))
        after = np.unique(made).size
        if made.min() > 0 and after < most and (best is None or after < best.after):
            change = max(_all_changes(weights, made, groups.values()))
            if change > _PROPOSED:
                continue
            effective = abs(_effective(made) / _effective(weights) - 1)
            best = Rounded(base, before, after, change, effective, now is not None)
            if after <= FEW:
                break
    return best


def _all_changes(before: NDArray[np.float64], after: NDArray[np.float64], groups: Iterable[Codes]) -> Iterator[float]:
    """Yield by what share other weights change the weighted total of all records, and of each class of the groups."""
    yield abs(float(after.sum() / before.sum()) - 1)
    for held in groups:
        yield from _changes(before, after, held)


def _changes(before: NDArray[np.float64], after: NDArray[np.float64], held: Codes) -> list[float]:
    """Return by what share other weights change the weighted total of each class that enough records are in."""
    codes, size = held
    old, new = (np.bincount(codes, weights=w, minlength=size) for w in (before, after))
    many = (np.bincount(codes, minlength=size) >= _TOTAL) & (old > 0)
    return [float(change) for change in np.abs(new[many] / old[many] - 1)]


def _bases(least: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, ascending, from a ten-thousandth of the smallest weight to twice it."""
    low = math.floor(math.log10(least)) - 4
    tens = [float(f"{digit}e{power}") for power in range(low, low + 7) for digit in (1, 2, 5)]
    return [base for base in tens if base <= 2 * least]


def _effective(weights: NDArray[np.float64]) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


def values_text(many: int) -> str:
    """Return a number of different values in words that reveal no small count.

    >>> values_text(3), values_text(57), values_text(2000)
    ('fewer than 5 different values', '57 different values', 'more than 1,000 different values')
    """
    text = "fewer than 5" if many < 5 else "more than 1,000" if many > 1_000 else str(many)
    return f"{text} different values"


def _percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent, rounded up to so many digits."""
    if share == 0:
        return "0%"
    unit = 10.0 ** (math.floor(math.log10(100 * share)) + 1 - digits)
    return f"{math.ceil(100 * share / unit - 1e-9) * unit:.6g}%"
