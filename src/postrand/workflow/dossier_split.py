"""The sections of the internal report on a split: the worth of its tables, what else ε buys, and other ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postrand.designers import SplitDesign, TablePrior, compare_split, split_frontier
from postrand.designers.split.fixed_blocks import FixedBlocks
from postrand.designers.split.inverse import FrontierPoint
from postrand.designers.split.workload import Workload
from postrand.errors import PostrandError
from postrand.report.table_worth import TABLES
from postrand.report.text import decimal
from postrand.support.exact import format_upper
from postrand.support.progress import Stage, stage
from postrand.workflow.known import Known

WORTH = "The split, designed with the tables of the file: what its tables are worth"
WAYS = "The split: what the same guarantee buys"
LEVELS = "The split: privacy and utility"
CAPTIONS: Mapping[str, tuple[str, ...]] = {
    WORTH: (
        "How many unperturbed records a split is worth for each table if it is designed with the tables of the file. "
        "The plan's own split can be designed with another prior, and then has other subsets. What this release is "
        f"worth is in “{TABLES}”, and the same in “What the tables of two variables are worth”.",
    ),
    WAYS: (
        "What the same ε of a record buys in three ways, in unperturbed records: each variable perturbed by itself, "
        "the best joint blocks that were found, and the split; each way is designed with the tables of the file. The "
        "mean is harmonic, over the tables that the workload asks for, each counted by its weight. The mean of the "
        "public report counts each table of two once, if every combination were equally frequent, and gives each "
        "variable by itself an equal share of ε; here the shares are the best ones. So the two differ. Structures "
        "other than randomised response are not compared.",
    ),
    LEVELS: (
        "What a split of the same variables would be worth at other levels, by the same mean. “At most”: the proven "
        "bound of the design.",
    ),
}
MEAN_HEAD = "Effective records, mean of the tables of the workload"
"""Of a whole way: one figure, which no table has by itself."""
WORTH_HEAD = "Effective records of another split, designed with the tables of the file"
RISK_NOTE = (
    "In a split release the attacker also sees which variables each record shows. A class, after protection, are the "
    "records that show the same keys with the same values; F counts the persons with these values of the keys that are "
    "shown."
)
OF_MEMBERS = "one random member of each household shows the keys; 'postrand compare' has what simulated releases give"
"""Why classes of a released file are not counted: most records show no key."""
MAX_VARIABLES = 12
"""With more variables, designs take too long to make several of them, and the ways are compared by a short cut."""
FACTORS = (0.5, 0.75, 1.0, 1.25, 1.5)

Row = dict[str, object]


def split_sections(known: Known, epsilon: float) -> dict[str, list[Row]]:
    """Return the sections, by title; none without a split. ``epsilon`` is that of its subsets.

    None either where one random member of each household shows a subset: what every record shows at this ε of a record
    costs a household many times as much, and is no other way to the same guarantee.

    What cannot be computed is said in place of the rows. Tables that were counted for the dossier are not read again.
    """
    asked = known.plan.split
    if asked is None or asked.of_members or len(asked.variables) > MAX_VARIABLES:
        return {}
    stage(Stage.CURVES)
    options: dict[str, Any] = {
        "variables": asked.variables,
        "workload": asked.workload,
        "core": asked.core,
        "max_cells": asked.max_cells,
        "prior": TablePrior.of([known.table(names) for names in dossier_tables(asked.workload, asked.variables)]),
    }
    records = int(known.table(asked.variables[:1]).total)
    try:
        found = compare_split(known.plan.codebook, epsilon=epsilon, **options)
    except PostrandError as error:
        return {WAYS: [{"Way": "not computed", "Why": str(error)}]}
    worth = sorted(found.split.tables, key=lambda table: -table.share)
    sections: dict[str, list[Row]] = {
        WORTH: [{"Table": " × ".join(t.variables), WORTH_HEAD: decimal(records * t.share)} for t in worth],
        WAYS: [
            _way("Separate blocks", found.separate, records),
            _way("Joint blocks", found.joint, records),
            _row("Split", found.split.value, records, _subsets(found.split)),
        ],
    }
    frontier = split_frontier(known.plan.codebook, [f * epsilon for f in FACTORS], **options)
    return {**sections, LEVELS: [_level(point, records) for point in frontier.points]}


def dossier_tables(workload: Workload, variables: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the tables of the file that the sections need: those asked, and single variables that none has."""
    named = {name for table in workload.tables for name in table}
    return (*workload.tables, *((name,) for name in variables if name not in named))


def _way(name: str, found: FixedBlocks, records: int) -> Row:
    pairs = zip(found.blocks, found.epsilons, strict=True)
    blocks = "; ".join(f"{' × '.join(block)} (ε = {epsilon:.3g})" for block, epsilon in pairs)
    return _row(name, found.value, records, blocks)


def _level(point: FrontierPoint, records: int) -> Row:
    return {
        "ε": format_upper(point.epsilon),
        MEAN_HEAD: decimal(records * point.share),
        "At most": decimal(records * point.bound),
        "Subsets": point.subsets,
        "Status": str(point.status),
    }


def _row(name: str, value: float, records: int, blocks: str) -> Row:
    return {"Way": name, MEAN_HEAD: decimal(records / value), "Blocks": blocks}


def _subsets(design: SplitDesign) -> str:
    return f"{len(design.subsets):,} subsets (ε = {design.epsilon:.3g} each)"
