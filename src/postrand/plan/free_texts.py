"""Tell columns of free text, such as names and remarks, from columns of codes and labels, by their values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from postrand.plan.infer import MAX_CATEGORIES
from postrand.risk.singled import MAX_ALONE
from postrand.support.arrow import index_values

_SEVERAL_WORDS = r"\pL\S*\s+\S*\pL"
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def is_free_text(column: pa.ChunkedArray) -> bool:
    """Return whether most different texts of a column have several words, and they are too many to be labels.

    Too many are more than ``MAX_CATEGORIES``, or where more than ``MAX_ALONE`` of the records with a text are alone
    with it: records without a text do not count. Other types are no text.

    >>> is_free_text(pa.chunked_array([["Ada Bell", "Cy Dunn", None, "", "Eve Fox"]]))
    True
    >>> is_free_text(pa.chunked_array([["living alone", "living together", "other"] * 40]))
    False
    """
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_of(of) for is_of in _TEXTS):
        return False
    plain = column.cast(of) if pa.types.is_dictionary(column.type) else column
    counts = pc.value_counts(plain.filter(pc.not_equal(pc.utf8_trim_whitespace(plain), "")))
    texts, records = counts.field("values"), index_values(counts.field("counts"))
    several = pc.sum(pc.match_substring_regex(texts, _SEVERAL_WORDS)).as_py() or 0
    if 2 * several <= len(texts):
        return False
    return bool(len(texts) > MAX_CATEGORIES or (records == 1).sum() > MAX_ALONE * records.sum())
