"""One member of each household: a rule across its records, such as "each household has one head", that a draw keeps.

Of a household with k records, the member i who truly has the category is released as j, one of the k, with::

    P(j = i) = a_k,   P(j) = b_k for each other member,   a_k + (k − 1) b_k = 1,   a_k / b_k <= e^ε

One draw chooses j, and exactly j shows the category. So the household spends ε once, and for each record the law is the
matrix ``[[a_k, 1 − a_k], [b_k, 1 − b_k]]`` (rows: has it, has it not), given the size k: a block that reads the size.

With a second category that at most one other member has (a head, and perhaps a spouse), a household has k² states: who
has the one, and who the other, or nobody. The true state is released with a, each other one with b, ``a + (k² − 1) b =
1``. A record has the one in k states, the other in k − 1, and neither in (k − 1)². So its law is, given k::

    P(released as c | true t) = N_c b + (a − b) [c = t],   N = (k, k − 1, (k − 1)²)

and the household spends ``ln(a / b)``, which is more than the ratios of this matrix say: see ``household_law``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import sentence
from postrand.mechanism.block import Block
from postrand.mechanism.household_law import shares
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import UNIT
from postrand.support.inputs import is_whole

MAX_PAIRED = 300
"""Records of a household of which two are chosen: the law of its states has the square of it as size."""


@dataclass(frozen=True, slots=True, eq=False)
class OneMember:
    """Hold where the cells of such a block are.

    ``sizes`` (K,) are the records of a household in each cell, ``role`` (K,) whether its member has the category (0), a
    second one that at most one has (1), or none (the last); ``places`` (K, R) the cells of the same size, by role.
    """

    sizes: NDArray[np.int64]
    role: NDArray[np.intp]
    places: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int32],
        name: int,
        size: int,
        one: int,
        known: Sequence[int],
        at_most_one: int | None = None,
    ) -> OneMember:
        """Return them from the codes of each cell, (K, 2); ``name`` and ``size`` are the places of the two variables.

        ``one`` and ``at_most_one`` are the codes of the categories, ``known`` the number of records that each code of
        the size stands for.
        """
        held, strata = codes[:, name], codes[:, size]
        first = [one] if at_most_one is None else [one, at_most_one]
        role = np.full(held.size, len(first), dtype=np.intp)
        for number, code in enumerate(first):
            role[held == code] = number
        cells = {(int(s), int(r)): at for at, (s, r) in enumerate(zip(strata, role, strict=True))}
        places = [[cells[int(s), r] for r in range(len(first) + 1)] for s in strata]
        return cls(np.array(known, dtype=np.int64)[strata], role, np.array(places, dtype=np.intp))

    @property
    def has(self) -> NDArray[np.bool_]:
        """Whether the member of each cell has the category that exactly one has, (K,)."""
        return np.equal(self.role, 0)

    @property
    def named(self) -> int:
        """The number of categories that are chosen: 1, or 2 with one that at most one member has."""
        return int(self.places.shape[1]) - 1

    @classmethod
    def of_block(cls, block: Block, codebook: Codebook) -> OneMember:
        """Return those of a block that :func:`one_member_problems` accepts."""
        assert block.one is not None
        size = block.given[0]
        known = [int(category) for category in codebook[size].categories]
        codes = np.array(block.cells, dtype=np.int32)
        places = (block.variables.index(block.perturbed[0]), block.variables.index(size))
        return cls.of(codes, *places, block.one, known, block.at_most_one)

    def law(self, epsilon: float) -> TransitionMatrix:
        """Return the matrix of a record at this ε of its household."""
        stays = {k: _stays(_states(k, self.named), epsilon) for k in {*self.sizes.tolist()}}
        return TransitionMatrix(self._weights(stays))

    def _weights(self, stays: Mapping[int, int]) -> NDArray[np.int64]:
        weights = np.zeros((len(self.sizes), len(self.sizes)), dtype=np.int64)
        for cell, (k, role) in enumerate(zip(self.sizes.tolist(), self.role.tolist(), strict=True)):
            moves = moved(k, self.named, stays[k])
            weights[cell, self.places[cell]] = np.array(_shares(k, self.named)) * moves
            weights[cell, self.places[cell, role]] += stays[k] - moves
        return weights

    def stays(self, matrix: TransitionMatrix) -> dict[int, int]:
        """Return ``a_k`` in units of 2^-53, by the number k of records: the true state of the household is released."""
        found = {}
        for at in np.unique(self.places[:, 0]):
            k, own = int(self.sizes[at]), int(matrix.weights[at, at])
            others = _states(k, self.named) - _shares(k, self.named)[0]  # states in which this member does not have it
            found[k] = UNIT - (_states(k, self.named) - 1) * ((UNIT - own) // max(others, 1))
        return found

    def fits(self, matrix: TransitionMatrix, size: int) -> bool:
        """Whether the matrix is the law of a choice in households of this size."""
        stays = self.stays(matrix)
        drawn = self.named == 1 or stays[size] >= moved(size, self.named, stays[size]) >= 0
        mine = np.flatnonzero(self.sizes == size)
        return drawn and bool((self._weights(stays)[mine] == matrix.weights[mine]).all())


def moved(size: int, named: int, stays: int) -> int:
    """Return ``b_k`` in units of 2^-53 from ``a_k``: a household is released in one other state."""
    return (UNIT - stays) // max(_states(size, named) - 1, 1)


def _states(size: int, named: int) -> int:
    """Return how many states a household has."""
    return size if named == 1 else size * size


def _shares(size: int, named: int) -> tuple[int, ...]:
    """Return in how many states of its household a record has each role."""
    return (1, size - 1) if named == 1 else shares(size)


def _stays(states: int, epsilon: float) -> int:
    return int(randomised_response(states, epsilon).form.diagonal[0])


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
    yield from size_problems(codebook, block.perturbed[0], block.given[0], where, block.at_most_one is not None)
    codes = np.array(block.cells, dtype=np.int32)
    many = 2 if block.at_most_one is None else 3
    named = (block.one, *([] if block.at_most_one is None else [block.at_most_one]))
    if (
        codebook[block.perturbed[0]].size != many
        or not all(0 <= code < many for code in named)
        or len(codes) != many * codebook[block.given[0]].size
    ):
        each = f"{['two', 'three'][many - 2]} for each size"
        yield sentence(f"a block of {what} does not have every cell", where=where, wanted=each)
        return
    found = OneMember.of_block(block, codebook)
    for k in sorted({*found.sizes.tolist()}):
        if not found.fits(block.matrix, k):
            fix = "use a plan with one_member, which designs it"
            yield sentence(f"the matrix is not that of a choice among {k} members", where=where, fix=fix)
            return


def size_problems(codebook: Codebook, name: str, size: str, where: str, at_most_one: bool = False) -> Iterable[str]:
    """Yield why two variables do not fit: one with two categories, and the number of records of its household.

    With three categories, where one is that which at most one member has.
    """
    if name not in codebook or size not in codebook:
        return
    if codebook[name].size != 2 + at_most_one or codebook[name].missing != "error":
        what = f"{name!r} does not have exactly {'three' if at_most_one else 'two'} categories without missing values"
        and_one = ", the category that at most one has," if at_most_one else ","
        yield sentence(what, where=where, fix=f"recode it: the category that one member has{and_one} and all others")
    categories = codebook[size].categories
    if at_most_one and len(categories) < 2:
        yield sentence(f"{size!r} has fewer than two sizes", where=where, fix="list the sizes 1, 2, 3, ...")
    if codebook[size].missing != "error" or not categories or not all(is_whole(c, 1) for c in categories):
        what = f"{size!r} is not the number of records of a household"
        yield sentence(what, where=where, wanted="categories 1, 2, 3, ... without missing values")
    elif at_most_one and max(map(int, categories)) > MAX_PAIRED:
        what = f"{size!r} has larger households than a choice of two members allows"
        yield sentence(what, where=where, wanted=f"at most {MAX_PAIRED}", fix="use 'one_member' alone")


def kept_rules(blocks: Iterable[Block], codebook: Codebook) -> dict[str, str]:
    """Return in a sentence what is true of each household of the release, by the variable that it is about."""
    return {
        block.perturbed[0]: f"Exactly one record of each household has {block.perturbed[0]} = "
        f"{codebook[block.perturbed[0]].code_labels[block.one]}, {_second(block, codebook)}as in the true records; "
        "one draw chooses which."
        for block in blocks
        if block.one is not None
    }


def _second(block: Block, codebook: Codebook) -> str:
    if block.at_most_one is None:
        return ""
    return f"and at most one has {codebook[block.perturbed[0]].code_labels[block.at_most_one]}, "
