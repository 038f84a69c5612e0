"""The conformance suites on every member, found by discovery, and on members of someone else's."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

from postrand import testing
from postrand.designers import STRUCTURES, Structure, StructureTraits, Symmetric
from postrand.designers.problem import Solution
from postrand.objectives import OBJECTIVES, CustomObjective, ExpectedChanges, MutualInformation, ObjectiveTraits
from postrand.privacy import MODELS, DifferentialPrivacy, Finding, LinearConstraints, ModelTraits
from postrand.support.options import Range, ranged


@pytest.mark.parametrize("check", testing.MODEL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("member", MODELS, ids=lambda member: member.name)
def test_every_model_keeps(check, member):
    assert check(member) is None


@pytest.mark.parametrize("check", testing.OBJECTIVE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("member", OBJECTIVES, ids=lambda member: member.name)
def test_every_objective_keeps(check, member):
    assert check(member) is None


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda member: member.name)
@pytest.mark.parametrize("model", MODELS, ids=lambda member: member.name)
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda member: member.name)
def test_every_combination_works_or_says_why_not(structure, model, objective):
    assert testing.check_combination(structure, model, objective) in (True, False)
