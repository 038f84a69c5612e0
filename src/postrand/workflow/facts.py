"""What a plan states of its release before any record is read: its facts, columns and file names."""

from __future__ import annotations

from pathlib import Path

from postrand import formats, release
from postrand.certification.certificate import Facts
from postrand.engines import Engine, engines
from postrand.engines.database import Table
from postrand.formats import PartsSource, Source
from postrand.plan import Plan
from postrand.release.bundle import DATA
from postrand.support.randomness import ReleaseKey


def facts_of(plan: Plan, key: ReleaseKey | None = None) -> Facts:
    """Return the facts of the release, apart from the matrices, for the certificate; without a key, a private one."""
    renumbered = plan.release.renumbers and household_of(plan) is not None
    private = key is None or key.is_private
    settles = plan.unit is not None and plan.unit.settles
    return Facts(private, plan.release.shuffle, plan.release.release_ids, renumbered, differing_are_settled=settles)


def household_of(plan: Plan) -> str | None:
    """Return the variable that shows who lives together, if there is one."""
    return next((v.name for v in plan.codebook.with_role("household")), None)


def record_key_of(plan: Plan) -> str | None:
    """Return the variable that names the records, if there is one."""
    return next((v.name for v in plan.codebook.with_role("record_key")), None)


def data_name(plan: Plan, source: Source, engine: Engine) -> tuple[str, str]:
    """Return the name of the released data and the suffix of its files, in the plan's format or the source's.

    It is a folder if the source has several files, or if a cluster writes.
    """
    if plan.release.target is not None:
        return f"{DATA}.parquet", ".parquet"  # which becomes the table, and is gone
    path = Path("table.parquet") if isinstance(plan.source, Table) else formats.first_file(plan.source, source)
    suffix = formats.written_as(path) if plan.release.format == "same" else f".{plan.release.format}"
    kind = engines().get(engine.name)
    several = isinstance(source, PartsSource) or (kind is not None and kind.writes_folder)
    return (DATA if several else f"{DATA}{suffix}"), suffix


def released_names(plan: Plan, key: ReleaseKey | None = None) -> tuple[str, ...]:
    """Return the columns of the release, in order."""
    return release.released_codebook(plan.codebook, facts_of(plan, key)).names
