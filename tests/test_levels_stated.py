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
)
from postrand.privacy.composition import _ORDERS, _by_renyi, delta_upper
from postrand.privacy.differential import LEAST_EPSILON
from postrand.privacy.levels import renyi, zcdp

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


def test_the_level_of_a_metric_is_per_length_and_names_its_place():
    found = MetricPrivacy(5.0, EDGES).check([LAW])
    weights = LAW.weights.tolist()
    with mpmath.workdps(40):
        spent = {
            (column, i, k): abs(mpmath.log(mpmath.mpf(weights[i][column]) / weights[k][column])) / mpmath.mpf(length)
            for i, k, length in EDGES
            for column in range(3)
        }
        worst = max(spent, key=spent.__getitem__)
        assert spent[worst] <= found.level <= spent[worst] * (1 + mpmath.mpf(2) ** -50)
    assert found.where == f"column {worst[0]}, rows {worst[1]} and {worst[2]}"


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
    laws = [randomised_response(2, 0.5)] * 12
    for epsilon in (2.0, 4.0):
        found = _by_renyi(laws, epsilon)
        formula = [np.exp((a - 1) * (renyi(laws, a) - epsilon)) * (1 - 1 / a) ** (a - 1) / a for a in _ORDERS[:20]]
        assert min(formula) <= found <= min(formula) * (1 + 1e-6)
        assert delta_upper(laws, epsilon) <= found


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


def test_the_least_epsilon_is_the_least_that_is_designed():
    DifferentialPrivacy(LEAST_EPSILON).require_size(2)
    with pytest.raises(PrivacyError, match="too small for a matrix in units of"):
        DifferentialPrivacy(math.nextafter(LEAST_EPSILON, 0)).require_size(2)


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
