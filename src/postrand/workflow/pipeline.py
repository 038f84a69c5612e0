"""From a plan to a release: the main path, step by step."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postrand import release
from postrand.certification import Certificate, certify
from postrand.engines import Engine, LocalEngine, Resources, chosen
from postrand.engines.database import Table
from postrand.engines.placing import check_target
from postrand.errors import UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.release import Release
from postrand.release.ledger import Ledger, series_of
from postrand.risk.findings import Findings
from postrand.risk.reveals import UnperturbedWarning
from postrand.support.inputs import finite
from postrand.support.progress import Listener, Stage, stage, told, unheard
from postrand.support.randomness import ReleaseKey, as_release_key
from postrand.support.warned import warn
from postrand.workflow.design_blocks import check_rules, check_sizes, design_blocks
from postrand.workflow.facts import facts_of
from postrand.workflow.file_goal import solved
from postrand.workflow.known import Known, opened
from postrand.workflow.perturbation import Perturbation, file_warnings
from postrand.workflow.planned import claims_of, mechanism_of
from postrand.workflow.series import charges_of, entry_of
from postrand.workflow.unperturbed import findings
from postrand.workflow.written import check_fits

WAIT = 0.2
"""Seconds between two looks at whether somebody who waits for a dossier has cancelled."""

if TYPE_CHECKING:  # a run without a dossier or a policy needs none of them, nor what they measure with
    from postrand.workflow.dossier import Dossier
    from postrand.workflow.plan_risk import Beforehand
    from postrand.workflow.policy_check import PolicyCheck


def run(
    plan: Plan,
    out: str | Path,
    *,
    release_key: ReleaseKey | bytes | str | None = None,
    dossier: str | Path | None = None,
    engine: Engine | str | None = None,
    resume: str | Path | None = None,
    ledger: Ledger | None = None,
    again: bool = False,
    progress: bool | Listener = False,
    sampling_fraction: float | None = None,
    resources: Resources | None = None,
) -> Release:
    """Run a plan: design, certify, perturb, write. The release is written completely or not at all.

    With ``dossier``, risk and exact counts go to that folder, for authorised staff only, never into the release.
    ``sampling_fraction``, the share of the population that is in the file, is used for the dossier and the policy only,
    in place of weights. With ``resume``, the same call continues an interrupted one: that internal folder contains the
    completed parts until the release is written. It needs the release key of the first call. With ``ledger``, the
    release is recorded there, and another content under the same key is refused unless ``again`` is set. A plan with a
    ledger of its own is counted there too: see :mod:`postrand.release.ledger`.

    ``progress`` is True to show a terminal the stage of the work and what is done of it, or a function that is called
    with each :class:`postrand.support.progress.Step`, for example ``print``.

    ``engine`` and ``resources`` (threads, memory, folder for temporary files) replace those of the plan.

    Unperturbed variables are measured. Each finding is a warning (``UnperturbedWarning``) with names and rounded
    shares; the returned release has them all as ``findings``. Nothing is released while a column that singles out more
    than 1% of the records, or all but settles a perturbed one, needs a decision: see :func:`findings`. Warns too if the
    release of a numerical variable shows most of its values (``RankWarning``), and if a spreadsheet would run text of a
    CSV release as a formula (``FormulaWarning``).

    A plan with a policy is checked against it before anything is written: a rule that is not met is an error
    (``PolicyError``), or a warning (``PolicyWarning``) where the policy is not enforced.

    Raises
    ------
    PostrandError
        Any error of the tree; then no file is left on the disk.
    """
    with told(progress):
        return _run(plan, out, release_key, dossier, engine, resume, ledger, again, sampling_fraction, resources)


def run_measured(
    plan: Plan,
    out: str | Path,
    beforehand: Beforehand | None,
    *,
    dossier: str | Path,
    engine: Engine,
    progress: bool | Listener = False,
    sampling_fraction: float | None = None,
    release_key: ReleaseKey | bytes | str | None = None,
) -> Release:
    """Run a plan as :func:`run`, and take what was measured ``beforehand`` in place of measuring it again.

    What was measured of another file, codebook, mechanism or fraction is measured again. Raises as :func:`run`;
    DataError too if the file was changed while it was released.
    """
    with told(progress):
        about = plan, out, release_key, dossier, engine, None, None, False, sampling_fraction, None
        return _run(*about, beforehand)


def _run(
    plan: Plan,
    out: str | Path,
    release_key: ReleaseKey | bytes | str | None,
    dossier: str | Path | None,
    engine: Engine | str | None,
    resume: str | Path | None,
    ledger: Ledger | None,
    again: bool,
    sampling_fraction: float | None,
    resources: Resources | None,
    beforehand: Beforehand | None = None,
) -> Release:
    _check_targets(plan, out, dossier)
    _check_fraction(sampling_fraction, dossier, plan)
    sampling_fraction = plan.share(sampling_fraction)
    key = _key_of(release_key, resume)
    engine, limits = chosen(engine, resources, plan.engine, Path(out).parent, resume)
    plan = plan.limited(limits)
    check_sizes(plan)
    stage(Stage.READING)
    source = opened(plan)
    plan = solved(plan, engine, source, key)
    measures, before = dossier is not None or plan.policy is not None, None if beforehand is None else beforehand.known
    known = Known.of(plan, engine, source, key=key, dossier=measures, before=before)
    check_rules(known)
    check_fits(known)
    blocks = design_blocks(plan, known)
    mechanism = mechanism_of(plan, blocks, known)  # designs the split too
    claims, facts = claims_of(plan, mechanism, known), facts_of(plan, key)
    certificate = certify(mechanism, claims, facts)
    found = findings(plan, mechanism, known)
    found.require_decisions()
    job = Perturbation.of(known, mechanism, key)
    entry = entry_of(plan, mechanism, certificate, job.content, Path(out).name)
    if plan.file is not None and ledger is not None and ledger.has_others(entry):
        facts = dataclasses.replace(facts, key_is_reused=True)
    charges = charges_of(plan, entry, ledger, again=again)  # what the ledger refuses needs no warnings
    for text, kind in (*((text, UnperturbedWarning) for text in found.warnings), *file_warnings(known)):
        warn(text, kind, stacklevel=3)
    series = series_of(charges)
    certificate = dataclasses.replace(certificate, series=series)  # what the pages say of the total, they say first
    about = known, blocks, certificate, found, mechanism, sampling_fraction
    if beforehand is not None and not beforehand.is_of(known, mechanism, sampling_fraction):
        beforehand = None
    with _beside(known, None if dossier is None else _collected(beforehand, *about), beforehand) as inside:
        _check_policy(policy_of(known, mechanism, certificate, found, sampling_fraction, inside))
        made = job.release(out, charges, claims, facts, dossier, inside)
    if resume is not None:
        shutil.rmtree(resume, ignore_errors=True)
    return dataclasses.replace(made, findings=found, records=job.content.records)


def _collected(beforehand: Beforehand | None, *about: Any) -> Callable[[], Dossier]:
    from postrand.workflow.dossier import collect  # a fifth of the modules of a run: only for a dossier

    return lambda: collect(None if beforehand is None else beforehand.risk, *about)


@contextmanager
def _beside(
    known: Known, collected: Callable[[], Dossier] | None, beforehand: Beforehand | None
) -> Iterator[Callable[[], Dossier] | None]:
    """Yield what gives the facts of the dossier, which a thread computes while the release is drawn and written.

    Nothing is drawn before they are known where the records are in a database, whose connection is one, or are not held
    in memory; a policy waits for them by itself. What was measured before is taken if nobody wrote to the file since.
    After an error the thread is not waited for: it writes nothing.
    """
    if collected is None:
        yield None
        return
    is_alone = isinstance(known.plan.source, Table) or known.columns is None
    pool = ThreadPoolExecutor(1, thread_name_prefix="postrand-risk")
    if is_alone or not isinstance(known.engine, LocalEngine):
        work: Future[Dossier] = Future()
        work.set_result(collected())
    else:
        work = pool.submit(copy_context().run, unheard()(collected))

    def given() -> Dossier:
        if beforehand is not None:
            beforehand.require_same()
        while not work.done():
            stage(Stage.RISK)  # whoever listens can cancel
            wait([work], WAIT)
        return work.result()

    try:
        yield given
        pool.shutdown()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def policy_of(
    known: Known,
    mechanism: Mechanism,
    certificate: Certificate,
    found: Findings,
    fraction: float | None,
    inside: Callable[[], Dossier] | None = None,
) -> PolicyCheck | None:
    """Return what the plan's policy says of it, from the dossier if there is one; None without a policy."""
    if known.plan.policy is None:
        return None
    if inside is not None and (checked := inside().policy) is not None:
        return checked
    from postrand.workflow.plan_figures import figures_known  # only for a policy
    from postrand.workflow.policy_check import check_policy

    return check_policy(figures_known(known, mechanism, certificate, found, fraction), known.plan.policy)


def _check_policy(checked: PolicyCheck | None) -> None:
    """Raise PolicyError if the plan does not meet its policy; if the policy is not enforced, warn of each rule."""
    if checked is None:
        return
    from postrand.workflow.policy_check import PolicyWarning  # only for a policy

    checked.require()
    for text in checked.problems():
        warn(text, PolicyWarning, stacklevel=4)


def _key_of(release_key: ReleaseKey | bytes | str | None, resume: str | Path | None) -> ReleaseKey:
    if resume is not None and release_key is None:
        what = "an interrupted run needs its own release key to continue, but no key is given"
        raise UsageError(sentence(what, fix="use the key of the first call: --key-file"))
    return as_release_key(release_key)


def _check_targets(plan: Plan, out: str | Path, dossier: str | Path | None) -> None:
    release.check_targets(out, dossier)
    if plan.release.target is not None:
        check_target(plan.release.target, release.released_codebook(plan.codebook, facts_of(plan)).names)


def _check_fraction(fraction: float | None, dossier: str | Path | None, plan: Plan) -> None:
    if fraction is None:
        return
    if not 0 < finite(fraction) <= 1:
        raise UsageError(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
    if dossier is None and plan.policy is None:
        what = "the sampling fraction is used for the dossier and the policy only"
        raise UsageError(sentence(what, fix="add a dossier, or remove the fraction"))
    from postrand.workflow.dossier_risk import require_one_share  # as the dossier itself

    require_one_share(plan.codebook, fraction)
