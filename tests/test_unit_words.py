"""What a curator is told about persons and households: next steps that name what can be changed."""

from types import SimpleNamespace

from postrand.privacy import DifferentialPrivacy
from postrand.workflow.unit_budget import to_lower


def test_a_budget_that_is_used_up_names_what_spends_it():
    own = SimpleNamespace(privacy=DifferentialPrivacy(1.0))
    assert to_lower(SimpleNamespace(split=object(), blocks=())) == "lower the epsilon of [split]"
    assert to_lower(SimpleNamespace(split=None, blocks=(own,))) == "lower the blocks' own"
    assert to_lower(SimpleNamespace(split=object(), blocks=(own,))).endswith("[split] or the blocks' own")
