"""What a run would refuse of its file, asked before any record is perturbed.

Can the release's files hold its columns? That is asked of the file's own labels and values. Do record keys differ?
"""

from __future__ import annotations

from collections.abc import Iterator

from postrand import formats
from postrand.codebook.perturbed_labels import labelled, published_labels
from postrand.engines.base import released_schema
from postrand.errors import DataError, PostrandError, UsageError, raise_all
from postrand.plan.written import values_to_try
from postrand.support.randomness import duplicate_keys
from postrand.workflow.design_blocks import check_rules
from postrand.workflow.facts import data_name, released_names
from postrand.workflow.known import Known


def refused(known: Known) -> Iterator[str]:
    """Yield each reason why a run would stop that the file gives, apart from decisions that it wants."""
    for test in (check_rules, check_keys, check_fits):
        try:
            test(known)
        except PostrandError as error:
            yield from error.told


def check_keys(known: Known) -> None:
    """Raise DataError if a record key is missing, or is that of another record."""
    repeated = 0 if known.keys is None else known.answers[known.keys]
    if repeated:
        raise duplicate_keys(repeated)


def check_fits(known: Known) -> None:
    """Raise DataError with every column that the release's format cannot hold, by name; see ``Format.misfits``."""
    _, suffix = data_name(known.plan, known.source, known.engine)
    if formats.is_known(f"data{suffix}") and (told := formats.missing_library(f"data{suffix}")):
        raise UsageError(told)
    if known.witnesses is None:
        return
    plan, tried = known.plan, known.answers[known.witnesses]
    shown = () if plan.split is None else plan.split.variables
    names = released_names(plan)
    schema = released_schema(known.source, names, plan.codebook, partly=shown)
    schema = labelled(schema, published_labels(plan.codebook)) if formats.has_limits(suffix) else schema
    held = [v for v in plan.codebook.variables if v.name in names and v.is_categorical]
    categories = {v.name: values_to_try(v, v.name in shown) for v in held}
    raise_all(DataError, formats.misfits(suffix, schema, {**tried, **categories}))
