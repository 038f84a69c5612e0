"""Correct inference from a release: the analyst has the data, the matrices and nothing else."""

import warnings
from typing import Any

from postrand.estimate.em import maximum_likelihood
from postrand.estimate.export import r_files
from postrand.estimate.functionals import Ratio, identified, odds_ratio, quantities, ratio
from postrand.estimate.groups import mean, ratio_of_totals, total
from postrand.estimate.hypotheses import ChiSquared, goodness_of_fit_test, independence_test
from postrand.estimate.planning import Precision, expected_precision
from postrand.estimate.quantiles import quantile
from postrand.estimate.recognition import Candidates, candidates
from postrand.estimate.regression_result import Regression
from postrand.estimate.regression_simex import Simex, mcsimex
from postrand.estimate.regressions import regression
from postrand.estimate.result import Estimate
from postrand.estimate.tally import from_counts
from postrand.estimate.unbiased import from_tally, proportions, table

__all__ = [
    "Candidates",
    "ChiSquared",
    "Estimate",
    "Precision",
    "Ratio",
    "Regression",
    "Simex",
    "candidates",
    "expected_precision",
    "from_counts",
    "from_tally",
    "goodness_of_fit_test",
    "identified",
    "independence_test",
    "maximum_likelihood",
    "mcsimex",
    "mean",
    "odds_ratio",
    "proportions",
    "quantile",
    "quantities",
    "r_files",
    "ratio",
    "ratio_of_totals",
    "regression",
    "table",
    "total",
]

_FORMER = {"test_goodness_of_fit": goodness_of_fit_test, "test_independence": independence_test}


def __getattr__(name: str) -> Any:
    """Return what is asked for by its former name: one that pytest takes for a test of its own."""
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"estimate.{name} is now estimate.{_FORMER[name].__name__}", DeprecationWarning, stacklevel=2)
    return _FORMER[name]
