"""The commands before a release: draft a plan, assess the file, design, compare, tune.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from postrand.cli import columns as columns
from postrand.cli.frame import (
    FILE,
    FOLDER,
    SOURCE,
    Result,
    command,
    keys_option,
    names,
    records_of,
    unperturbed_lines,
)
from postrand.cli.frame import main as main
from postrand.cli.machine import may_use
from postrand.errors import UsageError, raise_all, sentence


@command
@click.argument("file", type=SOURCE, required=False)
@click.option("--uri", metavar="URI", help="Database in place of FILE, without a password; with --table or --query.")
@click.option("--table", metavar="NAME", help="Table of the database: persons, or census.persons.")
@click.option("--query", metavar="SQL", help="Query of the database, in place of --table.")
@click.option("--password-from", metavar="VARIABLE", help="Variable of the environment with the password.")
@click.option("--out", type=FOLDER, default=".", show_default=True, help="Folder for codebook.toml and plan.toml.")
@keys_option()
@click.option("--sensitive", metavar="A,B", help="Sensitive variables.")
@click.option("--other", metavar="A,B", help="Variables released without perturbation; '*' for all not named.")
@click.option("--drop", metavar="A,B", help="Variables that are not released; '*' for all not named.")
@click.option("--record-key", metavar="ID", help="Unique record id (else the row number serves).")
@click.option("--weight", metavar="W", help="Sampling weight.")
@click.option("--household", metavar="H", help="Household id.")
@click.option("--ddi", type=FILE, help="DDI-Codebook XML with labels and missing codes of the variables.")
def init(
    file: Path | None,
    uri: str | None,
    table: str | None,
    query: str | None,
    password_from: str | None,
    out: Path,
    ddi: Path | None,
    keys: str | None,
    **roles: str | None,
) -> Result:
    """Write a codebook and a plan for FILE, or for a table of a database, to edit.

    Roles that you do not give stay empty, and must be filled in before anything is protected.
    """
    from postrand.workflow import draft

    given = {role: names(value) for role, value in {"key": keys, **roles}.items() if value}
    made = draft.start(records_of(file, uri, table, query, password_from), out, given, ddi=ddi)
    lines = [f"wrote {made.codebook}", f"wrote {made.plan}"]
    if made.without_role:
        lines.append(f"Next: set the role of {', '.join(made.without_role)}")
    if made.undecided:
        lines.append(
            f"Next: decide on {', '.join(made.undecided)}: unperturbed, each singles out more than 1% of the records. "
            "The notes in plan.toml say how"
        )
    if len(lines) == 2:
        lines.append("Next: read both, then run 'postrand design'")
    lists = {"without_role": list(made.without_role), "undecided": list(made.undecided)}
    return {"codebook": str(made.codebook), "plan": str(made.plan), **lists}, "\n".join(lines)


def _measures(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print every risk measure with its options, and end."""
    if not asked or context.resilient_parsing:
        return
    from postrand.risk.measures import described

    for one in described():
        options = ", ".join(f"{name} = {value!r}" for name, value in one["options"].items())
        click.echo(f"{one['measure']:<18} {one['meaning']}" + (f"\n{'':<18} options: {options}" if options else ""))
    context.exit()


@command
@click.argument("file", type=SOURCE)
@keys_option(required=True)
@click.option("--codebook", type=FILE, help="codebook.toml; inferred from FILE where it is not given.")
@click.option("--sampling-fraction", type=float, help="Share of the population that is in the file.")
@click.option("--weight", metavar="W", help="Sampling weight, in place of the fraction.")
@click.option("--model", default="two-way", show_default=True, help="independence, two-way, three-way or search.")
@click.option("--sensitive", metavar="S", help="Sensitive variable, for l-diversity.")
@click.option("--household", metavar="H", help="Column of household numbers, for the risk of households.")
@click.option("--measure", metavar="M,N", help="Risk measures by name, or 'all', in place of the summary.")
@click.option(
    "--set", "settings", multiple=True, metavar="M.OPTION=VALUE", help="Option of a measure; may be repeated."
)
@click.option(
    "--measures", is_flag=True, is_eager=True, expose_value=False, callback=_measures, help="List the measures."
)
@click.option(
    "--records", type=FOLDER, metavar="FILE", help="Write the risk of each record to this new file. Internal."
)
@click.option("--record-key", metavar="ID", help="Column of record ids that --records writes too; by default none.")
@click.option("--plot", type=FOLDER, metavar="FOLDER", help="Write each histogram to this new folder.")
@may_use("threads")
def assess(
    file: Path, keys: str, codebook: Path | None, measure: str | None, sensitive: str | None, **choices: Any
) -> Result:
    """Measure how identifiable FILE is, as it is.

    Without --measure: sample uniques, k-anonymity and the expected number of correct matches, fit to be published.
    With --measure: each measure that is named, for use inside the agency; 'postrand assess --measures' lists them. With
    --codebook too, the weight, the household and the sensitive variables that you do not name are those of its roles.
    Nothing is written unless you name --records or --plot, and never into a release.

    \b
    postrand assess survey.parquet --keys age,sex,region --measure suda
    postrand assess survey.parquet --keys age,sex,region --weight w --household h --measure individual,households
    postrand assess survey.parquet --keys age,sex,region --measure groups --set groups.by=region
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.workflow import draft

    inside = ("household", "settings", "records", "record_key", "plot")
    if measure is None:
        extra = [name for name in inside if choices.pop(name)]
        _only_with_measure(extra)
        report = draft.assess(file, names(keys), codebook, sensitive=sensitive, **choices)
        return report.to_dict(), str(report)
    found = draft.measure(file, names(keys), codebook, names(measure), sensitive=names(sensitive), **choices)
    return found.to_dict(), str(found)


def _only_with_measure(given: list[str]) -> None:
    """Raise UsageError for options that go with --measure alone."""
    fix = "name a measure, such as --measure households; --measures lists them"
    options = ["set" if name == "settings" else name.replace("_", "-") for name in given]
    raise_all(
        UsageError,
        [sentence(f"--{option} goes with --measure, and no measure is named", fix=fix) for option in options],
    )


@command
@click.option("--plan", "plan", type=FILE, required=True, help="plan.toml")
def design(plan: Path) -> Result:
    """Show the matrices of a plan, their claims, and what leaves in clear.

    What each keeps, how far it is from the best possible, and the privacy it guarantees; which records the unperturbed
    columns of the file single out, and what they say of perturbed ones. Nothing is written.
    """
    from postrand.certification.certificate import certify
    from postrand.plan import load_plan
    from postrand.workflow.design_blocks import design_blocks
    from postrand.workflow.planned import claims_of, mechanism_of
    from postrand.workflow.unperturbed import findings
    from postrand.workflow.worth import expected

    loaded = load_plan(plan)
    blocks = design_blocks(loaded)
    mechanism = mechanism_of(loaded, blocks)
    certificate = certify(mechanism, claims_of(loaded, mechanism))
    worth = [expected(block, loaded.codebook) for block in blocks]
    told = [block.to_dict() | found for block, (found, _) in zip(blocks, worth, strict=True)]
    data = {"blocks": told, "claims": list(certificate.sentences)}
    data["advice"] = list(loaded.advice)
    lines = [line for block, (_, text) in zip(blocks, worth, strict=True) for line in (str(block), text) if line]
    found = findings(loaded, mechanism)
    data["findings"] = found.to_dict()
    return data, "\n".join([*lines, *loaded.advice, "", *certificate.sentences, *unperturbed_lines(found)])


@command
@click.option("--prior", required=True, metavar="P,Q", help="Category probabilities, or 'uniform:S' for S categories.")
@click.option("--epsilons", default="0.25,0.5,1,2,4", show_default=True, metavar="E,F", help="Privacy budgets.")
@click.option("--plot", type=FOLDER, help="Write the curves to this new SVG file.")
def compare(prior: str, epsilons: str, plot: Path | None) -> Result:
    """Show the privacy-utility curve of every structure.

    Information kept and variance of the analyst's estimates, at each epsilon, with proven bounds.
    """
    from postrand.designers import compare as compared

    curve = compared(_prior(prior), _numbers(epsilons, "--epsilons"))
    if plot is not None:
        _write_new(plot, curve.svg())
    return curve.to_dict(), curve.text()


@command
@click.argument("file", type=FILE, required=False)
@keys_option(of=" of FILE")
@click.option("--plan", type=FILE, help="plan.toml, in place of FILE: its budgets are scaled together.")
@click.option("--limit", required=True, metavar="LIMIT", help="For example 'tau2 <= 10'.")
@click.option("--sampling-fraction", type=float, help="Share of the population that is in the file.")
@click.option("--weight", metavar="W", help="Sampling weight, in place of the fraction.")
@click.option("--model", default="two-way", show_default=True, help="independence, two-way, three-way or search.")
@click.option("--draws", type=int, default=10, show_default=True, help="Releases that the risk is averaged over.")
@click.option("--codebook", type=FILE, help="codebook.toml of FILE; inferred where it is not given.")
def tune(file: Path | None, keys: str | None, codebook: Path | None, plan: Path | None, **choices: Any) -> Result:
    """Search for the largest epsilon that surely meets a risk limit.

    Of FILE and --keys: one epsilon, shared equally. Of --plan: its budgets in their ratios, its structures and blocks.
    The answer may be that no perturbation is needed for the limit, or that the draws cannot decide. The table is the
    risk-utility map. Column 'error' is the error of the draws, which the level found allows for; '95% below' bounds
    the risk of one release, with the error of the model too, as the intervals of 'postrand assess' do.
    """
    from postrand.workflow import draft

    found = draft.tune(file, names(keys), codebook, plan=plan, **choices)
    return found.to_dict(), str(found)


def _prior(text: str) -> Any:
    from postrand.designers import Prior

    kind, _, size = text.partition(":")
    if kind == "uniform" and size.isdecimal():
        return Prior.uniform(int(size))
    return _numbers(text, "--prior")


def _numbers(text: str, where: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(sentence("not a list of numbers", where=where, fix="separate them by commas")) from None


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(sentence("the file cannot be written", where=str(path), got=error.strerror)) from None
