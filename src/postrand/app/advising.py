"""The recommender in the workbench: what is asked of a plan, the plans that it gives, and the one that is taken."""

from __future__ import annotations

import dataclasses
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from postrand.app import documents, plans
from postrand.app.decisions import Decisions
from postrand.errors import UsageError, sentence
from postrand.plan.analyses import Use, analyses_of
from postrand.plan.policy import Policy, columns_of, policy_of
from postrand.workflow.advice import Advice, advise
from postrand.workflow.advice_needs import Attacker, Needs, Precision, needs_from
from postrand.workflow.advice_refusals import unanswerable
from postrand.workflow.epsilon import DEFAULT_EPSILON

PREFIX = "advice."
"""How the texts of its form begin among all that is typed."""
LIMITS = {
    "correct_matches": "Correct matches, at most",
    "tau2": "τ2, at most",
    "individual_risk": "Largest risk of one person, at most",
}
"""The limits on risk that have a box, by the measure that they name."""


def typed(decisions: Decisions) -> dict[str, str]:
    """Return what is typed in the form."""
    return {k.removeprefix(PREFIX): v.strip() for k, v in decisions.texts.items() if k.startswith(PREFIX)}


def needs_of(texts: Mapping[str, str], policy: Policy | None = None, named: Sequence[str] = ()) -> Needs:
    """Return what the form asks, with the ``policy`` of the opened plan, and what it says that analysts will do.

    >>> [str(one) for one in needs_of({"epsilon": "2", "tau2": "5", "points": "3", "first": "sex"}).limits]
    ['epsilon <= 2', 'tau2 <= 5']

    Raises
    ------
    UsageError
        With every box that cannot be read.
    """
    limits = [f"epsilon <= {texts.get('epsilon') or DEFAULT_EPSILON}"]
    limits += [f"{name} <= {texts[name]}" for name in LIMITS if texts.get(name)]
    uses = [use for use in get_args(Use) if texts.get(f"use.{use}", "true" if use == "tables" else "") == "true"]
    attacker = texts.get("attacker", get_args(Attacker)[0])
    found = needs_from(attacker, limits, [*uses, *named], look=texts.get("look") == "true", policy=policy)
    table = tuple(dict.fromkeys(texts[name] for name in ("first", "second") if texts.get(name)))
    if not texts.get("points") or not table:
        return found
    try:
        points = float(texts["points"])
    except ValueError:
        points = 0.0
    if not 0 < points < 50:
        wanted = "a number of percentage points from 0 to 50"
        raise UsageError(sentence("the precision of a table cannot be this", got=repr(texts["points"]), wanted=wanted))
    return dataclasses.replace(found, precisions=(Precision(points, table),))


def also_perturbed(decisions: Decisions) -> tuple[str, ...]:
    """Return the columns that are no keys, and that the person has decided to perturb: recommended plans do so too."""
    return tuple(decisions.names[j] for j in decisions.perturbed if decisions.roles[j] != "key")


def advised(decisions: Decisions, folder: Path) -> Advice:
    """Return two to four complete plans for what the form asks; they are written into the private ``folder``.

    Raises
    ------
    PostrandError
        If roles are missing, the form cannot be read, or no plan is possible.
    """
    assert decisions.opened is not None
    if decisions.unset:
        raise UsageError(sentence("some variables have no role", fix="choose a role for each on the first screen"))
    book = documents.codebook_of(decisions)
    section = decisions.kept.get("policy")
    models = analyses_of(decisions.kept.get("analysts"), book, "the opened plan [analysts]")
    named = [str(one) for one in models if not any(unanswerable(book, one))]
    policy = policy_of(section, folder, "the opened plan [policy]", columns_of(book))
    needs = needs_of(typed(decisions), policy, named)
    needs = dataclasses.replace(needs, perturb_also=also_perturbed(decisions))
    for old in folder.glob(".advice-*"):
        shutil.rmtree(old, ignore_errors=True)
    out = folder / f".advice-{secrets.token_hex(4)}"
    return advise(decisions.opened.path, book, needs, out, fraction=decisions.fraction)


def taken(decisions: Decisions, found: Advice, number: int, folder: Path) -> Decisions:
    """Return the decisions of one of the plans, from 1; the file, its share, the policy and texts stay.

    Raises
    ------
    UsageError
        If there is no such plan.
    """
    assert decisions.opened is not None
    if not 1 <= number <= len(found.plans):
        raise UsageError(sentence("there is no such plan", got=number))
    made = plans.open_plan(found.plans[number - 1].path, folder)
    assert made.opened is not None
    opened = dataclasses.replace(made.opened, name=decisions.opened.name, is_demo=decisions.opened.is_demo)
    rules = {"policy": decisions.kept["policy"]} if "policy" in decisions.kept else {}
    kept = {**made.kept, **rules}
    return dataclasses.replace(made, opened=opened, fraction=decisions.fraction, texts=decisions.texts, kept=kept)
