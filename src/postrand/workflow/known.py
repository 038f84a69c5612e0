"""What a run knows of its file: everything that its steps will ask for, planned from the plan and counted in one pass.

What is wanted follows from the plan alone. The content too: it depends on the cells of blocks, not on their matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand import formats
from postrand.codebook import Codebook
from postrand.data.frames import TableSource
from postrand.data.households import HouseholdNumbers
from postrand.data.table import ContingencyTable
from postrand.designers.linked_cells import LinkedCells
from postrand.engines import Engine, LocalEngine
from postrand.engines.cells import Cells
from postrand.engines.content import ContentReader
from postrand.engines.database import Table, open_records
from postrand.engines.key_repeats import KeyRepeats
from postrand.engines.split_records import SplitCells
from postrand.engines.unit_records import UnitRecords, check_units, unit_wants
from postrand.engines.unit_values import settled
from postrand.engines.wants import Answers, Count, Digest, Hold, Want
from postrand.formats import Source, Witnesses
from postrand.formats._parts import files_of
from postrand.mechanism.units import Unit
from postrand.objectives import needs_joint
from postrand.plan import Plan
from postrand.plan.numbering import dropped_household
from postrand.plan.values import BlockPlan
from postrand.privacy import needs_file
from postrand.release.kept import State, states_of
from postrand.risk.findings import sample_of
from postrand.risk.merged import merging
from postrand.risk.sample import Grouped, Sample, Sampled
from postrand.support.randomness import ReleaseKey
from postrand.workflow.facts import data_name, household_of, record_key_of, released_names
from postrand.workflow.neighbouring import first_of

if TYPE_CHECKING:  # a run that writes no text does not load it
    from postrand.formats.csv import FormulaCells

Shaped = tuple[BlockPlan, LinkedCells | None]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Hold the answers to what a plan wants of its file; ``digest`` and the others say which of them are what.

    ``state`` is that of its files before they were read. A table that was not planned is counted when it is asked for,
    in a pass of its own.
    """

    plan: Plan
    engine: Engine
    source: Source
    answers: Answers = field(repr=False)
    digest: Digest | None = None
    sample: Sample | None = None
    columns: Hold | None = None
    households: HouseholdNumbers | None = None
    formulas: FormulaCells | None = None
    witnesses: Witnesses | None = None
    units: tuple[UnitRecords, ...] = ()
    state: State = ()
    keys: KeyRepeats | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        engine: Engine | None = None,
        source: Source | None = None,
        *,
        key: ReleaseKey | None = None,
        dossier: bool = False,
        written: bool = False,
        before: Known | None = None,
    ) -> Known:
        """Read the file once. With a release key, for a run: also its content and what it needs to write.

        Without one, also whether record keys repeat: a run finds that by itself.

        ``written`` asks without a key what a run says of the released file: formulas, and values that do not fit.

        What is known from ``before``, of the same file by the same codebook, is not asked again: a loop over levels
        reads nothing after its first step. If the file was written to since, all is; of a database, the caller answers
        for the records being the same.

        Raises
        ------
        DataError
            If the file cannot be read; what else is wrong with it is raised by the step that needs the answer.
        """
        engine, state = engine or LocalEngine(), state_of(plan.source)
        source = opened(plan) if source is None else source
        shaped = list(zip(plan.blocks, plan.shapes, strict=True))
        digest = None if key is None else digest_of(plan, shaped, key)
        sample, columns = _sample(plan), _columns(plan, dossier)
        house = household_of(plan) if key is not None and plan.release.renumbers else None
        households = None if house is None else HouseholdNumbers(house)
        written = written or key is not None
        formulas = _formulas(plan, engine, source) if written else None
        witnesses = _witnesses(plan, engine, source) if written else None
        tables = _tables(plan, shaped, dossier)
        units, ids = _units(plan, shaped), record_key_of(plan) if key is None else None
        keys = None if ids is None else KeyRepeats.of(source, ids)
        asked: list[Want | None] = [digest, sample, columns, households, formulas, witnesses, *tables, *units, keys]
        wants = dict.fromkeys(want for want in asked if want is not None)
        is_known = before is not None and before.plan.codebook == plan.codebook and before.state == state
        held = before.answers.held if before is not None and is_known else {}
        fresh = engine.count_all(source, plan.codebook, [want for want in wants if want not in held])
        answers = Answers({want: fresh.held[want] if want in fresh else held[want] for want in wants})
        found = digest, sample, columns, households, formulas, witnesses, units
        return cls(plan, engine, source, answers, *found, state, keys)

    @classmethod
    def tables(cls, plan: Plan, engine: Engine | None = None, source: Source | None = None) -> Known:
        """Read the file once for the tables that the design of its blocks, and its claims, need."""
        engine, state = engine or LocalEngine(), state_of(plan.source)
        source = opened(plan) if source is None else source
        wants = list(_tables(plan, list(zip(plan.blocks, plan.shapes, strict=True)), dossier=False))
        return cls(plan, engine, source, engine.count_all(source, plan.codebook, wants), state=state)

    def table(self, names: Sequence[str]) -> ContingencyTable:
        """Return the counts of these variables together; raises as :meth:`postrand.engines.base.Engine.count`."""
        counts = (want for want in self.answers.held if isinstance(want, Count) and want.weight is None)
        want = next((one for one in counts if {*one.variables} == {*names}), None)  # a split has an order of its own
        if want is None:
            return self.engine.count(self.source, self.plan.codebook, names)
        found: ContingencyTable = self.answers[want]
        return found if found.variables == tuple(names) else found.project(names)

    def shares(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """Return how frequent combinations of these variables are among all; None where no record has them."""
        counts = self.table(names).dense().astype(np.float64)
        return counts / counts.sum() if counts.sum() > 0 else None

    def household_sizes(self, records: int) -> dict[int, int] | None:
        """Return how many households of a file of so many records have each size; None where they were not asked.

        A record without a household number is a household of its own.
        """
        sizes = next((dict(self.answers[want].sizes) for want in self.units if want.unit == "household"), None)
        if sizes is None:
            return None
        alone = records - sum(size * many for size, many in sizes.items())
        return {**sizes, 1: sizes.get(1, 0) + alone}

    def check_units(self) -> None:
        """Raise DataError with everything about persons and households that the plan does not allow."""
        check_units(
            self.units, self.answers, lambda wants: self.engine.count_all(self.source, self.plan.codebook, wants)
        )

    @property
    def beside(self) -> Source | pa.Table:
        """The columns beside the keys, of all records in their order; none where a sample is a part of a larger file.

        Nothing is sampled where no column leaves unperturbed: then they are those of the file, if it has an order.
        """
        if self.sample is None or not self.sample.names:
            return self.source if getattr(self.source, "ordered", True) else pa.table({})
        held: Sampled = self.answers[self.sample]
        return held.table if held.is_whole else pa.table({})

    @property
    def held(self) -> Source:
        """The columns that are held whole, as a source of their own; the file's where none are."""
        return self.source if self.columns is None else TableSource(self.answers[self.columns])


def state_of(place: Path | formats.File | Table) -> State:
    """Return the state of the files of a plan: another one as soon as one is written to; empty for a database."""
    if isinstance(place, Table):
        return ()
    path = formats.path_of(place)
    return states_of(files_of(path) or [path])


def opened(plan: Plan) -> Source:
    """Open the records of a plan: recoded as its codebook says, and settled as its units say."""
    source = open_records(plan.source, plan.codebook)
    if plan.unit is None or not plan.unit.settles:
        return source
    return settled(source, plan.codebook, _units(plan, list(zip(plan.blocks, plan.shapes, strict=True))))


def digest_of(plan: Plan, shaped: Sequence[Shaped], key: ReleaseKey) -> Digest:
    """Return the want of the content under a release key: that of the plan's mechanism, before it has matrices."""
    cells = [_cells(plan.codebook, block, shape) for block, shape in shaped]
    ranked = [name for entry in plan.numerical for name in entry.variables]
    split = SplitCells.planned(() if plan.split is None else plan.split.variables, plan.split_reads, plan.codebook)
    units = {} if plan.unit is None else plan.unit.units.columns
    used = {*(unit_of(plan, block) for block in plan.blocks), *(() if plan.split is None else (plan.split.unit,))}
    drawn = {unit: name for unit, name in units.items() if unit in used}
    return Digest(ContentReader.of_cells(cells, ranked, key, split, drawn), record_key_of(plan))


def unit_of(plan: Plan, block: BlockPlan) -> Unit:
    """Return what a block describes, and is drawn for."""
    if block.one_member is not None:
        return "household"
    return "record" if plan.unit is None else plan.unit.unit_of(block.variables)


def _units(plan: Plan, shaped: Sequence[Shaped]) -> tuple[UnitRecords, ...]:
    if plan.unit is None:
        return ()
    read: dict[str, list[str]] = {}
    for block, shape in shaped:
        if block.one_member is None:  # else members differ by right
            read.setdefault(unit_of(plan, block), []).extend(variables_of(block, shape))
    if plan.split is not None and plan.split.of_members:  # a variable that the plan says is the household's is so
        for unit, names in plan.unit.variables.items():
            read.setdefault(unit, []).extend(name for name in names if name in plan.split.variables)
    return unit_wants(plan.unit.units, read)


def _cells(codebook: Codebook, block: BlockPlan, shape: LinkedCells | None) -> Cells:
    if shape is None:
        return Cells.listed(block.variables, codebook, None)
    return Cells.listed(shape.variables, codebook, shape.cells, shape.given)


def _tables(plan: Plan, shaped: Sequence[Shaped], dossier: bool) -> Iterator[Count]:
    """Yield the tables of rules, merged categories, priors and claims, and those that the dossier shows."""
    yield from (Count((recode.variable,)) for recode in merging(plan.codebook))
    for rule in plan.codebook.rules:
        yield Count(rule.variables)
    for block, shape in shaped:
        if block.reads_file:
            names = variables_of(block, shape)
            yield Count(names)
            if needs_joint(block.objective):
                yield Count((*names, *beyond(block, names)))
    yield from (Count(names) for names in (() if plan.split is None else plan.split.tables))
    for claim in plan.claims:
        if needs_file(claim.privacy):
            covered = [pair for pair in shaped if not claim.variables or {*pair[0].variables} & {*claim.variables}]
            yield Count(tuple(name for pair in covered for name in variables_of(*pair)))
        elif hasattr(claim.privacy, "of_records"):
            yield Count(plan.perturbed[:1])
    for variable in plan.codebook.variables if dossier else ():
        if variable.is_categorical and variable.role != "drop":
            yield Count((variable.name,))
    if dossier:
        from postrand.report.table_worth import crossed_of, pairs_of  # with what estimates: only for a dossier

        yield from map(Count, pairs_of(plan.perturbed, plan.codebook))
        yield from map(Count, crossed_of(plan.perturbed, plan.unperturbed, plan.codebook))
    if dossier and plan.split is not None:
        yield from (Count(names) for names in plan.split.workload.tables)


def variables_of(block: BlockPlan, shape: LinkedCells | None) -> tuple[str, ...]:
    """Return the variables of a block's cells, those that it reads among them."""
    return block.variables if shape is None else shape.variables


def beyond(block: BlockPlan, names: Sequence[str]) -> tuple[str, ...]:
    """Return the unperturbed variables of a block's objective that are no variables of its cells."""
    objective = block.objective
    return tuple(name for name in objective.clear if name not in names) if needs_joint(objective) else ()


def _sample(plan: Plan) -> Sample | None:
    house = household_of(plan)
    exempt = [house] if house and plan.release.renumbers else []
    perturbed = [*plan.perturbed, *(name for entry in plan.numerical for name in entry.variables)]
    units = len(plan.blocks) + (plan.split is not None) + len(perturbed) - len(plan.perturbed)
    dropped = dropped_household(plan.codebook)
    grouped = None if dropped is None else Grouped(*dropped)
    ordered = not plan.release.shuffle
    released = released_names(plan)
    first = first_of(plan, [name for name in released if name not in perturbed])
    return sample_of(plan.codebook, perturbed, released, exempt, units, grouped, ordered, first)


def _columns(plan: Plan, dossier: bool) -> Hold | None:
    """Return what is needed record by record: numerical columns, and what the dossier's risk measures read."""
    names = [name for entry in plan.numerical for name in entry.variables]
    if names and (record_key := record_key_of(plan)) is not None:
        names.append(record_key)
    if dossier:
        names += [v.name for v in plan.codebook.with_role("key", "sensitive") if v.is_categorical]
        names += [v.name for role in ("weight", "household") for v in plan.codebook.with_role(role)[:1]]
    return Hold(tuple(dict.fromkeys(names))) if names else None


def _formulas(plan: Plan, engine: Engine, source: Source) -> FormulaCells | None:
    _, suffix = data_name(plan, source, engine)
    if formats.format_of(f"x{suffix}").keeps_types:
        return None
    from postrand.formats.csv import FormulaCells, writes_formulas  # with its archives: not for other files

    return FormulaCells.of(source.schema, released_names(plan)) if writes_formulas(suffix) else None


def _witnesses(plan: Plan, engine: Engine, source: Source) -> Witnesses | None:
    """Return the want of the values to try in the release's format, or None where it holds everything."""
    if plan.release.target is not None or not formats.has_limits(data_name(plan, source, engine)[1]):
        return None
    made = household_of(plan) if plan.release.renumbers else None
    book, names = plan.codebook, released_names(plan)
    return Witnesses(tuple(name for name in names if not book[name].is_categorical and name != made))
