"""The certified level of a split against the enumerated law of subset and released cell, in rational numbers."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from postrand.certification import Claim, certify
from postrand.certification.account import mechanism_account
from postrand.certification.file_claims import tie
from postrand.certification.reachable_rules import reachable
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import UNIT
from postrand.privacy import (
    MODELS,
    ApproximateDifferentialPrivacy,
    Bistochastic,
    ConcentratedPrivacy,
    DifferentialPrivacy,
    RenyiPrivacy,
    ShuffledPrivacy,
    shuffled_delta,
)
from postrand.support.exact import exp_lower, log_upper
from postrand.testing.cases import FILES, example
from postrand.testing.models import check_mixing

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
BOOK = Codebook(tuple(Variable(n, role="key", categories=tuple("xyz"[:s])) for n, s in SIZES.items()))
Outcome = tuple[Any, ...]
COUNTS = FILES[-1]


def rough(size: int, seed: int) -> TransitionMatrix:
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(rng.dirichlet(np.full(size, 2.0), size))


def mechanism(seed: int = 0, blocks: int = 1) -> Mechanism:
    pair, other, one = rough(6, seed), rough(6, seed + 1), rough(2, seed + 2)
    split = Split.of([0.5, 0.25, 0.25], [Block(("a", "b"), pair), Block(("c", "b"), other), Block(("a",), one)])
    beside = [Block(("d",), rough(2, seed + 3))] if blocks else []
    return Mechanism(beside, BOOK, split=split)


def law_of(record: dict[str, int], mechanism: Mechanism) -> dict[Outcome, Fraction]:
    """Return the probability of every (released blocks, subset, released cell) of one true record, one by one."""
    law: dict[Outcome, Fraction] = {(): Fraction(1)}
    for block in mechanism.blocks:
        row = block.matrix.weights[cell_of(record, block)].tolist()
        law = {(*o, y): p * Fraction(w, UNIT) for o, p in law.items() for y, w in enumerate(row)}
    if mechanism.split is None:
        return law
    found: dict[Outcome, Fraction] = {}
    for place, subset in enumerate(mechanism.split.subsets):
        row = subset.matrix.weights[cell_of(record, subset.block)].tolist()
        for outcome, p in law.items():
            found |= {(*outcome, place, y): p * Fraction(subset.weight * w, UNIT**2) for y, w in enumerate(row)}
    return found


def cell_of(record: dict[str, int], block: Block) -> int:
    codes = tuple(record[name] for name in block.variables)
    cells = block.cells or tuple(itertools.product(*(range(SIZES[name]) for name in block.variables)))
    return cells.index(codes)


def every_law(mechanism: Mechanism) -> list[dict[Outcome, Fraction]]:
    records = (dict(zip(SIZES, codes, strict=True)) for codes in itertools.product(*map(range, SIZES.values())))
    return [law_of(record, mechanism) for record in records]


def enumerated_ratio(laws: list[dict[Outcome, Fraction]]) -> Fraction:
    return max(max(law[o] for law in laws) / min(law[o] for law in laws) for o in laws[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("blocks", [0, 1])
def test_the_certified_level_is_that_of_the_enumerated_law(seed: int, blocks: int) -> None:
    law = mechanism(10 * seed, blocks)
    laws = every_law(law)
    assert all(sum(one.values()) == 1 for one in laws)
    exact = enumerated_ratio(laws)
    certificate = certify(law)
    assert certificate.findings[0].level == log_upper(exact) == certificate.account.total
    assert certify(law, [DifferentialPrivacy(log_upper(exact))]).findings[0].holds
    below = math.nextafter(log_upper(exact), 0) * (1 - 1e-12)
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(law, [DifferentialPrivacy(below)])


@pytest.mark.parametrize("seed", range(4))
def test_other_levels_are_never_below_the_enumerated_law(seed: int) -> None:
    law = mechanism(10 * seed)
    laws = every_law(law)
    pairs = list(itertools.permutations(laws, 2))
    for epsilon in (0.3, 1.0, 2.0):
        grown = exp_lower(epsilon)
        delta = max(sum(max(Fraction(0), p[o] - grown * q[o]) for o in p) for p, q in pairs)
        found = certify(law, [ApproximateDifferentialPrivacy(epsilon, 0.999)]).findings[0]
        assert Fraction(found.level) >= delta
        assert found.level <= 4 * float(delta)  # no subset has less than a quarter of the records
    for order in (1.5, 2.0, 8.0):
        renyi = max(
            math.log(sum(float(p[o]) ** order * float(q[o]) ** (1 - order) for o in p)) / (order - 1) for p, q in pairs
        )
        assert renyi <= certify(law, [RenyiPrivacy(50.0, order)]).findings[0].level * (1 + 1e-12)
        assert renyi / order <= certify(law, [ConcentratedPrivacy(50.0)]).findings[0].level * (1 + 1e-12)


def test_the_level_of_the_shuffled_file_is_that_of_the_record_s() -> None:
    split = Split.of(
        [0.5, 0.5], [Block(("a", "b"), randomised_response(6, 1.0)), Block(("c",), randomised_response(2, 0.5))]
    )
    book = Codebook(tuple(BOOK[n] for n in "abc"))
    found = certify(Mechanism([], book, split=split), [ShuffledPrivacy(0.2, 1e-3, 10_000)]).findings[0]
    assert found.level == shuffled_delta(split.epsilon, 10_000, 0.2)


def test_the_account_names_each_subset_and_counts_the_prior_of_the_split_once() -> None:
    blocks = [Block(("a", "b"), randomised_response(6, 1.5), provenance="dp", prior_epsilon=0.25)]
    blocks += [Block(("c",), randomised_response(2, 0.5), provenance="dp", prior_epsilon=0.25)]
    beside = Block(("d",), randomised_response(2, 1.0), provenance="public")
    law = Mechanism([beside], BOOK, split=Split.of([0.5, 0.5], blocks))
    account = mechanism_account(law)
    assert account.blocks == (beside.epsilon,)
    assert account.split == tuple(block.epsilon for block in blocks)
    assert account.total == pytest.approx(2.75, abs=1e-12)
    certificate = certify(law, [DifferentialPrivacy(2.75)])
    assert certificate.findings[0].level == pytest.approx(2.75, abs=1e-12)
    with pytest.raises(PrivacyError):
        certify(law, [DifferentialPrivacy(2.74)])
    told = certificate.to_dict()["split"]
    assert [(t["variables"], t["weight"], t["epsilon"]) for t in told] == [
        (["a", "b"], 2**52, blocks[0].epsilon),
        (["c"], 2**52, blocks[1].epsilon),
    ]
    assert "split" not in certify(Mechanism([beside], BOOK)).to_dict()


def test_each_of_several_claims_has_its_own_variables() -> None:
    law = Mechanism(
        [Block(("d",), randomised_response(2, 1.0))],
        BOOK,
        split=Split.of(
            [0.5, 0.5], [Block(("a", "b"), randomised_response(6, 2.0)), Block(("c",), randomised_response(2, 0.5))]
        ),
    )
    claims = [Claim(DifferentialPrivacy(1.0), ("d",)), Claim(DifferentialPrivacy(2.0), ("a", "b", "c"))]
    assert [f.level for f in certify(law, claims).findings] == pytest.approx([1.0, 2.0], abs=1e-12)
    with pytest.raises(PrivacyError, match=r"a claim covers part of the split.*name c too"):
        certify(law, [Claim(DifferentialPrivacy(2.0), ("a", "b"))])
    cell = "'[xyz] × [xyz]'"
    where = rf"most of it in the subset 'a × b' of the split, released {cell}, true {cell} and {cell}\."
    with pytest.raises(PrivacyError, match=where):
        certify(law, [Claim(DifferentialPrivacy(1.9), ("a", "b", "c"))])


def test_a_model_that_a_split_has_no_meaning_for_is_refused() -> None:
    law = mechanism()
    with pytest.raises(PrivacyError, match="'bistochastic' is not defined where each record shows a random subset"):
        certify(law, [Bistochastic(0.5)])
    refused = [model for model in MODELS if not model.traits.mixes]
    assert {m.name for m in MODELS} - {m.name for m in refused} == {
        "differential", "approximate", "renyi", "concentrated", "shuffled"
    }  # fmt: skip
    for kind in refused:
        with pytest.raises(PrivacyError, match="not defined where each record shows"):
            certify(law, [example(kind, COUNTS)])
    recognition = next(kind for kind in refused if getattr(kind, "needs_file", False))
    with pytest.raises(PrivacyError, match="not defined where each record shows"):
        tie([Claim(example(recognition, COUNTS))], law, lambda _: pytest.fail("the file is counted"))


def test_a_subset_that_changes_nothing_has_no_level() -> None:
    law = Mechanism(
        [], BOOK, split=Split.of([0.5, 0.5], [Block(("a",), TransitionMatrix.identity(2)), Block(("b",), rough(3, 1))])
    )
    with pytest.raises(PrivacyError, match="no finite epsilon"):
        certify(law)
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(law, [DifferentialPrivacy(20.0)])
    with pytest.raises(PrivacyError, match="does not meet"):
        certify(law, [Claim(DifferentialPrivacy(20.0), within=True)])


def rule(**values: str) -> Rule:
    return Rule(tuple((name, (value,)) for name, value in values.items()))


RULES = (rule(a="x", b="y"), rule(b="z", c="x"), rule(a="y", d="x"), rule(a="x", c="y"))


@pytest.mark.parametrize("closed", [False, True])
def test_the_rules_that_a_release_can_contradict_are_those_of_the_enumerated_law(closed: bool) -> None:
    """A rule is contradicted only where one record shows all of its variables, released or clear."""
    book = Codebook(BOOK.variables, RULES)
    feasible = [
        r
        for codes in itertools.product(*map(range, SIZES.values()))
        for r in [dict(zip(SIZES, codes, strict=True))]
        if not any(all("xyz"[r[n]] in values for n, values in one.parts) for one in RULES)
    ]
    cells = tuple(sorted({(r["a"], r["b"]) for r in feasible})) if closed else None
    size = len(cells) if cells else 6
    split = Split.of(
        [0.5, 0.5],
        [Block(("a", "b"), randomised_response(size, 1.0), cells), Block(("c",), randomised_response(2, 1.0))],
    )
    law = Mechanism([], book, split=split)
    broken = set()
    for record, subset in itertools.product(feasible, split.subsets):
        every = subset.block.cells or tuple(itertools.product(*(range(SIZES[n]) for n in subset.variables)))
        for cell in every:
            shown = {"d": record["d"]} | dict(zip(subset.variables, cell, strict=True))
            for one in RULES:
                if all(n in shown and "xyz"[shown[n]] in values for n, values in one.parts):
                    broken.add(str(one))
    assert {str(one) for one in reachable(law)} == broken
    with pytest.raises(PrivacyError, match="a combination that cannot occur could be released"):
        certify(law)


def test_a_claim_names_variables_of_the_mechanism() -> None:
    with pytest.raises(SpecificationError, match="no block perturbs 'e'"):
        certify(mechanism(), [Claim(DifferentialPrivacy(9.0), ("a", "b", "c", "e"))])


def test_the_suite_of_models_finds_one_that_wrongly_says_that_it_mixes() -> None:
    class Wrong(Bistochastic):
        traits = dataclasses.replace(Bistochastic.traits, mixes=True)

    with pytest.raises(AssertionError, match="a public draw of one of two laws spends more than either"):
        check_mixing(Wrong)
