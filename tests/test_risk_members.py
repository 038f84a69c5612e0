"""Risk of households whose members do not draw apart: one of them shows a split, or all share a draw of the household.

Every release of tiny files is enumerated, with the probabilities of the matrices alone.
"""

import functools
import itertools
import math

import numpy as np
import pytest

from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.risk import assess, tune
from postrand.risk.attack import link
from postrand.risk.cells import KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.risk.household_limits import HouseholdLimit
from postrand.risk.joint_households import informed_joint_risk, register_joint_risk
from postrand.risk.joint_split import register_split_risk
from postrand.risk.law import KeyLaw, releases, together
from postrand.risk.member_links import claimed_members, register_members
from postrand.risk.split_law import SplitLaw, law_of
from postrand.risk.weights import expected_inverse
from postrand.support.measure_names import LARGEST

NAMES, SHAPE = ("a", "b", "d"), (2, 3, 2)
B3 = TransitionMatrix.from_array(np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]]))
BOOK = Codebook(
    (
        *(Variable(n, role="key", categories=tuple("xyz"[:k])) for n, k in zip(NAMES, SHAPE, strict=True)),
        Variable("c", role="sensitive", categories=("n", "y")),
        Variable("h", role="household", type="int64"),
    )
)
HOME = Units(household="h", largest_household=6)
SPLIT = Split.of(
    [0.5, 0.3, 0.2],
    [
        Block(("a", "b"), randomised_response(6, 2.5), unit="household"),
        Block("b", B3, unit="household"),
        Block("c", randomised_response(2, 1.0), unit="household"),
    ],
)
D = Block("d", randomised_response(2, 1.2))
SIZES = [1, 1, 2, 2, 2, 2, 3, 3]


def people(sizes, seed=8):
    """Return keys of households of these sizes, their numbers, and weights; members need not be neighbours."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(sum(sizes))
    household = np.repeat(np.arange(len(sizes)), sizes)[order]
    codes = tuple(rng.integers(0, k, order.size) for k in SHAPE)
    return KeyCodes(NAMES, SHAPE, codes), household, rng.uniform(2, 9, len(sizes))


def split_law(household, keys=3, *, apart=True):
    """Return the law of the first keys, the third of which is drawn for each record unless it is left out."""
    own = [D] if apart else []
    mechanism = Mechanism(own, BOOK, split=SPLIT, units=HOME)
    return law_of(mechanism, NAMES[:keys], SHAPE[:keys], household)


def shown(x):
    """Yield what a member with codes x can show who is chosen, -1 for a key not shown, with probabilities."""
    both, one, _ = (block.matrix.array for block in SPLIT.blocks)
    for a, b in itertools.product(range(2), range(3)):
        yield (a, b), 0.5 * both[x[0] * 3 + x[1], a * 3 + b]
    for b in range(3):
        yield (-1, b), 0.3 * one[x[1], b]
    yield (-1, -1), 0.2


@functools.cache
def every_release(members):
    """Return the releases of a household, what each member shows of the three keys, with their probabilities."""
    return list(_every_release(members))


def _every_release(members):
    k, own = len(members), D.matrix.array
    for who, others in itertools.product(range(k), itertools.product(range(2), repeat=k)):
        rest = math.prod(own[x[2], d] for x, d in zip(members, others, strict=True)) / k
        for cell, chance in shown(members[who]):
            yield [(*(cell if i == who else (-1, -1)), d) for i, d in enumerate(others)], chance * rest


def fits(x, z):
    return all(s in (t, -1) for t, s in zip(x, z, strict=True))


def inverse(weights):
    """Return E(1/F given f) of the weights of who matches."""
    return inverse_of(tuple(sorted(weights)))


@functools.cache
def inverse_of(weights):
    return expected_inverse(np.array([len(weights)]), np.array([len(weights) / sum(weights)]))[0]


def test_members_found_by_a_register_are_what_all_releases_say():
    keys, household, weight = people(SIZES)
    risk = register_members(keys, weight[household], household, split_law(household))
    true = np.stack(keys.codes, axis=1).tolist()

    @functools.cache
    def right(x, z):  # persons of the register with the values that are shown
        return inverse([weight[h] for h, y in zip(household, true, strict=True) if fits(y, z)]) if fits(x, z) else 0.0

    for h in range(len(SIZES)):
        members, some, whole = tuple(tuple(x) for x, of in zip(true, household, strict=True) if of == h), 0.0, 0.0
        for release, chance in every_release(members):
            found = [right(x, z) for x, z in zip(members, release, strict=True)]
            some += chance * (1 - math.prod(1 - r for r in found))
            whole += chance * math.prod(found)
        assert (risk[0][h], risk[1][h]) == pytest.approx((some, whole), rel=1e-12)
    alone = register_members(keys.select(NAMES[:2]), weight[household], household, split_law(household, 2, apart=False))
    assert (alone[1][2:] == 0).all()  # who is not chosen shows no key


def test_households_found_by_their_members_are_what_all_releases_say(monkeypatch):
    """The register attacker by the households that can show a release; the informed one by the rule of Bayes."""
    keys, household, weight = people(SIZES)
    law, true = split_law(household), np.stack(keys.codes, axis=1).tolist()
    of = [tuple(tuple(x) for x, at in zip(true, household, strict=True) if at == h) for h in range(len(SIZES))]
    found = register_split_risk(keys, weight[household], household, law)

    def can_show(members, release):
        orders = itertools.permutations(release)
        return any(all(fits(x, z) for x, z in zip(members, order, strict=True)) for order in orders)

    for h, members in enumerate(of):
        expected = 0.0
        for release, chance in every_release(members):
            if can_show(members, release):
                same = [
                    w
                    for w, other in zip(weight, of, strict=True)
                    if len(other) == len(members) and can_show(other, release)
                ]
                expected += chance * inverse(same)
        assert found[h] == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr("postrand.risk.joint_split.WAYS", 2)  # of three subsets two are drawn
    drawn = [register_split_risk(keys, weight[household], household, law, seed) for seed in range(40)]
    assert np.mean(drawn, axis=0) == pytest.approx(found, rel=0.15)
    said, wanted = np.concatenate(informed_joint_risk(keys, household, law, seed=5)), []
    rng = np.random.default_rng([5, 22])
    for drawn_keys in law.drawn(keys, rng.integers(2**31, size=3).tolist()):
        codes = np.stack(
            [
                np.where(c == s, -1, c) if j < 2 else c
                for j, (c, s) in enumerate(zip(drawn_keys.codes, SHAPE, strict=True))
            ],
            axis=1,
        )
        seen = [sorted(map(tuple, codes[household == h].tolist())) for h in range(len(SIZES))]
        for size in sorted(set(SIZES)):
            same = [h for h, s in enumerate(SIZES) if s == size]
            chances = np.array(
                [[sum(p for r, p in every_release(of[x]) if sorted(r) == seen[z]) for z in same] for x in same]
            )
            ratio = chances / chances.mean(axis=0)
            wanted += (ratio.max(axis=1) / ratio.sum(axis=1)).tolist()
    assert said == pytest.approx(np.array(wanted), rel=1e-10)


def test_one_member_is_drawn_and_stands_for_all():
    keys, household, _ = people([1, 2, 3, 4] * 50)
    law, k = split_law(household), np.bincount(household)[household]
    assert isinstance(law, SplitLaw)
    counts, weights = np.zeros((len(law.parts), k.size)), []
    for drawn in law.drawn(keys, range(200)):
        of = law.shown(np.stack(drawn.codes, axis=1))
        assert (np.bincount(household, of != law.hidden) <= 1).all()
        counts[of, np.arange(k.size)] += 1
        shows = drawn.codes[1] < 3
        weights.append((law.standing(drawn) * shows).sum() / shows.mean() / k.size)
    for share, chance in zip(counts / 200, law.chances(), strict=True):
        z = (share - chance) / np.sqrt(np.maximum(chance * (1 - np.asarray(chance)), 1e-9) / 200)
        assert np.abs(z).max() < 5.5
    of_shown = sum(part.probability for part in law.parts if 1 in part.positions)
    assert np.mean(weights) * of_shown == pytest.approx(of_shown, rel=0.02)


@pytest.mark.statistical
def test_the_informed_attacker_finds_no_more_members_than_is_said():
    """Attack 12 releases, alpha 1e-5 of Student's t with 11 degrees of freedom."""
    sizes = [1, 2, 3, 5] * 25
    keys, household, weight = people(sizes, 3)
    law = split_law(household)
    said, right = [], []
    for drawn in law.drawn(keys, range(12)):
        found = link(keys, drawn, law)
        said.append(claimed_members(found.claimed, household, law)[0].mean())
        hits = np.bincount(household, np.log1p(-np.minimum(found.correct, 1 - 1e-12)))
        right.append(-np.expm1(hits).mean())
    error = np.std(np.subtract(said, right)) / np.sqrt(12)
    assert np.mean(right) < np.mean(said) + 7 * error
    exposure = TrueFile(keys, weight[household], household).exposure(Mechanism([D], BOOK, split=SPLIT, units=HOME))
    assert exposure.register_joint.mean >= exposure.register_some.mean > 0
    assert exposure.joint.largest >= exposure.file.some_member.largest


# -- keys that are drawn once for the household -----------------------------------------------------------------------

SHARED = Mechanism(
    [
        Block("a", randomised_response(2, 1.1), unit="household"),
        Block("b", B3, unit="household"),
        Block("d", randomised_response(2, 0.8)),
    ],
    units=HOME,
)
A, B, OWN = (block.matrix.array for block in SHARED.blocks)


def test_the_largest_claims_are_too_high_and_more_so_where_one_member_shows_values():
    """The reason that pages say: of those who know all keys the largest claims are right as often as they say."""
    rng, names = np.random.default_rng(5), tuple("pqrs")
    household, shape = np.repeat(np.arange(600), 3), (10,) * 4
    keys = KeyCodes(names, shape, tuple(rng.geometric(0.4, 1800).clip(1, 10) - 1 for _ in names))
    book = Codebook((*(Variable(n, "key", tuple("abcdefghij")) for n in names), BOOK["h"]))
    most = {}
    for unit in ("record", "household"):
        pairs = [Block(pair, randomised_response(100, 5.0), unit=unit) for pair in itertools.combinations(names, 2)]
        split, units = Split.of([1 / 6] * 6, pairs), HOME if unit == "household" else None
        law = law_of(Mechanism([], book, split=split, units=units), names, shape, household)
        for knowledge in ("matrix", "keys"):
            found = [link(keys, drawn, law, knowledge) for drawn in law.drawn(keys, range(20))]
            claimed, right = (np.concatenate([getattr(a, n) for a in found]) for n in ("claimed", "correct"))
            top = np.argsort(-claimed)[:400]
            most[unit, knowledge] = claimed.max(), claimed[top].mean() / right[top].mean()
    for unit in ("record", "household"):
        assert most[unit, "matrix"][1] > 1.5 > 1.4 > most[unit, "keys"][1] > 0.7
    assert most["household", "matrix"][0] > most["record", "matrix"][0]
    assert most["household", "keys"][0] < most["record", "keys"][0]
    assert "the more so where one record stands for several" in LARGEST


def homes(sizes, seed=4):
    """Return keys of households whose members share the first two, their numbers, and weights of the households."""
    keys, household, weight = people(sizes, seed)
    rng = np.random.default_rng(seed)
    both = (rng.integers(0, k, len(sizes))[household] for k in SHAPE[:2])
    return KeyCodes(NAMES, SHAPE, (*both, keys.codes[2])), household, weight


def shared_releases(members):
    """Yield the releases of a household that has one draw of the first two keys, with their probabilities."""
    for a, b in itertools.product(range(2), range(3)):
        for own in itertools.product(range(2), repeat=len(members)):
            rest = math.prod(OWN[x[2], d] for x, d in zip(members, own, strict=True))
            yield [(a, b, d) for d in own], A[members[0][0], a] * B[members[0][1], b] * rest


def test_households_that_share_a_draw_are_what_all_releases_say():
    """At least one member, all of them, and the household as a whole; register and informed attacker."""
    keys, household, weight = homes(SIZES)
    law, true = KeyLaw.of(SHARED, NAMES, SHAPE), np.stack(keys.codes, axis=1).tolist()
    of = [[x for x, place in zip(true, household, strict=True) if place == h] for h in range(len(SIZES))]
    some, whole = register_members(keys, weight[household], household, law)
    joint = register_joint_risk(keys, weight[household], household, law)
    for h, members in enumerate(of):
        risk = [inverse([weight[g] for g, y in zip(household, true, strict=True) if x == y]) for x in members]
        same = inverse([w for w, other in zip(weight, of, strict=True) if sorted(other) == sorted(members)])
        expected = np.zeros(3)
        for release, chance in shared_releases(members):
            right = [r * (list(z) == x) for r, x, z in zip(risk, members, release, strict=True)]
            kept = sorted(map(list, release)) == sorted(members)
            expected += chance * np.array([1 - math.prod(1 - r for r in right), math.prod(right), same * kept])
        assert (some[h], whole[h], joint[h]) == pytest.approx(tuple(expected), rel=1e-12)
    said, wanted = np.concatenate(informed_joint_risk(keys, household, law, seed=5)), []
    rng = np.random.default_rng([5, 22])
    for drawn in releases(law, keys, rng.integers(2**31, size=3).tolist(), together(household)):
        codes = np.stack(drawn.codes, axis=1)
        seen = [sorted(map(tuple, codes[household == h].tolist())) for h in range(len(SIZES))]
        assert all(len({z[:2] for z in one}) == 1 for one in seen)
        for size in sorted(set(SIZES)):
            alike = [h for h, s in enumerate(SIZES) if s == size]
            chances = np.array(
                [[sum(p for r, p in shared_releases(of[x]) if sorted(r) == seen[z]) for z in alike] for x in alike]
            )
            ratio = chances / chances.mean(axis=0)
            wanted += (ratio.max(axis=1) / ratio.sum(axis=1)).tolist()
    assert said == pytest.approx(np.array(wanted), rel=1e-10)


def test_tune_searches_a_household_limit_where_households_share_a_draw(monkeypatch):
    """The figure of the level that is found is that of the dossier under the same mechanism."""
    monkeypatch.setattr("postrand.risk.informed.MOST_RELEASES", 2)
    keys, household, _ = homes([1, 2, 3] * 8)
    frame = {n: np.array(list("xyz"))[c].tolist() for n, c in zip(NAMES, keys.codes, strict=True)}
    frame |= {"h": household.tolist()}
    truth = TrueFile.read(frame, BOOK, 0.2)
    assert truth is not None

    def made(level):
        blocks = [Block(n, randomised_response(k, level / 3), unit="household") for n, k in (("a", 2), ("b", 3))]
        return Mechanism([*blocks, Block("d", randomised_response(2, level / 3))], BOOK, units=HOME)

    asked = dict(sampling_fraction=0.2, household="h", codebook=BOOK, units=HOME, mechanism=made, tolerance=0.9)
    for measure, spread in (
        ("register_household_risk", lambda e: e.register_some),
        ("joint_household_risk", lambda e: e.joint),
    ):
        before = spread(truth.exposure()).largest
        found = tune(frame, NAMES, f"{measure} <= {before * 0.7}", **asked)
        assert found.needed
        after = spread(truth.exposure(found.mechanism)).largest  # without a warning: who draws together is known
        assert after == pytest.approx(next(p.risk for p in found.points if p.level == found.level), rel=1e-12)
        assert after <= before * 0.7


def test_what_is_not_known_is_refused():
    keys, household, weight = people(SIZES)
    limit = HouseholdLimit("register_household_risk", keys, weight[household], household)
    with pytest.raises(DataError, match="records of a household differ in a, b"):
        limit.under(SHARED, 2, 0)
    persons = Mechanism(
        [Block("a", randomised_response(2, 1.0), unit="person")], units=Units(person="p", most_records=2)
    )
    with pytest.raises(UsageError, match="keys are drawn for a person"):
        limit.under(persons, 2, 0)
    mechanism = Mechanism([D], BOOK, split=SPLIT, units=HOME)
    frame = {n: np.array(list("xyz"))[c].tolist() for n, c in zip(NAMES, keys.codes, strict=True)}
    with pytest.raises(UsageError, match="households are not known"):
        assess(frame, NAMES, sampling_fraction=0.1, mechanism=mechanism)
