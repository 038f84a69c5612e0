"""Risk after a split release: the law by enumeration, the attack by simulation, and samples as ordinary releases."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from postrand import risk
from postrand.codebook import Codebook, Variable
from postrand.engines.frame import perturb
from postrand.errors import SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.risk import perturbed, split_risk
from postrand.risk.cells import KeyCodes, table
from postrand.risk.exposure import TrueFile
from postrand.risk.informed import informed
from postrand.risk.law import KeyLaw
from postrand.risk.law import release as released_by
from postrand.risk.others import others
from postrand.risk.split_law import SplitLaw, law_of
from postrand.risk.weights import individual_risk
from postrand.support.randomness import ReleaseKey
from postrand.workflow.comparison_risk import risk_figures

NAMES, SIZES = ("a", "b", "c", "d"), (3, 2, 4, 2)


def book(names=NAMES, sizes=SIZES):
    return Codebook(
        tuple(Variable(n, "key", tuple(f"{n}{k}" for k in range(s))) for n, s in zip(names, sizes, strict=True))
    )


def response(names, epsilon, sizes=SIZES):
    return Block(names, randomised_response(int(np.prod([sizes[NAMES.index(n)] for n in names])), epsilon))


def other(names, seed):
    size = int(np.prod([SIZES[NAMES.index(n)] for n in names]))
    rows = np.random.default_rng(seed).dirichlet(np.ones(size), size) * 0.5 + 0.5 * np.eye(size)
    return Block(names, TransitionMatrix.from_array(rows))


def mixed():
    """Return a split of three subsets: randomised response on three and on one variable, another matrix on two."""
    blocks = [response(("c", "a", "b"), 3.0), other(("b", "d"), 4), response(("d",), 1.5)]
    return Mechanism([], book(), split=Split.of([0.5, 0.3, 0.2], blocks))


def enumerated(mechanism, true, names):
    """Return the probability of each released combination of keys, None where not shown, by summing every cell."""
    split, of = mechanism.split, dict(zip(NAMES, SIZES, strict=True))
    found: dict[tuple[Any, ...], float] = {}
    for subset in split.subsets:
        shown = subset.block.variables
        cells = subset.block.cells or itertools.product(*(range(of[n]) for n in shown))
        cells = list(cells)
        row = subset.matrix.array[cells.index(tuple(true[n] for n in shown))]
        for cell, chance in zip(cells, row, strict=True):
            values = {n: true[n] for n in names if n not in split.variables} | dict(zip(shown, cell, strict=True))
            key = tuple(values.get(n) for n in names)
            found[key] = found.get(key, 0.0) + subset.probability * chance
    return found


def by_parts(law, true):
    """Return the same probabilities from the parts of the law."""
    found: dict[tuple[Any, ...], float] = {}
    for part in law.parts:
        if part.law is None:
            found[(None,) * len(law.names)] = found.get((None,) * len(law.names), 0.0) + part.probability
            continue
        sizes = [law.shape[j] for j in part.positions]
        start = np.zeros(sizes)
        start[tuple(true[j] for j in part.positions)] = 1.0
        moved = part.law.apply(start, range(len(sizes)))
        for cell in itertools.product(*map(range, sizes)):
            values = dict(zip(part.positions, cell, strict=True))
            key = tuple(values.get(j) for j in range(len(law.names)))
            found[key] = found.get(key, 0.0) + part.probability * moved[cell]
    return found


@pytest.mark.parametrize("names", [NAMES, ("d", "b", "a", "c")])
def test_the_law_is_that_of_every_subset_by_enumeration(names):
    law = SplitLaw.of(mixed(), names, [SIZES[NAMES.index(n)] for n in names])
    for true in itertools.product(*map(range, SIZES)):
        of = dict(zip(NAMES, true, strict=True))
        wanted, found = enumerated(mixed(), of, names), by_parts(law, [of[n] for n in names])
        assert found.keys() == wanted.keys()
        assert found == pytest.approx(wanted, abs=1e-14)


def test_keys_that_are_a_part_of_the_variables_have_the_law_of_what_is_seen_of_them():
    blocks = [response(("a", "b"), 2.0), response(("a", "c", "d"), 3.0), response(("c", "d"), 2.5), response(("d",), 1)]
    mechanism = Mechanism([], book(), split=Split.of([0.4, 0.3, 0.2, 0.1], blocks))
    for names in (("a", "b"), ("a",), ("d", "a")):
        law = SplitLaw.of(mechanism, names, [SIZES[NAMES.index(n)] for n in names])
        for true in itertools.product(*map(range, SIZES)):
            of = dict(zip(NAMES, true, strict=True))
            wanted = enumerated(mechanism, of, names)
            assert by_parts(law, [of[n] for n in names]) == pytest.approx(wanted, abs=1e-14)
    assert sum(part.law is None for part in SplitLaw.of(mechanism, ("b",), (2,)).parts) == 1


@pytest.mark.parametrize("names", [NAMES, ("d", "c", "a", "b"), ("c", "b", "a"), ("b", "a")])
def test_rules_and_strata_are_in_the_law_of_a_part_of_the_variables(names):
    law = SplitLaw.of(ruled(), names, [SIZES[NAMES.index(n)] for n in names])
    for true in itertools.product(*map(range, SIZES)):
        of = dict(zip(NAMES, true, strict=True))
        if (of["a"], of["b"]) != (0, 1):
            wanted = {key: chance for key, chance in enumerated(ruled(), of, names).items() if chance}
            found = {key: chance for key, chance in by_parts(law, [of[n] for n in names]).items() if chance}
            assert found == pytest.approx(wanted, abs=1e-14)


def test_a_law_that_depends_on_other_variables_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match="name all of its variables as keys"):
        SplitLaw.of(mixed(), ("a", "b"), (3, 2))
    with pytest.raises(UsageError, match="name all of their variables as keys"):
        SplitLaw.of(ruled(), ("a", "b", "d"), (3, 2, 2))


def test_parts_of_many_cells_need_no_matrix():
    sizes = (40, 30, 40)
    variables = book(("a", "b", "c"), sizes)
    many = Block(("a", "b", "c"), randomised_response(48_000, 12.0))
    law = SplitLaw.of(Mechanism([], variables, split=Split.of([1.0], [many])), ("a", "b", "c"), sizes)
    assert law.parts[0].law.matrices == ()
    stay = law.parts[0].law.diagonal(np.array([[1, 2, 3]]))
    assert stay == pytest.approx(np.exp(12) / (np.exp(12) + 47_999), rel=1e-9)
    pair = law.parts[0].law.blend.margin((0, 2))  # the law of a and c: 30 cells of the block in each of theirs
    assert pair == pytest.approx(np.full((40, 40), 30 / (np.exp(12) + 47_999)), rel=1e-9)


@pytest.mark.parametrize("names", [NAMES, ("d", "b", "a", "c")])
def test_posteriors_and_best_guesses_are_bayes_rule_by_enumeration(names):
    sizes = [SIZES[NAMES.index(n)] for n in names]
    law = SplitLaw.of(mixed(), names, sizes)
    prior = np.random.default_rng(2).dirichlet(np.ones(48)).reshape(sizes)
    joint: dict[tuple[Any, ...], Any] = {}
    for true in itertools.product(*map(range, sizes)):
        for seen, chance in enumerated(mixed(), dict(zip(names, true, strict=True)), names).items():
            joint.setdefault(seen, np.zeros(sizes))[true] += prior[true] * chance
    for seen, table_of in joint.items():
        codes = [s if c is None else c for c, s in zip(seen, sizes, strict=True)]
        np.testing.assert_allclose(law.posterior(codes, prior), table_of / table_of.sum(), atol=1e-14)
    assert law.vulnerability(prior) == pytest.approx(sum(t.max() for t in joint.values()), rel=1e-12)
    with pytest.raises(UsageError, match="no subset of the split shows"):
        law.posterior([s if n != "a" else 0 for n, s in zip(names, sizes, strict=True)], prior)


def codes_of(rng, n, sizes=SIZES):
    kind = rng.integers(0, 3, n)
    return tuple(((rng.random(n) ** (1 + kind)) * s).astype(np.int64) for s in sizes)


def test_draws_have_the_probabilities_of_the_law():
    law = SplitLaw.of(mixed(), NAMES, SIZES)
    n, true = 60_000, (2, 1, 3, 0)
    keys = KeyCodes(NAMES, SIZES, tuple(np.full(n, c) for c in true))
    drawn = next(law.drawn(keys, [3]))
    wanted = by_parts(law, true)
    assert drawn.shape == tuple(s + 1 for s in SIZES)
    counted: dict[tuple[Any, ...], int] = {}
    for row in np.stack(drawn.codes, axis=1).tolist():
        key = tuple(None if c == s else c for c, s in zip(row, SIZES, strict=True))
        counted[key] = counted.get(key, 0) + 1
    assert counted.keys() <= {key for key, chance in wanted.items() if chance > 0}
    chi = sum((counted.get(key, 0) - n * chance) ** 2 / (n * chance) for key, chance in wanted.items() if chance > 0)
    cells = sum(chance > 0 for chance in wanted.values())
    assert chi < cells + 6 * np.sqrt(2 * cells)  # a chance below 1e-7


def slow_link(truth, released, law):
    """Return right and claimed of every record, pair by pair, with the densities that the attacker fits."""
    n, rows = truth.records, np.stack(released.codes, axis=1)
    true = np.stack(truth.codes, axis=1)
    of, density = law.shown(rows), np.ones(n)
    for k, part in enumerate(law.parts):
        mine = of == k
        if part.positions and mine.any():
            cells = table(released.take(mine))
            shown = cells.codes[:, list(part.positions)]
            model = others(shown, cells.counts, [law.shape[j] for j in part.positions])
            density[mine] = model.density(shown)[cells.record_cell]
    right, claimed = np.zeros(n), np.zeros(n)
    for i in range(n):
        chances = by_parts(law, true[i])
        weight = np.empty(n)
        for r in range(n):
            key = tuple(None if c == s else c for c, s in zip(rows[r], law.shape, strict=True))
            weight[r] = chances[key] / law.parts[of[r]].probability / density[r]
        best = weight >= weight.max() * (1 - 1e-9)
        right[i] = best[i] / best.sum()
        claimed[i] = weight.max() / weight.sum()
    return right, claimed


def beside():
    """Return a block of keys beside a split, and a key that nothing changes."""
    split = Split.of([0.6, 0.4], [response(("a", "c"), 2.0), response(("c",), 2.0)])
    return Mechanism([response(("b",), 1.0)], book(), split=split)


def ruled():
    """Return a split with a combination of a and b that is forbidden, within the strata of d in one subset."""
    pairs = [cell for cell in itertools.product(range(3), range(2)) if cell != (0, 1)]
    free = Block(("a", "b", "c"), randomised_response(20, 2.0), tuple((*cell, c) for cell in pairs for c in range(4)))
    inside = np.kron(np.eye(2), randomised_response(5, 2.0).array)
    cells = tuple((d, *cell) for d in range(2) for cell in pairs)
    strata = Block(("d", "a", "b"), TransitionMatrix.from_array(inside), cells, given=("d",))
    return Mechanism([], book(), split=Split.of([0.3, 0.4, 0.3], [free, strata, response(("c",), 1.0)]))


@pytest.mark.parametrize("made", [mixed, beside, ruled])
def test_the_attack_is_bayes_rule_on_every_pair(made):
    rng = np.random.default_rng(4)
    codes = codes_of(rng, 90)
    codes[1][codes[0] == 0] = 0
    truth, mechanism = KeyCodes(NAMES, SIZES, codes), made()
    law = law_of(mechanism, NAMES, SIZES)
    released = next(law.drawn(truth, [8]))
    found = risk.link(truth, released, law)
    right, claimed = slow_link(truth, released, law)
    np.testing.assert_allclose(found.correct, right, rtol=1e-9)
    np.testing.assert_allclose(found.claimed, np.minimum(found.correction * claimed, 1), rtol=1e-9)


def test_one_subset_of_all_keys_is_a_joint_block():
    """A split with one subset shows everything: the attack is the block's with the same densities, and so is tau."""
    rng = np.random.default_rng(6)
    truth = KeyCodes(NAMES, SIZES, codes_of(rng, 400))
    block = response(NAMES, 4.0)
    alone = KeyLaw.of(Mechanism([block], book()), NAMES, SIZES)
    split = SplitLaw.of(Mechanism([], book(), split=Split.of([1.0], [block])), NAMES, SIZES)
    seen = released_by(alone, truth, 2)
    shown = KeyCodes(NAMES, split.released_shape, seen.codes)
    one, other_one = risk.link(truth, seen, alone), risk.link(truth, shown, split)
    assert other_one.rate == pytest.approx(one.rate, rel=1e-9)
    stays = split.parts[0].law.diagonal(np.stack(truth.codes, axis=1))
    assert stays == pytest.approx(alone.diagonal(np.stack(truth.codes, axis=1)), rel=1e-12)


def test_the_attacker_finds_what_they_claim():
    """Three releases of 3,000 records: 9,000 links, of which the share that is right is the share that is claimed."""
    rng = np.random.default_rng(7)
    sizes = (6, 4, 9, 5)
    truth = KeyCodes(NAMES, sizes, codes_of(rng, 3_000, sizes))
    blocks = [response(t, 6.0, sizes) for t in (("a", "b", "c"), ("a", "d", "b"), ("c", "d"))]
    law = law_of(Mechanism([], book(NAMES, sizes), split=Split.of([0.4, 0.4, 0.2], blocks)), NAMES, sizes)
    links = [risk.link(truth, drawn, law) for drawn in law.drawn(truth, range(3))]
    right, claimed = np.mean([one.rate for one in links]), np.mean([one.claimed_rate for one in links])
    error = np.sqrt(right / 9_000)
    assert right > 3 / 3_000  # better than a guess
    assert abs(right - claimed) < 4 * error + 0.1 * right


def test_the_informed_attacker_and_the_dossier_work_on_a_split():
    rng = np.random.default_rng(9)
    truth = KeyCodes(NAMES, SIZES, codes_of(rng, 500))
    found = informed(truth, law_of(mixed(), NAMES, SIZES), household=np.arange(500) // 3)
    before = informed(truth, household=np.arange(500) // 3)
    assert 0 < found.anyone.rate < before.anyone.rate
    assert found.some_member is not None
    file = TrueFile(truth, np.full(500, 20.0), np.arange(500) // 3)
    after, untouched = file.exposure(mixed()), file.exposure()
    assert after.register_expected is not None
    assert untouched.register_expected is not None
    assert 0 < after.register_expected < untouched.register_expected


def test_k_after_a_split_says_what_a_class_is():
    truth = KeyCodes(NAMES, SIZES, codes_of(np.random.default_rng(9), 500))
    every = Mechanism([response(NAMES, 2.0)], book())
    after_split, after_blocks = (
        next(one for one in risk_figures(TrueFile(truth, None, None), None, of) if one.code == "k")
        for of in (mixed(), every)
    )
    name = after_split.measure.partition(":")[0]  # what rules, and so 'check' and the decision page, have of it
    assert name == "k-anonymity (after a split, a class has the records that show the same keys with the same values)"
    assert after_blocks.measure.startswith("k-anonymity:")


def test_a_register_attackers_risk_is_the_sum_over_what_is_shown():
    rng = np.random.default_rng(10)
    truth, weights = KeyCodes(NAMES, SIZES, codes_of(rng, 200)), rng.uniform(2, 9, 200)
    law, wanted = law_of(mixed(), NAMES, SIZES), np.zeros(200)
    for subset in mixed().split.subsets:
        keys = truth.select(subset.block.variables)
        cells = table(keys)
        stay = subset.matrix.diagonal[np.ravel_multi_index(keys.codes, keys.shape)]
        wanted += subset.probability * stay * individual_risk(cells, weights)
    np.testing.assert_allclose(split_risk.register_risk(truth, weights, law), wanted, rtol=1e-12)


def test_matches_of_a_release_are_those_of_its_samples():
    """Each set of shown keys is a sample, fraction π π_T: its τ is that of an ordinary release of these records."""
    rng = np.random.default_rng(11)
    truth, law = KeyCodes(NAMES, SIZES, codes_of(rng, 3_000)), law_of(mixed(), NAMES, SIZES)
    released = table(next(law.drawn(truth, [1])))
    found = split_risk.matches(released, law, 0.2)
    wanted = [0.0, 0.0]
    for part, _, cells in law.tables(released):
        subset = next(s for s in mixed().split.subsets if {NAMES.index(n) for n in s.variables} == set(part.positions))
        alone = KeyLaw.of(Mechanism([subset.block], book()), cells.names, cells.shape)
        one = perturbed.estimate(cells, alone, 0.2 * subset.probability)
        wanted[0] += one.tau1.value
        wanted[1] += one.tau2.value
    assert (found.tau1.value, found.tau2.value) == pytest.approx(wanted, rel=0.3, abs=0.5)


def test_the_intervals_of_tau_contain_the_truth():
    """A population of 60,000, samples of 3,000 released through a split: τ2 of each file is known."""
    rng = np.random.default_rng(12)
    sizes = (10, 5, 12, 7)
    population = np.stack(codes_of(rng, 60_000, sizes), axis=1)
    blocks = [response(t, 6.0, sizes) for t in (("a", "b", "c"), ("a", "c", "d"), ("b", "c", "d"))]
    law = law_of(Mechanism([], book(NAMES, sizes), split=Split.of([0.4, 0.3, 0.3], blocks)), NAMES, sizes)
    positions = [list(part.positions) for part in law.parts]
    alike = []  # of each combination of each part's keys: how many persons have it
    for keys in positions:
        alike.append(np.zeros([sizes[k] for k in keys], dtype=int))
        np.add.at(alike[-1], tuple(population[:, keys].T), 1)
    held, truths, estimates = 0, [], []
    for trial in range(12):
        some = rng.choice(60_000, 3_000, replace=False)
        truth = KeyCodes(NAMES, sizes, tuple(population[some].T))
        drawn = next(law.drawn(truth, [trial]))
        cells, rows = table(drawn), np.stack(drawn.codes, axis=1)
        unique = np.flatnonzero(cells.uniques[cells.record_cell])
        of, right = law.shown(rows), 0.0
        for r in unique:
            keys = positions[of[r]]
            if (rows[r, keys] == population[some[r], keys]).all():
                right += 1 / alike[of[r]][tuple(rows[r, keys])]
        found = split_risk.matches(cells, law, 0.05)
        assert found.tau2.interval is not None
        low, high = found.tau2.interval
        held += low <= right <= high
        truths.append(right)
        estimates.append(found.tau2.value)
    assert held >= 10
    assert np.mean(estimates) == pytest.approx(np.mean(truths), rel=0.4)


def test_a_released_frame_is_assessed():
    variables = Codebook(
        (
            Variable("sex", role="key", categories=("F", "M")),
            Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
            Variable("area", role="key", categories=("a", "b", "c"), missing="keep"),
        )
    )
    blocks = [Block(("sex", "age"), randomised_response(8, 3.0)), Block(("area",), randomised_response(3, 3.0))]
    mechanism = Mechanism([], variables, split=Split.of([0.6, 0.4], blocks))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], 300),
            "age": pd.array(rng.choice([10, 20, 30, -1], 300), dtype="Int64").astype(object),
            "area": rng.choice(["a", "b", "c", None], 300),
        }
    )
    frame["age"] = pd.array([None if v == -1 else v for v in frame["age"]], dtype="Int64")
    released = perturb(frame, mechanism, ReleaseKey.from_seed(1))
    found = risk.assess(released, ["sex", "age", "area"], sampling_fraction=0.1, mechanism=mechanism)
    assert found.records == 300
    assert found.occupied <= 8 + 4
    few = frame.iloc[:9]
    with pytest.raises(SpecificationError, match="split"):
        risk.tune(
            few, ["sex", "age"], "tau2 <= 1e-9", sampling_fraction=0.1, mechanism=lambda _: mechanism, levels=(1, 2)
        )
