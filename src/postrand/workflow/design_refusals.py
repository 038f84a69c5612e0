"""What ``postrand estimate`` refuses of a release whose codebook records a survey design: known before it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from postrand.codebook.survey_design import SurveyDesign
from postrand.estimate.survey_design import NO_TOTAL
from postrand.estimate.survey_law import NOT_DIVIDED
from postrand.plan import Plan
from postrand.support.showing import few


class Refused(NamedTuple):
    """Hold what is refused, in short and whole, of which variables, and what to do; ``uses`` are those that ask for it.

    ``is_all``: nothing that these uses ask for is left. ``by_size``: the finite population of the design is the cause.
    """

    uses: tuple[str, ...]
    kind: str
    what: str
    names: tuple[str, ...]
    fix: str
    by_size: bool = False
    is_all: bool = False

    def __str__(self) -> str:
        cause = "with the finite population (fpc) of the survey design" if self.by_size else "with the survey design"
        return f"{cause} of the codebook, 'postrand estimate' refuses {self.what} {few(self.names)}: {self.fix}"


def refused_of(plan: Plan) -> tuple[Refused, ...]:
    """Return what is refused of the release of a plan; nothing where its codebook records no survey design."""
    split = () if plan.split is None else plan.split.variables
    return tuple(refused(plan.codebook.survey, split, plan.perturbed))


def refused(survey: SurveyDesign | None, split: Sequence[str], perturbed: Sequence[str]) -> Iterator[Refused]:
    """Yield what is refused with a survey design, with these variables in a split and these perturbed, split or not.

    >>> from postrand.codebook.survey_design import SurveyDesign
    >>> [str(one).partition(": ")[0] for one in refused(SurveyDesign(psu="village"), ["sex"], ["sex"])]
    ["with the survey design of the codebook, 'postrand estimate' refuses totals of and by sex"]
    """
    if survey is None:
        return
    others = tuple(name for name in perturbed if name not in split)
    if split and survey.fpc is not None:
        what = "tables, means, totals, ratios, quantiles, tests and regressions with"
        yield Refused(("tables", "means", "models"), "", what, tuple(split), NOT_DIVIDED, by_size=True, is_all=True)
    elif split:
        yield Refused(("means",), "totals", "totals of and by", tuple(split), NO_TOTAL)
    if others and survey.fpc is not None:
        yield Refused(("means",), "quantiles", "quantiles of and by", others, NOT_DIVIDED, by_size=True)
        what = "linear and Poisson regressions whose response is"
        yield Refused(("models",), "linear and Poisson regressions", what, others, NOT_DIVIDED, by_size=True)
