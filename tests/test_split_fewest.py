"""The fewest subsets for stated half-widths: against every choice of subsets, and what must hold of the answer."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from postrand.designers import fewest_subsets, least_epsilon
from postrand.errors import DesignError
from tests.split_cases import book_of

TABLES = (("a", "b"), ("b", "c"), ("d", "e"), ("a", "e"))


def information(book, subset, table, p, epsilon):
    """I of each cell of a table within a subset, from k-ary randomised response; 0 outside it."""
    if not set(table) <= set(subset):
        return np.zeros(p.size)
    cells = math.prod(book[name].size for name in subset)
    keep = (math.exp(epsilon) - 1) / (math.exp(epsilon) + cells - 1)
    q = keep * p + (1 - keep) / p.size
    return keep**2 / (q * (1 - q))


def fewest_by_force(book, widths, n, epsilon, shares):
    """Try all choices of 1, 2, ... subsets with a linear programme each."""
    names = book.names
    subsets = [s for k in range(1, len(names) + 1) for s in itertools.combinations(names, k)]
    z = norm.ppf(0.975)
    rows = []
    for subset in subsets:
        parts = [information(book, subset, t, shares[t], epsilon) / (z**2 / n / widths[t] ** 2) for t in widths]
        rows.append(np.concatenate(parts))
    useful = [row for row in rows if row.any()]
    useful = [r for k, r in enumerate(useful) if not any((o >= r).all() and (o > r).any() for o in useful)]
    for count in range(1, 6):
        for some in itertools.combinations(useful, count):
            array = np.array(some)
            if (array.max(axis=0) < 1).any():
                continue
            found = linprog(np.zeros(count), -array.T, -np.ones(array.shape[1]), np.ones((1, count)), [1.0])
            if found.status == 0:
                return count
    return math.inf


@pytest.mark.parametrize(("epsilon", "seed"), [(2.5, 0), (3.0, 1), (4.0, 2)])
@pytest.mark.parametrize("width", [1.02, 1.1, 1.5])
def test_no_fewer_subsets_suffice(epsilon, seed, width):
    """Half-widths a little above the best that any split reaches, so that one subset is not enough."""
    random = np.random.default_rng(seed)
    book = book_of(*random.integers(2, 5, 5))
    joint = random.dirichlet(np.ones(math.prod(v.size for v in book.variables))).reshape(
        [v.size for v in book.variables]
    )
    shares = {t: joint.sum(axis=tuple(k for k, n in enumerate(book.names) if n not in t)).ravel() for t in TABLES}
    low, high = 0.001, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        try:
            fewest_subsets(book, dict.fromkeys(TABLES, middle), 5000, epsilon, prior={book.names: joint})
            high = middle
        except DesignError:
            low = middle
    widths = dict.fromkeys(TABLES, width * high)
    found = fewest_subsets(book, widths, 5000, epsilon, prior={book.names: joint})
    assert found.count == found.at_least == fewest_by_force(book, widths, 5000, epsilon, shares)
    assert sum(weight for _, weight in found.subsets) == 2**53
    for table in TABLES:
        total = sum(w / 2**53 * information(book, s, table, shares[table], epsilon) for s, w in found.subsets)
        by_hand = norm.ppf(0.975) / np.sqrt(5000 * total)
        assert found.widths[table].ravel() == pytest.approx(by_hand, rel=1e-6)
        assert by_hand.max() <= width * high * (1 + 1e-9)


def test_wider_intervals_need_no_more_subsets_and_no_more_epsilon():
    book = book_of(3, 3, 3, 3, 3, 3)
    tables = list(itertools.combinations(book.names, 2))
    least = least_epsilon(book, dict.fromkeys(tables, 0.04), 20_000).epsilon
    counts = [
        fewest_subsets(book, dict.fromkeys(tables, width), 20_000, least).count for width in (0.04, 0.05, 0.08, 0.2)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0]


def test_core_variables_are_in_every_subset():
    book = book_of(2, 3, 3, 2)
    found = fewest_subsets(book, {("a", "b"): 0.05, ("c",): 0.05}, 5000, 4.0, core=["d"])
    assert all("d" in subset for subset, _ in found.subsets)


def test_what_is_out_of_reach_is_refused():
    book = book_of(3, 3)
    with pytest.raises(DesignError, match="no split release at ε = 1 reaches"):
        fewest_subsets(book, {("a", "b"): 0.005}, 20_000, 1.0)
    with pytest.raises(DesignError, match="even unperturbed records"):
        fewest_subsets(book, {("a", "b"): 0.0001}, 20_000, 1.0)
