"""The names of a regression's terms as people read them: labels in place of numbers, whole ones without decimals."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers
from postrand.errors import DataError, sentence
from postrand.estimate.nominal import labels_name, number_of
from postrand.estimate.regression_formula import amounts_of
from postrand.recoding.base import spelt
from postrand.support.showing import few


def terms_of(spec: Any, covariates: Iterable[str], book: Codebook | None) -> tuple[str, ...]:
    """Return the names of the columns of a design, which ``spec`` specifies, of these covariates."""
    found = [str(name) for name in spec.column_names]
    for name in covariates:
        described = book is not None and name in book and book[name].is_categorical
        labels = _labels(book[name]) if book is not None and described else None
        found = [shown(text, name, labels) for text in found]
    return tuple(found)


def shown(term: str, name: str, labels: Mapping[str, str] | None) -> str:
    """Return a term with the texts of categories of one variable; without ``labels``, numbers as people write them.

    >>> shown("C(sex)[T.2.0]:age", "sex", {"2.0": "Female"}), shown("C(sex)[T.2.0]:age", "sex", None)
    ('C(sex)[T.Female]:age', 'C(sex)[T.2]:age')
    """

    def said(found: re.Match[str]) -> str:
        if labels is not None:
            return f"{found[1]}{labels.get(found[2], found[2])}]"
        number = number_of(found[2])
        return found[0] if number is None else f"{found[1]}{spelt(number)}]"

    return re.sub(rf"((?<![\w.]){re.escape(name)}\b[^\[\]:]*\[(?:T\.)?)([^\[\]]+)\]", said, term)


def is_measured(variable: Variable) -> bool:
    """Whether the categories that are answers are numbers: a formula takes them as amounts.

    The numbers of a text file are texts: they are amounts unless labels say what they stand for, or a zero leads them.

    >>> is_measured(Variable("kids", "key", ("0", "1", "2"))), is_measured(Variable("zip", "key", ("01", "02")))
    (True, False)
    >>> is_measured(Variable("kids", "key", ("0", "1", "refused"), missing_codes=("refused",)))
    True
    """
    kinds = {type(category) for category in _answers(variable)}
    return kinds <= {int, float} or (kinds == {str} and are_amounts(variable))


def _answers(variable: Variable) -> list[Any]:
    """Return the categories that are answers."""
    return [category for category in variable.categories if category not in variable.missing_codes]


def amounts(variable: Variable) -> NDArray[np.float64]:
    """Return the number of each code 0..S-1; those that mean no answer have that of the first answer, and no weight."""
    order, numbers = answers_first(variable), np.full(variable.size, np.nan)
    numbers[: len(variable.categories)] = category_numbers(variable)
    return np.where(answered(variable), numbers, numbers[order[0]])


def enters(variable: Variable, formula: str, absent: Collection[int] | NDArray[np.intp]) -> bool:
    """Whether a formula takes a variable as numbers: who has no answer is left out, by the codes ``absent``."""
    silent = np.flatnonzero(~answered(variable))
    left_out = variable.name in amounts_of(formula) and bool(np.isin(silent, np.asarray(absent, dtype=np.intp)).all())
    return is_measured(variable) and (not silent.size or left_out)


def are_amounts(variable: Variable) -> bool:
    """Whether texts are numbers as people write them, and not the names of categories."""
    numbers = [number for number in category_numbers(variable) if not np.isnan(number)]
    written = [spelt(number) for number in numbers] == _answers(variable)
    is_scale = variable.ordered and variable.size > 2
    return bool(numbers) and written and (is_scale or not labels_name(variable))


def answered(variable: Variable) -> NDArray[np.bool_]:
    """Return which codes 0..S-1 are answers: not those for no answer, nor a missing value that is a category.

    >>> answered(Variable("ill", "key", ("no", "yes", "refused"), missing_codes=("refused",))).tolist()
    [True, True, False]
    """
    found = [code not in variable.missing_codes for code in variable.categories]
    return np.array([*found, *[False] * (variable.size - len(found))])


def answers_first(variable: Variable) -> NDArray[np.intp]:
    """Return the codes 0..S-1 in the order of their terms: the first is the reference, those for no answer are last.

    >>> answers_first(Variable("educ", "key", (-9, 1, 2), type="int64", missing_codes=(-9,))).tolist()
    [1, 2, 0]
    """
    return np.argsort(~answered(variable), kind="stable").astype(np.intp)


def answers_of(variable: Variable, family: str) -> NDArray[np.bool_]:
    """Return which codes 0..S-1 of a response count in a family: answers alone, and all in a multinomial one."""
    return np.ones(variable.size, dtype=bool) if family == "multinomial" else answered(variable)


def scores_of(variable: Variable, family: str) -> NDArray[np.float64]:
    """Return the response of each code 0..S-1, 0 of those that mean no answer, which are left out.

    Raises
    ------
    DataError
        If a logistic response has not two categories that are answers, or another one no numbers.
    """
    order, held = answers_first(variable), answers_of(variable, family)
    if family == "multinomial":
        return np.argsort(order).astype(np.float64)  # compared with the first answer
    if family == "logistic":
        if held.sum() != 2:
            fix = "merge its categories into two with [[recodes]] before a release, name those that mean no answer as "
            fix += "missing_codes in its codebook, or ask for another family"
            got = f"{few([variable.code_labels[code] for code in np.flatnonzero(held)])}"
            raise DataError(
                sentence(
                    "a logistic response needs two categories that are answers", where=variable.name, got=got, fix=fix
                )
            )
        return np.where(np.arange(variable.size) == order[1], 1.0, 0.0)
    numbers = category_numbers(variable)
    if not numbers:
        fix = f"use family '{'logistic' if held.sum() == 2 else 'multinomial'}', or ask for a table"
        what = f"categories of {variable.name} are no numbers, so it cannot be the response of this family"
        raise DataError(sentence(what, where=variable.name, wanted="categories that are all numbers", fix=fix))
    return np.nan_to_num(np.pad(np.array(numbers, dtype=np.float64), (0, variable.size - len(numbers))))


def absent_notes(book: Codebook | None, names: Iterable[str], perturbed: Container[str]) -> tuple[str, ...]:
    """Return a sentence for each variable with categories that mean no answer, which numbers leave out.

    Who truly has no answer of a perturbed one is not known, so the records that are counted include them.
    """
    absent = {name: unanswered(book, name) for name in names}
    return tuple(
        f"Who has no answer of {n} ({', '.join(t).replace('(missing)', 'missing')}) is left out"
        + (f"; {n} is perturbed, so the number of records includes them." if n in perturbed else ".")
        for n, t in absent.items()
        if t
    )


def unanswered(book: Codebook | None, name: str) -> tuple[str, ...]:
    """Return the labels of a variable's categories that mean no answer; none of a variable without categories.

    >>> unanswered(Codebook((Variable("ill", "key", ("no", "yes", "refused"), missing_codes=("refused",)),)), "ill")
    ('refused',)
    """
    if book is None or name not in book or not book[name].is_categorical:
        return ()
    return tuple(t for t, is_one in zip(book[name].code_labels, answered(book[name]), strict=True) if not is_one)


def reference_notes(formula: str, book: Codebook | None, names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each variable of which a formula would take a code for no answer as the reference."""
    found = []
    for variable in (book[name] for name in names if book is not None and name in book):
        first = answers_first(variable)[0] if variable.is_categorical else 0
        if first and not has_contrast(formula, variable.name):
            found.append(
                f"Terms of {variable.name} compare with {variable.code_labels[first]}, the first category that is an "
                "answer; those that mean no answer come last."
            )
    return tuple(found)


def amount_notes(formula: str, book: Codebook | None) -> tuple[str, ...]:
    """Return a sentence for each variable that a formula takes as an amount, of texts, or of codes that have labels."""
    held = [book[name] for name in amounts_of(formula) if book is not None and name in book]
    doubtful = [v for v in held if v.size > 2 and (isinstance(v.categories[0], str) or labels_name(v))]
    return tuple(
        f"{v.name} enters as a number; C({v.name}) compares its categories." for v in doubtful if is_measured(v)
    )


def levels_told(formula: str, levels: Mapping[str, Iterable[Any]]) -> str:
    """Return the categories of the variables for which a formula names a reference, as it has to write them.

    >>> levels_told("y ~ C(educ, Treatment(3)) + C(sex)", {"educ": ["1", "2"], "sex": [1.0, 2.0]})
    'for educ one of "1", "2"'
    """
    asked = {name: list(map(_written, texts)) for name, texts in levels.items() if has_contrast(formula, name)}
    return "; ".join(f"for {name} one of {few(texts, 20)}" for name, texts in asked.items())


def _written(level: Any) -> str:
    return f'"{level}"' if isinstance(level, str) else spelt(level)


def has_contrast(formula: str, name: str) -> bool:
    """Whether a formula says with what the categories of a variable are compared, as in ``C(sex, Treatment("m"))``."""
    return re.search(rf"\bC\(\s*{re.escape(name)}\s*,", formula) is not None


def _labels(variable: Variable) -> dict[str, str]:
    """Return the label of each code that is a number, by its texts in a term; the code where labels are alike."""
    alike = len({*variable.labels}) < len(variable.labels)
    texts = variable.categories if alike else variable.code_labels
    pairs = zip(variable.categories, texts, strict=False)  # the codebook's missing values may be a category more
    numbers = [(code, str(text) or str(code)) for code, text in pairs if number_of(code) is not None]
    whole = {str(float(code)): text for code, text in numbers if isinstance(code, int) and not isinstance(code, bool)}
    return {str(code): text for code, text in numbers} | whole
