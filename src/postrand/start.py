"""Starting from a file: infer a codebook, write it and a plan to edit, assess the file as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from postrand import formats, infer, metadata, risk
from postrand.codebook import ROLES
from postrand.design import MutualInformation, UniformOffDiagonal
from postrand.errors import DataError, UsageError, nearest, raise_all, sentence
from postrand.plain import has_controls
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy
from postrand.tuning import tune_plan

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
format = "same" as the source, "parquet", "csv", "arrow", "sav" (SPSS), "dta" (Stata) or "xpt" (SAS);
shuffle the order of records; release record ids or not."""


def initialise(
    file: Path, folder: Path, roles: Mapping[str, Sequence[str]], *, epsilon: float = 1.0, ddi: Path | None = None
) -> tuple[Path, Path]:
    """Write ``codebook.toml`` and ``plan.toml`` for ``file`` into ``folder``; return their paths.

    ``roles`` maps a role to names; the name ``*`` stands for all that are not named. Variables without a role keep an
    empty one. Every categorical key variable gets a block with privacy budget ``epsilon`` in the plan. Labels and codes
    for "no answer" come from the file itself, or from a DDI-Codebook document ``ddi``.

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
    source = formats.read(file)
    hidden = [
        sentence("a column's name holds a control character", got=repr(n), fix="rename the column in the file")
        for n in source.schema.names
        if has_controls(n)
    ]
    raise_all(DataError, hidden)
    described = source if ddi is None else metadata.described(source, metadata.read_ddi(ddi))
    drafts = infer.infer(described, roles=assign_roles(source.schema.names, roles))
    plan = plan_text(os.path.relpath(file, folder), drafts, epsilon)
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
    return book_path, plan_path


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


def plan_text(file: str, drafts: Iterable[Mapping[str, Any]], epsilon: float) -> str:
    """Return a commented plan: one block for each categorical key variable, or for every one while roles are empty."""
    categorical = [d for d in drafts if d.get("categories")]
    perturbed = [d["name"] for d in categorical if d["role"] == "key"] or [
        d["name"] for d in categorical if not d["role"]
    ]
    plan = tomlkit.document()
    _comment(plan, PLAN_HEAD)
    plan["source"] = {"file": file, "codebook": "codebook.toml"}
    _comment(plan, PRIVACY_NOTE)
    plan["privacy"] = {"model": DifferentialPrivacy.name, "epsilon": epsilon * max(1, len(perturbed))}
    _comment(plan, DESIGN_NOTE)
    plan["design"] = {
        "structure": UniformOffDiagonal.name,
        "objective": MutualInformation.name,
        "prior": "uniform",
    }
    _comment(plan, RELEASE_NOTE)
    plan["release"] = {"format": "same", "shuffle": True, "release_ids": False}
    _comment(plan, BLOCKS_NOTE)
    blocks = tomlkit.aot()
    for name in perturbed:
        block = tomlkit.table()
        block["variables"] = [name]
        privacy = tomlkit.inline_table()
        privacy.update({"model": DifferentialPrivacy.name, "epsilon": epsilon})
        block["privacy"] = privacy
        blocks.append(block)
    plan["blocks"] = blocks
    return re.sub(r"(#.*)\n\n\[", r"\1\n[", tomlkit.dumps(plan)).lstrip()  # notes stand right above their section


def without_role(codebook: Path) -> tuple[str, ...]:
    """Return the variables of a codebook file whose role is still empty."""
    data = tomlkit.parse(codebook.read_text(encoding="utf-8")).unwrap()
    return tuple(v["name"] for v in data["variables"] if not v.get("role"))


def assess(file: Path, keys: Sequence[str], codebook: Path | None, **choices: Any) -> risk.RiskReport:
    """Assess ``file`` as it is; ``choices`` go to :func:`postrand.risk.assess`."""
    book = None if codebook is None else infer.load_codebook(codebook)
    return risk.assess(formats.read(file, book), keys, codebook=book, **choices)


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


def _comment(document: tomlkit.TOMLDocument, text: str) -> None:
    document.add(tomlkit.nl())
    for line in text.strip().splitlines():
        document.add(tomlkit.comment(line))
