"""What offices use now beside PRAM, on one household survey: risk and loss by the same measures.

Run ``python benchmarks/against_offices.py [FILE]``; without the survey it says so. Neither sdcMicro nor ARX runs here:
their published algorithms are in ``benchmarks/office_methods.py``. The table of docs/offices.md is what is printed.

Everybody's attacker knows urbrur, walls, water, sex and the ten-year age band of persons in the file. Measures:

- below 3: share of the records whose released values of these five fewer than three records have; a suppressed value
  is a value.
- found: correct matches of 1,000 persons, by an attacker who knows that they are in the file, and the matrices.
- certain: share of the persons whose best link the attacker gives a probability above one half.
- register: expected number of correct matches of all records with a register of the population (weights of 100).
- worth 1, worth 2: median number of unperturbed records that give tables of one and two of these variables as
  precisely, ``1 / (1/n + MSE / (1 − Σ p²))``; MSE is that of the table's shares to the file's, over releases.
- error 2: mean absolute error of the shares of tables of two, in points per hundred; bias 2: that of their mean.

PRAM is estimated by ``estimate.table``; the others as they are published: shares of the records that show both
variables, and a group's records spread evenly over its categories.
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import office_methods as offices
import postrand as pr
from postrand.mechanism.matrix import randomised_response
from postrand.risk.cells import KeyCodes, table
from postrand.risk.informed import LEVELS, informed
from postrand.risk.split_law import law_of
from postrand.risk.split_risk import register_risk

SURVEY = Path(__file__).parents[2] / "shared" / "data" / "household_survey_testdata.csv"
KEYS = ("urbrur", "walls", "water", "sex", "age")
RELEASES, TARGETS = 20, 1000
HEAD = ("method", "below 3", "found", "certain", "register", "worth 1", "worth 2", "error 2", "bias 2")
Codes = Any


@dataclass(frozen=True)
class Survey:
    """The five variables as codes (n, 5), their sizes, the age in years, and the weights."""

    codes: Codes
    shape: tuple[int, ...]
    years: Codes
    weights: Codes

    @classmethod
    def read(cls, path: Path) -> "Survey":
        data = pd.read_csv(path)
        data["band"] = np.minimum(data["age"] // 10, 9)
        columns = [pd.factorize(data[n], sort=True)[0] for n in (*KEYS[:4], "band")]
        codes = np.stack(columns, axis=1).astype(np.int64)
        weights = data["sampling_weight"].to_numpy(float)
        return cls(codes, tuple(int(c.max()) + 1 for c in codes.T), data["age"].to_numpy(), weights)

    def keys(self, codes: Codes | None = None) -> KeyCodes:
        """Codes as key variables; a suppressed value, -1, is the last of its variable."""
        codes = self.codes if codes is None else codes
        shape = tuple(size + 1 for size in self.shape)
        return KeyCodes(KEYS, shape, tuple(np.where(c < 0, s, c) for c, s in zip(codes.T, self.shape, strict=True)))


def tables() -> list[tuple[int, ...]]:
    return [*((j,) for j in range(5)), *itertools.combinations(range(5), 2)]


def shares(codes: Codes, shape: tuple[int, ...], own: tuple[int, ...]) -> Codes:
    """Shares of a table among the records that show all its variables."""
    there = (codes[:, own] >= 0).all(axis=1)
    sizes = [shape[j] for j in own]
    cells = np.ravel_multi_index(tuple(codes[there][:, own].T), sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))) / there.sum()


def loss(survey: Survey, estimates: list[dict[tuple[int, ...], Codes]]) -> tuple[float, ...]:
    """The two worths, the error and the bias from the tables of each release."""
    n, worth, error, bias = len(survey.codes), {1: [], 2: []}, [], []
    for own in tables():
        true = shares(survey.codes, survey.shape, own)
        off = np.stack([found[own].ravel() for found in estimates]) - true
        mse = (off**2).sum(axis=1).mean()
        worth[len(own)].append(1 / (1 / n + mse / (1 - (true**2).sum())))
        if len(own) == 2:
            error.append(100 * np.abs(off).mean())
            bias.append(100 * np.abs(off.mean(axis=0)).mean())
    return float(np.median(worth[1])), float(np.median(worth[2])), float(np.mean(error)), float(np.mean(bias))


def below(classes: Codes) -> float:
    return float((classes < 3).mean())


def sizes_of(survey: Survey, codes: Codes) -> Codes:
    cells = table(survey.keys(codes))
    return cells.counts[cells.record_cell]


def deterministic(survey: Survey, codes: Codes, spread: Any = None) -> tuple[float, ...]:
    """The row of a method that draws nothing; ``spread`` gives tables of generalised codes."""
    sizes = sizes_of(survey, codes)
    keys = survey.keys(codes)
    risk = register_risk(keys, survey.weights)
    found = {own: shares(codes, survey.shape, own) if spread is None else spread(own) for own in tables()}
    attack = 1 / sizes
    return (below(sizes), 1000 * attack.mean(), float((attack > 0.5).mean()), risk.sum(), *loss(survey, [found]))


def sdcmicro(survey: Survey, pram: bool, rng: Any) -> tuple[float, ...]:
    """Age in bands, four keys suppressed until each matches three records, and walls by PRAM, as is documented."""
    order = offices.importance(survey.shape[:1] + survey.shape[2:])
    four = offices.suppressed(np.delete(survey.codes, 1, axis=1), 3, order)
    released, rows, attacks = [], [], []
    for _ in range(RELEASES if pram else 1):
        walls, matrix = offices.default_pram(survey.codes[:, 1], survey.shape[1], rng, pram)
        codes = np.insert(four, 1, walls, axis=1)
        released.append({own: shares(codes, survey.shape, own) for own in tables()})
        rows.append(below(sizes_of(survey, codes)))
        matrices = {1: matrix}
        attacks.append(
            offices.linked(survey.codes, codes, survey.shape, matrices, rng.permutation(len(codes))[:TARGETS])
        )
    stay = np.diag(matrix)[survey.codes[:, 1]]
    risk = offices.matching_risk(np.insert(four, 1, survey.codes[:, 1], axis=1), survey.weights) * stay
    right, certain = np.mean(attacks, axis=0)
    return (float(np.mean(rows)), 1000 * right, certain, float(risk.sum()), *loss(survey, released))


def book_of(shape: tuple[int, ...]) -> pr.Codebook:
    sizes = zip(KEYS, shape, strict=True)
    return pr.Codebook(tuple(pr.Variable(name, "key", tuple(range(size)), type="int64") for name, size in sizes))


def plan(survey: Survey, kind: str, epsilon: float) -> tuple[float, ...]:
    """The row of a plan: separate blocks, one joint block, or a split; ``years``: separate, with age in years."""
    codes, shape = survey.codes, survey.shape
    if kind == "years":
        codes = np.column_stack([codes[:, :4], survey.years])
        shape = (*shape[:4], int(survey.years.max()) + 1)
    book = book_of(shape)
    if kind == "joint":
        mechanism = pr.Mechanism([pr.Block(KEYS, randomised_response(int(np.prod(shape)), epsilon))], book)
    elif kind == "split":
        made = pr.split_design(book, epsilon=epsilon)
        blocks = [pr.Block(subset.variables, subset.matrix) for subset in made.subsets]
        mechanism = pr.Mechanism([], book, split=pr.Split.of([s.probability for s in made.subsets], blocks))
    else:
        each = {name: randomised_response(size, epsilon / 5) for name, size in zip(KEYS, shape, strict=True)}
        mechanism = pr.Mechanism(each, book)
    keys = KeyCodes(KEYS, shape, tuple(codes.T))
    law = law_of(mechanism, KEYS, shape)
    attack = informed(keys, law)
    frame = pd.DataFrame(dict(zip(KEYS, codes.T, strict=True)))
    found, rows = [], []
    for seed in range(RELEASES):
        released = pr.perturb(frame, mechanism, pr.ReleaseKey.from_seed(seed))
        rows.append(
            below(released.groupby(list(KEYS), dropna=False, observed=True)["sex"].transform("size").to_numpy())
        )
        found.append({own: banded(released, own, mechanism, kind == "years") for own in tables()})
    risk = register_risk(keys, survey.weights, law).sum()
    certain = attack.individual.shares[LEVELS.index(0.5)]
    return (float(np.mean(rows)), attack.anyone.per_thousand, certain, float(risk), *loss(survey, found))


def banded(released: Any, own: tuple[int, ...], mechanism: Any, in_years: bool) -> Codes:
    """An estimated table, ages in years added up to bands."""
    value = pr.estimate.table(released, [KEYS[j] for j in own], mechanism).value
    if in_years and 4 in own:
        bands = np.minimum(np.arange(value.shape[-1]) // 10, 9)
        value = np.stack([value[..., bands == band].sum(axis=-1) for band in range(10)], axis=-1)
    return value


def fewest(survey: Survey) -> Codes:
    frame = pd.DataFrame(dict(zip(KEYS, survey.codes.T, strict=True)))
    made = pr.suppress(frame, KEYS, 3)
    print(*made.claims.losses, sep="\n", file=sys.stderr)
    return np.stack([pd.to_numeric(made.frame[n].astype("object")).fillna(-1).to_numpy(int) for n in KEYS], axis=1)


def rows(survey: Survey) -> dict[str, tuple[float, ...]]:
    rng = np.random.default_rng(1)
    arx = offices.full_domain(survey.codes, offices.HIERARCHIES, 3, 0.05)
    return {
        "as it is, age in bands": deterministic(survey, survey.codes),
        "sdcMicro: bands, suppression": sdcmicro(survey, False, rng),
        "sdcMicro: bands, suppression, PRAM of walls": sdcmicro(survey, True, rng),
        "ARX: generalisation, 5% suppressed": deterministic(
            survey, arx.codes, lambda own: arx.spread(survey.shape, own)
        ),
        "postrand suppress, k = 3": deterministic(survey, fewest(survey)),
        "PRAM, separate, age in years, ε = 5": plan(survey, "years", 5.0),
        "PRAM, separate, ε = 5": plan(survey, "separate", 5.0),
        "PRAM, joint, ε = 5": plan(survey, "joint", 5.0),
        "PRAM, split, ε = 5": plan(survey, "split", 5.0),
        "PRAM, split, ε = 8": plan(survey, "split", 8.0),
        "PRAM, joint, ε = 8": plan(survey, "joint", 8.0),
    }


def lines(found: dict[str, tuple[float, ...]]) -> list[str]:
    out = [f"| {' | '.join(HEAD)} |", "| --- |" + " ---: |" * 8]
    for name, (small, right, certain, register, one, two, error, bias) in found.items():
        cells = [f"{small:.1%}", f"{right:.0f}", f"{certain:.1%}", f"{register:.1f}", f"{one:,.0f}", f"{two:,.0f}"]
        out.append(f"| {name} | {' | '.join([*cells, f'{error:.2f}', f'{bias:.2f}'])} |")
    return out


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SURVEY
    if not path.exists():
        print(f"not measured: the household survey is not at {path}")
        return
    print("\n".join(lines(rows(Survey.read(path)))))


if __name__ == "__main__":
    main()
