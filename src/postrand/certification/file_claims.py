"""Bind claims to the file: for models that depend on its confidential frequencies, in a run and in an audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from postrand.certification.certificate import Claim, blocks_of
from postrand.data.table import ContingencyTable
from postrand.errors import PrivacyError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.privacy import KeyTypes, needs_file, split_problems

Count = Callable[[Sequence[str]], ContingencyTable]
"""Count the records of the file by the categories of these variables."""


def tie(claims: Iterable[Claim], mechanism: Mechanism, count: Count) -> tuple[Claim, ...]:
    """Return the claims; those that need the file are bound to its frequencies of the blocks that they cover.

    A claim on several blocks is about the product of their domains; blocks on listed cells are covered one at a time.

    Raises
    ------
    PrivacyError
        If no matrix can meet a model on this file, or a claim covers several blocks on listed cells, or a split.
    """
    return tuple(_tied(claim, mechanism, count) if needs_file(claim.privacy) else claim for claim in claims)


def _tied(claim: Claim, mechanism: Mechanism, count: Count) -> Claim:
    if not claim.variables:
        claim = dataclasses.replace(claim, variables=mechanism.listed)
    if set(claim.variables).intersection(mechanism.partly):
        raise_all(PrivacyError, split_problems(claim.privacy, claim.variables))
    blocks = blocks_of(claim, mechanism)
    if len(blocks) > 1 and any(block.cells is not None for block in blocks):
        what = f"{claim.privacy.name!r} cannot be computed over several blocks if one lists its cells"
        fix = "claim it for one block, with all keys in it"
        raise PrivacyError(sentence(what, where=", ".join(claim.variables), fix=fix))
    assert needs_file(claim.privacy)
    table = count([name for block in blocks for name in block.variables])
    types = KeyTypes.of_table(table, blocks[0].cells, blocks[0].given)
    return dataclasses.replace(claim, privacy=claim.privacy.on(types))
