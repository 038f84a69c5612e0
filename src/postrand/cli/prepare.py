"""The commands before a release: draft a plan, assess the file, design, draw the curve, tune.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from postrand.cli import columns as columns
from postrand.cli.advise import advice_lines, asked_for, needs_options, unit_options, weight_asked, with_perturbed
from postrand.cli.frame import (
    FILE,
    FOLDER,
    SOURCE,
    Result,
    check_reading,
    command,
    in_words,
    keys_option,
    names,
    placed,
    reading_options,
    records_of,
    unperturbed_lines,
)
from postrand.cli.frame import main as main
from postrand.cli.machine import may_use
from postrand.errors import UsageError, raise_all, sentence


def _population_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what the file is a sample of, and by which model its population is estimated."""
    model = click.option(
        "--model",
        default="two-way",
        show_default=True,
        help="Log-linear model of the risk: independence, two-way, three-way or search.",
    )
    weight = click.option("--weight", metavar="W", help="Column of sampling weights, instead of the fraction.")
    share = click.option("--sampling-fraction", type=float, help="Share of the population that is in the file.")
    return share(weight(model(function)))


@command
@click.argument("file", type=SOURCE, required=False)
@click.option(
    "--uri", metavar="URI", help="Address of a database, instead of FILE, without a password; needs --table or --query."
)
@click.option("--table", metavar="NAME", help="Table of the database, for example persons or census.persons.")
@click.option("--query", metavar="SQL", help="Query of the database, instead of --table.")
@click.option("--password-from", metavar="VARIABLE", help="Environment variable that contains the password.")
@click.option("--out", type=FOLDER, default=".", show_default=True, help="Folder for codebook.toml and plan.toml.")
@keys_option()
@click.option("--sensitive", metavar="A,B", help="Sensitive variables: the role alone does not perturb them.")
@click.option("--other", metavar="A,B", help="Variables released without perturbation; '*' for all other variables.")
@click.option("--drop", metavar="A,B", help="Variables that are not released; '*' for all other variables.")
@click.option(
    "--record-key", metavar="ID", help="Column with a unique number of each record. Without it, the row number is used."
)
@click.option("--weight", metavar="W", help="Sampling weight.")
@click.option("--household", metavar="H", help="Column of household numbers.")
@click.option("--ddi", type=FILE, help="DDI-Codebook XML file with labels and missing codes of the variables.")
@click.option(
    "--perturb",
    "way",
    type=click.Choice(["best", "blocks", "split"]),
    default="best",
    show_default=True,
    help="blocks: one for each variable. split: each record shows a random part of them. best: blocks, or from 5 "
    "variables on a split or one joint block where tables are then worth at least twice as much. plan.toml says why.",
)
@click.option(
    "--recode",
    multiple=True,
    metavar="RECODE",
    help='Recode a column, for example "age=bands:0,15,30,45", "pay=bands:0,1000;labels=500,2000" (labels that are '
    'numbers keep means), "nation=groups:EU=France,Italy;others=other", '
    '"area=hierarchy:areas.csv@2" or '
    '"age=top:85 then bands:0,18"; can be repeated.',
)
@unit_options
@needs_options
@reading_options
def init(
    file: Path | None,
    uri: str | None,
    table: str | None,
    query: str | None,
    password_from: str | None,
    out: Path,
    ddi: Path | None,
    keys: str | None,
    way: Literal["best", "blocks", "split"],
    reading: Any,
    recode: tuple[str, ...],
    attacker: str | None,
    limits: tuple[str, ...],
    uses: tuple[str, ...],
    precisions: tuple[str, ...],
    largest_household: int | None,
    person: str | None,
    most_records: int | None,
    perturb_also: str | None,
    **roles: str | None,
) -> Result:
    """Write a codebook and a plan for FILE or a database table.

    Read both and edit them. What init prints fits on one screen; the notes in codebook.toml say all that was found.

    A column that you do not name has no role yet: give it one before you run 'postrand protect'. --other '*' gives the
    rest the role 'other', but for columns whose exact values single out persons, and numbers of persons or households:
    these you decide by name.

    init finds out how a text file or a workbook is read, prints it and writes it into the plan. Where the file does not
    show it, use an option such as --separator.

    A column with the name of a weight that looks like the weight of a body is not taken for the sampling weight without
    a word: init asks at a terminal, and names it elsewhere.

    With --attacker, --limit, --use or --precision it also recommends plans, as 'postrand advise' does, in the folder
    'advice'; if a column needs your decision first, it prints the command for afterwards. Without any of them init
    offers at a terminal to ask for them; elsewhere, and where you press Enter, it recommends nothing: plan.toml then
    has epsilon = 1 for each variable that is perturbed, and init prints the sum for a record.
    """
    from postrand.workflow import draft
    from postrand.workflow.advice_needs import UNITS, Needs
    from postrand.workflow.advice_refusals import require_bounded

    given = {role: names(value) for role, value in {"key": keys, **roles}.items() if value}
    given, also = with_perturbed(given, perturb_also)
    units = Needs(largest_household=largest_household or 0, person=person or "", most_records=most_records or 0)
    units = replace(units, perturb_also=also)
    source = records_of(file, uri, table, query, password_from)
    needs = asked_for(attacker, limits, uses, precisions)
    total = None
    if needs is not None:
        needs = replace(needs, **{name: getattr(units, name) for name in UNITS})
        require_bounded(needs)
        total, units = needs.epsilon, replace(units, models=needs.models)
    about: dict[str, Any] = {"ddi": ddi, "way": way, "settings": reading, "recode": recode, "units": units}
    made = draft.start(source, out, given, total=total, **about)
    if (answered := weight_asked(made.bodies, given)) != given:
        made.codebook.unlink()
        made.plan.unlink()
        given = answered
        made = draft.start(source, out, given, total=total, **about)
    lines = made.lines(str(source.name), given, *([] if needs is None else [needs.uses]))
    told_of, advice = advice_lines(source, made, needs, units, out, reading)
    lines += told_of
    names_of = ("without_role", "numbers", "undecided", "settling", "settled", "linked", "starred", "declared", "alike")
    lists = {name: list(getattr(made, name)) for name in (*names_of, "bodies", "groups")}
    data = {"codebook": str(made.codebook), "plan": str(made.plan), **lists, "settings": made.settings.to_dict()}
    return {**data, **advice, "epsilon": made.epsilon}, "\n".join(lines)


def _measures(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print every risk measure with its options, and exit."""
    if not asked or context.resilient_parsing:
        return
    from postrand.risk.measures import described

    for one in described():
        options = ", ".join(f"{name} = {value!r}" for name, value in one["options"].items())
        click.echo(f"{one['measure']:<18} {one['meaning']}" + (f"\n{'':<18} options: {options}" if options else ""))
    context.exit()


@command
@click.argument("file", type=SOURCE)
@keys_option()
@click.option("--codebook", type=FILE, help="codebook.toml; without it, the codebook is inferred from FILE.")
@_population_options
@click.option("--sensitive", metavar="S", help="Sensitive variable, for l-diversity.")
@click.option("--household", metavar="H", help="Column of household numbers, for the risk of households.")
@click.option("--measure", metavar="M,N", help="Names of risk measures, or 'all', instead of the summary.")
@click.option(
    "--set", "settings", multiple=True, metavar="M.OPTION=VALUE", help="Option of a measure; can be repeated."
)
@click.option(
    "--measures", is_flag=True, is_eager=True, expose_value=False, callback=_measures, help="List the measures."
)
@click.option(
    "--records", type=FOLDER, metavar="FILE", help="Write the risk of each record to this new file (internal)."
)
@click.option("--record-key", metavar="ID", help="Column of record keys, which --records also writes. Default: none.")
@click.option("--plot", type=FOLDER, metavar="FOLDER", help="Write each histogram to this new folder.")
@may_use("threads")
@reading_options
def assess(
    file: Path,
    keys: str | None,
    codebook: Path | None,
    measure: str | None,
    sensitive: str | None,
    reading: Any,
    **choices: Any,
) -> Result:
    """Measure the disclosure risk of FILE before perturbation.

    Without --measure: sample uniques, k-anonymity and the expected number of correct matches; these can be published.
    With --measure: the named measures, for internal use only; 'postrand assess --measures' lists them. The roles of a
    --codebook supply the keys, weight and household, and with --measure the sensitive variables, that you do not name.
    Files are written only with --records or --plot, and never into a release.

    \b
    postrand assess survey.parquet --keys age,sex,region --measure suda
    postrand assess survey.parquet --keys age,sex,region --weight w \\
        --household h --measure individual,households
    postrand assess survey.parquet --keys age,sex,region \\
        --measure groups --set groups.by=region
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.workflow import draft

    source = placed(file, reading)
    inside = ("settings", "records", "record_key", "plot")
    if measure is None:  # the summary also has the risk of households, if they are named
        extra = [name for name in inside if choices.pop(name)]
        _only_with_measure(extra)
        report = draft.assess(source, names(keys), codebook, sensitive=sensitive, **choices)
        return report.to_dict(), str(report)
    found = draft.measure(source, names(keys), codebook, names(measure), sensitive=names(sensitive), **choices)
    return found.to_dict(), str(found)


@command
@click.argument("file", type=SOURCE, required=False)
@click.option("--psu", metavar="P", required=True, help="Column of the clusters that were drawn.")
@click.option("--weight", metavar="W", help="Column of sampling weights; by default that of the codebook's [survey].")
@click.option("--strata", metavar="S", help="Column of sampling strata; by default that of the codebook's [survey].")
@click.option("--codebook", type=FILE, help="codebook.toml: its recodes, released columns and [survey] are used.")
@click.option("--plan", type=FILE, help="plan.toml, instead of FILE and --codebook: also by how much in its release.")
@click.option("--only", metavar="A,B", help="Variables to measure; by default all that are released.")
@reading_options
def clusters(
    file: Path | None,
    psu: str,
    weight: str | None,
    strata: str | None,
    codebook: Path | None,
    plan: Path | None,
    only: str | None,
    reading: Any,
) -> Result:
    """Measure by how much clusters that were drawn make errors larger.

    For a release without the numbers of the clusters, such as schools or villages: with these figures you can state a
    cluster_effect in [survey] of the codebook, by which 'postrand estimate' multiplies variances. With --plan also for
    estimates from its release, which need a smaller one. Clusters are those of the file before it is recoded. Figures
    of the confidential file, for internal use; nothing is written.

    \b
    postrand clusters pupils.parquet --psu school --weight w --strata region
    postrand clusters --plan plan.toml --psu school
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.engines.database import open_records
    from postrand.plan import infer, load_plan
    from postrand.workflow.cluster_effects import cluster_effects, planned_effects

    check_reading(plan, reading)
    if plan is not None and file is None and codebook is None:
        found = planned_effects(load_plan(plan), psu, weight, strata, names(only))
        return found.to_dict(), str(found)
    if file is None or plan is not None:
        what = "name either a file, with a codebook if there is one, or a plan, which names both"
        raise UsageError(sentence(what, fix=f"postrand clusters --plan {plan or 'plan.toml'} --psu {psu}"))
    book = None if codebook is None else infer.load_codebook(codebook)
    records = open_records(placed(file, reading), book)
    found = cluster_effects(records, psu, weight, strata, book, names(only))
    return found.to_dict(), str(found)


def _only_with_measure(given: list[str]) -> None:
    """Raise UsageError for options that need --measure."""
    fix = "add a measure, such as --measure households; --measures lists them"
    options = ["set" if name == "settings" else name.replace("_", "-") for name in given]
    raise_all(
        UsageError,
        [sentence(f"--{option} needs --measure, which is not given", fix=fix) for option in options],
    )


@command
@click.option("--plan", "plan", type=FILE, required=True, help="plan.toml")
def design(plan: Path) -> Result:
    """Show the matrices of a plan and their privacy claims.

    For each matrix: the information that it keeps, its distance from the best possible matrix, and its guarantee. For
    the unperturbed variables: how many records they single out, and what they reveal about perturbed variables. And why
    'postrand protect' will refuse the file, such as records that contradict a rule. Nothing is written.
    """
    from postrand.certification.certificate import certify
    from postrand.certification.plain_words import plain_claims
    from postrand.plan import load_plan
    from postrand.release.ledger_report import outlook_data, outlook_lines
    from postrand.report.table_worth import EQUAL, little_left, pairs_of, table_worth, two_way_lines
    from postrand.support.wordings import no_file_level
    from postrand.workflow.design_blocks import check_sizes, design_blocks
    from postrand.workflow.design_split import design_split
    from postrand.workflow.file_goal import of_file, records_of, solved
    from postrand.workflow.known import Known
    from postrand.workflow.planned import claims_of, mechanism_of
    from postrand.workflow.series import outlook_of
    from postrand.workflow.unit_budget import unit_advice
    from postrand.workflow.unperturbed import findings
    from postrand.workflow.worth import expected, ways
    from postrand.workflow.written import refused

    loaded = load_plan(plan)
    check_sizes(loaded)
    loaded = solved(loaded)
    known = Known.of(loaded)
    blocks, split = design_blocks(loaded, known), design_split(loaded, known)
    mechanism = mechanism_of(loaded, blocks, known, split)
    certificate = of_file(loaded, mechanism, certify(mechanism, claims_of(loaded, mechanism, known)), known)
    records = records_of(loaded, known.engine, known.source)
    worth = [expected(block, loaded.codebook, records) for block in blocks]
    houses = known.household_sizes(records)
    pairs = table_worth(mechanism, pairs_of(mechanism.variables, loaded.codebook), records, EQUAL, houses)
    told = [block.to_dict() | found for block, (found, _) in zip(blocks, worth, strict=True)]
    data = {"blocks": told, **({} if split is None else {"split": split.to_dict()})}
    file = {} if certificate.file is None else {"file": certificate.file.to_dict()}
    found = findings(loaded, mechanism, known)
    plain = plain_claims(certificate.claims, mechanism, file.get("file"), largest_household=found.largest_household)
    more = unit_advice(mechanism)
    data |= {"claims": list(certificate.sentences), "in_words": list(plain), **file, "advice": [*loaded.advice, *more]}
    data["two_way"] = [one.to_dict() for one in pairs]
    little = little_left(mechanism, records)
    data |= {"little": little} if little else {}
    data["ways"], compared = ways(mechanism)
    lines = [line for block, (_, text) in zip(blocks, worth, strict=True) for line in (str(block), text) if line]
    lines += [*([] if split is None else [str(split)]), *two_way_lines(pairs), *([compared] * bool(compared))]
    lines += [f"warning: {little}"] * bool(little)
    lines += [*loaded.advice, "", *certificate.sentences, *(no_file_level(file["file"]) if file else ())]
    if (outlook := outlook_of(loaded, mechanism, certificate, plan.name)) is not None:
        data["ledger"] = outlook_data(outlook)
        lines += ["", *outlook_lines(outlook)]
    data["findings"] = found.to_dict()
    stops = list(refused(known))
    data |= {"refused": stops} if stops else {}
    stop = ["", "'postrand protect' will refuse the file:", *(f"- {text}" for text in stops)] if stops else []
    return data, "\n".join([*lines, *in_words(plain), *more, *unperturbed_lines(found), *stop])


@command
@click.option("--prior", required=True, metavar="P,Q", help="Category probabilities, or 'uniform:S' for S categories.")
@click.option(
    "--epsilons",
    default="0.25,0.5,1,2,4",
    show_default=True,
    metavar="E,F",
    help="Privacy budgets (values of epsilon).",
)
@click.option("--plot", type=FOLDER, help="Write the curves to this new SVG file.")
def curve(prior: str, epsilons: str, plot: Path | None) -> Result:
    """Show the privacy-utility curve of every structure.

    At each epsilon: the information kept, the variance of the analyst's estimates, and proven bounds.
    """
    from postrand.designers import compare

    found = compare(_prior(prior), _numbers(epsilons, "--epsilons"))
    if plot is not None:
        _write_new(plot, found.svg())
    return found.to_dict(), found.text()


@command
@click.argument("file", type=FILE, required=False)
@keys_option(of=" of FILE")
@click.option(
    "--plan", type=FILE, help="plan.toml, instead of FILE; all its budgets are multiplied by the same factor."
)
@click.option(
    "--limit",
    required=True,
    multiple=True,
    metavar="LIMIT",
    help="Limit of the risk: 'tau1 <= 5', 'tau2 <= 10', 'correct_matches <= 5' or 'household_risk <= 0.2'; can be "
    "repeated: the epsilon keeps every limit.",
)
@_population_options
@click.option(
    "--household", metavar="H", help="Column of household numbers, for limits such as 'household_risk <= 0.2'."
)
@click.option(
    "--draws",
    type=int,
    default=10,
    show_default=True,
    help="Number of simulated releases over which the risk is averaged.",
)
@click.option("--codebook", type=FILE, help="codebook.toml of FILE; without it, the codebook is inferred.")
@reading_options
def tune(
    file: Path | None, keys: str | None, codebook: Path | None, plan: Path | None, reading: Any, **choices: Any
) -> Result:
    """Search for the largest epsilon that meets every risk limit.

    With FILE and --keys: one epsilon, shared equally among the keys. With --plan: the plan's structures and blocks, and
    its budgets in the same proportions. Possible answers are also that the limit is met without perturbation, or that
    more draws are needed to decide. The table is the risk-utility map. Column 'error' is the simulation error; the
    answer takes it into account. Column '95% below' is an upper bound for the risk of one release; it includes the
    error of the model, as the intervals of 'postrand assess' do. The roles of a codebook supply the weight and the
    household that you do not name.
    """
    from postrand.workflow import draft
    from postrand.workflow.epsilon import above_bound, meaning

    empty = [text for text in choices["limit"] if not text.strip(", \t")]
    raise_all(UsageError, (sentence("no name is given", where="--limit", got=repr(text)) for text in empty))
    check_reading(plan, reading)
    source = None if file is None else placed(file, reading)
    found = draft.tune(source, names(keys), codebook, plan=plan, **choices)
    said = [f"{meaning(found.level)}.", *above_bound(found.level)] if found.needed else []
    return {**found.to_dict(), "meaning": said}, "\n".join(["A level is the epsilon of a record.", str(found), *said])


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
        raise UsageError(sentence("not a list of numbers", where=where, fix="separate the numbers by commas")) from None


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(sentence("the file cannot be written", where=str(path), got=error.strerror)) from None
