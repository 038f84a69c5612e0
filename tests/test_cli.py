"""The command line, run as a person would: every step on a small file, exit codes, JSON, refusals."""

import json
import tomllib
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import formats, read_release
from postrand.cli import main
from postrand.engines import key_repeats
from postrand.formats.excel import write_tables
from postrand.mechanism.matrix import randomised_response
from tests.release_case import edit, rebuild


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def answer(*arguments):
    result = call(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(5)
    n = 3000
    table = pa.table(
        {
            "id": np.arange(n) * 7,
            "sex": pa.array(rng.choice(["F", "M"], n)).dictionary_encode(),
            "area": pa.array(rng.choice(["n", "s", "w"], n, p=[0.5, 0.3, 0.2])),
            "pay": rng.normal(size=n),
        }
    )
    pq.write_table(table, tmp_path / "survey.parquet")
    return tmp_path / "survey.parquet"


@pytest.fixture
def started(survey):
    folder = survey.parent
    result = call("init", survey, "--out", folder, "--key", "sex,area", "--sensitive", "pay", "--record-key", "id")
    assert result.exit_code == 0, result.output
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["pay"]'))
    return folder


def test_the_confidential_file_can_be_a_sheet_of_a_workbook(tmp_path):
    table = pa.table({"sex": ["F", "M", "M"] * 20, "rooms": [1, 2, 1, 2, 1, 2] * 10})
    write_tables(tmp_path / "x.xlsx", {"other": table.slice(3), "people": table})
    sheet = ("--sheet", "people")
    call("init", tmp_path / "x.xlsx", *sheet, "--keys", "sex", "--other", "rooms", "--out", tmp_path / "w")
    made = call("protect", "--plan", tmp_path / "w" / "plan.toml", "--out", tmp_path / "out")
    assert made.exit_code == 0, made.output
    code, verified = answer("verify", tmp_path / "out", "--file", tmp_path / "x.xlsx", *sheet)
    assert (code, verified["ok"]) == (0, True)
    told = call("verify", tmp_path / "out", "--file", tmp_path / "x.xlsx", "--sheet", "other")
    assert (told.exit_code, "differ in the number of records" in told.output) == (7, True), told.output
    write_tables(tmp_path / "y.xlsx", {"people": table.set_column(0, "sex", [["F", "X", "M"] * 20])})
    told = call("verify", tmp_path / "out", "--file", tmp_path / "y.xlsx", *sheet)
    assert told.exit_code == 7
    assert "does not fit the codebook of the release, which was made from another file" in told.output
    assert "'X'" not in told.output


def test_every_step_on_a_small_file(started):
    folder = started
    code, assessed = answer("assess", folder / "survey.parquet", "--keys", "sex,area", "--sampling-fraction", "0.1")
    assert code == 0
    assert assessed["sample_uniques"] == 0
    code, designed = answer("design", "--plan", folder / "plan.toml")
    assert code == 0
    assert [block["status"] for block in designed["blocks"]] == ["optimal", "optimal"]
    code, made = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out", "--dossier", folder / "in")
    assert code == 0
    assert "ε <= 2" in made["claims"][0]
    assert made["dossier"] == str(folder / "in")
    code, verified = answer("verify", folder / "out")
    assert (code, verified["ok"]) == (0, True)
    for options, said in (
        (["--record-key", "nope"], "add --file"),
        (["--sheet", "S"], "--sheet says how the confidential file is read, which is not given. Next: add --file"),
        (["--sheet", "S", "--plan", folder / "plan.toml"], "the plan already says how its file is read; got --sheet"),
        (["--file", folder / "survey.parquet", "--record-key", "nope"], "no column 'nope'"),
    ):
        told = call("verify", folder / "out", *options)
        assert (told.exit_code, said in told.output) == (2, True), told.output
    code, table = answer("estimate", folder / "out", "--table", "sex,area")
    assert code == 0
    assert np.sum(table["estimate"]) == pytest.approx(1)
    answer("estimate", folder / "out", "--table", "sex", "--excel", folder / "sex.xlsx")
    assert (folder / "sex.xlsx").read_bytes().startswith(b"PK")
    released = pq.read_table(folder / "out" / "data.parquet")
    assert released.column_names == ["sex", "area", "pay"]
    dossier = json.loads((folder / "in" / "dossier.json").read_text())
    true = pq.read_table(folder / "survey.parquet")["sex"].to_pylist().count("F")
    assert dossier["counts"]["sex"]["F"] == true
    inside = (folder / "in" / "dossier.html").read_text("utf-8")
    for words in ("Internal", "Risk before and after", "Rare combinations before protection", f"<td>{true:,}</td>"):
        assert words in inside
    for words in ("not computed: no sampling fraction or weight", "no variable has the role", "Informed attacker"):
        assert words in inside
    assert not [p for p in (folder / "out").iterdir() if "Rare combinations" in p.read_text("utf-8", "replace")]


def test_the_dossier_takes_a_sampling_fraction(started):
    folder = started
    asked = ("protect", "--plan", folder / "plan.toml", "--out", folder / "out", "--sampling-fraction")
    for wrong, words in (("0.1", "is used for the dossier and the policy only"), ("2", "outside its range")):
        refused = call(*asked, wrong)
        assert (refused.exit_code, words in refused.output) == (2, True)
    assert not (folder / "out").exists()
    assert call(*asked, "0.1", "--dossier", folder / "in").exit_code == 0
    inside = (folder / "in" / "dossier.html").read_text("utf-8")
    assert "not computed: no sampling" not in inside
    assert "Expected correct matches, register attacker" in inside


def test_the_report_is_made_again(started):
    folder = started
    call("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    page = folder / "out" / "report.html"
    said = page.read_bytes()
    page.unlink()
    assert call("report", folder / "out").exit_code == 0
    assert page.read_bytes() == said
    assert answer("verify", folder / "out")[1]["ok"]
    assert call("report", folder / "out", "--out", folder / "page.html").exit_code == 0
    assert (folder / "page.html").read_bytes() == said
    refused = call("report", folder / "out", "--out", folder / "page.html")
    assert (refused.exit_code, "cannot be written" in refused.output) == (7, True)
    manifest = folder / "out" / "manifest.json"
    digest = json.loads(manifest.read_text())["files"]["report.html"]["sha256"]
    manifest.write_text(manifest.read_text().replace(digest, "0" * 64))
    refused = call("report", folder / "out")
    assert (refused.exit_code, "is not the one released" in refused.output) == (7, True)


def test_verify_ends_with_a_code_for_each_verdict(started):
    """0: all ran and passed; 9: a check could not run here; 7: one failed. No other command ends with 9."""
    folder = started
    call("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    root, verdicts = folder / "out", []
    table = pq.read_table(root / "data.parquet")

    def verdict():
        code, found = answer("verify", root)
        verdicts.append((code, found.get("verdict"), found.get("ok"), found.get("error")))
        return call("verify", root)

    assert "what is marked 'said' rests on the curator's word" in verdict().output
    edit(root / "manifest.json", lambda m: m.update(written_with="pyarrow 1.0"))
    verdict()
    pq.write_table(table, root / "data.parquet", row_group_size=7)  # room for hidden bytes, and digests in line
    rebuild(root)
    said = verdict()
    assert "open  bytes" in said.stdout
    assert said.stdout.endswith("NOT VERIFIED: the release is consistent, but a check could not run here: bytes.\n")
    edit(root / "manifest.json", lambda m: m.update(written_with=formats.library_of("data.parquet")))
    assert "bytes" in verdict().stderr
    assert verdicts == [
        (0, "verified", True, None),
        (0, "verified", True, None),
        (9, "incomplete", False, None),
        (7, None, None, "ReleaseError"),
    ]

    for text in ("0 success (verify: every check ran and passed)", "9 verify: no check failed"):
        assert text in " ".join(call("--help").output.split())
    assert "a check could not run here" in " ".join(call("verify", "--help").output.split())


def test_text_output_reads_as_sentences(started):
    folder = started
    assert "optimal" in call("design", "--plan", folder / "plan.toml").output
    inside = ("--dossier", folder / "inside")
    made = call("protect", "--plan", folder / "plan.toml", "--out", folder / "out", *inside)
    assert made.stdout.rstrip().endswith(f"Next: postrand verify {folder / 'out'}")
    assert "differential privacy" in made.output
    pages = [(folder / "inside" / name).read_text("utf-8") for name in ("decision.html", "dossier.html")]
    assert all("No ledger counts the releases of these persons" in told for told in (made.stdout, *pages))
    plan = (folder / "plan.toml").read_text("utf-8")
    head, _, commented = plan.partition("# [ledger]")
    (folder / "counted.toml").write_text(f"{head}[ledger]{commented.replace('# ', '')}", "utf-8")
    inside = ("--dossier", folder / "inside2")
    made = call("protect", "--plan", folder / "counted.toml", "--out", folder / "out2", *inside)
    pages = [(folder / "inside2" / name).read_text("utf-8") for name in ("decision.html", "dossier.html")]
    assert not any("No ledger" in told for told in (made.stdout, *pages))
    assert "ledger: " in made.stdout, made.output
    assert "what it claims to be" in call("verify", folder / "out").output
    assert "std. error" in call("estimate", folder / "out", "--table", "sex").output
    number = call("estimate", folder / "out", "--table", "pay")
    assert "pay is a number without categories. Next: ask for its mean" in number.output, number.output
    assert "sample uniques" in call("assess", folder / "survey.parquet", "--keys", "sex,area").output.lower()


def test_roles_that_are_not_given_stay_empty_and_stop_the_plan(survey):
    folder = survey.parent
    code, started = answer("init", survey, "--out", folder, "--key", "sex")
    assert code == 0
    assert started["without_role"] == ["id", "area", "pay"]
    code, refused = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    assert code == 3
    (problem,) = [problem for problem in refused["problems"] if "variables without a role" in problem]
    assert "variables without a role: id, area, pay; wanted key, " in problem
    assert "--other '*' or --drop '*'" in problem
    assert not (folder / "out").exists()


def test_a_star_gives_the_role_to_the_rest(survey):
    code, started = answer("init", survey, "--out", survey.parent, "--key", "sex", "--drop", "*")
    assert (code, started["without_role"]) == (0, [])
    book = tomllib.loads((survey.parent / "codebook.toml").read_text())
    assert [v["role"] for v in book["variables"]] == ["drop", "key", "drop", "drop"]


def test_the_same_key_gives_the_same_release_and_another_does_not(started, tmp_path):
    key = tmp_path / "key"
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    for name in ("one", "two"):
        assert (
            call("protect", "--plan", started / "plan.toml", "--out", started / name, "--key-file", key).exit_code == 0
        )
    assert call("protect", "--plan", started / "plan.toml", "--out", started / "three").exit_code == 0
    one, two, three = ((started / name / "data.parquet").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three
    for path in (started / "one").iterdir():
        assert b"ab" * 32 not in path.read_bytes()
        assert path.read_bytes() == (started / "two" / path.name).read_bytes()


def test_a_seed_is_told_on_the_certificate(started):
    assert call("protect", "--plan", started / "plan.toml", "--out", started / "out", "--seed", 1).exit_code == 0
    assert "NOT PRIVATE" in read_release(started / "out").not_covered[0]
    assert "NOT PRIVATE" in (started / "out" / "report.html").read_text()


def test_a_plan_whose_privacy_model_is_not_met_is_refused(started):
    plan = started / "plan.toml"
    plan.write_text(plan.read_text().replace("epsilon = 2.0", "epsilon = 1.9"))
    code, refused = answer("protect", "--plan", plan, "--out", started / "out")
    assert code == 5
    assert "does not meet" in refused["problems"][0]
    assert not (started / "out").exists()


def test_a_matrix_of_ones_own_is_certified_like_any_other(started):
    plan = started / "plan.toml"
    rows = randomised_response(2, 1.0).array.tolist()
    own = plan.read_text().replace('variables = ["sex"]', f'variables = ["sex"]\nmatrix = {rows}')
    plan.write_text(own)
    code, made = answer("protect", "--plan", plan, "--out", started / "out")
    assert code == 0, made
    assert "origin was not stated: sex" in " ".join(read_release(started / "out").not_covered)
    plan.write_text(own.replace(str(rows), "[[0.9, 0.1], [0.1, 0.9]]"))
    assert call("protect", "--plan", plan, "--out", started / "other").exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["init", "{survey}", "--out", "{folder}", "--key", "sexx"], 2, "did you mean 'sex'"),
        (["init", "{survey}", "--out", "{folder}", "--key", "sex", "--drop", "sex"], 2, "has two roles"),
        (["assess", "{survey}", "--keys", "sexx"], 4, "did you mean 'sex'"),
        (["assess", "{survey}", "--keys", "sex", "--sampling-fraction", "2"], 2, "fraction"),
        (["verify", "{folder}/nothing"], 7, "nothing"),
        (["estimate", "{folder}/nothing", "--table", "sex"], 7, "nothing"),
        (["verify", "{folder}"], 7, ""),
    ],
)
def test_wrong_input_is_refused_with_its_exit_code(survey, arguments, code, message):
    before = sorted(survey.parent.iterdir())
    result = call(*[a.format(survey=survey, folder=survey.parent) for a in arguments])
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert sorted(survey.parent.iterdir()) == before


def test_outputs_that_exist_keys_that_are_wrong_and_two_keys_are_refused(started):
    (started / "out").mkdir()
    (started / "key").write_text("abc")
    (started / "key").chmod(0o600)
    plan = ["protect", "--plan", started / "plan.toml", "--out"]
    assert call(*plan, started / "out").exit_code == 7
    wrong = call(*plan, started / "new", "--key-file", started / "key")
    assert wrong.exit_code == 2
    assert "64 hexadecimal digits" in wrong.stderr
    assert "abc" not in wrong.stderr
    missing = call(*plan, started / "new", "--key-file", started / "no key")
    assert missing.exit_code == 2
    made = f"only you can read (mode 600): (umask 077; head -c 32 /dev/urandom > '{started / 'no key'}')."
    assert " ".join(made.split()) in " ".join(missing.stderr.split())
    assert call(*plan, started / "new", "--key-file", started / "key", "--seed", 1).exit_code == 2
    assert call(*plan, started / "new", "--dossier", started / "new" / "in").exit_code == 7
    assert not (started / "new").exists()
    assert call("init", started / "survey.parquet", "--out", started).exit_code == 2


def test_a_category_that_the_codebook_lacks_leaves_nothing_behind(started):
    book = started / "codebook.toml"
    book.write_text(book.read_text().replace('"M"', '"X"'))
    before = sorted(started.iterdir())
    result = call("protect", "--plan", started / "plan.toml", "--out", started / "out", "--dossier", started / "in")
    assert result.exit_code == 4
    assert "'sex'" in result.stderr
    assert "'M'" not in result.stderr
    assert sorted(started.iterdir()) == before


def test_duplicate_record_keys_leave_nothing_behind(started):
    table = pq.read_table(started / "survey.parquet")
    pq.write_table(table.set_column(0, "id", pa.array([1, 1, *range(2, 3000)])), started / "survey.parquet")
    before = sorted(started.iterdir())
    result = call("protect", "--plan", started / "plan.toml", "--out", started / "out")
    assert result.exit_code == 4
    assert "same record key" in result.stderr
    assert sorted(started.iterdir()) == before
    told = call("design", "--plan", started / "plan.toml")
    said = result.stderr.strip().removeprefix("postrand: ")
    assert told.output.rstrip().endswith(f"'postrand protect' will refuse the file:\n- {said}")


@pytest.mark.parametrize("of", [pa.int32(), pa.uint64(), pa.string(), pa.large_string(), pa.dictionary("int8", "utf8")])
def test_record_keys_that_repeat_or_are_missing_are_found_by_a_design(tmp_path, of, monkeypatch):
    """Whatever their type, and wherever in the file: five batches here, and the two records in the first and last."""
    n, values = 120, [*range(100, 220)]
    plan = tmp_path / "plan.toml"

    def refused(ids):
        plain = pa.array(ids).cast(of.value_type if pa.types.is_dictionary(of) else of)
        column = plain.dictionary_encode().cast(of) if pa.types.is_dictionary(of) else plain
        table = pa.table({"id": column, "sex": ["F", "M"] * (n // 2)})
        pq.write_table(table, tmp_path / "s.parquet", row_group_size=25)
        if not plan.exists():
            call("init", tmp_path / "s.parquet", "--out", tmp_path, "--keys", "sex", "--record-key", "id")
        return answer("design", "--plan", plan)[1].get("refused", [])

    assert refused(values) == []
    (said,) = refused([*values[:-1], values[0]])
    assert said.startswith("two records have the same record key; wanted")
    (said,) = refused([values[0]] * 7 + values[7:])
    assert "(7 records are involved)" in said
    assert refused([None, *values[1:]])[0].startswith("a record key is missing")
    monkeypatch.setattr(key_repeats, "MOST", {"numbers": n - 1, "texts": n - 1})
    assert refused([values[0]] * n) == []  # of more records a run alone tells
    (tmp_path / "s.csv").write_text("id,sex\n" + "1,F\n1,M\n" * 60, "utf-8")  # which does not say how many it has
    call("init", tmp_path / "s.csv", "--out", tmp_path / "c", "--keys", "sex", "--record-key", "id")
    assert "refused" not in answer("design", "--plan", tmp_path / "c" / "plan.toml")[1]
    monkeypatch.undo()
    assert "refused" in answer("design", "--plan", tmp_path / "c" / "plan.toml")[1]


def test_compare_shows_every_structure_and_writes_its_plot(tmp_path):
    code, curve = answer("curve", "--prior", "0.4,0.3,0.2,0.1", "--epsilons", "1,0.5", "--plot", tmp_path / "c.svg")
    assert code == 0
    assert {p["structure"] for p in curve["points"]} >= {"uniform-off-diagonal", "symmetric", "circulant", "general"}
    assert all(p["bound"] >= p["information"] for p in curve["points"])
    assert (tmp_path / "c.svg").read_text().startswith("<svg")
    assert call("curve", "--prior", "uniform:3", "--plot", tmp_path / "c.svg").exit_code == 2
    assert call("curve", "--prior", "0.4,x").exit_code == 2
    assert call("curve", "--prior", "0.4,0.7").exit_code == 6


def test_tune_finds_a_level_within_the_limit(survey):
    keys = ["tune", survey, "--keys", "sex,area,pay10", "--sampling-fraction", "0.1", "--limit"]
    rng = np.random.default_rng(8)
    table = pq.read_table(survey)
    pq.write_table(table.append_column("pay10", pa.array(rng.geometric(0.02, len(table)))), survey)
    code, found = answer(*keys, "tau1 <= 5")
    assert code == 0
    if found["needed"]:
        assert found["level"] > 0
    assert min(point["risk"] for point in found["points"]) <= 5
    assert call(*keys, "tau3 <= 5").exit_code == 2


@pytest.mark.parametrize("name", ["init", "assess", "design", "protect", "verify", "estimate", "demo", "curve", "tune"])
def test_every_command_has_help(name):
    result = call(name, "--help")
    errors = "2 the command line is wrong; 3 the codebook or plan; 4 the data do not fit the codebook"
    assert errors in " ".join(result.output.split())
    assert errors in " ".join(call("--help").output.split())
    assert result.exit_code == 0
    assert "--json" in result.output
    assert len(result.output.splitlines()) > 6


def test_what_the_file_says_of_its_columns_beyond_their_labels_stays_behind(survey):
    table = pq.read_table(survey)
    said = table.schema.field("sex").with_metadata({"label": "sex", "note": "COUNT-F=1501"})
    pq.write_table(table.cast(table.schema.set(table.schema.get_field_index("sex"), said)), survey)
    folder = survey.parent
    call("init", survey, "--out", folder, "--key", "sex,area", "--drop", "*")
    assert call("protect", "--plan", folder / "plan.toml", "--out", folder / "out").exit_code == 0
    metadata = pq.read_schema(folder / "out" / "data.parquet").field("sex").metadata or {}
    assert metadata.get(b"label") == b"sex"
    assert b"note" not in metadata


def test_labels_of_a_release_cannot_steer_the_terminal(tmp_path):
    table = pa.table({"sex": ["F\x1b[2K", "M\x9b1A"] * 500})
    pq.write_table(table, tmp_path / "survey.parquet")
    assert call("init", tmp_path / "survey.parquet", "--out", tmp_path, "--key", "sex").exit_code == 0
    assert call("protect", "--plan", tmp_path / "plan.toml", "--out", tmp_path / "out").exit_code == 0
    shown = call("estimate", tmp_path / "out", "--table", "sex")
    assert shown.exit_code == 0
    assert r"F\x1b[2K" in shown.output
    assert r"M\x9b1A" in shown.output
    assert all(line.isprintable() for line in shown.output.split("\n"))


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_say_what_they_say_and_not_from_which_line(started, monkeypatch):
    from postrand.workflow.design_blocks import design_blocks

    def warned(plan, known):
        warnings.warn("this matrix cannot be inverted", UserWarning, stacklevel=1)
        return design_blocks(plan, known)

    monkeypatch.setattr("postrand.workflow.design_blocks.design_blocks", warned)
    result = call("design", "--plan", started / "plan.toml")
    assert result.exit_code == 0
    assert result.stderr == "postrand: warning: this matrix cannot be inverted\n"


@pytest.fixture
def released(started):
    assert call("protect", "--plan", started / "plan.toml", "--out", started / "out", "--seed", 3).exit_code == 0
    return started / "out"


def test_estimate_answers_each_question_as_the_library_does(released, tmp_path):
    from postrand import estimate
    from postrand.release import read

    release = read(released)
    frame, mechanism = release.frame(), release.mechanism
    asked = {
        ("--mean", "pay", "--by", "area"): estimate.mean(frame, "pay", mechanism, by="area"),
        ("--total", "pay", "--by", "area,sex"): estimate.total(frame, "pay", mechanism, by=("area", "sex")),
        ("--mean", "pay"): estimate.mean(frame, "pay", mechanism),
        ("--quantile", "pay", "--q", "0.1,0.9"): estimate.quantile(frame, "pay", mechanism, [0.1, 0.9]),
        ("--quantile", "pay", "--by", "sex"): estimate.quantile(frame, "pay", mechanism, by="sex"),
        ("--table", "sex", "--method", "likelihood"): estimate.maximum_likelihood(frame, ["sex"], mechanism),
        ("--table", "sex", "--method", "unbiased"): estimate.table(frame, ["sex"], mechanism),
    }
    assert call("estimate", released, "--mean", "pay", "--strata", "pay").exit_code == 8  # one record in each
    for words, found in asked.items():
        assert call("estimate", released, *words).stdout == f"{found}\n"
        code, plain = answer("estimate", released, *words)
        assert (code, plain) == (0, json.loads(json.dumps(found.to_dict())))
    call("estimate", released, "--mean", "pay", "--by", "area", "--excel", tmp_path / "mean.xlsx")
    assert (tmp_path / "mean.xlsx").read_bytes().startswith(b"PK")


def test_estimate_fits_regressions(released):
    pytest.importorskip("formulaic")
    shown = call("estimate", released, "--regression", "pay ~ C(area)")
    assert (shown.exit_code, "Linear regression: pay ~ C(area)" in shown.stdout) == (0, True), shown.output
    code, plain = answer("estimate", released, "--regression", "pay ~ C(area)", "--family", "linear")
    assert (code, plain["formula"], plain["family"]) == (0, "pay ~ C(area)", "linear")
    assert call("estimate", released, "--regression", "pay ~ C(area)", "--family", "cubic").exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no question is asked"),
        (["--mean", "pay", "--table", "sex"], "several questions are asked at once"),
        (["--table", "sex", "--by", "area"], "--by cannot be used with --table"),
        (
            ["--table", "pay", "--by", "area"],
            "Next: --table pay,area, or in each group --mean pay or --share pay --of CATEGORY, with --by area.",
        ),
        (["--mean", "pay", "--q", "0.5"], "--q cannot be used with --mean"),
        (["--table", "sex", "--method", "magic"], "--method does not have a choice 'magic'"),
        (["--ratio", "pay"], "--ratio does not name two variables"),
        (["--quantile", "pay", "--q", "half"], "the value is not a list of numbers"),
        (["--quantile", "pay", "--q", "2"], "the probabilities of the quantiles are invalid"),
        (["--mean", ","], "no name is given"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(released, words, said):
    refused = call("estimate", released, *words)
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.output


@pytest.mark.parametrize(("name", "former"), [("--keys", "--key")])
def test_the_identifying_variables_have_one_name_and_the_former_one_is_understood(survey, name, former):
    ask = ["assess", survey, "--sampling-fraction", "0.1"]
    assert answer(*ask, name, "sex,area") == answer(*ask, former, "sex,area")
    for command in ("init", "assess", "tune", "anatomise"):
        shown = call(command, "--help").output
        assert f"{name} A,B" in shown
        assert f"{former} " not in shown
    assert "no key variables are named. Next: name them: --keys A,B" in call("assess", survey).output
    assert call("init", survey, "--keys", " , ").exit_code == 2


def test_the_sampling_weight_has_one_name_and_the_former_one_is_understood(started):
    (started / "codebook.toml").write_text((started / "codebook.toml").read_text().replace("sensitive", "weight"))
    assert "--weights" not in call("estimate", "--help").output
    for option in ("--weight", "--weights"):
        wrong = call("estimate", started, "--regression", "pay ~ sex", option, "pay", "--by", "sex")
        assert "--by cannot be used with --regression; wanted --family, --method, --weight, --strata" in wrong.output
