"""A likelihood-ratio test over completed copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from postrand.data.frames import Kind
from postrand.errors import UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.pooling import frames_of
from postrand.estimate.pooling_result import JointTest
from postrand.estimate.pooling_rules import check_copies, reference_of


def likelihood_ratio_test(
    full: Callable[[Any], Any], reduced: Callable[[Any], Any], completed: Any, *, kind: Kind | None = None
) -> JointTest:
    """Test that a reduced model is enough: D3 of Meng and Rubin, for fits of statsmodels.

    ``full(frame)`` and ``reduced(frame)`` return fits with ``params``, ``llf`` and ``model.loglike(params)``, the
    reduced model a special case of the full one. With ``d`` the average of ``2 (l_full − l_reduced)`` at the estimates
    of each copy, and ``d~`` that at the estimates averaged over the copies: ``d~ / (k (1 + r))`` with
    ``r = (m + 1)(d − d~)/(k (m − 1))``. Both models are fitted twice in each copy, and ``completed`` is visited twice.
    A variance that ``loglike`` maximises over (of a linear model) is maximised over in each copy. ``completed`` and
    ``kind`` are those of :func:`postrand.estimate.pool`.

    Raises
    ------
    UsageError
        If there are fewer than two copies, ``completed`` can be visited only once, the reduced model does not have
        fewer parameters, or a fit does not give the likelihood of other parameters.

    References
    ----------
    Meng & Rubin (1992), Performing likelihood ratio tests with multiply-imputed data sets.
    """
    frames = frames_of(completed, kind)
    if isinstance(frames, Iterator):
        what = "the copies can be visited only once"
        raise UsageError(sentence(what, fix="give a list, the path of a file, or what pr.complete returned"))
    own = [(_fitted(full(frame)), _fitted(reduced(frame))) for frame in frames]
    copies = len(own)
    check_copies(copies)
    larger, smaller = (np.mean([pair[i][0] for pair in own], axis=0) for i in (0, 1))
    k = larger.size - smaller.size
    if k < 1:
        what = "the reduced model has as many parameters as the full one"
        raise UsageError(sentence(what, got=f"{larger.size} and {smaller.size}"))
    best = 2 * float(np.mean([one[1] - two[1] for one, two in own]))
    shared = 2 * float(np.mean([_at(full(frame), larger) - _at(reduced(frame), smaller) for frame in frames]))
    increase = max((copies + 1) * (best - shared) / (k * (copies - 1)), 0.0)
    reference = reference_of(increase, k, copies)
    statistic = max(shared, 0.0) / (k * (1 + increase))
    return JointTest.of(statistic, k, reference.freedom, increase, "likelihood-ratio test (D3)")


def _fitted(fit: Any) -> tuple[Array, float]:
    """Return the parameters of a fit and its log-likelihood."""
    params, reached, again = np.array(np.nan), np.nan, np.nan
    try:
        params, reached = np.asarray(fit.params, dtype=np.float64), float(fit.llf)
        again = _at(fit, params)
    except (AttributeError, TypeError, NotImplementedError):
        pass  # refused below
    if params.ndim != 1 or not abs(again - reached) <= 1e-8 * (1 + abs(reached)):
        what = "the fit does not give the likelihood of other parameters"
        wanted = "params, llf and model.loglike(params), as a regression of statsmodels has them"
        raise UsageError(sentence(what, got=type(fit).__name__, wanted=wanted, fix="use pool(...).joint_test()"))
    return params, reached


def _at(fit: Any, params: Array) -> float:
    return float(fit.model.loglike(params))
