"""Codes that only name categories, or mean no answer: their mean is a number, and says nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import from_numpy
from postrand.codebook.no_answer import counted
from postrand.codebook.quantity_codes import quantities_told, suspects_in
from postrand.errors import sentence
from postrand.recoding import Recode
from postrand.recoding.bands import Bands
from postrand.recoding.base import LISTED, spelt
from postrand.recoding.hierarchy import Hierarchy
from postrand.recoding.limits import stands_for
from postrand.recoding.steps import Steps
from postrand.support.column_wordings import EITHER_WAY, OF_BANDS, OF_WHICH, TOO_LOW
from postrand.support.showing import capital, unshown

_SHOWN = 3


def names_only(variable: Variable) -> bool:
    """Whether numbers are the names of categories: labels say what they stand for, and nothing says that they measure.

    An order, as of a scale from 1 to 5, says it; so do the codes 0 and 1, whose mean is a share; and labels that are
    numbers (:func:`labels_name`).

    >>> names_only(Variable("region", "key", (1, 2, 3), ("North", "South", "East"), type="int64"))
    True
    >>> names_only(Variable("children", "key", (0, 1, 2), ("none", "1", "2 or more"), type="int64"))
    False
    """
    shares = {number for number, _ in _labelled(variable)} <= {0.0, 1.0}
    return not (variable.ordered or shares) and labels_name(variable)


def labels_name(variable: Variable) -> bool:
    """Whether labels say what numbers stand for, as names do, and do not repeat the number (``85 and more``).

    One label without its number can be a limit's, ``none`` for 0. Words that several labels have before the number that
    ends them make names of it, as in ``Land 1`` and ``Land 2``.

    >>> labels_name(Variable("region", "key", (1, 2, 3), ("Land 1", "Land 2", "Land 3"), type="int64"))
    True
    """
    held = [(number, text) for number, text in _labelled(variable) if number is not None]
    words = Counter(before for _, text in held if (before := _before_number(text)))
    named = (abs(number) not in _numbers_in(text) or words[_before_number(text)] > 1 for number, text in held)
    return sum(named) > 1


def _labelled(variable: Variable) -> list[tuple[float | None, str]]:
    """Return the number and the label of each category that is an answer, if it has labels."""
    absent = {*variable.missing_codes, *_no_answers(variable)}
    pairs = zip(variable.categories, variable.labels, strict=False)
    return [(number_of(code), text) for code, text in pairs if code not in absent]


def _before_number(text: str) -> str:
    """Return the words before the number that ends a text; "" where there are none."""
    found = re.fullmatch(r"\s*([^\W\d].*?)\s*\d+\s*", text)
    return found[1] if found else ""


def nominal_warnings(codebook: Codebook | None, names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each variable whose codes are taken for numbers although they name categories, or nothing.

    The first kind only name categories; others of a scale can mean no answer, by their label or as 9 and 99 beside 1
    to 5, and its codebook does not say so.
    """
    known = [] if codebook is None else [codebook[name] for name in dict.fromkeys(names) if name in codebook]
    only_names = (_sentence(one) for one in known if names_only(one) or is_coded(codebook, one.name))
    return (*only_names, *(_counted_sentence(one) for one in known if _no_answers(one)))


def quantity_warnings(
    codebook: Codebook | None, values: Mapping[str, Any], schema: pa.Schema | None = None
) -> tuple[str, ...]:
    """Return a sentence if numbers that are no categories hold what looks like codes for no answer; () if not.

    ``values`` are those of the released records, by name: Arrow columns, or arrays of numbers. ``schema`` is that of
    the released file, which can declare what means no answer.
    """
    categories = () if codebook is None else [v.name for v in codebook.variables if v.is_categorical]
    asked = {name: _column(held) for name, held in values.items() if name not in categories}
    said = {name: schema.field(name).metadata for name in asked if name in schema.names} if schema is not None else {}
    found = suspects_in(asked, () if codebook is None else codebook.recodes, said)
    if not found:
        return ()
    fix = "leave out the records that have them, or ask for a release whose codebook says which values are missing"
    return (sentence(capital(quantities_told(found)), fix=f"if they mean no answer, {fix}"),)


def limit_warnings(codebook: Codebook | None, names: Iterable[str], what: str, reached: Any = None) -> tuple[str, ...]:
    """Return a sentence for each variable of which a recoded limit, such as 30 for 30 and more, is taken for a number.

    ``what`` is calculated from them: a mean, total, ratio or regression. Of a quantile, ``reached`` are its values with
    the ends of their intervals, and only a limit that they reach is told.
    """
    asked, found = set(names), list[str]()
    for recode in () if codebook is None else codebook.recodes:
        limits = recode.stand_for_more if recode.variable in asked else {}
        if reached is not None:
            limits = {limit: word for limit, word in limits.items() if _reaches(np.asarray(reached), limit, word)}
        if limits:
            assert codebook is not None
            table = recode.variable in codebook and codebook[recode.variable].is_categorical
            effect = _quantile(limits) if what == "quantile" else _effect(what, limits, recode.variable, table)
            found.append(f"{recode.variable}: {stands_for(limits)} (recoded). {effect}")
    return tuple(found)


def is_coded(codebook: Codebook | None, name: str) -> bool:
    """Whether a recode makes a variable's categories by a hierarchy, whose names are codes, and no order says else."""
    recode = None if codebook is None or name not in codebook else codebook.recode_of(name)
    if codebook is None or recode is None or codebook[name].ordered:
        return False
    last = recode.kind.steps[-1] if isinstance(recode.kind, Steps) else recode.kind
    return isinstance(last, Hierarchy)


def band_warnings(codebook: Codebook | None, names: Iterable[str], what: str) -> tuple[str, ...]:
    """Return a sentence for each variable whose numbers are those of bands or groups that a recode made.

    ``what`` is calculated from them, as for :func:`limit_warnings`.
    """
    asked = set(names)
    made = [one for one in (() if codebook is None else codebook.recodes) if one.kind.categories()]
    banded = [one for one in made if one.variable in asked and not is_coded(codebook, one.variable)]
    return tuple(_of_bands(one, what) for one in banded)


def _of_bands(recode: Recode, what: str) -> str:
    """Return that a figure is that of the numbers of bands or groups, which these are, and how it can differ."""
    kind, numbers, effect = recode.kind, OF_WHICH, EITHER_WAY
    if isinstance(kind, Bands) and not kind.unit:
        names = kind.categories()
        if len(names) <= LISTED:
            first, *rest = zip(kind.ranges(), names, strict=True)
            listed = [f"{first[0]} counts as {first[1]}", *(f"{values} as {name}" for values, name in rest)]
            numbers = f" ({', '.join(listed)})"
        held = [number_of(name) for name in names]
        least = not kind.below and all(n is not None and n <= e for n, e in zip(held, kind.edges(), strict=True))
        if least and what in ("mean", "total", "quantile"):
            effect = TOO_LOW
    said = OF_BANDS.format(names=recode.variable, what=f"this {what}", numbers=numbers)
    return f"{said}; {effect}."


def _reaches(values: NDArray[np.float64], limit: float, word: str) -> bool:
    """Whether one of these values is the limit or beyond it; one without an end is told of as such."""
    held = values[np.isfinite(values)]
    return bool((held >= limit if word == "more" else held <= limit).any())


def _quantile(limits: Mapping[float, str]) -> str:
    """Return what a quantile at a limit means."""
    ends = " and one of ".join(f"{spelt(limit)} means {spelt(limit)} or {word}" for limit, word in limits.items())
    return f"So a quantile of {ends}."


def _effect(what: str, limits: Mapping[float, str], name: str, table: bool) -> str:
    """Return what limits do to a result, and what they leave as it is."""
    effect = "; that of the true numbers can differ"
    if what in ("mean", "total") and len(limits) == 1:
        low = "more" in limits.values()
        effect = ", too low if true numbers are higher" if low else ", too high if true numbers are lower"
    ends = " and ".join(f"{'below' if word == 'more' else 'above'} {spelt(limit)}" for limit, word in limits.items())
    right = f"A table of {name} and quantiles {ends} are" if table else f"Quantiles {ends} are"
    return f"So this {what} is that of the recoded numbers{effect}. {right} not affected."


def _column(values: Any) -> pa.Array | pa.ChunkedArray:
    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else from_numpy(np.asarray(values))


def _no_answers(variable: Variable) -> dict[Any, str]:
    return counted(variable.categories, variable.labels, variable.missing_codes)


def _sentence(variable: Variable) -> str:
    absent = _no_answers(variable)
    pairs = zip(variable.categories, variable.code_labels, strict=False)  # one may be the missing category's
    return (
        f"The numbers of {variable.name} are codes ({_listed([p for p in pairs if p[0] not in absent])}), and this "
        f"calculates with them as amounts. Ask for a table of {variable.name}; if the codes are a scale, set ordered = "
        "true in the codebook of the next release."
    )


def _counted_sentence(variable: Variable) -> str:
    codes = _no_answers(variable)
    return (
        f"Codes of {variable.name} that can mean no answer count as numbers here ({_listed(list(codes.items()))}). Ask "
        f"for a table of {variable.name}, and leave them out of what you calculate from it; if they mean no answer, "
        f"set missing_codes = {json.dumps(list(codes))} in the codebook of the next release."
    )


def _listed(pairs: Sequence[tuple[Any, str]]) -> str:
    """Return codes with their labels; a label that is the code alone is none."""
    shown = [str(code) if str(code) == text else f"{code} = {text}" for code, text in pairs]
    named = [text for text, (code, label) in zip(shown, pairs, strict=True) if str(code) != label] or shown
    left = unshown(len(named), _SHOWN)
    return ", ".join(named[: len(named) - left]) + ", ..." * (len(shown) > len(named) - left)


def number_of(code: object) -> float | None:
    """Return the number that a code is, or that its text spells; None for any other text."""
    try:  # a CSV file has numbers as text
        return float(str(code))
    except ValueError:
        return None


def _numbers_in(text: str) -> set[float]:
    """Return the numbers of a label; one before a point or a bracket, as in ``1. North``, only repeats the code."""
    rest = re.sub(r"^\s*\d+\s*[.):=]+(?=\s*\D)", "", text)
    return {float(part.replace(",", "")) for part in re.findall(r"\d[\d,]*(?:\.\d+)?", rest)}
