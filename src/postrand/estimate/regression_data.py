"""From released records and a formula to the arrays of the EM problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import Codebook
from postrand.codebook.coding import encode, to_floats
from postrand.codebook.survey_design import SurveyDesign
from postrand.data.described import released_table
from postrand.errors import DataError, EstimationError, UsageError, nearest, sentence
from postrand.estimate import regression_terms as terms
from postrand.estimate.axes import Array, Axis, Mask, apply
from postrand.estimate.em import changes, check_untangled
from postrand.estimate.families import Family, Linear, Logistic, Multinomial, Poisson
from postrand.estimate.latent import Index, Problem
from postrand.estimate.regression_formula import variables_of
from postrand.estimate.survey_columns import refuse_identifiers, require_as_is, stratum_codes, weight_column
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_sample import Sample, read_sample
from postrand.estimate.survey_shared import within_units
from postrand.estimate.tally import Cells, cell_codes, codebook_of, layout_of, needed_columns, read_columns
from postrand.mechanism import Mechanism
from postrand.mechanism.units import warn_shared
from postrand.support.showing import few

FamilyName = Literal["linear", "logistic", "poisson", "multinomial"]
FAMILIES: tuple[str, ...] = get_args(FamilyName)
MAX_LATENT = 2000
MAX_OUTCOMES = 1000
LIGHTEST = 1e-100
MAX_DESIGN = 1 << 27
"""Rows of clear covariates times latent cells times coefficients: 1 GB in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Hold the complete released records of a formula: ``cells`` are the released cell on each latent axis.

    ``combination`` are the weights of the subsets of a split that records show, 1 without one: corrected equations
    need them beside the sampling ``weights``, and a likelihood does not. ``rows`` are the places of the records in the
    frame, and ``sample`` is its survey design, None without one; ``shared``: records of its units share draws, so the
    perturbation's part is not known. ``absent`` are the codes of covariates whose records are left out.
    """

    formula: str
    family: FamilyName
    table: pa.Table
    names: tuple[str, ...]
    response: str
    book: Codebook | None
    axes: tuple[Axis, ...]
    cells: tuple[Index, ...]
    weights: Array
    combination: Array
    weighted: bool
    groups: tuple[str, ...]
    strata: Index
    dropped: int
    rows: Index
    sample: Sample | None = None
    shared: bool = False
    absent: Mapping[str, Index] = field(default_factory=dict)

    @property
    def used(self) -> tuple[str, ...]:
        """The variables of the formula, and those of the blocks that perturb them: a record must miss none of them."""
        return tuple(dict.fromkeys((*self.names, *(name for axis in self.axes for name in axis.names))))

    @property
    def latent(self) -> frozenset[str]:
        """The variables of the perturbed blocks."""
        return frozenset(name for axis in self.axes for name in axis.names)

    def home(self, name: str) -> int:
        """Return the axis that shows a latent variable: the one that changes it, if one of several does."""
        held = [i for i, axis in enumerate(self.axes) if name in axis.names]
        return next((i for i in held if len(held) > 1 and changes(self.axes[i], name)), held[0])

    def released(self, name: str) -> Index:
        """Return the released codes of a latent variable, shape (n,)."""
        at = self.home(name)
        axis = self.axes[at]
        return np.asarray(axis.cells[axis.looks[self.cells[at]], axis.names.index(name)], dtype=np.intp)

    def known(self, name: str) -> Index:
        """Return the codes that a latent variable can have."""
        axis = self.axes[self.home(name)]
        return np.unique(axis.cells[:, axis.names.index(name)]).astype(np.intp)

    @property
    def answers(self) -> Mask:
        """Which codes of the response (S,) are answers, where others are left out; all of a multinomial one count."""
        if not self.is_categorical(self.response):
            return np.ones(0, dtype=bool)
        assert self.book is not None
        return terms.answers_of(self.book[self.response], self.family)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The labels of the categories of the response that mean no answer, where these are left out."""
        labels = self.book[self.response].code_labels if self.book is not None and self.answers.size else ()
        return tuple(text for text, is_one in zip(labels, self.answers, strict=True) if not is_one)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The response, where records are left out because it is a category that means no answer; else nothing."""
        return (self.response,) if self.left_out and self.response not in self.latent else ()

    def of_records(self, kept: Mask) -> Data:
        """Return the data of the records ``kept`` (n,); the others are counted as left out."""
        arrays = {name: getattr(self, name)[kept] for name in ("weights", "combination", "strata", "rows")}
        cells, left = tuple(codes[kept] for codes in self.cells), int((~kept).sum())
        table = self.table.filter(pa.array(kept))
        return replace(self, table=table, cells=cells, dropped=self.dropped + left, **arrays)

    def is_categorical(self, name: str) -> bool:
        """Whether the variable has categories in the codebook."""
        return self.book is not None and name in self.book


def read(
    formula: str,
    frame: Any,
    mechanism: Mechanism,
    family: str,
    weights: str | None,
    groups: Sequence[str] | None,
    strata: str | None = None,
    design: SurveyDesign | None = None,
) -> Data:
    """Select the columns that a formula needs and the records that miss none of them."""
    if (design := design_of(design, weights, strata)) is not None:
        weights = design.weights
    sample = None if design is None else read_sample(frame, mechanism, design)
    response, names = variables_of(formula)
    if family not in FAMILIES:
        raise UsageError(sentence(f"unknown family {family!r}{nearest(family, FAMILIES)}", wanted=", ".join(FAMILIES)))
    asked = list(dict.fromkeys([response, *names, *(groups or ())]))
    for column in mechanism.numerical:
        if column.variable in asked:
            what = f"variable {column.variable!r} was released by a rank law, and no model can be corrected for it"
            raise EstimationError(sentence(what, fix="leave it out; its unweighted mean is correct as released"))
    extra = [name for name in (weights, strata) if name is not None]
    mechanism.require_shown(extra)
    refuse_identifiers(mechanism, [*asked, weights])
    require_as_is(mechanism, weights, strata)
    shared = within_units(sample, mechanism, asked, frame)
    if not shared:
        warn_shared(mechanism, asked)
    table = released_table(frame, list(dict.fromkeys([*read_columns(asked, mechanism), *extra])), mechanism)
    clear = [n for n in asked if n not in mechanism.variables]
    if groups and set(groups) - set(clear):
        raise UsageError(sentence("groups must be unperturbed columns", got=list(groups)))
    described = [n for n in asked if n in mechanism.variables or _has_categories(table, mechanism, n)]
    latent = [n for n in described if n in mechanism.variables]
    axes = layout_of(table, latent, mechanism).axes if latent else ()
    book = (
        codebook_of(table, mechanism, list(dict.fromkeys([*needed_columns(described, mechanism)])))
        if described
        else None
    )
    present = np.ones(table.num_rows, dtype=bool)
    for name in clear:
        column = table.column(name)
        if not (book is not None and name in book and book[name].missing == "category"):
            present &= pc.is_valid(column).to_numpy(zero_copy_only=False)
        if name == response and book is not None and name in book:
            present &= terms.answers_of(book[name], family)[encode(column, book[name])]
    seen = cell_codes(table, axes, book) if axes and book is not None else Cells([], np.ones(len(present), bool))
    both = present & seen.present
    cells = tuple(code[both[seen.present]].astype(np.intp) for code in seen.codes)
    share = seen.combination(both, None if strata is None else stratum_codes(table, strata))
    kept = table.filter(pa.array(both))
    if not kept.num_rows:
        raise DataError(sentence("no record has values of all variables of the formula"))
    weight = np.ones(kept.num_rows) if weights is None else weight_column(kept, weights)
    if not LIGHTEST < weight.max() < 1 / LIGHTEST:
        raise DataError(sentence("weights are too large or too small to square", where=f"column {weights!r}"))
    stratum = np.zeros(kept.num_rows, np.intp) if strata is None else stratum_codes(kept, strata).astype(np.intp)
    return Data(
        formula=formula,
        family=cast(FamilyName, family),
        table=kept,
        names=tuple(dict.fromkeys([response, *names])),
        response=response,
        book=book,
        axes=axes,
        cells=cells,
        weights=weight,
        combination=np.ones(kept.num_rows) if share is None else share,
        weighted=weights is not None,
        groups=tuple(groups if groups is not None else [n for n in clear if n != response]),
        strata=stratum,
        dropped=seen.covering - kept.num_rows,
        rows=np.flatnonzero(both),
        sample=sample,
        shared=shared,
    )


def problem_of(data: Data, bins: int) -> tuple[Problem, tuple[str, ...]]:
    """Return the EM problem of the records and the names of its parameters.

    Raises
    ------
    EstimationError
        If a perturbed response has categories that mean no answer: a likelihood would need a model of who answers.
    """
    if data.left_out and data.response in data.latent:
        what = f"the likelihood does not leave out categories that mean no answer: {few(data.left_out)}"
        raise EstimationError(sentence(what, where=data.response, fix="use the method equations"))
    check_untangled(data.axes)
    cells = _latent_cells(data)
    latent = data.response in data.latent
    family, response = response_of(data, cells[:, _latent_names(data).index(data.response)] if latent else None)
    covariates = [n for n in data.names if n != data.response]
    clear = [n for n in covariates if n not in data.latent]
    row_of, rows = distinct([codes_of(data, n) for n in clear], data.table.num_rows)
    group_of = _groups(data, bins)
    # A row of clear covariates belongs to one group: where groups are finer, rows are split by them.
    row_of, rows = distinct([row_of, group_of], data.table.num_rows)
    design, terms = _design(data, rows, cells)
    clear_response = data.response not in data.latent
    case_of, first = distinct([row_of, response] if clear_response else [row_of], data.table.num_rows)
    released = (
        np.ravel_multi_index(data.cells, tuple(a.size for a in data.axes)) if data.axes else np.zeros(len(row_of), int)
    )
    pattern_of, seen = distinct([case_of, released], data.table.num_rows)
    hidden = [i for i, n in enumerate(_latent_names(data)) if n != data.response]
    problem = Problem(
        family=family,
        design=design,
        case_row=row_of[first],
        response=response[first][:, None] if clear_response else response[None, :],
        pattern_case=case_of[seen],
        pattern_cell=released[seen],
        weights=np.bincount(pattern_of, weights=data.weights).astype(np.float64),
        squares=np.bincount(pattern_of, weights=data.weights**2).astype(np.float64),
        row_group=group_of[rows],
        covariate_cell=np.unique(cells[:, hidden], axis=0, return_inverse=True)[1].ravel(),
        law=_latent_law(data.axes),
        looks=_looks(data.axes),
        weighted=data.weighted,
        record_pattern=pattern_of,
    )
    names = tuple(f"{prefix}{term}" for prefix in prefixes(data, family) for term in terms)
    return problem, (*names, *family.extras)


def _has_categories(table: pa.Table, mechanism: Mechanism, name: str) -> bool:
    book = mechanism.codebook
    if book is not None and name in book:
        return book[name].is_categorical
    return bool(pa.types.is_dictionary(table.schema.field(name).type))


def _latent_names(data: Data) -> tuple[str, ...]:
    return tuple(name for axis in data.axes for name in axis.names)


def _latent_cells(data: Data) -> Index:
    """Return the codes of every latent variable in each latent cell, shape (K, J); (1, 0) where there is none."""
    shape = tuple(len(axis.cells) for axis in data.axes)
    size = math.prod(shape)
    if size > MAX_LATENT:
        raise EstimationError(
            sentence(
                "too many combinations of perturbed categories",
                got=size,
                wanted=f"<= {MAX_LATENT}",
                fix="use fewer perturbed variables",
            )
        )
    if not data.axes:
        return np.zeros((1, 0), dtype=np.intp)
    index = np.unravel_index(np.arange(size), shape)
    return np.concatenate([a.cells[i] for a, i in zip(data.axes, index, strict=True)], axis=1).astype(np.intp)


def _latent_law(axes: Sequence[Axis]) -> Array:
    """Return the law of all released cells given each latent one, shape (K, R), from products along each axis."""
    size = math.prod(len(axis.cells) for axis in axes)
    unit = np.eye(size).reshape([size, *(len(axis.cells) for axis in axes)])
    operators = [None, *(None if axis.matrix is None else axis.matrix.array.T for axis in axes)]
    return apply(operators, unit).reshape(size, -1)


def _looks(axes: Sequence[Axis]) -> Index:
    """Return the latent cell that each released cell looks like, shape (R,)."""
    found = np.zeros(1, dtype=np.intp)
    for axis in axes:
        found = (found[:, None] * len(axis.cells) + axis.looks).ravel()
    return found


def response_of(data: Data, latent: Index | None) -> tuple[Family, Array]:
    """Return the family, and the response: for the codes ``latent`` where it is latent, else in each record."""
    name = data.response
    if data.is_categorical(name):
        assert data.book is not None
        variable = data.book[name]
        count = variable.size
        codes = codes_of(data, name) if latent is None else latent
        response = terms.scores_of(variable, data.family)[codes.astype(np.intp)]
    else:
        response = _floats(data.table, name)
        count = int(min(response.max(), MAX_OUTCOMES)) + 1 if data.family == "multinomial" else 0
    kinds: Mapping[str, Family] = {"linear": Linear(), "logistic": Logistic(), "poisson": Poisson()}
    family = Multinomial(count) if data.family == "multinomial" else kinds[data.family]
    family.check(response if latent is None else response[data.answers[latent.astype(np.intp)]])
    return family, response


def prefixes(data: Data, family: Family) -> tuple[str, ...]:
    """Return what stands before the terms of each linear predictor: the category, for a multinomial response."""
    if family.predictors == 1 and data.family != "multinomial":
        return ("",)
    if data.is_categorical(data.response):
        assert data.book is not None
        variable = data.book[data.response]
        return tuple(f"{variable.code_labels[code]}: " for code in terms.answers_first(variable)[1:])
    return tuple(f"{c}: " for c in range(1, family.predictors + 1))


def modelled(data: Data) -> str:
    """Return in words which category a logistic response models, or a multinomial one compares with; else "".

    ``logit(1 − p) = −logit(p)``: a regression of the other category has the same coefficients, signs changed.
    """
    if data.family not in ("logistic", "multinomial"):
        return ""
    labels: Sequence[Any] = (0, 1)
    if data.is_categorical(data.response):
        assert data.book is not None
        variable = data.book[data.response]
        labels = [variable.code_labels[code] for code in terms.answers_first(variable)]
    if data.family == "logistic":
        other = f"for that of {data.response} = {labels[0]}, change the sign of every coefficient"
        return f"the probability of {data.response} = {labels[1]}; {other}"
    return f"each other category of {data.response} against {data.response} = {labels[0]}"


def _floats(table: pa.Table, name: str) -> Array:
    try:
        values = to_floats(table.column(name))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            sentence(
                "the column is not numeric and has no categories",
                where=f"column {name!r}",
                fix="describe it in the codebook",
            )
        ) from None
    if not np.isfinite(values).all():
        raise DataError(sentence("the column has values that are not finite", where=f"column {name!r}"))
    return np.asarray(values, dtype=np.float64)


def codes_of(data: Data, name: str) -> Index:
    """Return the distinct values of an unperturbed column as 0..: codebook codes, or ranks of numbers."""
    if data.is_categorical(name):
        assert data.book is not None
        return encode(data.table.column(name), data.book[name]).astype(np.intp)
    return np.unique(_floats(data.table, name), return_inverse=True)[1].astype(np.intp)


def _groups(data: Data, bins: int) -> Index:
    """Return the group of each record within which the distribution of the true covariates is free."""
    parts = []
    for name in data.groups:
        if data.is_categorical(name):
            parts.append(codes_of(data, name))
            continue
        values = _floats(data.table, name)
        edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
        parts.append(np.searchsorted(edges, values, side="right").astype(np.intp))
    return distinct(parts, data.table.num_rows)[0]


def distinct(columns: Sequence[Any], records: int) -> tuple[Index, Index]:
    """Return the number 0.. of each record's distinct row of columns, and a first record of each."""
    number = np.zeros(records, dtype=np.intp)
    for column in columns:
        codes = np.unique(column, return_inverse=True)[1]
        number = np.unique(number * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    first = np.unique(number, return_index=True)[1]
    return number.astype(np.intp), first.astype(np.intp)


def _design(data: Data, rows: Index, cells: Index) -> tuple[Array, tuple[str, ...]]:
    """Return the design over unperturbed rows and latent cells, shape (V, K, p), and the names of its columns."""
    spec = model_of(data)
    codes = {name: cells[:, i] for i, name in enumerate(_latent_names(data))}
    return design_on(data, spec, rows, codes, len(cells)), terms.terms_of(spec, data.names, data.book)


def model_of(data: Data) -> Any:
    """Return the formula's right side as a model specification, its levels and scales taken from the released records.

    Raises
    ------
    UsageError
        If the formula cannot be evaluated on the columns.
    """
    from formulaic import Formula

    names = [n for n in data.names if n != data.response]
    absent = {n: np.setdiff1d(data.known(n), data.released(n)) for n in names if n in data.latent}
    # A true category that no record happens to show needs a row too, or its level would be unknown.
    extra = max((len(codes) for codes in absent.values()), default=0)
    columns: dict[str, Any] = {data.response: pa.nulls(0)}
    for name in names:
        values = _model_values(data, name)
        seen = data.released(name) if name in data.latent else np.arange(data.table.num_rows)
        more = np.resize(absent[name], extra) if len(absent.get(name, ())) else np.full(extra, seen[0])
        columns[name] = values.take(pa.array(np.concatenate([seen, more]).astype(np.intp)))
    with _evaluated(data):
        return Formula(data.formula).rhs.get_model_matrix(_pandas(columns, data.table.num_rows + extra)).model_spec


def design_on(data: Data, spec: Any, rows: Index, codes: Mapping[str, Index], size: int) -> Array:
    """Return the design over records ``rows`` (V,) and ``size`` true cells with the codes given; shape (V, K, p).

    Raises
    ------
    EstimationError
        If it would have more than 2^27 entries.
    """
    terms = len(spec.column_names)
    if len(rows) * size * terms > MAX_DESIGN:
        raise EstimationError(
            sentence("the design is too large", fix="round numeric covariates, or use fewer perturbed ones")
        )
    grid: dict[str, Any] = {data.response: pa.nulls(0)}
    for name in (n for n in data.names if n != data.response):
        values = _model_values(data, name)
        index = np.tile(codes[name], len(rows)) if name in data.latent else np.repeat(rows, size)
        grid[name] = values.take(pa.array(index))
    with _evaluated(data):
        matrix = spec.get_model_matrix(_pandas(grid, len(rows) * size), output="numpy")
    return np.asarray(matrix, dtype=np.float64).reshape(len(rows), size, terms)


@contextmanager
def _evaluated(data: Data) -> Iterator[None]:
    from formulaic.errors import FormulaicError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a category outside the fitted levels only warns
            yield
    except (FormulaicError, Warning, NameError, ValueError) as error:
        levels = {n: _model_values(data, n).unique().to_pylist() for n in data.names if data.is_categorical(n)}
        wanted = terms.levels_told(data.formula, levels) if "provided levels" in str(error) else None
        what = "the formula cannot be evaluated"
        raise UsageError(sentence(what, got=str(error).rstrip("."), where=data.formula, wanted=wanted)) from None


def _model_values(data: Data, name: str) -> pa.Array:
    """Return what a formula sees: for a latent variable one value per code, for an unperturbed one its column."""
    if not data.is_categorical(name):
        return pa.array(_floats(data.table, name))
    assert data.book is not None
    variable = data.book[name]
    codes = np.arange(variable.size) if name in _latent_names(data) else codes_of(data, name)
    if is_amount(data, name):
        return pa.array(terms.amounts(variable)[codes])
    texts = [str(c) for c in variable.categories] + ["(missing)"] * (variable.missing == "category")
    order = np.setdiff1d(terms.answers_first(variable), data.absent.get(name, ()), assume_unique=True)
    place = np.zeros(len(texts), dtype=np.int32)  # absent ones have no weight wherever they are
    place[order] = np.arange(len(order))
    return pa.DictionaryArray.from_arrays(pa.array(place[codes]), pa.array([texts[code] for code in order]))


def is_amount(data: Data, name: str) -> bool:
    """Whether a covariate with categories enters as numbers: those that mean no answer are left out."""
    if data.book is None or name not in data.book:
        return False
    return terms.enters(data.book[name], data.formula, data.absent.get(name, ()))


def _pandas(columns: Mapping[str, pa.Array], size: int) -> Any:
    """Return the columns as the pandas frame that formulas are evaluated on."""
    held = {name: array for name, array in columns.items() if len(array) == size}
    if not held:
        held = {"(row)": pa.nulls(size, pa.int8())}
    return pa.table(held).to_pandas()
