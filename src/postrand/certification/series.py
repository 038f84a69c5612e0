"""What a certificate states of a series: which release of a population it is, and what all of them cost together.

The statement rests on the curator's ledger. What can be checked without it is checked: that it is well formed, that its
level is that of the release, and that the total is not below it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from postrand.certification.account import Account
from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix_classes import classes_of
from postrand.privacy import Finding, PrivacyModel
from postrand.privacy.approximate import ApproximateDifferentialPrivacy
from postrand.privacy.levels import zcdp
from postrand.support.exact import add_upper, format_upper

Kind = Literal["first", "wave", "corrected", "supplement"]
KINDS: tuple[Kind, ...] = ("first", "wave", "corrected", "supplement")
"""A release is the first of its population, another wave, a corrected file, or a supplement of new variables."""
_LARGEST_LAW = 64
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBERS = ("epsilon", "delta")


@dataclass(frozen=True, slots=True)
class Level:
    """Hold (ε, δ), and ρ of zero-concentrated DP where it is known, rounded up; ε is None where there is no finite one.

    >>> Level(1.0) + Level(0.5, 1e-6)
    Level(epsilon=1.5, delta=1e-06, rho=None)
    """

    epsilon: float | None
    delta: float = 0.0
    rho: float | None = None

    def __add__(self, other: Level) -> Level:
        """Return the level of both releases: independent words, so that every level adds up (basic composition).

        A δ of 1 promises nothing: there is no finite ε then.
        """
        delta = add_upper(self.delta, other.delta)
        if delta >= 1:
            return Level(None)
        return Level(_sum(self.epsilon, other.epsilon), delta, _sum(self.rho, other.rho))

    def __str__(self) -> str:
        if self.epsilon is None:
            return "infinity"
        return format_upper(self.epsilon) + (f", δ {format_upper(self.delta)}" if self.delta else "")

    def largest(self, other: Level) -> Level:
        """Return the level of a record that is in one of two parts."""
        pairs = ((self.epsilon, other.epsilon), (self.rho, other.rho))
        epsilon, rho = (None if one is None or two is None else max(one, two) for one, two in pairs)
        return Level(epsilon, max(self.delta, other.delta), rho)

    def at(self, delta: float) -> float | None:
        """Return the least ε that is proven at this δ: ε itself, or ``ρ + 2 √(ρ ln(1/δ))`` (Bun & Steinke 2016).

        >>> Level(12.0, rho=1.2).at(1e-6) < 12
        True
        """
        if self.rho is None or self.delta or not 0 < delta < 1:
            return self.epsilon
        found = math.nextafter((self.rho + 2 * math.sqrt(self.rho * -math.log(delta))) * (1 + 1e-14), math.inf)
        return found if self.epsilon is None else min(self.epsilon, found)


def _sum(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else add_upper(one, two)


class Claimed(Protocol):
    """What is read of a claim: its model, the variables that it covers, and whether it is within classes."""

    @property
    def privacy(self) -> PrivacyModel:
        """The privacy model."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the claim covers."""

    @property
    def within(self) -> bool:
        """Whether the claim is about true values of the same class."""


def certified_level(mechanism: Mechanism, account: Account, claims: Iterable[tuple[Claimed, Finding]]) -> Level:
    """Return the level of a record that a certificate states, without ρ: the ε of its account.

    Where that is not finite, a claim of (ε, δ) on all perturbed variables counts, with what priors spent; δ is the one
    that was found for the matrices.
    """
    if math.isfinite(account.total):
        return Level(account.total)
    found = [
        Level(add_upper(claim.privacy.epsilon, finding.figures.get("priors", 0.0)), finding.level)
        for claim, finding in claims
        if isinstance(claim.privacy, ApproximateDifferentialPrivacy)
        and {*claim.variables} == {*mechanism.variables}
        and not claim.within
    ]
    return min(found, key=lambda level: level.epsilon or 0.0, default=Level(None))


def rho_of(mechanism: Mechanism, account: Account) -> float | None:
    """Return an upper bound of the ρ of a record; None where there is no finite ε."""
    if not math.isfinite(account.total):
        return None
    every = (*mechanism.blocks, *(() if mechanism.split is None else mechanism.split.blocks))
    level = functools.cache(_rho)  # variables of one size often have one matrix
    ways = [add_upper(0.0, *(level(block.matrix) for block in blocks)) for blocks in mechanism.alternatives]
    found = add_upper(max(ways), *(block.prior_epsilon**2 / 2 * (1 + 1e-15) for block in every))
    # A law of several strata has no finite ε as one matrix; a record's ε, in its stratum, bounds its ρ.
    return min(found, math.nextafter(account.total**2 / 2 * (1 + 1e-15), math.inf))


def _rho(matrix: Any) -> float:
    """Return an upper bound of ρ: ε²/2 of a large law, or one of several classes."""
    if matrix.size <= _LARGEST_LAW and not classes_of(matrix).any():
        return zcdp(matrix)
    return float(matrix.epsilon**2 / 2 * (1 + 1e-15))


@dataclass(frozen=True, slots=True)
class Series:
    """State release ``number`` of a population, its level, and the total of a record that is in all that it can be in.

    ``previous`` is the digest of the ledger before this release: a ledger that was shortened or changed later does not
    contain it. ``disjoint`` is the curator's reason why no record is in an earlier release.
    """

    population: str
    number: int
    kind: str
    previous: str
    level: Level
    total: Level
    disjoint: str = ""

    @property
    def said(self) -> dict[str, Any]:
        """What the curator states, for the wording of ``verify``."""
        total = "no finite ε" if self.total.epsilon is None else f"ε <= {self.total}"
        return {"number": self.number, "population": self.population, "total": total}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; a level has an ε, null where none is finite, and a δ where there is one."""
        return {
            "population": self.population,
            "number": self.number,
            "kind": self.kind,
            "previous": self.previous,
            "level": _plain(self.level),
            "total": _plain(self.total),
            **({"disjoint": self.disjoint} if self.disjoint else {}),
        }


def _plain(level: Level) -> dict[str, float | None]:
    return {"epsilon": level.epsilon, **({"delta": level.delta} if level.delta else {})}


def series_from_dict(data: Any, certified: Level) -> Series:
    """Read what a certificate states of a series, and check what can be checked without the ledger.

    ``certified`` is the level of the release, recomputed.

    Raises
    ------
    SpecificationError
        With every problem: a field that is not well formed, another level than that of the release, or a total below.
    """
    where = "certificate series"
    if not isinstance(data, Mapping):
        raise SpecificationError(sentence("the series is not an object", where=where, got=shown(data, repr)))
    level, total = (_read_level(data.get(name)) for name in ("level", "total"))
    number, kind, disjoint = data.get("number"), data.get("kind"), data.get("disjoint", "")
    problems = [
        sentence(f"{name!r} is not well formed", where=where, got=shown(data.get(name), repr))
        for name, fits in (
            ("population", isinstance(data.get("population"), str)),
            ("number", isinstance(number, int) and not isinstance(number, bool) and number >= 1),
            ("kind", kind in KINDS),
            ("previous", isinstance(data.get("previous"), str) and bool(_DIGEST.fullmatch(str(data.get("previous"))))),
            ("disjoint", isinstance(disjoint, str)),
            ("level", level is not None),
            ("total", total is not None),
        )
        if not fits
    ]
    raise_all(SpecificationError, problems)
    assert level is not None
    assert total is not None
    if (level.epsilon, level.delta) != (certified.epsilon, certified.delta):
        problems.append(sentence("the level of the series is not that of the release", where=where))
    if _below(total, level) or ((number == 1) != (kind == "first")):
        problems.append(sentence("the total, or the kind, contradicts the level or the number", where=where))
    raise_all(SpecificationError, problems)
    return Series(data["population"], data["number"], data["kind"], data["previous"], level, total, disjoint)


def _below(total: Level, level: Level) -> bool:
    if total.epsilon is None or total.delta < level.delta:
        return total.delta < level.delta
    return level.epsilon is None or total.epsilon < level.epsilon


def _read_level(data: Any) -> Level | None:
    if not isinstance(data, Mapping) or not set(data) <= set(_NUMBERS):
        return None
    epsilon, delta = data.get("epsilon"), data.get("delta", 0.0)
    known = (epsilon, delta) if epsilon is not None else (delta,)
    if not all(isinstance(x, float | int) and not isinstance(x, bool) and 0 <= x < math.inf for x in known):
        return None
    return Level(epsilon, delta) if "epsilon" in data and delta < 1 else None
