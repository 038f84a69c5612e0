"""Findings on columns that name persons or hold free text: which leave as they are, and which would be listed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from postrand.risk.finding import PLAN_STATES, PUBLISHED, Finding


def named(name: str, what: str, as_is: Collection[str], states: str = PLAN_STATES) -> Finding:
    """Return the finding on a column that names persons or holds free text; ``states`` begins what is decided."""
    said = f"; {states} that it is released as it is" if name in as_is else ""
    return Finding("names", (name,), (), f"{name} {what}{said}", is_open=name not in as_is, is_decided=name in as_is)


def key_as_it_is(name: str, as_is: Collection[str]) -> Finding:
    """Return the finding on a key without categories that leaves unperturbed; in ``as_is`` are those decided."""
    said = f"; {PLAN_STATES} that it is released as it is" if name in as_is else ""
    text = f"{name} is a key without categories and is released unperturbed: no figure of risk has it{said}"
    return Finding("key", (name,), (), text, is_open=name not in as_is, is_decided=name in as_is)


def published(names: Sequence[str], listed: Collection[str]) -> list[Finding]:
    """Return the findings on perturbed variables of free text, whose values a release lists; ``listed`` are decided."""
    parts = ([n for n in names if n not in listed], [n for n in names if n in listed])
    found = []
    for held, said in zip(parts, ("", f"; {PLAN_STATES} that they are listed"), strict=True):
        text = f"{PUBLISHED}: {', '.join(held)}{said}"
        found += [Finding("names", (), tuple(held), text, is_open=not said, is_decided=bool(said))] if held else []
    return found
