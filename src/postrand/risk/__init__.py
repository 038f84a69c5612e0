"""Disclosure risk of microdata before and after perturbation, one file for each measure.

>>> from postrand import risk
>>> risk.assess({"sex": ["F", "M", "M"]}, ["sex"], sampling_fraction=0.1, model="independence").sample_uniques
1
"""

from postrand.risk.assessment import assess
from postrand.risk.attack import bayes_vulnerability, best_guess, link, posterior, target_posterior
from postrand.risk.findings import Finding, Findings
from postrand.risk.measures import Assessment, Measured, RiskMeasure, measure
from postrand.risk.report import RiskReport
from postrand.risk.tuning import Tuning, tune

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
