"""What analysts will get of a designed block, said before anything is released."""

from __future__ import annotations

from typing import Any

from postrand.codebook import Codebook
from postrand.report.values import MAX_ESTIMATED, expected_shares
from postrand.workflow.design_blocks import DesignedBlock

LEAST_SHARE = 0.01
"""Of a file that is worth less than this share of its records, a curator is warned."""


def expected(designed: DesignedBlock, codebook: Codebook) -> tuple[dict[str, Any], str]:
    """Return what 1,000 released records are worth for each variable of a block, and a warning where it is little.

    The number of unperturbed records that would answer the variable's table as precisely, at the plan's prior; None
    where no table can be estimated. As plain data, internal since it follows from the prior, and as indented lines.
    """
    if designed.frequencies is None:
        return {}, ""
    shares = expected_shares(designed.block, codebook, designed.frequencies)
    lines, few = [], []
    for name, share in shares.items():
        if share is None:
            many = designed.matrix.size > MAX_ESTIMATED
            why = f"more than {MAX_ESTIMATED:,} categories" if many else "the matrix cannot be inverted"
            lines.append(f"  what released records will be worth for the table of {name} is not known: {why}")
            continue
        worth = f"{1000 * share:.2g}" if share < 0.0995 else f"{1000 * share:,.0f}"
        lines.append(f"  1,000 released records will answer the table of {name} like {worth} unperturbed ones")
        few += [name] * (share < LEAST_SHARE)
    data: dict[str, Any] = {"effective_per_1000": {n: None if s is None else 1000 * s for n, s in shares.items()}}
    if few:
        fix = "merge categories, raise epsilon, or leave it out"
        data["warning"] = f"few shares of {', '.join(few)} can be estimated: {fix}"
        lines.append(f"  warning: {data['warning']}")
    return data, "\n".join(lines)
