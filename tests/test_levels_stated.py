"""What each model states of exact matrices: its level by its definition, and the claim up to that level alone."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from postrand.certification.account import Account, mechanism_account
from postrand.certification.file_level import FileLevel
from postrand.certification.reachable_rules import reachable
from postrand.certification.series import rho_of
from postrand.certification.units import unit_levels
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import classes_of, moves, parts
from postrand.mechanism.split import Split
from postrand.mechanism.units import Units
from postrand.privacy import (
    ApproximateDifferentialPrivacy,
    Bistochastic,
    ConcentratedPrivacy,
    DifferentialPrivacy,
    MetricPrivacy,
    RenyiPrivacy,
    ShuffledPrivacy,
    SpontaneousRecognition,
    Together,
    composition,
)
from postrand.privacy.composition import _by_renyi, _multiplied, delta_upper
from postrand.privacy.levels import delta, renyi, zcdp
from postrand.privacy.shuffle import shuffled_delta
from postrand.privacy.shuffled import _LARGEST, _local_epsilon
from postrand.support.exact import exp_lower, format_upper

LAW = TransitionMatrix.from_array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.15, 0.6]])
EDGES = ((0, 1, 0.5), (1, 2, 2.0), (0, 2, 1.3))
MODELS = [
    (DifferentialPrivacy, "epsilon", 5.0, {}),
    (ApproximateDifferentialPrivacy, "delta", 0.9, {"epsilon": 0.3}),
    (ConcentratedPrivacy, "rho", 5.0, {}),
    (RenyiPrivacy, "level", 5.0, {"order": 2.5}),
    (MetricPrivacy, "epsilon", 5.0, {"edges": EDGES}),
    (ShuffledPrivacy, "delta", 0.9, {"epsilon": 0.3, "records": 200}),
]


@pytest.mark.parametrize(("model", "name", "wide", "others"), MODELS, ids=lambda x: getattr(x, "name", ""))
def test_a_claim_holds_up_to_the_level_itself_and_no_further(model, name, wide, others):
    matrix = randomised_response(3, 1.0) if model is ShuffledPrivacy else LAW
    found = model(**{name: wide}, **others).check([matrix])
    assert found.holds
    assert 0 < found.level < wide
    at = model(**{name: found.level}, **others).check([matrix])
    assert (at.holds, at.level) == (True, found.level)
    below = math.nextafter(found.level * (1 - 1e-15), 0)
    assert not model(**{name: below}, **others).check([matrix]).holds


@pytest.mark.parametrize(
    "law", [LAW, randomised_response(3, 0.2), TransitionMatrix.from_array(0.5 * LAW.array + 1 / 6)]
)
def test_the_level_of_a_metric_is_per_length_and_names_its_place(law):
    found = MetricPrivacy(5.0, EDGES).check([law])
    weights = law.weights.tolist()
    with mpmath.workdps(40):
        spent = {
            (column, i, k): abs(mpmath.log(mpmath.mpf(weights[i][column]) / weights[k][column])) / mpmath.mpf(length)
            for i, k, length in EDGES
            for column in range(3)
        }
        worst = max(spent, key=spent.__getitem__)
        assert spent[worst] <= found.level <= spent[worst] * (1 + mpmath.mpf(2) ** -50)
    assert found.entries == worst


@pytest.mark.parametrize(
    ("model", "factor", "most"),
    [
        (DifferentialPrivacy(0.7), math.exp(0.7), 0.0),
        (ApproximateDifferentialPrivacy(0.7, 0.05), math.exp(0.7), 0.05),
        (ConcentratedPrivacy(0.3), 1.0, math.sqrt(0.15)),
        (RenyiPrivacy(0.3, 2.0), 1.0, math.sqrt(0.15)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_what_designers_are_told_is_the_documented_inequality(model, factor, most):
    found, array = model.constraints(3), LAW.array
    wanted = [array[i, j] - factor * array[k, j] for i, k in itertools.permutations(range(3), 2) for j in range(3)]
    np.testing.assert_allclose(np.sort(found.A @ array.ravel()), np.sort(wanted), atol=1e-12)
    np.testing.assert_allclose(found.b, most)


def test_designers_of_bistochastic_matrices_are_told_both_sides_of_each_column_sum():
    found, array = Bistochastic(0.5).constraints(3), LAW.array
    np.testing.assert_allclose(found.A @ array.ravel(), [*array.sum(axis=0), *-array.sum(axis=0)])
    np.testing.assert_allclose(found.b, [1, 1, 1, -1, -1, -1])


def test_a_law_that_excludes_values_is_counted_in_delta_beside_one_that_does_not():
    """By all pairs of records, with rational numbers: Σ_y max(0, P(y|x) - e^ε P(y|x'))."""
    one, other = (
        randomised_response(2, 0.5),
        TransitionMatrix.from_array([[0.75, 0.25, 0], [0.25, 0.5, 0.25], [0, 0, 1]]),
    )
    grown, worst = Fraction(math.exp(1.0)), Fraction(0)
    rows = [[Fraction(int(w), UNIT) for w in row] for row in np.kron(one.array, other.array) * UNIT]
    for own, its in itertools.permutations(rows, 2):
        worst = max(worst, sum((max(a - grown * b, Fraction(0)) for a, b in zip(own, its, strict=True)), Fraction(0)))
    assert delta_upper([one, other], 1.0) == pytest.approx(float(worst), rel=1e-12)
    assert worst > 0.9


def test_delta_of_many_laws_by_renyi_is_its_formula_and_an_upper_bound():
    """Canonne, Kamath & Steinke 2020, Proposition 12: the least exp((a-1)(D_a - ε)) (1 - 1/a)^(a-1) / a."""
    orders = [1 + 2.0 ** (k / 2) for k in range(-8, 18)]
    cases = [(12, 0.5, 2.0, None), (12, 0.5, 4.0, None), (6, 1.0, 0.0, 0), (2, 0.01, 0.0199, 25)]
    for number, each, epsilon, best in cases:  # of the last two, the first and the last order say most
        laws = [randomised_response(2, each)] * number
        found = _by_renyi(laws, epsilon)
        levels = [(a - 1) * (number * renyi(laws[0], a) - epsilon + math.log1p(-1 / a)) - math.log(a) for a in orders]
        least = math.exp(min(levels))
        assert least * (1 - 1e-14) <= found <= least * (1 + 1e-6)
        assert best is None or levels.index(min(levels)) == best
        assert delta_upper(laws, epsilon) <= found
    different = [randomised_response(2, 0.4 + 0.01 * k) for k in range(20)]
    assert delta_upper(different, sum(law.epsilon for law in different) + 1e-9) == 0
    assert _by_renyi([TransitionMatrix.identity(2)], 4.0) == 1.0


@pytest.mark.parametrize(
    ("records", "delta", "error"), [(0, 0.5, SpecificationError), (9, 1.0, PrivacyError), (9, 0.0, PrivacyError)]
)
def test_the_level_of_a_file_has_records_and_a_probability(records, delta, error):
    assert FileLevel(1, 0.5).records == 1
    with pytest.raises(error):
        FileLevel(records, delta)


def test_units_say_that_some_law_keeps_classes_and_only_households_draw_a_member():
    classes = TransitionMatrix.from_array(np.kron(np.eye(2), np.full((2, 2), 0.5)))
    blocks = [Block("a", classes), Block("b", randomised_response(2, 1.0))]
    units = Units("hid", 3, "pid", 2)
    found = unit_levels(Mechanism(blocks, units=units))
    assert [told.get("within") for told in found.values()] == [True, True]
    split = Split.of([0.5, 0.5], [Block(n, randomised_response(2, 1.0), unit="household") for n in "cd"])
    found = unit_levels(Mechanism([], split=split, units=units))
    assert {unit: told.get("member") for unit, told in found.items()} == {"household": ["c", "d"], "person": None}


def test_a_rule_is_tried_with_the_subset_that_shows_its_variables():
    book = Codebook(
        tuple(Variable(name, role="key", categories=("x", "y")) for name in "abc"),
        rules=(Rule({"b": "x", "c": "x"}), Rule({"a": "y", "c": "y"})),
    )
    split = Split.of([0.5, 0.5], [Block(name, randomised_response(2, 1.0)) for name in "ab"])
    assert reachable(Mechanism([], book, split=split)) == list(book.rules)


@pytest.mark.parametrize("zeros", [0, 1, 69, 70])
def test_classes_of_a_law_of_two_numbers_a_row_are_those_of_its_graph(zeros):
    """Rows without moves are reached by the others; all 70 alone only where no row moves."""
    off = np.where(np.arange(70) < zeros, 0, UNIT // 200)
    law = TransitionMatrix.constant(UNIT - 69 * off, off)
    assert classes_of(law).tolist() == (list(range(70)) if zeros == 70 else [0] * 70)
    i, j = moves(law)
    assert (law.weights[i, j] > 0).all()
    assert len(parts(law)) == (70 if zeros == 70 else 1)
    assert set(j.tolist()) == set(range(70))


@pytest.mark.parametrize(("model", "name", "wide", "others"), MODELS, ids=lambda x: getattr(x, "name", ""))
def test_a_limit_of_numpy_is_kept_as_a_plain_number(model, name, wide, others):
    assert type(getattr(model(**{name: np.float32(0.5)}, **others), name)) is float
    assert type(Bistochastic(np.float64(0.5)).beta) is float
    assert type(RenyiPrivacy(0.5, np.float64(2.5)).order) is float


@pytest.mark.parametrize(("model", "name", "wide", "others"), MODELS, ids=lambda x: getattr(x, "name", ""))
def test_a_finding_says_its_level_and_a_promise_is_worse_for_a_larger_one(model, name, wide, others):
    matrix = randomised_response(3, 1.0) if model is ShuffledPrivacy else LAW
    found = model(**{name: wide}, **others).check([matrix])
    assert format_upper(found.level) in found.sentence
    words = [model(**{name: level}, **others).promise(4) for level in (0.01, 0.5)]
    numbers = [float(text.partition(" are right without and at most ")[2].split()[0]) for text in words]
    assert 50 < numbers[0] < numbers[1] <= 100


def test_the_least_epsilon_is_the_least_that_is_designed():
    DifferentialPrivacy(1e-9).require_size(2)
    with pytest.raises(PrivacyError, match="too small for a matrix in units of"):
        DifferentialPrivacy(math.nextafter(1e-9, 0)).require_size(2)


def test_the_ends_of_randomised_response_spend_the_whole_delta():
    model = ApproximateDifferentialPrivacy(0.7, 0.05)
    for stay in model.stays(4):
        law = TransitionMatrix.from_array(np.full((4, 4), (1 - stay) / 3) + (stay - (1 - stay) / 3) * np.eye(4))
        assert model.check([law]).level == pytest.approx(0.05, rel=1e-9)
    assert ApproximateDifferentialPrivacy(0.7, 0.5).stays(4)[0] == 0


def test_the_block_that_excludes_values_is_the_worst():
    zero = TransitionMatrix.from_array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.1, 0.8, 0.1]])
    model = ApproximateDifferentialPrivacy(1.0, 0.9)
    assert [model.check(laws).worst for laws in ([LAW, zero], [zero, LAW], [LAW, zero, LAW])] == [1, 0, 1]
    assert "excludes some true values" in DifferentialPrivacy(1.0).check([zero]).sentence


@pytest.mark.parametrize(
    ("weights", "entries"),
    [
        ([[UNIT - 1, 1], [UNIT, 0]], (1, 0, 1)),
        ([[3, UNIT // 2, UNIT // 2 - 3], *[[1, UNIT // 4, 3 * UNIT // 4 - 1]] * 2], (0, 0, 1)),
        ([[2, 3 * UNIT // 4, UNIT // 4 - 2], *[[1, UNIT // 4, 3 * UNIT // 4 - 1]] * 2], (2, 1, 0)),
    ],
)
def test_single_units_decide_where_the_ratio_is_largest(weights, entries):
    assert DifferentialPrivacy(0.1).check([TransitionMatrix(np.array(weights))]).entries == entries


@pytest.mark.parametrize("model", [ConcentratedPrivacy, RenyiPrivacy, DifferentialPrivacy])
def test_no_model_promises_nothing_at_all(model):
    with pytest.raises(PrivacyError, match="is not a positive number"):
        model(0.0)
    with pytest.raises(PrivacyError, match="order is not above 1"):
        RenyiPrivacy(0.5, 1.0)


@pytest.mark.parametrize(("model", "name", "wide", "others"), MODELS, ids=lambda x: getattr(x, "name", ""))
def test_the_worst_of_several_blocks_spends_most(model, name, wide, others):
    if model is not MetricPrivacy:  # a distance is one block's
        weak, strong = randomised_response(3, 0.2), randomised_response(3, 0.9)
        asked = model(**{name: wide}, **others)
        assert [asked.check(laws).worst for laws in ([weak, strong], [strong, weak])] == [1, 0]


def test_rho_of_a_record_counts_its_prior_once():
    spent = Block("a", randomised_response(3, 0.5), provenance="dp", prior_epsilon=0.25)
    mechanism = Mechanism([spent, Block("b", randomised_response(2, 0.75))])
    wanted = zcdp([block.matrix for block in mechanism.blocks]) + 0.25**2 / 2
    found = rho_of(mechanism, mechanism_account(mechanism))
    assert found is not None
    assert wanted <= found <= wanted * (1 + 1e-5)
    assert rho_of(Mechanism({"a": TransitionMatrix.identity(2)}), Account((), (), math.inf)) is None
    large = Mechanism({name: randomised_response(65, 0.5) for name in "ab"})  # each is taken for ε²/2
    assert rho_of(large, mechanism_account(large)) == pytest.approx(0.25, rel=1e-12)


def test_what_designers_are_told_of_a_metric_is_one_row_for_each_way_along_an_edge():
    found, array = MetricPrivacy(0.7, EDGES).constraints(3), LAW.array
    both = [*EDGES, *((k, i, length) for i, k, length in EDGES)]
    wanted = [array[i, j] - math.exp(0.7 * length) * array[k, j] for i, k, length in both for j in range(3)]
    np.testing.assert_allclose(found.A @ array.ravel(), wanted, atol=1e-12)
    assert not found.b.any()


def test_a_metric_of_other_categories_or_with_zeros_has_no_level_and_equal_rows_have_the_level_0():
    chain, zero = (
        ((0, 1, 1.0), (1, 2, 1.0)),
        TransitionMatrix.from_array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.4, 0.5, 0.1]]),
    )
    noise = TransitionMatrix.from_array(np.full((3, 3), 1 / 3))
    for laws, where in (([LAW, LAW], "its edges"), ([randomised_response(4, 0.1)], "its edges"),
                        ([randomised_response(2, 0.1)], "its edges"), ([zero], "")):  # fmt: skip
        found = MetricPrivacy(9.0, chain).check(laws)
        assert (found.holds, found.level, found.worst, found.where) == (False, math.inf, 0, where)
        assert (found.entries is None) is bool(where)
    found = MetricPrivacy(1e-9, chain).check([noise])
    assert (found.holds, found.level) == (True, 0.0)
    parted = MetricPrivacy(9.0, ((0, 1, 1.0), (2, 3, 1.0))).check([randomised_response(4, 0.1)])
    assert (parted.holds, parted.level) == (False, math.inf)
    assert MetricPrivacy(2.0, ((3, 2, 1.0), (0, 1, 1.0), (1, 3, 1.0))).check([randomised_response(4, 0.1)]).holds


def test_a_metric_knows_its_farthest_values_and_refuses_what_is_none():
    model = MetricPrivacy(2.0, ((0, 1, 1.0), (1, 2, 0.25)))
    assert (model.widest, model.spent, model.scaled(0.5).epsilon) == (2.5, 2.5, 1.0)
    assert model.scaled(0.5).edges == model.edges
    line = ((0, 1, 1.0), (1, 2, 1.0))
    for points in (((0, 0), (1, 0)), ((0, 0), (1, 0), (2, 0), (3, 0))):
        with pytest.raises(PrivacyError, match="not one for each category"):
            MetricPrivacy(1.0, line, points)
    assert MetricPrivacy(1.0, line, ((0, 0), (1, 0), (2, 0))).points
    for epsilon, length in ((1.0, 1e-100), (1.0, 1e6), (1e3, 1e3)):
        with pytest.raises(PrivacyError, match="too small or too large"):
            MetricPrivacy(epsilon, ((0, 1, 1.0), (1, 2, length)))
    assert MetricPrivacy(1.0, ((0, 1, 2e-100), (1, 2, 0.99e6))).edges


def test_the_bits_that_are_hidden_are_the_entropies_of_the_rows():
    model, half = Bistochastic(0.5), TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    hidden = 2 - 0.75 * math.log2(3)
    noise = TransitionMatrix.from_array(np.full((8, 8), 1 / 8))
    found = model.check([noise, half, noise])
    assert found.figures == {"bits": pytest.approx(6 + hidden), "most_bits": pytest.approx(7)}
    assert (found.worst, found.where) == (1, "β 0.811278")
    assert found.level == pytest.approx((6 + hidden) / 7, rel=1e-12)
    assert model.check([noise]).figures["bits"] <= 3
    assert model.entropy_floor(8) == pytest.approx(1.5 * math.log(2))
    assert model.promise(1) == model.promise(2) != model.promise(8)
    assert "between two equally likely values" in model.promise(2)
    assert "among 8 equally likely values" in model.promise(8)


def test_the_worst_column_is_named_with_the_rows_where_it_is_largest_and_least():
    model = DifferentialPrivacy(5.0)
    assert model.check([LAW]).entries == (2, 2, 0)  # 0.6 to 0.1
    zero = TransitionMatrix.from_array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.1, 0.8, 0.1]])
    found = model.check([LAW, zero])
    assert (found.holds, found.level, found.worst, found.entries) == (False, math.inf, 1, (2, 2, 0))
    unused = TransitionMatrix.from_array([[0.9, 0.1, 0], [0.3, 0.7, 0], [0.6, 0.4, 0]])
    assert model.check([unused]).entries == (1, 1, 0)  # a value that is never released does not count


def test_ends_and_sums_of_a_differential_level():
    model, grown = DifferentialPrivacy(0.7), math.exp(0.7)
    assert model.stays(4) == pytest.approx((1 / (1 + 3 * grown), grown / (grown + 3)))
    assert (model.spent, model.scaled(3.0).epsilon) == (0.7, 3.0 * 0.7)
    assert Fraction(model.with_prior(0.1).epsilon) >= Fraction(0.7) + Fraction(0.1)
    assert model.with_prior(0.1).epsilon == pytest.approx(0.8)
    assert model.response(4) == randomised_response(4, 0.7)


def test_a_law_is_rounded_inside_its_level_or_not_at_all():
    """By the exact test; what is far outside has no law close by, and a row needs room in the fullest column."""
    model = DifferentialPrivacy(1.0)
    array = np.full((3, 3), 1 / (math.e + 2)) + np.eye(3) * (math.e - 1) / (math.e + 2)
    array = (1 - 1e-13) * array + 1e-13 / 3
    found = model.rounded(array)
    assert found is not None
    assert model.check([found]).holds
    assert np.abs(found.array - array).max() < 1e-15 * 4
    skew = DifferentialPrivacy(1.8).rounded(LAW.array)
    assert skew is not None
    assert np.abs(skew.weights - LAW.weights).max() <= 4
    outside = array + 1e-8 * (np.eye(3) - 1 / 3)
    assert model.rounded(outside) is None
    crowded = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert model.rounded(crowded) == TransitionMatrix.from_array(crowded)
    few = np.full((100, 100), 1 / (99 + math.exp(34))) + np.eye(100) * (math.expm1(34) / (99 + math.exp(34)))
    assert DifferentialPrivacy(34.0).rounded(few) is None  # 15.4 units off the diagonal: 99 of 16 leave less than none


def test_models_together_are_each_of_them():
    weak, strong, other = DifferentialPrivacy(9.0), DifferentialPrivacy(0.1), ConcentratedPrivacy(9.0)
    both = Together((other, weak, strong))
    found = both.check([LAW])
    assert not found.holds
    assert found.level != other.check([LAW]).level
    assert (found.level, found.entries) == (strong.check([LAW]).level, strong.check([LAW]).entries)
    assert found.sentence == "; ".join(model.check([LAW]).sentence for model in both.models)
    held = Together((other, weak)).check([randomised_response(3, 0.2), LAW])
    assert (held.holds, held.level, held.worst) == (True, other.check([randomised_response(3, 0.2), LAW]).level, 1)
    parts = [model.constraints(3) for model in both.models]
    np.testing.assert_array_equal(both.constraints(3).A.toarray(), np.vstack([part.A.toarray() for part in parts]))
    np.testing.assert_array_equal(both.constraints(3).b, np.concatenate([part.b for part in parts]))
    assert Together((weak, strong)).scaled(2.0) == Together((DifferentialPrivacy(18.0), DifferentialPrivacy(0.2)))
    for wrong in ((DifferentialPrivacy,), (weak, DifferentialPrivacy), (), ("differential",)):
        with pytest.raises(PrivacyError, match="no"):
            Together(wrong)
    assert Together(weak).models == (weak,)  # one model is a list of one


def counts_of(model):
    return model.file.counts


def test_only_models_that_need_the_file_are_bound_to_it():
    file = Together((DifferentialPrivacy(1.0), SpontaneousRecognition(0.2, 1)))
    assert file.needs_file
    assert not Together((DifferentialPrivacy(1.0),)).needs_file
    bound = file.on([10, 20, 30])
    assert bound.models[0] is file.models[0]
    assert counts_of(bound.models[1]).tolist() == [10, 20, 30]
    part = bound.part(np.array([0, 2]))
    assert part.models[0] is file.models[0]
    assert counts_of(part.models[1]).tolist() == [10, 30]


@pytest.mark.parametrize(("epsilon", "delta_", "records"), [(0.3, 1e-3, 50), (1.0, 1e-6, 400)])
def test_designers_are_told_the_largest_level_of_a_record_that_shuffling_hides(epsilon, delta_, records):
    model = ShuffledPrivacy(epsilon, delta_, records)
    low, high = _local_epsilon(epsilon, delta_, records)
    assert math.nextafter(low, math.inf) == high
    assert shuffled_delta(low, records, epsilon) <= delta_ < shuffled_delta(high, records, epsilon)
    outer, inner = DifferentialPrivacy(high), DifferentialPrivacy(low)
    assert model.stays(4) == outer.stays(4)
    np.testing.assert_array_equal(model.constraints(3).A.toarray(), outer.constraints(3).A.toarray())
    array = randomised_response(3, low).array
    law = model.rounded(array)
    assert law is not None
    assert law == inner.rounded(array)
    assert model.check([law]).holds
    assert _local_epsilon(_LARGEST - 1, 0.9, 1) == (math.nextafter(_LARGEST, 0), _LARGEST)  # 1 - 1/e is below 0.9


def test_the_claim_of_a_shuffled_file_is_for_its_number_of_records():
    model = ShuffledPrivacy(0.3, 1e-3)
    assert model.of_records(50) == ShuffledPrivacy(0.3, 1e-3, 50)
    assert ShuffledPrivacy(0.3, 1e-3, 50).of_records(60).records == 50
    ShuffledPrivacy(0.3, 1e-3, 50).require(50)
    with pytest.raises(PrivacyError, match="differ in the number of records; got 50; wanted 51"):
        ShuffledPrivacy(0.3, 1e-3, 50).require(51)
    for call in (lambda: model.check([LAW]), lambda: model.constraints(3), lambda: model.rounded(LAW.array)):
        with pytest.raises(PrivacyError, match="depends on the number of records"):
            call()
    noise = TransitionMatrix.from_array(np.full((3, 3), 1 / 3))
    assert ShuffledPrivacy(0.3, 1e-3, 50).check([noise]).level == 0
    zero = TransitionMatrix.from_array([[1.0, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]])
    found = ShuffledPrivacy(9.0, 0.9, 50).check([LAW, zero])
    assert (found.holds, found.level, found.worst) == (False, 1.0, 1)
    assert ShuffledPrivacy(0.3, 1e-3, 10**12).records == 10**12
    for wrong in ((0.3, 1e-3, 10**12 + 1), (0.3, 1e-3, -1), (0.3, 1e-3, 1.5), (0.3, 0, 5), (0.3, 1, 5), (0, 0.5, 5)):
        with pytest.raises(PrivacyError, match="is not a"):
            ShuffledPrivacy(*wrong)


def test_the_delta_of_one_block_is_exact_and_that_of_many_ends_where_the_terms_do(monkeypatch):
    laws = [LAW, randomised_response(2, 0.5)]
    exact, bound = delta_upper(laws, 0.3), _by_renyi(laws, 0.3)
    rows = [[Fraction(int(w), UNIT**2) for w in row]
            for row in np.kron(*(law.weights.astype(object) for law in laws))]  # fmt: skip
    for epsilon in (0.3, *(0.05 * k for k in range(8))):
        grown = exp_lower(epsilon)
        truth = max(sum(max(a - grown * b, Fraction(0)) for a, b in zip(*pair, strict=True))
                    for pair in itertools.permutations(rows, 2))  # fmt: skip
        assert truth <= Fraction(delta_upper(laws, epsilon)) <= truth * (1 + Fraction(1, 2**52))
    assert exact < bound
    # 6 pairs of rows by 1, for order does not matter; each has 3 pairs of entries by 2: 36 terms
    for most, wanted in ((36, exact), (35, bound), (9, bound), (3, bound)):
        monkeypatch.setattr(composition, "MAX_TERMS", most)
        assert delta_upper(laws, 0.3) == wanted
        assert delta_upper([LAW], 0.3) == delta(LAW, 0.3)
    pair = [randomised_response(2, 0.5)] * 2
    monkeypatch.setattr(composition, "MAX_TERMS", 200_000)
    whole = delta_upper(pair, 0.3)
    for most, wanted in ((4, whole), (3, _by_renyi(pair, 0.3))):  # 1 pair by 1, 2 by 2 terms
        monkeypatch.setattr(composition, "MAX_TERMS", most)
        assert delta_upper(pair, 0.3) == wanted
    noise = TransitionMatrix.from_array(np.full((2, 2), 0.5))
    alike = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.1, 0.45, 0.45], [0.4, 0.3, 0.3]])
    monkeypatch.setattr(composition, "MAX_TERMS", 200_000)
    assert delta_upper([noise, alike], 0.3) == delta(alike, 0.3) > 0
    assert delta_upper(laws, LAW.epsilon + 0.5 + 1e-9) == 0.0
    assert delta_upper(laws, LAW.epsilon + 0.5 - 1e-6) > 0


def test_terms_of_a_product_are_counted_together_and_at_most_so_many():
    one, other = {(1, 2): 3, (2, 1): 1}, {(1, 2): 1, (2, 1): 2, (1, 1): 1}
    wanted = {(1, 4): 3, (2, 2): 7, (1, 2): 3, (4, 1): 2, (2, 1): 1}
    assert _multiplied([one, other], 6) == wanted
    assert _multiplied([one, other], 5) is None
    assert _multiplied([], 1) == {(1, 1): 1}
