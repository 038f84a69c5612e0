"""What a file exposes before and after perturbation: the informed attacker, and single persons and households."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import PostrandError, UsageError
from postrand.mechanism import Mechanism
from postrand.mechanism.units import warn_shared
from postrand.risk.by_size import alike
from postrand.risk.cells import FloatArray, IntArray, KeyCodes
from postrand.risk.data import code_data, key_codes, numeric, read_columns
from postrand.risk.facts_told import Told, told_facts
from postrand.risk.file import household_numbers
from postrand.risk.informed import Informed, Spread, informed
from postrand.risk.joint_households import informed_joint_risk, register_joint_risk
from postrand.risk.joint_split import register_split_risk
from postrand.risk.member_links import register_members
from postrand.risk.one_more import OneMore, found_too, known_too, most_first, most_varied
from postrand.risk.populations import ByModel, Inverse
from postrand.risk.shown_columns import Columns
from postrand.risk.split_law import Law, SplitLaw, law_of
from postrand.risk.split_risk import register_risk
from postrand.risk.weights import check_weights, individual_risk, is_whole


@dataclass(frozen=True, slots=True)
class Exposure:
    """Hold the risk from two attackers: ``file`` knows M and that the target is in the file, ``register`` does not.

    ``register`` is the spread of ``E(1/F | f)`` over the records, ``register_expected`` its sum, ``register_some`` and
    ``register_whole`` that of households with at least one, and all members identified; None where not known.
    ``joint`` and ``register_joint`` are those of households to attackers who know the keys of all members
    (:mod:`postrand.risk.joint_households`). Who knows all members can also look
    for each by itself, so that they are no smaller than ``file.some_member`` and ``register_some``: of the register
    attacker the larger risk of each household counts, of the informed one the larger of each figure, because simulated
    households have no order. ``of_estimates``: each figure of the register attacker is the larger of two estimates
    (:mod:`postrand.risk.populations`); else the model is too large, and they rest on the weights alone.
    """

    file: Informed
    register: Spread | None
    register_expected: float | None
    register_some: Spread | None
    register_whole: Spread | None
    joint: Spread | None = None
    register_joint: Spread | None = None
    of_estimates: bool = False

    def of_everybody(self) -> Exposure:
        """Return the figures where the file is the whole population: then the register says who is in the file.

        So the register attacker can do what the informed one does, and has no smaller figure.
        """
        file = self.file
        informed_figures = replace(
            self,
            register=file.individual,
            register_expected=file.anyone.expected,
            register_some=file.some_member,
            register_joint=self.joint,
        )
        return self.at_least(informed_figures)

    def at_least(self, other: Exposure) -> Exposure:
        """Return the larger figure of the register attacker by either of two estimates."""
        names = ("register", "register_some", "register_whole", "register_joint")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        larger: dict[str, Any] = {
            name: None if one is None else one.at_least(two) for name, (one, two) in pairs.items()
        }
        larger["register_expected"] = max(self.register_expected or 0.0, other.register_expected or 0.0)
        larger["of_estimates"] = True
        return replace(self, **larger)


@dataclass(frozen=True, slots=True, eq=False)
class TrueFile:
    """Hold the true keys of a file, its sampling weights and households; ``note`` says why there are no weights.

    ``weight`` is the column of the weights; empty where they are a sampling fraction's. ``columns`` are those beside
    the keys, which a release shows unperturbed where its mechanism leaves them so.
    """

    keys: KeyCodes
    weights: FloatArray | None
    household: IntArray | None
    note: str = ""
    weight: str = ""
    columns: Columns | None = field(default=None, repr=False)
    _model: ByModel = field(init=False, default_factory=ByModel, repr=False)

    @classmethod
    def read(
        cls, data: Any, codebook: Codebook, fraction: float | None = None, *, whole: Any = None
    ) -> TrueFile | None:
        """Read the keys, weight and household of the codebook's roles; a sampling ``fraction`` stands for weights.

        Where ``data`` have not all columns, ``whole`` has those beside the keys, in the same order of records.
        """
        names = [v.name for v in codebook.with_role("key") if v.is_categorical]
        if not names:
            return None
        keys = key_codes(code_data(data, names, codebook), names, "category")
        roles = {role: next((v.name for v in codebook.with_role(role)), None) for role in ("weight", "household")}
        read = read_columns(data, wanted) if (wanted := [n for n in roles.values() if n]) else {}
        weights, note = None, "no sampling fraction or weight was given"
        try:
            if fraction is not None:
                weights = np.full(keys.records, 1 / fraction)
            elif roles["weight"] is not None:
                found = numeric(read[roles["weight"]], roles["weight"])
                check_weights(found, roles["weight"])
                weights = found
        except PostrandError as error:
            note = str(error).rstrip(".")
        household = (
            None if roles["household"] is None else household_numbers(read[roles["household"]], roles["household"])
        )
        columns = Columns(data if whole is None else whole, codebook)
        weight = "" if fraction is not None or weights is None else roles["weight"] or ""
        return cls(keys, weights, household, "" if weights is not None else note, weight, columns)

    def law(self, mechanism: Mechanism) -> Law:
        """Return the law of a mechanism on the keys: of a block with other columns its mean over these in the file.

        Raises and warns as :func:`postrand.risk.split_law.law_of`.
        """
        try:
            return law_of(mechanism, self.keys.names, self.keys.shape, self.household)
        except UsageError:
            latent = None if self.columns is None else self.columns.latent(self.keys, mechanism, self.household)
            if latent is None or (found := latent.on_keys()) is None:
                raise
            warn_shared(mechanism, self.keys.names)
            return found

    def exposure(self, mechanism: Mechanism | None = None) -> Exposure:
        """Return the risk of the file as it is, or released by a mechanism.

        Raises
        ------
        UsageError
            If the file has no records, or the mechanism's law on the keys is not known.
        """
        law, seen = None if mechanism is None else self.law(mechanism), None
        weighed: tuple[str, ...] = ()
        if mechanism is not None and self.columns is not None:
            seen = self.columns.shown(self.keys, mechanism, self.household)
            weighed = self.columns.weighed(self.keys, mechanism, self.household)
        file = replace(informed(self.keys, law, household=self.household, shown=seen), latent=weighed)
        joint, register_joint = self._joint(law)
        both = None if joint is None or file.some_member is None else Spread.of(joint).at_least(file.some_member)
        found = Exposure(file, None, None, None, None, both)
        return found if self.weights is None else self._registers(found, register_joint, law)

    def known_too(self, mechanism: Mechanism) -> tuple[OneMore, ...]:
        """Return what attackers find who know one released column too, after and before, most correct matches first.

        What is true of it, where it is perturbed. See :func:`postrand.risk.one_more.known_too`. Raises as
        :meth:`exposure`.
        """
        if self.columns is None:
            return ()
        law, house = self.law(mechanism), self.household
        seen = self.columns.shown(self.keys, mechanism, house)
        values = self.columns.values(self.keys, mechanism)
        after = known_too(self.keys, law, values, household=house, shown=seen)
        found = [self._before(one, self.keys.with_column(one.name, *values[one.name])) for one in after]
        for both in most_varied(self.columns.perturbed(self.keys, mechanism)):
            try:
                own = replace(self, keys=both).law(mechanism)
            except PostrandError:  # of a block that has more variables no law on these alone is known
                continue
            one = found_too(both, own, household=house, shown=self.columns.shown(both, mechanism, house))
            found.append(self._before(one, both))
        return most_first(found)

    def told_facts(self, mechanism: Mechanism) -> tuple[Told, ...]:
        """Return how often who knows the keys and the record of a person guesses what is sensitive and perturbed.

        The record shows the unperturbed columns, too. A missing value that is kept is no fact. See
        :func:`postrand.risk.facts_told.told_facts`; left out is what is drawn once for a household or a person.
        """
        columns = self.columns
        wanted = [] if columns is None else columns.codebook.with_role("sensitive")
        shared = {name for names in mechanism.shared.values() for name in names}
        answers = {v.name: v.size for v in wanted if v.name in mechanism.variables and v.name not in shared}
        if columns is None or not answers or self.keys.has_wildcards or not self.keys.records:
            return ()
        known = columns.with_classes(self.keys, mechanism)
        latent = columns.latent(known, mechanism, self.household, every=True)
        if latent is None:
            return ()
        return told_facts(latent, answers, keys=len(self.keys.names), household=self.household)

    def _before(self, found: OneMore, keys: KeyCodes) -> OneMore:
        """Return it with the correct matches before, in the file: each person is one of those who share these keys."""
        return replace(found, before=float((1 / alike(keys, self.household)).sum()))

    def at_most(self, exposure: Exposure, mechanism: Mechanism) -> Exposure:
        """Return an ``exposure`` after a mechanism with upper bounds of the register attacker's figures.

        Nobody outside the file shares the keys of a record there, ``F = f``, so that ``E(1/F | f)`` is largest: what
        weights, which do not tell F where most records are alone, can make too low.
        """
        law = self.law(mechanism)
        alone = replace(self, weights=np.ones(self.keys.records))
        return alone._register(exposure, alone._joint_register(law), law, individual_risk)

    def _registers(self, found: Exposure, joint: FloatArray | None, law: Law | None) -> Exposure:
        """Return an exposure with the figures of the register attacker, each the larger of the estimates there are."""
        assert self.weights is not None, "asked for with weights"
        if is_whole(self.weights):
            return self._register(found, joint, law, individual_risk).of_everybody()
        first, *rest = (
            self._register(found, joint, law, one) for one in self._model.estimates(self.keys, self.weights)
        )
        return first.at_least(rest[0]) if rest else first

    def _register(self, found: Exposure, joint: FloatArray | None, law: Law | None, inverse: Inverse) -> Exposure:
        """Return an exposure with the figures of the register attacker by one estimate."""
        assert self.weights is not None, "asked for with weights"
        risk = register_risk(self.keys, self.weights, law, inverse)
        some, whole = None, None
        if self.household is not None:
            members, every_member = register_members(self.keys, self.weights, self.household, law, inverse)
            some, whole = Spread.of(members), Spread.of(every_member)
            joint = None if joint is None else np.maximum(joint, members)
        every = None if joint is None else Spread.of(joint)
        return Exposure(found.file, Spread.of(risk), float(risk.sum()), some, whole, found.joint, every)

    def _joint(self, law: Law | None) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the risks of households to attackers who know the keys of all members; None where not known."""
        if self.household is None:
            return None, None
        informed_risk = np.concatenate(informed_joint_risk(self.keys, self.household, law))
        return informed_risk, self._joint_register(law)

    def _joint_register(self, law: Law | None) -> FloatArray | None:
        if self.weights is None or self.household is None:
            return None
        if isinstance(law, SplitLaw):
            return register_split_risk(self.keys, self.weights, self.household, law)
        return register_joint_risk(self.keys, self.weights, self.household, law)
