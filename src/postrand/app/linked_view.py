"""Linked variables: what the recogniser of ``postrand init`` proposes for them, where roles are decided."""

from __future__ import annotations

from typing import Any

from htmltools import Tag, tags

from postrand.app import documents
from postrand.app.decisions import Decisions
from postrand.app.notes import in_words
from postrand.app.widgets import button, cut
from postrand.engines.database import open_records
from postrand.plan.infer import is_nested
from postrand.risk.sample import Sampled, sampled
from postrand.support.showing import few, unshown
from postrand.workflow.linked import Proposed, proposed, set_aside

MAX_SAID = 12


def sample_of(decisions: Decisions) -> Sampled | None:
    """Return the records in which links are looked for; they depend on the file alone."""
    if decisions.opened is None:
        return None
    source = open_records(decisions.opened.path, documents.codebook_of(decisions))
    plain = [name for name in decisions.names if not is_nested(source.schema.field(name).type)]
    return sampled(source, plain, [])


def proposals(decisions: Decisions, sample: Sampled | None) -> Proposed | None:
    """Return what is proposed for linked variables with the current roles, as sentences; None without a file."""
    if decisions.opened is None or sample is None:
        return None
    usual = {"missing": "error", "notes": ()}
    drafts = [
        {**usual, **draft, "role": role} for draft, role in zip(decisions.opened.drafts, decisions.roles, strict=True)
    ]
    perturbed = [decisions.names[j] for j in decisions.perturbed]
    return proposed(sample, drafts, perturbed, (), set_aside(drafts))


def linked_card(decisions: Decisions, found: Proposed | None) -> Tag | None:
    """Return a card with the proposals, and a button that does what can be done here; None if there are none."""
    if found is None or not found.sentences:
        return None
    roles = zip(decisions.roles, found.drafts, strict=True)
    dropped = [j for j, (role, draft) in enumerate(roles) if draft["role"] == "drop" != role]
    parts: list[Any] = []
    more = unshown(len(found.sentences), MAX_SAID)
    parts += [tags.li(in_words(text)) for text in found.sentences[: len(found.sentences) - more]]
    parts += [tags.li(f"and {more:,} more: postrand init lists them")] if more else []
    drop = joint = None
    if dropped:
        words = f"Do not release {few([cut(decisions.names[j]) for j in dropped], MAX_SAID)}"
        drop = tags.div(button(words, "drop", ",".join(map(str, dropped))), class_="row")
    if found.joint:
        words = "To release variables together, choose it on the screen Design, under Released together."
        joint = tags.p(words, class_="soft")
    return tags.div(tags.h3("Linked variables"), tags.ul(*parts), drop, joint, class_="card")
