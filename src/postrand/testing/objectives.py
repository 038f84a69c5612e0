"""What every objective must keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.objectives import Objective, truth_of, value_of
from postrand.testing.cases import FILES, SEED, Floats, check_declared, check_plain_data, example, on_the_way, require

_STEP = 1e-6
_EPSILONS = (0.3, 1.0, 3.0)


def check_objective(kind: Any) -> None:
    """Run every check of :data:`OBJECTIVE_CHECKS` on an objective; raises AssertionError where one fails.

    >>> from postrand.objectives import ExpectedChanges
    >>> check_objective(ExpectedChanges)
    """
    for check in OBJECTIVE_CHECKS:
        check(kind)


def _cases(kind: Any) -> Iterator[tuple[Any, Floats, Floats]]:
    """Yield an objective, an invertible matrix and the prior of a file."""
    generator = np.random.default_rng(SEED)
    for counts in FILES:
        prior, size = counts / counts.sum(), len(counts)
        objective = example(kind, counts)
        for share in (0.3, 0.9):
            yield objective, on_the_way(np.eye(size), share), prior
            random = generator.dirichlet(np.ones(size), size=size)
            yield objective, share * np.eye(size) + (1 - share) * random, prior


def _close(one: float, other: float, rel: float = 1e-9) -> bool:
    return math.isclose(one, other, rel_tol=rel, abs_tol=rel)


def check_declaration(kind: Any) -> None:
    """Check that it is an objective, and its value has a unit."""
    check_declared(kind)
    require(isinstance(example(kind, FILES[-1]), Objective), kind, "it has not every verb of Objective")
    require(kind.traits.unit, kind, "its value has no unit")


def check_value(kind: Any) -> None:
    """Check that the value is a number, the same each time, and that of its definition where one is given."""
    for objective, array, prior in _cases(kind):
        value = objective.value(array, prior)
        require(math.isfinite(value) and value == objective.value(array.copy(), prior), kind, f"its value is {value}")
        if hasattr(objective, "by_definition"):
            wanted = objective.by_definition(array, prior)
            require(_close(value, wanted, 1e-8), kind, f"its value {value} is not {wanted}, that of its definition")
        if hasattr(objective, "loss"):
            wanted = float(prior @ (array * objective.loss(prior.size)).sum(axis=1))
            require(_close(value, wanted), kind, f"its value {value} is not that of its losses, {wanted}")


def check_exact_laws(kind: Any) -> None:
    """Check that the value of an exact law is that of its matrix, whatever the form it is kept in."""
    for counts in FILES:
        objective, prior = example(kind, counts), counts / counts.sum()
        nearly = TransitionMatrix.from_array(on_the_way(np.eye(prior.size), 0.9))
        for law in (randomised_response(prior.size, 1.0), nearly):
            value = objective.value(law.array, prior)
            require(_close(value_of(objective, law, prior), value), kind, "an exact law has another value")


def check_gradient(kind: Any) -> None:
    """Check that the gradient is that of finite differences, along directions that keep the rows' sums."""
    generator = np.random.default_rng(SEED)
    for objective, array, prior in _cases(kind):
        if not hasattr(objective, "gradient"):
            return
        slope = objective.gradient(array, prior)
        for _ in range(4):
            along = generator.normal(size=array.shape)
            along -= along.mean(axis=1, keepdims=True)
            ahead, behind = (objective.value(array + t * along, prior) for t in (_STEP, -_STEP))
            wanted, found = (ahead - behind) / (2 * _STEP), float((slope * along).sum())
            near = abs(found - wanted) <= 1e-4 * max(1.0, abs(wanted))
            require(near, kind, f"its gradient is {found}, not {wanted}, along a direction")


def check_relabelling(kind: Any) -> None:
    """Check that the value does not change under the relabelling of categories that it declares."""
    generator, declared = np.random.default_rng(SEED), kind.traits.relabelling
    for objective, array, prior in _cases(kind):
        order = generator.permutation(prior.size)
        value = objective.value(array, prior)
        if declared == "released":
            moved = objective.value(array[:, order], prior)
        elif declared == "both":
            moved = objective.value(array[np.ix_(order, order)], prior[order])
        else:
            return
        require(_close(moved, value, 1e-8), kind, f"relabelling categories changes its value from {value} to {moved}")


def check_bounds(kind: Any) -> None:
    """Check that no matrix tried is better than what it says is the best: of all, and of all ε-DP matrices."""
    for objective, array, prior in _cases(kind):
        sign = 1 if objective.maximise else -1
        best = truth_of(objective, prior) + 1e-9
        require(sign * objective.value(array, prior) <= best, kind, "a matrix is better than what no matrix exceeds")
    for counts in FILES:
        objective, prior = example(kind, counts), counts / counts.sum()
        for epsilon in _EPSILONS:
            value = objective.value(randomised_response(prior.size, epsilon).array, prior)
            if hasattr(objective, "least"):
                require(value >= objective.least(prior, epsilon), kind, "its lower bound is above a value")
            if hasattr(objective, "most"):
                require(value <= objective.most(epsilon), kind, "its upper bound is below a value")


def check_ends(kind: Any) -> None:
    """Check that of randomised responses one at an end of the interval is best, where that is declared."""
    if not kind.traits.at_ends:
        return
    for counts in FILES:
        objective, prior = example(kind, counts), counts / counts.sum()
        sign, size = 1 if objective.maximise else -1, len(counts)
        for epsilon in _EPSILONS:
            low, high = (1 / (1 + (size - 1) * math.exp(-e)) for e in (-epsilon, epsilon))
            values = [sign * objective.value(_response(q, size), prior) for q in np.linspace(low, high, 41)]
            best = max(values[0], values[-1])
            inner = max(v for v in values if math.isfinite(v))
            require(inner <= best + 1e-9 * abs(best), kind, "a randomised response inside the interval is better")


def _response(q: float, size: int) -> Floats:
    array = np.full((size, size), (1 - q) / (size - 1))
    np.fill_diagonal(array, q)
    return array


OBJECTIVE_CHECKS: tuple[Callable[[Any], None], ...] = (
    check_declaration,
    check_plain_data,
    check_value,
    check_exact_laws,
    check_gradient,
    check_relabelling,
    check_bounds,
    check_ends,
)
"""The conformance suite of objectives."""
