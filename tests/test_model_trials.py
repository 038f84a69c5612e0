"""Named regressions, fitted to simulated releases: advice promises those that can be fitted, with their precision."""

from __future__ import annotations

import dataclasses
import html
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable, estimate
from postrand.cli import main
from postrand.columns.recoded import recoded
from postrand.data.frames import TableSource
from postrand.engines.frame import perturb
from postrand.errors import EstimationError, UsageError
from postrand.mechanism import Block, Split
from postrand.plan.analyses import Model
from postrand.recoding import Recode
from postrand.report.table_worth import TableWorth
from postrand.workflow import model_trials
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_refusals import require_known, require_tables
from postrand.workflow.advice_uses import Estimated, _named
from postrand.workflow.model_families import family_of
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


def rounded(table: pa.Table) -> pa.Table:
    """Return a file in which pay singles out nobody, so that it does not move in rank."""
    return table.set_column(3, "pay", pa.array(np.clip(table.column("pay").to_numpy().round(), 1, 5)))


def law(epsilon: float) -> pr.Mechanism:
    return pr.Mechanism({name: pr.randomised_response(2, epsilon) for name in ("died", "sex")}, BOOK)


def test_a_regression_of_a_rare_outcome_is_not_promised_and_one_of_a_frequent_outcome_is():
    rare = simulated(TableSource(file(4000, 60)), law(1.5), {MODEL: "logistic"})[MODEL]
    often = simulated(TableSource(file(4000, 1600)), law(1.5), {MODEL: "logistic"})[MODEL]
    assert (rare.is_met, often.is_met) == (False, True)
    assert rare.fitted < 9
    assert "too little information" in rare.why
    told = [*_named(Estimated(4000, None, [(MODEL, None)], fits={str(MODEL): rare}), "models", law(1.5))]
    fitted = f"fitted as a logistic regression in {rare.fitted} of 10 simulated releases"
    assert str(told[0]).startswith(f"{MODEL}: NOT met (often without an estimate: {fitted}")
    assert "Next: merge categories" in str(told[0])
    told = [*_named(Estimated(4000, None, [(MODEL, None)], fits={str(MODEL): often}), "models", law(1.5))]
    assert re.search(
        r"met \(fitted as a logistic regression in 10 of 10 simulated releases, with standard errors [\d.]+ to [\d.]+ ",
        str(told[0]),
    )


def test_the_ratios_are_those_of_other_releases_and_of_a_fit_to_the_file_itself():
    """By releases of other keys, and by the standard errors of ordinary least squares, which the file has."""
    table, model = file(3000, 1500), Model(("pay", "sex", "ward"))
    found = simulated(TableSource(table), law(2.0), {model: "linear"})[model]
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


def test_of_a_binary_column_the_error_grows_as_the_matrix_says() -> None:
    """In closed form: the share released is λ = q + (2p - 1) π, and an estimate divides its error by 2p - 1."""
    table, model = file(4000, 800), Model(("died",), "table")
    found = simulated(TableSource(table), law(2.0), {model: None})[model]
    p, share = np.exp(2.0) / (1 + np.exp(2.0)), 0.2
    shown = 1 - p + (2 * p - 1) * share
    factor = np.sqrt(shown * (1 - shown) / (share * (1 - share))) / (2 * p - 1)
    assert found.ratios == pytest.approx([factor, factor], rel=0.03)
    assert (found.fitted, found.none, found.is_met) == (10, 0, True)
    assert f"interval in 10 of 10 simulated releases, with standard errors {factor:.1f} times" in str(found)


def test_means_by_perturbed_groups_have_the_errors_of_other_releases_and_one_release_serves_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By releases of other keys, and by the errors of plain means of the file: a group without records has none."""
    ages = Variable("age", "key", ("young", "old", "none"))
    book = Codebook((*BOOK.variables, ages))
    rng = np.random.default_rng(11)
    codes = (rng.random(3000) < 0.3).astype(int)
    table = file(3000, 900).append_column("age", pa.array(np.array(["young", "old"])[codes]).dictionary_encode())
    table = table.set_column(3, "pay", pa.array(codes + rng.normal(3, 1, 3000)))
    drawn = pr.Mechanism({"age": pr.randomised_response(3, 2.5), "died": pr.randomised_response(2, 2.5)}, book)
    asked = {Model(("pay", "age"), "mean"): None, Model(("died", "age"), "table"): None, Model(("pay",), "mean"): None}
    made = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return perturb(*given)

    monkeypatch.setattr(model_trials, "perturb", counted)
    found = simulated(TableSource(table), drawn, asked)
    assert len(made) == 10
    means, cells, whole = found.values()
    pay = table.column("pay").to_numpy()
    plain = np.array([pay[codes == code].std(ddof=1) / np.sqrt((codes == code).sum()) for code in (0, 1)])
    errors = []
    for seed in range(100, 130):
        released = pr.perturb(table, drawn, pr.ReleaseKey.from_seed(seed))
        errors.append(estimate.mean(released, "pay", drawn, "age").standard_error)
    assert means.ratios == pytest.approx((np.median(errors, axis=0)[:2] / plain).tolist(), rel=0.07)
    assert (means.fitted, means.none, means.is_met) == (10, 1, True)
    assert "; 1 more has none in the file as it is" in str(means)
    assert (cells.fitted, len(cells.ratios)) == (10, 4)  # of six cells, two have no records and no error
    assert whole.ratios == pytest.approx([1.0])


def test_of_a_regression_is_told_how_many_effects_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By counting in releases of the same seeds, with their own fits: of two effects the small one is lost."""
    rng = np.random.default_rng(6)
    sex, ward = rng.integers(0, 2, 3000), rng.integers(0, 3, 3000)
    pay = 0.8 * sex + 0.2 * (ward == 1) + rng.normal(3, 1, 3000)
    columns = {"sex": np.array(["F", "M"])[sex], "ward": np.array(["a", "b", "c"])[ward]}
    table = pa.table({name: pa.array(held).dictionary_encode() for name, held in columns.items()} | {"pay": pay})
    drawn = pr.Mechanism({"sex": pr.randomised_response(2, 2.0), "ward": pr.randomised_response(3, 0.3)}, BOOK)
    model = Model(("pay", "sex", "ward"))
    found = simulated(TableSource(table), drawn, {model: "linear"})[model]
    clear = np.zeros(4)
    for seed in range(10):
        released = pr.perturb(table, drawn, pr.ReleaseKey.from_seed(seed))
        fit = estimate.regression("pay ~ sex + ward", released, drawn, "linear")
        clear += np.abs(fit.value / fit.standard_error) > 1.96
    assert clear[1] > 5 > clear[2]
    assert (found.effects, found.kept, found.changed) == (2, 1, ())
    assert [many for _, many in found.still] == clear[1:3].tolist()
    each = " and ".join(f"{name} in {many}" for name, many in found.still)
    assert f"still differs from 0 in most releases ({each} of 10)" in str(found)
    said = "; of 2 effects that are clear (more than 3 standard errors) in the file as it is, only 1 still differs"
    assert said in str(found)
    assert [Fits(5000, 10, 10, (1.5,), effects=3, kept=kept).is_met for kept in (2, 1)] == [True, False]


def test_an_effect_that_a_limit_on_numbers_changes_is_told_with_what_to_do() -> None:
    """By least squares on the numbers before: of illnesses, of which the largest count as 2, the effect grows."""
    rng = np.random.default_rng(7)
    ill = rng.geometric(0.65, 4000) - 1
    plain = pa.table({"ill": ill, "pay": 0.6 * ill + rng.normal(3, 1, 4000)})
    recode = Recode.from_dict({"variable": "ill", "bands": [0, 1, 2], "labels": ["0", "1", "2"]})
    book = Codebook((Variable("ill", "key", ("0", "1", "2")), BOOK["pay"]), recodes=(recode,))
    drawn = pr.Mechanism({"ill": pr.randomised_response(3, 5.0)}, book)
    model = Model(("pay", "ill"))
    found = simulated(recoded(TableSource(plain), book.recodes), drawn, {model: "linear"})[model]
    x, y = ill.astype(float), plain.column("pay").to_numpy()
    before, after = (np.polyfit(held, y, 1)[0] for held in (x, np.minimum(x, 2)))
    (changed,) = found.changed
    assert (changed.name, changed.change) == ("ill", pytest.approx(after / before - 1))
    assert after / before - 1 > 0.2
    assert "by the recodes the effect of ill is more than 20% farther from 0 than before recoding" in str(found)
    assert (found.is_found, found.is_off, found.is_met) == (True, True, False)
    (told,) = _named(Estimated(4000, None, [(model, None)], fits={str(model): found}), "models", drawn)
    assert ". Next: make bands narrower, limits farther out, or labels" in str(told)
    assert dataclasses.replace(found, is_off=False).is_met  # by less than releases tell


def test_two_bands_of_an_amount_are_fitted_as_analysts_fit_them_and_compared_with_the_numbers() -> None:
    """A response of hours in two bands, 0 and 1550, is linear by default, and its effect half of that of the hours."""
    rng = np.random.default_rng(8)
    kids = rng.integers(0, 3, 4000)
    hours = np.maximum(1500 - 600 * kids + 500 * rng.standard_normal(4000), 0).round()
    plain = pa.table({"kids": kids, "hours": hours})
    recode = Recode.from_dict({"variable": "hours", "bands": [0, 1], "labels": ["0", "1550"]})
    kids_in = Variable("kids", "key", (0, 1, 2), type="int64")
    book = Codebook((kids_in, Variable("hours", "sensitive", ("0", "1550"), ordered=True)), recodes=(recode,))
    model = Model(("hours", "kids"))
    assert family_of(book, model) == "linear"
    is_at_work = Codebook((kids_in, Variable("hours", "sensitive", (0, 1), type="int64")))
    assert family_of(is_at_work, model) == "logistic"
    drawn = pr.Mechanism({"hours": pr.randomised_response(2, 4.0)}, book)
    found = simulated(recoded(TableSource(plain), book.recodes), drawn, {model: "linear"})[model]
    after, before = (np.polyfit(kids, y, 1)[0] for y in (np.where(hours > 0, 1550.0, 0.0), hours))
    (changed,) = found.changed
    assert changed.change == pytest.approx(after / before - 1)
    assert (found.is_off, found.is_met, found.before, found.effects) == (True, False, 1, 1)
    assert str(found).startswith("fitted as a linear regression in 10 of 10 simulated releases, with standard errors ")
    assert " times those of the recoded file (95% intervals of ± " in str(found)
    assert re.search(r" intervals of ± [\d.]+ for kids\)", str(found))


def test_a_named_mean_that_recoding_moves_by_more_than_half_of_an_error_is_not_met() -> None:
    """By hand: labels of bands move the mean of one group by 3%, which was met by a rule of 5%; narrow bands do not."""
    rng, n = np.random.default_rng(9), 6000
    ward = rng.integers(0, 2, n)
    pay = rng.uniform(0, 20, n)
    pay[ward == 0] = np.linspace(0.001, 9.999, np.count_nonzero(ward == 0))
    wards = Variable("ward", "key", ("a", "b"))
    for labels, is_met in ((["5", "15.6"], False), (["5", "15"], True)):
        recode = Recode.from_dict({"variable": "pay", "bands": [0, 10], "labels": labels})
        book = Codebook((wards, Variable("pay", "sensitive", tuple(labels), ordered=True)), recodes=(recode,))
        plain = pa.table({"ward": np.array(["a", "b"])[ward], "pay": pay})
        drawn = pr.Mechanism({"pay": pr.randomised_response(2, 4.0)}, book)
        model = Model(("pay", "ward"), "mean")
        found = simulated(recoded(TableSource(plain), book.recodes), drawn, {model: None})[model]
        held = np.where(pay < 10, float(labels[0]), float(labels[1]))
        off = held[ward == 1].mean() - pay[ward == 1].mean()
        error = found.widths[-1] / 1.96
        assert (abs(off) < error / 2) == is_met
        assert (found.is_off, found.is_met) == (not is_met, is_met)
        assert ("; recoding moves means: that of b by more than half of a standard error" in str(found)) != is_met
        assert [one.off for one in found.changed] == ([] if is_met else [pytest.approx(off)])


def test_shares_in_groups_have_the_length_of_their_intervals_in_points() -> None:
    """Closed form: a share in an unperturbed ward is (r − q) / (p − q), r the released share of its n records."""
    table, model = file(6000, 1800), Model(("died", "ward"), "share")
    found = simulated(TableSource(table), law(2.0), {model: None})[model]
    p = np.exp(2.0) / (1 + np.exp(2.0))
    shown = 1 - p + (2 * p - 1) * 0.7  # of two categories, the first: who lived
    error = np.sqrt(shown * (1 - shown) / 2000) / (2 * p - 1)
    assert found.ratios == pytest.approx([error / np.sqrt(0.21 / 2000)] * 3, rel=0.06)
    assert found.widths == pytest.approx([1.96 * error] * 3, rel=0.06)
    low, high = (f"{100 * one:.2g}" for one in (min(found.widths), max(found.widths)))
    assert f"(95% intervals of ± {low if low == high else f'{low} to {high}'} points)" in str(found)
    assert found.is_met
    many = simulated(TableSource(table), law(2.0), {Model(("ward", "sex"), "share"): None})
    assert [len(one.widths) for one in many.values()] == [6]


def test_a_mean_of_which_a_group_often_has_no_interval_is_not_met_and_the_group_is_named() -> None:
    wards = np.array(["a"] * 1180 + ["b"] * 800 + ["c"] * 20)
    columns = {"ward": pa.array(wards).dictionary_encode(), "pay": np.random.default_rng(5).normal(3, 1, 2000)}
    drawn = pr.Mechanism({"ward": pr.randomised_response(3, 1.0)}, BOOK)
    model = Model(("pay", "ward"), "mean")
    found = simulated(TableSource(pa.table(columns)), drawn, {model: None})[model]
    errors = [
        estimate.mean(pr.perturb(pa.table(columns), drawn, pr.ReleaseKey.from_seed(seed)), "pay", drawn, "ward")
        for seed in range(10)
    ]
    assert found.fitted == sum(bool(np.isfinite(one.standard_error).all() and one.usable.all()) for one in errors) < 9
    assert not found.is_met
    assert "often without one: c" in str(found)
    (told,) = _named(Estimated(2000, None, [(model, None)], fits={str(model): found}), "means", drawn)
    assert str(told).startswith("mean pay by ward: NOT met (often without an estimate: every group has an interval in ")
    (told,) = _named(Estimated(2000, None, [(Model(("pay", "sex"), "mean"), None)]), "means", drawn)
    assert str(told) == "mean pay by sex: met (none of its variables is perturbed)"
    (told,) = _named(Estimated(2000, None, [(model, None)]), "means", drawn, moved=["pay"])
    assert str(told).startswith("mean pay by ward: NOT met (the values of pay move; ")
    (told,) = _named(Estimated(2000, None, [(model, None)]), "means", drawn, {"pay": "pay is 5% lower"})
    assert str(told).startswith("mean pay by ward: NOT met (pay is 5% lower. Next: ")
    assert not [*_named(Estimated(2000, None, [(model, None)]), "tables", drawn)]


def test_a_group_of_no_answer_is_not_asked() -> None:
    """Twenty of 2,000 records have no answer of the ward: their mean has no interval, and nobody asks for it."""
    wards = np.array(["a"] * 1180 + ["b"] * 800 + ["c"] * 20)
    ward = Variable("ward", "key", ("a", "b", "c"), missing_codes=("c",))
    book = Codebook(tuple(ward if one.name == "ward" else one for one in BOOK.variables))
    columns = {"ward": pa.array(wards).dictionary_encode(), "pay": np.random.default_rng(5).normal(3, 1, 2000)}
    drawn = pr.Mechanism({"ward": pr.randomised_response(3, 1.0)}, book)
    mean, cells = Model(("pay", "ward"), "mean"), Model(("ward",), "table")
    found = simulated(TableSource(pa.table(columns)), drawn, {mean: None, cells: None})
    for one in found.values():
        assert (one.fitted, one.is_met, len(one.ratios)) == (10, True, 2)
        assert "; without groups of no answer" in str(one)


def test_named_means_and_tables_are_read_and_typed_again() -> None:
    texts = (
        "mean pay by sex, ward",
        "means of pay by sex x ward",
        "table died by sex, ward",
        "table died x sex",
        "shares of died by sex x ward",
        "tables",
    )
    asked = needs_from(uses=texts)
    assert asked.uses == ("tables", "means")
    told = ["mean pay by sex, ward"] * 2 + ["table died x sex x ward", "table died x sex", "share died by sex, ward"]
    assert [str(model) for model in asked.models] == told
    again = shlex.split(asked.typed)
    assert needs_from(uses=[again[i + 1] for i, word in enumerate(again) if word == "--use"]).models == asked.models
    with pytest.raises(UsageError, match=r"modelx pay, which the codebook does not have \(did you mean 'model'\?\)"):
        require_known(BOOK, needs_from(uses=["modelx pay ~ sex"]))
    dropped = Codebook(tuple(dataclasses.replace(v, role="drop") if v.name == "ward" else v for v in BOOK.variables))
    with pytest.raises(UsageError, match="in --perturb-also if it is confidential"):
        require_tables(dropped, needs_from(uses=["mean pay by ward"]))
    with pytest.raises(UsageError, match="sex has no numbers"):
        require_tables(BOOK, needs_from(uses=["mean sex by ward"]))
    with pytest.raises(UsageError, match="pay has no categories"):
        require_tables(BOOK, needs_from(uses=["table sex by pay"]))
    with pytest.raises(UsageError, match="pay has no categories"):
        require_tables(BOOK, needs_from(uses=["share pay by sex"]))


def test_little_use_is_not_met_and_what_the_file_itself_refuses_is_left_to_the_other_words():
    assert not Fits(5000, 10, 10, (10.5, 30.0)).is_met
    assert "times those of the file as it is: of little use" in str(Fits(5000, 10, 10, (10.5, 30.0)))
    assert Fits(5000, 10, 9, (1.5, 30.0)).is_met
    assert not Fits(5000, 10, 8, (1.5, 30.0)).is_met
    assert str(Fits(5000, 3, 2, (2.0, 2.0), "why")).endswith("2 times those of the file as it is; else refused: why")
    constant = file(200, 0)  # nobody died
    with pytest.raises(EstimationError):
        estimate.regression("died ~ sex", constant, law(1.0), "logistic")
    assert simulated(TableSource(constant), law(1.0), {Model(("died", "sex")): "logistic"}) == {}
    split = pr.Mechanism([], BOOK, split=Split.of([1.0], [Block(("died",), pr.randomised_response(2, 1.0))]))
    (told,) = _named(Estimated(200, None, [(MODEL, None)]), "models", split)
    assert str(told) == f"{MODEL}: met (fewer than two of its variables are perturbed)"
    (told,) = _named(Estimated(200, None, [(MODEL, TableWorth(("died", "sex"), 150.0, 200))]), "models", split)
    assert "rare categories can still prevent a fit" in str(told)


def test_a_regression_that_no_release_allows_is_not_met_and_of_some_numbers_it_is_said():
    """Randomised response at epsilon 0.05 of 300 persons: every fit is refused, or of little use."""
    table = file(300, 60)
    (found,) = simulated(TableSource(table), law(0.05), {Model(("died", "sex")): "logistic"}).values()
    assert not found.is_met
    refused = dataclasses.replace(found, fitted=0)
    assert not refused.is_met
    base = model_trials._Found(np.ones(2), np.ones(2, dtype=bool), ("Intercept", "sex"), np.ones(2))
    kept = model_trials._fits(300, "model", base, ["no root"] * 10)
    assert (kept.fitted, kept.ratios, kept.terms) == (0, (), ())
    book = dataclasses.replace(BOOK)
    estimated = Estimated(5000, None, [(MODEL, None)], fits={str(MODEL): Fits(5000, 10, 10, (1.5, 20.0, 3.0))})
    (told,) = _named(estimated, "models", pr.Mechanism({"died": pr.randomised_response(2, 1.0)}, book))
    assert str(told).startswith(f"{MODEL}: met for 2 of 3 numbers (fitted in 10 of 10")


def test_the_family_is_that_of_the_response():
    assert [family_of(BOOK, Model((name, "sex"))) for name in ("died", "ward", "pay")] == [
        "logistic", "multinomial", "linear"
    ]  # fmt: skip


def test_advice_tries_each_named_regression_on_each_plan(tmp_path: Path) -> None:
    table = file(1200, 40)
    pq.write_table(rounded(table), tmp_path / "s.parquet")
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
    met = r"(NOT met|met) \((?:[a-z ,]+: )?fitted as a logistic regression in (\d+) of 10"
    rare = re.findall(rf"Asked: model died ~ sex \+ ward: {met}", done.output)
    plans = len(re.findall(r"^Plan \d+: .*\.toml\)$", done.output, re.MULTILINE))
    assert len(rare) == plans >= 2
    assert all((verdict == "met") is (int(fits) >= 9) for verdict, fits in rare)
    assert "Asked: model pay ~ sex: met (fitted as a linear regression in 10 of 10 simulated releases" in done.output
    assert done.output.count("\nMet, of what is asked by name: at least 90% of the simulated releases have an est") == 1
    plain = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "b")])
    assert "Met, of what is asked" not in plain.output


def test_advice_tells_of_each_named_mean_and_table_on_each_plan(tmp_path: Path) -> None:
    pq.write_table(rounded(file(1200, 400)), tmp_path / "s.parquet")
    words = ["advise", str(tmp_path / "s.parquet"), "--keys", "died,sex,ward", "--other", "pay"]
    words += ["--use", "mean pay by sex, ward", "--use", "table sex by ward", "--use", "models"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    plans = len(re.findall(r"^Plan \d+: .*\.toml\)$", done.output, re.MULTILINE))
    told = {
        "mean pay by sex, ward": r"(NOT met|met) \((?:[a-z ,]+: )?every group has an interval in (\d+) of 10",
        "table sex x ward": r"(NOT met|met) \((?:[a-z ,]+: )?every combination has an interval in (\d+) of 10",
        "other tables": "()(NOT met|met) ",
        "other means and totals": r"()(possible) \(",
        "models": "()(NOT met|met) ",
    }
    for what, words_of_it in told.items():
        asked = "Not asked" if what.startswith("other") else "Asked"
        assert len(re.findall(f"  {asked}: {what}: {words_of_it}", done.output)) == plans >= 2, what


def test_a_plan_is_explained_with_what_analysts_name_and_the_page_to_sign_says_what_is_not_met(tmp_path: Path) -> None:
    """What 'explain' says of the plan of 'advise' is what that said, from the same simulated releases."""
    pq.write_table(rounded(file(1200, 40)), tmp_path / "s.parquet")
    words = ["advise", str(tmp_path / "s.parquet"), "--keys", "died,sex,ward", "--other", "pay"]
    uses = ["--use", "model died ~ sex + ward", "--use", "mean pay by sex"]
    advised = CliRunner().invoke(main, [*words, *uses, "--limit", "epsilon <= 3", "--out", str(tmp_path / "a")])
    assert advised.exit_code == 0, advised.output
    asked = re.findall(r"^  Asked: ((?:model died|mean pay).*)$", advised.output, re.MULTILINE)[:2]
    plan, page = str(tmp_path / "a" / "plan-1.toml"), tmp_path / "page.html"
    told = CliRunner().invoke(main, ["explain", plan, "--decision", str(page)])
    assert told.exit_code == 0, told.output
    assert CliRunner().invoke(main, ["explain", plan, *uses]).output == told.output  # the plan keeps them
    for text in asked:
        assert f"\n- {text.removesuffix('.')}.\n" in told.output
    assert "\n- Met, of what is asked by name: " in told.output
    text = html.unescape(page.read_text(encoding="utf-8"))
    for one in asked:
        verdict, _, why = one.partition(" (")
        short = f"{verdict} ({why.partition(':')[0]})." if "NOT met" in verdict else f"{verdict}."
        assert short[0].upper() + short[1:] in text
    more = CliRunner().invoke(main, ["explain", plan, "--use", "table sex by ward"])
    assert "\n- table sex x ward: " in more.output
    assert "\n- model died ~ sex + ward: " in more.output
    wrong = CliRunner().invoke(main, ["explain", plan, "--use", "means"])
    assert wrong.exit_code == 2
    assert "this names no analysis; got means. Next: name a model, mean, share or table" in wrong.output
    unknown = CliRunner().invoke(main, ["explain", plan, "--use", "mean pay by sexx"])
    assert unknown.exit_code == 2
    assert "did you mean 'sex'?" in unknown.output
