"""Privacy models: one file each, one Protocol, one conformance suite (:mod:`postrand.testing`).

A new model is a new file here: a frozen dataclass with ``name``, ``traits``, ``check`` and ``constraints``. It is found
by :func:`postrand.support.options.discover`; no list names it.
"""

from typing import Any

from postrand.privacy.accounting import compose
from postrand.privacy.approximate import ApproximateDifferentialPrivacy
from postrand.privacy.base import (
    FileModel,
    Finding,
    LinearConstraints,
    ModelTraits,
    PrivacyModel,
    Responding,
    level_of,
    models_of,
    needs_file,
    of_records,
    promise,
    release_problems,
    require_records,
    require_size,
    rounded,
    spent,
    split_problems,
    with_prior,
)
from postrand.privacy.bistochastic import Bistochastic
from postrand.privacy.concentrated import ConcentratedPrivacy
from postrand.privacy.differential import DifferentialPrivacy
from postrand.privacy.histogram import noisy_counts
from postrand.privacy.key_types import KeyTypes
from postrand.privacy.levels import delta, renyi, zcdp
from postrand.privacy.metric import MetricPrivacy
from postrand.privacy.recognition import Recognition, SpontaneousRecognition
from postrand.privacy.renyi_privacy import RenyiPrivacy
from postrand.privacy.shuffle import shuffled_delta, shuffled_epsilon, shuffled_holds, shuffled_levels
from postrand.privacy.shuffled import ShuffledPrivacy
from postrand.privacy.together import Together
from postrand.support.options import discover

MODELS: tuple[Any, ...] = discover(
    __path__,
    __name__,
    lambda kind: {"name", "traits", "check", "constraints"} <= set(dir(kind)) and kind is not Together,
)
"""Every model that a plan or certificate may name, by its ``name``."""

__all__ = [
    "MODELS",
    "ApproximateDifferentialPrivacy",
    "Bistochastic",
    "ConcentratedPrivacy",
    "DifferentialPrivacy",
    "FileModel",
    "Finding",
    "KeyTypes",
    "LinearConstraints",
    "MetricPrivacy",
    "ModelTraits",
    "PrivacyModel",
    "Recognition",
    "RenyiPrivacy",
    "Responding",
    "ShuffledPrivacy",
    "SpontaneousRecognition",
    "Together",
    "compose",
    "delta",
    "level_of",
    "models_of",
    "needs_file",
    "noisy_counts",
    "of_records",
    "promise",
    "release_problems",
    "renyi",
    "require_records",
    "require_size",
    "rounded",
    "shuffled_delta",
    "shuffled_epsilon",
    "shuffled_holds",
    "shuffled_levels",
    "spent",
    "split_problems",
    "with_prior",
    "zcdp",
]
