"""The command that recommends plans, and the questions that it and ``postrand init`` ask."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, FOLDER, SOURCE, Result, command, keys_option, names, reading_options
from postrand.cli.machine import may_use
from postrand.errors import PostrandError, UsageError, printable, sentence
from postrand.support.progress import paused
from postrand.support.system import is_waiting


def _no_epsilon(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Say how a level is asked for: as a limit, like all that must stay within a number."""
    if value is not None:
        raise click.UsageError(f"There is no option --epsilon. Next: --limit 'epsilon <= {printable(value)}'.")


def needs_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is asked of a plan."""
    options = (
        click.option(
            "--attacker",
            metavar="WHO",
            help="Who might attack: the register or the informed attacker, or anyone. With anyone, sensitive and other "
            "variables are perturbed too; figures of risk still count the keys alone as known. Default: register.",
        ),
        click.option(
            "--perturb-also",
            metavar="A,B",
            help="Columns to perturb besides the keys: what is sensitive, or tells keys. Figures of risk do not count "
            "them as known. One that no other option names has the role sensitive.",
        ),
        click.option(
            "--limit",
            "limits",
            multiple=True,
            metavar="LIMIT",
            help="What must stay within a number, such as 'epsilon <= 4', 'tau2 <= 1', "
            "'correct_matches <= 5', 'individual_risk <= 0.1' or 'effective_records >= 200'; can be repeated. "
            "Default of the plans that are recommended: 'epsilon <= 4', which stays beside limits on risk unless the "
            "records may choose (advise --look).",
        ),
        click.option(
            "--use",
            "uses",
            multiple=True,
            metavar="USE",
            help="What analysts will do: tables, means or models; or by name a regression, a mean, shares or a table, "
            "such as 'model pay ~ sex + age', 'mean pay by sex', 'share ill by sex' or 'table ill x sex', for which a "
            "split is then designed, and which is estimated from simulated releases; can be repeated. Default: tables.",
        ),
        click.option(
            "--precision",
            "precisions",
            multiple=True,
            metavar="TEXT",
            help="What a table must be good for, such as '2 points for sex x region'; can be repeated.",
        ),
        click.option("--epsilon", hidden=True, expose_value=False, callback=_no_epsilon),
    )
    for option in reversed(options):
        function = option(function)
    return function


def with_perturbed(
    given: Mapping[str, tuple[str, ...]], perturb_also: str | None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the roles, with 'sensitive' for columns that only ``--perturb-also`` names, and all that it names.

    >>> with_perturbed({"key": ("sex",), "other": ("job",)}, "job,health")
    ({'key': ('sex',), 'other': ('job',), 'sensitive': ('health',)}, ('job', 'health'))
    """
    also = tuple(names(perturb_also)) if perturb_also else ()
    known = {name for listed in given.values() for name in listed}
    new = tuple(name for name in also if name not in known)
    return {**given, **({"sensitive": (*given.get("sensitive", ()), *new)} if new else {})}, also


def unit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say whom plans protect beside the record."""
    house = click.option(
        "--largest-household",
        type=click.IntRange(min=2),
        metavar="N",
        help="Protect households too, with up to N members: a public bound, not the largest household of the file.",
    )
    person = click.option(
        "--person",
        metavar="P",
        help="Column of numbers of persons who have several records; it is not released, unless --household, or the "
        "codebook, names it too: then new numbers are, and one record of each person can be shown.",
    )
    most = click.option(
        "--most-records",
        type=click.IntRange(min=2),
        metavar="N",
        help="Protect persons too, with up to N records: a public bound, not the most records of the file.",
    )
    return house(person(most(function)))


@command
@click.argument("file", type=SOURCE)
@click.option("--codebook", type=FILE, help="codebook.toml of FILE; without it, the codebook is inferred.")
@keys_option()
@click.option("--sensitive", metavar="A,B", help="Sensitive variables: the role alone does not perturb them.")
@click.option("--other", metavar="A,B", help="Other variables to release; '*' for all other variables.")
@click.option("--drop", metavar="A,B", help="Variables that are not released. Default: all that are not named.")
@click.option("--record-key", metavar="ID", help="Column with a unique number of each record.")
@click.option("--weight", metavar="W", help="Sampling weight.")
@click.option("--household", metavar="H", help="Column of household numbers.")
@click.option("--sampling-fraction", "fraction", type=float, help="Share of the population that is in the file.")
@needs_options
@click.option(
    "--policy",
    type=FILE,
    help="policy.toml of the office: its rules on epsilon and risk are limits too, all are checked for every plan, and "
    "the plans that meet most of them come first.",
)
@click.option(
    "--look",
    is_flag=True,
    help="Let the records choose blocks and levels too; the guarantee does not cover this choice, and the certificate "
    "says so. Without it, they are only measured.",
)
@unit_options
@click.option(
    "--household-variables", metavar="A,B", help="Keys that all members of a household share: drawn once for it."
)
@click.option("--all", "every", is_flag=True, help="Say also which ways are left out, and why.")
@click.option("--out", type=FOLDER, default="advice", show_default=True, help="New folder for the plans.")
@may_use("threads")
@reading_options
def advise(
    file: Path,
    codebook: Path | None,
    keys: str | None,
    fraction: float | None,
    attacker: str | None,
    limits: tuple[str, ...],
    uses: tuple[str, ...],
    precisions: tuple[str, ...],
    policy: Path | None,
    look: bool,
    largest_household: int | None,
    household_variables: str | None,
    person: str | None,
    most_records: int | None,
    perturb_also: str | None,
    every: bool,
    out: Path,
    reading: Any,
    **roles: str | None,
) -> Result:
    """Recommend two to four complete plans for FILE.

    For each, advise prints the claim in a plain sentence, the risk before and after, the worth of tables, and why it is
    proposed. 'postrand protect' accepts a plan as it is written, unless its lines say “Decide”: then columns that are
    released as they are single out persons or all but settle perturbed values, and need your decision first. The answer
    is computed from the confidential file: keep it internal.

    Without --attacker, --limit, --use, --precision and --policy, advise offers at a terminal to ask for them;
    elsewhere, and where you press Enter, it states its defaults and uses them.

    \b
    postrand advise survey.csv --keys age,sex,region --limit "epsilon <= 4"
    postrand advise survey.csv --codebook codebook.toml \\
        --attacker informed --limit "individual_risk <= 0.1" --look
    postrand advise survey.csv --codebook codebook.toml --policy policy.toml
    postrand advise survey.csv --keys age,sex,region \\
        --precision "2 points for sex x region" --all
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.plan.policy import columns_of, load_policy
    from postrand.workflow.advice import advise as advised
    from postrand.workflow.advice_codebook import codebook_for
    from postrand.workflow.advice_needs import needs_from

    given = {role: names(value) for role, value in {"key": keys, **roles}.items() if value}
    if codebook is not None and given:
        fix = "set the roles in the codebook, or leave --codebook out"
        raise UsageError(sentence("the codebook already has the roles", got=", ".join(given), fix=fix))
    given, also = with_perturbed(given, perturb_also)
    place, book, told = codebook_for(file, codebook, given, reading)
    ruled = None if policy is None else load_policy(policy, columns_of(book))
    needs = asked_for(attacker, limits, uses, precisions, look=look, policy=ruled) or needs_from(look=look)
    shared = names(household_variables) if household_variables else ()
    needs = replace(needs, largest_household=largest_household or 0, household_variables=tuple(shared))
    needs = replace(needs, person=person or "", most_records=most_records or 0, perturb_also=also)
    chosen = None if codebook is not None else {name for listed in given.values() for name in listed}
    found = advised(place, book, needs, out, fraction=fraction, named=chosen)
    text = "\n".join([*told, found.text(every=every)])
    return {**found.to_dict(), "told": told}, text


def asked_for(
    attacker: str | None,
    limits: tuple[str, ...],
    uses: tuple[str, ...],
    precisions: tuple[str, ...],
    *,
    look: bool = False,
    policy: Any = None,
) -> Any:
    """Return the needs, None if no option says any of them and, at a terminal, nobody wants to be asked for them."""
    if attacker is None and policy is None and not (limits or uses or precisions):
        if not can_ask():
            return None
        with paused():
            if not _wants_questions():
                return None
            attacker, limits, uses, precisions = _answers()
    from postrand.workflow.advice_needs import needs_from

    return needs_from(attacker, limits, uses, precisions, look=look, policy=policy)


def _wants_questions() -> bool:
    click.echo("No option says who might attack, what must be limited, or what analysts will do.", err=True)
    return click.confirm("Answer four questions? (Enter: no, the defaults)", default=False, err=True)


def _answers() -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Ask what options can say, each question with its default."""
    from postrand.workflow.advice_needs import ATTACKERS, MEANINGS, USES, Needs

    usual = Needs()
    attacker = _question("Who might attack?", ATTACKERS, usual.attacker)
    limits = _several("What must stay within which limit?", MEANINGS, ", ".join(map(str, usual.limits)))
    uses = _several("What will analysts do?", USES, ", ".join(usual.uses))
    text = "Which table must be good for what, such as '2 points for sex x region'? (empty: none)"
    return attacker, limits, uses, _parts(click.prompt(text, default="", show_default=False, err=True))


_SEVERAL = " (k records of a person or household together: at most k times as much)"


def advice_lines(
    source: Any, made: Any, needs: Any, units: Any, out: Path, reading: Any
) -> tuple[list[str], dict[str, Any]]:
    """Return what 'postrand init' says of ε and of other plans, and the same as data; it writes plans if asked.

    ``units`` says whom the plans protect beside the record.
    """
    from postrand.workflow.advice_needs import UNITS
    from postrand.workflow.epsilon import DEFAULT_EPSILON, above_bound

    lines = [f"warning: {text}" for text in above_bound(made.epsilon)]
    protected = {name: getattr(units, name) for name in UNITS}
    asked_of = {**protected, "perturb_also": ",".join(units.perturb_also)}
    again = _again(source, made.codebook, {**reading.to_dict(), **{n: str(v) for n, v in asked_of.items() if v}})
    if needs is None:
        made_plan = tomllib.loads(made.plan.read_text(encoding="utf-8"))
        is_one = made_plan.get("split", {}).get("unit") == "household"
        several = " and for all records of a household or person together" if is_one else _SEVERAL
        several *= any(protected.values())
        parts = "1 for each perturbed variable (those of one block count once)"
        parts = "all of it for the split" if "split" in made_plan and not made_plan.get("blocks") else parts
        assumed = f"epsilon = {made.epsilon:g} for a record{several}, {parts}, the register attacker, tables"
        then = f"other plans, of epsilon <= {DEFAULT_EPSILON:g} unless --limit says another"
        return [*lines, f"Assumed: {assumed}. {'Then, for' if made.is_open else 'For'} {then}: {again}"], {}
    if made.is_open:
        asked = f"{again} {needs.typed}" if isinstance(source, Path) else again
        return [*lines, f"Then, for plans that meet what you asked: {asked}"], {"asked": needs.lines()}
    from postrand.formats import File
    from postrand.plan.infer import load_codebook
    from postrand.workflow.advice import advise as advised

    needs = replace(needs, **protected, perturb_also=units.perturb_also)
    place = File(source, made.settings) if isinstance(source, Path) else source
    try:
        found = advised(place, load_codebook(made.codebook), needs, out / "advice")
    except PostrandError:
        made.codebook.unlink()
        made.plan.unlink()
        raise
    return [*lines, "", found.text()], {"advice": found.to_dict()}


def _again(source: Any, codebook: Path, given: Mapping[str, str]) -> str:
    """Return the command that recommends plans for a file with its codebook, or what to do for a table."""
    if not isinstance(source, Path):
        return "repeat this command in a new folder, with --limit, --use or --precision"
    pairs = [(f"--{name.replace('_', '-')}", text.replace("\t", "tab")) for name, text in given.items()]
    return shlex.join(["postrand", "advise", str(source), "--codebook", str(codebook), *chain(*pairs)])


def can_ask() -> bool:
    """Return whether a question is seen and answered by a person: at a terminal where no line waits to be read.

    Lines that were pasted or typed ahead are the next commands, and no answers.
    """
    return sys.stdin.isatty() and sys.stderr.isatty() and not is_waiting(sys.stdin)


def weight_asked(bodies: Mapping[str, str], given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the roles, with the sampling weight as a person answers for columns that may be the weight of a body.

    ``bodies`` are these columns with their roles. Nobody is asked where there is no terminal.
    """
    if not bodies or not can_ask():
        return dict(given)
    with paused():
        for name, role in bodies.items():
            if role or not given.get("weight"):
                text = f"{printable(name)} looks like the weight of a body. Is it the sampling weight?"
                if click.confirm(text, default=bool(role), err=True) != bool(role):
                    rest = {of: names for of, names in given.items() if of != "weight"}
                    return rest if role else {**rest, "weight": (name,)}
    return dict(given)


def _question(text: str, choices: Mapping[str, str], default: str) -> str:
    for name, meaning in choices.items():
        click.echo(f"  {name}: {meaning}", err=True)
    return str(click.prompt(text, default=default, type=click.Choice(list(choices)), show_choices=False, err=True))


def _several(text: str, choices: Mapping[str, str], default: str) -> tuple[str, ...]:
    for name, meaning in choices.items():
        click.echo(f"  {name}: {meaning}", err=True)
    return _parts(click.prompt(f"{text} (several: separate them by commas)", default=default, err=True))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
