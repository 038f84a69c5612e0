"""The informed attacker compares a target with households of the size that household numbers show, and no others."""

import itertools

import numpy as np
import pytest

from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.mechanism.units import Units
from postrand.risk.attack import link
from postrand.risk.by_size import LARGEST, alike, linked, members, strata
from postrand.risk.cells import KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.risk.household_limits import HouseholdLimit
from postrand.risk.informed import informed
from postrand.risk.law import KeyLaw, release
from postrand.risk.split_law import SplitLaw
from postrand.support.measure_names import OF_ESTIMATES, OF_EVERYBODY
from postrand.workflow.comparison_risk import attackers, risk_figures

RNG = np.random.default_rng(8)
SIZES = RNG.choice([1, 2, 3, 5], 300, p=[0.4, 0.3, 0.2, 0.1])
HOUSE = RNG.permutation(np.repeat(np.arange(SIZES.size) * 7, SIZES))
N, UNITS = HOUSE.size, Units(household="hid", largest_household=5)
KEYS = KeyCodes(("sex", "age", "area"), (2, 6, 5), tuple(RNG.integers(0, s, N) for s in (2, 6, 5)))
BLOCKS = [Block((name,), randomised_response(s, 1.5)) for name, s in zip(KEYS.names, KEYS.shape, strict=True)]


def law_on(keys: KeyCodes) -> KeyLaw:
    return KeyLaw.of(Mechanism(BLOCKS), keys.names, keys.shape)


def with_size(keys: KeyCodes) -> KeyCodes:
    size = np.array([np.sum(house == HOUSE) for house in HOUSE])
    return KeyCodes((*keys.names, "size"), (*keys.shape, 6), (*keys.codes, size))


def test_members_are_counted_by_hand():
    assert members(np.array([4, 9, 4, 4])).tolist() == [3, 1, 3, 3]
    assert members(None) is None
    assert set(members(np.repeat([0, 1, 2], [LARGEST, LARGEST + 1, LARGEST + 9]))) == {LARGEST, LARGEST + 1}


def test_before_a_link_is_right_for_one_of_those_alike_in_keys_and_size():
    seen = list(zip(*(c.tolist() for c in with_size(KEYS).codes), strict=True))
    by_hand = [seen.count(one) for one in seen]
    assert alike(KEYS, HOUSE).tolist() == by_hand
    found = informed(KEYS, household=HOUSE)
    assert found.anyone.expected == pytest.approx(sum(1 / f for f in by_hand))
    assert found.individual.mean == pytest.approx(np.mean([1 / f for f in by_hand]))
    assert informed(KEYS).anyone.expected < found.anyone.expected


@pytest.mark.parametrize("knowledge", ["keys", "exact"])
def test_links_are_those_with_the_size_as_an_unperturbed_key(knowledge):
    """Who links to the same size alone finds as much as who has the size as a key that the release does not change."""
    law, targets = law_on(KEYS), RNG.permutation(N)[:200]
    drawn, sized = release(law, KEYS, 5), with_size(KEYS)
    found = linked(strata(KEYS, law, HOUSE, targets), drawn, knowledge)
    key = KeyCodes(sized.names, sized.shape, (*drawn.codes, sized.codes[-1]))
    wanted = link(sized, key, law_on(sized), knowledge, targets=targets)
    np.testing.assert_allclose(found.correct, wanted.correct, atol=1e-12)
    np.testing.assert_allclose(found.claimed, wanted.claimed, atol=1e-12)


def test_without_households_or_with_one_size_nothing_changes():
    law, targets = law_on(KEYS), np.arange(N)
    drawn = release(law, KEYS, 6)
    wanted = link(KEYS, drawn, law)
    for house in (None, np.arange(N)):
        found = linked(strata(KEYS, law, house, targets), drawn, "matrix")
        np.testing.assert_array_equal(found.correct, wanted.correct)
        np.testing.assert_array_equal(found.claimed, wanted.claimed)


def test_a_release_that_changes_nothing_of_the_keys_is_attacked_as_the_file_is():
    still = Mechanism([Block((n,), randomised_response(s, 36.0)) for n, s in zip(KEYS.names, KEYS.shape, strict=True)])
    after = informed(KEYS, KeyLaw.of(still, KEYS.names, KEYS.shape), household=HOUSE)
    assert after.anyone.expected == pytest.approx(informed(KEYS, household=HOUSE).anyone.expected, rel=1e-9)


def test_the_size_adds_what_a_direct_attack_finds():
    """An attack written apart: the best record of the same size by the exact posterior, over 40 releases."""
    law = law_on(KEYS)
    size, matrices = with_size(KEYS).codes[-1], [block.matrix.array for block in BLOCKS]
    right = []
    for seed in range(40):
        drawn = release(law, KEYS, seed)
        hits = 0.0
        for of in np.unique(size):
            at = np.flatnonzero(size == of)
            weight = np.ones((at.size, at.size))
            for matrix, true, out in zip(matrices, KEYS.codes, drawn.codes, strict=True):
                weight = weight * matrix[np.ix_(true[at], out[at])]
            weight = weight / weight.mean(axis=0)  # the law of the others, all true keys known
            best = weight >= weight.max(axis=1, keepdims=True) * (1 - 1e-9)
            hits += float((np.diag(best) / best.sum(axis=1)).sum())
        right.append(hits)
    error = float(np.std(right, ddof=1)) / np.sqrt(len(right))
    found = informed(KEYS, law, household=HOUSE)
    assert abs(found.anyone.expected - np.mean(right)) < 4 * error * np.sqrt(1 + 40 / found.releases)
    assert informed(KEYS, law).anyone.expected < np.mean(right) - 4 * error  # who does not know the size finds less


def test_a_split_of_one_member_shows_who_lives_alone():
    """Of households of one, each is shown; of k, one of k: the law among them, and parts add up to 1."""
    sized = zip(KEYS.names, KEYS.shape, strict=True)
    book = Codebook(tuple(Variable(n, role="key", categories=tuple(range(s))) for n, s in sized))
    pair, one = randomised_response(12, 3.0), randomised_response(5, 3.0)
    subsets = [Block(("sex", "age"), pair, unit="household"), Block(("area",), one, unit="household")]
    mechanism = Mechanism([], book, split=Split.of([0.5, 0.5], subsets), units=UNITS)
    law = SplitLaw.of(mechanism, KEYS.names, KEYS.shape, HOUSE)
    sizes = members(HOUSE)
    assert sizes is not None
    for stratum in strata(KEYS, law, HOUSE, np.arange(N)):
        of, own = sizes[stratum.records], stratum.law
        assert isinstance(own, SplitLaw)
        assert np.unique(of).size == 1
        k, hidden = int(of[0]), own.hidden
        chances = [part.probability for part in own.parts]
        assert sum(chances) == pytest.approx(1)
        assert chances[hidden] == pytest.approx(1 - 1 / k)
        assert [p * k for j, p in enumerate(chances) if j != hidden] == pytest.approx([0.5, 0.5])


def test_who_lives_alone_in_a_split_of_one_member_is_found_as_by_brute_force():
    """Three who live alone and one couple, one key: every release, the exact posterior of who knows all true keys."""
    house, codes = np.array([1, 2, 3, 4, 4]), np.array([0, 1, 1, 0, 1])
    book = Codebook((Variable("a", role="key", categories=(0, 1)),))
    rows = randomised_response(2, 1.5)
    mechanism = Mechanism([], book, split=Split.of([1.0], [Block(("a",), rows, unit="household")]), units=UNITS)
    keys, m = KeyCodes(("a",), (2,), (codes,)), rows.array
    law = SplitLaw.of(mechanism, ("a",), (2,), house)
    targets = np.array([0, 1, 2])
    attacked = strata(keys, law, house, targets)
    q = {z: np.mean([m[x, z] for x in codes[:3]]) for z in (0, 1)}
    for z in itertools.product((0, 1), repeat=3):
        drawn = KeyCodes(("a",), (3,), (np.array([*z, 0, 2]),))
        found = linked(attacked, drawn, "keys")
        for t in range(3):
            weights = np.array([m[codes[t], z[r]] / q[z[r]] for r in range(3)])
            best = weights >= weights.max() * (1 - 1e-9)
            assert found.correct[t] == pytest.approx(best[t] / best.sum())
            assert found.claimed[t] == pytest.approx(weights.max() / weights.sum())


def test_who_has_the_register_of_a_whole_population_finds_no_less_than_the_informed_attacker():
    """With weights of 1 everybody is in the file; of a sample the register attacker does not know who is."""
    mechanism = Mechanism(BLOCKS)
    of_all, of_half = (TrueFile(KEYS, np.full(N, w), HOUSE).exposure(mechanism) for w in (1.0, 2.0))
    for one in (of_all, of_half):
        assert one.register is not None
        assert one.register_some is not None
        assert one.register_joint is not None
        assert one.joint is not None
    assert (of_all.register_expected or 0.0) >= of_all.file.anyone.expected
    assert of_all.register.mean >= of_all.file.individual.mean
    assert of_all.register_some.largest >= of_all.file.some_member.largest
    assert of_all.register_joint.mean >= of_all.joint.mean
    assert (of_half.register_expected or 0.0) < of_half.file.anyone.expected
    assert TrueFile(KEYS, np.ones(N), None).exposure().register_expected == pytest.approx(
        len(set(zip(*KEYS.codes, strict=True)))
    )
    for measure in ("register_household_risk", "register_joint_household_risk"):
        limit = HouseholdLimit(measure, KEYS, np.ones(N), HOUSE).under(mechanism, 1, 1)
        spread = of_all.register_some if measure == "register_household_risk" else of_all.register_joint
        assert limit[0] == pytest.approx(spread.largest)


def test_pages_say_of_a_whole_population_why_both_attackers_find_as_many():
    mechanism = Mechanism(BLOCKS)
    for weight, said in ((1.0, OF_EVERYBODY), (2.0, OF_ESTIMATES)):
        truth = TrueFile(KEYS, np.full(N, weight), HOUSE)
        assert attackers(risk_figures(truth, None, mechanism))[-1] == said
