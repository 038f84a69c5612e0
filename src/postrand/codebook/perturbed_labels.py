"""Labels of perturbed columns in files of statistical programs: they say that the values are perturbed.

Who opens such a file sees the label of a column, and perhaps nothing else of the release.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from postrand.codebook.codebook import Codebook
from postrand.codebook.variable import Variable

MARK = "(perturbed)"


def marked_label(variable: Variable) -> str:
    """Return the label of a variable with the mark.

    >>> marked_label(Variable("sex", role="key", categories=("F", "M"), label="Sex of the person"))
    'Sex of the person (perturbed)'
    """
    return f"{variable.label} {MARK}".strip()


def marked_labels(codebook: Codebook, perturbed: Collection[str], room: int) -> dict[str, str]:
    """Return the marked labels of perturbed variables, by name, that have at most ``room`` bytes."""
    labels = {v.name: marked_label(v) for v in codebook.variables if v.name in perturbed}
    return {name: text for name, text in labels.items() if len(text.encode()) <= room}


def as_labelled(variable: Variable, label: str | None) -> Variable:
    """Return the variable with the mark in its label if this label of a column has it.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), label="Sex")
    >>> as_labelled(sex, "Sex (perturbed)").label, as_labelled(sex, "Other (perturbed)").label
    ('Sex (perturbed)', 'Sex')
    """
    marked = marked_label(variable)
    return replace(variable, label=marked) if label == marked else variable
