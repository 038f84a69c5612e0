"""The whole record in the objective, and what joint blocks keep of dependent data."""

import numpy as np
import pytest

from postrand.design import UniformOffDiagonal, design
from postrand.design.joint import conditional_information, joint_gain, whole_record
from postrand.errors import DesignError
from postrand.matrix import randomised_response
from postrand.objectives import MutualInformation
from postrand.privacy import DifferentialPrivacy


def brute_information(joint):
    """I(A;B) of a table (A, B), by the definition."""
    p = joint / joint.sum()
    product = np.outer(p.sum(axis=1), p.sum(axis=0))
    used = p > 0
    return float((p[used] * np.log(p[used] / product[used])).sum())


@pytest.mark.parametrize("seed", range(5))
def test_conditional_information_is_that_of_whole_records_beyond_what_is_clear(seed):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(12)).reshape(4, 3)
    law = rng.dirichlet(np.ones(4), size=4)
    whole = np.zeros((12, 12))  # true record (x, c) by released record (z, c)
    for x in range(4):
        for c in range(3):
            for z in range(4):
                whole[x * 3 + c, z * 3 + c] = joint[x, c] * law[x, z]
    clear = joint.sum(axis=0)
    wanted = brute_information(whole) + float((clear * np.log(clear)).sum())
    assert conditional_information(law, joint) == pytest.approx(wanted, abs=1e-12)


def test_independent_variables_give_the_usual_optimum():
    p = np.array([0.606, 0.216, 0.08, 0.058, 0.04])
    found = whole_record(np.outer(p, [0.3, 0.7]), 1.0)
    usual = design(p, DifferentialPrivacy(1.0), structure=UniformOffDiagonal())
    assert found.value == pytest.approx(usual.value, rel=1e-9)
    assert not found.differs


def test_dependence_can_change_the_best_matrix():
    """Where C tells whether X is the frequent category, the others are worth telling apart instead."""
    joint = np.array([[0.6, 0.0], [0.0, 0.2], [0.0, 0.1], [0.0, 0.06], [0.0, 0.04]])
    found = whole_record(joint, 1.0)
    assert found.differs
    assert found.value > found.marginal_value * 1.2
    rng = np.random.default_rng(0)
    for q in rng.uniform(0, 1, size=(4_000, 5)):  # random members of the family are never better
        law = np.where(np.eye(5, dtype=bool), q[:, None], (1 - q)[:, None] / 4)
        ratio = law.max(axis=0) / law.min(axis=0)
        if ratio.max() <= np.exp(1.0):
            assert conditional_information(law, joint) <= found.value + 1e-12


def test_the_gain_of_a_joint_block_is_the_information_of_the_whole_law():
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.full(6, 0.3)).reshape(2, 3)
    together, apart = joint_gain(table, [0.7, 0.9])
    law = np.kron(randomised_response(2, 0.7).array, randomised_response(3, 0.9).array)
    assert apart == pytest.approx(MutualInformation().value(law, table.ravel()), abs=1e-12)
    law = randomised_response(6, 1.6).array
    assert together == pytest.approx(MutualInformation().value(law, table.ravel()), abs=1e-12)


def test_strong_dependence_favours_joint_blocks_and_independence_does_not():
    assert np.divide(*joint_gain(np.eye(4), [0.5, 0.5])) > 1.2
    assert np.divide(*joint_gain(np.full((4, 4), 1 / 16), [0.5, 0.5])) < 1


@pytest.mark.parametrize("table", [np.full((13, 2), 1.0), np.full((2, 2), -1.0), np.zeros((2, 2)), np.ones(3)])
def test_tables_that_cannot_be_treated_are_refused(table):
    with pytest.raises(DesignError):
        whole_record(table, 1.0)
