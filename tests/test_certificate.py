"""Certificates: one-sided, recomputed from the law, honest about limits; forgeries must fail."""

import json
import math
from typing import Any

import numpy as np
import pytest

from postrand.certification.certificate import Certificate, Claim, Facts, certify, claims_from_dict
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.units import Units
from postrand.privacy import Bistochastic, DifferentialPrivacy
from postrand.support.exact import exp_lower

DP = DifferentialPrivacy


def test_blocks_add_up_and_each_claim_names_its_variables():
    mechanism = Mechanism({"a": randomised_response(3, 1.0), "b": randomised_response(4, 0.5)})
    certificate = certify(mechanism, [DP(1.5), Claim(DP(0.5), ("b",))])
    levels = [finding.level for finding in certificate.findings]
    assert 1.5 - 1e-12 < levels[0] <= 1.5
    assert 0.5 - 1e-12 < levels[1] <= 0.5
    assert certificate.claims[0].variables == ("a", "b")
    assert certificate.sentences[1].startswith("b: ")


def test_without_claims_the_attained_level_is_certified():
    mechanism = Mechanism({"a": randomised_response(3, 1.0)})
    assert certify(mechanism).claims[0].privacy == DP(mechanism["a"].matrix.epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 20.0])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_smallest_unit_outside_is_refused(row, column, epsilon):
    """The largest admitted entry, in any place, is certified; one unit of 2^-53 more is not."""
    low = UNIT // 100_000_000_000
    high = int(low * exp_lower(epsilon))
    weights = np.empty((2, 2), dtype=np.int64)
    weights[row, column], weights[1 - row, column] = high, low
    weights[:, 1 - column] = UNIT - weights[:, column]
    certify(Mechanism({"a": TransitionMatrix(weights)}), [DP(epsilon)])
    weights[row] += np.where(np.arange(2) == column, 1, -1)
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(Mechanism({"a": TransitionMatrix(weights)}), [DP(epsilon)])


def test_a_failure_names_block_column_and_rows():
    weights = np.array([[UNIT - 4, 4], [4, UNIT - 4]])
    with pytest.raises(PrivacyError, match="most of it in block 'b', column 0, rows 0 and 1"):
        certify(Mechanism({"a": randomised_response(2, 1.0), "b": TransitionMatrix(weights)}), [DP(3.0)])


def test_zeros_have_no_finite_epsilon():
    mechanism = Mechanism({"a": TransitionMatrix.identity(2)})
    with pytest.raises(PrivacyError, match="no finite epsilon"):
        certify(mechanism)
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(mechanism, [DP(30.0)])
    assert DP(30.0).check([TransitionMatrix.identity(2)]).level == math.inf


def test_limits_are_spelled_out():
    book = Codebook(
        (
            Variable("a", role="key", categories=("x", "y"), missing="keep"),
            Variable("b", role="other", type="double"),
            Variable("id", role="record_key", type="int64"),
        )
    )
    mechanism = Mechanism([Block("a", randomised_response(2, 1.0), provenance="confidential")], book)
    text = " ".join(certify(mechanism, facts=Facts(False, False, True)).not_covered)
    for expected in (
        "NOT PRIVATE",
        "reveal perturbed values: b",
        "have a missing value: a",
        "original order",
        "ids are",
    ):
        assert expected in text
    assert "rests on confidential records: a" in text
    assert "NOT PRIVATE" not in " ".join(certify(mechanism).not_covered)


@pytest.mark.parametrize("claimed", [(), ("b",), ("c", "a"), ("a", "b", "c")])
def test_what_is_covered_is_what_is_claimed(claimed):
    """Every perturbed variable stands in exactly one of the two sentences, whichever claims there are."""
    law = randomised_response(2, 1.0)
    mechanism = Mechanism({name: law for name in "abc"})
    limits = certify(mechanism, [Claim(DP(1.0), (name,)) for name in claimed]).not_covered
    said = {name: text for text in limits for name in ("covers only", "not covered by any claim") if name in text}
    covered = claimed or ("a", "b", "c")
    assert said["covers only"].endswith(": " + ", ".join(sorted(covered)) + ".")
    rest = sorted({"a", "b", "c"} - set(covered))
    assert said.get("not covered by any claim") == (
        f"Perturbed, but not covered by any claim: {', '.join(rest)}." if rest else None
    )


def test_claims_round_trip_and_recompute_the_same_certificate():
    mechanism = Mechanism({"a": randomised_response(3, 1.0), "b": randomised_response(4, 0.5)})
    certificate = certify(mechanism, [DP(1.5), Claim(DP(0.5), ("b",))], Facts(order_is_shuffled=False))
    data = json.loads(json.dumps(certificate.to_dict()))
    claims, facts = claims_from_dict(data)
    again = certify(mechanism, claims, facts)
    assert isinstance(again, Certificate)
    assert again.to_dict() == data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema="x"), "unknown certificate schema"),
        (lambda d: d["claims"][0]["privacy"].update(model="differntial"), "did you mean 'differential'"),
        (lambda d: d["claims"][0]["privacy"].update(epsilom=1), "unknown option 'epsilom'"),
        (lambda d: d["facts"].update(extra=1), "unknown option 'extra'"),
    ],
)
def test_unknown_entries_are_refused(change, message):
    data = certify(Mechanism({"a": randomised_response(3, 1.0)})).to_dict()
    change(data)
    with pytest.raises(SpecificationError, match=message):
        claims_from_dict(data)


def test_part_of_a_joint_block_or_a_stranger_cannot_be_claimed():
    mechanism = Mechanism({("a", "b"): randomised_response(4, 1.0)})
    with pytest.raises(SpecificationError, match="part of a joint block"):
        certify(mechanism, [Claim(DP(1.0), ("a",))])
    with pytest.raises(SpecificationError, match="no block perturbs 'c'"):
        certify(mechanism, [Claim(DP(1.0), ("a", "b", "c"))])


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, True, "1"])
def test_epsilons_that_mean_nothing_are_refused(epsilon):
    with pytest.raises(PrivacyError, match="not a positive number"):
        DP(epsilon)


# -- what is not covered: whole sentences, so that none can be cut, doubled or lost ---------------------------------

COVERED = "The guarantee is per record and covers only the values of: {}."
PERSONS = (
    "Not covered: that a person is in the file. For a person or household, ε counts once for each record: with two "
    "records 2 × ε, with three 3 × ε. Nothing else is certified of several of its records together."
)
RR2 = randomised_response(2, 1.0)


def limits(*blocks, book=None, facts=None, claims=()):
    return certify(Mechanism(blocks, book), claims, facts).not_covered


def origins(*blocks):
    """Return the sentences beside those that every certificate has."""
    first, *told, last = limits(*blocks)
    assert (first, last) == (COVERED.format(", ".join(b.name for b in blocks)), PERSONS)
    return told


def test_a_public_prior_and_budget_leave_nothing_to_say():
    assert origins(Block(("a",), RR2, provenance="public")) == []


def test_what_a_private_prior_did_not_say_it_spent_is_said():
    spent, silent = (Block((n,), RR2, None, "dp", (), e) for n, e in (("a", 0.5), ("b", 0.0)))
    text = "The ε that a differentially private prior spent was not stated, and is not counted: {}."
    assert origins(spent) == []
    assert origins(silent) == [text.format("b")]
    assert origins(spent, silent) == [text.format("b")]
    assert origins(silent, Block(("c",), RR2, None, "dp")) == [text.format("b, c")]


def test_each_origin_of_a_matrix_is_said():
    tuned = (
        "The guarantee does not cover the choice of the matrix or of its ε, which rests on confidential records: {}."
    )
    unknown = "The guarantee does not cover the choice of the matrix, whose origin was not stated: {}."
    blocks = [
        Block((n,), RR2, provenance=p) for n, p in (("a", "confidential"), ("b", "unstated"), ("c", "confidential"))
    ]
    assert origins(*blocks) == [tuned.format("a, c"), unknown.format("b")]


@pytest.mark.parametrize(
    ("budget", "said"), [("dp", "differentially private"), ("confidential", "confidential"), ("unstated", "unstated")]
)
def test_a_budget_that_another_block_steered_is_said(budget, said):
    steered = Block(("a",), RR2, provenance="public", budget=budget)
    assert origins(steered, Block(("b",), RR2, provenance="public")) == [
        f"The guarantee does not cover the choice of ε, because {said} frequencies of other blocks were used to "
        "divide the budget: a."
    ]
    assert certify(Mechanism([steered])).blocks[0]["budget"] == budget


def test_the_classes_of_a_variable_are_listed_whole():
    """Every class with all of its values, and no other; none where they are many."""
    book = Codebook((Variable("x", role="key", categories=("p", "q", "r", "s", "t")),))
    law = TransitionMatrix.from_array(
        [[0.5, 0, 0.5, 0, 0], [0, 1, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.5, 0.5]]
    )
    told = limits(Block(("x",), law, provenance="public"), book=book, claims=[bistochastic()])
    assert told == (
        COVERED.format("x"),
        "Block x: values are exchanged within 3 classes only; the release shows the class of each record: "
        "{p, r}; {q}; {s, t}.",
        "Block x: 1 of 5 values are released unchanged, and only by records that have them; this block does "
        "not protect these records: anyone who sees such a value knows that it is true.",
        PERSONS,
    )


@pytest.mark.parametrize(("classes", "listed"), [(12, True), (13, False)])
def test_classes_are_listed_up_to_twelve(classes, listed):
    book = Codebook((Variable("x", role="key", categories=tuple(range(2 * classes)), type="int64"),))
    law = TransitionMatrix.from_array(np.kron(np.eye(classes), np.full((2, 2), 0.5)))
    told = limits(Block(("x",), law, provenance="public"), book=book, claims=[bistochastic()])[1]
    pairs = "; ".join(f"{{{2 * c}, {2 * c + 1}}}" for c in range(classes))
    assert told == (
        f"Block x: values are exchanged within {classes} classes only; the release shows the class of each record"
        + (f": {pairs}" if listed else "")
        + "."
    )


def test_every_limit_has_its_place():
    """All at once, in their order, each a whole sentence."""
    book = Codebook(
        (
            Variable("a", role="key", categories=("x", "y"), missing="keep"),
            Variable("b", role="other", categories=("x", "y")),
            Variable("h", role="household", type="int64"),
            Variable("w", role="weight", type="double"),
            Variable("id", role="record_key", type="int64"),
            Variable("gone", role="drop"),
            Variable("c", role="sensitive", categories=("x", "y")),
        )
    )
    blocks = [Block(("a",), RR2, provenance="dp", budget="confidential"), Block(("c",), RR2)]
    told = limits(*blocks, book=book, facts=Facts(False, False, True), claims=[Claim(DP(1.0), ("a",))])
    assert told == (
        "The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE to anyone who knows the seed.",
        COVERED.format("a"),
        "Perturbed, but not covered by any claim: c.",
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: b, h, w.",
        "The release shows which records have a missing value: a.",
        "The guarantee does not cover the choice of the matrix, whose origin was not stated: c.",
        "The guarantee does not cover the choice of ε, because confidential frequencies of other blocks were used to "
        "divide the budget: a.",
        "The ε that a differentially private prior spent was not stated, and is not counted: a.",
        "Records are in their original order.",
        "Record ids are released.",
        PERSONS,
    )


def bistochastic():
    return Claim(Bistochastic(0.1), ("x",))


# -- the same as codes: units, and blocks that change some cells only ------------------------------------------------


def codes(mechanism, facts=None, claims=()):
    """Return the limits after the sentence on what is covered, as codes with their values."""
    return list(certify(mechanism, claims, facts).limits[1:])


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("used", ["household", "person", "both"])
def test_limits_of_units_name_what_is_shared_and_what_was_settled(used, settled):
    book = Codebook(tuple(Variable(name, role="key", categories=("x", "y")) for name in "abcd"))
    columns = {"household": ("hid", 4, "", 0), "person": ("", 0, "pid", 3), "both": ("hid", 4, "pid", 3)}[used]
    kinds = {"a": "record", "b": "household", "c": "household", "d": "person"}
    kinds = {name: unit if used in (unit, "both") else "record" for name, unit in kinds.items()}
    blocks = [Block((name,), RR2, provenance="public", unit=unit) for name, unit in kinds.items()]
    found = codes(Mechanism(blocks, book, units=Units(*columns)), Facts(differing_are_settled=settled))
    wanted: list[dict[str, Any]] = [{"code": "presence"}]
    wanted += [{"code": f"several_{unit}"} for unit in ("person", "household") if used not in (unit, "both")]
    for unit in ("household", "person"):
        if used in (unit, "both"):
            names = [name for name, its in kinds.items() if its == unit]
            wanted.append({"code": f"shared_{unit}", "variables": names})
            wanted += [{"code": f"settled_{unit}", "variables": names}] * settled
    assert found == wanted


def test_limits_of_blocks_that_keep_some_cells():
    """Confidential counts chose them, unless strata or rules did; infeasible combinations are counted."""
    names = [Variable(name, role="key", categories=("x", "y", "z")) for name in "ab"]
    law = TransitionMatrix.from_array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    told = [
        {"code": "listed_classes", "block": ["a"], "classes": 2, "members": [["x", "y"], ["z"]]},
        {"code": "unchanged_values", "block": ["a"], "values": 1, "cells": 3},
    ]
    for rules, origin, wanted in (
        ((), "public", told),
        ((), "confidential", [*told, {"code": "selected_values", "block": ["a"]}]),
        ((Rule({"a": "z", "b": "x"}),), "confidential", told),
        ((Rule({"b": "x"}),), "confidential", [*told, {"code": "selected_values", "block": ["a"]}]),
    ):
        mechanism = Mechanism([Block(("a",), law, provenance=origin)], Codebook(tuple(names), rules=rules))
        found = codes(mechanism, claims=[Claim(Bistochastic(0.1), ("a",))])
        assert [entry for entry in found if entry.get("block")] == wanted
    strata = Block(("b", "a"), law, ((0, 0), (0, 1), (1, 2)), "confidential", given=("b",))
    found = codes(Mechanism([strata], Codebook(tuple(names))), claims=[Claim(Bistochastic(0.1), ("a",))])
    about = {"block": ["b", "a"]}
    assert [entry for entry in found if entry.get("block")] == [
        {"code": "feasible", **about, "cells": 3, "combinations": 9},
        {"code": "strata", **about, "given": ["b"]},
        {"code": "classes", **about, "classes": 2},
        {"code": "unchanged_values", **about, "values": 1, "cells": 3},
    ]
