"""Suppression and microaggregation: the fewest and the least against all answers, and claims from the file alone."""

import collections
import dataclasses
import functools
import itertools
import json
import re
import shutil
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyreadstat
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

import postrand as pr
from postrand.alternatives import partition, patterns
from postrand.alternatives.claims import Claims, codes_of, key_codes
from postrand.alternatives.fewest import fewest, greedy
from postrand.alternatives.partition import mdav_groups, means_of, optimal_groups
from postrand.alternatives.patterns import choices_of
from postrand.cli import main
from postrand.cli.frame import _tell_warnings
from postrand.codebook import Codebook, Variable
from postrand.data.frames import to_arrow
from postrand.errors import DataError, PrivacyError, ReleaseError, UsageError
from postrand.formats.csv import FormulaWarning
from postrand.plan.infer import load_codebook
from postrand.risk.finding import Finding
from postrand.risk.findings import Findings, _together
from postrand.risk.reveals import UnperturbedWarning
from postrand.support.measure_names import KEYS_ALONE
from postrand.support.progress import Stage, listening
from postrand.workflow.alternative_files import microaggregate_file, suppress_file
from postrand.workflow.leaving import of_averaged, of_suppressed


def people(n, seed, sizes=(2, 3, 2), values=3):
    rng = np.random.default_rng(seed)
    columns = {f"v{j}": pa.array([f"c{x}" for x in rng.integers(0, size, n)]) for j, size in enumerate(sizes)}
    return pa.table({**columns, "s": pa.array([f"s{x}" for x in rng.integers(0, values, n)])})


def is_anonymous(rows, values, k, diversity):
    """Whether records that show the same are at least k, with values enough: by counting."""
    held = collections.defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        held[row].append(value)
    return all(len(own) >= k and len(set(own) - {None}) >= diversity for own in held.values())


def fewest_by_trying(table, keys, k, diversity):
    """The least number of suppressed values: every choice of every record is tried."""
    rows = list(zip(*(table[name].to_pylist() for name in keys), strict=True))
    values = table["s"].to_pylist()
    masks = list(itertools.product([False, True], repeat=len(keys)))
    best = None
    for chosen in itertools.product(masks, repeat=len(rows)):
        cost = sum(map(sum, chosen))
        if best is not None and cost >= best:
            continue
        shown = [
            tuple(None if m else v for m, v in zip(mask, row, strict=True))
            for mask, row in zip(chosen, rows, strict=True)
        ]
        if is_anonymous(shown, values, k, diversity):
            best = cost
    return best


@pytest.mark.parametrize(("n", "keys", "k", "diversity", "seed"), [(6, 2, 2, 1, 0), (7, 2, 3, 1, 1), (6, 2, 2, 2, 2)])
def test_as_few_values_are_suppressed_as_trying_all_finds(n, keys, k, diversity, seed):
    table = people(n, seed, (3, 3))
    names = [f"v{j}" for j in range(keys)]
    made = pr.suppress(table, names, k, **({"sensitive": "s", "diversity": diversity} if diversity > 1 else {}))
    gone = sum(made.frame[name].null_count for name in names)
    assert gone == fewest_by_trying(table, names, k, diversity)
    assert made.claims.is_optimal
    rows = list(zip(*(made.frame[name].to_pylist() for name in names), strict=True))
    assert is_anonymous(rows, table["s"].to_pylist(), k, diversity)


@pytest.mark.parametrize("diversity", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_programme_is_between_its_bound_and_the_greedy_answer(seed, diversity):
    table = people(60, seed, (3, 4, 2, 3), values=2)
    names = ["v0", "v1", "v2", "v3"]
    codes = key_codes({name: codes_of(table.column(name)) for name in names})
    values = np.asarray(codes_of(table.column("s"))[0])
    choices = choices_of(codes, values if diversity > 1 else np.zeros_like(values), 3, diversity)
    small = fewest(choices, seconds=10.0, most_exact=0)
    start = int(greedy(choices) @ choices.cost)
    assert small.at_least <= small.suppressed <= start
    shown = np.bincount(choices.group, weights=small.records, minlength=choices.groups) > 0
    assert choices.holds(small.records)[shown].all()
    assert np.array_equal(np.bincount(choices.kind, weights=small.records), choices.counts)


def test_the_proven_bound_is_said_and_rounded_down():
    held = pr.suppress(people(40, 1, (5, 7)), ["v0", "v1"], 5).claims
    assert held.suppressed > 0.0003
    said = dataclasses.replace(held, at_least=0.00027899).losses[0]
    assert "no smaller share than 0.0278% can reach these claims" in said
    assert "; fewer are not enough for these claims (proven)." in held.losses[0]


def test_nothing_is_suppressed_where_the_claim_holds_already():
    table = pa.table({"a": ["x"] * 3 + ["y"] * 4, "b": [1] * 7})
    made = pr.suppress(table, ["a", "b"], 3)
    assert made.frame.equals(table)
    assert made.claims.suppressed == 0
    assert made.claims.is_optimal


def test_missing_values_of_the_file_are_a_value():
    table = pa.table({"a": ["x", "x", None, None, "y"], "b": ["1"] * 5})
    made = pr.suppress(table, ["a", "b"], 2)
    assert made.frame["a"].to_pylist() == ["x", "x", None, None, None]
    assert made.claims.lost == {"a": 0.2, "b": 0.0}


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("diversity", [1, 2])
@pytest.mark.parametrize("seed", [4, 6, 28, 33])
def test_every_record_has_a_class_where_key_values_are_missing(seed, diversity, k):
    rng = np.random.default_rng(seed)
    columns = {
        f"v{j}": pa.array([None if gone else f"c{x}" for x, gone in zip(rng.integers(0, 3, 40), is_gone, strict=True)])
        for j, is_gone in enumerate(rng.random((3, 40)) < 0.1)
    }
    table = pa.table({**columns, "s": pa.array(np.where(rng.random(40) < 0.15, "yes", "no"))})
    names = list(columns)
    codes = key_codes({name: codes_of(table.column(name)) for name in names})
    values = np.asarray(codes_of(table.column("s"))[0]) if diversity > 1 else np.zeros(40, dtype=np.int64)
    choices = choices_of(codes, values, k, diversity)
    start = np.bincount(choices.kind, weights=greedy(choices), minlength=choices.counts.size)
    assert np.array_equal(start, choices.counts)
    made = pr.suppress(table, names, k, seconds=0.5, **({"sensitive": "s"} if diversity > 1 else {}))
    shown = list(zip(*(made.frame[name].to_pylist() for name in names), strict=True))
    assert is_anonymous(shown, table["s"].to_pylist(), k, diversity)


@pytest.mark.parametrize("most", [1, 40, 200])
def test_every_record_has_a_class_where_not_all_choices_are_looked_at(most, monkeypatch):
    """Records with missing values could lose all others, but that choice was none of the first ones."""
    rng = np.random.default_rng(3)
    missing = rng.random((3, 40)) < 0.2
    columns = {
        f"v{j}": pa.array([None if gone else f"c{x}" for x, gone in zip(rng.integers(0, 4, 40), own, strict=True)])
        for j, own in enumerate(missing)
    }
    monkeypatch.setattr(patterns, "MOST_CHOICES", most)
    made = pr.suppress(pa.table(columns), list(columns), 3, seconds=0.5)
    shown = list(zip(*(made.frame[name].to_pylist() for name in columns), strict=True))
    assert is_anonymous(shown, [None] * 40, 3, 0)


def test_a_missing_sensitive_value_is_none_of_the_values():
    table = pa.table({"a": ["x", "x", "y", "y"], "s": ["1", None, "1", "2"]})
    made = pr.suppress(table, ["a"], 2, sensitive="s")
    assert made.frame["a"].null_count == 4
    with pytest.raises(PrivacyError, match="too few values of 's'"):
        made.claims.check(table)


@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.to_pandas(), pl.from_arrow], ids=["arrow", "pandas", "polars"]
)
def test_the_same_kind_of_frame_comes_back(make):
    area = pa.array(["a"] * 6).dictionary_encode()
    table = pa.table({"sex": [1, 1, 1, 1, 2, 3], "area": area, "pay": [1.0, 1.0, 2.5, 6.0, 6.0, 7.5]})
    frame = make(table)
    made = pr.suppress(frame, ["sex", "area"], 2)
    assert type(made.frame) is type(frame)
    back = to_arrow(made.frame)
    assert back["sex"].to_pylist() == [1, 1, 1, 1, None, None]
    assert back["area"].to_pylist() == ["a"] * 6
    grouped = pr.microaggregate(frame, ["pay"], 3)
    assert type(grouped.frame) is type(frame)
    assert to_arrow(grouped.frame)["pay"].to_pylist() == [1.5, 1.5, 1.5, 6.5, 6.5, 6.5]


def least_change(values, k):
    """The least squared change of all partitions into runs of at least k sorted values."""
    ordered = sorted(values)

    @functools.cache
    def best(start):
        if start == len(ordered):
            return 0.0
        found = [np.inf]
        for end in range(start + k, len(ordered) + 1):
            run = np.array(ordered[start:end])
            found.append(((run - run.mean()) ** 2).sum() + best(end))
        return min(found)

    return best(0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 3, 4])
def test_groups_of_one_column_change_least(seed, k):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 12, 13).astype(float) if seed % 2 else rng.lognormal(size=13) * 1e6 + 1e9
    groups = optimal_groups(values, k)
    change = ((means_of(values, groups) - values) ** 2).sum()
    assert np.bincount(groups).min() >= k
    assert change == pytest.approx(least_change(values, k), rel=1e-6)


def least_of_households(values, homes, k):
    """The least squared change of all runs of sorted values with k households each: every cut is tried."""
    order = np.lexsort((homes, values))
    x, home = values[order], homes[order]

    @functools.cache
    def best(start):
        ends = [end for end in range(start + 1, x.size + 1) if np.unique(home[start:end]).size >= k]
        if start == x.size:
            return 0.0
        return min((x[start:e].var() * (e - start) + best(e) for e in ends), default=np.inf)

    return best(0)


def check_households(values, homes, k):
    groups = optimal_groups(values, k, homes)
    assert min(np.unique(homes[groups == one]).size for one in range(groups.max() + 1)) >= k
    change = ((means_of(values, groups) - values) ** 2).sum()
    assert change == pytest.approx(least_of_households(values, homes, k), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [2, 3])
def test_groups_of_households_change_least_of_all_runs_with_k_of_them(seed, k):
    rng = np.random.default_rng(seed)
    homes = np.sort(rng.integers(0, 6, 12))
    values = np.round(rng.lognormal(size=12) * 10) if seed % 2 else rng.lognormal(size=6)[homes]
    check_households(values, homes, k)


PERSONS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 5)), min_size=2, max_size=7)


@given(PERSONS, st.integers(2, 3), st.sampled_from([(4096, 1 << 20), (2, 3), (5, 16)]))
def test_equal_values_of_a_household_change_least_too(persons, k, sizes):
    """Each entry is a value, a household, and how often it has that value: runs inside equal values are tried too."""
    values = np.repeat([float(value) for value, _, _ in persons], [times for *_, times in persons])
    homes = np.repeat([home for _, home, _ in persons], [times for *_, times in persons])
    assume(np.unique(homes).size >= k)
    with pytest.MonkeyPatch.context() as patch:  # so that few starts at a time are looked at
        patch.setattr(partition, "_BLOCK", sizes[0])
        patch.setattr(partition, "_ROOM", sizes[1])
        check_households(values, homes, k)
        plain = optimal_groups(values, k)
    assert ((means_of(values, plain) - values) ** 2).sum() == pytest.approx(least_change(values, k), abs=1e-9)


def test_many_equal_values_of_one_household_are_three_to_cut_between():
    homes, values = np.repeat(np.arange(4), [1, 500, 1, 1]), np.repeat([0.0, 5.0, 6.0], [501, 1, 1])
    assert partition._begins(values, homes).tolist() == [0, 1, 2, 500, 501, 502]
    check_households(values, homes, 2)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.filterwarnings("error")
def test_a_value_that_a_household_shares_is_averaged_with_those_of_others(together, tmp_path):
    rng = np.random.default_rng(7)
    homes = np.repeat(np.arange(60), rng.integers(1, 6, 60))
    income = rng.lognormal(10, 1, 60).round(2)[homes]
    table = pa.table({"home": homes, "income": income, "age": rng.integers(0, 90, homes.size).astype(float)})
    columns = ["income", "age"] if together else ["income"]
    with pytest.warns(UnperturbedWarning, match="exactly: income in .* of its values"):
        alone = pr.microaggregate(table, ["income"], 3)
    assert np.mean(np.asarray(alone.frame["income"]) == income) > 0.5  # a household of three is a group of its own
    made = pr.microaggregate(table, columns, 3, household="home", together=together)
    assert made.claims.exact is not None
    assert made.claims.exact["income"] == 0.0
    classes = made.frame.group_by(columns).aggregate([("home", "count_distinct")])
    assert min(classes["home_count_distinct"].to_pylist()) >= 3
    assert "3 households or persons (by home)" in made.claims.holds[0]
    claims = Claims.from_dict(json.loads(json.dumps(made.claims.to_dict())))
    claims.check(made.frame)
    claims.check(made.frame.drop_columns(["home"]))  # who has no numbers counts records
    with pytest.raises(PrivacyError, match="too few households"):
        dataclasses.replace(made.claims, classes=(("income",),)).check(alone.frame)
    pa.parquet.write_table(table, tmp_path / "homes.parquet")
    asked = ["microaggregate", str(tmp_path / "homes.parquet"), "--columns", ",".join(columns), "--household", "home"]
    asked += ["--drop", "home", "--out", str(tmp_path / "out"), *(["--together"] if together else ["--as-is", "age"])]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 0, told.output
    assert "of at least 3 households" in told.output
    assert "home" not in pa.parquet.read_table(tmp_path / "out" / "data.parquet").column_names
    assert CliRunner().invoke(main, ["recheck", str(tmp_path / "out")]).exit_code == 0


def test_the_household_of_a_codebook_counts_and_one_without_a_number_is_refused():
    table = pa.table({"home": [1, 1, 1, 2, 2, 3], "pay": [5.0, 5.0, 5.0, 6.0, 6.0, 9.0]})
    book = Codebook((Variable("home", "household", type="int64"),))
    assert pr.microaggregate(table, ["pay"], 2, codebook=book).frame["pay"].to_pylist() == [5.25] * 4 + [7.5] * 2
    with pytest.raises(DataError, match="fewer households or persons than k"):
        pr.microaggregate(table, ["pay"], 4, household="home")
    with pytest.raises(DataError, match="no number of its household or person"):
        pr.microaggregate(pa.table({"home": [1, None], "pay": [1.0, 2.0]}), ["pay"], 2, household="home")
    with pytest.raises(UsageError, match="number of the household is one of the columns"):
        pr.microaggregate(table, ["pay", "home"], 2, household="home")


@pytest.mark.parametrize("role", ["drop", "record_key", "household"])
def test_a_household_number_that_is_not_released_is_counted_by(role, tmp_path):
    homes, rng = np.repeat(np.arange(40), 2), np.random.default_rng(2)
    pay = rng.permutation(40)[homes] + rng.random(80).round(2)
    table = pa.table({"home": homes, "pay": pay})
    book = Codebook((Variable("home", role, type="int64"), Variable("pay", "other", type="float64")))
    made = pr.microaggregate(table, ["pay"], 2, household="home", codebook=book)
    wanted = pr.microaggregate(table, ["pay"], 2, household="home")
    assert made.frame["pay"].equals(wanted.frame["pay"])
    assert made.claims == wanted.claims
    assert made.frame.column_names == (["home", "pay"] if role == "household" else ["pay"])
    assert type(pr.microaggregate(table.to_pandas(), ["pay"], 2, household="home", codebook=book).frame) is pd.DataFrame
    pa.parquet.write_table(table, tmp_path / "homes.parquet")
    entry = '[[variables]]\nname = "{}"\nrole = "{}"\ntype = "{}"\n'
    (tmp_path / "codebook.toml").write_text(
        entry.format("home", role, "int64") + entry.format("pay", "other", "double")
    )
    asked = ["microaggregate", str(tmp_path / "homes.parquet"), "--columns", "pay", "--k", "2", "--household", "home"]
    asked += ["--codebook", str(tmp_path / "codebook.toml"), "--out", str(tmp_path / "out")]
    for drop in (["--drop", "home"], *([[]] if role != "household" else [])):
        told = CliRunner().invoke(main, [*asked, *drop])
        assert told.exit_code == 0, told.output
        held = pa.parquet.read_table(tmp_path / "out" / "data.parquet")
        assert held.column_names == ["pay"]
        np.testing.assert_allclose(sorted(held["pay"].to_pylist()), sorted(made.frame["pay"].to_pylist()), atol=1e-4)
        assert pr.recheck(tmp_path / "out").household == "home"
        shutil.rmtree(tmp_path / "out")


def test_a_file_with_lists_beside_its_columns_is_read(tmp_path):
    table = people(60, 1).append_column("visits", pa.array([[1, 2]] * 60))
    pa.parquet.write_table(table, tmp_path / "survey.parquet")
    suppress_file(tmp_path / "survey.parquet", tmp_path / "out", ["v0", "v1"], 3, drop=["*"])
    assert pr.recheck(tmp_path / "out").records == 60


@pytest.mark.filterwarnings("ignore:A group of equal values")
@pytest.mark.filterwarnings("default:numbers that look like codes")
def test_codes_for_no_answer_are_told_before_they_are_averaged(tmp_path):
    pay = [*np.random.default_rng(3).integers(900, 3000, 300).astype(float), *[-9.0] * 12]
    table = pa.table({"pay": pay, "kind": ["a", "b", "c"] * 104})
    with pytest.warns(
        UnperturbedWarning, match=r"codes for no answer count as values, in means too: pay \(probably -9\)"
    ):
        pr.microaggregate(table, ["pay"], 3)
    pa.parquet.write_table(table, tmp_path / "pay.parquet")
    for words in (["microaggregate", "--k", "3"], ["permute", "--blocks", "10"]):
        command = [words[0], str(tmp_path / "pay.parquet"), "--columns", "pay", *words[1:], "--out"]
        told = CliRunner().invoke(main, [*command, str(tmp_path / words[0])])
        assert "probably -9" in told.stderr, told.output


def test_a_wrong_name_or_k_is_told_before_columns_need_decisions(tmp_path):
    rows = "\n".join(f"{n},{'fm'[n % 2]}" for n in range(60))
    (tmp_path / "persons.csv").write_text(f"person,sex\n{rows}\n")
    ask = ["suppress", str(tmp_path / "persons.csv"), "--out", str(tmp_path / "out"), "--keys"]
    assert "no column 'nope'" in CliRunner().invoke(main, [*ask, "nope"]).stderr
    assert "k is not valid" in CliRunner().invoke(main, [*ask, "sex", "--k", "0"]).stderr


def test_a_dense_column_far_from_zero_loses_no_digits():
    rng = np.random.default_rng(8)
    values = np.round(rng.random(12) * 50) + 2.0**40
    dense = np.concatenate([values, 2.0**40 + 1e6 + np.arange(2000.0)])
    groups = optimal_groups(dense, 3)
    change = ((means_of(dense - 2.0**40, groups) - (dense - 2.0**40)) ** 2).sum()
    even = ((np.arange(2000.0) - 3 * (np.arange(2000.0) // 3) - 1) ** 2)[:1998].sum()
    assert change <= least_change(values - 2.0**40, 3) + even + 6


@pytest.mark.parametrize("n", [3, 5, 6, 9, 11, 40])
def test_groups_of_several_columns_have_k_records_and_follow_the_algorithm(n):
    points = np.random.default_rng(n).normal(size=(n, 2))
    groups = mdav_groups(points, 3)
    sizes = np.bincount(groups)
    assert sizes.min() >= 3
    assert sizes.max() <= 5
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    if n >= 6:  # the first group, by its definition
        far = max(range(n), key=lambda i: sum(scaled[i] ** 2))
        near = sorted(range(n), key=lambda i: sum((scaled[i] - scaled[far]) ** 2))[:3]
        assert set(np.flatnonzero(groups == 0)) == set(near)


def test_columns_together_are_k_anonymous_and_alone_need_not_be():
    rng = np.random.default_rng(3)
    table = pa.table({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    alone, together = (pr.microaggregate(table, ["a", "b"], 3, together=flag) for flag in (False, True))
    assert alone.claims.lost["a"] < together.claims.lost["a"]
    together.claims.check(together.frame)
    with pytest.raises(PrivacyError):
        together.claims.check(alone.frame)
    for name in ("a", "b"):
        assert np.mean(alone.frame[name]) == pytest.approx(np.mean(table[name]))


def test_missing_numbers_stay_missing():
    table = pa.table({"pay": [1.0, None, 3.0, 8.0, 10.0]})
    assert pr.microaggregate(table, ["pay"], 2).frame["pay"].to_pylist() == [2.0, None, 2.0, 9.0, 9.0]
    with pytest.raises(DataError, match="values are missing"):
        pr.microaggregate(table, ["pay"], 2, together=True)


def with_lists(table):
    visits = pa.array([[n] for n in range(table.num_rows)])
    return table.append_column("visits", visits).append_column("n", pa.array(np.arange(table.num_rows)))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda t: pr.suppress(t, ["v0"], 1), UsageError, "k is not valid"),
        (lambda t: pr.suppress(t, "v0", 3), UsageError, "must be a list"),
        (lambda t: pr.suppress(t, ["v0"], 3, sensitive="v0"), UsageError, "one of the keys"),
        (lambda t: pr.suppress(t, ["v0"], 99), DataError, "fewer records than k"),
        (lambda t: pr.suppress(t, ["v0"], 3, sensitive="s", diversity=9), DataError, "too few values"),
        (lambda t: pr.microaggregate(t, ["v0"], 3), DataError, "not a number"),
        (lambda t: pr.microaggregate(t, ["none"], 3), DataError, "no column"),
        (lambda t: pr.microaggregate(t, None, 3), UsageError, "must be a list"),
        (lambda t: pr.microaggregate(t, 5, 3, household="s"), UsageError, "must be a list"),
        (lambda t: pr.suppress(t, np.array(["v0", "v1"]), 3), UsageError, "must be a list"),
        (lambda t: pr.microaggregate(t, ["v0"], 1, household=5), UsageError, "household is not the name of a column"),
        (lambda t: pr.microaggregate(t, ["v0"], 3, household=["s"]), UsageError, "household is not the name"),
        (lambda t: pr.suppress(t, ["v0"], 3, sensitive=["s"]), UsageError, "sensitive column is not the name"),
        (lambda t: pr.suppress(t, ["v0"], 3, codebook="codebook.toml"), UsageError, "not a Codebook"),
        (lambda t: pr.microaggregate(t, ["v0"], 3, codebook=5), UsageError, "not a Codebook"),
        (lambda t: pr.microaggregate(with_lists(t), ["n"], 3, household="visits"), DataError, "lists or records"),
        (lambda t: pr.microaggregate(with_lists(t), ["visits"], 3), DataError, "lists or records"),
        (lambda t: pr.suppress(with_lists(t), ["v0", "visits"], 3), DataError, "lists or records"),
        (lambda t: pr.suppress(with_lists(t), ["v0"], 3, sensitive="visits"), DataError, "lists or records"),
    ],
)
def test_what_cannot_be_done_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(people(20, 0))


def test_claims_come_back_from_plain_data_and_forged_ones_are_refused():
    claims = pr.suppress(people(30, 1), ["v0", "v1"], 4, sensitive="s").claims
    assert Claims.from_dict(json.loads(json.dumps(claims.to_dict()))) == claims
    with pytest.raises(PrivacyError, match="number of records"):
        claims.check(people(29, 1))
    with pytest.raises(PrivacyError, match="too few records"):
        Claims.from_dict({**claims.to_dict(), "k": 29}).check(people(30, 1))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_is_checked_again_from_its_own_file(tmp_path, suffix):
    table = people(40, 5)
    path = tmp_path / f"survey{suffix}"
    pa.csv.write_csv(table, path) if suffix == ".csv" else pa.parquet.write_table(table, path)
    run = CliRunner()
    made = run.invoke(main, ["suppress", str(path), "--keys", "v0,v1,v2", "--k", "5", "--out", str(tmp_path / "out")])
    assert made.exit_code == 0, made.output
    assert "at least 5 records" in made.output
    assert "not differential privacy" in (tmp_path / "out" / "claims.txt").read_text()
    assert run.invoke(main, ["recheck", str(tmp_path / "out")]).exit_code == 0
    claims = pr.recheck(tmp_path / "out")
    assert claims.k == 5
    stated = (tmp_path / "out" / "claims.json").read_text()
    (tmp_path / "out" / "claims.json").write_text(stated.replace('"k": 5', '"k": 39'))
    refused = run.invoke(main, ["recheck", str(tmp_path / "out")])
    assert refused.exit_code == 5
    data = tmp_path / "out" / f"data{suffix}"
    data.write_bytes(data.read_bytes() + b"\n")
    with pytest.raises(ReleaseError, match="not the one of the claims"):
        pr.recheck(tmp_path / "out")


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_text_that_a_spreadsheet_would_run_is_warned_of(tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("area,note\na,=1+1\na,x\nb,y\nb,z\n")
    with pytest.warns(FormulaWarning, match="note"):
        suppress_file(path, tmp_path / "out", ["area"], 2, as_is=["note"])


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
def test_a_file_of_numbers_is_microaggregated(tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("id;pay;of\n1;10,5;x\n2;11,6;x\n3;20;x\n4;;y\n5;22;y\n6;20,1;y\n7;11,1;x\n")
    options = ["--columns", "pay", "--k", "3", "--decimal", ",", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(main, ["microaggregate", str(path), *options])
    assert refused.exit_code == 2
    assert "alone: id (more than 99%). Next: leave them out: --drop id; or name" in refused.stderr
    made = CliRunner().invoke(main, ["microaggregate", str(path), *options, "--as-is", "id"])
    assert made.exit_code == 0, made.output
    said = "id is released unperturbed and singles out more than 99% of the records alone; --as-is states that it is"
    assert said in (tmp_path / "out" / "claims.txt").read_text()
    assert "the decimal comma of the file" in made.stdout
    rows = (tmp_path / "out" / "data.csv").read_text().split()
    assert rows[0] == '"id","pay","of"'
    assert '"1","11,067","x"' in rows  # the file's sign, and two decimals more
    assert sum('"20,7"' in row for row in rows) == 3
    again = CliRunner().invoke(main, ["microaggregate", str(path), *options, "--drop", "id"])
    assert again.exit_code == 7
    texts = CliRunner().invoke(main, ["microaggregate", str(path), "--columns", "of", "--out", str(tmp_path / "texts")])
    assert texts.exit_code == 4
    assert "column 'of': a value is not a number. Next: name another column" in texts.stderr


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
def test_a_sum_that_stays_beside_its_averaged_terms_needs_a_decision(tmp_path):
    rng = np.random.default_rng(4)
    pay, more = rng.integers(0, 40, 400) * 10, rng.integers(0, 30, 400) * 10
    rows = [f"{a},{b},{a + b}" for a, b in zip(pay, more, strict=True)]
    (tmp_path / "pay.csv").write_text("\n".join(["pay,more,all", *rows]))
    asked = ["microaggregate", str(tmp_path / "pay.csv"), "--columns", "pay,more", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 2
    assert "all = pay + more: all, released as it is, tells of the true values of pay, more" in told.stderr
    done = CliRunner().invoke(main, [*asked, "--as-is", "all"]).stderr
    assert "all = pay + more" in done.splitlines()[0]  # exact relations are told first
    assert len(done.splitlines()) > 1


def test_warnings_of_suppression_are_of_the_values_that_are_gone():
    area = ["a"] * 50 + ["b"] * 50
    before = pa.table({"area": area, "street": [f"{name} street" for name in area], "size": ["s", "l"] * 50})
    left = [None if row < 25 or row >= 95 else name for row, name in enumerate(area)]
    told = Findings(tuple(Finding("tells", (by,), ("area",), "of the file before") for by in ("street", "size")))
    (one,) = of_suppressed(told, before, before.set_column(0, "area", pa.array(left))).found
    # 25 of a and 5 of b are gone; of those that are left most are of b, in either size
    assert "of 100 of them, the best guess from street is right in about 100, without in about 17" in one.sentence
    assert of_suppressed(told, before, before).found == ()


def test_warnings_of_averages_are_of_what_these_do_not_show():
    pay = np.arange(200.0)
    before = pa.table({"pay": pay, "band": pay // 20})
    told = Findings((Finding("tells", ("band",), ("pay",), "said"),))
    assert of_averaged(told, before, before).found == ()
    assert of_averaged(told, before, before.set_column(0, "pay", pa.array(np.full(200, 99.5)))) == told


def test_combinations_that_single_out_are_one_warning():
    found = tuple(_together(["a", name], 0.02, {}, ()) for name in "bcd")
    (told,) = Findings(found).warnings
    assert "a and b (about 2% of the records); a and c (about 2%" in told
    assert told.count(KEYS_ALONE) == 1
    assert len(Findings(found).to_dict()["found"]) == 3


def test_a_warning_that_the_answer_has_is_not_printed_again(capsys):
    _tell_warnings(["said", "not told"], "the answer, in which it is said")
    assert capsys.readouterr().err == "postrand: warning: not told\n"


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--drop", "name", "--seconds", "0"], "the seconds are not valid"),
        (["--drop", "name", "--seconds", "inf"], "the seconds are not valid"),
        (["--drop", "name,named"], "--drop: no column 'named' (did you mean 'name'?)"),
        (["--drop", "name,sex"], "column 'sex' is used and dropped"),
    ],
)
def test_suppress_drops_columns_and_refuses_what_cannot_be(given, said, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex,name\n" + "".join(f"{'fm'[i % 2]},n{i}\n" for i in range(20)))
    asked = ["suppress", str(path), "--keys", "sex", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(main, [*asked, *given])
    assert told.exit_code == 2
    assert said in told.stderr
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 2
    assert "alone: name (more than 99%)" in refused.stderr
    assert CliRunner().invoke(main, [*asked, "--drop", "*"]).exit_code == 0
    assert (tmp_path / "out" / "data.csv").read_text().splitlines()[0].strip('"') == "sex"
    assert (
        "Other columns, if the file has any, are released as they are" in (tmp_path / "out" / "claims.txt").read_text()
    )
    kept = pr.microaggregate(pa.table({"pay": [float(x) for x in range(9)]}), ["pay"], 3).claims.sentences
    assert not any("other columns are released as they are" in text for text in kept)


def test_names_numbers_and_free_texts_need_a_decision_and_rows_are_shuffled(tmp_path):
    rng, run = np.random.default_rng(2), CliRunner()
    home = np.arange(600) // 3  # nobody is alone with a name or a household number
    rows = [f"{'fm'[x]},{h},Ada Family{h},{'seen by Ann Lee' if i == 9 else ''},{i * 7 % 97}" for i, (h, x) in
            enumerate(zip(home, rng.integers(0, 2, 600), strict=True))]  # fmt: skip
    path, out = tmp_path / "people.csv", tmp_path / "out"
    path.write_text("\n".join(["sex,hhnr,name,remark,pay", *rows]))
    for asked in (
        ["suppress", str(path), "--keys", "sex", "--drop", "pay"],
        ["microaggregate", str(path), "--columns", "pay", "--drop", "sex"],
        ["permute", str(path), "--columns", "pay", "--blocks", "300", "--drop", "sex"],
    ):
        told = run.invoke(main, [*asked, "--out", str(out)])
        assert told.exit_code == 2, asked
        assert "or hold free text: hhnr, name, remark. Next: leave them out: --drop hhnr,name,remark" in told.stderr
    kept = ["--drop", "pay,name,remark", "--as-is", "hhnr", "--out", str(out)]
    assert run.invoke(main, ["suppress", str(path), "--keys", "sex", *kept]).exit_code == 0
    assert "new random order" in (out / "claims.txt").read_text()
    released = pa.csv.read_csv(out / "data.csv")["hhnr"].to_pylist()
    assert released != sorted(released) == home.tolist()
    assert pr.recheck(out).k == 3


CODEBOOK = """
[[recodes]]
variable = "age"
bands = [0, 30, 60]
missing = [999]
[[variables]]
name = "sex"
role = "key"
categories = [1, 2, 9]
type = "int64"
missing_codes = [9]
[[variables]]
name = "age"
role = "key"
categories = ["0-29", "30-59", "60+"]
missing = "keep"
[[variables]]
name = "ill"
role = "sensitive"
categories = ["no", "yes", "n.a."]
missing_codes = ["n.a."]
[[variables]]
name = "rooms"
role = "other"
categories = [1, 2, 3, 4, 5, 6, 99]
type = "int64"
missing_codes = [99]
[[variables]]
name = "name"
role = "drop"
[[variables]]
name = "id"
role = "record_key"
type = "int64"
"""


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_a_codebook_is_used_and_its_codes_are_no_values(tmp_path):
    rng, run, out = np.random.default_rng(5), CliRunner(), tmp_path / "out"
    table = {"sex": rng.choice([1, 2, 9], 300, p=[0.48, 0.48, 0.04]), "age": rng.integers(0, 90, 300)}
    table["age"][:7] = 999
    table["ill"] = np.where(table["sex"] == 1, rng.choice(["no", "n.a."], 300), rng.choice(["no", "yes", "n.a."], 300))
    table |= {"rooms": rng.choice([1, 2, 3, 4, 5, 6, 99], 300), "name": np.array([f"Ann {i}" for i in range(300)])}
    table["id"] = np.arange(300)
    survey, book = tmp_path / "survey.csv", tmp_path / "codebook.toml"
    pl.DataFrame(table).write_csv(survey, separator=";")
    book.write_text(CODEBOOK)
    asked = [str(survey), "--codebook", str(book), "--separator", ";", "--out", str(out)]
    made = run.invoke(main, ["suppress", *asked, "--k", "4", "--sensitive", "ill"])
    assert made.exit_code == 0, made.output
    assert "age: Recoded from age before anything else: bands" in made.stdout
    assert "Codes for no answer are missing values: sex, ill." in (out / "claims.txt").read_text()
    found = pl.read_csv(out / "data.csv")
    assert found.columns == ["sex", "age", "ill", "rooms"]
    assert set(found["sex"].unique()) <= {1, 2, None}
    assert set(found["age"].unique()) <= {"0-29", "30-59", "60+", None}
    rows = found.select("sex", "age").rows()
    assert is_anonymous(rows, found["ill"].to_list(), 4, 2)
    assert (found["sex"].null_count() + found["age"].null_count()) > (table["sex"] == 9).sum() + 7
    loaded = load_codebook(book)
    for frame in (pl.DataFrame(table), pl.DataFrame(table).to_pandas(), pa.table(table)):
        own = pr.suppress(frame, k=4, sensitive="ill", codebook=loaded)
        assert type(own.frame) is type(frame)
        assert own.claims == pr.recheck(out)
    shutil.rmtree(out)
    assert run.invoke(main, ["microaggregate", *asked, "--columns", "rooms"]).exit_code == 0
    assert pl.read_csv(out / "data.csv")["rooms"].null_count() == (table["rooms"] == 99).sum()
    refused = run.invoke(main, ["microaggregate", *asked, "--columns", "id"])
    assert "column 'id': a column is used, and the codebook does not release it; got record_key" in refused.stderr
    refused = run.invoke(main, ["microaggregate", *asked[:-1], str(tmp_path / "no"), "--columns", "age"])
    said = "column 'age': the codebook makes bands of it, which are no numbers. Next: name another column, or"
    assert (refused.exit_code, said in refused.stderr) == (2, True)
    with pytest.raises(UsageError, match=said):
        pr.microaggregate(pa.table(table), ["age"], 3, codebook=loaded)
    refused = run.invoke(main, ["suppress", *asked[:1], "--out", str(tmp_path / "no")])
    assert "no key variables are named" in refused.stderr


def test_household_numbers_of_a_codebook_need_no_option_to_be_left_out(tmp_path):
    table = pa.table({"sex": ["f", "m"] * 40, "area": list("aabb") * 20, "home": np.arange(80) // 2})
    pa.parquet.write_table(table, tmp_path / "s.parquet")
    roles = ("--keys", "sex,area", "--household", "home", "--out", str(tmp_path / "init"))
    assert CliRunner().invoke(main, ["init", str(tmp_path / "s.parquet"), *roles]).exit_code == 0
    asked = ["suppress", str(tmp_path / "s.parquet"), "--codebook", str(tmp_path / "init/codebook.toml"), "--k", "2"]
    for name, option, columns in (
        ("left", [], ["sex", "area"]),
        ("dropped", ["--drop", "home"], ["sex", "area"]),
        ("kept", ["--as-is", "home"], ["sex", "area", "home"]),
    ):
        made = CliRunner().invoke(main, [*asked, *option, "--out", str(tmp_path / name)])
        assert made.exit_code == 0, made.output
        assert pa.parquet.read_table(tmp_path / name / "data.parquet").column_names == columns
        assert ("home is left out, because the codebook says" in made.output) == (name == "left")


def test_a_recode_that_renames_its_column_is_one_of_the_keys(tmp_path):
    rows = "\n".join(f"{n % 2},{1950 + n % 40},{n % 3}" for n in range(240))
    (tmp_path / "t.csv").write_text(f"sex,born,w\n{rows}\n")
    bands = ["--recode", "decade=born:bands:1950,1970,1990", "--drop", "*", "--out", str(tmp_path / "init")]
    made = CliRunner().invoke(main, ["init", str(tmp_path / "t.csv"), "--keys", "sex,decade", *bands])
    assert made.exit_code == 0, made.output
    asked = ["--codebook", str(tmp_path / "init" / "codebook.toml"), "--k", "3", "--out", str(tmp_path / "out")]
    made = CliRunner().invoke(main, ["suppress", str(tmp_path / "t.csv"), *asked])
    assert made.exit_code == 0, made.output
    assert pl.read_csv(tmp_path / "out" / "data.csv").columns == ["sex", "decade"]


def test_two_columns_that_settle_a_value_together_need_a_decision_as_in_a_plan(tmp_path):
    rng = np.random.default_rng(6)
    one, two = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    rows = [f"{a ^ b},{'x' if a else 'y'},{'u' if b else 'v'}" for a, b in zip(one, two, strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(["ill,left,right", *rows]))
    asked = ["suppress", str(tmp_path / "s.csv"), "--keys", "ill", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 2
    assert (
        "the true values of ill follow from two columns together that stay as they are, left and right" in told.stderr
    )
    assert CliRunner().invoke(main, [*asked, "--as-is", "left,right"]).exit_code == 0


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_a_guess_that_is_a_little_better_is_not_said_to_settle_values(tmp_path):
    """In one combination of two columns, 3 of 100 records, pay is nearly known; elsewhere both tell nothing."""
    rng, n = np.random.default_rng(4), 4000
    one, two, pay = rng.integers(0, 6, n), rng.integers(0, 6, n), rng.integers(0, 4, n) * 250
    pay[(one == 0) & (two == 0)] = 0
    table = {"pay": pay, "one": [f"a{x}" for x in one], "two": [f"b{x}" for x in two]}
    pl.DataFrame(table).write_csv(tmp_path / "s.csv")
    asked = ["microaggregate", str(tmp_path / "s.csv"), "--columns", "pay", "--k", "3", "--out", str(tmp_path / "out")]
    made = CliRunner().invoke(main, asked)
    assert made.exit_code == 0, made.output
    lines = (tmp_path / "out" / "claims.txt").read_text().splitlines()
    (said,) = [line for line in lines if "two columns together" in line]
    assert said.startswith("the true values of pay can be guessed better from two columns together that stay as they")
    best, blind = map(int, re.search(r"is right in about (\d+), without in about (\d+)", said).groups())
    assert best < blind + 10


def test_texts_are_of_the_columns_that_leave_and_a_recoded_name_is_told(tmp_path):
    rows = "\n".join(f"{n % 2},{1950 + n % 40},{n % 7}" for n in range(280))
    (tmp_path / "t.csv").write_text(f"sex,born,w\n{rows}\n")
    (tmp_path / "codebook.toml").write_text(
        """
[[recodes]]
variable = "decade"
from = "born"
bands = [1950, 1970]
[[recodes]]
variable = "w"
rounding = 2
[[variables]]
name = "sex"
role = "key"
type = "int64"
categories = [0, 1]
[[variables]]
name = "decade"
role = "key"
categories = ["1950-1969", "1970+"]
[[variables]]
name = "w"
role = "other"
type = "int64"
"""
    )
    run, asked = CliRunner(), [str(tmp_path / "t.csv"), "--codebook", str(tmp_path / "codebook.toml")]
    for drop, is_told in (("w", False), (None, True)):
        out = tmp_path / f"out{is_told}"
        made = run.invoke(main, ["suppress", *asked, "--out", str(out), *(["--drop", drop] if drop else [])])
        assert made.exit_code == 0, made.output
        told = (out / "claims.txt").read_text()
        assert "decade: Recoded from born" in told
        assert ("w: Recoded from w" in told) is is_told
        assert "Households and persons are not counted" in told
    for words in (["suppress", "--keys", "sex,born"], ["microaggregate", "--columns", "born"]):
        refused = run.invoke(main, [words[0], *asked, *words[1:], "--drop", "*", "--out", str(tmp_path / "no")])
        assert refused.exit_code == 2
        assert "column 'born' is recoded into 'decade', as the codebook tells. Next: name 'decade'" in refused.stderr
    with pytest.raises(UsageError, match="'born' is recoded into 'decade'"):
        pr.suppress(pl.read_csv(tmp_path / "t.csv"), ["born"], codebook=load_codebook(tmp_path / "codebook.toml"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suppress", "--keys", "v0,v1"], Stage.SUPPRESSING),
        (["microaggregate", "--columns", "n"], Stage.GROUPING),
        (["average", "--columns", "n", "--blocks", "20"], Stage.GROUPING),
        (["permute", "--columns", "n", "--blocks", "20"], Stage.PERTURBING),
    ],
)
def test_progress_says_what_is_done(words, said, tmp_path):
    table = people(400, 1).append_column("n", pa.array(np.arange(400) ** 2))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    steps: list[Any] = []
    with listening(steps.append):
        options = [words[0], str(tmp_path / "t.parquet"), *words[1:], "--drop", "*", "--out", str(tmp_path / "out")]
        made = CliRunner().invoke(main, options)
    assert made.exit_code == 0, made.output
    assert [*dict.fromkeys(step.stage for step in steps)][:2] == [said, Stage.WRITING]


def test_a_named_column_of_lists_is_told_as_one(tmp_path):
    pa.parquet.write_table(with_lists(people(60, 1)), tmp_path / "t.parquet")
    asked = ["microaggregate", str(tmp_path / "t.parquet"), "--columns", "n", "--household", "visits", "--drop", "*"]
    refused = CliRunner().invoke(main, [*asked, "--out", str(tmp_path / "out")])
    assert "column 'visits': a column of lists or records has no values to compare" in refused.stderr


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_what_a_file_declares_as_missing_is_not_averaged(suffix, tmp_path):
    """Other columns keep what the file says of them; averages keep the label."""
    rng = np.random.default_rng(1)
    pay = rng.lognormal(7, 1, 300).round()
    gone = np.arange(300) % 7 == 0
    left = np.where(np.arange(300) % 5 == 0, -9.0, rng.integers(1, 4, 300))
    held = [
        ("a" if suffix == ".dta" else -9.0) if is_gone else x for x, is_gone in zip(pay.tolist(), gone, strict=True)
    ]
    frame = pd.DataFrame({"pay": pd.Series(held, dtype=object if suffix == ".dta" else float), "left": left})
    file, said = tmp_path / f"s{suffix}", {"column_labels": {"pay": "Pay", "left": "Left"}}
    if suffix == ".sav":
        pyreadstat.write_sav(frame, str(file), missing_ranges={"pay": [-9.0], "left": [-9.0]}, **said)
    else:
        pyreadstat.write_dta(frame, str(file), missing_user_values={"pay": ["a"]}, **said)
    _, notes = microaggregate_file(file, tmp_path / "out", ["pay"], 3)
    assert "Codes for no answer are missing values: pay." in notes
    read = pyreadstat.read_sav if suffix == ".sav" else pyreadstat.read_dta
    made, meta = read(str(tmp_path / "out" / f"data{suffix}"), user_missing=True)
    assert made["pay"].isna().sum() == gone.sum()
    assert made["pay"].mean() == pytest.approx(pay[~gone].mean(), abs=0.01)
    assert meta.column_names_to_labels == {"pay": "Pay", "left": "Left"}
    assert set(meta.missing_ranges) == ({"left"} if suffix == ".sav" else set())
    assert sorted(made["left"]) == sorted(left)


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
def test_all_that_is_found_in_the_columns_that_stay_is_printed_too(tmp_path):
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, size, 300) for name, size in (("sex", 2), ("a", 90), ("b", 60), ("c", 40))}
    pa.csv.write_csv(pa.table(columns), tmp_path / "s.csv")
    asked = ["suppress", str(tmp_path / "s.csv"), "--keys", "sex", "--as-is", "a,b,c", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    lines = (tmp_path / "out" / "claims.txt").read_text().splitlines()
    found = lines[lines.index("Found in the columns that stay as they are:") + 1 :]
    assert len(found) > 3
    assert [text for text in found if text not in said.stdout and text not in said.stderr] == []
