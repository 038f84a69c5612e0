"""Every structure that a plan may name, beside the objectives that go with them."""

from pathlib import Path
from typing import Any

from postrand.objectives import OBJECTIVES as OBJECTIVES
from postrand.objectives import CustomObjective as CustomObjective
from postrand.objectives import EstimatorVariance as EstimatorVariance
from postrand.objectives import ExpectedChanges as ExpectedChanges
from postrand.objectives import MutualInformation as MutualInformation
from postrand.objectives import Objective as Objective
from postrand.support.options import discover

_OTHERS = ("budget", "curve", "split", "structures")
"""Modules that build on structures and define none: a plan that does not use them does not load them."""

STRUCTURES: tuple[Any, ...] = discover(
    [str(Path(__file__).parent)],
    "postrand.designers",
    lambda kind: {"name", "traits", "solve"} <= set(dir(kind)),
    without=_OTHERS,
)
"""Every structure that a plan may name, by its ``name``."""
