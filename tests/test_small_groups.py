"""Categories that a release cannot tell from none: against the closed form, and against the intervals of releases."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand import Codebook, Variable, estimate
from postrand.report.small_groups import small_groups

SHARES = np.array([0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
BOOK = Codebook(
    (
        Variable("area", "key", ("a", "b", "c", "d", "e", "f")),
        Variable("ill", "key", (0, 1), type="int64"),
        Variable("pay", "other", type="double"),
    )
)
LAWS: dict[tuple[str, ...], np.ndarray] = {("area",): SHARES, ("ill",): np.array([0.9, 0.1])}


def told(mechanism: pr.Mechanism, records: int) -> str:
    return small_groups(mechanism, records, lambda names: LAWS[tuple(names)])


def test_categories_of_a_block_are_counted_as_the_closed_form_says():
    """Randomised response keeps a value with p and draws each other one with q: var = λ(1 - λ) / (n (p - q)²)."""
    n, stays = 3000, np.exp(1.0) / (np.exp(1.0) + 5)
    moves = (1 - stays) / 5
    seen = SHARES * (stays - moves) + moves
    error = np.sqrt(seen * (1 - seen) / n) / (stays - moves)
    rare = int((2 * error > SHARES).sum())
    assert 0 < rare < 6
    law = pr.Mechanism({"area": pr.randomised_response(6, 1.0), "ill": pr.randomised_response(2, 3.0)}, BOOK)
    assert f": {rare} of the 6 categories of area. A release" in told(law, n)
    assert told(law, 10_000_000) == ""


@pytest.mark.parametrize("epsilon", [1.5, 2.0])
def test_those_of_a_split_are_the_groups_that_releases_give_no_interval(epsilon):
    """In half of the releases or more the mean of a second perturbed variable by such a category has no interval."""
    n, rng = 3000, np.random.default_rng(6)
    area = rng.choice(6, n, p=SHARES)
    frame = pa.table(
        {
            "area": pa.array(np.array(list("abcdef"))[area]).dictionary_encode(),
            "ill": (rng.random(n) < 0.1).astype(np.int64),
            "pay": rng.normal(size=n),
        }
    )
    blocks = [
        pr.Block(("area", "ill"), pr.randomised_response(12, epsilon)),
        pr.Block(("area",), pr.randomised_response(6, epsilon)),
    ]
    law = pr.Mechanism([], BOOK, split=pr.Split.of([0.4, 0.6], blocks))
    found = re.search(r"(\d) of the 6 categories of area, (\d) in tables with ill", told(law, n))
    assert found
    without = np.zeros(6)
    for seed in range(40):
        released = pr.perturb(frame, law, pr.ReleaseKey.from_seed(seed))
        without += ~np.isfinite(estimate.mean(released, "ill", law, by="area").interval()).all(axis=0)
    assert int((without >= 20).sum()) == int(found[2])
    assert int(found[1]) < int(found[2])
