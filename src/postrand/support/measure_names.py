"""The names of measures of risk, one set for limits, policies, searches and JSON, and the spellings that are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

RISK_MEANINGS: Mapping[str, str] = {
    "correct_matches": "the expected number of right links of the informed attacker who links every person of the file",
    "correct_matches_uniques": "the same among the persons whose keys nobody else in the file has",
    "individual_risk": "the largest probability that the link of a person is right, as the informed attacker computes "
    "it",
    "household_risk": "the largest probability that the informed attacker finds at least one member of a household, "
    "looking for each by itself; for one who knows the keys of all members together: joint_household_risk",
    "joint_household_risk": "the largest probability that the informed attacker who knows the keys of all members of a "
    "household finds it",
    "register_matches": "the expected number of right links of the register attacker who links every record",
    "register_risk": "the largest probability that the register attacker's link of a person is right",
    "register_household_risk": "the largest probability that the register attacker finds at least one member of a "
    "household",
    "register_joint_household_risk": "the largest probability that the register attacker who knows the keys of all "
    "members of a household finds it",
    "tau1": "the expected number of records that are unique in the file and in the population",
    "tau2": "the expected number of right links, if the register attacker links each record that is unique in the file",
}
"""Every measure of risk by its name, and what a limit on it is about."""

LEARNS = (
    "How frequent combinations of keys are, the informed attacker learns from the release. One who knows the keys of "
    "all persons knows that too, and finds somewhat more: for them the figures after the plan are no upper bound."
)
"""Which side the figures of the informed attacker are on; every page that shows them after a plan says it."""


def learns(after: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return :data:`LEARNS` where a measure of the informed attacker is among those known after a plan, else nothing.

    >>> len(learns({"correct_matches": 91.2, "tau2": None})), learns({"correct_matches": None, "tau2": 3.0})
    (1, ())
    """
    return (LEARNS,) * any(after.get(name) is not None for name in _LEARNT)


_LEARNT = ("correct_matches", "correct_matches_uniques", "individual_risk", "household_risk")
_SHORT = {"ε": "epsilon", "τ1": "tau1", "τ2": "tau2", "matches": "correct_matches"}


def measure_named(text: str, known: Collection[str]) -> str:
    """Return the name among those ``known`` that a text spells: blanks and hyphens are read as ``_``.

    ``_risk`` at the end may be left out. A text that spells none is returned in the same form, for the message.

    >>> names = ("correct_matches", "household_risk", "joint_household_risk", "tau2")
    >>> [measure_named(text, names) for text in ("correct matches", "Household", "joint-household risk", "τ2", "tau3")]
    ['correct_matches', 'household_risk', 'joint_household_risk', 'tau2', 'tau3']
    """
    name = "_".join(text.lower().replace("-", " ").replace("_", " ").split())
    name = _SHORT.get(name, name)
    return f"{name}_risk" if name not in known and f"{name}_risk" in known else name
