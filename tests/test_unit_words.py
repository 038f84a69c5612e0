"""What a curator is told about persons and households: next steps that name what can be changed."""

from types import SimpleNamespace

from postrand.mechanism import Mechanism, Units
from postrand.mechanism.matrix import randomised_response
from postrand.privacy import DifferentialPrivacy
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
