"""The latent class model against populations whose truth is known, and its diagnostics against closed forms."""

import numpy as np
import pytest

from postrand.errors import UsageError
from postrand.risk import latent_class
from postrand.risk.cells import KeyCodes, table

SHAPE, PI = (8, 7, 9, 6, 5), 0.05


def population(rng, size, forbidden=False):
    """Draw from a mixture of four products; with ``forbidden`` without a = 0 and b < 4, nor c = 1 and d = 1."""
    classes = rng.choice(4, 3 * size, p=[0.4, 0.3, 0.2, 0.1])
    columns = []
    for s in SHAPE:
        law = rng.dirichlet(np.full(s, 0.6), size=4)
        columns.append((rng.random((3 * size, 1)) > np.cumsum(law, axis=1)[classes]).sum(axis=1).clip(0, s - 1))
    whole = np.stack(columns)
    if forbidden:
        whole = whole[:, ~(((whole[0] == 0) & (whole[1] < 4)) | ((whole[2] == 1) & (whole[3] == 1)))]
    return whole[:, :size]


RULES = [*({"a": 0, "b": i} for i in range(4)), {"c": 1, "d": 1}]


def sample_of(seed, forbidden):
    rng = np.random.default_rng(seed)
    whole = population(rng, 40_000, forbidden)
    drawn = rng.random(whole.shape[1]) < PI
    cells = table(KeyCodes(tuple("abcde"), SHAPE, tuple(whole[:, drawn])))
    counts = np.zeros(SHAPE, dtype=int)
    np.add.at(counts, tuple(whole), 1)
    found = counts[tuple(cells.codes[cells.uniques].T)]
    return cells, ((found == 1).sum(), (1 / found).sum())


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_the_truth():
    """Eight populations, half with forbidden cells: 95% intervals of both measures hold 9 of 16 truths (alpha 1e-6).

    Were one half wrong throughout, at most 8 would be held. The mutant that ignores the sampling fraction (takes it
    for twice as large) holds fewer too.
    """
    hits = mutant = 0
    for seed in range(8):
        forbidden = seed % 2 == 1
        cells, truth = sample_of(seed, forbidden)
        rules = RULES if forbidden else []
        with pytest.warns(latent_class.ConvergenceWarning, match="one chain"):
            found = latent_class.fit(cells, PI, classes=15, sweeps=300, chains=1, forbidden=rules, seed=seed)
        with pytest.warns(latent_class.ConvergenceWarning, match="one chain"):
            wrong = latent_class.fit(cells, 2 * PI, classes=15, sweeps=300, chains=1, forbidden=rules, seed=seed)
        for tau, bad, true in zip((found.tau1, found.tau2), (wrong.tau1, wrong.tau2), truth, strict=True):
            assert tau.interval is not None
            assert bad.interval is not None
            hits += tau.interval[0] <= true <= tau.interval[1]
            mutant += bad.interval[0] <= true <= bad.interval[1]
    assert hits >= 9
    assert mutant < 9


def test_forbidden_records_are_drawn_at_their_rate():
    """One class and a uniform posterior far from the data's: the augmented records are n p0/(1-p0) on average."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 4, (2, 60_000))
    allowed = whole[:, ~((whole[0] == 0) & (whole[1] == 0))][:, :15_000]
    cells = table(KeyCodes(("a", "b"), (4, 4), tuple(allowed)))
    with pytest.warns(latent_class.ConvergenceWarning):
        found = latent_class.fit(cells, 0.5, classes=2, sweeps=200, chains=1, forbidden=[{"a": 0, "b": 0}])
    assert found.traces[0, :, 4].mean() == pytest.approx(1000, rel=0.15)  # one cell of sixteen: 15000/15


def test_forbidden_cells_leave_their_mass_to_the_others():
    """Half of the cells at random are forbidden, the others equal: F-1 is Binomial(N-n, 1/450) for each unique."""
    rng = np.random.default_rng(5)
    forbidden = rng.permutation(900)[:450]
    number = rng.choice(np.setdiff1d(np.arange(900), forbidden), 500)
    cells = table(KeyCodes(("a", "b"), (30, 30), (number // 30, number % 30)))
    rules = [{"a": int(k) // 30, "b": int(k) % 30} for k in forbidden]
    with pytest.warns(latent_class.ConvergenceWarning):
        found = latent_class.fit(cells, 0.25, classes=2, sweeps=100, chains=1, forbidden=rules)
    x = 1500 / 450
    expected = cells.uniques.sum() * (1 - np.exp(-x)) / x  # 48, and 85 if their mass were lost
    # Class profiles are estimated from 500 records, which spreads F and raises the mean of 1/F.
    assert found.tau2.value == pytest.approx(expected, rel=0.3)


def test_same_seed_same_chain_and_statuses():
    cells, _ = sample_of(3, False)
    with pytest.warns(latent_class.ConvergenceWarning, match="too few classes"):
        one, two = (latent_class.fit(cells, PI, classes=3, sweeps=40, chains=2, seed=5) for _ in range(2))
    assert np.array_equal(one.traces, two.traces)
    assert not np.array_equal(one.traces[0], one.traces[1])
    assert "too few classes" in one.status
    assert not one.converged
    whole = latent_class.fit(
        cells, 1.0, classes=60, sweeps=200, chains=2
    )  # everybody is in the sample: nothing depends on the chains
    assert (whole.tau1.value, whole.converged) == (cells.uniques.sum(), True)
    with pytest.raises(UsageError, match="fraction"):
        latent_class.fit(cells, 0.0)
    with pytest.raises(UsageError, match="sweeps"):
        latent_class.fit(cells, PI, sweeps=10, burn_in=5)
    with pytest.raises(UsageError, match="no key variable 'z'"):
        latent_class.fit(cells, PI, forbidden=[{"z": 0}])


def test_diagnostics_on_known_chains():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(4, 20_000))
    chain = np.zeros_like(noise)
    for i in range(1, noise.shape[1]):
        chain[:, i] = 0.8 * chain[:, i - 1] + noise[:, i]
    assert latent_class.effective_size(noise) == pytest.approx(80_000, rel=0.1)
    assert latent_class.effective_size(chain) == pytest.approx(80_000 * (1 - 0.8) / (1 + 0.8), rel=0.15)
    assert latent_class.split_rhat(chain) == pytest.approx(1.0, abs=0.01)
    assert latent_class.split_rhat(noise + np.arange(4)[:, None]) > 1.3
    assert latent_class.split_rhat(np.ones((2, 10))) == 1.0
    assert latent_class.effective_size(np.ones((2, 10))) == 20


def test_converged_only_with_chains_that_meet_and_enough_effective_draws():
    """Thirty sweeps of many classes are not enough, and a warning says so; many sweeps of a plain table are."""
    cells, _ = sample_of(3, False)
    with pytest.warns(latent_class.ConvergenceWarning, match="effective draws, wanted >= 100"):
        short = latent_class.fit(cells, PI, classes=15, sweeps=30, chains=2)
    assert not short.converged
    assert "not converged" in str(short)
    rng = np.random.default_rng(1)
    plain = table(KeyCodes(("a", "b"), (6, 7), (rng.choice(6, 60), rng.choice(7, 60))))
    long = latent_class.fit(plain, PI, classes=40, sweeps=5000, chains=4)
    assert long.converged
    assert long.rhat < 1.05
    assert long.effective >= 100
    assert long.status.startswith("converged")


def test_the_expectations_of_a_sweep_are_those_of_its_draws():
    """Over 2,000 sweeps τ1 and τ2 as drawn and as expected have one mean; 4.9 standard errors."""
    cells, _ = sample_of(4, False)
    with pytest.warns(latent_class.ConvergenceWarning):
        found = latent_class.fit(cells, PI, classes=10, sweeps=1000, chains=2)
    for drawn, expected in ((0, 5), (1, 6)):
        gap = (found.traces[:, :, drawn] - found.traces[:, :, expected]).ravel()
        assert abs(gap.mean()) < 4.9 * gap.std() / np.sqrt(gap.size)
        assert gap.std() > 0


def test_chains_that_stay_apart_are_reported_with_their_means():
    problems = latent_class._problems(2.5, 8.0, 12, 40, 2, np.array([305.0, 309.0]))
    assert "305.0 to 309.0" in problems[0]
    assert "8 effective draws" in problems[1]
    assert latent_class._problems(1.049, 100.0, 12, 40, 2, np.array([305.0, 309.0])) == []
