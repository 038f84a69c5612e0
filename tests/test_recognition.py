"""Security against spontaneous recognition: the exact test, its constraints, its pruning, and what it refuses."""

import json
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.certification.certificate import Claim, certify
from postrand.data.table import ContingencyTable
from postrand.designers.recognition.programme import Cells
from postrand.errors import PrivacyError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.privacy import (
    MODELS,
    DifferentialPrivacy,
    KeyTypes,
    PrivacyModel,
    SpontaneousRecognition,
    Together,
    recognition,
)
from postrand.support import options

seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from([(2, 3), (2, 2, 2), (3, 1, 2), (4,), (2, 2, 3)])


def brute_force(weights, counts, shape, size):
    """CHR (1) as printed, in rationals: the largest posterior over π, k0 and every occurring m."""
    types = list(product(*map(range, shape)))
    worst = Fraction(0)
    for pi in combinations(range(len(shape)), size):
        for k0 in product(*(range(shape[a]) for a in pi)):
            inside = [k for k, t in enumerate(types) if tuple(t[a] for a in pi) == k0]
            mass = [sum(int(weights[m][k]) for k in inside) for m in range(len(types))]
            below = sum(int(u) * s for u, s in zip(counts, mass, strict=True))
            worst = max([worst, *(Fraction(s, below) for s, u in zip(mass, counts, strict=True) if u and s)])
    return worst


def random_case(seed, shape, keep=None):
    rng = np.random.default_rng(seed)
    K = int(np.prod(shape))
    counts = rng.integers(0, 12, K)
    counts[rng.integers(K)] += 10
    keep = rng.uniform() if keep is None else keep
    off = rng.dirichlet(np.full(K, 0.3), K)
    return counts, TransitionMatrix.from_array(keep * np.eye(K) + (1 - keep) * off)


@given(seeds, shapes, st.integers(1, 3))
def test_largest_posterior_is_the_brute_force_one(seed, shape, size):
    size = min(size, len(shape))
    counts, law = random_case(seed, shape)
    worst = brute_force(law.weights, counts, shape, size)
    model = SpontaneousRecognition(0.3, size).on(counts.reshape(shape))
    assert model.largest([law]).posterior == worst
    finding = model.check([law])
    assert finding.holds == (worst <= Fraction(3, 10))
    assert Fraction(finding.level) >= min(worst, Fraction(0.3))


@given(seeds, st.sampled_from([(2, 3), (2, 2, 2), (2, 3, 2)]))
def test_blocks_give_what_their_joint_matrix_gives(seed, shape):
    rng = np.random.default_rng(seed)

    # Few bits, so that the Kronecker product is an exact law too.
    def small(size):
        parts = np.diff([0, *sorted(rng.integers(0, 2**10, size - 1)), 2**10])
        return np.stack([rng.permutation(parts) for _ in range(size)])

    blocks = [small(s) for s in shape]
    joint = blocks[0]
    for block in blocks[1:]:
        joint = np.kron(joint, block)
    laws = [TransitionMatrix(b.astype(np.int64) * (UNIT >> 10)) for b in blocks]
    whole = TransitionMatrix(joint.astype(np.int64) * (UNIT >> 10 * len(shape)))
    counts = rng.integers(0, 9, shape)
    counts.flat[0] += 20
    for size in range(1, len(shape) + 1):
        model = SpontaneousRecognition(0.1, size).on(counts)
        assert list(model.posteriors(laws)) == list(model.posteriors([whole]))
    pair = TransitionMatrix(np.kron(blocks[0], blocks[1]).astype(np.int64) * (UNIT >> 20))
    assert list(model.posteriors([pair, *laws[2:]])) == list(model.posteriors(laws))


@given(seeds, shapes)
def test_constraints_and_check_say_the_same(seed, shape):
    counts, law = random_case(seed, shape)
    model = SpontaneousRecognition(0.2, min(2, len(shape))).on(counts.reshape(shape))
    worst = brute_force(law.weights, counts, shape, min(2, len(shape)))
    excess = model.constraints(law.size).excess(law.array)
    if abs(float(worst) - 0.2) > 1e-9:
        assert (excess <= 1e-12) == model.check([law]).holds


@given(seeds)
def test_the_three_pruning_bounds_suffice_where_the_diagonal_is_large(seed):
    """CHR (2), (5) and the last list of §4: with diagonals above γ and (1-γ)/γ < α, few conditions say all."""
    alpha, gamma, shape = 0.25, 0.85, (2, 3, 2)
    counts, law = random_case(seed, shape, keep=gamma + 1e-6)
    model = SpontaneousRecognition(alpha, 2).on(counts.reshape(shape))
    cells = Cells(model.file, model.file.incidence(model.key_sets), alpha)
    pairs = cells.conditions(model.rare_types(), gamma)
    mass = law.array @ cells.members.toarray()
    expected = counts @ mass
    kept = all(mass[m, c] <= alpha * expected[c] for m, c in pairs)
    assert kept == (not len(cells.violated(law.array, np.flatnonzero(counts), 0.0)))


def test_frequent_types_never_fail():
    _, law = random_case(5, (2, 3), keep=0.0)
    model = SpontaneousRecognition(0.1, 2).on(np.full((2, 3), 10))
    assert model.rare_types().size == 0
    assert model.check([law]).holds
    assert model.constraints(6).A.shape == (0, 36)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3, 0.05, 0.07])
def test_alpha_is_the_decimal_that_it_prints_as(alpha):
    limit = Fraction(str(alpha))
    counts = np.array([[limit.denominator, 10 * limit.denominator]]) // limit.numerator
    model = SpontaneousRecognition(alpha, 2).on(counts)
    assert model.largest([TransitionMatrix.identity(2)]).posterior == Fraction(1, int(counts[0, 0]))
    if limit.numerator == 1:  # the posterior is α exactly: it holds, and one record less does not
        assert model.check([TransitionMatrix.identity(2)]).holds
    less = SpontaneousRecognition(alpha, 2).on(counts - [[1, 0]])
    assert not less.check([TransitionMatrix.identity(2)]).holds


def test_one_unit_of_probability_decides():
    """t = 10 - 2^-53 and s = 1 must fail, t = 10 must hold."""
    model = SpontaneousRecognition(0.1, 1).on([10, 10])
    weights = np.array([[UNIT, 0], [0, UNIT]])
    assert model.check([TransitionMatrix(weights)]).holds
    model = SpontaneousRecognition(0.1, 1).on([9, 10**6])
    give = UNIT // 10**6  # 10^6 records of which each moves with this weight: just less than one record
    short = np.array([[UNIT, 0], [give, UNIT - give]])
    enough = np.array([[UNIT, 0], [give + 1, UNIT - give - 1]])
    assert not model.check([TransitionMatrix(short)]).holds
    assert model.check([TransitionMatrix(enough)]).holds


def test_equal_rows_attain_one_in_n_and_fewer_records_are_infeasible():
    law = TransitionMatrix.from_array(np.tile([0.2, 0.3, 0.5], (3, 1)))
    assert SpontaneousRecognition(0.1, 1).on([1, 4, 5]).largest([law]).posterior == Fraction(1, 10)
    with pytest.raises(PrivacyError, match=r"posterior 1/n.*wanted n >= 10") as caught:
        SpontaneousRecognition(0.1, 1).on([1, 3, 5])
    assert "9" not in str(caught.value).replace("alpha 0.1", "")  # no small count


def test_a_claim_needs_the_file_and_the_certificate_does_not_publish_it():
    model = SpontaneousRecognition(0.1, (("sex", "age"),))
    mechanism = Mechanism({("sex", "age"): TransitionMatrix.identity(4)})
    with pytest.raises(PrivacyError, match=r"confidential frequencies.*model\.on"):
        certify(mechanism, [Claim(model)])
    tied = model.on([[911, 822], [733, 644]], ("sex", "age"))
    certificate = certify(mechanism, [Claim(tied)])
    text = json.dumps(certificate.to_dict()) + " ".join((*certificate.sentences, *certificate.not_covered))
    assert not any(count in text for count in ("911", "822", "733", "644", "3110"))
    assert "checked by the curator" in text
    assert "644" not in repr(tied)
    read = options.from_dict(MODELS, json.loads(json.dumps(options.to_dict(tied))), "certificate")
    assert read == model == tied
    assert read.types is None
    assert isinstance(tied, PrivacyModel)


def test_level_does_not_tell_of_the_file_where_the_claim_holds():
    model = SpontaneousRecognition(0.1, 1).on([40, 60])
    assert model.check([TransitionMatrix.identity(2)]).level == 0.1
    finding = SpontaneousRecognition(0.02, 1).on([40, 60]).check([TransitionMatrix.identity(2)])
    assert (finding.holds, finding.level, finding.where) == (False, 0.025, "keys key 0")


def test_tables_and_feasible_cells():
    table = ContingencyTable(("a", "b"), (2, 2), np.array([[5, 0], [7, 9]]))
    assert SpontaneousRecognition(0.2, 2).on(table).file.records == 21
    cells = [(0, 0), (1, 0), (1, 1)]
    types = KeyTypes.of_table(table, cells)
    model = SpontaneousRecognition(0.2, 2).on(types)
    assert model.largest([TransitionMatrix.identity(3)]).combination == (0, 0)
    with pytest.raises(PrivacyError, match="outside the feasible cells"):
        KeyTypes.of_table(table, cells[:2])


def test_a_type_without_records_is_protected_from_nothing():
    model = SpontaneousRecognition(0.1, 2).on([[20, 0], [30, 40]])
    law = np.eye(4, dtype=np.int64) * UNIT
    law[1] = [0, 0, 0, UNIT]
    assert model.check([TransitionMatrix(law)]).holds
    assert model.largest([TransitionMatrix(law)]).posterior == Fraction(1, 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha is not a probability"),
        ({"alpha": 1.0}, "alpha is not a probability"),
        ({"alpha": True}, "alpha is not a probability"),
        ({"alpha": 0.1, "subsets": 0}, "no members"),
        ({"alpha": 0.1, "subsets": "sex"}, "subsets is not a size or lists of key names"),
    ],
)
def test_options_are_checked(arguments, message):
    with pytest.raises(PrivacyError, match=message):
        SpontaneousRecognition(**arguments)


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        (3, r"larger than the number of keys; got 3; wanted 1\.\.2"),
        ((("sex", "agee"),), r"no key 'agee' \(did you mean 'age'\?\)"),
        ((("sex", "sex"),), "names one twice"),
        ((("sex", "age", "race"),), "no key 'race'"),
        ((), "no set of keys"),
    ],
)
def test_sets_are_checked_on_the_file(subsets, message):
    with pytest.raises(PrivacyError, match=message):
        SpontaneousRecognition(0.1, subsets).on([[30, 40], [50, 60]], ("sex", "age"))


@pytest.mark.parametrize(
    ("counts", "message"),
    [([[1.5, 20], [3, 4]], "not numbers of records"), ([[-1, 20], [3, 4]], "not numbers"), ([[0, 0]], "no records")],
)
def test_counts_are_checked(counts, message):
    with pytest.raises(PrivacyError, match=message):
        SpontaneousRecognition(0.1, 1).on(counts)


def test_types_and_matrices_must_fit():
    with pytest.raises(PrivacyError, match="listed twice"):
        KeyTypes(("a",), np.array([[0], [0]]), np.array([5, 6]))
    with pytest.raises(PrivacyError, match="types and counts differ in shape"):
        KeyTypes(("a",), np.array([[0], [1]]), np.array([5]))
    with pytest.raises(PrivacyError, match="distinct names"):
        KeyTypes(("a", "a"), np.array([[0, 0], [1, 0]]), np.array([5, 6]))
    model = SpontaneousRecognition(0.1, 1).on([[30, 40], [50, 60]])
    identity = TransitionMatrix.identity
    with pytest.raises(PrivacyError, match="does not fit the key types"):
        model.check([identity(3)])
    with pytest.raises(PrivacyError, match="do not divide the key variables"):
        model.check([identity(2), identity(3)])
    with pytest.raises(PrivacyError, match="does not fit"):
        model.constraints(5)


def test_together_is_the_conjunction():
    model = SpontaneousRecognition(0.1, 1).on([40, 60])
    law = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    for epsilon, holds in ((1.1, True), (1.0, False)):
        both = Together((model, DifferentialPrivacy(epsilon)))
        assert both.check([law]).holds == holds
        assert (both.constraints(2).excess(law.array) <= 0) == holds
    with pytest.raises(PrivacyError, match="not a privacy model"):
        Together((0.1,))
    with pytest.raises(PrivacyError, match="no privacy model"):
        Together(())


def small_law(rng, size):
    """Return weights of few bits, so that a product of laws is a law too."""
    parts = np.diff([0, *sorted(rng.integers(0, 2**8, size - 1)), 2**8])
    return np.stack([rng.permutation(parts) for _ in range(size)]).astype(np.int64)


def test_blocks_of_one_or_more_keys_give_the_posteriors_of_their_product():
    """By brute force on the joint matrix, for every size of sets, with every way to divide the keys in order."""
    rng, shape = np.random.default_rng(3), (2, 3, 2)
    sex, age, race = (small_law(rng, size) for size in shape)
    counts = np.array([5, 0, 7, 1, 30, 2, 0, 9, 4, 4, 8, 1])
    joint = np.kron(np.kron(sex, age), race)
    ways = [[sex, age, race], [np.kron(sex, age), race], [sex, np.kron(age, race)], [joint]]
    for size in (1, 2, 3):
        model = SpontaneousRecognition(0.02, size).on(counts.reshape(shape))
        wanted = brute_force(joint, counts, shape, size)
        assert wanted > model.limit
        for way in ways:
            laws = [TransitionMatrix(block * (UNIT // int(block[0].sum()))) for block in way]
            assert model.largest(laws).posterior == wanted
            assert model.largest(laws) == model.largest([TransitionMatrix(joint * (UNIT // int(joint[0].sum())))])
            found = model.check(laws)
            assert (found.holds, found.recomputable) == (False, False)
            assert Fraction(found.level) >= wanted > Fraction(np.nextafter(found.level, 0))
    identity = TransitionMatrix.identity
    for sizes in ((3, 2, 2), (2, 3), (2, 3, 2, 1, 2), (4, 3), (6, 3), (2, 2, 3), (2, 3, 4)):
        with pytest.raises(PrivacyError, match="do not divide the key variables"):
            model.check([identity(size) for size in sizes])
    turned = KeyTypes(("a", "b"), np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), counts[:4])
    with pytest.raises(PrivacyError, match="do not divide the key variables"):
        SpontaneousRecognition(0.1, 1).on(turned).check([identity(2), identity(2)])
    first = KeyTypes(("a", "b"), np.array([[0, 0], [0, 1], [1, 0]]), counts[-3:])
    with pytest.raises(PrivacyError, match="do not divide the key variables"):
        SpontaneousRecognition(0.1, 1).on(first).check([identity(2), identity(2)])
    some = SpontaneousRecognition(0.1, 1).on(
        KeyTypes(("a", "b"), np.array([[0, 0], [1, 0], [1, 1], [0, 2]]), counts[-4:])
    )
    for laws in ([identity(2), identity(2)], [identity(2), identity(3)]):
        with pytest.raises(PrivacyError, match="do not divide the key variables"):
            some.check(laws)


def test_the_rows_for_designers_are_the_conditions_of_rare_types():
    """CHR (1) written out: one row for each rare type and each value of a set of keys."""
    rng, shape, alpha = np.random.default_rng(4), (2, 3), 0.2
    counts, law = np.array([1, 4, 5, 0, 6, 30]), rng.dirichlet(np.ones(6), 6)
    model = SpontaneousRecognition(alpha, 1).on(counts.reshape(shape))
    assert model.rare_types().tolist() == [0, 1]  # 5 of 1/0.2 is not rare
    assert SpontaneousRecognition(0.3, 1).on([1, 3, 4, 9]).rare_types().tolist() == [0, 1]  # below 10/3
    assert "at most 34 are" in SpontaneousRecognition(0.33333, 1).promise(2)
    cells = [[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]]
    wanted = [law[m, cell].sum() - alpha * counts @ law[:, cell].sum(axis=1) for m in (0, 1) for cell in cells]
    found = model.constraints(6)
    np.testing.assert_allclose(np.sort(found.A @ law.ravel()), np.sort(wanted))
    assert not found.b.any()


def test_sums_over_many_records_are_exact():
    """Counts of 2^35 times weights of 2^53: beyond 64 bits."""
    counts = np.array([2**35, 3, 2**35 - 1], dtype=np.int64)
    mass = np.array([[UNIT, 0], [UNIT // 3, UNIT - UNIT // 3], [UNIT - 1, 1]], dtype=np.int64)
    mass = np.hstack([mass, np.full((3, 1), UNIT), np.full((3, 1), UNIT - 1)])
    wanted = [sum(int(u) * int(w) for u, w in zip(counts, column, strict=True)) for column in mass.T]
    assert recognition._exact_sum(counts, mass).tolist() == wanted
    assert recognition._exact_sum(counts, mass.astype(object)).tolist() == wanted
    assert recognition._float_upper(Fraction(1, 4)) == 0.25
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10)):
        assert (
            Fraction(recognition._float_upper(value))
            >= value
            > Fraction(np.nextafter(recognition._float_upper(value), 0))
        )


def test_a_file_of_one_over_alpha_records_is_large_enough():
    model = SpontaneousRecognition(0.3, 1)
    model.require(4)
    SpontaneousRecognition(0.25, 1).require(4)
    for wrong, alpha in ((3, 0.3), (3, 0.25)):
        with pytest.raises(PrivacyError, match=r"wanted n >= 4"):
            SpontaneousRecognition(alpha, 1).require(wrong)
    with pytest.raises(PrivacyError, match=r"model\.on"):
        _ = model.file


def test_a_part_of_the_file_and_a_claim_that_is_only_stated():
    file = KeyTypes(("a", "b"), np.array([[0, 0], [0, 1], [1, 1]]), np.array([5, 6, 7]), given=("b",))
    model = SpontaneousRecognition(0.9, 1).on(file)
    assert model.part(np.array([0, 2])).file.counts.tolist() == [5, 7]
    held = model.check([TransitionMatrix.identity(3)])
    assert (held.holds, held.level, held.figures, held.where) == (True, 0.9, {"given": ["b"]}, "keys a, b")
    stated = model.stated(("a", "b"), ("b",))
    assert (stated.holds, stated.recomputable, stated.figures) == (True, False, {"given": ["b"]})
    assert model.stated(("a", "b")).figures == {}
    with pytest.raises(PrivacyError, match="larger than the number of keys"):
        SpontaneousRecognition(0.9, 2).stated(("a", "b"), ("b",))
    assert "at most 90 are theirs" in model.promise(3)
    with pytest.raises(PrivacyError, match="no key 'c'"):
        SpontaneousRecognition(0.9, (("c",),), file)
