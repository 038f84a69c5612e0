"""The weakest perturbation within a limit of risk."""

from typing import Any

import numpy as np
import pytest

from postrand.errors import DesignError, UsageError
from postrand.matrix import TransitionMatrix, randomised_response
from postrand.mechanism import Block, Mechanism
from postrand.risk import tune
from postrand.risk.cells import KeyCodes
from postrand.risk.law import KeyLaw, release
from tests.test_risk_perturbed import SHAPE, survey

NAMES = list("abcd")


def frame():
    _, sample, _ = survey()
    return {n: [f"{n}{v:02d}" for v in c] for n, c in zip(NAMES, sample, strict=True)}


def test_the_level_found_meets_the_limit_and_the_next_does_not():
    found = tune(frame(), NAMES, "tau2 <= 40", sampling_fraction=0.05, model="independence", draws=3)
    by_level = {p.level: p for p in found.points}
    assert by_level[found.level].risk <= 40
    above = [p for p in found.points if p.level > found.level]
    assert all(p.risk > 40 for p in above)
    assert min(p.level for p in above) / found.level <= 1.03
    assert sum(b.matrix.epsilon for b in found.mechanism.blocks) <= found.level
    kept = [p.information for p in found.points]
    assert kept == sorted(kept)  # a larger epsilon keeps more
    assert "tau2 <= 40" in str(found)


def test_a_mechanism_of_ones_own_and_a_limit_met_or_never_met():
    def keep(level):
        return Mechanism([Block(("a",), randomised_response(SHAPE[0], level))])

    options: dict[str, Any] = {"sampling_fraction": 0.05, "model": "independence", "draws": 2, "mechanism": keep}
    met = tune(frame(), NAMES, "tau1 <= 100000", **options)
    assert met.level == 30.0
    assert "weak end" in met.status
    with pytest.raises(DesignError, match="at best"):
        tune(frame(), NAMES, "tau1 <= 0", **options)
    with pytest.raises(UsageError, match="not understood"):
        tune(frame(), NAMES, "tau3 < 4", **options)
    with pytest.raises(UsageError, match="low < high"):
        tune(frame(), NAMES, "tau1 <= 4", levels=(3.0, 1.0), **options)


@pytest.mark.statistical
def test_releases_for_estimates_follow_the_law():
    """A joint block listed in reverse order of cells: 40,000 draws, each frequency within 4.9 standard errors."""
    M = TransitionMatrix.from_array(np.array([[0.7, 0.1, 0.2], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]]))
    block = Block(("a", "b"), M, cells=((1, 1), (0, 2), (0, 0)))
    law = KeyLaw.of(Mechanism([block]), ("a", "b", "c"), (2, 3, 2))
    n = 40_000
    keys = KeyCodes(("a", "b", "c"), (2, 3, 2), (np.zeros(n, int), np.full(n, 2), np.arange(n) % 2))
    out = release(law, keys, 1)
    seen = np.array([((out.codes[0] == a) & (out.codes[1] == b)).mean() for a, b in block.cells or ()])
    assert (np.abs(seen - M.array[1]) <= 4.9 * np.sqrt(M.array[1] * (1 - M.array[1]) / n)).all()
    assert np.array_equal(out.codes[2], keys.codes[2])
    assert np.array_equal(release(law, keys, 1).codes[0], out.codes[0])
    assert not np.array_equal(release(law, keys, 2).codes[1], out.codes[1])
