"""How a run is counted in ledgers: that of its key, and that of the population which its plan names."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from postrand.certification import Certificate
from postrand.certification.series import KINDS, rho_of
from postrand.engines.content import Content
from postrand.errors import SpecificationError, sentence
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.ledger_plan import LedgerPlan
from postrand.release.ledger import Charge, Ledger, Outlook, Terms, populations, stranger
from postrand.release.ledger_lines import Entry
from postrand.support.series_words import TWICE
from postrand.support.showing import few

UNCOUNTED = f"No ledger counts the releases of these persons. {TWICE}"
"""What is not guaranteed of a release that no ledger of its population counts."""
NOT_COUNTED = (
    f"{UNCOUNTED} To count them, name the same ledger in the section [ledger] of every plan of these people, or with "
    "--ledger FILE"
)
"""What the curator is told of such a release."""


def limits_of(certificate: Certificate) -> tuple[str, ...]:
    """Return what is not guaranteed: the limits of a certificate, and that no ledger counts the release."""
    return (*certificate.not_covered, *[UNCOUNTED] * (certificate.series is None))


def entry_of(plan: Plan, mechanism: Mechanism, certificate: Certificate, content: Content, name: str) -> Entry:
    """Return the entry of a release that is being made, by the ledger's terms of a first release."""
    level = certificate.level(mechanism)
    ranked = tuple(column.variable for column in mechanism.numerical)
    released = plan.codebook.with_role("key", "sensitive", "other", "weight", "household")
    treated = {*mechanism.variables, *ranked}
    return Entry.of(
        content,
        mechanism.digest(),
        math.inf if level.epsilon is None else level.epsilon,
        name,
        delta=level.delta,
        rho=rho_of(mechanism, certificate.account),
        units=_units(certificate.to_dict().get("units", {})),
        perturbed=tuple(mechanism.variables),
        ranked=ranked,
        clear=tuple(v.name for v in released if v.name not in treated),
    )


def _units(told: Any) -> dict[str, float]:
    """Return the ε of persons and households of the largest size, where the certificate states them."""
    return {unit: found["levels"][-1]["epsilon"] for unit, found in told.items() if found.get("levels")}


def counted_in(plan: Plan, ledger: Path | None) -> Plan:
    """Return the plan with another file of its population's ledger; without one, as it is."""
    if ledger is None:
        return plan
    held = LedgerPlan(ledger) if plan.ledger is None else dataclasses.replace(plan.ledger, file=ledger)
    return dataclasses.replace(plan, ledger=held)


def unknown_population(plan: Plan) -> str:
    """Return that the plan's ledger has other populations only, which the plan does not say; "" where all is clear."""
    if plan.ledger is None or plan.ledger.kind:
        return ""
    ledger = Ledger(plan.ledger.file)
    book, name = ledger.read(), _terms(plan.ledger, ledger).population or ""
    known = populations(book)
    return f"{ledger.path.name}: {stranger(book, name)}." if known and name not in known else ""


def as_new_population(plan: Plan) -> Plan:
    """Return the plan with the statement that its release is the first of its population."""
    if plan.ledger is None:
        return plan
    return dataclasses.replace(plan, ledger=dataclasses.replace(plan.ledger, kind=KINDS[0]))


def charges_of(plan: Plan, entry: Entry, of_key: Ledger | None, *, again: bool) -> list[Charge]:
    """Return the release's place in each ledger, first in that of the population; raises PrivacyError without room."""
    found = []
    if plan.ledger is not None:
        ledger = Ledger(plan.ledger.file)
        found.append(ledger.charge(entry, _terms(plan.ledger, ledger)))
        again = again or plan.ledger.kind not in ("", KINDS[0])  # the curator decided that by the kind
    if of_key is not None:
        found.append(of_key.charge(entry, Terms(again=again)))
    return found


def outlook_of(plan: Plan, mechanism: Mechanism, certificate: Certificate, name: str = "") -> Outlook | None:
    """Return what the ledger of the plan's population would say of the release; None where the plan names no ledger.

    The content has a digest under a release key only, so the release counts as one that was not made before.
    """
    if plan.ledger is None:
        return None
    entry, ledger = entry_of(plan, mechanism, certificate, Content(), name), Ledger(plan.ledger.file)
    return ledger.outlook(entry, _terms(plan.ledger, ledger))


def _terms(plan: LedgerPlan, ledger: Ledger) -> Terms:
    book = ledger.read()
    if not plan.population and len(known := populations(book)) > 1:
        what = "the ledger has several populations, and the plan names none of them"
        fix = f"say whose records these are: population = {json.dumps(known[0])} below [ledger], for example"
        raise SpecificationError(sentence(what, where=ledger.path.name, wanted=few(known), fix=fix))
    return Terms(
        population=plan.population or book.population or plan.file.stem,
        kind=plan.kind,
        limit=plan.limit,
        delta=plan.delta,
        disjoint=plan.disjoint,
        exception=plan.allow_infinite,
        raised=plan.raise_limit,
    )
