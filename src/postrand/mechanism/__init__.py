"""The exact matrices: transition matrices in units of 2^-53, blocks of variables, the mechanism, the sampler."""

from postrand.mechanism.block import Block
from postrand.mechanism.mechanism import Mechanism
from postrand.mechanism.split import Split, Subset
from postrand.mechanism.units import SharedDrawsWarning, Units

__all__ = ["Block", "Mechanism", "SharedDrawsWarning", "Split", "Subset", "Units"]
