"""Quantiles by group from the corrected distribution function, with Woodruff's intervals by test inversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import isotonic_regression

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.group_data import Measure, Records, answered, function_of, read
from postrand.estimate.group_law import FLAG_LEVEL, Equation, equation, small_sample, too_few
from postrand.estimate.groups import estimate_of
from postrand.estimate.inversion import limits
from postrand.estimate.result import Estimate, Law, Part
from postrand.mechanism import Mechanism
from postrand.plain import finite, listed

_ROUNDING = 1e-9
"""A distribution function this close below q has reached it: sums of weights are rounded."""


def quantile(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    q: float | Sequence[float] = 0.5,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
) -> Estimate:
    """Estimate quantiles of a variable, in each group of ``by``: the least value y with ``F(y) >= q``.

    ``F_g(y) = Σ_i w_i B[r_i, g] 1[y_i <= y] / Σ_i w_i B[r_i, g]``, ``B = M^-1``, is unbiased in numerator and denominator but not
    monotone; the estimate is read off the nearest monotone function. The interval holds the values that a test
    of ``F(y) = q`` does not reject (Woodruff, with the variance taken at y); every value of an unperturbed number is used
    exactly. A perturbed variable, whose categories must be numbers, has a quantile among its categories.

    ``value`` has one axis for each variable of ``by``, and a last one for the quantiles if ``q`` is a sequence. The standard
    error is that of a normal law with as long an interval; there is no covariance. Other parameters and errors are
    those of :func:`postrand.estimate.mean`.

    Raises
    ------
    UsageError
        If ``q`` is not between 0 and 1.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.matrix import TransitionMatrix
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")), Variable("pay", role="other", type="double")))
    >>> mech = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, codebook=book)
    >>> frame = pa.table({"sex": ["F"] * 60 + ["M"] * 40, "pay": [10.0] * 60 + [20.0] * 40})
    >>> quantile(frame, "pay", mech, q=[0.5, 0.99]).value.tolist()
    [10.0, 20.0]

    References
    ----------
    Woodruff (1952), J. Amer. Statist. Assoc. 47, 635-646; Francisco & Fuller (1991), Ann. Statist. 19, 454-469.
    """
    chances = _chances(q)
    records = read(frame, [variable], mechanism, by, weights, strata)
    curves = _of_codes(records, variable) if variable in records.scores else _of_numbers(records, variable)
    law = QuantileLaw(records, curves, chances)
    shape = records.layout.shape
    single = listed(q) is None
    value = law.values.reshape(shape if single else (*shape, len(chances)))
    found = estimate_of(records, mechanism, (variable,), f"quantile of {variable}", value, law)
    return found if single else _with_axis(found, chances)


def _chances(q: float | Sequence[float]) -> tuple[float, ...]:
    chances = tuple(finite(one) for one in (listed(q) or (q,)))
    if not all(0 < one < 1 for one in chances) or len(set(chances)) != len(chances):
        raise UsageError(sentence("not the chances of quantiles", got=repr(q), wanted="distinct numbers between 0 and 1"))
    return chances


def _with_axis(found: Estimate, chances: Sequence[float]) -> Estimate:
    import dataclasses

    labels = (*found.labels, tuple(f"{one:g}" for one in chances))
    return dataclasses.replace(found, variables=(*found.variables, "quantile"), labels=labels)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Hold, for one group, sums over the records with a value of at most ``points`` (m,), which increase.

    ``below`` (m,) are sums of w b over the records, ``squares`` of (w b)² times n_h/(n_h−1), ``cubes`` of (w b)³, and
    ``between`` what the variation of strata takes off the variance, as functions of q: coefficients (3, m).
    """

    points: Array
    below: Array
    variance: Array
    third: Array
    records: int
