"""SPSS, Stata and SAS files: what they say of a column goes through codebook and release; what they lack is refused."""

import json
import re
import time
from typing import Any

import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from postrand import formats, release
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError
from postrand.plan import infer, load_plan
from postrand.risk.reveals import UnperturbedWarning
from postrand.workflow import draft
from postrand.workflow.pipeline import run

LABELS: dict[str, Any] = {
    "sex": {1: "man", 2: "woman", 9: "no answer"},
    "area": {"n": "north side of the town", "elsewhere in the country": "another place"},
}
NAMES: dict[str, Any] = {"sex": "Sex of respondent", "area": "Area", "pay": "Pay, monthly", "day": "Day of interview"}


def frame(n=60):
    sex = [1.0, 2.0, 9.0, 2.0, 1.0, None] * (n // 6)
    area = ["n", "elsewhere in the country", "n"] * (n // 3)
    day = pd.Series([pd.Timestamp("2020-02-29").date()] * n, dtype=object)
    return pd.DataFrame({"sex": sex, "area": area, "pay": [1200.5, 900.25, 10.0] * (n // 3), "day": day})


@pytest.fixture
def sav(tmp_path):
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        frame(),
        str(path),
        column_labels=NAMES,
        variable_value_labels=LABELS,
        missing_ranges={"sex": [9], "area": ["n"], "pay": [{"lo": 9000, "hi": 9999}]},
        variable_measure={"sex": "nominal", "pay": "scale"},
        variable_format={"sex": "F3.0"},
    )
    return path


def test_a_draft_takes_over_labels_and_missing_codes(sav):
    drafts = {d["name"]: d for d in infer.infer(formats.read(sav))}
    assert drafts["sex"] == {
        "name": "sex",
        "role": "",
        "type": "int64",
        "missing": "category",
        "label": "Sex of respondent",
        "categories": [1, 2, 9],
        "labels": ["man", "woman", "no answer"],
        "missing_codes": [9],
        "notes": [],
    }
    assert drafts["area"]["labels"] == ["another place", "north side of the town"]
    assert drafts["area"]["missing_codes"] == ["n"]
    assert drafts["pay"]["type"] == "double"
    assert drafts["day"]["type"] == "date32[day]"


def test_values_that_are_labelled_could_occur(tmp_path):
    path = tmp_path / "x.sav"
    labels: dict[str, Any] = {
        "a": {1: "one", 2: "two", 10: "ten", 9: "nine"},
        "b": {1: "one"},
        "c": {"z": "zed", "y": "why"},
    }
    pyreadstat.write_sav(
        pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": ["z", "z"]}), str(path), variable_value_labels=labels
    )
    a, b, c = infer.infer(formats.read(path))
    assert (a["categories"], a["labels"]) == ([1, 2, 9, 10], ["one", "two", "nine", "ten"])
    assert (b["categories"], b["labels"]) == (
        [1, 2],
        ["one", "2"],
    )  # not all values have a label: it is no list of them
    assert (c["categories"], c["labels"]) == (["y", "z"], ["why", "zed"])


def released(source, tmp_path, form="same"):
    """Release a file whose pay settles its area, and rules out values of sex: the warnings are right, but not asked."""
    draft.initialise(source, tmp_path / "work", {"key": ["sex", "area"], "other": ["*"]})
    plan = tmp_path / "work" / "plan.toml"
    text = plan.read_text().replace('format = "same"', f'format = "{form}"')
    text = re.sub(r"(?m)^as_is = .*\n", "", text)
    plan.write_text(text.replace("\n[release]\n", '\n[release]\nas_is = ["pay"]\n'))
    with pytest.warns(UnperturbedWarning, match="reveals? true values of (area|sex), which is perturbed"):
        return run(load_plan(plan), tmp_path / "release", release_key=b"k" * 32)


@pytest.mark.filterwarnings("ignore:.*categories that mean no answer:postrand.risk.reveals.UnperturbedWarning")
def test_an_spss_release_has_what_the_source_had(sav, tmp_path):
    made = released(sav, tmp_path)
    assert release.verify(made.path).ok
    _, before = pyreadstat.read_sav(str(sav), user_missing=True)
    data, after = pyreadstat.read_sav(str(made.data_path), user_missing=True)
    for what in ("variable_value_labels", "missing_ranges", "original_variable_types"):
        assert getattr(after, what) == getattr(before, what), what
    marked = {name: f"{label} (perturbed)" for name, label in NAMES.items() if name in ("sex", "area")}
    assert after.column_names_to_labels == {**before.column_names_to_labels, **marked}
    assert after.variable_measure == before.variable_measure
    assert len(data) == 60
    assert made.codebook["sex"].missing_codes == (9,)
    assert set(data["area"]) <= set(LABELS["area"])


@pytest.mark.filterwarnings("ignore:.*categories that mean no answer:postrand.risk.reveals.UnperturbedWarning")
@pytest.mark.parametrize(("form", "kept"), [("dta", {"sex": LABELS["sex"]}), ("xpt", {})])
def test_other_programs_get_what_they_can_hold(sav, tmp_path, form, kept):
    made = released(sav, tmp_path, form)
    assert release.verify(made.path).ok
    read = pyreadstat.read_dta if form == "dta" else pyreadstat.read_xport
    _, meta = read(str(made.data_path))
    mark = " (perturbed)" if form == "dta" else ""
    assert meta.column_names_to_labels == {n: t + mark * (n in ("sex", "area")) for n, t in NAMES.items()}
    assert meta.variable_value_labels == kept
    assert made.codebook["area"].labels == ("another place", "north side of the town")


def test_missing_letters_of_stata_survive(tmp_path):
    path = tmp_path / "x.dta"
    column = pd.DataFrame({"sex": pd.Series([1.0, "a", 2.0, "b", None, 1.0] * 10, dtype=object)})
    labels: dict[str, Any] = {"sex": {1: "man", 2: "woman", "a": "refused"}}
    pyreadstat.write_dta(column, str(path), missing_user_values={"sex": ["a", "b"]}, variable_value_labels=labels)
    source = formats.read(path)
    draft = infer.infer(source)[0]
    assert draft["categories"] == [".a", ".b", "1", "2"]
    assert draft["labels"] == ["refused", ".b", "man", "woman"]
    assert draft["missing_codes"] == [".a", ".b"]
    with formats.open_writer(tmp_path / "y.dta", source.schema) as writer:
        for batch in source.batches(batch_size=7):
            writer.write(batch)
    data, meta = pyreadstat.read_dta(str(tmp_path / "y.dta"), user_missing=True, output_format="dict")
    assert data["sex"] == column["sex"].tolist()
    assert meta.variable_value_labels == labels
    assert meta.missing_user_values == {"sex": ["a", "b"]}


def test_the_codebook_says_which_number_type(tmp_path):
    path = tmp_path / "x.sav"
    pyreadstat.write_sav(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 2.5]}), str(path))
    assert formats.read(path).schema.types == [pa.int64(), pa.float64()]
    book = Codebook((Variable("a", role="other", type="bool"), Variable("b", role="other", type="double")))
    assert next(formats.read(path, book).batches()).to_pydict() == {"a": [False, True], "b": [1.0, 2.5]}
    wrong = Codebook((Variable("a", role="other", type="double"), Variable("b", role="other", type="int64")))
    with pytest.raises(DataError, match="column 'b' has values that are not exactly of type int64") as caught:
        list(formats.read(path, wrong).batches())
    assert "2.5" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".xpt"])
def test_bytes_do_not_depend_on_the_time(tmp_path, suffix, monkeypatch):
    table = pa.table({"x": ["a", "b"], "n": [1, 2]})
    made = []
    for name in ("one", "two"):
        with formats.open_writer(tmp_path / f"{name}{suffix}", table.schema) as writer:
            writer.write(table.to_batches()[0])
        made.append((tmp_path / f"{name}{suffix}").read_bytes())
        time.sleep(1.1)
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("suffix", "column"),
    [
        (".sav", pa.array(["kept blank "])),
        (".xpt", pa.array([1e-300])),
        (".dta", pa.array([1.7e308])),
        (".sav", pa.array([2**53 + 1])),
        (".dta", pa.array([""])),
        (".sav", pa.array([float("nan")])),
    ],
)
def test_what_a_file_would_change_is_refused(tmp_path, suffix, column):
    table = pa.table({"x": column})
    with (
        pytest.raises(DataError, match=r"cannot hold (the values of 'x' exactly|this)") as caught,
        formats.open_writer(tmp_path / f"x{suffix}", table.schema) as writer,
    ):
        writer.write(table.to_batches()[0])
    assert "kept" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_file_is_named_as_such(tmp_path):
    path = tmp_path / "x.sav"
    path.write_bytes(b"$FL2@(#)ENCRYPTEDSAV" + bytes(200))
    with pytest.raises(DataError, match="protected by a password"):
        formats.read(path)


def test_sas_data_sets_are_read_only(tmp_path):
    with (
        pytest.raises(UsageError, match=r"\.sas7bdat files can be read, but not written.*\.xpt"),
        formats.open_writer(tmp_path / "x.sas7bdat", pa.schema([("x", pa.string())])),
    ):
        pass
    path = tmp_path / "y.sas7bdat"
    path.write_bytes(b"nothing that SAS wrote" * 9)
    with pytest.raises(DataError, match="not a readable SAS file"):
        formats.read(path)


def test_strange_labels_of_other_files_do_no_harm(tmp_path):
    said = {"value_labels": json.dumps({"x": "no number", "1": "one"}), "missing_codes": "not JSON", "label": "L"}
    schema = pa.schema([pa.field("n", pa.int64(), metadata=said)])
    with formats.open_writer(tmp_path / "x.sav", schema) as writer:
        writer.write(pa.record_batch({"n": [1, 2]}))
    _, meta = pyreadstat.read_sav(str(tmp_path / "x.sav"))
    assert meta.variable_value_labels == {"n": {1.0: "one"}}
    assert meta.missing_ranges == {}
