"""Records of a unit that differ in its variables: one value by a public rule, on every engine, and what is refused."""

import collections
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand.data.frames import TableSource
from postrand.engines.unit_records import UnitRecords
from postrand.engines.unit_values import settled, winners
from postrand.errors import DataError, SpecificationError
from postrand.formats import PartsSource
from postrand.release import verify
from postrand.workflow.known import opened
from postrand.workflow.pipeline import run
from tests.unit_case import KEY, planned, survey

SETTLES = ("[unit]", '[unit]\ndiffering = "most frequent"')
MISSING = [(f'name = "{name}"\n', f'name = "{name}"\nmissing = "{kind}"\n')
           for name, kind in (("region", "keep"), ("tenure", "category"))]  # fmt: skip


def differing(households: int = 60, seed: int = 3) -> pa.Table:
    """Return a survey in which a third of the values of a household variable is another one, or missing."""
    table, rng = survey(households, seed=seed), np.random.default_rng(seed)
    for name in ("region", "tenure"):
        values = np.array(table[name].to_pylist(), dtype=object)
        values[rng.random(len(values)) < 0.3] = "b" if name == "region" else "rent"
        values[rng.random(len(values)) < 0.2] = None
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.string()))
    return table


def by_hand(table: pa.Table, book: pr.Codebook) -> list[dict]:
    """Settle household by household, from dictionaries."""
    records = table.to_pylist()
    for name in ("region", "tenure"):
        order = [*book[name].categories, None]
        for house in {record["hid"] for record in records} - {None}:
            own = [record for record in records if record["hid"] == house]
            counts = collections.Counter(record[name] for record in own)
            there = [value for value in counts if value is not None] or [None]
            best = min(there, key=lambda value: (-counts[value], order.index(value)))
            for record in own:
                record[name] = best
    return records


def test_the_most_frequent_value_is_taken_whatever_the_order_and_the_pieces(tmp_path):
    table = differing()
    numbers = table["hid"].to_pylist()
    numbers[5] = numbers[40] = None  # records of no household, which keep their values
    table = table.set_column(0, "hid", pa.array(numbers))
    plan = planned(tmp_path / "w", SETTLES, *MISSING, table=table)
    wanted = by_hand(table, plan.codebook)
    assert wanted != table.to_pylist()
    want = UnitRecords("household", "hid", ("region", "tenure"), 6)
    order = np.random.default_rng(1).permutation(len(table))
    coded = table.set_column(
        2, "region", table["region"].dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    )
    for held, expected in ((table, wanted), (coded, wanted), (table.take(order), [wanted[k] for k in order])):
        source = settled(TableSource(held), plan.codebook, [want])
        batches = list(source.batches(batch_size=7))
        assert pa.Table.from_batches(batches).unify_dictionaries().to_pylist() == expected
        assert batches[0].schema.types == next(TableSource(held).batches()).schema.types
        alone = next(source.batches(["tenure"], 50))
        assert alone.column(0).to_pylist()[:9] == [record["tenure"] for record in expected[:9]]
    assert opened(plan).schema.equals(table.schema)


def test_winners_are_those_of_a_count():
    rng = np.random.default_rng(5)
    names, codes = rng.integers(0, 12, 60).astype(np.uint64), rng.integers(-1, 4, 60)
    pairs = sorted(collections.Counter(zip(names.tolist(), codes.tolist(), strict=True)).items())
    votes = (
        np.array([p[0][0] for p in pairs], np.uint64),
        np.array([p[0][1] for p in pairs]),
        np.array([p[1] for p in pairs]),
    )
    found = dict(zip(*(part.tolist() for part in winners(votes, 3)), strict=True))
    for name in set(names.tolist()):
        counts = collections.Counter(codes[names == name].tolist())
        best = min(counts, key=lambda c: (c in (-1, 3), -counts[c], c))
        assert found.get(name, best) == best
        assert (name in found) == (len(counts) > 1)


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_a_release_is_that_of_the_settled_file_and_says_the_rule(tmp_path):
    """The draws are those of a file that came settled; nothing says whether records differed."""
    table = differing()
    plan = planned(tmp_path / "w", SETTLES, *MISSING, table=table)
    corrected = pa.Table.from_pylist(by_hand(table, plan.codebook), table.schema)
    made = run(plan, tmp_path / "one", release_key=KEY)
    same = run(planned(tmp_path / "v", *MISSING, table=corrected), tmp_path / "two", release_key=KEY)
    assert made.data_path.read_bytes() == same.data_path.read_bytes()
    also = run(planned(tmp_path / "u", SETTLES, *MISSING, table=corrected), tmp_path / "three", release_key=KEY)
    for file in ("certificate.json", "report.html", "ddi.xml", "croissant.json", "summary.json"):
        if (made.path / file).is_file():
            assert (made.path / file).read_bytes() == (also.path / file).read_bytes(), file
    duck = run(plan, tmp_path / "duck", release_key=KEY, engine="duckdb")
    assert duck.data_path.read_bytes() == made.data_path.read_bytes()
    verify(made.path, file=tmp_path / "w" / "s.parquet", release_key=KEY)
    said = "Where records of one household differed in region, tenure, one value of each was taken before the draw"
    for name in ("report.html", "ddi.xml", "croissant.json"):
        assert said in " ".join((made.path / name).read_text("utf-8").split()), name
    certificate = json.loads((made.path / "certificate.json").read_text("utf-8"))
    assert certificate["facts"]["differing_are_settled"] is True
    levels = [
        one["not_covered"] for one in (certificate, json.loads((same.path / "certificate.json").read_text("utf-8")))
    ]
    assert levels[0] == [*levels[1], {"code": "settled_household", "variables": ["region", "tenure"]}]


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_files_of_a_folder_are_settled_together_and_stay_files(tmp_path):
    table = differing()
    plan = planned(tmp_path / "w", SETTLES, *MISSING, ('"s.parquet"', '"parts"'), table=table)
    (tmp_path / "w" / "parts").mkdir()
    for k in range(2):
        pq.write_table(table.take(np.arange(k, len(table), 2)), tmp_path / "w" / "parts" / f"{k}.parquet")
    plan = pr.load_plan(tmp_path / "w" / "plan.toml")
    source = opened(plan)
    assert isinstance(source, PartsSource)
    released = run(plan, tmp_path / "out", release_key=KEY).frame()
    frame = released.to_pandas() if hasattr(released, "to_pandas") else released
    assert frame.dropna(subset=["region"]).groupby("hid")["region"].nunique().max() == 1


def test_persons_are_settled_within_their_households(tmp_path):
    """A person has three records: the sex of most of them counts, and the region of most of the household's."""
    rng = np.random.default_rng(4)
    house, person = np.repeat(np.arange(30), 6), np.repeat(np.arange(60), 3)
    values = {"region": list("abcd"), "tenure": ["free", "own", "rent"], "sex": ["F", "M"]}
    columns = {name: np.array(labels)[rng.integers(0, len(labels), 180)] for name, labels in values.items()}
    table = pa.table({"hid": house, "pid": person, **columns})
    units = (
        "[unit]",
        '[unit]\ndiffering = "most frequent"\nperson = "pid"\nperson_variables = ["sex"]\nmost_records = 3',
    )
    plan = planned(tmp_path / "w", units, table=table)
    found = pa.Table.from_batches(list(opened(plan).batches())).to_pylist()
    for name, of, number in (("region", house, "hid"), ("sex", person, "pid")):
        for unit in np.unique(of):
            counts = collections.Counter(columns[name][of == unit].tolist())
            best = min(counts, key=lambda value: (-counts[value], value))
            assert {record[name] for record in found if record[number] == unit} == {best}
    certificate = run(plan, tmp_path / "out", release_key=KEY).certificate
    codes = [one for one in certificate["not_covered"] if one["code"].startswith("settled")]
    assert {one["code"]: one["variables"] for one in codes} == {
        "settled_person": ["sex"],
        "settled_household": ["region", "tenure"],
    }


BLOCKS = ('[[blocks]]\nvariables = ["region"]\n[[blocks]]\nvariables = ["tenure"]\n', "")
REFUSED = {
    "an unknown rule": ([("[unit]", '[unit]\ndiffering = "most frequen"')], "unknown 'differing'.*did you mean 'most"),
    "a noisy prior": ([SETTLES, ('s = ["region"]', 's = ["region"]\nprior = "dp"\nprior_epsilon = 0.5')],
                      "a private prior counts records"),
    "a split that one member shows": ([SETTLES, BLOCKS, ("[unit]", '[split]\nunit = "household"\nepsilon = 2.0\n'
                                       'variables = ["region", "tenure"]\n[unit]')], "shown by one member of each"),
    "a record's block that reads it": ([SETTLES, ('s = ["sex"]', 's = ["sex"]\ngiven = ["region"]'),
                                        ('[[blocks]]\nvariables = ["region"]\n', "")], "the record reads region"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_rule_that_a_level_would_not_survive_is_refused(tmp_path, case):
    changes, words = REFUSED[case]
    with pytest.raises(SpecificationError, match=words):
        planned(tmp_path / "w", *changes)


def test_without_a_rule_the_file_is_refused_and_the_rule_is_named(tmp_path):
    with pytest.raises(DataError, match=re.escape("set differing = 'most frequent' in [unit]")):
        run(planned(tmp_path / "w", *MISSING, table=differing()), tmp_path / "out", release_key=KEY)
