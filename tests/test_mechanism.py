"""Mechanisms: blocks that fit their codebook, plain data, digests."""

import json
from dataclasses import replace

import numpy as np
import pytest

from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("age", role="key", categories=(1, 2, 3), missing="category"),
        Variable("race", role="key", categories=("a", "b")),
        Variable("income", role="sensitive", type="double"),
    )
)
M2, M8 = randomised_response(2, 1.0), randomised_response(8, 1.0)


def make(provenance="public"):
    return Mechanism([Block("sex", M2, provenance=provenance), Block(("age", "race"), M8)], BOOK)


def test_a_mapping_and_blocks_mean_the_same():
    assert Mechanism({"sex": M2, ("age", "race"): M8}, codebook=BOOK).digest() == make("unstated").digest()
    assert make().variables == ("sex", "age", "race")
    assert make()["race"].name == "age × race"


def test_round_trip_through_json():
    mechanism = make()
    data = json.loads(json.dumps(mechanism.to_dict()))
    assert Mechanism.from_dict(data, BOOK) == mechanism
    assert Mechanism.from_dict(data, BOOK).digest() == mechanism.digest()


def test_cells_are_the_combinations_in_c_order_unless_listed():
    assert make().blocks[1].cell_table((4, 2)).tolist() == [[i, j] for i in range(4) for j in range(2)]
    feasible = Block(("age", "race"), M2, cells=((0, 1), (3, 0)))
    assert feasible.cell_table((4, 2)).tolist() == [[0, 1], [3, 0]]
    assert Mechanism.from_dict(Mechanism([feasible], BOOK).to_dict(), BOOK).blocks == (feasible,)


def test_the_digest_follows_the_law_and_what_it_was_made_from():
    """Every field of a block counts: draws follow the digest, so none can be changed without changing them."""
    block = Block(("sex",), M2, None, "dp", (), 0.25)
    changes = [{"provenance": "public", "prior_epsilon": 0.0}, {"prior_epsilon": 0.0}, {"prior_epsilon": 0.5}]
    changes += [{"budget": "confidential"}, {"budget": "dp"}]
    made = [Mechanism([one], BOOK) for one in (block, *(replace(block, **change) for change in changes))]
    assert len({one.digest() for one in made}) == len(made)
    for one in made:
        assert Mechanism.from_dict(json.loads(json.dumps(one.to_dict())), BOOK).blocks == one.blocks
    assert Mechanism({"sex": randomised_response(2, 1.1)}, BOOK).digest() != Mechanism({"sex": M2}, BOOK).digest()
    swapped = Codebook((Variable("sex", role="key", categories=("M", "F")),))
    assert Mechanism({"sex": M2}, swapped).digest() != Mechanism({"sex": M2}, BOOK).digest()


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({}, "no blocks"),
        ({"sex": M2, ("race", "sex"): randomised_response(4, 1.0)}, "'sex' is in two blocks"),
        ({"sexe": M2}, "did you mean 'sex'"),
        ({"sex": M8}, "does not fit the categories"),
        ({"income": M2}, "has no categories"),
        ({("sex", "sex"): M8}, "named twice"),
        ({"sex": np.eye(2)}, "not a TransitionMatrix"),
        ([Block("sex", M2, cells=((0,), (5,)))], "outside its variable's range"),
    ],
)
def test_each_invariant_is_enforced(blocks, message):
    with pytest.raises(SpecificationError, match=message):
        Mechanism(blocks, codebook=BOOK)


@pytest.mark.parametrize(
    ("cells", "message"), [(((0,),), "do not fit"), (((0, 1), (1, 1)), "do not fit"), (((0,), (0,)), "listed twice")]
)
def test_cells_must_match_the_matrix(cells, message):
    with pytest.raises(SpecificationError, match=message):
        Block("sex", M2, cells=cells)


def test_unknown_provenance_is_refused():
    with pytest.raises(SpecificationError, match="unknown provenance"):
        Block("sex", M2, provenance="guess")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema="other"), "unknown mechanism schema"),
        (lambda d: d["blocks"][0].pop("weights"), "is not valid"),
        (lambda d: d["blocks"][0].update(weights=[[0.5, 0.5], [0.5, 0.5]]), "not integers"),
        (lambda d: d["blocks"][0].update(weights=[[1, 2], [3]]), "is not valid"),
        (lambda d: d["variables"][0].update(categories=["M", "F"]), "differ from the codebook"),
    ],
)
def test_damaged_data_are_refused(change, message):
    data = json.loads(json.dumps(make().to_dict()))
    change(data)
    with pytest.raises(SpecificationError, match=message):
        Mechanism.from_dict(data, BOOK)


def test_a_mechanism_without_codebook_says_so():
    with pytest.raises(SpecificationError, match="no codebook"):
        Mechanism({"sex": M2}).require_codebook()
    assert Mechanism({"sex": M2}).bind(BOOK).require_codebook() == BOOK
    with pytest.raises(SpecificationError, match="no block perturbs 'sec'"):
        make()["sec"]


def diagonal_law(size):
    """Return a law whose rows are constant off the diagonal, and not all alike."""
    rng = np.random.default_rng(size)
    weights = np.repeat(rng.integers(1, 2**53 // (2 * size), size)[:, None], size, axis=1)
    np.fill_diagonal(weights, 0)
    np.fill_diagonal(weights, 2**53 - weights.sum(axis=1))
    return TransitionMatrix(weights)


@pytest.mark.parametrize("cells", [None, tuple((k,) for k in range(100))])
def test_rows_constant_off_the_diagonal_are_written_as_two_lists(cells):
    law = diagonal_law(100)
    data = json.loads(json.dumps(Mechanism([Block(("v",), law, cells)]).to_dict()))
    written = data["blocks"][0]["weights"]
    assert set(written) == {"diagonal", "off"}
    assert written["diagonal"] == [int(law.weights[k, k]) for k in range(100)]
    assert written["off"] == [int(law.weights[k, k - 1]) for k in range(100)]
    assert Mechanism.from_dict(data).blocks[0].matrix == law
    small = Mechanism([Block(("v",), diagonal_law(63))]).to_dict()["blocks"][0]["weights"]
    assert small == diagonal_law(63).weights.tolist()


def test_one_entry_off_the_rule_is_written_in_full():
    weights = diagonal_law(64).weights.copy()
    weights[5, 5] -= 1
    weights[5, 60] += 1
    mechanism = Mechanism([Block(("v",), TransitionMatrix(weights))])
    assert mechanism.to_dict()["blocks"][0]["weights"] == weights.tolist()
    assert Mechanism.from_dict(mechanism.to_dict()) == mechanism


def other_forms(law):
    """Yield weights that say the same law in another form, or nearly."""
    off, diagonal = law.weights[:, 0].copy(), law.weights.diagonal()
    off[0] = law.weights[0, 1]
    good = {"diagonal": diagonal.tolist(), "off": off.tolist()}
    yield law.weights.tolist()
    yield {
        "usual": off.tolist(),
        "columns": [[k] for k in range(law.size)],
        "weights": [[w] for w in diagonal.tolist()],
    }
    yield {"off": good["off"], "diagonal": good["diagonal"]}
    yield {**good, "note": 1}
    yield {**good, "off": [float(w) for w in good["off"]]}
    yield {**good, "diagonal": [float(w) for w in good["diagonal"]]}
    yield {**good, "off": good["off"][:-1]}
    yield {**good, "diagonal": good["diagonal"][:-1]}
    yield {**good, "diagonal": [*good["diagonal"][:-1], good["diagonal"][-1] + 1]}
    yield {"off": good["off"]}


def test_every_other_form_of_a_law_is_refused():
    law = diagonal_law(70)
    for cells in (None, tuple((k,) for k in range(70))):
        data = Mechanism([Block(("v",), law, cells)]).to_dict()
        assert Mechanism.from_dict(data).blocks[0].matrix == law
        for other in other_forms(law):
            forged = {**data, "blocks": [{**data["blocks"][0], "weights": other}]}
            with pytest.raises(SpecificationError):
                Mechanism.from_dict(forged)
