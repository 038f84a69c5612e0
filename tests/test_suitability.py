"""What goes together: asked of the members, said in a sentence, and found by discovery."""

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from postrand.app import forms
from postrand.designers import (
    STRUCTURES,
    General,
    LeastLoss,
    Metric,
    Setting,
    Symmetric,
    UniformOffDiagonal,
    design,
    supports,
)
from postrand.errors import DesignError, SpecificationError
from postrand.objectives import OBJECTIVES, EstimatorVariance, ExpectedDistance, L2Loss, MutualInformation, WholeRecord
from postrand.privacy import MODELS, Bistochastic, DifferentialPrivacy, MetricPrivacy, SpontaneousRecognition, Together
from postrand.support import options
from tests.plan_case import written

DP = DifferentialPrivacy(1.0)
NEAR = MetricPrivacy(1.0, ((0, 1, 1.0), (1, 2, 1.0)))

CODEBOOK = """
[[variables]]
name = "a"
role = "key"
ordered = true
categories = ["0", "1", "2"]

[[variables]]
name = "b"
role = "key"
categories = ["x", "y"]
"""


def plan_of(folder, text):
    return written(folder, CODEBOOK, '[source]\nfile = "s.csv"\ncodebook = "codebook.toml"\n' + text)


@pytest.mark.parametrize(
    ("privacy", "objective", "structure", "setting", "words"),
    [
        (
            DP,
            MutualInformation(),
            Metric(),
            None,
            "no algorithm for 'differential'; wanted 'metric'",
        ),
        (DP, L2Loss(), General(), None, "no algorithm for 'l2'; wanted 'information' or"),
        (DP, MutualInformation(), General(), Setting(size=700), "too many categories for structure 'general'; got 700"),
        (DP, EstimatorVariance(), UniformOffDiagonal(), Setting(size=25), "'variance': too many categories to search"),
        (
            NEAR,
            ExpectedDistance(),
            Metric(),
            Setting(listed=True),
            "a distance needs a block that exchanges all values",
        ),
        (NEAR, ExpectedDistance(), Metric(), Setting(classes=True), "a distance needs a block"),
        (DP, WholeRecord(), General(), Setting(prior="uniform"), "needs the frequencies of its variables together"),
        (SpontaneousRecognition(0.1), L2Loss(), LeastLoss(), Setting(prior="dp"), "prior = 'dp' hides nothing"),
        (DP, L2Loss(), LeastLoss(), None, "no algorithm for 'differential'; wanted 'recognition'"),
    ],
)
def test_a_sentence_says_what_is_supported_instead(privacy, objective, structure, setting, words):
    found = supports(privacy, objective, structure, setting)
    assert found is not None
    assert words in found
    assert "Next: " in found


def test_a_list_of_models_goes_with_the_structure_that_knows_both():
    both = Together((SpontaneousRecognition(0.1), DP))
    assert supports(both, L2Loss(), LeastLoss()) is None
    assert supports(Together((DP, Bistochastic(0.5))), L2Loss(), LeastLoss()) is not None
    assert supports(both, MutualInformation(), Symmetric()) is not None


def test_a_design_is_refused_by_the_sentence_that_was_given_before():
    with pytest.raises(DesignError) as caught:
        design([0.5, 0.3, 0.2], DP, MutualInformation(), Metric())
    assert str(caught.value) == supports(DP, MutualInformation(), Metric())


def test_a_plan_is_refused_before_a_record_is_read_and_says_which_structures_do(tmp_path):
    wrong = '[privacy]\nmodel = "differential"\nepsilon = 1.0\n[[blocks]]\nvariables = ["a"]\nstructure = "metric"\n'
    with pytest.raises(SpecificationError, match=r"block 'a': structure 'metric' .* Structures that do: uniform-off"):
        plan_of(tmp_path, wrong)
    strata = '[privacy]\nmodel = "bistochastic"\nbeta = 0.5\n[[blocks]]\nvariables = ["a"]\ngiven = ["b"]\n'
    with pytest.raises(SpecificationError, match="'bistochastic' is not defined within classes"):
        plan_of(tmp_path, strata)


def test_a_block_that_says_no_more_gets_what_goes_with_its_model(tmp_path):
    near = 'privacy = { model = "metric", epsilon = 1.0, distance = "ranks" }\n'
    head = '[privacy]\nmodel = "differential"\nepsilon = 3.0\n[[blocks]]\nvariables = ["a"]\n'
    (block,) = plan_of(tmp_path, head + near).blocks
    assert (block.objective, block.structure) == (ExpectedDistance(((0, 1, 1.0), (1, 2, 1.0))), Metric())
    shared = '[privacy]\nmodel = "bistochastic"\nbeta = 0.5\n[[blocks]]\nvariables = ["a"]\n'
    assert plan_of(tmp_path, shared).blocks[0].structure.name == "bistochastic"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_what_a_model_names_as_its_own_works_with_it(model):
    objective = options.named(OBJECTIVES, model.traits.objective)()
    structure = options.named(STRUCTURES, model.traits.structure)()
    privacy = model.example([50, 30, 20]) if model is MetricPrivacy else None
    privacy = privacy or options.usual(model)
    assert supports(privacy, objective, structure) is None


def test_the_workbench_asks_the_same():
    for objective in forms.offered("objective"):
        made = options.usual(objective)
        for name, reason in forms.unsuited(DP, made).items():
            assert reason == (supports(DP, made, options.named(STRUCTURES, name)()) or "")


MEMBER = '''
from dataclasses import dataclass
from typing import ClassVar
from postrand.objectives import ObjectiveTraits

@dataclass(frozen=True)
class Stays:
    """Keep the chance that a value stays."""

    name: ClassVar[str] = "stays"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits("Keep answers.", "share", rank={rank})
    maximise: ClassVar[bool] = True

    def value(self, array, prior):
        return float(prior @ array.diagonal())
'''


def test_a_new_member_is_one_new_file(tmp_path, monkeypatch):
    package = tmp_path / "house_of_toys"
    (package / "deep").mkdir(parents=True)
    for folder in (package, package / "deep"):
        (folder / "__init__.py").write_text("", "utf-8")
    (package / "stays.py").write_text(MEMBER.replace("{rank}", "9"), "utf-8")
    later = MEMBER.replace("{rank}", "8").replace("Stays", "Later").replace('"stays"', '"later"')
    (package / "deep" / "later.py").write_text(later, "utf-8")
    (package / "slow_kernels.py").write_text("raise ImportError\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found: Sequence[Any] = options.discover([str(package)], "house_of_toys", lambda kind: hasattr(kind, "value"))
    assert [member.name for member in found] == ["later", "stays"]
    for name in [name for name in sys.modules if name.startswith("house_of_toys")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("member", [*MODELS, *OBJECTIVES, *STRUCTURES], ids=lambda m: m.name)
def test_members_have_names_and_codes_of_their_own(member):
    family: Sequence[Any] = next(f for f in (MODELS, OBJECTIVES, STRUCTURES) if member in f)
    assert [m.name for m in family].count(member.name) == 1
    if member in MODELS:
        assert member.traits.code == f"claim.{member.name}"
    assert dataclasses.is_dataclass(member)
