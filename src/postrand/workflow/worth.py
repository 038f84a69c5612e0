"""The precision that analysts will get from a plan, computed before anything is released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.designers import compare_ways
from postrand.mechanism import Mechanism
from postrand.report.table_worth import LEAST_RECORDS, LITTLE, TOO_FEW, little_use, records_of
from postrand.report.values import MAX_ESTIMATED, expected_shares
from postrand.support.worth_basis import BASES, HARMONIC, Basis
from postrand.workflow.design_blocks import DesignedBlock

LEAST_SHARE = 0.01
"""A curator is warned if a file is worth less than this share of its records."""


def expected(designed: DesignedBlock, codebook: Codebook, records: int | None = None) -> tuple[dict[str, Any], str]:
    """Return how many unperturbed records 1,000 released ones are worth, for each variable of a block.

    The number of unperturbed records that would give the variable's table with the same precision, under the plan's
    prior; None if no table can be estimated. Returns plain data, which are internal because they depend on the prior,
    with a warning if the worth is small, and indented lines; of a file of so many ``records``, also if all of them are
    worth too few.
    """
    if designed.frequencies is None:
        return {}, ""
    if designed.block.unit != "record":
        unit = designed.block.unit
        return {}, f"  the worth of released records is not known: all records of a {unit} share one draw"
    shares = expected_shares(designed.block, codebook, designed.frequencies)
    if records is not None and records < LEAST_RECORDS:
        return {"why": TOO_FEW}, f"  worth not told: {TOO_FEW}"
    basis = _basis([designed])
    lines, few, means = [], [], f" ({LITTLE})"
    for name, share in shares.items():
        if share is None:
            many = designed.matrix.size > MAX_ESTIMATED
            why = f"more than {MAX_ESTIMATED:,} categories" if many else "the matrix cannot be inverted"
            lines.append(f"  the worth of released records for the table of {name} is not known: {why}")
            continue
        poor = f": of little use{means}" if records is not None and little_use(share * records, records) else ""
        means = "" if poor else means
        text = f"  1,000 released records are worth {records_of(1000 * share)} for the table of {name}"
        lines.append(f"{text}, {BASES[basis]}{poor}")
        few += [name] * (share < LEAST_SHARE)
    data: dict[str, Any] = {
        "basis": basis,
        "effective_per_1000": {n: None if s is None else 1000 * s for n, s in shares.items()},
    }
    if few:
        fix = "merge categories, raise epsilon, or drop the variable"
        data["warning"] = f"few shares of {', '.join(few)} can be estimated: {fix}"
        lines.append(f"  warning: {data['warning']}")
    return data, "\n".join(lines)


def _basis(blocks: Sequence[DesignedBlock]) -> Basis:
    """Return ``equal`` where every prior is uniform, else ``plan``."""
    priors = [designed.frequencies for designed in blocks if designed.frequencies is not None]
    return "equal" if all(np.allclose(prior, prior[0]) for prior in priors) else "plan"


_WAYS = (
    f"computed as {BASES['equal']}: {HARMONIC}; each way is designed for this mean, and the plan's own workload, which "
    "may weigh tables differently, is not used"
)


def ways(mechanism: Mechanism) -> tuple[dict[str, Any], str]:
    """Return what the ε of a mechanism buys as separate blocks, as joint blocks and as a split release.

    Of all tables of two perturbed variables, with every combination equally likely: it follows from codebook and ε
    alone, and may be published. Returns plain data and text; nothing where the variables have no finite ε together, or
    there are only two, which are one table, or describe different units; no text where they cannot be split.
    """
    parts = (*mechanism.blocks, *(() if mechanism.split is None else (mechanism.split,)))
    shown = [name for block in mechanism.blocks for name in block.perturbed]
    shown += [] if mechanism.split is None else mechanism.split.variables
    epsilon = math.fsum(part.epsilon for part in parts)
    of_members = mechanism.split is not None and mechanism.split.of_members
    if len(shown) < 3 or not math.isfinite(epsilon) or mechanism.shared or of_members:
        return {}, ""
    data, text = compare_ways(mechanism.require_codebook(), shown, epsilon)
    return data, "" if "not_compared" in data else f"{text}\n  {_WAYS}"


def way_rows(mechanism: Mechanism) -> list[dict[str, object]]:
    """Return the rows of the internal report on :func:`ways`; none where they are not compared."""
    data, _ = ways(mechanism)
    named = {"separate": "Separate blocks", "joint": "Best joint blocks", "split": "Split release"}
    return [
        {
            "Way": named[way] + " (best)" * (way == data["best"]),
            "Unperturbed records that 1,000 are worth": f"{worth:,.4g}",
            "Meaning": f"all tables of two of {len(data['variables'])} variables, together ε = {data['epsilon']:.4g}",
        }
        for way, worth in data.get("effective_records", {}).items()
    ]
