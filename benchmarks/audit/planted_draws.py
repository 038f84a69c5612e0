"""Planted defects of the draws: tables, words, cells, levels."""

import dataclasses
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from postrand.codebook import coding
from postrand.engines import units
from postrand.engines.cells import Cells
from postrand.engines.records import Perturber
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.mechanism.sampling import AliasTables, StayOrMove
from postrand.privacy import DifferentialPrivacy
from postrand.support.randomness import WordStream


@contextmanager
def replaced(owner, name, make):
    """Put ``make(original)`` in the place of a function or method."""
    with patch.object(owner, name, make(getattr(owner, name))):
        yield


def tables_of(change):
    """Build the alias tables of another matrix: ``change`` of its weights."""
    right = AliasTables.of

    def of(matrix):
        return right(TransitionMatrix(change(matrix.weights.copy())))

    return patch.object(AliasTables, "of", of)


def float_table():
    """Keep the thresholds of the tables in single precision."""
    right = AliasTables.of

    def of(matrix):
        tables = right(matrix)
        shift = np.uint64(11 + tables.bits)
        rounded = (tables.entries >> shift).astype(np.float32).astype(np.uint64) << shift
        return dataclasses.replace(tables, entries=rounded | tables.entries & (np.uint64(1) << shift) - np.uint64(1))

    return patch.object(AliasTables, "of", of)


def word_used_twice():
    """Draw the second block of each slot with the word of the first."""

    def make(right):
        def words(stream, first, slots=1):
            found = right(stream, first, slots)
            found[:, :, 1] = found[:, :, 0]
            return found

        return words

    return replaced(WordStream, "words", make)


def row_off_by_one():
    """Draw each true category by the row of the next one."""
    return tables_of(lambda weights: np.roll(weights, -1, axis=0))


def one_word_more():
    """Give one word of 2^53 too many to each category that a record can move to."""
    right = StayOrMove.of
    return patch.object(StayOrMove, "of", lambda law: StayOrMove(right(law).off + 1))


def nothing_drawn():
    """Release the true categories."""
    return tables_of(lambda weights: np.diag(np.full(len(weights), UNIT)))


def rows_for_columns():
    """Exchange rows and columns of the matrix."""
    return tables_of(lambda weights: weights.T)


def stratum_exchanged():
    """Draw each stratum by the matrix of the other."""

    def change(weights):
        half = len(weights) // 2
        places = np.roll(np.arange(len(weights)), half)
        return weights[np.ix_(places, places)]

    return tables_of(change)


def released_shifted():
    """Write the category after the one that was drawn."""

    def make(right):
        def codes(cells, drawn):
            return {
                name: (c + 1) % v.size
                for (name, c), v in zip(right(cells, drawn).items(), cells.variables, strict=True)
            }

        return codes

    return replaced(Cells, "codes", make)


def batch_restarted():
    """Begin the words anew with each batch of records."""

    def make(right):
        def perturb(laws, key, keys, codes, **options):
            return right(laws, key, keys - keys[0], codes, **options)

        return perturb

    return replaced(units, "perturb_codes", make)


def weight_leaks():
    """Let the last bits of a released weight tell a true value."""

    def make(right):
        def release(perturber, batch, keys):
            found, content = right(perturber, batch, keys)
            true = coding.encode(batch.column("sex"), perturber.codebook["sex"])
            at = found.schema.get_field_index("weight")
            moved = found.column("weight").to_numpy() * (1 + 2.0**-50 * true)
            return found.set_column(at, "weight", coding.from_numpy(moved)), content

        return release

    return replaced(Perturber, "release", make)


def order_kept():
    """Write the records in the order of the file."""
    return replaced(Perturber, "order", lambda _: lambda self, keys: np.stack([keys, keys], axis=1))


def missing_stays():
    """Perturb no missing value, though missing is a category."""

    def make(right):
        def perturb(laws, key, keys, codes, **options):
            last = [column == law.size - 1 for law, column in zip(laws, codes, strict=True)]
            true = [column.copy() for column in codes]
            found = right(laws, key, keys, codes, **options)
            for place in (i for i, law in enumerate(laws) if law.size == 5):
                found[place][last[place]] = true[place][last[place]]
            return found

        return perturb

    return replaced(units, "perturb_codes", make)


def level_halved():
    """Certify half of the level."""

    def make(right):
        def check(model, matrices):
            found = right(model, matrices)
            return dataclasses.replace(found, level=found.level / 2)

        return check

    return replaced(DifferentialPrivacy, "check", make)
