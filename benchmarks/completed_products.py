"""Two perturbed variables that act together on an unperturbed number: do completed files keep their product?

A population of persons with four dependent categorical variables, of which a number, a time with censoring and a skewed
income depend; the income, if asked, on the product of two of them. Each replication draws a file, releases each
variable by randomised response, completes it with and without the search for pairs that act together, and analyses the
copies by ordinary software. Shown are, for each coefficient, bias in standard errors of the true file, coverage of 95%
intervals, and their length as a multiple of those of the true file.

Run ``python benchmarks/completed_products.py [REPLICATIONS] [RECORDS] [EPSILON] [PRODUCT]``.
"""

import sys
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg

from postrand import Codebook, Mechanism, ReleaseKey, Variable, estimate, perturb, randomised_response
from postrand.completion import complete, completed

COPIES = 10
PERSONS = 400_000
SIZES = {"group": 2, "level": 4, "answer": 2, "third": 3}


def population(product):
    """Return the persons, and the codebook of their columns."""
    rng = np.random.default_rng(4)
    group = rng.integers(0, 2, PERSONS)
    level = np.clip(np.round(1.3 + 0.6 * group + rng.normal(size=PERSONS)), 0, 3).astype(int)
    answer = (rng.random(PERSONS) < 0.3 + 0.1 * level).astype(int)
    third = np.where(rng.random(PERSONS) < 0.4, level % 3, rng.integers(0, 3, PERSONS))
    until = np.ceil(rng.exponential(1 / (0.04 * np.exp(0.5 * group - 0.3 * level + 0.5 * answer))))
    censored = np.ceil(rng.uniform(6, 60, PERSONS)).clip(max=36)
    frame = pd.DataFrame({"group": group, "level": level, "answer": answer, "third": third})
    frame["income"] = np.exp(9 + 0.3 * group + 0.3 * level + product * group * level + rng.normal(0, 0.6, PERSONS))
    frame["score"] = 0.5 * group + 0.4 * level - 0.4 * answer + 0.3 * third + rng.normal(size=PERSONS)
    frame["months"], frame["ended"] = np.minimum(until, censored), (until <= censored).astype(int)
    categories = [Variable(n, "other", tuple(range(s)), type="int64") for n, s in {**SIZES, "ended": 2}.items()]
    return frame, Codebook((*categories, *(Variable(n, "other", type="double") for n in ("income", "score", "months"))))


def analyses(frame):
    """Return the coefficients of all analyses and their variances."""
    x = sm.add_constant(frame[["group", "level", "answer"]].astype(float))
    both = x[["const", "group", "level"]].assign(both=x["group"] * x["level"])
    gamma = sm.GLM(frame["income"], both, family=sm.families.Gamma(sm.families.links.Log())).fit(cov_type="HC0")
    median = sm.QuantReg(np.log(frame["income"]), x[["const", "group", "level"]]).fit(q=0.5)
    linear = sm.OLS(frame["score"], x).fit()
    cox = PHReg(frame["months"], x[["group", "level", "answer"]], status=frame["ended"], ties="breslow").fit()
    logit = sm.Logit(frame["answer"], x[["const", "group", "level"]].assign(score=frame["score"])).fit(disp=False)
    found = {}
    for name, one in (("gamma", gamma), ("median", median), ("linear", linear), ("logit", logit)):
        for at, value, error in zip(one.params.index[1:], one.params[1:], one.bse[1:], strict=True):
            found[f"{name}: {at}"] = (value, error**2)
    for at, value, error in zip(("group", "level", "answer"), cox.params, cox.bse, strict=True):
        found[f"Cox: {at}"] = (value, error**2)
    return found


def replication(frame, book, epsilon, n, turn):
    """Return pooled answers without and with pairs, and those of the true file."""
    drawn = frame.iloc[np.random.default_rng([turn, 5]).integers(0, len(frame), n)].reset_index(drop=True)
    law = Mechanism({name: randomised_response(size, epsilon) for name, size in SIZES.items()}, book)
    released = perturb(drawn, law, ReleaseKey.from_seed(turn))
    answers = {"true file": analyses(drawn)}
    for name, search in (("without", lambda *_: ()), ("with", completed.acting_pairs)):
        with mock.patch.object(completed, "acting_pairs", search):
            done = complete(released, law, copies=COPIES, seed=turn, classes=20, sweeps=900)
        each = [analyses(copy.astype({name: int for name in (*SIZES, "ended")})) for copy in done.frames]
        answers[name] = estimate.pool(lambda found: found, each)
        answers[f"{name} problems"] = done.diagnostics.problems
    return answers


def main():
    replications, n, epsilon, product = (
        float(v) for v in (*sys.argv[1:], *("40", "4000", "3", "0.2")[len(sys.argv) - 1 :])
    )
    frame, book = population(product)
    truth = analyses(frame)
    rows, said = [], {"without": 0, "with": 0}
    for turn in range(int(replications)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = replication(frame, book, epsilon, int(n), turn)
        for kind in said:
            said[kind] += any("unperturbed columns differs" in text for text in found[f"{kind} problems"])
        for place, name in enumerate(truth):
            true, own = truth[name][0], found["true file"][name][1] ** 0.5
            for kind in said:
                pooled = found[kind]
                low, high = (float(end[place]) for end in pooled.interval())
                off = float(pooled.value[place]) - true
                rows.append((kind, name, off / own, low <= true <= high, (high - low) / (2 * 1.96 * own)))
        if turn % 10 == 9:
            table = pd.DataFrame(rows, columns=["kind", "coefficient", "bias", "coverage", "length"])
            print(turn + 1, "files; relations that fail:", said)
            print(table.groupby(["coefficient", "kind"], sort=False).mean().unstack().round(2).to_string(), flush=True)


if __name__ == "__main__":
    main()
