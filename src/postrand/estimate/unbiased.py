"""The unbiased estimator of a table of true frequencies, and its exact covariance estimate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array, Axis, Layout, Operator, apply, apply_pairs, apply_squares
from postrand.estimate.intervals import Binomial, Moments, Slope, matched
from postrand.estimate.result import SHOWING, Estimate, Law, Part
from postrand.estimate.split_axis import SplitAxis
from postrand.estimate.survey_law import HOUSEHOLD_DRAWS, DesignLaw, Undivided, check_divided
from postrand.estimate.tally import Tally, tally
from postrand.mechanism import Mechanism

MAX_COVARIANCE = 4096
"""Tables of more cells have standard errors but no full covariance matrix (128 MB at this size)."""

METHOD = "unbiased"


def proportions(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the true distribution of one variable without bias: ``π^ = (Mᵀ)^-1 λ^``.

    M has the true categories as rows and the released ones as columns; ``λ^`` are the released proportions. The
    result's ``value`` has shape (S,) in codebook order and may leave [0, 1]; its ``covariance`` (S, S) is
    ``B diag(λ^) Bᵀ − π^π^ᵀ`` over n − 1, ``B = (Mᵀ)^-1``: exactly unbiased for sampling and perturbation together. A
    variable of a joint block is summed out of the block's table. A missing value under the policy ``keep`` is left
    out, and the result says how many were.

    Parameters
    ----------
    frame
        The released records: a pandas, polars or pyarrow table.
    weights
        A released column of sampling weights; the covariance is then that of a weighted mean of independent draws.
    strata
        A released, unperturbed column of sampling strata; variation between strata then does not count.
    design
        How the records were drawn, in place of weights and strata: clusters, or replicate weights.

    Raises
    ------
    DataError
        If the data do not fit the mechanism.
    EstimationError
        If M is singular: see ``estimate.identified``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> sex = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> mech = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, codebook=sex)
    >>> found = proportions(pa.table({"sex": ["F"] * 60 + ["M"] * 40}), "sex", mech)
    >>> found.value.tolist(), found.standard_error.round(4).tolist()
    ([0.7, 0.3], [0.0985, 0.0985])

    By hand: (0.6 − 0.25) / 0.5 = 0.7, and sqrt(0.6 × 0.4 / 99) / 0.5 = 0.0985.

    References
    ----------
    CHR eq. (4); Chaudhuri & Mukerjee, Randomized Response, for the covariance.
    """
    return table(frame, [variable], mechanism, weights, strata, design=design)


def table(
    frame: Any,
    variables: Sequence[str],
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    prior: Mapping[str, ArrayLike] | None = None,
    *,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the true joint distribution of several variables, perturbed or not, without bias.

    The inverse is applied block by block along each axis. ``value`` has one axis for each variable in the order named.
    Parameters and errors are those of :func:`proportions`.

    Of the variables of a split, the records count that show all that are named. Subsets are combined by inverse
    variance, which the published matrices and ``prior`` tell: the shares of the categories of some variables, taken as
    independent and uniform where nothing is given. A prior makes the weights better, never the table biased, if it does
    not come from this release. Given which records show what, the covariance is exactly unbiased (without weights and
    strata); its perturbation part is so on average over files.

    Raises
    ------
    EstimationError
        If no subset shows all of the variables: the message says which are shown together. Or if too few records do.
    """
    return from_tally(tally(frame, variables, mechanism, weights, strata, prior=prior, design=design))


def from_tally(counted: Tally) -> Estimate:
    """Return the unbiased estimate from counted records (or from a plain array, through ``from_counts``)."""
    law = linear_law(counted)
    method = f"shares, {METHOD} (can be below 0 or above 1)" + (
        "" if counted.whole is None else f", {SHOWING} of the table"
    )
    return result(counted, counted.layout.arrange(law.mean), law, method)


def linear_law(counted: Tally) -> LinearLaw:
    """Return the sampling law of the unbiased estimator; raises EstimationError if a matrix is singular."""
    return LinearLaw(counted, counted.layout, tuple(axis.unbiased() for axis in counted.layout.axes))


def result(counted: Tally, value: Array, law: Law, method: str) -> Estimate:
    """Return an estimate of the counted table."""
    layout = counted.layout
    return Estimate(
        variables=layout.variables,
        labels=layout.labels,
        value=value,
        law=surveyed_law(law, value) if isinstance(law, LinearLaw) else law,
        records=int(counted.records.sum()),
        total=counted.total if counted.whole is None else counted.whole.total,
        dropped=counted.dropped,
        method=method,
        perturbed=layout.perturbed,
        span=1.0,
        used=tuple(dict.fromkeys((*layout.variables, *layout.held))),
    )


def surveyed_law(law: LinearLaw, value: Array, inner: Law | None = None, drawn: Law | None = None) -> Law:
    """Return the law of an estimate by the survey design of its counts; the law itself where there is none.

    The influence of a record on ``π^ = Σ w b / Σ w`` is ``w (b − π^) / Σ w``. ``inner`` has the perturbation part where
    the linear law has not, and ``drawn`` that of the squared weights of ``surveyed.drawn``.
    """
    counted, held = law.counted, law.counted.surveyed
    if held is None:
        return law
    if counted.whole is not None:
        check_divided(held.drawn, False, "a table of a split")
        inner = Undivided("the variance of a table of a split, with a survey design,")
    elif held.shared:
        inner = Undivided(HOUSEHOLD_DRAWS)
    elif held.drawn is not None and drawn is None:
        drawn = LinearLaw(dataclasses.replace(counted, squares=held.drawn[None]), law.layout, law.operators)
    parts = np.stack([law.layout.arrange(one).ravel() for one in apply([None, *law.operators], held.sums)])
    whole = held.sums.reshape(len(held.sums), -1).sum(axis=1)[:, None]
    flat, sample = value.ravel(), held.sample
    parts = (parts - whole * flat) / counted.total if sample.replicates is None else parts / whole
    return DesignLaw(
        deviations=sample.deviations(parts, flat),
        shape=value.shape,
        freedom=sample.freedom,
        inner=law if inner is None else inner,
        drawn=drawn,
        about=str(sample),
        simple=flat * (1 - flat) / max(int(counted.records.sum()) - 1, 1),
        unclear=np.zeros(flat.size, dtype=bool),
        alone=law,
    )


@dataclass(frozen=True, slots=True, eq=False)
class LinearLaw:
    """The law of ``π^ = B λ^`` with B a product of one operator per axis.

    With weights w and strata h, ``u_i = w_i (B e_i − π^) / Σw`` are the influence values and the total covariance is
    ``Σ_h n_h/(n_h−1) Σ_{i in h} (u_i − ū_h)(u_i − ū_h)ᵀ``. The perturbation part, records held fixed, is
    ``B diag(t2) Bᵀ − diag(π(t2))`` over (Σw)², t2 the sums of squared weights: exactly unbiased (method, "fixed data").
    """

    counted: Tally
    layout: Layout
    operators: tuple[Operator, ...]

    @property
    def mean(self) -> Array:
        """The estimate as a tensor over the kept cells of each axis."""
        return apply(self.operators, self.counted.released) / self.counted.total

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance; raises EstimationError beyond 4096 cells."""
        size = math.prod(self.layout.shape)
        if size > MAX_COVARIANCE:
            raise EstimationError(
                sentence(
                    "the table is too large for a full covariance matrix",
                    got=f"{size} cells",
                    wanted=f"<= {MAX_COVARIANCE}",
                    fix="use .standard_error, a margin, or estimate.quantities",
                )
            )
        moment = self._moment(
            part, apply_pairs, lambda a, b: np.multiply.outer(a.ravel(), b.ravel()), lambda a: np.diag(a.ravel())
        )
        return self.layout.arrange_matrix(moment)

    def variance(self, part: Part) -> Array:
        """Return its diagonal from squared operators along each axis, at any size."""
        moment = self._moment(part, apply_squares, np.multiply, lambda a: a)
        return self.layout.arrange(moment).ravel()

    def margin(self, keep: Sequence[int]) -> LinearLaw:
        """Return the law of a margin: the same counts under operators summed over what is left out."""
        names = [self.layout.variables[i] for i in keep]
        return margin_law(self, names)

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of the score interval of each cell (exact where few records are expected)."""
        low, high = self.binomial().bounds(level)
        return self.layout.arrange(low).reshape(value.shape), self.layout.arrange(high).reshape(value.shape)

    def inflated_bounds(self, value: Array, level: float, variance: Array, freedom: float) -> tuple[Array, Array]:
        """Return the ends of the same intervals where the variance (L,) is that of a survey design.

        The binomial of each cell has its variance times ``(t/z)²``, t on ``freedom`` degrees.
        """
        held = self.binomial()
        parts = (held.low, held.step, held.successes, held.trials)
        flat = Binomial(*(self.layout.arrange(np.broadcast_to(one, held.low.shape)).ravel() for one in parts))
        tail = (1 - level) / 2
        wider = float(scipy.special.stdtrit(freedom, tail) / scipy.special.ndtri(tail)) ** 2
        alone = flat.variance
        ratio = np.where(alone > 0, variance / np.where(alone > 0, alone, 1.0), 1.0) * wider
        low, high = flat.inflated(ratio).bounds(level)
        return low.reshape(value.shape), high.reshape(value.shape)

    def binomial(self, record: Moments | None = None) -> Binomial:
        """Return the binomial distribution that approximates each cell, as tensors over the kept cells of each axis.

        ``record`` holds the moments of what one more record of the cell itself, or of any, would contribute;
        by default of a table.
        """
        record = _two_more(self.layout.axes, self.operators) if record is None else record
        counted = self.counted
        powers = [tuple(None if b is None else b**power for b in self.operators) for power in (1, 2, 3)]
        strata = []
        for counts, squares in self._strata():
            whole, square = float(counts.sum()), float(squares.sum())
            if whole > 0:
                raw = Moments(*(apply(b, squares) / square for b in powers))
                mean = apply(self.operators, counts) / whole
                strata.append(Slope.of(raw, mean, whole**2 / square, square / whole / counted.total))
        n = float(counted.records.sum())
        variance = self._moment("total", apply_squares, np.multiply, lambda a: a) * (n - 1) / n
        unit = float(counted.squares.sum()) / counted.total**2
        return matched(self.mean, np.maximum(variance, 0.0), strata, record, unit)

    def _strata(self) -> Iterator[tuple[Array, Array]]:
        """Yield counts and squares of each stratum; of a split, the records of each part are one too."""
        counted = self.counted
        for counts, squares in zip(counted.counts, counted.squares, strict=True):
            axes = [i for i, axis in enumerate(counted.layout.axes) if isinstance(axis, SplitAxis)]
            if not axes:
                yield counts, squares
            for i in axes:
                axis = counted.layout.axes[i]
                assert isinstance(axis, SplitAxis)
                for at in axis.law.slices:
                    inside = np.zeros(counts.shape[i])
                    inside[at] = 1.0
                    inside = inside.reshape([-1 if j == i else 1 for j in range(counts.ndim)])
                    yield counts * inside, squares * inside

    def _moment(
        self, part: Part, squared: Callable[..., Array], outer: Callable[..., Array], diagonal: Callable[..., Array]
    ) -> Array:
        """Evaluate a part as a full matrix or only on its diagonal: the same algebra under two products."""
        counted, operators = self.counted, self.operators
        if part != "total" and counted.whole is not None:
            return self._split_part(part, self._moment("total", squared, outer, diagonal), outer, diagonal)
        if part == "sampling":
            return self._moment("total", squared, outer, diagonal) - self._moment(
                "perturbation", squared, outer, diagonal
            )
        if part == "perturbation":
            if all(axis.matrix is None for axis in self.layout.axes):
                return 0.0 * squared(operators, counted.squares[0])
            pooled = counted.squares.sum(axis=0)
            return (squared(operators, pooled) - diagonal(apply(operators, pooled))) / counted.total**2
        mean = self.mean
        out = np.zeros(())
        for counts, squares, n in zip(counted.counts, counted.squares, counted.records, strict=True):
            factor = _small_sample(int(n))
            cross = apply(operators, squares)
            centre = apply(operators, counts) - counts.sum() * mean
            spread = squared(operators, squares) - outer(cross, mean) - outer(mean, cross)
            out = out + factor * (spread + squares.sum() * outer(mean, mean) - outer(centre, centre) / n)
        return out / counted.total**2

    def _split_part(
        self, part: Part, total: Array, outer: Callable[..., Array], diagonal: Callable[..., Array]
    ) -> Array:
        """``diag p − p pᵀ`` times ``Σ w²/(Σ w)²`` of all records is what drawing them causes; ``p̂ p̂ᵀ`` exceeds it by V.

        Which records show what belongs to the perturbation.
        """
        assert self.counted.whole is not None
        if len(self.counted.records) > 1:
            what = "with strata, the covariance of a table of a split is not divided into sampling and perturbation"
            raise EstimationError(sentence(what, fix="use the total, or leave out the strata"))
        if any(isinstance(axis, SplitAxis) and axis.household for axis in self.counted.layout.axes):
            what = "the covariance of what one member of each household shows is not divided into sampling and "
            raise EstimationError(sentence(f"{what}perturbation", fix="use the total"))
        mean = self.mean
        sampling = self.counted.whole.unit * (diagonal(mean) - outer(mean, mean) + total)
        return np.asarray(sampling if part == "sampling" else total - sampling)


def _two_more(axes: Sequence[Axis], operators: Sequence[Operator]) -> Moments:
    """Return the moments of what a record contributes that is truly of the cell, or of any cell, each half the time.

    A record of the true cell i contributes ``Σ_j M[i,j] b[l,j]^m`` to the cell l; where l shows several true cells, or
    any is meant, their average counts.
    """
    moments = []
    for power in (1, 2, 3):
        own, any_ = [], []
        for axis, operator in zip(axes, operators, strict=True):
            if operator is None:
                own.append(np.ones(axis.size))
                any_.append(np.full(axis.size, 1.0 / axis.size))
                continue
            expected = operator**power if axis.matrix is None else axis.matrix.times((operator**power).T).T
            project = axis.projection
            inside = np.eye(len(axis.cells)) if project is None else project
            own.append((inside * expected).sum(axis=1) / np.maximum(inside.sum(axis=1), 1.0))
            any_.append(expected.mean(axis=1))
        moments.append((reduce(np.multiply.outer, own) + reduce(np.multiply.outer, any_)) / 2)
    return Moments(*moments)


def margin_law(law: LinearLaw, names: Sequence[str]) -> LinearLaw:
    """Return the law of the table of ``names``: blocks that show no variable any more are summed to one cell."""
    axes = tuple(
        dataclasses.replace(axis, kept=tuple(axis.names.index(n) for n in names if n in axis.kept_names))
        for axis in law.layout.axes
    )
    # 1ᵀ(Mᵀ)^-1 = 1ᵀ because rows of M sum to one: a whole block sums out without its inverse.
    operators = tuple(axis.unbiased() if axis.kept else np.ones((1, axis.size)) for axis in axes)
    return LinearLaw(law.counted, dataclasses.replace(law.layout, axes=axes, variables=tuple(names)), operators)


def _small_sample(records: int) -> float:
    if records < 2:
        raise EstimationError(
            sentence(
                "a stratum or table of a single record has no variance estimate", fix="merge strata, or drop the table"
            )
        )
    return records / (records - 1)
