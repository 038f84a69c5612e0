"""The names of a regression's terms as people read them: labels in place of numbers, whole ones without decimals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from postrand.codebook import Codebook, Variable
from postrand.estimate.nominal import number_of
from postrand.recoding.base import spelt


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


def _labels(variable: Variable) -> dict[str, str]:
    """Return the label of each code that is a number, by its texts in a term; the code where labels are alike."""
    alike = len({*variable.labels}) < len(variable.labels)
    texts = variable.categories if alike else variable.code_labels
    pairs = zip(variable.categories, texts, strict=False)  # the codebook's missing values may be a category more
    numbers = [(code, str(text) or str(code)) for code, text in pairs if number_of(code) is not None]
    whole = {str(float(code)): text for code, text in numbers if isinstance(code, int) and not isinstance(code, bool)}
    return {str(code): text for code, text in numbers} | whole
