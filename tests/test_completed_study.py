"""The study of completed files: its estimators and its arithmetic, and the fit against brute force on tiny domains."""

import importlib
import json
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from postrand import Codebook, Mechanism, ReleaseKey, Variable, estimate, perturb, randomised_response
from postrand.estimate.evidence import evidence_of
from postrand.mixture import Settings, fit
from tests.conftest import ROOT


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


def released(n: int = 1_500) -> tuple[pd.DataFrame, Mechanism]:
    """Return two related variables in one block."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 2, n)
    second = np.where(rng.random(n) < 0.6, first, rng.integers(0, 3, n))
    book = Codebook(tuple(Variable(name, "other", tuple(range(k)), type="int64") for name, k in (("a", 2), ("b", 3))))
    mechanism = Mechanism({("a", "b"): randomised_response(6, 3.0)}, book)
    return perturb(pd.DataFrame({"a": first, "b": second}), mechanism, ReleaseKey.from_seed(1)), mechanism


def test_the_fit_has_the_exact_posterior_of_one_variable():
    """On a grid over the simplex with a flat prior, which 600 records make all but irrelevant."""
    rng = np.random.default_rng(5)
    book = Codebook((Variable("x", "other", (0, 1, 2), type="int64"),))
    mechanism = Mechanism({"x": randomised_response(3, 1.5)}, book)
    true = pd.DataFrame({"x": rng.choice(3, 600, p=[0.6, 0.3, 0.1])})
    evidence, _ = evidence_of(perturb(true, mechanism, ReleaseKey.from_seed(2)), mechanism)
    grid = np.array([(a, b, 200 - a - b) for a in range(1, 200) for b in range(1, 200 - a)]) / 200
    counts = np.bincount(evidence.released, minlength=3)
    log = np.log(grid @ mechanism["x"].matrix.array) @ counts
    chance = np.exp(log - log.max())
    chance /= chance.sum()
    mean = chance @ grid
    deviation = np.sqrt(chance @ (grid - mean) ** 2)
    drawn = np.array([draw.table((0,)) for draw in fit(evidence, 100, 4, Settings(sweeps=1_000, classes=5)).draws])
    assert np.abs(drawn.mean(axis=0) - mean).max() < 0.35 * deviation.max()
    assert (np.abs(np.log(drawn.std(axis=0) / deviation)) < 0.35).all()


def test_latent_classes_reach_the_maximum_of_the_likelihood(monkeypatch):
    """Enough classes fit any table of two variables: the certified maximum of `estimate.maximum_likelihood`."""
    squares = module("completed_squares", monkeypatch)
    frame, mechanism = released()
    evidence, _ = evidence_of(frame, mechanism)
    wanted = estimate.maximum_likelihood(frame, ["a", "b"], mechanism).value
    found = squares.latent_classes(evidence, 3, 0, steps=3_000)
    np.testing.assert_allclose(squares.table_of(found[0], found[1], (0, 1)), wanted, atol=0.002)
    fewer = squares.latent_classes(evidence, 1, 0)
    assert fewer[2] < found[2]


@pytest.mark.slow
def test_every_analysis_answers_with_variances(monkeypatch):
    populations, study = module("completed_populations", monkeypatch), module("completed_files", monkeypatch)
    population = populations.parity()
    found = study.analysed(population.drawn(1, 800), study.every(population))
    asked = set(study.every(population)) - {"tree"}  # scikit-learn is not always there
    assert asked <= set(found)
    for value, variance in found.values():
        assert value.shape == variance.shape
        assert np.isfinite(value).all()
        assert (variance >= 0).all()


def test_small_areas_have_the_moments_of_fay_and_herriot(monkeypatch):
    """All districts alike: every estimate is near the mean, with less than the variance of one district."""
    analyses = module("completed_analyses", monkeypatch)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, k, 3_000) for name, k in (("group", 2), ("answer", 2), ("level", 4))})
    frame = frame.assign(third=frame["group"], district=rng.integers(0, 12, 3_000), score=rng.normal(size=3_000))
    value, variance = analyses.small_areas(frame)
    assert np.abs(value[:24]).max() < 0.25
    assert (variance[:24] < 1 / 90).all()


def test_tables_count_what_intervals_hold(monkeypatch):
    tables = module("completed_tables", monkeypatch)
    found = {"value": [0.0, 5.0], "half": [1.0, 1.0], "own": [0.5, 9.0], "own_variance": [1.0, 1.0], "variance": [1, 1]}
    run = {"population": "p", "release": "r", "level": 1.0, "effective": 900, "said": {"problems": [], "warnings": []}}
    run["found"] = {"one": found, "cells": found}
    truth = {"population": "p", "truth": {"one": [0.5, 0.0], "cells": [0.5, 0.005]}}
    (row,) = tables.by_release([run, run], {"p": truth["truth"]})
    assert (row["intervals"], row["coverage"], row["own coverage"], row["error"]) == (4, 0.5, 0.5, 0.0)
    assert (row["cells"], row["cells coverage"], row["cells above 1 %"], row["note"]) == (4, 0.5, 1.0, "")
    assert row["length"] == pytest.approx(1 / 1.959964)
    few = dict(run, effective=100)
    assert tables.by_release([few], {"p": truth["truth"]})[0]["note"] == "rests on the model"
    assert any("one" in line for line in tables.markdown([truth, run, few]))


def test_a_study_goes_on_where_it_stopped(monkeypatch, tmp_path):
    study = module("completed_files", monkeypatch)
    done = []

    found = {"value": [0.1], "half": [1.0], "own": [0.1], "own_variance": [1.0], "variance": [1.0]}

    def result(population, kind, level, n, turn, copies, **settings):
        done.append((turn, kind, level))
        if len(done) == 3:
            raise KeyboardInterrupt
        told: dict[str, list[str]] = {"problems": [], "warnings": []}
        return {"effective": 600, "fit_s": 0, "analyses_s": 0, "said": told, "found": {"cells": found, "Gini": found}}

    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(study, "replication", result)
    monkeypatch.setattr(study, "analysed", lambda frame, analyses: {n: (np.array([0.1]), 0) for n in ("cells", "Gini")})
    monkeypatch.setattr("sys.argv", ["study", str(path), "--population", "parity", "--replications", "1"])
    with pytest.raises(KeyboardInterrupt):
        study.main()
    assert [json.loads(line).get("release") for line in path.read_text().splitlines()] == [None, "separate", "separate"]
    study.main()
    assert len(path.read_text().splitlines()) == 1 + 8
    assert len(done) == 9  # eight runs, one of them begun twice
    assert len(set(done)) == 8
