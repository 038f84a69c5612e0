"""Conformance suites: what every privacy model, objective and structure must keep, for members of yours too.

Each check is a plain function of a class that raises AssertionError with what is wrong. No test library is needed:

    from postrand import testing

    testing.check_model(MyModel)
    testing.check_objective(MyObjective)
    testing.check_structure(MyStructure)

A member says by a class method ``example(counts)`` what it is for a file with these counts, where options have no usual
values. What a member declares is checked as declared; what it does not declare is not asked for.
"""

from postrand.testing.models import MODEL_CHECKS, check_model
from postrand.testing.objectives import OBJECTIVE_CHECKS, check_objective
from postrand.testing.structures import check_combination, check_structure

__all__ = [
    "MODEL_CHECKS",
    "OBJECTIVE_CHECKS",
    "check_combination",
    "check_model",
    "check_objective",
    "check_structure",
]
