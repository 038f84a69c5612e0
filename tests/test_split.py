"""Split mechanisms: what may be built, what its plain data are, and what a forged file is refused for."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import NOT_RELEASED
from postrand.errors import SpecificationError
from postrand.mechanism import Block, Mechanism, Split, Subset
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.mechanism import load_mechanism
from postrand.release import fields
from postrand.risk.law import KeyLaw
from tests.json_schema import problems as schema_problems

BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
        Variable("area", role="key", categories=("a", "b", "c"), missing="keep"),
        Variable("ill", role="sensitive", categories=(False, True), type="bool"),
        Variable("town", role="other", categories=("x", "y")),
    )
)


def pair(epsilon: float = 2.0, **options: Any) -> Block:
    return Block(("sex", "age"), randomised_response(8, epsilon), **options)


def other(epsilon: float = 1.0, **options: Any) -> Block:
    return Block(("age", "ill"), randomised_response(8, epsilon), **options)


def alone(epsilon: float = 1.5, **options: Any) -> Block:
    return Block(("area",), randomised_response(3, epsilon), **options)


def given_block(*given: str) -> Block:
    cells = tuple((a, b) for a in range(2) for b in range(2))
    weights = np.kron(np.eye(2, dtype=np.int64), randomised_response(2, 1.0).weights)
    return Block((*given, "ill"), TransitionMatrix(weights), cells, given=given)


def split() -> Split:
    return Split.of([0.5, 0.3, 0.2], [pair(), other(), alone()])


def test_weights_sum_to_the_unit_exactly_and_lie_within_one_unit_of_what_is_asked() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 60):
        asked = rng.dirichlet(np.full(size, 0.3))
        blocks = [Block((f"v{k}",), randomised_response(2, 1.0)) for k in range(size)]
        made = Split.of(asked, blocks)
        assert sum(subset.weight for subset in made.subsets) == UNIT
        found = {subset.variables[0]: subset.probability for subset in made.subsets}
        scaled = asked / math.fsum(asked)
        assert all(abs(found.get(f"v{k}", 0.0) - scaled[k]) <= 1.5 / UNIT for k in range(size))


def test_a_split_says_what_it_shows_and_its_level_is_the_largest() -> None:
    made = split()
    assert made.variables == ("sex", "age", "ill", "area")
    assert made.epsilon == max(block.epsilon for block in (pair(), other(), alone())) == pair().epsilon
    assert [s.variables for s in made.subsets] == [("sex", "age"), ("age", "ill"), ("area",)]
    assert [s.matrix.size for s in made.subsets] == [8, 8, 3]
    changes_nothing = Split.of([0.5, 0.5], [pair(), Block(("ill",), TransitionMatrix.identity(2))])
    assert changes_nothing.epsilon == math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Split((Subset(UNIT - 1, pair()),)), "do not sum to 2"),
        (lambda: Split(()), "number of subsets"),
        (lambda: Split((pair(),)), "not a list of Subset"),
        (lambda: Subset(0, pair()), "not a whole number"),
        (lambda: Subset(True, pair()), "not a whole number"),
        (lambda: Subset(0.5, pair()), "not a whole number"),
        (lambda: Subset(UNIT, None), "shows no variable"),
        (lambda: Split.of([0.5, 0.5], [pair(), pair(1.0)]), "show the same variables"),
        (lambda: Split.of([0.5, 0.5], [pair(), Block(("age", "sex"), randomised_response(8, 1.0))]), "show the same"),
        (lambda: Split.of([0.5, 0.4], [pair(), alone()]), "not one number of 0 or more"),
        (lambda: Split.of([1.0], [pair(), alone()]), "not one number of 0 or more"),
        (lambda: Split.of([1.5, -0.5], [pair(), alone()]), "not one number of 0 or more"),
        (lambda: Split.of([0.5, 0.5], [pair(provenance="public"), alone()]), "different origins"),
        (lambda: Split.of([0.5, 0.5], [pair(), given_block("sex")]), "a subset reads 'sex'"),
        (lambda: Split.of([0.5, 0.5], [pair(budget="dp"), alone()]), "different origins"),
    ],
)
def test_a_split_that_is_no_law_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SpecificationError, match=message):
        make()


def test_a_mechanism_holds_blocks_and_a_split_of_other_variables() -> None:
    beside = Block(("town",), randomised_response(2, 0.5))
    mechanism = Mechanism([beside], BOOK, split=split())
    assert mechanism.variables == ("town", "sex", "age", "ill", "area")
    assert mechanism["town"] == beside
    assert [[b.name for b in blocks] for blocks in mechanism.alternatives] == [
        ["town", "sex × age"],
        ["town", "age × ill"],
        ["town", "area"],
    ]
    assert Mechanism([], BOOK, split=split()).variables == ("sex", "age", "ill", "area")
    assert Mechanism([], split=split()).bind(BOOK).split == split()
    assert "split" in repr(mechanism).lower()
    with pytest.raises(SpecificationError, match="'age' is in the split"):
        mechanism["age"]
    with pytest.raises(SpecificationError, match="expected precision cannot use a mechanism with a split"):
        mechanism.require_no_split("expected precision")


@pytest.mark.parametrize(
    ("blocks", "made", "message"),
    [
        ([Block(("sex",), randomised_response(2, 1.0))], split(), "'sex' is in a block and in the split"),
        ([given_block("sex")], Split.of([1.0], [pair()]), "a block reads 'sex', which some records do not show"),
        ([], Split.of([1.0], [Block(("area", "sex"), randomised_response(6, 1.0))]), "keeps missing values"),
        ([], Split.of([1.0], [Block(("sex", "age"), randomised_response(6, 1.0))]), "does not fit the categories"),
        ([], Split.of([1.0], [Block(("height",), randomised_response(6, 1.0))]), "no variable 'height'"),
        ([], None, "no blocks"),
        ([], "half", "not a Split"),
        (
            [Block(("town",), randomised_response(2, 1.0), ((0,), (1,)))],
            Split.of(
                [1.0],
                [
                    Block(
                        ("town", "ill"),
                        TransitionMatrix.from_array(
                            np.block([[np.full((2, 2), 0.5), np.zeros((2, 2))], [np.zeros((2, 2)), np.eye(2)]])
                        ),
                        tuple((a, b) for a in range(2) for b in range(2)),
                        given=("town",),
                    )
                ],
            ),
            "differs between values of a given variable that another block exchanges",
        ),
    ],
)
def test_a_mechanism_refuses_a_split_that_does_not_fit(blocks: Any, made: Any, message: str) -> None:
    with pytest.raises(SpecificationError, match=message):
        Mechanism(blocks, BOOK, split=made)


def test_a_codebook_that_has_the_category_of_what_is_not_released_is_refused() -> None:
    book = Codebook((Variable("sex", role="key", categories=("F", NOT_RELEASED)),))
    law = Split.of([1.0], [Block(("sex",), randomised_response(2, 1.0))])
    with pytest.raises(SpecificationError, match="says that a record does not show the variable"):
        Mechanism([], book, split=law)
    assert Mechanism({"sex": randomised_response(2, 1.0)}, book).variables == ("sex",)


def test_plain_data_give_the_same_mechanism_and_the_digest_covers_every_number(tmp_path: Path) -> None:
    mechanism = Mechanism([Block(("town",), randomised_response(2, 0.5))], BOOK, split=split())
    data = json.loads(json.dumps(mechanism.to_dict()))
    assert Mechanism.from_dict(data, BOOK) == mechanism
    whole = fields.schema("mechanism", 2)
    assert whole is not None
    assert not list(schema_problems(data, whole, whole))
    mechanism.save(tmp_path / "law.json")
    assert load_mechanism(tmp_path / "law.json") == mechanism
    moved = list(split().subsets)
    moved[0], moved[1] = Subset(moved[0].weight - 1, moved[0].block), Subset(moved[1].weight + 1, moved[1].block)
    assert Mechanism(mechanism.blocks, BOOK, split=Split(tuple(moved))).digest() != mechanism.digest()
    assert Mechanism(mechanism.blocks, BOOK).digest() != mechanism.digest()


def test_a_mechanism_without_a_split_keeps_its_plain_data_and_its_digest() -> None:
    mechanism = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, BOOK)
    # Computed by the version before there were splits.
    assert mechanism.digest() == "ebebf1db87d58569fe16c90824dbcdca6cb1a32b5b3147a1c67ded7c205ea30f"
    assert "split" not in mechanism.to_dict()
    assert Mechanism.from_dict({**mechanism.to_dict(), "split": {}}, BOOK) == mechanism


@pytest.mark.parametrize("size", [2, 63, 64, 1_000])
def test_randomised_response_is_two_integers_at_every_size_and_other_matrices_are_not(size: int) -> None:
    law = randomised_response(size, 2.0)
    other = law.weights.copy()
    other[0, :2] += (-1, 1)
    for matrix, written in ((law, True), (TransitionMatrix(other), False)):
        made = Mechanism([], split=Split.of([1.0], [Block(("v",), matrix)]))
        data = json.loads(json.dumps(made.to_dict()))
        weights = data["split"]["subsets"][0]["weights"]
        pair = {"size": size, "diagonal": int(law.weights[0, 0]), "off": int(law.weights[0, 1])}
        assert (weights == pair) is written
        assert Mechanism.from_dict(data) == made


def forged(change: Any) -> dict[str, Any]:
    data = json.loads(json.dumps(Mechanism([], BOOK, split=split()).to_dict()))
    change(data["split"]["subsets"], data)
    found: dict[str, Any] = data
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, d: s[0].update(weight=s[0]["weight"] + 1), "do not sum to 2"),
        (lambda s, d: s[0].update(weight=float(s[0]["weight"])), "not a whole number"),
        (lambda s, d: s[0].update(weight=-1), "not a whole number"),
        (lambda s, d: s[0].pop("weight"), "not a valid subset"),
        (lambda s, d: s.append(dict(s[0])), "show the same variables"),
        (lambda s, d: s[2].update(variables=["height"]), "no variable 'height'"),
        (lambda s, d: s[2].update(variables=["town"]), "does not fit the categories"),
        (lambda s, d: s[2].update(weights={"diagonal": [1], "off": [0]}), "does not sum to 2"),
        (lambda s, d: s[0].update(weights={"diagonal": [2**50] * 8, "off": [2**50] * 8}), "only valid form"),
        (lambda s, d: s[0].update(weights=[[2**50] * 8] * 8), "only valid form"),
        (lambda s, d: s[0]["weights"].update(off=1), "does not sum to 2|must sum to 2"),
        (lambda s, d: s[0]["weights"].update(size=7), "does not sum to 2|must sum to 2"),
        (lambda s, d: s[0]["weights"].update(size=10**9), "size of a matrix"),
        (lambda s, d: s[0]["weights"].update(off=0.5), "two whole numbers"),
        (lambda s, d: s[0]["weights"].update(more=1), "two whole numbers"),
        (lambda s, d: s[2].update(weights=[[2**53, 0, 0]] * 2), "must be square"),
        (lambda s, d: s[0].update(cells=[[0, 0]]), "cells do not fit"),
        (lambda s, d: s[0].update(switch=1), "unknown field 'switch'"),
        (lambda s, d: d["split"].update(switch=1), "unknown field 'switch'"),
        (lambda s, d: d.update(split=[s[0]]), "not a list of subsets"),
        (lambda s, d: d.update(split={"subsets": []}), "number of subsets"),
        (lambda s, d: d["variables"].pop(), "categories differ"),
    ],
)
def test_a_forged_file_is_refused(change: Any, message: str) -> None:
    with pytest.raises(SpecificationError, match=message):
        Mechanism.from_dict(forged(change), BOOK)


def test_a_forged_file_is_refused_with_all_its_problems() -> None:
    def change(subsets: list[dict[str, Any]], _: Any) -> None:
        subsets[0]["weights"]["off"] += 1
        subsets[1]["weight"] = 0
        subsets[2].pop("provenance")

    with pytest.raises(SpecificationError) as caught:
        Mechanism.from_dict(forged(change), BOOK)
    assert len(caught.value.problems) >= 3


BESIDE = Mechanism([Block(("town",), randomised_response(2, 0.5))], BOOK, split=split())
FRAME = pa.table({"sex": ["F"], "age": [10], "area": ["a"], "ill": [True], "town": ["x"], "pay": [1.0]})
LATER = "cannot use a mechanism with a split"
IN_SPLIT = "is in the split"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda _: KeyLaw.of(BESIDE, ["town"], [2]), LATER),
        (lambda _: estimate.regression("pay ~ town", FRAME, BESIDE, "linear", strata="sex"), IN_SPLIT),
        (lambda _: estimate.table(FRAME, ["town"], BESIDE, weights="age"), IN_SPLIT),
        (lambda _: estimate.table(FRAME, ["town"], BESIDE, strata="sex"), IN_SPLIT),
    ],
)
def test_what_has_no_law_for_a_split_says_so(use: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match=message):
        use(tmp_path / "release")
    assert not list(tmp_path.iterdir())


def test_other_variables_of_a_release_with_a_split_are_estimated_as_ever() -> None:
    frame = pa.table({"town": ["x"] * 60 + ["y"] * 40})
    wanted = estimate.table(frame, ["town"], Mechanism(BESIDE.blocks, BOOK))
    assert estimate.table(frame, ["town"], BESIDE).value.tolist() == wanted.value.tolist()
