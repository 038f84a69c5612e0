"""What columns that stay as they are tell beside suppressed or averaged ones: measured, and left to no one's memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from postrand.data.frames import TableSource
from postrand.errors import UsageError, raise_all, sentence
from postrand.risk.findings import Finding, Findings, share_text, singling
from postrand.risk.linked import columns_of, gathered, links
from postrand.risk.sample import sampled
from postrand.risk.singled import MAX_ALONE
from postrand.workflow.linked import is_id

DECIDED = "--as-is states"


def beside(table: pa.Table, changed: Sequence[str], as_is: Sequence[str]) -> Findings:
    """Return what the columns that are not ``changed`` single out, and what they tell of true values of those.

    ``as_is``: it was decided that these columns are released as they are.
    """
    clear = [name for name in table.column_names if name not in changed]
    found = singling(TableSource(table), clear, as_is, DECIDED)
    return dataclasses.replace(found, found=(*found.found, *_linked(table, changed, clear, as_is)))


def _linked(table: pa.Table, changed: Sequence[str], clear: Sequence[str], as_is: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each link between changed columns and others; a near-function needs no decision."""
    sample = sampled(TableSource(table), table.column_names, ())
    columns = {name: column for name, column in columns_of(sample, table.column_names).items() if not is_id(column)}
    for link in gathered(links(columns), lambda link: link.variables[0] in changed):
        about = tuple(name for name in link.names if name in changed)
        free = tuple(name for name in link.names if name in clear)
        if about and free:
            text = f"{link.text}: {', '.join(free)}, released as it is, tells of the true values of {', '.join(about)}"
            is_open = link.kind != "near" and not set(free) <= {*as_is}
            yield Finding("linked", free, about, text, is_open=is_open)


def require_decisions(told: Findings) -> None:
    """Raise UsageError where a column singles out records, or tells true values, and nobody has decided on it."""
    shares: Mapping[str, float] = {one.name: one.alone for one in told.singled}
    single = [one.variables[0] for one in told.found if one.is_open and not one.about]
    linked = [one for one in told.found if one.is_open and one.about]
    problems = []
    if single:
        listed = ", ".join(f"{name} ({share_text(shares[name])})" for name in single)
        what = (
            f"columns that stay as they are single out more than {MAX_ALONE:.0%} of the records each, alone: {listed}"
        )
        problems.append(sentence(what, fix=_next(single)))
    if linked:
        what = f"columns that stay as they are tell true values: {'; '.join(one.sentence for one in linked)}"
        problems.append(sentence(what, fix=_next([name for one in linked for name in one.variables])))
    raise_all(UsageError, problems)


def _next(names: Sequence[str]) -> str:
    listed = ",".join(dict.fromkeys(names))
    return f"leave them out: --drop {listed}; or name those that are released all the same: --as-is {listed}"
