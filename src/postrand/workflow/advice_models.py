"""Regressions that are named and cannot be fitted: a category has too few records, or is one of another variable."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers, encode
from postrand.estimate.regression_repeats import SHARE
from postrand.estimate.regression_terms import answered, is_measured
from postrand.formats import Source
from postrand.plan.analyses import Model
from postrand.risk.finding import listed
from postrand.support.showing import few

LEAST = 20
"""Of a perturbed model, a category of fewer records with a response is too rare, as in a codebook."""
NAMED = 5
APART = (
    "no epsilon tells the effects of the two variables apart, so leave one out, or merge one of these categories with "
    "another"
)
MERGE = "merge these categories before the release, or the model can hardly be fitted"


def unfit(source: Source, book: Codebook, model: Model, *, is_perturbed: bool) -> str:
    """Return why a regression cannot be fitted, whatever the epsilon; "" where nothing prevents it.

    A category of its terms has no records with a response, or too few, or is the same records as one of another term;
    or a response of several categories has one without records, or with too few.
    ``is_perturbed``: a variable of the model is, so that fewer than ``LEAST`` records are too few. A term of numbers
    has no categories, and those that mean no answer are left out by ``estimate`` where they are few.
    """
    response, *terms = (book[name] for name in model.table)
    terms = [one for one in terms if one.is_categorical and not is_measured(one)]
    pairs = list(itertools.combinations(terms, 2))
    counts = {one.name: np.zeros(one.size, dtype=np.int64) for one in terms}
    joint = [np.zeros((one.size, two.size), dtype=np.int64) for one, two in pairs]
    for batch in source.batches([response.name, *counts]) if terms else ():
        there = _has_response(batch.column(response.name), response)
        codes = {one.name: encode(batch.column(one.name), one)[there] for one in terms}
        for one in terms:
            held = codes[one.name]
            counts[one.name] += np.bincount(held[held >= 0], minlength=one.size)
        for table, (one, two) in zip(joint, pairs, strict=True):
            known = (codes[one.name] >= 0) & (codes[two.name] >= 0)
            np.add.at(table, (codes[one.name][known], codes[two.name][known]), 1)
    least = LEAST if is_perturbed else 1
    none = [f"{one.name} = {label}" for one in terms for label in _labels(one, counts[one.name] == 0)]
    rare = [
        f"{one.name} = {label}"
        for one in terms
        for label in _labels(one, (counts[one.name] > 0) & (counts[one.name] < least))
    ]
    said = _of_response(source, response, least) if _is_nominal(response) else []
    said += [f"no record of {_either(none)} has {response.name}"] if none else []
    said += [f"fewer than {LEAST} records of {_either(rare)} have {response.name}"] if rare else []
    why = [f"{', and '.join(said)}: {MERGE}"] if said else []
    same = (_same(*pair, table) for pair, table in zip(pairs, joint, strict=True))
    return "; ".join([*why, *filter(None, same)])


def _of_response(source: Source, response: Variable, least: int) -> list[str]:
    """Return which categories of a response have no records, or fewer than ``least``."""
    counts = np.zeros(response.size, dtype=np.int64)
    for batch in source.batches([response.name]):
        codes = encode(batch.column(response.name), response)
        counts += np.bincount(codes[codes >= 0], minlength=response.size)
    held = (counts == 0, "no record has"), ((counts > 0) & (counts < least), f"fewer than {LEAST} records have")
    named = ((words, [f"{response.name} = {label}" for label in _labels(response, wanted)]) for wanted, words in held)
    return [f"{words} {_either(names)}" for words, names in named if names]


def _is_nominal(response: Variable) -> bool:
    """Whether a response has several categories that are no numbers: then no answer is a category like others."""
    return response.is_categorical and answered(response).sum() > 2 and not category_numbers(response)


def _same(one: Variable, two: Variable, joint: NDArray[np.int64]) -> str:
    """Return that categories of two terms are all but the same records, by their table (S, T); "" where none are."""
    alone = joint.sum(axis=1)[:, None] + joint.sum(axis=0)[None, :] - 2 * joint
    held = [(one.code_labels[a], two.code_labels[b]) for a, b in np.argwhere((joint > 0) & (alone <= SHARE * joint))]
    same = [f"{one.name} = {label} and {two.name} = {other}" for label, other in held]
    return f"{_either(same)} are all but the same records: {APART}" if same else ""


def _labels(variable: Variable, wanted: NDArray[np.bool_]) -> list[str]:
    return [str(variable.code_labels[code]) for code in np.flatnonzero(wanted & answered(variable))]


def _either(names: Sequence[str]) -> str:
    """Return names with "or" between them, so many at most."""
    return listed(names, "or") if len(names) <= NAMED else few(names, NAMED)


def _has_response(column: pa.Array, response: Variable) -> NDArray[np.bool_]:
    """Return which records of a column, shape (n,), have a response: of two categories or numbers, an answer."""
    if not response.is_categorical:
        return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=bool)
    codes, held = encode(column, response), answered(response)
    found: NDArray[np.bool_] = (codes >= 0) & (_is_nominal(response) | held[np.maximum(codes, 0)])
    return found
