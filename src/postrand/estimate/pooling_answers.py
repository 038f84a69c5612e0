"""What an analysis returned of one completed copy, in any of the usual forms, as names, estimates and covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.support.showing import few

FORMS = (
    "a fitted result with params and cov_params(), (estimate, variance), (estimate, variance, degrees of freedom), "
    "{name: (estimate, variance)}, or estimates alone: a number, an array, a Series, {name: estimate}"
)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Hold the estimates (P,) of one copy and their names.

    ``variance`` (P,) is None where the analysis gave none, ``covariance`` (P, P) where it gave none between the
    estimates; ``complete`` are the degrees of freedom of the variance. ``converged`` is False where a fit says so.
    """

    names: tuple[str, ...]
    value: Array
    variance: Array | None = None
    covariance: Array | None = None
    complete: float = math.inf
    converged: bool = True


def answer_of(returned: Any) -> Answer:
    """Return what an analysis returned as an :class:`Answer`.

    >>> answer_of({"mean": (1.5, 0.04)}).names
    ('mean',)

    Raises
    ------
    UsageError
        If it has none of the known forms, or estimates and variances do not belong together.
    EstimationError
        If a number is not finite, or a variance is negative.
    """
    if hasattr(returned, "params") and callable(getattr(returned, "cov_params", None)):
        return _checked(_of_fit(returned))
    if isinstance(returned, tuple):
        if len(returned) not in (2, 3):
            raise _unknown(returned)
        freedom = float(returned[2]) if len(returned) == 3 else math.inf
        return _checked(_of_pair(returned[0], returned[1], freedom))
    if isinstance(returned, Mapping) and returned and all(isinstance(v, tuple) for v in returned.values()):
        pairs = list(returned.values())
        if any(len(pair) != 2 for pair in pairs):
            raise _unknown(returned)
        values, variances = (np.array([pair[i] for pair in pairs], dtype=np.float64) for i in (0, 1))
        return _checked(_of_pair(dict(zip(returned, values, strict=True)), variances, math.inf))
    return _checked(Answer(*_named(returned)))


def _of_fit(fit: Any) -> Answer:
    """Read a fitted result as statsmodels has them; several equations named as their covariance."""
    params, covariance = fit.params, fit.cov_params()
    # Where errors are clustered, statsmodels counts clusters: df_resid is that of independent records.
    freedom = getattr(fit, "df_resid_inference", None) or getattr(fit, "df_resid", None)
    complete = float(freedom) if freedom is not None and freedom > 0 else math.inf
    if np.ndim(params) == 2:  # multinomial: a column for each equation
        names = _labels(covariance.index) if hasattr(covariance, "index") else _numbered(np.shape(params)[::-1])
        values = np.asarray(params, dtype=np.float64).T.ravel()
    else:
        names, values = _named(params)
        own = getattr(getattr(fit, "model", None), "exog_names", None)
        if not _is_series(params) and own is not None and len(own) == len(values):
            names = tuple(map(str, own))
    matrix = np.asarray(covariance, dtype=np.float64).reshape(len(values), len(values))
    return Answer(names, values, np.diag(matrix), matrix, complete, _converged(fit))


def _converged(fit: Any) -> bool:
    """Return whether a fit converged, as far as it says so."""
    said = getattr(fit, "converged", None)
    if said is None:
        said = (getattr(fit, "mle_retvals", None) or {}).get("converged", True)
    return bool(said)


def _of_pair(estimate: Any, variance: Any, complete: float) -> Answer:
    names, values = _named(estimate)
    given = _aligned(variance, estimate, names)
    if given.shape in {(len(values), len(values)), values.shape}:
        if given.ndim == 2:
            return Answer(names, values, np.diag(given), given, complete)
        return Answer(names, values, given, given.reshape(1, 1) if given.size == 1 else None, complete)
    what = "the variance does not fit the estimates"
    wanted = f"{len(values)} variances, or a covariance of shape {(len(values), len(values))}"
    raise UsageError(sentence(what, where="what the analysis returned", got=given.shape, wanted=wanted))


def _aligned(variance: Any, estimate: Any, names: tuple[str, ...]) -> Array:
    """Return variances or a covariance in the order of the estimates, if both are labelled."""
    if isinstance(variance, Mapping) or (_is_series(variance) and np.ndim(variance) == 1):
        labels, values = _named(variance)
        if not (isinstance(estimate, Mapping) or _is_series(estimate)):
            return values
        if sorted(labels) != sorted(names):
            raise UsageError(sentence("estimates and variances have different names", got=labels, wanted=names))
        return values[[labels.index(name) for name in names]]
    found = np.asarray(variance, dtype=np.float64)
    if found.ndim == 2 and hasattr(variance, "columns") and _is_series(estimate):
        labels = _labels(variance.columns)
        if sorted(labels) != sorted(names) or labels != _labels(variance.index):
            raise UsageError(sentence("estimates and covariance have different names", got=labels, wanted=names))
        order = [labels.index(name) for name in names]
        return np.asarray(found[np.ix_(order, order)])
    return np.atleast_1d(found)


def _named(estimate: Any) -> tuple[tuple[str, ...], Array]:
    """Return names and numbers of estimates: names from a mapping or an index, else their places."""
    if isinstance(estimate, Mapping):
        return tuple(map(str, estimate)), _numbers(list(estimate.values()))
    values = _numbers(estimate)
    if _is_series(estimate):
        return _labels(estimate.index), values
    if values.ndim == 0:
        return ("estimate",), values.reshape(1)
    return _numbered(values.shape), values


def _numbers(estimate: Any) -> Array:
    try:
        values = np.asarray(estimate, dtype=np.float64)
    except (TypeError, ValueError):
        raise _unknown(estimate) from None
    if values.ndim > 1 or values.size == 0:
        raise _unknown(estimate)
    return values


def _is_series(thing: Any) -> bool:
    """Return whether a thing is labelled as pandas does it, without loading pandas."""
    return hasattr(thing, "index") and hasattr(thing, "to_numpy")


def _labels(index: Any) -> tuple[str, ...]:
    return tuple(" / ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in index)


def _numbered(shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"[{', '.join(map(str, place))}]" for place in np.ndindex(shape))


def _checked(answer: Answer) -> Answer:
    """Return the answer; refuse names that stand twice, and numbers that are none."""
    if len(set(answer.names)) < len(answer.names):
        raise UsageError(sentence("two estimates have the same name", where="what the analysis returned"))
    finite = np.isfinite(answer.value)
    if answer.variance is not None:
        finite &= np.isfinite(answer.variance) & (answer.variance >= 0)
    if not finite.all():
        bad = [name for name, good in zip(answer.names, finite, strict=True) if not good]
        what = f"an estimate or its variance is not a finite number: {few(bad, 5)}"
        raise EstimationError(sentence(what, fix="use fewer variables, or merge categories"))
    return answer


def _unknown(returned: Any) -> UsageError:
    what = "the analysis returned nothing that can be pooled"
    return UsageError(sentence(what, got=type(returned).__name__, wanted=FORMS))
