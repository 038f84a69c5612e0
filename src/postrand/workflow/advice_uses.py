"""Whether a plan's release answers the kinds of questions that analysts will ask: means, totals, models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from postrand.codebook import Codebook
from postrand.codebook.coding import category_numbers
from postrand.codebook.variable import Variable
from postrand.estimate.nominal import is_coded, names_only
from postrand.estimate.regression_terms import answered
from postrand.mechanism.split import Split
from postrand.plan import Plan
from postrand.support.column_wordings import NUMBERED_BANDS, OF_BANDS
from postrand.support.showing import few
from postrand.workflow.advice_refusals import RELEASED
from postrand.workflow.design_refusals import refused_of
from postrand.workflow.plan_settings import shown_together

_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_OF = {
    **dict.fromkeys(("totals", "quantiles"), " of and by perturbed variables"),
    "linear and Poisson regressions": " of perturbed variables",
}
"""Of what a kind of question is refused: without it, a kind reads as refused for all variables."""
_INSTEAD = "give {} categories by a recode to perturb it, or release it as it is"


class Verdict(NamedTuple):
    """Hold what is asked, whether the plan's release answers it, and of what or why not."""

    what: str
    is_met: bool
    why: str
    names: tuple[str, ...] = ()  # of the variables for which it does not, where it does for others
    on: str = ""  # on which records it does, where not on all

    def __str__(self) -> str:
        said = f"met{self.on}" if self.is_met else f"NOT met{' for ' * bool(self.names)}{', '.join(self.names)}"
        return f"{self.title}: {said} ({self.why})"

    @property
    def title(self) -> str:
        """What is asked; where it is refused for perturbed variables only, also of which."""
        return self.what if self.is_met else self.what + _OF.get(self.what, "")


def verdicts(plan: Plan, uses: Sequence[str], split: Split | None = None, records: int = 0) -> Iterator[Verdict]:
    """Yield whether the release of a plan answers each kind of question that is asked; of tables, what it refuses.

    ``split`` is the one that was designed, of so many ``records``: of models it is said how many records show them.
    """
    moved = tuple(name for one in plan.numerical for name in one.variables)
    gone = refused_of(plan)
    for use, judged in (("tables", None), ("means", _means), ("models", _models)):
        if use not in uses:
            continue
        own = [one for one in gone if use in one.uses]
        if judged is not None and not any(one.is_all for one in own):
            found = judged(plan, moved)
            whole = found.is_met and use == "means" and not any(one.kind == "totals" for one in own)
            found = found._replace(on=_on(split, records)) if use == "models" else found
            yield found._replace(what="means and totals") if whole else found
        yield from (Verdict(use if one.is_all else one.kind, False, str(one)) for one in own)


def _on(split: Split | None, records: int) -> str:
    """Return on which records models are estimated: of a split, on those that show all variables of the model."""
    if split is None:
        return ""
    two = "" if len(split.variables) < 2 else f": with two perturbed ones, by {shown_together(split, 2, records)[0]}"
    return f" on the records that show all variables of the model{two}"


def _means(plan: Plan, moved: Sequence[str]) -> Verdict:
    asked = [v for v in plan.codebook.with_role(*RELEASED) if not is_coded(plan.codebook, v.name)]
    with_means = [v.name for v in asked if _has_numbers(v) and v.name not in moved]
    if moved:
        why = f"means by group and weighted means of {', '.join(moved)} are refused: the values move"
        return Verdict("means", False, f"{why}; {_INSTEAD.format('the variable')}")
    if not with_means:
        return Verdict("means", False, f"no variable that is released has numbers; give one {NUMBERED_BANDS}")
    made = {recode.variable for recode in plan.codebook.recodes if recode.kind.categories()}
    coarse = [name for name in with_means if name in made]
    apart = f"; {OF_BANDS.format(names=few(coarse), what='a mean')}" if coarse else ""
    why = f"of {few(with_means)}{apart}; no number is moved or averaged"
    later = "How precise means by perturbed variables are is not known before the release"
    return Verdict("means", True, f"{why}. {later}")


def _models(plan: Plan, moved: Sequence[str]) -> Verdict:
    """Return which variables can be the response of which family, and those that cannot be that of their numbers."""
    families: dict[str, list[str]] = {"linear and Poisson": [], "logistic": [], "multinomial": []}
    for variable in plan.codebook.with_role(*RELEASED):
        if variable.name in moved:
            continue
        for family in _families(variable, plan.codebook):
            families[family].append(variable.name)
    can = [f"{family} ones of {few(names)}" for family, names in families.items() if names]
    why = [f"no regression can have {few(moved)}, whose values move: {_INSTEAD.format('it')}"] if moved else []
    shown = ["of perturbed variables a formula can have those that one record shows"] * (plan.split is not None)
    precise = (
        "whether one can be fitted, and how precise it is, is not known before the release: rare outcomes need more"
    )
    return Verdict("models", not moved, "; ".join([*why, *can, *shown, precise]), tuple(moved))


def _families(variable: Variable, book: Codebook) -> list[str]:
    """Return which regressions can have a variable as their response; none can have texts and dates."""
    of_numbers = ["linear and Poisson"]
    if not variable.is_categorical:
        return of_numbers if variable.type.startswith(_NUMBERS) else []
    numbers = category_numbers(variable)
    measures = bool(numbers) and not (names_only(variable) or is_coded(book, variable.name))
    if answered(variable).sum() == 2:  # of two bands an amount, but 0 and 1 are yes and no
        return ["logistic", *of_numbers * (measures and variable.type != "bool" and not {*numbers} <= {0.0, 1.0})]
    return of_numbers if measures else ["multinomial"]


def _has_numbers(variable: Variable) -> bool:
    """Return whether means of a variable make sense: it has numbers, or categories that are and are no codes."""
    if variable.is_categorical:
        return not variable.labels and variable.type != "bool" and bool(category_numbers(variable))
    return variable.type.startswith(_NUMBERS)
