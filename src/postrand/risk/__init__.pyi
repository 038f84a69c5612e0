from .assessment import assess
from .attack import bayes_vulnerability, best_guess, link, posterior, target_posterior
from .findings import Finding, Findings
from .measures import Assessment, Measured, RiskMeasure, measure
from .report import RiskReport
from .tuning import Tuning, tune

__all__ = [
    "Assessment",
    "Finding",
    "Findings",
    "Measured",
    "RiskMeasure",
    "RiskReport",
    "Tuning",
    "assess",
    "bayes_vulnerability",
    "best_guess",
    "link",
    "measure",
    "posterior",
    "target_posterior",
    "tune",
]
