"""What a release says of the true records, for the joint model: released codes, laws, and clear columns as codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.coding import encode
from postrand.data import frames
from postrand.errors import DataError, EstimationError, PostrandError, raise_all, sentence
from postrand.estimate import evidence_clear
from postrand.estimate.evidence_clear import MISSING, Clear
from postrand.estimate.evidence_laws import BlockLaws
from postrand.mechanism import Mechanism
from postrand.mechanism.split_shown import subsets_shown
from postrand.mixture import Evidence, Law
from postrand.mixture.evidence import UNKNOWN

Kind = Literal["perturbed", "categories", "bins", "ranked", "weight"]
Codes = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ModelVariable:
    """Describe one variable of the model: the column ``name``, a text for each of its codes, and how it is there.

    ``kind``: ``perturbed`` (true values are drawn), ``categories`` and ``bins`` (clear columns, which copies show as
    they are), ``weight`` (a sampling weight in bins), ``ranked`` (a column released by ranks: copies show the released
    values, and the model takes them for true ones). ``note`` says what the model simplifies.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    note: str = ""

    @property
    def size(self) -> int:
        """The number of codes; a missing value that is kept is one of them, the last."""
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Modelled:
    """Describe what the model has of a file: its variables in order, and the columns that it leaves out with a reason.

    ``codebook`` describes the true values of the perturbed variables.
    """

    variables: tuple[ModelVariable, ...]
    left_out: tuple[tuple[str, str], ...]
    codebook: Codebook

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, as in :class:`postrand.mixture.Evidence`."""
        return tuple(variable.name for variable in self.variables)

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The variables whose true values are drawn."""
        return tuple(variable.name for variable in self.variables if variable.kind == "perturbed")

    def __getitem__(self, name: str) -> ModelVariable:
        return self.variables[self.names.index(name)]

    def __repr__(self) -> str:
        clear = len(self.variables) - len(self.perturbed)
        out = f"; left out: {', '.join(name for name, _ in self.left_out)}" if self.left_out else ""
        return f"Modelled({len(self.perturbed)} perturbed and {clear} clear variables{out})"


def evidence_of(frame: Any, mechanism: Mechanism) -> tuple[Evidence, Modelled]:
    """Return what released records say of the true ones, and what the variables of the model are.

    ``frame`` is a pandas, polars or pyarrow table with the released columns: all that the mechanism perturbs or reads,
    and any clear ones. ``P(released | true)`` of a record is the product of its laws: one for each block, and that of
    the subset it shows; which subset it shows was drawn without looking, and says nothing.

    Raises
    ------
    DataError
        If a column is missing, a value is not in the codebook, a record shows what no law releases or contradicts
        a rule, there are fewer than two records, or every value of a variable is blank.
    EstimationError
        If a variable was released by laws that tell nothing of it.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> sex, pay = Variable("sex", role="key", categories=("F", "M")), Variable("pay", role="other", type="int64")
    >>> mechanism = Mechanism({"sex": randomised_response(2, 1.0)}, Codebook((sex, pay)))
    >>> told, modelled = evidence_of(pa.table({"sex": ["F", "M"], "pay": [5, 7]}), mechanism)
    >>> told.sizes, told.exact.tolist(), told.released.tolist(), modelled["pay"].labels
    ((2, 2), [[-1, 0], [-1, 1]], [0, 1], ('5', '7'))
    """
    needed = list(dict.fromkeys([*mechanism.variables, *mechanism.given]))
    table = frames.to_arrow(frame, needed)
    if table.num_rows < 2:
        raise DataError(sentence("a model needs at least two records", got=table.num_rows, fix="release more records"))
    book = mechanism.require_codebook() if mechanism.partly else frames.bind(table, mechanism).require_codebook()
    codes = _codes(table, mechanism, book)
    described, clear, left_out = _variables(frame, codes, mechanism, book)
    builder = _Builder(described, clear, codes, book, table.num_rows)
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
    """Return the variables of the model in the frame's order, the codes of the clear ones, and what is left out."""
    perturbed = set(mechanism.variables)
    described: list[ModelVariable] = []
    clear: dict[str, Clear] = {}
    left_out: list[tuple[str, str]] = []
    for name in frames.names_of(frame):
        if name in perturbed:
            described.append(_perturbed(book[name]))
            continue
        found = _clear(frame, name, codes, mechanism, book)
        if (
            isinstance(found, Clear)
            and len(found.labels) < 2
            and not any(name in rule.variables for rule in book.rules)
        ):
            found = "all records have one value"
        if isinstance(found, str):
            left_out.append((name, found))
            continue
        clear[name] = found
        described.append(
            ModelVariable(name, _kind(name, found, mechanism, book), found.labels, _note(name, found, mechanism))
        )
    return described, clear, left_out


def _perturbed(variable: Variable) -> ModelVariable:
    kept = (MISSING,) if variable.missing == "keep" else ()
    return ModelVariable(variable.name, "perturbed", (*variable.code_labels, *kept))


def _clear(frame: Any, name: str, codes: Codes, mechanism: Mechanism, book: Codebook) -> Clear | str:
    """Return a clear column as codes, or why it is left out."""
    known = next((variable for variable in book.variables if variable.name == name), None)
    if known is not None and known.role in ("household", "record_key"):
        return "household numbers say which records belong together" if known.role == "household" else "a record's key"
    if known is not None and known.is_categorical:
        held = codes[name] if name in codes else encode(frames.to_arrow(frame, [name]).column(name), known)
        return evidence_clear.of_categories(held, known, [rule for rule in book.rules if name in rule.variables])
    try:
        return evidence_clear.of_column(frames.to_arrow(frame, [name]).column(name))
    except PostrandError:
        return "its values are of several types"


def _kind(name: str, found: Clear, mechanism: Mechanism, book: Codebook) -> Kind:
    if name in {column.variable for column in mechanism.numerical}:
        return "ranked"
    if any(variable.name == name for variable in book.with_role("weight")):
        return "weight"
    return "bins" if found.ordered else "categories"


def _note(name: str, found: Clear, mechanism: Mechanism) -> str:
    ranked = name in {column.variable for column in mechanism.numerical}
    return "released values are taken for true ones" if ranked else found.note


@dataclass(slots=True)
class _Builder:
    """Collects what each record says: exact codes, and for each block or the split one law and one released cell."""

    described: Sequence[ModelVariable]
    clear: dict[str, Clear]
    codes: Codes
    book: Codebook
    records: int
    laws: list[Law] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    seen: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = field(default_factory=list)
    exact: NDArray[np.int32] = field(init=False)
    places: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.exact = np.full((self.records, len(self.described)), UNKNOWN, dtype=np.int32)
        self.places = {variable.name: place for place, variable in enumerate(self.described)}
        for name, found in self.clear.items():
            self.exact[:, self.places[name]] = found.codes

    def blocks(self, mechanism: Mechanism) -> None:
        """Add what the blocks released."""
        for block in mechanism.blocks:
            laws = BlockLaws.of(block, self.book, self.places)
            law, released = np.full((2, self.records), -1, dtype=np.int32)
            self._add(laws, np.arange(self.records), law, released)
            self.seen.append((law, released))

    def split(self, mechanism: Mechanism) -> None:
        """Add what the subsets of the split released; each record shows one of them."""
        split = mechanism.split
        if split is None:
            return
        sizes = {name: self.book[name].size for name in split.variables}
        self._require_shown(split.variables, sizes)
        shown = subsets_shown(self.codes, split, sizes)
        law, released = np.full((2, self.records), -1, dtype=np.int32)
        for number, block in enumerate(split.blocks):
            rows = np.flatnonzero(shown == number)
            self._add(BlockLaws.of(block, self.book, self.places), rows, law, released)
        self.seen.append((law, released))

    def _add(
        self, found: BlockLaws, rows: NDArray[np.intp], law: NDArray[np.int32], released: NDArray[np.int32]
    ) -> None:
        """Write law and released cell of some records, and the codes of those that no law changed."""
        number = np.full(len(found.laws), -1, dtype=np.int32)
        for h, held in enumerate(found.laws):
            if held is not None:
                number[h] = len(self.laws)
                self.laws.append(held)
        at = [self.places[name] for name in found.block.perturbed]
        self.told.update(at[i] for i in range(len(at)) if at[i] not in found.blind())
        stratum, cell = found.seen(self.codes, self.book, rows)
        law[rows], released[rows] = np.where(stratum < 0, -1, number[stratum]), cell
        for h in np.flatnonzero(number < 0).tolist():
            same = stratum == h
            self.exact[np.ix_(rows[same], at)] = found.cells[h][cell[same]]
        for name, place in zip(found.block.perturbed, at, strict=True):
            # Only a variable alone in its block can keep missing values: they are known, and no law is about them.
            missing = rows[self.codes[name][rows] < 0]
            self.exact[missing, place] = self.described[place].size - 1

    def _require_shown(self, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        blank = [name for name in names if (self.codes[name] == sizes[name]).all()]
        fix = "complete a file with more records"
        raise_all(
            DataError, [sentence(f"no record shows {name!r}, so nothing is known of it", fix=fix) for name in blank]
        )

    def evidence(self, rules: NDArray[np.bool_]) -> Evidence:
        """Return all of it, the laws of each record one after the other."""
        law = np.stack([held for held, _ in self.seen], axis=1)
        released = np.stack([held for _, held in self.seen], axis=1)
        used = law >= 0
        start = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
        names, sizes = zip(*((variable.name, variable.size) for variable in self.described), strict=True)
        return Evidence(names, sizes, self.exact, start, law[used], released[used], tuple(self.laws), rules)


def _rules(book: Codebook, described: Sequence[ModelVariable], clear: Mapping[str, Clear]) -> NDArray[np.bool_]:
    """Return the rules of the codebook that a true record can still break, (F, J, most codes): what each marks."""
    places = {variable.name: place for place, variable in enumerate(described)}
    open_ = [
        rule for rule in book.rules if not clear.keys() >= set(rule.variables) and places.keys() >= set(rule.variables)
    ]
    marked = np.ones((len(open_), len(described), max(variable.size for variable in described)), dtype=bool)
    for row, rule in zip(marked, open_, strict=True):
        for name, values in rule.parts:
            listed = {book[name].categories.index(value) for value in values}
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
