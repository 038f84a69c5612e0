"""Tell sampling weights by their names, in the languages of the offices, and weights of bodies from them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_WEIGHT = re.compile(
    r"(?<!over)(?<!under)weight|wght|wgt|wtss|(^|_)(per|hh|final)?wt($|_)|^wt(mec|int|saf)"
    r"|(?<!uber)(?<!ueber)(?<!unter)(?<!over)(?<!onder)(?<!gleich)gewicht(?!s(verl|ver?lies|abn|zun|kontr|red))"
    r"|wichtung|hochrechnung|(^|_)[ph]?hrf($|_)|weegfactor|(^|_)weging"
    r"|(?<!sur)poids|(?<!res)ponder|(^|_)pond($|_)|^peso(_|$|fit)"
    r"|^factor(el)?$|^factor_(hog|viv|elev|final|trim)|^factor_per($|_|s)"
    r"|(^|_)fac(tor)?_?exp($|_|\d|an)|(^|_)fexp($|_)"
)
"""English, German and Dutch, French, Spanish and Italian names; of a factor analysis is ``factor_1``."""
_ALONE = re.compile(r"^(weight|wt|wgt|gewicht|poids|peso)_?\d*$")
"""Names that a weight of a body has as often."""
_BODY = re.compile(
    r"(^|_)(kg|kilos?|lbs?)($|_)|body|birth|ko?erper|korper|geburt|corpor|corps|naissance|nacimiento|nascita|lichaam"
)
_HEIGHT = re.compile(
    r"(^|_)(height|bmi)($|_)|k(oe|o)rpergr|lichaamslengte"
    r"|^(ht|groesse|grosse|taille|talla|estatura|altura|altezza|statura|lengte)(_?c?m)?$"
)
_LEAST, _MOST, _USUAL, _DIFFERENT = 1, 400, (30, 130), 10
"""Weights of bodies in kilograms or pounds: so many different ones at least, of which the middle one is usual."""
BODY = (
    "not taken as a sampling weight, because it looks like the weight of a body: role = 'weight' if it is one, "
    "otherwise a role as for any quantity"
)
GIVEN = "the sampling weight looks like the weight of a body: check that it is the one of the sample"
"""The notes on a column that can be either, without a role and with the role of a weight."""


def is_weight(name: str) -> bool:
    """Return whether a column has the name of a sampling weight.

    >>> [is_weight(name) for name in ("hhweight", "Hochrechnungsfaktor", "pondération", "factor", "weegfactor", "PESO")]
    [True, True, True, True, True, True]
    >>> [is_weight(name) for name in ("perwt", "hhrf", "wtmec2yr", "factor_expansion", "fac_exp")]
    [True, True, True, True, True]
    >>> [is_weight(name) for name in ("overweight", "factor_1", "factory", "pesos", "responder")]
    [False, False, False, False, False]
    >>> [is_weight(name) for name in ("beweging", "Übergewicht", "surpoids", "factor_exposure", "facexperience")]
    [False, False, False, False, False]
    """
    return _WEIGHT.search(_plain(name)) is not None


def is_height(name: str) -> bool:
    """Return whether a column has the name of the height of a body.

    >>> [is_height(name) for name in ("height_cm", "Größe", "taille", "taille_menage", "weight")]
    [True, True, True, False, False]
    """
    return _HEIGHT.search(_plain(name)) is not None


def is_of_body(name: str, numbers: Sequence[float] | None, *, beside_height: bool) -> bool:
    """Return whether a column with the name of a weight may be the weight of a body.

    Its name says so; or it says nothing else, and there is a height, or its different values ``numbers``, the first of
    them where there are many, have one decimal at most and are in the range of bodies; None where they are no numbers.

    >>> is_of_body("weight", [*range(48, 90)], beside_height=False), is_of_body("weight", None, beside_height=True)
    (True, True)
    >>> is_of_body("hhweight", None, beside_height=True), is_of_body("wt", [*range(20)], beside_height=False)
    (False, False)
    """
    plain = _plain(name)
    if _BODY.search(plain):
        return True
    if not _ALONE.search(plain):
        return False
    return beside_height or (numbers is not None and _are_of_bodies(sorted(numbers)))


def _are_of_bodies(numbers: Sequence[float]) -> bool:
    tenths = all(round(number, 1) == number for number in numbers)
    if len(numbers) < _DIFFERENT or not tenths or numbers[0] < _LEAST or numbers[-1] > _MOST:
        return False
    return _USUAL[0] <= numbers[len(numbers) // 2] <= _USUAL[1]


def looks_carried(draft: Mapping[str, Any]) -> bool:
    """Return whether the column of a draft is a sampling weight, by its name; its values are not categories.

    >>> [looks_carried({"name": "wt", "categories": c, "notes": []}) for c in ((), (1, 2), ("high", "low"))]
    [True, True, False]
    """
    if not is_weight(draft["name"]) or BODY in draft.get("notes", ()):
        return False
    return all(_is_number(category) for category in draft.get("categories", ()))


def _is_number(category: Any) -> bool:
    return not isinstance(category, str) or re.fullmatch(r"\s*[+-]?\d[\d\s.,']*\s*", category) is not None


def _plain(name: str) -> str:
    """Return a name in small letters without accents, its words joined by ``_``."""
    letters = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "_", letters).strip("_")
