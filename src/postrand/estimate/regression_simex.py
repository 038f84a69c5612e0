"""MC-SIMEX: perturb the release further, watch the naive fit move, and extrapolate back to no perturbation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from postrand.errors import EstimationError, SpecificationError, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array, Axis
from postrand.estimate.latent import Index, naive
from postrand.estimate.regression_data import Data, FamilyName, problem_of, read
from postrand.estimate.regression_formula import variables_of
from postrand.mechanism import Mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Simex:
    """Hold the extrapolated coefficients ``value`` (P,) and the ``path`` (L, P) of naive ones at each of ``levels``."""

    names: tuple[str, ...]
    value: Array
    levels: Array
    path: Array

    def __repr__(self) -> str:
        return f"Simex({len(self.names)} coefficients, extrapolated from {len(self.levels)} levels)"

    def to_arrow(self) -> pa.Table:
        """Return one row for each coefficient: ``term`` and ``estimate``; a simulation has no standard error."""
        return tidy.by_term(self.names, {"estimate": self.value})

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        found = {name: tidy.plain(getattr(self, name)) for name in ("levels", "path")}
        return {"terms": list(self.names), "estimate": tidy.plain(self.value), **found}


def mcsimex(
    formula: str,
    frame: Any,
    mechanism: Mechanism,
    family: FamilyName,
    generator: np.random.Generator,
    *,
    levels: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    replicates: int = 20,
) -> Simex:
    """Estimate regression coefficients by simulation and extrapolation: a check of ``regression``.

    It uses neither the corrected equations nor the likelihood. At level λ the released cells are perturbed once more
    by ``M^λ``, so that they follow ``M^(1+λ)``; the naive fits, averaged over ``replicates``, are extrapolated to
    λ = −1 by a quadratic. This is approximate: the bias that is left grows with the strength of the perturbation.

    Raises
    ------
    SpecificationError
        If a variable of the formula is in a split.
    EstimationError
        If ``M^λ`` is no transition matrix for one of the levels: whole levels always work.

    References
    ----------
    Küchenhoff, Mwalili & Lesaffre (2006).
    """
    response, covariates = variables_of(formula)
    for name in (response, *covariates):
        if name in mechanism.partly:
            what = f"{name!r} is in the split, which has one matrix for each subset and none that is applied again"
            fix = "use estimate.regression, with each of its methods, for example model=..."
            raise SpecificationError(sentence(what, fix=fix))
    data = read(formula, frame, mechanism, family, None, None)
    problem, names = problem_of(data, bins=1)
    path = [naive(problem)]
    for level in levels:
        laws = [matrix_power(axis, level) for axis in data.axes]
        fits = [naive(problem_of(_again(data, laws, generator), bins=1)[0]) for _ in range(replicates)]
        path.append(np.mean(fits, axis=0))
    at = np.array([0.0, *levels])
    curve = np.polynomial.polynomial.polyfit(at, np.array(path), 2)
    value = np.polynomial.polynomial.polyval(-1.0, curve)
    return Simex(names, np.asarray(value), at, np.array(path))


def matrix_power(axis: Axis, level: float) -> Array:
    """Return ``M^level``; raises EstimationError where it is not a transition matrix."""
    assert axis.matrix is not None
    power = np.asarray(scipy.linalg.fractional_matrix_power(axis.matrix.array, level))
    if np.iscomplexobj(power) or power.min() < -1e-9:
        raise EstimationError(
            sentence(
                "a power of the matrix is not a transition matrix",
                where="*".join(axis.names),
                got=f"level {level:g}",
                fix="use whole levels, for example levels=(1, 2, 3)",
            )
        )
    power = np.maximum(power, 0.0)
    return np.asarray(power / power.sum(axis=1, keepdims=True))


def _again(data: Data, laws: Sequence[Array], generator: np.random.Generator) -> Data:
    cells: list[Index] = []
    for codes, law in zip(data.cells, laws, strict=True):
        draws = generator.random(len(codes))[:, None] > np.cumsum(law, axis=1)[codes, :-1]
        cells.append(draws.sum(axis=1).astype(np.intp))
    return dataclasses.replace(data, cells=tuple(cells))
