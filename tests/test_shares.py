"""The parts of a limit on epsilon: never above it, exactly, and the same for a draft as for advice."""

import math
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.plan import load_plan
from postrand.workflow.draft import start
from postrand.workflow.epsilon import shares


@given(st.floats(0.01, 60), st.integers(1, 60))
def test_shares_are_within_the_total_and_waste_little(total, parts):
    found = shares([total / parts] * parts, total)
    assert sum(map(Fraction, found)) <= Fraction(total)
    assert math.fsum(found) > total - 1.0001e-4 * (parts + 1)


@pytest.mark.parametrize(("parts", "total"), [(4, 4.0), (3, 4.0), (5, 4.0)])
def test_a_draft_divides_a_limit_as_advice_does(tmp_path, parts, total):
    names = [f"v{k}" for k in range(parts)]
    held = {name: [f"{name}{(row >> k) % 2}" for row in range(200)] for k, name in enumerate(names)}
    pq.write_table(pa.table(held), tmp_path / "s.parquet")
    made = start(tmp_path / "s.parquet", tmp_path / "w", {"key": names}, way="blocks", total=total)
    plan = load_plan(made.plan)
    assert [getattr(block.privacy, "epsilon", None) for block in plan.blocks] == shares([total / parts] * parts, total)
    assert getattr(plan.privacy, "epsilon", None) == made.epsilon == total
