"""Draws that records share, and a survey design: which standard errors have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.data import frames
from postrand.data.households import identities
from postrand.estimate.survey_sample import Sample
from postrand.mechanism import Mechanism


def within_units(sample: Sample | None, mechanism: Mechanism, variables: Iterable[str], frame: Any) -> bool:
    """Return whether all records that share a draw of these variables are in one primary sampling unit.

    Sums over primary sampling units then have all that a draw does, and the total variance by units drawn with
    replacement is right. False where no variable is shared, or where it is not known: of persons, whose numbers are not
    released, and with a finite population, calibrated or replicate weights.
    """
    asked = set(variables)
    units = [unit for unit, names in mechanism.shared.items() if not asked.isdisjoint(names)]
    if units != ["household"] or sample is None or mechanism.units is None:
        return False
    design, name = sample.design, mechanism.units.household
    if design.replicates or design.calibrated or design.fpc is not None or name not in frames.names_of(frame):
        return False
    column = frames.to_arrow(frame, [name]).column(name)
    numbers, there = identities(pa.concat_arrays(column.chunks) if column.num_chunks else column, name)
    houses, psu = numbers[there], sample.unit[sample.group][there]
    order = np.argsort(houses, kind="stable")
    same = houses[order][1:] == houses[order][:-1]
    return not bool((same & (psu[order][1:] != psu[order][:-1])).any())
