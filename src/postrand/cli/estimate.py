"""The questions of ``postrand estimate``: each is one option, one call of ``postrand.estimate``, and one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import Renamed
from postrand.errors import UsageError, raise_all, sentence

_Ask = Callable[[Any, str, Mapping[str, str]], Any]

QUESTIONS = {
    "table": ("A,B", "Shares of the categories of these variables together.", ("method", "weight", "strata")),
    "mean": ("Y", "Mean of a number, in each group of --by.", ("by", "weight", "strata")),
    "total": ("Y", "Total of a number, in each group of --by.", ("by", "weight", "strata")),
    "ratio": ("A,B", "Ratio of the totals of two numbers, in each group of --by.", ("by", "weight", "strata")),
    "quantile": ("Y", "Quantiles of a number, in each group of --by.", ("q", "by", "weight", "strata")),
    "regression": ("FORMULA", "For example 'income ~ C(region)'.", ("family", "method", "weight", "strata")),
}
"""Option, what it takes, its help, and the options that go with it."""

OPTIONS = {
    "by": ("A,B", "Variables whose categories are the groups, perturbed or not."),
    "q": ("P,Q", "Which quantiles, for example 0.1,0.5,0.9; the median if not given."),
    "family": ("NAME", "Of a regression: linear (if not given), logistic, poisson or multinomial."),
    "method": ("NAME", "Of a table: unbiased or likelihood. Of a regression: equations or likelihood."),
    "weight": ("W", "Sampling weight, a released variable."),
    "strata": ("S", "Sampling strata, a released variable that is not perturbed."),
}
FORMERLY = {"weight": "--weights"}
"""Options that are still understood by another name: ``--weight`` is what the other commands say."""
TABLE_METHODS = ("unbiased", "likelihood")


def estimate_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the questions, and the options that go with them."""
    shown = {name: (metavar, text) for name, (metavar, text, _) in QUESTIONS.items()} | OPTIONS
    for name, (metavar, text) in reversed(shown.items()):
        former: dict[str, Any] = {"cls": Renamed, "formerly": FORMERLY[name]} if name in FORMERLY else {}
        function = click.option(f"--{name}", metavar=metavar, help=text, **former)(function)
    return function


def answer(directory: Path, excel: Path | None, choices: Mapping[str, str | None]) -> tuple[dict[str, Any], str]:
    """Return the answer to the one question that is asked of a release, as plain data and as text.

    Raises
    ------
    UsageError
        If none or several questions are asked, or an option does not go with the question.
    PostrandError
        Whatever the estimator raises.
    """
    question = _question(choices)
    from postrand.release import read

    release = read(directory)
    given = {name: text for name, text in choices.items() if text is not None and name not in QUESTIONS}
    result = _ASK[question](release, str(choices[question]), given)
    if excel is not None:
        from postrand.formats.excel import write_tables

        variables = " by ".join(result.variables) if question == "table" else f"{question} {choices[question]}"
        write_tables(excel, {variables: result.to_arrow()})
    return result.to_dict(), str(result)


def _question(choices: Mapping[str, str | None]) -> str:
    asked = [name for name in QUESTIONS if choices[name] is not None]
    if len(asked) != 1:
        wanted = ", ".join(f"--{name}" for name in QUESTIONS)
        what = "several questions are asked at once" if asked else "no question is asked"
        fix = "run the command once for each" if asked else "for example --mean income --by region"
        got = ", ".join(f"--{name}" for name in asked) or None
        raise UsageError(sentence(what, got=got, wanted=f"one of {wanted}", fix=fix))
    fitting = QUESTIONS[asked[0]][2]
    stray = [name for name in OPTIONS if choices[name] is not None and name not in fitting]
    raise_all(
        UsageError,
        [
            sentence(f"--{name} does not go with --{asked[0]}", wanted=", ".join(f"--{one}" for one in fitting))
            for name in stray
        ],
    )
    return asked[0]


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _sampled(given: Mapping[str, str]) -> dict[str, Any]:
    """Return weights, strata and groups where they are given."""
    names = {"weight": "weights", "strata": "strata"}
    found: dict[str, Any] = {parameter: given[name] for name, parameter in names.items() if name in given}
    if "by" in given:
        groups = _names(given["by"])
        found["by"] = groups[0] if len(groups) == 1 else groups
    return found


def _table(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    method = given.get("method", "unbiased")
    if method not in TABLE_METHODS:
        raise UsageError(sentence(f"unknown method {method!r} of a table", wanted=" or ".join(TABLE_METHODS)))
    ask = estimate.table if method == "unbiased" else estimate.maximum_likelihood
    return ask(release.frame(), _names(text), release.mechanism, **_sampled(given))


def _mean(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    return estimate.mean(release.frame(), text, release.mechanism, **_sampled(given))


def _total(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    return estimate.total(release.frame(), text, release.mechanism, **_sampled(given))


def _ratio(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    pair = _names(text)
    if len(pair) != 2:
        raise UsageError(sentence("--ratio does not name two variables", got=text, wanted="numerator,denominator"))
    return estimate.ratio_of_totals(release.frame(), *pair, release.mechanism, **_sampled(given))


def _quantile(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    chosen: dict[str, Any] = {}
    if "q" in given:
        try:
            chosen["q"] = [float(part) for part in _names(given["q"])]
        except ValueError:
            raise UsageError(sentence("not a list of numbers", where="--q", fix="separate them by commas")) from None
    return estimate.quantile(release.frame(), text, release.mechanism, **chosen, **_sampled(given))


def _regression(release: Any, text: str, given: Mapping[str, str]) -> Any:
    from postrand import estimate

    method: Any = {"method": given["method"]} if "method" in given else {}
    family: Any = given.get("family", "linear")
    return estimate.regression(text, release.frame(), release.mechanism, family, **method, **_sampled(given))


_ASK: dict[str, _Ask] = {
    "table": _table,
    "mean": _mean,
    "total": _total,
    "ratio": _ratio,
    "quantile": _quantile,
    "regression": _regression,
}
