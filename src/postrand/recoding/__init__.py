"""Recoding of columns before anything else sees them: groups, hierarchies, bands, limits, rounding, rare categories."""

from postrand.recoding.base import Recoding
from postrand.recoding.recode import Recode

__all__ = ["Recode", "Recoding"]
