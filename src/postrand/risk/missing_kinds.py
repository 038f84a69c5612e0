"""Missing values as a category that no record has, or beside codes that mean no answer: what a codebook doubles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postrand.codebook import Codebook, Variable
from postrand.risk.sample import Sampled
from postrand.support.showing import few

ONE = "to have one, make the codes missing with missing = [...] in [[recodes]], or leave missing = 'category' out"


def missing_kinds(codebook: Codebook, perturbed: Sequence[str], sample: Sampled | None) -> dict[str, str]:
    """Return for perturbed variables what is wrong with ``missing = "category"``, in a sentence; without counts.

    The ``sample`` says whether a value is missing, where it is the whole file.
    """
    added = [codebook[name] for name in perturbed if codebook[name].missing == "category"]
    return {one.name: f"{one.name}: {'; '.join(text)}" for one in added if (text := list(_said(one, sample)))}


def _said(one: Variable, sample: Sampled | None) -> Iterator[str]:
    known = sample is not None and sample.is_whole and one.name in sample.table.column_names
    column = sample.table.column(one.name) if sample is not None and known else None
    if column is not None and column.null_count == len(column):
        yield "no record has a value; look whether the file was written and read as it should be, before it is released"
    elif column is not None and not column.null_count:
        yield (
            "missing = 'category' adds a category that no record of the file has, and released records "
            "will have it all the same; missing = 'error' leaves it out, where no value can be missing"
        )
    if one.missing_codes:
        codes, many = few([str(code) for code in one.missing_codes]), len(one.missing_codes) + 1
        yield f"{codes} and (missing) are {many} categories that mean no answer; {ONE}"
