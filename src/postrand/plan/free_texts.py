"""Tell columns that name or number persons, or hold free text such as remarks, from columns of codes and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.plan.infer import MAX_CATEGORIES, MEANT
from postrand.plan.numbering import LEAST_NUMBERS, numbers_persons, parts_of_name
from postrand.support.arrow import from_texts, index_values
from postrand.support.measure_names import MAX_ALONE

NAMING = "seems to name or number persons or households"
TEXTS = "holds free text, which can name persons"
HOLDING = "free text or remarks, which can name persons"
"""What is said of the names of such columns."""
NOTE = f"holds {HOLDING}: role = 'drop'; as a key, it would publish its texts"
"""The note on such a column, which gets no role by '*'."""
_REMARKS = frozenset(
    (
        "remark", "remarks", "memo", "freetext", "bemerkung", "bemerkungen",
        "kommentar", "kommentare", "anmerkung", "anmerkungen", "freitext", "remarque", "remarques", "commentaire",
        "commentaires", "observaciones", "comentario", "comentarios", "osservazioni", "opmerking", "opmerkingen",
    )
)  # fmt: skip
"""Words of names of columns for remarks."""
_PERHAPS = frozenset(("comment", "comments", "note", "notes"))
"""Words that name remarks or something else: grades are ``Noten``, and ``comment`` is *how*."""
_WORD, _SEVERAL_WORDS = r"\pL{2}", r"\pL\S*\s+\S*\pL"
_SENTENCE = r"\pL\S*\s+\S*\pL\S*\s+\S*\pL"
_PHONE = (
    r"(?:^|[^\pL])(?:tel|phone|telephone|telefon|telefono|teléfono|telefoon|tél|téléphone|mobile|handy|fax)"
    r"\b[.:]?\s*(?:(?:no|nr|number)\b)?[.:]?\s*[+(]*\d(?:[\s/().-]*\d){2,}"
)
_NUMBER = r"(?i)\pL\S*\s+(?P<what>\S*\pL\S*)\s+(?:no\.|nr\.?|n[°º]|№)\s*\d"
_STREET = (
    r"(?:\pL[\pL.-]*\s+|[\pL.-]*(?:[^iu\s\d]|[^gn\s\d]i|[^d\s\d]u))"  # not short for an industry or a ministry
    r"(?:str\.?|stra(?:ß|ss)e|street|straat|gasse|avenue)\s*\d"
    r"|\d+\pL?,?\s+\pL[\pL.-]*\s+(?:street|str\.|straat|avenue)(?:$|[^\pL])"
    r"|(?:^|\s)(?:rue|calle|avenida)\s+(?:\pL\S*\s+){1,3}\d|\d+,?\s+rue\s+\pL"
)
_POINTING = f"(?i){_PHONE}|{_STREET}"
"""Digits beside a word for a telephone or a street: one such text points to somebody."""
_HINT = r"(?i)(?:t[eé]l|phone|mobile|handy|fax|str|gasse|avenue|avenida|rue|calle|no\.|nr|n[°º]|№)"
"""What every such text has, beside a digit: found at once, where the whole patterns take 6 ms to be compiled."""
_RECORDS_A_LABEL = 20
"""Long lists of labels, of occupations for example, have so many records for each on average."""
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def is_free_text(column: pa.ChunkedArray, name: str = "", least: int = _RECORDS_A_LABEL) -> bool:
    """Return whether a column holds remarks, by its name, or texts that point to somebody, or that are no labels.

    They are no labels if most different texts have several words, and more than ``MAX_ALONE`` of the records with a
    text are alone with it, or there are more than ``MAX_CATEGORIES`` texts of fewer than ``least`` records on average.
    With a ``least`` of 2, for perturbed variables: if there are fewer records than that for each. Records without a
    text do not count. Other types are no text.

    >>> is_free_text(pa.chunked_array([["Ada Bell", "Cy Dunn", None, "", "Eve Fox"]]))
    True
    >>> is_free_text(pa.chunked_array([["living alone", "living together", "other"] * 40]))
    False
    >>> is_free_text(pa.chunked_array([["see Bell family no. 12", "other"] * 40]))
    True
    """
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_of(of) for is_of in _TEXTS):
        return False
    counts = pc.value_counts(column.drop_null())
    texts = counts.field("values")
    texts = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    is_text = pc.utf8_length(pc.utf8_trim_whitespace(texts)).cast(pa.bool_())
    texts, records = texts.filter(is_text), index_values(counts.field("counts").filter(is_text))
    if _are_remarks(name, texts) or _points(texts):
        return True
    if 2 * _number(texts, _SEVERAL_WORDS) <= len(texts):
        return False
    few = records.sum() < least * len(texts)
    if least < _RECORDS_A_LABEL:
        return bool(few)
    return bool((len(texts) > MAX_CATEGORIES and few) or (records == 1).sum() > MAX_ALONE * records.sum())


def is_remark(name: str) -> bool:
    """Return whether a column is named like one of remarks.

    Words such as ``note`` name other things as well, and are not among these.

    >>> [is_remark(name) for name in ("remark", "Q7_Bemerkungen", "free-text", "freeText2", "notebook", "text")]
    [True, True, True, True, False, False]
    """
    parts = parts_of_name(name)
    return not _REMARKS.isdisjoint(parts) or ("free", "text") in pairwise(parts)


def _are_remarks(name: str, texts: pa.Array) -> bool:
    """Return whether the different texts of a column are remarks, by its name; what is called a note can be a grade."""
    if is_remark(name):
        return _has(texts, _WORD)
    return not _PERHAPS.isdisjoint(parts_of_name(name)) and 2 * _number(texts, _SENTENCE) > len(texts)


def _points(texts: pa.Array) -> bool:
    """Return whether one of different texts points to somebody.

    Digits behind ``no.`` do too, but not where several texts number the same: ``Bus line no. 12, Tram line no. 4``.
    """
    near = _with(_with(texts, "[0-9]"), _HINT)
    if not len(near):
        return False
    if _has(near, _POINTING):
        return True
    numbered = pc.struct_field(pc.extract_regex(near, _NUMBER), "what").drop_null()
    return bool((index_values(pc.value_counts(pc.utf8_lower(numbered)).field("counts")) == 1).any())


def lists_texts(variable: Mapping[str, Any]) -> bool:
    """Return whether the categories or labels of a variable are remarks, or point to somebody: a release lists them."""
    listed = from_texts([c for c in variable.get("categories") or () if isinstance(c, str)])
    labels = from_texts([*map(str, variable.get("labels") or ())])
    return _are_remarks(variable["name"], listed) or _points(listed) or _points(labels)


def identifying(column: pa.ChunkedArray, variable: Mapping[str, Any]) -> str:
    """Return what is said of a column that names or numbers persons by its name, or holds free text; or nothing.

    A household's members share a surname, and most records have no remark: such a column singles out few records.
    ``variable`` is what a codebook says of it, its name at least.
    """
    if numbers_persons(variable) and len(_plain(column).unique()) >= LEAST_NUMBERS:
        return NAMING
    return TEXTS if lists_texts(variable) or is_free_text(column, variable["name"]) else ""


def perturbed_texts(column: pa.ChunkedArray | None, variable: Mapping[str, Any]) -> bool:
    """Return whether a perturbed variable holds free text: its values would be published in the codebook.

    ``column`` are its values in the file, None where these are not at hand.
    """
    return lists_texts(variable) or (column is not None and is_free_text(column, variable["name"], 2))


def with_texts(table: pa.Table, drafts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the drafts, with a note on those that hold free text: whose values mean no "no answer" either."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return [_noted(draft) if _holds_text(columns.get(draft["name"]), draft) else draft for draft in drafts]


def _holds_text(column: pa.ChunkedArray | None, draft: Mapping[str, Any]) -> bool:
    if column is None or draft["role"] in ("drop", "weight", "household", "record_key"):
        return False
    if draft["role"] == "key":
        return perturbed_texts(column, draft)
    return lists_texts(draft) or is_free_text(column, draft["name"])


def _noted(draft: dict[str, Any]) -> dict[str, Any]:
    kept = [note for note in draft["notes"] if not note.startswith(MEANT)]
    return {**draft, "notes": [*kept, NOTE]}


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _has(texts: pa.Array, pattern: str) -> bool:
    return len(_with(texts, pattern)) > 0


def _number(texts: pa.Array, words: str) -> int:
    """Return how many texts have several words, as a pattern tells them: only those with a space are looked at."""
    return len(_with(_with(texts, r"\S\s+\S"), words))


def _with(texts: pa.Array, pattern: str) -> pa.Array:
    """Return the texts with a pattern; where there is no text it is not compiled, which takes 3 ms with letters."""
    return texts.filter(pc.match_substring_regex(texts, pattern)) if len(texts) else texts
