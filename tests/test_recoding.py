"""Recoding as part of the codebook: each kind against a slow one, the files of a release, and what is refused."""

import calendar
import dataclasses
import datetime
import itertools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
import postrand.testing.recoding
from postrand.codebook import Codebook, Variable
from postrand.columns.recoded import recoded
from postrand.data.frames import TableSource
from postrand.engines.database import open_records
from postrand.errors import DataError, PostrandError, SpecificationError
from postrand.plan import load_plan
from postrand.plan.infer import load_codebook
from postrand.recoding import Recode
from postrand.recoding.apply import has_place
from postrand.recoding.bands import Bands, quantile_edges
from postrand.recoding.base import kinds
from postrand.recoding.moments import moments
from postrand.recoding.rare import MergeRare
from postrand.release import fields
from postrand.support.randomness import ReleaseKey
from postrand.workflow.pipeline import run
from tests.json_schema import problems

BOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["f", "m"]
[[variables]]
name = "age_group"
role = "key"
categories = ["0-17", "18-64", "65+"]
ordered = true
[[variables]]
name = "region"
role = "key"
categories = ["A", "B"]
[[variables]]
name = "income"
role = "other"
type = "int64"
[[recodes]]
variable = "age_group"
from = "age"
bands = [0, 18, 65]
[[recodes]]
variable = "region"
hierarchy = "regions.csv"
level = 1
[[recodes]]
variable = "income"
rounding = 1000
"""
PLAN = """
[source]
file = "people.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 9.0
[[blocks]]
variables = ["age_group", "region"]
privacy = {model = "differential", epsilon = 2.0}
[[blocks]]
variables = ["sex"]
privacy = {model = "differential", epsilon = 1.0}
"""


@pytest.fixture
def place(tmp_path):
    """A file with ages, regions and incomes, the codebook of what is made of them, and a plan."""
    rng, n = np.random.default_rng(3), 400
    columns = {
        "sex": rng.choice(["f", "m"], n),
        "age": rng.integers(0, 95, n).astype(str),
        "region": rng.choice(["A1", "A2", "B1"], n),
        "income": rng.integers(500, 3500, n).astype(str),
    }
    rows = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "people.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "regions.csv").write_text("A1;A;*\nA2;A;*\nB1;B;*\n")
    (tmp_path / "codebook.toml").write_text(BOOK)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_kind_keeps_the_laws_of_the_family(kind):
    postrand.testing.recoding.check(kind)


def test_bands_are_those_of_a_search_by_hand():
    edges, rng = (-5, 0, 2.5, 30), np.random.default_rng(1)
    values = np.concatenate([rng.uniform(-9, 50, 300), edges])
    made = Bands(edges, below="low").to_arrow(pa.array(values)).to_pylist()
    names = ("low", "-5 to <0", "0 to <2.5", "2.5 to <30", "30+")
    assert made == [names[sum(v >= edge for edge in edges)] for v in values]


def test_whole_edges_have_names_of_whole_numbers():
    assert Bands((0, 1, 15, 65)).categories() == ("0", "1-14", "15-64", "65+")
    assert Bands((-10, -5, 0)).categories() == ("-10 to -6", "-5 to -1", "0+")
    assert Bands((1950, 1960), unit="year").categories() == ("1950-1959", "1960+")


@pytest.mark.parametrize(
    ("unit", "edges", "names"),
    [
        ("year", (1990, 2000), ("1990-1999", "2000+")),
        ("month", ("1990-01", "1999-12"), ("1990-01 to 1999-11", "1999-12 and later")),
        ("day", ("1990-01-01", "1999-12-31"), ("1990-01-01 to 1999-12-30", "1999-12-31 and later")),
    ],
)
def test_bands_of_dates_are_the_same_in_every_type(unit, edges, names):
    dates = [
        datetime.date(1990, 1, 1),
        datetime.date(1999, 11, 30),
        datetime.date(1999, 12, 31),
        datetime.date(2004, 2, 29),
    ]
    want = [names[date.isoformat() >= str(edges[1])] for date in dates]
    kind = Bands(edges, unit=unit)
    texts = [date.isoformat() for date in dates]
    for column in (
        pa.array(dates),
        pa.array(dates).cast(pa.timestamp("ms")),
        pa.array(texts),
        pa.array([f"{t} 23:59:59" for t in texts]),
    ):
        assert kind.to_arrow(column).to_pylist() == want
    german = dataclasses.replace(kind, format="%d.%m.%Y")
    assert german.to_arrow(pa.array([date.strftime("%d.%m.%Y") for date in dates])).to_pylist() == want


def test_times_of_day_are_in_bands_of_hours():
    kind = Bands((0, 6, 22), unit="hour")
    texts = ["05:59", "6:00", "23:59:59"]
    assert kind.to_arrow(pa.array(texts)).to_pylist() == ["0-5", "6-21", "22+"]
    times = pa.array([datetime.time(5, 59), datetime.time(6), datetime.time(23, 59)])
    assert kind.to_arrow(times).to_pylist() == ["0-5", "6-21", "22+"]


def test_quantiles_of_a_public_table_share_its_weight():
    """Against the sorted list in which each number stands as often as its weight says."""
    rng = np.random.default_rng(2)
    values, weights = rng.permutation(np.arange(10.0, 110.0)), rng.integers(1, 9, 100)
    rows = [["pay", "persons"], *([f"{v}", f"{w}"] for v, w in zip(values, weights, strict=True))]
    every = np.sort(np.repeat(values, weights))
    assert quantile_edges(rows, 4) == tuple(every[k * every.size // 4] for k in range(4))


def test_rounding_and_limits_are_those_of_exact_arithmetic():
    rng = np.random.default_rng(4)
    whole = rng.integers(-5000, 5000, 200)
    made = Recode.from_dict({"variable": "x", "rounding": 250}).apply(pa.array(whole))
    assert made.to_pylist() == [250 * math.floor(int(v) / 250 + 0.5) for v in whole]
    assert pa.types.is_integer(made.type)
    made = Recode.from_dict({"variable": "x", "rounding": 0.05}).apply(pa.array([0.11, 0.13, -0.02]))
    assert made.to_pylist() == [0.1, 0.15, 0.0]
    made = Recode.from_dict({"variable": "x", "bottom": -100, "top": 99.5}).apply(pa.array([-101, 0, 100]))
    assert made.to_pylist() == [-100.0, 0.0, 99.5]


def test_rare_categories_are_those_below_the_rule():
    counts = {"a": 50, "b": 3, "c": 2, "d": 45}
    assert MergeRare(3).settled(counts).merged == ("c",)
    assert MergeRare(0.031).settled(counts).merged == ("b", "c")
    with pytest.raises(SpecificationError, match="every category is rare"):
        MergeRare(100).settled(counts)
    with pytest.raises(SpecificationError, match="'a' is a category of the file that is not rare"):
        MergeRare(3, others="a").settled(counts)


def test_missing_values_stay_missing_and_codes_for_no_answer_become_missing():
    recode = Recode.from_dict({"variable": "age", "missing": [-1, 999], "bands": [0, 50]})
    column = pa.chunked_array([pa.array([10.0, None, 999.0]), pa.array([math.nan, -1.0, 50.0])])
    assert recode.apply(column).to_pylist() == ["0-49", None, None, None, None, "50+"]
    assert recode.apply(column.dictionary_encode()).to_pylist() == ["0-49", None, None, None, None, "50+"]
    # What a dictionary lists and no record has need have no place.
    held = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([7, -500]))
    assert recode.apply(held).to_pylist() == ["0-49", None]


def test_a_recode_comes_back_from_its_plain_data(place):
    for recode in load_codebook(place / "codebook.toml").recodes:
        assert Recode.from_dict(json.loads(json.dumps(recode.to_dict()))) == recode
    book = load_codebook(place / "codebook.toml")
    book.save(place / "again.toml")
    assert load_codebook(place / "again.toml") == book


def test_a_release_of_recoded_records_states_it_and_is_verified(place):
    made = run(load_plan(place / "plan.toml"), place / "release", release_key=ReleaseKey.from_seed(3))
    frame = made.frame()
    assert set(frame.column("age_group").to_pylist()) <= {"0-17", "18-64", "65+"}
    assert all(value % 1000 == 0 for value in frame.column("income").to_pylist())
    assert "age" not in frame.column_names
    assert pr.verify(place / "release", file=place / "people.csv", release_key=ReleaseKey.from_seed(3))
    again = pr.read_release(place / "release")
    assert again.codebook == made.codebook
    assert again.codebook.recode_of("region").kind.table == (("A1", "A"), ("A2", "A"), ("B1", "B"))
    ddi = (place / "release" / "ddi.xml").read_text()
    assert "<drvdesc>Recoded from age before anything else: bands" in ddi
    report = (place / "release" / "report.html").read_text()
    assert "rounding to multiples of 1000" in report
    assert "age_group: from age, bands" in (place / "release" / "README.txt").read_text()


def test_a_release_without_recodes_has_the_codebook_of_before(place):
    book = re.sub(r"(?s)\[\[recodes\]\].*", "", BOOK).replace('name = "age_group"', 'name = "age"')
    book = book.replace('["0-17", "18-64", "65+"]', json.dumps([str(n) for n in range(95)])).replace(
        '["A", "B"]', '["A1", "A2", "B1"]'
    )
    (place / "codebook.toml").write_text(book)
    (place / "plan.toml").write_text(PLAN.replace("age_group", "age"))
    (place / "plan.toml").write_text((place / "plan.toml").read_text() + '[release]\nas_is = ["income"]\n')
    run(load_plan(place / "plan.toml"), place / "release", release_key=ReleaseKey.from_seed(3))
    assert json.loads((place / "release" / "codebook.json").read_text())["schema"] == "postrand/codebook/1"


def test_the_draws_are_those_of_a_file_that_was_recoded_before(place):
    """Recoding is a function of the record: the same key gives the same values as from a file with the results."""
    made = run(load_plan(place / "plan.toml"), place / "release", release_key=ReleaseKey.from_seed(3))
    source = open_records(place / "people.csv", load_codebook(place / "codebook.toml"))
    table = pa.Table.from_batches(source.batches())
    rows = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())]
    (place / "people.csv").write_text("\n".join(rows) + "\n")
    (place / "codebook.toml").write_text(re.sub(r"(?s)\[\[recodes\]\].*", "", BOOK))
    other = run(load_plan(place / "plan.toml"), place / "other", release_key=ReleaseKey.from_seed(3))
    assert made.frame().equals(other.frame())
    assert (place / "release" / "data.csv").read_bytes() == (place / "other" / "data.csv").read_bytes()


def _wrong(entry: str, place: Path) -> str:
    (place / "codebook.toml").write_text(f"{BOOK}\n{entry}")
    with pytest.raises(SpecificationError) as told:
        load_codebook(place / "codebook.toml")
    return str(told.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('[[recodes]]\nvariable = "sex"\nbands = [5, 1]', "the edges are not ascending"),
        ('[[recodes]]\nvariable = "region"\ntop = 3', "two recodes of 'region'"),
        ('[[recodes]]\nvariable = "wealth"\ntop = 3', "no variable 'wealth' in the codebook"),
        ('[[recodes]]\nvariable = "sex"\ntop = 3\nrounding = 2', "two kinds of recoding in one recode"),
        ('[[recodes]]\nvariable = "sex"\nband = [1, 2]', "did you mean 'bands'?"),
        (
            '[[recodes]]\nvariable = "sex"\nbands = [1, 2]\nunits = "year"',
            "unknown option 'units' (did you mean 'unit'?)",
        ),
        ('[[recodes]]\nvariable = "area"\nfrom = "sex"\ntop = 3', "column 'sex' is recoded into another variable"),
        (
            '[[recodes]]\nvariable = "sex"\nhierarchy = "regions.csv"\nlevel = 7',
            "the hierarchy does not have this level",
        ),
        ('[[recodes]]\nvariable = "sex"\nmissing = ["x"]\ntype = "whole"\ntop = 3', "unknown type 'whole'"),
        ('[[recodes]]\nvariable = "sex"\n[recodes.groups]\nx = [["f"]]', "a group contains what is no category"),
        ('[[recodes]]\nvariable = "sex"\nhierarchy = "none.csv"\nlevel = 1', "the table cannot be read"),
        ('[[recodes]]\nvariable = "sex"\nmerge_rare = 20', "the rare categories are not written down"),
        ('[[recodes]]\nvariable = "sex"\n[recodes.groups]\nx = ["f"]\ny = ["f", "m"]', "category 'f' is in two groups"),
        ('[[recodes]]\nvariable = "sex"\n[recodes.groups]\nx = ["f", "m"]', "are not those that the recode makes"),
    ],
)
def test_what_is_wrong_with_a_recode_is_said(entry, said, place):
    assert said in _wrong(entry, place)


def test_all_problems_are_said_at_once(place):
    text = _wrong('[[recodes]]\nvariable = "a"\nbands = [2, 1]\n[[recodes]]\nvariable = "b"\nrounding = 0', place)
    assert "not ascending" in text
    assert "not a positive number" in text


def test_a_recoded_variable_is_not_treated_by_ranks_too(place):
    text = PLAN + '[[numerical]]\nvariables = ["income"]\nmethod = {model = "rank-blocks", k = 10}\n'
    (place / "plan.toml").write_text(text)
    with pytest.raises(SpecificationError, match="variable 'income' is recoded"):
        load_plan(place / "plan.toml")


@pytest.mark.parametrize(
    ("column", "recode", "said"),
    [
        (["x", "secret"], {"groups": {"A": ["x"]}}, "have no place in its groups"),
        (["x", "secret"], {"hierarchy": "h.csv", "level": 1, "table": {"x": "A"}}, "have no place in its hierarchy"),
        ([7, -7777], {"bands": [0, 10]}, "has values below 0, where its bands begin"),
        (["7", "secret"], {"bands": [0, 10]}, "values that are not numbers"),
        (["2020-01-01", "secret"], {"bands": [2000], "unit": "year"}, "values that are no dates or times"),
    ],
)
def test_a_value_without_a_place_is_refused_and_not_shown(column, recode, said):
    with pytest.raises(DataError, match=said) as told:
        Recode.from_dict({"variable": "v", **recode}).apply(pa.array(column))
    assert "secret" not in str(told.value)
    assert "7777" not in str(told.value)
    assert "Next:" in str(told.value)


@pytest.mark.parametrize(
    ("column", "recode"),
    [
        (["x", "y", "z"], {"groups": {"A": ["x", "z"]}}),
        (["x", "y"], {"hierarchy": "h.csv", "level": 1, "table": {"x": "A"}}),
        ([7, -7777, 10, 25], {"bands": [0, 10]}),
        (["7", "-1", "none", "12.5", " 3", "seven"], {"bands": [0, 10]}),
        (["one", "two"], {"bands": [0, 10]}),
        (["2020-01-01", "1999-12-31", "2020-02-31"], {"bands": [2000], "unit": "year"}),
        ([3, 12, 40], {"steps": [{"bands": [10, 20]}, {"groups": {"old": ["20+"]}, "others": "young"}]}),
    ],
)
def test_which_values_have_a_place_is_found_of_all_at_once_as_of_each_alone(column, recode):
    made = Recode.from_dict({"variable": "v", **recode})

    def alone(value):
        try:
            made.apply(pa.array([value]))
        except DataError:
            return False
        return True

    wanted = [alone(value) for value in column]
    assert has_place(made.kind, pa.array(column)).tolist() == wanted
    assert not all(wanted)


DAYS = ["2007-02-01", "31.02.2007", "30.02.2008", "31.04.2007", "29.02.2007"]


@pytest.mark.parametrize("bad", DAYS)
@pytest.mark.parametrize("kind", [{}, {"steps": [{}, {"groups": {"old": ["2000-2004"]}, "others": "young"}]}])
def test_a_value_that_is_no_date_of_the_format_is_told_as_that_and_not_as_one_below_the_bands(bad, kind):
    bands = {"bands": [2000, 2005], "unit": "year", "format": "%d.%m.%Y"}
    recode = {"steps": [bands, kind["steps"][1]]} if kind else bands
    column = pa.array([f"{day}.02.2004" for day in range(1, 30)] * 9 + [bad])
    with pytest.raises(DataError) as told:
        Recode.from_dict({"variable": "born", **recode}).apply(column)
    (said,) = told.value.problems
    assert "values that are no dates or times; got fewer than 5 of them, in fewer than 5 of the records" in said
    assert "wanted days that exist, as the format says: '%d.%m.%Y'. Next: correct them in the file" in said
    assert bad not in said
    assert "lies below" not in said


def test_months_without_a_day_have_bands_of_years_and_months():
    born = pa.array(["2008-12", "2009-01", "2011-07", "2009-13"])
    by_month = Recode.from_dict(
        {"variable": "born", "bands": ["2009-01", "2010-01"], "unit": "month", "below": "first"}
    )
    assert by_month.apply(born[:3]).to_pylist() == ["first", "2009-01 to 2009-12", "2010-01 and later"]
    by_year = Recode.from_dict({"variable": "born", "bands": [2008, 2010], "unit": "year"})
    assert by_year.apply(born[:3]).to_pylist() == ["2008-2009", "2008-2009", "2010+"]
    with pytest.raises(DataError, match="values that are no dates or times"):
        by_year.apply(born)


@pytest.mark.parametrize(("edges", "unit"), [(["2009-01", "2010-01"], "month"), (["2009-01-01"], "day")])
def test_edges_that_are_dates_need_a_unit_which_is_named(edges, unit):
    with pytest.raises(SpecificationError, match=f"wanted numbers. Next: of dates, set unit = '{unit}'"):
        Recode.from_dict({"variable": "born", "bands": edges})


def test_a_date_below_the_bands_is_told_as_that():
    recode = Recode.from_dict({"variable": "born", "bands": [2000], "unit": "year", "format": "%d.%m.%Y"})
    with pytest.raises(DataError, match=r"values below 2000, where its bands begin.*Next: name what lies below"):
        recode.apply(pa.array(["01.02.1999", "03.02.2007"]))


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d %b %Y", "%F", "%Y%m%d", "%d/%m/%y"])
def test_the_dates_that_a_format_reads_are_those_of_the_calendar(form):
    form_of = {"%F": "%Y-%m-%d"}.get(form, form)
    for year, month, day in itertools.product((1999, 2000, 2007, 2008), range(1, 13), range(1, 32)):
        text = datetime.date(year, month, 1).strftime(form_of.replace("%d", "@")).replace("@", f"{day:02}")
        (found,) = moments(pa.array([text]), "day", form)
        exists = day <= calendar.monthrange(year, month)[1]
        assert np.isnan(found) != exists
        if exists:
            assert found == (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days


def test_an_unknown_column_and_a_taken_name_are_refused():
    source = TableSource(pa.table({"age": [1], "group": [2]}))
    recodes = [
        Recode.from_dict({"variable": name, "from": old, "top": 3}) for name, old in (("a", "agee"), ("group", "age"))
    ]
    with pytest.raises(DataError) as told:
        recoded(source, recodes)
    assert "no column 'agee' to recode into 'a'" in str(told.value)
    assert "the file already has a column 'group'" in str(told.value)


def test_two_results_of_one_column_stand_in_its_place():
    source = TableSource(pa.table({"x": [1], "age": [20], "y": [2]}))
    recodes = [
        Recode.from_dict({"variable": "age", "top": 10}),
        Recode.from_dict({"variable": "g", "from": "age", "bands": [0]}),
    ]
    made = recoded(source, recodes)
    assert made.schema.names == ["x", "age", "g", "y"]
    assert pa.Table.from_batches(made.batches()).to_pylist() == [{"x": 1, "age": 10, "g": "0+", "y": 2}]
    assert pa.Table.from_batches(made.batches(["g", "y"])).to_pylist() == [{"g": "0+", "y": 2}]


def test_confidential_counts_are_marked_in_the_certificate():
    rare = Recode.from_dict({"variable": "job", "merge_rare": 5, "merged": ["astronaut"]})
    book = Codebook((Variable("job", "key", ("nurse", "Other")),), recodes=(rare,))
    mechanism = pr.Mechanism({"job": pr.randomised_response(2, 1.0)}, book)
    said = pr.certify(mechanism, []).not_covered
    assert any("does not cover the recodes of job: confidential counts" in text for text in said)
    assert rare.to_dict()["provenance"] == "confidential"


def test_other_recodes_can_be_marked_too_and_rare_categories_must_be():
    entry = {"variable": "age", "bands": [0, 50], "provenance": "confidential"}
    recode = Recode.from_dict(entry)
    assert (recode.is_confidential, recode.to_dict()) == (True, entry)
    book = Codebook((Variable("age", "key", ("0-49", "50+")),), recodes=(recode,))
    mechanism = pr.Mechanism({"age": pr.randomised_response(2, 1.0)}, book)
    certificate = pr.certify(mechanism, [pr.DifferentialPrivacy(1.0)]).of_file(mechanism, 1000, 1e-6)
    assert {"code": "confidential_recodes", "variables": ["age"]} in certificate.file.fails
    with pytest.raises(SpecificationError, match="looks at the file, so it is not public"):
        Recode.from_dict({"variable": "job", "merge_rare": 5, "provenance": "public"})


def test_the_suite_of_the_family_finds_a_kind_that_looks_at_other_records(monkeypatch):
    monkeypatch.setattr(
        MergeRare, "to_arrow", lambda self, column: pa.array([str(len(column))] * len(column), pa.string())
    )
    with pytest.raises(AssertionError, match="depends on other records"):
        postrand.testing.recoding.check(MergeRare)


KEPT = Path(__file__).parent / "fixtures" / "releases" / "3" / "recoded"


def test_a_release_with_recodes_is_read_and_verified_for_ever():
    """It was made by the first version that has recodes, and is never made again."""
    assert pr.verify(KEPT).verdict == "verified"
    found = pr.read_release(KEPT)
    assert json.loads((KEPT / "codebook.json").read_text())["schema"] == "postrand/codebook/2"
    assert [type(recode.kind).__name__ for recode in found.codebook.recodes] == [
        "Groups",
        "Hierarchy",
        "MergeRare",
        "Bands",
        "Limits",
    ]
    assert any("occupation" in text and "recodes" in text for text in found.not_covered)
    data = json.loads((KEPT / "codebook.json").read_text())
    schema = fields.schema_of(data, "codebook.json")
    assert list(problems(data, schema, schema)) == []


def test_a_kind_that_this_version_does_not_know_is_refused(tmp_path):
    root = tmp_path / "release"
    shutil.copytree(KEPT, root)
    text = (root / "codebook.json").read_text()
    (root / "codebook.json").write_text(text.replace('"merge_rare"', '"melt"'))
    with pytest.raises(PostrandError, match="no kind of recoding"):
        pr.read_release(root)


def test_the_codebook_of_a_release_opens_no_file(place):
    """A table that is not in it is not read from the machine of whoever verifies it."""
    entry = {"variable": "region", "hierarchy": str(place / "regions.csv"), "level": 1}
    with pytest.raises(SpecificationError, match="no folder to read it from"):
        Recode.from_dict(entry)


def test_a_large_hierarchy_is_read_quickly(tmp_path):
    (tmp_path / "codes.csv").write_text("".join(f"{n};{n // 2};*\n" for n in range(40_000)))
    entry = {"variable": "job", "hierarchy": "codes.csv", "level": 1}
    assert len(Recode.from_dict(entry, folder=tmp_path).kind.categories()) == 20_000


def test_a_stated_provenance_stays_stated_in_a_codebook_and_is_none_in_a_release(tmp_path):
    stated, silent = ({"variable": "age", "bands": [0, 18], **more} for more in ({"provenance": "public"}, {}))
    variables = [{"name": "age", "role": "key", "categories": ["0-17", "18+"]}]
    for number, entry in enumerate((stated, silent)):
        book = Codebook.from_dict({"variables": variables, "recodes": [entry]})
        book.save(tmp_path / f"{number}.toml")
        assert ('provenance = "public"' in (tmp_path / f"{number}.toml").read_text()) is (entry is stated)
        assert load_codebook(tmp_path / f"{number}.toml") == book
        assert "provenance" not in book.to_dict()["recodes"][0]
