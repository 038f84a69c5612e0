"""The columns that a method of whole columns leaves as they are: dropped, decided on, or a reason to refuse."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from postrand.columns.source import as_numbers
from postrand.data.frames import TableSource
from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.formats import Source
from postrand.plan.free_texts import identifying
from postrand.plan.numbering import household_among
from postrand.risk.finding import how_many, listed
from postrand.risk.findings import Finding, Findings, share_text, singling
from postrand.risk.linked import columns_of, gathered, links
from postrand.risk.naming import named
from postrand.risk.reveals import PairReveal, UnperturbedWarning
from postrand.risk.sample import Sampled, sampled
from postrand.risk.singled import MAX_ALONE
from postrand.risk.singled_together import singled_by_all
from postrand.risk.telling import best_guess
from postrand.risk.told_linearly import told_all
from postrand.support.showing import few
from postrand.support.warned import warn
from postrand.workflow.leaving import TRUE
from postrand.workflow.linked import is_id

DECIDED = "--as-is states"


def without(table: pa.Table, changed: Sequence[str], drop: Sequence[str], as_is: Sequence[str]) -> pa.Table:
    """Return the table of a file without the columns ``drop``; ``*`` stands for all that no other option names.

    Raises
    ------
    UsageError
        If ``drop`` or ``as_is`` name a column that is not there, or is ``changed``, or is in both.
    """
    if "*" in drop and "*" not in table.column_names:
        others = [name for name in table.column_names if name not in (*changed, *as_is)]
        drop = list(dict.fromkeys([*(name for name in drop if name != "*"), *others]))
    raise_all(UsageError, _named_problems(drop, as_is, table.column_names, changed))
    return table.drop_columns(list(drop))


def decided(table: pa.Table, source: Source, changed: Sequence[str], as_is: Sequence[str]) -> Findings:
    """Return what the columns of a table that are not ``changed`` tell; see :func:`warned` for what follows.

    Raises
    ------
    UsageError
        If one names or numbers persons, holds free text, singles out records, or tells true values of ``changed``,
        and is not named in ``as_is``.
    """
    told = _beside(as_numbers(table, source), [name for name in changed if name in table.column_names], as_is)
    _require_decisions(told)
    return told


def warned(told: Findings) -> Findings:
    """Return the findings, and warn of those that were not decided on."""
    for text in told.warnings:
        warn(text, UnperturbedWarning, stacklevel=4)
    return told


def alone_with(frame: pa.Table, changed: Sequence[str], keys: Sequence[str] = ()) -> tuple[str, ...]:
    """Return in a sentence how many records of a written file are alone with the columns that were left as they are.

    The claims on classes hold for ``keys``, or else ``changed``, alone. () where there are no other columns, or no
    record is alone.
    """
    if not set(frame.column_names) - set(changed):
        return ()
    sample = sampled(TableSource(frame), frame.column_names, ())
    share = singled_by_all({name: sample.codes(name) for name in frame.column_names})
    few = "" if sample.is_whole else f", in a sample of {sample.table.num_rows:,} records"
    said = (
        f"With these and the columns that are released as they are, all together, {share_text(share)} of the records "
    )
    said += "are alone with their"
    return (f"{said} values{few}: the classes are those of {', '.join(keys or changed)} only.",) if share else ()


def _named_problems(
    drop: Sequence[str], as_is: Sequence[str], columns: Sequence[str], used: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each column of an option that is not there, or is changed, or in both."""
    for where, names, said in (("--drop", drop, "dropped"), ("--as-is", as_is, "released as it is")):
        for name in names:
            if name not in columns:
                yield sentence(f"no column {name!r}{nearest(name, columns)}", where=where, wanted=few(columns))
            elif name in used or (name in drop and name in as_is):
                yield sentence(f"column {name!r} is {'used' if name in used else 'dropped'} and {said}", where=where)


def _beside(table: pa.Table, changed: Sequence[str], as_is: Sequence[str]) -> Findings:
    """Return what the columns that are not ``changed`` single out, and what they tell of true values of those.

    ``as_is``: it was decided that these columns are released as they are.
    """
    clear = [name for name in table.column_names if name not in changed]
    found = singling(TableSource(table), clear, as_is, DECIDED)
    sample = sampled(TableSource(table), table.column_names, ())
    told = tuple(_telling(sample, changed, [one.name for one in found.singled], as_is))
    known = {(name, other) for one in told for name in one.about for other in one.variables}
    naming = tuple(_identifying(sample, clear, as_is))
    linked = tuple(_linked(sample, changed, clear, as_is, known))
    exact = [one for one in linked if one.is_exact]
    near = [one for one in linked if not one.is_exact]
    return dataclasses.replace(found, found=(*exact, *naming, *found.found, *told, *near))


def _identifying(sample: Sampled, clear: Sequence[str], as_is: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each column that names or numbers persons by its name, or holds free text."""
    for name in clear:
        if what := identifying(sample.table.column(name), {"name": name}):
            yield named(name, what, as_is, DECIDED)


def _telling(sample: Sampled, changed: Sequence[str], clear: Sequence[str], as_is: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each changed column and what tells its true values, by the measures of a plan's findings."""
    pairs, together = told_all(sample, (), changed, clear)
    much = [pair for pair in pairs if pair.is_much]
    for name, is_open in itertools.product(changed, (True, False)):
        held = [p for p in much if p.perturbed == name and (p.is_certain and p.clear not in as_is) == is_open]
        if held:
            names = [pair.clear for pair in held]
            text = f"true values of {name} {_how(held)} columns that stay as they are, {', '.join(names)}"
            yield Finding("tells", tuple(names), (name,), f"{text}: {best_guess(held)}", is_open=is_open)
    for columns, found in together:  # as a plan's findings: those that all but settle a value need a decision too
        which = f"{how_many(columns)} columns together that stay as they are, {listed(columns)}"
        text = f"{TRUE} {found.perturbed} {_how([found])} {which}: {found.in_words}"
        is_open = found.is_certain and not {*columns} <= {*as_is}
        yield Finding("linked", columns, (found.perturbed,), text, is_open=is_open)


def _how(held: Sequence[PairReveal]) -> str:
    """Return how true values come from columns: they follow only where a plan would have to decide."""
    return "follow from" if any(pair.is_certain for pair in held) else "can be guessed better from"


def _linked(
    sample: Sampled,
    changed: Sequence[str],
    clear: Sequence[str],
    as_is: Sequence[str],
    known: Collection[tuple[str, str]],
) -> Iterator[Finding]:
    """Yield a finding for each link between changed columns and others; a near-function needs no decision.

    Links of ``known`` pairs, of a changed and another column, are found already, unless they are exact.
    """
    names = sample.table.column_names
    held = columns_of(sample, names, household_among(names))
    columns = {name: column for name, column in held.items() if not is_id(column)}
    for link in gathered(links(columns), lambda link: link.variables[0] in changed):
        about = tuple(name for name in link.names if name in changed)
        free = tuple(name for name in link.names if name in clear)
        told = link.kind == "near" and all((name, other) in known for name in about for other in free)
        if about and free and not told:
            as_they_are = "released as it is, tells" if len(free) == 1 else "released as they are, tell"
            text = f"{link.text}: {', '.join(free)}, {as_they_are} of {TRUE} {', '.join(about)}"
            is_open = link.kind != "near" and not set(free) <= {*as_is}
            yield Finding("linked", free, about, text, is_open=is_open, is_exact=link.is_exact)


def _require_decisions(told: Findings) -> None:
    """Raise UsageError where a column singles out records, or tells true values, and nobody has decided on it."""
    shares: Mapping[str, float] = {one.name: one.alone for one in told.singled}
    single = [one.variables[0] for one in told.found if one.is_open and one.code == "singles-out"]
    naming = [n for one in told.found if one.is_open and one.code == "names" for n in one.variables if n not in single]
    linked = [one for one in told.found if one.is_open and one.about]
    problems = []
    if single:
        listed = ", ".join(f"{name} ({share_text(shares[name])})" for name in single)
        what = (
            f"columns that stay as they are single out more than {MAX_ALONE:.0%} of the records each, alone: {listed}"
        )
        problems.append(sentence(what, fix=_next(single)))
    if naming:
        what = "columns that stay as they are seem to name or number persons or households, or hold free text"
        problems.append(sentence(f"{what}: {', '.join(naming)}", fix=_next(naming)))
    if linked:
        what = f"columns that stay as they are tell true values: {'; '.join(one.sentence for one in linked)}"
        problems.append(sentence(what, fix=_next([name for one in linked for name in one.variables])))
    raise_all(UsageError, problems)


def _next(names: Sequence[str]) -> str:
    listed = ",".join(dict.fromkeys(names))
    return f"leave them out: --drop {listed}; or name those that are released all the same: --as-is {listed}"
