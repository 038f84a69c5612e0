"""One member of each household: a rule across its records, such as "each household has one head", that a draw keeps.

Of a household with k records, the member i who truly has the category is released as j, one of the k, with::

    P(j = i) = a_k,   P(j) = b_k for each other member,   a_k + (k − 1) b_k = 1,   a_k / b_k <= e^ε

One draw chooses j, and exactly j shows the category. So the household spends ε once, and for each record the law is the
matrix ``[[a_k, 1 − a_k], [b_k, 1 − b_k]]`` (rows: has it, has it not), given the size k: a block that reads the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import sentence
from postrand.mechanism.block import Block
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import UNIT
from postrand.support.inputs import is_whole


@dataclass(frozen=True, slots=True, eq=False)
class OneMember:
    """Hold where the cells of such a block are.

    ``sizes`` (K,) are the records of a household in each cell, ``has`` (K,) whether its member has the category,
    ``pairs`` (K, 2) the cells of the same size: with the category and without.
    """

    sizes: NDArray[np.int64]
    has: NDArray[np.bool_]
    pairs: NDArray[np.intp]

    @classmethod
    def of(cls, codes: NDArray[np.int32], name: int, size: int, one: int, known: Sequence[int]) -> OneMember:
        """Return them from the codes of each cell, (K, 2); ``name`` and ``size`` are the places of the two variables.

        ``one`` is the code of the category, ``known`` the number of records that each code of the size stands for.
        """
        has, strata = codes[:, name] == one, codes[:, size]
        places = {(int(s), bool(h)): at for at, (s, h) in enumerate(zip(strata, has, strict=True))}
        pairs = np.array([[places[int(s), True], places[int(s), False]] for s in strata], dtype=np.intp)
        return cls(np.array(known, dtype=np.int64)[strata], has, pairs)

    @classmethod
    def of_block(cls, block: Block, codebook: Codebook) -> OneMember:
        """Return those of a block that :func:`one_member_problems` accepts."""
        assert block.one is not None
        size = block.given[0]
        known = [int(category) for category in codebook[size].categories]
        codes = np.array(block.cells, dtype=np.int32)
        places = (block.variables.index(block.perturbed[0]), block.variables.index(size))
        return cls.of(codes, *places, block.one, known)

    def law(self, epsilon: float) -> TransitionMatrix:
        """Return the matrix of a record at this ε of its household."""
        weights = np.zeros((len(self.sizes), len(self.sizes)), dtype=np.int64)
        for cell, (size, has) in enumerate(zip(self.sizes.tolist(), self.has.tolist(), strict=True)):
            stays, moves = (UNIT, 0) if size == 1 else _response(size, epsilon)
            chosen = stays if has else moves
            weights[cell, self.pairs[cell, 0]] += chosen
            weights[cell, self.pairs[cell, 1]] += UNIT - chosen
        return TransitionMatrix(weights)

    def stays(self, matrix: TransitionMatrix) -> dict[int, int]:
        """Return ``a_k`` in units of 2^-53, by the number k of records."""
        with_it = np.unique(self.pairs[:, 0])
        return {int(self.sizes[at]): int(matrix.weights[at, at]) for at in with_it}


def _response(size: int, epsilon: float) -> tuple[int, int]:
    weights = randomised_response(size, epsilon).weights
    return int(weights[0, 0]), int(weights[0, 1])


def one_member_problems(block: Block, codebook: Codebook) -> Iterable[str]:
    """Yield why a block cannot choose one member of each household."""
    if block.one is None:
        return
    where = f"block {block.name!r}"
    what = "one member of each household"
    if block.unit != "household" or len(block.given) != 1 or len(block.perturbed) != 1:
        wanted = "unit 'household', one variable, and one given: the number of records of the household"
        yield sentence(f"a block of {what} has another form", where=where, wanted=wanted)
        return
    yield from size_problems(codebook, block.perturbed[0], block.given[0], where)
    codes = np.array(block.cells, dtype=np.int32)
    if (
        codebook[block.perturbed[0]].size != 2
        or not 0 <= block.one < 2
        or len(codes) != 2 * codebook[block.given[0]].size
    ):
        yield sentence(f"a block of {what} does not have every cell", where=where, wanted="two for each size")
        return
    found = OneMember.of_block(block, codebook)
    weights = block.matrix.weights
    for k, (one, other) in zip(found.sizes.tolist(), found.pairs.tolist(), strict=True):
        if int(weights[one, one]) + (k - 1) * int(weights[other, one]) != UNIT or (k == 1 and weights[other, one]):
            fix = "use a plan with one_member, which designs it"
            yield sentence(f"the matrix is not that of a choice among {k} members", where=where, fix=fix)
            return


def size_problems(codebook: Codebook, name: str, size: str, where: str) -> Iterable[str]:
    """Yield why two variables do not fit: one with two categories, and the number of records of its household."""
    if name not in codebook or size not in codebook:
        return
    if codebook[name].size != 2 or codebook[name].missing != "error":
        what = f"{name!r} does not have exactly two categories without missing values"
        yield sentence(what, where=where, fix="recode it: the category that one member has, and all others")
    categories = codebook[size].categories
    if codebook[size].missing != "error" or not categories or not all(is_whole(c, 1) for c in categories):
        what = f"{size!r} is not the number of records of a household"
        yield sentence(what, where=where, wanted="categories 1, 2, 3, ... without missing values")


def kept_rules(blocks: Iterable[Block], codebook: Codebook) -> dict[str, str]:
    """Return in a sentence what is true of each household of the release, by the variable that it is about."""
    return {
        block.perturbed[0]: f"Exactly one record of each household has {block.perturbed[0]} = "
        f"{codebook[block.perturbed[0]].code_labels[block.one]}, as in the true records; one draw chooses which."
        for block in blocks
        if block.one is not None
    }
