"""Decisions as documents: a codebook, a plan and a command line with the same result as the workbench."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from postrand.app import forms, goals, houses, levels
from postrand.app.decisions import Decisions
from postrand.codebook import Codebook
from postrand.errors import SpecificationError, raise_all, sentence
from postrand.formats import File, path_of
from postrand.plan import writing
from postrand.risk.measures import kinds
from postrand.support.showing import few

MAX_NAMED = 5
_RECODE = "postrand recode codebook.toml"
_EDITED = (
    *("source", "privacy", "design", "release", "split", "blocks", "rules", "recodes", "survey"),
    *("whole", "perturbed", "chosen_with"),
)
"""What the forms decide of a plan; any other section of an opened plan is written as it was."""

_OF_CODEBOOK = ("rules", "recodes", "survey")
"""What the forms do not decide of a codebook."""


def codebook_toml(decisions: Decisions) -> str:
    """Return the codebook of the file with the current roles."""
    if decisions.opened is None:
        return ""
    pairs = zip(decisions.opened.drafts, decisions.roles, strict=True)
    text = writing.codebook_text({**draft, "role": role} for draft, role in pairs)
    more = {name: decisions.kept[name] for name in _OF_CODEBOOK if decisions.kept.get(name)}
    return text + "\n" + tomlkit.dumps(more) if more else text


def codebook_of(decisions: Decisions) -> Codebook:
    """Return the codebook; a variable without a role has the role ``drop`` until it gets one."""
    assert decisions.opened is not None
    entries = [
        {k: v for k, v in draft.items() if k != "notes"} | {"role": role or "drop"}
        for draft, role in zip(decisions.opened.drafts, decisions.roles, strict=True)
    ]
    more = {name: decisions.kept.get(name, []) for name in _OF_CODEBOOK}
    return Codebook.from_dict({"variables": entries, **more})


def plan_data(decisions: Decisions, folder: Path) -> dict[str, Any]:
    """Return the plan as plain data, for a plan in ``folder``; raises SpecificationError with the missing parts."""
    raise_all(SpecificationError, problems(decisions))
    assert decisions.opened is not None
    kept = {name: part for name, part in decisions.kept.items() if name not in _EDITED}
    if "unit" in kept and (section := houses.unit(decisions)) is None:
        del kept["unit"]
    elif "unit" in kept:
        kept["unit"] = section
    listed = [decisions.names[j] for j in decisions.perturbed if decisions.names[j] in decisions.listed]
    return {
        "source": _source(decisions.opened.path, folder) | _share(decisions),
        **{name: kept.pop(name) for name in ("engine", "metadata") if name in kept},
        **_designed(decisions),
        "release": {
            **decisions.kept.get("release", {"release_ids": False}),
            "format": decisions.format,
            "shuffle": decisions.shuffle,
            **({"as_is": list(decisions.decided)} if decisions.decided else {}),
            **({"listed": listed} if listed else {}),
            **({} if decisions.completed is None else {"completed": decisions.completed}),
        },
        **kept,
    }


def _designed(decisions: Decisions) -> dict[str, Any]:
    """Return the sections that say what is perturbed and how; an opened plan's own design is written as it was."""
    if decisions.is_of_plan:
        return dict(decisions.kept["whole"])
    each = _table("privacy", decisions.model, decisions) if not decisions.splits else {}
    if decisions.splits:
        last: dict[str, Any] = {"split": levels.split(decisions)}
    else:
        last = {"blocks": _blocks(decisions, each)}
    chosen = {"chosen_with": decisions.kept["chosen_with"]} if "chosen_with" in decisions.kept else {}
    return {"privacy": levels.privacy(decisions, each), "design": {**_design(decisions), **chosen}, **last}


def _design(decisions: Decisions) -> dict[str, Any]:
    """Return ``[design]``; of a split it says no more than the prior, which an opened plan may have said elsewhere.

    That an opened plan was chosen with the file stays true of what was made of it.
    """
    held = decisions.kept.get("design", {})
    looked = {name: held[name] for name in ("chosen_with",) if name in held}
    if decisions.splits:
        return dict(held) if decisions.prior == goals.FROM_PLAN else {"prior": decisions.prior, **looked}
    return {
        **looked,
        "objective": _table("objective", decisions.objective, decisions),
        "structure": _table("structure", decisions.structure, decisions),
        "prior": "uniform" if decisions.prior == goals.FROM_PLAN else decisions.prior,
    }


def _blocks(decisions: Decisions, each: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks; where they share a level, none has one of its own."""
    own = {} if decisions.divides else {"privacy": each}
    return [
        {"variables": list(one.variables), **({"given": list(one.given)} if one.given else {}), **own}
        for one in decisions.blocks
    ]


def plan_toml(decisions: Decisions, folder: Path) -> str:
    """Return the plan as TOML, for ``postrand protect``."""
    data = plan_data(decisions, folder)
    document = tomlkit.document()
    document.add(tomlkit.comment("Run it with: postrand protect --plan plan.toml --out release"))
    lists = ("blocks", "numerical")  # their tables are short, and stand after all sections
    for name, part in data.items():
        if name not in lists:
            document.add(tomlkit.nl())
            document[name] = writing.split_of(part) if name in ("split", "privacy", "design") else part
    for name in lists:
        if name in data:
            document[name] = writing.blocks_of(data[name])
    text = tomlkit.dumps(document)
    assert tomllib.loads(text) == data
    return text


def write(decisions: Decisions, folder: Path) -> Path:
    """Write codebook and plan into a folder, and return the path of the plan; raises as :func:`plan_data`."""
    plan = plan_toml(decisions, folder)  # first: if it cannot be made, nothing is written
    (folder / "codebook.toml").write_text(codebook_toml(decisions), encoding="utf-8")
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    return folder / "plan.toml"


def problems(decisions: Decisions) -> list[str]:
    """Return a sentence for each decision that is missing before the plan can run."""
    if decisions.opened is None:
        return [sentence("no file is open", fix="open a file on the first screen")]
    found = []
    if decisions.unset:
        named = few([decisions.names[j] for j in decisions.unset], MAX_NAMED)
        found.append(
            sentence(f"variables without a role: {named}", fix="choose a role for each variable on the first screen")
        )
    if not decisions.perturbed:
        found.append(
            sentence("no variable is perturbed", fix="choose the role key for at least one variable with categories")
        )
    return found


def commands(decisions: Decisions, screen: str) -> str:
    """Return the command lines with the same result as a screen."""
    if decisions.opened is None:
        return "postrand init FILE"
    place = decisions.opened.path
    settings = place.settings.to_dict() if isinstance(place, File) else {}
    file = " ".join(
        [shlex.quote(decisions.opened.name), *(f"--{name} {shlex.quote(text)}" for name, text in settings.items())]
    )
    if screen == "data":
        roles = [_role_option(decisions, role) for role in ("key", "sensitive", "other", "drop")]
        lines = " \\\n  ".join([f"postrand init {file}", *(r for r in roles if r)])
        if not decisions.kept.get("recodes"):
            return lines
        return (
            f"{lines}\n# put the [[recodes]] of the screen Download into codebook.toml, then:\n{_RECODE} {file} --write"
        )
    if screen == "risk":
        keys = shlex.quote(",".join(decisions.keys) or "A,B")
        weight = next((n for n, r in zip(decisions.names, decisions.roles, strict=True) if r == "weight"), None)
        extra = f" --sampling-fraction {decisions.fraction:g}" if decisions.fraction else ""
        extra = f" --weight {shlex.quote(weight)}" if weight and not extra else extra
        line = f"postrand assess {file} --keys {keys}{extra}"
        long = [f"{line} --measure {kind.name}  # minutes" for kind in kinds().values() if kind.cost == "long"]
        return "\n".join([line, *(long if extra else ())])
    if screen == "design":
        return "postrand design --plan plan.toml"
    if screen == "compare":
        pair = ",".join(dict.fromkeys(decisions.names[j] for j in decisions.pair if j < len(decisions.names)))
        return f"postrand verify release\npostrand estimate release --table {shlex.quote(pair)}"
    return "postrand protect --plan plan.toml --out release --dossier dossier\npostrand verify release"


def _source(place: Path | File, folder: Path) -> dict[str, str]:
    settings = place.settings.to_dict() if isinstance(place, File) else {}
    return {"file": _place(path_of(place), folder), "codebook": "codebook.toml", **settings}


def _share(decisions: Decisions) -> dict[str, float]:
    """Return the share of the population, as an option of ``[source]``; a file with weights has none."""
    share = decisions.fraction
    return {} if share is None or "weight" in decisions.roles else {"sampling_fraction": share}


def _place(path: Path, folder: Path) -> str:
    """Return the file's name if it is in the plan's folder, otherwise its whole path."""
    return path.name if path.parent.resolve() == folder.resolve() else str(path.resolve())


def _role_option(decisions: Decisions, role: str) -> str:
    held = [n for n, r in zip(decisions.names, decisions.roles, strict=True) if r == role]
    if not held:
        return ""
    named = ",".join(held) if len(held) <= 50 or role in ("key", "sensitive") else "*"
    option = "keys" if role == "key" else role
    return f"--{option} {shlex.quote(named)}"


def _table(family: str, name: str, decisions: Decisions) -> dict[str, Any]:
    kind = forms.member(family, name)
    return {"model": name, **forms.parse(kind, decisions.form(family), family)}
