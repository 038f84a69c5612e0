"""The account of one record: what every block, every stratum and every prior spends of its privacy budget.

Blocks are independent given the true record, so their ratios multiply. A block with several classes (strata, say)
spends what the law of the record's class spends; blocks that read the same variables are summed class by class, and the
worst class counts. Of a split, a record is released through one subset, drawn without looking at it: the worst counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from postrand.codebook.rules import linked
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.support.exact import add_upper as add_upper  # what an account is added up with
from postrand.support.exact import log_upper

MAX_STRATA = 100_000
"""Beyond this many combinations of strata, each block's worst counts, which can only overstate the sum."""


@dataclass(frozen=True, slots=True)
class Account:
    """The ε that a record spends, rounded up; ``total`` is for the worst record.

    ``blocks[b]`` is the ε of block b in its worst class; ``total <= sum(blocks) + sum(priors)``, with equality up to
    rounding where no block has several classes. ``split[t]`` is the ε of subset t of a split, of which the largest, and
    the prior of the split, are part of ``total``.
    """

    blocks: tuple[float, ...]
    priors: tuple[float, ...]
    total: float
    split: tuple[float, ...] = ()


def mechanism_account(mechanism: Mechanism) -> Account:
    """Add up what a record spends on the blocks and on the subset of the split that costs most."""
    own = record_account(mechanism.blocks)
    if mechanism.split is None:
        return own
    total = max(record_account(blocks).total for blocks in mechanism.alternatives)
    return Account(own.blocks, own.priors, total, tuple(block.epsilon for block in mechanism.split.blocks))


def record_account(blocks: Sequence[Block]) -> Account:
    """Add up what the blocks and their priors spend.

    >>> from postrand.mechanism.matrix import randomised_response
    >>> M = randomised_response(2, 1.0)
    >>> record_account([Block(("a",), M), Block(("b",), M)]).total
    2.0
    """
    priors, each = tuple(block.prior_epsilon for block in blocks), tuple(block.epsilon for block in blocks)
    return Account(each, priors, add_upper(spent_upper(blocks), *priors))


def spent_upper(blocks: Sequence[Block]) -> float:
    """Return the ε of the matrices of blocks together, for the worst record, rounded up; without their priors."""
    if any(block.epsilon == math.inf for block in blocks):
        return math.inf  # a block that changes nothing has no ratio to multiply, and reveals everything
    ratios = [law.ratio for law in worst_laws(blocks)]
    known = [ratio for ratio in ratios if ratio is not None]
    return log_upper(math.prod(known, start=Fraction(1))) if len(known) == len(ratios) else math.inf


def worst_laws(blocks: Sequence[Block]) -> list[TransitionMatrix]:
    """Return one matrix for each block: those of the combination of classes with the largest product of ratios."""
    chosen: dict[int, TransitionMatrix] = {}
    for group in _sharing(blocks):
        candidates = [_by_class(blocks[b]) for b in group]
        names = tuple(dict.fromkeys(n for b in group for n in blocks[b].given))
        best, laws = Fraction(-1), [_worst([law for law, _ in found]) for found in candidates]
        domains = [_domain(n, candidates) for n in names]
        if math.prod(map(len, domains)) <= MAX_STRATA:
            for codes in itertools.product(*domains):
                at = dict(zip(names, codes, strict=True))
                met = [_worst([law for law, held in found if _consistent(held, at)]) for found in candidates]
                total = _product(met)
                if total is None:
                    laws = met
                    break
                if total > best:
                    best, laws = total, met
        chosen |= dict(zip(group, laws, strict=True))
    return [chosen[b] for b in range(len(blocks))]


_Held = dict[str, frozenset[int]]


def _by_class(block: Block) -> list[tuple[TransitionMatrix, _Held]]:
    """Return the law that each class spends, and the codes of each variable that occur in it."""
    if block.cells is None and len(block.variables) > 1:
        codes = np.zeros((block.matrix.size, 0), dtype=np.int32)  # no given variables to tell apart
    else:
        codes = block.cell_table((block.matrix.size,))
    found = []
    for inside, law in block.laws:
        held = {n: frozenset(column.tolist()) for n, column in zip(block.variables, codes[inside].T, strict=False)}
        found.append((law, held))
    return found


def _sharing(blocks: Sequence[Block]) -> list[list[int]]:
    """Return the blocks in groups that read a common variable."""
    groups = linked((), [block.variables for block in blocks])
    return [[b for b, block in enumerate(blocks) if block.variables[0] in names] for names in groups]


def _domain(name: str, candidates: Sequence[Sequence[tuple[TransitionMatrix, _Held]]]) -> list[int]:
    return sorted({code for found in candidates for _, held in found for code in held.get(name, ())})


def _consistent(held: _Held, at: dict[str, int]) -> bool:
    return all(code in held[name] for name, code in at.items() if name in held)


def _worst(laws: Sequence[TransitionMatrix]) -> TransitionMatrix:
    """Return the matrix with the largest ratio; a combination without a cell spends nothing."""
    infinite = [law for law in laws if law.ratio is None]
    return infinite[0] if infinite else max(laws, key=_ratio, default=TransitionMatrix.identity(1))


def _ratio(law: TransitionMatrix) -> Fraction:
    return law.ratio or Fraction(0)


def _product(laws: Sequence[TransitionMatrix]) -> Fraction | None:
    ratios = [law.ratio for law in laws]
    known = [ratio for ratio in ratios if ratio is not None]
    return math.prod(known, start=Fraction(1)) if len(known) == len(ratios) else None
