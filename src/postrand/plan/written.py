"""Can the format of a release hold what the codebook says? Asked of the plan, before any record is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa

from postrand import formats
from postrand.codebook import Codebook
from postrand.codebook.coding import arrow_type, category_values
from postrand.codebook.not_released import released_field, released_variable
from postrand.codebook.perturbed_labels import labelled, published_labels
from postrand.codebook.variable import RELEASED_ROLES, Variable
from postrand.errors import PostrandError
from postrand.plan.values import ReleaseOptions


def format_problems(
    codebook: Codebook, release: ReleaseOptions, file: Path | None, shown: Collection[str], where: str
) -> Iterator[str]:
    """Yield a sentence for each column that the release's format cannot hold, as far as the codebook tells.

    ``file`` is the source, None for a table; ``shown`` are the variables of a split, which are released as text.
    """
    suffix = _suffix(release, file)
    if release.target is not None or not suffix:
        return
    roles = (*RELEASED_ROLES, "record_key") if release.release_ids else RELEASED_ROLES
    variables = codebook.with_role(*roles)
    try:
        schema = labelled(pa.schema([_field(v, v.name in shown) for v in variables]), published_labels(codebook))
        values = {v.name: values_to_try(v, v.name in shown) for v in variables if v.is_categorical}
    except PostrandError:
        return  # another problem of the codebook, which is told by itself
    for problem in formats.misfits(suffix, schema, values):
        yield f"{where}: {problem}"


def _suffix(release: ReleaseOptions, file: Path | None) -> str:
    """Return the suffix of the released files; empty where only the files themselves tell."""
    if release.format != "same":
        return f".{release.format}" if release.format in list(formats.written_names()) else ""
    return formats.written_as(file) if file is not None and formats.is_known(file) else ""


def _field(variable: Variable, is_shown: bool) -> pa.Field:
    if is_shown:
        return released_field(released_variable(variable))
    return pa.field(variable.name, arrow_type(variable.type))


def values_to_try(variable: Variable, is_shown: bool) -> pa.Array:
    """Return the values of a categorical variable that its release can hold; ``is_shown``: of a split."""
    values = category_values(released_variable(variable) if is_shown else variable)
    return values if variable.missing == "error" else pa.concat_arrays([values, pa.nulls(1, values.type)])
