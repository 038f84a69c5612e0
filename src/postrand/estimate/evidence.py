"""What a release says of the true records, for the joint model: released codes, their laws, unperturbed columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.coding import encode
from postrand.codebook.rules import codes_of
from postrand.data import frames
from postrand.data.described import released_table
from postrand.errors import DataError, EstimationError, PostrandError, SpecificationError, sentence
from postrand.estimate import evidence_clear
from postrand.estimate.evidence_clear import MISSING, Clear
from postrand.estimate.evidence_records import Builder, Codes
from postrand.estimate.evidence_variables import TAKEN_FOR_TRUE, Kind, Modelled, ModelVariable
from postrand.mechanism import Mechanism
from postrand.mixture import Evidence

_INSTEAD = (
    "use the estimators with units that hold whole households ('postrand estimate --psu'), or complete a file with one "
    "record for each unit: docs/households.md, 'Completed files of households'"
)
_NUMBERS = {
    "household": "the model does not know which records belong together",
    "record_key": "it numbers the records",
}


def evidence_of(frame: Any, mechanism: Mechanism) -> tuple[Evidence, Modelled]:
    """Return what released records say of the true ones, and what the variables of the model are.

    ``frame`` is a pandas, polars or pyarrow table with the released columns: all that the mechanism perturbs or reads,
    and any unperturbed ones. ``P(released | true)`` of a record is the product of its laws: one for each block, and
    that of the subset it shows; which subset it shows was drawn without looking, and says nothing.

    Raises
    ------
    DataError
        If a column is missing, a value is not in the codebook, a record shows what no law releases or contradicts
        a rule, there are fewer than two records, or every value of a variable is blank.
    EstimationError
        If a variable was released by laws that tell nothing of it; or if records of one household or person share
        draws: the law of a record is then not that of the file.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> sex, pay = Variable("sex", role="key", categories=("F", "M")), Variable("pay", role="other", type="int64")
    >>> mechanism = Mechanism({"sex": randomised_response(2, 1.0)}, Codebook((sex, pay)))
    >>> told, modelled = evidence_of(pa.table({"sex": ["F", "M"], "pay": [5, 7]}), mechanism)
    >>> told.sizes, told.exact.tolist(), told.released.tolist(), modelled["pay"].labels
    ((2, 2), [[-1, 0], [-1, 1]], [0, 1], ('5', '7'))
    """
    try:
        mechanism.require_own_draws("a joint model", _INSTEAD)
        mechanism.require_all_members("a joint model")
    except SpecificationError as error:  # the mechanism is well formed: the model is what cannot be had
        raise EstimationError(error.problems) from None
    needed = list(dict.fromkeys([*mechanism.variables, *mechanism.given]))
    table = released_table(frame, needed, mechanism)
    if table.num_rows < 2:
        raise DataError(sentence("a model needs at least two records", got=table.num_rows, fix="release more records"))
    book = mechanism.require_codebook() if mechanism.partly else frames.bind(table, mechanism).require_codebook()
    codes = _codes(table, mechanism, book)
    described, clear, left_out = _variables(frame, codes, mechanism, book)
    builder = Builder(described, clear, codes, book, table.num_rows)
    builder.blocks(mechanism)
    builder.split(mechanism)
    evidence = builder.evidence(_rules(book, described, clear))
    _require_possible(evidence)
    _require_learnable(described, builder.told)
    return evidence, Modelled(tuple(described), tuple(left_out), book)


def _codes(table: pa.Table, mechanism: Mechanism, book: Codebook) -> Codes:
    """Return the released codes of the variables that blocks perturb or read: S where a record does not show one."""
    return {
        name: (not_released.encode if name in mechanism.partly else encode)(table.column(name), book[name])
        for name in table.column_names
    }


def _variables(
    frame: Any, codes: Codes, mechanism: Mechanism, book: Codebook
) -> tuple[list[ModelVariable], dict[str, Clear], list[tuple[str, str]]]:
    """Return the variables of the model in the frame's order, the codes of those unperturbed, and what is left out.

    A column with one value has nothing to say, but to rules.
    """
    perturbed, ruled = set(mechanism.variables), {name for rule in book.rules for name in rule.variables}
    described: list[ModelVariable] = []
    clear: dict[str, Clear] = {}
    left_out: list[tuple[str, str]] = []
    for name in frames.names_of(frame):
        if name in perturbed:
            described.append(_perturbed(book[name]))
            continue
        found = _clear(frame, name, codes, mechanism, book)
        if isinstance(found, str):
            is_house = name in book and book[name].role == "household"
            left_out.append((name, f"{found}; {HOUSEHOLD}" if is_house else found))
        elif len(found.labels) > 1 or name in ruled:
            clear[name] = found
            kind, note = _kind(name, found, mechanism, book), _note(name, found, mechanism)
            described.append(ModelVariable(name, kind, found.labels, note, found.distinct))
    return described, clear, left_out


def _perturbed(variable: Variable) -> ModelVariable:
    kept = (MISSING,) if variable.missing == "keep" else ()
    return ModelVariable(variable.name, "perturbed", (*variable.code_labels, *kept))


def _clear(frame: Any, name: str, codes: Codes, mechanism: Mechanism, book: Codebook) -> Clear | str:
    """Return an unperturbed column as codes, or why it is left out."""
    known = next((variable for variable in book.variables if variable.name == name), None)
    if known is not None and known.role in _NUMBERS:
        return _NUMBERS[known.role]
    if known is not None and known.is_categorical:
        held = codes[name] if name in codes else encode(released_table(frame, [name], mechanism).column(name), known)
        return evidence_clear.of_categories(held, known, [rule for rule in book.rules if name in rule.variables])
    try:
        return evidence_clear.of_column(frames.to_arrow(frame, [name]).column(name))
    except PostrandError:
        return "its values are of several types"


HOUSEHOLD = (
    "members of one household are drawn apart, so that what all of them share can differ: do not use copies for "
    "figures of whole households"
)
"""What a model of records leaves out of households."""


def _kind(name: str, found: Clear, mechanism: Mechanism, book: Codebook) -> Kind:
    if name in {column.variable for column in mechanism.numerical}:
        return "ranked"
    if any(variable.name == name for variable in book.with_role("weight")):
        return "weight"
    return "bins" if found.ordered else "categories"


def _note(name: str, found: Clear, mechanism: Mechanism) -> str:
    ranked = name in {column.variable for column in mechanism.numerical}
    return TAKEN_FOR_TRUE if ranked else found.note


def _rules(book: Codebook, described: Sequence[ModelVariable], clear: Mapping[str, Clear]) -> NDArray[np.bool_]:
    """Return the rules of the codebook that a true record can still break, (F, J, most codes): what each marks."""
    places = {variable.name: place for place, variable in enumerate(described)}
    open_ = [
        rule for rule in book.rules if not clear.keys() >= set(rule.variables) and places.keys() >= set(rule.variables)
    ]
    marked = np.ones((len(open_), len(described), max(variable.size for variable in described)), dtype=bool)
    for row, rule in zip(marked, open_, strict=True):
        for name, values in rule.parts:
            listed = {*codes_of(book[name], values)}
            members = (
                clear[name].members if name in clear else [(code,) for code in range(described[places[name]].size)]
            )
            row[places[name]] = False
            row[places[name], : len(members)] = [listed.issuperset(held) for held in members]
    return marked


def _require_possible(evidence: Evidence) -> None:
    """Refuse records that contradict a rule by values that are known exactly."""
    for rule in evidence.rules:
        about = np.flatnonzero(~rule.all(axis=1))
        known = evidence.exact[:, about]
        if ((known >= 0) & rule[about, known]).all(axis=1).any():
            what = "a record contradicts a rule of the codebook by values that nothing changed"
            where, fix = ", ".join(evidence.names[place] for place in about), "correct the records, or remove the rule"
            raise DataError(sentence(what, where=where, fix=fix))


def _require_learnable(described: Sequence[ModelVariable], told: Collection[int]) -> None:
    """Refuse a variable of which no law tells anything: its completed values would be the model's alone."""
    blind = [v.name for place, v in enumerate(described) if v.kind == "perturbed" and place not in told]
    if blind:
        what = "what was released of a variable does not depend on its true value, so nothing can be learned of it"
        fix = "release it with a larger ε"
        raise EstimationError(sentence(what, where=", ".join(blind), fix=fix))
