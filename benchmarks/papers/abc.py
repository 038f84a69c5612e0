"""Ayed, Battiston and Camerlenghi: Tables 1 to 4, Figures 1 to 6, and sex in the New York file."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from functools import cache

import numpy as np
from benchmarks.design import EPSILONS, PRINTED, SCENARIOS, best_printed, drawn_priors, solve, special_values
from benchmarks.papers.drawing import Panel, Series, drawing
from benchmarks.papers.items import Item, Row, headed

from postrand.designers import Circulant, FeasibleSet, General, Symmetric, UniformOffDiagonal, design
from postrand.estimate import from_counts
from postrand.estimate.em import from_tally_ml
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import EstimatorVariance, MutualInformation
from postrand.privacy import DifferentialPrivacy

NUMBERS = {"I": 1, "II": 2, "III": 3, "IV": 4}
RECORDS, RUNS = 10_000, 100
PEOPLE, SEX, SEX_EPSILON = 953_076, np.array([0.48, 0.52]), 0.05
SHOWN_Q = (0.4875, 0.4925, 0.4975, 0.5025, 0.5075, 0.5125)
NO_FILE = "the file is not part of this project; the shares are taken as printed"


def prior(name: str) -> np.ndarray:
    """Return the probabilities; those of scenario III are drawn, because the paper does not print its own."""
    p = drawn_priors(1)[0] if name == "III" else SCENARIOS[name]
    return p / p.sum()


@cache
def best(name: str, epsilon: float):
    return solve(prior(name), epsilon, UniformOffDiagonal())


def pattern(matrix: TransitionMatrix, epsilon: float) -> str:
    """Return how many q are v_ε, v_-ε, v_min, v_max."""
    values = special_values(matrix.size, epsilon)
    nearest = Counter(int(np.argmin(np.abs(np.subtract(values, q)))) for q in matrix.array.diagonal())
    return " ".join(str(nearest[k]) for k in range(4))


def local(name: str, epsilon: float, counts: tuple[int, ...]) -> str:
    kept, most = best_printed(prior(name), epsilon, counts), best(name, epsilon).value
    return f"a local optimum: in its best places {kept:.7f} nats of {most:.7f}, proven to be the most"


def drawn_patterns(epsilon: float) -> str:
    found = Counter(pattern(solve(p, epsilon, UniformOffDiagonal()).matrix, epsilon) for p in drawn_priors())
    return "; ".join(f"{text} for {count} of 100" for text, count in found.most_common())


def estimates(p: np.ndarray, matrix: TransitionMatrix, records: int, runs: int = RUNS) -> np.ndarray:
    """Return the maximum likelihood estimates of ``runs`` released files, shape (runs, S)."""
    rng = np.random.default_rng(2020)
    found = []
    for _ in range(runs):
        released = rng.multinomial(rng.multinomial(records, p), matrix.array).sum(axis=0)
        found.append(from_tally_ml(from_counts(released, [matrix], ["x"])).value)
    return np.array(found)


@cache
def scenario(name: str) -> list[np.ndarray]:
    return [estimates(prior(name), best(name, e).matrix, RECORDS) for e in EPSILONS]


def errors(drawn: list[np.ndarray], p: np.ndarray) -> list[float]:
    """Return the root mean square error over categories and runs, for each panel."""
    return [float(np.sqrt(((values - p) ** 2).mean())) for values in drawn]


def improves(name: str) -> str:
    found = errors(scenario(name), prior(name))
    spread = [float(values.std(axis=0).mean()) for values in scenario(name)]
    return "yes" if found == sorted(found, reverse=True) and spread == sorted(spread, reverse=True) else "no"


def panels(titles: list[str], drawn: list[np.ndarray], p: np.ndarray) -> list[Panel]:
    names = [float(k) for k in range(1, p.size + 1)]
    ends = [np.quantile(values, [0.05, 0.95], axis=0) for values in drawn]
    top = max(float(high.max()) for _, high in ends)
    found = zip(titles, drawn, ends, errors(drawn, p), strict=True)
    return [
        Panel(
            f"{title}, error {error:.2g}",
            "category",
            "probability",
            (
                Series(names, list(low), "one", "90 of 100 estimates", upper=list(high)),
                Series(names, list(values.mean(axis=0)), "mean", "their mean"),
                Series(names, list(p), "truth", "true", dots=True),
            ),
            top,
        )
        for title, values, (low, high), error in found
    ]


def figure(name: str) -> str:
    parts = panels([f"ε = {e:g}" for e in EPSILONS], scenario(name), prior(name))
    return drawing(f"Scenario {name}: estimates from 100 released files of 10,000 records", parts)


def two(q: float) -> TransitionMatrix:
    return TransitionMatrix.from_array([[q, 1 - q], [1 - q, q]])


@cache
def sexes() -> list[np.ndarray]:
    return [estimates(SEX, two(q), PEOPLE) for q in SHOWN_Q]


def figure_5() -> str:
    parts = panels([f"q = {q}" for q in SHOWN_Q], sexes(), SEX)
    return drawing("Sex: estimates from 100 released files of 953,076 records", parts)


def interval() -> tuple[float, float]:
    """Return the ends of q at ε = 0.05 from the constraints of two categories."""
    C, b = FeasibleSet(2, SEX_EPSILON).constraints()
    slope = C.sum(axis=1)
    ends = b / np.where(slope == 0, np.inf, slope)
    return float(ends[slope < 0].max()), float(ends[slope > 0].min())


def kept(q: float) -> float:
    return MutualInformation().value(two(q).array, SEX)


def figure_6() -> str:
    qs = np.linspace(*interval(), 101)
    ends = [float(qs[0]), float(qs[-1])]
    series = (
        Series(list(qs), [1e6 * kept(q) for q in qs], "one", "mutual information"),
        Series(ends, [1e6 * kept(q) for q in ends], "mean", "the optimum", dots=True),
    )
    return drawing(
        "Mutual information of sex and its released value", [Panel("ε = 0.05", "q", "millionths of a nat", series)]
    )


def best_ends() -> str:
    """Return whether every q inside keeps less than the ends, which keep the same, and the design is an end."""
    low, high = interval()
    inside = [kept(q) for q in np.linspace(low, high, 101)[1:-1]]
    chosen = solve(SEX, SEX_EPSILON, Symmetric()).matrix.array[0, 0]
    same = math.isclose(kept(low), kept(high), rel_tol=1e-9)
    at_end = min(abs(chosen - low), abs(chosen - high)) < 1e-9
    return "both ends" if same and at_end and max(inside) < kept(low) else "elsewhere"


def most_reliable() -> str:
    found = np.argsort(errors(sexes(), SEX))[:2]
    return "at both ends" if set(found.tolist()) == {0, len(SHOWN_Q) - 1} else "elsewhere"


def table_items(name: str):
    for epsilon, counts in zip(EPSILONS, PRINTED[name], strict=True):
        where, what = f"Table {NUMBERS[name]}, ε = {epsilon:g}", "numbers of v_ε, v_-ε, v_min, v_max"
        printed = " ".join(map(str, counts))
        if name == "III":
            why = "the 30 probabilities are not printed; these are the optima for 100 priors drawn as the paper says"
            yield Item(where, what, printed, lambda e=epsilon: drawn_patterns(e), why, slow=True, redrawn=True)
        else:
            optimal = name == "IV" and epsilon >= 1
            why = "" if optimal else lambda e=epsilon, c=counts: local(name, e, c)
            yield Item(where, what, printed, lambda e=epsilon: pattern(best(name, e).matrix, e), why)


def against(name: str, epsilon: float, counts: tuple[int, ...]) -> list[str]:
    """Return the information of a printed pattern in its best places, of the optimum, and of all matrices' optimum."""
    priors = drawn_priors() if name == "III" else [prior(name)]
    printed = np.array([best_printed(p, epsilon, counts) for p in priors])
    found = [solve(p, epsilon, UniformOffDiagonal()) for p in priors]
    if not all(d.status == "optimal" for d in found):
        raise ValueError(f"scenario {name}, epsilon {epsilon}: not proven")
    ours = np.array([d.value for d in found])
    whole = np.array([solve(p, epsilon, General()).value for p in priors])
    ratio = ours / printed
    return [
        f"{printed.mean():.10f}",
        f"{ours.mean():.10f}",
        f"{ratio.mean():.3f} ({ratio.max():.3f})",
        f"{whole.mean():.7f}",
        f"{(whole / ours).mean():.2f}",
    ]


def all_frequencies(epsilon: float) -> list[str]:
    """Return n times the trace of the covariance under three designs for information; the last is one of several."""
    cells, p = [], prior("I")
    for structure in (UniformOffDiagonal(), Circulant(), General()):
        matrix = solve(p, epsilon, structure).matrix.array
        rank = int(np.linalg.matrix_rank(matrix))
        value = EstimatorVariance().value(matrix, p)
        cells.append(f"{value:,.3g}" if rank == p.size else f"infinite (rank {rank} of {p.size})")
    return cells


def mean_of_scores(size: int, epsilon: float) -> list[str]:
    """Return the variance of the mean of 0 to S - 1 over that of two released values, before, now and its bound."""
    p, scores = np.full(size, 1 / size), np.arange(size, dtype=float)
    goal = EstimatorVariance(queries=(tuple(scores),))
    two = ((size - 1) / 2 / math.tanh(epsilon / 2)) ** 2  # the mean is the middle, so nothing is subtracted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other, now = (
            design(p, DifferentialPrivacy(epsilon), goal, s) for s in (Circulant(), UniformOffDiagonal(), General())
        )
    return [f"{min(one.value, other.value) / two:.1f}", f"{now.value / two:.3f}", f"{now.bound / two:.3f}"]


TABLES = {
    "scenarios": (
        headed(
            (
                *("scenario", "ε", "printed pattern", "best I it allows", "ours"),
                *("ratio (largest)", "all", "all / ours"),
            )
        ),
        [
            Row(f"| {name} | {e} | {counts} | ", lambda n=name, e=e, c=counts: against(n, e, c), slow=name == "III")
            for name in NUMBERS
            for e, counts in zip(EPSILONS, PRINTED[name], strict=True)
        ],
    ),
    "all frequencies": (
        headed(("ε", "uniform off-diagonal", "circulant", "general")),
        [Row(f"| {e:g} | ", lambda e=e: all_frequencies(e), steady=2) for e in EPSILONS],
    ),
    "mean of scores": (
        headed(("S", "ε", "before", "now", "bound")),
        [
            Row(f"| {S} | {e:g} | ", lambda S=S, e=e: mean_of_scores(S, e), slow=True)
            for S in (11, 20)
            for e in (0.5, 1.0, 2.0)
        ],
    ),
}

ITEMS = [
    *(item for name in NUMBERS for item in table_items(name)),
    *(
        Item(
            f"Figure {NUMBERS[name]}, scenario {name}",
            "estimates improve and vary less as ε grows",
            "yes",
            lambda name=name: improves(name),
            slow=True,
        )
        for name in NUMBERS
    ),
    Item("§4.2", "records", "953,076", None, NO_FILE),
    Item("§4.2", "share of the first sex", "0.48", None, NO_FILE),
    Item("§4.2", "share of the second sex", "0.52", None, NO_FILE),
    Item("§4.2, ε = 0.05", "least q", "0.4875", lambda: interval()[0]),
    Item("§4.2, ε = 0.05", "largest q", "0.5125", lambda: interval()[1]),
    Item("Figure 5", "where estimates are most reliable", "at both ends", most_reliable, slow=True),
    Item("Figure 6", "where the information is largest", "both ends", best_ends),
]

FIGURES = {
    **{f"figure-{number}": (lambda name=name: figure(name), True) for name, number in NUMBERS.items()},
    "figure-5": (figure_5, True),
    "figure-6": (figure_6, False),
}
