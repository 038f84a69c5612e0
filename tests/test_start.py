"""Starting from a file: plans that load as they are written."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.errors import UsageError
from postrand.infer import load_codebook
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy
from postrand.start import assign_roles, initialise


def test_what_is_written_is_a_valid_plan_for_any_column_name(tmp_path):
    names = ['a "quoted" name', "naïve", "x.y", " blanks "]
    pq.write_table(pa.table({n: ["p", "q"] * 2 for n in names}), tmp_path / "a.parquet")
    _, plan = initialise(tmp_path / "a.parquet", tmp_path / "work", {"key": names[:3], "other": ["*"]}, epsilon=0.5)
    loaded = load_plan(plan)
    assert [b.variables for b in loaded.blocks] == [(n,) for n in names[:3]]
    assert loaded.privacy == DifferentialPrivacy(1.5)
    assert loaded.source == (tmp_path / "a.parquet").resolve()
    assert "\n# The claim on all perturbed values" in plan.read_text()


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
