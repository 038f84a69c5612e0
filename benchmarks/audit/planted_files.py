"""Planted defects of units, splits, series, ranks, keys and pages."""

import dataclasses
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from benchmarks.audit.planted_draws import replaced

from postrand.codebook.not_released import code_of
from postrand.data.households import Renumbering
from postrand.engines import records, split_records, summary, unit_members
from postrand.engines.split_records import SplitDraws
from postrand.engines.unit_members import OneTally
from postrand.engines.units import BlockDraws
from postrand.release import bundle
from postrand.support import loops
from postrand.support.randomness import ReleaseKey
from postrand.workflow import pipeline, series


def members_alone():
    """Draw a household's variable for each member."""

    def make(right):
        def draw(draws, keys, held, positions):
            return right(draws, keys, {unit: (keys, np.ones(keys.size, dtype=bool)) for unit in held}, positions)

        return draw

    return replaced(BlockDraws, "draw", make)


def household_numbers_kept():
    """Release the household numbers of the file."""
    return replaced(Renumbering, "numbers", lambda _: lambda fresh, column: column)


def head_kept():
    """Release the true head of each household."""
    return replaced(OneTally, "_one", lambda _: lambda tally, part, head: np.array(head))


def first_member():
    """Let the first member of each household show the subset."""

    return replaced(unit_members, "_smallest", lambda right: lambda names, drawn, keys: right(names, keys, keys))


def _split(change):
    """Release a split by another function of the codes, with the unbroken one at hand."""
    return replaced(SplitDraws, "released", lambda right: lambda *given: change(right, *given))


@contextmanager
def subset_by_value():
    """Choose what a record shows by its own value."""
    held = {}

    def change(right, draws, key, keys, codes):
        held["true"] = codes["p"]
        return right(draws, key, keys, codes)

    def make(right):
        return lambda ends, words: np.where(held["true"] > 0, right(ends, words >> np.uint64(2)), right(ends, words))

    with _split(change), replaced(split_records, "chosen", make):
        yield


def blanks_filled():
    """Release the true value where a record does not show a variable."""

    def change(right, draws, key, keys, codes):
        made = right(draws, key, keys, codes)
        size = {v.name: code_of(v) for v in draws.cells.variables}
        return {name: np.where(found == size[name], codes[name], found) for name, found in made.items()}

    return _split(change)


@contextmanager
def unguarded():
    """Write what the program would refuse to write: its own checks of the counts stop most defects."""
    with patch.object(bundle, "check_margins", lambda *_: None), patch.object(summary, "require_same", lambda _: None):
        yield


def same_words():
    """Draw two files under one key with the same words."""
    return replaced(records, "derive", lambda right: lambda key, digest, content=b"": right(key, digest))


def ledger_forgets():
    """Count each wave as if its records were in no other."""

    def make(right):
        return lambda *given: dataclasses.replace(right(*given), disjoint="no record is in another release")

    return replaced(series, "_terms", make)


def ranks_kept():
    """Leave every second run of neighbours as it is."""

    def make(right):
        def shuffle(places, starts, words):
            kept = places.copy()
            right(places, starts, words)
            still = np.arange(places.size) // 5 % 2 == 0
            places[still] = kept[still]

        return shuffle

    return replaced(loops, "shuffle_runs", make)


def key_fixed():
    """Draw no new key."""
    return patch.object(ReleaseKey, "fresh", classmethod(lambda cls: cls(bytes(range(32)))))


@contextmanager
def report_leaks():
    """Note a true count in the report."""
    held = {}

    def opened(right):
        def call(plan):
            source = held["source"] = right(plan)
            return source

        return call

    def derive(right):
        def call(*given, **options):
            files = dict(right(*given, **options))
            count = sum(batch.column("sex").to_pylist().count("F") for batch in held["source"].batches(["sex"]))
            return files | {"report.html": files["report.html"] + f"<!-- {count} -->\n".encode()}

        return call

    with replaced(pipeline, "opened", opened), replaced(bundle, "derive", derive):
        yield
