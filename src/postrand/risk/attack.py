"""What an attacker who knows the matrix can infer, and linkage attacks carried out on a released file."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import UsageError, sentence
from postrand.mechanism.matrix import TransitionMatrix
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.linkage import Knowledge, Linkage
from postrand.risk.links import TIED, Links, View
from postrand.risk.others import MOST_CORRECTED, Others, others
from postrand.risk.split_attack import link_split
from postrand.risk.split_law import Law, SplitLaw


def posterior(matrix: TransitionMatrix, prior: ArrayLike) -> FloatArray:
    """Return ``P(true = i | released = j)``, shape (S, S), rows true, columns released; unreachable columns are 0.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> posterior(M, [0.5, 0.5]).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    joint = matrix.array * _prior(matrix, prior)[:, None]
    mass = joint.sum(axis=0)
    found: FloatArray = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
    return found


def bayes_vulnerability(matrix: TransitionMatrix, prior: ArrayLike) -> float:
    """Return ``Σ_j max_i p_i M[i,j]``: the chance that the best guess of the true category is right.

    Without the release it would be ``max_i p_i``.

    Examples
    --------
    >>> bayes_vulnerability(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]), [0.5, 0.5])
    0.75
    """
    return float((matrix.array * _prior(matrix, prior)[:, None]).max(axis=0).sum())


def best_guess(matrix: TransitionMatrix, prior: ArrayLike) -> IntArray:
    """Return the most probable true category for each released one, shape (S,); the first one of several."""
    guess: IntArray = (matrix.array * _prior(matrix, prior)[:, None]).argmax(axis=0)
    return guess


def target_posterior(matrix: TransitionMatrix, counts: ArrayLike) -> FloatArray:
    """Return ``P(record = target | released = k)`` for a target of type m, ``M[m,k] / Σ_l U0(l) M[l,k]`` (CHR §2).

    ``counts`` (S,) holds ``U0``, the records of each type. Shape (S, S), rows the target's type, columns the value
    released; C1 asks that no entry of a type that occurs exceeds α. Columns that nothing reaches are 0.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != (matrix.size,) or (counts < 0).any():
        raise UsageError(sentence("counts must be one number >= 0 for each category", got=counts.shape))
    mass = counts @ matrix.array
    found: FloatArray = np.divide(matrix.array, mass, out=np.zeros_like(matrix.array), where=mass > 0)
    return found


def _prior(matrix: TransitionMatrix, prior: ArrayLike) -> FloatArray:
    p = np.asarray(prior, dtype=np.float64)
    if p.shape != (matrix.size,) or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        wanted = f"{matrix.size} numbers >= 0 that sum to 1"
        raise UsageError(sentence("the prior does not fit the matrix", got=f"shape {p.shape}", wanted=wanted))
    return p


def link(
    truth: KeyCodes,
    released: KeyCodes,
    law: Law | None = None,
    knowledge: Knowledge = "matrix",
    *,
    targets: IntArray | None = None,
    people: CellTable | None = None,
) -> Linkage:
    """Carry out a linkage attack: link each target, whose true keys are known, to a record of the released file.

    Record i of ``truth`` and of ``released`` are one person; the attacker sees neither order. ``targets`` are positions
    of the persons attacked, all of them by default, and ``people`` their table, where the caller has it; the attacker
    knows that each is in the file. ``"exact"`` links
    to records with all keys equal; ``"nearest"`` to those with the most keys equal; ``"matrix"`` to those with the
    largest posterior of an attacker who knows M and the released file, nothing else:

    ``P(record r is the target) = w_r / Σ_s w_s,  w_r = M[x, z_r] / q(z_r)``

    where q is the law of the other released records, taken as independent draws: with the target at r, the release has
    the likelihood ``M[x, z_r] Π_(s≠r) q(z_s)``. The attacker fits q to the release (``others``); the product of the
    margins would be wrong by factors where keys depend on each other, and the best link picks the cells where it is
    too low. What is left of that the attacker takes off: they draw a file from their own q, fit q anew to it, and
    multiply every claim by what their links are worth there over what is claimed (``correction``). So the mean claim
    is near the rate of correct matches; it is a mean over targets drawn at random from the file, and may be too low for
    those chosen because nobody is like them: the attacker does not know that.

    ``"keys"`` knows the true keys of all persons besides, and so the law of the others: ``q(z) = Σ_i M[x_i, z] / n``,
    with all n persons in it. Nothing is fitted, and nothing taken off. Each person is still linked by itself.

    After a split (a ``SplitLaw``) ``z_r`` is what record r shows and its values: see ``split_attack.link_split``.

    Raises
    ------
    UsageError
        If the files differ in keys or number of records, or ``"matrix"`` is asked for without a law.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1]),))
    >>> link(keys, keys, knowledge="exact").correct.tolist()
    [1.0, 0.5, 0.5]
    """
    if isinstance(law, SplitLaw):
        return link_split(truth, released, law, knowledge, targets=targets, people=people)
    if truth.names != released.names or truth.shape != released.shape or truth.records != released.records:
        raise UsageError(sentence("truth and release differ in keys or number of records"))
    if not truth.records:
        return Linkage(knowledge, np.empty(0), np.empty(0))
    chosen = np.arange(truth.records) if targets is None else np.asarray(targets)
    people, held = people or table(truth.take(chosen)), table(released)
    tables, rows, columns = _weights(people.codes, held.codes, truth.shape, law, knowledge)
    view = View(tables, rows, columns, held.counts)
    x, z = people.record_cell, held.record_cell[chosen]
    if knowledge == "matrix":
        model = others(columns, held.counts, [t.shape[1] for t in tables])
        density = model.density(columns)
        links = view.links(1 / density)
        correction = _correction(model, view, np.bincount(x, minlength=rows.shape[0]))
    elif knowledge == "keys":
        density, correction = _known(truth, law, tables, columns), 1.0
        links = view.links(1 / density)
    else:
        density, correction = np.ones(held.counts.size), 1.0
        links = view.links(density)
    # The nearest record's attacker has no probabilities: each of the nearest is as good as another.
    total = links.best * links.tied if knowledge == "nearest" else links.total
    claimed = np.divide(links.best, total, out=np.zeros_like(total), where=total > 0)
    correct = (1 / np.maximum(links.tied, 1)).take(x)
    correct *= _hits(view, links, x, z, 1 / density)
    return Linkage(knowledge, correct, np.minimum(correction * claimed, 1.0).take(x), correction)


def _known(truth: KeyCodes, law: KeyLaw | None, tables: list[FloatArray], columns: IntArray) -> FloatArray:
    """Return ``Σ_i M[x_i, z] / n`` of released cells z with these columns, over all persons i of the true file."""
    assert law is not None
    cells = table(truth)
    turned = [np.ascontiguousarray(one.T) for one in tables]
    everybody = View(turned, columns, law.groups(cells.codes), cells.counts)
    return everybody.totals(np.ones(cells.counts.size)) / truth.records


def _hits(view: View, links: Links, x: IntArray, z: IntArray, scale: FloatArray) -> NDArray[np.bool_]:
    """Tell of targets of types x (n,) whether their own cells z (n,) are among those that they are linked to."""
    found: NDArray[np.bool_] = links.at.take(x) == z
    several = np.flatnonzero((links.tied != view.counts[links.at]).take(x))  # most types are linked to one cell alone
    least = np.where(links.best > 0, links.best * TIED, np.inf)
    found[several] = view.reach(x[several], z[several], scale, least)
    return found


def _correction(model: Others, view: View, wanted: IntArray) -> float:
    """Return what links to a file drawn from the attacker's own law are worth, over what would be claimed of them.

    ``wanted`` holds the number of targets of each type. The law is known there, and so is each link's true posterior.
    """
    rng = np.random.default_rng(0)
    some = np.arange(wanted.size)
    if some.size > MOST_CORRECTED:  # a mean over that many targets has next to no error
        some = rng.choice(some.size, MOST_CORRECTED, p=wanted / wanted.sum())
        wanted = np.ones(some.size)
    sizes = tuple(t.shape[1] for t in view.tables)
    cells, counts = model.draw(int(view.counts.sum()), rng)
    again = others(cells, counts, sizes, seed=1).density(cells)
    there = View(view.tables, view.rows[some], cells, counts)
    links = there.links(1 / again)
    truth = model.density(cells)
    found = links.at >= 0
    at = links.at[found]
    worth = links.best[found] * again[at] / truth[at] / there.totals(1 / truth)[found]
    expected = float(wanted[found] @ (links.best[found] / links.total[found]))
    return float(wanted[found] @ worth) / expected if expected > 0 else 1.0


def _weights(
    true_codes: IntArray, released_codes: IntArray, shape: tuple[int, ...], law: KeyLaw | None, knowledge: Knowledge
) -> tuple[list[FloatArray], IntArray, IntArray]:
    if knowledge in ("matrix", "keys"):
        if law is None:
            raise UsageError(sentence("an attacker who knows the matrix needs it", fix="pass law=KeyLaw.of(...)"))
        return list(law.matrices), law.groups(true_codes), law.groups(released_codes)
    if knowledge not in ("exact", "nearest"):
        raise UsageError(sentence(f"unknown knowledge {knowledge!r}", wanted="exact, nearest, matrix or keys"))
    other = 0.0 if knowledge == "exact" else 1 / 1024  # a power of two: equal agreements give exactly equal weights
    tables = [np.where(np.eye(size) > 0, 1.0, other) for size in shape]
    return tables, true_codes.astype(np.int32), released_codes.astype(np.int32)
