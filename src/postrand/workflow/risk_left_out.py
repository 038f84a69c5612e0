"""What the figures of risk leave out, in sentences: keys without categories, and what unperturbed columns add."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from postrand.codebook import Codebook
from postrand.plan import Plan
from postrand.risk.findings import Findings
from postrand.risk.household_sizes import OF_SIZE
from postrand.support.showing import few

EXACT_VALUES = "who knows exact values may find records"
GOES_WITH = "what stands there goes with"
ALL_BUT_TELLS = "it all but tells"
BUT_INFORMED = "all measures but those of the informed attacker"


def left_out(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each way in which keys without categories are released: no measure of risk has them."""
    return keys_left_out(plan.codebook, {name for one in plan.numerical for name in one.variables})


def keys_left_out(codebook: Codebook, ranked: Collection[str] = ()) -> tuple[str, ...]:
    """Return the sentences of :func:`left_out` for a codebook and the variables that are moved or averaged in rank."""
    keys = [v.name for v in codebook.with_role("key") if not v.is_categorical]
    plain, made = [name for name in keys if name not in ranked], {recode.variable for recode in codebook.recodes}
    ways = (
        ("moved or averaged among neighbours in rank", [name for name in keys if name in ranked]),
        ("released without categories, as recoded", [name for name in plain if name in made]),
        ("released without categories, as in the file", [name for name in plain if name not in made]),
    )
    return tuple(f"the risk leaves out {', '.join(names)}: {way}; {EXACT_VALUES}" for way, names in ways if names)


def keys_not_counted(names: Sequence[str]) -> str:
    """Return why the risk is not known where keys have no categories; "" where all have them.

    An attacker who knows such a key, released as it is or moved in rank, can find far more than is counted.

    >>> keys_not_counted(["born"]), keys_not_counted([])
    ('born is a key without categories, which no figure counts', '')
    """
    they = "is a key" if len(names) == 1 else "are keys"
    return f"{few(names)} {they} without categories, which no figure counts" if names else ""


Pairs = tuple[tuple[str, str], ...]
"""Unperturbed columns, each with a key that it goes with."""


def following(told: Findings, keys: Sequence[str], counted: Pairs = ()) -> tuple[str, ...]:
    """Return that unperturbed columns go with true values of keys; () without any.

    Measures leave this out, but for the informed attacker what is ``counted``, and the sizes of households, which their
    numbers show. Who knows the keys of a person then knows the column too, and links by both: a stratum made of branch
    and size.
    """
    pairs = [(pair.clear, pair.perturbed) for pair in told.pairs if pair.is_certain]
    pairs += [(name, key) for one in told.found if one.code == "linked" for name in one.variables for key in one.about]
    number = "" if told.sizes is None else told.sizes.name
    by_size = [key for name, key in pairs if key in keys and name == OF_SIZE]
    of_size = f"{BUT_INFORMED} leave out how many records a household has, which {number} shows: {ALL_BUT_TELLS} "
    said = (told.words(f"{of_size}{', '.join(by_size)}"),) if by_size else ()
    held = [(name, key) for name, key in pairs if key in keys and name not in (*keys, number, OF_SIZE)]
    parts = [one for one in held if one not in counted], [one for one in held if one in counted]
    for start, part in zip(("the risk leaves out", f"{BUT_INFORMED} leave out"), parts, strict=True):
        if part:
            names, about = (", ".join(dict.fromkeys(column)) for column in zip(*part, strict=True))
            known = f"{GOES_WITH} {about}, so that who knows these tells records apart by it too"
            said = (f"{start} {names}, released unperturbed: {known}", *said)
    return said


def in_part(told: Findings, keys: Sequence[str]) -> Pairs:
    """Return the unperturbed columns that go with keys in part, which attackers learn from the release.

    Those that all but settle a key are told by :func:`following`. A weight that goes with a region makes a link
    likelier for whoever compares the weights of the regions, and does not know that of the person.
    """
    held = [pair for pair in told.pairs if pair.is_much and not pair.is_certain and pair.clear not in keys]
    return tuple((pair.clear, pair.perturbed) for pair in held if pair.perturbed in keys and pair.clear != OF_SIZE)


def in_part_words(pairs: Pairs, counted: Pairs) -> str:
    """Return which figures leave out what goes with keys, in part or less, and which count it; "" without any.

    >>> in_part_words((("w", "area"),), (("w", "area"),)).partition(".")[0]
    'w, released unperturbed, goes with area'
    """
    left = [one for one in pairs if one not in counted]
    said = []
    if counted:
        it = "it" if len({name for name, _ in counted}) == 1 else "them"
        more = f"The informed attacker does not know {it} of a person, but guesses the keys of each record by {it}"
        others = "those of a register attacker, where they are shown, do not, and can be too low"
        said.append(f"{going(counted)}. {more}: figures count this; {others}.")
    if left:
        learnt = "who learns from the release how they go together finds more than is said"
        said.append(
            f"{going(left, 'in part with')}, which no figure counts: {learnt}, and need not know them of the person."
        )
    return " ".join(said)


def going(pairs: Sequence[tuple[str, str]], how: str = "with") -> str:
    """Return the words that unperturbed columns go with keys.

    >>> going([("w", "area"), ("w", "sex")])
    'w, released unperturbed, goes with area, sex'
    """
    names, about = (list(dict.fromkeys(part)) for part in zip(*pairs, strict=True))
    return f"{few(names)}, released unperturbed, {'goes' if len(names) == 1 else 'go'} {how} {few(about)}"


def leaves_out(measure: str, sentences: Sequence[str]) -> tuple[str, ...]:
    """Return those of the sentences on what the risk leaves out that are true of a measure.

    The informed attacker is taken to know how many records a household has, and how columns go with keys.

    >>> leaves_out("individual_risk", [f"{BUT_INFORMED} leave out the size", "the risk leaves out pay"])
    ('the risk leaves out pay',)
    """
    is_known = is_informed(measure)
    return tuple(text for text in sentences if not (is_known and text.startswith(BUT_INFORMED)))


def is_informed(measure: str) -> bool:
    """Whether a measure is one of the attacker who knows that the person is in the file."""
    return measure.startswith(_INFORMED)


_INFORMED = ("correct_matches", "individual_risk", "household_risk", "joint_household_risk")


def left_out_briefly(sentences: Sequence[str]) -> str:
    """Return what the risk leaves out, without why that matters; "" where nothing.

    >>> left_out_briefly(["the risk leaves out pay, released unperturbed: what stands there goes with age"])
    'the risk leaves out pay, released unperturbed'
    """
    return "; ".join(text.rpartition(": ")[0] for text in sentences)
