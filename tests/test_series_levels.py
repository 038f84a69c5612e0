"""Levels in a series, as numbers: sums, the least ε at a δ, what is read of a certificate, and the ρ of a release."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from postrand.certification.account import mechanism_account
from postrand.certification.series import Level, Series, certified_level, rho_of, series_from_dict
from postrand.errors import SpecificationError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy import ApproximateDifferentialPrivacy, DifferentialPrivacy, Finding
from postrand.privacy.levels import zcdp

NONE = Level(None)
RR = randomised_response(3, 0.5)


@pytest.mark.parametrize("rho", [1e-9, 0.03, 1.2, 700.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, 1 - 2**-53])
def test_the_least_epsilon_at_a_delta_is_rounded_up_and_tight(rho, delta):
    """Against ``ρ + 2 √(ρ ln(1/δ))`` to 60 digits; ε itself counts where it is smaller."""
    with localcontext() as digits:
        digits.prec = 60
        exact = Decimal(rho) + 2 * (-Decimal(rho) * Decimal(delta).ln()).sqrt()
    found = Level(None, rho=rho).at(delta)
    assert found is not None
    assert exact <= Decimal(found) <= exact * (1 + Decimal("1e-12"))
    assert Level(found / 2, rho=rho).at(delta) == found / 2
    assert Level(found * 2, rho=rho).at(delta) == found


def test_a_level_says_no_more_at_a_delta_that_is_none_or_where_it_has_its_own():
    for delta in (0.0, 1.0, -0.5, 1.5):
        assert Level(3.0, rho=0.1).at(delta) == 3.0
    assert Level(3.0, 1e-9, rho=0.1).at(0.5) == 3.0
    assert Level(3.0).at(0.5) == 3.0
    assert NONE.at(0.5) is None


def test_levels_add_up_and_the_worse_of_two_counts():
    one, two = Level(1.0, 0.25, 0.5), Level(2.0, 0.5, 0.125)
    assert one + two == Level(3.0, 0.75, 0.625)
    assert one.largest(two) == two.largest(one) == Level(2.0, 0.5, 0.5)
    assert Level(1.0, 0.5) + Level(1.0, 0.5) == NONE  # δ = 1: anything may happen
    for other in (Level(2.0), Level(None, rho=0.5), NONE):
        wanted = (None if other.epsilon is None else 2.0, None if other.rho is None else 0.5)
        assert ((one.largest(other)).epsilon, one.largest(other).rho) == wanted
        assert (other.largest(one).epsilon, other.largest(one).rho) == wanted
    assert (one + NONE).epsilon is (NONE + one).epsilon is (one + Level(1.0)).rho is None
    thirds = [0.1, 0.7, 1e-17, 3.3]
    total = Level(0.0)
    for epsilon in thirds:
        total += Level(epsilon)
    assert total.epsilon is not None
    assert (
        sum(map(Fraction, thirds)) <= Fraction(total.epsilon) <= sum(map(Fraction, thirds)) * (1 + Fraction(1, 10**15))
    )


def test_levels_are_written_with_their_delta_where_there_is_one():
    assert [str(x) for x in (NONE, Level(1.5), Level(1.5, 1e-6))] == ["infinity", "1.5", "1.5, δ 0.000001"]
    assert Series("p", 2, "wave", "0" * 64, Level(1.0), NONE).said["total"] == "no finite ε"
    assert Series("p", 2, "wave", "0" * 64, Level(1.0), Level(2.0, 1e-6)).said == {
        "number": 2, "population": "p", "total": "ε <= 2, δ 0.000001",
    }  # fmt: skip


def read(level, total, certified, number=2, **more):
    kind = "first" if number == 1 else "wave"
    data = {"population": "p", "number": number, "kind": kind, "previous": "0f" * 32, "level": level, "total": total}
    return series_from_dict(data | more, certified)


@pytest.mark.parametrize(
    ("level", "total", "holds"),
    [
        ((1.0, 0), (1.0, 0), True),
        ((1.0, 0), (math.nextafter(1.0, 0), 0), False),
        ((1.0, 1e-6), (1.0, 1e-6), True),
        ((1.0, 1e-6), (9.0, 9e-7), False),
        ((1.0, 0), (9.0, 1e-6), True),
        ((1.0, 0), (None, 0), True),
        ((None, 0), (None, 0), True),
        ((None, 0), (9.0, 0), False),
        ((1.0, 1e-6), (None, 0), False),
        ((1.0, 1e-6), (None, 1e-6), True),
        ((0.0, 0), (0.0, 0), True),
    ],
)
@pytest.mark.parametrize("number", [1, 2])
def test_a_total_is_read_unless_it_is_below_the_level(level, total, holds, number):
    first, second = plain = [{"epsilon": e, **({"delta": d} if d else {})} for e, d in (level, total)]
    if not holds:
        with pytest.raises(SpecificationError, match="contradicts the level"):
            read(first, second, Level(*level), number)
        return
    found = read(first, second, Level(*level), number)
    assert found == Series("p", number, "first" if number == 1 else "wave", "0f" * 32, Level(*level), Level(*total))
    assert series_from_dict(found.to_dict(), Level(*level)) == found
    assert [found.to_dict()[name] for name in ("level", "total")] == plain


@pytest.mark.parametrize(
    "level",
    [
        {"epsilon": math.inf},
        {"epsilon": -1e-9},
        {"epsilon": "1"},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": None},
        {"epsilon": 1.0, "delta": True},
        {"epsilon": None, "delta": -0.1},
        {"delta": 0.5},
        [1.0],
        None,
    ],
    ids=str,
)
def test_what_is_no_level_is_refused(level):
    assert read({"epsilon": 1}, {"epsilon": 2, "delta": 0.5}, Level(1.0)).total == Level(2, 0.5)
    with pytest.raises(SpecificationError, match="'total' is not well formed"):
        read({"epsilon": 1.0}, level, Level(1.0))
    with pytest.raises(SpecificationError, match="'level' is not well formed"):
        read(level, {"epsilon": None}, NONE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"previous": "0f" * 31}, "'previous'"),
        ({"previous": "0F" * 32}, "'previous'"),
        ({"previous": 3}, "'previous'"),
        ({"previous": int("1" * 64)}, "'previous'"),
        ({"number": "2"}, "'number'"),
        ({"number": True}, "'number'"),
        ({"population": None, "kind": "again", "disjoint": 1}, "'population'.*\n.*'kind'.*\n.*'disjoint'"),
    ],
    ids=str,
)
def test_every_field_that_is_not_well_formed_is_named(change, words):
    with pytest.raises(SpecificationError, match=words):
        read({"epsilon": 1.0}, {"epsilon": 2.0}, Level(1.0), **change)
    assert read({"epsilon": 1.0}, {"epsilon": 2.0}, Level(1.0), disjoint="other people").to_dict()["disjoint"]
    for number, kind in ((1, "wave"), (2, "first")):
        with pytest.raises(SpecificationError, match="the total, or the kind"):
            read({"epsilon": 1.0}, {"epsilon": 2.0}, Level(1.0), number, kind=kind)
    with pytest.raises(SpecificationError, match="not an object"):
        series_from_dict([1], Level(1.0))
    for certified in (Level(0.5), Level(1.0, 1e-6), NONE):
        with pytest.raises(SpecificationError, match="not that of the release"):
            read({"epsilon": 1.0}, {"epsilon": 2.0}, certified)


# -- the level and the ρ of a release -------------------------------------------------------------------------------


def claim(privacy, variables=("a", "b"), within=False, level=1e-3, **figures):
    held = Finding(True, level, "", 0, "", figures=figures)
    return SimpleNamespace(privacy=privacy, variables=variables, within=within), held


def test_a_claim_counts_where_no_epsilon_is_finite_and_it_is_about_every_record_and_variable():
    zeros = TransitionMatrix.from_array([[0.9, 0.1], [0.0, 1.0]])
    infinite = Mechanism({"a": zeros, "b": zeros})
    account = mechanism_account(infinite)
    one, two = ApproximateDifferentialPrivacy(1.0, 0.01), ApproximateDifferentialPrivacy(2.0, 0.01)
    cases = [
        ([], NONE),
        ([claim(DifferentialPrivacy(0.1))], NONE),
        ([claim(one, ("a",))], NONE),
        ([claim(one, within=True)], NONE),
        ([claim(one, ("b", "a"))], Level(1.0, 1e-3)),
        ([claim(two), claim(one, level=2e-3)], Level(1.0, 2e-3)),
        ([claim(one, priors=0.25), claim(one, ("a",))], Level(1.25, 1e-3)),
    ]
    for claims, wanted in cases:
        assert certified_level(infinite, account, claims) == wanted
    assert rho_of(infinite, account) is None
    finite = Mechanism({"a": RR, "b": RR})
    own = mechanism_account(finite)
    assert certified_level(finite, own, [claim(one)]) == Level(own.total)


def rho(*blocks, split=None):
    mechanism = Mechanism(list(blocks), split=split)
    found = rho_of(mechanism, mechanism_account(mechanism))
    assert found is not None
    return found


def half_square(epsilon):
    return Fraction(epsilon) ** 2 / 2


def test_the_rho_of_a_release_is_that_of_its_laws_and_priors():
    """Small laws have their own ρ; of larger ones, and of every prior, ε²/2, in exact numbers and rounded up."""
    spent = {"provenance": "dp", "prior_epsilon": 0.3}
    slack = 1 + Fraction(1, 10**13)
    for epsilon in (0.1, 0.7, 1.1, 2.3):
        large = randomised_response(65, epsilon)
        assert half_square(large.epsilon) <= rho(Block("a", large)) <= half_square(large.epsilon) * slack
        both = 2 * half_square(large.epsilon)  # not half the square of the sum
        assert both <= rho(Block("a", large), Block("b", large)) <= both * slack
    small = randomised_response(64, 0.7)
    assert rho(Block("a", small)) == zcdp(small) < half_square(small.epsilon) * Fraction(9, 10)
    exact = Fraction(zcdp(RR)) + half_square(0.3)
    assert exact <= rho(Block("a", RR, **spent)) <= exact * slack
    loose = TransitionMatrix.from_array([[0.9, 0.1], [0.2, 0.8]])
    subsets = [Block("b", loose, **spent), Block("c", RR, **spent)]
    found = rho(Block("a", RR), split=Split.of([0.5, 0.5], subsets))
    exact = Fraction(zcdp(RR)) + Fraction(zcdp(loose)) + 2 * half_square(0.3)
    assert exact <= found <= exact * slack  # the worst subset; the prior of each was looked at


def test_the_rho_of_classes_is_that_of_the_record_s_level():
    classes = TransitionMatrix.from_array(np.kron(np.eye(2), RR.array))
    block = Block(("a",), classes)
    mechanism = Mechanism([block, Block(("b",), RR)])
    account = SimpleNamespace(total=0.75)  # what an account of strata can say
    found = rho_of(mechanism, account)
    assert found is not None
    assert half_square(0.75) <= found <= half_square(0.75) * (1 + Fraction(1, 10**13))
