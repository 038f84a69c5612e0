"""A claim on one record, and what it means for the members of a household: against every released pair."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from postrand.certification.certificate import Claim
from postrand.certification.plain_words import members_claims, plain_claims, record_epsilon
from postrand.codebook import Codebook, Variable
from postrand.mechanism import Mechanism, Units
from postrand.mechanism.matrix import randomised_response
from postrand.privacy import DifferentialPrivacy
from postrand.privacy.words import members_in_words
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn
from postrand.ranks.values import ValueLevel


@pytest.mark.parametrize("members", [2, 4])
def test_members_add_up_as_the_worst_released_household_does(members):
    """The largest ratio over all released households of two true values that every member shares is e^(k ε)."""
    matrix = randomised_response(3, 1.0).array
    ratios = [
        math.prod(matrix[0, y] for y in released) / math.prod(matrix[1, y] for y in released)
        for released in itertools.product(range(3), repeat=members)
    ]
    worst = math.log(max(ratios))
    assert worst == pytest.approx(members, abs=1e-6)
    text = members_in_words(1.0, "hid")
    assert f"{members} members have epsilon = {worst:.4g}" in text
    right = math.ceil(np.exp(worst) / (1 + np.exp(worst)) * 1000) / 10  # of two values, rounded up
    assert f"{right:.1f}" in text or f"{math.ceil(right)}" in text


def test_the_largest_household_is_named_and_larger_ones_are_not():
    text = members_in_words(1.0, "hid", 12)
    assert [f"{k} members have epsilon = {k} (at most" in text for k in (2, 3, 4, 12)] == [True, False, True, True]
    assert "an upper bound" in text
    assert "worth the name" not in members_in_words(1.0, "hid", 4)
    assert members_in_words(3.0, "hid", 6).endswith("an upper bound; 100 right is no protection worth the name.")
    assert "4 members" not in members_in_words(1.0, "hid", 2)
    assert "k members have k times epsilon" in members_in_words(1.0, "hid")


def test_without_households_the_claim_is_said_to_be_of_one_record():
    assert members_in_words(2.0, None).startswith("These claims are for one record. ")
    assert "does not hold for all members" in members_in_words(math.inf, "hid")


@pytest.mark.parametrize(("form", "word"), [("permute", "exchanged at random among"), ("average", "the average of")])
def test_a_rank_law_is_told_without_bits(form, word):
    column = RankedColumn("income", RankBlocks(10), form, 4580, ValueLevel(0.41, 1.5 if form == "permute" else None))
    assert f"{word} at least 10 neighbours in rank" in column.in_words
    assert "41%" in column.in_words
    assert "bit" not in column.in_words


def test_what_members_have_together_stands_beside_every_claim_on_a_record():
    book = Codebook((Variable("sex", categories=("f", "m"), role="key"), Variable("hid", role="household")))
    law = Mechanism({"sex": randomised_response(2, 4.0)}, book)
    claims = [Claim(DifferentialPrivacy(4.0))]
    assert plain_claims(claims, law, largest_household=12)[-1] == members_in_words(record_epsilon(law), "hid", 12)
    assert "12 members have epsilon = 48" in plain_claims(claims, law, largest_household=12)[-1]
    of_household = dataclasses.replace(law, units=Units(household="hid", largest_household=12))
    assert not any("its members add up" in text for text in plain_claims(claims, of_household))
    assert members_claims(Codebook(book.variables[:1]), None, 4.0) == ()
