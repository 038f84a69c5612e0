"""The weakest perturbation whose estimated risk on the released file is within a limit (ABC §5, first direction)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import DesignError, UsageError, raise_all, sentence
from postrand.matrix import randomised_response
from postrand.mechanism import Block, Mechanism
from postrand.plain import finite, is_whole
from postrand.risk import loglinear, modelchoice, perturbed
from postrand.risk.cells import KeyCodes, table
from postrand.risk.data import code_data, key_codes
from postrand.risk.law import KeyLaw, release

_LIMIT = re.compile(r"\s*(tau1|tau2)\s*<=\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True, slots=True)
class Point:
    """One level of perturbation: the risk over draws, its standard error, and what is kept.

    ``information`` is ``Σ I(X;Z)`` over the keys in nats, with the file's own frequencies; ``unchanged`` the expected
    share of records whose keys all stay.
    """

    level: float
    risk: float
    standard_error: float
    information: float
    unchanged: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The level found, its mechanism, and the risk–utility map: every point tried, by level."""

    measure: str
    limit: float
    level: float
    mechanism: Mechanism
    points: tuple[Point, ...]
    status: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: the level and the map, without the mechanism."""
        head = {"measure": self.measure, "limit": self.limit, "level": self.level, "status": self.status}
        return {**head, "points": [dataclasses.asdict(point) for point in self.points]}

    def __str__(self) -> str:
        lines = [f"{self.measure} <= {self.limit:g}: level {self.level:.4g} ({self.status})"]
        lines.append(f"{'level':>10} {self.measure:>10} {'error':>8} {'nats kept':>10} {'unchanged':>10}")
        for p in self.points:
            lines.append(
                f"{p.level:10.4g} {p.risk:10.2f} {p.standard_error:8.2f} {p.information:10.3f} {p.unchanged:10.3f}"
            )
        return "\n".join(lines)


def tune(
    data: Any,
    key_variables: Sequence[str],
    limit: str,
    *,
    sampling_fraction: float,
    mechanism: Callable[[float], Mechanism] | None = None,
    levels: tuple[float, float] = (0.1, 30.0),
    weaker: Literal["larger", "smaller"] = "larger",
    model: loglinear.Model = "two-way",
    codebook: Codebook | None = None,
    draws: int = 5,
    tolerance: float = 0.02,
    seed: int = 0,
) -> Tuning:
    """Find the weakest perturbation of the keys whose released file meets ``limit``, such as ``"tau2 <= 10"``.

    Parameters
    ----------
    mechanism
        Makes the mechanism of a level. By default the level is the total ε of a record, shared equally among the
        keys,
        each under k-ary randomised response.
    levels
        The range searched, on a logarithmic scale; the result is within ``tolerance`` (relative) of the boundary
        and on
        its safe side.
    weaker
        Whether a larger level is a weaker perturbation (ε) or a stronger one (β).
    draws
        Released files over which the risk is averaged; the same draws serve every level. ``seed`` fixes them.

    Raises
    ------
    UsageError
        If the limit is not understood, or a parameter is outside its range.
    DesignError
        If even the strongest perturbation of the range exceeds the limit.
    """
    measure, bound = _parse(limit)
    low, high = levels
    problems = []
    if not 0 < finite(low) < finite(high):
        problems.append(sentence("the levels are no range", got=f"{low!r} to {high!r}", wanted="0 < low < high"))
    if not is_whole(draws, 1):
        problems.append(sentence("no number of draws", got=repr(draws), wanted=">= 1"))
    if not 0 < finite(sampling_fraction) <= 1:
        problems.append(sentence("the sampling fraction is outside its range", got=sampling_fraction, wanted="(0, 1]"))
    raise_all(UsageError, problems)
    coded = code_data(data, list(key_variables), codebook)
    keys = key_codes(coded, key_variables, "category")
    make = mechanism or (lambda level: _equal_shares(keys, level, codebook))
    search = _Search(keys, make, measure, sampling_fraction, model, draws, seed)
    strong, weak = (low, high) if weaker == "larger" else (high, low)
    if search.risk(weak) <= bound:
        return search.result(bound, weak, "the limit is met at the weak end of the range")
    if search.risk(strong) > bound:
        lowest = min(p.risk for p in search.points.values())
        what, fix = f"no level of the range meets {limit!r}", "widen the range, or coarsen the keys"
        raise DesignError(sentence(what, got=f"{lowest:.1f} at best", fix=fix))
    while abs(math.log(weak / strong)) > tolerance:
        middle = math.sqrt(weak * strong)
        if search.risk(middle) <= bound:
            strong = middle
        else:
            weak = middle
    return search.result(bound, strong, "the boundary was found")


class _Search:
    """Evaluate levels, each once."""

    def __init__(
        self,
        keys: KeyCodes,
        make: Callable[[float], Mechanism],
        measure: Literal["tau1", "tau2"],
        fraction: float,
        model: loglinear.Model,
        draws: int,
        seed: int,
    ) -> None:
        self.keys, self.make, self.measure = keys, make, measure
        self.fraction, self.model, self.draws, self.seed = fraction, model, draws, seed
        self.points: dict[float, Point] = {}

    def risk(self, level: float) -> float:
        law = KeyLaw.of(self.make(level), self.keys.names, self.keys.shape)
        risks = np.array([self._draw(law, self.seed + i) for i in range(self.draws)])
        error = float(risks.std(ddof=1) / math.sqrt(self.draws)) if self.draws > 1 else 0.0
        truth = table(self.keys)
        unchanged = float((law.diagonal(truth.codes) * truth.counts).sum() / max(self.keys.records, 1))
        self.points[level] = Point(level, float(risks.mean()), error, _information(law, self.keys), unchanged)
        return self.points[level].risk

    def _draw(self, law: KeyLaw, seed: int) -> float:
        cells = table(release(law, self.keys, seed))
        if not cells.uniques.any():
            return 0.0
        if self.model == "search" and self.fraction < 1:
            fit = modelchoice.choose(cells, self.fraction).fit
        else:
            fit = loglinear.fit(cells, self.model, tolerance=1e-3)
        return perturbed.file_risk(fit, cells, self.fraction, law)[self.measure]

    def result(self, bound: float, level: float, status: str) -> Tuning:
        points = tuple(self.points[at] for at in sorted(self.points))
        return Tuning(self.measure, bound, level, self.make(level), points, status)


def _parse(limit: str) -> tuple[Literal["tau1", "tau2"], float]:
    found = _LIMIT.fullmatch(limit)
    try:
        bound = float(found[2]) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not bound >= 0:
        raise UsageError(sentence("the limit is not understood", got=repr(limit), wanted="'tau2 <= 10' or 'tau1 <= 5'"))
    return ("tau1" if found[1] == "tau1" else "tau2"), bound


def _equal_shares(keys: KeyCodes, epsilon: float, codebook: Codebook | None) -> Mechanism:
    each = epsilon / len(keys.names)
    blocks = [Block((n,), randomised_response(s, each)) for n, s in zip(keys.names, keys.shape, strict=True) if s > 1]
    fits = codebook is not None and all(codebook[b.variables[0]].size == b.matrix.size for b in blocks)
    return Mechanism(blocks, codebook if fits else None)


def _information(law: KeyLaw, keys: KeyCodes) -> float:
    rows = law.groups(np.stack(keys.codes, axis=1))
    total = 0.0
    for b, M in enumerate(law.matrices):
        p = np.bincount(rows[:, b], minlength=M.shape[0]) / keys.records
        q = p @ M
        ratio = np.divide(M, q, out=np.ones_like(M), where=(q > 0) & (M > 0))
        total += float((p[:, None] * M * np.log(ratio)).sum())
    return total
