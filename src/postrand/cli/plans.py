"""The commands that look at whole plans: compare, explain, check.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, FOLDER, PLACE, Result, command, names
from postrand.errors import UsageError, sentence

_FRACTION = click.option(
    "--sampling-fraction", "fraction", type=float, help="Share of the population that is in the file, without weights."
)
_ALSO = click.option(
    "--known-also",
    metavar="A,B",
    help="Released columns that the attackers know too, beside the keys: figures of risk are then theirs.",
)


@command
@click.argument("plans", type=PLACE, nargs=-1, required=True)
@_FRACTION
@_ALSO
def compare(plans: tuple[Path, ...], fraction: float | None, known_also: str | None) -> Result:
    """Show two or more plans side by side: claims, risk, worth of tables, what analysts name, settings.

    A folder that 'postrand suppress' wrote can stand among them: it is measured by the file and keys of the first plan.
    Nothing is released. The answer is computed from the confidential file: keep it internal. What other levels of
    privacy would keep of the file: 'postrand curve'.
    """
    from postrand.workflow.beside import compared

    places = [path if path.is_dir() else _loaded(path, known_also) for path in plans]
    found = compared(places, _names(plans), fraction)
    return found.to_dict(), str(found)


@command
@click.argument("plan", type=FILE)
@_FRACTION
@_ALSO
@click.option(
    "--decision",
    type=FOLDER,
    help="Write the page to decide on and sign into this HTML file: before a release is made, and counted.",
)
@click.option("--policy", type=FILE, help="policy.toml for that page; without it, the one that the plan names.")
@click.option(
    "--use",
    "uses",
    multiple=True,
    metavar="USE",
    help="What analysts will do, by name, beside what the plan names: 'model pay ~ sex + age', 'mean pay by sex', "
    "'share ill by sex' or 'table ill x sex', tried in simulated releases, as 'postrand advise' does; can be repeated.",
)
def explain(
    plan: Path,
    fraction: float | None,
    known_also: str | None,
    decision: Path | None,
    policy: Path | None,
    uses: tuple[str, ...],
) -> Result:
    """Say in sentences what a plan releases, protects, is good for, and leaves unprotected.

    One page for a board, in plain words. Nothing is released. The answer is computed from the confidential file: keep
    it internal.
    """
    from postrand.plan.plan import ruled_by
    from postrand.workflow.explanation import explain as explained
    from postrand.workflow.named_uses import asked_by_name
    from postrand.workflow.plan_figures import measured

    if decision is not None:
        from postrand.workflow.plan_decision import require_new, write_decision

        require_new(decision)
    loaded = ruled_by(_loaded(plan, known_also), policy)
    named = dict.fromkeys([*loaded.analyses, *asked_by_name(loaded.codebook, uses)])
    figures, certificate, told = measured(loaded, fraction=fraction, name=plan.name, named=list(named))
    if decision is not None:
        write_decision(decision, loaded, figures, certificate, told)
    found = explained(loaded, figures)
    return found.to_dict(), str(found)


@command
@click.option("--plan", type=FILE, required=True, help="plan.toml")
@click.option("--policy", type=FILE, help="policy.toml; without it, the one that the plan names in [policy].")
@_FRACTION
@_ALSO
def check(plan: Path, policy: Path | None, fraction: float | None, known_also: str | None) -> Result:
    """Check a plan against the office's policy: one page, before and after, pass or fail.

    Exit code 11 if a rule is not met, and 5 if the ledger that the plan names would refuse the release. Nothing is
    released. The answer is computed from the confidential file: keep it internal.
    """
    from postrand.plan.plan import ruled_by
    from postrand.workflow.guess_levels import checked

    loaded = ruled_by(_loaded(plan, known_also), policy)
    if loaded.policy is None:
        fix = 'name one with --policy, or in the plan: [policy] file = "policy.toml"'
        raise UsageError(sentence("there is no policy to check the plan against", where=plan.name, fix=fix))
    found = checked(loaded, fraction=fraction, name=plan.name)
    return found.to_dict(), str(found), found.exit_code


def _loaded(path: Path, known_also: str | None) -> Any:
    """Return a plan; with columns that the attackers know too, of that plan with these as keys."""
    from postrand.plan import load_plan
    from postrand.workflow.known_also import knowing

    return knowing(load_plan(path), names(known_also)) if known_also else load_plan(path)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the files' names, with their folders where two are alike."""
    names = [path.name for path in paths]
    return names if len({*names}) == len(names) else [str(path) for path in paths]
