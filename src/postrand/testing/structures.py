"""What every structure must keep: each combination works with a proof, or is refused by the sentence that says why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from postrand.designers import Design, DesignWarning, Structure, design, supports
from postrand.errors import DesignError
from postrand.objectives import OBJECTIVES
from postrand.privacy import MODELS, needs_file
from postrand.support.warned import hushed
from postrand.testing.cases import FILES, Counts, check_declared, check_plain_data, example, require


def check_structure(kind: Any, models: Sequence[Any] = MODELS, objectives: Sequence[Any] = OBJECTIVES) -> None:
    """Check a structure with every model and objective; raises AssertionError where something does not hold.

    >>> from postrand.designers import Geometric
    >>> check_structure(Geometric)
    """
    check_declared(kind)
    check_plain_data(kind)
    require(isinstance(example(kind, FILES[-1]), Structure), kind, "it has not every verb of Structure")
    worked = [check_combination(kind, model, objective) for model in models for objective in objectives]
    require(any(worked), kind, "it works for no combination of model and objective")


def check_combination(kind: Any, model: Any, objective: Any) -> bool:
    """Check one combination on files of several sizes; return whether it works."""
    return all([_check_file(kind, model, objective, counts) for counts in FILES])


def _check_file(kind: Any, model: Any, objective: Any, counts: Counts) -> bool:
    privacy, wanted, structure = example(model, counts), example(objective, counts), example(kind, counts)
    prior = counts / counts.sum()
    reason, words = supports(privacy, wanted, structure), f"{privacy.name} with {wanted.name}"
    try:
        with hushed(DesignWarning):
            found = design(prior, privacy, wanted, structure)
    except DesignError as error:
        require(reason is not None, kind, f"{words}: supports() says that it works, and the design says: {error}")
        require(str(error) == reason, kind, f"{words}: the design is refused by another sentence than supports() says")
        require("Next: " in str(error), kind, f"{words}: the refusal has no next step")
        return False
    except Exception as error:  # a member of someone else's may raise anything
        raise AssertionError(f"{kind.name}: {words}: {type(error).__name__} in place of a sentence") from error
    require(reason is None, kind, f"{words}: supports() refuses what works")
    _check_design(kind, found, privacy, wanted, structure, prior, words)
    return True


def _check_design(
    kind: Any, found: Design, privacy: Any, objective: Any, structure: Any, prior: Any, words: str
) -> None:
    """Check one design: inside the model and the structure, its value true, its bound on the right side."""
    require(privacy.check([found.matrix]).holds, kind, f"{words}: the law does not meet the model")
    excess = privacy.constraints(prior.size).excess(found.matrix.array)
    require(excess <= 1e-9, kind, f"{words}: the law exceeds the model's constraints by {excess:g}")
    value, sign = objective.value(found.matrix.array, prior), 1 if objective.maximise else -1
    same = value == found.value or math.isclose(value, found.value, rel_tol=1e-7, abs_tol=1e-9)
    require(same, kind, f"{words}: the value said, {found.value:g}, is not the law's, {value:g}")
    require(sign * (found.bound - found.value) >= 0, kind, f"{words}: the value is better than its bound")
    require(found.status != "optimal" or found.gap <= 1e-9 * max(1.0, abs(found.value)), kind, f"{words}: not optimal")
    if hasattr(structure, "contains"):
        require(structure.contains(found.matrix.array), kind, f"{words}: the law is not of the structure")
    if not needs_file(privacy) and not privacy.traits.columns_sum:
        uniform = sign * objective.value(np.full((prior.size,) * 2, 1 / prior.size), prior)
        better = sign * found.value >= uniform - 1e-9 * max(1.0, abs(uniform)) or not objective.maximise
        require(better, kind, f"{words}: the law is worse than one that says nothing")
