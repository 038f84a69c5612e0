"""The sections ``[privacy]`` and ``[split]`` of a tab's decisions, and the box of the level that they state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postrand.app.decisions import Decisions
from postrand.app.goals import DELTA, FILE, FROM_PLAN, RECORD, record_level, usual_delta
from postrand.errors import SpecificationError, sentence
from postrand.privacy import DifferentialPrivacy


def level_box(decisions: Decisions) -> tuple[str, str, str]:
    """Return the words, the key and the text of the box whose level the slider moves, where no model's own is it."""
    if decisions.asks == "file":
        return "ε of the file", FILE, decisions.values.get(FILE, "1")
    return (
        "ε of a record",
        RECORD,
        decisions.values.get(RECORD, record_level(decisions.values, len(_parts(decisions)))),
    )


def _parts(decisions: Decisions) -> Sequence[Any]:
    """Return what a record's level is the sum over: the blocks, or the variables that a split takes the place of."""
    return decisions.perturbed if decisions.splits else decisions.blocks


def delta_text(decisions: Decisions) -> str:
    """Return the text in the box of δ."""
    usual = usual_delta(0 if decisions.opened is None else decisions.opened.rows)
    return decisions.values.get(DELTA, f"{usual:g}")


def privacy(decisions: Decisions, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section ``[privacy]``: ``model`` is that of each block; budgets add up over blocks, not over subsets.

    Raises
    ------
    SpecificationError
        If the text of a box is not a number.
    """
    blocks = len(_parts(decisions))
    found: dict[str, Any] = {k: v * blocks if k in ("epsilon", "delta") else v for k, v in model.items()}
    if decisions.splits:
        found = {"model": DifferentialPrivacy.name}
    if decisions.asks == "shared":
        found = {"model": DifferentialPrivacy.name, "epsilon": _number(*level_box(decisions))}
    if decisions.splits and decisions.asks != "file":
        found["epsilon"] = _number(*level_box(decisions))
    if decisions.asks == "file":
        found = {"model": DifferentialPrivacy.name, "file_epsilon": _number(*level_box(decisions))}
    if decisions.asks in ("stated", "file"):
        found["delta"] = _number("δ", DELTA, delta_text(decisions))
    return found


def split(decisions: Decisions) -> dict[str, Any]:
    """Return the section ``[split]``: options of an opened plan that no form changes stay as they are."""
    held = dict(decisions.kept.get("split", {}))
    changed: dict[str, Any] = {}
    chosen = {"variables": [decisions.names[j] for j in decisions.perturbed], "core": list(decisions.shown_by_all)}
    for name, names in chosen.items():
        if {*held.get(name, ())} != {*names}:  # the order of an opened plan is kept
            changed[name] = names
    if "epsilon" in held and decisions.asks != "file":
        changed["epsilon"] = _number(*level_box(decisions))
    if decisions.workload != FROM_PLAN and decisions.workload != held.get("workload", "pairs"):
        changed["workload"] = decisions.workload
    if "prior" in held and decisions.prior != FROM_PLAN:
        changed["prior"] = decisions.prior
    if decisions.asks == "file":
        held.pop("epsilon", None)
    return {**held, **changed}


def _number(words: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        what = f"{words!r} cannot be read"
        got = repr(text) if text.strip() else "an empty box"
        raise SpecificationError(sentence(what, got=got, wanted="a number")) from None
