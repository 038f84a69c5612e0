from .by_model import ModelEstimate
from .em import maximum_likelihood
from .export import r_files
from .functionals import Ratio, identified, odds_ratio, quantities, ratio
from .groups import mean, ratio_of_totals, total
from .hypotheses import ChiSquared, goodness_of_fit_test, independence_test
from .offer import Estimator, Option, estimators
from .planning import Precision, expected_precision
from .pooling import pool
from .pooling_files import CompletedFrames, completed_frames
from .pooling_learning import Ensemble, cross_validated, ensemble
from .pooling_likelihood import likelihood_ratio_test
from .pooling_result import JointTest, Pooled
from .pooling_rules import Combined, combine, copies_for
from .quantiles import quantile
from .recognition import Candidates, candidates
from .regression_result import Regression
from .regression_simex import Simex, mcsimex
from .regressions import regression
from .result import Estimate, effective_records
from .shares import share
from .survey_design import SurveyDesign
from .tables import table
from .tally import from_counts
from .unbiased import from_tally, proportions

__all__ = [
    "Candidates",
    "ChiSquared",
    "Combined",
    "CompletedFrames",
    "Ensemble",
    "Estimate",
    "Estimator",
    "JointTest",
    "ModelEstimate",
    "Option",
    "Pooled",
    "Precision",
    "Ratio",
    "Regression",
    "Simex",
    "SurveyDesign",
    "candidates",
    "combine",
    "completed_frames",
    "copies_for",
    "cross_validated",
    "effective_records",
    "ensemble",
    "estimators",
    "expected_precision",
    "from_counts",
    "from_tally",
    "goodness_of_fit_test",
    "identified",
    "independence_test",
    "likelihood_ratio_test",
    "maximum_likelihood",
    "mcsimex",
    "mean",
    "odds_ratio",
    "pool",
    "proportions",
    "quantile",
    "quantities",
    "r_files",
    "ratio",
    "ratio_of_totals",
    "regression",
    "share",
    "table",
    "total",
]
