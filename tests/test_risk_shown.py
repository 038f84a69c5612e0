"""What unperturbed columns show of keys counts in the risk of the informed attacker: brute force and simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.risk.attack import link
from postrand.risk.cells import KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import informed
from postrand.risk.law import KeyLaw, releases
from postrand.risk.shown import shown_of
from postrand.risk.shown_attack import link_shown
from postrand.risk.split_law import law_of

AREAS, AGES, N, STEP = 8, 30, 1500, 0.7


def survey(seed, areas=AREAS, ages=AGES, n=N, spread=0.35):
    """Return keys, and weights that differ by area: log-normal, with means that double over three areas."""
    rng = np.random.default_rng(seed)
    area, age = rng.integers(0, areas, n), rng.integers(0, ages, n)
    weight = 100 * 2 ** (area / 3) * np.exp(spread * rng.standard_normal(n))
    return KeyCodes(("area", "age"), (areas, ages), (area, age)), weight


def mechanism(areas=AREAS, ages=AGES, epsilon=1.0):
    blocks = [Block(("area",), randomised_response(areas, epsilon)), Block(("age",), randomised_response(ages, 5.0))]
    return Mechanism(blocks)


def law_on(keys, **sizes):
    return KeyLaw.of(mechanism(keys.shape[0], keys.shape[1], **sizes), keys.names, keys.shape)


def seen_of(keys, weight):
    return shown_of(keys, {"w": pa.chunked_array([weight])}, [])


def by_hand(keys, released, law, seen):
    """Return what is right and claimed of each person, person by person and record by record."""
    (A, B), n = law.matrices, keys.records
    true, shown = np.stack(keys.codes, axis=1), np.stack(released.codes, axis=1)
    (at,), u, P = seen.positions[0], seen.codes[0], seen.laws[0]
    p = np.array([[A[x[0], z[0]] * B[x[1], z[1]] * P[x[at], v] for z, v in zip(shown, u, strict=True)] for x in true])
    w = p / (p.sum(axis=0) / n)
    best = w.max(axis=1)
    tied = w >= best[:, None] * (1 - 1e-9)
    return np.diagonal(tied) / tied.sum(axis=1), best / w.sum(axis=1)


@pytest.mark.parametrize("some", [slice(None), slice(5, 60, 3)])
def test_links_are_those_of_a_sum_over_persons_and_records(some):
    keys, weight = survey(3, areas=4, ages=3, n=120, spread=0.1)
    law, seen = law_on(keys), seen_of(keys, weight)
    assert seen.pairs(keys) == (("w", "area"),)
    released, targets = next(releases(law, keys, [5])), np.arange(keys.records)[some]
    found = link_shown(keys, released, law, seen, targets)
    right, claimed = by_hand(keys, released, law, seen)
    np.testing.assert_allclose(found.correct, right[some], rtol=1e-9)
    np.testing.assert_allclose(found.claimed, claimed[some], rtol=1e-9)


def test_a_split_is_weighed_by_the_law_of_what_each_record_shows():
    keys, weight = survey(9, areas=4, ages=3, n=90, spread=0.1)
    books = Codebook((Variable("area", "key", tuple("abcd")), Variable("age", "key", tuple("xyz"))))
    both = Block(("area", "age"), randomised_response(12, 2.0))
    split = Split.of([0.6, 0.4], [both, Block(("age",), randomised_response(3, 2.0))])
    law, seen = law_of(Mechanism([], books, split=split), keys.names, keys.shape), seen_of(keys, weight)
    released = next(law.drawn(keys, [5]))
    found = link_shown(keys, released, law, seen, np.arange(90))
    (joint, alone), P = (block.matrix.array for block in split.blocks), seen.laws[0]
    x, z = keys.codes[0] * 3 + keys.codes[1], released.codes
    p = np.empty((90, 90))
    for i, r in np.ndindex(90, 90):
        shows = z[0][r] < 4  # code 4: not shown
        of = joint[x[i], z[0][r] * 3 + z[1][r]] if shows else alone[keys.codes[1][i], z[1][r]]
        p[i, r] = of * P[keys.codes[0][i], seen.codes[0][r]]
    w = p / p.mean(axis=0)
    best = w.max(axis=1)
    tied = w >= best[:, None] * (1 - 1e-9)
    np.testing.assert_allclose(found.correct, np.diagonal(tied) / tied.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.claimed, best / w.sum(axis=1), rtol=1e-9)


def test_a_column_that_says_nothing_changes_no_link():
    keys, weight = survey(4)
    law, seen = law_on(keys), seen_of(keys, weight)
    flat = replace(seen, laws=(np.full_like(seen.laws[0], 1 / seen.laws[0].shape[1]),))
    released, targets = next(releases(law, keys, [6])), np.arange(N)
    plain = link(keys, released, law, "keys")
    weighed = link_shown(keys, released, law, flat, targets)
    np.testing.assert_allclose(weighed.correct, plain.correct, rtol=1e-9)
    np.testing.assert_allclose(weighed.claimed, plain.claimed, rtol=1e-9)


def test_what_goes_with_no_key_is_not_shown():
    keys, weight = survey(5)
    assert seen_of(keys, np.random.default_rng(1).permutation(weight)) is None
    assert shown_of(keys, {}, []) is None


def test_a_column_made_of_two_keys_is_taken_with_both():
    """Another one, of which few records are left for each class and both keys, is taken with each of them apart."""
    keys, weight = survey(6, areas=4, ages=3)
    stratum = pa.chunked_array([keys.codes[0] * 3 + keys.codes[1]])
    seen = shown_of(keys, {"w": pa.chunked_array([weight]), "stratum": stratum}, ["stratum"])
    assert sorted(seen.pairs(keys)) == [("stratum", "age"), ("stratum", "area")]  # w says no more of the area
    assert seen.laws[0].shape == (12, 12)
    assert (seen.laws[0].max(axis=1) > 0.9).all()
    both = pa.chunked_array([keys.codes[0] * 3 + keys.codes[1] + np.random.default_rng(2).integers(0, 9, N)])
    apart = shown_of(keys, {"both": both}, ["both"])
    assert apart.pairs(keys) == (("both", "area"), ("both", "age"))
    assert len(apart.positions) == 2


def scores(seed, n=N, ages=AGES, shared=0.5):
    """Return keys, and two scores (2, n) that both differ by area, and within it have the correlation ``shared``."""
    rng = np.random.default_rng(seed)
    area, age, noise = rng.integers(0, AREAS, n), rng.integers(0, ages, n), rng.standard_normal((3, n))
    own = STEP * area + np.sqrt(shared) * noise[0] + np.sqrt(1 - shared) * noise[1:]
    return KeyCodes(("area", "age"), (AREAS, ages), (area, age)), own


def shown_by(keys, values):
    return shown_of(keys, {f"s{k}": pa.chunked_array([column]) for k, column in enumerate(values)}, [])


def test_a_second_column_is_weighed_by_what_it_says_beside_the_first():
    """Links are those of a sum over records, with the factors of both; a copy of a column says nothing more."""
    keys, values = scores(12)
    law, seen = law_on(keys), shown_by(keys, values)
    assert {name for name, _ in seen.pairs(keys)} == {"s0", "s1"}
    assert set(seen.positions) == {(0,)}
    released = next(releases(law, keys, [5]))
    found = link_shown(keys, released, law, seen, np.arange(N))
    (A, B), (x, y), (z, v) = law.matrices, keys.codes, released.codes
    w = A[x][:, z] * B[y][:, v]
    for u, P in zip(seen.codes, seen.laws, strict=True):
        w *= P[x][:, u]
    w /= w.mean(axis=0)
    best = w.max(axis=1)
    tied = w >= best[:, None] * (1 - 1e-9)
    np.testing.assert_allclose(found.correct, np.diagonal(tied) / tied.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.claimed, best / w.sum(axis=1), rtol=1e-9)
    assert len(shown_by(keys, [values[0], values[0], 2 * values[0] + 1]).pairs(keys)) == 1


def test_the_law_of_a_second_column_is_the_power_by_which_keys_are_likeliest():
    """By a grid over the powers, by hand: the likelihood of the true areas is largest within 0.01 of it."""
    keys, values = scores(13)
    seen, area = shown_by(keys, values), keys.codes[0]
    share = np.bincount(area) / area.size
    counts = np.zeros(seen.laws[1].shape)
    np.add.at(counts, (area, seen.codes[1]), 1)
    law = counts + counts.sum(axis=0) / area.size
    law /= law.sum(axis=1, keepdims=True)
    found = []
    for power in np.arange(0, 1.005, 0.01):
        belief = share[:, None] * seen.laws[0][:, seen.codes[0]] * law[:, seen.codes[1]] ** power
        found.append(np.log((belief / belief.sum(axis=0))[area, np.arange(area.size)]).sum())
    best = np.argmax(found) / 100
    assert 0.3 < best < 0.99
    known = law > 0  # some classes of numbers have no record
    np.testing.assert_allclose(
        np.log(seen.laws[1][known]), best * np.log(law[known]), atol=0.01 * -np.log(law[known].min())
    )


@pytest.mark.statistical
def test_who_knows_how_columns_go_together_in_the_population_finds_no_more():
    """An attacker of our own, with the densities of both scores that the file was drawn from: at most what is said.

    15 files and releases, in which a tenth more is said. By the first score alone, a mutant, fewer are said than that
    attacker finds, by more than five standard errors.
    """
    more, misses, shared, everybody = [], [], 0.2, np.arange(N)
    for seed in range(15):
        keys, values = scores(300 + seed, ages=200, shared=shared)
        blocks = [
            Block((name,), randomised_response(*of)) for name, of in (("area", (AREAS, 0.1)), ("age", (200, 8.0)))
        ]
        law, seen = KeyLaw.of(Mechanism(blocks), keys.names, keys.shape), shown_by(keys, values)
        a, b = values[:, None] - STEP * np.arange(AREAS)[:, None]
        density = np.exp(-(a**2 - 2 * shared * a * b + b**2) / 2 / (1 - shared**2))
        held = {"names": ("both",), "positions": ((0,),), "sizes": ((AREAS,),), "codes": (everybody,)}
        own, of_one = replace(seen, laws=(density,), **held), shown_by(keys, values[:1])
        released = next(releases(law, keys, [seed]))
        known, said, one = (link_shown(keys, released, law, by, everybody).rate for by in (own, seen, of_one))
        more.append(said - known)
        misses.append(known - one)
    assert -3 * np.std(more, ddof=1) / np.sqrt(15) < np.mean(more) < 0.1 * known
    assert np.mean(misses) > 5 * np.std(misses, ddof=1) / np.sqrt(15)


@pytest.mark.statistical
def test_the_figure_is_that_of_an_attacker_who_learns_from_the_release():
    """An attacker of our own, with the law of weights by *released* area, unfolded, finds nearly as many as is said.

    20 files and releases. Who learns the law knows it less well: at most a tenth fewer. An attack that leaves out the
    weights is a mutant: it finds fewer by more than ten standard errors.
    """
    differs, gains = [], []
    for seed in range(20):
        keys, weight = survey(100 + seed)
        law, seen = law_on(keys, epsilon=3.0), seen_of(keys, weight)
        said = informed(keys, law, shown=seen, seed=seed).anyone.rate
        released = next(releases(law, keys, [1000 + seed]))
        (A, _), u = law.matrices, seen.codes[0]
        counts = np.zeros((AREAS, seen.laws[0].shape[1]))
        np.add.at(counts, (released.codes[0], u), 1)
        learnt = np.maximum(np.linalg.solve(A.T, counts), 0.0) + 0.5 * counts.sum(axis=0) / N
        own = replace(seen, laws=(learnt / learnt.sum(axis=1, keepdims=True),))
        found = link_shown(keys, released, law, own, np.arange(N)).rate
        differs.append(found - said)
        gains.append(found - link(keys, released, law, "keys").rate)
    error = np.std(differs, ddof=1) / np.sqrt(20)
    assert -3 * error - 0.1 * said < np.mean(differs) < 3 * error
    assert np.mean(gains) > 10 * np.std(gains, ddof=1) / np.sqrt(20)


@pytest.mark.statistical
def test_the_law_of_the_file_knows_no_more_than_that_of_the_population():
    """Correct matches by the law of 1,500 records, and by that of 300,000 others: 5% more, at most a tenth."""
    edges, differs = None, []
    for seed in range(15):
        keys, weight = survey(200 + seed)
        seen, law = seen_of(keys, weight), law_on(keys)
        many, weights = survey(900 + seed, n=300_000)
        edges = [weight[seen.codes[0] == u].max() for u in range(seen.laws[0].shape[1]) if (seen.codes[0] == u).any()]
        assert sorted(edges) == edges
        u = np.searchsorted(edges[:-1], weights, side="left")
        counts = np.zeros(seen.laws[0].shape)
        np.add.at(counts, (many.codes[0], np.flatnonzero(np.bincount(seen.codes[0]))[u]), 1)
        of_all = replace(seen, laws=((counts + 1e-9) / (counts + 1e-9).sum(axis=1, keepdims=True),))
        released = next(releases(law, keys, [seed]))
        by_file, by_all = (link_shown(keys, released, law, one, np.arange(N)).rate for one in (seen, of_all))
        differs.append(by_file - by_all)
    assert -3 * np.std(differs, ddof=1) / np.sqrt(15) < np.mean(differs) < 0.1 * by_all


AREA = Variable("area", "key", tuple(range(AREAS)), type="int64")
AGE = Variable("age", "key", tuple(range(AGES)), type="int64")


def book(**numbers):
    return Codebook((AREA, AGE, *(Variable(name, role) for name, role in numbers.items())))


def frame(keys, weight):
    return pa.table({"area": keys.codes[0], "age": keys.codes[1], "w": weight})


def test_a_file_weighs_records_by_its_weight_and_by_no_column_that_is_perturbed_or_dropped():
    keys, weight = survey(7)
    found = {}
    for role in ("weight", "drop"):
        codebook = book(w=role)
        truth = TrueFile.read(frame(keys, weight), codebook, None if role == "weight" else 0.1)
        found[role] = truth.exposure(Mechanism(mechanism().blocks, codebook))
    assert found["weight"].file.shown == (("w", "area"),)
    assert found["drop"].file.shown == ()
    gain = found["weight"].file.anyone.expected - found["drop"].file.anyone.expected
    assert gain > 5 * found["weight"].file.anyone.error
    assert found["weight"].file.individual.mean > found["drop"].file.individual.mean
    assert truth.exposure().file.shown == ()  # before perturbation equal keys are all that tells


def test_households_are_weighed_within_their_size():
    keys, weight = survey(8)
    household = np.arange(N) // 2
    codebook = book(w="weight", h="household")
    truth = TrueFile.read(frame(keys, weight).append_column("h", pa.array(household)), codebook)
    assert truth is not None
    found = truth.exposure(Mechanism(mechanism().blocks, codebook))
    plain = replace(truth, columns=None).exposure(Mechanism(mechanism().blocks, codebook))
    assert found.file.shown == (("w", "area"),)
    assert found.file.some_member.mean > plain.file.some_member.mean
    assert found.joint.mean >= found.file.some_member.mean
