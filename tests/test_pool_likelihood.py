"""The likelihood-ratio test over copies: by hand, its size, and what it refuses."""

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from postrand.errors import UsageError
from postrand.estimate import likelihood_ratio_test, pool
from tests.test_pool import FRAMES

MODELS = {
    "logit": (lambda f: smf.logit("yes ~ x + g", f).fit(disp=0), lambda f: smf.logit("yes ~ x", f).fit(disp=0)),
    "poisson": (
        lambda f: smf.glm("g ~ x + kind", f, family=sm.families.Poisson()).fit(),
        lambda f: smf.glm("g ~ x", f, family=sm.families.Poisson()).fit(),
    ),
    "linear": (lambda f: smf.ols("y ~ x + kind", f).fit(), lambda f: smf.ols("y ~ x", f).fit()),
}


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_near_the_joint_wald_test(kind):
    full, reduced = MODELS[kind]
    found = likelihood_ratio_test(full, reduced, FRAMES)
    names = {"logit": ["g"], "poisson": ["kind[T.b]", "kind[T.c]"], "linear": ["kind[T.b]", "kind[T.c]"]}[kind]
    wald = pool(full, FRAMES).joint_test(names)
    assert found.numbers == wald.numbers == len(names)
    assert found.increase == pytest.approx(wald.increase, rel=0.2, abs=0.01)
    assert found.statistic == pytest.approx(wald.statistic, rel=0.15, abs=0.02)
    assert "D3" in str(found)


def test_the_same_copies_give_the_test_of_one_file():
    full, reduced = MODELS["logit"]
    found = likelihood_ratio_test(full, reduced, FRAMES[:1] * 3)
    ratio = 2 * (full(FRAMES[0]).llf - reduced(FRAMES[0]).llf)
    assert found.statistic == pytest.approx(ratio)
    assert (found.increase, found.freedom) == (pytest.approx(0, abs=1e-9), pytest.approx(np.inf))


def test_meng_and_rubin_by_hand():
    """A logistic regression with its likelihood written out; the averages as in the paper has them."""

    def likelihood(frame, params):
        columns = [np.ones(len(frame)), frame.x, frame.g][: len(params)]
        eta = np.column_stack(columns) @ params
        return float(np.sum(frame.yes * eta - np.log1p(np.exp(eta))))

    full, reduced = MODELS["logit"]
    params = [(np.array(full(f).params), np.array(reduced(f).params)) for f in FRAMES]
    middle = [np.mean([pair[i] for pair in params], axis=0) for i in (0, 1)]
    own = [2 * (likelihood(f, p) - likelihood(f, q)) for f, (p, q) in zip(FRAMES, params, strict=True)]
    shared = [2 * (likelihood(f, middle[0]) - likelihood(f, middle[1])) for f in FRAMES]
    m, k = 6, 1
    r = (m + 1) / (k * (m - 1)) * (np.mean(own) - np.mean(shared))
    found = likelihood_ratio_test(full, reduced, FRAMES)
    assert found.statistic == pytest.approx(np.mean(shared) / (k * (1 + r)), rel=1e-9)
    assert found.freedom == pytest.approx(4 + (5 - 4) * (1 + (1 - 2 / 5) / r) ** 2, rel=1e-8)
    assert found.increase == pytest.approx(r, rel=1e-9)


@pytest.mark.statistical
def test_it_has_its_size():
    """A share in two groups of 2n, n of each drawn anew in each copy: 5 % ± 4 Monte-Carlo errors of 400."""
    rng, n, copies = np.random.default_rng(6), 100, 8
    rejected = 0

    class Fit:
        """A binomial model in closed form: a share for each group, or one for both."""

        def __init__(self, counts):
            self.counts, self.model = counts, self
            self.params = counts[1] / counts.sum(axis=0)
            self.llf = self.loglike(self.params)

        def loglike(self, params):
            return float((self.counts * np.log([1 - params, params])).sum())

    for _ in range(400):
        seen = rng.binomial(n, 0.3, 2)
        share = rng.beta(seen + 0.5, n - seen + 0.5, (copies, 2))
        yes = seen + rng.binomial(n, share)
        drawn = np.stack([2 * n - yes, yes], axis=1)
        found = likelihood_ratio_test(Fit, lambda counts: Fit(counts.sum(axis=1, keepdims=True)), drawn)
        rejected += found.p_value < 0.05
    assert abs(rejected / 400 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)


def test_what_cannot_be_tested_is_refused():
    full, reduced = MODELS["logit"]
    with pytest.raises(UsageError, match="only once"):
        likelihood_ratio_test(full, reduced, iter(FRAMES))
    with pytest.raises(UsageError, match="as many parameters"):
        likelihood_ratio_test(reduced, full, FRAMES)
    with pytest.raises(UsageError, match="likelihood of other parameters"):
        likelihood_ratio_test(lambda f: f, reduced, FRAMES)
