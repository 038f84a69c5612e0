"""Released values of perturbed columns beside the keys count in the risk of the informed attacker: sums by hand."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.risk import facts_told, shown_columns
from postrand.risk.attack import link
from postrand.risk.by_size import strata
from postrand.risk.cells import KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import informed
from postrand.risk.informed_matches import InformedMatches
from postrand.risk.latent import Belief, Latent
from postrand.risk.law import KeyLaw
from postrand.risk.shown import Shown
from postrand.risk.shown_attack import link_shown
from postrand.risk.shown_columns import Columns
from postrand.risk.split_law import drawn_by, quietly

SIZES = {"a": 3, "b": 4, "y": 3, "w": 2}
KEYS = ("a", "b")
BOOK = Codebook(
    tuple(
        Variable(name, "key" if name in KEYS else "sensitive", tuple(f"{name}{k}" for k in range(size)))
        for name, size in SIZES.items()
    )
)


def records(seed, n=80):
    """Return true values by variable, of which y goes with a and b, and w with a."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    y = np.where(rng.random(n) < 0.7, (a + b) % 3, rng.integers(0, 3, n))
    return {"a": a, "b": b, "y": y, "w": np.where(rng.random(n) < 0.8, a > 0, rng.random(n) < 0.5).astype(int)}


def on(values, names):
    return KeyCodes(tuple(names), tuple(SIZES[n] for n in names), tuple(values[n] for n in names))


def response(*names, epsilon=2.0):
    return Block(names, randomised_response(int(np.prod([SIZES[n] for n in names])), epsilon))


def anything(*names, seed=1, given=()):
    """Return a block of any matrix; rows of different ``given`` values never meet."""
    size = int(np.prod([SIZES[n] for n in names]))
    matrix = np.random.default_rng(seed).dirichlet(np.ones(size), size)
    if given:
        strata_of = np.indices([SIZES[n] for n in names]).reshape(len(names), -1)[[names.index(n) for n in given]]
        matrix *= (strata_of[:, :, None] == strata_of[:, None, :]).all(axis=0)
        matrix /= matrix.sum(axis=1, keepdims=True)
    cells = [*np.ndindex(*(SIZES[n] for n in names))] if given else None
    return Block(names, TransitionMatrix.from_array(matrix), cells, given=tuple(given))


SPLIT = Split.of([0.3, 0.3, 0.4], [response("a", "b"), response("a", "y", epsilon=1.5), response("b", "y", "w")])
MECHANISMS = {
    "separate": Mechanism([response("a"), anything("b"), anything("y", seed=2), response("w")]),
    "others together": Mechanism([response("a"), response("b"), anything("y", "w")]),
    "a key with one beside it": Mechanism([anything("a", "y"), anything("b", "w", seed=3)]),
    "given a key": Mechanism([response("b"), anything("a", "y", given=("a",)), response("w")]),
    "split": Mechanism([], BOOK, split=SPLIT),
}


def latent_of(values, mechanism, names=("y", "w")):
    keys, truth = on(values, KEYS), on(values, (*KEYS, *names))
    law = quietly(mechanism, truth.names, truth.shape)
    return keys, Latent(2, truth, law, tuple(Belief.of(keys, values[n], SIZES[n]) for n in names))


def by_hand(mechanism, truth, released, beliefs):
    """Return ``Σ_y P(y | x) M[(x, y), z]`` of each person and record, by loops over what may be true, (n, n)."""
    n, names = truth.records, truth.names
    blocks = [(1.0, block) for block in mechanism.blocks]
    found = np.zeros((n, n))
    for i, r in np.ndindex(n, n):
        z = {name: int(codes[r]) for name, codes in zip(names, released.codes, strict=True)}
        x = {name: int(codes[i]) for name, codes in zip(names[:2], truth.codes[:2], strict=True)}
        if mechanism.split is not None:
            shows = {name for name in names if z[name] < SIZES[name]}
            blocks = [(one.probability, one.block) for one in mechanism.split.subsets if {*one.variables} == shows]
        for y, w in itertools.product(range(3), range(2)):
            true = x | {"y": y, "w": w}
            chance = beliefs[0][i, y] * beliefs[1][i, w]
            for share, block in blocks:
                shape = [SIZES[v] for v in block.variables]
                row, column = (np.ravel_multi_index([of[v] for v in block.variables], shape) for of in (true, z))
                chance *= share * block.matrix.array[row, column]
            found[i, r] += chance
    return found


@pytest.mark.parametrize("kind", MECHANISMS)
def test_links_are_those_of_a_sum_over_what_may_be_true(kind):
    mechanism, values = MECHANISMS[kind], records(3)
    keys, hidden = latent_of(values, mechanism)
    released = next(drawn_by(hidden.law, hidden.truth, [7]))
    seen = Shown((), (), (), (), (), hidden)
    found = link_shown(hidden.truth, released, hidden.law, seen, np.arange(keys.records))
    p = by_hand(mechanism, hidden.truth, released, hidden.given(np.stack(keys.codes, axis=1)))
    w = p / p.mean(axis=0)
    best = w.max(axis=1)
    tied = w >= best[:, None] * (1 - 1e-9)
    np.testing.assert_allclose(found.correct, np.diagonal(tied) / tied.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.claimed, best / w.sum(axis=1), rtol=1e-9)


def test_what_is_true_beside_the_keys_is_not_used():
    """The attacker links to the same records whatever is true beside the keys: only the law of it counts."""
    values = records(4)
    keys, hidden = latent_of(values, MECHANISMS["separate"])
    released, everybody = next(drawn_by(hidden.law, hidden.truth, [7])), np.arange(keys.records)
    other = KeyCodes(hidden.truth.names, hidden.truth.shape, (*keys.codes, *(c[::-1] for c in hidden.truth.codes[2:])))
    seen = Shown((), (), (), (), (), hidden)
    one, two = (link_shown(truth, released, hidden.law, seen, everybody) for truth in (hidden.truth, other))
    np.testing.assert_array_equal(one.correct, two.correct)


def test_columns_that_say_nothing_change_no_link():
    values = records(5)
    keys, hidden = latent_of(values, MECHANISMS["separate"])
    flat = replace(hidden, beliefs=tuple(Belief(one.alone, ()) for one in hidden.beliefs))
    released, everybody = next(drawn_by(flat.law, flat.truth, [6])), np.arange(keys.records)
    law = KeyLaw.of(MECHANISMS["separate"], KEYS, keys.shape)
    plain = link(keys, released.select(KEYS), law, "keys")
    weighed = link_shown(flat.truth, released, flat.law, Shown((), (), (), (), (), flat), everybody)
    np.testing.assert_allclose(weighed.correct, plain.correct, rtol=1e-9)
    np.testing.assert_allclose(weighed.claimed, plain.claimed, rtol=1e-9)


def test_unperturbed_columns_are_weighed_beside_them():
    values = records(6)
    keys, hidden = latent_of(values, MECHANISMS["separate"])
    town = (values["b"] + np.random.default_rng(8).integers(0, 2, 80)) % 4
    P = np.array([[(town[values["b"] == b] == u).mean() for u in range(4)] for b in range(4)]) + 0.01
    seen = Shown(("town",), ((1,),), ((4,),), (town,), (P,), hidden)
    released, everybody = next(drawn_by(hidden.law, hidden.truth, [9])), np.arange(80)
    found = link_shown(hidden.truth, released, hidden.law, seen, everybody)
    beliefs = hidden.given(np.stack(keys.codes, axis=1))
    p = by_hand(MECHANISMS["separate"], hidden.truth, released, beliefs) * P[values["b"]][:, town]
    w = p / p.mean(axis=0)
    tied = w >= w.max(axis=1)[:, None] * (1 - 1e-9)
    np.testing.assert_allclose(found.correct, np.diagonal(tied) / tied.sum(axis=1), rtol=1e-9)


def test_powers_are_those_by_which_true_values_are_likeliest():
    """By a grid over the powers, by hand, the second given the first: each is within 0.01 of the likeliest."""
    rng, n = np.random.default_rng(11), 400  # too few for pairs of keys
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, 8, n))  # says in part the same
    y = np.where(rng.random(n) < 0.5, a, np.where(rng.random(n) < 0.7, b % 3, rng.integers(0, 3, n)))
    keys = KeyCodes(KEYS, (3, 8), (a, b))
    found, share = Belief.of(keys, y, 3), np.bincount(y) / n
    true, held = np.stack([a, b], axis=1), np.tile(np.log(share), (n, 1))
    assert {places for places, *_ in found.adds} == {(0,), (1,)}
    for (j,), (size,), adds in found.adds:
        counts = np.zeros((size, 3))
        np.add.at(counts, (true[:, j], y), 1)
        more = np.log((counts + share) / (counts + share).sum(axis=1, keepdims=True) / share)
        fits = []
        for power in np.arange(0, 1.005, 0.01):
            p = np.exp(held + power * more[true[:, j]])
            fits.append(np.log(p[np.arange(n), y] / p.sum(axis=1)).sum())
        np.testing.assert_allclose(adds, np.argmax(fits) / 100 * more, atol=0.02 * np.abs(more).max())
        held += adds[true[:, j]]
    p = np.exp(held)
    np.testing.assert_allclose(found.given(true), p / p.sum(axis=1)[:, None], rtol=2e-2, atol=1e-3)


def test_two_keys_that_say_something_only_together_are_taken_together():
    rng, n = np.random.default_rng(16), 2000
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    found = Belief.of(KeyCodes(KEYS, (3, 4), (a, b)), (a + b) % 3, 3)
    assert [places for places, *_ in found.adds] == [(0, 1)]
    assert (found.given(np.array([[0, 1], [2, 3]]))[[0, 1], [1, 2]] > 0.98).all()


def test_a_column_that_goes_with_no_key_has_the_shares_of_the_file():
    rng = np.random.default_rng(12)
    keys, y = KeyCodes(KEYS, (3, 4), (rng.integers(0, 3, 500), rng.integers(0, 4, 500))), rng.integers(0, 5, 500)
    found = Belief.of(keys, y, 6)  # nobody has the last
    assert not found.adds
    np.testing.assert_allclose(found.given(np.array([[0, 1], [2, 3]]))[:, :5], (np.bincount(y) / 500,) * 2, atol=1e-3)
    assert 0 < found.given(np.array([[0, 1]]))[0, 5] < 1e-3


def frame(values):
    return pa.table({name: [f"{name}{k}" for k in codes] for name, codes in values.items()})


@pytest.mark.parametrize("kind", ["separate", "split", "others together"])
def test_a_file_counts_them_and_says_so(kind):
    values, mechanism = records(13, n=600), MECHANISMS[kind]
    truth = TrueFile.read(frame(values), BOOK)
    found = truth.exposure(mechanism).file
    assert {*found.latent} == {"y", "w"}
    law = quietly(mechanism, KEYS, (3, 4))
    assert found.anyone.expected >= informed(truth.keys, law).anyone.expected


def test_a_search_for_a_level_counts_what_every_page_says():
    """A strong column beside keys that are perturbed much: its correct matches are those of whole releases."""
    values = records(14, n=400)
    values["y"] = (values["a"] + values["b"]) % 3
    mechanism = Mechanism([response("a", epsilon=1), response("b", epsilon=1), response("y", epsilon=6)])
    keys, source = on(values, KEYS), frame(values)
    with_it, without = (InformedMatches.of(keys, columns=columns) for columns in (Columns(source, BOOK), None))
    one, two = with_it.under(mechanism, 40, 1), without.under(mechanism, 40, 1)
    assert one[0] > two[0] + 4 * (one[1] + two[1])
    said = with_it.figure(mechanism)
    assert abs(said - one[0]) < 5 * one[1] + 5 * said**0.5 / 10**0.5
    assert with_it.figure(mechanism) == TrueFile.read(source, BOOK).exposure(mechanism).file.anyone.expected


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["separate", "split"])
def test_who_has_the_law_of_the_population_finds_no_more(kind):
    """An attacker of our own, with ``P(y | x)`` of which the files were drawn: at most 3% more than is said.

    30 files and releases. By the keys alone, a mutant, fewer are said, by more than five standard errors.
    """
    said, known, alone = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(500 + seed)
        a, b = rng.integers(0, 3, 400), rng.integers(0, 4, 400)
        y = np.where(rng.random(400) < 0.85, (a + b) % 3, rng.integers(0, 3, 400))
        values = {"a": a, "b": b, "y": y, "w": rng.integers(0, 2, 400)}
        split = Split.of([0.5, 0.5], [response("a", "y", epsilon=4.0), response("b", "y", epsilon=4.0)])
        separate = [response("a", epsilon=0.5), response("b", epsilon=3.0), response("y", epsilon=4.0), response("w")]
        mechanism = Mechanism(separate) if kind == "separate" else Mechanism([response("w")], BOOK, split=split)
        keys, hidden = latent_of(values, mechanism)
        true = np.stack(keys.codes, axis=1)
        exact = np.full((3, 4, 3), 0.05)
        exact[np.arange(3)[:, None], np.arange(4), (np.arange(3)[:, None] + np.arange(4)) % 3] += 0.85
        released = next(drawn_by(hidden.law, hidden.truth, [seed]))
        seen = Shown((), (), (), (), (), hidden)
        said.append(link_shown(hidden.truth, released, hidden.law, seen, np.arange(400)).rate)
        p = by_hand_fast(mechanism, true, released, exact)
        w = p / p.mean(axis=0)
        tied = w >= w.max(axis=1)[:, None] * (1 - 1e-9)
        known.append((np.diagonal(tied) / tied.sum(axis=1)).mean())
        law = quietly(mechanism, KEYS, keys.shape)
        own = KeyCodes(KEYS, released.shape[:2], released.codes[:2])
        alone.append(link(keys, own, law, "keys").rate)
    more = np.array(known) - said
    misses = np.array(known) - alone
    assert more.mean() < 0.03 * np.mean(known) + 3 * more.std(ddof=1) / np.sqrt(30)
    assert misses.mean() > 5 * misses.std(ddof=1) / np.sqrt(30)


def by_hand_fast(mechanism, true, released, exact):
    """Return the same as ``by_hand`` for what goes with y alone, which has the law ``exact`` (3, 4, 3)."""
    a, b = true.T
    za, zb, zy, _ = released.codes
    P = exact[a, b]
    if mechanism.split is None:
        A, B, Y, _ = (block.matrix.array for block in mechanism.blocks)
        return A[a][:, za] * B[b][:, zb] * (P @ Y)[:, zy]
    found = np.empty((a.size, a.size))
    for one in mechanism.split.subsets:
        key, seen, own = (a, za, 3) if "a" in one.variables else (b, zb, 4)
        shows = np.flatnonzero(seen < own)
        M = one.block.matrix.array.reshape(own, 3, own, 3)
        found[:, shows] = np.einsum("nj,njr->nr", P, M[key][:, :, seen[shows], zy[shows]])
    return found


def test_only_what_cannot_be_weighed_is_left_out(monkeypatch):
    """Blocks that hide too many combinations, columns of too many values, and what says nothing by itself."""
    values = records(23, n=600)
    truth = TrueFile.read(frame(values), BOOK)
    both, apart = MECHANISMS["others together"], MECHANISMS["separate"]
    assert truth.columns.latent(truth.keys, both, None).names == ("y", "w")
    monkeypatch.setattr(shown_columns, "MOST_TRUE", 5)
    truth = TrueFile.read(frame(values), BOOK)
    assert truth.columns.latent(truth.keys, both, None) is None
    assert truth.columns.weighed(truth.keys, both, None) == ()
    assert truth.columns.latent(truth.keys, apart, None).names == ("y", "w")
    monkeypatch.setattr(shown_columns, "MOST_CLASSES", 2)
    truth = TrueFile.read(frame(values), BOOK)
    assert truth.columns.latent(truth.keys, apart, None).names == ("w",)
    silent = values | {"w": np.random.default_rng(24).integers(0, 2, 600)}
    other = TrueFile.read(frame(silent), BOOK)
    monkeypatch.undo()
    assert other.columns.latent(other.keys, apart, None).names == ("y",)
    assert other.columns.weighed(other.keys, apart, None) == ("y", "w")  # it is known that w says nothing
    assert other.columns.latent(other.keys, apart, None, every=True).names == ("y", "w")
    assert other.columns.latent(other.keys, MECHANISMS["a key with one beside it"], None).names == ("y", "w")


def test_of_households_of_which_one_member_shows_values_some_whole_ones_are_tried(monkeypatch):
    """Households of four: a quarter shows the fact and is guessed rightly, of the others the shares are known."""
    rng, n = np.random.default_rng(25), 2400
    values = {"a": rng.integers(0, 3, n), "b": rng.integers(0, 4, n), "y": rng.integers(0, 3, n), "w": np.zeros(n, int)}
    house = np.arange(n) // 4
    split = Split.of([1.0], [Block(("y",), randomised_response(3, 12.0), unit="household")])
    mechanism = Mechanism([], BOOK, split=split, units=Units(household="house", largest_household=4))
    keys, truth = on(values, KEYS), on(values, (*KEYS, "y"))
    law = quietly(mechanism, truth.names, truth.shape, house)
    hidden = Latent(2, truth, law, (Belief.of(keys, values["y"], 3),))
    wanted = 0.25 + 0.75 * np.bincount(values["y"]).max() / n
    for most in (n, 800):
        monkeypatch.setattr(facts_told, "PERSONS", most)
        (told,) = facts_told.told_facts(hidden, {"y": 3}, household=house)
        assert told.right == pytest.approx(wanted, abs=0.05)


def test_a_record_shows_the_stratum_by_which_a_fact_was_perturbed():
    """In one stratum, of a quarter, nothing changes, in the other all is noise: closed form."""
    rng, n = np.random.default_rng(28), 4000
    values = {"a": rng.integers(0, 3, n), "b": rng.integers(0, 4, n), "y": rng.integers(0, 3, n)}
    values["w"] = np.r_[0, (rng.random(n - 1) < 0.25).astype(int)]
    turned = (replace(v, categories=("w1", "w0")) if v.name == "w" else v for v in BOOK.variables)
    book = Codebook(tuple(turned))  # neither the order of the alphabet nor that of the file
    matrix = np.kron(np.diag([1.0, 0.0]), np.eye(3)) + np.kron(np.diag([0.0, 1.0]), np.full((3, 3), 1 / 3))
    block = Block(("w", "y"), TransitionMatrix.from_array(matrix), [*np.ndindex(2, 3)], given=("w",))
    noise = [Block((name,), TransitionMatrix.from_array(np.full((k, k), 1 / k))) for name, k in (("a", 3), ("b", 4))]
    truth = TrueFile.read(frame(values), book)
    told = {one.name: one for one in truth.told_facts(Mechanism([*noise, block], book))}
    assert told["y"].right == pytest.approx(0.25 + 0.75 / 3, abs=0.03)


def test_a_missing_value_that_is_kept_is_no_fact():
    """One in ten has none: of the others as many are guessed rightly as where all have an answer."""
    rng, n = np.random.default_rng(26), 4000
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    none = np.where(rng.random(n) < 0.1, 3, y)
    keys = KeyCodes(KEYS, (3, 4), (rng.integers(0, 3, n), rng.integers(0, 4, n)))
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[3, 3] = randomised_response(3, 1.0).array, 1.0
    found: list[facts_told.Told] = []
    for column, law in ((y, randomised_response(3, 1.0).array), (none, matrix)):
        size = len(law)
        truth = keys.with_column("y", column, size)
        block = Block(("y",), TransitionMatrix.from_array(law))
        hidden = Latent(
            2, truth, KeyLaw.of(Mechanism([block]), truth.names, truth.shape), (Belief.of(keys, column, size),)
        )
        found += facts_told.told_facts(hidden, {"y": 3})
    assert found[0].right == pytest.approx(found[1].right, abs=0.03)
    assert found[0].without == pytest.approx(found[1].without, abs=0.02)


def test_one_stratum_of_the_keys_and_these():
    """Households of one size are compared among themselves, on what is seen of the keys and of the rest."""
    values = records(15)
    _, hidden = latent_of(values, MECHANISMS["split"])
    (only,) = strata(hidden.truth, hidden.law, None, np.arange(80))
    assert only.truth.names == (*KEYS, "y", "w")


def test_the_law_of_keys_is_the_mean_over_what_is_true_beside_them():
    """Of blocks of a key and another variable: by hand, with the shares of the file, and of two keys as it is."""
    values = records(17, n=200)
    mechanism = Mechanism([anything("a", "y"), anything("w", "b", seed=3)])
    keys, hidden = latent_of(values, mechanism)
    law = hidden.on_keys()
    for b, (key, other, y_first) in enumerate([("a", "y", False), ("b", "w", True)]):
        M = mechanism.blocks[b].matrix.array
        size, many = SIZES[key], SIZES[other]
        M = M.reshape(many, size, many, size).transpose(1, 0, 3, 2) if y_first else M.reshape(size, many, size, many)
        by_hand = np.zeros((size, size))
        for x in range(size):
            share = np.bincount(values[other][values[key] == x], minlength=many) / (values[key] == x).sum()
            by_hand[x] = np.einsum("y,yzv->z", share, M[x])
        assert law.positions[b] == (b,)
        np.testing.assert_allclose(law.matrices[b], by_hand, rtol=1e-9)
    both = latent_of(values, MECHANISMS["separate"])[1].on_keys()
    plain = KeyLaw.of(MECHANISMS["separate"], KEYS, keys.shape)
    for one, two in zip(both.matrices, plain.matrices, strict=True):
        np.testing.assert_array_equal(one, two)


def test_risk_is_known_where_a_block_perturbs_keys_with_other_variables():
    """Counts of released keys of the mean law are those of whole releases, within five standard errors."""
    values, mechanism = records(18, n=500), MECHANISMS["a key with one beside it"]
    truth = TrueFile.read(frame(values), BOOK)
    law = truth.law(mechanism)
    found = truth.exposure(mechanism)
    assert found.file.anyone.expected > 0
    assert set(found.file.latent) == {"y", "w"}
    _, hidden = latent_of(values, mechanism)
    by_mean, whole = (
        np.array([np.bincount(z.codes[0] * 4 + z.codes[1], minlength=12) for z in drawn_by(of, keys, range(60))])
        for of, keys in ((law, truth.keys), (hidden.law, hidden.truth))
    )
    error = np.sqrt((by_mean.var(axis=0) + whole.var(axis=0)) / 60)
    assert (np.abs(by_mean.mean(axis=0) - whole.mean(axis=0)) < 5 * error).all()
    assert {one.name for one in truth.known_too(mechanism)} == {"y", "w"}


def test_a_split_has_no_mean_law():
    assert latent_of(records(19), MECHANISMS["split"])[1].on_keys() is None


def fact_by_hand(mechanism, truth, released, beliefs, s):
    """Return ``P(y | x) Σ_v P(v | x) M[(x, y, v), z]`` of each person's own record, (n, Y), by loops."""
    n, names = truth.records, truth.names
    found = np.zeros((n, SIZES[names[2 + s]]))
    for i in range(n):
        z = {name: int(codes[i]) for name, codes in zip(names, released.codes, strict=True)}
        x = {name: int(codes[i]) for name, codes in zip(names[:2], truth.codes[:2], strict=True)}
        blocks = list(mechanism.blocks)
        if mechanism.split is not None:
            shows = {name for name in names if z[name] < SIZES[name]}
            blocks = [one.block for one in mechanism.split.subsets if {*one.variables} == shows]
        for y, w in itertools.product(range(3), range(2)):
            true, chance = x | {"y": y, "w": w}, beliefs[0][i, y] * beliefs[1][i, w]
            for block in blocks:
                shape = [SIZES[v] for v in block.variables]
                row, column = (np.ravel_multi_index([of[v] for v in block.variables], shape) for of in (true, z))
                chance *= block.matrix.array[row, column]
            found[i, (y, w)[s]] += chance
    return found / found.sum(axis=1)[:, None]


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("s", [0, 1])
def test_a_fact_is_guessed_by_all_that_the_record_shows(kind, s):
    mechanism, values = MECHANISMS[kind], records(20)
    _, hidden = latent_of(values, mechanism)
    released = next(drawn_by(hidden.law, hidden.truth, [7]))
    true, seen = (np.stack(of.codes, axis=1).astype(np.int64) for of in (hidden.truth, released))
    beliefs = hidden.given(true[:, :2])
    posterior = beliefs[s] * facts_told._likelihood(hidden, s, true, beliefs, seen)
    posterior /= posterior.sum(axis=1)[:, None]
    np.testing.assert_allclose(posterior, fact_by_hand(mechanism, hidden.truth, released, beliefs, s), rtol=1e-9)
    (told,) = facts_told.told_facts(hidden, {hidden.names[s]: SIZES[hidden.names[s]]})
    assert told.name == hidden.names[s]
    most = np.bincount(values[told.name]).max() / 80
    assert told.without == pytest.approx(max((beliefs[s].argmax(axis=1) == values[told.name]).mean(), most))
    assert told.without <= told.right <= 1
    sure = []
    for seed in np.random.default_rng([0, 4]).integers(2**31, size=3).tolist():  # the releases that are drawn
        drawn = next(drawn_by(hidden.law, hidden.truth, [seed]))
        sure.append((fact_by_hand(mechanism, hidden.truth, drawn, beliefs, s).max(axis=1) > facts_told.SURE).mean())
    assert told.sure == pytest.approx(np.mean(sure))


def test_facts_are_told_in_full_where_nothing_is_perturbed_and_not_at_all_where_all_is():
    values = records(21, n=300)
    kept = Mechanism([Block((name,), TransitionMatrix.from_array(np.eye(size))) for name, size in SIZES.items()])
    lost = Mechanism(
        [Block((name,), TransitionMatrix.from_array(np.full((size, size), 1 / size))) for name, size in SIZES.items()]
    )
    for mechanism, right in ((kept, 1.0), (lost, None)):
        for one in facts_told.told_facts(latent_of(values, mechanism)[1], {"y": 3, "w": 2}):
            assert one.right == pytest.approx(one.without if right is None else right)


@pytest.mark.filterwarnings("ignore")
def test_every_command_measures_a_plan_whose_block_perturbs_a_key_with_another_variable(tmp_path):
    """With a sampling fraction, by which the model's measures are computed too, and in the dossier."""
    pq.write_table(frame(records(27, n=600)), tmp_path / "people.parquet")
    BOOK.save(tmp_path / "codebook.toml")
    blocks = "".join(f"[[blocks]]\nvariables = {names}\n" for names in ('["a", "y"]', '["b"]', '["w"]'))
    head = '[source]\nfile = "people.parquet"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\n'
    plan, policy = tmp_path / "plan.toml", tmp_path / "policy.toml"
    plan.write_text(f"{head}epsilon = 4.0\n{blocks}", "utf-8")
    policy.write_text('[[rules]]\nmeasure = "correct_matches"\nat_most = 500\n', "utf-8")
    share = ("--sampling-fraction", "0.1")
    for asked in (
        ("explain", plan, *share),
        ("check", "--plan", plan, "--policy", policy, *share),
        ("compare", plan, plan, *share),
        ("protect", "--plan", plan, "--out", tmp_path / "out", "--dossier", tmp_path / "in", "--seed", "1", *share),
    ):
        done = CliRunner().invoke(main, [str(one) for one in asked])
        assert done.exit_code == 0, done.output
        if asked[0] != "protect":
            assert re.search(r"[Ii]nformed attacker", done.output)
            assert "not known: block" not in done.output
    assert "Expected correct matches" in (tmp_path / "in" / "dossier.html").read_text("utf-8")
