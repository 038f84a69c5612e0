"""The informed attacker, persons and households against brute force and simulated attacks whose truth is known."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from postrand.codebook import Codebook, Variable
from postrand.errors import UsageError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.risk.attack import link
from postrand.risk.cells import KeyCodes, table
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import WORK, Matches, Spread, informed, knowledges
from postrand.risk.law import KeyLaw, release
from postrand.risk.split_law import SplitLaw
from postrand.risk.weights import household_risk, individual_risk, risk_after, whole_household_risk
from postrand.support.measure_names import LARGEST, LEARNS, LINKED, OF_TWO, learns
from postrand.workflow.dossier_risk import exposure_rows

NAMES, SHAPE = tuple("abcd"), (6, 5, 4, 4)


def people(size, seed):
    """Draw persons whose keys depend on each other: three classes, each with laws of its own."""
    rng = np.random.default_rng(seed)
    member = rng.choice(3, size, p=[0.6, 0.3, 0.1])
    laws = [rng.dirichlet(np.full(s, 0.25), size=3) for s in SHAPE]
    return KeyCodes(
        NAMES, SHAPE, tuple((rng.random((size, 1)) > np.cumsum(p, 1)[member, :-1]).sum(axis=1) for p in laws)
    )


def mechanism(epsilon):
    return Mechanism([Block((n,), randomised_response(s, epsilon)) for n, s in zip(NAMES, SHAPE, strict=True)])


def law_of(epsilon):
    return KeyLaw.of(mechanism(epsilon), NAMES, SHAPE)


def claims_of_margins(keys, out, law):
    """Return the mean claim of an attacker who takes the other records' keys for independent: a mutant."""
    seen, types = table(out), table(keys)
    weight = np.ones((types.counts.size, seen.counts.size))
    for j, size in enumerate(SHAPE):
        share = np.bincount(out.codes[j], minlength=size) / out.records
        weight *= law.matrices[j][types.codes[:, j]][:, seen.codes[:, j]] / share[seen.codes[:, j]]
    return float((types.counts * weight.max(axis=1) / (weight @ seen.counts)).sum() / keys.records)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_claims_of_the_attacker_who_knows_the_matrix_are_calibrated(epsilon):
    """20 releases of 1,500 persons, all targets: the mean claim is the rate of correct matches.

    Within 4.9 standard errors of the rate (alpha 1e-6 if calibrated) and 4% for the attacker's estimated law. What an
    attacker claims who takes the keys for independent is rejected at a level of 2 a key, where it matters most.
    """
    keys, law = people(1500, 1), law_of(epsilon)
    files = [release(law, keys, seed) for seed in range(20)]
    found = [link(keys, out, law) for out in files]
    rate, claimed = np.mean([f.rate for f in found]), np.mean([f.claimed_rate for f in found])
    error = np.std([f.rate for f in found], ddof=1) / np.sqrt(20)
    assert abs(rate - claimed) < 4.9 * error + 0.04 * rate
    mutant = np.mean([claims_of_margins(keys, out, law) for out in files])
    assert epsilon != 2.0 or mutant - rate > 4.9 * error + 0.04 * rate


def test_before_perturbation_by_brute_force():
    keys = people(60, 2)
    rows = list(zip(*(c.tolist() for c in keys.codes), strict=True))
    share = np.array([1 / rows.count(row) for row in rows])
    household = np.arange(60) // 3
    found = informed(keys, household=household)
    assert found.anyone.expected == pytest.approx(len(set(rows)))
    assert found.anyone.claimed == found.anyone.rate
    assert found.unique is not None
    assert found.unique.expected == sum(rows.count(row) == 1 for row in rows)
    assert found.individual == Spread.of(share)
    parts = share.reshape(20, 3)
    assert found.some_member is not None
    assert found.whole is not None
    assert found.some_member.mean == pytest.approx((1 - (1 - parts).prod(axis=1)).mean())
    assert found.some_member.above == pytest.approx(((1 - (1 - parts).prod(axis=1)) > 0.2).mean())
    assert found.whole.largest == pytest.approx(parts.prod(axis=1).max())
    nobody = informed(KeyCodes(("a",), (1,), (np.zeros(4, dtype=int),)))
    assert (nobody.unique, nobody.some_member, nobody.anyone.rate) == (None, None, 0.25)


@pytest.mark.statistical
def test_after_perturbation_against_other_releases(monkeypatch):
    """Correct matches of 60 further releases lie in the prediction interval; households are found as often as said.

    The interval holds 95% of releases at least: fewer than 48 of 60 has a probability below 1e-5.
    """
    keys, law = people(600, 3), law_of(2.5)
    household = np.arange(600) // 3
    found = informed(keys, law, household=household)
    attacks = [link(keys, release(law, keys, 1000 + seed), law) for seed in range(60)]
    alone = (table(keys).counts == 1)[table(keys).record_cell]
    right, unique = np.array([(a.correct.sum(), a.correct[alone].sum()) for a in attacks]).T
    for measured, matches in ((right, found.anyone), (unique, found.unique)):
        assert matches is not None
        low, high = matches.interval(matches.persons)
        assert ((measured >= np.floor(low)) & (measured <= high)).sum() >= 48
        error = measured.std() * np.sqrt(1 / 60 + 1 / found.releases)
        assert abs(measured.mean() - matches.expected) < 4.9 * error
    assert found.some_member is not None
    some = np.array([1 - (1 - a.correct.reshape(200, 3)).prod(axis=1) for a in attacks]).mean(axis=1)
    assert abs(some.mean() - found.some_member.mean) < 4.9 * some.std() * np.sqrt(1 / 60 + 1 / found.releases)
    monkeypatch.setattr("postrand.risk.informed.DRAWN", 2399)  # a larger file: fewer releases, all of them targets
    fewer = informed(keys, law, household=household)
    assert (fewer.releases, fewer.anyone.links) == (3, 1800)
    low, high = fewer.anyone.interval(600)
    assert ((right >= low) & (right <= high)).sum() >= 48
    assert high - low > np.subtract(*found.anyone.interval(600)[::-1])
    monkeypatch.setattr("postrand.risk.informed.WORK", 1000)  # a large file: targets are drawn
    monkeypatch.setattr("postrand.risk.informed.FEWEST_TARGETS", 200)
    few = informed(keys, law, household=household)
    assert few.releases == 1
    assert few.anyone.links == 201  # whole households
    low, high = few.anyone.interval(600)
    assert low <= right.mean() <= high
    assert high - low > 1.5 * np.subtract(*found.anyone.interval(600)[::-1])


def test_prediction_intervals():
    exact = Matches(100, 0.2, 0.2)
    assert exact.interval(100) == tuple(stats.binom.interval(0.95, 100, 0.2))
    assert exact.per_thousand == 200
    drawn = Matches(100, 0.2, 0.2, 50)
    law = stats.betabinom(100, 10.5, 40.5)
    low, high = drawn.interval(100)
    assert law.cdf(high) - law.cdf(low - 1) >= 0.95
    assert law.cdf(high - 1) - law.cdf(low - 1) < 0.975
    assert (low, high) != exact.interval(100)


@pytest.mark.parametrize("targets", [1, 7, 1000, 953_076])
@pytest.mark.parametrize(("rate", "links"), [(0.0, 400), (0.0003, 400), (0.2, 41), (0.97, 4_765_380), (1.0, 50)])
def test_prediction_intervals_are_the_quantiles_of_their_laws(targets, rate, links):
    """The quantiles that scipy finds by its own routes."""
    exact = Matches(targets, rate, rate).interval(targets)
    assert exact == tuple(stats.binom.ppf([0.025, 0.975], targets, rate))
    right = rate * links
    law = stats.betabinom(targets, right + 0.5, links - right + 0.5)
    found = Matches(targets, rate, rate, links).interval(targets)
    if targets > 1000:  # its sums lose digits there: the quantile may be one beside it
        cdf = law.cdf([found[0] - 2, found[0] + 1, found[1] - 2, found[1] + 1])
        assert ((cdf <= [0.025, 1, 0.975, 1]) & (cdf >= [0, 0.025, 0, 0.975])).all()
    else:
        assert found == tuple(law.ppf([0.025, 0.975]))


@pytest.mark.statistical
def test_the_register_attacker_after_perturbation_by_brute_force():
    """Draw populations given the file, release it, link by equal keys to a register: alpha 1e-6 for the sums.

    Given f and weights, F − f is negative binomial. The attacker picks one of the F units of the register that have the
    keys of the released record: nobody is found where the keys changed.
    """
    rng = np.random.default_rng(4)
    keys, law = people(90, 5), law_of(3.0)
    cells = table(keys)
    weights, household = rng.uniform(2, 9, 90), np.arange(90) // 2
    chance = cells.counts / np.bincount(cells.record_cell, weights=weights)
    draws = 4000
    population = cells.counts + rng.negative_binomial(cells.counts, chance, (draws, cells.counts.size))
    stayed = np.ones((draws, 90), dtype=bool)
    for j, codes in enumerate(keys.codes):
        stayed &= rng.random((draws, 90)) < law.matrices[j][codes, codes]
    hit = stayed & (rng.random((draws, 90)) < 1 / population[:, cells.record_cell])
    risk = risk_after(individual_risk(cells, weights), law.diagonal(cells.codes)[cells.record_cell])
    assert abs(hit.sum(axis=1).mean() - risk.sum()) < 4.9 * hit.sum(axis=1).std() / np.sqrt(draws)
    error = np.sqrt(risk * (1 - risk) / draws)
    assert (np.abs(hit.mean(axis=0) - risk) < 5.5 * error + 1e-9).all()
    pairs = np.asarray(hit.reshape(draws, 45, 2))
    apart = cells.record_cell[::2] != cells.record_cell[1::2]  # members of one cell share its F
    some, whole = household_risk(risk, household)[::2], whole_household_risk(risk, household)[::2]
    for measured, said in ((pairs.max(axis=2), some), (pairs.min(axis=2), whole)):
        total = measured[:, apart].sum(axis=1)
        assert abs(total.mean() - said[apart].sum()) < 4.9 * total.std() / np.sqrt(draws)
    assert whole_household_risk(np.array([0.0, 0.5]), np.array([1, 1])).tolist() == [0.0, 0.0]


def test_files_are_read_by_role_and_say_what_is_missing():
    book = Codebook(
        (
            Variable("sex", role="key", categories=("F", "M")),
            Variable("w", role="weight", type="double"),
            Variable("h", role="household", type="int64"),
        )
    )
    frame = pa.table({"sex": ["F", "M", "M", "F"], "w": [4.0, 5.0, 5.0, 4.0], "h": [1, 1, None, None]})
    truth = TrueFile.read(frame, book)
    assert truth is not None
    assert truth.household is not None
    assert len(np.unique(truth.household)) == 3  # records without a number are households of their own
    law = Mechanism({"sex": randomised_response(2, epsilon=1.0)}, book)
    after = truth.exposure(law)
    before = truth.exposure()
    assert before.register is not None
    assert after.register is not None
    assert after.register.mean == pytest.approx(before.register.mean * law.blocks[0].matrix.array[0, 0])
    shares = TrueFile.read(frame, book, 0.25)
    assert shares is not None
    assert shares.weights is not None
    assert shares.weights.tolist() == [4.0] * 4
    low = TrueFile.read(frame.set_column(1, "w", pa.array([0.5, 5.0, 5.0, 4.0])), book)
    assert low is not None
    assert low.weights is None
    rows = {str(row["Measure"]): row for row in exposure_rows(low.exposure(), "why not", low)}
    assert "a weight is below 1" in str(rows["Risk of a person, register attacker"]["Before"])
    assert rows["Informed attacker: correct matches, all 4 persons"]["After"] == "not computed: why not"
    alone = TrueFile.read(frame, book.select(["sex"]))
    assert alone is not None
    rows = {str(row["Measure"]): row for row in exposure_rows(alone.exposure(), alone.exposure(law), alone)}
    assert "no variable has the role 'household'" in str(rows["Risk of a household"]["After"])
    assert "no sampling fraction or weight" in str(rows["Risk of a person, register attacker"]["Before"])
    assert TrueFile.read(frame, book.select(["w"])) is None
    with pytest.raises(UsageError, match="informed attacker"):
        informed(KeyCodes(("sex",), (2,), (np.array([0, 1]),)), household=np.array([1]))


def test_who_knows_all_keys_links_as_by_brute_force():
    """Four persons of two keys, every release: q is the mean law of all of them, and each link the best by M / q."""
    codes = (np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]))
    keys, rows = KeyCodes(("a", "b"), (3, 2), codes), list(zip(*(c.tolist() for c in codes), strict=True))
    blocks = [Block(("a",), randomised_response(3, 1.5)), Block(("b",), randomised_response(2, 1.0))]
    law = KeyLaw.of(Mechanism(blocks), ("a", "b"), (3, 2))
    cells = list(itertools.product(range(3), range(2)))
    move = {(x, z): float(law.matrices[0][x[0], z[0]] * law.matrices[1][x[1], z[1]]) for x in cells for z in cells}
    q = {z: sum(move[x, z] for x in rows) / 4 for z in cells}
    mean = best = 0.0
    for seen in itertools.product(cells, repeat=4):
        chance = math.prod(move[x, z] for x, z in zip(rows, seen, strict=True))
        weights = [[move[x, z] / q[z] for z in seen] for x in rows]
        wanted = []
        for i, own in enumerate(weights):
            tied = [r for r, weight in enumerate(own) if weight >= max(own) * (1 - 1e-9)]
            wanted.append((i in tied) / len(tied))
        out = KeyCodes(("a", "b"), (3, 2), tuple(np.array(column) for column in zip(*seen, strict=True)))
        found = link(keys, out, law, "keys")
        assert found.correct.tolist() == pytest.approx(wanted)
        assert found.claimed.tolist() == pytest.approx([max(own) / sum(own) for own in weights])
        ways = {p: math.prod(move[rows[i], seen[r]] for i, r in enumerate(p)) for p in itertools.permutations(range(4))}
        each = [[sum(w for p, w in ways.items() if p[i] == r) for r in range(4)] for i in range(4)]
        mean += chance * sum(wanted)
        best += chance * sum(max(row) for row in each) / sum(ways.values())
    assert mean <= best * (1 + 1e-9)  # nobody links more persons rightly than by the exact posterior of all orders


def test_who_knows_all_keys_links_to_records_of_a_split_as_by_brute_force():
    """Four persons of two keys, every release of a split in which records show both or one of them."""
    codes = (np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]))
    rows = list(zip(*(c.tolist() for c in codes), strict=True))
    book = Codebook((Variable("a", role="key", categories=(0, 1, 2)), Variable("b", role="key", categories=(0, 1))))
    pair, one = Block(("a", "b"), randomised_response(6, 1.5)), Block(("b",), randomised_response(2, 1.0))
    law = SplitLaw.of(Mechanism([], book, split=Split.of([0.75, 0.25], [pair, one])), ("a", "b"), (3, 2))
    shown = [(0, cell) for cell in itertools.product(range(3), range(2))] + [(1, (3, b)) for b in range(2)]

    def chance(x, z):
        part, (a, b) = z
        matrix = (pair, one)[part].matrix.array
        return float(matrix[2 * x[0] + x[1], 2 * a + b] if part == 0 else matrix[x[1], b])

    q = {z: sum(chance(x, z) for x in rows) / 4 for z in shown}
    keys = KeyCodes(("a", "b"), (3, 2), codes)
    assert knowledges(law, 16) == ("matrix", "keys")
    for seen in itertools.islice(itertools.product(shown, repeat=4), 0, None, 7):
        out = KeyCodes(("a", "b"), (4, 3), tuple(np.array(part) for part in zip(*(z[1] for z in seen), strict=True)))
        found = link(keys, out, law, "keys")
        for i, x in enumerate(rows):
            own = [chance(x, z) / q[z] for z in seen]
            tied = [r for r, weight in enumerate(own) if weight >= max(own) * (1 - 1e-9)]
            assert found.correct[i] == pytest.approx((i in tied) / len(tied))
            assert found.claimed[i] == pytest.approx(max(own) / sum(own))


@pytest.mark.parametrize("epsilon", [None, 1.2])
def test_who_knows_all_keys_links_in_a_split_beside_a_key_that_every_record_shows(epsilon):
    """A third key leaves as it is, or perturbed by itself: every law is summed over all persons, by hand."""
    codes = (np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), np.array([0, 1, 1, 1]))
    rows = list(zip(*(c.tolist() for c in codes), strict=True))
    names, sizes = ("a", "b", "c"), (3, 2, 2)
    book = Codebook(
        tuple(Variable(n, role="key", categories=tuple(range(s))) for n, s in zip(names, sizes, strict=True))
    )
    first, second = Block(("a",), randomised_response(3, 1.5)), Block(("b",), randomised_response(2, 1.0))
    third = [] if epsilon is None else [Block(("c",), randomised_response(2, epsilon))]
    law = SplitLaw.of(Mechanism(third, book, split=Split.of([0.6, 0.4], [first, second])), names, sizes)
    assert not law.alone
    assert knowledges(law, 16) == ("matrix", "keys")
    assert knowledges(law, 2 * WORK) == ("matrix",)
    shown = [(k, 2, c) for k in range(3) for c in range(2)] + [(3, b, c) for b in range(2) for c in range(2)]

    def chance(x, z):
        own = first.matrix.array[x[0], z[0]] if z[0] < 3 else second.matrix.array[x[1], z[1]]
        return float(own * (third[0].matrix.array[x[2], z[2]] if third else x[2] == z[2]))

    q = {z: sum(chance(x, z) for x in rows) / 4 for z in shown}
    keys, possible = KeyCodes(names, sizes, codes), 0
    for seen in itertools.islice(itertools.product(shown, repeat=4), 0, None, 17):
        if not all(chance(x, z) for x, z in zip(rows, seen, strict=True)):
            continue
        possible += 1
        out = KeyCodes(names, law.released_shape, tuple(np.array(part) for part in zip(*seen, strict=True)))
        found = link(keys, out, law, "keys")
        for i, x in enumerate(rows):
            own = [chance(x, z) / q[z] for z in seen]
            tied = [r for r, weight in enumerate(own) if weight >= max(own) * (1 - 1e-9)]
            assert found.correct[i] == pytest.approx((i in tied) / len(tied))
            assert found.claimed[i] == pytest.approx(max(own) / sum(own))
    assert possible > 30


def test_the_figure_is_the_larger_of_two_knowledges(monkeypatch):
    keys, law, house = people(800, 3), law_of(2.0), np.arange(800) // 4
    both = informed(keys, law, household=house)
    monkeypatch.setattr("postrand.risk.informed.knowledges", lambda *_: ("matrix",))
    learnt = informed(keys, law, household=house)
    assert (both.of_two, learnt.of_two) == (True, False)
    assert both.anyone.rate >= learnt.anyone.rate
    assert both.unique is not None
    assert learnt.unique is not None
    assert both.unique.rate >= learnt.unique.rate
    assert both.individual == both.individual.at_least(learnt.individual)
    assert both.some_member is not None
    assert learnt.some_member is not None
    assert both.some_member == both.some_member.at_least(learnt.some_member)
    told = [learns({"correct_matches": 1.0}, one.of_two) for one in (both, learnt)]
    assert told == [(OF_TWO, LINKED), (LEARNS,)]
    of_risks = learns({"correct_matches": 1.0, "household_risk": 0.1}, of_two=True)
    assert of_risks == (OF_TWO, LARGEST, LINKED)
    assert max(map(len, of_risks)) < 320


@pytest.mark.statistical
def test_who_knows_all_keys_finds_more_than_who_learns_them():
    """160 releases of 600 persons: the mean gain is above 0 by 4.9 standard errors (alpha 1e-6 if there is none)."""
    keys, law = people(600, 5), law_of(2.0)
    files = [release(law, keys, seed) for seed in range(160)]
    gain = [link(keys, out, law, "keys").rate - link(keys, out, law).rate for out in files]
    assert np.mean(gain) > 4.9 * np.std(gain, ddof=1) / np.sqrt(len(gain))
