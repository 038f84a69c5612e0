"""The risk measures of the workbench's second screen."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.app import computations, measure_views, opening
from postrand.app.decisions import open_decisions
from postrand.risk.measures import Unmeasured, kinds

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def decisions(tmp_path: Path):
    rng = np.random.default_rng(2)
    field = pa.field(EVIL, pa.string(), metadata={"label": EVIL, "value_labels": json.dumps({"a": EVIL})})
    data = [rng.choice(["a", "b", "c"], 300), rng.choice([EVIL, "n", "s"], 300, p=[0.01, 0.5, 0.49])]
    columns = [pa.array(c) for c in (*data, np.arange(300) // 3, rng.uniform(2, 9, 300), rng.choice(["x", "y"], 300))]
    schema = pa.schema(
        [field, *(pa.field(n, c.type) for n, c in zip(("area", "h", "w", "ill"), columns[1:], strict=True))]
    )
    pq.write_table(pa.table(columns, schema=schema), tmp_path / "x.parquet")
    roles = {EVIL: "key", "area": "key", "h": "household", "w": "weight", "ill": "sensitive"}
    return open_decisions(opening.open_file(tmp_path / "x.parquet", "x"), roles)


def test_every_measure_that_does_not_take_long_is_shown(decisions):
    found = computations.measures(decisions)
    assert found is not None
    assert [r.measure for r in found.results] == [n for n, kind in kinds().items() if kind.cost != "long"]
    assert [r for r in found.results if isinstance(r, Unmeasured)] == []
    page = str(measure_views.measures_view(found))
    for kind in kinds().values():
        assert kind.title in page
    assert "by latent classes: </strong>it takes minutes, so this screen leaves it out" in page
    assert "One bar for each range of risk" in page


def test_names_and_labels_in_results_are_text(decisions):
    page = str(measure_views.measures_view(computations.measures(decisions)))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_what_cannot_be_measured_is_said(decisions):
    other = dataclasses.replace(decisions, roles=("key", "key", "drop", "drop", "drop"))
    page = str(measure_views.measures_view(computations.measures(other)))
    assert "no column of household numbers is named" in page
    assert str(measure_views.measures_view(None)) == ""
