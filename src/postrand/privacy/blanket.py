"""Amplification by shuffling, computed from the mechanism's own law: its privacy blanket.

Let each of n records pass the same local randomiser, and let ``B(y) = min_x P(y | x)`` be what every true value has in
common, of total mass γ (the blanket; of k-ary randomised response, its uniform part). Reveal whose released values did
not come from the blanket. What remains of the others is drawn from B/γ, and for two true values with laws P and P'

    δ(ε) <= (1/n) E[(ℓ_1 + ... + ℓ_n)_+],   ℓ_i = P(W)/B(W) - e^ε P'(W)/B(W) with probability B(W), else 0

(Balle, Bell, Gascón & Nissim 2019, Lemma 5.3). Two steps make this a bound for *every* pair of true values of a product
of blocks with largest ratios q_b and blankets of mass γ_b, whatever their matrices:

1. In block b, u = P/B and w = P'/B lie in [1, q_b] and both have the sum 1 under B. A convex function, such as the one
   above, grows if u and w are moved to the ends of the interval without changing their means: then each is q_b with
   weight ω = (1 - γ_b)/(q_b - 1), and 1 else.
2. It is submodular in (u, w), so it is largest if both are q_b together as rarely as the weights allow: never if
   2ω <= γ_b. So a pair that differs in every block is the worst.

Of randomised response both steps are equalities. The law of ℓ is then spread over a lattice, without changing its mean,
which raises the expectation again, and the sum of n such terms is computed by a Fourier transform under an exponential
tilt, so that small δ keep their digits. What wraps around only adds. Without the transform, ``x_+ <= e^(λx - 1)/λ``
gives a bound as well (Chernoff); it is the first step and what remains where the lattice would be too large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism import Mechanism
from postrand.mechanism.block import Block
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.support.exact import log_upper

_MOST_ATOMS = 1 << 16
_STEP = 0.05
"""Step of the lattice, in standard deviations of ℓ within the blanket: adds 6e-4 of the variance at most."""

_MOST_POINTS = 1 << 22
_LARGEST = 600.0
"""The largest ε of a record: e^ε of it, and of anything below, is a float."""

_WIDTH = 12.0
"""Half of the window of the transform, in standard deviations of the tilted sum."""

_ROUNDING = 1e-14
"""More than the relative rounding of one term, of one tilted weight, and of one value of the transform."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the bound needs of a block: its largest ratio within a column, and the mass of its blanket, both exact."""

    ratio: Fraction
    mass: Fraction


def part_of(matrix: TransitionMatrix) -> Part | None:
    """Return the part of a matrix; None where a released value excludes a true one, so that no ratio is finite.

    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> part_of(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]))
    Part(ratio=Fraction(3, 1), mass=Fraction(1, 2))
    """
    ratio = matrix.ratio
    return None if ratio is None else Part(ratio, Fraction(sum(matrix.form.columns()[1].tolist()), UNIT))


def parts_of(blocks: Iterable[Block]) -> tuple[Part, ...] | None:
    """Return the parts of independent blocks, without those that release noise alone; None where one has none."""
    found = [part_of(block.matrix) for block in blocks]
    known = [part for part in found if part is not None]
    return tuple(part for part in known if part.ratio > 1) if len(known) == len(found) else None


def choice_of(mechanism: Mechanism) -> Choice | None:
    """Return the parts of a split's subsets with their probabilities; None where one has no finite ratio.

    A mechanism without a split has no choice.
    """
    subsets = () if mechanism.split is None else mechanism.split.subsets
    found = [(Fraction(subset.weight, UNIT), part_of(subset.matrix)) for subset in subsets]
    alike: dict[Part, Fraction] = {}
    for weight, part in found:
        if part is None:
            return None
        alike[part] = alike.get(part, Fraction(0)) + weight
    return [(weight, part) for part, weight in alike.items()]


Choice = Sequence[tuple[Fraction, Part]]
"""One of several parts, drawn with these probabilities without looking at the record, and shown with it."""


def blanket_delta(
    parts: Sequence[Part], records: int, epsilon: float, *, enough: float = 0.0, choice: Choice = ()
) -> float:
    """Return an upper bound of δ(ε) for the shuffled outputs of ``records`` records, neighbours differing in one.

    A record is released through all ``parts``, and through one of ``choice``, if there are any: the blanket of each is
    then that of its probability, and the ratios are its own. Where the first step alone is at most ``enough``, it is
    returned: the second one takes a hundred times as long.

    Examples
    --------
    >>> one = [Part(Fraction(3), Fraction(1, 2))]
    >>> blanket_delta(one, 10_000, 0.1) < 1e-6, blanket_delta(one, 10_000, 1.2)
    (True, 0.0)
    """
    local = log_upper(ratio_of(parts, choice))
    if epsilon >= local:
        return 0.0
    if local > _LARGEST:
        return 1.0
    lattice = _lattice(*_atoms(_merged(parts, _MOST_ATOMS // (1 + len(choice))), epsilon, choice))
    if lattice is None:
        return 1.0
    tilt = _tilt(lattice, records)
    rough = math.exp(min(_log_mean(lattice, records, tilt) - 1, 700.0)) / (records * tilt)
    if rough <= enough:
        return rough
    return min(rough, _transformed(lattice, records, tilt), 1.0)


@dataclass(frozen=True, slots=True)
class _Lattice:
    """The law of ℓ but for its atom at 0: weights at multiples of ``step``."""

    step: float
    at: NDArray[np.int64]
    weights: NDArray[np.float64]

    @property
    def values(self) -> NDArray[np.float64]:
        return self.at.astype(np.float64) * self.step


def ratio_of(parts: Sequence[Part], choice: Choice = ()) -> Fraction:
    """Return the largest ratio of two records' probabilities of one output.

    >>> ratio_of([Part(Fraction(2), Fraction(1, 2))] * 2, [(Fraction(1), Part(Fraction(3), Fraction(1, 2)))])
    Fraction(12, 1)
    """
    most = max((part.ratio for _, part in choice), default=Fraction(1))
    return math.prod((part.ratio for part in parts), start=most)


def _merged(parts: Sequence[Part], most: int) -> list[Part]:
    """Return the parts, the weakest merged to one block while their product has too many atoms."""
    kept = sorted(parts, key=lambda part: (part.ratio, part.mass))
    while len(kept) > 1 and math.prod(_sizes(kept)) > most:
        first, second, *rest = kept
        both = Part(first.ratio * second.ratio, first.mass * second.mass)
        kept = sorted([both, *rest], key=lambda part: (part.ratio, part.mass))
    return kept


def _sizes(parts: Sequence[Part]) -> list[int]:
    return [math.comb(parts.count(part) + 3, 3) for part in set(parts)]


def _atoms(
    parts: Sequence[Part], epsilon: float, choice: Choice = ()
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of ℓ and their weights, for the worst pair of true values."""
    high, low, weights = np.ones(1), np.ones(1), np.ones(1)
    for part in sorted(set(parts), key=lambda part: (part.ratio, part.mass)):
        corners = {(0, 0): 1.0}
        for _ in range(parts.count(part)):
            corners = _convolved(corners, _corners(part))
        found = np.array([(float(part.ratio) ** i, float(part.ratio) ** j, v) for (i, j), v in corners.items()])
        high, low, weights = (np.outer(a, b).ravel() for a, b in zip((high, low, weights), found.T, strict=True))
    if choice:
        found = np.array(
            [
                (float(part.ratio) ** i, float(part.ratio) ** j, float(chance) * v)
                for chance, part in choice
                for (i, j), v in _corners(part).items()
            ]
        )
        high, low, weights = (np.outer(a, b).ravel() for a, b in zip((high, low, weights), found.T, strict=True))
    kept = weights > 0
    return (high - math.exp(epsilon) * low)[kept], weights[kept]


def _corners(part: Part) -> dict[tuple[int, int], float]:
    """Return the weights of (u, w) at the ends of their range, by whether each is the upper one."""
    if part.ratio == 1:
        return {(0, 0): 1.0}  # noise alone
    upper = (1 - part.mass) / (part.ratio - 1)
    both = max(2 * upper - part.mass, Fraction(0))
    neither = part.mass - 2 * upper + both
    weights = {(1, 0): upper - both, (0, 1): upper - both, (0, 0): neither, (1, 1): both}
    return {corner: float(weight) for corner, weight in weights.items() if weight}


def _convolved(
    first: dict[tuple[int, int], float], second: dict[tuple[int, int], float]
) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for (i, j), a in first.items():
        for (k, m), b in second.items():
            found[i + k, j + m] = found.get((i + k, j + m), 0.0) + a * b
    return found


def _lattice(values: NDArray[np.float64], weights: NDArray[np.float64]) -> _Lattice | None:
    """Spread each atom over the two neighbours on a lattice, with the same mean; None if that has too many points."""
    step = _STEP * math.sqrt(float(weights @ values**2) / float(weights.sum()))
    if not (np.abs(values).max() < step * _MOST_POINTS / 4):
        return None
    below = np.floor(values / step)
    share = np.clip(values / step - below, 0.0, 1.0)
    low, points = int(below.min()), int(below.max() - below.min()) + 2
    at = below.astype(np.int64) - low
    found = np.bincount(at, weights * (1 - share), points) + np.bincount(at + 1, weights * share, points)
    places = np.arange(points) + low
    kept = (found > 0) & (places != 0)
    return _Lattice(step, places[kept], found[kept])


def _log_mean(lattice: _Lattice, records: int, tilt: float) -> float:
    """Return ``ln E[e^(λ Σ ℓ)]``, rounded up."""
    terms = lattice.weights * np.expm1(tilt * lattice.values)
    return records * (math.log1p(float(terms.sum())) + _ROUNDING * float(np.abs(terms).sum()))


def _tilt(lattice: _Lattice, records: int) -> float:
    """Return about the λ whose bound by ``x_+ <= e^(λx - 1)/λ`` is smallest; any λ gives a bound."""
    largest = float(np.abs(lattice.values).max())
    low, high = math.log(1e-12 / largest), math.log(500 / largest)
    golden = (math.sqrt(5) - 1) / 2

    def height(place: float) -> float:
        return _log_mean(lattice, records, math.exp(place)) - place

    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = height(left), height(right)
    while high - low > 1e-3:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = height(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = height(right)
    return math.exp((low + high) / 2)


def _transformed(lattice: _Lattice, records: int, tilt: float) -> float:
    """Return the bound from the law of the sum; 1 where it takes too many points."""
    tilted = lattice.weights * np.exp(tilt * lattice.values)
    rest = 1 - float(lattice.weights.sum())
    whole = rest + float(tilted.sum())
    tilted /= whole
    mean = float(tilted @ lattice.at)
    spread = math.sqrt(records * max(float(tilted @ lattice.at**2.0) - mean**2, 0.0))
    top = max(records * mean + _WIDTH * spread, 60 / (tilt * lattice.step))
    bottom = min(records * mean - _WIDTH * spread, 0.0)
    wanted = top - bottom + float(lattice.at.max() - lattice.at.min())
    if not wanted < _MOST_POINTS:
        return 1.0
    points = 1 << max(4, math.ceil(math.log2(wanted + 2)))
    law = np.zeros(points)
    np.add.at(law, lattice.at % points, tilted)
    law[0] += rest / whole
    once = np.fft.rfft(law)
    with np.errstate(divide="ignore"):
        height = np.log(np.abs(once))
    product = np.exp(records * (height + 1j * np.angle(once)))
    sums = np.arange(math.ceil(top) + 1)  # of those above 0; beyond, x e^(-λx) is below e^-59 / λ
    gains = sums * lattice.step * np.exp(-tilt * lattice.step * sums)
    chances = np.maximum(np.fft.irfft(product, points), 0.0)[: sums.size]
    off = records * _ROUNDING * 2 * float(np.exp((records - 1) * np.minimum(height, 0.0)).sum()) / points
    total = float(gains @ chances) + off * float(gains.sum()) + math.exp(-59) / tilt
    return math.exp(min(_log_mean(lattice, records, tilt), 700.0)) * total / records * (1 + 1e-9)
