"""The factor that clusters have after perturbation: against repeated samples, closed forms, and the worth of tables."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from postrand import Block, Codebook, Mechanism, Split, TransitionMatrix, Variable, estimate
from postrand.cli import main
from postrand.codebook.survey_design import SurveyDesign
from postrand.engines.frame import perturb
from postrand.errors import EstimationError
from postrand.estimate import expected_precision
from postrand.estimate.added_variance import unmixing
from postrand.mechanism.units import Units
from postrand.support.randomness import ReleaseKey
from postrand.workflow.cluster_effects import LEAST_RECORDS, ClusterEffects, Effect, cluster_effects
from tests.fixtures.releases.make import write_villages
from tests.test_split_members import law_of, people

BOOK = Codebook(
    (
        Variable("a", "key", ("0", "1", "2")),
        Variable("b", "key", ("0", "1")),
        Variable("c", "key", ("0", "1")),
        Variable("age", "key", tuple(range(60)), type="int64"),
        Variable("w", "weight", type="double"),
        Variable("g", "drop", type="int64"),
        Variable("gone", "drop", type="double"),
    )
)
Z = 3.72
"""A two-sided level of 2e-4 of a normal deviate, for each factor that is compared."""


def rough(size: int, seed: int, stay: float = 0.6) -> TransitionMatrix:
    """Return a matrix without symmetries, so that what is added depends on the true cell."""
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(stay * np.eye(size) + (1 - stay) * rng.dirichlet(np.ones(size), size))


def drawn(rng: np.random.Generator, clusters: int, size: int = 12) -> pa.Table:
    """Draw clusters of an endless population, alike in a and b, with c close to b, and weights."""
    g = np.repeat(np.arange(clusters), size)
    shift, own = rng.normal(0, 0.7, clusters)[g], rng.normal(0, 0.7, (3, g.size))
    b = (shift + own[1] > 0.4).astype(int)
    return pa.table(
        {
            "a": np.digitize(shift + own[0], [-0.2, 1.1]).astype(str),
            "b": b.astype(str),
            "c": np.where(rng.random(g.size) < 0.8, b, 1 - b).astype(str),
            "age": np.clip(np.round(30 + 8 * (shift + own[2])), 0, 59).astype(int),
            "w": rng.gamma(2.0, 0.5, g.size) + 0.1,
            "g": g,
            "gone": shift,
        }
    )


def split_law() -> Mechanism:
    blocks = [Block(("a", "b"), rough(6, 1)), Block(("a",), rough(3, 2, 0.8)), Block(("b", "c"), rough(4, 3))]
    return Mechanism([], BOOK, split=Split.of([0.4, 0.3, 0.3], blocks))


def after(found: ClusterEffects, name: str, kind: str = "shares") -> float:
    """Return the factor in the release."""
    (value,) = (one.released for one in found.effects if (one.name, one.kind) == (name, kind))
    assert value is not None
    return value


def one_share(found: ClusterEffects, name: str) -> float:
    """Return the largest factor of one share."""
    return float(found.to_dict()["single_shares"][name])


LAWS: dict[str, Callable[[], Mechanism]] = {
    "block": lambda: Mechanism({"a": rough(3, 4), "b": rough(2, 5, 0.5)}, BOOK),
    "joint": lambda: Mechanism([Block(("a", "b"), rough(6, 6, 0.7))], BOOK),
    "split": split_law,
}


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "weights"), [("block", "w"), ("joint", None), ("split", None), ("split", "w")])
def test_the_factor_is_that_of_repeated_samples(law: str, weights: str | None) -> None:
    """Oracle: the variance of corrected shares over replications, over the mean of those stated without clusters.

    Each replication draws clusters and perturbs anew. The mutant is the factor of the file. The factors are those of
    one sample of 6,000 clusters: their own error, about 2%, is counted beside that of 600 replications.
    """
    mechanism, rounds = LAWS[law](), 600
    rng = np.random.default_rng([7, len(law), weights is None])
    found = cluster_effects(drawn(rng, 6_000), "g", weights, codebook=BOOK, mechanism=mechanism)
    design = SurveyDesign(weights=weights, not_released=("psu",))
    values: dict[str, list[Any]] = {"a": [], "b": []}
    stated: dict[str, list[float]] = {"a": [], "b": []}
    for _ in range(rounds):
        released = perturb(drawn(rng, 40), mechanism, ReleaseKey(rng.bytes(32)))
        for name in values:
            table = estimate.table(released, [name], mechanism, design=design)
            values[name].append(table.value)
            stated[name].append(float((table.standard_error**2).sum()))
    for name, each in values.items():
        squares = ((np.array(each) - np.mean(each, axis=0)) ** 2).sum(axis=1) * rounds / (rounds - 1)
        ratio = squares.mean() / np.mean(stated[name])
        error = ratio * math.hypot(squares.std() / squares.mean() / math.sqrt(rounds), 0.02)
        assert abs(ratio - after(found, name)) < Z * error, (name, ratio, after(found, name), error)
        assert found.shares[name] - ratio > Z * error, "the factor of the file is far too large"


@pytest.mark.parametrize("law", ["block", "split"])
def test_the_factor_follows_from_the_worth_of_a_table(law: str) -> None:
    """Oracle: 1 + (factor − 1) n_eff / n, of records of equal weight, n_eff with the file's own frequencies."""
    held, mechanism = drawn(np.random.default_rng(1), 500), LAWS[law]()
    found = cluster_effects(held, "g", codebook=BOOK, mechanism=mechanism)
    for name in ["a", "b"]:
        values = np.array(held[name].to_pylist()).astype(int)
        shares = np.bincount(values) / len(values)
        worth = expected_precision(mechanism, [name], held.num_rows, shares).effective_sample_size
        wanted = 1 + (found.shares[name] - 1) * worth / held.num_rows
        # A subset of a split that depends on other variables is taken under the split's prior by both.
        assert after(found, name) == pytest.approx(wanted, rel=1e-3)


def test_a_mean_and_each_share_have_what_enumeration_gives() -> None:
    """Oracle: contributions of every released value, and both variances by hand, record by record; with weights."""
    mechanism = Mechanism({"age": rough(60, 8, 0.9), "a": rough(3, 4)}, BOOK)
    held = drawn(np.random.default_rng(2), 80)
    found = cluster_effects(held, "g", "w", codebook=BOOK, mechanism=mechanism)
    w, g = np.array(held["w"]), np.array(held["g"])

    def both(name: str, scores: np.ndarray) -> np.ndarray:
        x = np.array(held[name].to_pylist()).astype(int)
        matrix = mechanism[name].matrix.array
        centred = scores - w @ scores[x] / w.sum()
        shown = np.linalg.solve(matrix, centred)
        added = (w**2) @ ((matrix @ shown**2) - (matrix @ shown) ** 2)[x]
        u, sums = w * centred[x], np.bincount(g, w * centred[x])
        many = len(sums) / (len(sums) - 1) * ((sums - sums.mean()) ** 2).sum()
        alone = len(u) / (len(u) - 1) * ((u - u.mean()) ** 2).sum()
        return np.array([many + added, alone + added])

    age = both("age", np.arange(60.0))
    assert age[0] / age[1] > 2
    assert after(found, "age", "mean") == pytest.approx(age[0] / age[1], rel=1e-9)
    counted = both("a", np.arange(3.0))
    assert after(found, "a", "mean") == pytest.approx(counted[0] / counted[1], rel=1e-9)
    each = [both("a", row) for row in np.eye(3)]
    many, alone = np.sum(each, axis=0)
    assert after(found, "a") == pytest.approx(many / alone, rel=1e-9)
    assert one_share(found, "a") == pytest.approx(max(one[0] / one[1] for one in each), rel=1e-9)
    # Not perturbed: as in the file.
    assert after(found, "b") == found.shares["b"]


def test_missing_values_and_categories_that_do_not_occur() -> None:
    """Records without a value are no part of the table; a category that nobody has adds the noise of its share."""
    keep = (Variable("a", "key", ("0", "1", "2", "3"), missing="keep"), Variable("g", "drop", type="int64"))
    book = Codebook(keep)
    held = drawn(np.random.default_rng(3), 60).select(["a", "g"])
    gone = held.set_column(0, "a", pa.array([None if i % 5 == 0 else v for i, v in enumerate(held["a"].to_pylist())]))
    law = Mechanism({"a": rough(4, 9)}, book)
    found = cluster_effects(gone, "g", codebook=book, mechanism=law)
    rest = cluster_effects(gone.filter(pa.array([i % 5 > 0 for i in range(len(gone))])), "g", codebook=book)
    assert found.shares["a"] == pytest.approx(rest.shares["a"], rel=2e-3)  # n / (n − 1) of all records
    assert 1 < after(found, "a") < found.shares["a"]
    read = unmixing(law, "a")
    assert read.places({"a": np.array([3, -1, 0])}).tolist() == [3, -1, 0]


def test_what_one_share_needs_is_told_where_it_is_more_and_never_of_few_records() -> None:
    held = drawn(np.random.default_rng(4), 60)
    found = cluster_effects(held, "g", codebook=BOOK)
    assert one_share(found, "a") > found.shares["a"]
    more = dataclasses.replace(found.effects[0], single=found.stated + 1)
    told = str(dataclasses.replace(found, effects=(more, *found.effects[1:])))
    assert f"One share by itself can need more than all of its variable together: a {found.stated + 1:.1f}." in told
    rare = held.set_column(0, "a", pa.array(["0"] * (held.num_rows - LEAST_RECORDS + 1) + ["1"] * (LEAST_RECORDS - 1)))
    few = cluster_effects(rare, "g", variables=["a"])
    assert one_share(few, "a") == pytest.approx(few.shares["a"])  # of the other share, that all the rest have


def test_a_share_without_variance_hides_no_other() -> None:
    """All of stratum 1 have the value A, and nobody else: its share varies in no sample."""
    rng = np.random.default_rng(3)
    other = rng.random(400) < np.repeat(rng.random(40), 10)
    held = {"place": np.repeat(np.arange(80), 10), "st": np.repeat([1, 2], 400)}
    held["v"] = np.concatenate([np.full(400, "A"), np.where(other, "B", "C")])
    found = cluster_effects(pa.table(held), "place", strata="st")
    assert one_share(found, "v") > 1.5


def test_a_variable_that_does_not_vary_is_left_out() -> None:
    held = {"place": np.repeat(np.arange(20), 5), "v": np.tile(["a", "b", "b", "a", "b"], 20), "w": np.ones(100)}
    held["c"] = np.where(np.arange(100) < 50, "x", "y")
    held["w"] = np.where(held["c"] == "x", 1.0, 0.0)
    found = cluster_effects(pa.table(held), "place", weights="w")
    assert "c" in (*found.left, *found.same)


def test_draws_that_records_share_have_no_factor() -> None:
    """A block of a household, and a subset that one member of each shows: refused by name, and the rest is told."""
    rng = np.random.default_rng(5)
    held = people(300, rng)
    held = held.append_column("g", pa.array(np.array(held["hid"]) // 10))
    members = law_of()
    found = cluster_effects(held, "g", codebook=members.codebook, mechanism=members)
    assert [one.name for one in found.effects if one.released is not None] == ["town", "pay"]
    assert found.unknown == dict.fromkeys(("region", "sex"), "one random member of each household shows it for all")
    assert "region: one random member" in str(found)
    assert found.to_dict()["not_known"] == found.unknown
    with pytest.raises(EstimationError, match=r"in this release is not known.*region: one random member"):
        cluster_effects(held, "g", codebook=members.codebook, mechanism=members, variables=["region"])
    units = Units(household="hid", largest_household=6)
    block = Mechanism([Block(("region",), rough(3, 4), unit="household")], members.codebook, units=units)
    found = cluster_effects(held, "g", codebook=members.codebook, mechanism=block)
    assert found.unknown == {"region": "all records of a household share one draw of its values"}
    assert "region" not in found.to_dict()["single_shares"]
    alike = Mechanism({"region": TransitionMatrix.from_array(np.full((3, 3), 1 / 3))}, members.codebook)
    found = cluster_effects(held, "g", codebook=members.codebook, mechanism=alike)
    assert found.unknown is not None
    assert found.unknown["region"].startswith("no estimate: ")


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def gone(folder: Path, recoded: bool) -> tuple[Path, Path]:
    """Write the villages with a codebook that drops the clusters, or makes areas of them; return it and the plan."""
    write_villages(folder)
    book, plan = folder / "villages.toml", folder / "villages-plan.toml"
    text = book.read_text().replace('psu = "village"', 'not_released = ["psu"]')
    was = 'name = "village"\nrole = "other"\ntype = "int64"'
    made = 'name = "place"\nrole = "other"\ncategories = ["low", "high"]'
    cut = '\n[[recodes]]\nvariable = "place"\nfrom = "village"\nbands = [0, 8]\nlabels = ["low", "high"]\n'
    text = text.replace(was, made) + cut if recoded else text.replace(was, 'name = "village"\nrole = "drop"')
    book.write_text(text)
    plan.write_text(plan.read_text().replace('as_is = ["village", "weight"]', 'as_is = ["weight"]'))
    return book, plan


@pytest.mark.parametrize("recoded", [False, True])
def test_clusters_that_the_codebook_drops_or_recodes_are_read_from_the_file(tmp_path: Path, recoded: bool) -> None:
    """Oracle: the file read by hand; what is dropped never counts, and may not be asked for."""
    book, plan = gone(tmp_path, recoded)
    rows = [line.split(",") for line in (tmp_path / "villages.csv").read_text().splitlines()]
    held = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    frame = pa.table({n: held[n] for n in ("sex", "area", "village")} | {"weight": [*map(float, held["weight"])]})
    wanted = cluster_effects(frame, "village", "weight", "area", variables=["sex"])
    done = call("clusters", tmp_path / "villages.csv", "--psu", "village", "--codebook", book, "--json")
    assert done.exit_code == 0, done.output
    of_file = json.loads(done.stdout)
    assert of_file["shares"]["sex"] == pytest.approx(wanted.shares["sex"])
    assert {*of_file["shares"], *of_file["means"], *of_file["left_out"], *of_file["same_in_clusters"]} == (
        {"sex", "place"} if recoded else {"sex"}
    )
    assert of_file["clusters"] == wanted.clusters
    done = call("clusters", "--plan", plan, "--psu", "village", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["shares"]["sex"] == pytest.approx(wanted.shares["sex"])
    assert abs(found["released"]["shares"]["sex"] - 1) < abs(found["shares"]["sex"] - 1)
    refused = call("clusters", "--plan", plan, "--psu", "village", "--only", "name")
    assert refused.exit_code == 2
    assert "'name' has the role 'drop'" in refused.output
    missing = call("clusters", "--plan", plan, "--psu", "villagee")
    assert missing.exit_code == 4
    assert "no column 'villagee' (did you mean 'village'?)" in missing.output


def test_the_command_says_which_factor_it_states(tmp_path: Path) -> None:
    book, plan = gone(tmp_path, recoded=False)
    told = call("clusters", tmp_path / "villages.csv", "--psu", "village", "--codebook", book).output
    assert "A release of perturbed values needs a smaller one" in told
    told = call("clusters", "--plan", plan, "--psu", "village").output
    assert "--plan gives it" not in told
    assert "in the file and in this release" in told
    assert "a smaller one is enough where analyses do not use that variable" in told
    for words in ([tmp_path / "villages.csv", "--plan", plan], ["--plan", plan, "--codebook", book], []):
        done = call("clusters", *words, "--psu", "village")
        assert done.exit_code == 2
        assert "name either a file, with a codebook if there is one, or a plan" in " ".join(done.output.split())
    assert call("clusters", "--plan", plan, "--psu", "village", "--separator", ";").exit_code == 2


def test_the_largest_of_the_release_is_stated() -> None:
    effects = (Effect("a", "shares", 20.0, 2.11), Effect("b", "shares", 3.0, 3.0), Effect("b", "mean", 30.0, 2.0))
    found = ClusterEffects(SurveyDesign(psu="g"), 9, 99, (*effects, Effect("c", "mean", 99.0)), (), (), 0, {"c": "no"})
    assert found.stated == 3.0
    assert str(found).index("  b ") < str(found).index("  a ") < str(found).index("  c ")
    assert re.search(r"c +mean +99.00 +not known", str(found))
    assert dataclasses.replace(found, unknown=None).stated == 99.0
