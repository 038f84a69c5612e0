"""The report of a risk assessment: a value that can be shown without showing a record."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from postrand.risk.cells import FloatArray, IntArray
from postrand.risk.counts import KAnonymity, LDiversity
from postrand.risk.informed import Spread
from postrand.risk.readings import LINE, Readings
from postrand.risk.tau import Tau, is_told_by_estimates
from postrand.support.measure_names import BY_WEIGHTS, OF_ESTIMATES, OF_WEIGHTS, keys_alone, records_on
from postrand.support.showing import SMALL, counted, outward, outward_percent, show_whole


@dataclass(frozen=True, slots=True, eq=False)
class RecordRisk:
    """Risks of single records, for internal use only: never part of a report that leaves the agency.

    ``frequency`` (n,) is the number of records in the record's cell; ``tau1`` and ``tau2`` (n,) are ``P(F=1 | f=1)``
    and ``E(1/F | f=1)`` of sample uniques, 0 for other records; ``weights`` (n,) the risk from the sampling weights,
    ``household`` (n,) that of the record's household; None where not asked for.
    """

    frequency: IntArray
    tau1: FloatArray | None = None
    tau2: FloatArray | None = None
    weights: FloatArray | None = None
    household: FloatArray | None = None

    def worst(self, most: int = 10) -> IntArray:
        """Return the positions of the riskiest records, first the riskiest."""
        risk = next((r for r in (self.tau2, self.weights) if r is not None), 1 / np.maximum(self.frequency, 1))
        return np.argsort(-risk, kind="stable")[:most]


NO_RECORDS = RecordRisk(np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class HouseholdRisk:
    """Hold the risk of households to the register attacker; ``some``: at least one member is matched correctly.

    ``1 − Π(1 − r_i)`` over its members, r being a person's probability of a correct match, before or after
    perturbation; matches of members count as independent. ``joint``: the attacker knows the keys of all members, and
    links households by size and keys. ``informed_some`` and ``informed_joint`` are those of the informed attacker. All
    but ``some`` need the true file: None after perturbation.
    """

    households: int
    some: Spread
    joint: Spread | None
    informed_some: Spread | None = None
    informed_joint: Spread | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        informed = _parts(self.informed_some, self.informed_joint)
        own = {"informed": informed} if any(informed.values()) else {}
        return {"households": self.households, **_parts(self.some, self.joint), **own}

    def lines(self) -> Iterator[str]:
        """Yield the lines of a report: how many households, and what each attacker finds."""
        yield LINE.format("households", f"{self.households:,}")
        pairs = (("informed", self.informed_some, self.informed_joint), ("register", self.some, self.joint))
        for who, some, joint in pairs:
            both = [("a member found", some), ("all members' keys known", joint)]
            told = [
                f"{what}: mean {outward_percent(one.mean)}, largest {outward_percent(one.largest)}"
                for what, one in both
                if one is not None
            ]
            if told:
                yield LINE.format("", f"{who} attacker: {'; '.join(told)}")


def _parts(some: Spread | None, joint: Spread | None) -> dict[str, Any]:
    found = {"some_member": some, "joint_key": joint}
    return {k: None if one is None else {"mean": one.mean, "largest": one.largest} for k, one in found.items()}


@dataclass(frozen=True, slots=True)
class RiskReport:
    """Hold the disclosure risk of a file on its key variables.

    ``tau1`` is the expected number of sample uniques that are population unique, ``tau2`` the expected number of
    correct matches when each sample unique is matched once; None where neither sampling fraction nor weights were
    given. ``readings`` has the informed and the register attacker of a file that was not perturbed. ``status`` says
    whether the model's fit converged. ``recoded`` are the keys and the weight that the codebook recodes.
    ``records_at`` holds risks of single records and is left out of text, ``repr`` and ``to_dict``.
    """

    key_variables: tuple[str, ...]
    records: int
    cells: int
    occupied: int
    sample_uniques: int
    k_anonymity: KAnonymity
    l_diversity: Mapping[str, LDiversity]
    model: str | None
    status: str
    tau1_estimate: Tau | None
    tau2_estimate: Tau | None
    expected_reidentifications: float | None
    readings: Readings | None
    notes: tuple[str, ...]
    records_at: RecordRisk = field(repr=False, compare=False)
    households: HouseholdRisk | None = None
    recoded: tuple[str, ...] = ()

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        uniques = f"{counted(self.sample_uniques)} sample uniques"
        return f"RiskReport({', '.join(self.key_variables)}: {self.records:,} records, {uniques})"

    @property
    def tau1(self) -> float | None:
        """The estimated number of sample uniques that are population unique."""
        return None if self.tau1_estimate is None else self.tau1_estimate.value

    @property
    def tau2(self) -> float | None:
        """The estimated number of correct matches among sample uniques."""
        return None if self.tau2_estimate is None else self.tau2_estimate.value

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, fit to be published: no record, no cell, counts below 5 as ``"<5"``."""
        below = {str(k): _shown(n) for k, n in self.k_anonymity.records_below.items()}
        return {
            "key_variables": list(self.key_variables),
            **({"recoded": list(self.recoded)} if self.recoded else {}),
            "records": self.records,
            "cells": self.cells,
            "occupied_cells": self.occupied,
            "sample_uniques": _shown(self.sample_uniques),
            "k_anonymity": {"k": self.k_anonymity.k, "records_below": below},
            "l_diversity": {
                name: {"distinct": value.distinct, "entropy": value.entropy} for name, value in self.l_diversity.items()
            },
            "model": self.model,
            "status": self.status,
            "tau1": _shown(self.sample_uniques) if self._is_small else _tau_dict(self.tau1_estimate),
            "tau2": _shown(self.sample_uniques) if self._is_small else _tau_dict(self.tau2_estimate),
            "expected_reidentifications": self.expected_reidentifications,
            "readings": None if self.readings is None else dataclasses.asdict(self.readings),
            **({} if self.households is None else {"household_risk": self.households.to_dict()}),
            "notes": [*self.notes, *keys_alone(self.key_variables)],
        }

    @property
    def _is_small(self) -> bool:
        return self.tau1_estimate is not None and is_told_by_estimates(self.sample_uniques)

    def _tau(self, estimate: Tau) -> str:
        return counted(self.sample_uniques) if self._is_small else str(estimate)

    def _estimates(self) -> Iterator[str]:
        """Yield what the figures of the register attacker rest on."""
        if self.readings is not None and self.readings.by_weights is not None:
            yield OF_WEIGHTS if self.readings.journalist is None else OF_ESTIMATES

    def exact(self) -> dict[str, Any]:
        """Return the figures of the file as plain data for JSON, small counts too: internal, unlike :meth:`to_dict`.

        The attackers' readings, households and single records are left out: :meth:`of_exact` has none.
        """
        left = ("readings", "households", "records_at")
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in left}
        tables = {name: dataclasses.asdict(value) for name, value in self.l_diversity.items()}
        nested = {name: value and dataclasses.asdict(value) for name, value in plain.items() if name in _NESTED}
        return {**plain, **nested, "l_diversity": tables}

    @classmethod
    def of_exact(cls, plain: Mapping[str, Any]) -> RiskReport:
        """Return the report of what :meth:`exact` returned, also after JSON."""
        k, taus = plain["k_anonymity"], {name: plain[name] for name in ("tau1_estimate", "tau2_estimate")}
        parts: dict[str, Any] = {
            "key_variables": tuple(plain["key_variables"]),
            "k_anonymity": KAnonymity(k["k"], {int(size): n for size, n in k["records_below"].items()}),
            "l_diversity": {name: LDiversity(**value) for name, value in plain["l_diversity"].items()},
            **{name: None if tau is None else _tau_of(tau) for name, tau in taus.items()},
            "notes": tuple(plain["notes"]),
            "recoded": tuple(plain.get("recoded", ())),  # an earlier version stored none
        }
        return cls(**{**plain, **parts}, readings=None, records_at=NO_RECORDS)

    def without_records(self) -> RiskReport:
        """Return the report without the risks of single records, which take much memory: nothing shown has them."""
        return dataclasses.replace(self, records_at=NO_RECORDS)

    def __str__(self) -> str:
        """Return the report as text; like :meth:`to_dict` it is fit to be published."""
        lines = [
            records_on(self.records, self.key_variables, self.recoded),
            f"  cells                 {self.cells:,}, of which occupied {self.occupied:,}",
            f"  sample uniques        {counted(self.sample_uniques)}",
            f"  k-anonymity           k = {self.k_anonymity.k}; records in classes below "
            + ", ".join(f"{k}: {counted(n)}" for k, n in self.k_anonymity.records_below.items()),
        ]
        for name, value in self.l_diversity.items():
            lines.append(f"  l-diversity of {name}: distinct {value.distinct}, entropy {value.entropy:.2f}")
        if self.tau1_estimate is not None and self.tau2_estimate is not None:
            lines += [
                f"  population uniques    {self._tau(self.tau1_estimate)} among the sample uniques (tau1)",
                f"  correct matches       {self._tau(self.tau2_estimate)} among the sample uniques (tau2)",
                f"  model                 {'' if self.model is None else f'{self.model}; '}{self.status}",
            ]
        if self.readings is not None:
            lines += self.readings.lines(self.records)
        elif self.expected_reidentifications is not None:
            links = outward(self.expected_reidentifications)
            lines.append(f"  register attacker     {links} correct matches of all records, {BY_WEIGHTS}")
        if self.households is not None:
            lines += self.households.lines()
        told = [*self._estimates(), *keys_alone(self.key_variables)]
        return "\n".join([*lines, *(f"  note: {note}" for note in (*self.notes, *told))])


_NESTED = ("k_anonymity", "tau1_estimate", "tau2_estimate")


def _tau_of(plain: Mapping[str, Any]) -> Tau:
    interval = plain["interval"]
    return Tau(**{**plain, "interval": None if interval is None else tuple(interval)})


def _shown(count: int) -> int | str:
    return f"<{SMALL}" if 0 < count < SMALL else count


def _tau_dict(tau: Tau | None) -> dict[str, Any] | None:
    if tau is None:
        return None
    interval = None if tau.interval is None else list(tau.interval)
    plain = {"value": tau.value, "standard_error": tau.standard_error, "bias": tau.bias}
    return {**plain, "corrected": tau.corrected, "interval": interval}
