"""The joint model of true records that a release is a noisy measurement of: a mixture of products."""

from .evidence import Evidence, Law
from .fitted import Fit
from .fitting import fit
from .values import Draw, Settings

__all__ = ["Draw", "Evidence", "Fit", "Law", "Settings", "fit"]
