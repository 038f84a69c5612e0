"""What is asked and cannot be answered: limits that need what the file does not have, and tables of other variables."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers
from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.estimate.nominal import names_only
from postrand.plan.analyses import Model, unknown
from postrand.recoding.bands import Bands
from postrand.support.column_wordings import NUMBERED_BANDS
from postrand.workflow import asked_units
from postrand.workflow.advice_needs import Limit, Needs, Precision
from postrand.workflow.model_families import NUMBERS, families_of, family_of

RELEASED = ("key", "sensitive", "other")
Z95 = 1.959964
_WEIGHT = "name the weight with --weight, or state the share of the population in the file: --sampling-fraction 0.01"


def require_measures(book: Codebook, needs: Needs, fraction: float | None) -> None:
    """Raise UsageError with every limit whose measure this file cannot have, before a record is read."""
    raise_all(UsageError, [problem for one in needs.asked for problem in _unanswered(one, book, needs, fraction)])


def answerable(book: Codebook, needs: Needs, fraction: float | None) -> Needs:
    """Return the needs without limits of the policy that this file, or these needs, cannot have.

    Such a rule is checked like those that no limit can say: the policy tells what it means for the file.
    """
    gone = [one for one in needs.limits if one.is_rule and any(_unanswered(one, book, needs, fraction))]
    held = tuple(one for one in needs.limits if one not in gone)
    if any(not one.reads_file for one in gone) and all(one.reads_file for one in held):
        held = (*Needs().limits, *held)
    return dataclasses.replace(needs, limits=held)


def require_bounded(needs: Needs) -> None:
    """Raise UsageError with every limit on the ε of a household or person whose records have no bound."""
    raise_all(UsageError, [problem for one in needs.asked for problem in _not_bounded(one, needs)])


def require_known(book: Codebook, needs: Needs) -> None:
    """Raise UsageError if a table or model names a variable that the codebook does not have, or one of them twice."""
    asked = {name: _asked(one)[0] for one in reversed(needs.tables) for name in reversed(one.table)}
    problems = list(unknown(book, dict(reversed(asked.items()))))
    for wanted in needs.precisions:
        if twice := [name for name, times in Counter(wanted.table).items() if times > 1]:
            what = f"a precision names {', '.join(twice)} twice"
            problems.append(sentence(what, where=f"the precision '{wanted}'", fix="name each variable of a table once"))
    raise_all(UsageError, problems)


def require_tables(book: Codebook, needs: Needs) -> None:
    """Raise UsageError with every table or model that no plan releases, and every table that has no cells."""
    problems = [
        sentence(f"not answered: {what}", where=f"the {_asked(wanted)[1]} '{wanted}'", fix=fix)
        for wanted in needs.tables
        for what, fix in unanswerable(book, wanted)
    ]
    raise_all(UsageError, problems)


def unanswerable(book: Codebook, wanted: Precision | Model) -> Iterator[tuple[str, str]]:
    """Yield why no release of this codebook answers a table or model, each reason with what to do."""
    for name in wanted.table:
        if book[name].role not in RELEASED:
            fix = "name it in --keys if others can know it, in --perturb-also if it is confidential, else in "
            yield f"{name} is not released", f"{fix}--other; or ask for one without {name}"
        elif _needs_numbers(wanted, name) and not has_numbers(book[name]):
            fix = f"ask for a table of it: --use 'table {' x '.join(wanted.table)}'"
            in_bands = any(one.variable == name and isinstance(one.kind, Bands) for one in book.recodes)
            yield f"{name} has no numbers", fix + f"; or give it {NUMBERED_BANDS}" * in_bands
        elif _needs_categories(wanted, name) and not book[name].is_categorical:
            fix = "put it into bands with [[recodes]] in the codebook, or ask for a table without it"
            yield f"{name} has no categories", fix
    yield from _without_family(book, wanted)


def _without_family(book: Codebook, wanted: Precision | Model) -> Iterator[tuple[str, str]]:
    """Yield that the response of a regression cannot be that of the family that is named."""
    if isinstance(wanted, Model) and wanted.family and family_of(book, wanted) is None:
        able = " or ".join(families_of(book[wanted.table[0]], book))
        fix = f"name a {able} one, or leave the family out" if able else "ask for a table of it, or put it into bands"
        yield f"{wanted.table[0]} cannot be the response of a {wanted.family} regression", fix


def _needs_numbers(wanted: Precision | Model, name: str) -> bool:
    return isinstance(wanted, Model) and wanted.kind == "mean" and name == wanted.table[0]


def _needs_categories(wanted: Precision | Model, name: str) -> bool:
    if not isinstance(wanted, Model):
        return True
    return wanted.kind == "share" or (wanted.kind != "model" and name in wanted.groups)


def has_numbers(variable: Variable) -> bool:
    """Return whether means of a variable can be asked: it has numbers, or categories that are numbers and no codes.

    Labels that repeat the number, such as those of a limit, name nothing.

    >>> has_numbers(Variable("rooms", "key", (1, 2, 3), ("1", "2", "3 and more"), type="int64"))
    True
    """
    if variable.is_categorical:
        return not names_only(variable) and variable.type != "bool" and bool(category_numbers(variable))
    return variable.type.startswith(NUMBERS)


def _asked(one: Precision | Model) -> tuple[str, str]:
    """Return how a sentence on a variable of what is asked begins, and what it is."""
    return (
        (f"a {one.kind} has", "use") if isinstance(one, Model) else ("a precision is asked for a table of", "precision")
    )


def require_perturbable(book: Codebook, needs: Needs) -> None:
    """Raise UsageError with every column to perturb besides the keys that is not released, or cannot be perturbed."""
    held = {v.name: (v.role, v.is_categorical and v.size > 1) for v in book.variables}
    raise_all(UsageError, unperturbable(needs.perturb_also, held, () if book.survey is None else book.survey.columns))


def unperturbable(
    names: Collection[str], held: Mapping[str, tuple[str, bool]], design: Collection[str] = ()
) -> Iterator[str]:
    """Yield a sentence on every column of ``names`` that cannot be perturbed besides the keys.

    ``held``: the role of each column, and whether it has two categories; ``design``: columns that stay as they are.
    """
    where = "--perturb-also"
    for name in names:
        if name not in held:
            yield sentence(f"no column {name!r}{nearest(name, held)}", where=where, wanted=", ".join(held))
        elif held[name][0] not in RELEASED:
            wanted, fix = ", ".join(RELEASED), "give it the role 'sensitive', or leave it out"
            what = f"{name!r} has a role whose columns are not perturbed"
            yield sentence(what, where=where, got=held[name][0], wanted=wanted, fix=fix)
        elif name in design:
            what = f"{name!r} is of the survey design, which is released as in the file"
            yield sentence(what, where=where, fix="leave it out, or take it out of [survey] in the codebook")
        elif not held[name][1]:
            fix = "put a number into bands ('postrand init --recode', or [[recodes]] in the codebook), or leave it out"
            yield sentence(f"{name!r} has no two categories to exchange", where=where, fix=fix)


def not_drawn(perturbed: Collection[str], needs: Needs) -> list[str]:
    """Return a sentence on every variable that is to be drawn once for a household, and that no plan perturbs."""
    absent = [name for name in needs.household_variables if name not in perturbed]
    what = "is not perturbed, so that no draw of it is the household's"
    fix = "name it in --keys or --perturb-also, or leave it out"
    return [sentence(f"{name!r} {what}", where="--household-variables", fix=fix) for name in absent]


def require_possible(needs: Needs, records: int) -> None:
    """Raise UsageError with every limit and precision that no release of so many records can keep.

    An attacker can guess among all records, so a link is right with a probability of at least one over their number.
    Half of the records in a cell have a 95% interval of ``z/(2 √n)`` to either side without any perturbation.
    """
    problems = []
    for limit in needs.asked:
        if limit.is_probability and not limit.measure.startswith("register") and limit.bound * records < 1 - 1e-9:
            problems.append(_impossible(f"the limit '{limit}'", f"above one over the number of records, {records:,}"))
    least = 100 * Z95 * math.sqrt(0.25 / records)
    for wanted in needs.precisions:
        if wanted.points < least:
            what = "no plan is certain to keep this: in a cell with half of the "
            what += f"{records:,} records the draw of the sample alone makes the interval wider"
            least_points = f"more than {_up(least)} points, and more still with perturbation"
            problems.append(sentence(what, where=f"the precision '{wanted}'", wanted=least_points))
    raise_all(UsageError, problems)


def _impossible(where: str, wanted: str) -> str:
    what = "no plan can keep this: an attacker can always guess among all records of the file"
    return sentence(what, where=where, wanted=wanted)


def _up(number: float) -> str:
    """Return a number with two digits, never a smaller one.

    >>> _up(1.4481), _up(0.0981), _up(12.3)
    ('1.5', '0.099', '13')
    """
    digits = 1 - math.floor(math.log10(number))
    return f"{math.ceil(number * 10**digits) / 10**digits:.{max(digits, 0)}f}"


def _unanswered(limit: Limit, book: Codebook, needs: Needs, fraction: float | None) -> Iterator[str]:
    yield from _not_bounded(limit, needs)
    yield from _not_measured(limit, book, fraction)


def _not_bounded(limit: Limit, needs: Needs) -> Iterator[str]:
    where = f"the limit '{limit}'"
    if limit.measure == "household_epsilon" and not needs.largest_household:
        yield sentence("how large a household can be is not said", where=where, fix=f"add {asked_units.BOUND}")
    if limit.measure == "person_epsilon" and not needs.most_records:
        yield sentence("how many records a person can have is not said", where=where, fix=f"add {asked_units.RECORDS}")


def _not_measured(limit: Limit, book: Codebook, fraction: float | None) -> Iterator[str]:
    where = f"the limit '{limit}'"
    needs_share = limit.measure in ("tau1", "tau2") or limit.measure.startswith("register")
    if needs_share and fraction is None and not book.with_role("weight"):
        what = f"{limit.measure} cannot be computed: it needs a sampling weight or a sampling fraction"
        yield sentence(what, where=where, fix=_WEIGHT)
    if "household" in limit.measure and not book.with_role("household"):
        what = "the risk of households cannot be computed: no variable has household numbers"
        yield sentence(what, where=where, fix="name the column of household numbers: --household")
