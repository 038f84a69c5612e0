"""Clusters that were drawn and are not released: what a codebook says of them, who is told, and what errors count."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import postrand as pr
from postrand import Codebook, Mechanism, TransitionMatrix, Variable, estimate
from postrand.cli import main
from postrand.codebook.survey_design import SurveyDesign, survey_from_dict, survey_to_dict
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.estimate.survey_design import set_aside
from postrand.workflow.cluster_effects import cluster_effects
from postrand.workflow.half_widths import Drawn, drawn_of, half_width
from tests.fixtures.releases.make import write_villages
from tests.r_cases import in_r, run_r

GONE = SurveyDesign(weights="w", not_released=("psu",))
STATED = dataclasses.replace(GONE, cluster_effect=1.96)
LACKING = "Clusters were drawn, and are not released: standard errors are then without clusters, usually too small."
STAY = np.array([[0.85, 0.15], [0.2, 0.8]])
BOOK = Codebook(
    (
        Variable("sex", "key", ("f", "m")),
        Variable("y", "other", type="double"),
        Variable("z", "other", type="double"),
        Variable("w", "weight", type="double"),
        Variable("h", "other", type="int64"),
        Variable("g", "other", type="int64"),
    )
)
LAW = Mechanism({"sex": TransitionMatrix.from_array(STAY)}, BOOK)
TRUE = Mechanism({"sex": TransitionMatrix.identity(2)}, BOOK)


def population(rng: np.random.Generator, clusters: int = 60, size: int = 15, alike: float = 0.4) -> pa.Table:
    """Draw clusters whose members are alike in y and sex, with strata h of two halves and weights w."""
    g = np.repeat(np.arange(clusters), size)
    shift = rng.normal(0, math.sqrt(alike), clusters)[g]
    own = rng.normal(0, math.sqrt(1 - alike), (2, g.size))
    return pa.table(
        {
            "sex": np.where(shift + own[0] > 0.3, "m", "f"),
            "y": 10 + 2 * (shift + own[1]),
            "z": rng.normal(0, 1, g.size),
            "w": rng.uniform(1, 2, g.size),
            "h": (g >= clusters // 2).astype(int),
            "g": g,
        }
    )


def perturbed(held: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Release sex through the matrix."""
    code = (np.array(held["sex"].to_pylist()) == "m").astype(int)
    other = np.where(rng.random(code.size) < 1 - STAY[code, code], 1 - code, code)
    return held.set_column(0, "sex", pa.array(np.array(["f", "m"])[other]))


@pytest.mark.parametrize(("parts", "what"), [
    ({"not_released": ["clusters"]}, "unknown part 'clusters' in not_released.*wanted weights or strata or psu"),
    ({"not_released": "strata", "strata": "h"}, "'strata' is in not_released, and names the column 'h'"),
    ({"cluster_effect": 0.9}, "cluster_effect is not the factor.*got 0.9; wanted a number from 1 to 1,000"),
    ({"cluster_effect": True}, "cluster_effect is not the factor"),
    ({"cluster_effect": math.nan}, "cluster_effect is not the factor"),
    ({"cluster_effect": 2, "psu": "g"}, "cluster_effect stands beside clusters"),
    ({"cluster_effect": 2, "replicates": ["a", "b"], "method": "brr"}, "beside replicate weights"),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        SurveyDesign(**parts)
    with pytest.raises(SpecificationError, match=what):
        survey_from_dict(parts, "codebook [survey]", ["h", "g", "a", "b"])


def test_what_is_stated_is_kept_and_named_by_no_column() -> None:
    told = {"weights": "w", "not_released": ["psu"], "cluster_effect": 1.96}
    assert survey_to_dict(STATED) == told
    assert survey_from_dict(told, "here", ["w"]) == STATED
    assert STATED.columns == ("w",)
    assert SurveyDesign(not_released="psu") == SurveyDesign(not_released=("psu",))


def test_the_sentences_say_what_is_lacking() -> None:
    assert GONE.lacking == (LACKING,)
    assert SurveyDesign(weights="w").lacking == ()
    (told,) = STATED.lacking
    assert "They multiply variances by 1.96, as the office states: " in told
    assert "elsewhere, take standard errors times 1.4." in told
    both = SurveyDesign(not_released=("psu", "strata", "weights")).lacking
    assert [text.split()[0] for text in both] == ["Weights", "Strata", "Clusters"]
    assert "larger than those of the column of psu" in SurveyDesign(psu="g", not_released="psu").lacking[0]


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def flat(path: Path) -> str:
    """Return the text of a page in one line."""
    return " ".join(path.read_text("utf-8").split()).replace("&#39;", "'")


def villages(folder: Path, parts: str) -> Path:
    """Write a plan that drops the clusters, with ``parts`` in their place; return the folder for its release."""
    write_villages(folder)
    book, plan = folder / "villages.toml", folder / "villages-plan.toml"
    gone = book.read_text().replace('psu = "village"', parts)
    book.write_text(gone.replace('name = "village"\nrole = "other"', 'name = "village"\nrole = "drop"'))
    plan.write_text(re.sub(r'"village", ?|, ?"village"', "", plan.read_text()))
    return folder / "out"


@pytest.mark.parametrize("law", [LAW, TRUE])
def test_the_effect_multiplies_every_variance(law: Mechanism) -> None:
    """The same estimates, and 1.4 times the errors: of shares, means, totals and regressions; wider quantiles."""
    rng = np.random.default_rng(2)
    held = perturbed(population(rng), rng)
    for ask in (
        lambda design: estimate.table(held, ["sex"], law, design=design),
        lambda design: estimate.mean(held, "y", law, by="sex", design=design),
        lambda design: estimate.total(held, "y", law, by="sex", design=design),
        lambda design: estimate.regression("y ~ sex", held, law, "linear", design=design),
        lambda design: estimate.regression("sex ~ y", held, law, "logistic", design=design),
    ):
        alone, stated = ask(GONE), ask(STATED)
        np.testing.assert_allclose(stated.value, alone.value, rtol=1e-12)
        np.testing.assert_allclose(stated.standard_error, 1.4 * alone.standard_error, rtol=1e-9)
    assert "clusters were drawn and are not released, so that these errors are usually too small" in str(ask(GONE))
    assert "variances times 1.96 for clusters that are not released" in str(ask(STATED))
    one = estimate.quantile(held, "y", law, design=GONE).interval()
    wide = estimate.quantile(held, "y", law, design=STATED).interval()
    assert float(wide[0]) < float(one[0]) < float(one[1]) < float(wide[1])


def test_a_named_unit_that_is_not_the_largest_says_so() -> None:
    design = SurveyDesign(weights="w", psu="g", not_released=("psu",))
    told = str(estimate.mean(population(np.random.default_rng(1)), "y", LAW, design=design))
    assert "primary sampling units, 59 degrees of freedom; larger clusters were drawn and are not released" in told


def test_a_method_without_a_design_leaves_the_effect_aside() -> None:
    law = Mechanism(LAW.blocks, dataclasses.replace(BOOK, survey=STATED))
    assert "does not use the effect of clusters of" in set_aside(law, "likelihood", "w")
    assert set_aside(law, "likelihood", "w").endswith("standard errors can be too small")


def test_the_effects_are_those_of_the_estimates_of_the_file() -> None:
    """Oracle: variances of estimates of the unperturbed file, with clusters over without."""
    held = population(np.random.default_rng(3))
    found = cluster_effects(held, "g", "w", "h")
    many, alone = SurveyDesign(weights="w", strata="h", psu="g"), SurveyDesign(weights="w", strata="h")

    def ratio(ask: Callable[[SurveyDesign], Any]) -> Any:
        return (ask(many).standard_error / ask(alone).standard_error) ** 2

    share = ratio(lambda design: estimate.table(held, ["sex"], TRUE, design=design))
    assert found.shares == {"sex": pytest.approx(share[0], rel=1e-9)}
    assert found.means["y"] == pytest.approx(float(ratio(lambda d: estimate.mean(held, "y", TRUE, design=d))), rel=1e-9)
    assert found.means["y"] > 3 > 1.5 > found.means["z"]
    assert found.stated == math.ceil(10 * max(found.means["y"], share[0])) / 10
    assert (found.clusters, found.records) == (60, 900)
    assert list(cluster_effects(held, "g", variables=["y"]).means) == ["y"]


def test_members_who_are_all_the_same_count_as_one_each() -> None:
    """Closed form: m records of a cluster with one value multiply the variance by m (n − 1) / (n/m − 1) (n/m) / n."""
    rng = np.random.default_rng(4)
    value = np.repeat(rng.integers(0, 2, 50), 8)
    value[0] = 1 - value[0]  # else it is the same in each cluster, and left apart
    held = pa.table({"likes": value.astype(str), "g": np.repeat(np.arange(50), 8), "same": np.repeat(np.arange(50), 8)})
    found = cluster_effects(held, "g")
    assert found.same == ("same",)
    sums = (value - value.mean()).reshape(50, 8).sum(axis=1)
    clusters, alone = 50 / 49 * (sums**2).sum(), 400 / 399 * ((value - value.mean()) ** 2).sum()
    assert found.shares["likes"] == pytest.approx(clusters / alone)
    assert 7 < found.shares["likes"] < 8.2


def test_awkward_columns_are_left_out_or_refused() -> None:
    held = population(np.random.default_rng(5)).to_pydict()
    held |= {"id": list(range(900)), "text": [f"t{i % 70}" for i in range(900)], "all": ["a"] * 900}
    held["y"][:30] = [None] * 30
    found = cluster_effects(pa.table(held), "g", "w", "h")
    assert found.left == ("id", "text", "all")
    assert found.means["y"] > 2
    with pytest.raises(UsageError, match="no variable is left beside the clusters"):
        cluster_effects(pa.table(held), "g", variables=["g"])
    with pytest.raises(DataError, match="no column 'gg'"):
        cluster_effects(pa.table(held), "gg")
    lone = cluster_effects(pa.table(held | {"h": [int(i < 15) for i in range(900)]}), "g", "w", "h")
    assert lone.lonely == 1
    assert "1 stratum has one cluster" in str(lone)


def test_the_command_measures_and_says_what_to_state(tmp_path: Path) -> None:
    held = population(np.random.default_rng(6))
    pyarrow.parquet.write_table(held, tmp_path / "s.parquet")

    def ask(*words: str) -> Result:
        return call("clusters", tmp_path / "s.parquet", *words)

    done = ask("--psu", "g", "--weight", "w", "--strata", "h")
    assert done.exit_code == 0, done.output
    told = json.loads(ask("--psu", "g", "--weight", "w", "--strata", "h", "--json").stdout)
    assert told["cluster_effect"] == cluster_effects(held, "g", "w", "h").stated
    assert f"cluster_effect = {told['cluster_effect']:g}" in done.output
    assert done.output.index("y  ") < done.output.index("z  ")
    assert list(json.loads(ask("--psu", "g", "--only", "sex", "--json").stdout)["shares"]) == ["sex"]  # no numbers
    assert ask("--psu", "q").exit_code == 4
    assert ask().exit_code == 2


def test_precision_counts_a_stated_effect_and_says_what_is_not_counted() -> None:
    held = population(np.random.default_rng(7))
    one = drawn_of(dataclasses.replace(BOOK, survey=GONE), held)
    assert one.not_counted == "clusters that are not released not counted"
    assert "Clusters were drawn, and are not released" in one.sentences[-1]
    other = drawn_of(dataclasses.replace(BOOK, survey=STATED), held)
    assert other.not_counted == ""
    assert other.sentences[-1] == "Clusters that are not released multiply variances by 1.96: this is counted."
    from postrand.workflow.advice_needs import Precision

    wanted = Precision(2.0, ("sex",))
    plain = half_width(LAW, wanted, 900, Drawn())
    wide = half_width(LAW, wanted, 900, Drawn(by_clusters=1.96))
    assert plain is not None
    assert wide is not None
    assert wide.most == pytest.approx(1.4 * plain.most)


@pytest.mark.parametrize(("parts", "said"), [
    ('not_released = ["psu"]', LACKING),
    ('not_released = ["psu"]\ncluster_effect = 1.96', "They multiply variances by 1.96, as the office states: "),
])  # fmt: skip
def test_every_document_of_a_release_says_what_it_lacks(tmp_path: Path, parts: str, said: str) -> None:
    out, plan = villages(tmp_path, parts), tmp_path / "villages-plan.toml"
    done = call("protect", "--plan", plan, "--out", out, "--dossier", tmp_path / "internal")
    assert done.exit_code == 0, done.output
    assert said in flat(out / "README.txt")
    assert said in flat(out / "report.html")
    assert any(said in flat(path) for path in (tmp_path / "internal").rglob("*.html"))
    told = call("explain", plan)
    assert said in " ".join(told.output.split()), told.output
    assert pr.verify(out).verdict == "verified"
    found = json.loads(call("estimate", out, "--table", "sex", "--json").stdout)
    release = pr.read_release(out)
    plain = estimate.table(release.frame(), ["sex"], release.mechanism, weights="weight", strata="area")
    factor = 1.4 if "cluster_effect" in parts else 1.0
    np.testing.assert_allclose(found["standard_error"], factor * plain.standard_error, rtol=0.02)
    assert ("variances times 1.96" in found["includes"]) == (factor > 1)
    done = call("complete", out, "--out", tmp_path / "copies", "--copies", 2, "--seed", 1)
    assert done.exit_code in (0, 10), done.output
    assert said in flat(tmp_path / "copies" / "README.txt")


@pytest.mark.r
def test_the_r_package_counts_a_stated_effect(tmp_path: Path) -> None:
    """Oracle: the errors of Python; without what is recorded they are smaller by the root of the effect."""
    out = villages(tmp_path, 'not_released = ["psu"]\ncluster_effect = 1.96')
    done = call("protect", "--plan", tmp_path / "villages-plan.toml", "--out", out)
    assert done.exit_code == 0, done.output
    script = f"""
        release <- read_release({in_r(out.as_posix())})
        told <- list(release_table(release, "sex")$table$standard_error,
                     release_lm(weight ~ sex, release)$table$standard_error)
        writeLines(jsonlite::toJSON(told, digits = NA), "told.json")
    """
    run_r(tmp_path, script)
    table, model = json.loads((tmp_path / "told.json").read_text("utf-8"))
    release = pr.read_release(out)
    design = release.mechanism.require_codebook().survey
    wanted = estimate.table(release.frame(), ["sex"], release.mechanism, design=design)
    np.testing.assert_allclose(table, wanted.standard_error, rtol=1e-6)
    fit = estimate.regression("weight ~ sex", release.frame(), release.mechanism, "linear", design=design)
    np.testing.assert_allclose(model, fit.standard_error, rtol=1e-6)


@pytest.mark.statistical
def test_intervals_with_the_stated_effect_cover() -> None:
    """Populations drawn anew: with the effect 95% or more, without it clearly fewer; pooled, with the error of 300.

    The mutant is the same release with no effect stated.
    """
    rounds, hits = 300, {"stated": np.zeros(2), "none": np.zeros(2)}
    rng = np.random.default_rng(8)
    large = population(rng, clusters=20_000)
    share = float(np.mean(np.array(large["sex"].to_pylist()) == "m"))
    for _ in range(rounds):
        held = population(rng)
        effect = cluster_effects(held, "g", "w", variables=["y", "sex"]).stated
        released = perturbed(held, rng)
        for name, design in (("stated", dataclasses.replace(GONE, cluster_effect=effect)), ("none", GONE)):
            low, high = estimate.table(released, ["sex"], LAW, design=design).interval()
            hits[name][0] += low[1] <= share <= high[1]
            low, high = estimate.mean(released, "y", LAW, design=design).interval()
            hits[name][1] += float(low) <= 10 <= float(high)
    error = math.sqrt(0.95 * 0.05 / rounds)
    assert (hits["stated"] / rounds >= 0.95 - 3 * error).all()
    assert (hits["none"] / rounds < 0.9).all()
