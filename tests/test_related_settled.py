"""Moves for pairs that act together are not made where they spoil what was right."""

import numpy as np
import pandas as pd
import pytest

from postrand import Codebook, Mechanism, ReleaseKey, Variable, perturb, randomised_response
from postrand.completion import complete, completed
from postrand.completion.related_pairs import Acting, interactions
from tests.test_relations import right, together


def released(number):
    rng = np.random.default_rng(3)
    n = 1_500
    a = rng.integers(0, 2, n)
    b = (rng.random(n) < np.where(a, 0.3, 0.6)).astype(int)
    frame = pd.DataFrame({"a": a, "b": b, "y": number(a, b, rng)})
    binary = [Variable(name, "other", (0, 1), type="int64") for name in "ab"]
    mechanism = Mechanism(
        {name: randomised_response(2, 3.0) for name in "ab"}, Codebook((*binary, Variable("y", "other", type="double")))
    )
    return perturb(frame, mechanism, ReleaseKey.from_seed(1)), mechanism


@pytest.mark.parametrize(
    ("number", "size", "kept"), [(right, 150.0, False), (right, 0.0, True), (together, 20.0, True)]
)
def test_moves_that_spoil_what_was_right_are_not_made(number, size, kept, monkeypatch):
    """A move far off, where nothing acts together; one by nothing; and one that is too small, which is still better."""
    direction = interactions(np.ones((2, 2), bool))
    one = Acting((0, 1), 1, "y", np.ones(1), direction, (np.array([size]),), (np.zeros((1, 1)),))
    monkeypatch.setattr(completed, "acting_pairs", lambda *_: (one,))
    frame, mechanism = released(number)
    done = complete(frame, mechanism, copies=4, seed=2, classes=4, chains=1, sweeps=150)
    assert done.related is not None
    assert done.diagnostics.relations is not None
    assert bool(done.related.acting) is kept
    assert bool(done.diagnostics.relations.together) is kept
    assert bool(done.diagnostics.relations.failed(0.01)) is (number is together)
