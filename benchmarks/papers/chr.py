"""Cator, Hensbergen and Rozenholc: the example of §4 and Figure 1, over 20 drawn files: theirs is not printed."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from benchmarks.papers.drawing import Panel, Series, drawing
from benchmarks.papers.items import Item, Row, headed

from postrand.designers import least_loss
from postrand.objectives import L2Loss
from postrand.privacy import SpontaneousRecognition

RECORDS, ALPHA, FILES, NEAR = 2500, 0.1, 20, 0.9
FREQUENT = round(1 / ALPHA)
SHARES = ((0.9, 0.1), (0.85, 0.15), (0.8, 0.2), (0.7, 0.3), (0.6, 0.3, 0.1))


def drawn_file(seed: int, records: int = RECORDS) -> np.ndarray:
    """Return the counts of a file of independent keys with these shares."""
    p = np.ones(())
    for share in SHARES:
        p = np.multiply.outer(p, share)
    return np.random.default_rng(seed).multinomial(records, p.ravel()).reshape([len(s) for s in SHARES])


@cache
def model(seed: int):
    return SpontaneousRecognition(ALPHA, 3).on(drawn_file(seed))


def counts(seed: int) -> np.ndarray:
    return np.asarray(model(seed).file.counts, dtype=float).ravel()


@cache
def best(seed: int, reach: str = "all", min_diagonal: float = 0.0):
    given = {"min_diagonal": min_diagonal} if min_diagonal else {}
    return least_loss(model(seed), reach=reach, **given)


def rare_cells(seed: int) -> np.ndarray:
    """Return which types have the keys of each rare cell: shape (types, rare cells)."""
    members = model(seed).file.incidence(model(seed).key_sets)
    members = members.toarray() if hasattr(members, "toarray") else np.asarray(members)
    inside = counts(seed) @ members
    return members[:, (inside > 0) & (inside < FREQUENT)] > 0


def covering(seed: int) -> int:
    """Return the least number of types that have the keys of every rare cell between them."""
    cells = rare_cells(seed)
    useful = cells[cells.any(axis=1)]
    sizes = range(1, cells.shape[1] + 1)
    return next(k for k in sizes if any(useful[list(c)].any(axis=0).all() for c in combinations(range(len(useful)), k)))


def three_cover() -> str:
    return "yes" if all(covering(seed) <= 3 for seed in range(FILES)) else "no"


def flow(matrix: np.ndarray, seed: int) -> np.ndarray:
    """Return the expected changes from each type (rows) into each other one."""
    return counts(seed)[:, None] * (matrix - np.diag(matrix.diagonal()))


def into_three(seed: int) -> float:
    into = flow(best(seed).matrix.array, seed).sum(axis=0)
    return float(np.sort(into)[-3:].sum() / into.sum())


def from_three(matrix: np.ndarray, seed: int) -> float:
    out = flow(matrix, seed).sum(axis=1)
    return float(out[np.argsort(counts(seed))[-3:]].sum() / out.sum())


@cache
def proportional(seed: int) -> np.ndarray:
    """Return a matrix with the receivers of the covering optimum, and changes in proportion to the frequency.

    It makes the same number of changes into each; types that receive, and rare types, do not change.
    """
    U, into = counts(seed), flow(best(seed, "cover").matrix.array, seed).sum(axis=0)
    into = np.where(into > 1e-6, into, 0.0)
    chance = np.where((into == 0) & (U >= FREQUENT), U, 0.0)
    chance /= U @ chance
    return np.eye(U.size) + np.outer(chance, into) - np.diag(chance * into.sum())


def cost_of_proportion(seed: int) -> float:
    value = L2Loss(RECORDS).value(proportional(seed), counts(seed) / RECORDS)
    return 100 * (value / best(seed, "cover").value - 1)


def exponent(seed: int) -> float:
    """Return the slope of log probability of change on log frequency, over the frequent types that change."""
    U, change = counts(seed), 1 - best(seed, "cover").matrix.array.diagonal()
    there = (U >= FREQUENT) & (change > 1e-6)
    return float(np.polyfit(np.log(U[there]), np.log(change[there]), 1)[0])


def flat() -> str:
    cost = max(cost_of_proportion(seed) for seed in range(FILES))
    return (
        "at the optimum all sources of a receiver change with one probability; probabilities in proportion to the "
        f"frequency take most from the most frequent types, and cost at most {cost:.2f} percent more (next row)"
    )


def over_files(function):
    return lambda: tuple(float(function(seed)) for seed in range(FILES))


def changes(seed: int) -> float:
    return best(seed).details["expected_changes"]


def first_order(changes: float) -> float:
    """Return the loss of a matrix near the identity with these expected changes: twice the changes over n²."""
    return 2 * changes / RECORDS**2


def figure_1() -> str:
    panels = []
    for seed in (1, 4):
        U, M = counts(seed), best(seed, "cover").matrix.array
        there = np.flatnonzero(U >= FREQUENT)
        there = there[np.argsort(U[there])]
        across = list(U[there])
        series = (
            Series(across, list(1 - M.diagonal()[there]), "one", "least loss", dots=True),
            Series(across, list(1 - proportional(seed).diagonal()[there]), "mean", "proportional", dots=True),
        )
        panels.append(Panel(f"file {seed}", "frequency", "probability of change", series))
    return drawing("Probability of change against the frequency of the type", panels)


ITEMS = [
    Item("§4", "types", "48", lambda: float(counts(0).size)),
    Item("§4", "combinations (π, k0)", "104", lambda: float(model(0).file.incidence(model(0).key_sets).shape[1])),
    Item("§4", "rare types, 0 < U0 < 10", "17", over_files(lambda s: len(model(s).rare_types()))),
    Item("§4", "rare combinations, 0 < Uπ < 10", "5", over_files(lambda s: rare_cells(s).shape[1])),
    Item("§4", "three types are enough to cover the rare combinations", "yes", three_cover),
    Item(
        *("§4", "lowest diagonal element", "0.9971"),
        over_files(lambda s: best(s).details["smallest_diagonal"]),
        slow=True,
    ),
    Item("§4", "expected changes", "about 4", over_files(changes), slow=True),
    Item("§4", "L2 loss", "6.4e-7", over_files(lambda s: best(s).value), slow=True),
    Item(
        *("§4", "L2 loss of 4 changes, to first order", "6.4e-7", lambda: first_order(4)),
        "the two do not go together: every change counts twice; 6.4e-7 is the loss of 2 changes, or 4/2500²",
    ),
    Item("", "L2 loss of 2 changes", "6.4e-7", lambda: first_order(2), check=True),
    Item(
        *("§4", "n² loss / changes, from the printed pair", "1.0"),
        over_files(lambda s: best(s).value * RECORDS**2 / changes(s)),
        "to first order it is 2, and it was never less",
        slow=True,
    ),
    Item("§4", "share of changes into three types", "0.99999", over_files(into_three), slow=True),
    Item(
        *("§4", "share of changes out of the three most frequent types", "0.88"),
        over_files(lambda s: from_three(best(s).matrix.array, s)),
        flat,
        slow=True,
    ),
    Item(
        *("", "the same, probabilities in proportion to the frequency", "0.88"),
        over_files(lambda s: from_three(proportional(s), s)),
        slow=True,
        check=True,
    ),
    Item(
        *("Figure 1, a line", "exponent of the frequency in the probability of change", "1"),
        over_files(exponent),
        "at the optimum all sources of a receiver change with one probability",
        slow=True,
    ),
]

FIGURES = {"figure-1": (figure_1, True)}


def frequent(seed: int) -> float:
    return float(best(seed).matrix.array.diagonal()[counts(seed).ravel() >= FREQUENT].min())


def dearer(seed: int, *restricted) -> float:
    return best(seed, *restricted).value / best(seed).value


def spread(function, form: str) -> list[str]:
    found = [float(function(seed)) for seed in range(FILES)]
    return [format(value, form) for value in (min(found), float(np.median(found)), max(found))]


QUANTITIES = (
    ("rare types, 0 < U0 < 10", "17", lambda s: len(model(s).rare_types()), "g"),
    ("rare cells, 0 < U_π(k0) < 10", "5", lambda s: rare_cells(s).shape[1], "g"),
    ("lowest diagonal element", "0.9971", lambda s: best(s).details["smallest_diagonal"], ".4f"),
    ("the same, frequent types only", "", frequent, ".4f"),
    ("expected changes", "about 4", changes, ".3g"),
    ("L2 loss", "6.4e-7", lambda s: best(s).value, ".3g"),
    ("n² l2 / changes", "1", lambda s: best(s).value * RECORDS**2 / changes(s), ".4g"),
    ("changes into the three types that receive most", "0.99999", into_three, ".3g"),
    ("changes out of the three most frequent types", "0.88", lambda s: from_three(best(s).matrix.array, s), ".2f"),
    ("largest gain of a feasible direction, relative", "", lambda s: best(s).details["stationarity"], ".1e"),
    (f"loss with diagonals >= {NEAR}, over the least", "", lambda s: dearer(s, "all", NEAR), ".3g"),
    ("its proven gap", "", lambda s: best(s, "all", NEAR).relative_gap, ".1%"),
    ('loss with `reach="cover"`, over the least', "", lambda s: dearer(s, "cover"), ".3g"),
    ("its proven gap", "", lambda s: best(s, "cover").relative_gap, ".0e"),
)

TABLES = {
    "drawn files": (
        headed(("quantity", "paper", "least", "median", "most")),
        [
            Row(f"| {what} | {printed} | ", lambda f=function, form=form: spread(f, form), slow=True)
            for what, printed, function, form in QUANTITIES
        ],
    ),
}
