"""The figures of a plan: claims, risk before and after, and the worth of tables, against brute force and simulation."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.plan import load_plan
from postrand.report.table_worth import TableWorth, little_use, pairs_of, worth_line
from postrand.workflow.draft import initialise
from postrand.workflow.explanation import explain
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import figures_of

N = 600
ROLES = {"key": ["sex", "age", "area"], "sensitive": ["health"], "weight": ["w"], "household": ["h"], "drop": ["note"]}


def records() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
        "age": np.array([f"a{k}" for k in range(6)])[rng.integers(0, 6, N)],
        "area": np.array(["n", "s", "w"])[rng.choice(3, N, p=[0.7, 0.25, 0.05])],
        "health": np.array(["good", "fair", "bad"])[rng.integers(0, 3, N)],
        "w": np.full(N, 20.0),
        "h": np.arange(N) // 3,
        "note": np.array(["x", "y"])[rng.integers(0, 2, N)],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("figures")
    pq.write_table(pa.table({name: pa.array(column) for name, column in records().items()}), found / "people.parquet")
    initialise(found / "people.parquet", found / "blocks", ROLES)
    text = (found / "blocks" / "plan.toml").read_text()
    head = text.partition("[[blocks]]")[0].replace("epsilon = 3.0", "epsilon = 8.0")
    (found / "blocks" / "joint.toml").write_text(head + '[[blocks]]\nvariables = ["sex", "age", "area"]\n')
    (found / "blocks" / "split.toml").write_text(head + '[split]\nvariables = ["sex", "age", "area"]\n')
    return found


@pytest.fixture(scope="module")
def figures(folder):
    return {n: figures_of(load_plan(folder / "blocks" / f"{n}.toml"), name=n) for n in ("plan", "joint", "split")}


def test_the_risk_before_is_that_of_the_file(figures):
    data = records()
    cells = Counter(zip(data["sex"], data["age"], data["area"], strict=True))
    sizes = np.array([cells[cell] for cell in zip(data["sex"], data["age"], data["area"], strict=True)])
    for found in figures.values():
        assert found.records == N
        before = {one.code: one.before for one in found.risks}
        assert before["k"] == sizes.min()
        assert before["below_3"] == pytest.approx((sizes < 3).mean())
        assert before["correct_matches"] == pytest.approx((1 / sizes).sum())
        assert before["individual_risk_above"] == pytest.approx((1 / sizes > 0.2).mean())
        assert found.risk("individual_risk_above").measure == "Risk of a person, informed attacker: share above 20%"
        by_house = 1 - np.prod(1 - (1 / sizes).reshape(-1, 3), axis=1)
        assert before["household_risk"] == pytest.approx(by_house.mean())
        means = [f"{who}{code}" for who in ("", "register_") for code in ("household_risk", "joint_household_risk")]
        assert {one.code: one.households for one in found.risks if one.households} == dict.fromkeys(
            means, len(by_house)
        )


def test_every_measure_is_known_on_both_sides(figures):
    for found in figures.values():
        assert all(one.before is not None and one.after is not None for one in found.risks), found
        after = found.risk("correct_matches")
        assert after.after < after.before
    codes = [[one.code for one in found.risks] for found in figures.values()]
    assert codes[0] == codes[1] == codes[2]


def test_the_worth_of_tables_is_the_ratio_of_simulated_variances(folder, figures):
    data, rng = records(), np.random.default_rng(8)
    plan = load_plan(folder / "blocks" / "plan.toml")
    book = plan.codebook
    codes = {n: np.searchsorted(book[n].categories, data[n]) for n in ("sex", "age")}
    size = book["sex"].size, book["age"].size
    share = np.bincount(codes["sex"] * size[1] + codes["age"], minlength=size[0] * size[1]).reshape(size) / N
    keep = {n: np.exp(1) / (np.exp(1) + s - 1) for n, s in zip(("sex", "age"), size, strict=True)}
    law = {n: np.full((s, s), (1 - keep[n]) / (s - 1)) for n, s in zip(("sex", "age"), size, strict=True)}
    for n in law:
        np.fill_diagonal(law[n], keep[n])
    inverse = [np.linalg.inv(law[n].T) for n in ("sex", "age")]
    released = law["sex"].T @ share @ law["age"]
    counts = rng.multinomial(N, released.ravel(), size=4000).reshape(-1, *size) / N
    estimates = np.einsum("ij,kjl,ml->kim", inverse[0], counts, inverse[1])
    variance = estimates.var(axis=0).sum()
    plain = (1 - (share**2).sum()) / N
    [found] = [t for t in figures["plan"].two_way if t.variables == ("sex", "age")]
    assert found.effective_records == pytest.approx(N * plain / variance, rel=0.1, abs=1.1)
    assert [t.variables for t in figures["plan"].two_way] == [("sex", "age"), ("sex", "area"), ("age", "area")]


def test_a_joint_block_is_worth_more_for_tables_of_two(figures):
    worth = {n: sum(t.effective_records for t in f.two_way) for n, f in figures.items()}
    assert worth["joint"] > worth["plan"]


def test_the_figures_read_the_file_once(folder, monkeypatch):
    plan = load_plan(folder / "blocks" / "plan.toml")
    known = Known.of(plan, dossier=True)
    monkeypatch.setattr(type(known.engine), "count_all", None)
    assert figures_of(plan, known).records == N


def test_figures_say_that_they_are_internal_and_are_plain_data(figures):
    for found in figures.values():
        data = json.loads(found.to_json())
        assert data["notice"].startswith("INTERNAL")
        assert "INTERNAL" in str(found)
        assert len(data["risk"]) == len(found.risks)
        assert data["worth"]["two_way"]["least"] <= data["worth"]["two_way"]["harmonic_mean"]
    assert len(repr(figures["plan"])) < 200
    assert figures["plan"].unperturbed == ("health", "w")
    assert dict(figures["plan"].settings)["not released"] == "note"


def test_the_same_plan_has_the_same_figures(folder, figures):
    assert figures_of(load_plan(folder / "blocks" / "plan.toml"), name="plan").to_dict() == figures["plan"].to_dict()


def test_a_file_without_keys_has_no_risk_figures(tmp_path):
    pq.write_table(pa.table({"health": pa.array(["good", "bad"] * 20)}), tmp_path / "a.parquet")
    _, plan = initialise(tmp_path / "a.parquet", tmp_path / "work", {"sensitive": ["health"]})
    head = plan.read_text().replace("blocks = []", "")
    plan.write_text(head + '\n[[blocks]]\nvariables = ["health"]\n')
    found = figures_of(load_plan(plan))
    assert found.risk("correct_matches").why
    assert found.risk("tau2") is None


def test_a_useless_table_is_said_to_be_one():
    tables = [TableWorth(("a",), 3.0, 1000), TableWorth(("b",), 500.0, 1000), TableWorth(("c",), None, 1000, "why")]
    [line] = worth_line("tables of one variable", tables)
    assert line.endswith("; 1 of these 2 of little use (less than 100 records, or less than 1% of the file)")
    assert "worth 6 unperturbed records on average (harmonic mean), the least useful 3, " in line  # 2 / (1/3 + 1/500)
    assert not little_use(50, 50)
    assert little_use(49, 50)
    assert list(worth_line("none", [])) == []


def test_a_board_reads_why_tables_of_little_use_are_counted_twice(folder, figures):
    plan, made = load_plan(folder / "blocks" / "plan.toml"), figures["plan"]
    both = "Of 2 tables of two perturbed variables, 2 are of little use with this file's own frequencies, and 1 if"
    pairs = tuple(TableWorth(pair, worth, N) for pair, worth in ((("sex", "age"), 500.0), (("sex", "area"), 3.0)))
    for worth, said in ((3.0, True), (300.0, False)):
        own = tuple(
            dataclasses.replace(one, effective_records=min(worth, one.effective_records or 0.0)) for one in pairs
        )
        text = str(explain(plan, dataclasses.replace(made, two_way=pairs, own=own)))
        assert (both in " ".join(text.split())) == said
        assert text.index("With this file's own frequencies the least") < text.index("A table of two perturbed")


def test_large_tables_are_not_paired(folder):
    book = load_plan(folder / "blocks" / "plan.toml").codebook
    assert len(pairs_of(book.names[:3], book)) == 3


def test_tables_with_an_unperturbed_variable_are_worth_less_than_the_variable_alone(folder, figures):
    crossed = [one.variables for one in figures["plan"].crossed]
    assert set(crossed) == {(name, "health") for name in ("sex", "age", "area")}
    assert {one.basis for one in figures["plan"].tables} == {"equal"}
    found = {one.variables: one.effective_records for one in figures["plan"].own}  # with the file's own frequencies
    book = load_plan(folder / "blocks" / "plan.toml").codebook
    for name, size in (("sex", 2), ("age", 6)):
        data = records()
        keep = np.exp(1) / (np.exp(1) + size - 1)
        law = np.full((size, size), (1 - keep) / (size - 1))
        np.fill_diagonal(law, keep)
        codes = np.searchsorted(book[name].categories, data[name])
        shares = (
            np.array([np.bincount(codes[data["health"] == h], minlength=size) for h in np.unique(data["health"])]) / N
        )
        inverse = np.linalg.inv(law.T)
        variance = ((shares @ law) @ (inverse**2).T).sum() - (shares**2).sum()
        ratio = (1 - (shares**2).sum()) / variance
        assert found[(name, "health")] == pytest.approx(N * ratio, rel=1e-6)  # an unbiased sample variance has n - 1
    assert json.loads(figures["plan"].to_json())["worth"]["crossed"]["tables"]
