"""Records that belong together without a number are told by every surface, and files without any raise no alarm."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.data.frames import TableSource
from postrand.plan.numbering import numbers_units
from postrand.risk.neighbours import (
    COMMON,
    FEW,
    LEAST_PAIRS,
    equal_neighbours,
    neighbour_findings,
    neighbours,
    ordered_codes,
    runs,
)
from postrand.risk.sample import Sample, taken
from postrand.support.warned import hushed
from postrand.workflow.explanation import explain
from postrand.workflow.neighbouring import MAX_DROPPED, NOTE, compared
from postrand.workflow.plan_figures import figures_of

SHARED = "records next to each other share spending (about 7"
ALONE = "k records together spend k times epsilon"
TAKEN = "neighbours with one value of spending are taken as one: the values of spending, released unperturbed, put the "
RISK = "the risk of households is not computed: neighbours in the file share spending, as members of one do"


def people(houses: int = 600, seed: int = 5) -> pa.Table:
    """Return records of households of two to six, which stand together and share what they spend."""
    rng = np.random.default_rng(seed)
    house = np.repeat(np.arange(houses), rng.integers(2, 7, houses))
    n = house.size
    return pa.table(
        {
            "spending": rng.integers(10_000, 99_999, houses)[house] / 10,
            "region": rng.choice(["n", "e", "s", "w"], houses)[house],
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["yes", "no"], n),
            "age": rng.integers(0, 90, n),
            "pay": rng.integers(0, 40_000, n),
            "hid": house * 7 + 11,
        }
    )


def codes(values) -> np.ndarray:
    return ordered_codes(pa.chunked_array([pa.array(values)]))


def told(table: pa.Table) -> dict[str, tuple[float, float]]:
    held = {name: equal_neighbours(ordered_codes(table.column(name))) for name in table.column_names}
    return {name: found for name, found in held.items() if found is not None}


def counted(values: list) -> tuple[float, float]:
    """Return both shares by looking at each pair of neighbours, and at each pair of records."""
    most = max(FEW, COMMON * len(values))
    held = [value if value is not None and values.count(value) <= most else None for value in values]
    pairs = [(a, b) for a, b in itertools.pairwise(held) if a is not None and b is not None]
    known = [value for value in held if value is not None]
    all_pairs = [(a, b) for a, b in itertools.combinations(known, 2)]
    return tuple(sum(a == b for a, b in some) / len(some) for some in (pairs, all_pairs))


@pytest.mark.parametrize("seed", range(6))
def test_both_shares_are_those_counted_pair_by_pair(seed):
    """Missing values and a value that many records have, such as 0, are left out."""
    rng = np.random.default_rng(seed)
    house = np.repeat(np.arange(120), rng.integers(1, 6, 120))
    drawn = [float(v) for v in rng.integers(0, 300, 120)[house]]
    values: list[float | None] = [None if rng.random() < 0.05 else v for v in drawn]
    if seed % 2:
        zero = rng.random(120) < 0.1
        values = [0.0 if zero[h] else v for h, v in zip(house, values, strict=True)]
    found = equal_neighbours(codes(values))
    assert found is not None
    assert found == pytest.approx(counted(values), abs=1e-12)


def test_chance_is_what_random_orders_give():
    """The mean over 400 random orders is within 4.5 standard errors (alpha below 1e-5) of the share by chance."""
    rng = np.random.default_rng(8)
    values = np.repeat(rng.permutation(150), rng.integers(1, 6, 150))
    found = equal_neighbours(codes(values))
    assert found is not None
    _, chance = found
    made = [np.mean(np.diff(rng.permutation(values)) == 0) for _ in range(400)]
    assert abs(np.mean(made) - chance) < 4.5 * np.std(made) / 20


def test_codes_are_in_the_order_of_the_values():
    assert codes([3.5, None, float("nan"), 10.0, 3.5]).tolist() == [0, -1, -1, 1, 0]
    assert codes(["b", "a", None, "b"]).tolist() == [1, 0, -1, 1]
    two = pa.chunked_array([pa.array(["b", None]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()])
    assert ordered_codes(two).tolist() == [1, -1, 0, 1]
    assert codes([]).size == 0
    assert codes([None, None]).tolist() == [-1, -1]


def test_households_in_the_order_of_the_file_are_found():
    assert [*told(people())] == ["spending"]  # their number, in order, is sorted: it is told by its name


def test_shuffled_records_are_not():
    table = people()
    order = np.random.default_rng(1).permutation(table.num_rows)
    assert told(table.take(pa.array(order))) == {}


@pytest.mark.parametrize("column", ["spending", "region", "age", "pay"])
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_file_that_is_sorted_says_nothing(column, order):
    table = people().drop_columns(["hid"])  # which would be together again, where files are sorted by what it shares
    table = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    assert told(table.sort_by([(column, order), ("sex", "ascending")])) == {}
    assert told(table.sort_by([("region", order), ("spending", "ascending")])) == {}  # sorted within groups
    assert told(table.sort_by([("age", order), ("spending", "ascending")])) == {}


def test_groups_that_are_sorted_up_and_down_in_turn_say_nothing():
    rng = np.random.default_rng(2)
    groups = [np.sort(rng.integers(0, 200, 60))[:: (-1) ** k] for k in range(10)]
    assert equal_neighbours(codes(np.concatenate(groups))) is None


def test_values_of_many_records_are_of_places_and_not_of_households():
    rng = np.random.default_rng(2)
    assert equal_neighbours(codes(rng.permutation(40).repeat(25))) is None
    assert equal_neighbours(codes(rng.permutation(100).repeat(12))) is not None
    assert equal_neighbours(codes(rng.permutation(LEAST_PAIRS - 1).repeat(2))) is None  # too few to say so


def test_persons_alone_say_nothing():
    rng = np.random.default_rng(3)
    table = pa.table(
        {"pay": rng.integers(0, 900, 3000), "age": rng.integers(0, 90, 3000), "w": rng.lognormal(0, 1, 3000).round(2)}
    )
    assert told(table) == {}


def test_the_files_at_hand_raise_no_alarm_in_any_order(shared_data):
    sample = Path(pr.__file__).parent / "sample" / "survey.csv"
    read = pa.csv.read_csv(sample, parse_options=pa.csv.ParseOptions(delimiter=";"))
    files = [read, *(pa.csv.read_csv(shared_data / f"{name}.csv") for name in ("ny_pums_2000_sample",))]
    files.append(pa.csv.read_csv(shared_data / "household_survey_testdata.csv").drop_columns(["ori_hid"]))
    for table in files:
        held = table.slice(0, 5_000)
        assert told(held) == {}
        mixed = held.take(pa.array(np.random.default_rng(1).permutation(held.num_rows)))
        for name in held.column_names:
            assert told(mixed.sort_by(name)) == {}, name


def test_runs_are_those_of_equal_neighbours_with_a_value():
    values = [4, 4, None, 4, 2, 2, 2, None, None, 2]
    expected, number = [], -1
    for before, value in zip([None, *values], values, strict=False):
        number += value is not None and value != before
        expected.append(-1 if value is None else number)
    assert runs(codes(values)).tolist() == expected
    assert runs(codes([])).size == 0


def test_what_is_put_together_again_is_counted_by_hand():
    table = people(seed=9)
    table = table.set_column(0, "spending", pc.multiply(pc.floor(pc.divide(table["spending"], 20.0)), 20.0))
    found = neighbours({"spending": table["spending"]})
    both = neighbour_findings(found, {name: table[name] for name in ("spending", "region")})
    spent = table["spending"].to_pylist()
    own = [[*part] for _, part in itertools.groupby(range(len(spent)), key=lambda k: spent[k])]
    several = [part for part in own if len(part) > 1]

    def exact(keys: list) -> float:
        return sum(len({keys[k] for k in p}) == 1 and keys.count(keys[p[0]]) == len(p) for p in several) / len(several)

    assert [one.code for one in both] == ["neighbours", "regroups"]
    assert both[1].figures["share"] == pytest.approx(exact(spent))
    assert 0.2 < exact(spent) < 0.95
    assert both[1].variables[0] == "spending"
    alone = neighbour_findings(found, {"sex": table["sex"]})  # the column itself is dropped
    assert [(one.code, one.variables, one.about) for one in alone] == [("neighbours", (), ("spending",))]


def test_a_value_that_many_share_puts_no_households_together():
    """Of 500 households 60% pay no rent: as one run of zeros, they would hide that pay puts all of them together."""
    rng = np.random.default_rng(8)
    rent = np.where(rng.random(500) < 0.6, 0, rng.integers(100, 2_000, 500))
    house = np.repeat(np.arange(500), rng.integers(2, 5, 500))
    found = neighbours({"rent": pa.chunked_array([rent[house]])})
    assert found is not None
    sizes = np.bincount(found.house[found.house >= 0])
    assert sizes.max() <= 12
    pay = pa.chunked_array([rng.permutation(10_000)[:500][house]])
    codes = [one.code for one in neighbour_findings(found, {"pay": pay})]
    assert codes == ["neighbours", "regroups"]


def test_numbers_by_their_names_are_known_where_they_repeat():
    table = people()
    columns = {name: table[name] for name in ("spending", "hid")}
    assert neighbours(columns, ["hid"]) is None
    assert neighbours({**columns, "id": pa.chunked_array([pa.array(range(table.num_rows))])}, ["id"]) is not None
    assert numbers_units({"name": "hid"})
    assert not numbers_units({"name": "school_id"})


def test_columns_that_can_be_of_a_household_are_compared():
    drafts = [{"name": f"v{k}", "role": "drop", "type": "double"} for k in range(MAX_DROPPED + 5)]
    assert len(compared(drafts)) == MAX_DROPPED
    few = {"name": "sex", "role": "key", "type": "string", "categories": ["f", "m"]}
    design = {"name": "psu", "role": "other", "type": "int64"}
    lists = {"name": "stays", "role": "other", "type": "list<element: int64>"}
    assert compared([few, design, lists, {"name": "rent", "role": "other"}]) == ("rent",)
    assert compared([{"name": "rent", "role": "other"}, {"name": "hid", "role": "household"}]) == ()


@pytest.mark.parametrize("most", [7, 50, 10_000])
def test_the_first_records_are_kept_in_the_order_of_the_file(most):
    table = people()
    found = taken(TableSource(table), Sample(("sex",), ("sex",), first=("spending", "region"), most=most))
    assert found.first.to_pylist() == table.select(["spending", "region"]).slice(0, most).to_pylist()
    assert found.table.column_names == ["sex"]
    assert taken(TableSource(table), Sample(("sex",), ("sex",))).first is None
    empty = taken(TableSource(table.slice(0, 0)), Sample((), (), first=("spending",)))
    assert empty.first.num_rows == 0


# -- what each surface says -------------------------------------------------------------------------------------------


def call(*words: object) -> str:
    with hushed(UserWarning):
        found = CliRunner().invoke(main, [str(word) for word in words])
    assert found.exit_code in (0, 11), found.output
    return found.output


def made(folder: Path, *more: str, spending: str = "--other", table: pa.Table | None = None) -> tuple[Path, str]:
    table = people().drop_columns(["hid"]) if table is None else table
    pq.write_table(table, folder / "people.parquet")
    named = () if spending in ("", "--keys") else (spending, "spending")
    words = (
        "--keys",
        "region,sex" + ",spending" * (spending == "--keys"),
        "--sensitive",
        "ill",
        *named,
        "--perturb-also",
        "ill",
        "--perturb",
        "blocks",
    )
    drop = ",".join(["age", "pay", *({"hid"} & {*table.column_names} if "hid" not in more else ())])
    words += ("--drop", f"{drop},spending") if spending == "" else ("--drop", drop)
    return folder / "plan.toml", call("init", folder / "people.parquet", *words, *more, "--out", folder)


def codes_in(plan: Path) -> list[str]:
    with hushed(UserWarning):
        found = pr.findings(pr.load_plan(plan)).found
    return [one.code for one in found if one.code in ("neighbours", "regroups")]


def test_every_surface_says_it_where_the_column_is_released(tmp_path):
    plan, said = made(tmp_path)
    assert f"warning: {SHARED}" in said
    assert "give it the role 'household', or make one (docs/households.md): --household NAME" in said
    assert (
        "released, spending puts them together again: band or round it ([[recodes]]), perturb it, or set role" in said
    )
    assert f'# {NOTE}\nname = "spending"' in (tmp_path / "codebook.toml").read_text("utf-8")
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nmeasure = "household_risk"\nat_most = 0.9\n', "utf-8")
    pages = {
        "design": call("design", "--plan", plan),
        "explain": call("explain", plan, "--decision", tmp_path / "decision.html"),
        "check": call("check", "--plan", plan, "--policy", policy),
        "protect": call("protect", "--plan", plan, "--out", tmp_path / "out", "--dossier", tmp_path / "dossier"),
    }
    for page in ("decision.html", "dossier/decision.html", "dossier/dossier.html"):
        pages[page] = (tmp_path / page).read_text("utf-8")
    for name, text in pages.items():
        assert SHARED[1:] in text, name
        assert ALONE in text, name
        assert TAKEN in text or "html" in name, name  # a page to sign cuts what does not fit its first sheet
    for name in ("explain", "decision.html"):
        assert RISK[1:] in pages[name], name
    assert "FAIL: it is not known: no variable has the role 'household'" in pages["check"]
    with hushed(UserWarning):
        loaded = pr.load_plan(plan)
        figures = figures_of(loaded)
    assert figures.neighbours == ("spending",)
    assert TAKEN in str(explain(loaded, figures))
    assert codes_in(plan) == ["neighbours", "regroups"]


def test_records_in_the_order_of_the_file_stay_next_to_each_other(tmp_path):
    plan, _ = made(tmp_path, spending="")
    plan.write_text(plan.read_text("utf-8").replace("shuffle = true", "shuffle = false"), "utf-8")
    with hushed(UserWarning):
        (one,) = [one for one in pr.findings(pr.load_plan(plan)).found if one.code == "neighbours"]
    assert "released in the order of the file members stay next to each other: set shuffle = true" in one.brief
    assert "household'" in one.sentence.rpartition("; ")[2]


def test_only_what_holds_is_said_where_the_column_is_dropped(tmp_path):
    plan, said = made(tmp_path, spending="")
    assert SHARED in said
    assert "puts them together again" not in said
    assert codes_in(plan) == ["neighbours"]


@pytest.mark.parametrize("how", ["rounding:10", "bands:0,3000,6000"])
def test_the_file_as_it_is_tells_it_where_the_column_is_recoded(tmp_path, how):
    plan, said = made(tmp_path, "--recode", f"spending={how}")
    assert SHARED in said
    assert "puts them together again" not in said
    assert codes_in(plan) == ["neighbours", *(["regroups"] if "rounding" in how else [])]


def test_a_plan_that_perturbs_all_with_one_block_says_it_too(tmp_path):
    plan, _ = made(tmp_path, "--recode", "spending=bands:0,3000,6000", spending="--keys")
    text = plan.read_text("utf-8")
    start = text.index("[[blocks]]")
    names = '["region", "sex", "ill", "spending"]'
    plan.write_text(f'{text[:start]}[[blocks]]\nvariables = {names}\nprivacy = {{model="differential", epsilon=4.0}}\n')
    assert codes_in(plan) == ["neighbours"]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_shuffled_file_says_nothing(tmp_path, seed):
    table = people().drop_columns(["hid"])
    order = pa.array(np.random.default_rng(seed).permutation(table.num_rows))
    plan, said = made(tmp_path, table=table.take(order))
    assert "next to each other" not in said
    assert codes_in(plan) == []
    with hushed(UserWarning):
        assert figures_of(pr.load_plan(plan)).neighbours == ()


def test_a_file_whose_households_are_known_is_not_told_of_them(tmp_path):
    dropped, household, person = (tmp_path / name for name in ("dropped", "household", "person"))
    for folder in (dropped, household, person):
        folder.mkdir()
    plan, said = made(dropped, table=people())
    assert "next to each other" not in said
    assert codes_in(plan) == ["regroups"]  # by its number, which is not released
    plan, said = made(household, "--household", "hid", table=people())
    assert "next to each other" not in said
    assert codes_in(plan) == []
    plan, said = made(person, "--person", "hid", "--most-records", "6", table=people())
    assert "next to each other" not in said
    assert "neighbours" not in codes_in(plan)


def test_of_a_large_file_the_first_records_are_named(tmp_path):
    table = people()
    found = neighbours({"spending": table["spending"]}, is_whole=False)
    assert found is not None
    assert f"of the first {table.num_rows:,} records), as members of one household do" in found.sentence
    several = dataclasses.replace(found, columns=("spending", "rent"))
    assert "share spending, rent (about 7" in several.sentence
    assert "of neighbours do of spending, by chance fewer than 1%" in several.sentence


def test_a_text_file_with_decimal_commas_is_read_as_it_is(tmp_path):
    table = people().drop_columns(["hid"])
    texts = pa.array([f"{value:.1f}".replace(".", ",") for value in table["spending"].to_pylist()])
    rows = [";".join(table.column_names)]
    held = table.set_column(0, "spending", texts)
    rows += [";".join(map(str, record.values())) for record in held.to_pylist()]
    (tmp_path / "people.csv").write_text("\n".join(rows) + "\n", "utf-8")
    words = ("--keys", "region,sex", "--other", "spending", "--drop", "ill,age,pay", "--out", tmp_path)
    assert SHARED in call("init", tmp_path / "people.csv", *words)
    assert codes_in(tmp_path / "plan.toml") == ["neighbours", "regroups"]
