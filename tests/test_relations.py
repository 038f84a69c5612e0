"""Relations to unperturbed columns: unbiased sums, the diagnostic that compares them, and pairs that act together."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from postrand.completion import diagnostics_relations
from postrand.completion.diagnostics import Diagnostics, diagnose
from postrand.completion.diagnostics_relations import (
    Relation,
    Relations,
    _Columns,
    _Question,
    _relations,
    compare_relations,
)
from postrand.completion.diagnostics_tables import Seen
from postrand.completion.predictive import LEVEL
from postrand.completion.related import relate, related_copy, separated
from postrand.completion.related_basis import basis_of
from postrand.completion.related_pairs import DEVIATIONS, Acting, _Found, acting_pairs, interactions
from postrand.completion.related_sums import shown, true_sums, unbiased_sums
from postrand.estimate.evidence_variables import TAKEN_FOR_TRUE, Modelled, ModelVariable
from postrand.mixture import Evidence, Law
from tests.test_related import book, known_fit, response, variable

RNG = np.random.default_rng
SIZES = (2, 2, 20)


def file(n, seed, number, keep=0.7):
    """Two dependent binary variables, each released alone, and a number in 20 bins: ``number(a, b, rng)``."""
    rng = RNG(seed)
    a = rng.integers(0, 2, n)
    b = (rng.random(n) < np.where(a, 0.3, 0.6)).astype(int)
    values = number(a, b, rng)
    rank = (values.argsort().argsort() * 20 // n).astype(np.int32)
    released = [np.where(rng.random(n) < keep, x, rng.integers(0, 2, n)) for x in (a, b)]
    laws = (response(2, keep), dataclasses.replace(response(2, keep), variables=(1,)))
    exact = np.column_stack([np.full((n, 2), -1), rank]).astype(np.int32)
    told = Evidence(
        ("a", "b", "y"),
        SIZES,
        exact,
        2 * np.arange(n + 1),
        np.tile(np.arange(2, dtype=np.int32), n),
        np.stack(released, axis=1).ravel().astype(np.int32),
        laws,
        np.zeros((0, 3, 20), bool),
    )
    described = (variable("a", "perturbed", 2), variable("b", "perturbed", 2), variable("y", "bins", 20))
    return told, Modelled(described, (), book("a", "b")), np.column_stack([a, b]).astype(np.int32), values


def right(a, b, rng):
    return a - 0.7 * b + rng.normal(size=len(a))


def together(a, b, rng):
    return 1.6 * a * b + rng.normal(size=len(a))


def waves(a, b, rng):
    """Of one category five bumps, which no straight line, square or product is."""
    smooth = rng.uniform(-4, 4, len(a))
    return np.where(a, np.round(smooth / 2) * 2 + rng.normal(0, 0.2, len(a)), rng.uniform(-4, 4, len(a)))


def fitted(n, seed, number, copies=4, search=False):
    """Return the relations that a fit with the right table keeps, and all that they are made of."""
    told, described, true, values = file(n, seed, number)
    inner, _, columns, codes = separated(told, described)
    table = np.bincount(2 * true[:, 0] + true[:, 1], minlength=4).reshape(2, 2) / n
    fit, seen = known_fit(inner, table, copies), Seen(inner)
    related = relate(fit, columns, codes)
    assert related is not None
    made = [related_copy(related, fit, fit.copy(k), k) for k in range(copies)]
    if search:
        acting = acting_pairs(seen, related.places, related.names, related.basis, made)
        related = dataclasses.replace(related, acting=acting)
        made = [related_copy(related, fit, fit.copy(k), k) for k in range(copies)]
    return compare_relations(related, seen, copies, made.__getitem__), related, made, true, values


def slope(codes, values):
    """Return the coefficient of the product in a linear regression of the number."""
    a, b = codes.T
    x = np.column_stack([np.ones(len(a)), a, b, a * b])
    return np.linalg.lstsq(x, values, rcond=None)[0][3]


def test_contributions_of_released_cells_are_the_true_ones_on_average() -> None:
    """Of every true cell, over all that can be released: by the laws themselves, no sampling."""
    told, described, *_ = file(60, 1, right)
    inner = separated(told, described)[0]
    (part,) = shown(Seen(inner), (0, 1))
    law = 0.7 * np.eye(2) + 0.15
    np.testing.assert_allclose(np.kron(law, law) @ part.values, np.eye(4), atol=1e-12)
    assert sorted(part.records) == list(range(60))


def test_a_split_counts_the_records_that_show_the_variables() -> None:
    """Half of the records show both, by one joint law: each stands for two."""
    told, described, true, values = file(4_000, 2, right)
    inner = separated(told, described)[0]
    seen = np.arange(4_000) % 2 == 0
    cells = np.array([[a, b] for a in range(2) for b in range(2)], np.int32)
    joint = Law((0, 1), cells, 0.6, np.full(4, 0.1))
    cell = 2 * true[:, 0] + true[:, 1]
    shows = np.where(RNG(4).random(4_000) < 0.6, cell, RNG(5).integers(0, 4, 4_000))
    one = response(2, 0.5)
    half = dataclasses.replace(
        inner,
        start=np.arange(4_001),
        law=np.where(seen, 0, 1).astype(np.int32),
        released=np.where(seen, shows, true[:, 0]).astype(np.int32),
        laws=(joint, one),
    )
    parts = shown(Seen(half), (0, 1))
    column = (values - values.mean())[:, None]
    total, square = unbiased_sums(parts, column)
    wanted = true_sums(true, (0, 1), (2, 2), column)
    error = np.sqrt(np.diag(square[0]))
    assert np.abs((total - wanted) / error).max() < 4
    assert sum(len(part.records) for part in parts) == 2_000


def test_the_covariance_of_the_sums_is_that_of_many_releases() -> None:
    told, described, true, values = file(300, 3, right)
    inner = separated(told, described)[0]
    column, rng, sums, squares = values[:, None], RNG(6), [], []
    for _ in range(300):
        cells = np.where(rng.random((300, 2)) < 0.7, true, rng.integers(0, 2, (300, 2)))
        again = dataclasses.replace(inner, released=cells.ravel().astype(np.int32))
        total, square = unbiased_sums(shown(Seen(again), (0, 1)), column)
        sums.append(total[0])
        squares.append(square[0])
    held = np.diag(true_sums(true, (0, 1), (2, 2), column**2)[0])
    wanted = np.mean(squares, axis=0) - held
    found = np.cov(np.array(sums).T)
    assert np.abs(found / wanted - 1)[np.eye(4, dtype=bool)].max() < 4 * math.sqrt(2 / 299)
    middle = true_sums(true, (0, 1), (2, 2), column)[0]
    assert np.abs((np.mean(sums, axis=0) - middle) / np.sqrt(np.diag(wanted) / 300)).max() < 4


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (3, 3)])
def test_interactions_leave_all_margins_alone(shape: tuple[int, int]) -> None:
    found = interactions(np.ones(shape, bool)).reshape(*shape, -1)
    assert found.shape[2] == (shape[0] - 1) * (shape[1] - 1)
    assert np.abs(found.sum(axis=0)).max() < 1e-12
    assert np.abs(found.sum(axis=1)).max() < 1e-12
    assert interactions(np.eye(2, dtype=bool)).shape == (4, 0)


def test_the_move_leads_from_one_posterior_to_the_other() -> None:
    """Of one direction, T ~ N(0, J + τ²J²) and U ~ N(T, V); the copies have the mean and variance of τ = 0."""
    j, v, u = 3.0, 8.0, 5.0
    whole = np.array([[j + v]])
    r = (j + v) / v * (u - j / (j + v) * u)  # what the copies leave of the difference, taken back
    found = _Found((0, 1), 1, "y", np.ones((1, 1)), np.array([r]), np.array([[j]]), whole, np.zeros((1, 1)))
    for deviation, factor in zip(DEVIATIONS, found.log_factors()[1:], strict=True):
        prior = j + deviation**2 * j * j
        move, root = found.moved(deviation)
        assert j / (j + v) * u + move[0] == pytest.approx(prior / (prior + v) * u)
        assert root[0, 0] ** 2 == pytest.approx(prior * v / (prior + v) - j * v / (j + v))
        wanted = stats.norm.logpdf(u, 0, math.sqrt(prior + v)) - stats.norm.logpdf(u, 0, math.sqrt(j + v))
        assert factor == pytest.approx(wanted)


def test_a_copy_draws_whether_variables_act_together() -> None:
    parts = (np.array([1.0]), np.array([5.0]))
    roots = (np.zeros((1, 1)),) * 2
    one = Acting((0, 1), 1, "y", np.array([0.2, 0.3]), np.ones((1, 1)), parts, roots)
    drawn = [one.drawn(RNG([7, k])) for k in range(2_000)]
    shares = [np.mean([d is not None and d[0] == value for d in drawn]) for value in (1.0, 5.0)]
    assert shares == pytest.approx([0.2, 0.3], abs=4 * math.sqrt(0.25 / 2_000))
    assert one.probability == pytest.approx(0.5)


def test_copies_take_the_sums_that_they_are_moved_to_and_keep_all_margins() -> None:
    told, described, true, _ = file(3_000, 8, together)
    inner, _, columns, codes = separated(told, described)
    table = np.bincount(2 * true[:, 0] + true[:, 1], minlength=4).reshape(2, 2) / 3_000
    fit = known_fit(inner, table, 2)
    plain = relate(fit, columns, codes)
    assert plain is not None
    direction = interactions(np.ones((2, 2), bool))
    move = np.array([120.0])
    one = Acting((0, 1), 1, "y", np.ones(1), direction, (move,), (np.zeros((1, 1)),))
    moved = dataclasses.replace(plain, acting=(one,))
    phi = plain.basis.values.astype(float)
    apart = np.mean([_sums(moved, fit, k, phi) - _sums(plain, fit, k, phi) for k in range(2)], axis=0)
    wanted = (direction @ move).reshape(2, 2)
    assert np.abs(apart[1] - wanted).max() < 25  # one candidate of each record is picked, at random
    assert np.abs(apart[0]).max() < 60
    assert np.abs(apart[1].sum(axis=0)).max() < 30


def _sums(related, fit, k, phi):
    return true_sums(related_copy(related, fit, fit.copy(k), k), (0, 1), (2, 2), phi).reshape(-1, 2, 2)


@pytest.mark.statistical
def test_a_right_model_seldom_fails_and_its_p_values_are_uniform() -> None:
    """20 files; at a level of 1% more than 3 failures have probability 4e-5. The 60 p-values: sign test at 4e-5."""
    found = [fitted(400, seed, right)[0] for seed in range(20)]
    assert sum(bool(one.failed(LEVEL)) for one in found) <= 3
    low = sum(relation.p < 0.5 for one in found for relation in one.compared)
    assert low <= 60 * 0.5 + 4 * math.sqrt(60 * 0.25)


@pytest.mark.statistical
@pytest.mark.parametrize("copies", [2, 4, 20])
def test_copies_of_a_right_model_seldom_fail_however_few_they_are(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 normal files, 30 sums; copies vary in one direction more than they should. More than 11: probability 5e-5.

    Judged as if few copies said for certain how much copies vary (chi-squared alone), far more fail.
    """
    rng, failures, much = RNG(copies), 0, RNG(1).normal(size=30)[:, None] * 2.0
    spread = 0.1 * np.eye(30) + sum(np.outer(v, v) for v in rng.normal(size=(3, 30)))
    known = np.diag(rng.uniform(0.2, 3.0, 30) * np.diag(spread))  # of the prior
    gain = known @ np.linalg.inv(known + spread)
    within, noise, prior = (np.linalg.cholesky(m) for m in (known - gain @ known, spread, known))
    for _ in range(300):
        unbiased = prior @ rng.normal(size=30) + noise @ rng.normal(size=30)
        drawn = (gain @ unbiased)[:, None] + within @ rng.normal(size=(30, copies)) + much * rng.normal(size=copies)
        monkeypatch.setattr(diagnostics_relations, "unbiased_sums", lambda *_, u=unbiased: (u[None], spread[None]))
        one = _Columns(np.zeros((1, 1)), np.zeros((1, 1)), {"y": slice(0, 1)})
        asked = _Question((0,), [], one, [c[None] for c in drawn.T], [np.zeros((1, 30))])
        failures += next(_relations(asked, ("a",))).p < LEVEL
    assert failures <= 11


@pytest.mark.statistical
@pytest.mark.parametrize(("number", "named"), [(together, "a by b with y"), (waves, "a with y")])
def test_a_relation_that_the_model_does_not_have_is_found(number, named) -> None:
    """Without a search for pairs, an interaction on a number; a relation that the basis does not have."""
    found = [fitted(3_000, seed, number)[0] for seed in range(4)]
    assert all(one.failed(LEVEL) for one in found)
    assert all(str(one.failed(LEVEL)[0]) == named for one in found)


@pytest.mark.statistical
def test_pairs_that_act_together_are_found_and_the_copies_take_their_product_from_the_release() -> None:
    """The sums of the copies come to the unbiased ones, whose own error they then have; the product rises with them."""
    plain: list[float] = []
    moved: list[float] = []
    for seed in range(2):
        for held, search in ((plain, False), (moved, True)):
            compared, related, made, true, values = fitted(2_500, seed, together, search=search)
            held.append(np.mean([slope(codes, values) for codes in made]) / slope(true, values))
        assert compared.together == ("a by b on y",)
        assert related.acting[0].probability > 0.95
        assert not compared.failed(LEVEL)
    assert np.mean(plain) < 0.5
    assert np.mean(moved) > np.mean(plain) + 0.15


@pytest.mark.statistical
def test_where_variables_do_not_act_together_nothing_is_named() -> None:
    for seed in range(4):
        compared, related, *_ = fitted(800, seed, right, search=True)
        assert all(one.probability < 0.9 for one in related.acting)
        assert not compared.failed(LEVEL)


def test_bands_have_about_equal_sizes_and_missing_values_are_apart() -> None:
    codes = np.column_stack([np.arange(600) % 24, np.arange(600) % 3, np.minimum(np.arange(600) % 40, 9)])
    labels = (*map(str, range(23)), "(missing)")
    kinds = (ModelVariable("y", "bins", labels), variable("c", "categories", 3), variable("d", "categories", 10))
    bands = basis_of(codes.astype(np.int32), kinds).bands
    sizes = np.bincount(bands[:, 0])
    assert sizes[-1] == 25
    assert sizes[:-1].max() <= 2 * sizes[:-1].min()
    assert len(set(bands[:, 1])) == 3
    assert bands[:, 2].max() == 6


def test_a_relation_that_fails_is_a_problem_and_one_that_was_mended_is_said() -> None:
    bad, good = Relation(("a", "b"), "y", 9.0, 1e-9), Relation(("a",), "y", 1.0, 0.4)
    assert Relations((good,), ()).failed(LEVEL) == []
    told = diagnosed(Relations((good, bad), ("a by b on z",)))
    assert "2 relations): a by b with y. Analyses that relate these are biased" in told.problems[0]
    assert not told.ok
    assert any("what two perturbed variables do together" in text and "a by b on z" in text for text in told.warnings)
    assert told.to_dict()["relations"]["compared"][1]["p_value"] == 1e-9
    assert "Relations to unperturbed columns: 2 compared with the release" in str(told)
    assert diagnosed(Relations((good,), ())).problems == ()
    assert diagnosed(None).to_dict()["relations"] is None


def test_a_relation_with_a_number_that_moved_by_rank_is_not_sent_to_an_estimate() -> None:
    bad, other = Relation(("a",), "pay", 9.0, 1e-9), Relation(("a",), "y", 9.0, 1e-9)
    moved = dataclasses.replace(diagnosed(Relations((bad,), ())), approximated={"pay": TAKEN_FOR_TRUE})
    (text,) = moved.problems
    assert "Next: leave those with pay out" in text
    assert "use estimates" not in text
    both = dataclasses.replace(moved, relations=Relations((bad, other), ())).problems[0]
    assert "use estimates from the release alone for the others" in both


def test_chains_that_are_too_short_have_one_next_step() -> None:
    told = diagnosed(None)
    some = np.full_like(told.chains.effective, 13.0)
    short = dataclasses.replace(told.chains, effective=some, r_hat=np.full_like(some, 1.2), asked=6000)
    said = dataclasses.replace(told, chains=short)
    assert "Next: ask for more sweeps: this fit had 6000, so for example --sweeps 60000." in said.problems[0]
    (rough,) = (text for text in said.warnings if "standard errors are rough" in text)
    assert "--sweeps" not in rough


def diagnosed(relations) -> Diagnostics:
    told, described, true, _ = file(200, 1, right)
    table = np.bincount(2 * true[:, 0] + true[:, 1], minlength=4).reshape(2, 2) / 200
    found = diagnose(known_fit(separated(told, described)[0], table, 4))
    return dataclasses.replace(found, relations=relations)
