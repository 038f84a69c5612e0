"""Named regressions, fitted to simulated releases: advice promises those that can be fitted, with their precision."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable, estimate
from postrand.cli import main
from postrand.data.frames import TableSource
from postrand.errors import EstimationError
from postrand.report.table_worth import TableWorth
from postrand.workflow.advice_needs import Model
from postrand.workflow.advice_uses import Estimated, _named, family_of
from postrand.workflow.model_trials import Fits, simulated

BOOK = Codebook(
    (
        Variable("died", "key", ("no", "yes")),
        Variable("sex", "key", ("F", "M")),
        Variable("ward", "other", ("a", "b", "c")),
        Variable("pay", "other", type="double"),
    )
)
MODEL = Model(("died", "sex", "ward"))


def file(n: int, deaths: int) -> pa.Table:
    rng = np.random.default_rng(4)
    held = {"died": np.where(rng.permutation(n) < deaths, "yes", "no"), "sex": rng.choice(["F", "M"], n)}
    held |= {"ward": rng.choice(["a", "b", "c"], n)}
    columns = {name: pa.array(values).dictionary_encode() for name, values in held.items()}
    return pa.table(columns | {"pay": rng.normal(3, 1, n)})


def law(epsilon: float) -> pr.Mechanism:
    return pr.Mechanism({name: pr.randomised_response(2, epsilon) for name in ("died", "sex")}, BOOK)


def test_a_regression_of_a_rare_outcome_is_not_promised_and_one_of_a_frequent_outcome_is():
    rare = simulated(TableSource(file(4000, 60)), law(1.5), MODEL, "logistic")
    often = simulated(TableSource(file(4000, 1600)), law(1.5), MODEL, "logistic")
    assert rare is not None
    assert often is not None
    assert (rare.is_met, often.is_met) == (False, True)
    assert rare.fitted < 9
    assert "too little information" in rare.why
    told = [*_named(Estimated(4000, None, [(MODEL, None)], fits={str(MODEL): rare}), is_split=False)]
    assert str(told[0]).startswith(f"{MODEL}: NOT met (fitted in {rare.fitted} of 10 simulated releases")
    assert "Next: merge categories" in str(told[0])
    told = [*_named(Estimated(4000, None, [(MODEL, None)], fits={str(MODEL): often}), is_split=False)]
    assert re.search(
        r"met \(fitted in 10 of 10 simulated releases, with standard errors [\d.]+ to [\d.]+ times", str(told[0])
    )


def test_the_ratios_are_those_of_other_releases_and_of_a_fit_to_the_file_itself():
    """By releases of other keys, and by the standard errors of ordinary least squares, which the file has."""
    table, model = file(3000, 1500), Model(("pay", "sex", "ward"))
    found = simulated(TableSource(table), law(2.0), model, "linear")
    assert found is not None
    errors = []
    for seed in range(100, 130):
        released = pr.perturb(table, law(2.0), pr.ReleaseKey.from_seed(seed))
        errors.append(estimate.regression("pay ~ sex + ward", released, law(2.0), "linear").standard_error)
    sex, ward = ((table.column(n).to_numpy(zero_copy_only=False)) for n in ("sex", "ward"))
    x = np.column_stack([np.ones(3000), sex == "M", ward == "b", ward == "c"]).astype(float)
    y = table.column("pay").to_numpy()
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    plain = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * (rest @ rest) / (3000 - 4))
    assert np.array(found.ratios) == pytest.approx(np.median(errors, axis=0) / plain, rel=0.05)
    # Of a binary covariate kept with probability p, the information about its coefficient falls by (2p - 1)^2.
    stays = np.exp(2.0) / (1 + np.exp(2.0))
    assert found.ratios[1] == pytest.approx(1 / (2 * stays - 1), rel=0.1)


def test_little_use_is_not_met_and_what_the_file_itself_refuses_is_left_to_the_other_words():
    assert not Fits(5000, 10, 10, (10.5, 30.0)).is_met
    assert "times those of the unperturbed file: of little use" in str(Fits(5000, 10, 10, (10.5, 30.0)))
    assert Fits(5000, 10, 9, (1.5, 30.0)).is_met
    assert not Fits(5000, 10, 8, (1.5, 30.0)).is_met
    assert str(Fits(5000, 3, 2, (2.0, 2.0), "why")).endswith("2 times those of the unperturbed file; else refused: why")
    constant = file(200, 0)  # nobody died
    with pytest.raises(EstimationError):
        estimate.regression("died ~ sex", constant, law(1.0), "logistic")
    assert simulated(TableSource(constant), law(1.0), Model(("died", "sex")), "logistic") is None
    (told,) = _named(Estimated(200, None, [(MODEL, None)]), is_split=True)
    assert str(told) == f"{MODEL}: met (fewer than two of its variables are perturbed)"
    (told,) = _named(Estimated(200, None, [(MODEL, TableWorth(("died", "sex"), 150.0, 200))]), is_split=True)
    assert "rare categories can still prevent a fit" in str(told)


def test_the_family_is_that_of_the_response():
    assert [family_of(BOOK, Model((name, "sex"))) for name in ("died", "ward", "pay")] == [
        "logistic", "multinomial", "linear"
    ]  # fmt: skip


def test_advice_tries_each_named_regression_on_each_plan(tmp_path: Path) -> None:
    table = file(1200, 40)
    pq.write_table(table, tmp_path / "s.parquet")
    words = [
        "advise",
        str(tmp_path / "s.parquet"),
        "--keys",
        "died,sex,ward",
        "--other",
        "pay",
        "--limit",
        "epsilon <= 3",
    ]
    uses = ["--use", "model died ~ sex + ward", "--use", "model pay ~ sex"]
    done = CliRunner().invoke(main, [*words, *uses, "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    rare = re.findall(r"Asked: model died ~ sex \+ ward: (NOT met|met) \(fitted in (\d+) of 10", done.output)
    plans = len(re.findall(r"^Plan \d+: .*\.toml\)$", done.output, re.MULTILINE))
    assert len(rare) == plans >= 2
    assert all((verdict == "met") is (int(fits) >= 9) for verdict, fits in rare)
    assert "Asked: model pay ~ sex: met (fitted in 10 of 10 simulated releases" in done.output
