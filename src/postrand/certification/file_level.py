"""The level (ε, δ) of the whole file: what the records in random order reveal together of one of them.

It is stated where nothing tells the records apart and the law of a record depends on no record; otherwise the
certificate names every condition that fails. Levels are rounded up to four digits, so that another machine, whose
libraries round in another way, proves the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from postrand.certification.limits import Facts
from postrand.errors import PrivacyError, SpecificationError, raise_all, sentence, shown
from postrand.mechanism import Mechanism
from postrand.privacy import shuffled_holds, shuffled_levels
from postrand.privacy.indistinct import dependent, distinguishing, one_of_each
from postrand.support import wordings
from postrand.support.exact import add_upper
from postrand.support.inputs import finite, is_whole

_DIGITS = Context(prec=4, rounding=ROUND_CEILING)
_MARGIN = 1e-6
"""Part of δ that is left unused when a level is found, more than the libraries of two machines differ by."""


@dataclass(frozen=True, slots=True)
class FileLevel:
    """What a certificate states of the file: ``bounds`` by name, each proven for the matrices, or what ``fails``.

    ``epsilon`` is the least of the bounds, with what private priors spent; None where a condition fails.
    """

    records: int
    delta: float
    epsilon: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    fails: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not is_whole(self.records, 1):
            raise SpecificationError(sentence("the level of the file names no number of records", wanted=">= 1"))
        if not 0 < finite(self.delta) < 1:
            got = shown(self.delta, repr)
            raise PrivacyError(sentence("delta is not a probability", got=got, wanted="0 < delta < 1"))

    @property
    def bound(self) -> str:
        """The name of the least bound."""
        return min(self.bounds, key=lambda name: self.bounds[name])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"records": self.records, "delta": self.delta}
        if self.epsilon is None:
            return {**about, "fails": [dict(entry) for entry in self.fails]}
        return {**about, "epsilon": self.epsilon, "bound": self.bound, "bounds": dict(self.bounds)}


def from_dict(data: Any) -> FileLevel:
    """Return what plain data of a certificate state; raises SpecificationError if they are not well formed."""
    try:
        bounds = {str(name): float(value) for name, value in data.get("bounds", {}).items()}
        level = None if "epsilon" not in data else float(data["epsilon"])
        return FileLevel(data["records"], data["delta"], level, bounds, tuple(data.get("fails", ())))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SpecificationError(sentence("the level of the file is malformed", where="certificate")) from None


def file_level(mechanism: Mechanism, facts: Facts, models: Iterable[Any], records: int, delta: float) -> FileLevel:
    """Return the level of the shuffled file at δ by every proven bound, or the conditions that fail.

    ``facts`` and ``models`` are those of the certificate.

    Raises
    ------
    PrivacyError
        If δ is not in (0, 1).

    Examples
    --------
    >>> from postrand.certification.certificate import Facts
    >>> from postrand.mechanism.matrix import randomised_response
    >>> file_level(Mechanism({"sex": randomised_response(2, 1.0)}), Facts(), (), 10_000, 1e-6).fails[0]
    {'code': 'no_codebook'}
    """
    about = FileLevel(records, delta)
    fails = failing(mechanism, facts, models)
    if fails:
        return FileLevel(records, delta, fails=fails)
    found = shuffled_levels(mechanism, about.records, delta * (1 - _MARGIN))
    return _of(mechanism, about, {name: _rounded(level) for name, level in found.items()})


def restated(mechanism: Mechanism, facts: Facts, models: Iterable[Any], stated: FileLevel) -> FileLevel:
    """Return what is stated, if the law proves each of its bounds; otherwise what the law does give."""
    fails = failing(mechanism, facts, models)
    if fails:
        return FileLevel(stated.records, stated.delta, fails=fails)
    proven = set(stated.bounds) == {"clones", "blanket"} and all(
        shuffled_holds(name, mechanism, stated.records, level, stated.delta) for name, level in stated.bounds.items()
    )
    if proven:
        return _of(mechanism, stated, stated.bounds)
    return file_level(mechanism, facts, models, stated.records, stated.delta)


def failing(mechanism: Mechanism, facts: Facts, models: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Return the conditions of a level of the file that fail, as codes with their values."""
    return (*distinguishing(mechanism, facts), *dependent(mechanism, facts, models))


def require(level: FileLevel, asked: float, where: str = "[privacy] file_epsilon") -> None:
    """Raise PrivacyError, with every condition that fails, unless the file's ε is at most ``asked``."""
    what = "the file has no level"
    problems = [sentence(f"{what}: {wordings.say_entry('file', entry)}", where=where) for entry in level.fails]
    raise_all(PrivacyError, problems)
    if level.epsilon is None or level.epsilon > asked:
        fix = "lower the blocks' own epsilon, raise file_epsilon or delta, or remove file_epsilon"
        raise PrivacyError(
            sentence(
                "the file's level is above the one asked for", where=where, got=level.epsilon, wanted=asked, fix=fix
            )
        )


def _of(mechanism: Mechanism, about: FileLevel, bounds: Mapping[str, float]) -> FileLevel:
    priors: Sequence[float] = [block.prior_epsilon for block in one_of_each(mechanism)]
    return FileLevel(about.records, about.delta, add_upper(min(bounds.values()), *priors), dict(bounds))


def _rounded(level: float) -> float:
    """Return a level rounded up to four significant digits: the float next to a number >= a float is not below it."""
    return float(_DIGITS.plus(Decimal(level)))
