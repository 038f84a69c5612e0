"""What records and units spend, and which rules a release can contradict: against enumeration on small cases."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from postrand.certification import account
from postrand.certification.account import mechanism_account, record_account, spent_upper, worst_laws
from postrand.certification.reachable_rules import reachable
from postrand.certification.units import parts, unit_epsilon, unit_levels
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.errors import PrivacyError
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import join
from postrand.privacy import ApproximateDifferentialPrivacy, accounting
from postrand.privacy.accounting import PrivacyLoss, compose
from postrand.privacy.levels import delta
from postrand.support.exact import log_upper
from postrand.support.guesses import guesses_in_words

# -- strata ---------------------------------------------------------------------------------------------------------

SIZES = {"r": 2, "s": 3, "x": 2, "y": 2, "z": 2}
NEVER = TransitionMatrix.from_array([[0.75, 0.25], [0.0, 1.0]])


def stratified(given, name, laws):
    """A block with one law for each combination of what is given; None where no record is."""
    every = itertools.product(*(range(SIZES[n]) for n in given))
    held = [(codes, law) for codes, law in zip(every, laws, strict=True) if law is not None]
    cells = [(*codes, value) for codes, _ in held for value in range(2)]
    return Block((*given, name), join([law for _, law in held]), cells, "public", given)


def largest(blocks, table):
    """The largest product of ratios over the strata, by their names; inf where some law of the stratum has none."""
    found = []
    for r, s in itertools.product(range(2), range(3)):
        at, total, infinite = {"r": r, "s": s}, Fraction(1), False
        for block in blocks:
            law = table[block.variables[-1]][tuple(at[n] for n in block.given)]
            ratio = Fraction(1) if law is None else law.ratio
            infinite = infinite or ratio is None
            total *= ratio or 1
        found.append(math.inf if infinite else total)
    return max(found)


@pytest.mark.parametrize("seed", range(12))
def test_a_record_spends_the_largest_product_of_the_laws_of_one_stratum(seed, monkeypatch):
    """Strata without records, laws without an ε, blocks that share what they read; whole, and each on its own."""
    rng = np.random.default_rng(seed)
    kinds = (("r",), "x"), (("r", "s"), "y"), (("s",), "z")
    table, blocks = {}, []
    laws: list[TransitionMatrix | None]
    for given, name in kinds:
        keys = list(itertools.product(*(range(SIZES[n]) for n in given)))
        laws = [randomised_response(2, float(rng.integers(1, 9)) / 4) for _ in keys]
        if len(keys) > 2:
            laws[int(rng.integers(len(keys)))] = None
        if seed % 3 == 0 and name == "y":
            place = int(rng.integers(len(keys)))
            laws[place] = NEVER
        table[name] = dict(zip(keys, laws, strict=True))
        blocks.append(stratified(given, name, laws))
    for chosen in (blocks, blocks[:2], blocks[1:], blocks[::2], blocks[:1]):
        wanted = largest(chosen, table)
        has_none = any(block.epsilon == math.inf for block in chosen)
        assert spent_upper(chosen) == (math.inf if has_none or wanted == math.inf else log_upper(wanted))
        ratios = [law.ratio for law in worst_laws(chosen)]
        assert None in ratios if wanted == math.inf else math.prod(r for r in ratios if r) == wanted
    own = [max((law.ratio for law in table[b.variables[-1]].values() if law), key=lambda r: r or 99) for b in blocks]
    monkeypatch.setattr(account, "MAX_STRATA", 5)  # there are six combinations of r and s
    if None not in own:
        assert spent_upper(blocks) == log_upper(math.prod(own))
    assert math.isfinite(spent_upper(blocks)) == (None not in own)
    assert (None in [law.ratio for law in worst_laws(blocks)]) == (None in own)
    monkeypatch.setattr(account, "MAX_STRATA", 6)
    assert record_account(blocks).total == spent_upper(blocks)
    if None not in own:
        assert spent_upper(blocks) == log_upper(largest(blocks, table))


def test_a_variable_with_classes_that_another_block_reads_is_one_stratum_of_both():
    """ε = 1 and 3 in the classes of a, and 3 and 1 in the strata of b: 4 in either, and not 6."""
    one, three = randomised_response(2, 1.0), randomised_response(2, 3.0)
    own = Block("a", join([one, three]))
    cells = tuple(itertools.product(range(4), range(2)))
    read = Block(("a", "b"), join([three, three, one, one]), cells, given=("a",))
    assert spent_upper([own, read]) == log_upper(Fraction(one.ratio or 0) * (three.ratio or 0))
    assert spent_upper([own, Block("b", three)]) == log_upper(Fraction(three.ratio or 0) ** 2)
    pair = Block(("a", "c"), randomised_response(8, 2.0))  # reads no stratum: spends the same in each
    read = Block(("a", "b"), join([one, three, one, one]), cells, given=("a",))
    assert spent_upper([pair, read]) == log_upper(Fraction(pair.matrix.ratio or 0) * (three.ratio or 0))


def test_a_split_spends_its_worst_subset_and_every_prior_once():
    spent = {"provenance": "dp", "prior_epsilon": 0.25}
    first = Block("a", randomised_response(2, 1.0), **spent)
    subsets = [Block(name, randomised_response(3, e), **spent) for name, e in (("b", 0.5), ("c", 2.0))]
    found = mechanism_account(Mechanism([first], split=Split.of([0.5, 0.5], subsets)))
    exact = Fraction(first.matrix.ratio or 0) * (subsets[1].matrix.ratio or 0)
    assert found.blocks == (first.epsilon,)
    assert found.priors == (0.25,)
    assert found.split == tuple(block.epsilon for block in subsets)
    assert log_upper(exact) + 0.5 <= found.total <= log_upper(exact) + 0.5 + 1e-12
    assert mechanism_account(Mechanism([first])).split == ()
    assert spent_upper([]) == 0.0
    assert spent_upper([first, Block("d", TransitionMatrix.identity(2))]) == math.inf


# -- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", [False, True])
def test_units_spend_what_they_share_once_and_the_rest_for_each_record(member):
    """H + P + m (R + Q) and H + k (P + R + Q), with a split that each record shows, or one member of a household."""
    spent = {"provenance": "dp", "prior_epsilon": 0.125}
    kinds = {"household": 1.0, "person": 0.5, "record": 0.25}
    blocks = [Block(unit[0], randomised_response(2, e), unit=unit, **spent) for unit, e in kinds.items()]
    unit = "household" if member else "record"
    subsets = [Block(n, randomised_response(2, e), unit=unit, **spent) for n, e in (("x", 2.0), ("y", 3.0))]
    mechanism = Mechanism(blocks, split=Split.of([0.25, 0.75], subsets), units=Units("hid", 5, "pid", 3))
    h, p, r = kinds.values()
    once, each = (3.0, 0.0) if member else (0.0, 3.0)
    q = 4 * 0.125
    assert parts(mechanism, "household") == pytest.approx((h + once, p + r + each + q), abs=1e-12)
    assert parts(mechanism, "person") == pytest.approx((h + p + once, r + each + q), abs=1e-12)
    found = unit_levels(mechanism)
    for unit, most, start, more in (
        ("household", 5, h + once, p + r + each + q), ("person", 3, h + p + once, r + each + q),
    ):  # fmt: skip
        told = found[unit]
        numbers = [k for k in (1, 2, 4) if k < most] + [most]
        assert [level["records"] for level in told["levels"]] == numbers
        for level in told["levels"]:
            assert level["epsilon"] == unit_epsilon(mechanism, unit, level["records"])
            assert level["epsilon"] == pytest.approx(start + level["records"] * more, abs=1e-12)
        assert told["column"] == {"household": "hid", "person": "pid"}[unit]
        assert ("member" in told) == (member and unit == "household")
        assert "within" not in told
    if member:
        assert found["household"]["member"] == ["x", "y"]
    infinite = Mechanism([blocks[0], Block("n", TransitionMatrix.identity(2))], units=Units("hid", 4))
    told = unit_levels(infinite)["household"]
    assert (told["infinite"], "levels" in told, told["within"]) == ([["n"]], False, True)
    four = unit_levels(Mechanism(blocks[:1], units=Units("hid", 4)))["household"]["levels"]
    assert [level["records"] for level in four] == [1, 2, 4]
    assert unit_levels(Mechanism(blocks[2:])) == {}


# -- rules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_rules_are_listed_where_a_feasible_record_can_be_released_against_them(seed):
    """Every true record that the rules on its variables allow, and every release of positive probability."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2}

    def rule():
        names = rng.choice(list(sizes), rng.integers(2, 4), replace=False)
        return {str(n): [int(v) for v in rng.choice(sizes[n], rng.integers(1, sizes[n]), replace=False)] for n in names}

    forbidden = [rule() for _ in range(4)]
    rules = tuple(Rule({n: list(map(str, codes)) for n, codes in one.items()}) for one in forbidden)
    book = Codebook(
        tuple(Variable(n, "key", tuple(map(str, range(k)))) for n, k in sizes.items()), tuple(dict.fromkeys(rules))
    )

    def law(size):
        made = rng.dirichlet(np.ones(size), size) * (rng.random((size, size)) < 0.6) + np.eye(size) * 0.25
        return TransitionMatrix.from_array(made / made.sum(axis=1, keepdims=True))

    given = ("c", "b") if seed % 2 else ("b",)
    if len(given) == 2:
        cells = tuple(itertools.product(range(2), range(3)))
        second = Block(given, join([law(3), law(3)]), cells, given=("c",))
    else:
        second = Block("b", law(3))
    blocks = [Block("a", law(2)), second] if seed % 3 else [Block(("a", "b"), law(6))]
    wanted = []
    for one, its in zip(forbidden, rules, strict=True):
        used = [b for b in blocks if set(b.perturbed) & one.keys()]
        names = list(dict.fromkeys([*(n for b in used for n in b.variables), *one]))
        own = [other for other in forbidden if other.keys() <= set(names)]
        for codes in itertools.product(*(range(sizes[n]) for n in names)):
            true = dict(zip(names, codes, strict=True))
            if any(all(true[n] in values for n, values in other.items()) for other in own):
                continue
            options = []
            for block in used:
                shape = [sizes[n] for n in block.variables]
                held = list(block.cells or itertools.product(*map(range, shape)))
                row = block.matrix.weights[held.index(tuple(true[n] for n in block.variables))]
                options.append([dict(zip(block.variables, held[j], strict=True)) for j in np.flatnonzero(row)])
            for choice in itertools.product(*options):
                shown = true | {n: cell[n] for b, cell in zip(used, choice, strict=True) for n in b.perturbed}
                if all(shown[n] in values for n, values in one.items()):
                    wanted.append(its)
    assert reachable(Mechanism(blocks, book)) == [one for one in book.rules if one in wanted]


def test_a_rule_is_tried_with_every_subset_that_shows_its_variables():
    """The first changes nothing, and the second, which shows more, leads to what cannot be; so does neither alone."""
    book = Codebook(tuple(Variable(n, "key", ("x", "y")) for n in "abc"), (Rule({"a": "x", "b": "x"}),))
    kept, drawn = Block(("a", "b"), TransitionMatrix.identity(4)), Block(("a", "b", "c"), randomised_response(8, 1.0))
    for subsets, wanted in (((kept, drawn), True), ((drawn, kept), True), ((kept, Block("c", NEVER)), False)):
        found = reachable(Mechanism([], book, split=Split.of([0.5, 0.5], subsets)))
        assert found == [*book.rules] * wanted


# -- composition ----------------------------------------------------------------------------------------------------


class Held:
    """In place of the library's distribution: which pairs were composed, and how often."""

    def __init__(self, pairs):
        self.pairs = pairs

    def compose(self, other):
        return Held(self.pairs + other.pairs)

    def self_compose(self, number):
        return Held(Counter({pair: n * number for pair, n in self.pairs.items()}))

    def get_epsilon_for_delta(self, delta):
        return sum(self.pairs.values()) - delta

    def get_delta_for_epsilon(self, epsilon):
        return min(n for n in self.pairs.values()) - epsilon


def pairs_of(law):
    """Every ordered pair of different rows, as how many released values have each two weights."""
    rows = [tuple(row) for row in law.weights.tolist()]
    every = [tuple(sorted(Counter(zip(a, b, strict=True)).items())) for a in rows for b in rows if a != b]
    return set(every) or {(((UNIT, UNIT), 1),)}


def test_every_choice_of_pairs_is_composed(monkeypatch):
    alike = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.25, 0.375, 0.375], [0.5, 0.25, 0.25]])
    noise = TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]])
    monkeypatch.setattr(accounting, "_distribution", lambda pair, interval: Held(Counter({pair: 1})))
    for laws, times in (([alike], 3), ([alike, noise, alike], 1), ([NEVER, alike], 2), ([noise], 1)):
        counts = Counter([law.digest() for law in laws])
        by_digest = {law.digest(): law for law in laws}
        ways = [
            itertools.combinations_with_replacement(sorted(pairs_of(by_digest[d])), n * times)
            for d, n in counts.items()
        ]
        wanted = [Counter(itertools.chain(*choice)) for choice in itertools.product(*ways)]
        loss = compose(laws, times)
        assert sorted(map(repr, (sorted(d.pairs.items()) for d in loss.distributions))) == sorted(
            map(repr, (sorted(w.items()) for w in wanted))
        )
        assert loss.epsilon_limit == pytest.approx(times * sum(law.epsilon for law in laws))
    number = len(pairs_of(alike)) * (len(pairs_of(alike)) + 1) // 2
    for most in (number - 1, number):
        monkeypatch.setattr(accounting, "MAX_COMBINATIONS", most)
        if most < number:
            with pytest.raises(PrivacyError, match="too many combinations of rows"):
                compose([alike, alike])
        else:
            assert len(compose([alike, alike]).distributions) == number
    monkeypatch.setattr(accounting, "MAX_TIMES", 4)
    for interval in (1e-7, 1 - 2**-53):
        assert compose(noise, 4, interval).distributions[0].pairs.total() == 4
    for wrong in (9e-8, 1.0, math.nan, -1.0):
        with pytest.raises(PrivacyError, match="the interval is too small or too large"):
            compose(noise, 1, wrong)
    wrong_times: list[Any] = [([], 1), ([noise], 0), ([noise], 5), ([noise], 1.5)]
    for laws, times in wrong_times:
        with pytest.raises(PrivacyError, match="nothing to compose"):
            compose(laws, times)


def test_the_worst_choice_counts_up_to_the_sum_of_the_levels():
    one, two = Held(Counter({"p": 1})), Held(Counter({"p": 1, "q": 2}))
    loss = PrivacyLoss((one, two), 2.5)
    assert [loss.epsilon(d) for d in (0.25, 0.75)] == [2.5, 2.25]
    assert [loss.delta(e) for e in (0.0, 0.25, 2.4, 2.5, 9.0)] == [1.0, 0.75, -1.4, 0.0, 0.0]
    assert PrivacyLoss((Held(Counter({"p": 9})),), math.inf).delta(0.5) == 1.0


def test_the_distribution_of_a_pair_has_its_probabilities():
    """Rounding up a loss only adds to δ: the library's figure is that of the exact sum, or a little more."""
    law = TransitionMatrix.from_array(
        [[0.5, 0.25, 0.25, 0.0], [0.125, 0.125, 0.25, 0.5], [0.25] * 4, [0.25, 0.0, 0.25, 0.5]]
    )
    alike = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.25, 0.375, 0.375], [0.5, 0.25, 0.25]])
    assert compose(alike, 1, 1e-3).delta(0.1) == pytest.approx(delta(alike, 0.1), abs=1e-3)
    for epsilon in (0.0, 0.3, 0.69, 1.5):
        found = compose(law, 1, 1e-3).delta(epsilon)
        assert 0 <= found - delta(law, epsilon) < 1e-3


# -- (ε, δ) ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, "x"])
def test_limits_of_epsilon_and_delta(epsilon):
    with pytest.raises(PrivacyError, match="epsilon is not a positive number"):
        ApproximateDifferentialPrivacy(epsilon, 0.5)
    for wrong in (0.0, 1.0, 1.5, -0.5, math.nan):
        with pytest.raises(PrivacyError, match="delta is not a probability"):
            ApproximateDifferentialPrivacy(1.0, wrong)
        with pytest.raises(PrivacyError, match=r"epsilon(.|\n)*delta"):
            ApproximateDifferentialPrivacy(epsilon, wrong)
    assert ApproximateDifferentialPrivacy(1.0, 0.5).promise(3) == guesses_in_words(1.0, 3, 0.5)
    held = ApproximateDifferentialPrivacy(np.float64(5e-324), np.float64(1 - 2**-53))
    assert (type(held.epsilon), type(held.delta)) == (float, float)


def test_the_ends_of_randomised_response_are_those_of_the_claim():
    """At the upper end two rows differ by ``e^ε`` times and δ; at the lower one the truth is the least likely."""
    for size, d in ((2, 1e-3), (4, 0.25), (9, 0.25)):
        privacy, grown = ApproximateDifferentialPrivacy(1.0, d), math.e
        low, high = privacy.stays(size)
        off = (1 - high) / (size - 1)
        assert high - grown * off == pytest.approx(d, abs=1e-12)
        if low:
            assert (1 - low) / (size - 1) - grown * low == pytest.approx(d, abs=1e-12)
        else:
            assert d * (size - 1) >= 1
