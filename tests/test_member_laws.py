"""Laws of households with one member of a kind, in whole numbers: by enumeration of states, and one unit beside."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block
from postrand.mechanism.block import all_cells
from postrand.mechanism.household_law import household_law, shares
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.mechanism.one_member import OneMember, kept_rules, moved, one_member_problems, size_problems

NONE = TransitionMatrix.identity(2)


def states(k):
    """Who is head, and who is spouse or nobody."""
    return [(h, s) for h in range(k) for s in (None, *range(k)) if s != h]


def roles(k, state):
    return [0 if member == state[0] else 1 if member == state[1] else 2 for member in range(k)]


def by_states(k, a, b):
    """The law of one record: from a state in which it has its role, how much of 2^53 leads to each role."""
    weights = np.zeros((3, 3), dtype=np.int64)
    for role in range(3):
        true = next((s for s in states(k) if roles(k, s)[0] == role), None)
        for state in states(k) if true is not None else ():
            weights[role, roles(k, state)[0]] += a if state == true else b
    return weights


def by_shares(k, a, b):
    return b * np.array([[k, k - 1, (k - 1) ** 2]] * 3) + (a - b) * np.eye(3, dtype=np.int64)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_the_law_of_a_record_tells_that_of_its_household_and_one_unit_beside_tells_nothing(k, epsilon):
    n = k * k
    b = math.ceil(UNIT / (n - 1 + math.exp(epsilon)))
    a = UNIT - (n - 1) * b
    weights = by_states(k, a, b)
    assert (weights == by_shares(k, a, b)).all()
    assert shares(k) == tuple(sum(roles(k, state)[0] == role for state in states(k)) for role in range(3))
    assert household_law(weights) == TransitionMatrix.constant(np.full(n, a), np.full(n, b))
    assert household_law(weights).epsilon <= epsilon + 1e-12
    for row, (more, less) in itertools.product(range(3), itertools.permutations(range(3), 2)):
        wrong = weights.copy()
        wrong[row, [more, less]] += (1, -1)
        assert household_law(wrong) == NONE


def test_laws_at_the_ends():
    flat = household_law(by_shares(4, UNIT // 16, UNIT // 16))
    assert (flat.size, flat.ratio) == (16, 1)  # the truth is as likely as any other state
    assert household_law(by_shares(3, UNIT - 8, 1)) == TransitionMatrix.constant(np.full(9, UNIT - 8), np.full(9, 1))
    third = UNIT // 3
    assert household_law(by_shares(2, UNIT - 3 * third, third)) == NONE  # the truth is less likely
    assert household_law(UNIT * np.eye(3, dtype=np.int64)) == NONE
    assert household_law(by_shares(1, UNIT, UNIT // 2)) == NONE  # one record has no two roles
    assert household_law(np.array([[UNIT]])) == TransitionMatrix.identity(1)
    assert household_law(np.full((2, 2), UNIT // 2)) == NONE
    for k, wanted in ((316, 316**2), (317, 2)):  # 100,000 states are the most
        assert household_law(by_shares(k, UNIT - (k * k - 1) * 10**9, 10**9)).size == wanted
    assert household_law(by_shares(3, UNIT - 8 * 10**9 - 1, 10**9)) == NONE  # does not sum to 2^53


def test_the_cells_of_a_block_are_sorted_by_size_and_role():
    codes = np.array([[1, 0], [0, 0], [0, 1], [2, 1], [2, 0], [1, 1]], dtype=np.int32)  # role 2, size of code 0 or 1
    two = OneMember.of(codes, 0, 1, 2, (4, 7), 0)
    assert (two.sizes.tolist(), two.role.tolist(), two.named) == ([4, 4, 7, 7, 4, 7], [2, 1, 1, 0, 0, 2], 2)
    assert two.places.tolist() == [[4, 1, 0], [4, 1, 0], [3, 2, 5], [3, 2, 5], [4, 1, 0], [3, 2, 5]]
    assert two.has.tolist() == [False, False, False, True, True, False]
    one = OneMember.of(codes[[1, 0, 2, 5]][:, ::-1], 1, 0, 1, (4, 7))
    assert (one.sizes.tolist(), one.role.tolist(), one.named) == ([4, 4, 7, 7], [1, 0, 1, 0], 1)
    assert one.places.tolist() == [[1, 0], [1, 0], [3, 2], [3, 2]]


def test_what_another_state_is_released_with():
    cases = [(4, 1, 7, 2), (4, 1, 6, 2), (4, 1, 5, 1), (1, 1, 0, 0), (1, 2, 0, 0), (3, 2, 17, 2), (3, 2, 15, 1)]
    for size, named, left, wanted in cases:
        assert moved(size, named, UNIT - left) == wanted


@pytest.mark.parametrize("named", [1, 2])
def test_a_matrix_fits_where_it_is_the_law_to_the_unit(named):
    """Sizes 1 to 4, at ε = 1.2: the law of each by enumeration; one unit moved in any row fits its size no more."""
    count, known, second = named + 1, (1, 2, 3, 4), 1 if named == 2 else None
    found = OneMember.of(all_cells((count, 4)), 0, 1, 0, known, second)
    law = found.law(1.2)
    stays = found.stays(law)
    for k in known:
        n = k if named == 1 else k * k
        b = (UNIT - stays[k]) // max(n - 1, 1)
        assert stays[k] + (n - 1) * b == UNIT
        assert k == 1 or stays[k] / b == pytest.approx(math.exp(1.2), rel=1e-12)
        mine = np.flatnonzero(found.sizes == k)
        inside = law.weights[np.ix_(mine, mine)]
        wanted = by_shares(k, stays[k], b)
        if named == 1:
            wanted = b * np.array([[1, k - 1]] * 2) + (stays[k] - b) * np.eye(2, dtype=np.int64)
        assert (inside == wanted).all()
        assert (law.weights[mine].sum(axis=1) == UNIT).all()
        assert found.fits(law, k)
        for row, (more, less) in itertools.product(mine, itertools.permutations(mine, 2)):
            wrong = law.weights.copy()
            if wrong[row, less]:
                wrong[row, [more, less]] += (1, -1)
                assert not found.fits(TransitionMatrix(wrong), k)
                assert all(found.fits(TransitionMatrix(wrong), other) for other in known if other != k)


def test_a_truth_that_is_less_likely_than_each_other_state_fits_one_member_alone():
    for named, fits in ((1, True), (2, False)):
        found = OneMember.of(all_cells((named + 1, 1)), 0, 1, 0, (2,), 1 if named == 2 else None)
        n = 2 if named == 1 else 4
        b = -(-UNIT // n) + 10
        a = UNIT - (n - 1) * b
        law = [[a, b], [b, a]] if named == 1 else by_shares(2, a, b)
        assert found.fits(TransitionMatrix(np.array(law)), 2) == fits
        even = [[UNIT // 2] * 2] * 2 if named == 1 else by_shares(2, UNIT // 4, UNIT // 4)
        assert found.fits(TransitionMatrix(np.array(even)), 2)


# -- what fits a plan -----------------------------------------------------------------------------------------------


def book(sizes=(1, 2), roles=("no", "yes"), size_missing="error", missing="error", kind="int64"):
    size = Variable("size", "other", sizes, type=kind, missing=size_missing)
    return Codebook((Variable("head", "key", roles, missing=missing), size))


THREE = ("no", "yes", "spouse")


@pytest.mark.parametrize(
    ("given", "at_most_one", "words"),
    [
        ({}, False, []),
        ({"roles": THREE}, True, []),
        ({"roles": THREE}, False, ["exactly two categories"]),
        ({}, True, ["exactly three categories"]),
        ({"missing": "keep"}, False, ["exactly two categories"]),
        ({"size_missing": "keep"}, False, ["'size' is not the number of records"]),
        ({"sizes": (0, 1)}, False, ["'size' is not the number of records"]),
        ({"sizes": ("a", "b"), "kind": "string"}, False, ["'size' is not the number of records"]),
        ({"sizes": ()}, False, ["'size' is not the number of records"]),
        ({"sizes": (301, 900)}, False, []),
        ({"sizes": (1, 300), "roles": THREE}, True, []),
        ({"sizes": (1, 301), "roles": THREE}, True, ["larger households"]),
        ({"sizes": (7,)}, False, []),
        ({"sizes": (7,), "roles": THREE}, True, ["fewer than two sizes"]),
        ({"sizes": (0,)}, True, ["exactly three", "fewer than two sizes", "is not the number"]),
    ],
    ids=str,
)
def test_variables_that_do_not_fit_are_named(given, at_most_one, words):
    found = list(size_problems(book(**given), "head", "size", "here", at_most_one))
    assert len(found) == len(words)
    assert all(word in text and text.startswith("here: ") for word, text in zip(words, found, strict=True))
    assert all(("the category that at most one has" in text) == at_most_one for text in found if "recode it" in text)
    assert not list(size_problems(book(), "head", "other", "here", at_most_one))
    assert not list(size_problems(book(), "other", "size", "here", at_most_one))


def block_of(named=1, one=1):
    cells = all_cells((named + 1, 2))
    second = 2 - 2 * (one == 2) if named == 2 else None
    matrix = OneMember.of(cells, 0, 1, one, (1, 2), second).law(1.0)
    rows = tuple(map(tuple, cells.tolist()))
    return Block(("head", "size"), matrix, rows, "public", ("size",), unit="household", one=one, at_most_one=second)


def test_blocks_that_choose_no_one_member_are_named():
    fields = ("variables", "matrix", "cells", "given", "unit", "one", "at_most_one", "name", "perturbed")

    def problems(named=1, roles=None, **change):
        block = {name: getattr(block_of(named), name) for name in fields}
        codebook = book(roles=roles or THREE[: named + 1])
        return list(one_member_problems(SimpleNamespace(**block | change), codebook))

    assert problems() == problems(2) == problems(one=None, unit="record") == []
    for block in (block_of(1, 0), block_of(2, 0), block_of(2, 2)):
        assert not list(one_member_problems(block, book(roles=THREE[: 2 + (block.at_most_one is not None)])))
    for form in ({"unit": "record"}, {"given": ("size", "sex")}, {"given": ()}, {"perturbed": ("head", "sex")}):
        (text,) = problems(**form)
        assert "a block of one member of each household has another form" in text
    cells = block_of().cells
    for named, part in (
        (1, {"cells": cells[:3]}), (1, {"one": 2}), (1, {"one": -1}), (2, {"one": 3}), (2, {"at_most_one": 3}),
        (2, {"at_most_one": -1}),
    ):  # fmt: skip
        (text,) = problems(named, **part)
        assert f"wanted {['two', 'three'][named - 1]} for each size" in text
    assert [text.split(": ")[1][:34] for text in problems(roles=THREE)] == [
        "'head' does not have exactly two c", "a block of one member of each hous",
    ]  # fmt: skip
    other = block_of().matrix.weights.copy()
    other[np.flatnonzero(np.array(cells)[:, 1] == 1)[0], [1, 3]] += (1, -1)
    (text,) = problems(matrix=TransitionMatrix(other))
    assert "not that of a choice among 2 members" in text


def test_what_is_kept_in_each_household_is_said():
    plain = Block(("sex",), NONE)
    one = "Exactly one record of each household has head = yes, as in the true records; one draw chooses which."
    two = one.replace("yes, as", "yes, and at most one has spouse, as")
    assert kept_rules([plain, block_of()], book()) == {"head": one}
    assert kept_rules([block_of(2)], book(roles=THREE)) == {"head": two}
    assert kept_rules([plain, replace(plain, variables=("head",))], book()) == {}
