"""A split: each record shows a random subset of some variables, perturbed jointly, and does not show the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism.block import Block
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.units import Unit
from postrand.support.inputs import is_whole, listed, real_array

MAX_SUBSETS = 1 << 14
MAX_VARIABLES = 64
"""What a record shows is then one number of 64 bits, a bit for each variable."""
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Subset:
    """Show the perturbed variables of ``block``, through its matrix, with probability ``weight / 2^53``.

    Raises
    ------
    SpecificationError
        If the weight is not a whole number from 1 to 2^53, or there is no block.
    """

    weight: int
    block: Block

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _subset_problems(self))
        object.__setattr__(self, "weight", int(self.weight))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that are shown."""
        return self.block.perturbed

    @property
    def matrix(self) -> TransitionMatrix:
        """The exact probabilities of the released cells."""
        return self.block.matrix

    @property
    def probability(self) -> float:
        """The share of records that show these variables; exact."""
        return self.weight / UNIT


@dataclass(frozen=True, slots=True)
class Split:
    """Draw for each record, without looking at it, one subset T of variables, and release their cell alone.

    The law of a record is ``P(T, y | x) = π_T M_T[x_T, y]`` with ``π_T = weight / 2^53``: two true records have the
    same π_T, so the exact level is the *largest* ε of the matrices and not their sum.

    Where the blocks describe the household, one member of each household is drawn at random, and shows a subset; the
    others show nothing of the split. Then the household as a whole spends that level once.

    Raises
    ------
    SpecificationError
        If the weights do not sum to exactly 2^53, two subsets show the same variables, a subset reads (``given``) a
        variable that another shows, the blocks describe different units, or the subsets state priors or budgets of
        different origin: one design made them.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> pair, one = Block(("a", "b"), randomised_response(4, 2.0)), Block(("c",), randomised_response(3, 2.0))
    >>> split = Split.of([0.75, 0.25], [pair, one])
    >>> split.variables, [subset.weight == UNIT * p for subset, p in zip(split.subsets, (0.75, 0.25), strict=True)]
    (('a', 'b', 'c'), [True, True])
    >>> split.epsilon
    2.0
    """

    subsets: tuple[Subset, ...]
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _blocks: tuple[Block, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        held = listed(self.subsets)
        if held is None or not all(isinstance(one, Subset) for one in held):
            got = shown(self.subsets, repr)
            raise SpecificationError(sentence("the subsets of a split are not a list of Subset", got=got))
        object.__setattr__(self, "subsets", held)
        raise_all(SpecificationError, _split_problems(held))
        # Asked for again and again, and there can be thousands of subsets.
        object.__setattr__(self, "_blocks", tuple(subset.block for subset in held))
        object.__setattr__(self, "_names", tuple(dict.fromkeys(name for one in held for name in one.variables)))

    @classmethod
    def of(cls, probabilities: Sequence[float], blocks: Sequence[Block]) -> Split:
        """Return the split with these probabilities, rounded to units of 2^-53 by largest remainder.

        They sum to 1 within 1e-9. A subset whose probability is rounded to 0 is left out; the level does not depend
        on the probabilities, so rounding does not change it.

        Raises
        ------
        SpecificationError
            If there is not one probability of 0 or more for each block, or they do not sum to 1.
        """
        given = real_array(probabilities, "the probabilities of a split").ravel()
        wrong = len(given) != len(blocks) or not given.size or not (given >= 0).all()
        if wrong or not abs(math.fsum(given) - 1) <= _SUM_TOLERANCE:
            what = "the probabilities of a split are not one number of 0 or more for each block, with the sum 1"
            raise SpecificationError(sentence(what, got=f"{len(given)} numbers for {len(blocks)} blocks"))
        weights = largest_remainder([Fraction(float(p)) for p in given])
        return cls(tuple(Subset(w, block) for w, block in zip(weights, blocks, strict=True) if w))

    def __repr__(self) -> str:
        return f"Split({len(self.subsets)} subsets of {len(self.variables)} variables, ε = {self.epsilon:.4g})"

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that some subset shows, in the order of the subsets."""
        return self._names

    @property
    def given(self) -> tuple[str, ...]:
        """The variables that subsets read and never change."""
        return tuple(dict.fromkeys(name for subset in self.subsets for name in subset.block.given))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block of each subset; a record is released through one of them."""
        return self._blocks

    @property
    def unit(self) -> Unit:
        """What shows one subset: each record, or one random member of each household."""
        return self.subsets[0].block.unit

    @property
    def of_members(self) -> bool:
        """Whether one random member of each household shows a subset, and the others nothing."""
        return self.unit == "household"

    @property
    def epsilon(self) -> float:
        """The largest ε of the subsets' matrices, rounded up; inf where one of them changes nothing or excludes."""
        return max(block.epsilon for block in self.blocks)


def largest_remainder(shares: Sequence[Fraction]) -> list[int]:
    """Return whole numbers that sum to 2^53, each within one unit of its share of the total.

    >>> largest_remainder([Fraction(1), Fraction(1), Fraction(2)]) == [2**51, 2**51, 2**52]
    True
    """
    total = sum(shares)
    exact = [share * UNIT / total for share in shares]
    weights = [int(value) for value in exact]  # towards 0
    order = sorted(range(len(exact)), key=lambda k: weights[k] - exact[k])
    for k in order[: UNIT - sum(weights)]:
        weights[k] += 1
    return weights


def _subset_problems(subset: Subset) -> Iterable[str]:
    if not isinstance(subset.block, Block):
        what = "a subset of a split shows no variable: it has no Block"
        yield sentence(what, got=type(subset.block).__name__, fix="leave the subset out, and raise the other weights")
        return
    if not is_whole(subset.weight, 1) or subset.weight > UNIT:
        yield sentence("a weight is not a whole number", where=_where(subset), wanted="1..2^53")


def _split_problems(subsets: Sequence[Subset]) -> Iterable[str]:
    where = "the split"
    if not 1 <= len(subsets) <= MAX_SUBSETS:
        yield sentence("the number of subsets is too small or too large", where=where, wanted=f"1..{MAX_SUBSETS}")
    total = sum(subset.weight for subset in subsets)
    if total != UNIT:
        yield sentence("the weights of the subsets do not sum to 2^53", where=where, fix="use Split.of(...)")
    seen: set[frozenset[str]] = set()
    for subset in subsets:
        if frozenset(subset.variables) in seen:
            yield sentence("two subsets show the same variables", where=_where(subset), fix="add up their weights")
        seen.add(frozenset(subset.variables))
    names = frozenset().union(*seen)
    if len(names) > MAX_VARIABLES:
        yield sentence("too many variables in one split", where=where, got=len(names), wanted=f"<= {MAX_VARIABLES}")
    for name in sorted({name for subset in subsets for name in subset.block.given} & names):
        what = f"a subset reads {name!r}, which records of other subsets show perturbed"
        yield sentence(what, where=where, fix="show it in the subset, or take it out of the split")
    blocks = [subset.block for subset in subsets]
    if len({block.unit for block in blocks}) > 1:
        what = "some subsets are shown by each record, others by one member of a household"
        yield sentence(what, where=where, fix="give all blocks the same unit")
    if any(block.one is not None for block in blocks):
        yield sentence("a subset chooses one member of each household by a rule", where=where, fix="use a block")
    if any(block.unit == "person" for block in blocks):
        what = "one record of a person cannot be chosen: the numbers of persons are not released"
        yield sentence(
            what, where=where, fix="name the column of persons as household too in Units, and use unit 'household'"
        )
    if len({(block.provenance, block.prior_epsilon, block.budget) for block in blocks}) > 1:
        what = "the subsets state different origins of prior or budget, but one design made them all"
        yield sentence(what, where=where, fix="give all blocks one provenance, prior_epsilon and budget")


def _where(subset: Subset) -> str:
    return f"subset {subset.block.name!r}"
