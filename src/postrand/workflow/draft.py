"""Starting from a file: infer a codebook, write it and a plan to edit, assess the file as it is."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from postrand import formats, metadata, risk
from postrand.codebook import Codebook
from postrand.codebook.variable import ROLES
from postrand.designers import MutualInformation, UniformOffDiagonal
from postrand.engines.database import Table, open_records
from postrand.errors import DataError, ReleaseError, UsageError, nearest, raise_all, sentence
from postrand.plan import infer, load_plan
from postrand.plan.writing import blocks_of
from postrand.privacy import DifferentialPrivacy
from postrand.release.atomic import PRIVATE, appearing, target_problems
from postrand.release.internal import require_outside
from postrand.report.histogram import histogram
from postrand.risk.data import read_columns
from postrand.risk.findings import share_text
from postrand.risk.measures.records import write_records
from postrand.risk.measures.settings import settings_of
from postrand.risk.sample import sampled
from postrand.risk.singled import MAX_ALONE
from postrand.support.inputs import has_controls
from postrand.workflow.tuning import tune_plan

PLAN_HEAD = """\
Plan of a release: every decision in one file. Paths are relative to this file.
Carry it out with: postrand protect --plan plan.toml --out release
"""
PRIVACY_NOTE = """\
The claim on all perturbed values of one record together: at least the sum of the blocks' epsilons.
Smaller is safer. At epsilon = 1 no released value makes one true value over another more than 2.72 times as likely."""
DESIGN_NOTE = """\
How the matrices are chosen, unless a block says otherwise.
prior = "uniform" tells nothing about the file; "file" tunes the matrices to the file's own frequencies, keeps more
information, and is named in the certificate as not covered by the guarantee."""
BLOCKS_NOTE = "One block for each variable that is perturbed; variables named together are perturbed jointly."
RELEASE_NOTE = """\
format = "same" as the source, or {formats};
shuffle the order of records; release record ids or not.
Household numbers are drawn anew; household_numbers = "as they are" keeps them."""
AS_IS_NOTE = """\
Unperturbed columns that single out more than 1% of the records each, alone. Nothing is released before each is
decided: name it in as_is to release it as it is, or give it a law in [[numerical]], or role = "drop" in the codebook.
"""


@dataclass(frozen=True, slots=True)
class Started:
    """Say where codebook and plan were written, which roles are empty, and which columns the plan has to decide on."""

    codebook: Path
    plan: Path
    without_role: tuple[str, ...]
    undecided: tuple[str, ...]


def initialise(
    file: Path, folder: Path, roles: Mapping[str, Sequence[str]], *, epsilon: float = 1.0, ddi: Path | None = None
) -> tuple[Path, Path]:
    """Do as :func:`start`, and return the paths of codebook and plan."""
    made = start(file, folder, roles, epsilon=epsilon, ddi=ddi)
    return made.codebook, made.plan


def start(
    file: Path | Table,
    folder: Path,
    roles: Mapping[str, Sequence[str]],
    *,
    epsilon: float = 1.0,
    ddi: Path | None = None,
) -> Started:
    """Write ``codebook.toml`` and ``plan.toml`` for ``file``, or a table of a database, into ``folder``.

    ``roles`` maps a role to names; the name ``*`` stands for all that are not named. Variables without a role keep an
    empty one, and so does a column that would leave unperturbed and single out more than 1% of the records, unless its
    own name is given: then the plan asks for a decision. Every categorical key variable gets a block with privacy
    budget ``epsilon`` in the plan. Labels and codes for "no answer" come from the file itself, or from a DDI-Codebook
    document ``ddi``.

    Raises
    ------
    UsageError
        If either file exists or cannot be written, a name is not a column, or a name has two roles.
    DataError
        If the file cannot be read, or a column's name holds a control character.
    """
    book_path, plan_path = folder / "codebook.toml", folder / "plan.toml"
    existing = [path for path in (book_path, plan_path) if os.path.lexists(path)]
    raise_all(UsageError, [sentence("the file exists", where=str(p), fix="remove it, or give --out") for p in existing])
    if ddi is not None and isinstance(file, Table):
        raise UsageError(sentence("a DDI document describes a file, not a table", fix="leave --ddi out"))
    source = open_records(file)
    hidden = [
        sentence("a column's name holds a control character", got=repr(n), fix="rename the column in the file")
        for n in source.schema.names
        if has_controls(n)
    ]
    raise_all(DataError, hidden)
    described = source if ddi is None else metadata.described(source, metadata.read_ddi(ddi))
    drafts = infer.infer(described, roles=assign_roles(source.schema.names, roles))
    named = {name for given in roles.values() for name in given}
    singling = _singling(source, drafts)
    drafts = [_undecided(draft, singling, named) for draft in drafts]
    open_ = {d["name"]: singling[d["name"]] for d in drafts if d["name"] in singling and d["role"]}
    place = file.to_dict(folder) if isinstance(file, Table) else {"file": os.path.relpath(file, folder)}
    plan = plan_text(place, drafts, epsilon, open_)
    make_folder(folder)
    written: list[Path] = []
    try:
        for path, text in ((book_path, infer.codebook_text(drafts)), (plan_path, plan)):
            with path.open("x", encoding="utf-8") as opened:
                written.append(path)
                opened.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise _unwritable("codebook and plan cannot be written", folder, error) from None
    return Started(book_path, plan_path, tuple(d["name"] for d in drafts if not d["role"]), tuple(open_))


def perturbs(draft: Mapping[str, Any]) -> bool:
    """Tell whether a draft has values to exchange."""
    listed = len(draft.get("categories", ()))
    return listed > 1 or (listed == 1 and draft.get("missing") == "category")


def _singling(source: formats.Source, drafts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the share of the records that each column which would leave unperturbed singles out alone, if it is much.

    Household and record numbers are left out: they leave renumbered, or not at all.
    """
    left = [
        d["name"]
        for d in drafts
        if d["role"] not in ("drop", "household", "record_key")
        and not (perturbs(d) and d["role"] == "key")
        and not infer.is_nested(source.schema.field(d["name"]).type)
    ]
    sample = sampled(source, left, left)
    shares = {name: sample.share_alone(name) for name in left}
    return {name: share for name, share in shares.items() if share > MAX_ALONE}


def _undecided(draft: dict[str, Any], singling: Mapping[str, float], named: Collection[str]) -> dict[str, Any]:
    """Return a draft with what the column singles out as a note, and without a role unless its own was named.

    A role for all others is not given to lists and records: they are dropped.
    """
    if (
        draft["type"].startswith(("list", "large_list", "struct", "map", "fixed_size_list"))
        and draft["name"] not in named
    ):
        return {**draft, "role": "drop"}
    share = singling.get(draft["name"])
    if share is None:
        return draft
    note = f"unperturbed, it singles out {share_text(share)} of the records: role = 'drop', or a law in [[numerical]]"
    notes = [*draft["notes"], note, "of the plan; or release it so, and name it there in [release] as_is"]
    return {**draft, "role": draft["role"] if draft["name"] in named else "", "notes": notes}


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there; raises UsageError where the system refuses."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable("the folder cannot be made", folder, error) from None


def _unwritable(what: str, folder: Path, error: OSError) -> UsageError:
    got, fix = error.strerror or type(error).__name__, "give --out a folder that can be written to"
    return UsageError(sentence(what, where=str(folder), got=got, fix=fix))


def assign_roles(columns: Sequence[str], roles: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the role of each column, empty where none is given; raises UsageError with every wrong name at once.

    >>> assign_roles(["sex", "age", "pay"], {"key": ["sex"], "other": ["*"]})
    {'sex': 'key', 'age': 'other', 'pay': 'other'}
    """
    problems, assigned, rest = [], dict.fromkeys(columns, ""), ""
    for role, given in roles.items():
        role = role.replace("-", "_")
        if role not in ROLES:
            problems.append(sentence(f"unknown role {role!r}{nearest(role, ROLES)}", wanted=", ".join(ROLES)))
        for name in given:
            if name == "*":
                problems += [sentence("'*' is given to two roles")] * bool(rest)
                rest = role
            elif name not in assigned:
                problems.append(sentence(f"no column {name!r}{nearest(name, columns)}", wanted=", ".join(columns)))
            elif assigned[name]:
                problems.append(sentence(f"column {name!r} has two roles", got=f"{assigned[name]} and {role}"))
            else:
                assigned[name] = role
    raise_all(UsageError, problems)
    return {name: role or rest for name, role in assigned.items()}


def plan_text(
    place: Mapping[str, str],
    drafts: Iterable[Mapping[str, Any]],
    epsilon: float,
    undecided: Mapping[str, float] | None = None,
) -> str:
    """Return a commented plan: one block for each categorical key variable, or for every one while roles are empty.

    ``undecided`` are columns that leave unperturbed and single out these shares of the records.
    """
    categorical = [d for d in drafts if perturbs(d)]
    perturbed = [d["name"] for d in categorical if d["role"] == "key"] or [
        d["name"] for d in categorical if not d["role"] and not infer.looks_carried(d["name"])
    ]
    plan = tomlkit.document()
    _comment(plan, PLAN_HEAD)
    plan["source"] = {**place, "codebook": "codebook.toml"}
    _comment(plan, PRIVACY_NOTE)
    plan["privacy"] = {"model": DifferentialPrivacy.name, "epsilon": epsilon * max(1, len(perturbed))}
    _comment(plan, DESIGN_NOTE)
    plan["design"] = {
        "structure": UniformOffDiagonal.name,
        "objective": MutualInformation.name,
        "prior": "uniform",
    }
    _comment(plan, RELEASE_NOTE.format(formats=_listed(formats.written_names())))
    plan["release"] = {"format": "same", "shuffle": True, "release_ids": False}
    if undecided:
        listed = ", ".join(f"{name} ({share_text(share)})" for name, share in undecided.items())
        part: Any = plan["release"]
        for line in (*AS_IS_NOTE.strip().splitlines(), f"To decide: {listed}."):
            part.add(tomlkit.comment(line))
        part["as_is"] = []
    _comment(plan, BLOCKS_NOTE)
    level = {"model": DifferentialPrivacy.name, "epsilon": epsilon}
    plan["blocks"] = blocks_of({"variables": [name], "privacy": level} for name in perturbed)
    return re.sub(r"(#.*)\n\n\[", r"\1\n[", tomlkit.dumps(plan)).lstrip()  # notes stand right above their section


def assess(file: Path, keys: Sequence[str], codebook: Path | None, **choices: Any) -> risk.RiskReport:
    """Assess ``file`` as it is; ``choices`` go to :func:`postrand.risk.assess`."""
    book = None if codebook is None else infer.load_codebook(codebook)
    return risk.assess(formats.read(file, book), keys, codebook=book, **choices)


def measure(
    file: Path,
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

    What is not chosen and has a role in the codebook is taken from there: weight, household, sensitive variables.
    ``records`` is a new file for the risk of each record, with the column ``record_key`` if it is named; ``plot`` a
    new folder for a picture of each histogram. Either both are there in the end, or neither.

    Raises
    ------
    UsageError
        If a measure, option or column is unknown, or a measure that is named does not support the file.
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
    source = formats.read(file, book)
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
    named = {role: [v.name for v in book.with_role(role)] for role in ("weight", "household")}
    found = dict(choices)
    if found.get("sampling_fraction") is None and named["weight"]:
        found["weight"] = found.get("weight") or named["weight"][0]
    if named["household"]:
        found["household"] = found.get("household") or named["household"][0]
    found["sensitive"] = found.get("sensitive") or [v.name for v in book.with_role("sensitive") if v.is_categorical]
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
    file: Path | None, keys: Sequence[str], codebook: Path | None, *, plan: Path | None = None, **choices: Any
) -> risk.Tuning:
    """Find the weakest perturbation within a risk limit, of ``file`` and ``keys`` or of a ``plan``.

    A plan names its own file, codebook and keys; its budgets are scaled together. ``choices`` go to
    :func:`postrand.risk.tune`.

    Raises
    ------
    UsageError
        If neither or both are given.
    """
    if plan is None:
        if file is None or not keys:
            fix = "name FILE and --keys, or --plan plan.toml"
            raise UsageError(sentence("there is nothing to tune", fix=fix))
        book = None if codebook is None else infer.load_codebook(codebook)
        return risk.tune(formats.read(file, book), keys, codebook=book, **choices)
    given = {"FILE": file, "--keys": keys, "--codebook": codebook}
    twice = [name for name, value in given.items() if value]
    if twice:
        raise UsageError(sentence("a plan names its own file, codebook and keys", got=", ".join(twice)))
    return tune_plan(load_plan(plan), **choices)


def _listed(named: Mapping[str, str]) -> str:
    """Return what a plan may ask a release to be written as, with the names that people know.

    >>> _listed({"csv": "CSV", "arrow": "Arrow IPC", "sav": "SPSS"})
    '"csv", "arrow" or "sav" (SPSS)'
    """
    texts = [f'"{name}"' + f" ({called})" * (not called.lower().startswith(name)) for name, called in named.items()]
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def _comment(document: tomlkit.TOMLDocument, text: str) -> None:
    document.add(tomlkit.nl())
    for line in text.strip().splitlines():
        document.add(tomlkit.comment(line))
