"""Certificates as data: every entry of small ones, what priors and subsets add to a finding, and what is refused."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from postrand.certification import certificate as module
from postrand.certification.certificate import Claim, blocks_of, certify, claims_from_dict, recertify, templates
from postrand.certification.file_level import FileLevel
from postrand.certification.limits import Facts, _provenance_limits, _tied_by_rules, limits
from postrand.certification.series import Level, Series
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import join
from postrand.mechanism.one_member import OneMember
from postrand.privacy import ApproximateDifferentialPrivacy, Bistochastic, DifferentialPrivacy, SpontaneousRecognition
from postrand.support.exact import add_upper

DP = DifferentialPrivacy
RR2, RR3 = randomised_response(2, 1.0), randomised_response(3, 0.5)
NOISE = TransitionMatrix(np.full((2, 2), UNIT // 2))
BOOK = Codebook(tuple(Variable(name, "key", ("x", "y")) for name in "abcdef"))
NONE_SHOWN = {"ids_are_released": False, "households_are_renumbered": False}
FACTS = {"key_is_private": True, "order_is_shuffled": True, **NONE_SHOWN}


def prior(spent, name="a", law=RR2):
    return Block(name, law, provenance="dp", prior_epsilon=spent)


def test_every_entry_of_a_certificate():
    strata = Block(("b", "a"), join([RR2, RR2]), [(0, 0), (0, 1), (1, 0), (1, 1)], "public", ("b",))
    blocks = [strata, Block("c", RR2, provenance="dp", prior_epsilon=0.5, budget="dp")]
    split = Split.of([0.25, 0.75], [Block("d", RR2, provenance="public"), Block("e", RR2, provenance="public")])
    law = Mechanism(blocks, BOOK, split=split)
    found = certify(law, [Claim(DP(4.0), within=True)]).to_dict()
    one = {
        "variables": ["d"],
        "matrix_sha256": RR2.digest(),
        "epsilon": RR2.epsilon,
        "prior": "public",
        "budget": "public",
    }
    assert found["blocks"] == [
        one | {"variables": ["b", "a"], "given": ["b"], "classes": 2, "matrix_sha256": strata.matrix.digest()},
        one | {"variables": ["c"], "prior": "dp", "prior_epsilon": 0.5, "budget": "dp"},
    ]
    assert found["split"] == [{"weight": UNIT // 4, **one}, {"weight": 3 * UNIT // 4, **one, "variables": ["e"]}]
    assert (found["schema"], found["mechanism_sha256"]) == ("postrand/certificate/3", law.digest())
    assert found["codebook_sha256"] == BOOK.digest()
    level = certify(law, [Claim(DP(9.0), within=True)]).account.total
    assert found["account"] == {"blocks": [RR2.epsilon] * 2, "priors": [0.0, 0.5], "total": level}
    (claim,) = found["claims"]
    assert claim["variables"] == ["a", "c", "d", "e"]
    assert claim["within"] is True
    assert claim["figures"].keys() == {"law_level"}
    assert (claim["level"], found["facts"]) == (level, FACTS)
    assert not {"numerical", "file", "units", "series"} & found.keys()
    house = Block("a", RR2, provenance="public", unit="household")
    units = certify(Mechanism([house], units=Units("hid", 3))).to_dict()
    assert units["blocks"] == [one | {"variables": ["a"], "unit": "household"}]
    assert units["units"].keys() == {"household"}
    assert "split" not in units
    assert "within" not in units["claims"][0]
    assert recertify(law, [Claim(DP(4.0), within=True)], Facts()).to_dict() == found
    assert recertify(Mechanism([house], units=Units("hid", 3)), [DP(1.0)], Facts()).findings[0].level == RR2.epsilon
    infinite = Mechanism([Block("a", TransitionMatrix.from_array([[0.75, 0.25], [0.0, 1.0]]))])
    open_ended = certify(infinite, [ApproximateDifferentialPrivacy(1.0, 0.9)]).to_dict()
    assert (open_ended["blocks"][0]["epsilon"], open_ended["account"]["total"]) == (None, None)
    assert "codebook_sha256" not in open_ended


def test_a_certificate_shows_five_sentences_and_counts_the_others():
    for number, shown, more in ((5, 5, []), (6, 6, []), (8, 5, ["and 3 more statements"])):
        found = certify(Mechanism({"a": RR2}), [DP(1.0 + k) for k in range(number)])
        assert repr(found).splitlines() == ["Certificate:", *found.sentences[:shown], *more]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_claims_of_every_schema_are_read(version):
    data: dict[str, Any] = {
        "schema": f"postrand/certificate/{version}",
        "claims": [{"privacy": {"model": "differential", "epsilon": 1.0}, "variables": ["a", "b"]}],
        "facts": {"order_is_shuffled": False},
    }
    if version == 4:
        with pytest.raises(SpecificationError, match="unknown certificate schema; got postrand/certificate/4"):
            claims_from_dict(data)
        return
    claims, facts = claims_from_dict(data)
    assert claims == (Claim(DP(1.0), ("a", "b")),)
    assert facts == Facts(order_is_shuffled=False)
    data["claims"][0]["within"] = True
    assert claims_from_dict(data)[0][0].within is True
    assert claims_from_dict(data)[0][0] != claims[0]


def test_rare_facts_are_stated_where_they_are_so():
    assert Facts().to_dict() == FACTS
    rare = Facts(key_is_reused=True, differing_are_settled=True).to_dict()
    assert rare == FACTS | {"key_is_reused": True, "differing_are_settled": True}


# -- findings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "spent", "epsilon", "holds"),
    [
        (RR2, [0.5], 1.5, True),
        (RR2, [0.5], 1.5 - 1e-12, False),
        (RR2, [0.25, 0.25], 2.5, True),
        (RR2, [0.25, 0.25], 2.5 - 1e-12, False),
        (NOISE, [0.5], 0.5, True),
        (NOISE, [0.5], math.nextafter(0.5, 0), False),
        (RR2, [3.0], 1.0, False),
        (TransitionMatrix.identity(2), [0.5], 9.0, False),
    ],
)
def test_what_private_priors_spent_is_part_of_the_claim(law, spent, epsilon, holds):
    """The largest ε of the law is 1, or 0 of noise, and each prior's comes in addition, in exact numbers."""
    mechanism = Mechanism([prior(e, name, law) for e, name in zip(spent, "ab", strict=False)])
    if not holds:
        with pytest.raises(PrivacyError, match="does not meet differential"):
            certify(mechanism, [DP(epsilon)])
        return
    (finding,) = certify(mechanism, [DP(epsilon)]).findings
    alone = DP(9.0).check([law] * len(spent))
    assert finding.level == add_upper(alone.level, *spent)
    assert finding.figures == {"law_level": alone.level}
    (other,) = certify(mechanism, [ApproximateDifferentialPrivacy(2.0, 0.1)]).findings
    assert other.figures["priors"] == add_upper(*spent)


def test_a_claim_on_one_block_does_not_count_the_prior_of_another():
    mechanism = Mechanism([prior(0.5), Block("b", RR2)])
    (finding,) = certify(mechanism, [Claim(DP(1.0), ("b",))]).findings
    assert (finding.level, finding.figures) == (RR2.epsilon, {})


def test_the_worst_subset_of_a_split_counts():
    loose = randomised_response(2, 2.0)
    for order in ((RR2, loose), (loose, RR2)):
        split = Split.of([0.5, 0.5], [Block("b", order[0]), Block("c", order[1])])
        mechanism = Mechanism([Block("a", RR3)], split=split)
        total = add_upper(certify(mechanism).account.total)
        assert total == pytest.approx(2.5, abs=1e-12)
        (finding,) = certify(mechanism, [DP(2.5)]).findings
        assert finding.level == pytest.approx(2.5, abs=1e-12)
        with pytest.raises(PrivacyError, match=f"the subset '{'c' if order[1] is loose else 'b'}' of the split"):
            certify(mechanism, [DP(2.4)])
        assert certify(mechanism, [Claim(DP(0.5), ("a",))]).findings[0].level == RR3.epsilon
        assert certify(mechanism, [Claim(DP(2.0), ("b", "c"))]).findings[0].level == loose.epsilon
        with pytest.raises(PrivacyError, match=r"b: a claim covers part of the split.*name c too"):
            certify(mechanism, [Claim(DP(9.0), ("a", "b"))])


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (DP(2.5), "level 3, most of it in block 'a', column 0, rows 0 and 1. Next"),
        (Claim(Bistochastic(0.99), ("a",)), "most of it in block 'a', β 0.527065. Next"),
        (Bistochastic(0.1), "a, b, c: 'bistochastic' is not defined where each record shows a random subset"),
    ],
)
def test_what_fails_beside_a_split_is_named(claim, words):
    split = Split.of([0.5, 0.5], [Block("b", RR2), Block("c", RR2)])
    block = Block("a", randomised_response(2, 2.0))
    with pytest.raises(PrivacyError, match=words):
        certify(Mechanism([block], split=split), [claim])
    with pytest.raises(PrivacyError, match="released 'x', true 'x' and 'y'"):
        certify(Mechanism([block], BOOK), [DP(1.0)])


def test_a_level_of_the_file_and_a_place_in_a_series_are_stated():
    law, level = Mechanism({"a": RR2}), FileLevel(10_000, 1e-6, 0.5, {"clones": 0.75, "blanket": 0.5})
    series = Series("people", 2, "wave", "0" * 64, Level(1.0), Level(2.5))
    found = replace(certify(law), file=level, series=series)
    assert (found.to_dict()["file"], found.to_dict()["series"]) == (level.to_dict(), series.to_dict())
    claim, file, wave = found.sentences
    assert (claim, "ε <= 0.5" in file, "ε <= 2.5" in wave) == (certify(law).sentences[0], True, True)
    again = recertify(law, [DP(1.0)], Facts(), level)
    assert again.file is not None
    assert again.file.fails[0] == {"code": "no_codebook"}
    assert len(again.not_covered) == len(found.not_covered) + 1


def test_a_claim_covers_whole_blocks_that_are_there():
    pair = Block(("a", "b"), randomised_response(4, 1.0))
    mechanism = Mechanism([pair, Block("c", RR2)], split=Split.of([1.0], [Block("d", RR2)]))
    assert blocks_of(Claim(DP(1.0), ("b", "a")), mechanism) == [pair]
    assert blocks_of(Claim(DP(1.0), ("c", "d")), mechanism) == [mechanism.blocks[1]]
    assert blocks_of(Claim(DP(1.0), ("c", "b", "a")), mechanism) == list(mechanism.blocks)
    with pytest.raises(SpecificationError, match="block 'a × b': a claim covers part of a joint block"):
        blocks_of(Claim(DP(1.0), ("b", "c")), mechanism)
    with pytest.raises(SpecificationError, match="no block perturbs 'e'"):
        blocks_of(Claim(DP(1.0), ("c", "e")), mechanism)


def test_without_claims_the_whole_law_is_claimed_within_its_classes():
    whole = certify(Mechanism([Block("a", RR2), prior(0.5, "b")]))
    (claim,) = whole.claims
    assert claim == Claim(DP(whole.account.total), ("a", "b"))
    assert whole.account.total == pytest.approx(1.0 + 1.0 + 0.5)
    strata = Block("a", join([RR2, randomised_response(2, 3.0)]))
    (claim,) = certify(Mechanism([strata])).claims
    assert claim.within
    assert isinstance(claim.privacy, DifferentialPrivacy)
    assert claim.privacy.epsilon == pytest.approx(3.0)
    split = Split.of([1.0], [Block("b", TransitionMatrix.identity(2))])
    for mechanism, name in (
        (Mechanism([Block("a", RR2)], split=split), "b"),
        (Mechanism([Block("a", RR2), Block("c", TransitionMatrix.identity(2))]), "c"),
    ):
        with pytest.raises(PrivacyError, match=f"block '{name}': a matrix with zeros has no finite epsilon"):
            certify(mechanism)


def test_claims_within_classes():
    strata = Block("a", join([RR2, randomised_response(2, 3.0)]))
    assert certify(Mechanism([strata]), [Claim(DP(3.0), within=True)]).findings[0].holds
    with pytest.raises(PrivacyError, match=r"level 3, most of it in block 'a'\. Next"):
        certify(Mechanism([strata]), [Claim(DP(2.9), within=True)])
    idle = Mechanism([strata, Block("b", TransitionMatrix.identity(2))])
    with pytest.raises(PrivacyError, match="level inf, most of it in block 'b', every column"):
        certify(idle, [Claim(DP(30.0), within=True)])
    with pytest.raises(SpecificationError, match="a: 'bistochastic' is not defined within classes"):
        certify(Mechanism([strata]), [Claim(Bistochastic(0.1), within=True)])
    bound = Claim(SpontaneousRecognition(0.1, subsets=1), ("a",), within=True)
    with pytest.raises(SpecificationError, match="is not defined within classes"):
        recertify(Mechanism([strata]), [bound], Facts())
    stated = recertify(Mechanism([strata]), [replace(bound, within=False)], Facts())
    assert not stated.findings[0].recomputable
    assert stated.to_dict()["claims"][0]["recomputable"] is False


@pytest.mark.parametrize(("number", "more"), [(9, 0), (10, 0), (11, 1), (12, 2)])
def test_ten_rules_that_could_be_contradicted_are_named(number, more):
    book = Codebook(
        (Variable("a", "key", tuple("abcdefghijklm")), Variable("b", "key", ("x", "y"))),
        tuple(Rule({"a": "abcdefghijklm"[k], "b": "x"}) for k in range(number)),
    )
    mechanism = Mechanism([Block("a", randomised_response(13, 1.0)), Block("b", RR2)], book)
    with pytest.raises(PrivacyError) as refused:
        certify(mechanism)
    assert str(refused.value).count("a combination that cannot occur could be released") == min(number, 10)
    assert (f"... and {more} more rules" in str(refused.value)) == bool(more)
    assert "0 more rules" not in str(refused.value)


def test_wordings_are_texts_even_where_they_have_braces():
    assert module._literal("a {b}").format() == "a {b}"
    assert templates()["approximate"] == ApproximateDifferentialPrivacy.wording
    assert all("{" in text for text in templates().values())
    assert certify(Mechanism({"a": RR2})).claim_texts


# -- limits ------------------------------------------------------------------------------------------------------------


def codes(mechanism, facts=None):
    return [
        (e["code"], *(e[k] for k in ("variables", "blocks", "block") if k in e))
        for e in certify(mechanism, (), facts).limits
    ]


def test_a_member_that_is_chosen_is_no_value_that_was_settled():
    cells = [(k, s) for k in range(2) for s in range(2)]
    law = OneMember.of(np.array(cells, dtype=np.int32), 0, 1, 1, (1, 2)).law(1.0)
    one = Block(("head", "size"), law, cells, "public", ("size",), unit="household", one=1)
    book = Codebook(
        (Variable("head", "key", ("no", "yes")), Variable("size", "other", (1, 2), type="int64"), *BOOK.variables)
    )
    shared = Block("a", RR2, provenance="public", unit="household")
    mechanism = Mechanism([one, shared, Block("b", RR2, provenance="public")], book, units=Units("hid", 2))
    found = codes(mechanism, Facts(differing_are_settled=True))
    assert ("settled_household", ["a"]) in found
    assert not any(code == "settled_household" for code, *_ in codes(mechanism))
    assert [entry for entry in found if entry[0].startswith("shared")] == [("shared_household", ["head", "a"])]
    alone = Mechanism([one, Block("b", RR2, provenance="public")], book, units=Units("hid", 2))
    assert not any("settled" in code for code, *_ in codes(alone, Facts(differing_are_settled=True)))
    member = Split.of([1.0], [Block("c", RR2, provenance="public", unit="household")])
    found = codes(Mechanism([shared], book, split=member, units=Units("hid", 2)))
    assert ("one_member", ["c"]) in found
    own = Split.of([1.0], [Block("c", RR2, provenance="public")])
    assert not any(
        code == "one_member" for code, *_ in codes(Mechanism([shared], book, split=own, units=Units("hid", 2)))
    )


def test_origins_are_told_by_block_also_of_a_split():
    blocks = [
        Block("a", RR2, provenance="confidential", budget="confidential"),
        Block("b", RR2, provenance="unstated", budget="unstated"),
        Block("c", RR2, provenance="dp", budget="dp", prior_epsilon=0.5),
        Block("d", RR2, provenance="dp", prior_epsilon=0.0),
        Block("e", RR2, provenance="public"),
    ]
    told = [entry for entry in codes(Mechanism(blocks)) if isinstance(entry[-1][0], list)]
    assert told == [
        ("confidential_matrix", [["a"]]), ("unstated_matrix", [["b"]]), ("dp_budget", [["c"]]),
        ("confidential_budget", [["a"]]), ("unstated_budget", [["b"]]), ("unstated_spending", [["d"]]),
    ]  # fmt: skip
    assert [code for code, *_ in codes(Mechanism(blocks[4:]))] == ["covers", "persons"]
    seeded = codes(Mechanism(blocks[4:]), Facts(False, False, True))
    assert [code for code, *_ in seeded] == ["not_private", "covers", "original_order", "ids", "persons"]


def test_household_numbers_are_told_as_new_or_as_they_are():
    book = Codebook((Variable("hid", "household", type="int64"), Variable("a", "key", ("x", "y"), missing="keep"),
                     Variable("w", "weight", type="double"), Variable("b", "other", ("x", "y"), missing="keep"),
                     Variable("id", "record_key", type="int64"), Variable("gone", "drop")))  # fmt: skip
    law = Mechanism([Block("a", RR2, provenance="public")], book)
    told = {entry[0]: entry[1:] for entry in codes(law)}
    assert told["unchanged"] == (["hid", "w", "b"],)
    assert told["missing_shown"] == (["a"],)
    assert "fresh_numbers" not in told
    fresh = {entry[0]: entry[1:] for entry in codes(law, Facts(households_are_renumbered=True))}
    assert (fresh["unchanged"], fresh["fresh_numbers"]) == ((["w", "b"],), (["hid"],))


def test_limits_of_ranks_of_claims_on_the_file_and_of_recodes():
    ranked = SimpleNamespace(variable="x", limit={"code": "ranked"})
    recodes = [SimpleNamespace(variable=name, is_confidential=secret) for name, secret in (("p", True), ("q", False))]
    about = {"variables": ("a", "b"), "numerical": (ranked,), "designs": (), "units": None}
    law = SimpleNamespace(**about, codebook=None)
    file = SpontaneousRecognition(0.1, subsets=1)
    claims = [Claim(file, ("a",)), Claim(DP(1.0), ("a",)), Claim(file, ("a",))]
    told = [
        {"code": "covers", "variables": ["a"]},
        {"code": "unclaimed", "variables": ["b"]},
        {"code": "no_epsilon", "variables": ["x"]},
        {"code": "ranked"},
        {"code": "recognition"},
        {"code": "persons"},
    ]
    assert list(limits(law, Facts(), claims)) == told
    book = SimpleNamespace(**about, codebook=SimpleNamespace(recodes=recodes))
    assert list(_provenance_limits(book)) == [{"code": "confidential_recodes", "variables": ["p"]}]


def test_a_block_is_tied_by_a_rule_that_reaches_beyond_it():
    book = Codebook(
        (*(Variable(name, "key", ("x", "y")) for name in "ab"), Variable("c", "key", ("x", "y"))),
        (Rule({"a": "x", "b": "x"}), Rule({"b": "y", "c": "x"}), Rule({"c": "y", "a": "y"})),
    )
    cases = [(("a",), book.rules, True), (("a", "b"), book.rules[:1], False), (("a", "b"), book.rules[:2], True)]
    cases += [(("c",), book.rules[:1], False), (("a", "b", "c"), book.rules, False), (("a",), (), False)]
    for names, rules, tied in cases:
        assert _tied_by_rules(SimpleNamespace(variables=names), replace(book, rules=rules)) == tied
