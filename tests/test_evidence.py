"""What the joint model is told of a release: every law compared with the exact matrices, read in another way."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from postrand import Block, Codebook, Mechanism, Split, TransitionMatrix, Variable, randomised_response
from postrand.codebook.rules import Rule
from postrand.errors import DataError, EstimationError
from postrand.estimate import evidence_clear
from postrand.estimate.evidence import evidence_of
from postrand.mixture import Evidence
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn

from .evidence_cases import CASES, FREE, KEPT, A, B, frame_of, likelihood, released_records, true_records, variable


def told(evidence: Evidence, record: int, true: tuple[int, ...]) -> float:
    """Return ``P(released | true)`` as the evidence states it, from its definition."""
    for place, code in enumerate(true):
        if evidence.exact[record, place] not in (-1, code):
            return 0.0
    if any(all(rule[place, code] for place, code in enumerate(true)) for rule in evidence.rules):
        return 0.0
    chance = 1.0
    for at in range(evidence.start[record], evidence.start[record + 1]):
        law, seen = evidence.laws[evidence.law[at]], evidence.released[at]
        assert (evidence.exact[record, list(law.variables)] == -1).all()
        cell = np.flatnonzero((law.cells == [true[place] for place in law.variables]).all(axis=1))
        if not len(cell):
            return 0.0
        if law.matrix is None:
            chance *= law.noise[seen] + law.keep * (cell[0] == seen)
        else:
            chance *= law.matrix[cell[0], seen]
    return chance


@pytest.mark.parametrize("kind", CASES)
def test_the_evidence_of_every_kind_of_law_is_that_of_the_exact_matrices(kind: str) -> None:
    mechanism = CASES[kind]()
    book, released = mechanism.require_codebook(), released_records(mechanism)
    evidence, modelled = evidence_of(frame_of(mechanism, released), mechanism)
    assert modelled.names == book.names
    clear = [k for k, name in enumerate(book.names) if name not in mechanism.variables]
    for record, shown in enumerate(released):
        for true in true_records(book):
            wanted = likelihood(mechanism, shown, true)
            codes = tuple(v.size if c == KEPT else c for v, c in zip(book.variables, true, strict=True))
            assert told(evidence, record, codes) == pytest.approx(wanted, abs=1e-15), (kind, shown, true)
        assert all(evidence.exact[record, place] == shown[place] for place in clear)


@pytest.mark.parametrize("kind", CASES)
def test_true_records_that_a_rule_forbids_are_impossible(kind: str) -> None:
    mechanism = CASES[kind]()
    book, released = mechanism.require_codebook(), released_records(mechanism)
    evidence, _ = evidence_of(frame_of(mechanism, released), mechanism)
    allowed = {
        tuple(v.size if c == KEPT else c for v, c in zip(book.variables, x, strict=True)) for x in true_records(book)
    }
    every = set(itertools.product(*(range(size) for size in evidence.sizes)))
    forbidden = {x for x in every if any(all(rule[j, c] for j, c in enumerate(x)) for rule in evidence.rules)}
    assert forbidden <= every - allowed
    if not any(v.name not in mechanism.variables for v in book.variables):
        assert forbidden == every - allowed


def test_randomised_response_has_the_compact_form_and_others_have_a_matrix() -> None:
    evidence, _ = evidence_of(frame_of(CASES["plain"](), released_records(CASES["plain"]())), CASES["plain"]())
    assert [law.matrix is None for law in evidence.laws] == [True, False, True]
    assert evidence.laws[2].keep == 0.5
    np.testing.assert_allclose(evidence.laws[2].noise, [0.25, 0.125, 0.125])


def test_a_block_that_is_a_product_is_a_law_for_each_variable() -> None:
    evidence, _ = evidence_of(frame_of(CASES["product"](), released_records(CASES["product"]())), CASES["product"]())
    assert [law.variables for law in evidence.laws] == [(1,), (0,), (2,)]
    joint, _ = evidence_of(frame_of(CASES["joint"](), released_records(CASES["joint"]())), CASES["joint"]())
    assert [law.variables for law in joint.laws] == [(0, 1), (2,)]


def test_values_that_nothing_changed_are_exact() -> None:
    evidence, _ = evidence_of(frame_of(CASES["kept"](), released_records(CASES["kept"]())), CASES["kept"]())
    assert (evidence.exact[:, 0] >= 0).all()
    assert (evidence.exact[:, 1] == -1).all()
    assert (np.diff(evidence.start) == 1).all()


def test_numbers_are_bins_of_about_equal_size_with_atoms_of_their_own() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([np.zeros(4000), rng.gamma(2, 50, 6000), np.full(500, np.nan)])
    found = evidence_clear.of_numbers(values)
    counts = np.bincount(found.codes)
    assert found.labels[0] == "0"
    assert found.labels[-1] == "(missing)"
    assert counts[0] == 4000
    assert counts[-1] == 500
    inside = counts[1:-1]
    assert 8 <= len(inside) <= 24
    assert inside.max() <= 1.2 * inside.min()
    order = np.argsort(values[:10_000], kind="stable")
    assert (np.diff(found.codes[:10_000][order]) >= 0).all()  # a bin is a range


def test_equal_numbers_are_in_one_bin() -> None:
    values = np.random.default_rng(4).integers(0, 400, 3000).astype(float)
    found = evidence_clear.of_numbers(values)
    assert all(len(np.unique(found.codes[values == v])) == 1 for v in np.unique(values))
    assert len(found.labels) <= 24


def test_few_different_numbers_keep_a_code_each() -> None:
    found = evidence_clear.of_numbers(np.repeat([1.0, 2.0, 5.0], 300))
    assert found.labels == ("1", "2", "5")
    places = np.random.default_rng(4).integers(0, 40, 3000).astype(float)
    found = evidence_clear.of_numbers(places)
    assert found.distinct
    np.testing.assert_array_equal(np.array(found.labels, float)[found.codes], places)
    assert not evidence_clear.of_numbers(places[:1999]).distinct  # 50 records of a value, on average


def test_rare_categories_are_merged_but_for_those_that_rules_tell_apart() -> None:
    wide = variable("w", 200)
    book = Codebook((A, wide), (Rule({"a": "a1", "w": ["w199", "w198"]}),))
    codes = np.concatenate([np.repeat(np.arange(60), 20), np.arange(200)])
    columns = {"w": pa.array([f"w{c}" for c in codes]), "a": pa.array(["a0"] * len(codes))}
    evidence, modelled = evidence_of(pa.table(columns), Mechanism({"a": randomised_response(2, 1.0)}, book))
    found = modelled["w"]
    assert found.size <= 66
    assert "rare" in found.note
    w, a = modelled.names.index("w"), modelled.names.index("a")
    (rule,) = evidence.rules
    assert rule[a].tolist()[:2] == [False, True]
    for code in (198, 199, 150, 3):
        here = evidence.exact[np.flatnonzero(codes == code)[0], w]
        assert rule[w, here] == (code >= 198)


def test_what_the_model_leaves_out_is_named_with_the_reason() -> None:
    n = 300
    book = Codebook(
        (
            A,
            Variable("house", "household", type="int64"),
            Variable("key", "record_key", type="int64"),
            Variable("w", "weight", type="double"),
            Variable("pay", "other", type="double", missing="keep"),
            Variable("rank", "other", type="double"),
        )
    )
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "a": pa.array(["a0", "a1"] * (n // 2)),
            "house": np.arange(n) // 2,
            "key": np.arange(n),
            "w": rng.random(n),
            "pay": pa.array([None if i % 7 == 0 else float(i) for i in range(n)]),
            "rank": rng.random(n),
            "note": pa.array([f"remark {i}" for i in range(n)]),
            "place": pa.array(["north", "south", None] * (n // 3)),
            "day": pa.array(np.arange(n) % 30, pa.int32()).cast(pa.date32()),
            "one": np.ones(n),
            "empty": pa.nulls(n, pa.float64()),
            "list": pa.array([[1]] * n),
        }
    )
    ranked = RankedColumn("rank", RankBlocks(4), "permute", n)
    mechanism = Mechanism({"a": randomised_response(2, 1.0)}, book, numerical=[ranked])
    evidence, modelled = evidence_of(table, mechanism)
    kinds = {v.name: v.kind for v in modelled.variables}
    assert kinds == {
        "a": "perturbed", "w": "weight", "pay": "bins", "rank": "ranked", "place": "categories", "day": "bins",
    }  # fmt: skip
    assert [name for name, _ in modelled.left_out] == ["house", "key", "note", "list"]
    assert all(reason for _, reason in modelled.left_out)
    assert modelled["pay"].labels[-1] == "(missing)"
    assert modelled["place"].labels == ("north", "south", "(missing)")
    assert "released values" in modelled["rank"].note
    assert evidence.sizes == tuple(v.size for v in modelled.variables)
    assert (evidence.exact.max(axis=0)[1:] == np.array(evidence.sizes)[1:] - 1).all()


def test_a_variable_of_which_nothing_can_be_learned_is_refused_by_name() -> None:
    table = pa.table({"a": ["a0", "a1"], "b": ["b0", "b2"], "c": ["c1", "c1"]})
    flat = TransitionMatrix.from_array(np.kron(randomised_response(2, 1.0).array, np.full((3, 3), 1 / 3)))
    with pytest.raises(EstimationError, match=r"^b: .*nothing can be learned"):
        evidence_of(table, Mechanism({("a", "b"): flat}, FREE))
    half, third = (TransitionMatrix.from_array(np.full((k, k), 1 / k)) for k in (2, 3))
    with pytest.raises(EstimationError, match=r"a, c: .*nothing can be learned"):
        evidence_of(table, Mechanism({"a": half, "c": third}, FREE))


def test_records_that_contradict_a_rule_by_known_values_are_refused() -> None:
    book = Codebook((A, B, variable("c", 3)), (Rule({"a": "a0", "b": "b0"}),))
    kept = {"a": TransitionMatrix.identity(2), "b": TransitionMatrix.identity(3)}
    law = Mechanism({**kept, "c": randomised_response(3, 1.0)}, book)
    columns = {"a": ["a0", "a1"], "c": ["c0", "c1"]}
    with pytest.raises(DataError, match=r"^a, b: a record contradicts a rule"):
        evidence_of(pa.table({**columns, "b": ["b0", "b0"]}), law)
    evidence_of(pa.table({**columns, "b": ["b1", "b0"]}), law)


def test_input_that_cannot_be_completed_is_refused() -> None:
    mechanism = Mechanism({"a": randomised_response(2, 1.0)}, FREE)
    with pytest.raises(DataError, match="at least two records"):
        evidence_of(pa.table({"a": ["a0"]}), mechanism)
    blocks = [Block(("a",), randomised_response(2, 1.0)), Block(("b",), randomised_response(3, 1.0))]
    split = Split.of([0.5, 0.5], blocks)
    blank = frame_of(Mechanism([], Codebook((A, B)), split=split), [(0, -2), (1, -2)])
    with pytest.raises(DataError, match="no record shows 'b'"):
        evidence_of(blank, Mechanism([], Codebook((A, B)), split=split))
