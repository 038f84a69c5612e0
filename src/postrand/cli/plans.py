"""The commands that look at whole plans: compare, explain, check.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, PLACE, Result, command
from postrand.errors import UsageError, sentence

_FRACTION = click.option(
    "--sampling-fraction", "fraction", type=float, help="Share of the population that is in the file, without weights."
)


@command
@click.argument("plans", type=PLACE, nargs=-1, required=True)
@_FRACTION
def compare(plans: tuple[Path, ...], fraction: float | None) -> Result:
    """Show two or more plans side by side: claims, risk, worth of tables, settings.

    A folder that 'postrand suppress' wrote can stand among them: it is measured by the file and keys of the first plan.
    Nothing is released. The answer is computed from the confidential file: keep it internal. What other levels of
    privacy would keep of the file: 'postrand curve'.
    """
    from postrand.plan import load_plan
    from postrand.workflow.beside import compared

    places = [path if path.is_dir() else load_plan(path) for path in plans]
    found = compared(places, _names(plans), fraction)
    return found.to_dict(), str(found)


@command
@click.argument("plan", type=FILE)
@_FRACTION
def explain(plan: Path, fraction: float | None) -> Result:
    """Say in sentences what a plan releases, protects, is good for, and leaves unprotected.

    One page for a board, in plain words. Nothing is released. The answer is computed from the confidential file: keep
    it internal.
    """
    from postrand.plan import load_plan
    from postrand.workflow.explanation import explain as explained

    loaded = load_plan(plan)
    found = explained(loaded, _figures(loaded, fraction, plan.name))
    return found.to_dict(), str(found)


@command
@click.option("--plan", type=FILE, required=True, help="plan.toml")
@click.option("--policy", type=FILE, help="policy.toml; without it, the one that the plan names in [policy].")
@_FRACTION
def check(plan: Path, policy: Path | None, fraction: float | None) -> Result:
    """Check a plan against the office's policy: one page, before and after, pass or fail.

    Exit code 11 if a rule is not met, and 5 if the ledger that the plan names would refuse the release. Nothing is
    released. The answer is computed from the confidential file: keep it internal.
    """
    from postrand.plan import load_plan
    from postrand.plan.plan import ruled_by
    from postrand.workflow.policy_check import check_policy

    loaded = ruled_by(load_plan(plan), policy)
    if loaded.policy is None:
        fix = 'name one with --policy, or in the plan: [policy] file = "policy.toml"'
        raise UsageError(sentence("there is no policy to check the plan against", where=plan.name, fix=fix))
    found = check_policy(_figures(loaded, fraction, plan.name), loaded.policy)
    return found.to_dict(), str(found), found.exit_code


def _figures(plan: Any, fraction: float | None, name: str) -> Any:
    from postrand.workflow.comparison import figures_of

    return figures_of(plan, fraction=fraction, name=name)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the files' names, with their folders where two are alike."""
    names = [path.name for path in paths]
    return names if len({*names}) == len(names) else [str(path) for path in paths]
