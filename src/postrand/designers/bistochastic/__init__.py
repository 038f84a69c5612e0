"""Bistochastic matrices: exact laws whose rows and columns sum to 1 (RDF)."""

from postrand.designers.bistochastic.birkhoff_mixture import Birkhoff, birkhoff
from postrand.designers.bistochastic.majorisation import is_diagonally_dominant, majorises, transfer_matrix
from postrand.designers.bistochastic.parameterisations import blocks, circulant, reach_beta, tridiagonal
from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.designers.bistochastic.sharing import shares
from postrand.designers.bistochastic.truthfulness import TruthfulDesign, allocate, truthful

__all__ = [
    "Birkhoff",
    "TruthfulDesign",
    "allocate",
    "birkhoff",
    "blocks",
    "circulant",
    "is_diagonally_dominant",
    "majorises",
    "reach_beta",
    "round_bistochastic",
    "shares",
    "transfer_matrix",
    "tridiagonal",
    "truthful",
]
