"""Recodes on the command line: written by init, tried and settled by recode; what is refused leaves no file."""

import html
import json

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import postrand as pr
from postrand.cli import main
from postrand.data.frames import TableSource
from postrand.errors import SpecificationError
from postrand.plan import load_plan
from postrand.plan.infer import load_codebook
from postrand.recoding import Recode
from postrand.recoding.limits import Limits
from postrand.recoding.typed import entry_of
from postrand.support.warned import heard
from postrand.workflow.recode_trial import banded, trial_of
from postrand.workflow.unperturbed import findings

HAND = """\
# what the office decided
[[variables]]
name = "sex"
role = "key"
categories = ["f", "m"]
[[variables]]
name = "age" # the exact one
role = "key"
label = "Age"
[[variables]]
name = "job"
role = "key"
[[variables]]
name = "pay"
role = "drop"
type = "double"
[[recodes]]
variable = "age_group"
from = "age"
bands = [0, 50]
[[recodes]]
variable = "job"
merge_rare = 5
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file with decimal commas, in which two occupations are rare."""
    monkeypatch.chdir(tmp_path)
    jobs = ["nurse"] * 150 + ["cook"] * 143 + ["diver"] * 4 + ["pilot"] * 3
    rows = [f"{'fm'[k % 2]};{k % 90};{job};{k % 7},5" for k, job in enumerate(jobs)]
    path = tmp_path / "people.csv"
    path.write_text("sex;age;job;pay\n" + "\n".join(rows) + "\n")
    return path


def call(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.filterwarnings("ignore:recode of .*says by name which categories were merged")
def test_init_describes_the_results_and_protect_accepts_them(file, tmp_path):
    recodes = ["band=age:bands:0,30,60", "job=merge_rare:5;others=other job", "pay=rounding:2"]
    given = [part for recode in recodes for part in ("--recode", recode)]
    made = call("init", file, "--keys", "sex,band,job", "--other", "*", "--out", tmp_path / "work", *given)
    assert made.exit_code == 0, made.output
    assert (tmp_path / "work").stat().st_mode & 0o077 == 0  # a draft lists the values of the file
    book = load_codebook(tmp_path / "work" / "codebook.toml")
    assert book["band"].categories == ("0-29", "30-59", "60+")
    assert book["band"].ordered
    assert book["job"].categories == ("cook", "nurse", "other job")
    assert book.recode_of("job").kind.merged == ("diver", "pilot")
    assert book.recode_of("pay").type == "double"
    assert book["pay"].type == "double"
    assert "confidential" in (tmp_path / "work" / "codebook.toml").read_text()
    done = call("protect", "--plan", tmp_path / "work" / "plan.toml", "--out", tmp_path / "release")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "release" / "report.html").read_text()
    assert page.count('but its categories are <a href="#recoded">confidential</a>') == 1  # those of job, not of band
    assert pr.verify(tmp_path / "release", file=load_source(tmp_path))
    assert set(pr.read_release(tmp_path / "release").frame()["pay"].to_pylist()) <= {0.0, 2.0, 4.0, 6.0}


def load_source(folder):
    return pr.load_plan(folder / "work" / "plan.toml").source


def test_a_recode_is_tried_and_written(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND)
    with pytest.raises(SpecificationError, match="the rare categories are not written down"):
        load_codebook(book)
    tried = call("recode", book, file, "--json")
    assert tried.exit_code == 0, tried.output
    age, job = json.loads(tried.output)["recodes"]
    assert age["before"]["in all"] == 90
    assert age["after"]["in all"] == 2
    assert job["categories"] == {"Other": "5 to 19", "cook": "100 to 999", "nurse": "100 to 999"}
    assert book.read_text() == HAND
    assert call("recode", book, file, "--write").exit_code == 0
    text, found = book.read_text(), load_codebook(book)
    assert "# what the office decided" in text
    assert "# the exact one" in text
    assert found.names == ("sex", "age_group", "job", "pay")
    assert found["age_group"].label == "Age"
    assert found["job"].categories == ("Other", "cook", "nurse")
    assert call("recode", book, file, "--write").exit_code == 0
    assert book.read_text() == text  # nothing changes in silence


def test_what_a_person_says_of_missing_values_stays_and_what_changes_is_said(tmp_path):
    """The first bands of a quantity make missing one of the categories, with a word; a choice made then is kept."""
    path, book = tmp_path / "people.csv", tmp_path / "codebook.toml"
    rows = [f"{'fm'[i % 2]},{'' if i % 9 == 0 else 20 + i % 50}" for i in range(200)]
    path.write_text("\n".join(["sex,age", *rows]) + "\n", "utf-8")
    book.write_text(
        '[[variables]]\nname = "sex"\nrole = "key"\ntype = "string"\ncategories = ["f", "m"]\n'
        '[[variables]]\nname = "age"\nrole = "key"\ntype = "int64"\nmissing = "keep"\n'
        '[[recodes]]\nvariable = "age"\ntype = "int64"\nbands = [20, 40]\n',
        "utf-8",
    )
    told = call("recode", book, path, "--write")
    assert told.exit_code == 0, told.output
    assert load_codebook(book)["age"].missing == "category"
    assert "missing values count as one more of them: age. If they are to be released as missing" in told.output
    book.write_text(book.read_text().replace('missing = "category"', 'missing = "keep"'), "utf-8")
    again = call("recode", book, path, "--write")
    assert load_codebook(book)["age"].missing == "keep"
    assert "one more of them" not in again.output


def test_a_codebook_that_would_be_refused_is_not_written(file, tmp_path):
    book = tmp_path / "codebook.toml"
    wrong = 'others = "x"\n' + HAND + '\n[[variables]]\nname = "age"\nrole = "drop"\n'
    book.write_text(wrong)
    told = call("recode", book, file, "--write")
    assert told.exit_code == 3, told.output
    assert "unknown name 'others'" in told.stderr
    assert book.read_text() == wrong
    book.write_text(wrong.partition("\n")[2])
    assert "column 'age' is recoded into another variable" in call("recode", book, file, "--write").stderr


def test_a_written_recode_is_confidential_unless_it_says_how_it_was_decided(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND.replace("bands = [0, 50]", 'bands = [0, 50]\nprovenance = "public"') + RATE)
    written = call("recode", book, file, "--write")
    assert "counts of the file were shown" in written.output
    assert "can have been chosen: pay (rounding). The" in written.output  # what is rare, the file alone says
    told = {one.variable: one.provenance for one in load_codebook(book).recodes}
    assert told == {"age_group": "public", "job": "confidential", "pay": "confidential"}


RATE = """
[[recodes]]
variable = "pay"
type = "double"
rounding = 2
"""
RARE = (
    "# categories with fewer than 20 records: 2; with their labels they are published: merge them with [[recodes]], if "
    "that makes sense\n"
)


def test_notes_that_a_recode_makes_untrue_are_removed(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND.replace('name = "job"\n', f'{RARE}name = "job"\n'))
    assert "fewer than 20" in book.read_text()
    assert call("recode", book, file, "--write").exit_code == 0
    assert "fewer than 20" not in book.read_text()
    assert "# the exact one" in book.read_text()


def test_notes_stay_true_wherever_they_stand(file, tmp_path):
    book = tmp_path / "codebook.toml"
    alone = "# unperturbed, it singles out 2% of the records: set role = 'drop', or in the plan protect\n"
    old = "# Recoded from age before anything else: bands from each edge to below the next: 0, 30 and more.\n"
    text = HAND.replace(
        '[[variables]]\nname = "age"', f'# of sex\n\n{alone}# kept: age\n[[variables]]\n{old}name = "age"'
    )
    text = text.replace(
        '[[variables]]\nname = "job"\nrole = "key"\n', f'[[variables]]\nname = "job"\nrole = "key"\n{RARE}\n'
    )
    text = text.replace("# what the office decided\n", f"# what the office decided\n{RARE}")  # above sex, which stays
    book.write_text(text)
    assert call("recode", book, file, "--write").exit_code == 0
    found = book.read_text()
    assert "singles out" not in found
    assert found.count("fewer than 20") == 1  # that of sex, which has no recode
    assert "0, 30 and more" not in found
    assert "# Recoded from age before anything else: bands from each edge to below the next: 0, 50 and more." in found
    assert all(f"# {kept}" in found for kept in ("of sex", "kept: age", "the exact one", "what the office decided"))
    assert call("recode", book, file, "--write").exit_code == 0
    assert book.read_text() == found


def test_numbers_of_the_file_that_few_records_have_are_told_in_bands(file, tmp_path):
    (tmp_path / "codebook.toml").write_text(HAND + '[[recodes]]\nvariable = "pay"\ntop = 1250\ntype = "double"\n')
    lines = file.read_text().splitlines()
    exact = [f"{line.rpartition(';')[0]};{k},25" for k, line in enumerate(lines[1:], start=1_000)]
    file.write_text("\n".join([lines[0], *exact]) + "\n")
    told = call("recode", tmp_path / "codebook.toml", file, "--json")
    assert told.exit_code == 0, told.output
    pay = json.loads(told.output)["recodes"][-1]
    assert [*pay["categories"]] == ["below 1100", "1100 to <1200", "1200 and more"]
    assert set(pay["categories"].values()) == {"100 to 999"}
    text = call("recode", tmp_path / "codebook.toml", file).output
    assert "1249.25" not in text
    assert ".25" not in text


@given(st.dictionaries(st.integers(-(10**6), 10**6), st.integers(1, 60), min_size=1, max_size=60))
def test_bands_hold_every_record_and_none_a_few(counts):
    found = banded(counts)
    assert sum(found.values()) == sum(counts.values())
    assert len(found) <= 6
    assert len(found) == 1 or min(found.values()) >= 20


def test_the_next_step_names_what_was_given(file, tmp_path):
    made = call("init", file, "--other", "*", "--out", tmp_path / "work", "--recode", "age=bands:0,50")
    assert made.exit_code == 0, made.output
    book, plan = tmp_path / "work" / "codebook.toml", tmp_path / "work" / "plan.toml"
    assert f"postrand recode {book} --plan {plan} --write" in call("recode", book, "--plan", plan).output
    assert f"recode {book} {file} --decimal=, --write" in call("recode", book, file, "--decimal", ",").output
    assert f"Next: postrand design --plan {plan}" in call("recode", book, "--plan", plan, "--write").output
    assert f"Next: postrand recode {book} --plan {plan}." in call("recode", book, file, "--plan", plan).stderr


def test_a_recode_that_fails_has_the_exit_code_of_data(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND.replace("merge_rare = 5", 'groups = {A = ["nurse"]}'))
    failed = call("recode", book, file)
    assert "no place in its groups; got fewer than 5 of them, in 150 of the records read" in failed.output
    assert "20 records or more have each: 'cook'." in failed.output
    assert "diver" not in failed.output
    assert failed.exit_code == 4


def test_init_names_the_values_that_a_hierarchy_lacks_where_many_records_have_them(file, tmp_path):
    (tmp_path / "jobs.csv").write_text("nurse;care\n")
    told = call("init", file, "--out", tmp_path / "work", "--recode", f"job=hierarchy:{tmp_path / 'jobs.csv'}@1").stderr
    assert "no place in its hierarchy; got fewer than 5 of them, in 150 of the records read" in told
    assert "add a line for each of these values to the CSV file" in told
    assert told.rstrip().endswith("Of these, 20 records or more have each: 'cook'.")
    (tmp_path / "jobs.csv").write_text("nurse;care\ncook;kitchen\n")
    told = call("init", file, "--out", tmp_path / "work", "--recode", f"job=hierarchy:{tmp_path / 'jobs.csv'}@1").stderr
    assert told.rstrip().endswith("None of them is that of 20 records or more; rarer ones are not named.")
    assert "diver" not in told


def test_every_recode_without_a_place_for_values_is_told_at_once_with_its_own_values(file, tmp_path):
    (tmp_path / "jobs.csv").write_text("nurse;care\n")
    job, age = f"job=hierarchy:{tmp_path / 'jobs.csv'}@1", "old=age:bands:30,60"
    told = call("init", file, "--out", tmp_path / "work", "--recode", job, "--recode", age).stderr
    assert "2 problems" in told
    first, second = (line for line in told.splitlines() if "the column has values" in line)
    assert "recode of 'job' into 'job'" in first
    assert first.endswith("20 records or more have each: 'cook'.")
    assert "recode of 'age' into 'old'" in second
    assert "cook" not in second


def test_another_file_does_not_change_what_is_merged(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND)
    call("recode", book, file, "--write")
    file.write_text(file.read_text().replace("diver", "nurse"))
    told = call("recode", book, file)
    assert "by this file the rule would merge other categories" in told.output
    assert load_codebook(book).recode_of("job").kind.merged == ("diver", "pilot")


def test_merged_categories_that_stay_rare_are_said(file, tmp_path):
    said = "merged into 'Other' have together still fewer than 8 records"
    work = ["--out", tmp_path / "work", "--keys", "sex,age,job", "--drop", "pay"]
    assert call("init", file, *work, "--recode", "age=bands:0,30", "--recode", "job=merge_rare:8").exit_code == 0
    book, plan = tmp_path / "work" / "codebook.toml", tmp_path / "work" / "plan.toml"
    policy = tmp_path / "policy.toml"
    policy.write_text("[[rules]]\nmeasure = 'epsilon'\nat_most = 9\n")
    inside = ["--out", tmp_path / "out", "--dossier", tmp_path / "inside"]
    for command in (
        ["recode", book, file],
        ["check", "--plan", plan, "--policy", policy],
        ["compare", plan, plan],
        ["assess", file, "--separator", ";", "--keys", "sex", "--codebook", book, "--sensitive", "job"],
        ["protect", "--plan", plan, *inside],
    ):
        with heard() as warned:
            told = call(*command)
        assert told.exit_code == 0, told.output
        assert said in "".join((told.output, *warned)), command
    assert said in html.unescape((tmp_path / "inside" / "dossier.html").read_text())
    enough = call("init", file, "--out", tmp_path / "more", *work[2:], "--recode", "job=merge_rare:7")
    assert enough.exit_code == 0
    assert "still fewer" not in call("design", "--plan", tmp_path / "more" / "plan.toml").output


def test_the_figures_of_assess_say_which_keys_the_codebook_recodes(file, tmp_path):
    work = ["--out", tmp_path / "work", "--keys", "sex,age", "--drop", "pay,job", "--recode", "age=bands:0,30"]
    assert call("init", file, *work).exit_code == 0
    of_file = [file, "--separator", ";", "--codebook", tmp_path / "work" / "codebook.toml"]
    for more in ([], ["--measure", "suda"]):
        told = call("assess", *of_file, *more).output.splitlines()
        assert told[0].endswith(" records on sex, age, of the file as the codebook recodes it (age)")
        assert json.loads(call("assess", *of_file, *more, "--json").output)["recoded"] == ["age"]
    assert "recoded" not in json.loads(call("assess", *of_file, "--keys", "sex", "--json").output)


def test_no_small_count_is_shown(file, tmp_path):
    book = tmp_path / "codebook.toml"
    book.write_text(HAND.replace("merge_rare = 5", "merge_rare = 2"))
    told = call("recode", book, file, "--json")
    assert json.loads(told.output)["recodes"][1]["categories"]["diver"] == "1 to 4"


@pytest.mark.parametrize(
    ("recode", "said"),
    [
        ("age", "the recode has another form, 'age' alone"),
        (
            "low=age:missing=-8",
            "the part 'missing=-8' was not understood: behind 'missing' must stand ':', and there is '='; write ",
        ),
        ("sex=groups:woman=1;man=2", "groups have | between them"),
        (
            "low=age:missing",
            "the part 'missing' was not understood: behind 'missing' must stand ':', and nothing follows",
        ),
        ("age: round 10 missing=keep", "the part 'age: round 10 missing' was not understood: before the first '='"),
        (
            "low=age:rounding 10",
            "'rounding 10' was not understood: it is not of the form KIND:VALUE (did you mean 'roun",
        ),
        ("age=rounding:10;missing:99", "the part 'missing:99' was not understood: behind ; stand options"),
        ("age=rounding:10;missing:99", "Next: write ;missing=99."),
        ("age=rounding:10;missing=keep", "'missing=keep' was not understood: behind missing= stand codes"),
        ("age=band:1,2", "unknown kind of recode 'band' (did you mean 'bands'?)"),
        ("area=job:hirarchy:areas.csv@1", "unknown kind of recode 'hirarchy' (did you mean 'hierarchy'?); wanted"),
        ("area=job:frobnicate:areas.csv@1", "unknown kind of recode 'frobnicate'; wanted"),
        ("group=agee:bands:0,5", "no column 'agee' to recode into 'group' (did you mean 'age'?)"),
        ("age=bands:5,1", "the edges are not ascending"),
        ("job=hierarchy:none.csv@1", "the table cannot be read"),
        ("job=groups:A=nurse,cook", "has values that have no place in its groups; got fewer than 5 of them, in "),
        ("job=merge_rare:9999", "every category is rare by this rule"),
    ],
)
def test_a_wrong_recode_is_refused_and_nothing_is_written(recode, said, file, tmp_path):
    told = call("init", file, "--out", tmp_path / "work", "--recode", recode)
    assert told.exit_code == (4 if "no place" in said else 2)  # what a value does not fit is the file's
    assert said in told.stderr
    assert not (tmp_path / "work").exists()
    assert "diver" not in told.stderr


def test_a_codebook_without_recodes_is_refused(file, tmp_path):
    (tmp_path / "codebook.toml").write_text(HAND.partition("[[recodes]]")[0])
    told = call("recode", tmp_path / "codebook.toml", file)
    assert told.exit_code == 3
    assert "the codebook has no recodes" in told.stderr


def test_a_line_says_all_that_a_table_can():
    assert entry_of("a=bands:5;table=pay.csv") == {"variable": "a", "bands": 5, "table": "pay.csv"}
    assert entry_of("a=bands:5") == {"variable": "a", "bands": [5]}
    assert entry_of("a=top:85;bottom=16") == {"variable": "a", "top": 85, "bottom": 16}
    assert entry_of("p=visit:bands:2019-01,2020-03;unit=month;labels=before,after") == {
        "variable": "p",
        "from": "visit",
        "bands": ["2019-01", "2020-03"],
        "unit": "month",
        "labels": ["before", "after"],
    }


def test_the_limits_of_top_and_bottom_coding_are_labelled(file, tmp_path):
    made = call("init", file, "--other", "*", "--out", tmp_path / "work", "--recode", "age=top:85;bottom=80")
    assert made.exit_code == 0, made.output
    book = load_codebook(tmp_path / "work" / "codebook.toml")
    assert book["age"].categories == (80, 81, 82, 83, 84, 85)
    assert book["age"].labels == ("80 and less", "81", "82", "83", "84", "85 and more")


def test_the_source_of_a_plan_is_tried(file, tmp_path):
    made = call("init", file, "--other", "*", "--out", tmp_path / "work", "--recode", "age=bands:0,50")
    assert made.exit_code == 0, made.output
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute(f"CREATE TABLE persons AS SELECT * FROM read_csv('{file}', decimal_separator=',')")
    (tmp_path / "plan.toml").write_text('[source]\nuri = "duckdb:///people.duckdb"\ntable = "persons"\n')
    book = tmp_path / "work" / "codebook.toml"
    of_file, of_plan, of_table = (
        call("recode", book, *given, "--json")
        for given in ([file], ["--plan", tmp_path / "work" / "plan.toml"], ["--plan", tmp_path / "plan.toml"])
    )
    assert of_file.exit_code == 0, of_file.output
    assert of_plan.output == of_file.output
    found, wanted = (json.loads(one.output)["recodes"][0] for one in (of_table, of_file))
    assert found == wanted


def test_neither_file_nor_plan_is_refused(file, tmp_path):
    (tmp_path / "codebook.toml").write_text(HAND)
    (tmp_path / "plan.toml").write_text("[source]\n")
    assert call("recode", tmp_path / "codebook.toml").exit_code == 2
    both = call("recode", tmp_path / "codebook.toml", file, "--plan", tmp_path / "plan.toml")
    assert both.exit_code == 2
    none = call("recode", tmp_path / "codebook.toml", "--plan", tmp_path / "plan.toml")
    assert none.exit_code == 3
    assert "'file' is missing" in none.stderr


@pytest.mark.parametrize("second", ["age=rounding:10", "age=bands:0,30"])
def test_two_recodes_of_one_result_are_refused_before_anything_is_read(second, file, tmp_path):
    file.write_bytes(b"\xff\xfe not read")
    told = call("init", file, "--out", tmp_path / "work", "--recode", "age=bands:0,30", "--recode", second)
    assert told.exit_code == 2
    assert "two recodes of 'age'" in told.stderr
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("recode", "said"),
    [
        ("group=agee:bands:0,5", "in --recode, correct the column in RESULT=COLUMN:KIND:VALUE"),
        ("age=bands:50,90", ";missing=99"),
        ("job=bands:0,5", ";unit=year and say how they are written: ;format=%d.%m.%Y"),
        ("born=bands:1950,2000;unit=year", ";unit=year and say how they are written: ;format=%d.%m.%Y"),
    ],
)
def test_the_next_step_is_as_it_is_typed(recode, said, file, tmp_path):
    lines = file.read_text().splitlines()
    dated = [f"{line};{k % 28 + 1:02}.03.{1950 + k % 60}" for k, line in enumerate(lines[1:])]
    file.write_text("\n".join([f"{lines[0]};born", *dated]) + "\n")
    told = call("init", file, "--out", tmp_path / "work", "--recode", recode)
    assert told.exit_code == (2 if "agee" in recode else 4)
    assert said in told.stderr
    assert "[[recodes]]" not in told.stderr


def test_codes_for_no_answer_that_count_as_values_are_told_on_every_surface(tmp_path):
    ages = [str(18 + i % 60) for i in range(300)] + ["999"] * 9
    rows = [f"{'fm'[i % 2]},{age},{i % 70 + 0.5}" for i, age in enumerate(ages)]
    (tmp_path / "s.csv").write_text("\n".join(["sex,age,pay", *rows]))
    run, book, plan = CliRunner(), tmp_path / "codebook.toml", tmp_path / "plan.toml"
    bands = ["--recode", "age=bands:0,30,60", "--recode", "pay=bands:0,40"]
    asked = ["init", str(tmp_path / "s.csv"), "--key", "sex,age,pay", "--out", str(tmp_path), *bands]
    said = (
        "recode of 'age': 999 of the column 'age' can mean no answer, and counts as 60+. Next: if so, write missing = "
    )
    assert f"warning: {said}[999]" in run.invoke(main, asked).output
    assert f"# {said}" in book.read_text()
    assert 'labels = ["0 to <40", "40+"]' in book.read_text()  # 39.5 is not in "0-39"
    for asked in (["recode", str(book), "--plan", str(plan)], ["design", "--plan", str(plan)]):
        assert said in run.invoke(main, asked).output, asked
    (found,) = (one for one in findings(load_plan(plan)).found if one.code == "swallowed")
    assert found.about == ("age",)
    book.write_text(book.read_text().replace("bands = [0, 30, 60]", "bands = [0, 30, 60]\nmissing = [999]"))
    assert said not in run.invoke(main, ["recode", str(book), "--plan", str(plan)]).output
    scale = [f"{'fm'[i % 2]},{[1, 2, 3, 4, 5, 9, 99][i % 7]}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["sex,happy", *scale]))
    listed = "codes that can mean no answer count as values, in means too: happy (9, 99)"
    asked = ["init", str(tmp_path / "t.csv"), "--key", "sex", "--other", "happy", "--out", str(tmp_path / "t")]
    assert listed in run.invoke(main, asked).output
    assert listed in run.invoke(main, ["design", "--plan", str(tmp_path / "t" / "plan.toml")]).output
    asked = [*asked[:-1], str(tmp_path / "u"), "--recode", "happy=rounding:1"]
    assert "'happy' can mean no answer, and stays a number" in run.invoke(main, asked).output
    told = run.invoke(
        main, ["init", str(tmp_path / "s.csv"), "--out", str(tmp_path / "x"), "--recode", "sex=missing:9"]
    )
    assert "a code among categories is one of the missing_codes of its variable" in told.stderr


def test_only_recodes_that_are_new_become_confidential_by_being_written(tmp_path):
    """What 'init' described was chosen before counts were shown; a change of it, and groups, were not."""
    file, work = tmp_path / "s.csv", tmp_path / "w"
    rows = [f"{16 + i % 70},{1000 + 7 * i},{'abcd'[i % 4]}" for i in range(400)]
    file.write_text("\n".join(["age,pay,area", *rows]) + "\n")
    typed = ("--recode", "age=bands:0,30,60", "--recode", "pay=rounding:100 then top:3000")
    assert call("init", file, "--out", work, "--key", "age,area", "--other", "pay", *typed).exit_code == 0
    book, plan = work / "codebook.toml", work / "plan.toml"
    book.write_text(book.read_text() + '\n[[recodes]]\nvariable = "area"\ngroups = {X = ["a", "b"], Y = ["c", "d"]}\n')

    def marked():
        said = call("recode", book, "--plan", plan, "--write")
        assert said.exit_code == 0, said.output
        told = [line for line in said.output.splitlines() if line.startswith("Now confidential")]
        return {one.variable for one in load_codebook(book).recodes if one.is_confidential}, "".join(told)

    found, told = marked()
    assert found == {"area"}
    assert "can have been chosen: area (groups). The guarantee" in told
    assert f'write provenance = "public" in its [[recodes]] in {book}.' in told
    assert 'provenance = "confidential" # counts of the file were shown before; "public" if they' in book.read_text()
    book.write_text(book.read_text().replace("bands = [0, 30, 60]", "bands = [0, 25, 60]"))
    found, told = marked()
    assert found == {"area", "age"}
    assert "can have been chosen: age (bands). The guarantee" in told
    assert marked()[1] == ""
    book.write_text(book.read_text().replace('"confidential"', '"public"'))  # as the message says
    assert marked() == (set(), "")


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(top=70), ["No value is above 70, so that this limit changes nothing."]),
        (Limits(top=60), []),
        (Limits(top=60, bottom=10), ["No value is below 10, so that this limit changes nothing."]),
    ],
)
def test_a_limit_that_no_value_is_beyond_is_told(limits, told):
    """Codes for no answer are not beyond it: they are missing before."""
    source = TableSource(pa.table({"age": [20, 30, 70, 999] * 30}))
    found = trial_of(source, Recode("age", limits, missing=(999,)))
    assert [f"{text}." for text in found.note.split(".") if "changes nothing" in text] == told


def test_the_label_of_a_column_says_that_it_is_in_bands_or_grouped(tmp_path):
    """In the first codebook and in one that is changed; a label that a person wrote stays."""
    labels = {"age": "Age in years", "area": "District (2 digits)"}
    columns = {"age": [20 + i % 50 for i in range(200)], "area": [str(11 + i % 4) for i in range(200)]}
    table = pa.table(columns)
    fields = [field.with_metadata({"label": labels[field.name]}) for field in table.schema]
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(table.cast(pa.schema(fields)), path)
    recodes = ["--recode", "age=bands:0,40", "--recode", "area=groups:north=11,12|south=13,14"]
    made = call("init", path, "--keys", "age,area", *recodes, "--out", tmp_path / "w")
    assert made.exit_code == 0, made.output
    book = tmp_path / "w" / "codebook.toml"
    found = load_codebook(book)
    assert [found[n].label for n in ("age", "area")] == ["Age in years, in bands", "District (2 digits), grouped"]
    written = (
        book.read_text().replace("Age in years, in bands", "Age in years").replace("bands = [0, 40]", "bands = [0, 50]")
    )
    book.write_text(written.replace("District (2 digits), grouped", "Part of the country"))
    assert call("recode", book, path, "--write").exit_code == 0
    found = load_codebook(book)
    assert [found[n].label for n in ("age", "area")] == ["Age in years, in bands", "Part of the country"]
