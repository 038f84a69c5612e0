"""Decisions as documents: a codebook, a plan and a command line with the same result as the workbench."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from postrand.app import forms
from postrand.app.bench import Bench
from postrand.codebook import Codebook
from postrand.errors import SpecificationError, raise_all, sentence
from postrand.plan import infer
from postrand.plan.writing import blocks_of

MAX_NAMED = 5


def codebook_toml(bench: Bench) -> str:
    """Return the codebook of the file with the current roles."""
    if bench.opened is None:
        return ""
    pairs = zip(bench.opened.drafts, bench.roles, strict=True)
    return infer.codebook_text({**draft, "role": role} for draft, role in pairs)


def codebook_of(bench: Bench) -> Codebook:
    """Return the codebook; a variable without a role has the role ``drop`` until it gets one."""
    assert bench.opened is not None
    entries = [
        {k: v for k, v in draft.items() if k != "notes"} | {"role": role or "drop"}
        for draft, role in zip(bench.opened.drafts, bench.roles, strict=True)
    ]
    return Codebook.from_dict({"variables": entries})


def plan_data(bench: Bench, folder: Path) -> dict[str, Any]:
    """Return the plan as plain data, for a plan in ``folder``; raises SpecificationError with the missing parts."""
    raise_all(SpecificationError, problems(bench))
    assert bench.opened is not None
    blocks = [
        {"variables": [bench.names[j]], "privacy": _table("privacy", bench.model, bench)} for j in bench.perturbed
    ]
    return {
        "source": {"file": _place(bench.opened.path, folder), "codebook": "codebook.toml"},
        "privacy": _of_record(_table("privacy", bench.model, bench), len(blocks)),
        "design": {
            "objective": _table("objective", bench.objective, bench),
            "structure": _table("structure", bench.structure, bench),
            "prior": bench.prior,
        },
        "release": {
            "format": bench.format,
            "shuffle": bench.shuffle,
            "release_ids": False,
            **({"as_is": list(bench.decided)} if bench.decided else {}),
        },
        "blocks": blocks,
    }


def plan_toml(bench: Bench, folder: Path) -> str:
    """Return the plan as TOML, for ``postrand protect``."""
    data = plan_data(bench, folder)
    document = tomlkit.document()
    document.add(tomlkit.comment("Run it with: postrand protect --plan plan.toml --out release"))
    for name, part in data.items():
        if name != "blocks":
            document.add(tomlkit.nl())
            document[name] = part
    document["blocks"] = blocks_of(data["blocks"])
    text = tomlkit.dumps(document)
    assert tomllib.loads(text) == data
    return text


def problems(bench: Bench) -> list[str]:
    """Return a sentence for each decision that is missing before the plan can run."""
    if bench.opened is None:
        return [sentence("no file is open", fix="open a file on the first screen")]
    found = []
    if bench.unset:
        named = ", ".join(bench.names[j] for j in bench.unset[:MAX_NAMED])
        more = f" and {len(bench.unset) - MAX_NAMED:,} more" if len(bench.unset) > MAX_NAMED else ""
        found.append(
            sentence(
                f"variables without a role: {named}{more}", fix="choose a role for each variable on the first screen"
            )
        )
    if not bench.perturbed:
        found.append(
            sentence("no variable is perturbed", fix="choose the role key for at least one variable with categories")
        )
    return found


def commands(bench: Bench, screen: str) -> str:
    """Return the command lines with the same result as a screen."""
    if bench.opened is None:
        return "postrand init FILE"
    file = shlex.quote(bench.opened.name)
    if screen == "data":
        roles = [_role_option(bench, role) for role in ("key", "sensitive", "other", "drop")]
        return " \\\n  ".join([f"postrand init {file}", *(r for r in roles if r)])
    if screen == "risk":
        keys = shlex.quote(",".join(bench.keys) or "A,B")
        weight = next((n for n, r in zip(bench.names, bench.roles, strict=True) if r == "weight"), None)
        extra = f" --sampling-fraction {bench.fraction:g}" if bench.fraction else ""
        extra = f" --weight {shlex.quote(weight)}" if weight and not extra else extra
        return f"postrand assess {file} --keys {keys}{extra}"
    if screen == "design":
        return "postrand design --plan plan.toml"
    if screen == "compare":
        pair = ",".join(dict.fromkeys(bench.names[j] for j in bench.pair if j < len(bench.names)))
        return f"postrand verify release\npostrand estimate release --table {shlex.quote(pair)}"
    share = f" --sampling-fraction {bench.fraction:g}" if bench.fraction else ""
    return f"postrand protect --plan plan.toml --out release --dossier dossier{share}\npostrand verify release"


def _place(path: Path, folder: Path) -> str:
    """Return the file's name if it is in the plan's folder, otherwise its whole path."""
    return path.name if path.parent.resolve() == folder.resolve() else str(path.resolve())


def _role_option(bench: Bench, role: str) -> str:
    held = [n for n, r in zip(bench.names, bench.roles, strict=True) if r == role]
    if not held:
        return ""
    named = ",".join(held) if len(held) <= 50 or role in ("key", "sensitive") else "*"
    option = "keys" if role == "key" else role
    return f"--{option} {shlex.quote(named)}"


def _table(family: str, name: str, bench: Bench) -> dict[str, Any]:
    kind = forms.member(family, name)
    return {"model": name, **forms.parse(kind, bench.form(family), family)}


def _of_record(table: dict[str, Any], blocks: int) -> dict[str, Any]:
    """Return the claim for a whole record: budgets add up over its blocks, other levels stay the same."""
    return {k: v * blocks if k in ("epsilon", "delta") else v for k, v in table.items()}
