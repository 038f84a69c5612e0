"""The codebook that advice starts from: a file of the curator's, or inferred with the roles that are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.codebook import Codebook
from postrand.engines.database import open_records
from postrand.errors import sentence
from postrand.plan import infer, numbering
from postrand.support import saving
from postrand.support.showing import few
from postrand.workflow.advice_refusals import RELEASED
from postrand.workflow.draft_roles import assign_roles, made_of

_ENTRY = "[[variables]]\n"


def codebook_for(
    file: Path, codebook: Path | None, roles: Mapping[str, Sequence[str]], settings: formats.ReadSettings
) -> tuple[formats.File, Codebook, list[str]]:
    """Return where the records are, their codebook, and sentences on what was assumed.

    Without a ``codebook`` it is inferred; a column that no role names is not released, and none that is named like a
    number of persons or households and got its role by '*'.

    Raises
    ------
    UsageError
        If a name is not a column, or has two roles.
    DataError
        If the file cannot be read, or does not show how it is read.
    """
    read_as = formats.detected(file, settings)
    place = formats.File(file, read_as)
    if codebook is not None:
        return place, infer.load_codebook(codebook), []
    source = open_records(formats.placed(file, read_as))
    drafts = infer.infer(source, roles=assign_roles(source.schema.names, roles, made_of(source)))
    named = {name for given in roles.values() for name in given}
    numbers = [
        d["name"] for d in drafts if d["role"] in RELEASED and d["name"] not in named and numbering.numbers_persons(d)
    ]
    drafts = [{**draft, "role": ""} if draft["name"] in numbers else draft for draft in drafts]
    left = [draft["name"] for draft in drafts if not draft["role"] and draft["name"] not in numbers]
    told = [f"not released, because no option names them: {few(left)}"] if left else []
    if numbers:
        fix = "give it the role --household or --record-key, or name it if its values are no such numbers"
        told.append(
            sentence(f"not released, because it seems to number or name persons or households: {few(numbers)}", fix=fix)
        )
    return place, Codebook.from_dict({"variables": [_entry(draft) for draft in drafts]}), told


def save(book: Codebook, path: Path) -> None:
    """Write a codebook that advice made, with the draft's comments on codes that can mean no answer."""
    book.save(path)
    head, *entries = path.read_text(encoding="utf-8").split(_ENTRY)
    notes = [infer.missing_note(v.categories, v.labels, v.missing_codes) for v in book.variables]
    noted = [f"# {note}\n{entry}" if note else entry for note, entry in zip(notes, entries, strict=True)]
    saving.write_whole(path, _ENTRY.join([head, *noted]).encode(), replace=True)


def _entry(draft: Mapping[str, Any]) -> dict[str, Any]:
    """Return a draft as an entry of a codebook: without notes, and dropped where it has no role."""
    entry = {name: value for name, value in draft.items() if name != "notes"}
    return {**entry, "role": draft["role"] or "drop"}
