"""What a privacy claim means, in one plain sentence: how often the guesses of an attacker are right.

Every surface that says something of ε, δ, α or β to people asks here. The formulas are in
:mod:`postrand.support.guesses`, and each model's file says which of them is its own (``promise``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postrand.privacy.base import promise
from postrand.support.guesses import guesses_in_words
from postrand.support.showing import few

MOST_TOLD = 12
LITTLE = 8.0
"""Above this ε a claim is said to protect little: of 3,000 guesses between two values all but one can be right."""


def of_combinations(text: str) -> str:
    """Return a promise on values as one on the combinations of values of several variables.

    >>> of_combinations("guesses among 12 equally likely values")
    'guesses among 12 equally likely combinations of values'
    """
    return text.replace("equally likely values", "equally likely combinations of values")


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
    text = of_combinations(text) if several else text
    inside = " (values of the same class)" if within else ""
    return f"{few(variables)}{' together' * several}{inside}: {text}{_little(model)}."


def alike_in_plain_words(model: Any, sizes: Mapping[str, int], *, within: bool = False) -> str:
    """Return one sentence for several variables, each with this claim by itself; ``sizes`` are their numbers of values.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> alike_in_plain_words(DifferentialPrivacy(1.0), {"sex": 2, "own": 2, "age": 12}).partition("; ")[2]
    'age: of 100 guesses among 12 equally likely values, 8.3 and at most 20.'
    """
    base, texts = promise(model), {name: promise(model, 2 if within else size) for name, size in sizes.items()}
    shared = all(text == base or text.startswith(f"{base}; ") for text in texts.values())
    rest = [f"{n}: {text.removeprefix(f'{base}; ')}" for n, text in texts.items() if text != base or not shared]
    inside = " (among values of the same class)" if within else ""
    told = "; ".join([base] * shared + rest[:MOST_TOLD])
    return f"{few(tuple(sizes))}, each by itself{inside}: {told}{_little(model)}."


def file_in_plain_words(epsilon: float, delta: float) -> str:
    """Return the sentence of a level (ε, δ) of the whole file."""
    said = guesses_in_words(epsilon, delta=delta, of="records that a person may have")
    return f"Whoever does not know which released record is a person's: {said}."


def unit_in_plain_words(unit: str, records: int, epsilon: float) -> str:
    """Return the sentence of the level of a person or household with so many records.

    >>> unit_in_plain_words("household", 4, 2.0)[:70]
    'A household with up to 4 records, all that it has in them together: of'
    """
    many = f"up to {records:,} records" if records > 1 else "one record"
    said = guesses_in_words(epsilon, of=f"descriptions of the whole {unit}")
    little = "; this is little protection" if epsilon > LITTLE else ""
    return f"A {unit} with {many}, all that it has in them together: {said}{little}."


def _little(model: Any) -> str:
    """Return what is added where the level promises almost nothing."""
    return "; this is little protection" if getattr(model, "epsilon", 0.0) > LITTLE else ""
