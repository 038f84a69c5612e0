"""Numerical attributes: individuals as categories, with bistochastic laws on their ranks (RDF §3.2, appendix A.2)."""

from postrand.numerical.laws import RankBand, RankBlocks, RankLaw
from postrand.numerical.model import PermutationModel, permutation_model, reverse_map
from postrand.numerical.release import average, permutation, permute

__all__ = [
    "PermutationModel",
    "RankBand",
    "RankBlocks",
    "RankLaw",
    "average",
    "permutation",
    "permutation_model",
    "permute",
    "reverse_map",
]
