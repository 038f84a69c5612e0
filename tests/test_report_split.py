"""The report of a split release: what it shows, and that its corrected tables are those of the records."""

import numpy as np
import pandas as pd
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable, not_released
from postrand.data import frames
from postrand.engines.frame import perturb
from postrand.errors import EstimationError
from postrand.estimate.split_counts import from_split_counts
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.split_shown import subsets_shown
from postrand.support.randomness import ReleaseKey

SIZES = {"sex": 2, "age": 4, "area": 3, "job": 5}
BOOK = Codebook(tuple(Variable(n, "key", tuple(f"{n}{k}" for k in range(s))) for n, s in SIZES.items()))


def response(*names, epsilon=3.0):
    return Block(names, randomised_response(int(np.prod([SIZES[n] for n in names])), epsilon))


def mechanism(blocks=None):
    rows = np.random.default_rng(1).dirichlet(np.ones(6), 6) * 0.4 + 0.6 * np.eye(6)
    other = Block(("sex", "area"), TransitionMatrix.from_array(rows))
    chosen = blocks or [response("sex", "age", "job"), response("age", "area"), other, response("job", "sex")]
    return Mechanism([], BOOK, split=Split.of(np.full(len(chosen), 1 / len(chosen)), chosen))


def released(law, n=4_000):
    rng = np.random.default_rng(2)
    data = {name: [f"{name}{k}" for k in rng.binomial(s - 1, 0.4, n)] for name, s in SIZES.items()}
    return perturb(pd.DataFrame(data), law, ReleaseKey.from_seed(3))


def counted(frame, law):
    table = frames.to_arrow(frame, list(SIZES))
    codes = {n: not_released.encode(table.column(n), BOOK[n]) for n in SIZES}
    shown = subsets_shown(codes, law.split, SIZES)
    cells = []
    for k, block in enumerate(law.split.blocks):
        mine = [codes[n][shown == k].astype(int) for n in block.variables]
        number = np.ravel_multi_index(mine, [SIZES[n] for n in block.variables])
        cells.append(np.bincount(number, minlength=block.matrix.size))
    return np.bincount(shown, minlength=len(cells)), cells


@pytest.mark.parametrize("names", [("sex", "age"), ("sex",), ("area", "sex"), ("job", "age", "sex"), ("area", "age")])
def test_a_table_from_counts_is_that_from_records(names):
    law = mechanism()
    frame = released(law)
    wanted = estimate.table(frame, list(names), law)
    found = estimate.from_tally(from_split_counts(names, law, *counted(frame, law)))
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.standard_error, wanted.standard_error, rtol=1e-8)
    assert found.effective_sample_size == pytest.approx(wanted.effective_sample_size, rel=1e-8)


def test_a_table_that_no_subset_shows_is_refused():
    law = mechanism()
    with pytest.raises(EstimationError):
        from_split_counts(("area", "job"), law, *counted(released(law), law))
