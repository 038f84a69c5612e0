"""The words about folders of whole columns and of Anatomy: part of :data:`postrand.support.wordings.WORDINGS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postrand.support.showing import few

COLUMN_WORDINGS: Mapping[str, str] = {
    "limit.ranks_only": (
        "There is no guarantee by ε for {variables:list}: a value never leaves its neighbourhood. β is an average."
    ),
    "limit.links_alone": (
        "The links of a class are equally likely only for a person who looks at this class alone. Other classes "
        "reveal how keys and other values go together: an attacker who learns this from all classes finds more "
        "correct links."
    ),
    "limit.link_rate": (
        "{variable}: guessed correctly for {plain:share} of the records from their class alone (without classes, for "
        "the share that its most frequent value has in the table, which may be little less). An attack that "
        "learns from all classes expects to guess it correctly for {learnt:share}; better attacks exist."
    ),
    "limit.agreeing_classes": (
        "If all records of a class have the same value of another variable, the class discloses this value: see "
        "the diversity."
    ),
    "limit.links_only": (
        "All values are released as they are; the release hides only which of the records of a class has which values."
    ),
    "limit.as_they_are": "Released as they are, ids and weights included: {variables:list}.",
    "limit.linked_records": (
        "Records that belong together, such as those of a household or of one person, are not covered: an id that "
        "links them, or a class that only they are in, can reveal whose they are."
    ),
    "limit.classes_only": (
        "There is no guarantee by ε: a record never leaves its class. β is an average over classes."
    ),
}
"""What the certificate of such a folder says that it does not cover."""


OF_BANDS = "{names}: in bands or groups, so {what} is that of their numbers{numbers}, not of the values of the file"
"""What a mean is, or another figure, where a recode made the categories that have numbers."""
OF_WHICH = " (codebook.json says of which values)"
"""Where these numbers are found that are not listed."""
EITHER_WAY, TOO_LOW = "it can be too high or too low", "it can only be too low"
"""How such a figure differs from that of the values; the second where no value is below the number of its band."""
NUMBERED_BANDS = 'bands whose labels are numbers, as bands = [0, 1000], labels = ["500", "1500"] in [[recodes]]'
"""What keeps means of an exact amount."""


def taken_for_public(names: Sequence[str]) -> tuple[str, ...]:
    """Return that recodes without a provenance count as chosen without the file; () of none.

    >>> taken_for_public(["age"])[0].partition(", as if")[0]
    'How age was recoded is taken for public'
    """
    if not names:
        return ()
    text = f"How {few(list(names))} {'was' if len(names) == 1 else 'were'} recoded is taken for public"
    return (f"{text}, as if the file had not been looked at: whoever wrote the codebook has to confirm that.",)


def no_weighted(names: Sequence[str]) -> str:
    """Return what a survey with weights loses by a rank law.

    >>> no_weighted(["pay"]).partition(":")[0]
    'pay'
    """
    return (
        f"{', '.join(names)}: no mean or total by weights is left, because values went to records of other weights, "
        f"and estimate refuses it. For one, choose {NUMBERED_BANDS}, and perturb them in a block"
    )


def relations_lost(names: Sequence[str], *, averaged: bool = False) -> str:
    """Return what a rank law leaves of columns, and what it takes from them.

    >>> relations_lost(["pay"]).partition(";")[0]
    'pay: the unweighted total, mean and quantiles over all records remain right'
    """
    listed, done = ", ".join(names), "were averaged over" if averaged else "moved between"
    right = "total and mean" if averaged else "total, mean and quantiles"
    return (
        f"{listed}: the unweighted {right} over all records remain right; relations with other variables are "
        f"weakened, because values {done} neighbours in rank, and nothing corrects them: means by group, weighted "
        "means and regressions are refused"
    )
