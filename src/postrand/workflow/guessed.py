"""What somebody guesses of a confidential variable who knows which released record is a person's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.mechanism.units import SharedDrawsWarning
from postrand.risk.law import KeyLaw
from postrand.risk.split_law import SplitLaw, lumped
from postrand.support.guesses import of_hundred
from postrand.support.warned import hushed

FloatArray = NDArray[np.float64]
NAMED = 4


@dataclass(frozen=True, slots=True)
class Guess:
    """Say how often the best guess of a variable is right from its released value, and without it; and the surest one.

    ``right`` is ``Σ_j max_i p_i M[i, j]``, ``blind`` is ``max_i p_i``, ``sure`` the largest posterior
    ``max_ij p_i M[i, j] / Σ_i p_i M[i, j]``, all with the shares p of the file: confidential.
    """

    name: str
    right: float
    blind: float
    sure: float


def guesses(mechanism: Mechanism, codebook: Codebook, shares: Callable[[str], FloatArray | None]) -> tuple[Guess, ...]:
    """Return the guesses of each perturbed variable of role ``sensitive``; ``shares`` are those of its categories.

    Left out is what is drawn once for a household, and what has no shares, or no law of its own.
    """
    shared = {name for names in mechanism.shared.values() for name in names}
    found = []
    for variable in codebook.with_role("sensitive"):
        if variable.name not in mechanism.variables or variable.name in shared:
            continue
        prior = shares(variable.name)
        joint = None if prior is None else _joint(mechanism, codebook, variable.name, prior)
        if prior is not None and joint is not None:
            mass, best = joint.sum(axis=0), joint.max(axis=0)
            sure = float((best[mass > 0] / mass[mass > 0]).max())
            found.append(Guess(variable.name, float(best.sum()), float(prior.max()), sure))
    return tuple(found)


def _joint(mechanism: Mechanism, book: Codebook, name: str, prior: FloatArray) -> FloatArray | None:
    """Return the probability of each true and released value, shape (S, S); after a split the last column, not shown.

    None where the law of the variable alone is not known: others of its block decide it, too.
    """
    is_split = mechanism.split is not None and name in mechanism.split.variables
    matrix = _of_split(mechanism, name, prior.size) if is_split else _of_block(mechanism, book, name)
    return None if matrix is None or matrix.shape[0] != prior.size else np.asarray(prior[:, None] * matrix)


def _of_block(mechanism: Mechanism, book: Codebook, name: str) -> FloatArray | None:
    block = next(one for one in mechanism.blocks if name in one.perturbed)
    if block.given:
        return None
    place = block.variables.index(name)
    found = lumped(block, [book[one].size for one in block.variables], (place,))
    return None if found is None else found[0]


def _of_split(mechanism: Mechanism, name: str, size: int) -> FloatArray | None:
    split = mechanism.split
    if split is None or split.of_members:
        return None  # of members, who shows it depends on the household
    try:
        with hushed(SharedDrawsWarning):
            law = SplitLaw.of(mechanism, (name,), (size,))
    except PostrandError:
        return None
    parts = [(part.probability, part.law) for part in law.parts]
    shown = [chance * _rows(own, size) for chance, own in parts if own is not None]
    hidden = np.full(size, sum(chance for chance, own in parts if own is None))
    return np.column_stack([np.sum(shown, axis=0), hidden])


def _rows(law: KeyLaw, size: int) -> FloatArray:
    return np.stack([law.apply(row, (0,)) for row in np.eye(size)])


def guessed_in_words(found: Sequence[Guess], persons: str = "persons") -> Iterator[str]:
    """Yield what is guessed in a sentence; nothing without variables.

    >>> told = guessed_in_words([Guess("insured", 0.86, 0.84, 0.931), Guess("ill", 0.6, 0.55, 0.8)])
    >>> print(*told)  # doctest: +NORMALIZE_WHITESPACE
    Who knows which record is a person's, and how frequent values are, guesses insured from its released value rightly
    for about 86 of 100 persons (without it 84), and is at most 93.1% sure; ill: 60 (55), 80%. Other released columns
    can make a guess surer: the claims count all perturbed ones.
    """
    if not found:
        return
    (first, *rest), more = found[:NAMED], len(found) - NAMED
    right, blind, sure = _numbers(first)
    text = f"Who knows which record is a person's, and how frequent values are, guesses {first.name} from its released "
    text += f"value rightly for about {right} of 100 {persons} (without it {blind}), and is at most {sure}% sure"
    for one in rest:
        right, blind, sure = _numbers(one)
        text += f"; {one.name}: {right} ({blind}), {sure}%"
    text += f"; and {more} more" * (more > 0)
    yield f"{text}. Other released columns can make a guess surer: the claims count all perturbed ones."


def _numbers(one: Guess) -> tuple[str, str, str]:
    """Return the three shares out of 100, the last rounded up."""
    return of_hundred(one.right), of_hundred(one.blind), of_hundred(one.sure, most=True)
