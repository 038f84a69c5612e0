"""What a plan says of the series that its release belongs to: the section ``[ledger]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.certification.series import KINDS
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, has_controls

NAMES = ("file", "population", "kind", "limit", "delta", "disjoint", "reason", "allow_infinite", "raise_limit")


@dataclass(frozen=True, slots=True)
class LedgerPlan:
    """Count the release in the ledger ``file`` as one of ``population``; without a name, of the one that it has.

    ``kind`` says what the release is, "" for the first. ``limit`` is the largest total ε; with ``delta``, of the total
    at this δ (:meth:`postrand.certification.series.Level.at`). ``disjoint`` is the reason why no record is in an
    earlier release, ``allow_infinite`` why a release without a finite level is made, ``raise_limit`` why limits that
    earlier releases stated may be passed, or "".
    """

    file: Path
    population: str = ""
    kind: str = ""
    limit: float | None = None
    delta: float | None = None
    disjoint: str = ""
    allow_infinite: str = ""
    raise_limit: str = ""


def ledger_of(section: Any, folder: Path, where: str) -> LedgerPlan | None:
    """Return what ``[ledger]`` of a plan says, its file relative to the plan's folder; None without the section.

    Raises
    ------
    SpecificationError
        With all problems of the section.

    Examples
    --------
    >>> ledger_of({"file": "p.ledger", "population": "households", "limit": 12}, Path("/a"), "[ledger]").limit
    12.0
    """
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise SpecificationError(sentence("expected a table", where=where, fix='write file = "population.ledger"'))
    raise_all(SpecificationError, list(_problems(section, where)))
    texts = {name: str(section.get(name, "")) for name in ("population", "kind", "allow_infinite", "raise_limit")}
    limit, delta = (None if name not in section else float(section[name]) for name in ("limit", "delta"))
    disjoint = section["reason"] if section.get("disjoint") else ""
    return LedgerPlan(folder / section["file"], limit=limit, delta=delta, disjoint=disjoint, **texts)


def _problems(section: Mapping[str, Any], where: str) -> Any:
    for name in section:
        if name not in NAMES:
            hint = nearest(shown(name), NAMES)
            yield sentence(f"unknown option {shown(name, repr)}{hint}", where=where, wanted=", ".join(NAMES))
    for name in ("file", "population", "reason", "allow_infinite", "raise_limit"):
        text = section.get(name)
        if (text is None and name != "file") or (isinstance(text, str) and _is_name(text)):
            continue
        what = f"{name!r} is missing" if text is None else f"{name!r} is not a name or a reason in words"
        yield sentence(what, where=where, fix=f'set {name} = "..."')
    if section.get("kind", KINDS[0]) not in KINDS:
        yield sentence("unknown 'kind'", where=where, got=shown(section["kind"], repr), wanted=", ".join(KINDS))
    if "limit" in section and not finite(section["limit"]) > 0:
        yield sentence("'limit' is not a positive number", where=where, got=shown(section["limit"], repr))
    if "delta" in section and not 0 < finite(section["delta"]) < 1:
        yield sentence("'delta' is outside its range", where=where, got=shown(section["delta"], repr), wanted="(0, 1)")
    elif "delta" in section and "limit" not in section:
        yield sentence("'delta' is given without the limit that it belongs to", where=where, fix="set limit")
    disjoint = section.get("disjoint", False)
    if not isinstance(disjoint, bool):
        yield sentence("'disjoint' is not true or false", where=where, got=shown(disjoint, repr))
    elif disjoint != ("reason" in section):
        what = "'disjoint = true' and a 'reason' belong together"
        yield sentence(what, where=where, fix='write disjoint = true and reason = "a fresh sample of other persons"')


def _is_name(text: str) -> bool:
    return bool(text.strip()) and not has_controls(text)
