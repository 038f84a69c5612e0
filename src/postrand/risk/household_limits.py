"""The largest risk of a household, as a measure that a level is searched for: the same figures as in a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from postrand.errors import DataError, UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.expected import Summary, information
from postrand.risk.informed import informed
from postrand.risk.joint_households import informed_joint_risk, register_joint_risk
from postrand.risk.law import KeyLaw
from postrand.risk.member_links import register_members
from postrand.risk.populations import ByModel
from postrand.risk.shown import Shown
from postrand.risk.shown_columns import Columns
from postrand.risk.weights import is_whole
from postrand.support.showing import few


def _informed(file: HouseholdLimit, law: KeyLaw | None) -> float:
    spread = informed(file.keys, law, household=file.household, shown=file.shown).some_member
    assert spread is not None, "households are given"
    return spread.largest


def _estimated(file: HouseholdLimit, law: KeyLaw | None) -> float:
    """Return the larger of the estimates, as :class:`postrand.risk.exposure.TrueFile` does."""
    estimates = file.model.estimates(file.keys, file.weights)
    found = (register_members(file.keys, file.weights, file.household, law, one)[0].max() for one in estimates)
    return float(max(found))


def _register(file: HouseholdLimit, law: KeyLaw | None) -> float:
    return max(_estimated(file, law), _informed(file, law) if is_whole(file.weights) else 0.0)


def _joint(file: HouseholdLimit, law: KeyLaw | None) -> float:
    alone = _informed(file, law)  # who knows all members can look for each by itself
    return max(float(np.concatenate(informed_joint_risk(file.keys, file.household, law)).max()), alone)


def _register_joint(file: HouseholdLimit, law: KeyLaw | None) -> float:
    alone = max(_estimated(file, law), _joint(file, law) if is_whole(file.weights) else 0.0)
    return max(float(register_joint_risk(file.keys, file.weights, file.household, law).max()), alone)


MEASURES: Mapping[str, Callable[[HouseholdLimit, KeyLaw | None], float]] = {
    "household_risk": _informed,
    "register_household_risk": _register,
    "joint_household_risk": _joint,
    "register_joint_household_risk": _register_joint,
}
"""The largest risk of a household by the names that a policy has for it; those of a register need weights."""


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdLimit:
    """Hold an unperturbed file, whose households are to have a risk of at most the limit; ``weights`` (n,) or ones.

    ``columns`` are those beside the keys, and ``shown`` what they show of the keys in a release.
    """

    measure: str
    keys: KeyCodes
    weights: FloatArray
    household: IntArray
    columns: Columns | None = None
    shown: Shown | None = None
    model: ByModel = field(init=False, default_factory=ByModel, repr=False)

    def unperturbed(self) -> Summary:
        """Return the summary of the file as it is."""
        law = KeyLaw.of(None, self.keys.names, self.keys.shape)
        return self._summary(self._risk(None), law)

    def under(self, mechanism: Mechanism, draws: int, seed: int) -> Summary:
        """Return the summary of a release, by the figures of a policy: these have their own draws and seed."""
        mechanism.require_no_split("the search for a level")
        law = KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        if "person" in law.units:
            what = f"{self.measure} does not know who draws together of a household, and keys are drawn for a person"
            raise UsageError(sentence(what, fix="search with a limit on tau1, tau2 or correct matches"))
        self._require_alike(law)
        seen = None if self.columns is None else self.columns.shown(self.keys, mechanism, self.household)
        return self._summary(replace(self, shown=seen)._risk(law), law)

    def _require_alike(self, law: KeyLaw) -> None:
        """Raise DataError where members differ in a key that is drawn once for their household."""
        _, of = np.unique(self.household, return_inverse=True)
        at = sorted({j for b, unit in enumerate(law.units) if unit == "household" for j in law.positions[b]})
        differs = []
        for j in at:
            codes = self.keys.codes[j]
            one = np.zeros(int(of.max()) + 1, dtype=codes.dtype)
            one[of] = codes
            differs += [self.keys.names[j]] if (one[of] != codes).any() else []
        if differs:
            what = f"records of a household differ in {few(differs)}, which is drawn once for it"
            raise DataError(sentence(what, fix="correct the file, or take the key out of household_variables"))

    def _risk(self, law: KeyLaw | None) -> float:
        return MEASURES[self.measure](self, law)

    def _summary(self, risk: float, law: KeyLaw) -> Summary:
        cells = table(self.keys)
        unchanged = float((law.diagonal(cells.codes) * cells.counts).sum() / max(self.keys.records, 1))
        return risk, 0.0, risk, information(law, cells), unchanged
