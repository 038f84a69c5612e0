"""Privacy models: one file each, one Protocol, one conformance suite."""

from postrand.privacy.base import Finding, LinearConstraints, PrivacyModel
from postrand.privacy.bistochastic import Bistochastic
from postrand.privacy.differential import DifferentialPrivacy

MODELS: tuple[type, ...] = (DifferentialPrivacy, Bistochastic)
"""Every model that a plan or certificate may name, by its ``name``."""

__all__ = ["MODELS", "Bistochastic", "DifferentialPrivacy", "Finding", "LinearConstraints", "PrivacyModel"]
