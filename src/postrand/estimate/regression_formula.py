"""What a formula of a regression names: its response, its covariates, and those that are amounts."""

from __future__ import annotations

import re

from postrand.errors import UsageError, sentence
from postrand.support.extras import require


def variables_of(formula: str) -> tuple[str, tuple[str, ...]]:
    """Return the response and the covariates that a formula names; raises UsageError where it cannot be read."""
    if not isinstance(formula, str):  # a table of records, where arguments are exchanged: its values stay untold
        what, fix = "the formula is no text", "give the formula first, then the data"
        raise UsageError(sentence(what, got=type(formula).__name__, wanted="response ~ covariates", fix=fix))
    require("formulaic", "a regression needs")
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    try:
        parsed = Formula(formula)
        left, right = [str(term) for term in parsed.lhs], parsed.rhs
    except (FormulaicError, AttributeError, SyntaxError):
        what = "the formula cannot be read"
        fix = "write for example income ~ sex + region, with a name on each side of a +"
        raise UsageError(sentence(what, got=repr(formula), wanted="response ~ covariates", fix=fix)) from None
    response = left[0] if left else ""
    needed = sorted(str(n) for n in right.required_variables)
    if len(left) != 1 or set(parsed.lhs.required_variables) != {response} or response in needed:
        raise UsageError(
            sentence(
                "the left side must be one variable, without a transformation",
                got=repr(formula),
                wanted="response ~ covariates",
                fix="for logarithms, let the numbers of the column, or the labels of its bands, be logarithms before "
                "the release",
            )
        )
    return response, tuple(needed)


def amounts_of(formula: str) -> list[str]:
    """Return the covariates that enter a formula otherwise than by category.

    >>> amounts_of("y ~ C(area) + np.log(pay) + age:C(sex)")
    ['age', 'pay']
    """
    from formulaic import Formula

    factors = {str(factor.expr) for term in Formula(formula).rhs for factor in term.factors}
    taken = [text for text in factors if not text.startswith("C(")]
    covariates = variables_of(formula)[1]
    return [n for n in covariates if any(n == t or re.search(rf"\b{re.escape(n)}\b", t) for t in taken)]
