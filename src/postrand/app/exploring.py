"""What the risk screen explores: class sizes, the part of each key, worst combinations, attackers, single records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from postrand.codebook import Codebook
from postrand.risk.exposure import Exposure, TrueFile
from postrand.risk.file import RiskFile, household_doubt
from postrand.risk.key_parts import KeyParts, key_parts
from postrand.risk.suda import Suda, problem, suda

MAX_SIZE = 4
"""Combinations of so many keys are searched at most."""
WORK = 150_000_000
"""So many cells are counted at most, over all combinations; of many keys, smaller combinations are searched."""
MOST_EXPOSED = 10


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """Hold what was found on the keys of a file as it is.

    ``search`` is None where combinations cannot be searched, and then ``why`` says the reason. ``doubt``: why the
    column of household numbers is probably none.
    """

    parts: KeyParts
    search: Suda | None
    why: str
    attacks: Exposure
    doubt: str | None = None


def explored(file: RiskFile, book: Codebook) -> Explored:
    """Explore the keys of a file that is read; no figure depends on the share of the population."""
    size = search_size(len(file.keys.names), file.cells.counts.size)
    why = problem(file.keys, size)
    search = suda(file.keys, size) if why is None else None
    ordered = [v.name for v in book.variables if v.ordered]
    attacks = TrueFile(file.keys, None, file.household).exposure()
    name = next((v.name for v in book.with_role("household")), "")
    doubt = None if file.household is None else household_doubt(file.household, name)
    return Explored(key_parts(file.cells, ordered), search, why or "", attacks, doubt)


def search_size(keys: int, cells: int) -> int:
    """Return how many keys the combinations have that can be searched without a wait, at most ``MAX_SIZE``.

    >>> search_size(3, 1000), search_size(10, 30_000), search_size(40, 100_000)
    (3, 4, 2)
    """
    size = min(MAX_SIZE, keys)
    while size > 1 and sum(math.comb(keys, k) for k in range(1, size + 1)) * cells > WORK:
        size -= 1
    return size


@dataclass(frozen=True, slots=True)
class Exposed:
    """One record for the eyes of a curator: its number in the file from 1, its key values, and what singles it out.

    ``alike`` records have its values, itself included; ``alone_on`` are the fewest keys that single it out.
    """

    number: int
    values: tuple[str, ...]
    alike: int
    alone_on: tuple[str, ...]

    def __repr__(self) -> str:
        return "Exposed(confidential)"  # never in a log or in the text of an error


def exposed(file: RiskFile, search: Suda | None, book: Codebook, most: int = MOST_EXPOSED) -> tuple[Exposed, ...]:
    """Return the most exposed records: those with the highest SUDA score, then those in the smallest classes."""
    alike = file.frequency()
    rank = alike.astype(np.float64) if search is None else np.where(search.score > 0, -search.score, alike)
    most = min(most, file.records)
    first = np.argpartition(rank, most - 1)[:most] if most else np.zeros(0, dtype=np.int64)
    labels = [book[name].code_labels for name in file.keys.names]
    found = []
    for i in first[np.lexsort((first, rank[first]))].tolist():
        codes = [int(column[i]) for column in file.keys.codes]
        values = [texts[code] if code < len(texts) else "(missing)" for texts, code in zip(labels, codes, strict=True)]
        place = -1 if search is None else int(search.first[i])
        alone_on = () if search is None or place < 0 else search.sets[place].names
        found.append(Exposed(i + 1, tuple(values), int(alike[i]), alone_on))
    return tuple(found)
