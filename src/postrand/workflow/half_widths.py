"""How wide the intervals of a table will be: from sizes, and from weights that the release has as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import PostrandError
from postrand.estimate.planning import expected_precision
from postrand.estimate.split_members import household_of, household_sizes, members_of
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.risk.cells import FloatArray
from postrand.risk.data import numeric, read_columns
from postrand.workflow.advice_needs import Precision
from postrand.workflow.advice_refusals import Z95


class HalfWidth(NamedTuple):
    """Hold the percentage points of the worst cell of a table to either side, of its 95% interval.

    ``most``: whatever the true shares, so of the least favourable; ``alike``: if every combination of the table were
    equally frequent. Both follow from sizes and from the weights that are released, and say nothing else of the file.
    """

    most: float
    alike: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """Say what half-widths count of how the records were drawn, and what they do not.

    ``weight`` is the released column of weights, "" without one. ``effect`` is Kish's factor ``n Σ w² / (Σ w)²``, one
    plus the squared coefficient of variation: so many times the variance of records that weigh alike, if weights have
    nothing to do with the values (Kish 1992); None where the weights cannot be used. ``clusters`` and ``replicates``
    are not counted: what they do to an interval depends on confidential values. ``sizes`` says how many households have
    each number of records, and ``effect_of_members`` is Kish's factor beside theirs: see ``of_members``. Clusters that
    ``are_gone`` are not released; ``by_clusters`` is what the office states that they multiply variances by.
    """

    weight: str = ""
    effect: float | None = 1.0
    records: int = 0
    clusters: str = ""
    of_households: bool = False
    replicates: bool = False
    sizes: Mapping[int, int] | None = None
    effect_of_members: float | None = 1.0
    are_gone: bool = False
    by_clusters: float = 1.0

    @property
    def of_members(self) -> Drawn:
        """How the records are drawn where one random member of each household stands for all k: with weight ``k w``.

        In the mean over who is chosen, its variance has ``Σ k w² / (Σ w)²`` in place of 1/n. Of that ``Σ k / n²``
        follows from ``sizes``; the effect is the ratio of both. Members that are alike make no interval longer.
        """
        clusters = "" if self.of_households else self.clusters
        return replace(self, effect=self.effect_of_members, clusters=clusters, of_households=False)

    @property
    def not_counted(self) -> str:
        """What can make intervals longer and is not counted, in words; "" where there is nothing."""
        which = ["households as clusters" if self.of_households else "clusters"] * bool(self.clusters)
        which += ["clusters that are not released"] * self.are_gone + ["replicate weights"] * self.replicates
        return f"{' and '.join(which)} not counted" if which else ""

    @property
    def weighted(self) -> str:
        """How estimates weigh the records, and on what condition, behind a comma; "" where all weigh alike."""
        return f", weighted by {self.weight} if its values have nothing to do with the table" if self.weight else ""

    @property
    def basis(self) -> str:
        """How estimates weigh the records, and what is not counted, each behind a comma; "" where there is neither."""
        return self.weighted + (f", {self.not_counted}" if self.not_counted else "")

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is counted and what is not, a sentence each."""
        return tuple(self._sentences())

    @property
    def no_effect(self) -> str:
        """Why the weights count for nothing that is known; "" where they count."""
        said = f"the weight {self.weight} is negative, missing or no number in some records"
        return said if self.effect is None else ""

    def _sentences(self) -> Iterator[str]:
        if self.effect is None:
            yield f"Precision is not known: {self.no_effect}."
        elif self.weight:
            worth = f"{self.records:,} records count as {self.records / self.effect:,.0f}"
            yield (
                f"Precision is that of estimates weighted by {self.weight}, as it is released: {worth} (Kish's factor "
                f"{self.effect:.3g}), if the weights have nothing to do with the values of the table."
            )
        else:
            yield "Precision is that of estimates in which every record counts once: the release has no weights."
        if self.clusters:
            which = "Households as clusters" if self.of_households else "Clusters"
            yield (
                f"{which} ({self.clusters}) can make intervals longer, because their members are alike. By how much "
                "depends on confidential values: it is not counted."
            )
        if self.are_gone:
            yield "Clusters were drawn, and are not released: they make intervals longer, by how much is not counted."
        if self.by_clusters != 1:
            yield f"Clusters that are not released multiply variances by {self.by_clusters:g}: this is counted."
        if self.replicates:
            yield "Intervals by replicate weights can be longer: it is not counted, for the same reason."


def drawn_of(book: Codebook, source: Source) -> Drawn:
    """Return how the records of a source were drawn, by its codebook: the weights are read, and nothing else."""
    survey, households = book.survey, [one.name for one in book.with_role("household")]
    named = "" if survey is None else survey.weights or ""
    weight = next(iter([*([named] * bool(named)), *(one.name for one in book.with_role("weight"))]), "")
    psu = "" if survey is None else survey.psu or ""
    by_clusters = 1.0 if survey is None or survey.cluster_effect is None else survey.cluster_effect
    are_gone = survey is not None and "psu" in survey.not_released and survey.cluster_effect is None
    clusters = "" if are_gone or by_clusters != 1 else psu or next(iter(households), "")
    replicates = survey is not None and bool(survey.replicates)
    values = weights_in(source, weight) if weight else np.zeros(0)
    effect = None if values is None else kish(values) if weight else 1.0
    records = 0 if values is None else values.size
    of_homes = clusters in households
    return Drawn(weight, effect, records, clusters, of_homes, replicates, are_gone=are_gone, by_clusters=by_clusters)


def of_households(drawn: Drawn, source: Source, household: str) -> Drawn:
    """Return ``drawn`` with what follows where one random member of each household stands for all."""
    column = read_columns(source, [household])[household]
    found = replace(drawn, sizes=household_sizes(column, household), effect_of_members=drawn.effect)
    weights = weights_in(source, drawn.weight) if drawn.weight and drawn.effect is not None else None
    if weights is None:
        return found
    each = members_of(column, household)
    w = weights / weights.sum()
    return replace(found, effect_of_members=weights.size**2 * float(each @ (w * w)) / float(each.sum()))


def weights_in(source: Source, weight: str) -> FloatArray | None:
    """Return the values of a weight; None where they are no numbers."""
    try:
        return numeric(read_columns(source, [weight], [weight])[weight], weight)
    except PostrandError:
        return None


def kish(weights: FloatArray) -> float | None:
    """Return ``n Σ w² / (Σ w)²``; None where a weight is negative or missing, or all are 0.

    >>> kish(np.array([1.0, 1.0, 4.0])), kish(np.array([1.0, np.nan]))
    (1.5, None)
    """
    if not np.isfinite(weights).all() or (weights < 0).any() or not (total := float(weights.sum())) > 0:
        return None
    scaled = weights / total
    return weights.size * float(scaled @ scaled)


def half_width(mechanism: Mechanism, wanted: Precision, n: int, drawn: Drawn) -> HalfWidth | None:
    """Return 100 times the half-widths of the 95% interval of the worst cell; None where they are not known.

    Kish's factor of the weights multiplies the variance of ``n`` records, of sampling and perturbation together, and so
    does what clusters that are not released multiply variances by. Where
    all records of a household or person share a draw, the part of the perturbation is not known.
    """
    shared = {name for names in mechanism.shared.values() for name in names}
    is_shared = not household_of(mechanism, [*wanted.table]) and not shared.isdisjoint(wanted.table)
    if drawn.effect is None or is_shared:
        return None
    try:
        found = expected_precision(mechanism, wanted.table, n, households=drawn.sizes)
    except PostrandError:
        return None
    factor = 100 * Z95 * (drawn.effect * drawn.by_clusters) ** 0.5
    return HalfWidth(*(factor * float(np.max(errors)) for errors in (found.worst, found.standard_error)))
