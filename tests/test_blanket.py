"""The level of a shuffled file from its own law: never below exact enumeration, sharper than the general bound."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.split import Split, Subset
from postrand.privacy import blanket
from postrand.privacy.blanket import (
    Part,
    _atoms,
    _corners,
    _lattice,
    _log_mean,
    _merged,
    _tilt,
    blanket_delta,
    choice_of,
    part_of,
    parts_of,
    ratio_of,
)
from postrand.privacy.shuffle import shuffled_delta, shuffled_epsilon
from postrand.support.exact import log_upper


def finite_part(matrix):
    """Return the part of a matrix that has one."""
    found = part_of(matrix)
    assert found is not None
    return found


def histograms(rows):
    """Return the law of the counts of released values, one row of probabilities for each record, exactly."""
    laws = {(0,) * rows.shape[1]: 1.0}
    for row in rows:
        grown: dict[tuple[int, ...], float] = {}
        for counts, chance in laws.items():
            for j, p in enumerate(row):
                key = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
                grown[key] = grown.get(key, 0.0) + chance * p
        laws = grown
    return laws


def truth(array, records, epsilon):
    """Return the largest hockey-stick divergence of the shuffled file, over all files and all pairs of values."""
    size, grown, worst = len(array), math.exp(epsilon), 0.0
    for others in itertools.combinations_with_replacement(range(size), records - 1):
        rest = histograms(array[list(others)]) if others else {(0,) * array.shape[1]: 1.0}
        laws = []
        for x in range(size):
            law: dict[tuple[int, ...], float] = {}
            for counts, chance in rest.items():
                for j, p in enumerate(array[x]):
                    key = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
                    law[key] = law.get(key, 0.0) + chance * p
            laws.append(law)
        for one, other in itertools.permutations(laws, 2):
            worst = max(worst, math.fsum(max(one[k] - grown * other[k], 0.0) for k in one))
    return worst


def some_matrix(seed, size):
    draws = np.random.default_rng(seed)
    array = draws.dirichlet(np.ones(size), size) + 0.03
    return TransitionMatrix.from_array(array / array.sum(axis=1, keepdims=True))


def product(*matrices):
    array = np.ones((1, 1))
    for matrix in matrices:
        array = np.kron(array, matrix.array)
    return array


CASES = {
    "two answers": [randomised_response(2, 1.0)],
    "two answers, weak": [randomised_response(2, 3.0)],
    "three answers": [randomised_response(3, 1.5)],
    "four answers": [randomised_response(4, 0.7)],
    "any three": [some_matrix(1, 3)],
    "any four": [some_matrix(2, 4)],
    "not symmetric": [TransitionMatrix.from_array([[0.9, 0.1], [0.3, 0.7]])],
    "one row apart": [TransitionMatrix.from_array([[0.6, 0.4], [0.6, 0.4]] @ np.eye(2))],
    "two blocks": [randomised_response(2, 1.0), randomised_response(2, 0.4)],
    "two blocks, any": [some_matrix(3, 2), some_matrix(4, 2)],
    "never released": [TransitionMatrix.from_array([[0.7, 0.3, 0], [0.2, 0.8, 0], [0.5, 0.5, 0]])],
}


@pytest.mark.parametrize("name", CASES)
def test_never_below_exact_enumeration(name):
    matrices = CASES[name]
    array = product(*matrices)
    parts = parts_of([Block((str(b),), matrix) for b, matrix in enumerate(matrices)])
    local = math.log(math.prod(part.ratio for part in parts)) if parts else 0.0
    for records in (1, 2, 3, 5 if len(array) < 4 else 4):
        for share in (0.0, 0.05, 0.3, 0.6, 0.95):
            epsilon = share * local
            exact, bound = truth(array, records, epsilon), blanket_delta(parts, records, epsilon)
            assert exact <= bound + 1e-15, (records, share, exact, bound)
            assert exact <= shuffled_delta(max(local, 1e-9), records, epsilon) + 1e-15


@pytest.mark.parametrize("beside", [[], [randomised_response(2, 0.5)]])
def test_a_choice_of_parts_is_never_below_exact_enumeration(beside):
    """A record shows one of two values, which one is drawn without looking at it: P(T, y | x) = π_T M_T[x_T, y]."""
    first, second, shares = randomised_response(2, 1.2), some_matrix(7, 2), (Fraction(3, 4), Fraction(1, 4))
    shown = [np.kron(first.array, np.ones((2, 1))), np.kron(np.ones((2, 1)), second.array)]
    array = np.hstack([float(share) * law for share, law in zip(shares, shown, strict=True)])
    array = np.kron(array, product(*beside))
    parts, choice = [finite_part(m) for m in beside], list(zip(shares, map(finite_part, (first, second)), strict=True))
    local = math.log(ratio_of(parts, choice))
    for records in (1, 2, 3) if len(array) < 8 else (1, 2):
        for share in (0.0, 0.1, 0.5, 0.9):
            exact = truth(array, records, share * local)
            bound = blanket_delta(parts, records, share * local, choice=choice)
            assert exact <= bound + 1e-15
            assert bound <= 3 * exact + 0.05


def test_a_choice_of_one_part_is_that_part_and_equal_parts_are_one():
    part, other = finite_part(randomised_response(3, 1.0)), finite_part(randomised_response(4, 0.5))
    alone = blanket_delta([other, part], 500, 0.3)
    assert blanket_delta([other], 500, 0.3, choice=[(Fraction(1), part)]) == pytest.approx(alone, rel=1e-3)
    shown = [Block((name,), randomised_response(3, 1.0)) for name in "ab"]
    halves = Split((Subset(UNIT // 2, shown[0]), Subset(UNIT // 2, shown[1])))
    assert choice_of(Mechanism((), split=halves)) == [(Fraction(1), part)]
    assert choice_of(Mechanism({"a": randomised_response(2, 1.0)})) == []


def blanket_by_enumeration(parts, records, epsilon):
    """Return (1/n) E[(Σ ℓ)_+] of one block by brute force over every outcome of every record."""
    (part,) = parts
    upper = float((1 - part.mass) / (part.ratio - 1))
    q, grown = float(part.ratio), math.exp(epsilon)
    atoms = [
        (q - grown, upper),
        (1 - grown * q, upper),
        (1 - grown, float(part.mass) - 2 * upper),
        (0.0, 1 - float(part.mass)),
    ]
    return math.fsum(
        math.prod(atoms[i][1] for i in chosen) * max(sum(atoms[i][0] for i in chosen), 0.0) / records
        for chosen in itertools.product(range(4), repeat=records)
    )


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("local", [0.5, 2.0, 4.0])
def test_the_transform_adds_little_to_the_expectation_itself(size, local, monkeypatch):
    parts = (finite_part(randomised_response(size, local)),)
    for records in (1, 3, 6):
        for share in (0.02, 0.3, 0.8):
            exact = blanket_by_enumeration(parts, records, share * local)
            assert exact <= blanket_delta(parts, records, share * local) <= exact * 1.1 + 1e-12
    coarse = blanket_delta(parts, 6, 0.3 * local)
    monkeypatch.setattr(blanket, "_STEP", 0.005)
    fine, exact = blanket_delta(parts, 6, 0.3 * local), blanket_by_enumeration(parts, 6, 0.3 * local)
    assert exact <= fine <= coarse * (1 + 1e-9)
    assert fine <= exact * 1.005


@pytest.mark.parametrize(
    ("size", "local", "records", "epsilon"), [(3, 1.0, 120, 0.4), (3, 1.0, 120, 0.7), (5, 2.0, 160, 0.9)]
)
def test_small_deltas_keep_their_digits(size, local, records, epsilon):
    """Against the multinomial sum over every number of the three kinds of terms, where δ is 1e-4 to 1e-14."""
    part = finite_part(randomised_response(size, local))
    upper, q, grown = float((1 - part.mass) / (part.ratio - 1)), float(part.ratio), math.exp(epsilon)
    plain = float(part.mass) - 2 * upper
    total = 0.0
    for a in range(records + 1):
        at_a = binom.pmf(a, records, upper)
        b = np.arange(records - a + 1)[:, None]
        r = np.arange(records - a + 1)[None, :]
        chance = binom.pmf(b, records - a, upper / (1 - upper)) * binom.pmf(r, records - a - b, plain / (1 - 2 * upper))
        gain = np.maximum(a * (q - grown) + b * (1 - grown * q) + r * (1 - grown), 0.0)
        total += float(at_a) * float((np.nan_to_num(chance) * gain).sum()) / records
    assert 1e-14 < total < 1e-3
    assert total * (1 - 1e-9) <= blanket_delta([part], records, epsilon) <= total * 1.05


@pytest.mark.parametrize(("local", "epsilon"), [(1.0, 0.25), (2.0, 0.6), (3.0, 1.5)])
def test_the_bound_is_close_to_the_truth_for_two_answers(local, epsilon):
    """The exact divergence of 300 shuffled answers, for every number of others who would say yes."""
    records, yes = 300, randomised_response(2, local).array[1, 1]
    worst, nearer = 0.0, 0.0
    for m in range(0, records, 13):
        rest = np.convolve(
            binom.pmf(np.arange(m + 1), m, yes), binom.pmf(np.arange(records - m), records - 1 - m, 1 - yes)
        )
        one, other = np.convolve(rest, [1 - yes, yes]), np.convolve(rest, [yes, 1 - yes])
        for p, q in ((one, other), (other, one)):
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
            nearer = max(nearer, float(np.maximum(p - math.exp(0.8 * epsilon) * q, 0.0).sum()))
    bound = blanket_delta([finite_part(randomised_response(2, local))], records, epsilon)
    assert 1e-9 < worst <= bound
    assert bound < nearer  # within 20% of ε
    assert bound < 0.5 * shuffled_delta(local, records, epsilon)


def test_wrong_parts_are_caught_by_the_enumeration():
    """A blanket too heavy, a ratio too small, one record too many: each falls below the truth somewhere."""
    array, right = randomised_response(3, 1.5).array, finite_part(randomised_response(3, 1.5))
    places = [(n, e) for n in (2, 3, 4) for e in (0.05, 0.3, 0.8)]
    exact = {place: truth(array, *place) for place in places}
    heavier, flatter = Part(right.ratio, right.mass * Fraction(6, 5)), Part(right.ratio * Fraction(4, 5), right.mass)
    mutants = {
        "heavier": lambda n, e: blanket_delta([heavier], n, e),
        "flatter": lambda n, e: blanket_delta([flatter], n, e),
        "more records": lambda n, e: blanket_delta([right], 2 * n, e),
    }
    assert all(exact[place] <= blanket_delta([right], *place) for place in places)
    for name, mutant in mutants.items():
        assert any(mutant(*place) < exact[place] for place in places), name


def test_the_parts_are_exact_and_noise_alone_has_none():
    matrix = randomised_response(5, 2.0)
    part = finite_part(matrix)
    assert part.ratio == matrix.ratio
    assert part.mass == Fraction(int(matrix.weights.min(axis=0).sum()), UNIT)
    wide = randomised_response(70, 2.0)
    assert finite_part(wide).mass == Fraction(int(wide.weights.min(axis=0).sum()), UNIT)
    assert part_of(TransitionMatrix.identity(2)) is None
    noise = TransitionMatrix.from_array(np.full((4, 4), 0.25))
    assert parts_of([Block(("a",), noise)]) == ()
    assert parts_of([Block(("a",), noise), Block(("b",), matrix)]) == (part,)


def test_a_product_of_blocks_is_hidden_far_better_than_its_total_says():
    """Ten blocks of ε = 0.8 in a census: an eighth of what the total alone proves."""
    parts = [finite_part(randomised_response(2 + b, 0.8)) for b in range(10)]
    general = shuffled_epsilon(8.0, 953_076, 1e-9)
    assert blanket_delta(parts, 953_076, general / 8) < 1e-9
    assert 0.61 < general < 0.63


def test_merging_blocks_only_raises_the_bound(monkeypatch):
    parts = [finite_part(randomised_response(2 + b, 0.5)) for b in range(6)]
    whole = [blanket_delta(parts, 5_000, e) for e in (0.02, 0.1, 0.3)]
    monkeypatch.setattr(blanket, "_MOST_ATOMS", 100)
    merged = [blanket_delta(parts, 5_000, e) for e in (0.02, 0.1, 0.3)]
    assert all(a <= b * (1 + 1e-3) for a, b in zip(whole, merged, strict=True))
    assert merged != whole


@pytest.mark.parametrize("parts", [[(2, 2.0)], [(3, 0.5)] * 4, [(8, 6.0), (2, 0.5)]])
def test_falls_with_records_and_epsilon_and_grows_with_the_law(parts):
    made = [finite_part(randomised_response(*part)) for part in parts]
    total = sum(epsilon for _, epsilon in parts)
    deltas = [blanket_delta(made, n, 0.2 * total) for n in (1, 10, 100, 1_000, 10_000)]
    assert all(more <= fewer * (1 + 5e-3) for fewer, more in itertools.pairwise(deltas))
    levels = [blanket_delta(made, 1_000, share * total) for share in (0.0, 0.1, 0.2, 0.5, 0.9, 1.0)]
    assert all(further <= near for near, further in itertools.pairwise(levels))
    louder = [finite_part(randomised_response(size, 1.3 * epsilon)) for size, epsilon in parts]
    assert blanket_delta(louder, 1_000, 0.1 * total) > blanket_delta(made, 1_000, 0.1 * total)


def test_the_attack_on_simulated_files_stays_below_the_bound():
    """The best test of x against x' on 200,000 shuffled files each: its gain, 4 standard errors less, is allowed."""
    matrix, records, draws = randomised_response(3, 2.0), 40, 200_000
    parts, random = (finite_part(matrix),), np.random.default_rng(20261122)
    found = []
    for x in (0, 1):
        rest = random.multinomial(records - 1, matrix.array[2], draws)
        found.append(rest + random.multinomial(1, matrix.array[x], draws))
    for epsilon in (0.1, 0.4, 0.8):
        # Σ_y counts(y) (P(y) - e^ε P'(y)) / R(y), R the law of the others: the likelihood ratio test of one among n.
        score = (matrix.array[0] - math.exp(epsilon) * matrix.array[1]) / matrix.array[2]
        first, second = (float((counts @ score > 0).mean()) for counts in found)
        error = math.sqrt((first * (1 - first) + math.exp(2 * epsilon) * second * (1 - second)) / draws)
        gain = first - math.exp(epsilon) * second
        assert 0 < gain - 4 * error < blanket_delta(parts, records, epsilon)


def test_a_record_s_level_beyond_floats_proves_nothing_and_fails_nothing():
    parts = [finite_part(randomised_response(3, 35.0))] * 25
    assert blanket_delta(parts, 1_000, 10.0) == 1.0
    assert blanket_delta(parts, 1_000, 800.0) == 1.0
    assert blanket_delta(parts, 1_000, 875.1) == 0.0
    assert blanket_delta(parts[:1], 1_000, 1.0) == 1.0 or blanket_delta(parts[:1], 1_000, 1.0) > 0.99


def test_many_records_take_seconds():
    import time

    parts = [finite_part(randomised_response(2 + b, 0.8)) for b in range(10)]
    begin = time.process_time()
    assert 0 < blanket_delta(parts, 10**8, 0.005) < 1e-8
    assert time.process_time() - begin < 5


HALF, THIRD = Part(Fraction(3), Fraction(1, 2)), Part(Fraction(2), Fraction(2, 3))
NARROW = Part(Fraction(9, 2), Fraction(3, 10))
"""A part whose two laws cannot be high at different values alone."""


@pytest.mark.parametrize(
    "part", [HALF, THIRD, NARROW, Part(Fraction(5, 2), Fraction(3, 5)), Part(Fraction(1), Fraction(1))]
)
def test_the_corners_are_two_laws_that_are_high_together_as_rarely_as_can_be(part):
    """Weights of sum γ, under which u and w have the mean 1; without one of the like corners, no others do."""
    found = _corners(part)
    assert min(found.values()) > 0
    assert sum(found.values()) == pytest.approx(float(part.mass))
    for side in (0, 1):
        assert sum(w * float(part.ratio) ** corner[side] for corner, w in found.items()) == pytest.approx(1)
    assert len(found) <= 3


@pytest.mark.parametrize("choice", [(), ((Fraction(1, 4), THIRD), (Fraction(3, 4), NARROW))])
def test_the_atoms_are_those_of_a_product(choice):
    """Their mass, mean and mean square: of independent factors, each is the product over the factors."""
    parts, grown = [HALF, NARROW, HALF, THIRD], math.exp(0.3)

    def moment(i, j):
        """Return E[u^i w^j] over the blankets."""
        of = {part: sum(w * float(part.ratio) ** (i * a + j * b) for (a, b), w in _corners(part).items())
              for part in (HALF, THIRD, NARROW)}  # fmt: skip
        return math.prod(of[part] for part in parts) * (sum(float(share) * of[part] for share, part in choice) or 1)

    values, weights = _atoms(parts, 0.3, choice)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(moment(0, 0))
    assert weights @ values == pytest.approx(1 - grown)
    assert weights @ values**2 == pytest.approx(moment(2, 0) - 2 * grown * moment(1, 1) + grown**2 * moment(0, 2))


@pytest.mark.parametrize(
    ("most", "ratios"), [(160, [2, 3, 3, 5]), (159, [3, 5, 6]), (63, [6, 15]), (15, [90]), (0, [90])]
)
def test_the_weakest_parts_are_merged_until_the_atoms_are_few_enough(most, ratios):
    """Atoms: combinations with repetition of four corners, so 4, C(5, 3) = 10 and 4 at first."""
    masses = {2: Fraction(2, 3), 3: Fraction(1, 2), 5: Fraction(1, 3)}
    found = _merged([Part(Fraction(q), masses[q]) for q in (5, 3, 2, 3)], most)
    assert [part.ratio for part in found] == ratios
    assert math.prod(part.mass for part in found) == Fraction(1, 18)


def test_the_lattice_keeps_the_mean_and_only_spreads():
    """E[(x - t)_+] grows at every t, and the square by a quarter of a step's at most; None for too many points."""
    draws = np.random.default_rng(8)
    for _ in range(5):
        values, weights = draws.normal(0.1, 2, 9), draws.dirichlet(np.ones(9)) * 0.7
        found = _lattice(values, weights)
        assert found is not None
        assert found.step == pytest.approx(blanket._STEP * math.sqrt(weights @ values**2 / weights.sum()))
        assert (found.at != 0).all()
        assert found.weights @ found.values == pytest.approx(weights @ values)
        for t in (-3.0, -0.5, 0.2, 1.0):
            rest = (weights.sum() - found.weights.sum()) * max(-t, 0.0)
            spread = found.weights @ np.maximum(found.values - t, 0) + rest
            assert spread >= weights @ np.maximum(values - t, 0) - 1e-12
        more = found.weights @ found.values**2 - weights @ values**2
        assert 0 < more <= weights.sum() * found.step**2 / 4
    assert _lattice(np.array([1e-9, 1e9]), np.array([1 - 1e-30, 1e-30])) is None


@pytest.mark.parametrize("records", [1, 40, 10**6])
def test_the_logarithm_of_the_mean_is_rounded_up_and_the_tilt_is_the_best(records):
    lattice = _lattice(*_atoms([HALF, NARROW], 0.4))
    assert lattice is not None
    tilt = _tilt(lattice, records)
    with mpmath.workdps(40):
        terms = [
            mpmath.mpf(w) * mpmath.expm1(mpmath.mpf(tilt) * v)
            for w, v in zip(*map(np.ndarray.tolist, (lattice.weights, lattice.values)), strict=True)
        ]
        truth, size = records * mpmath.log1p(sum(terms)), sum(map(abs, terms))
        assert truth <= _log_mean(lattice, records, tilt) <= truth + records * size * mpmath.mpf(10) ** -13

    def height(tilt):
        return _log_mean(lattice, records, tilt) - math.log(tilt)

    assert height(tilt) <= min(height(tilt * step) for step in (0.5, 0.9, 0.99, 1.01, 1.1, 2)) + 1e-9


def test_the_first_step_is_chernoff_s_bound_and_all_that_is_left_without_a_lattice(monkeypatch):
    """``x_+ <= e^(λx - 1)/λ`` at the best λ of a grid; a part of ratio 1.5 counts, and at ε0 nothing is left."""
    one, records = [Part(Fraction(3), Fraction(1, 2))], 200
    values, weights = blanket._atoms(one, 0.3)
    tilts = np.geomspace(1e-3, 1, 2000)
    logs = records * np.log1p(np.expm1(np.outer(tilts, values)) @ weights)
    chernoff = float(np.exp(logs - 1 - np.log(records * tilts)).min())
    assert blanket_delta(one, records, 0.3, enough=1.0) == pytest.approx(chernoff, rel=0.01)
    assert blanket_delta(one, records, log_upper(Fraction(3))) == 0.0
    assert len(parts_of([Block("a", randomised_response(2, 0.4))]) or ()) == 1
    monkeypatch.setattr(blanket, "_MOST_POINTS", 1)
    assert blanket_delta(one, records, 0.3) == 1.0
