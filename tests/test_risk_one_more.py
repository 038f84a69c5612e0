"""What attackers find who know one unperturbed column besides the keys: brute force, closed form, simulations."""

from __future__ import annotations

import operator

import numpy as np
import pyarrow as pa
import pytest

from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.risk import one_more
from postrand.risk.cells import KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import LEVELS, Spread, informed
from postrand.risk.law import KeyLaw, releases
from postrand.risk.one_more import OneMore, found_too, known_too
from postrand.risk.split_law import law_of
from postrand.support.measure_names import knows_more
from postrand.workflow.comparison_risk import RiskFigure, hardly_more, known_too_in

N = 240
BOOK = Codebook(
    (
        Variable("area", "key", tuple(range(6)), type="int64"),
        Variable("sex", "key", (0, 1), type="int64"),
        Variable("town", "other", tuple(range(9)), type="int64"),
        Variable("pay", "other", type="int64"),
        Variable("w", "weight"),
    )
)


def people(seed=1):
    rng = np.random.default_rng(seed)
    names = {"area": 6, "sex": 2, "town": 9, "pay": 60}
    held = {name: rng.integers(0, size, N) for name, size in names.items()}
    return held | {"w": 10.0 + rng.random(N)}


def keys_of(held):
    return KeyCodes(("area", "sex"), (6, 2), (held["area"], held["sex"]))


def blocks(epsilon=1.5):
    return [Block((name,), randomised_response(size, epsilon)) for name, size in (("area", 6), ("sex", 2))]


def by_hand(keys, drawn, value):
    """Return correct matches in one release, and each chance as stated, among the records with the same value alone."""
    matrices = [block.matrix.array for block in blocks()]
    right, chances = 0.0, np.empty(N)
    for i in range(N):
        same = np.flatnonzero(value == value[i])
        p = np.prod([M[keys.codes[j][same]][:, drawn.codes[j][same]] for j, M in enumerate(matrices)], axis=0)
        w = p[same == i][0] / p.mean(axis=0)
        best = w >= w.max() * (1 - 1e-9)
        right += best[same == i][0] / best.sum()
        chances[i] = w.max() / w.sum()
    return right, chances


def links_of(found):
    return {one.name: one.links for one in found}


def test_right_links_are_those_among_records_with_the_same_value(monkeypatch):
    monkeypatch.setattr(one_more, "RELEASES", 1)
    held = people()
    keys, law = keys_of(held), KeyLaw.of(Mechanism(blocks()), ("area", "sex"), (6, 2))
    columns = {name: (held[name], int(held[name].max()) + 1) for name in ("town", "pay")}
    seed = np.random.default_rng([0, 2]).integers(2**31, size=1).tolist()
    drawn = next(releases(law, keys, seed))
    found = known_too(keys, law, columns)
    assert [one.name for one in found] == ["pay", "town"]
    for one in found:
        right, chances = by_hand(keys, drawn, held[one.name])
        assert one.links == pytest.approx(right, rel=1e-9)
        assert one.chances.mean == pytest.approx(chances.mean(), rel=1e-9)
        for level in (0.05, 0.1, 0.2, 0.5, 0.9):
            assert one.chances.shares[LEVELS.index(level)] == pytest.approx((chances > level).mean(), abs=1e-9)


def test_a_value_that_nobody_else_has_is_found_for_certain_and_one_that_all_have_tells_nothing():
    held = people()
    keys, law = keys_of(held), KeyLaw.of(Mechanism(blocks(0.001)), ("area", "sex"), (6, 2))
    one, all_ = (np.arange(N), N), (np.zeros(N, dtype=np.int64), 1)
    found = links_of(known_too(keys, law, {"number": one, "same": all_}))
    assert found["number"] == N
    assert found["same"] < 10


def test_households_of_one_size_are_compared_with_their_like():
    """Persons who are alone with their value and number of members are found, though others have the value."""
    held = people()
    keys, law = keys_of(held), KeyLaw.of(Mechanism(blocks(0.001)), ("area", "sex"), (6, 2))
    household = np.r_[np.zeros(3), np.arange(1, N - 2)].astype(np.int64)
    value = np.arange(N)
    value[:6] = np.repeat([0, 1, 2], 2)[[0, 2, 4, 1, 3, 5]]  # one of three members and one alone have each
    alone = links_of(known_too(keys, law, {"v": (value, N)}))["v"]
    assert alone == pytest.approx(N - 6 + 3, abs=2.5)
    (all_found,) = known_too(keys, law, {"v": (value, N)}, household=household)
    assert (all_found.links, all_found.chances.mean, all_found.chances.shares[-1]) == (N, 1.0, 1.0)


def test_of_many_groups_and_large_ones_a_part_stands_for_all(monkeypatch):
    held = people(4)
    keys, law = keys_of(held), KeyLaw.of(Mechanism(blocks()), ("area", "sex"), (6, 2))
    columns = {"pay": (held["pay"], 60)}
    (whole,) = known_too(keys, law, columns)
    for name, least in (("GROUPS", 20), ("PAIRS", 300)):
        with monkeypatch.context() as patched:
            patched.setattr(one_more, name, least)
            found = [known_too(keys, law, columns, seed=seed)[0] for seed in range(30)]
        for figure in ("links", "chances.mean", "chances.above"):
            part = operator.attrgetter(figure)
            parts, true = [part(one) for one in found], part(whole)
            assert np.mean(parts) == pytest.approx(true, abs=4 * np.std(parts, ddof=1) / np.sqrt(30) + 0.05 * true)
            assert np.std(parts) > 0


def test_after_a_split_what_a_record_shows_counts(monkeypatch):
    held = people(5)
    book = BOOK.select(["area", "sex"])
    both = Block(("area", "sex"), randomised_response(12, 2.0))
    split = Split.of([0.7, 0.3], [both, Block(("sex",), randomised_response(2, 2.0))])
    keys = keys_of(held)
    law = law_of(Mechanism([], book, split=split), keys.names, keys.shape)
    monkeypatch.setattr(one_more, "RELEASES", 1)
    (found,) = known_too(keys, law, {"pay": (held["pay"], 60)})
    drawn = next(law.drawn(keys, np.random.default_rng([0, 2]).integers(2**31, size=1).tolist()))
    (joint, alone), z = (block.matrix.array for block in split.blocks), drawn.codes
    x, right = keys.codes[0] * 2 + keys.codes[1], 0.0
    for value in np.unique(held["pay"]):
        same = np.flatnonzero(held["pay"] == value)
        shows, area, sex = z[0][same] < 6, np.minimum(z[0][same], 5), z[1][same]  # area 6: not shown
        p = np.where(shows, joint[x[same]][:, area * 2 + sex], alone[keys.codes[1][same]][:, sex])
        w = p / p.mean(axis=0)
        best = w >= w.max(axis=1, keepdims=True) * (1 - 1e-9)
        right += (np.diagonal(best) / best.sum(axis=1)).sum()
    assert found.links == pytest.approx(right, rel=1e-9)


def test_a_key_that_a_split_leaves_as_it_is_is_no_error():
    """There the attacker who knows all keys is not defined: that of the matrices is taken."""
    held = people(7)
    names, shape = ("area", "sex", "town"), (6, 2, 9)
    keys = KeyCodes(names, shape, tuple(held[name] for name in names))
    book = BOOK.select(names)
    split = Split.of(
        [0.6, 0.4], [Block((name,), randomised_response(size, 2.0)) for name, size in (("area", 6), ("sex", 2))]
    )
    law = law_of(Mechanism([], book, split=split), names, shape)
    assert not law.alone
    (found,) = known_too(keys, law, {"pay": (held["pay"], 60)})
    assert found.links > found_too(keys, law).links > 0


@pytest.mark.filterwarnings("ignore")
def test_a_file_tries_what_is_neither_perturbed_nor_a_weight():
    held = people(6)
    truth = TrueFile.read(pa.table(held), BOOK)
    assert truth is not None
    found = truth.known_too(Mechanism(blocks(), BOOK))
    assert {one.name for one in found} == {"town", "pay"}
    cells = {name: len({*zip(held["area"], held["sex"], held[name], strict=True)}) for name in ("town", "pay")}
    assert {one.name: one.before for one in found} == pytest.approx(cells)
    perturbed = Mechanism([*blocks(), Block(("town",), randomised_response(9, 1.0))], BOOK)
    also = {one.name: one for one in truth.known_too(perturbed)}
    assert set(also) == {"pay", "town"}  # what is true of a perturbed one can be known, too
    both = KeyCodes(("area", "sex", "town"), (6, 2, 9), (held["area"], held["sex"], held["town"]))
    full = informed(both, law_of(perturbed, both.names, both.shape), seed=5)
    assert also["town"].links == pytest.approx(full.anyone.expected, abs=4 * full.anyone.error * 2)
    assert also["town"].chances.mean == pytest.approx(full.individual.mean, rel=0.1)


@pytest.mark.filterwarnings("ignore")
def test_of_a_block_with_more_variables_each_can_be_known_too():
    held = people(8) | {"job": np.arange(N) % 3}
    job = Variable("job", "other", (0, 1, 2), type="int64")
    book = Codebook((*BOOK.variables, job))
    truth = TrueFile.read(pa.table(held), book)
    assert truth is not None
    joint = Mechanism([*blocks(), Block(("town", "job"), randomised_response(27, 2.0))], book)
    assert {one.name for one in truth.known_too(joint)} == {"pay", "town", "job"}
    assert truth.exposure(joint).file.anyone.expected > 0


def test_the_error_is_that_of_the_simulated_links(monkeypatch):
    """Over 120 seeds the standard deviation of both kinds is the stated one, within 4 of its own errors."""
    held = people(9)
    keys, law = keys_of(held), KeyLaw.of(Mechanism(blocks()), ("area", "sex"), (6, 2))
    monkeypatch.setattr(one_more, "RELEASES", 1)
    monkeypatch.setattr(one_more, "PAIRS", 300)
    monkeypatch.setattr(one_more, "WORK", 1)
    monkeypatch.setattr(one_more, "FEWEST", 60)
    for tried in (
        lambda seed: known_too(keys, law, {"town": (held["town"], 9)}, seed=seed)[0],
        lambda seed: found_too(keys, law, seed=seed),
    ):
        found = [tried(seed) for seed in range(120)]
        spread, stated = np.std([one.links for one in found], ddof=1), np.mean([one.error for one in found])
        assert 0.6 < spread / stated < 1 + 4 / np.sqrt(2 * 119)  # drawn without replacement: smaller


def figure(after, *more, error=1.0):
    known = tuple(OneMore(name, links, own, Spread(0.1, 0.0, 0.2)) for name, links, own in more)
    return [RiskFigure("correct_matches", "", 90.0, after, "records", error=error, known_too=known)]


def test_what_is_more_by_chance_alone_is_not_told():
    """78 of 27,765 where 57 were said rested on four hundred persons: with 62, the error of it was larger than both."""
    assert known_too_in(figure(57.0, ("pay", 78.0, 62.0))) == ()
    assert hardly_more(figure(57.0, ("pay", 78.0, 62.0))) == ()  # nor that it is little
    assert [one.name for one in known_too_in(figure(57.0, ("pay", 78.0, 5.0), ("town", 60.0, 1.0)))] == ["pay"]
    assert hardly_more(figure(57.0, ("town", 62.0, 5.0), ("pay", 57.0, 5.0))) == ("pay", "town")
    assert hardly_more(figure(57.0)) == ()


def test_the_words_name_the_column_that_tells_most():
    assert knows_more([]) == ()
    said = "Somebody who also knows pay finds about 12 correct matches after the plan (before: 340)"
    assert knows_more([("pay", 12.34, 344.0)]) == (f"{said}.",)
    four = [("pay", 12.34, 344.0), ("a", 9.0, 20.0), ("b", 8.0, 19.0), ("c", 7.0, 18.0)]
    assert knows_more(four) == (f"{said}; a: about 9 (20); b: about 8 (19); other released columns: fewer.",)
