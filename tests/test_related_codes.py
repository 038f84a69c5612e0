"""Codes of unperturbed columns that matter: which they are, what room they get, and that copies follow them."""

import dataclasses

import numpy as np
import pytest
import scipy

from postrand.completion.related import relate, related_copy
from postrand.completion.related_basis import MOST_COLUMNS, basis_of
from postrand.completion.related_codes import Codes, _design, _scores, telling
from postrand.estimate.evidence_variables import Modelled, ModelVariable
from postrand.mixture import Evidence
from tests.test_related import book, known_fit, response, variable

RNG = np.random.default_rng
KEEP = 0.6
PLACES = 12


def number(name, size):
    return ModelVariable(name, "bins", tuple(map(str, range(size))), distinct=True)


def seen(category, rng, size=2):
    """Return the likelihood of a variable that is released by randomised response, and what was released."""
    released = np.where(rng.random(len(category)) < KEEP, category, rng.integers(0, size, len(category)))
    law = KEEP * np.eye(size) + (1 - KEEP) / size
    return law[:, released].T.astype(np.float32), released


def of_places(n, seed):
    """Return codes of places, the chance of a category in each, which has no order, and the category."""
    rng = RNG(seed)
    place = rng.integers(0, PLACES, n).astype(np.int32)
    chance = RNG(1).permutation(np.linspace(0.05, 0.95, PLACES))
    return place, chance, (rng.random(n) < chance[place]).astype(np.int32), rng


def asked(codes, size):
    line = np.arange(size) - size / 2.0
    return Codes(codes, np.stack([line, line**2], axis=1), np.arange(size))


def test_the_statistic_is_that_of_residuals_of_the_records():
    """Record by record: scores regressed on the column's numbers, residuals summed over a code and projected."""
    place, _, category, rng = of_places(600, 3)
    scores = _scores(seen(category, rng)[0])
    column = asked(place, PLACES)
    x = np.column_stack([np.ones(600), column.held[place]])
    counts, projection, left = _design(column)
    residuals = scores - x @ np.linalg.lstsq(x, scores, rcond=None)[0]
    assert scores.T @ scores / 600 == pytest.approx(np.eye(scores.shape[1]), abs=1e-9)
    sums = np.stack([np.bincount(place, one, PLACES) for one in scores.T], axis=1)
    for code in range(PLACES):
        own = (place == code).astype(float)
        apart = own - x @ np.linalg.lstsq(x, own, rcond=None)[0]
        assert (sums - counts[:, None] * (projection @ sums))[code] == pytest.approx(own @ residuals)
        assert left[code] == pytest.approx(apart @ apart)


def test_codes_without_order_are_told_and_the_clearest_come_first():
    place, chance, category, rng = of_places(4_000, 4)
    told = telling([asked(place, PLACES)], [seen(category, rng)[0]])
    line = np.column_stack([np.ones(PLACES), np.arange(PLACES), np.arange(PLACES) ** 2])
    apart = np.abs(chance - line @ np.linalg.lstsq(line, chance, rcond=None)[0])
    assert len(told) >= 6
    assert apart[told[0][1]] > np.median(apart)
    assert apart[[code for _, code in told]].mean() > apart.mean()


def test_of_numbers_that_follow_a_line_or_say_nothing_no_code_is_told():
    """A column's statistic is above 1.5 deviations for about one in twelve; more than 9 of 40: probability 1e-3."""
    many = 0
    for seed in range(40):
        rng = RNG(seed)
        count = rng.integers(0, PLACES, 1_500).astype(np.int32)
        slope = 0.0 if seed % 2 else 0.15
        category = (rng.random(1_500) < scipy.special.expit(slope * (count - 5.5))).astype(int)
        many += bool(telling([asked(count, PLACES)], [seen(category, rng)[0]]))
    assert many <= 9


def test_a_code_that_its_numbers_know_has_no_statistic():
    codes = (np.arange(300) % 3).astype(np.int32)
    assert np.isinf(_design(asked(codes, 3))[2]).all()


def test_what_matters_most_comes_first_and_room_is_bounded():
    """Lines, indicators, squares, codes that matter, products: 1 + 2 + 2 + 2 + 36 or fewer + what is left."""
    rng, n = RNG(5), 6_000
    place = rng.integers(0, 40, n)
    chance = RNG(2).uniform(0.1, 0.9, 40)
    category = (rng.random(n) < chance[place]).astype(int)
    codes = np.column_stack([place, rng.integers(0, 3, n), rng.integers(0, 10, n)]).astype(np.int32)
    kinds = [number("place", 40), variable("c", "categories", 3), variable("y", "bins", 10)]
    plain, told = basis_of(codes, kinds), basis_of(codes, kinds, [seen(category, rng)[0]])
    assert plain.of.tolist() == [0, 1, 3, 2, 2, 4, 6, 7, 7, 7]
    assert told.of[:7].tolist() == plain.of[:7].tolist()
    further = int((told.of == 8).sum())
    assert 15 <= further <= 40
    assert told.of[7:].tolist() == [8] * further + [7] * (len(told.of) - 7 - further)
    assert told.values.shape == (n, min(MOST_COLUMNS, 10 + further))
    assert told.left_out == ()
    np.testing.assert_allclose(told.values[:, :7], plain.values[:, :7])


def test_categories_beyond_the_frequent_ones_have_indicators_where_they_matter():
    rng, n = RNG(6), 5_000
    place = rng.integers(0, 20, n)
    category = (rng.random(n) < RNG(2).uniform(0.1, 0.9, 20)[place]).astype(int)
    told = basis_of(place[:, None].astype(np.int32), [variable("c", "categories", 20)], [seen(category, rng)[0]])
    assert (told.of == 1).sum() == 11
    assert 1 <= (told.of == 4).sum() <= 8


def test_copies_follow_a_number_that_is_a_code():
    """The share of a category in places: by a line and a curve nearly none of their differences, by codes all."""
    place, chance, category, rng = of_places(3_000, 7)
    likelihood, released = seen(category, rng)
    law = response(2, KEEP)
    n = len(place)
    told = Evidence(
        ("x",), (2,), np.full((n, 1), -1, np.int32), np.arange(n + 1), np.zeros(n, np.int32),
        released.astype(np.int32), (law,), np.zeros((0, 1, 2), bool),
    )  # fmt: skip
    share = category.mean()
    fit = known_fit(told, np.array([[1 - share, share]]), 4)
    fit = dataclasses.replace(fit, draws=tuple(dataclasses.replace(d, theta=(np.eye(2),)) for d in fit.draws))
    true = np.bincount(place, category, PLACES) / np.bincount(place)
    for one, least, most in ((number("place", PLACES), 0.85, 1.15), (variable("place", "bins", PLACES), -0.2, 0.5)):
        found = relate(fit, Modelled((one,), (), book("x")), place[:, None])
        assert found is not None
        np.testing.assert_allclose(found.likelihoods[0], likelihood, atol=1e-6)
        copies = [related_copy(found, fit, fit.copy(k), k)[:, 0] for k in range(4)]
        shares = np.mean([np.bincount(place, copy, PLACES) / np.bincount(place) for copy in copies], axis=0)
        assert least < np.polyfit(true, shares, 1)[0] < most
    assert np.std(chance) > 0.2
