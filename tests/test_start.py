"""Starting from a file: plans that load as they are written."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.errors import UsageError
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy
from postrand.start import assign_roles, initialise


def test_what_is_written_is_a_valid_plan_for_any_column_name(tmp_path):
    names = ['a "quoted" name', "naïve", "x.y", " blanks "]
    pq.write_table(pa.table({n: ["p", "q", "p"] for n in names}), tmp_path / "a.parquet")
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
