"""What each variable is: the codebook, its rules and codes, distances between categories."""

from postrand.codebook.codebook import Codebook
from postrand.codebook.variable import Variable

__all__ = ["Codebook", "Variable"]
