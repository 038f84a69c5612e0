"""Which regressions a variable can be the response of, and which of them is tried where none is named."""

from __future__ import annotations

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers
from postrand.estimate.nominal import is_coded, names_only
from postrand.estimate.regression_data import FamilyName
from postrand.estimate.regression_terms import answered
from postrand.plan.analyses import Model

NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
"""How types of numbers begin."""
OF_NUMBERS: tuple[FamilyName, ...] = ("linear", "poisson")


def families_of(variable: Variable, book: Codebook) -> tuple[FamilyName, ...]:
    """Return which regressions can have a variable as their response, the usual one first; () for texts and dates.

    Of two bands an amount is usual, of 0 and 1 a yes or no, which can be a number too: a linear probability model.

    >>> is_ill = Variable("ill", "key", (0, 1), type="int64")
    >>> families_of(is_ill, Codebook((is_ill,)))
    ('logistic', 'linear', 'poisson')
    """
    if not variable.is_categorical:
        return OF_NUMBERS if variable.type.startswith(NUMBERS) else ()
    numbers = category_numbers(variable)
    measures = bool(numbers) and not (names_only(variable) or is_coded(book, variable.name))
    if answered(variable).sum() != 2:
        return OF_NUMBERS if measures else ("multinomial",)
    if not measures or variable.type == "bool":
        return ("logistic",)
    return ("logistic", *OF_NUMBERS) if {*numbers} <= {0.0, 1.0} else (*OF_NUMBERS, "logistic")


def family_of(book: Codebook, model: Model) -> FamilyName | None:
    """Return the family that a regression names, or that its response has first; None where it can have none of these.

    >>> book = Codebook((Variable("ill", "key", ("no", "yes")), Variable("sex", "key", ("F", "M"))))
    >>> family_of(book, Model(("ill", "sex"))), family_of(book, Model(("ill", "sex"), family="linear"))
    ('logistic', None)
    """
    possible = families_of(book[model.table[0]], book)
    return next((one for one in possible if model.family in ("", one)), None)
