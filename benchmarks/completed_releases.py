"""Releases of the study of completed files: each kind at two levels, designed without looking at the records.

The exception is security against spontaneous recognition, a claim about one file: its design needs that file's counts.
"""

import math
from functools import lru_cache

import pandas as pd

from postrand import Block, Mechanism, SpontaneousRecognition, least_loss, randomised_response, split_design

LEVELS = {
    "separate": (2.0, 4.0),
    "joint": (3.0, 6.0),
    "split": (8.0, 12.0),
    "recognition": (0.02, 0.1),
}
"""ε of each variable, of each block, of a record; α. The first protects more."""


def separate(population, epsilon, drawn):
    """K-ary randomised response of each variable by itself."""
    sizes = {name: population.book[name].size for name in population.perturbed}
    return Mechanism({name: randomised_response(size, epsilon) for name, size in sizes.items()}, population.book)


def joint(population, epsilon, drawn):
    """K-ary randomised response of blocks of one to three variables."""
    book = population.book
    sizes = {names: math.prod(book[name].size for name in names) for names in population.blocks}
    return Mechanism({names: randomised_response(size, epsilon) for names, size in sizes.items()}, book)


def split(population, epsilon, drawn):
    """A split of all variables, designed for all pairs with a uniform prior."""
    return Mechanism([], population.book, split=designed(population, epsilon, len(drawn)))


@lru_cache(maxsize=100)
def designed(population, epsilon, n):
    """Return the law of the split; the same for every draw of the records."""
    book = population.book
    return split_design(book, population.perturbed, epsilon=epsilon, n=n).split(book)


def recognition(population, alpha, drawn):
    """A joint block of three keys, secure against spontaneous recognition in this file; the others are clear."""
    book, keys = population.book, population.keys
    counts = drawn.groupby(list(keys)).size()
    whole = pd.MultiIndex.from_product([range(book[k].size) for k in keys], names=keys)
    counts = counts.reindex(whole, fill_value=0).to_numpy().reshape([book[k].size for k in keys])
    found = least_loss(SpontaneousRecognition(alpha=alpha, subsets=2).on(counts, keys))
    return Mechanism([Block(keys, found.matrix, provenance="confidential")], book)


RELEASES = {"separate": separate, "joint": joint, "split": split, "recognition": recognition}
