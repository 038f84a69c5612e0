"""What advice is about: which variables are perturbed, which numbers move in rank, and what is not released."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import linked as grouped
from postrand.engines import LocalEngine
from postrand.engines.wants import Count
from postrand.errors import DataError, PostrandError, SpecificationError, UsageError, raise_all, sentence
from postrand.formats import Source
from postrand.plan.fitting import survey_problems
from postrand.plan.infer import is_nested
from postrand.plan.numbering import is_number_of
from postrand.report.table_worth import LEAST_RECORDS, TOO_FEW
from postrand.risk.data import numeric, read_columns
from postrand.risk.findings import share_text
from postrand.risk.reveals import PairReveal
from postrand.risk.sample import Sampled, sampled
from postrand.risk.singled import MAX_ALONE
from postrand.risk.size_told import is_told, told_by_sizes
from postrand.risk.weights import stands_for as by_weights
from postrand.support.showing import few
from postrand.workflow.advice_candidates import Names, Subject
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_refusals import RELEASED, require_known, require_perturbable, require_tables
from postrand.workflow.comparison_risk import AS_IS
from postrand.workflow.draft_decisions import size_lines
from postrand.workflow.linked import Proposed
from postrand.workflow.linked import proposed as proposed_links

_NUMBERS = ("int", "uint", "float", "double", "halffloat")
_LEAST_WEIGHT = 0.05  # of the mean: a table of two variables that do not depend on each other still counts


def subject_of(
    source: Source, book: Codebook, needs: Needs, named: Collection[str] | None = None
) -> tuple[Subject, list[str]]:
    """Return what is to be protected, and sentences on what follows from the file and the attacker.

    ``named`` are the variables whose role somebody chose; None: all. A function of what is perturbed is not released
    unless its role was chosen, and variables that are one fact get one block (:mod:`postrand.workflow.linked`).

    A column that stays as it is and singles out more than 1% of the records moves in rank if it has numbers; otherwise
    it is not released. Against ``anyone`` nothing moves in rank, because no ε covers it. The columns of the codebook's
    survey design stay as they are: without one of them a release has no design, and estimates no right intervals.

    Raises
    ------
    UsageError
        If nothing can be perturbed, or a precision is asked for a table that no plan can have.
    DataError
        If nothing can be perturbed because the file has fewer than ``LEAST_RECORDS`` records.
    SpecificationError
        If the codebook's survey design names a column that is perturbed or dropped.
    """
    roles = RELEASED if needs.attacker == "anyone" else ("key",)
    # A key or a sensitive variable is not released as it is because it is of the design: such a plan is refused.
    design = () if book.survey is None else [n for n in book.survey.columns if book[n].role in ("other", "weight")]
    require_perturbable(book, needs)
    asked_for = [v for v in book.with_role(*RELEASED) if v.role in roles or v.name in needs.perturb_also]
    perturbed = tuple(v.name for v in asked_for if v.is_categorical and v.size > 1 and v.name not in design)
    raise_all(SpecificationError, survey_problems(book, perturbed))
    require_known(book, needs)
    if not perturbed:
        raise _nothing(source, [v.name for v in book.with_role(*roles)])
    clear = [v for v in book.with_role(*RELEASED) if v.name not in perturbed]
    plain = [v.name for v in book.with_role(*RELEASED) if not is_nested(source.schema.field(v.name).type)]
    house = next((v.name for v in book.with_role("household")), None)
    asked = dict.fromkeys([*plain, *(v.name for v in clear), *filter(None, [house])])
    sample = sampled(source, list(asked), [v.name for v in clear], house)
    known = _known_by_size(sample, book, perturbed)
    clear += [book[one.perturbed] for one in known]
    told = {one.perturbed for one in known}
    perturbed = tuple(name for name in perturbed if name not in told)
    linked = _linked(sample, [book[name] for name in plain], perturbed, named, needs)
    derived = {draft["name"] for draft in linked.drafts if draft["role"] == "drop"}.difference(design)
    perturbed = tuple(name for name in perturbed if name not in derived)
    clear = [v for v in clear if v.name not in derived]
    alone = {v.name: sample.share_alone(v.name) for v in clear}
    singling = [v for v in clear if alone[v.name] > MAX_ALONE and v.name not in design]
    recoded = {one.variable for one in book.recodes}  # its ranks would be those of the recoded values
    movable = [v.name for v in singling if _is_number(v) and needs.attacker != "anyone"]
    moved = tuple(name for name in movable if name not in recoded)
    gone = [v.name for v in singling if v.name not in moved]
    notes = [
        f"{name} is not released: {'recoded so' if name in recoded else 'as it is'}, it singles out "
        f"{share_text(alone[name])} of the records"
        + ("; to release it, choose wider bands or a coarser rounding" * (name in movable))
        for name in gone
    ]
    notes += size_lines(known)
    if keys := [name for name in gone if book[name].role == "key"]:
        notes.append(
            f"no figure of risk has {few(keys)}, although named as a key: “{AS_IS}” means with the other keys, and who "
            "knows more finds more there. To release such a key, put it into bands or groups: [[recodes]] in the "
            "codebook, which 'postrand init' proposes"
        )
    notes += [f"linked: {text}" for text in linked.sentences]
    gone += sorted(derived)
    kept = [v.name for v in clear if v.name not in (*moved, *gone, *design, *told)]
    if design:
        made = " or recoded" * any(one.variable in design for one in book.recodes)
        notes.append(
            f"the survey design of the codebook stays: {few(design)}, released as in the file{made}, unperturbed"
        )
    if kept and needs.attacker == "anyone":
        notes.append(f"{', '.join(kept)}: released as they are, so that no claim covers them; drop them, or band them")
    variables = tuple(dataclasses.replace(v, role="drop") if v.name in gone else v for v in book.variables)
    book = dataclasses.replace(book, variables=variables)
    require_tables(book, needs)
    weights = _associations(source, book, perturbed) if needs.look else {}
    joint = _not_ruled(book, [names for names in linked.joint if {*names} <= {*perturbed}])
    return Subject(book, perturbed, moved, source.num_rows, needs, associations=weights, joint=joint), notes


def _known_by_size(sample: Sampled, book: Codebook, perturbed: Names) -> list[PairReveal]:
    """Return what sizes of households tell, which to perturb would not hide; none where nothing else is perturbed."""
    coded = [v.name for v in book.variables if v.is_categorical]
    told = [one for one in told_by_sizes(sample, coded, perturbed) if is_told(one)]
    return told if len(told) < len(perturbed) else []


def stands_for(source: Source, weight: str) -> str:
    """Return :func:`postrand.risk.weights.stands_for` of a column, or why it cannot be used."""
    try:
        values = numeric(read_columns(source, [weight], [weight])[weight], weight)
    except PostrandError as error:
        return f"the weight {weight} cannot be used: {error}"
    return by_weights(values, weight)


def _nothing(source: Source, named: Sequence[str]) -> PostrandError:
    """Return why nothing can be perturbed: too few records to vary, keys that do not vary, or no keys."""
    if named and sum(batch.num_rows for batch in source.batches()) < LEAST_RECORDS:
        return DataError(sentence(TOO_FEW, fix="give a larger file"))
    if named:
        what = f"nothing can be perturbed: {few(named)} {'has' if len(named) == 1 else 'have'} no two categories"
        fix = "name keys that vary, or put numbers into bands with [[recodes]] in the codebook"
        return UsageError(sentence(what, fix=fix))
    fix = "name the keys, what others can know of a person: --keys age,sex,region"
    return UsageError(sentence("no categorical variable is to be perturbed", fix=fix))


def _linked(
    sample: Sampled, variables: Sequence[Variable], perturbed: Names, named: Collection[str] | None, needs: Needs
) -> Proposed:
    """Return what is proposed for variables that follow from others; a table that is asked for keeps its variables."""
    drafts = [
        {"name": v.name, "role": v.role, "categories": v.categories, "missing": v.missing, "notes": []}
        for v in variables
    ]
    asked = {name for wanted in needs.tables for name in wanted.table}
    chosen = {v.name for v in variables} if named is None else {*named, *asked, *needs.perturb_also}
    return proposed_links(sample, drafts, perturbed, chosen, ())


def _not_ruled(book: Codebook, joint: Sequence[Names]) -> tuple[Names, ...]:
    """Return the groups that rules of the codebook do not link already: those are public, and one block anyway."""
    ruled = grouped(book.rules)
    return tuple(names for names in joint if not any({*names} <= {*group} for group in ruled))


def _is_number(variable: Variable) -> bool:
    """Return whether the values are quantities, which can move in rank: numbers of households cannot."""
    if is_number_of(variable.name, label=variable.label):
        return False
    return not variable.is_categorical and variable.type.startswith(_NUMBERS)


def _associations(source: Source, book: Codebook, names: Names) -> dict[Names, float]:
    """Return the weight of each table of two variables: its mutual information in the file, over the mean of all."""
    wants = {pair: Count(pair) for pair in itertools.combinations(names, 2)}
    if not wants:
        return {}
    found = LocalEngine().count_all(source, book, list(wants.values()))
    bits = {pair: _information(found[want].dense()) for pair, want in wants.items()}
    mean = sum(bits.values()) / len(bits)
    return {pair: max(one / mean, _LEAST_WEIGHT) if mean > 0 else 1.0 for pair, one in bits.items()}


def _information(counts: NDArray[np.int64]) -> float:
    """Return the mutual information of a table of two variables, in nats.

    >>> round(_information(np.array([[5, 0], [0, 5]])), 6), _information(np.array([[2, 2], [3, 3]]))
    (0.693147, 0.0)
    """
    p = counts / max(counts.sum(), 1)
    independent = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    held = p > 0
    return max(0.0, math.fsum((p[held] * np.log(p[held] / independent[held])).tolist()))
