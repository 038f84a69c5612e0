"""What a release promises, beside what was measured: each function returns a :class:`Bound` for one claim of a case."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.audit.bounds import (
    Event,
    best_outcomes,
    entropy_upper,
    epsilon_lower,
    posterior_lower,
)
from benchmarks.audit.runs import halves, neighbours


@dataclass(frozen=True, slots=True)
class Bound:
    """A claim, the level that it states, and the bound of the true one; ``least``: the claim says at least."""

    claim: str
    stated: float
    measured: float
    event: str
    least: bool = False

    @property
    def broken(self):
        """Whether the release promises more than it does, but for the error of the bound."""
        return bool(self.measured < self.stated if self.least else self.measured > self.stated)

    @property
    def share(self):
        """How much of the claim the bound reaches; 1 is all."""
        return self.stated / self.measured if self.least else self.measured / self.stated


@dataclass(frozen=True, slots=True)
class Differential:
    """(ε, δ) of two neighbours, with the event that half of the draws choose; ``level(release, i, j)`` is (ε, δ)."""

    name: str
    level: Callable

    def __call__(self, seen, case, alpha, rng):
        """Measure ε by the best event of any view and pair of neighbours: one event for all, so one error."""
        training = halves(seen.of.size, rng)
        best, event = (-1.0, -np.inf), None
        for pair in neighbours(case):
            epsilon, delta = self.level(seen.release, *pair)
            for view, (codes, number) in seen.views.items():
                first, second = (_counts(codes, number, training & (seen.of == unit)) for unit in pair)
                trials = int(first.sum()), int(second.sum())
                outcomes, promised = best_outcomes(first, second, trials, alpha, delta)
                if (promised / epsilon, promised) > best:
                    best, event = (promised / epsilon, promised), Event(view, pair, outcomes)
        epsilon, delta = self.level(seen.release, *event.pair)
        codes = seen.views[event.view][0]
        inside = [event.outcomes[codes[~training & (seen.of == unit)]] for unit in event.pair]
        hits, sizes = [int(found.sum()) for found in inside], (inside[0].size, inside[1].size)
        measured = float(epsilon_lower(hits[0], hits[1], sizes, alpha, delta))
        named = f"{event.view}: {int(event.outcomes.sum())} of {event.outcomes.size} outcomes"
        label = self.name + (f", δ = {delta:.3g}" if delta else "")
        return Bound(label, epsilon, measured, f"{named}, units {event.pair[0] + 1} and {event.pair[1] + 1}")


def _counts(codes, number, which):
    return np.bincount(codes[which], minlength=number)


@dataclass(frozen=True, slots=True)
class Entropy:
    """β of bistochastic privacy: the mean entropy of the laws of all units over that of ``size`` equal chances."""

    name: str
    size: int
    level: Callable

    def __call__(self, seen, case, alpha, rng):
        """Bound the entropy of what is released for each unit from above; the claim is a least one."""
        codes, number = seen.views["values"]
        counts = np.stack([_counts(codes, number, seen.of == unit) for unit in range(seen.of.max() + 1)])
        measured = entropy_upper(counts, alpha) / np.log(self.size)
        return Bound(self.name, self.level(seen.release), measured, f"values: {counts.size} shares", least=True)


@dataclass(frozen=True, slots=True)
class Posterior:
    """α of security against recognition: whether a person whose values are unique is behind the released ones.

    ``unit`` is the person's; the onlooker looks for ``values``, by names of variables, as the person has them.
    """

    name: str
    unit: int
    values: dict
    level: Callable

    def __call__(self, seen, case, alpha, rng):
        """Bound the posterior from below by all runs: this one event is chosen by the plan."""
        held = np.ones(seen.of.size, dtype=bool)
        for name, code in self.values.items():
            held &= seen.values[0][name][:, 0] == code
        own = seen.of == self.unit
        runs = case.runs
        measured = posterior_lower(int(held[own].sum()), int(own.sum()), int(held.sum()), seen.of.size // runs, alpha)
        return Bound(self.name, self.level(seen.release), measured, f"values: {', '.join(self.values)}")


# -- what a release states --------------------------------------------------------------------------------------------


def claimed(model="differential"):
    """The level that a release states for the first claim of this model, and its δ where it has one."""

    def level(release, *pair):
        claim = next(c for c in release.certificate["claims"] if c["privacy"]["model"] == model)
        if model == "approximate":
            return claim["privacy"]["epsilon"], claim["level"]
        return claim["level"], 0.0

    return level


def of_unit(unit, records):
    """The ε that a release states for so many records of one household or person."""

    def level(release, *pair):
        levels = release.certificate["units"][unit]["levels"]
        return next(found["epsilon"] for found in levels if found["records"] == records), 0.0

    return level


def of_series(release, *pair):
    """The total ε that the ledger gave the release."""
    return release.certificate["series"]["total"]["epsilon"], 0.0


def of_distance(release, i, j):
    """ε for two categories whose ranks differ by so many steps, under a metric claim."""
    return claimed("metric")(release)[0] * abs(i - j), 0.0


def from_concentrated(delta):
    """(ε, δ) that follows from a stated ρ: ``ρ + 2 √(ρ ln(1/δ))`` (Bun and Steinke 2016)."""

    def level(release, *pair):
        rho = claimed("concentrated")(release)[0]
        return rho + 2 * np.sqrt(rho * np.log(1 / delta)), delta

    return level


def from_renyi(delta):
    """(ε, δ) that follows from a stated Rényi level of one order: ``level + ln(1/δ)/(order − 1)`` (Mironov 2017)."""

    def level(release, *pair):
        claim = next(c for c in release.certificate["claims"] if c["privacy"]["model"] == "renyi")
        return claim["level"] + np.log(1 / delta) / (claim["privacy"]["order"] - 1), delta

    return level


def stated(model):
    """The level of a claim as one number."""
    return lambda release: claimed(model)(release)[0]


def of_ranks(release):
    """The entropy that the release states for a rank, over that of 5 equal chances."""
    return release.certificate["numerical"][0]["bits"] / np.log2(5)
