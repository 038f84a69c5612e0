"""The release check: what a run of the decisions would release, change and leave out, and all that it would say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from postrand.app import documents
from postrand.app.decisions import Decisions
from postrand.app.designing import Designed, Latest, figures
from postrand.certification.plain_words import household_claims, household_levels, plain_claims
from postrand.release import rendering
from postrand.report.html import compiled
from postrand.report.internal import RiskRow
from postrand.report.table_worth import two_way, two_way_lines
from postrand.risk.file import household_numbers
from postrand.risk.findings import Findings
from postrand.risk.singled_together import singled_by_all
from postrand.support.showing import ORDERS
from postrand.support.warned import heard
from postrand.workflow.column_ways import ColumnWay, Way, ways_of
from postrand.workflow.dossier import Beside
from postrand.workflow.dossier_decision import risk_notes, risk_rows, risk_warnings
from postrand.workflow.guess_levels import with_levels
from postrand.workflow.known import Known
from postrand.workflow.perturbation import file_warnings
from postrand.workflow.policy_check import PolicyCheck
from postrand.workflow.unperturbed import findings as measured
from postrand.workflow.written import refused

_LATE = ("postrand.metadata.documents", "postrand.report.release_readme")
"""What a run imports only when it writes its pages."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseCheck:
    """Hold all that a curator must know before a release: what ``postrand protect`` says of the same plan.

    ``warnings`` are those that are not findings on unperturbed columns; ``refusals`` are the reasons why the run would
    stop. ``every`` is the share of the records, or of the sample of a large file, that all unperturbed columns together
    single out, ``rest`` that of those which do not single out many alone; None where there is no such column.
    ``promises`` are the claims in plain words; ``of_households`` are those on households, and ``levels`` their ε
    by size. ``worth`` says what tables of two variables are worth; ``policy`` has the verdicts on the plan's rules.
    ``risk`` is the table of risk before and after, where it has been measured. ``order`` is that of the released
    records. ``made`` is the design that was checked:
    a release that was made has none beside it.
    """

    columns: tuple[ColumnWay, ...]
    findings: Findings = field(default_factory=Findings)
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    every: float | None = None
    rest: float | None = None
    is_sample: bool = False
    promises: tuple[str, ...] = ()
    of_households: tuple[str, ...] = ()
    levels: tuple[tuple[int, float], ...] = ()
    worth: tuple[str, ...] = ()
    policy: PolicyCheck | None = None
    risk: RiskTable | None = None
    order: str = ""
    made: Designed | None = field(default=None, repr=False)

    @property
    def together(self) -> str:
        """What all unperturbed columns single out together, in words; empty where there is no such column."""
        if self.every is None:
            return ""
        where = "of a sample of the records" if self.is_sample else "of the records"
        return f"All variables that are released as they are single out {100 * self.every:.3g}% {where} together"

    @property
    def is_ready(self) -> bool:
        """Whether nothing is left to decide, and nothing would stop the run."""
        return not self.refusals and not self.findings.refusals

    def of(self, *ways: Way) -> tuple[ColumnWay, ...]:
        """Return the columns that leave in one of these ways, in the order of the file."""
        return tuple(column for column in self.columns if column.way in ways)

    def after(self, findings: Findings | None, said: tuple[str, ...], risk: RiskTable | None = None) -> ReleaseCheck:
        """Return the check of a release that was made: its own findings, its risk, and what the run said besides."""
        held = self.findings if findings is None else findings
        own = {*held.warnings}
        more = tuple(text for text in said if text not in own)
        warnings = tuple(dict.fromkeys((*self.warnings, *more)))
        return replace(self, findings=held, warnings=warnings, risk=risk, made=None)


@dataclass(frozen=True, slots=True)
class RiskTable:
    """Hold the risk before and after a plan, in the rows and words of the page that is signed.

    ``before_is`` says which file ``before`` is of; ``warnings`` are to be read first, ``notes`` explain. Where it
    ``is_recoded``, the figures of the file as it came stand beside those before.
    """

    rows: tuple[RiskRow, ...]
    before_is: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_recoded: bool = False


def risk_of(
    decisions: Decisions, check: ReleaseCheck, latest: Latest, wanted: Callable[[], bool] = lambda: True
) -> RiskTable:
    """Return the risk before and after the design of a check, which its run and its internal report take as it is here.

    Raises
    ------
    PostrandError
        If the file cannot be read, or has changed since it was designed for.
    """
    assert check.made is not None
    found = latest.measured(decisions, check.made, wanted)
    told = figures(decisions, check.made, found, check.findings)
    warned = (*risk_warnings(told), *found.said)
    return RiskTable(tuple(risk_rows(told)), told.before_is, warned, tuple(risk_notes(told)), bool(told.as_is))


def checked(decisions: Decisions, folder: Path, latest: Latest | None = None) -> ReleaseCheck | None:
    """Return the release check of the decisions, with nothing released; None while choices are missing.

    Raises
    ------
    PostrandError
        If the plan cannot be designed, or the file cannot be read.
    """
    if documents.problems(decisions):
        return None
    latest = latest or Latest()
    made = latest.designed(decisions, folder)
    found = measured(made.plan, made.mechanism, made.known)
    policy = _policy(decisions, made, found, latest)
    unmet = () if policy is None else tuple(policy.problems())
    enforced = policy is not None and policy.enforce
    said = (*made.said, *(text for text, _ in file_warnings(made.known)), *_doubts(made.known))
    warnings = (*said, *(() if enforced else unmet))
    refusals = (*refused(made.known), *(unmet if enforced else ()))
    columns = ways_of(made.plan, made.mechanism)
    largest = found.largest_household
    houses = household_claims(made.mechanism, largest), household_levels(made.mechanism, largest)
    told, worth = _promises(made, found), tuple(two_way_lines(two_way(made.mechanism, _rows(decisions))))
    shares = _together(made.known, found)
    about = (*shares, told, *houses, worth, policy)
    return ReleaseCheck(columns, found, warnings, refusals, *about, order=ORDERS[made.plan.release.shuffle], made=made)


def prepared(decisions: Decisions, made: Designed, latest: Latest) -> None:
    """Compute what a run needs and no draw decides, while a person reads the check: a run finds it in memory."""
    found = latest.measured(decisions, made)
    Beside.of(found.known, made.mechanism)
    compiled()
    rendering.digest()
    for name in _LATE:
        import_module(name)


def _policy(decisions: Decisions, made: Designed, found: Findings, latest: Latest) -> PolicyCheck | None:
    if made.plan.policy is None:
        return None
    held = latest.measured(decisions, made)
    return with_levels(figures(decisions, made, held, found), held.known, decisions.fraction)


def _rows(decisions: Decisions) -> int:
    return 0 if decisions.opened is None else decisions.opened.rows


def _promises(made: Designed, found: Findings) -> tuple[str, ...]:
    """Return the claims in plain words, with those on the largest household, as the release will state them."""
    level = made.certificate.file
    file, largest = None if level is None else level.to_dict(), found.largest_household
    return plain_claims(made.certificate.claims, made.mechanism, file, largest_household=largest)


def _doubts(known: Known) -> tuple[str, ...]:
    """Return what the internal report of the run will say of the column of households, from the same function."""
    if known.sample is None or known.sample.household is None:
        return ()
    with heard() as said:
        household_numbers(known.answers[known.sample].table.column(known.sample.household), known.sample.household)
    return tuple(said)


def _together(known: Known, found: Findings) -> tuple[float | None, float | None, bool]:
    """Return the shares that unperturbed columns single out together, see the check, and whether of a sample."""
    if known.sample is None or not known.sample.counted:
        return None, None, False
    sample, much = known.answers[known.sample], {one.name for one in found.singled if one.is_much}
    codes = {name: sample.codes(name) for name in known.sample.counted}
    others = {name: held for name, held in codes.items() if name not in much}
    rest = singled_by_all(others) if others else None
    return (singled_by_all(codes) if much else rest), rest, not sample.is_whole
