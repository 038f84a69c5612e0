"""What is not released, in the folder of a release in each format: the same records, verified, and said to people."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats, release
from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.not_released import NOT_RELEASED
from postrand.errors import ReleaseError
from postrand.metadata import read_ddi
from postrand.plan import load_plan
from postrand.workflow import pipeline
from tests.release_case import rehash
from tests.split_plan_case import BOOK, NAMES, PLAN, survey

NS = {"d": "ddi:codebook:2_5"}
TEXT = dict.fromkeys(NAMES, NOT_RELEASED)
STATED: dict[str, dict[str, Any]] = {
    "parquet": TEXT,
    "arrow": TEXT,
    "csv": TEXT,
    "duckdb": TEXT,
    "dta": dict.fromkeys(NAMES, ".n"),
    "sav": {"sex": "NR", "age": -9, "ill": -9, "area": "NR"},
    "xpt": {"sex": NOT_RELEASED, "age": ".N", "ill": ".N", "area": NOT_RELEASED},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("formats")
    pq.write_table(survey(), root / "survey.parquet")
    (root / "codebook.toml").write_text(BOOK)
    for kind in STATED:
        told = f'format = "{kind}"' if kind != "duckdb" else 'uri = "duckdb:///out.duckdb"\ntable = "released"'
        (root / "plan.toml").write_text(f"{PLAN}{told}\n")
        pipeline.run(load_plan(root / "plan.toml"), root / kind, release_key=bytes(range(32)))
    return {kind: root / kind for kind in STATED}


@pytest.mark.parametrize("kind", STATED)
def test_releases_in_every_format_verify_and_have_the_same_records(made: dict[str, Path], kind: str) -> None:
    assert release.verify(made[kind]).ok
    found = release.read(made[kind])
    wanted = release.read(made["parquet"]).frame()
    assert found.frame().to_pylist() == wanted.to_pylist()
    for name in NAMES:
        column = found.frame()[name]
        categories = [*map(str, found.codebook[name].categories), NOT_RELEASED]
        assert column.chunk(0).dictionary.to_pylist() == categories
        assert list(column.to_pandas().cat.categories) == categories
        assert set(column.to_pylist()) == {*categories, *([None] if name == "age" else [])}
    book = json.loads((made[kind] / "codebook.json").read_text())
    assert {v["name"]: v["not_released"] for v in book["variables"] if "not_released" in v} == STATED[kind]


@pytest.mark.parametrize("kind", STATED)
def test_catalogues_are_told_what_stands_for_it(made: dict[str, Path], kind: str) -> None:
    root = ET.fromstring((made[kind] / "ddi.xml").read_bytes())
    for name, code in STATED[kind].items():
        variable = next(v for v in root.iterfind("d:dataDscr/d:var", NS) if v.get("name") == name)
        *others, last = variable.iterfind("d:catgry", NS)
        assert (last.get("missing"), last.get("missType")) == ("Y", "not released")
        told = [last.findtext(f"d:{tag}", namespaces=NS) for tag in ("catValu", "labl")]
        assert told == [str(code), NOT_RELEASED]
        assert not any(other.get("missing") for other in others)
        values = [other.findtext("d:catValu", namespaces=NS) for other in others]
        if kind == "dta" and name in ("sex", "area"):
            assert values == [str(k + 1) for k in range(len(values))]
            labels = [other.findtext("d:labl", namespaces=NS) for other in others]
            assert labels == [*{"sex": "FM", "area": "abc"}[name]]
        elif name == "age":
            assert values == ["10", "20", "30"]
        numbers = kind == "dta" or (kind in ("sav", "xpt") and name in ("age", "ill"))
        assert variable.find("d:varFormat", NS).get("type") == ("numeric" if numbers else "character")
        assert json.loads(read_ddi(made[kind] / "ddi.xml")[name]["missing_codes"]) == [str(code)]
    notes = [note.text for note in root.iterfind("d:stdyDscr/d:method/d:notes", NS)]
    assert any("(not released) says that it does not show the variable" in str(text) for text in notes)
    told = json.loads((made[kind] / "croissant.json").read_text())
    assert any("(not released)" in text for text in told["rai:dataManipulationProtocol"])
    fields = {field["name"]: field for field in told["recordSet"][0]["field"]}
    for name, code in STATED[kind].items():
        assert f"its value is {code}, which is not a missing value" in fields[name]["description"]
        numbers = kind == "dta" or (kind in ("sav", "xpt") and name in ("age", "ill"))
        assert fields[name]["dataType"] == ("sc:Integer" if numbers else "sc:Text")
    assert "not a missing value" not in fields["town"].get("description", "")


def test_folders_of_parts_in_every_format(tmp_path: Path) -> None:
    """Three files in, three files out; what stands for not released is that of the parts' format."""
    (tmp_path / "survey").mkdir()
    for number in range(3):
        pq.write_table(survey().slice(number * 900, 900), tmp_path / "survey" / f"{number}.parquet")
    (tmp_path / "codebook.toml").write_text(BOOK)
    wanted: list[Any] = []
    for kind in ("parquet", "csv", "dta", "sav", "xpt"):
        plan = PLAN.replace('"survey.parquet"', '"survey"')
        (tmp_path / "plan.toml").write_text(f'{plan}format = "{kind}"\n')
        found = pipeline.run(load_plan(tmp_path / "plan.toml"), tmp_path / kind, release_key=bytes(range(32)))
        assert len(list((tmp_path / kind / "data").iterdir())) == 3
        assert release.verify(tmp_path / kind).ok
        wanted = wanted or found.frame().to_pylist()
        assert found.frame().to_pylist() == wanted
        book = json.loads((tmp_path / kind / "codebook.json").read_text())
        assert {v["name"]: v["not_released"] for v in book["variables"] if "not_released" in v} == STATED[kind]


def test_another_letter_in_a_sas_file_is_a_forgery(made: dict[str, Path], tmp_path: Path) -> None:
    """A missing answer that is said not to be released, or the other way round: no longer the file of its records."""
    for old, new in ((b"N", b"."), (b".", b"N"), (b"N", b"A")):
        copy = tmp_path / f"{old.hex()}{new.hex()}"
        shutil.copytree(made["xpt"], copy)
        data = (copy / "data.xpt").read_bytes()
        start = data.index(b"HEADER RECORD*******OBSV8") + 80
        at = start + data[start:].index(old + bytes(7))
        (copy / "data.xpt").write_bytes(data[:at] + new + data[at + 1 :])
        rehash(copy)
        with pytest.raises(ReleaseError, match=r"data: |bytes: "):
            release.verify(copy)


def test_a_codebook_that_states_another_code_is_refused(made: dict[str, Path], tmp_path: Path) -> None:
    for kind, old, new in (("sav", "-9", "-99"), ("dta", '".n"', '"."'), ("csv", '"(not released)"', '"M"')):
        copy = shutil.copytree(made[kind], tmp_path / kind)
        text = (copy / "codebook.json").read_text()
        assert f'"not_released": {old}' in text
        (copy / "codebook.json").write_text(text.replace(f'"not_released": {old}', f'"not_released": {new}', 1))
        rehash(copy)
        with pytest.raises(ReleaseError, match=r"codebook\.json: this file does not follow"):
            release.verify(copy)


def test_a_large_file_is_read_back_as_it_was_released(tmp_path: Path) -> None:
    """More records than one part of the reader: letters are found where the part begins."""
    rng, rows = np.random.default_rng(2), 300_000
    book = Codebook((Variable("pay", "key", (1, 2), type="int8", missing="keep"), Variable("sex", "key", ("F", "M"))))
    codes = {"pay": rng.integers(-1, 3, rows).astype(np.int8), "sex": rng.integers(0, 3, rows).astype(np.int8)}
    shown = not_released.shown_codebook(book, book.names)
    schema = pa.schema([not_released.released_field(v) for v in shown.variables])
    columns = [not_released.decode(codes[v.name], v) for v in book.variables]
    with formats.open_writer(tmp_path / "x.xpt", schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    source = formats.read(tmp_path / "x.xpt", shown)
    for names in (["pay", "sex"], ["sex", "pay"], ["pay"]):
        found = pa.Table.from_batches(list(source.batches(names)))
        for name in names:
            assert not_released.encode(found[name], book[name]).tolist() == codes[name].tolist()
