"""All cases of the audit: every model, structure and unit of plans."""

from benchmarks.audit import of_records, of_units
from benchmarks.audit.runs import Case

CASES = tuple(
    case
    for part in (of_records, of_units)
    for held in vars(part).values()
    for case in (held if isinstance(held, tuple) else (held,))
    if isinstance(case, Case)
)
