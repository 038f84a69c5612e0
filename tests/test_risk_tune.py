"""The weakest perturbation within a limit of risk."""

import json
from typing import Any

import numpy as np
import pytest

from postrand.errors import DesignError, UsageError
from postrand.mechanism import Block, Mechanism, Units
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.risk import assess, tune
from postrand.risk.attack import link
from postrand.risk.cells import KeyCodes, table
from postrand.risk.data import code_data, key_codes
from postrand.risk.expected import ExpectedMatches, left_right
from postrand.risk.informed import informed
from postrand.risk.informed_matches import InformedMatches
from postrand.risk.law import KeyLaw, release, releases
from postrand.support.measure_names import LEARNS, OF_TWO
from tests.test_risk_perturbed import SHAPE, survey

NAMES = list("abcd")


def frame():
    _, sample, _ = survey()
    return {n: [f"{n}{v:02d}" for v in c] for n, c in zip(NAMES, sample, strict=True)}


OPTIONS: dict[str, Any] = {"sampling_fraction": 0.05, "model": "independence", "draws": 4}


def test_the_level_found_meets_the_limit_and_the_next_does_not():
    found = tune(frame(), NAMES, "tau2 <= 40", **OPTIONS)
    by_level = {p.level: p for p in found.points}
    assert by_level[found.level].meets(40)
    above = [p for p in found.points if p.level > found.level]
    assert not any(p.meets(40) for p in above)
    assert min(p.level for p in above) / found.level <= 1.03
    assert found.mechanism is not None
    assert sum(b.matrix.epsilon for b in found.mechanism.blocks) <= found.level
    kept = [p.information for p in found.points]
    assert kept == sorted(kept)  # a larger epsilon keeps more
    risks = [p.risk for p in found.points]
    assert risks == sorted(risks)  # the same random numbers at every level
    assert "tau2 <= 40: level" in str(found)
    assert all(p.upper > p.risk for p in found.points if p.risk > 0)


def test_an_unperturbed_file_within_the_limit_needs_no_perturbation():
    report = assess(frame(), NAMES, sampling_fraction=0.05, model="independence")
    assert report.tau2_estimate is not None
    limit = report.tau2_estimate.corrected
    found = tune(frame(), NAMES, f"tau2 <= {limit + 0.01}", **OPTIONS)
    assert (found.needed, found.mechanism, found.level) == (False, None, np.inf)
    assert "no perturbation is needed for this limit" in str(found)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["level"] is None
    assert told["points"][-1]["risk"] == pytest.approx(limit)
    needed = tune(frame(), NAMES, f"tau2 <= {limit - 0.01}", **OPTIONS)
    assert needed.needed
    assert needed.level < 60


def test_a_mechanism_of_ones_own_and_a_limit_never_met():
    def keep(level):
        return Mechanism([Block(("a",), randomised_response(SHAPE[0], level))])

    options = {**OPTIONS, "mechanism": keep, "levels": (0.1, 5.0)}
    unperturbed = tune(frame(), NAMES, "tau1 <= 100000", **options)
    assert not unperturbed.needed
    risk = unperturbed.points[-1].risk
    met = tune(frame(), NAMES, f"tau1 <= {0.999 * risk}", **options)
    assert met.level == 5.0
    assert "weak end" in met.status
    with pytest.raises(DesignError, match="at best"):
        tune(frame(), NAMES, "tau1 <= 0", **options)
    with pytest.raises(UsageError, match="not of the form that is wanted"):
        tune(frame(), NAMES, "tau3 < 4", **options)
    with pytest.raises(UsageError, match="low < high"):
        tune(frame(), NAMES, "tau1 <= 4", **{**options, "levels": (3.0, 1.0)})
    with pytest.raises(UsageError, match="one of sampling fraction and weight"):
        tune(frame(), NAMES, "tau1 <= 4")
    with pytest.raises(UsageError, match="given twice"):
        tune(frame(), NAMES, "tau1 <= 4", sampling_fraction=0.1, weight="w")


def test_of_several_limits_the_level_keeps_every_one():
    """In either order: the level is that of the limit which needs most, and each limit has its figures there."""
    weak, strong, none = "tau2 <= 60", "tau1 <= 5", "correct_matches <= 100000"
    alone = [tune(frame(), NAMES, one, **OPTIONS).level for one in (weak, strong)]
    assert alone[1] < alone[0]
    for limits in ([weak, strong, none], [none, strong, weak]):
        found = tune(frame(), NAMES, limits, **OPTIONS)
        assert (found.level, found.measure, len(found.others)) == (alone[1], "tau1", 2)
        for one in (found, *found.others):
            assert one.level == found.level
            assert {p.level: p for p in one.points}[found.level].meets(one.limit)
        told = found.to_dict()
        assert {one["measure"] for one in told["others"]} == {"tau2", "correct_matches"}
        assert f"level {alone[1]:.4g} keeps every limit; tau1 is the one that needs it" in str(found)
        assert f"this one alone allows level {alone[0]:.4g}" in str(found)
        assert "this one alone allows the unperturbed file" in str(found)
    assert not tune(frame(), NAMES, [none, "tau2 <= 100000"], **OPTIONS).needed
    twice = tune(frame(), NAMES, [strong, "tau1 <= 3"], **OPTIONS)
    assert (twice.limit, twice.level) == (3, tune(frame(), NAMES, "tau1 <= 3", **OPTIONS).level)
    for wrong in ([], [strong, "tau9 <= 1"]):
        with pytest.raises(UsageError, match="not of the form that is wanted"):
            tune(frame(), NAMES, wrong, **OPTIONS)


def test_of_several_limits_none_is_lost_where_a_curve_is_not_monotone():
    def fold(level):
        return Mechanism(
            [Block((n,), randomised_response(s, min(level, 8 / level))) for n, s in zip(NAMES, SHAPE, strict=True)]
        )

    options = {**OPTIONS, "mechanism": fold, "levels": (0.2, 30.0)}
    found = tune(frame(), NAMES, ["tau2 <= 40", "tau1 <= 5"], **options)
    for one in (found, *found.others):
        assert {p.level: p for p in one.points}[found.level].meets(one.limit)


def test_a_curve_that_falls_is_said():
    """Stronger at large levels again: the level is the weakest that meets the limit, and the status says so."""

    def fold(level):
        return Mechanism(
            [Block((n,), randomised_response(s, min(level, 8 / level))) for n, s in zip(NAMES, SHAPE, strict=True)]
        )

    found = tune(frame(), NAMES, "tau2 <= 40", **OPTIONS, mechanism=fold, levels=(0.2, 30.0))
    assert "not monotone" in found.status
    assert {p.level: p for p in found.points}[found.level].meets(40)


def test_equal_weights_are_a_sampling_fraction():
    data = {**frame(), "w": np.full(len(frame()["a"]), 20.0)}
    one = tune(data, NAMES, "tau2 <= 40", weight="w", model="independence", draws=2)
    other = tune(data, NAMES, "tau2 <= 40", sampling_fraction=0.05, model="independence", draws=2)
    assert one.level == other.level
    assert [p.risk for p in one.points] == pytest.approx([p.risk for p in other.points])


@pytest.mark.statistical
def test_the_expected_risk_is_that_of_releases():
    """Each release's ``Σ 1[unique, keys unchanged] E(1/F|f)`` over 60 releases by the keyed sampler: alpha 1e-6.

    The mutant that forgets the other records (any record whose keys stay counts) must be rejected.
    """
    _, sample, _ = survey()
    keys = KeyCodes(tuple(NAMES), SHAPE, tuple(sample))
    held = ExpectedMatches.of(keys, "tau2", 0.05, None, "independence")
    mechanism = Mechanism([Block((n,), randomised_response(s, 4.0)) for n, s in zip(NAMES, SHAPE, strict=True)])
    law = KeyLaw.of(mechanism, keys.names, keys.shape)
    mean, error, *_ = held.under(mechanism, 20, 0)
    seen = []
    for seed in range(60):
        out = release(law, keys, seed)
        same = np.logical_and.reduce([a == b for a, b in zip(out.codes, keys.codes, strict=True)])
        released = table(out)
        right = same & released.uniques[released.record_cell]
        seen.append(held.risk[held.cells.record_cell[right]].sum())
    spread = np.hypot(np.std(seen) / np.sqrt(60), error)
    assert abs(np.mean(seen) - mean) < 4.9 * spread
    stay = law.diagonal(held.cells.codes)
    assert abs((stay * held.risk * held.cells.counts).sum() - np.mean(seen)) > 4.9 * spread


@pytest.mark.statistical
def test_releases_for_estimates_follow_the_law():
    """A joint block listed in reverse order of cells: 40,000 draws, each frequency within 4.9 standard errors."""
    M = TransitionMatrix.from_array(np.array([[0.7, 0.1, 0.2], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]]))
    block = Block(("a", "b"), M, cells=((1, 1), (0, 2), (0, 0)))
    law = KeyLaw.of(Mechanism([block]), ("a", "b", "c"), (2, 3, 2))
    n = 40_000
    keys = KeyCodes(("a", "b", "c"), (2, 3, 2), (np.zeros(n, int), np.full(n, 2), np.arange(n) % 2))
    out = release(law, keys, 1)
    seen = np.array([((out.codes[0] == a) & (out.codes[1] == b)).mean() for a, b in block.cells or ()])
    assert (np.abs(seen - M.array[1]) <= 4.9 * np.sqrt(M.array[1] * (1 - M.array[1]) / n)).all()
    assert np.array_equal(out.codes[2], keys.codes[2])
    assert np.array_equal(release(law, keys, 1).codes[0], out.codes[0])
    assert not np.array_equal(release(law, keys, 2).codes[1], out.codes[1])


def test_correct_matches_of_an_attacker_who_knows_who_is_in_the_file():
    frame_ = frame()
    keys = key_codes(code_data(frame_, NAMES, None), NAMES, "category")
    attack, classes = InformedMatches.of(keys), table(keys).counts.size
    assert attack.unperturbed()[0] == classes  # one correct match of each class of equal keys
    lost = Mechanism([Block((n,), randomised_response(s, 1e-6)) for n, s in zip(NAMES, SHAPE, strict=True)])
    risk, error, *_ = attack.under(lost, 10, 0)
    assert abs(risk - 1) < 4 * max(error, 10**-0.5)  # guesses: each of n links is right with probability 1/n
    found = tune(frame_, NAMES, f"correct_matches <= {classes // 4}", draws=3, tolerance=0.2)
    by_level = {p.level: p for p in found.points}
    assert by_level[found.level].meets(classes // 4)
    seen = informed(keys, KeyLaw.of(found.mechanism, keys.names, keys.shape), seed=9).anyone.expected
    assert by_level[found.level].risk == pytest.approx(seen, rel=0.15)
    assert str(found).startswith(f"correct_matches <= {classes // 4}: level")
    with pytest.raises(UsageError, match="knows who is in the file"):
        tune(frame_, NAMES, "correct matches <= 5", sampling_fraction=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_the_stated_error_of_sampled_targets_is_that_of_repetitions_and_falls_with_the_draws(epsilon, monkeypatch):
    """At 30 next to nothing differs between releases but the sample of persons. Each ratio within 4.5 errors."""
    frame_, names = skewed(200), ["k1", "k2", "k3"]
    keys = key_codes(code_data(frame_, names, None), names, "category")
    monkeypatch.setattr("postrand.risk.informed_matches.OF_ONE", 60 * keys.records)
    monkeypatch.setattr("postrand.risk.informed_matches.FEWEST_TARGETS", 50)
    attack = InformedMatches.of(keys)
    law = Mechanism([Block((n,), randomised_response(s, epsilon)) for n, s in zip(keys.names, keys.shape, strict=True)])
    seen = {}
    for draws, times in ((2, 80), (10, 40), (40, 12)):
        found = np.array([attack.under(law, draws, 100 * seed)[:2] for seed in range(times)])
        seen[draws] = found[:, 0].std(ddof=1)
        stated = np.sqrt((found[:, 1] ** 2).mean())
        few = 1.25 if draws == 2 else 1.0  # the larger of two estimates of a variance, of which one has two values
        assert abs(np.log(stated / seen[draws])) < np.log(few) + 4.5 / np.sqrt(2 * times)
        assert abs(found[:, 0].mean() - attack.unperturbed()[0]) < 4.9 * seen[draws] / times**0.5 or epsilon < 30
    assert seen[40] < seen[10] < seen[2]


def skewed(n=3000):
    """A file in which who knows all keys finds more than who learns their frequencies from the release."""
    rng = np.random.default_rng(0)
    held = {f"k{j}": (rng.beta(1, 3, n) * s).astype(int) for j, s in enumerate((2, 9, 7, 12, 8))}
    return {**{name: [f"v{v:02d}" for v in codes] for name, codes in held.items()}, "hid": np.arange(n) // 3}


def test_a_tuned_level_is_within_its_limit_for_who_knows_all_keys_too():
    frame_ = skewed()
    names = [name for name in frame_ if name != "hid"]
    found = tune(frame_, names, "correct_matches <= 900")
    point = next(p for p in found.points if p.level == found.level)
    keys = key_codes(code_data(frame_, names, None), names, "category")
    law = KeyLaw.of(found.mechanism, keys.names, keys.shape)
    draws = list(releases(law, keys, range(70, 110), {}))
    one, two = (np.array([link(keys, z, law, how).correct.sum() for z in draws]) for how in ("matrix", "keys"))
    assert two.mean() > one.mean() + 10
    assert two.mean() <= 900
    assert abs(two.mean() - point.risk) < 4 * np.hypot(point.standard_error, two.std() / 40**0.5)
    assert OF_TWO in str(found)
    assert LEARNS not in str(found)


@pytest.mark.parametrize("limit", [100, 200])
def test_the_figure_that_other_pages_state_of_a_tuned_level_is_within_the_limit(limit):
    """By the releases that they draw, at the level as it is printed."""
    frame_ = skewed(400)
    names = [name for name in frame_ if name != "hid"]
    keys = key_codes(code_data(frame_, names, None), names, "category")
    for seed in range(4):
        found = tune(frame_, names, f"correct_matches <= {limit}", draws=2, seed=seed)
        law = KeyLaw.of(found.mechanism, keys.names, keys.shape)
        assert informed(keys, law).anyone.expected <= limit
        assert float(f"{found.level:.4g}") == found.level
        assert {p.level: p for p in found.points}[found.level].meets(limit)


def test_a_tuned_household_risk_says_of_two_knowledges():
    found = tune(skewed(600), ["k1", "k2"], "household_risk <= 0.5", household="hid", tolerance=0.5)
    assert found.needed
    assert OF_TWO in str(found)


def test_keys_that_a_household_shares_are_drawn_so_in_every_simulated_release():
    """τ against whole releases drawn here, of which every right and unique record is counted."""
    rng = np.random.default_rng(5)
    house = np.repeat(np.arange(40), rng.integers(1, 5, 40))
    keys = KeyCodes(
        ("region", "age"), (9, 8), (rng.integers(0, 9, 40)[house], (3 * house + rng.integers(0, 2, house.size)) % 8)
    )
    cells, laws = table(keys), (randomised_response(9, 1.0), randomised_response(8, 3.0))
    units = Units(household="hid", largest_household=4)
    law = Mechanism([Block("region", laws[0], unit="household"), Block("age", laws[1])], units=units)
    held = ExpectedMatches(keys, cells, rng.random(cells.counts.size), 0.0, {"household": house})
    mean, error, *_ = held.under(law, 400, 1)
    stay, true = [one.array[0, 0] for one in laws], np.stack(keys.codes)
    risk, totals = held.risk[cells.record_cell], []
    for _ in range(4000):
        moved = [
            (c + (rng.random(n) >= p) * rng.integers(1, s, n)) % s
            for c, p, s, n in (
                (true[0][np.searchsorted(house, np.arange(40))], stay[0], 9, 40),
                (true[1], stay[1], 8, house.size),
            )
        ]
        drawn = np.stack([moved[0][house], moved[1]])
        number = drawn[0] * 8 + drawn[1]
        alone = np.bincount(number, minlength=72)[number] == 1
        totals.append(risk[alone & (drawn == true).all(axis=0)].sum())
    of_keys = KeyLaw.of(law, held.keys.names, held.keys.shape)
    assert left_right([held], of_keys, 20, 1) == pytest.approx([held.under(law, 20, 1)[0]], rel=1e-12)
    simulated, spread = np.mean(totals), np.std(totals) / np.sqrt(len(totals))
    assert abs(mean - simulated) < 4 * np.hypot(error, spread)
    apart = Mechanism([Block("region", laws[0]), Block("age", laws[1])])
    other, wide, *_ = held.under(apart, 400, 1)
    assert abs(other - mean) > 4 * np.hypot(error, wide)  # what independent draws would have said
    shown = next(releases(KeyLaw.of(law, keys.names, keys.shape), keys, [1], {"household": house})).codes
    assert all(len(set(shown[0][house == h])) == 1 for h in range(40))
    assert len({*zip(house.tolist(), shown[1].tolist(), strict=True)}) > 60
    data = {"hid": house, "region": [f"r{c}" for c in keys.codes[0]], "age": [f"a{c}" for c in keys.codes[1]]}
    options: dict[str, Any] = {"mechanism": lambda _: law, "levels": (1.0, 2.0), "draws": 2, "household": "hid"}
    with pytest.raises(UsageError, match="its numbers are not given"):
        tune(data, ["region", "age"], "correct matches <= 1", **options)
