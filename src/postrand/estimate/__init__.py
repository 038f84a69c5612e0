"""Correct inference from a release: the analyst has the data, the matrices and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from typing import Any

from postrand.estimate.em import maximum_likelihood
from postrand.estimate.export import r_files
from postrand.estimate.functionals import Ratio, identified, odds_ratio, quantities, ratio
from postrand.estimate.groups import mean, ratio_of_totals, total
from postrand.estimate.hypotheses import ChiSquared, goodness_of_fit_test, independence_test
from postrand.estimate.offer import Estimator, Option
from postrand.estimate.planning import Precision, expected_precision
from postrand.estimate.quantiles import quantile
from postrand.estimate.recognition import Candidates, candidates
from postrand.estimate.regression_result import Regression
from postrand.estimate.regression_simex import Simex, mcsimex
from postrand.estimate.regressions import regression
from postrand.estimate.result import Estimate
from postrand.estimate.split_tables import split_table
from postrand.estimate.tally import from_counts
from postrand.estimate.unbiased import from_tally, proportions, table

__all__ = [
    "Candidates",
    "ChiSquared",
    "Estimate",
    "Estimator",
    "Option",
    "Precision",
    "Ratio",
    "Regression",
    "Simex",
    "candidates",
    "estimators",
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
    "split_table",
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


@cache
def estimators() -> dict[str, Estimator]:
    """Return every estimator that is offered as a question, by name: what the modules of this package name.

    >>> list(estimators())[:3]
    ['fit', 'independence', 'mean']
    """
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [one for module in modules for one in getattr(module, "ESTIMATORS", ())]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}
