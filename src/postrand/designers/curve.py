"""The privacy-utility curve: what every structure keeps, and what it costs the analyst, against ε."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.designers.differential.circulant import Circulant
from postrand.designers.differential.general import General
from postrand.designers.differential.symmetric import Symmetric
from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.differential.vertices import best_vertex
from postrand.designers.problem import DesignWarning, Prior, Solution, Status, as_prior
from postrand.designers.solve import design
from postrand.designers.suitability import Structure, require
from postrand.errors import DesignError, sentence
from postrand.objectives import EstimatorVariance, MutualInformation, Objective
from postrand.objectives.information import entropy
from postrand.privacy import DifferentialPrivacy, PrivacyModel
from postrand.support.showing import show_whole
from postrand.support.warned import hushed

_WIDTH, _HEIGHT, _MARGIN, _LABEL = 380, 260, 52, 20
_COLOURS = ("#1f5a91", "#b3541e", "#2e7d4f", "#6b3fa0")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Point:
    """Hold one design: information in nats (its own objective), and the trace variance of its estimates per record."""

    structure: str
    epsilon: float
    information: float
    bound: float
    variance: float
    status: Status


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold the designs of every structure at every ε, and the entropy of the prior (nats), which none can exceed."""

    points: tuple[Point, ...]
    entropy: float

    @property
    def structures(self) -> tuple[str, ...]:
        """The structures compared, in order."""
        return tuple(dict.fromkeys(point.structure for point in self.points))

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON; a variance that is infinite is None."""
        names = Point.__slots__
        rows = [{name: _plain(getattr(point, name)) for name in names} for point in self.points]
        return {"entropy": self.entropy, "points": rows}

    def text(self) -> str:
        """Return the table as text, one line a design."""
        head = f"{'structure':<22}{'epsilon':>8}{'information':>14}{'bound':>14}{'variance':>14}  status"
        lines = [
            f"{p.structure:<22}{p.epsilon:>8g}{p.information:>14.6g}{p.bound:>14.6g}{p.variance:>14.5g}  {p.status}"
            for p in self.points
        ]
        return "\n".join([head, *lines])

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.structures)}: {len(self.points)} designs)"

    def __str__(self) -> str:
        """Return :meth:`text`."""
        return self.text()

    def svg(self, chosen: float | None = None) -> str:
        """Return both curves as one inline SVG picture, with a title and a description for screen readers.

        ``chosen`` is the ε of a plan, which a dashed line marks; beyond the curves, the end that is nearer says so.
        """
        width = 2 * _WIDTH
        legend = "".join(
            f'<g transform="translate({_MARGIN + 170 * k},{_HEIGHT + 22})">'
            f'<line x2="26" y1="-4" y2="-4" {_stroke(k)}/><text x="32">{name}</text></g>'
            for k, name in enumerate(self.structures)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT + 36}" role="img" '
            'font-family="sans-serif" font-size="11" fill="currentColor">'
            "<title>Information and estimator variance against epsilon</title>"
            "<desc>One line for each structure, broken where frequencies are not estimable; "
            "the numbers are in the table.</desc>"
            f"{self._panel('information', 'information (nats)', 0, chosen, log=False)}"
            f"{self._panel('variance', 'estimator variance × n (logarithmic)', _WIDTH, chosen, log=True)}{legend}</svg>"
        )

    def _panel(self, field: str, label: str, left: int, chosen: float | None, *, log: bool) -> str:
        curves = [_runs(self.points, name, field, log=log) for name in self.structures]
        budgets = sorted({p.epsilon for p in self.points}) or [0.0, 1.0]
        ys = [y for curve in curves for run in curve for _, y in run] or [0.0, 1.0]
        across = _Axis(budgets[0], budgets[-1], left + _MARGIN, left + _WIDTH - 12)
        up = _Axis(min(ys) if log else 0.0, max(ys), _HEIGHT - 36, 14)
        lines = "".join(
            _drawn(k, [(across(x), up(y)) for x, y in run]) for k, curve in enumerate(curves) for run in curve
        )
        ticks = "".join(
            f'<text x="{across(x):.1f}" y="{_HEIGHT - 20}" text-anchor="middle">{x:g}</text>'
            for x in _apart(budgets, across)
        ) + "".join(
            f'<text x="{left + _MARGIN - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{10**y if log else y:.3g}</text>'
            f'<line x1="{left + _MARGIN}" x2="{left + _WIDTH - 12}" y1="{up(y):.1f}" y2="{up(y):.1f}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            for y in up.ticks()
        )
        name = f'<text x="{left + _MARGIN}" y="10">{label}</text>'
        plan = "" if chosen is None else _marked(chosen, across)
        return f'{name}{ticks}{lines}{plan}<text x="{left + _WIDTH / 2}" y="{_HEIGHT - 4}">epsilon</text>'


def compare(
    prior: Prior | ArrayLike, epsilons: Iterable[float], structures: Sequence[Structure] | None = None
) -> Comparison:
    """Return the privacy-utility curve: each structure's most informative design at each ε, and its variance.

    ``variance`` is :class:`EstimatorVariance` of that design: inf where the frequencies cannot be estimated.

    Raises
    ------
    DesignError
        If no ε is given, or a structure refuses the problem.

    Examples
    --------
    >>> curve = compare([0.4, 0.3, 0.2, 0.1], [0.5, 1.0, 2.0])
    >>> len(curve.points), curve.structures[-1], curve.svg()[:4]
    (12, 'general', '<svg')
    """
    prior, budgets = as_prior(prior), sorted({float(epsilon) for epsilon in epsilons})
    if not budgets:
        raise DesignError(sentence("there is no epsilon to compare", fix="pass epsilons=[0.5, 1, 2]"))
    members: Sequence[Structure] = (
        (UniformOffDiagonal(), Symmetric(), Circulant(), _Points()) if structures is None else structures
    )
    points = []
    for structure in members:
        for epsilon in budgets:
            with hushed(DesignWarning):  # the variance column says it: inf
                found = design(prior, DifferentialPrivacy(epsilon), MutualInformation(), structure)
            variance = EstimatorVariance().value(found.matrix.array, prior.p)
            points.append(Point(structure.name, epsilon, found.value, found.bound, variance, found.status))
    return Comparison(tuple(points), entropy(prior.p))


@dataclass(frozen=True, slots=True)
class _Points(General):
    """Find what the general structure keeps, where that is quick: its columns in any order, without alternatives.

    Neither information nor the trace variance depends on which column goes to which category.
    """

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best vertex, columns of zeros after its own."""
        epsilon = require(self, privacy, objective, prior.size).epsilon
        found = best_vertex(prior, epsilon)
        if found is None:
            return General.solve(self, prior, privacy, objective)
        channel = found.channel(epsilon)
        array = np.pad(channel, ((0, 0), (0, prior.size - channel.shape[1])))
        return Solution(array, min(found.bound, entropy(prior)) * (1 + 1e-13), {"rounds": found.rounds})


@dataclass(frozen=True, slots=True)
class _Axis:
    least: float
    most: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.least) / (self.most - self.least or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [float(f"{t:.3g}") for t in np.linspace(self.least, self.most, 4)]


def _marked(chosen: float, across: _Axis) -> str:
    """Return the mark of a plan's ε: a dashed line, or an arrow at the end beyond which it is."""
    at = across(min(max(chosen, across.least), across.most))
    inside = across.least <= chosen <= across.most
    line = (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="16" y2="{_HEIGHT - 36}" stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    left = 2 * at > across.start + across.end
    words = f"this plan: {chosen:.3g}" if inside else f"this plan: {chosen:.3g} {'→' if left else '←'}"
    place = f'x="{at - 5 if left else at + 5:.1f}" y="24" text-anchor="{"end" if left else "start"}"'
    return f"{line if inside else ''}<text {place}>{words}</text>"


def _runs(points: Iterable[Point], structure: str, field: str, *, log: bool) -> list[list[tuple[float, float]]]:
    """Return the curve of a structure in unbroken parts: a line through an ε without a value would invent one."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in (p for p in points if p.structure == structure):
        value = getattr(point, field)
        if 0 < value < math.inf:
            runs[-1].append((point.epsilon, math.log10(value) if log else value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _drawn(k: int, run: Sequence[tuple[float, float]]) -> str:
    """Return a line, with a mark on each point: alone between gaps it has no line."""
    colour = _COLOURS[k % len(_COLOURS)]
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in run)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
    return (f'<polyline fill="none" {_stroke(k)} points="{path}"/>' if len(run) > 1 else "") + marks


def _apart(values: Sequence[float], axis: _Axis) -> list[float]:
    """Return those of the sorted values whose labels do not run into the one before."""
    kept = [values[0]]
    for value in values[1:]:
        if axis(value) - axis(kept[-1]) >= _LABEL:
            kept.append(value)
    return kept


def _stroke(k: int) -> str:
    dash = _DASHES[k % len(_DASHES)]
    return f'stroke="{_COLOURS[k % len(_COLOURS)]}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
