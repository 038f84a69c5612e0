"""Whatever stands in a file or a call, of whatever type: it works, or one of our errors says what is wrong."""

import contextlib
import copy
import dataclasses
import datetime
import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import tomlkit
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.codebook.category_distances import coordinates, from_matrix
from postrand.codebook.coding import category_values
from postrand.designers import OBJECTIVES, STRUCTURES, Prior, design
from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.designers.budget import BudgetShare
from postrand.errors import PostrandError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.plan import load_plan
from postrand.plan.plan import plan_from_dict
from postrand.privacy import MODELS, DifferentialPrivacy, KeyTypes, Together
from postrand.privacy.accounting import compose
from postrand.privacy.histogram import noisy_counts
from postrand.privacy.levels import delta, renyi
from postrand.privacy.shuffle import shuffled_delta, shuffled_epsilon
from postrand.ranks.column import RankedColumn
from postrand.ranks.laws import RANK_LAWS, RankBlocks
from postrand.release import canonical_json, read, verify
from postrand.support import options
from postrand.support.randomness import ReleaseKey, as_release_key
from postrand.workflow.pipeline import run
from tests.release_case import make, rehash

ODD = [
    None,
    True,
    "",
    "1",
    "nan",
    b"1",
    -1,
    0,
    0.5,
    10**400,
    -(10**5000),
    math.nan,
    math.inf,
    1e308,
    5e-324,
    1j,
    Fraction(1, 3),
    Decimal(1),
    datetime.date(2026, 1, 1),
    [],
    [[]],
    [[1, 2], [3]],
    [None],
    [["a"]],
    [[0, 0, 1]],
    [[0, -1, 1]],
    [[0, 1, "x"]],
    {},
    {"a": 1},
    object(),
    np.bool_(True),
    np.float32(1),
    np.int64(3),
    np.array([1, 2]),
    np.array(["a", "b"]),
    np.array(1.0),
]
VALID: dict[str, dict[str, Any]] = {
    "differential": {"epsilon": 1.0},
    "bistochastic": {"beta": 0.5},
    "recognition": {"alpha": 0.1},
    "metric": {"epsilon": 1.0, "edges": ((0, 1, 1.0),)},
    "approximate": {"epsilon": 1.0, "delta": 1e-6},
    "renyi": {"level": 1.0},
    "concentrated": {"rho": 0.5},
    "shuffled": {"epsilon": 1.0, "delta": 1e-6},
    "together": {"models": (DifferentialPrivacy(1.0),)},
    "kullback-leibler": {"records": 10},
    "rank-blocks": {"k": 3},
    "rank-band": {"width": 3},
}
MEMBERS = (*MODELS, Together, BudgetShare, *OBJECTIVES, *STRUCTURES, *RANK_LAWS)
FIELDS = [
    (member, field.name)
    for member in MEMBERS
    for field in dataclasses.fields(member)
    if field.init and not field.metadata.get("confidential")
]


def name_of(value):
    return getattr(value, "__name__", str(value))


def refused_or(function, *arguments):
    """Return what the call gives, or None where one of our errors refuses it; any other error is a failure."""
    with contextlib.suppress(PostrandError):
        return function(*arguments)
    return None


@pytest.mark.parametrize(("member", "field"), FIELDS, ids=name_of)
def test_an_option_is_plain_data_or_refused(member, field):
    for odd in ODD:
        made = refused_or(partial(member, **{**VALID.get(member.name, {}), field: odd}))
        assert made is None or member is Together or json.dumps(options.to_dict(made), allow_nan=False), odd


def test_numbers_of_numpy_are_numbers():
    law = randomised_response(2, 1.0)
    for one in (np.float32(1), np.int64(1), np.float64(1), 1):
        assert DifferentialPrivacy(one) == DifferentialPrivacy(1.0)
        assert randomised_response(2, one) == law
        assert randomised_response(np.int64(2), one) == law
        assert delta(law, one) == delta(law, 1.0)


def test_no_epsilon_is_too_large_to_check():
    law = randomised_response(2, 1.0)
    for epsilon in (800.0, 3e6, 1e308):
        model = DifferentialPrivacy(epsilon)
        assert model.check([law]).holds
        assert not model.check([TransitionMatrix.identity(2)]).holds
        assert np.isfinite(model.constraints(2).A.toarray()).all()


MATRICES = [
    [[0.5, 0.5], [1.0]],
    [["0.5", "0.5"], ["0.5", "0.5"]],
    [["a", "b"], ["c", "d"]],
    [[0.5 + 0j, 0.5], [0.5, 0.5]],
    [[10**400, 0], [0, 1]],
    [[None, 1], [1, 0]],
    [[object(), 1], [1, 0]],
    [[True, False], [False, True]],
    [[Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 4), Fraction(3, 4)]],
    [[datetime.date(2026, 1, 1)]],
    [[[1.0]]],
    {"a": 1},
    "matrix",
    None,
    1.0,
    [],
    np.array([["a"]]),
    np.array([1], dtype="datetime64[s]"),
    np.zeros((0, 0)),
    np.full((2, 2), np.nan),
]


@pytest.mark.parametrize("made", MATRICES)
def test_an_array_is_a_matrix_or_refused(made):
    for take in (TransitionMatrix.from_array, TransitionMatrix, round_bistochastic):
        law = refused_or(take, made)
        assert law is None or (law.weights.sum(axis=1) == UNIT).all()
    for other in (Prior, from_matrix, coordinates):
        refused_or(other, made)
    refused_or(KeyTypes.of_counts, made)
    refused_or(KeyTypes, ("a",), made, [1, 2])
    refused_or(KeyTypes, ("a",), [[0], [1]], made)
    refused_or(design, made, DifferentialPrivacy(1.0))


def test_exact_fractions_make_a_matrix_and_text_does_not():
    halves = TransitionMatrix.from_array([[Fraction(1, 2)] * 2] * 2)
    assert halves == TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(PostrandError, match="not all entries are real numbers"):
        TransitionMatrix.from_array([["0.5", "0.5"], ["0.5", "0.5"]])


@pytest.mark.parametrize("odd", ODD, ids=lambda v: type(v).__name__)
def test_a_number_in_a_call_is_one_or_refused(odd):
    law = randomised_response(2, 1.0)
    for call in (
        lambda: randomised_response(odd, 1.0),
        lambda: randomised_response(2, odd),
        lambda: TransitionMatrix.identity(odd),
        lambda: Prior.uniform(odd),
        lambda: Prior([0.5, 0.5], odd),
        lambda: delta(law, odd),
        lambda: renyi(law, odd),
        lambda: compose(law, odd),
        lambda: compose(law, 1, odd),
        lambda: shuffled_delta(odd, 10, 0.1),
        lambda: shuffled_delta(1.0, odd, 0.1),
        lambda: shuffled_delta(1.0, 10, odd),
        lambda: shuffled_epsilon(1.0, 10, odd),
        lambda: noisy_counts(np.array([3, 4]), odd),
        lambda: design([0.5, 0.5], odd),
        lambda: design([0.5, 0.5], DifferentialPrivacy(1.0), odd),
        lambda: design([0.5, 0.5], DifferentialPrivacy(1.0), None, odd),
        lambda: ReleaseKey(odd),
        lambda: ReleaseKey.from_seed(odd),
        lambda: ReleaseKey.from_hex(odd),
        lambda: as_release_key(odd),
    ):
        found = refused_or(call)
        assert not (isinstance(found, float) and math.isnan(found))


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Variable)])
def test_a_field_of_a_variable_is_plain_data_or_refused(field):
    for odd in ODD:
        made = refused_or(partial(Variable, **{"name": "a", "role": "key", "categories": ("x", "y"), field: odd}))
        if made is not None:
            held = json.loads(json.dumps(Codebook((made,)).to_dict(), allow_nan=False))
            assert Codebook.from_dict(held)[made.name] == made, odd
            refused_or(category_values, made)


@pytest.mark.parametrize("odd", ODD, ids=lambda v: type(v).__name__)
def test_a_codebook_holds_variables_and_rules_or_is_refused(odd):
    variable = Variable("a", role="key", categories=("x", "y"))
    for call in (lambda: Codebook(odd), lambda: Codebook((variable,), odd), lambda: Codebook((variable, odd))):
        assert isinstance(refused_or(call), Codebook | None)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Block)])
def test_a_field_of_a_block_is_plain_data_or_refused(field):
    valid = {
        "variables": ("a", "b"),
        "matrix": randomised_response(2, 1.0),
        "cells": ((0, 0), (0, 1)),
        "provenance": "dp",
    }
    for odd in ODD:
        made = refused_or(partial(Block, **{**valid, field: odd}))
        law = None if made is None else refused_or(Mechanism, [made])
        if law is not None:
            held = json.loads(json.dumps(law.to_dict(), allow_nan=False))
            assert Mechanism.from_dict(held).digest() == law.digest(), odd


@pytest.mark.parametrize("odd", ODD, ids=lambda v: type(v).__name__)
def test_a_mechanism_is_made_of_blocks_or_refused(odd):
    law = randomised_response(2, 1.0)
    for call in (
        lambda: Mechanism(odd),
        lambda: Mechanism({"a": odd}),
        lambda: Mechanism([Block("a", law), odd]),
        lambda: Mechanism({"a": law}, odd),
        lambda: Mechanism({"a": law}, None, odd),
        lambda: Mechanism({"a": law}, None, [odd]),
        lambda: RankedColumn(odd, RankBlocks(3), "permute", 10),
        lambda: RankedColumn("pay", odd, "permute", 10),
        lambda: RankedColumn("pay", RankBlocks(3), odd, 10),
        lambda: RankedColumn("pay", RankBlocks(3), "permute", odd),
    ):
        assert isinstance(refused_or(call), Mechanism | RankedColumn | None)


BOOK = {
    "variables": [
        {"name": "id", "role": "record_key", "type": "int64"},
        {
            "name": "sex",
            "role": "key",
            "categories": ["F", "M"],
            "labels": ["Female", "Male"],
            "label": "Sex",
            "missing_codes": ["M"],
        },
        {"name": "area", "role": "key", "categories": ["n", "s", "w"], "ordered": True, "missing": "error"},
        {"name": "age", "role": "sensitive", "categories": [1, 2, 3], "type": "int64"},
        {"name": "work", "role": "sensitive", "categories": ["full", "none"]},
        {"name": "pay", "role": "sensitive", "type": "double", "missing": "keep"},
    ],
    "rules": [{"age": [1], "work": "full"}],
}
PLAN = {
    "source": {"file": "survey.csv", "codebook": "codebook.toml"},
    "privacy": {"model": "differential", "epsilon": 9.0},
    "design": {"structure": "uniform-off-diagonal", "objective": "information", "prior": "uniform"},
    "release": {"format": "same", "shuffle": True, "release_ids": False},
    "metadata": {"title": "Survey", "creator": "Agency"},
    "blocks": [
        {"variables": ["sex"], "matrix": [[0.75, 0.25], [0.25, 0.75]]},
        {
            "variables": ["area"],
            "privacy": {
                "model": "metric",
                "epsilon": 1.0,
                "distance": {"kind": "adjacency", "edges": [["n", "s"], ["s", "w", 2.0]]},
            },
            "structure": {"model": "metric"},
            "objective": "distance",
        },
        {"variables": ["age", "work"], "privacy": {"model": "differential", "epsilon": 1.0}, "prior": "file"},
    ],
    "numerical": [{"variables": ["pay"], "method": {"model": "rank-blocks", "k": 3}, "form": "permute"}],
}
ROWS = [f"{k},{'FM'[k % 2]},{'nsw'[k % 3]},{2 + k // 2 % 2},{'full' if k % 4 else 'none'},{k / 4}" for k in range(24)]
LEAVES = st.sampled_from(
    [
        True,
        False,
        0,
        -1,
        1,
        10**30,
        2**62,
        0.5,
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        5e-324,
        "",
        "x",
        "sex",
        "\0",
        "a\nb",
        "../" * 2000,
        datetime.date(2026, 1, 1),
        datetime.datetime(2026, 1, 1, 12),
        datetime.time(1),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "a", "kind"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(data, path=()):
    """Yield the path of every entry of nested plain data."""
    if path:
        yield path
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, entry in pairs:
        yield from places(entry, (*path, name))


def changed(data, path, value):
    data = copy.deepcopy(data)
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return data


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    (folder / "survey.csv").write_text("\n".join(["id,sex,area,age,work,pay", *ROWS]) + "\n")
    (folder / "codebook.toml").write_text(tomlkit.dumps(BOOK))
    (folder / "plan.toml").write_text(tomlkit.dumps(PLAN))
    return folder


def test_the_plan_that_is_changed_is_a_good_one(survey, tmp_path):
    assert run(load_plan(survey / "plan.toml"), tmp_path / "out").codebook.names[0] == "sex"


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")  # numbers that are kept are named
@settings(max_examples=300)
@given(path=st.sampled_from(list(places(PLAN))), value=VALUES)
def test_a_plan_with_any_entry_changed_is_carried_out_or_refused(survey, path, value):
    plan = refused_or(plan_from_dict, changed(PLAN, path, value), survey)
    if plan is not None:
        refused_or(run, plan, survey / "out")
        remove(survey / "out")
    assert sorted(p.name for p in survey.iterdir()) == ["codebook.toml", "plan.toml", "survey.csv"]


@settings(max_examples=300)
@given(path=st.sampled_from(list(places(BOOK))), value=VALUES)
def test_a_codebook_with_any_entry_changed_is_used_or_refused(survey, tmp_path_factory, path, value):
    (survey / "codebook.toml").write_text(tomlkit.dumps(changed(BOOK, path, value)), encoding="utf-8")
    try:
        plan = refused_or(load_plan, survey / "plan.toml")
        if plan is not None:
            refused_or(run, plan, survey / "out")
            remove(survey / "out")
    finally:
        (survey / "codebook.toml").write_text(tomlkit.dumps(BOOK))
    assert sorted(p.name for p in survey.iterdir()) == ["codebook.toml", "plan.toml", "survey.csv"]


def remove(folder):
    for path in folder.iterdir() if folder.exists() else ():
        path.unlink()
    if folder.exists():
        folder.rmdir()


JSON = ("codebook.json", "mechanism.json", "certificate.json", "manifest.json")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    root = tmp_path_factory.mktemp("released") / "release"
    make(root)
    return root, {name: (root / name).read_bytes() for name in JSON}


@settings(max_examples=150)
@given(name=st.sampled_from(JSON), pick=st.integers(0, 10**6), value=VALUES, cut=st.booleans())
def test_a_release_with_any_entry_changed_is_read_or_refused_and_never_verified(released, name, pick, value, cut):
    root, texts = released
    data = json.loads(texts[name])
    path = (everywhere := list(places(data)))[pick % len(everywhere)]
    changes = removed(data, path) if cut else changed(data, path, value)
    text = refused_or(canonical_json.dump, plain(changes))
    assume(text not in (None, texts[name]) and equal_numbers(data, path, changes) is False)
    (root / name).write_bytes(text)
    try:
        if name != "manifest.json":
            rehash(root)
        found = refused_or(read, root)
        if found is not None:
            refused_or(lambda: estimate.table(found.frame(), ["sex"], found.mechanism))
        assert not verify(root, raise_if_failed=False).ok
    finally:
        for other, held in texts.items():
            (root / other).write_bytes(held)


def removed(data, path):
    data = copy.deepcopy(data)
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return data


def plain(data):
    """Return data that JSON can hold, dates as text."""
    return json.loads(json.dumps(data, default=str))


def equal_numbers(data, path, changes):
    """Tell whether the change puts a number in place of an equal one: 1 for 1.0 says the same."""
    for name in path:
        if isinstance(changes, dict) and name not in changes:
            return False
        if isinstance(changes, list) and name >= len(changes):
            return False
        data, changes = data[name], changes[name]
    return data == changes
