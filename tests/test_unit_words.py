"""What a curator is told about persons and households: next steps that name what can be changed."""

from types import SimpleNamespace

import pytest

from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.estimate.split_parts import parts_of
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import randomised_response
from postrand.plan.unit_plan import unit_from
from postrand.privacy import DifferentialPrivacy
from postrand.support import wordings
from postrand.workflow.unit_budget import to_lower, unit_advice


def test_a_budget_that_is_used_up_names_what_spends_it():
    own = SimpleNamespace(privacy=DifferentialPrivacy(1.0))
    assert to_lower(SimpleNamespace(split=object(), blocks=())) == "lower the epsilon of [split]"
    assert to_lower(SimpleNamespace(split=None, blocks=(own,))) == "lower the blocks' own"
    assert to_lower(SimpleNamespace(split=object(), blocks=(own,))).endswith("[split] or the blocks' own")


def test_a_weak_level_of_a_unit_has_a_next_step():
    units = Units(household="hid", largest_household=12)
    assert unit_advice(Mechanism({"sex": randomised_response(2, 0.5)}, units=units)) == ()
    [said] = unit_advice(Mechanism({"sex": randomised_response(2, 3.0)}, units=units))
    assert "Next: lower its epsilon" in said
    assert "household_variables" in said


def test_a_refused_table_offers_no_model_where_draws_are_shared():
    """A next step that is refused too is none."""
    book = Codebook(tuple(Variable(name, categories=("0", "1"), role="key") for name in ("a", "b")))
    law = randomised_response(2, 1.0)
    split = Split.of([0.5, 0.5], [Block("a", law), Block("b", law)])
    with pytest.raises(EstimationError, match="or --method model"):
        parts_of(split, book, ["a", "b"])
    with pytest.raises(EstimationError, match="perturb own for each record") as caught:
        parts_of(split, book, ["a", "b"], shared=["own"])
    assert "complete" not in str(caught.value)


def test_what_cannot_be_estimated_is_said_before_the_release():
    units = Units(household="hid", largest_household=2)
    law = Mechanism([Block("own", randomised_response(2, 0.5), unit="household")], units=units)
    [said] = unit_advice(law)
    assert "No joint model" in said
    assert "own" in said
    assert "postrand estimate --psu" in wordings.limit({"code": "shared_household", "variables": ["own"]})
    assert "--psu" not in wordings.limit({"code": "shared_person", "variables": ["own"]})


def test_a_dropped_household_column_has_a_next_step():
    book = Codebook((Variable("hid", role="drop"), Variable("sex", categories=("0", "1"), role="key")))
    plan, [said] = unit_from({"household": "hid", "largest_household": 4}, book, "plan [unit]")
    assert plan is None
    assert "wanted role 'household'. Next: set this role in the codebook" in said
