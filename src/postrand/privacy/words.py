"""What a privacy claim means, in one plain sentence: how often the guesses of an attacker are right.

Every surface that says something of ε, δ, α or β to people asks here. The formulas are in
:mod:`postrand.support.guesses`, and each model's file says which of them is its own (``promise``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from postrand.privacy.base import promise
from postrand.support.guesses import guesses_in_words, of_hundred, right_guesses
from postrand.support.showing import unshown

MOST_TOLD = 12
LITTLE = 8.0
"""Above this ε a claim is said to protect little: of 3,000 guesses between two values all but one can be right."""
TOO_LARGE = "an epsilon this large is little protection"
NONE = "; 100 right is no protection worth the name"
MEMBERS = (2, 4)
"""The sizes of households whose levels are told, beside the largest of the file."""

SAME_CLASS = "the same class: those that can be released for each other, for example within one stratum"


def of_combinations(text: str) -> str:
    """Return a promise on values as one on the combinations of values of several variables.

    >>> of_combinations("guesses among 12 equally likely values")
    'guesses among 12 equally likely combinations of values'
    """
    return text.replace("equally likely values", "equally likely combinations of values")


def in_plain_words(model: Any, variables: Sequence[str], size: int, *, within: bool = False) -> str:
    """Return one sentence: whose values, how many guesses are right without the perturbed values, at most with them.

    Every variable is named: the last of a list can be the most sensitive one. ``size`` is the number of values; of
    several variables, of the combinations that a guess is about. ``within``: among true values of one class.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> in_plain_words(DifferentialPrivacy(1.0), ("sex",), 2).partition("values, ")[2]
    '50 are right without and at most 74 with the perturbed values.'
    """
    several = len(variables) > 1
    text = promise(model, 2 if within else size)
    text = of_combinations(text) if several else text
    inside = f" (values of {SAME_CLASS})" if within else ""
    return f"{', '.join(variables)}{' together' * several}{inside}: {text}{_little(model)}."


def alike_in_plain_words(model: Any, sizes: Mapping[str, int], *, within: bool = False) -> str:
    """Return one sentence for several variables, each with this claim by itself; ``sizes`` are their numbers of values.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> alike_in_plain_words(DifferentialPrivacy(1.0), {"sex": 2, "own": 2, "age": 12}).partition("; ")[2]
    'age: of 100 guesses among 12 equally likely values, 8.3 without and at most 20 with them.'
    """
    base, texts = promise(model), {name: promise(model, 2 if within else size) for name, size in sizes.items()}
    shared = all(text == base or text.startswith(f"{base}; ") for text in texts.values())
    rest = [f"{n}: {text.removeprefix(f'{base}; ')}" for n, text in texts.items() if text != base or not shared]
    inside = f" (among values of {SAME_CLASS})" if within else ""
    more = unshown(len(rest), MOST_TOLD)
    left = [f"and {more:,} more variables, by their own numbers of values"] * bool(more)
    told = "; ".join([*[base] * shared, *rest[: len(rest) - more], *left])
    return f"{', '.join(sizes)}, each by itself{inside}: {told}{_little(model)}."


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
    little = f"; {TOO_LARGE}" if epsilon > LITTLE else ""
    return f"A {unit} with {many}, all that it has in them together: {said}{little}."


def members_in_words(epsilon: float, household: str | None, largest: int = 0) -> str:
    """Return what a claim on one record means for several records that belong together: k of them have k ε.

    ``household``: the variable that shows which records do, if there is one; ``largest``: the most members of one, 0 if
    not known. Each record is perturbed by itself, so the ratio of the probabilities of all their released values is at
    most the product of theirs, ``e^(k ε)``. Of what members share in some variables, only the epsilon of these adds up.

    >>> members_in_words(1.0, None).partition(". ")[2]
    'Several records of one person or household add up: k of them have k times epsilon.'
    """
    one = "These claims are for one record."
    if household is None:
        return f"{one} Several records of one person or household add up: k of them have k times epsilon."
    together = f"{one} {household} shows which records are one household, and how many; its members add up"
    if not math.isfinite(epsilon):
        return f"{together}: what is claimed of one record does not hold for all members together."
    sizes = member_sizes(largest)
    if not sizes:
        return one
    right = [of_hundred(min(right_guesses(k * epsilon, 0.5), 1 - 1e-12), most=True) for k in sizes]
    levels = ", ".join(
        f"{k} members have epsilon = {k * epsilon:.4g} (at most {g} right)" for k, g in zip(sizes, right, strict=True)
    )
    more = f"{largest} is the largest household of the file" if largest else "k members have k times epsilon"
    between = "“Right” counts, of 100 guesses between two equally likely descriptions of all members, those that can be"
    bound = f"This is an upper bound{NONE * ('100' in right)}."
    return f"{together}: {levels}; {more}. {between} right; 50 are without the perturbed values. {bound}"


def member_sizes(largest: int = 0) -> list[int]:
    """Return the numbers of members for which levels are told; ``largest``: the most members of one, 0 if not known."""
    return [k for k in MEMBERS if not largest or k < largest] + ([largest] if largest > 1 else [])


def _little(model: Any) -> str:
    """Return what is added where the level promises almost nothing."""
    return f"; {TOO_LARGE}" if getattr(model, "epsilon", 0.0) > LITTLE else ""
