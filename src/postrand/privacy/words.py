"""What a privacy claim means, in one plain sentence: how often the guesses of an attacker are right.

Every surface that says something of ε, δ, α or β to people asks here. The formulas are in
:mod:`postrand.support.guesses`, and each model's file says which of them is its own (``promise``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from postrand.privacy.base import promise
from postrand.support.guesses import guesses_in_words, right_guesses
from postrand.support.showing import few

LITTLE = 0.95
"""Where more than this share of guesses between two values can be right, a claim is said to protect little."""


def in_plain_words(model: Any, variables: Sequence[str], size: int, *, within: bool = False) -> str:
    """Return one sentence: whose values, how many guesses are right without the release and at most with it.

    ``size`` is the number of values; of several variables, of the combinations that a guess is about. ``within``: among
    true values of one class.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> in_plain_words(DifferentialPrivacy(1.0), ("sex",), 2)
    'sex: of 100 guesses between two equally likely values, 50 are right without the release and at most 74 with it.'
    """
    several = len(variables) > 1
    text = promise(model, 2 if within else size)
    text = text.replace("equally likely values", "equally likely combinations of values") if several else text
    inside = " (values of the same class)" if within else ""
    return f"{few(variables)}{' together' * several}{inside}: {text}{_little(model)}."


def file_in_plain_words(epsilon: float, delta: float) -> str:
    """Return the sentence of a level (ε, δ) of the whole file."""
    said = guesses_in_words(epsilon, delta=delta, of="records that a person may have")
    return f"Whoever does not know which released record is a person's: {said}."


def _little(model: Any) -> str:
    """Return what is added where the level promises almost nothing."""
    epsilon = getattr(model, "epsilon", 0.0)
    return "; this is little protection" if right_guesses(epsilon, 0.5) > LITTLE else ""
