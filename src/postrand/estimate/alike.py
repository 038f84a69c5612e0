"""Records of one household or person are alike: errors that take each record as drawn by itself are often too small."""

from __future__ import annotations

from collections.abc import Iterable

from postrand.codebook.survey_design import SurveyDesign
from postrand.estimate.split_members import household_of
from postrand.mechanism import Mechanism


def drawn_alone(
    mechanism: Mechanism,
    names: Iterable[str],
    design: SurveyDesign | None = None,
    psu: str = "; --psu {} takes that into account",
) -> str:
    """Return that standard errors of these variables take records of a unit as drawn one by one; "" where they do not.

    ``design`` is the survey design that they use; ``psu`` ends what is said of households: how they are named as its
    clusters. Where one random member of each household shows the variables, each household counts once.
    """
    if design is not None and (design.psu or design.replicates or design.cluster_effect is not None):
        return ""
    weighed = household_of(mechanism, [*names])
    book, units = mechanism.codebook, mechanism.units
    homes = [one.name for one in (book.with_role("household") if book else ()) if one.name != weighed]
    head = "standard errors take each record as drawn by itself"
    if homes:
        return f"{head}; members of a household are alike, so that errors are often larger{psu.format(homes[0])}"
    if weighed or units is None or not units.person or units.most_records == 1:
        return ""
    return (
        f"{head}; a person has up to {units.most_records:,} records, which are alike, so that errors are often larger; "
        "this release cannot show by how much, because it does not have the numbers of persons"
    )
