"""From the level of the file that a plan asks for to the ε of each record: one search over designs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from postrand.certification import Certificate
from postrand.certification.account import mechanism_account
from postrand.certification.file_level import FileLevel, failing, require
from postrand.designers.budget import LARGEST_SHARE, is_share
from postrand.engines import Engine, LocalEngine
from postrand.errors import PrivacyError, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.privacy import DifferentialPrivacy, models_of, shuffled_delta, spent
from postrand.privacy.blanket import Part, blanket_delta
from postrand.privacy.indistinct import one_of_each
from postrand.support.randomness import ReleaseKey
from postrand.support.warned import heard
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.design_split import with_noise
from postrand.workflow.facts import facts_of
from postrand.workflow.known import Known, opened
from postrand.workflow.planned import mechanism_of

_ROOM = 2e-3
"""Part of the file's ε that is left unused: more than the rounding of the level that the certificate states."""

_CLOSE = 0.3
"""The search ends where ln δ is as close as this to the one allowed; the file's ε is then within about 1% of it."""

_STEP = 0.04
"""How far from its start the search looks first, relative; each design takes time."""

_FAR = 60.0
"""Below this ln δ is no guide, as δ is 0 from the record's ε on: the search halves."""

_TRIALS = 20
_DIGITS = Context(prec=4, rounding=ROUND_FLOOR)


def records_of(plan: Plan, engine: Engine, source: Source) -> int:
    """Return the number of records of the file; reads it if its format does not state the number."""
    if source.num_rows is not None:
        return source.num_rows
    table = engine.count(source, plan.codebook, plan.perturbed[:1])
    return int(table.total + table.omitted)


def of_file(plan: Plan, mechanism: Mechanism, certificate: Certificate, known: Known) -> Certificate:
    """Return the certificate with the level of the plan's file, if the plan asks for one, before anything is drawn."""
    if plan.file is None:
        return certificate
    certificate = dataclasses.replace(certificate, facts=facts_of(plan))
    return certificate.of_file(mechanism, records_of(plan, known.engine, known.source), plan.file.delta)


def solved(
    plan: Plan, engine: Engine | None = None, source: Source | None = None, key: ReleaseKey | None = None
) -> Plan:
    """Return the plan with the ε of a record for which the file's is at most the ``file_epsilon`` that it asks for.

    The number of records decides it, so ε makes that number public. Blocks that share the record's ε are designed at
    every ε that is tried; those with an ε of their own keep it. A plan that asks for no file's ε is returned as it is.

    Raises
    ------
    PrivacyError
        With every condition of a file's level that fails; or if the blocks' own ε are too large for it.
    DesignError
        If a matrix cannot be designed.
    """
    goal = plan.file
    if goal is None or goal.epsilon is None:
        return plan
    engine = engine or LocalEngine()
    source = opened(plan) if source is None else source
    records, asked = records_of(plan, engine, source), goal.epsilon
    known = Known.tables(plan, engine, source) if plan.reads_file else None
    plan = with_noise(plan, known)

    def at(epsilon: float) -> Plan:
        return dataclasses.replace(plan, privacy=DifferentialPrivacy(epsilon))

    def excess(mechanism: Mechanism) -> float:
        """Return ``ln(δ of the file / δ allowed)``."""
        left = asked * (1 - _ROOM) - math.fsum(block.prior_epsilon for block in one_of_each(mechanism))
        found = shuffled_delta(mechanism, records, left) if left > 0 else 1.0
        return math.log(max(found, 1e-300) / (goal.delta * (1 - 1e-5)))

    start = _short(max(_start(plan, records, asked, goal.delta), 1.01 * _fixed(plan)))
    first = _designed(at(start), known)
    require(FileLevel(records, goal.delta, asked, fails=failing(first, facts_of(plan, key), _models(plan))), asked)
    if _shares(plan):
        return at(_largest(lambda epsilon: excess(_designed(at(epsilon), known)), start, excess(first)))
    total = mechanism_account(first).total
    if excess(first) > 0:
        fix = "lower the blocks' and the split's own epsilon, let them share the record's, or raise file_epsilon"
        what = "the blocks' own epsilon are too large for the file's level"
        raise PrivacyError(sentence(what, where="[privacy] file_epsilon", got=total, wanted=asked, fix=fix))
    return at(total)


def _start(plan: Plan, records: int, asked: float, delta: float) -> float:
    """Return the ε of a record at which randomised response with equal shares would give the file's level."""
    sizes = [plan.cells_of(block) for block in plan.blocks]
    if plan.split is not None:  # whose subsets are not known yet: a table of two variables
        inside = sorted(plan.codebook[name].size for name in plan.split.variables)
        sizes.append(min(math.prod(inside[-2:]), plan.split.max_cells))

    def feasible(epsilon: float) -> bool:
        each = epsilon / len(sizes)
        grown = Fraction(math.exp(each))
        parts = [Part(grown, size / (grown + size - 1)) for size in sizes if size > 1]
        return blanket_delta(parts, records, asked, enough=math.inf) <= delta

    low, high = asked, LARGEST_SHARE
    while high - low > 1e-3 * high and low < high:
        middle = (low + high) / 2
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low


def _largest(excess: Callable[[float], float], start: float, at_start: float) -> float:
    """Return about the largest ε of a record without excess: a bracket around ``start``, then interpolation in ln δ."""
    low, at_low = (start, at_start) if at_start <= 0 else (0.0, -math.inf)
    high, at_high = (start, at_start) if at_start > 0 else (math.inf, math.inf)
    step = _STEP
    for _ in range(_TRIALS):
        if at_low >= -_CLOSE or low >= LARGEST_SHARE:
            break
        if math.isinf(high):
            trial, step = min(low * (1 + step), LARGEST_SHARE), 2 * step
        elif low == 0:
            trial, step = high * max(1 - step, 0.3), 2 * step
        else:
            part = 0.5 if at_low < -_FAR else at_low / (at_low - at_high)
            trial = low + min(max(part, 0.1), 0.9) * (high - low)
        trial = _short(trial)
        if trial in (low, high):
            break
        found = excess(trial)
        low, at_low, high, at_high = (low, at_low, trial, found) if found > 0 else (trial, found, high, at_high)
    if low == 0:
        fix = "raise file_epsilon, or spend less on priors and on blocks with an epsilon of their own"
        raise PrivacyError(sentence("no epsilon of a record reaches the file's level", got=f"tried {high:g}", fix=fix))
    return low


def _designed(plan: Plan, known: Known | None) -> Mechanism:
    with heard():  # of intermediate designs; the plan is designed again at the end
        return mechanism_of(plan, design_blocks(plan, known), known)


def _shares(plan: Plan) -> bool:
    """Return whether the ε of a block, or of the split, follows from the record's."""
    rest = plan.split is not None and plan.split.epsilon is None
    return rest or any(is_share(block.privacy) and block.matrix is None for block in plan.blocks)


def _fixed(plan: Plan) -> float:
    """Return the ε that blocks and a split with one of their own, and priors, take from a record."""
    own = [spent(model) or 0.0 for b in plan.blocks if not is_share(b.privacy) for model in models_of(b.privacy)]
    own += [] if plan.split is None else [plan.split.spent]
    return math.fsum([*own, *(b.prior_epsilon for b in plan.blocks if b.prior == "dp")])


def _models(plan: Plan) -> list[object]:
    return [claim.privacy for claim in plan.claims]


def _short(epsilon: float) -> float:
    """Return an ε rounded down to four significant digits."""
    return float(_DIGITS.plus(Decimal(epsilon)))
