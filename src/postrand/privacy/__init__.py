"""Privacy models: one file each, one Protocol, one conformance suite."""

from postrand.privacy.base import FileModel, Finding, LinearConstraints, PrivacyModel, needs_file
from postrand.privacy.bistochastic import Bistochastic
from postrand.privacy.differential import DifferentialPrivacy
from postrand.privacy.key_types import KeyTypes
from postrand.privacy.metric import MetricPrivacy
from postrand.privacy.recognition import Recognition, SpontaneousRecognition
from postrand.privacy.together import Together, models_of

MODELS: tuple[type, ...] = (DifferentialPrivacy, Bistochastic, SpontaneousRecognition, MetricPrivacy)
"""Every model that a plan or certificate may name, by its ``name``."""

__all__ = [
    "MODELS",
    "Bistochastic",
    "DifferentialPrivacy",
    "FileModel",
    "Finding",
    "KeyTypes",
    "LinearConstraints",
    "MetricPrivacy",
    "PrivacyModel",
    "Recognition",
    "SpontaneousRecognition",
    "Together",
    "models_of",
    "needs_file",
]
