"""How often intervals hold the population's value when records come in clusters: with the design, and ignoring it.

Each round draws a population of 2,000 clusters of 20 persons in four strata, with an intraclass correlation of .3 in
every variable, a sample of 15 clusters from each stratum, and a perturbation of sex, region and illness. The intervals
of tables, means, totals, ratios, quantiles and regressions are pooled. Run: python -m benchmarks.survey_coverage ROUNDS
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from postrand import Codebook, Variable, estimate
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix

CLUSTERS, MEMBERS, DRAWN, CORRELATION = (200, 400, 600, 800), 20, 15, 0.3
STAYS = {"sex": 0.85, "region": 0.8, "ill": 0.9}
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("region", role="key", categories=("n", "s", "w")),
        Variable("ill", role="sensitive", categories=(0, 1), type="int64"),
    )
)


def law() -> Mechanism:
    """Return the mechanism: a value stays with the probability stated, and else is any other."""
    laws = {}
    for name, stays in STAYS.items():
        size = BOOK[name].size
        array = np.where(np.eye(size, dtype=bool), stays, (1 - stays) / (size - 1))
        laws[name] = TransitionMatrix.from_array(array)
    return Mechanism(laws, BOOK)


def population(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of a population, (clusters, members) each; latent normals share .3 within clusters."""
    count = sum(CLUSTERS)
    stratum = np.repeat(np.arange(len(CLUSTERS)), CLUSTERS)

    def latent() -> np.ndarray[Any, Any]:
        shared = rng.standard_normal((count, 1)) * CORRELATION**0.5
        return np.asarray(shared + rng.standard_normal((count, MEMBERS)) * (1 - CORRELATION) ** 0.5)

    level = 0.2 * stratum[:, None]
    one, two, three, four = (latent() for _ in range(4))
    sex, region = (one > 0).astype(int), np.digitize(two + level, (-0.2, 0.8))
    ill = (three + 0.5 * sex > 0.6).astype(int)
    pay = 30 + 6 * four + 4 * sex + 2 * region + 3 * ill + 5 * level
    return {"sex": sex, "region": region, "ill": ill, "pay": pay, "stratum": stratum[:, None] + 0 * sex}


def sample(people: dict[str, np.ndarray[Any, Any]], rng: np.random.Generator) -> pa.Table:
    """Return all members of the clusters drawn, sex, region and ill perturbed."""
    first = np.concatenate([[0], np.cumsum(CLUSTERS)[:-1]])
    chosen = np.concatenate([f + rng.choice(c, DRAWN, replace=False) for f, c in zip(first, CLUSTERS, strict=True)])
    held = {name: values[chosen].ravel() for name, values in people.items()}
    for name, block in ((b.variables[0], b) for b in law().blocks):
        steps = np.cumsum(block.matrix.array, axis=1)[held[name]]
        held[name] = (rng.random((len(steps), 1)) > steps).sum(axis=1)
    columns = {name: np.array(BOOK[name].categories)[held[name]] for name in STAYS}
    columns |= {"pay": held["pay"], "stratum": held["stratum"], "psu": np.repeat(chosen, MEMBERS)}
    columns["w"] = np.array(CLUSTERS)[held["stratum"]] / DRAWN
    return pa.table(columns)


QUESTIONS: dict[str, Any] = {
    "table sex × region": lambda f, m, **o: estimate.table(f, ["sex", "region"], m, **o),
    "mean of pay by region": lambda f, m, **o: estimate.mean(f, "pay", m, by="region", **o),
    "share of ill by sex": lambda f, m, **o: estimate.mean(f, "ill", m, by="sex", **o),
    "total of pay by sex": lambda f, m, **o: estimate.total(f, "pay", m, by="sex", **o),
    "ratio of pay to ill": lambda f, m, **o: estimate.ratio_of_totals(f, "pay", "ill", m, **o),
    "quartiles of pay": lambda f, m, **o: estimate.quantile(f, "pay", m, q=[0.25, 0.5, 0.75], **o),
    "linear regression": lambda f, m, **o: estimate.regression("pay ~ C(sex) + C(region)", f, m, "linear", **o),
    "logistic regression": lambda f, m, **o: estimate.regression("ill ~ C(sex) + pay", f, m, "logistic", **o),
}


def rounds(count: int, seed: int = 1) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield for each round and question which intervals hold the truth: with the design, and with weights alone."""
    rng = np.random.default_rng(seed)
    design = estimate.SurveyDesign(weights="w", strata="stratum", psu="psu")
    kept = Mechanism({name: TransitionMatrix.identity(BOOK[name].size) for name in STAYS}, BOOK)
    for _ in range(count):
        people = population(rng)
        frame = sample(people, rng)
        whole = {name: np.array(BOOK[name].categories)[people[name].ravel()] for name in STAYS}
        every = pa.table({**whole, "pay": people["pay"].ravel()})
        for name, ask in QUESTIONS.items():
            truth = ask(every, kept).value
            found = []
            for options in ({"design": design}, {"weights": "w"}):
                low, high = ask(frame, law(), **options).interval()
                found.append(((low <= truth) & (truth <= high)).ravel())
            yield name, found[0], found[1]


def main(count: int) -> None:
    """Print the coverage of each question and of all, with its error: intervals of one round are not independent."""
    held: dict[str, list[tuple[Any, Any]]] = {name: [] for name in QUESTIONS}
    for name, right, naive in rounds(count):
        held[name].append((right, naive))
    lines = [(name, np.array([(r.mean(), n.mean()) for r, n in one]), len(one[0][0])) for name, one in held.items()]
    size = sum(width for _, _, width in lines)
    lines.append(("all", sum(width * means for _, means, width in lines) / size, size))
    for name, means, width in lines:
        cover, error = 100 * means.mean(axis=0), 100 * means.std(axis=0, ddof=1) / count**0.5
        text = f"{cover[0]:.1f} ± {error[0]:.1f} | {cover[1]:.1f} ± {error[1]:.1f}"
        print(f"| {name} | {width * count:,} | {text} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
