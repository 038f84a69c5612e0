"""The design problem and its answer: a matrix with a proof of how good it is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import DesignError, nearest, raise_all, sentence, shown
from postrand.mechanism.block import PROVENANCES, Provenance
from postrand.mechanism.matrix import MAX_SIZE, TransitionMatrix
from postrand.support import saving
from postrand.support.inputs import is_whole, real_array

SUM_TOLERANCE = 1e-9
OPTIMAL_GAP = 1e-9
"""A relative gap at or below this is called optimal: a definition, the precision asked of the exact methods. What is
proven is always ``bound`` itself; rounding to units of 2^-53 alone moves the last digits of every value."""

Status = Literal["optimal", "bounded", "local"]
"""``optimal``: proven, relative gap <= 1e-9. ``bounded``: proven up to ``gap``. ``local``: nothing is proven."""


class DesignWarning(UserWarning):
    """A matrix that is optimal for its objective but unsuitable for later estimates."""


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Hold the category probabilities ``p`` that a design is tuned to, and where they came from.

    ``p`` has shape (S,), S >= 2, is not negative and sums to 1 within 1e-9 (then scaled to sum to 1).

    Raises
    ------
    DesignError
        With every problem at once.

    Examples
    --------
    >>> Prior([0.25, 0.75], provenance="public").size
    2
    """

    p: NDArray[np.float64]
    provenance: Provenance = "unstated"

    def __post_init__(self) -> None:
        p = real_array(self.p, "the prior", DesignError).copy()
        raise_all(DesignError, _prior_problems(p, self.provenance))
        p /= p.sum()
        p.setflags(write=False)
        object.__setattr__(self, "p", p)

    def __repr__(self) -> str:  # without the shares: they may be the confidential file's
        return f"Prior({self.size} categories, {self.provenance})"

    @classmethod
    def uniform(cls, size: int) -> Prior:
        """Return the uniform prior: public, since it says nothing about the data; raises DesignError if S < 2."""
        if not (is_whole(size, 2) and size <= MAX_SIZE):
            fix = "with fewer, nothing can be perturbed: list the others, or take the variable out of the plan"
            fix = fix if is_whole(size, 0) and size < 2 else "merge categories"
            what, wanted = "invalid number of categories", f"2..{MAX_SIZE}"
            raise DesignError(sentence(what, got=shown(size, repr), wanted=wanted, fix=fix))
        return cls(np.full(size, 1 / size), provenance="public")

    @property
    def size(self) -> int:
        """The number S of categories."""
        return int(self.p.size)


@dataclass(frozen=True, slots=True)
class Solution:
    """What an algorithm returns before rounding: a float matrix (S, S), or an exact law, and what is proven.

    ``bound``: no matrix of the structure has a better objective (infinite where nothing is proven).
    """

    array: NDArray[np.float64] | TransitionMatrix
    bound: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Hold a designed exact law, the objective it attains, and how far that is from the best possible.

    ``value`` is the objective of the *exact rounded law*. No matrix of the structure that meets the privacy model
    is better than ``bound``: ``bound >= value`` where the objective is maximised, ``bound <= value`` where it is
    minimised. ``gap = |bound - value|`` (inf where nothing is proven).
    """

    matrix: TransitionMatrix
    value: float
    bound: float
    status: Status
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = "unstated"

    def __repr__(self) -> str:
        worth = f"value {self.value:.6g}, {self.status}"
        worth += f" within {self.gap:.2g}" if self.status == "bounded" else ""
        return f"Design({self.matrix.size} categories, {worth}, ε = {self.matrix.epsilon:.4g})"

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the exact law and what is proven of it to a file that :func:`postrand.load_design` reads.

        Of ``details`` it keeps what is plain data.

        Raises
        ------
        UsageError
            If the file exists and ``replace`` is not set, or it cannot be written.
        """
        data = {name: getattr(self, name) for name in ("status", "message", "provenance")}
        data |= {name: repr(float(getattr(self, name))) for name in ("value", "bound")}  # JSON has no infinity
        details = {name: value for name, value in self.details.items() if _is_plain(value)}
        saving.save(path, "design", {"matrix": self.matrix.to_dict(), **data, "details": details}, replace=replace)

    @property
    def gap(self) -> float:
        """``|bound - value|``, in the objective's unit."""
        return abs(self.bound - self.value)

    @property
    def relative_gap(self) -> float:
        """``gap / |value|`` (0 where both are 0)."""
        if self.gap == 0:
            return 0.0
        return self.gap / abs(self.value) if self.value else math.inf


def load_design(path: str | Path) -> Design:
    """Read a design that :meth:`Design.save` wrote; raises SpecificationError where it is none."""
    with saving.reading(path, "design") as data:
        held: dict[str, Any] = {name: data[name] for name in ("status", "message", "provenance", "details")}
        held |= {name: float(data[name]) for name in ("value", "bound")}
        if held["status"] not in get_args(Status) or held["provenance"] not in PROVENANCES:
            raise ValueError(held["status"], held["provenance"])
        return Design(TransitionMatrix.from_dict(data["matrix"]), **held)


def _is_plain(value: object) -> bool:
    """Whether JSON holds the value; some designers add matrices of their own to the details."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def as_prior(prior: Prior | ArrayLike) -> Prior:
    """Return ``prior`` itself, or a Prior of unstated provenance from its probabilities."""
    return prior if isinstance(prior, Prior) else Prior(real_array(prior, "the prior", DesignError))


def _prior_problems(p: NDArray[np.float64], provenance: str) -> list[str]:
    problems = []
    if p.ndim != 1 or p.size < 2:
        problems.append(
            sentence(
                "the prior is not a list of at least two probabilities",
                got=f"shape {p.shape}",
                fix="a variable with one category needs no perturbation: leave it out",
            )
        )
    elif not np.isfinite(p).all():
        problems.append(
            sentence("the prior has entries that are not finite", where=f"category {_first(~np.isfinite(p))}")
        )
    else:
        if (p < 0).any():
            problems.append(sentence("the prior is negative", where=f"category {_first(p < 0)}", wanted=">= 0"))
        if abs(p.sum() - 1) > SUM_TOLERANCE:
            problems.append(sentence("the prior does not sum to 1", got=repr(float(p.sum())), fix="divide by its sum"))
    if not isinstance(provenance, str) or provenance not in PROVENANCES:
        hint = nearest(shown(provenance), PROVENANCES)
        problems.append(sentence(f"unknown provenance {shown(provenance, repr)}{hint}", wanted=", ".join(PROVENANCES)))
    return problems


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(mask)[0])
