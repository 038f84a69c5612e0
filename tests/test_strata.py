"""Blocks that read what they keep: strata, classes of a law, the record's account, estimates by stratum."""

import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest

from postrand import Block, Claim, DifferentialPrivacy, Mechanism, ReleaseKey, TransitionMatrix, certify, estimate
from postrand.certification.account import record_account
from postrand.codebook import Codebook, Variable
from postrand.designers.linked_cells import BlockRequest, select, shapes_of
from postrand.engines.frame import perturb
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism.matrix import randomised_response
from postrand.mechanism.matrix_classes import classes_of, join, parts

BOOK = Codebook(
    (
        Variable("region", role="other", categories=("N", "S")),
        Variable("sex", role="key", categories=("F", "M")),
        Variable("work", role="key", categories=("no", "part", "full")),
    )
)


def stratified(name, epsilons, codebook=BOOK):
    size = codebook[name].size
    cells = tuple(itertools.product(range(len(epsilons)), range(size)))
    matrix = join([randomised_response(size, e) for e in epsilons])
    return Block(("region", name), matrix, cells, "public", ("region",))


MECHANISM = Mechanism([stratified("sex", (0.5, 2.0)), stratified("work", (1.0, 0.25))], BOOK)


def test_classes_are_what_the_law_never_leaves():
    law = TransitionMatrix.from_array([[0.5, 0, 0.5, 0], [0, 1, 0, 0], [0.25, 0, 0.75, 0], [0, 0.5, 0, 0.5]])
    labels = classes_of(law).tolist()
    assert labels[0] == labels[2] != labels[1] == labels[3]
    assert [p.size for p in parts(law)] == [2, 2]
    assert parts(randomised_response(3, 1.0))[0] == randomised_response(3, 1.0)


def test_the_account_sums_over_blocks_within_a_stratum_and_takes_the_worst():
    """Brute force: the largest ratio of the probabilities of a whole released record over true ones in a stratum."""
    worst = 0.0
    for region in (0, 1):
        laws = [b.matrix.array[np.ix_(*[[k for k, c in enumerate(b.cells) if c[0] == region]] * 2)]
                for b in MECHANISM.blocks]  # fmt: skip
        joint = np.kron(*laws)
        worst = max(worst, float(np.log(joint.max(axis=0) / joint.min(axis=0)).max()))
    account = record_account(MECHANISM.blocks)
    assert account.total == pytest.approx(worst, abs=1e-12)
    assert account.total == pytest.approx(2.25, abs=1e-9)  # not 2.0 + 1.0: those are of different strata
    assert account.blocks == (pytest.approx(2.0), pytest.approx(1.0))


def drawn(seed):
    """Three blocks that read a common stratum, two of them, or none, with laws and priors at random."""
    rng = np.random.default_rng(seed)
    book = Codebook(tuple(Variable(n, role="other", categories=tuple(range(k)), type="int64")
                          for n, k in {"r": 2, "s": 3, "x": 2, "y": 3, "z": 2}.items()))  # fmt: skip
    made = []
    for given, name in ((("r",), "x"), (("r", "s"), "y"), ((), "z")):
        sizes = [book[n].size for n in given]
        laws = [TransitionMatrix.from_array(rng.dirichlet(np.full(book[name].size, 4.0), size=book[name].size))
                for _ in range(math.prod(sizes))]  # fmt: skip
        cells = tuple(itertools.product(*(range(k) for k in (*sizes, book[name].size))))
        made.append(Block((*given, name), join(laws), cells, "dp", given, float(rng.uniform(0.1, 0.5))))
    return Mechanism(made, book)


@pytest.mark.parametrize("seed", range(5))
def test_the_account_is_the_worst_stratum_of_the_whole_record_and_every_prior(seed):
    mechanism = drawn(seed)
    worst = 0.0
    for r, s in itertools.product(range(2), range(3)):
        joint = np.ones((1, 1))
        for block in mechanism.blocks:
            at = dict(r=r, s=s)
            inside = [k for k, c in enumerate(block.cells)
                      if all(c[block.variables.index(n)] == at[n] for n in block.given)]  # fmt: skip
            joint = np.kron(joint, block.matrix.array[np.ix_(inside, inside)])
        worst = max(worst, float(np.log(joint.max(axis=0) / joint.min(axis=0)).max()))
    priors = sum(block.prior_epsilon for block in mechanism.blocks)
    account = record_account(mechanism.blocks)
    assert account.total == pytest.approx(worst + priors, rel=1e-9)
    assert account.total >= worst + priors - 1e-15
    assert account.total <= sum(account.blocks) + sum(account.priors) + 1e-12
    certified = certify(mechanism, [Claim(DifferentialPrivacy(account.total + 1e-9), within=True)])
    assert certified.account == account
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(mechanism, [Claim(DifferentialPrivacy(worst + priors - 1e-6), within=True)])


def test_the_certificate_claims_within_strata_only_and_says_what_is_disclosed():
    certificate = certify(MECHANISM, [Claim(DifferentialPrivacy(2.26), within=True)])
    assert "among true values of the same class" in certificate.sentences[0]
    text = " ".join(certificate.not_covered)
    assert (
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: region"
        in text
    )
    assert "a separate transition matrix for each value of region" in text
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(MECHANISM, [DifferentialPrivacy(30.0)])  # across strata nothing holds
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(MECHANISM, [Claim(DifferentialPrivacy(2.2), within=True)])


def test_the_law_survives_json_and_enters_the_digest():
    data = json.loads(json.dumps(MECHANISM.to_dict()))
    again = Mechanism.from_dict(data, BOOK)
    assert again == MECHANISM
    assert again.digest() == MECHANISM.digest() != Mechanism(MECHANISM.blocks[:1], BOOK).digest()


def test_large_blocks_are_written_compactly_and_read_back():
    rng = np.random.default_rng(0)
    law = join([TransitionMatrix.from_array(rng.dirichlet(np.ones(10), size=10)) for _ in range(12)])
    cells = tuple((k,) for k in range(120))
    mechanism = Mechanism([Block(("v",), law, cells)])
    data = json.loads(json.dumps(mechanism.to_dict()))
    assert set(data["blocks"][0]["weights"]) == {"usual", "columns", "weights"}
    assert Mechanism.from_dict(data) == mechanism


@pytest.mark.parametrize(
    ("names", "matrix", "cells", "message"),
    [
        (("region", "sex"), join([randomised_response(2, 1.0)] * 2), None, "lists its cells"),
        (("sex",), randomised_response(2, 1.0), ((0,), (1,)), "not one of the block's"),
        (("region",), TransitionMatrix.identity(2), ((0,), (1,)), "every variable is given"),
        (("region", "sex"), randomised_response(4, 1.0), ((0, 0), (0, 1), (1, 0), (1, 1)), "changes a given variable"),
    ],
)
def test_wrong_strata_are_refused(names, matrix, cells, message):
    with pytest.raises(SpecificationError, match=message):
        Block(names, matrix, cells, "public", ("region",))


def test_a_stratum_may_be_exchanged_only_among_values_of_one_law():
    moving = Block(("region",), randomised_response(2, 1.0))
    with pytest.raises(SpecificationError, match="the matrix differs between values of a given variable"):
        Mechanism([moving, stratified("sex", (0.5, 2.0))], BOOK)
    same = Mechanism([moving, stratified("sex", (1.0, 1.0))], BOOK)
    assert same.variables == ("region", "sex")
    assert record_account(same.blocks).total == pytest.approx(2.0)


def release(n=60_000, seed=3):
    rng = np.random.default_rng(seed)
    codes = {"region": rng.integers(2, size=n), "sex": rng.integers(2, size=n)}
    codes["work"] = np.where(rng.random(n) < 0.7, codes["region"] + codes["sex"] * (1 - codes["region"]), 2)
    table = pa.table({v: pa.DictionaryArray.from_arrays(codes[v], list(BOOK[v].categories)) for v in BOOK.names})
    return codes, perturb(table, MECHANISM, ReleaseKey.from_seed(seed))


def test_estimates_by_stratum_are_unbiased():
    """Simulation: each share of the three-way table within 5 of its standard errors (12 shares; alpha below 1e-5)."""
    codes, out = release()
    found = estimate.table(out, ["region", "sex", "work"], MECHANISM)
    shape = (2, 2, 3)
    true = np.bincount(np.ravel_multi_index([codes[n] for n in BOOK.names], shape), minlength=12).reshape(shape)
    true = true / true.sum()
    assert (np.abs(found.value - true) < 5 * found.standard_error + 1e-12).all()
    released = [np.array(out.column(n).combine_chunks().indices) for n in BOOK.names]
    naive = np.bincount(np.ravel_multi_index(released, shape), minlength=12).reshape(shape) / len(codes["sex"])
    assert (np.abs(naive - true) > 5 * found.standard_error).any()  # the uncorrected table is the mutant


def test_a_stratum_is_released_as_it_is():
    codes, out = release(2_000)
    np.testing.assert_array_equal(np.array(out.column("region").combine_chunks().indices), codes["region"])
    assert (np.array(out.column("sex").combine_chunks().indices) != codes["sex"]).mean() > 0.1


def test_selected_records_are_perturbed_and_the_others_are_said_to_be_unprotected():
    shape = shapes_of(BOOK, [BlockRequest(("sex", "work"))])[0]
    stays = np.array([True, False, False, True, False, False])
    chosen = select(shape, stays)
    weights = np.zeros((6, 6), dtype=np.int64)
    for c in range(len(chosen.laws)):
        inside = np.flatnonzero(chosen.labels == c)
        weights[np.ix_(inside, inside)] = randomised_response(inside.size, 1.0).weights if inside.size > 1 else 2**53
    cells = tuple(map(tuple, chosen.cells.tolist()))
    block = Block(chosen.variables, TransitionMatrix(weights), cells, "confidential")
    certificate = certify(Mechanism([block], BOOK))
    text = " ".join(certificate.not_covered)
    assert "2 of 6 values are released unchanged" in text
    assert "rests on confidential records" in text
    assert certificate.findings[0].level <= 1.0


def test_nothing_perturbed_has_no_finite_epsilon():
    assert Block(("sex",), TransitionMatrix.identity(2)).epsilon == math.inf


def test_a_law_that_changes_nothing_meets_no_claim_within_classes():
    idle = Mechanism({"a": randomised_response(2, 1.0), "b": TransitionMatrix.identity(3)})
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(idle, [Claim(DifferentialPrivacy(30.0), within=True)])
    assert record_account(idle.blocks).total == math.inf
