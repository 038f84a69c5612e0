"""Findings on what unperturbed columns tell of perturbed ones: alone, together, by exact weights, as one fact."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from postrand.codebook import Codebook
from postrand.mechanism import Mechanism
from postrand.risk.finding import PLAN_STATES, Finding, how_many, listed
from postrand.risk.linked import Column, columns_of, links
from postrand.risk.linked_apart import torn_apart, units_of
from postrand.risk.reveals import PairReveal, told
from postrand.risk.sample import Sampled
from postrand.risk.singled import MAX_ALONE
from postrand.risk.telling import (
    MAX_CELLS,
    RANKED_BINS,
    RECORDS_A_CELL,
    Joint,
    Revealed,
    best_guess,
    classes,
    cut_in,
    table_of,
    usable,
)
from postrand.risk.told_linearly import told_linearly
from postrand.risk.weights_told import Weights, distorted, unfit, values_text, weighed

ORDER = "the order of the records"
TOLD = ("guessed", "settled", "same", "right", "blind", "ranges", "ruled")
"""The figures of a finding on what unperturbed columns reveal."""
"""What several columns together reveal, that fewer do not."""


def perturbed_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Return all that a mechanism changes, numbers that move in rank among them."""
    return (*mechanism.variables, *(column.variable for column in mechanism.numerical))


def columns_in(sample: Sampled, mechanism: Mechanism, clear: Collection[str]) -> dict[str, Column]:
    """Return the columns of a release, without new numbers of households and persons, as codes and numbers."""
    units = units_of(mechanism)
    numbers = () if mechanism.units is None else mechanism.units.columns.values()
    names = [name for name in sample.table.column_names if (name in units or name in clear) and name not in numbers]
    return columns_of(sample, names, sample.numbering)


def telling(pairs: Sequence[PairReveal], joint: Joint, as_is: Collection[str]) -> Iterator[Finding]:
    """Yield for each perturbed variable what others reveal, alone or together, and what needs a decision apart."""
    much: dict[tuple[str, bool, bool], list[PairReveal]] = {}
    for pair in pairs:
        if pair.is_much:
            is_open = pair.is_certain and pair.clear not in as_is
            much.setdefault((pair.perturbed, is_open, pair.is_certain), []).append(pair)
    fix = "drop these variables, or perturb them too"
    for (name, is_open, _), held in much.items():
        clear = tuple(pair.clear for pair in held)
        figures = {f"{t.clear}: {n}": getattr(t, n) for t in held for n in TOLD}
        said = f"{listed(clear)}; {best_guess(held)}"
        text = f"unperturbed variables reveal true values of {name}, which is perturbed: {said}"
        states = _stated(clear, as_is) if held[0].is_certain else ""
        yield Finding("tells", clear, (name,), f"{text}; no epsilon prevents this: {fix}{states}", figures, is_open)
    alone = {(pair.perturbed, pair.clear): pair for pair in pairs}
    mostly: dict[tuple[str, str], list[PairReveal]] = {}
    for clear, found in joint:
        ones = [alone[found.perturbed, name] for name in clear if (found.perturbed, name) in alone]
        one = max(ones, key=lambda pair: pair.right, default=None)
        if one is not None and found.adds_little_to(one):
            mostly.setdefault((found.perturbed, one.clear), []).append(found)
            continue
        about, figures = f"true values of {found.perturbed}, which is perturbed", {n: getattr(found, n) for n in TOLD}
        text = f"{how_many(clear)} unperturbed variables together reveal {about}: {listed(clear)}"
        states = _stated(clear, as_is) if found.is_certain else ""
        said = f"{text}; {best_guess([found])}; {fix}{states}"
        yield Finding("tells", clear, (found.perturbed,), said, figures, found.is_certain and not states)
    for key, with_others in mostly.items():
        yield _mostly(alone[key], with_others)


def _mostly(one: PairReveal, with_others: Sequence[PairReveal]) -> Finding:
    """Return that one variable reveals by itself most of what it reveals together with others, or only with them."""
    figures = {f"{pair.clear}: {n}": getattr(pair, n) for pair in (one, *with_others) for n in TOLD}
    best = max(with_others, key=lambda pair: (pair.settled, pair.right))
    names = tuple(best.clear.split(", "))
    about, fix = f"true values of {one.perturbed}, which is perturbed", f"drop {one.clear}, or perturb it too"
    text = f"the unperturbed variable {one.clear} reveals {about}: {one.in_words}; {fix} (with one more variable "
    text += f"little is added: {best.in_words})"
    if one.gains_little and not one.is_much:
        text = (
            f"{how_many(names)} unperturbed variables together reveal {about}: {listed(names)}; {best.in_words}; {fix}"
        )
        return Finding("tells", names, (one.perturbed,), text, figures)
    return Finding("tells", (one.clear,), (one.perturbed,), text, figures)


def told_by_order(sample: Sampled, coded: Collection[str], perturbed: Sequence[str]) -> Iterator[Finding]:
    """Yield what the places of the records in the file tell of each perturbed variable: files are often sorted."""
    n = sample.table.num_rows
    true = usable({name: classes(sample, name, name in coded, RANKED_BINS) for name in perturbed})
    for name, held in true.items():
        bins = max(2, min(n // RECORDS_A_CELL, MAX_CELLS // held[1]))
        place = (np.arange(n) * bins // max(n, 1), bins)
        found = told(table_of(held, place), name, ORDER, cut_in(sample, name, held))
        if found.is_much:
            text = f"the records are released in the order of the file, which reveals true values of {name}, which is "
            text += f"perturbed: {found.in_words}; no epsilon prevents this: set shuffle = true in [release]"
            yield Finding("order", (), (name,), text, {figure: getattr(found, figure) for figure in TOLD})


def weighing(
    sample: Sampled,
    codebook: Codebook,
    mechanism: Mechanism,
    pairs: Sequence[PairReveal],
    as_is: Collection[str],
    original: Weights,
) -> Iterator[Finding]:
    """Yield a finding for each weight whose exact values reveal what bins did not, or that singles out many."""
    yield from (Finding("weights", (name,), (), text) for name, text in unfit(sample, codebook))
    changed = distorted(sample, codebook, original, perturbed_of(mechanism))
    yield from (Finding("weights", (name,), (), text) for name, text in changed)
    known = {(pair.perturbed, pair.clear) for pair in pairs if pair.is_much}
    for one in weighed(sample, codebook, perturbed_of(mechanism), known, original):
        if not one.about and sample.share_alone(one.name) <= MAX_ALONE:
            continue
        text = f"the weights ({one.name}) have {values_text(one.values)}"
        if one.about:
            best = one.best
            of = f"for {best.perturbed} " if len(one.about) > 1 else ""
            are = "is" if len(one.about) == 1 else "are"
            text += f" and reveal {listed(one.about)}, which {are} perturbed or not released: {of}{best.in_words}"
        text += "" if one.cost is None else f"; {one.cost.in_words}"
        figures = {f"{pair.perturbed}: {n}": getattr(pair, n) for pair in one.much for n in TOLD}
        figures |= {"alone": sample.share_alone(one.name)} | (
            {} if one.cost is None else asdict(replace(one.cost, of=""))
        )
        decided = one.name in as_is and not one.about
        yield Finding("weights", (one.name,), one.about, text, figures, False, decided)


def linked(
    columns: Mapping[str, Column],
    mechanism: Mechanism,
    clear: Sequence[str],
    pairs: Sequence[PairReveal],
    joint: Joint,
    as_is: Collection[str],
) -> Iterator[Finding]:
    """Yield a finding for each function, sum or set of dummies that the release tears apart."""
    told = {(pair.perturbed, pair.clear) for pair in pairs if pair.says_values}
    told |= {(found.perturbed, name) for both, found in joint for name in both}
    certain = {(pair.perturbed, pair.clear) for pair in pairs if pair.is_certain}
    certain |= {(found.perturbed, name) for both, found in joint if found.is_certain for name in both}
    for one in torn_apart(links(columns), units_of(mechanism), clear, told, certain):
        states = _stated(one.clear, as_is) if one.is_certain and one.clear else ""
        is_open = one.is_certain and bool(one.clear) and not states
        yield Finding("linked", one.clear, one.about, one.text + states, is_open=is_open, is_exact=one.is_exact)


def jointly(
    sample: Sampled,
    columns: Mapping[str, Column],
    mechanism: Mechanism,
    coded: Collection[str],
    pairs: Sequence[PairReveal],
    joint: Joint,
    exact: Iterator[Revealed],
    facts: Sequence[Finding],
    as_is: Collection[str],
) -> list[Revealed]:
    """Return all that several unperturbed columns reveal together: ``joint``, and what only other ways tell.

    These are sums and scores of numbers, but of what is known to follow from them already; and the ``exact`` values of
    two, of what neither a link nor anything else settles.
    """
    held = (fact for fact in facts if fact.is_open or (fact.variables and _stated(fact.variables, as_is)))
    certain = {name for fact in held for name in fact.about}
    asked = [name for name in perturbed_of(mechanism) if name not in certain]
    clear, known = [name for name in columns if name in sample.alone], [*pairs, *(one for _, one in joint)]
    found = [*joint, *told_linearly(sample, columns, coded, asked, clear, known)]
    settled = {one.perturbed for _, one in found if one.is_certain} | {name for fact in facts for name in fact.about}
    return [*found, *((both, one) for both, one in exact if one.perturbed not in settled)]


def _stated(clear: Collection[str], as_is: Collection[str]) -> str:
    """Return that columns which settle true values are released although: a decision for another reason covers it."""
    if not set(clear) <= set(as_is):
        return ""
    return f"; {PLAN_STATES} that {'it is' if len(clear) == 1 else 'they are'} released all the same"
