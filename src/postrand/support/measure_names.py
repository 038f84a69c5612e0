"""The names of measures of risk, one set for limits, policies, searches and JSON, and the spellings that are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from postrand.support.showing import capital, counted, few
from postrand.support.unit_wordings import of_persons

RISK_MEANINGS: Mapping[str, str] = {
    "correct_matches": "the expected number of correct matches of the informed attacker who links every person of the "
    "file",
    "correct_matches_uniques": "the same among the persons whose keys nobody else in the file has",
    "individual_risk": "the largest probability that the link of a person is right, as the informed attacker computes "
    "it",
    "household_risk": "the largest probability that the informed attacker finds at least one member of a household, "
    "looking for each by itself; for one who knows the keys of all members together: joint_household_risk",
    "joint_household_risk": "the largest probability that the informed attacker who knows the keys of all members of a "
    "household finds it",
    "register_matches": "the expected number of correct matches of the register attacker who links every record, the "
    "larger of two estimates: by the weights; by a model of population frequencies",
    "register_risk": "the largest probability that the register attacker's link of a person is right, the larger of "
    "the same two estimates",
    "register_household_risk": "the largest probability that the register attacker finds at least one member of a "
    "household, the larger of the same two estimates",
    "register_joint_household_risk": "the largest probability that the register attacker who knows the keys of all "
    "members of a household finds it by keys that stayed the same; one who uses the matrices finds more",
    "tau1": "the expected number of records that are unique in the file and in the population",
    "tau2": "the expected number of correct matches, if the register attacker links each record that is unique in the "
    "file",
}
"""Every measure of risk by its name, and what a limit on it is about."""

_KNOWS = (
    "The informed attacker knows the keys of the person who is looked for, that this person is in the file, and how "
    "probable each change of a value is (the matrices, which are public)"
)
LEARNS = (
    f"{_KNOWS}; how frequent combinations of keys are, the release tells. One who knows the keys of all persons finds "
    "somewhat more: for them the figures after the plan are no upper bound."
)
"""Which side the figures of the informed attacker are on; every page that shows them after a plan says it."""
OF_TWO = (
    f"{_KNOWS}. Two are computed: one learns from the release how frequent keys are, one has the keys of all; each "
    "figure after the plan is the larger one."
)
"""The same where both knowledges were tried."""
LARGEST = (
    "A largest risk is that of one record or person in simulated releases: in another one it can be much smaller, or "
    "larger. It is no bound. Often it is too high, because the attacker takes rare combinations for rarer than they "
    "are, the more so where one record stands for several."
)
"""The same of what is the largest of many."""
LINKED = (
    "Correct matches are counted in simulated releases, and risks are what the attacker computes: their means can "
    "differ. Who assigns all records together may find more than who looks for each person by itself: this is not "
    "computed."
)
"""What both figures of the informed attacker are."""

BY_WEIGHTS, BY_MODEL = "by the weights", "by the model of population frequencies"
"""The two estimates of a figure of the register attacker."""
OF_ESTIMATES = (
    "Each figure of the register attacker, and each limit on it, goes by the larger of two estimates: "
    f"{BY_WEIGHTS} (or the sampling fraction), and {BY_MODEL}."
)
"""What the figures of the register attacker rest on; every page that shows them says it."""
OF_EVERYBODY = (
    "The file is the whole population, so that the register says who is in it: no figure of the register attacker is "
    "smaller than the informed attacker's."
)
"""The same of a file that is no sample."""
UNKNOWN_TO_IT = "register attacker, who has a register of the population, and does not know who is in the file"
KNOWN_TO_IT = "register attacker, who has a register of the population, which is the file, and so knows who is in it"
"""Who the register attacker is, of a file that is a sample, and of one that is not."""
OF_WEIGHTS = (
    f"The figures of the register attacker are {BY_WEIGHTS} (or the sampling fraction) alone, and can be too low: no "
    "model of population frequencies was fitted."
)
"""The same where the model is too large."""

SIZE_FOUND = (
    "no epsilon helps where a household is alone with its number of members, because the release shows this number"
)
WITHOUT_SIZES = (
    "take such households out of the file before, or release no household numbers (role 'drop', no [unit] of "
    "households, and no rule on their risk), which gives up every claim for households: the epsilon of one with k "
    "records is then up to k × that of a record"
)
ONLY_FOUND = (
    "Its values stay perturbed: who finds its records cannot tell more of them than the claims say. So this can be "
    "accepted (share_above in a rule allows some households)"
)
"""What is left to a household that is found by its size, and that a curator may accept it."""
MAX_ALONE = 0.01
"""A column that singles out more of the records alone needs a decision; a convention."""
KEYS_ALONE = "figures of risk are of attackers who know only the keys of a person"
"""What a reader of figures of risk must know where other columns are released too."""


SIZE_KNOWN = "Household numbers show how many records each has, which the informed attacker is taken to know"
"""What household numbers tell of a person, beside the keys: whatever role a column has that says the same.

Other attackers know it where a key says it."""


HOW_MUCH = " (see 'postrand explain --known-also')"
MORE_KNOWN = f"If they also know these, figures are too low{HOW_MUCH}."
"""That figures of risk are too low for an attacker who knows more than the keys, and which command has theirs."""


def by_size(lone: int) -> str:
    """Return why no epsilon can make the largest risk of a household small, for how many, and what can be done.

    ``lone`` households of the file are alone with their number of members; few are not told by number.

    >>> by_size(12).partition(".")[0]
    'No epsilon helps where a household is alone with its number of members, because the release shows this number'
    """
    found = f"{capital(SIZE_FOUND)}. In this file these are {counted(lone)} households"
    return f"{found}: the largest risk stays 100%. {ONLY_FOUND}. Or {WITHOUT_SIZES}."


def keys_alone(keys: Sequence[str], others: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return :data:`KEYS_ALONE` with the keys, and the ``others`` that leave; () where none does.

    None: which columns leave is not decided, as before a plan.

    >>> keys_alone(["sex"], ["pay", "weight"])[0].partition(". ")[0]
    'Figures of risk are of attackers who know only the keys of a person (sex), and not the true values of pay, weight'
    >>> keys_alone(["sex"], []), len(keys_alone(["sex"]))
    ((), 1)
    """
    if others is not None and not others:
        return ()
    known = f"{capital(KEYS_ALONE)} ({', '.join(keys)})"
    if others is None:
        return (f"{known}. Where other columns are released too, and they know those, figures are too low.",)
    return (f"{known}, and not the true values of {few(others)}. {MORE_KNOWN}",)


def knows_more(found: Sequence[tuple[str, float, float]], before_is: str = "before") -> tuple[str, ...]:
    """Return what attackers find who know one released column besides the keys, in a sentence; () without any.

    Of each column the correct matches after the plan, and before, in the file ``before_is``; three are told.

    >>> knows_more([("pay", 344.2, 400.0), ("sex", 5, 6)])
    ('Somebody who also knows pay finds about 340 correct matches after the plan (before: 400); sex: about 5 (6).',)
    """
    if not found:
        return ()
    (name, links, before), *others = found[:3]
    text = f"Somebody who also knows {name} finds about {about(links)} correct matches after the plan"
    text += f" ({before_is}: {about(before)})"
    text += "".join(f"; {other}: about {about(own)} ({about(first)})" for other, own, first in others)
    return (f"{text}{'; other released columns: fewer' * (len(found) > 3)}.",)


def weighed_too(names: Sequence[str]) -> tuple[str, ...]:
    """Return that the informed attacker uses the released values of perturbed columns beside the keys; () of none.

    >>> weighed_too(["pay"])
    ('The informed attacker does use the released values of pay, as far as they tell of the keys: figures count this.',)
    """
    what = f"The informed attacker does use the released values of {few(list(names))}"
    return (f"{what}, as far as they tell of the keys: figures count this.",) * bool(names)


def not_weighed(names: Sequence[str]) -> tuple[str, ...]:
    """Return that the released values of perturbed columns beside the keys are not used by the attackers; () of none.

    >>> not_weighed(["pay"])
    ('No attacker uses the released values of pay: who does finds up to 1.13 times as many in files that were tried.',)
    """
    what = f"No attacker uses the released values of {few(list(names))}"
    return (f"{what}: who does finds up to 1.13 times as many in files that were tried.",) * bool(names)


def knows_hardly_more(names: Sequence[str]) -> tuple[str, ...]:
    """Return that who knows one of these columns besides the keys finds hardly more; () without any.

    >>> knows_hardly_more(["pay", "town"])
    ('Somebody who also knows one of pay, town finds at most a fifth more correct matches than without.',)
    """
    which = f"{'one of ' * (len(names) > 1)}{few(list(names))}"
    text = f"Somebody who also knows {which} finds at most a fifth more correct matches than without."
    return (text,) * bool(names)


def about(links: float) -> str:
    """Return an expected number of links with two digits that count.

    >>> about(3456.7), about(4.56)
    ('3,500', '4.6')
    """
    return f"{float(f'{links:.2g}'):,g}"


def records_on(records: int, keys: Sequence[str], recoded: Sequence[str] = ()) -> str:
    """Return the head of figures of risk: how many records, on which keys, and which of these are ``recoded``.

    >>> records_on(1200, ["age", "sex"], ["age"]), records_on(1200, ["sex"])
    ('1,200 records on age, sex, of the file as the codebook recodes it (age)', '1,200 records on sex')
    """
    head = f"{records:,} records on {', '.join(keys)}"
    return f"{head}, of the file as the codebook recodes it ({', '.join(recoded)})" if recoded else head


def of_records(text: str) -> str:
    """Return words on persons as words on records, for a file in which a person has several.

    >>> of_records("Persons found rightly"), of_records("Chance that a person is found"), of_records("personal")
    ('Records found rightly', 'Chance that a record is found', 'personal')
    """
    return re.sub(r"\b([Pp])erson(s?)\b", lambda found: ("R" if found[1] == "P" else "r") + "ecord" + found[2], text)


def counted_by(person: str, *, are_households: bool = False) -> Callable[[str], str]:
    """Return what makes words on persons and households those of a file in which ``person`` tells a person's records.

    ``are_households``: the persons are what is measured as households.

    >>> counted_by("pid", are_households=True)("Persons found rightly; households with a member found")
    'Records found rightly; persons with a record found'
    >>> counted_by("")("Persons found rightly")
    'Persons found rightly'
    """
    if not person:
        return str
    return (lambda text: of_persons(of_records(text))) if are_households else of_records


def several_of(person: str) -> str:
    """Return what a reader of figures of risk must know where a column tells which records are one person's."""
    return (
        f"figures of risk count records, and {person} says which are one person's: no figure puts them together. Who "
        "looks for a person can find any of the records, so that for persons the figures are larger"
    )


def learns(after: Mapping[str, float | None], of_two: bool = False) -> tuple[str, ...]:
    """Return :data:`LEARNS` where a measure of the informed attacker is among those known after a plan, else nothing.

    ``of_two``: the figures are the larger of two knowledges (:data:`OF_TWO`); then what they are is said too.

    >>> len(learns({"correct_matches": 91.2, "tau2": None})), learns({"correct_matches": None, "tau2": 3.0})
    (1, ())
    """
    known = [name for name in LEARNT if after.get(name) is not None]
    if not known or not of_two:
        return (LEARNS,) * bool(known)
    return (OF_TWO, *[LARGEST] * any(name.endswith("_risk") for name in known), LINKED)


LEARNT = ("correct_matches", "correct_matches_uniques", "individual_risk", "household_risk")
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
