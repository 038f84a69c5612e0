"""Households whose members' keys are all known: against enumeration of all releases, and against simulated attacks."""

import itertools
import math

import numpy as np
import pytest

from postrand.codebook import Codebook, Variable
from postrand.errors import UsageError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.plan.policy import policy_from_dict
from postrand.risk import tune
from postrand.risk.cells import KeyCodes, table
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import Spread
from postrand.risk.joint_households import (
    LARGEST,
    _claims,
    _Members,
    _of_part,
    informed_joint_risk,
    joint_frequency,
    register_joint_risk,
)
from postrand.risk.joint_split import register_split_risk
from postrand.risk.law import KeyLaw, releases
from postrand.risk.split_law import law_of
from postrand.risk.split_risk import register_risk
from postrand.risk.weights import expected_inverse, household_risk
from postrand.workflow.comparison_risk import exposure_figures

SHAPE = (2, 3)
LAW = KeyLaw.of(Mechanism({"a": randomised_response(2, 1.5), "b": randomised_response(3, 2.0)}), ("a", "b"), SHAPE)
FULL = np.kron(*LAW.matrices)


def people(sizes, seed=0):
    """Return keys of households of these sizes, and their numbers."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    keys = KeyCodes(("a", "b"), SHAPE, tuple(rng.integers(0, k, n) for k in SHAPE))
    return keys, np.repeat(np.arange(len(sizes)), sizes)


def cells_of(keys):
    return keys.codes[0] * 3 + keys.codes[1]


def chance(true, wanted):
    """Return the probability that members of these cells are released as this multiset: every release is tried."""
    return sum(
        math.prod(FULL[x, z] for x, z in zip(true, shown, strict=True))
        for shown in itertools.product(range(6), repeat=len(true))
        if sorted(shown) == sorted(wanted)
    )


def test_the_joint_key_stays_as_often_as_all_releases_say_and_counts_households():
    sizes = [1, 2, 2, 3, 4, 3, 2, 1, 1]
    keys, household = people(sizes)
    order = np.random.default_rng(1).permutation(household.size)  # members of a household need not be neighbours
    keys, household = keys.take(order), household[order]
    weights = np.random.default_rng(2).uniform(2, 9, len(sizes))
    found = register_joint_risk(keys, weights[household], household, LAW)
    plain = register_joint_risk(keys, weights[household], household)
    joint = [tuple(sorted(cells_of(keys)[household == h].tolist())) for h in range(len(sizes))]
    same = np.array([[one == other for other in joint] for one in joint])
    assert joint_frequency(table(keys), household).tolist() == same.sum(axis=1).tolist()
    for h, members in enumerate(joint):
        f = int(same[h].sum())
        expected = expected_inverse(np.array([f]), np.array([f / weights[same[h]].sum()]))[0]
        assert plain[h] == pytest.approx(expected, rel=1e-12)
        assert found[h] == pytest.approx(expected * chance(members, members), rel=1e-12)


def test_the_informed_attacker_is_the_rule_of_bayes_written_out():
    sizes = [2, 2, 2, 3, 3, 1]
    keys, household = people(sizes, 3)
    said = np.concatenate(informed_joint_risk(keys, household, LAW, seed=5))
    rng = np.random.default_rng([5, 22])
    wanted = []
    for drawn in releases(LAW, keys, rng.integers(2**31, size=3).tolist()):
        for size in sorted(set(sizes)):
            of = [h for h, s in enumerate(sizes) if s == size]
            true, shown = ([cells_of(k)[household == h].tolist() for h in of] for k in (keys, drawn))
            law = np.array([[chance(x, z) for z in shown] for x in true])
            weight = law / law.mean(axis=0)
            wanted += (weight.max(axis=1) / weight.sum(axis=1)).tolist()
    assert said == pytest.approx(np.array(wanted), rel=1e-10)
    assert informed_joint_risk(keys, household)[0] == pytest.approx(1 / joint_frequency(table(keys), household))


SPLIT = Split.of(
    [0.5, 0.25, 0.25],
    [
        Block(("a", "b"), randomised_response(6, 2.5)),
        Block(("b",), TransitionMatrix.from_array(np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]]))),
        Block(("c",), randomised_response(2, 1.0)),
    ],
)
KEYS = tuple(Variable(n, role="key", categories=tuple("xyz"[:k])) for n, k in (("a", 2), ("b", 3)))
SPLIT_LAW = law_of(
    Mechanism([], Codebook((*KEYS, Variable("c", role="sensitive", categories=("n", "y")))), split=SPLIT), "ab", SHAPE
)


def shown_chance(x, z):
    """Return the probability that a member with codes x is released as z, code 2 or 3 being a key that is not shown."""
    (both, one, _), (pa, pb) = [block.matrix.array for block in SPLIT.blocks], (z[0] < 2, z[1] < 3)
    if pa and pb:
        return 0.5 * both[x[0] * 3 + x[1], z[0] * 3 + z[1]]
    return 0.25 * one[x[1], z[1]] if pb else 0.25 if not pa else 0.0


def test_the_register_attacker_of_a_split_is_what_all_releases_say(monkeypatch):
    """Every release is tried, of all members in every way; a household matches if its members can show it truly."""
    sizes = [1, 1, 2, 2, 2, 2, 3, 3]
    keys, household = people(sizes, 8)
    weights = np.random.default_rng(2).uniform(2, 9, len(sizes))
    found = register_split_risk(keys, weights[household], household, SPLIT_LAW)
    true = np.stack(keys.codes, axis=1)
    every = [(a, b) for a in range(2) for b in range(3)] + [(2, b) for b in range(3)] + [(2, 3)]

    def fits(members, shown):
        orders = itertools.permutations(shown)
        return any(
            all(
                t in (z, hidden)
                for x, y in zip(members, order, strict=True)
                for t, z, hidden in zip(y, x, SHAPE, strict=True)
            )
            for order in orders
        )

    for h, size in enumerate(sizes):
        members, expected = true[household == h], 0.0
        for shown in itertools.product(every, repeat=size):
            if not fits(members, shown):
                continue
            same = [k for k, many in enumerate(sizes) if many == size and fits(true[household == k], shown)]
            inverse = expected_inverse(np.array([len(same)]), np.array([len(same) / weights[same].sum()]))[0]
            expected += inverse * math.prod(shown_chance(x, z) for x, z in zip(members, shown, strict=True))
        assert found[h] == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr("postrand.risk.joint_split.WAYS", 9)  # 10 ways of three members: some are drawn
    drawn = [register_split_risk(keys, weights[household], household, SPLIT_LAW, seed) for seed in range(60)]
    assert np.mean(drawn, axis=0) == pytest.approx(found, rel=0.1)


def test_the_informed_attacker_of_a_split_is_the_rule_of_bayes_written_out():
    """Members show both keys, one, or none; every order of the released members is tried."""
    sizes = [2, 2, 2, 3, 3, 1, 2, 1]
    keys, household = people(sizes, 3)
    said = np.concatenate(informed_joint_risk(keys, household, SPLIT_LAW, seed=5))
    rng = np.random.default_rng([5, 22])
    wanted = []
    for drawn in SPLIT_LAW.drawn(keys, rng.integers(2**31, size=3).tolist()):
        codes = [list(zip(*(column.tolist() for column in k.codes), strict=True)) for k in (keys, drawn)]
        for size in sorted(set(sizes)):
            of = [h for h, s in enumerate(sizes) if s == size]
            true, shown = ([[c[i] for i in np.flatnonzero(household == h)] for h in of] for c in codes)
            law = [
                [
                    sum(
                        math.prod(map(shown_chance, x, order))
                        for order in set(itertools.permutations(z))  # each multiset is reached by its different orders
                    )
                    for z in shown
                ]
                for x in true
            ]
            weight = np.array(law) / np.mean(law, axis=0)
            wanted += (weight.max(axis=1) / weight.sum(axis=1)).tolist()
    assert said == pytest.approx(np.array(wanted), rel=1e-10)


def best_links(law):
    """Return what is claimed of each target's best link, and the probability that it is right; (m, m) likelihoods."""
    weight = law / law.mean(axis=0)
    best = weight.max(axis=1, keepdims=True)
    tied = weight >= best * (1 - 1e-9)
    return best[:, 0] / weight.sum(axis=1), tied.diagonal() / tied.sum(axis=1)


@pytest.mark.statistical
def test_claims_of_the_informed_attacker_are_the_links_that_are_right():
    """Attack 200 releases: the share of correct matches, alpha 1e-6."""
    rng = np.random.default_rng(7)
    members = rng.integers(0, 6, (60, 3))
    claims, rights = [], []
    for _ in range(200):
        shown = (rng.random((60, 3, 1)) > np.cumsum(FULL, axis=1)[members]).sum(axis=2)
        orders = list(itertools.permutations(range(3)))
        law = sum(FULL[members[:, None], shown[None, :, order]].prod(axis=2) for order in orders)
        claimed, right = best_links(law)
        claims.append(claimed.mean())
        rights.append(right.mean())
    error = np.std(np.subtract(claims, rights)) / np.sqrt(200)
    assert abs(np.mean(claims) - np.mean(rights)) < 4.9 * error + 0.01  # others are not quite independent


WIDE = (4, 5, 6)
WIDE_LAW = KeyLaw.of(Mechanism({n: randomised_response(k, 2.5) for n, k in zip("abc", WIDE, strict=True)}), "abc", WIDE)


def couples(many):
    """Return keys of couples, of whom some values are rare, and their numbers."""
    rng = np.random.default_rng(3)
    codes = tuple(np.minimum(rng.geometric(0.35, 2 * many) - 1, k - 1) for k in WIDE)
    return KeyCodes(tuple("abc"), WIDE, codes), np.repeat(np.arange(many), 2)


@pytest.mark.statistical
def test_many_households_of_one_size_are_all_compared():
    """Every pair of 4,000 couples is tried: claims of the same releases, and correct matches of an attack on them."""
    keys, household = couples(4000)
    said = informed_joint_risk(keys, household, WIDE_LAW, seed=5)
    full, rng = np.kron(np.kron(*WIDE_LAW.matrices[:2]), WIDE_LAW.matrices[2]), np.random.default_rng([5, 22])
    right = []
    for mine, drawn in zip(said, releases(WIDE_LAW, keys, rng.integers(2**31, size=3).tolist()), strict=True):
        x, z = (np.ravel_multi_index(k.codes, WIDE).reshape(-1, 2) for k in (keys, drawn))
        one, two = full[x[:, 0]], full[x[:, 1]]
        law = one[:, z[:, 0]] * two[:, z[:, 1]] + one[:, z[:, 1]] * two[:, z[:, 0]]
        claimed, found = best_links(law)
        assert mine == pytest.approx(claimed, rel=1e-9)
        right.append(found)
    error = np.std(right) / np.sqrt(np.size(right))
    assert abs(np.mean(right) - np.mean(said)) < 4.9 * error


@pytest.mark.parametrize("share", [2, 4])
def test_a_part_of_the_targets_stands_for_all(share, monkeypatch):
    """Each target is compared with all: the mean is that of all pairs (half of them alone: 20% less)."""
    keys, household = couples(1000)
    whole = np.concatenate(informed_joint_risk(keys, household, WIDE_LAW))
    monkeypatch.setattr("postrand.risk.joint_households.WORK", 850 * 850 * 8 // share)  # there are about 850 joint keys
    parts = [informed_joint_risk(keys, household, WIDE_LAW, seed) for seed in range(8)]
    means = np.array(parts).mean(axis=(1, 2))
    assert means.mean() == pytest.approx(whole.mean(), rel=0.06)
    monkeypatch.setattr("postrand.risk.joint_households.TABLE", 0)  # entries are computed piece by piece
    monkeypatch.setattr("postrand.risk.joint_households.WORK", 10**12)
    assert np.concatenate(informed_joint_risk(keys, household, WIDE_LAW)) == pytest.approx(whole, rel=1e-12)


def test_a_part_that_is_the_whole_has_the_figures_of_the_whole():
    keys, _ = people([2] * 40, 9)
    true, released = (
        np.sort(cells_of(keys).reshape(-1, 2), axis=1),
        np.sort(cells_of(keys).reshape(-1, 2)[::-1], axis=1),
    )
    kinds = np.array(list(itertools.product(range(2), range(3))))
    members = _Members(LAW, kinds, kinds)
    shown, of, many = np.unique(released, axis=0, return_inverse=True, return_counts=True)
    own = np.bincount(of.ravel(), members.likelihood(true, released))
    part = _of_part(members, true, shown, own, many, of.ravel())
    assert part == pytest.approx(_claims(members, true, released, np.random.default_rng(1)), rel=1e-12)


def test_large_households_and_shares_of_sizes():
    sizes = [LARGEST + 1] * 2 + [1] * 4
    keys, household = people(sizes, 4)
    weights = np.full(household.size, 4.0)
    assert register_joint_risk(keys, weights, household, LAW)[0] == register_joint_risk(keys, weights, household)[0]
    assert all(one.size == len(sizes) for one in informed_joint_risk(keys, household, LAW))


def frame(n=60):
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 3, n), rng.integers(0, 4, n)
    return {
        "a": np.array(["x", "y", "z"])[codes[0]].tolist(),
        "b": np.array(["p", "q", "r", "s"])[codes[1]].tolist(),
        "h": (np.arange(n) // 2).tolist(),
        "w": np.full(n, 8.0).tolist(),
    }


BOOK = Codebook(
    (
        Variable("a", role="key", categories=("x", "y", "z")),
        Variable("b", role="key", categories=("p", "q", "r", "s")),
        Variable("h", role="household", type="int64"),
        Variable("w", role="weight", type="double"),
    )
)
SPREADS = {
    "household_risk": lambda e: e.file.some_member,
    "register_household_risk": lambda e: e.register_some,
    "joint_household_risk": lambda e: e.joint,
    "register_joint_household_risk": lambda e: e.register_joint,
}


@pytest.mark.parametrize("measure", list(SPREADS))
def test_tune_meets_a_limit_as_the_policy_measures_it(measure, monkeypatch):
    monkeypatch.setattr("postrand.risk.informed.MOST_RELEASES", 2)
    data = frame()
    truth = TrueFile.read(data, BOOK)
    assert truth is not None
    before = SPREADS[measure](truth.exposure())
    assert isinstance(before, Spread)
    limit = before.largest * 0.5
    found = tune(data, ["a", "b"], f"{measure} <= {limit}", weight="w", household="h", codebook=BOOK, tolerance=0.7)
    assert found.needed
    after = SPREADS[measure](truth.exposure(found.mechanism))
    assert isinstance(after, Spread)
    assert after.largest <= limit
    told = {one.code: one.measure for one in exposure_figures(truth.exposure(), None, "")}
    is_estimate = "register attacker: an estimate, not an upper bound" in told[measure]
    assert is_estimate == (measure == "register_joint_household_risk")
    assert after.largest == next(p.risk for p in found.points if p.level == found.level)
    assert found.points[-1].risk == before.largest
    assert policy_from_dict({"rules": [{"measure": measure, "at_most": 0.1}]}).rules[0].kind == "risk"


def test_a_limit_on_households_says_what_is_missing():
    with pytest.raises(UsageError, match="household"):
        tune(frame(), ["a", "b"], "household_risk <= 0.2", weight="w")


@pytest.mark.parametrize("law", [None, 1.0])
def test_who_knows_all_members_is_no_weaker_than_who_looks_for_each(law):
    cells = np.array([0, 1, 2, 3, 4, 5, 6, 7, 6, 8, 7, 8, 6, 6, 7, 7, 8, 8])  # rare members; common ones, rare together
    keys, household = KeyCodes(("a", "b"), (3, 3), (cells // 3, cells % 3)), np.arange(18) // 2
    weights, mechanism = np.full(18, 10.0), None
    if law is not None:
        mechanism = Mechanism({name: randomised_response(3, law) for name in "ab"})
    found = TrueFile(keys, weights, household).exposure(mechanism)
    key_law = None if mechanism is None else law_of(mechanism, keys.names, keys.shape)
    _, first = np.unique(household, return_index=True)
    alone = household_risk(register_risk(keys, weights, key_law), household)[first]
    linked = register_joint_risk(keys, weights, household, key_law)
    assert (alone > linked).any()
    assert (linked > alone).any()
    assert found.register_joint.mean == pytest.approx(np.mean([max(pair) for pair in zip(alone, linked, strict=True)]))
    assert found.joint.mean >= found.file.some_member.mean
    assert found.joint.largest >= found.file.some_member.largest
