"""Descriptions of the variables: the codebook, its rules and codes, and distances between categories."""

from postrand.codebook.codebook import Codebook
from postrand.codebook.variable import Variable

__all__ = ["Codebook", "Variable"]
