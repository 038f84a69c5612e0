"""How an estimator is offered: its name, what it is asked of, and its options; the command line asks for no more.

Each module of this package that holds estimators names them in ``ESTIMATORS``; :func:`estimators`
finds them there. So an estimator with its question, its options and their help is one file.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from postrand.codebook import Codebook
from postrand.codebook.survey_design import LONELY, REPLICATIONS, SurveyDesign
from postrand.errors import EstimationError, UsageError, raise_all, sentence
from postrand.estimate.survey_design import from_parts
from postrand.support.extras import missing
from postrand.support.warned import heard


def text(given: str, where: str) -> str:
    """Take the text as it stands."""
    return given


def listed(given: str, where: str) -> tuple[str, ...]:
    """Take names, separated by commas.

    >>> listed("sex, area", "--table")
    ('sex', 'area')
    """
    return tuple(part.strip() for part in given.split(",") if part.strip())


def numbers(given: str, where: str) -> list[float]:
    """Take numbers, separated by commas; raises UsageError where one is none."""
    try:
        return [float(part) for part in listed(given, where)]
    except ValueError:
        raise UsageError(
            sentence("the value is not a list of numbers", where=where, fix="separate the numbers by commas")
        ) from None


def pair(given: str, where: str) -> tuple[str, str]:
    """Take two names; raises UsageError for fewer or more."""
    names = listed(given, where)
    if len(names) != 2:
        raise UsageError(sentence(f"{where} does not name two variables", got=given, wanted="two names and a comma"))
    return names[0], names[1]


def one_or_more(given: str, where: str) -> str | tuple[str, ...]:
    """Take one name, or several."""
    names = listed(given, where)
    return names[0] if len(names) == 1 else names


def choice(*known: str) -> Callable[[str, str], str]:
    """Return what takes one of these words.

    >>> choice("equations", "likelihood")("likelihood", "--method")
    'likelihood'
    """

    def chosen(given: str, where: str) -> str:
        if given not in known:
            raise UsageError(sentence(f"{where} does not have a choice {given!r}", wanted=" or ".join(known)))
        return given

    return chosen


_OWN = ("weights", "strata")
"""Parts of a survey design that are also options of their own."""


def _with_own(recorded: SurveyDesign, own: Mapping[str, str]) -> SurveyDesign:
    """Return the recorded design with the weights or strata that are named; raises UsageError for replicate weights."""
    if recorded.replicates and any(value != getattr(recorded, part) for part, value in own.items()):
        what = "the codebook records replicate weights, which hold the weights and strata"
        fix = "leave out --weight and --strata, or name replicate weights with --replicates"
        raise UsageError(sentence(what, got=", ".join(own.values()), fix=fix))
    weights, strata = own.get("weights", recorded.weights), own.get("strata", recorded.strata)
    return replace(recorded, weights=weights, strata=strata)


@dataclass(frozen=True, slots=True)
class Option:
    """Describe one option of an estimator.

    Parameters
    ----------
    name
        As it is typed after ``--``.
    takes
        What stands for its value in help texts: ``"A,B"``.
    help
        One sentence.
    read
        ``read(text, where)`` returns the value; ``where`` names the option in errors.
    parameter
        The keyword of the estimator that it sets; by default its name.
    formerly
        A name by which it is still understood.
    design
        Whether it is a part of the survey design, the keyword ``design`` of the estimator; its parameter is then that
        of :class:`postrand.estimate.SurveyDesign`.
    """

    name: str
    takes: str
    help: str
    read: Callable[[str, str], Any] = text
    parameter: str = ""
    formerly: str = ""
    design: bool = False

    @property
    def keyword(self) -> str:
        """The keyword of the estimator."""
        return "design" if self.design else self.part

    @property
    def part(self) -> str:
        """What it sets: the keyword of the estimator, or of the survey design."""
        return self.parameter or self.name


@dataclass(frozen=True, slots=True)
class Estimator:
    """Describe one estimator as a question that a release answers.

    Parameters
    ----------
    name, takes, help
        The question as an option: ``--mean Y``, and one sentence on it.
    ask
        ``ask(frame, *asked, mechanism=mechanism, **options)`` returns the answer, a frozen dataclass: ``str`` of it
        is for people, ``to_dict()`` plain data, ``to_arrow()`` a tidy table. ``asked`` is what ``read`` returns, in a
        tuple of one where it is not a tuple.
    options
        What may be said beside the question.
    example
        The question on :func:`postrand.testing.estimators.survey`, which the tests of every estimator ask.
    read
        ``read(text, where)`` returns what is asked.
    needs
        Options, of :attr:`options`, without which it cannot be asked, each with its value for the example.
    package
        An optional package without which it cannot be answered.
    instead
        What to ask in place of the question with an option that it does not have, by the option: ``{asked}`` stands for
        what is asked, ``{first}`` for the first name of it, ``{given}`` for what is given to the option.

    Examples
    --------
    >>> from postrand.estimate import estimators
    >>> estimators()["mean"].help
    'Mean of a number, in each group of --by.'
    """

    name: str
    takes: str
    help: str
    ask: Callable[..., Any]
    options: tuple[Option, ...]
    example: str
    read: Callable[[str, str], Any] = text
    needs: Mapping[str, str] | None = None
    package: str = ""
    instead: Mapping[str, str] | None = None

    def answer(
        self, frame: Any, mechanism: Any, asked: str, given: Mapping[str, str], fit: Callable[[], Any] | None = None
    ) -> Any:
        """Return the answer to a question with options, both as they are typed.

        ``fit`` gives the completed copies of the release, and is called where the method ``model`` is asked for. A
        survey design that the codebook records is used, unless parts of a design are given; weights or strata that are
        given take the place of its own.

        Raises
        ------
        UsageError
            With every option that cannot be used with the question, is missing, or cannot be read.
        PostrandError
            Whatever the estimator raises.
        """
        self.check(given, asked)
        found = self.read(asked, f"--{self.name}")
        read = {o: o.read(given[o.name], f"--{o.name}") for o in self.options if o.name in given}
        named = {o.keyword: value for o, value in read.items() if not o.design}
        if parts := {o.part: value for o, value in read.items() if o.design}:
            named["design"] = from_parts(parts, named.pop("weights", None), named.pop("strata", None))
        elif (recorded := self.recorded(mechanism, given)) is not None:
            named["design"] = _with_own(recorded, {part: named.pop(part) for part in _OWN if part in named})
        question = found if isinstance(found, tuple) else (found,)
        if named.get("method") == "model" and fit is not None:
            self._beforehand(frame, mechanism, question, {n: v for n, v in named.items() if n != "method"})
            named["model"] = fit()
        return self.ask(frame, *question, mechanism=mechanism, **named)

    def _beforehand(self, frame: Any, mechanism: Any, question: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Raise what the answer without a model raises, before one is fitted, which takes minutes.

        That no estimate is found is what the model is for, unless the question names what a rank law moved.
        """
        try:
            with heard():  # the answer warns again
                self.ask(frame, *question, mechanism=mechanism, **named)
        except EstimationError:
            words = {word for text in question for word in re.findall(r"\w+", str(text))}
            if any(column.variable in words for column in mechanism.numerical):
                raise

    def recorded(self, mechanism: Any, given: Mapping[str, str]) -> SurveyDesign | None:
        """Return the recorded design that a question with these options uses; none beside a design that is given."""
        parts = {option.name for option in self.options if option.design}
        book: Codebook | None = mechanism.codebook
        if book is None or not parts or parts & {*given} or given.get("method") in ("likelihood", "model"):
            return None
        return book.survey

    def check(self, given: Mapping[str, str], asked: str) -> None:
        """Raise UsageError with every option that cannot be used with the question, or is missing, or its package."""
        names = {"asked": asked, "first": asked.partition(",")[0].strip()}
        fixes = {name: way.format(**names, given=given.get(name)) for name, way in (self.instead or {}).items()}
        known = [option.name for option in self.options]
        wanted = ", ".join(f"--{name}" for name in known)
        problems = [
            sentence(f"--{name} cannot be used with --{self.name}", wanted=wanted, fix=fixes.get(name, ""))
            for name in given
            if name not in known
        ]
        problems += [
            sentence(f"--{self.name} needs --{name}", fix=f"for example --{name} {value}")
            for name, value in (self.needs or {}).items()
            if name not in given
        ]
        told = missing(self.package, f"--{self.name} needs") if self.package else None
        raise_all(UsageError, [*problems, *([told] if told else [])])


BY = Option("by", "A,B", "Variables whose categories are the groups, perturbed or not.", one_or_more)
WEIGHT = Option("weight", "W", "Sampling weight: a released variable.", parameter="weights", formerly="weights")
METHOD = Option(
    "method", "NAME", "unbiased (the default), or model: from completed copies.", choice("unbiased", "model")
)
STRATA = Option("strata", "S", "Sampling strata: a released, unperturbed variable.")


def number(given: str, where: str) -> float:
    """Take one number; raises UsageError where it is none."""
    found = numbers(given, where)
    if len(found) != 1:
        raise UsageError(sentence(f"{where} is not one number", got=given))
    return found[0]


def name_or_number(given: str, where: str) -> str | float:
    """Take a number where it is one, and a name else.

    >>> name_or_number("1", "--fpc"), name_or_number("units", "--fpc")
    (1.0, 'units')
    """
    try:
        return float(given)
    except ValueError:
        return text(given, where)


DESIGN = (
    Option("psu", "P", "Primary sampling units (clusters): a released, unperturbed variable.", design=True),
    Option(
        "fpc",
        "F",
        "Primary sampling units in the population of each stratum, or the share drawn: a released variable, or a share "
        "(1: the file is the whole population).",
        name_or_number,
        design=True,
    ),
    Option("replicates", "A,B", "Columns of replicate weights.", listed, design=True),
    Option("replication", "NAME", f"How they were made: {', '.join(REPLICATIONS)}.", parameter="method", design=True),
    Option("rho", "R", "Fay's factor of the replicate weights.", number, design=True),
    Option("scale", "S", "Factor of the variance of the replicates, if not the usual one.", number, design=True),
    Option("rscales", "P,Q", "One factor for each replicate; jkn needs them.", numbers, design=True),
    Option("calibrated", "A,B", "Variables whose population totals the weights meet.", listed, design=True),
    Option(
        "lonely-psu",
        "NAME",
        f"A stratum with one cluster: {', '.join(LONELY)}; the default is refuse.",
        parameter="lonely",
        design=True,
    ),
    Option(
        "cluster-effect",
        "E",
        "By what clusters that are not released multiply variances: 1 or more.",
        number,
        parameter="cluster_effect",
        design=True,
    ),
)
"""The options of a survey design, beside weight and strata."""


@cache
def estimators() -> dict[str, Estimator]:
    """Return every estimator that is offered as a question, by name: what the modules of this package name.

    >>> list(estimators())[:3]
    ['fit', 'independence', 'mean']
    """
    here = importlib.import_module(__name__.rpartition(".")[0])
    modules = [
        importlib.import_module(f"{here.__name__}.{module.name}") for module in pkgutil.iter_modules(here.__path__)
    ]
    found = [one for module in modules for one in getattr(module, "ESTIMATORS", ())]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}
