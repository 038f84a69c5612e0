"""Codes that mean "no answer", or look so: by their text or label, or as numbers beside those of a scale."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

NO_ANSWER = frozenset(
    (
        "", ".", "-", "?", "*", "blank", "dk", "dk/na", "don't know", "dont know", "do not know", "iap", "inap",
        "inapplicable", "missing", "n.a.", "n/a", "na", "nan", "nap", "no answer", "no response", "none given",
        "not applicable", "not asked", "not available", "not in universe", "not reported", "not stated", "niu", "null",
        "refusal", "refused", "unknown", "won't say",
        # German
        "entfällt", "k. a.", "k.a.", "keine angabe", "keine antwort", "nicht beantwortet", "nicht zutreffend",
        "ohne angabe", "trifft nicht zu", "unbekannt", "verweigert", "weiss nicht",
        # French
        "inconnu", "inconnue", "ne sait pas", "non concerné", "non déclaré", "non réponse", "non renseigné",
        "pas de réponse", "refus", "sans objet", "sans réponse",
        # Spanish, Portuguese and Italian
        "desconocido", "no aplica", "no consta", "no contesta", "no procede", "no responde", "no sabe", "ns/nc",
        "sin respuesta", "não respondeu", "não responde", "não sabe", "não se aplica", "non applicabile",
        "non disponibile", "non indicato", "non risponde", "non sa", "non so",
        # Dutch and Scandinavian
        "geen antwoord", "geen opgave", "n.v.t.", "niet van toepassing", "onbekend", "weet niet", "ej svar",
        "ikke oppgitt", "uoppgitt", "uppgift saknas", "ved ikke", "vet ej", "vet ikke",
        # Polish and Czech
        "brak danych", "brak odpowiedzi", "nie dotyczy", "nie wiem", "odmowa", "neuvedeno", "neví",
    )
)  # fmt: skip
"""Texts and labels that mean "no answer", casefolded: ß is ss."""
NOT_ASKED = frozenset(
    (
        "does not apply", "iap", "inap", "inapplicable", "n.v.t.", "nap", "nicht zutreffend", "nie dotyczy",
        "niet van toepassing", "niu", "no aplica", "no procede", "non applicabile", "non concerné", "not applicable",
        "not asked", "not in universe", "não se aplica", "sans objet", "trifft nicht zu",
    )
)  # fmt: skip
"""Labels of those whom a question does not concern: a fact about them, which another variable tells, no lost answer."""
NO_ANSWER_CODES = frozenset((7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 7777, 8888, 9997, 9998, 9999))
_WORDS = NO_ANSWER - {"", ".", "-", "?", "*"}
LEAST_GAP = 3
"""So far from the other codes lie 7, 8 and 9 that mean no answer: two codes at least are not used."""
LEAST_VALUES = 3
"""So many values beside the codes make a scale, of which somebody takes a mean."""


def looks_missing(categories: Sequence[Any], labels: Sequence[str]) -> list[Any]:
    """Return the categories that look like codes for "no answer": by their text or label, or as outlying numbers.

    A code whose label means something else is none; nor are 7, 8 and 9 without a gap before them.

    >>> looks_missing([1, 2, 3, 4, 8, 9], []), looks_missing([1, 2, 3, 4, 5, 6, 7, 9], [])
    ([8, 9], [])
    """
    pairs = list(zip(categories, labels or categories, strict=True))
    named = {c for c, label in pairs if says_so(c) or says_so(label)}
    meant = {c for c, label in pairs if c not in named and str(label).strip() != str(c).strip()}
    numbers = {c: int(float(c)) for c in categories if c not in named and not isinstance(c, bool) and _is_whole(c)}
    codes = {c: n for c, n in numbers.items() if c not in meant and (abs(n) in NO_ANSWER_CODES or n in range(-9, 0))}
    usual = sorted(n for c, n in numbers.items() if c not in codes)
    if usual and usual[0] >= 0:  # not a code if values are negative
        apart = _apart(sorted(codes.values()), usual)
        named |= {c for c, n in codes.items() if n in apart}
    texts = [c for c in categories if isinstance(c, str) and c not in numbers and c not in named]
    if texts and not usual and not any(re.search(r"\d", c) for c in texts):  # "9" beside "Female" and "Male", not "0-8"
        named |= {c for c, n in codes.items() if abs(n) in NO_ANSWER_CODES or n < 0}
    return [c for c in categories if c in named]


def _apart(codes: Sequence[int], usual: Sequence[int]) -> set[int]:
    """Return the codes below 0 or beyond the usual numbers, none if these reach it without a gap; both ascending."""
    below, most, step = [n for n in codes if n < 0], usual[-1], max((b - a for a, b in pairwise(usual)), default=0)
    if below == list(range(-most, 0)):
        return set()  # a scale from -2 to 2
    found = set(below)
    for code in (n for n in codes if n > most):
        if code > most + 1 and (code > 9 or code - most >= max(LEAST_GAP, step + 1)):
            found.add(code)
        else:
            most = code
    return found


def says_so(text: Any) -> bool:
    """Return whether a text or label means "no answer", with or without a code before it.

    >>> says_so("Don’t know/refused"), says_so("98. Not stated"), says_so("-"), says_so("9 children"), says_so("9 ")
    (True, True, True, False, False)
    >>> says_so("Weiß nicht"), says_so("9 keine Angabe"), says_so("Ne sait pas / refus"), says_so("NS/NC")
    (True, True, True, True)
    """
    whole, plain = _plain(text)
    known = NO_ANSWER if plain == whole else _WORDS  # "1 -" is a code with a blank, no answer
    return plain in known or all(part.strip() in _WORDS for part in re.split(r"[/,;]|\bor\b", plain))


def not_asked(text: Any) -> bool:
    """Return whether a label means that a question does not concern somebody, with or without a code before it.

    >>> not_asked("Does not apply"), not_asked("-2 not asked"), not_asked("no answer")
    (True, True, False)
    """
    return _plain(text)[1] in NOT_ASKED


def _plain(text: Any) -> tuple[str, str]:
    """Return a text in small letters, and without a code before it."""
    whole = str(text).replace("’", "'").strip().casefold()
    return whole, re.sub(r"^-?\d+\s*[.):=-]*\s+", "", whole)


def file_labels(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the labels of values that a file gives to a column, by the value's text; {} for none.

    >>> file_labels({b"value_labels": b'{"1": "North"}'}), file_labels(None)
    ({'1': 'North'}, {})
    """
    known = _json_of(metadata, b"value_labels")
    return known if isinstance(known, dict) else {}


def file_codes(metadata: Mapping[bytes, bytes] | None, values: Sequence[Any]) -> list[Any]:
    """Return the values of a column that mean "no answer" in the file itself, listed singly or as a range of numbers.

    >>> file_codes({b"missing_codes": b'["9.0", [97, 99]]'}, [8, 9, 98])
    [9, 98]
    """
    single, ranges = file_list(metadata)
    texts, numbers = set(single), {float(text) for text in single if _is_number(text)}

    def is_meant(value: Any) -> bool:
        if str(value) in texts or (not isinstance(value, (str, bool)) and value in numbers):
            return True
        return _is_number(value) and any(low <= float(value) <= high for low, high in ranges)

    return [value for value in values if is_meant(value)]


def file_list(metadata: Mapping[bytes, bytes] | None) -> tuple[list[str], list[tuple[float, float]]]:
    """Return the texts of the values of a column that its file lists as missing, and the ranges of numbers.

    >>> file_list({b"missing_codes": b'["9", [97, 99]]'})
    (['9'], [(97.0, 99.0)])
    """
    known = _json_of(metadata, b"missing_codes")
    entries = known if isinstance(known, list) else []
    ranges = [(float(low), float(high)) for low, high in (e for e in entries if isinstance(e, list))]
    return [str(entry) for entry in entries if not isinstance(entry, list)], ranges


def _json_of(metadata: Mapping[bytes, bytes] | None, key: bytes) -> Any:
    try:
        return json.loads((metadata or {}).get(key, b"null"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None


def is_usual(code: Any) -> bool:
    """Return whether a code is one of the usual ones, and no record's own value."""
    text = str(code).strip()
    number = text.lstrip("-")
    return not number.isdigit() or int(number) in NO_ANSWER_CODES or -9 <= int(text) < 0


def counted(categories: Sequence[Any], labels: Sequence[str], absent: Collection[Any] = ()) -> dict[Any, str]:
    """Return the codes for "no answer" that a mean of a scale counts as numbers, each with its label.

    ``labels`` can be empty; ``absent`` are the codes that the codebook names as such. A mean of a scale from 1 to 5
    that counts 9 and 99 is above 5. Fewer than ``LEAST_VALUES`` other values are no scale: ``sex`` with 1, 2 and 9
    has no mean, and tables show the 9.

    >>> counted([1, 2, 3, 6, 9], ["low", "2", "3", "no answer", "9"])
    {6: 'no answer', 9: '9'}
    >>> counted([1, 2, 9], [])
    {}
    """
    texts = dict(zip(categories, labels or list(map(str, categories)), strict=True))
    codes = [c for c in looks_missing(categories, list(texts.values())) if is_usual(c) or says_so(texts[c])]
    codes = [c for c in codes if c not in absent]
    others = [c for c in categories if c not in codes and c not in absent]
    is_scale = len(others) >= LEAST_VALUES and all(map(_is_number, others))
    return {c: texts[c] for c in codes if _is_number(c)} if is_scale else {}


def _is_number(category: Any) -> bool:
    try:
        return math.isfinite(float(category))
    except ValueError:
        return False


def _is_whole(value: Any) -> bool:
    try:
        return float(value).is_integer()
    except ValueError:
        return False
