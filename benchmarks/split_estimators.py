"""Study every estimator on a split: bias, stated variance and coverage, each replication drawing its records anew.

Run ``python -m benchmarks.split_estimators [--quick]``; results go to benchmarks/results/split_estimators.{md,json}.
Takes about half an hour (--quick: three minutes). Coverage is pooled over the intervals of a family of questions.
"""

import argparse
import itertools
import json
import math
import time
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import optimize, stats

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response

RESULTS = Path(__file__).parent / "results"
INTERVALS = 2_000
HIDDEN = ("sex", "age", "ill", "job")
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=(0, 1), type="int64"),
        Variable("age", role="key", categories=(0, 1, 2), type="int64"),
        Variable("ill", role="sensitive", categories=(0, 1), type="int64"),
        Variable("job", role="key", categories=("i", "j", "k")),
        Variable("area", role="key", categories=("e", "w")),
        Variable("town", role="other", categories=("p", "q")),
        Variable("pay", role="other", type="double"),
        Variable("calls", role="other", type="int64"),
        Variable("weight", role="weight", type="double"),
        Variable("stratum", role="other", categories=("s", "t")),
    )
)
SHARES = np.array([[0.2, 0.2, 0.1], [0.1, 0.2, 0.2]])
"""The law of sex and age in the population."""
JOBS = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
AREAS = np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])
LOGIT = (-1.0, 0.6, 0.3)
PAY = (1.0, 0.5, 0.3)
CALLS = (0.2, 0.4)
HEAVY = np.array([0.3, 0.7])
"""The share of each sex with weight 2; the others have weight 1."""


def sick(sex, age):
    """Return the probability of being ill."""
    return 1 / (1 + np.exp(-(LOGIT[0] + LOGIT[1] * sex + LOGIT[2] * age)))


def draw(rng, n):
    """Draw records of the population."""
    sex, age = np.divmod(rng.choice(6, size=n, p=SHARES.ravel()), 3)
    ill = (rng.random(n) < sick(sex, age)).astype(int)
    job = (rng.random(n)[:, None] > np.cumsum(JOBS, axis=1)[sex]).sum(axis=1).clip(max=2)
    area = (rng.random(n) > AREAS[age, 0]).astype(int)
    town = (rng.random(n) < 0.4).astype(int)
    pay = (PAY[0] + PAY[1] * sex + PAY[2] * age) * rng.gamma(2.0, 0.5, n)
    calls = rng.poisson(np.exp(CALLS[0] + CALLS[1] * sex))
    weight = 1.0 + (rng.random(n) < HEAVY[sex])
    stratum = rng.integers(0, 2, n)
    texts = {"job": np.array(["i", "j", "k"])[job], "area": np.array(["e", "w"])[area]}
    texts |= {"town": np.array(["p", "q"])[town], "stratum": np.array(["s", "t"])[stratum]}
    numbers = {"sex": sex, "age": age, "ill": ill, "pay": pay, "calls": calls, "weight": weight}
    return pa.table({**numbers, **texts})


def population(weighted=False):
    """Return the law of sex, age, ill, job, area and town, one axis each; of weights, if weighted."""
    sex, age = np.arange(2)[:, None], np.arange(3)[None, :]
    ill = np.stack([1 - sick(sex, age), sick(sex, age)], axis=2)
    law = np.einsum("sa,sai,sj,ar,t->saijrt", SHARES, ill, JOBS, AREAS, np.array([0.6, 0.4]))
    if weighted:
        law = law * (1 + HEAVY)[:, None, None, None, None, None]
    return law / law.sum()


def margin(names, weighted=False):
    """Return the true table of some variables."""
    order = (*HIDDEN, "area", "town")
    law = population(weighted).sum(axis=tuple(i for i, n in enumerate(order) if n not in names))
    held = [n for n in order if n in names]
    return law.transpose([held.index(n) for n in names])


@cache
def mechanism(epsilon):
    """Return a split of the hidden variables, all pairs and two larger subsets, and a block of areas beside it."""
    subsets = [*itertools.combinations(HIDDEN, 2), ("sex", "age", "ill"), HIDDEN]
    sizes = [math.prod(BOOK[name].size for name in names) for names in subsets]
    blocks = [Block(names, randomised_response(k, epsilon)) for names, k in zip(subsets, sizes, strict=True)]
    split = Split.of([0.03, 0.05, 0.1, 0.06, 0.08, 0.08, 0.35, 0.25], blocks)
    return Mechanism([Block(("area",), randomised_response(2, 1.5))], BOOK, split=split)


def quantile_of(sex, q):
    """Return a quantile of pay in one sex."""
    shares = SHARES[sex] / SHARES[sex].sum()
    scale = 0.5 * (PAY[0] + PAY[1] * sex + PAY[2] * np.arange(3))
    return optimize.brentq(lambda y: shares @ stats.gamma.cdf(y, 2.0, scale=scale) - q, 1e-6, 100)


def pay_by(axis):
    """Return the mean of pay by sex (0) or age (1)."""
    pay = PAY[0] + PAY[1] * np.arange(2)[:, None] + PAY[2] * np.arange(3)[None, :]
    return (SHARES * pay).sum(axis=1 - axis) / SHARES.sum(axis=1 - axis)


def odds():
    """Return the odds ratio of sex and ill."""
    p = margin(("sex", "ill"))
    return p[0, 0] * p[1, 1] / p[0, 1] / p[1, 0]


PAIRS = tuple(itertools.combinations(HIDDEN, 2))
TOTALS = pay_by(1) * SHARES.sum(axis=0)
HEAVIER = {"weights": "weight", "strata": "stratum"}


def families():
    """Return, by family, what is asked of (frame, mechanism), and the truth for one record (True: times n)."""
    ask = estimate
    score = {"ill women less men": np.array([[0.0, -1.0], [0.0, 1.0]])}
    difference = margin(("sex", "ill"))[1, 1] - margin(("sex", "ill"))[0, 1]
    return {
        "tables of two": [(lambda f, m, v=v: ask.table(f, v, m), margin(v), False) for v in PAIRS],
        "tables of two, weights and strata": [
            (lambda f, m, v=v: ask.table(f, v, m, **HEAVIER), margin(v, True), False) for v in PAIRS
        ],
        "with a block and a clear variable": [
            (lambda f, m, v=v: ask.table(f, v, m), margin(v), False) for v in (("sex", "area"), ("town", "age", "ill"))
        ],
        "counts": [(lambda f, m: ask.table(f, ["age"], m).counts(), margin(("age",)), True)],
        "likelihood tables": [
            (lambda f, m, v=v: ask.maximum_likelihood(f, v, m), margin(v), False) for v in (("sex", "job"), ("age",))
        ],
        "quantities": [(lambda f, m: ask.quantities(f, ["sex", "ill"], score, m), np.array([difference]), False)],
        "odds ratio": [(lambda f, m: ask.odds_ratio(f, "sex", "ill", m), np.array(odds()), False)],
        "means": [
            (lambda f, m: ask.mean(f, "pay", m, by="sex"), pay_by(0), False),
            (lambda f, m: ask.mean(f, "pay", m, by="age", **HEAVIER), weighted_pay(), False),
        ],
        "mean of a variable of the split": [
            (lambda f, m: ask.mean(f, "ill", m, by="sex"), margin(("sex", "ill"))[:, 1] / SHARES.sum(axis=1), False)
        ],
        "totals": [
            (lambda f, m: ask.total(f, "pay", m, by="age"), TOTALS, True),
            (lambda f, m: ask.total(f, "pay", m, by="age", **HEAVIER), weighted_totals(), True),
        ],
        "ratios": [(lambda f, m: ask.ratio_of_totals(f, "pay", "calls", m, by="sex"), ratios(), False)],
        "quantiles": [
            (
                lambda f, m: ask.quantile(f, "pay", m, q=[0.25, 0.5, 0.75], by="sex"),
                np.array([[quantile_of(s, q) for q in (0.25, 0.5, 0.75)] for s in range(2)]),
                False,
            )
        ],
        "linear regression": [
            (lambda f, m: ask.regression("pay ~ sex + age", f, m, "linear"), np.array(PAY), False),
            (lambda f, m: ask.regression("pay ~ sex + age", f, m, "linear", **HEAVIER), np.array(PAY), False),
        ],
        "logistic regression": [
            (lambda f, m: ask.regression("ill ~ sex + age", f, m, "logistic"), np.array(LOGIT), False)
        ],
        "Poisson regression": [(lambda f, m: ask.regression("calls ~ sex", f, m, "poisson"), np.array(CALLS), False)],
        "logistic regression, likelihood": [
            (
                lambda f, m: ask.regression("ill ~ sex + age", f, m, "logistic", method="likelihood"),
                np.array(LOGIT),
                False,
            )
        ],
    }


def weighted_pay():
    """Return the mean of pay by age, with the weights."""
    mass = SHARES * (1 + HEAVY)[:, None]
    pay = PAY[0] + PAY[1] * np.arange(2)[:, None] + PAY[2] * np.arange(3)[None, :]
    return (mass * pay).sum(axis=0) / mass.sum(axis=0)


def weighted_totals():
    """Return the total of weighted pay by age, for one record."""
    return weighted_pay() * (SHARES * (1 + HEAVY)[:, None]).sum(axis=0)


def ratios():
    """Return the ratio of the totals of pay and calls by sex."""
    return pay_by(0) / np.exp(CALLS[0] + CALLS[1] * np.arange(2))


def study(epsilon, n, intervals, seed, chosen=None):
    """Return a row for each family: worst bias in standard errors, stated over actual variance, pooled coverage."""
    law, rows = mechanism(epsilon), []
    asked = {name: held for name, held in families().items() if chosen is None or name in chosen}
    for name, held in asked.items():
        runs = math.ceil(intervals / sum(truth.size for _, truth, _ in held))
        frames = (released(epsilon, n, seed, k) for k in range(runs))
        rows.append({"family": name, "epsilon": epsilon, "n": n, **measured(held, frames, law, n)})
    return rows


@lru_cache(maxsize=100)
def released(epsilon, n, seed, k):
    """Return records drawn anew, and released under a key of their own."""
    rng = np.random.default_rng([seed, k])
    return pr.perturb(draw(rng, n), mechanism(epsilon), release_key=pr.ReleaseKey.from_seed(1000 * seed + k))


def measured(held, frames, law, n):
    """Return what the intervals of a family do; a file that is refused counts as refused, and in nothing else."""
    hit, refused, no_ends = [], 0, 0
    truths = [(truth * (n if times else 1)).ravel() for _, truth, times in held]
    values: list[list[np.ndarray]] = [[] for _ in held]
    variances: list[list[np.ndarray]] = [[] for _ in held]
    for frame in frames:
        for i, (ask, _, _) in enumerate(held):
            try:
                found = ask(frame, law)
            except EstimationError:
                refused += 1
                continue
            low, high = (np.ravel(end) for end in found.interval())
            hit.append((low <= truths[i]) & (truths[i] <= high))
            no_ends += int((~np.isfinite(high - low)).sum())
            values[i].append(np.ravel(found.value))
            variances[i].append(np.ravel(found.standard_error) ** 2)
    spread = [np.var(each, axis=0, ddof=1) for each in values]
    bias = [
        (np.mean(each, axis=0) - truth) / np.sqrt(s / len(each))
        for each, truth, s in zip(values, truths, spread, strict=True)
    ]
    ratio = [np.mean(each, axis=0) / s for each, s in zip(variances, spread, strict=True)]
    every = np.concatenate(hit)
    return {
        "intervals": int(every.size),
        "coverage": float(every.mean()),
        "bias_z": float(np.abs(np.concatenate(bias)).max()),
        "variance_ratio": float(np.concatenate(ratio).mean()),
        "no_ends": no_ends,
        "refused": refused,
    }


def size(epsilon, n, runs, seed):
    """Return how often a test at 5 % rejects a true hypothesis: job and area, and age and town, are independent."""
    law = mechanism(epsilon)
    counts: dict[str, int] = {}
    shares = margin(("age",))
    tests = {
        "independence of the split and a clear variable": lambda f: estimate.independence_test(f, "age", "town", law),
        "the same, weights and strata": lambda f: estimate.independence_test(f, "age", "town", law, **HEAVIER),
        "fit of one variable": lambda f: estimate.goodness_of_fit_test(f, "age", shares, law),
        "independence within the split": lambda f: estimate.independence_test(f, "sex", "job", law),
    }
    for k in range(runs):
        frame = released(epsilon, n, seed, k)
        if k == 0:
            rng = np.random.default_rng(seed)
        shuffled = draw(rng, n)
        at = shuffled.schema.get_field_index("job")
        jobs = pa.array(np.array(["i", "j", "k"])[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])])
        own = pr.perturb(
            shuffled.set_column(at, "job", jobs), law, release_key=pr.ReleaseKey.from_seed(7000 * seed + k)
        )
        for name, test in tests.items():
            found = test(own if "within" in name else frame)
            counts[name] = counts.get(name, 0) + (found.p_value < 0.05)
    return [
        {"test": name, "epsilon": epsilon, "n": n, "runs": runs, "rejected": c / runs} for name, c in counts.items()
    ]


def table(rows):
    """Return rows as a table in Markdown."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--family", action="append", help="only this family; nothing is written")
    chosen = parser.parse_args()
    quick = chosen.quick
    if chosen.family:
        print(table(study(4.0, 4_000, 400 if quick else INTERVALS, 1, chosen.family)))
        return
    start, rows, sizes = time.perf_counter(), [], []
    for epsilon, n in ((4.0, 4_000),) if quick else ((4.0, 4_000), (8.0, 4_000), (4.0, 20_000)):
        rows += study(epsilon, n, 400 if quick else INTERVALS, 1)
        sizes += size(epsilon, n, 200 if quick else INTERVALS, 2)
        print(table(rows), table(sizes), sep="\n\n", flush=True)
    outside = [r["family"] for r in rows if not 0.94 <= r["coverage"] <= 0.96]
    text = [table(rows), table(sizes), f"Outside 94-96 %: {', '.join(outside) or 'none'}", ""]
    text.append(f"{time.perf_counter() - start:.0f} s")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "split_estimators.md").write_text("\n\n".join(text), encoding="utf-8")
    (RESULTS / "split_estimators.json").write_text(
        json.dumps({"rows": rows, "sizes": sizes}, indent=1), encoding="utf-8"
    )
    print(text[2], text[-1])


if __name__ == "__main__":
    main()
