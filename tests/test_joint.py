"""What joint blocks keep of dependent data."""

import numpy as np
import pytest
from benchmarks.joint_gain import joint_gain

from postrand.mechanism.matrix import randomised_response
from postrand.objectives import MutualInformation


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
