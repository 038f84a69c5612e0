"""What the released records of a split are held against: which subset they show, and what is in its cells.

The subset is drawn without looking at the record, with the same probabilities π for all. So, whatever the true records:

- of any records that are told apart by something else, such as an unperturbed value, a share π_T shows T;
- the records that show T are released through its matrix, as those of a block are;
- where several subsets show a variable, the pairs of subset and released value have the law ``π_T L_T[a, b]``, with one
  distribution of the true values a for all of them. ``L_T[a, b]`` is the probability of the value b. It must be the
  same for all cells with the value a, as that of randomised response is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.mechanism.block import Block
from postrand.mechanism.margins import Floats, Table
from postrand.mechanism.split import Split

MAX_TABLE = 1 << 20
"""The most entries of a law of subsets and values together; a variable with more is not tested so."""


def split_tables(
    split: Split,
    codebook: Codebook,
    records: NDArray[np.int64],
    cells: Sequence[NDArray[np.int64]],
    among: Mapping[str, NDArray[np.int64]],
) -> list[Table]:
    """Return the tables of a split to test.

    ``records`` (T,) show each subset; ``cells[t]`` (K_t,) is what they show; ``among[name]`` (S, T) are the records
    that show each subset, for each value of a variable that is not in the split.
    """
    drawn = np.array([[subset.probability for subset in split.subsets]])
    tables = [Table("'subsets of the split'", (drawn,), records)]
    for name, counts in among.items():
        tables += [Table(f"'subsets of the split' by {name!r}", (drawn,), row) for row in counts if row.any()]
    tables += [Table(f"{b.name!r} of the split", (b.matrix,), n) for b, n in zip(split.blocks, cells, strict=True)]
    return [*tables, *_joined(split, codebook, int(records.sum()), cells)]


def _joined(split: Split, codebook: Codebook, records: int, cells: Sequence[NDArray[np.int64]]) -> Iterator[Table]:
    """Yield a table for each variable that several subsets show, where it is small enough."""
    probabilities = np.array([subset.probability for subset in split.subsets])
    for name in split.variables:
        size = codebook[name].size
        shows = [k for k, block in enumerate(split.blocks) if name in block.perturbed]
        if len(shows) < 2 or size * (size * len(shows) + 1) > MAX_TABLE or codebook[name].missing == "keep":
            continue
        laws = {k: _of_value(split.blocks[k], codebook, name) for k in shows}
        known = [k for k in shows if laws[k] is not None]
        if len(known) < 2:
            continue
        counts = [np.bincount(_codes(split.blocks[k], codebook, name), cells[k], size) for k in known]
        rest = records - int(sum(n.sum() for n in counts))
        law = [probabilities[k] * laws[k] for k in known]
        away = np.full((size, 1), max(0.0, 1.0 - float(probabilities[known].sum())))
        # A category that no cell has is that of no record.
        present = np.all([matrix.sum(axis=1) > 0 for matrix in law], axis=0)
        every, found = np.hstack([*law, away])[present], np.concatenate([*counts, [rest]]).astype(np.int64)
        yield Table(f"{name!r} in all subsets of the split", (every,), found)


def _codes(block: Block, codebook: Codebook, name: str) -> NDArray[np.int32]:
    cells = block.cell_table(tuple(codebook[n].size for n in block.variables))
    return np.asarray(cells[:, block.variables.index(name)])


def _of_value(block: Block, codebook: Codebook, name: str) -> Floats | None:
    """Return the probabilities (S, S) of the variable's released value given its true one; None if they vary."""
    codes, size = _codes(block, codebook, name), codebook[name].size
    given = block.matrix.times((codes[:, None] == np.arange(size)).astype(np.float64))
    first = np.zeros((size, size))
    first[codes] = given  # of several cells the last; all must be the same
    return first if np.abs(given - first[codes]).max() <= 1e-15 * len(codes) else None
