"""Can the files of a release hold its columns? Asked of the file's own labels and values, before any is perturbed."""

from __future__ import annotations

from postrand import formats
from postrand.engines.base import released_schema
from postrand.errors import DataError, raise_all
from postrand.plan.written import values_to_try
from postrand.workflow.facts import data_name, released_names
from postrand.workflow.known import Known


def check_fits(known: Known) -> None:
    """Raise DataError with every column that the release's format cannot hold, by name; see ``Format.misfits``."""
    if known.witnesses is None:
        return
    plan, tried = known.plan, known.answers[known.witnesses]
    shown = () if plan.split is None else plan.split.variables
    names = released_names(plan)
    schema = released_schema(known.source, names, plan.codebook, partly=shown)
    held = [v for v in plan.codebook.variables if v.name in names and v.is_categorical]
    categories = {v.name: values_to_try(v, v.name in shown) for v in held}
    _, suffix = data_name(plan, known.source, known.engine)
    raise_all(DataError, formats.misfits(suffix, schema, {**tried, **categories}))
