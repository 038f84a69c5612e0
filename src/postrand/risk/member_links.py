"""Whether at least one member of a household is found, and each of them: by how the draws of its members go together.

With the risks ``r_i`` of its members, taken as independent: ``1 − Π(1 − r_i)`` and ``Π r_i``. Other laws are:

- Keys that are drawn once for the household stay for all its members, with probability s, or for none: given that,
  members are independent, so that ``s (1 − Π(1 − r_i/s))`` and ``s Π r_i/s``.
- Of a split that one random member shows, with risks ``a_i`` of a member who is shown and ``b_i`` of one who is not:
  ``(1/k) Σ_i [1 − (1 − a_i) Π_{j≠i} (1 − b_j)]`` and ``(1/k) Σ_i a_i Π_{j≠i} b_j``. Where all keys are in the split the
  ``b_j`` are 0, and the first is the sum of the ``a_i/k``: no two members are found in one release.
"""

from __future__ import annotations

import numpy as np

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.populations import Inverse
from postrand.risk.split_law import Law, SplitLaw
from postrand.risk.split_risk import part_risk, register_risk
from postrand.risk.weights import household_risk, individual_risk, whole_household_risk


def register_members(
    keys: KeyCodes, weights: FloatArray, household: IntArray, law: Law | None = None, inverse: Inverse = individual_risk
) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities that the register attacker finds a member of each household, and each member, (H,) each.

    By ascending number; the formulas of the module with the risks of :func:`split_risk.register_risk`. Where keys are
    drawn once for a household *and* there is a split, members count as independent, which makes the first too large.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 1, 1]),))
    >>> register_members(keys, np.ones(3), np.array([7, 7, 8]))[0].tolist()
    [1.0, 0.5]
    """
    _, first, of = np.unique(household, return_index=True, return_inverse=True)
    if isinstance(law, SplitLaw) and law.household is not None:
        return _one_shown(keys, weights, of, law, inverse)
    risk, stay = register_risk(keys, weights, law, inverse), np.ones(keys.records)
    if isinstance(law, KeyLaw) and law.shares_households:
        cells = table(keys)
        stay = law.diagonal(cells.codes, "household")[cells.record_cell]
        risk = np.divide(risk, stay, out=np.zeros_like(risk), where=stay > 0)
    return (stay * household_risk(risk, of))[first], (stay * whole_household_risk(risk, of))[first]


def _one_shown(
    keys: KeyCodes, weights: FloatArray, of: IntArray, law: SplitLaw, inverse: Inverse
) -> tuple[FloatArray, FloatArray]:
    """Return both probabilities where one random member of each household, ``of`` (n,) from 0, shows a subset."""
    hidden, shown = part_risk(keys, weights, law.parts[law.hidden], inverse), np.zeros(keys.records)
    for part, chance in zip(law.parts, law.chosen().tolist(), strict=True):
        shown += chance * part_risk(keys, weights, part, inverse)
    sizes = np.bincount(of)
    some = np.bincount(of, 1 - (1 - shown) * _of_others(1 - hidden, of)) / sizes
    whole = np.bincount(of, shown * _of_others(hidden, of)) / sizes
    return np.clip(some, 0.0, 1.0), np.clip(whole, 0.0, 1.0)


def _of_others(factors: FloatArray, of: IntArray) -> FloatArray:
    """Return ``Π_{j≠i} f_j`` over the other members of each record's household, (n,); factors are >= 0, some 0."""
    zero = factors == 0
    zeros = np.bincount(of, zero)[of] - zero
    logs = np.log(np.where(zero, 1.0, factors))
    return np.where(zeros > 0, 0.0, np.exp(np.bincount(of, logs)[of] - logs))


def claimed_members(claimed: FloatArray, household: IntArray, law: Law | None = None) -> tuple[FloatArray, FloatArray]:
    """Return what an attacker claims who links each member by itself: at least one is found, and each, (H,) each.

    ``claimed`` (n,) is the posterior of the best link of each record. Without a law, or where members show what they
    show by themselves, as if links were independent: links of members who are together are rather found together, so
    that the first is rather too large. Where one member of each household shows a split, the links of two members
    exclude each other as far as it goes: then ``min(1, Σ r_i)`` and ``min r_i``, never below the truth.

    Examples
    --------
    >>> claimed_members(np.array([0.5, 0.25]), np.array([3, 3]))[0].tolist()
    [0.625]
    """
    _, first, of = np.unique(household, return_index=True, return_inverse=True)
    if not (isinstance(law, SplitLaw) and law.household is not None):
        return household_risk(claimed, household)[first], whole_household_risk(claimed, household)[first]
    least = np.ones(first.size)
    np.minimum.at(least, of, claimed)
    return np.minimum(np.bincount(of, claimed), 1.0), least
