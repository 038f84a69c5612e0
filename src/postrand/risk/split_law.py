"""The law of a mechanism with a split on the key variables: one ordinary law for each set of keys that records show.

A subset T is drawn without looking at the record. So the records that show T are a random sample of the file, fraction
``π_T``, of which these variables are released as by a joint block: every measure after perturbation applies to each of
these samples. The attacker sees which keys a record shows. Subsets that show the same keys, and differ in other
variables, are one part: what is shown beside the keys is not used, as no measure uses other variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import UsageError, raise_all, sentence
from postrand.mechanism import Block, Mechanism, Subset
from postrand.mechanism.units import warn_shared
from postrand.risk.blend import Blend
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, ravel
from postrand.risk.law import KeyLaw, LawOf, group_of, releases, together
from postrand.support.showing import few

MAX_DENSE = 4096
"""The largest matrix of a subset, other than randomised response, that is used: 128 MB."""
_SAME = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The records that show the keys ``positions``, with probability ``probability``; ``law`` is that of these keys.

    ``law`` is None where no key is shown. Where one member of each household shows a subset, the probability is the
    mean over the records; see ``SplitLaw.chances``.
    """

    probability: float
    positions: tuple[int, ...]
    law: KeyLaw | None

    @property
    def alone(self) -> bool:
        """Whether the keys that are shown have no other law than one of randomised response, or none is shown."""
        return self.law is None or not self.law.matrices

    def require_law(self) -> KeyLaw:
        """Return the law of the keys that are shown."""
        assert self.law is not None, "records of this part show no key"
        return self.law


@dataclass(frozen=True, slots=True, eq=False)
class SplitLaw:
    """Hold the parts of a split, whose probabilities sum to 1, for keys of these names and numbers of true codes.

    A released file has one code more, the last, for each key of ``partly``: the record does not show it. Where one
    random member of each household shows a subset, ``household`` (n,) are the households of the file's records, from 0,
    and ``hidden`` is the number of the part of all others.

    Examples
    --------
    >>> from postrand.codebook import Variable
    >>> from postrand.mechanism import Split
    >>> from postrand.mechanism.matrix import randomised_response
    >>> book = Codebook(tuple(Variable(name, role="key", categories=("no", "yes")) for name in "ab"))
    >>> pair, one = Block(("a", "b"), randomised_response(4, 2.0)), Block(("b",), randomised_response(2, 2.0))
    >>> law = SplitLaw.of(Mechanism([], book, split=Split.of([0.75, 0.25], [pair, one])), ("a", "b"), (2, 2))
    >>> [(part.probability, part.positions) for part in law.parts], law.released_shape
    ([(0.75, (0, 1)), (0.25, (1,))], (3, 3))
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    partly: tuple[int, ...]
    parts: tuple[Part, ...]
    household: IntArray | None = None
    hidden: int = -1

    @classmethod
    def of(
        cls, mechanism: Mechanism, names: Sequence[str], shape: Sequence[int], household: IntArray | None = None
    ) -> SplitLaw:
        """Return the parts on keys of these names and numbers of codes; ``household`` (n,) tells who is together.

        Raises
        ------
        UsageError
            As :meth:`KeyLaw.of`; or if the law of a subset's keys depends on variables that are not keys, or one member
            of each household shows a subset and the households are not given.
        """
        split = mechanism.split
        assert split is not None, "a mechanism with a split"
        problems: list[str] = []
        partly = tuple(j for j, name in enumerate(names) if name in split.variables)
        subsets: dict[tuple[int, ...], list[Subset]] = {}
        for subset in split.subsets:
            shown = tuple(j for j in range(len(names)) if j not in partly or names[j] in subset.variables)
            subsets.setdefault(shown, []).append(subset)
        parts = []
        for shown, members in subsets.items():
            inner, sizes = [names[j] for j in shown], [shape[j] for j in shown]
            laws = [_law_of(one, inner, sizes, mechanism.codebook, problems) for one in members]
            law = None if problems else _mixed(members, laws, sizes, problems)
            if not problems:
                more = () if law is None else (law,)
                whole = KeyLaw.of_blocks(mechanism.blocks, inner, sizes, *more) if shown else None
                parts.append(Part(sum(one.probability for one in members), shown, whole))
        if split.of_members and (household is None or not household.size):
            what = f"one random member of each household shows {few(split.variables)}, and the households "
            fix = "name the column of household numbers: household=..., or the role 'household'"
            problems.append(sentence(f"{what}are not known", fix=fix))
        raise_all(UsageError, problems)
        found = cls(tuple(names), tuple(shape), partly, tuple(parts))
        return found if not split.of_members or household is None else found._of_members(mechanism, household)

    def _of_members(self, mechanism: Mechanism, household: IntArray) -> SplitLaw:
        """Return the law where one random member of each household shows a part, and the others the hidden one."""
        _, numbers = np.unique(household, return_inverse=True)
        share = (int(numbers.max()) + 1) / numbers.size
        parts = [replace(part, probability=share * part.probability) for part in self.parts]
        rest = tuple(j for j in range(len(self.names)) if j not in self.partly)
        shown = [part.positions for part in parts]
        if rest in shown:  # a subset without keys: who shows it cannot be told from the others
            hidden = shown.index(rest)
            parts[hidden] = replace(parts[hidden], probability=parts[hidden].probability + 1 - share)
        else:
            hidden, inner = len(parts), [self.names[j] for j in rest]
            law = KeyLaw.of_blocks(mechanism.blocks, inner, [self.shape[j] for j in rest]) if rest else None
            parts.append(Part(1 - share, rest, law))
        return replace(self, parts=tuple(parts), household=numbers, hidden=hidden)

    def among(self, records: IntArray) -> SplitLaw:
        """Return the law of some records alone, whole households: how often they show a part depends on their sizes."""
        if self.household is None:
            return self
        _, numbers = np.unique(self.household[records], return_inverse=True)
        share = (int(numbers.max()) + 1) / numbers.size
        every = share * self.chosen()
        every[self.hidden] += 1 - share
        parts = tuple(replace(part, probability=p) for part, p in zip(self.parts, every.tolist(), strict=True))
        return replace(self, parts=parts, household=numbers)

    def chosen(self) -> FloatArray:
        """Return the probability that the member who is shown, or each record, shows each part, shape (T,)."""
        every = np.array([part.probability for part in self.parts])
        if self.household is not None:
            share = (int(self.household.max()) + 1) / self.household.size
            every[self.hidden] -= 1 - share
            every = np.maximum(every, 0.0) / share
        return np.asarray(every / every.sum())

    def sizes(self) -> IntArray | int:
        """Return how many records each one was chosen among, shape (n,); 1 where each record shows a subset."""
        return 1 if self.household is None else np.asarray(np.bincount(self.household)[self.household])

    def chances(self) -> Iterator[FloatArray | float]:
        """Yield for each part the probability that a record shows it: one number, or of each record, shape (n,)."""
        sizes = self.sizes()
        for k, chance in enumerate(self.chosen().tolist()):
            yield chance / sizes + (1 - 1 / sizes if k == self.hidden else 0.0)

    def standing(self, released: KeyCodes) -> FloatArray | float:
        """Return by what the weight of each released record is multiplied, so that each part stands for all, (n,).

        A record stands for ``w / P(T)`` persons. Where ``P(T)`` is that of the part on average, the factor is 1.
        """
        if self.household is None:
            return 1.0
        of, factor = self.shown(np.stack(released.codes, axis=1)), np.ones(released.records)
        for k, (part, chance) in enumerate(zip(self.parts, self.chances(), strict=True)):
            factor[of == k] = (part.probability / np.maximum(chance, np.finfo(float).tiny))[of == k]
        return factor

    @property
    def alone(self) -> bool:
        """Whether every part has a law of randomised response, or shows no key."""
        return all(part.alone for part in self.parts)

    is_identity = False
    """A split hides values, even where it changes none."""

    @property
    def released_shape(self) -> tuple[int, ...]:
        """The numbers of codes of a released file."""
        return tuple(size + (j in self.partly) for j, size in enumerate(self.shape))

    @property
    def cells(self) -> int:
        """The number of combinations of keys and values that a record can show, feasible or not."""
        return sum(math.prod(self.shape[j] for j in part.positions) for part in self.parts)

    def shown(self, codes: IntArray) -> IntArray:
        """Return the number of the part of each row of released codes, (m, J) → (m,).

        Raises
        ------
        UsageError
            If a record shows other keys than any subset does.
        """
        if not self.partly:
            return np.zeros(codes.shape[0], dtype=np.int64)
        pattern = np.stack([codes[:, j] != self.shape[j] for j in self.partly], axis=1)
        found = np.full(codes.shape[0], -1)
        for k, part in enumerate(self.parts):
            found[(pattern == [j in part.positions for j in self.partly]).all(axis=1)] = k
        if (found < 0).any():
            raise UsageError(sentence("a record shows a set of keys that no subset of the split shows"))
        return found

    def tables(self, released: CellTable) -> Iterator[tuple[Part, IntArray, CellTable | None]]:
        """Yield each part with the numbers of its cells in a released table, and their own table; None without keys."""
        of = self.shown(released.codes)
        for k, part in enumerate(self.parts):
            at = np.flatnonzero(of == k)
            sizes = tuple(self.shape[j] for j in part.positions)
            names = tuple(self.names[j] for j in part.positions)
            codes, counts = released.codes[at][:, list(part.positions)], released.counts[at]
            records = np.repeat(np.arange(at.size), counts)
            yield part, at, CellTable(names, sizes, codes, counts, records) if names else None

    def posterior(self, released: Sequence[int], prior: FloatArray) -> FloatArray:
        """Return ``P(x | T, y)`` of the true keys of one released record, with the shape of ``prior``, (S_1, ..., S_J).

        ``released`` are its codes, the last one of a key that it does not show. ``π_T`` says nothing of x and cancels.

        Raises
        ------
        UsageError
            If the record shows other keys than any subset does, or the law cannot release these values.

        Examples
        --------
        >>> from postrand.codebook import Variable
        >>> from postrand.mechanism import Split
        >>> from postrand.mechanism.matrix import randomised_response
        >>> book = Codebook(tuple(Variable(name, role="key", categories=("no", "yes")) for name in "ab"))
        >>> blocks = [Block(("a",), randomised_response(2, 1.0)), Block(("b",), randomised_response(2, 1.0))]
        >>> law = SplitLaw.of(Mechanism([], book, split=Split.of([0.75, 0.25], blocks)), ("a", "b"), (2, 2))
        >>> law.posterior([1, 2], np.full((2, 2), 0.25)).round(3).tolist()  # a is yes, b is not shown
        [[0.134, 0.134], [0.366, 0.366]]
        """
        part = self.parts[int(self.shown(np.array([released]))[0])]
        axes, hidden = list(part.positions), [j for j in range(len(self.shape)) if j not in part.positions]
        likelihood = np.ones(self.shape)
        if part.law is not None:
            seen = np.zeros([self.shape[j] for j in axes])
            seen[tuple(released[j] for j in axes)] = 1.0
            found = part.law.apply(seen, range(len(axes)), adjoint=True)
            likelihood = likelihood * np.expand_dims(found, tuple(hidden))
        joint = np.asarray(prior, dtype=np.float64) * likelihood
        if not joint.sum() > 0:
            raise UsageError(sentence("under this prior the law never releases these values"))
        return np.asarray(joint / joint.sum())

    def vulnerability(self, prior: FloatArray) -> float:
        """Return the chance that the best guess of all true keys is right, ``Σ_T π_T Σ_y max_x p(x) M_T[x_T, y]``.

        Without the release it would be ``max p``. The ``prior`` p has the shape (S_1, ..., S_J).
        """
        total = 0.0
        for part in self.parts:
            hidden = tuple(j for j in range(len(self.shape)) if j not in part.positions)
            best = np.asarray(prior, dtype=np.float64).max(axis=hidden)
            if part.law is None:
                total += part.probability * float(best)
                continue
            largest = np.zeros(best.shape)
            for cell in np.ndindex(best.shape):
                row = np.zeros(best.shape)
                row[cell] = best[cell]
                largest = np.maximum(largest, part.law.apply(row, range(len(best.shape))))
            total += part.probability * float(largest.sum())
        return total

    def drawn(self, keys: KeyCodes, seeds: Iterable[int]) -> Iterator[KeyCodes]:
        """Yield a released version of the true keys for each seed, for risk estimates."""
        for seed in seeds:
            rng = np.random.default_rng([seed, 22])
            of = self._drawn_parts(keys.records, rng)
            codes = [np.full(keys.records, size, np.min_scalar_type(-(size + 1))) for size in self.shape]
            for k, part in enumerate(self.parts):
                at = np.flatnonzero(of == k)
                if part.law is not None and at.size:
                    inside = keys.take(at).select([self.names[j] for j in part.positions])
                    released = next(releases(part.law, inside, [int(rng.integers(2**31))]))
                    for j, column in zip(part.positions, released.codes, strict=True):
                        codes[j][at] = column
            yield KeyCodes(keys.names, self.released_shape, tuple(codes))

    def _drawn_parts(self, records: int, rng: np.random.Generator) -> IntArray:
        """Return the number of the part that each record shows."""
        if self.household is None:
            return rng.choice(len(self.parts), records, p=[part.probability for part in self.parts])
        of, order = np.full(records, self.hidden), rng.permutation(records)
        first = order[np.unique(self.household[order], return_index=True)[1]]
        of[first] = rng.choice(len(self.parts), first.size, p=self.chosen())
        return of


Law = KeyLaw | SplitLaw


def drawn_by(law: Law, keys: KeyCodes, seeds: Iterable[int], household: IntArray | None = None) -> Iterator[KeyCodes]:
    """Return a released version of the true keys for each seed; ``household`` (n,) share the draws that a law says."""
    return law.drawn(keys, seeds) if isinstance(law, SplitLaw) else releases(law, keys, seeds, together(household))


def law_of(mechanism: Mechanism, names: Sequence[str], shape: Sequence[int], household: IntArray | None = None) -> Law:
    """Return the law of a mechanism on keys of these names and numbers of true codes; raises UsageError.

    ``household`` (n,) are the households of the file's records, for a split of which one member of each shows a subset,
    and for keys that are drawn once for them. Warns with SharedDrawsWarning where it is not known who draws together.
    """
    if mechanism.split is not None:
        warn_shared(mechanism, names)
    law = quietly(mechanism, names, shape, household)
    if isinstance(law, KeyLaw):
        ruled = any(block.one is not None and set(block.perturbed) & set(names) for block in mechanism.blocks)
        if household is None or ruled or not law.shares_households:
            warn_shared(mechanism, names)
    return law


def quietly(mechanism: Mechanism, names: Sequence[str], shape: Sequence[int], household: IntArray | None = None) -> Law:
    """Return :func:`law_of` without a warning, for columns beside keys of which it was said."""
    if mechanism.split is None:
        return KeyLaw.of(mechanism, names, shape)
    return SplitLaw.of(mechanism, names, shape, household)


def _law_of(
    subset: Subset, names: Sequence[str], shape: Sequence[int], book: Codebook | None, problems: list[str]
) -> LawOf | None:
    """Return the law of the keys that a subset shows, among keys of these names; None where it shows none."""
    block, where = subset.block, f"subset {subset.block.name!r}"
    if not any(name in names for name in block.perturbed):
        return None
    inside = sorted((names.index(name), k) for k, name in enumerate(block.variables) if name in names)
    at, order = zip(*inside, strict=True)
    every = len(inside) == len(block.variables)
    if every and (block.given or block.matrix.size != _size(block, shape, at)):
        return group_of(block, names, shape, problems)  # strata, or one variable whose missing values are kept
    fix = "name all of its variables as keys"
    if not every and book is None:
        problems.append(sentence("the subset shows or reads other variables than keys", where=where, fix=fix))
        return None
    sizes = [shape[names.index(n)] if n in names else book[n].size if book else 0 for n in block.variables]
    blend = Blend.of(block, at, sizes, order)
    if blend is not None:
        return blend
    if block.matrix.size > MAX_DENSE:
        what = "the matrix of a subset is too large for the risk after perturbation"
        problems.append(sentence(what, where=where, got=f"{block.matrix.size:,} cells", wanted=f"<= {MAX_DENSE:,}"))
        return None
    found = lumped(block, sizes, order)
    if found is None:
        what = "the released keys of a subset depend on variables that are not keys"
        problems.append(sentence(what, where=where, fix=fix))
        return None
    matrix, cells = found
    return at, matrix, cells, np.arange(cells.size)


def _size(block: Block, shape: Sequence[int], at: Sequence[int]) -> int:
    return block.matrix.size if block.cells is not None else math.prod(shape[j] for j in at)


def lumped(block: Block, sizes: Sequence[int], order: Sequence[int]) -> tuple[FloatArray, IntArray] | None:
    """Return the matrix of some of a block's variables, and its cells; None where the others decide it too.

    ``sizes`` are those of the block's variables, ``order`` the places of those that are asked.
    """
    codes = block.cell_table(tuple(sizes))[:, list(order)]
    cells, place = np.unique(ravel(list(codes.T), [sizes[k] for k in order]), return_inverse=True)
    margin = np.zeros((block.matrix.size, cells.size))
    np.add.at(margin.T, place, block.matrix.array.T)
    matrix = np.empty((cells.size, cells.size))
    matrix[place] = margin
    return None if np.abs(matrix[place] - margin).max() > _SAME else (matrix, cells)


def _mixed(
    members: Sequence[Subset], laws: Sequence[LawOf | None], sizes: Sequence[int], problems: list[str]
) -> LawOf | None:
    """Return the law of keys that several subsets show: the mean of theirs, by their probabilities."""
    if len(laws) == 1 or None in laws:
        return laws[0]
    known = [law for law in laws if law is not None]
    weights = np.array([one.weight for one in members], dtype=np.float64)
    blends = [law for law in known if isinstance(law, Blend)]
    if len(blends) == len(known):
        return Blend.mean(blends, weights / weights.sum())
    groups = [law.group() if isinstance(law, Blend) else law for law in known]
    if any(g[0] != groups[0][0] or not np.array_equal(g[2], groups[0][2]) for g in groups):
        where = f"subset {members[0].block.name!r} and others"
        what = "subsets show the same keys on different cells"
        problems.append(sentence(what, where=where, fix="name all of their variables as keys"))
        return None
    matrix = sum(w * g[1][np.ix_(g[3], g[3])] for w, g in zip(weights / weights.sum(), groups, strict=True))
    return groups[0][0], np.asarray(matrix), groups[0][2], np.arange(groups[0][2].size)
