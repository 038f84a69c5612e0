"""Columns of true values: codes of the joint model as values of the codebook."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Variable, coding
from postrand.estimate.evidence_variables import Modelled


def true_columns(codes: NDArray[np.int32], modelled: Modelled, names: Collection[str]) -> dict[str, pa.Array]:
    """Return the values of some perturbed variables from true codes of all variables of the model, (n, J).

    Examples
    --------
    >>> from postrand.codebook import Codebook
    >>> from postrand.estimate.evidence_variables import ModelVariable
    >>> sex = Variable("sex", role="key", categories=("F", "M"), missing="keep")
    >>> modelled = Modelled((ModelVariable("sex", "perturbed", ("F", "M", "(missing)")),), (), Codebook((sex,)))
    >>> true_columns(np.array([[1], [2]], np.int32), modelled, ["sex"])["sex"].to_pylist()
    ['M', None]
    """
    places = {variable.name: place for place, variable in enumerate(modelled.variables)}
    return {name: _decoded(codes[:, places[name]], modelled.codebook[name]) for name in names}


def _decoded(codes: NDArray[np.int32], variable: Variable) -> pa.Array:
    if variable.missing == "keep":  # the code after the last is that of a missing value
        codes = np.where(codes == variable.size, coding.KEPT_MISSING, codes)
    return coding.decode(codes, variable)
