"""The questions of ``postrand estimate``: those of :func:`postrand.estimate.estimators`, and their options."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from postrand.cli.frame import FOLDER, Once, Renamed, Result, command
from postrand.cli.machine import may_use
from postrand.errors import UsageError, sentence
from postrand.support.extras import require
from postrand.support.progress import Stage, stage
from postrand.support.unit_wordings import member_weighting

if TYPE_CHECKING:
    from postrand.completion import Completed
    from postrand.release import Release


SEED = 0
"""Of the copies from which an answer by the model is made."""


class Questions(Once):
    """A command with the options of the estimators, which are loaded only when needed, because loading is slow."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the release, the questions and their options, then the options of every command."""
        given = super().get_params(ctx)
        arguments = [one for one in given if isinstance(one, click.Argument)]
        return [*arguments, *_offered(), *(one for one in given if one not in arguments)]


def _offered() -> list[click.Parameter]:
    """Return the questions and their options; the help of an option names the questions that use it."""
    from postrand.estimate import Estimator, estimators

    known = list(estimators().values())
    shared: dict[str, list[Estimator]] = {}
    for one in known:
        for option in one.options:
            shared.setdefault(option.name, []).append(one)
    found: list[click.Parameter] = [_option(one.name, one.takes, one.help) for one in known]
    for name, askers in shared.items():
        options = [option for one in askers for option in one.options if option.name == name]
        texts = dict.fromkeys(option.help for option in options)
        if len(texts) > 1 or len(askers) == 1:
            texts = dict.fromkeys(f"For --{a.name}: {o.help}" for a, o in zip(askers, options, strict=True))
        found.append(_option(name, options[0].takes, " ".join(texts), options[0].formerly))
    return found


def _option(name: str, takes: str, text: str, formerly: str = "") -> click.Option:
    former: dict[str, Any] = {"cls": Renamed, "formerly": f"--{formerly}"} if formerly else {"cls": click.Option}
    made: click.Option = former.pop("cls")([f"--{name}", name.replace("-", "_")], metavar=takes, help=text, **former)
    return made


def answer(directory: Path, excel: Path | None, choices: Mapping[str, str | None]) -> tuple[dict[str, Any], str]:
    """Return the answer to one question about a release, as plain data and as text.

    Raises
    ------
    UsageError
        If none or several questions are asked, or an option does not go with the question.
    PostrandError
        An error of the estimator.
    """
    from postrand.estimate import estimators
    from postrand.estimate.survey_design import SurveyWarning
    from postrand.support.warned import hushed

    given = {name.replace("_", "-"): value for name, value in choices.items() if value is not None}
    name = _question(given, estimators())
    from postrand.release import read

    question = estimators()[name]
    asked = given.pop(name)
    question.check(given, asked)
    if excel is not None:
        require("openpyxl", "--excel needs")
    release = read(directory)
    frame = release.frame()
    stage(Stage.ESTIMATING)
    with hushed(SurveyWarning):  # of which setting_aside tells
        result = question.answer(frame, release.mechanism, asked, given, functools.partial(_completed, release))
    if excel is not None:
        from postrand.formats.excel import write_tables

        write_tables(excel, {f"{name} {asked}": result.to_arrow()})
    names = {*_listed(asked), *getattr(result, "perturbed", ())}  # of a formula, and of --by
    notes = (functools.partial(weighting, names), functools.partial(clustering, names), setting_aside, fitting)
    noted = [note(question, release.mechanism, given) for note in notes]
    noted = [text for text in noted if text]
    return {**result.to_dict(), **({"notes": noted} if noted else {})}, "\n".join([str(result), *noted])


def _listed(asked: str) -> Iterable[str]:
    return map(str.strip, asked.split(","))


def weighting(names: Iterable[str], question: Any, mechanism: Any, given: Mapping[str, str]) -> str:
    """Return by what an answer about ``names`` is weighted, or that it is not although it could be; "" without weights.

    Where one member of each household shows them, that it stands for the others is said too.
    """
    from postrand.estimate.split_members import household_of
    from postrand.mechanism.units import words_of

    if "weight" not in {option.name for option in question.options}:
        return ""
    own = "" if household_of(mechanism, [*names]) else "every record counts once"
    said, asked = _weights(question, mechanism, given)
    if said and own:
        return f"Note: weighted by {said}"
    if said:
        return f"Note: {words_of(mechanism.units)(member_weighting(said))}"
    if not asked:
        return ""
    ranked = {column.variable for column in mechanism.numerical} & {*names}
    if ranked:
        asked = (
            f"{', '.join(sorted(ranked))} was released by a rank law, and no weighted figure can be corrected for it"
        )
    return f"Note: {f'{own}; {asked}' if own else words_of(mechanism.units)(member_weighting(asked=asked))}"


def _weights(question: Any, mechanism: Any, given: Mapping[str, str]) -> tuple[str, str]:
    """Return the weights of an answer, and how those of the release are asked for where it has none."""
    if "weight" in given:
        return given["weight"], ""
    recorded = question.recorded(mechanism, given)
    if recorded is not None and (recorded.weights or recorded.replicates):
        return f"{recorded.weights or 'replicate weights'}, as in the survey design of the release", ""
    book = mechanism.codebook
    held = [] if book is None else [v.name for v in book.with_role("weight")]
    if not held or "replicates" in given or given.get("method") in ("likelihood", "model"):
        return "", ""
    return "", f"for figures of the population, weight the records: --weight {held[0]}"


def clustering(names: Iterable[str], question: Any, mechanism: Any, given: Mapping[str, str]) -> str:
    """Return that standard errors take records of a household or person as drawn one by one; "" where they do not."""
    from postrand.estimate.alike import drawn_alone
    from postrand.estimate.offer import name_or_number

    if "psu" not in {option.name for option in question.options} or {"psu", "replicates"} & {*given}:
        return ""
    if setting_aside(question, mechanism, given):  # which tells of clusters
        return ""
    if name_or_number(given.get("fpc", ""), "--fpc") == 1:  # no record was drawn
        return ""
    unused = {"psu": ""} if given.get("method") in ("likelihood", "model") else {}
    told = drawn_alone(mechanism, names, question.recorded(mechanism, given), **unused)
    return f"Note: {told}" if told else ""


def setting_aside(question: Any, mechanism: Any, given: Mapping[str, str]) -> str:
    """Return that the method takes no survey design although the release records one; "" where it takes it."""
    from postrand.estimate.survey_design import set_aside

    told = set_aside(mechanism, given.get("method"), given.get("weight"), given.get("strata"))
    return f"Note: {told}; without --method they are used" if told else ""


def fitting(question: Any, mechanism: Any, given: Mapping[str, str]) -> str:
    """Return that the model was fitted anew, so that what tests say of it differs; "" where there is no model."""
    if given.get("method") != "model":
        return ""
    own = f"Note: the model was fitted for this answer alone, with the seed {SEED}, the same at every call"
    return f"{own}; a completed file with another seed has another R-hat and slightly other numbers"


def _completed(release: Release) -> Completed:
    """Return completed copies of a release, the same at every call, as an answer from the model needs them."""
    from postrand.release.completed import complete

    return complete(release, seed=SEED)


def _question(given: Iterable[str], known: Iterable[str]) -> str:
    """Return the one question that is asked."""
    asked = [name for name in known if name in given]
    if len(asked) != 1:
        what = "several questions are asked at once" if asked else "no question is asked"
        fix = "run the command once for each" if asked else "for example --mean income --by region"
        got, wanted = (", ".join(f"--{name}" for name in names) for names in (asked, known))
        raise UsageError(sentence(what, got=got or None, wanted=f"one of {wanted}", fix=fix))
    return asked[0]


@functools.partial(command, kind=Questions)
@click.argument("directory", type=FOLDER)
@may_use("threads", "scratch")
@click.option("--excel", type=FOLDER, metavar="FILE", help="Also write the result to this new Excel file.")
def estimate(directory: Path, excel: Path | None, **choices: str | None) -> Result:
    """Answer one question about the true records from a release.

    Give one question: a table, a mean, a regression, a test, and so on. Estimates are corrected for the perturbation,
    and standard errors include it.

    \b
    Exit codes:
      0   the question is answered
      10  it is answered from a model (--method model) that failed a test:
          the warnings say which
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.cli.complete import MODEL_FAILED
    from postrand.estimate.by_model import FAILED

    data, text = answer(directory, excel, choices)
    return data, text, MODEL_FAILED if FAILED in text else 0
