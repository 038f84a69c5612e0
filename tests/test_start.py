"""Starting from a file: plans that load as they are written."""

import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.errors import ReleaseError, UsageError
from postrand.plan import load_plan
from postrand.plan.infer import load_codebook
from postrand.privacy import DifferentialPrivacy
from postrand.release.bundle import check_targets
from postrand.workflow.draft import initialise, start
from postrand.workflow.draft_roles import assign_roles
from postrand.workflow.pipeline import run


def test_what_is_written_is_a_valid_plan_for_any_column_name(tmp_path):
    names = ['a "quoted" name', "naïve", "x.y", " blanks "]
    pq.write_table(pa.table({n: ["p", "q"] * 2 for n in names}), tmp_path / "a.parquet")
    _, plan = initialise(tmp_path / "a.parquet", tmp_path / "work", {"key": names[:3], "other": ["*"]}, epsilon=0.5)
    loaded = load_plan(plan)
    assert [b.variables for b in loaded.blocks] == [(n,) for n in names[:3]]
    assert loaded.privacy == DifferentialPrivacy(1.5)
    assert loaded.source == (tmp_path / "a.parquet").resolve()
    assert "\n# The claim for all perturbed values" in plan.read_text()


def test_a_file_of_one_record_is_said_to_be_too_small(tmp_path):
    (tmp_path / "one.csv").write_text("sex,age\n1,46\n")
    asked = [str(tmp_path / "one.csv"), "--keys", "sex,age", "--out", str(tmp_path / "new")]
    told = CliRunner().invoke(main, ["advise", *asked])
    assert (told.exit_code, "fewer than 10 records" in told.output) == (4, True)
    told = CliRunner().invoke(main, ["init", *asked])
    assert "warning: the file has fewer than 10 records" in told.output
    assert "decide on sex" not in told.output
    (tmp_path / "same.csv").write_text("sex\n" + "1\n" * 20)
    told = CliRunner().invoke(main, ["advise", str(tmp_path / "same.csv"), "--keys", "sex"])
    assert "nothing can be perturbed: sex has no two categories" in told.output


def test_a_sum_of_numbers_with_decimal_commas_is_named(tmp_path):
    rows = [(f"k{k % 2}", 3 * k + 0.25, 7 * (k * k % 101) + 0.5) for k in range(300)]
    text = "\n".join(";".join((a, *(str(x).replace(".", ",") for x in (b, c, b + c)))) for a, b, c in rows)
    (tmp_path / "sum.csv").write_text(f"k;wage;rent;total\n{text}\n")
    asked = ["--keys", "k", "--other", "*", "--decimal", ",", "--out", str(tmp_path)]
    told = CliRunner().invoke(main, ["init", str(tmp_path / "sum.csv"), *asked])
    assert told.exit_code == 0, told.output
    assert "linked: total = wage + rent" in told.output
    (tmp_path / "say.csv").write_text("k,say\n" + "a,call me\nb,moved\na,moved\nb,call me\n" * 20)
    asked = ["init", str(tmp_path / "say.csv"), "--keys", "k", "--other", "*", "--out", str(tmp_path / "say")]
    assert "released as they are, by '*': say;" in CliRunner().invoke(main, asked).output


def test_every_wrong_role_is_named_at_once():
    with pytest.raises(UsageError) as caught:
        assign_roles(["a", "b"], {"key": ["a", "c"], "drop": ["a", "*"], "other": ["*"], "kee": ["b"]})
    text = str(caught.value)
    for expected in ("no column 'c'", "'a' has two roles", "'*' is given to two roles", "did you mean 'key'"):
        assert expected in text


def test_weight_household_and_record_key_of_a_csv_file_have_no_categories(tmp_path):
    (tmp_path / "a.csv").write_text("w,h,id,sex\n100,7,1,F\n100,7,2,M\n100,8,3,F\n", "utf-8")
    roles = {"weight": ["w"], "household": ["h"], "record_key": ["id"], "key": ["sex"]}
    book, _ = initialise(tmp_path / "a.csv", tmp_path / "work", roles)
    found = {v.name: (v.role, v.type, v.categories) for v in load_codebook(book).variables}
    assert found == {
        "w": ("weight", "double", ()),
        "h": ("household", "int64", ()),
        "id": ("record_key", "int64", ()),
        "sex": ("key", "string", ("F", "M")),
    }
    assert "role = 'record_key'" not in book.read_text("utf-8")


def test_a_weight_that_is_no_number_stays_text(tmp_path):
    (tmp_path / "a.csv").write_text("w,sex\nheavy,F\nlight,M\n", "utf-8")
    book, _ = initialise(tmp_path / "a.csv", tmp_path / "work", {"weight": ["w"], "key": ["sex"]})
    assert next((v.type, v.categories) for v in load_codebook(book).variables) == ("string", ())


N = 300
COLUMNS = {
    "time32": pa.array([1, 2, 3] * 100, pa.time32("s")),
    "time64": pa.array([1, 2, 3] * 100, pa.time64("us")),
    "duration": pa.array([1, 2, 3] * 100, pa.duration("s")),
    "date": pa.array([1, 2, 3] * 100, pa.date32()),
    "timestamp": pa.array([1, 2, 3] * 100, pa.timestamp("us", "UTC")),
    "times": pa.array(range(N), pa.time32("s")),
    "constant": pa.array(["x"] * N),
    "missing": pa.nulls(N),
    "list": pa.array([[1], [2], [3]] * 100),
    "record": pa.array([{"a": 1}] * N),
    "ids": pa.array([f"id {i}" for i in range(N)]),
    "decimal": pa.array([1, 2, 3] * 100, pa.decimal128(5, 2)),
}


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")  # the columns repeat each other
@pytest.mark.parametrize("role", ["key", "other", ""])
def test_what_is_written_is_accepted_once_roles_and_columns_are_decided(tmp_path, role):
    pq.write_table(pa.table({"sex": ["F", "M"] * 150, **COLUMNS}), tmp_path / "a.parquet")
    given = [name for name in COLUMNS if role and name not in ("list", "record")]
    roles = {"key": ["sex"]} | ({role: [*["sex"] * (role == "key"), *given]} if given else {})
    made = start(tmp_path / "a.parquet", tmp_path / "work", roles)
    assert set(made.undecided) == ({"times", "ids"} if role else set())
    assert set(made.without_role) == (set() if role else COLUMNS.keys() - {"list", "record"})
    made.codebook.write_text(made.codebook.read_text("utf-8").replace('role = ""', 'role = "other"'), "utf-8")
    assert set(made.settling) == ({"time32", "time64", "duration"} if role == "key" else set())
    assert not made.keys  # of the key without any value nothing leaves
    plan = made.plan.read_text("utf-8").replace("as_is = []\n", "")
    as_is = ["times", "ids", *made.keys, *made.settling]
    made.plan.write_text(plan.replace("[release]\n", f"[release]\nas_is = {as_is}\n"), "utf-8")
    released = run(load_plan(made.plan), tmp_path / "out", release_key=b"k" * 32)
    assert set(released.codebook.names) == {"sex", *COLUMNS} - {"list", "record"}


def test_weights_are_not_perturbed_while_roles_are_empty_and_few_records_make_no_categories(tmp_path):
    mass = [f"{20 + i % 94}" for i in range(344)]
    table = pa.table({"sex": ["F", "M"] * 172, "weight": [100, 200] * 172, "mass": mass})
    pq.write_table(table, tmp_path / "a.parquet")
    made = start(tmp_path / "a.parquet", tmp_path / "work", {"other": ["*"]})
    assert load_codebook(made.codebook)["mass"].categories == ()
    other = start(tmp_path / "a.parquet", tmp_path / "empty", {})
    assert "weight" not in other.plan.read_text("utf-8").split("[[blocks]]", 1)[1]
    kept = start(tmp_path / "a.parquet", tmp_path / "key", {"key": ["mass"], "other": ["*"]})
    assert len(load_codebook(kept.codebook)["mass"].categories) == 94


BODIES = {"sex": ["f", "m"] * 300, "kilos": [1.5, 2.25] * 300, "weight": [50 + k % 50 for k in range(600)]}


@pytest.mark.parametrize("given", [[], ["--weight", "weight"]])
def test_the_weight_of_a_body_is_not_taken_for_that_of_a_sample_without_a_word(tmp_path, given):
    pq.write_table(pa.table(BODIES), tmp_path / "s.parquet")
    out = tmp_path / "w"
    asked = ["init", str(tmp_path / "s.parquet"), "--keys", "sex", *given, "--out", str(out), "--other", "kilos"]
    told = CliRunner().invoke(main, asked).output
    if given:
        assert "warning: weight: the sampling weight looks like the weight of a body" in told
    else:
        assert f"looks like the weight of a body: weight. Next: if it is one, set role = 'weight' in {out}" in told


@pytest.mark.parametrize(
    ("given", "answer", "weight"),
    [
        ([], "y", ("weight",)),
        ([], "", ()),
        (["--weight", "weight"], "n", ()),
        (["--weight", "weight"], "", ("weight",)),
    ],
)
def test_at_a_terminal_it_is_asked_which_weight_it_is(tmp_path, monkeypatch, given, answer, weight):
    monkeypatch.setattr("postrand.cli.advise.can_ask", lambda: True)
    pq.write_table(pa.table(BODIES), tmp_path / "s.parquet")
    asked = ["init", str(tmp_path / "s.parquet"), "--keys", "sex", *given, "--out", str(tmp_path / "w"), "--other", "*"]
    asked += ["--use", "tables"]
    if not given:  # '*' would decide
        asked[-4:-2] = ["--other", "kilos"]
    told = CliRunner().invoke(main, asked, input=f"{answer}\n")
    assert "Is it the sampling weight?" in told.output
    written = load_codebook(tmp_path / "w" / "codebook.toml", open_role="other")
    assert tuple(one.name for one in written.with_role("weight")) == weight


@pytest.mark.parametrize("name", ["Gewicht_Person", "hochrechnungsfaktor", "poids_final", "ponderacion", "weegfactor"])
def test_weights_have_names_in_other_languages(tmp_path, name):
    rows = "".join(f"{'fm'[k % 2]},{k % 7 + 0.5}\n" for k in range(200))
    (tmp_path / "s.csv").write_text(f"sex,{name}\n{rows}")
    initialise(tmp_path / "s.csv", tmp_path / "w", {})
    assert "role = 'weight'?" in (tmp_path / "w" / "codebook.toml").read_text()
    assert load_plan_blocks(tmp_path / "w" / "plan.toml") == [["sex"]]


def load_plan_blocks(path):
    return [block["variables"] for block in tomllib.loads(path.read_text())["blocks"]]


def test_a_role_of_one_column_given_to_two_is_refused():
    with pytest.raises(UsageError, match="a file has one sampling weight; got a, b"):
        assign_roles(["a", "b"], {"weight": ["a", "b"]})


def test_a_title_above_the_header_is_told_as_a_next_step():
    with pytest.raises(UsageError, match="if a title stands above the names of the columns, remove these lines"):
        assign_roles(["Household survey 2026"], {"key": ["age"]})


def test_categories_that_differ_by_spaces_or_capitals_are_noted(tmp_path):
    (tmp_path / "messy.csv").write_text("sex,area\n" + "F,a\nM,b\nm,a\nF ,b\n" * 20)
    asked = ["init", str(tmp_path / "messy.csv"), "--keys", "sex,area", "--out", str(tmp_path / "w")]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 0
    text = (tmp_path / "w" / "codebook.toml").read_text()
    assert text.count("some categories differ only by spaces or capital letters") == 1
    assert "compare them with the questionnaire, so that they are public" in text
    assert "differ only by spaces or capital letters: sex ('F', 'F '; 'M', 'm'). Next" in told.output


def test_the_recode_that_merges_spellings_is_proposed_and_no_rare_spelling_is_named(tmp_path):
    rows = ["Female,Zürich", "FEMALE,Zuerich", "Male,Zürich"] * 40 + ["female ,Zuerich"] * 3
    (tmp_path / "messy.csv").write_text("sex,town\n" + "\n".join(rows) + "\n", encoding="utf-8")
    book, plan = (str(tmp_path / "w" / f"{name}.toml") for name in ("codebook", "plan"))
    asked = ["init", str(tmp_path / "messy.csv"), "--keys", "sex,town", "--out", str(tmp_path / "w")]
    told = CliRunner().invoke(main, asked)
    assert "differ only by spaces or capital letters: sex ('FEMALE', 'Female' and rarer ones). Next" in told.output
    assert f"postrand recode {book} --plan {plan} --write" in told.output
    assert "female " not in told.output
    text, mark, proposed = Path(book).read_text(encoding="utf-8").partition("# [[recodes]]")
    lines = [line.removeprefix("#").strip() for line in (mark + proposed).splitlines()]
    Path(book).write_text("\n".join([text, *lines]) + "\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["recode", book, "--plan", plan, "--write"]).exit_code == 0
    assert load_codebook(book)["sex"].categories == ("Female", "Male")
    assert load_codebook(book)["town"].categories == ("Zuerich", "Zürich")
    assert "some categories differ only" not in Path(book).read_text(encoding="utf-8")


def test_the_command_that_init_prints_repeats_the_answers(tmp_path):
    rows = "".join(f"{'FM'[k % 2]},{k % 3},{k}.5\n" for k in range(200))
    (tmp_path / "hh.csv").write_text("sex,area,pay\n" + rows)
    asked = ["--keys", "sex,area", "--other", "*", "--out", str(tmp_path / "w"), "--attacker", "informed"]
    asked += ["--limit", "tau2 <= 3", "--precision", "2 points for sex x area"]
    told = CliRunner().invoke(main, ["init", str(tmp_path / "hh.csv"), *asked])
    assert told.exit_code == 0, told.output
    said = "--attacker informed --limit 'epsilon <= 4' --limit 'tau2 <= 3' --use tables"
    assert f"{said} --precision '2 points for sex x area'" in told.output


def test_a_weight_that_is_named_is_proposed_for_the_survey_design(tmp_path):
    rows = "".join(f"{'FM'[k % 2]},{k % 3},{1 + k // 100},{k // 2}\n" for k in range(200))
    (tmp_path / "hh.csv").write_text("sex,area,w,hid\n" + rows)
    named = ["--keys", "sex,area", "--weight", "w", "--household", "hid", "--out", str(tmp_path / "w")]
    told = CliRunner().invoke(main, ["init", str(tmp_path / "hh.csv"), *named])
    assert told.exit_code == 0, told.output
    assert 'add [survey] to codebook.toml: weights = "w", psu = "hid"' in told.output
    made = ["--plan", str(tmp_path / "w" / "plan.toml"), "--out", str(tmp_path / "out"), "--seed", "1"]
    done = CliRunner().invoke(main, ["protect", *made])
    assert done.exit_code == 0, done.output
    asked = ["estimate", str(tmp_path / "out"), "--table", "sex"]
    assert "for figures of the population, weight the records: --weight w" in CliRunner().invoke(main, asked).output
    weighted = CliRunner().invoke(main, [*asked, "--weight", "w"]).output
    assert "every record counts once" not in weighted
    assert "Note: weighted by w" in weighted


def test_a_dossier_inside_the_release_is_refused_before_its_folder_is_asked_for(tmp_path):
    with pytest.raises(ReleaseError, match="one output directory lies inside another") as caught:
        check_targets(tmp_path / "rel", tmp_path / "rel" / "internal")
    assert "create" not in str(caught.value)


def test_files_that_exist_are_told_with_wrong_names(tmp_path):
    """Also beside the names that recodes make, which are no columns of the file."""
    (tmp_path / "a.csv").write_text("sex,age\nf,30\nm,40\n")
    (tmp_path / "codebook.toml").write_text("")
    asked = ["init", str(tmp_path / "a.csv"), "--keys", "sexx,young", "--recode", "young=age:bands:0,35"]
    told = CliRunner().invoke(main, [*asked, "--out", str(tmp_path)])
    assert told.exit_code == 2
    assert "2 problems" in told.output, told.output
    assert "the file exists" in told.output
    assert "no column 'sexx' (did you mean 'sex'?)" in told.output


def test_a_file_that_is_not_there_is_told_before_a_codebook_that_is(tmp_path):
    (tmp_path / "codebook.toml").write_text("")
    told = CliRunner().invoke(main, ["init", str(tmp_path / "none.csv"), "--keys", "sex", "--out", str(tmp_path)])
    assert told.exit_code != 0
    assert "the file exists" not in told.output
    assert "none.csv" in told.output


def test_a_column_without_a_role_that_settles_a_key_is_said_and_noted_and_forty_columns_fit_on_a_screen(tmp_path):
    rng, n = np.random.default_rng(4), 1_200
    region = rng.integers(0, 6, n)
    near = np.where(rng.random(n) < 0.95, region, rng.integers(0, 6, n))  # no function of the key, and all but a copy
    columns = {"region": region, "near": near} | {f"q{i:02}": rng.integers(0, 4, n) for i in range(20)}
    columns |= {f"is_{i:02}": (columns[f"q{i:02}"] == 1).astype(int) for i in range(18)}
    pq.write_table(pa.table(columns), tmp_path / "wide.parquet")
    asked = ["init", str(tmp_path / "wide.parquet"), "--keys", "region", "--out", str(tmp_path / "w")]
    told = CliRunner().invoke(main, asked)
    lines = told.output.splitlines()
    assert told.exit_code == 0, told.output
    assert len(lines) <= 16
    assert "40 columns; 1 key, 39 without a role" in lines[0]
    assert [line for line in lines if line.startswith("linked: 14 more")]
    assert [line for line in lines if line.startswith("Next: decide on near: released unperturbed, it all but settles")]
    assert [line for line in lines if line.startswith("  region: of 100 records, the best guess from near is right in")]
    assert f"Then: postrand design --plan {tmp_path / 'w' / 'plan.toml'}" in lines
    note = (tmp_path / "w" / "codebook.toml").read_text("utf-8").partition('name = "near"')[0].splitlines()[-1]
    assert note.startswith("# unperturbed, it all but settles region, which is perturbed: set role = 'drop'")


def test_a_record_key_whose_values_repeat_is_told_at_once(tmp_path):
    rows = [f"{i},{i // 3},{'fm'[i % 2]}" for i in range(300)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["id,home,sex", *rows]) + "\n", "utf-8")
    for name, is_told in (("id", False), ("home", True)):
        run = CliRunner().invoke(
            main, ["init", str(path), "--keys", "sex", "--record-key", name, "--out", str(tmp_path / name)]
        )
        assert run.exit_code == 0, run.output
        told = f"warning: {name}: values repeat or are missing, so that 'postrand protect' refuses it as a record key"
        assert (told in run.output) is is_told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--household", "home", "--largest-household", "2"],
            "home: a household has more records than the plan allows",
        ),
        (["--person", "home", "--most-records", "2"], "home: a person has more records than the plan allows"),
        (["--weight", "debt"], "debt: a weight is negative, perhaps a code for no answer"),
        (["--weight", "word"], "word: a weight is not a number"),
    ],
)
def test_roles_and_bounds_that_the_records_contradict_are_told_at_once(tmp_path, given, said):
    """Else 'postrand protect' is the first to say so, after all that was decided."""
    rows = [f"{i // 3},{'fm'[i % 2]},{i % 40 - 5.5},{'abc'[i % 3]}" for i in range(300)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["home,sex,debt,word", *rows]) + "\n", "utf-8")
    words = ["init", str(path), "--keys", "sex", "--drop", "*", *given, "--out", str(tmp_path / "w")]
    run = CliRunner().invoke(main, words)
    assert run.exit_code == 0, run.output
    assert f"warning: {said}" in run.output
    right = ["init", str(path), "--keys", "sex", "--drop", "*", "--household", "home", "--largest-household", "3"]
    run = CliRunner().invoke(main, [*right, "--out", str(tmp_path / "right")])
    assert "more records than" not in run.output


def test_a_file_with_decimal_commas_is_told_and_described_as_the_same_one_with_points(tmp_path):
    rng, n = np.random.default_rng(8), 2_000
    region = rng.integers(0, 6, n)
    columns = {
        "region": [f"r{r}" for r in region],
        "wage": [f"{w:.2f}" for w in 500 * region + 400 * rng.random(n)],  # its ranges settle the key
        "rent": [f"{x:.1f}" if x < 95 else "-9.0" for x in 100 * rng.random(n)],
        "w": [f"{w:.3f}" for w in 1 + rng.random(n)],
        "debt": [f"{w - 1:.3f}" for w in rng.random(n)],
    }
    rows = [";".join(row) for row in zip(*columns.values(), strict=True)]
    told = {}
    for weight in ("w", "debt"):
        for sign in ".,":
            folder = tmp_path / f"{weight}{'pc'[sign == ',']}"
            folder.mkdir()
            text = "\n".join([";".join(columns), *(row.replace(".", sign) for row in rows)]) + "\n"
            (folder / "people.csv").write_text(text, "utf-8")
            words = ["--keys", "region", "--weight", weight, "--other", "*", "--out", str(folder)]
            words += ["--recode", "rent_band=rent:bands:-20,20.5,60"]
            run = CliRunner().invoke(main, ["init", str(folder / "people.csv"), *words])
            assert run.exit_code == 0, run.output
            told[sign] = [line.replace(str(folder), "") for line in run.output.splitlines()]
            told[sign] += (folder / "codebook.toml").read_text("utf-8").splitlines()
        assert "decimal ','" in told[","][0]
        assert told[","][1:] == told["."][1:]
        assert any("a weight is not a number" in line for line in told[","]) is False
        assert any("all but settles region" in line for line in told[","])
        assert any("a weight is negative" in line for line in told[","]) is (weight == "debt")


@pytest.mark.parametrize("house", [["--household", "hh_nr"], []])
def test_what_a_star_drops_is_said_and_that_it_numbers_the_members_of_a_household(tmp_path, house):
    rows = [f"{k // 3},{k % 3 + 1},{k % 2},{k % 5}" for k in range(120)]
    (tmp_path / "a.csv").write_text("\n".join(["hh_nr,pers_nr,sex,pay", *rows]) + "\n")
    told = CliRunner().invoke(
        main, ["init", str(tmp_path / "a.csv"), "--keys", "sex", *house, "--drop", "*", "--out", str(tmp_path / "b")]
    )
    assert told.exit_code == 0, told.output
    gone = ["hh_nr"] * (not house) + ["pers_nr", "pay"]
    assert f"not released, by '*': {', '.join(gone)}\n" in told.output
    said = "warning: pers_nr: not released, and seems to number the members of a household: other files of the survey"
    assert (said in told.output) is bool(house)
    asked = ["init", str(tmp_path / "a.csv"), "--keys", "sex", *house, "--out", str(tmp_path / "c")]
    named = CliRunner().invoke(main, [*asked, "--drop", "pers_nr,pay" + ",hh_nr" * (not house)])
    assert "not released, by" not in named.output
