"""The start from a file: infer a codebook, write it and a plan to edit, assess the unperturbed file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postrand import formats, risk
from postrand.codebook import Codebook
from postrand.codebook.quantity_codes import note_of
from postrand.codebook.variable import ROLES
from postrand.engines.database import Table, open_records
from postrand.errors import DataError, ReleaseError, UsageError, raise_all, sentence
from postrand.plan import alike, infer, load_plan, writing
from postrand.plan.free_texts import with_texts
from postrand.recoding.typed import entries_of, typed_errors
from postrand.release.atomic import PRIVATE, appearing, target_problems
from postrand.release.internal import require_outside
from postrand.report.histogram import histogram
from postrand.report.table_worth import LEAST_RECORDS
from postrand.risk.data import read_columns
from postrand.risk.measures.records import write_records
from postrand.risk.measures.settings import settings_of
from postrand.risk.merged import published
from postrand.risk.sample import Sample, Sampled, taken
from postrand.risk.size_told import told_by_sizes
from postrand.risk.tuning import limits_of
from postrand.support.inputs import has_controls
from postrand.workflow import asked_units, declared, neighbouring
from postrand.workflow.advice_needs import Needs
from postrand.workflow.draft_decisions import (
    is_exchanged,
    keys_as_they_are,
    known_by_size,
    left_open,
    noted,
    perturbed_of,
    settled_by,
    settled_by_size,
    settled_lines,
    singled_alone,
    size_lines,
    with_perturbed,
    with_settled,
)
from postrand.workflow.draft_plan import plan_text
from postrand.workflow.draft_roles import assign_roles, made_of, roles_of
from postrand.workflow.epsilon import shares
from postrand.workflow.linked import parts_of, set_aside, with_numbers
from postrand.workflow.linked import proposed as proposed_links
from postrand.workflow.linked_rules import NOTE as RULES_NOTE
from postrand.workflow.named_keys import named_keys
from postrand.workflow.not_asked import not_asked_lines
from postrand.workflow.proposal import Way
from postrand.workflow.repeated_values import repeated, with_repeated
from postrand.workflow.started import Started
from postrand.workflow.swallowed import all_told, in_quantities, with_notes
from postrand.workflow.tuning import tune_plan


def initialise(
    file: Path,
    folder: Path,
    roles: Mapping[str, Sequence[str]],
    *,
    epsilon: float = 1.0,
    ddi: Path | None = None,
    way: Way = "best",
) -> tuple[Path, Path]:
    """Do as :func:`start`, and return the paths of codebook and plan."""
    made = start(file, folder, roles, epsilon=epsilon, ddi=ddi, way=way)
    return made.codebook, made.plan


def start(
    file: Path | Table,
    folder: Path,
    roles: Mapping[str, Sequence[str]],
    *,
    epsilon: float = 1.0,
    ddi: Path | None = None,
    way: Way = "best",
    settings: formats.ReadSettings | None = None,
    recode: Sequence[str] = (),
    total: float | None = None,
    units: Needs | None = None,
) -> Started:
    """Write ``codebook.toml`` and ``plan.toml`` for ``file``, or a table of a database, into ``folder``.

    ``roles`` maps a role to names; the name ``*`` means all variables that are not listed. Other variables keep an
    empty role. So does an unperturbed column that singles out more than 1% of the records, unless ``roles`` lists its
    own name: then the plan asks for a decision. Every categorical key variable gets a block with privacy budget
    ``epsilon`` in the plan; or all share their sum in a split release or a joint block, where ``way`` asks for it, or
    is ``best`` and that is worth much more (:mod:`postrand.workflow.proposal`). A function of a variable that is
    perturbed gets the role ``drop``, linked ones that have to stay one block (:mod:`postrand.workflow.linked`). Labels
    and codes for "no answer" come from the file itself, or from a DDI-Codebook document ``ddi``. How the file is read,
    its separator for example, is what ``settings`` say and, for what they leave open, what the file shows; the plan
    states it, so that no later step has to find it out again. ``recode`` are recodes, each as
    :func:`postrand.recoding.typed.entry_of` reads it: the codebook has them, and describes their results. ``total`` is
    the most ε of a record, which is then divided equally. ``units`` says whom the plan protects beside the record: its
    largest household and its persons become ``[unit]``, and the column of persons gets the role ``drop``; and which
    columns the plan perturbs besides the keys.

    Raises
    ------
    UsageError
        If either file exists or cannot be written, a name is not a column, a name has two roles, a recode is not valid,
        or files of this suffix do not have a setting that is given.
    DataError
        If the file cannot be read, does not show how it is read, or the name of a column contains a control character;
        or if a value has no place in a recode.
    """
    book_path, plan_path = folder / "codebook.toml", folder / "plan.toml"
    existing = [path for path in (book_path, plan_path) if os.path.lexists(path)]
    if ddi is not None and isinstance(file, Table):
        raise UsageError(sentence("a DDI document describes a file, not a table", fix="leave --ddi out"))
    units = units or Needs()
    if units.person and units.person not in (*roles.get("household", ()), *roles.get("drop", ())):
        roles = {**roles, "drop": [*roles.get("drop", ()), units.person]}
    entries, settings = entries_of(recode), settings or formats.ReadSettings()
    read_as = settings if isinstance(file, Table) else formats.detected(file, settings)
    opened_as = file if isinstance(file, Table) else formats.placed(file, read_as)
    source = open_records(opened_as)  # a file that is not there is told first
    if existing:
        columns = dict.fromkeys([*source.schema.names, *(str(entry.get("variable")) for entry in entries)])
        there = [sentence("the file exists", where=str(path), fix="remove it, or give --out") for path in existing]
        raise_all(UsageError, [*there, *roles_of(list(columns), roles)[1]])
    hidden = [
        sentence("the name of a column contains a control character", got=repr(n), fix="rename the column in the file")
        for n in source.schema.names
        if has_controls(n)
    ]
    raise_all(DataError, hidden)
    with typed_errors(bool(recode)):
        known = declared.started(entries, opened_as, source, ddi)
    assigned = assign_roles(known.source.schema.names, roles, made_of(known.source))
    units = asked_units.completed(assigned, units)
    raise_all(UsageError, asked_units.problems(assigned, units))
    with typed_errors(bool(recode)):
        known, drafts = declared.drafted(known, assigned)
        drafts = with_perturbed(drafts, units.perturb_also)
    source, made, told = known.source, known.made, known.told
    named = {name for given in roles.values() for name in given}
    sample, left = _sample(source, drafts)
    singling = singled_alone(sample, left)
    drafts = [left_open(draft, singling, named) for draft in with_texts(sample.table, drafts)]
    numbers = with_numbers(sample, source, drafts)
    groups = {} if units.person or "household" in assigned.values() else repeated(numbers, drafts)
    drafts = with_repeated(drafts, groups, named)
    share = None if units.person or groups else neighbouring.shared(source, sample, drafts)[0]
    drafts = neighbouring.noted(share, drafts)
    held = {n: numbers.table.column(n) for n in numbers.table.column_names}
    codes = in_quantities(held, drafts, known.asked, source.schema)
    codes = {name: found for name, found in codes.items() if name not in told}
    drafts = with_notes(drafts, {name: note_of(name, found) for name, found in codes.items()})
    by_size = told_by_sizes(numbers, [d["name"] for d in drafts if d.get("categories")], perturbed_of(drafts))
    drafts = [known_by_size(draft, by_size) for draft in drafts]
    linked = proposed_links(numbers, drafts, perturbed_of(drafts), named, set_aside(drafts))
    drafts = list(linked.drafts)
    open_ = {d["name"]: singling[d["name"]] for d in drafts if d["name"] in singling and d["role"] not in ("", "drop")}
    place = (file if isinstance(file, Table) else formats.File(file, read_as)).to_dict(folder)
    rows = None if isinstance(file, Table) else source.num_rows
    parts = max(1, len(parts_of(perturbed_of(drafts), linked.joint)))
    whole = epsilon * parts if total is None else total
    each = [epsilon] * parts if total is None else shares([total / parts] * parts, total)
    settles = settled_by(numbers, drafts, perturbed_of(drafts), linked.links)
    settles |= settled_by_size(by_size, numbers.household, perturbed_of(drafts))
    roles = {d["name"]: d["role"] for d in drafts}
    decide = {names: pairs for names, pairs in settles.items() if all(roles[name] for name in names)}
    drafts = [with_settled(draft, settles) for draft in drafts]
    unit = asked_units.section(assigned, units)
    plan = plan_text(place, drafts, each, whole, open_, way, rows, linked.joint, decide, unit, units.models)
    recoded = {recode.variable for recode in made.recodes}
    look = alike.proposed((d for d in drafts if d["name"] not in recoded), sample.table)
    book = writing.codebook_text(drafts, ("rules", linked.rules, RULES_NOTE), ("recodes", look.recodes, alike.NOTE))
    make_folder(folder)
    written: list[Path] = []
    try:
        for path, text in ((book_path, book + made.written(folder)), (plan_path, plan)):
            with path.open("x", encoding="utf-8") as opened:
                written.append(path)
                opened.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise _unwritable("the codebook and the plan cannot be written", folder, error) from None
    return Started(
        book_path,
        plan_path,
        tuple(name for name, role in roles.items() if not role),
        tuple(open_),
        read_as,
        whole,
        (*linked.sentences, *size_lines(by_size)),
        is_small=sample.records < LEAST_RECORDS,
        starred=tuple(d["name"] for d in drafts if d["role"] in ("sensitive", "other") and d["name"] not in named),
        unreleased=tuple(name for name, role in assigned.items() if role == "drop" and name not in named),
        keys=tuple(keys_as_they_are(drafts, {*open_, *(n for names in settles for n in names)})),
        settling=tuple(dict.fromkeys(name for names in settles for name in names)),
        settled=tuple(settled_lines(settles)),
        alike=look.words,
        declared=known.words,
        **noted(drafts, groups, singling),
        not_asked=tuple(not_asked_lines(sample.table, drafts)),
        neighbours=neighbouring.told(share, drafts, recoded),
        contradicted=tuple(asked_units.contradictions(sample, numbers, drafts, units)),
        swallowed=tuple(filter(None, (*map(published, made.recodes), *all_told(told, drafts, codes)))),
        roles={role: count for role in (*ROLES, "") if (count := [*roles.values()].count(role))},
    )


def _sample(source: formats.Source, drafts: Sequence[Mapping[str, Any]]) -> tuple[Sampled, list[str]]:
    """Return a sample of the columns with plain values, and those of them that no block perturbs.

    Household and record numbers are left out: they are released with new numbers, or not at all.
    """
    plain = [d for d in drafts if not infer.is_nested(source.schema.field(d["name"]).type)]
    left = [d["name"] for d in plain if d["role"] not in ("drop", "household", "record_key") and not is_exchanged(d)]
    house = next((d["name"] for d in plain if d["role"] == "household"), None)
    names, first = tuple(d["name"] for d in plain), neighbouring.compared(plain)
    return taken(source, Sample(names, tuple(left), house, first=first)), left


def make_folder(folder: Path) -> None:
    """Create a folder for its owner alone, and those above it, if it does not exist; raises UsageError if refused.

    A draft lists the values of the file, also of columns that will not be released.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(PRIVATE, exist_ok=True)
    except OSError as error:
        raise _unwritable("the folder cannot be created", folder, error) from None


def _unwritable(what: str, folder: Path, error: OSError) -> UsageError:
    got, fix = error.strerror or type(error).__name__, "use --out with a folder that you can write to"
    return UsageError(sentence(what, where=str(folder), got=got, fix=fix))


def assess(file: Path | formats.File, keys: Sequence[str], codebook: Path | None, **choices: Any) -> risk.RiskReport:
    """Assess the unperturbed ``file``; ``choices`` go to :func:`postrand.risk.assess`, with the codebook's weight.

    Without ``keys``, the variables with this role in the codebook are taken; UsageError where there are none.
    """
    book = None if codebook is None else infer.load_codebook(codebook)
    chosen = dict(choices) if book is None else _weighted(book, choices)
    if not (choices.get("household") or chosen.get("weight") or chosen.get("sampling_fraction")):
        chosen.pop("household", None)  # its risk needs the share of the population
    return risk.assess(open_records(file, book), named_keys(keys, book), codebook=book, **chosen)


def measure(
    file: Path | formats.File,
    keys: Sequence[str],
    codebook: Path | None,
    measures: Sequence[str],
    *,
    settings: Sequence[str] = (),
    records: Path | None = None,
    record_key: str | None = None,
    plot: Path | None = None,
    **choices: Any,
) -> risk.Assessment:
    """Measure ``file`` by name; ``choices`` go to :func:`postrand.risk.measure`, ``settings`` are NAME.OPTION=VALUE.

    What is not chosen and has a role in the codebook is taken from there: keys, weight, household, sensitive variables.
    ``records`` is a new file for the risk of each record, with the column ``record_key`` if it is named; ``plot`` a
    new folder for a picture of each histogram. The call creates both or none of them.

    Raises
    ------
    UsageError
        If no key is named, a measure, option or column is unknown, or a measure that is named does not support the
        file.
    ReleaseError
        If a file exists, cannot be written, or would lie in a release.
    """
    for path in (records, plot):
        if path is not None:
            require_outside(path)
    raise_all(ReleaseError, [] if plot is None else target_problems(plot))
    if record_key is not None and records is None:
        raise UsageError(sentence("record ids are asked for, and no file of records", fix="name one: --records FILE"))
    book = None if codebook is None else infer.load_codebook(codebook)
    keys, source = named_keys(keys, book), open_records(file, book)
    ids = None if record_key is None else read_columns(source, [record_key])
    asked: Any = "all" if list(measures) == ["all"] else measures
    chosen = choices if book is None else _with_roles(book, choices)
    found = risk.measure(source, keys, asked, codebook=book, settings=settings_of(settings), **chosen)
    with contextlib.nullcontext() if plot is None else appearing(plot, PRIVATE) as folder:
        if folder is not None:
            write_histograms(folder, found)
        if records is not None:
            write_records(records, found, ids)
    return found


def _with_roles(book: Codebook, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices, with the codebook's variables where none is chosen."""
    found = _weighted(book, choices)
    found["sensitive"] = found.get("sensitive") or [v.name for v in book.with_role("sensitive") if v.is_categorical]
    return found


def _weighted(book: Codebook, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices, with the codebook's weight and household where none is chosen."""
    named = {role: [v.name for v in book.with_role(role)] for role in ("weight", "household")}
    found = dict(choices)
    if found.get("sampling_fraction") is None and named["weight"]:
        found["weight"] = found.get("weight") or named["weight"][0]
    if named["household"]:
        found["household"] = found.get("household") or named["household"][0]
    return found


def write_histograms(folder: Path, found: risk.Assessment) -> None:
    """Write the histogram of each measure that has one to ``NAME.svg`` in a folder; UsageError if none has one."""
    drawn = [(result.measure, result.title, result.histogram) for result in found.measured if result.histogram]
    if not drawn:
        fix = "ask for one that has a histogram, such as --measure individual"
        raise UsageError(sentence("none of the measures has a histogram", fix=fix))
    for name, title, bins in drawn:
        picture = histogram(bins.unit, bins.edges, bins.labels(), bins.lengths(), title)
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


def tune(
    file: Path | formats.File | None,
    keys: Sequence[str],
    codebook: Path | None,
    *,
    plan: Path | None = None,
    **choices: Any,
) -> risk.Tuning:
    """Find the weakest perturbation within every risk limit, for ``file`` and ``keys`` or for a ``plan``.

    A plan names its own file, codebook and keys; its budgets are scaled together. ``choices`` go to
    :func:`postrand.risk.tune`, with the codebook's weight and household where none is chosen.

    Raises
    ------
    UsageError
        If none or both are given.
    """
    if plan is None:
        if file is None or not keys:
            fix = "use FILE and --keys, or --plan plan.toml"
            raise UsageError(sentence("there is nothing to tune", fix=fix))
        book = None if codebook is None else infer.load_codebook(codebook)
        chosen = choices if book is None else _weighted(book, choices)
        if {measure for measure, _ in limits_of(choices["limit"])} == {"correct_matches"}:  # a weight is refused
            chosen = {**chosen, "weight": choices.get("weight")}
        return risk.tune(open_records(file, book), keys, codebook=book, **chosen)
    given = {"FILE": file, "--keys": keys, "--codebook": codebook}
    twice = [name for name, value in given.items() if value]
    if twice:
        raise UsageError(sentence("the plan already has its own file, codebook and keys", got=", ".join(twice)))
    return tune_plan(load_plan(plan), **choices)
