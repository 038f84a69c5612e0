"""From a messy file to a release: what `init` writes, `protect` accepts, save what it leaves undecided on purpose."""

import csv
import datetime
import json
import re
import warnings

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from click.testing import CliRunner

from postrand import cli, formats
from postrand.app import documents, opening, plans
from postrand.app.decisions import open_decisions
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.formats import ReadSettings, sas
from postrand.formats.csv import FormulaWarning
from postrand.plan import infer, load_plan
from postrand.plan.infer import load_codebook
from postrand.risk.reveals import UnperturbedWarning
from postrand.testing.engines import Memory
from postrand.workflow.draft import start
from postrand.workflow.pipeline import run

N = 240
KEY = b"k" * 32


def messy(seed):
    """Return columns of all kinds that files have, some of them in one file, with missing values here and there."""
    rng = np.random.default_rng(seed)
    day = datetime.date(1940, 1, 1)
    kinds = {
        "constant": lambda: ["x"] * N,
        "empty": lambda: [None] * N,
        "flag": lambda: rng.choice([True, False], N).tolist(),
        "code": lambda: rng.choice([1, 2, 3, 9, -1], N).tolist(),
        "NA code": lambda: rng.choice(["1", "2", "NA", "don't know"], N).tolist(),
        "age": lambda: rng.integers(0, 95, N).tolist(),
        "person": lambda: list(range(1000, 1000 + N)),
        "pay": lambda: np.round(rng.gamma(2, 900, N), 2).tolist(),
        "weight": lambda: np.round(rng.uniform(1, 9, N), 4).tolist(),
        "born": lambda: [day + datetime.timedelta(int(k)) for k in rng.integers(0, 20_000, N)],
        "wave": lambda: [day + datetime.timedelta(int(k)) for k in rng.integers(0, 3, N)],
        "day": lambda: [f"{k % 28 + 1:02}.{k % 12 + 1:02}.{1950 + k % 60}" for k in rng.integers(0, 9999, N)],
        "at": lambda: [f"{k % 24:02}:{k % 60:02}" for k in rng.integers(0, 9999, N)],
        "note": lambda: [f'said "{k}",\nthen; left' for k in rng.integers(0, 9999, N)],
        "job": lambda: [f"{k:04}" for k in rng.integers(0, 150, N)],
        "town": lambda: rng.choice(["Zürich", "Genf", "été", " padded "], N).tolist(),
        "rare": lambda: ["a"] * (N - 1) + ["b"],
    }
    names = ["sex", *rng.choice(list(kinds), 8, replace=False)]
    kinds["sex"] = lambda: rng.choice(["F", "M"], N).tolist()
    columns = {name: kinds[name]() for name in names}
    for name in rng.choice(names[1:], 3, replace=False):
        columns[name] = [None if rng.random() < 0.1 else value for value in columns[name]]
    return columns


def write_csv(path, columns, delimiter=";", encoding="windows-1252"):
    def said(value):
        comma = isinstance(value, float) and delimiter == ";"
        return "" if value is None else str(value).replace(".", ",") if comma else str(value)

    with path.open("w", encoding=encoding, newline="") as file:
        lines = csv.writer(file, delimiter=delimiter)
        lines.writerows([list(columns), *([said(v) for v in row] for row in zip(*columns.values(), strict=True))])
    return path


def write_workbook(path, columns):
    book = openpyxl.Workbook()
    for row in [list(columns), *zip(*columns.values(), strict=True)]:
        book.active.append(row)
    book.save(path)
    return path


def write_table(path, columns):
    table = pa.table(columns)
    with formats.open_writer(path, table.schema) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return path


MAKE = {
    "s.csv": lambda path, columns: write_csv(path, columns),
    "u.tsv": lambda path, columns: write_csv(path, columns, "\t", "utf-16"),
    "x.xlsx": write_workbook,
    "p.parquet": write_table,
}


@pytest.mark.parametrize("seed", range(12))
def test_what_init_writes_protect_accepts(seed, tmp_path):
    name = list(MAKE)[seed % len(MAKE)]
    path = MAKE[name](tmp_path / name, messy(seed))
    roles = [{"key": ["sex"], "other": ["*"]}, {"key": ["*"]}, {}][seed % 3]
    settings = ReadSettings(encoding="windows-1252" if name == "s.csv" else "")
    made = start(path, tmp_path / "work", roles, settings=settings)
    blocks = re.findall(r"^variables = \[(.*)\]", made.plan.read_text("utf-8"), re.MULTILINE)
    perturbed = {name for names in blocks for name in re.findall(r'"([^"]*)"', names)}

    def decided(found):
        return f'name = "{found[1]}"\nrole = "{"key" if found[1] in perturbed else "drop"}"'

    book = re.sub(r'name = "(.*)"\nrole = "" #.*', decided, made.codebook.read_text("utf-8"))
    made.codebook.write_text(book, "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnperturbedWarning)
        warnings.simplefilter("ignore", FormulaWarning)
        released = run(load_plan(made.plan), tmp_path / "out", release_key=KEY)
    assert set(released.codebook.names) >= perturbed


def drafts(columns, **options):
    return {d["name"]: d for d in infer.infer(Memory(pa.table(columns)), **options)}


def test_many_dates_are_no_categories_unless_they_are_a_key(tmp_path):
    days = [datetime.date(1980, 1, 1) + datetime.timedelta(k % 60) for k in range(N)]
    waves = [days[k % 3] for k in range(N)]
    columns = {"born": days, "wave": waves, "sex": ["F", "M"] * (N // 2)}
    found = drafts(columns)
    assert "categories" not in found["born"]
    assert infer.DATES in found["born"]["notes"]
    assert len(found["wave"]["categories"]) == 3
    assert len(drafts(columns, roles={"born": "key"})["born"]["categories"]) == 60
    texts = {"born": [d.strftime("%d.%m.%Y") for d in days], "at": [f"{k % 24}:{k % 60:02}" for k in range(N)]}
    path = write_csv(tmp_path / "x.csv", {**texts, "sex": columns["sex"]})
    made = start(path, tmp_path / "work", {"key": ["sex"], "other": ["*"]})
    assert made.without_role == ("born", "at")
    assert start(path, tmp_path / "named", {"key": ["sex"], "drop": ["*"]}).without_role == ()


def test_lists_of_texts_grow_with_the_file():
    large = 150_000
    job, n = pa.array([f"c{k}" for k in range(140)]), pa.array(np.arange(large) % 140)
    found = drafts({"job": job.take(n), "n": n})
    assert len(found["job"]["categories"]) == 140
    assert "categories" not in found["n"]
    few = drafts({"job": [f"c{k % 150}" for k in range(6000)]})
    assert "more than 100 different values" in few["job"]["notes"][0]


def test_a_folder_of_text_files_has_numbers_like_one_file(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for part in range(2):
        write_csv(folder / f"{part}.csv", {"n": [part * N + k for k in range(N)], "pay": [k + 0.5 for k in range(N)]})
    made = start(folder, tmp_path / "work", {"other": ["*"]})
    assert made.settings == ReadSettings(";", "utf-8", ",")
    book = load_codebook(tmp_path / "work" / "codebook.toml") if not made.without_role else None
    text = made.codebook.read_text("utf-8")
    assert book is None
    assert 'type = "int64"' in text
    assert 'type = "double"' in text


@pytest.mark.filterwarnings("default::postrand.formats._detection.ReadingWarning")
def test_init_says_how_the_file_is_read_and_the_plan_states_it(tmp_path):
    path = write_csv(tmp_path / "s.csv", {"sex": ["F", "M"] * 50, "pay": [1.5, 2.5] * 50, "town": ["Bär", "Köln"] * 50})
    asked = ["init", str(path), "--keys", "sex,town", "--other", "pay", "--out", str(tmp_path / "a")]
    told = CliRunner().invoke(cli.main, asked)
    assert told.output.startswith("read s.csv with separator ';', encoding windows-1252, decimal ','\n")
    plan = (tmp_path / "a" / "plan.toml").read_text("utf-8")
    assert 'separator = ";"\nencoding = "windows-1252"\ndecimal = ","\n' in plan
    assert load_plan(tmp_path / "a" / "plan.toml").source.settings == ReadSettings(";", "windows-1252", ",")
    assert 'type = "double"' in (tmp_path / "a" / "codebook.toml").read_text("utf-8")
    given = ["--encoding", "iso-8859-1", "--separator", ";", "--decimal", "."]
    again = CliRunner().invoke(cli.main, [*asked[:-1], str(tmp_path / "b"), *given])
    assert "encoding iso-8859-1, decimal '.'" in again.output
    assert "the numbers of pay are written in another way" in again.stderr
    measured = CliRunner().invoke(cli.main, ["assess", str(path), "--keys", "sex,town", *given])
    assert measured.exit_code == 0, measured.output
    found = CliRunner().invoke(cli.main, ["assess", str(path), "--keys", "sex,town"])  # finds it out, as init does
    assert (found.exit_code, found.stdout) == (0, measured.stdout)


def test_a_plan_is_refused_for_settings_that_its_file_does_not_have(tmp_path):
    path = write_table(tmp_path / "x.parquet", {"sex": ["F", "M"] * 50})
    made = start(path, tmp_path / "work", {"key": ["sex"]})
    text = made.plan.read_text("utf-8").replace("[source]\n", '[source]\nseparator = ";"\nencoding = "utf-9"\n')
    made.plan.write_text(text, "utf-8")
    with pytest.raises(SpecificationError, match="unknown encoding 'utf-9'"):
        load_plan(made.plan)
    made.plan.write_text(text.replace('encoding = "utf-9"\n', ""), "utf-8")
    with pytest.raises(SpecificationError, match="Parquet files have no setting 'separator'"):
        load_plan(made.plan)


def field(name, of, **said):
    return pa.field(name, of, metadata=said or None)


MISFITS = {
    "a b": (field("a b", pa.int64()), [1], ".sav .dta .xpt", "name has a sign that is not allowed"),
    "é": (field("é", pa.int64()), [1], ".xpt", "name has a sign that is not allowed"),
    "long": (field("n" * 40, pa.int64()), [1], ".dta .xpt", "name is too long; wanted at most 32 signs"),
    "longer": (field("é" * 33, pa.int64()), [1], ".sav .dta .xpt", "name is too long; wanted at most"),
    "byte": (field("byte", pa.int64()), [1], ".dta", "a word of the program's language"),
    "with": (field("with", pa.int64()), [1], ".sav .dta", "a word of the program's language"),
    "label": (field("x", pa.int64(), label="y" * 81), [1], ".dta", "its label is too long; wanted at most 80 signs"),
    "values": (field("x", pa.int64(), value_labels='{"1": "%s"}' % ("y" * 121)), [1], ".sav", "label of a category"),
    "texts": (field("x", pa.string(), value_labels='{"f": "female"}'), ["f"], "", ""),
    "letters": (field("x", pa.string(), value_labels='{"1": "one", ".a": "none"}'), ["1", ".a"], "", ""),
    "half": (field("x", pa.float64(), value_labels='{"0.5": "y"}'), [0.5], ".dta", "not a whole number of 32 bits"),
    "many": (
        field("x", pa.int64(), value_labels=json.dumps(dict.fromkeys(range(32_768), "y"))),
        [1],
        ".sav .dta",
        "too many categories with labels; wanted at most 32,767",
    ),
    "empty": (field("x", pa.string()), ["", "a"], ".sav .dta .xpt", "an empty text"),
    "padded": (field("x", pa.string()), ["a "], ".sav .xpt", "ends with a blank"),
    "text": (field("x", pa.string()), ["a" * 32_768], ".sav .xpt", "a text is too long; wanted at most 32,767 bytes"),
    "zero": (field("x", pa.string()), ["a\0b"], ".sav .dta .xpt", "do not come back as they are"),
    "early": (field("x", pa.date32()), [datetime.date(1582, 10, 14)], ".sav .xpt", "wanted 1582-10-15 or later"),
    "span": (field("x", pa.duration("s")), [1], ".sav .dta .xpt", "no durations"),
    "large": (field("x", pa.int64()), [2**60 + 1], ".sav .dta .xpt", "do not come back as they are"),
    "codes": (field("x", pa.int64(), missing_codes="[1, 2, 3, 4]"), [1, 5], ".sav", "max 3 discrete"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_a_program_cannot_hold_is_known_by_name(name):
    column, values, suffixes, message = MISFITS[name]
    for suffix in (".sav", ".dta", ".xpt", ".csv", ".parquet"):
        found = formats.misfits(suffix, pa.schema([column]), {column.name: pa.array(values, column.type)})
        assert bool(found) == (suffix in suffixes.split()), (suffix, found)
        for text in found:
            assert text.startswith(f"column {column.name!r}: ")
            assert message in text
            assert "Next: " in text


def test_names_that_differ_in_capitals_and_all_columns_at_once():
    schema = pa.schema([field(name, pa.int64()) for name in ("x", "X", "a b", "y")])
    assert len(formats.misfits(".sav", schema, {})) == 3
    assert len(formats.misfits(".dta", schema, {})) == 1


def test_a_plan_names_the_columns_that_its_format_cannot_hold(tmp_path):
    columns = {"sex of all": ["F", "M"] * 50, "with": ["a ", "b"] * 50, "ok": ["1", "2"] * 50}
    made = start(write_table(tmp_path / "x.parquet", columns), tmp_path / "work", {"key": list(columns)})
    text = made.plan.read_text("utf-8").replace('format = "same"', 'format = "sav"')
    made.plan.write_text(text, "utf-8")
    with pytest.raises(SpecificationError) as caught:
        load_plan(made.plan)
    assert len(caught.value.problems) == 3
    assert "plan.toml [release]: column 'sex of all': SPSS files cannot hold it" in str(caught.value)
    made.plan.write_text(text.replace('"sav"', '"arrow"'), "utf-8")
    load_plan(made.plan)


def test_values_and_labels_of_the_file_are_tried_before_a_record_is_perturbed(tmp_path, monkeypatch):
    long = [f"{'secret' * 6000}{k % 2}" for k in range(100)]
    table = pa.table(
        {"sex": ["F", "M"] * 50, "said": long, "born": [datetime.date(1500, 1, 1)] * 100},
    )
    pq.write_table(table, tmp_path / "x.parquet")
    made = start(tmp_path / "x.parquet", tmp_path / "work", {"key": ["sex"], "other": ["said", "born"]})
    book = made.codebook.read_text("utf-8")
    book = re.sub(r"(?s)(name = \"(?:said|born)\".*?)categories = \[.*?\]\n(?=\n|$)", r"\1", book)
    made.codebook.write_text(book, "utf-8")
    made.plan.write_text(made.plan.read_text("utf-8").replace('format = "same"', 'format = "sav"'), "utf-8")
    plan = load_plan(made.plan)
    monkeypatch.setattr("postrand.workflow.pipeline.design_blocks", None)  # what comes after is never reached
    with pytest.raises(DataError) as caught:
        run(plan, tmp_path / "out", release_key=KEY)
    text = str(caught.value)
    assert "column 'said': SPSS files cannot hold it: a text is too long" in text
    assert "column 'born': SPSS files cannot hold it: a date is earlier" in text
    assert "secret" not in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("other", "kept"), [("ééé", ["a", "ééé"]), (15 * "é", ["a"]), (15 * "e", ["a", 15 * "e"])])
def test_a_labelled_text_that_no_record_has_does_not_stop_an_spss_file(tmp_path, other, kept):
    labels = json.dumps({"a": "first", other: "never"}, ensure_ascii=False)
    table = pa.table([pa.array(["a", "a"])], schema=pa.schema([field("x", pa.string(), value_labels=labels)]))
    with formats.open_writer(tmp_path / "x.sav", table.schema) as writer:
        writer.write(table.to_batches()[0])
    source = formats.read(tmp_path / "x.sav")
    assert pa.Table.from_batches(source.batches())["x"].to_pylist() == ["a", "a"]
    assert list(json.loads(source.schema.field("x").metadata[b"value_labels"])) == kept


def test_the_workbench_opens_such_a_file_and_its_plan(tmp_path):
    path = write_csv(tmp_path / "s.csv", {"sex": ["F", "M"] * 50, "town": ["Bär", "Köln", "Köln", "Bär"] * 25})
    opened = opening.open_file(path)
    assert opened.path == formats.File(path, ReadSettings(";", "windows-1252", "."))
    decisions = open_decisions(opened, {"sex": "key", "town": "key"})
    assert "s.csv --separator ';' --encoding windows-1252 --decimal ." in documents.commands(decisions, "data")
    assert documents.plan_data(decisions, tmp_path)["source"]["separator"] == ";"
    made = start(path, tmp_path / "work", {"key": ["sex", "town"]})
    assert plans.open_plan(made.plan, tmp_path / "work").opened.rows == 100


def test_rare_categories_are_noted_relative_to_the_number_of_records():
    area = ["a"] * 900 + ["b"] * 85 + ["c"] * 15
    assert drafts({"area": area})["area"]["notes"][0].startswith("categories with fewer than 20 records: 1;")
    assert drafts({"area": area * 40})["area"]["notes"] == []
    assert drafts({"area": area[800:]})["area"]["notes"][0].startswith("categories with fewer than 20 records: 1;")
    assert drafts({"area": ["a", "b", "c"]})["area"]["notes"] == []
    days = [datetime.date(2020, 1, 1 + (k % 400 == 0) + (k % 3 == 0)) for k in range(1200)]
    assert drafts({"wave": days})["wave"]["notes"][0].startswith("categories with fewer than 20 records: 1;")


def test_a_release_is_verified_against_a_file_as_its_plan_reads_it(tmp_path):
    path = write_csv(tmp_path / "s.csv", {"sex": ["F", "M"] * 150, "town": ["Bär", "Köln", "Genf"] * 100})
    made = start(path, tmp_path / "work", {"key": ["sex", "town"]})
    (tmp_path / "key").write_text("6b" * 32)
    (tmp_path / "key").chmod(0o600)
    asked = ["protect", "--plan", str(made.plan), "--out", str(tmp_path / "out"), "--key-file", str(tmp_path / "key")]
    done = CliRunner().invoke(cli.main, asked)
    assert done.exit_code == 0, done.output
    plan = ["--plan", str(made.plan), "--key-file", str(tmp_path / "key")]
    again = CliRunner().invoke(cli.main, ["verify", str(tmp_path / "out"), *plan])
    assert again.exit_code == 0, again.output
    plain = CliRunner().invoke(cli.main, ["verify", str(tmp_path / "out"), "--file", str(path)])
    assert plain.exit_code == 0, plain.output


def test_portable_files_of_spss_are_read(tmp_path):
    frame = pd.DataFrame({"SEX": ["f", "m"], "PAY": [1.5, 2.0]})
    pyreadstat.write_por(frame, tmp_path / "x.por", column_labels={"SEX": "Sex of the person"})
    source = formats.read(tmp_path / "x.por")
    assert pa.Table.from_batches(source.batches()).to_pylist() == frame.to_dict("records")
    assert source.schema.field("SEX").metadata[b"label"] == b"Sex of the person"
    assert formats.written_as("x.por") == ".sav"


def test_the_catalogue_of_a_sas_data_set_labels_its_columns(tmp_path):
    schema = pa.schema([field("sex", pa.int64(), format="SEXF"), field("town", pa.string(), format="$TOWN8.")])
    found = sas.labelled(schema, {"SEXF": {1.0: "female"}, "$TOWN": {"a": "Aachen"}})
    assert found.field("sex").metadata[b"value_labels"] == b'{"1": "female"}'
    assert found.field("town").metadata[b"value_labels"] == b'{"a": "Aachen"}'
    (tmp_path / "x.xpt").write_bytes(b"x")
    with pytest.raises(UsageError, match="a transport file has no catalogue"):
        formats.read(formats.File(tmp_path / "x.xpt", ReadSettings(catalog="x.sas7bcat")))


def test_engines_release_the_same_from_a_file_with_settings(tmp_path):
    columns = {
        "sex": ["F", "M"] * 150,
        "town": ["Bär", "Köln", "Genf"] * 100,
        "pay": np.random.default_rng(1).choice([1.5, 2.25], 300).tolist(),
    }
    plain = write_csv(tmp_path / "plain.csv", columns, ",", "utf-8")
    made = start(plain, tmp_path / "work", {"key": ["sex", "town"], "other": ["pay"]})
    wanted = run(load_plan(made.plan), tmp_path / "plain", release_key=KEY).data_path.read_bytes()
    odd = write_csv(tmp_path / "odd.csv", columns, ";", "utf-16")
    made = start(odd, tmp_path / "odd", {"key": ["sex", "town"], "other": ["pay"]})
    for engine in ("local", "duckdb"):
        released = run(load_plan(made.plan), tmp_path / engine, release_key=KEY, engine=engine)
        assert released.data_path.read_bytes() == wanted


def test_the_workbench_keeps_an_uploaded_file_by_its_whole_suffix(tmp_path):
    place = formats.File(tmp_path / "a.csv.gz", ReadSettings(";"))
    assert formats.moved(place, tmp_path / "b.csv.gz") == formats.File(tmp_path / "b.csv.gz", ReadSettings(";"))
    assert formats.moved(tmp_path / "a.csv", tmp_path / "b.csv") == tmp_path / "b.csv"
    assert formats.suffix_of("a b.CSV.GZ") == ".csv.gz"
