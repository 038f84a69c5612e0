"""The conformance suites on every member, found by discovery, and on members of someone else's."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

from postrand import testing
from postrand.designers import STRUCTURES, StructureTraits
from postrand.designers.problem import Solution
from postrand.mechanism.matrix import UNIT, randomised_response
from postrand.objectives import OBJECTIVES, ObjectiveTraits
from postrand.privacy import MODELS, DifferentialPrivacy, Finding, LinearConstraints, ModelTraits
from postrand.support.options import Range


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


# -- a model of someone else's, and its broken sisters ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TotalVariation:
    """Ask that the rows of a matrix differ by at most ``most`` in total variation."""

    name: ClassVar[str] = "total-variation"
    traits: ClassVar[ModelTraits] = ModelTraits(
        "total-variation", "No test of a true answer wins by more than a share.", "most", linear=False
    )
    most: float = field(metadata={"range": Range(0.01, 0.99, 0.5, "probability", "smaller protects more")})

    def check(self, matrices):
        level = sum((self._distance(matrix.weights) for matrix in matrices), Fraction(0))
        text = f"rows differ by at most {float(level):.6g} in total variation"
        return Finding(level <= Fraction(self.most), np.nextafter(float(level), 2) if level else 0.0, text)

    def _distance(self, weights):
        return Fraction(max(int(np.abs(a - b).sum()) for a in weights for b in weights), 2 * UNIT)

    def constraints(self, size):
        pairs = [(i, k, j) for i in range(size) for k in range(size) if i != k for j in range(size)]
        A = np.zeros((len(pairs), size * size))
        for row, (i, k, j) in enumerate(pairs):
            A[row, i * size + j], A[row, k * size + j] = 1, -1
        return LinearConstraints(csr_array(A), np.full(len(pairs), float(self.most)))


class Lax(TotalVariation):
    """Its test lets through what its constraints do not."""

    def check(self, matrices):
        found = super().check(matrices)
        return Finding(found.level <= 1.1 * self.most, min(found.level, self.most), found.sentence)


class Understated(TotalVariation):
    """Its level is rounded in its favour."""

    def check(self, matrices):
        found = super().check(matrices)
        return Finding(found.holds, self.most + 1e-9, found.sentence)


class Empty(TotalVariation):
    """It holds for everything."""

    def check(self, matrices):
        return Finding(True, 0.0, "all is well")


class Additive(TotalVariation):
    """It says that levels add up, and counts one block of several."""

    traits = ModelTraits("total-variation", "No test wins by much.", "most", composition="sum", linear=False)

    def check(self, matrices):
        found = super().check(matrices[:1])
        return Finding(found.holds, found.level / len(matrices), found.sentence)


def test_a_model_of_someone_else_is_checked_with_one_call():
    testing.check_model(TotalVariation)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Lax, "exceeds its constraints"),
        (Understated, "it holds at 0.5 with level"),
        (Empty, "a law holds that exceeds its constraints"),
        (Additive, "two blocks spend more than their sum"),
    ],
)
def test_a_broken_model_is_found_out(broken, words):
    with pytest.raises(AssertionError, match=f"total-variation: {words}|{words}"):
        testing.check_model(broken)


# -- an objective ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """Keep the square of the chance that a value stays."""

    name: ClassVar[str] = "kept"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits("Keep answers.", "squared shares", relabelling="both")
    maximise: ClassVar[bool] = True

    def value(self, array, prior):
        return float(prior @ np.diagonal(array)) ** 2

    def gradient(self, array, prior):
        return 2 * np.diag(prior) * float(prior @ np.diagonal(array))

    def truth(self, prior):
        return 1.0


class Steep(Kept):
    """Its gradient is not its own."""

    def gradient(self, array, prior):
        return np.diag(prior)


class Symmetrical(Kept):
    """It says that released categories may be relabelled."""

    traits = ObjectiveTraits("Keep answers.", "squared shares", relabelling="released")


class Capped(Kept):
    """It says that nothing is better than a half."""

    def truth(self, prior):
        return 0.5


def test_an_objective_of_someone_else_is_checked_with_one_call():
    testing.check_objective(Kept)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Steep, "its gradient is"),
        (Symmetrical, "relabelling categories changes its value"),
        (Capped, "a matrix is better than what no matrix exceeds"),
    ],
)
def test_a_broken_objective_is_found_out(broken, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_objective(broken)


# -- a structure -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plain:
    """Take randomised response, whatever the objective."""

    name: ClassVar[str] = "plain"
    traits: ClassVar[StructureTraits] = StructureTraits("Randomised response.", models=(DifferentialPrivacy,))

    def solve(self, prior, privacy, objective):
        return Solution(randomised_response(prior.size, privacy.epsilon), np.inf if objective.maximise else -np.inf)

    def contains(self, array):
        return len(np.unique(array)) <= 2


class Greedy(Plain):
    """It says that it treats every model, and does not."""

    traits = StructureTraits("Randomised response.")


class Elsewhere(Plain):
    """Its matrices are not of its family."""

    def contains(self, array):
        return len(np.unique(array)) == 1


def test_a_structure_of_someone_else_is_checked_with_one_call():
    testing.check_structure(Plain)
    testing.check_structure(Plain, objectives=[Kept])


@pytest.mark.parametrize(
    ("broken", "words"),
    [(Greedy, "bistochastic with .*: AttributeError in place of a sentence"), (Elsewhere, "not of the structure")],
)
def test_a_broken_structure_is_found_out(broken, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_structure(broken)
