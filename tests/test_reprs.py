"""What people see of a value in a session: one line or a few, and never a number of the confidential file."""

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.data.table import tally
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("area", role="key", categories=("n", "e", "s"), missing="category"),
        Variable("pay", role="other", type="double"),
    )
)
MECHANISM = Mechanism({"sex": randomised_response(2, 1.0), "area": randomised_response(4, 0.5)}, BOOK)
MANY = Codebook(tuple(Variable(f"v{i}", role="key", categories=("a", "b")) for i in range(200)))
DATA = pa.table({"sex": ["F", "M", "M", "F"] * 30, "area": ["n", "e", "s", None, "e"] * 24})


def values():
    yield "codebook", BOOK, "Codebook(3 variables: sex (key, 2), area (key, 4), pay (other))"
    yield "matrix", randomised_response(2, 1.0), "TransitionMatrix(2 categories, stays with probability 0.7311, ε = 1)"
    uneven = TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]])
    yield "uneven", uneven, "TransitionMatrix(2 categories, stays with probability 0.5 to 0.75, ε = 0.6931)"
    yield "block", MECHANISM["sex"], "Block(sex: 2 cells, ε = 1)"
    law = TransitionMatrix.identity(2)
    given = Block(("area", "sex"), law, cells=((0, 0), (1, 0)), given=("area",))
    yield "given", given, "Block(sex given area: 2 cells, ε = inf)"
    yield "mechanism", MECHANISM, "Mechanism(sex (ε = 1), area (ε = 0.5))"
    yield "unbound", Mechanism({"sex": randomised_response(2, 1.0)}), "Mechanism(sex (ε = 1); no codebook)"
    yield "prior", pr.Prior([0.123, 0.877], provenance="confidential"), "Prior(2 categories, confidential)"
    made = pr.design([0.5, 0.3, 0.2], privacy=pr.DifferentialPrivacy(1.0))
    yield "design", made, f"Design(3 categories, value {made.value:.6g}, optimal, ε = 1)"
    counted = tally(("sex", "area"), (2, 4), [([np.array([0, 1, 1]), np.array([2, 0, 3])], None)])
    yield "table", counted, "ContingencyTable(sex (2) × area (4), dense)"
    report = pr.risk.assess(DATA, ["sex", "area"])
    yield "risk", report, "RiskReport(sex, area: 120 records, 0 sample uniques)"
    yield "key", pr.ReleaseKey.from_seed(1), "ReleaseKey(is_private=False)"


@pytest.mark.parametrize(("value", "wanted"), [pytest.param(v, w, id=name) for name, v, w in values()])
def test_a_value_is_shown_in_a_line(value, wanted):
    assert repr(value) == wanted


def test_a_certificate_is_shown_by_its_claims():
    one = pr.certify(MECHANISM, [pr.DifferentialPrivacy(1.5)])
    assert repr(one) == "\n".join(["Certificate:", *one.sentences])
    claims = [pr.Claim(pr.DifferentialPrivacy(1.5), ("sex", "area"))] * 9
    assert repr(pr.certify(MECHANISM, claims)).splitlines()[-1] == "and 4 more statements"


def test_long_lists_are_cut():
    assert repr(MANY).endswith("v7 (key, 2) and 192 more)")
    law = Mechanism({v.name: randomised_response(2, 1.0) for v in MANY.variables}, MANY)
    assert repr(law).endswith("v7 (ε = 1) and 192 more)")
    assert max(len(repr(MANY)), len(repr(law))) < 300


def test_small_counts_are_not_shown():
    rare = pa.table({"sex": ["F"] * 50 + ["M"], "area": ["n"] * 50 + ["e"]})
    assert (
        repr(pr.risk.assess(rare, ["sex", "area"])) == "RiskReport(sex, area: 51 records, fewer than 5 sample uniques)"
    )


def test_a_plan_and_a_release_are_shown_in_a_line(tmp_path):
    import pyarrow.parquet as pq

    from postrand.workflow.draft import initialise

    data = DATA.set_column(1, "area", DATA["area"].fill_null("w"))
    pq.write_table(data, tmp_path / "people.parquet")
    _, path = initialise(tmp_path / "people.parquet", tmp_path, {"key": ["sex", "area"]})
    plan = pr.load_plan(path)
    assert repr(plan) == "Plan(people.parquet: 2 blocks, sex, area; DifferentialPrivacy(epsilon=2.0))"
    release = pr.run(plan, tmp_path / "out")
    assert repr(release) == f"Release({str(tmp_path / 'out')!r}: 2 variables, 2 of them perturbed, 3 claims)"


def test_large_estimates_have_no_exponent():
    pay = Variable("pay", role="other", type="double")
    sex = Variable("sex", role="key", categories=("f", "m"))
    law = TransitionMatrix.from_array([[0.9, 0.1], [0.1, 0.9]])
    mechanism = Mechanism({"sex": law}, codebook=Codebook((sex, pay)))
    frame = pa.table({"sex": ["f", "m"] * 50, "pay": [100_000.0] * 60 + [1_234_567.0] * 40})
    shown = str(pr.estimate.quantile(frame, "pay", mechanism, [0.5, 0.9]))
    assert "100000" in shown
    assert "1234567" in shown
    assert "e+" not in shown
