"""Planted defects: each breaks one thing in the running program, and the audit has to find it.

A defect is a context manager that replaces one function of the package, or one and what it has to know. ``verify`` and
all measures are those of the unbroken program: whoever is given a release has that.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.audit import of_records, of_units
from benchmarks.audit import planted_draws as draws
from benchmarks.audit import planted_files as files
from benchmarks.audit.runs import Case


@dataclass(frozen=True, slots=True)
class Defect:
    """What is broken, ``plant``, and the case in which it is looked for, with ``copies``; None: two whole folders."""

    name: str
    plant: Callable
    case: Case | None
    copies: int | None = 10_000


DEFECTS = (
    Defect("a float table", draws.float_table, of_records.RESPONSE),
    Defect("one word for two blocks", draws.word_used_twice, of_records.RESPONSE),
    Defect("the row of the next category", draws.row_off_by_one, of_records.OWN_MATRIX),
    Defect("rows and columns exchanged", draws.rows_for_columns, of_records.OWN_MATRIX),
    Defect("released codes shifted", draws.released_shifted, of_records.RESPONSE),
    Defect("words begin anew with each batch", draws.batch_restarted, of_records.RESPONSE, 40_000),
    Defect("missing values stay missing", draws.missing_stays, of_records.RESPONSE),
    Defect("weights that leak", draws.weight_leaks, of_records.RESPONSE),
    Defect("the order of the file kept", draws.order_kept, of_records.RESPONSE),
    Defect("half of the level certified", draws.level_halved, of_records.OPTIMISED),
    Defect("the matrix of another stratum", draws.stratum_exchanged, of_records.STRATA),
    Defect("a household's variable drawn by member", files.members_alone, of_units.HOUSEHOLD),
    Defect("household numbers kept", files.household_numbers_kept, of_units.HOUSEHOLD),
    Defect("the true head released", files.head_kept, of_units.HEAD),
    Defect("the first member always shows", files.first_member, of_units.MEMBER),
    Defect("a subset chosen by the value", files.subset_by_value, of_records.SPLIT),
    Defect("true values for blanks", files.blanks_filled, of_records.SPLIT),
    Defect("the same words for two waves", files.same_words, of_units.SERIES),
    Defect("a ledger that forgets", files.ledger_forgets, of_units.SERIES),
    Defect("one word of 2^53 too many", draws.one_word_more, of_records.MANY),
    Defect("nothing is drawn", draws.nothing_drawn, dataclasses.replace(of_records.RECOGNITION, runs=30), 1),
    Defect("half of the ranks kept", files.ranks_kept, of_records.RANKS),
    Defect("one key for all releases", files.key_fixed, None),
    Defect("a report that leaks", files.report_leaks, None),
)
