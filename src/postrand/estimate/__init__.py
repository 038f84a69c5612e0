"""Correct inference from a release: the analyst has the data, the matrices and nothing else."""

from postrand.estimate.em import maximum_likelihood
from postrand.estimate.regression import Regression, regression
from postrand.estimate.regression_simex import Simex, mcsimex
from postrand.estimate.result import Estimate
from postrand.estimate.tally import from_counts
from postrand.estimate.unbiased import from_tally, proportions, table

__all__ = [
    "Estimate",
    "Regression",
    "Simex",
    "from_counts",
    "from_tally",
    "maximum_likelihood",
    "mcsimex",
    "proportions",
    "regression",
    "table",
]
