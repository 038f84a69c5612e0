"""Which privacy model, objective and structure go together, and what else of a block matters: one place to ask.

Structures declare the models and objectives that they have algorithms for; models and objectives declare what they need
of a block. ``design()``, plans, the command line and the workbench ask here, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from postrand.designers.problem import Solution
from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import MAX_SIZE
from postrand.objectives import OBJECTIVES, Objective, needs_joint
from postrand.privacy import MODELS, PrivacyModel, models_of, needs_file

ROUNDING = 1e-9
"""Entries of an exact law are taken for equal within this: rounding inside a model moves them."""


@dataclass(frozen=True, slots=True)
class StructureTraits:
    """Declare how a structure is said, and what it has algorithms for.

    Parameters
    ----------
    plain
        Which matrices it searches, for readers who are no statisticians.
    models
        The privacy models, by class; or protocols that they keep. Empty: all of them.
    objectives
        The objectives, likewise. Empty: all of them.
    most
        The largest number of categories.
    most_cells
        The largest number of cells of a block, where its matrices are written out entry by entry.
    rank
        Where lists name it; members of one rank stand by their names.
    instead
        What to use where it has too many categories or another objective: the next step of a refusal.
    """

    plain: str
    models: tuple[type, ...] = ()
    objectives: tuple[type, ...] = ()
    most: int = MAX_SIZE
    most_cells: int = MAX_SIZE
    rank: int = 50
    instead: str = "another structure"


@runtime_checkable
class Structure(Protocol):
    """A family of transition matrices, with the algorithm that finds its best member.

    Implementations are frozen dataclasses; their fields are the options of plans, command line and forms. Where traits
    do not say all, a method ``refuses(privacy, objective, size)`` returns the sentence of what does not work, or None.
    More verbs: ``contains(array)`` tells whether a matrix is of the family; ``on_cells(cells)`` tells the structure
    which combinations its categories are; ``stand_in(objective, size)`` is a part of it that is designed in a moment.
    """

    name: ClassVar[str]
    traits: ClassVar[StructureTraits]

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best member found; raises DesignError for an objective or privacy model it cannot treat."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Say what else of a block decides whether a combination works; the defaults rule nothing out.

    ``size``: how many categories, where known. ``listed``: only some combinations of its variables are cells.
    ``classes``: values are exchanged within classes only (strata, rules that link blocks, a selection of records).
    ``prior``: where its frequencies come from.
    """

    size: int = 0
    listed: bool = False
    classes: bool = False
    prior: str = ""


def supports(
    privacy: PrivacyModel, objective: Objective, structure: Structure, setting: Setting | None = None
) -> str | None:
    """Return None where a design works, else a sentence that says what is supported instead.

    Examples
    --------
    >>> from postrand.designers import General, Metric
    >>> from postrand.objectives import ExpectedChanges
    >>> from postrand.privacy import DifferentialPrivacy
    >>> supports(DifferentialPrivacy(1.0), ExpectedChanges(), General()) is None
    True
    >>> supports(DifferentialPrivacy(1.0), ExpectedChanges(), Metric())
    "structure 'metric' has no algorithm for 'differential'; wanted 'metric'. Next: use privacy 'metric'."
    """
    return next(_lacking(privacy, objective, structure, setting or Setting()), None)


def require(structure: Structure, privacy: PrivacyModel, objective: Objective, size: int) -> Any:
    """Return the model, which the structure supports together with the objective; raises DesignError where it does not.

    The result has whatever the structure's own models have: its type is not known here.
    """
    for problem in _of_structure(privacy, objective, structure, size):
        raise DesignError(problem)
    return privacy


def names_of(kinds: Sequence[type], family: Sequence[type]) -> str:
    """Return the names of a family's members that are of these kinds, for sentences."""
    return " or ".join(repr(getattr(m, "name", "")) for m in family if issubclass(m, tuple(kinds)))


def _lacking(privacy: Any, objective: Any, structure: Any, setting: Setting) -> Iterator[str]:
    yield from _of_structure(privacy, objective, structure, setting.size)
    yield from _of_block(privacy, objective, setting)


def _of_structure(privacy: Any, objective: Any, structure: Any, size: int) -> Iterator[str]:
    traits: StructureTraits = structure.traits
    if traits.models and not isinstance(privacy, traits.models):
        wanted = names_of(traits.models, MODELS)
        yield refusal(structure, privacy, wanted, f"use privacy {wanted}")
    if traits.objectives and not isinstance(objective, traits.objectives):
        wanted = names_of(traits.objectives, OBJECTIVES)
        yield refusal(structure, objective, wanted, f"use objective {wanted}, or {traits.instead}")
    if size > traits.most:
        what = f"too many categories for structure {structure.name!r}"
        fix = f"use {traits.instead}, or group categories"
        yield sentence(what, got=f"{size:,}", wanted=f"S <= {traits.most:,}", fix=fix)
    own = structure.refuses(privacy, objective, size) if hasattr(structure, "refuses") else None
    if own is not None:
        yield own


def _of_block(privacy: Any, objective: Any, setting: Setting) -> Iterator[str]:
    for model in models_of(privacy):
        if model.traits.whole_blocks and (setting.listed or setting.classes):
            what = "a distance needs a block that exchanges all values, but strata, rules or a selection separate them"
            fix = "use model 'differential', or leave the variable out of rules, 'given' and 'rarer_than'"
            yield sentence(what, fix=fix)
        if setting.classes and not model.traits.within_classes and not needs_file(model):
            what = f"{model.name!r} is not defined within classes, but strata, rules or a selection separate the values"
            wanted = " or ".join(repr(m.name) for m in MODELS if m.traits.within_classes)
            yield sentence(what, wanted=wanted, fix="leave out 'given' and 'rarer_than'")
        if needs_file(model) and setting.prior not in ("", "file"):
            what = f"prior = {setting.prior!r} hides nothing: the model itself depends on the file's frequencies"
            yield sentence(what, fix="leave 'prior' out")
    if needs_joint(objective) and setting.prior == "uniform":
        what = "the whole record needs the frequencies of its variables together"
        yield sentence(what, fix="set prior = 'file' or 'dp'")


def refusal(structure: Any, part: Any, wanted: str, fix: str) -> str:
    """Return the sentence for a combination that no algorithm of a structure solves."""
    name = getattr(part, "name", type(part).__name__)
    return sentence(f"structure {structure.name!r} has no algorithm for {name!r}", wanted=wanted, fix=fix)
