"""The unbiased estimator against brute force: Kronecker products, and expectations over every possible release."""

import functools
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, EstimationError, PostrandError, SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix

SEX = Variable("sex", role="key", categories=("F", "M"))
AGE = Variable("age", role="key", categories=("young", "middle", "old"))
REGION = Variable("region", role="other", categories=("N", "E", "S", "W"))
HEALTH = Variable("health", role="sensitive", categories=("good", "bad"), missing="keep")
BOOK = Codebook(
    (
        SEX,
        AGE,
        REGION,
        HEALTH,
        Variable("w", role="weight", type="double"),
        Variable("age2", role="other", categories=(1, 2), type="int64"),
    )
)
M2 = TransitionMatrix.from_array([[0.8, 0.2], [0.3, 0.7]])
M3 = TransitionMatrix.from_array([[0.7, 0.1, 0.2], [0.15, 0.8, 0.05], [0.1, 0.2, 0.7]])


def random_matrix(rng, size):
    rows = rng.dirichlet(np.ones(size), size) * 0.5 + np.eye(size) * 0.5
    return TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True))


def released_frame(rng, n=400):
    data = {v.name: rng.choice(v.categories, n) for v in (SEX, AGE, REGION, HEALTH)}
    return pa.table(data | {"w": rng.uniform(0.5, 3, n), "age2": rng.choice([1, 2], n)})


def kronecker(matrices):
    """(Mᵀ)^-1 of the whole table, built the way that the package never does."""
    return functools.reduce(np.kron, [np.linalg.inv(matrix).T for matrix in matrices])


def influence(frame_codes, inverse, weights, shape):
    """Rows w_i (B e_i - π^) / Σw, and π^, record by record."""
    cells = np.ravel_multi_index(tuple(frame_codes), shape)
    rows = inverse[:, cells].T
    value = weights @ rows / weights.sum()
    return weights[:, None] * (rows - value) / weights.sum(), value


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_table_equals_the_kronecker_product(seed, sizes):
    rng = np.random.default_rng(seed)
    perturbed = rng.random(len(sizes)) < 0.7
    matrices = [random_matrix(rng, s) if p else None for s, p in zip(sizes, perturbed, strict=True)]
    counts = rng.integers(0, 50, sizes).astype(float)
    counts.flat[0] += 2
    found = estimate.from_tally(estimate.from_counts(counts, matrices))
    inverse = kronecker([np.eye(s) if m is None else m.array for s, m in zip(sizes, matrices, strict=True)])
    n = counts.sum()
    flat = counts.ravel() / n
    value = inverse @ flat
    total = (inverse @ np.diag(flat) @ inverse.T - np.outer(value, value)) / (n - 1)
    noise = (inverse @ np.diag(flat) @ inverse.T - np.diag(value)) / n
    np.testing.assert_allclose(found.value.ravel(), value, atol=1e-12)
    np.testing.assert_allclose(found.covariance, total, atol=1e-12)
    np.testing.assert_allclose(found.perturbation, noise, atol=1e-12)
    np.testing.assert_allclose(found.sampling, total - noise, atol=1e-12)
    np.testing.assert_allclose(found.standard_error.ravel() ** 2, np.maximum(np.diag(total), 0), atol=1e-12)


def test_value_and_perturbation_covariance_are_exactly_unbiased_over_every_release():
    true = np.array([0, 0, 1, 2])
    matrix = M3.array
    values, covariances, squares = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    for released in itertools.product(range(3), repeat=len(true)):
        probability = np.prod(matrix[true, released])
        found = estimate.from_tally(estimate.from_counts(np.bincount(released, minlength=3), [M3])).counts()
        values += probability * found.value
        squares += probability * np.outer(found.value, found.value)
        covariances += probability * found.perturbation
    np.testing.assert_allclose(values, [2, 1, 1], atol=1e-12)
    np.testing.assert_allclose(covariances, squares - np.outer(values, values), atol=1e-12)


def test_total_covariance_is_exactly_unbiased_over_every_sample_and_release():
    prior = np.array([0.5, 0.3, 0.2])
    law = prior @ M3.array
    n = 3
    mean, covariance, second = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    for released in itertools.product(range(3), repeat=n):
        probability = np.prod(law[list(released)])
        found = estimate.from_tally(estimate.from_counts(np.bincount(released, minlength=3), [M3]))
        mean += probability * found.value
        second += probability * np.outer(found.value, found.value)
        covariance += probability * found.covariance
    np.testing.assert_allclose(mean, prior, atol=1e-12)
    np.testing.assert_allclose(covariance, second - np.outer(mean, mean), atol=1e-12)


def test_joint_blocks_project_and_tables_keep_the_callers_order():
    rng = np.random.default_rng(1)
    frame = released_frame(rng)
    joint = random_matrix(rng, 6)
    mechanism = Mechanism({("age", "sex"): joint, "health": M2}, BOOK)
    found = estimate.table(frame, ["region", "sex"], mechanism)
    codes = [np.array([v.categories.index(x) for x in frame[v.name].to_pylist()]) for v in (REGION, AGE, SEX)]
    inverse = np.kron(np.eye(4), np.linalg.inv(joint.array).T)
    project = np.zeros((8, 24))
    for r, a, s in itertools.product(range(4), range(3), range(2)):
        project[r * 2 + s, (r * 3 + a) * 2 + s] = 1
    rows, value = influence(codes, project @ inverse, np.ones(len(frame)), (4, 3, 2))
    n = len(frame)
    np.testing.assert_allclose(found.value.ravel(), value, atol=1e-12)
    np.testing.assert_allclose(found.covariance, n / (n - 1) * rows.T @ rows, atol=1e-14)
    turned = estimate.table(frame, ["sex", "region"], mechanism)
    np.testing.assert_allclose(turned.value, found.value.T, atol=1e-15)
    np.testing.assert_allclose(turned.standard_error, found.standard_error.T, atol=1e-15)
    np.testing.assert_allclose(
        turned.covariance.reshape(2, 4, 2, 4), found.covariance.reshape(4, 2, 4, 2).transpose(1, 0, 3, 2)
    )
    both = estimate.table(frame, ["sex", "region", "age"], mechanism)
    for names in (["sex"], ["age", "region"], ["region", "sex"], ["age", "sex", "region"]):
        direct, margin = estimate.table(frame, names, mechanism), both.margin(names)
        np.testing.assert_allclose(margin.value, direct.value, atol=1e-12)
        np.testing.assert_allclose(margin.covariance, direct.covariance, atol=1e-14)
        np.testing.assert_allclose(margin.perturbation, direct.perturbation, atol=1e-14)


def test_feasible_cells_only():
    cells = ((0, 0), (0, 2), (1, 1))
    mechanism = Mechanism([Block(("sex", "age"), M3, cells)], BOOK)
    frame = pa.table({"sex": ["F", "F", "M", "M", "F"], "age": ["young", "old", "middle", "middle", "young"]})
    found = estimate.table(frame, ["sex", "age"], mechanism)
    expected = np.zeros((2, 3))
    for cell, value in zip(cells, np.linalg.inv(M3.array).T @ [0.4, 0.2, 0.4], strict=True):
        expected[cell] = value
    np.testing.assert_allclose(found.value, expected, atol=1e-12)
    assert (found.standard_error[expected == 0] == 0).all()
    with pytest.raises(DataError, match="combination that the block never releases"):
        estimate.table(frame.slice(0, 1).append_column("x", [[1]]).set_column(0, "sex", [["M"]]), ["sex"], mechanism)


def test_weights_and_strata_against_records_one_by_one():
    rng = np.random.default_rng(2)
    frame = released_frame(rng)
    mechanism = Mechanism({"sex": M2, "age": M3}, BOOK)
    codes = [np.array([v.categories.index(x) for x in frame[v.name].to_pylist()]) for v in (SEX, AGE)]
    weights, n = frame["w"].to_numpy(), len(frame)
    inverse = kronecker([M2.array, M3.array])
    rows, value = influence(codes, inverse, weights, (2, 3))
    found = estimate.table(frame, ["sex", "age"], mechanism, weights="w")
    np.testing.assert_allclose(found.value.ravel(), value, atol=1e-12)
    np.testing.assert_allclose(found.covariance, n / (n - 1) * rows.T @ rows, atol=1e-14)
    strata = np.array(frame["region"].to_pylist())
    expected = np.zeros((6, 6))
    for h in np.unique(strata):
        part = rows[strata == h]
        centred = part - part.mean(axis=0)
        expected += len(part) / (len(part) - 1) * centred.T @ centred
    by_stratum = estimate.table(frame, ["sex", "age"], mechanism, weights="w", strata="region")
    np.testing.assert_allclose(by_stratum.covariance, expected, atol=1e-14)
    np.testing.assert_allclose(by_stratum.standard_error.ravel() ** 2, np.diag(expected), atol=1e-14)
    np.testing.assert_allclose(by_stratum.value, found.value, atol=1e-14)


def test_kept_missing_values_are_left_out_and_counted():
    mechanism = Mechanism({"health": M2}, BOOK)
    frame = pa.table({"health": ["good", None, "bad", "good", None], "sex": ["F", "F", "M", "M", "F"]})
    found = estimate.proportions(frame, "health", mechanism)
    assert (found.records, found.dropped) == (3, 2)
    np.testing.assert_allclose(found.value, np.linalg.inv(M2.array).T @ [2 / 3, 1 / 3])
    assert "2 left out" in str(found)
    assert estimate.proportions(frame, "sex", mechanism).dropped == 0


def test_unperturbed_variables_are_plain_proportions():
    rng = np.random.default_rng(3)
    frame = released_frame(rng)
    found = estimate.proportions(frame, "age2", Mechanism({"sex": M2}, BOOK))
    share = np.mean(frame["age2"].to_numpy() == 1)
    np.testing.assert_allclose(found.value, [share, 1 - share])
    np.testing.assert_allclose(found.standard_error, np.sqrt(share * (1 - share) / (len(frame) - 1)))
    assert (found.perturbation == 0).all()
    assert found.effective_sample_size == pytest.approx(len(frame))


def test_negative_estimates_are_not_clipped():
    found = estimate.from_tally(estimate.from_counts(np.array([0.0, 10.0]), [M2]))
    assert found.value[0] < 0 < 1 < found.value[1]
    assert found.value.sum() == pytest.approx(1)


def test_effective_sample_size_is_the_size_that_gives_the_same_variance():
    found = estimate.from_tally(estimate.from_counts(np.array([600.0, 400.0]), [M2]))
    p = found.value[0]
    assert found.effective_sample_size == pytest.approx(p * (1 - p) / found.standard_error[0] ** 2, rel=1e-2)


def test_what_an_estimate_prints_and_exports():
    rng = np.random.default_rng(4)
    found = estimate.table(released_frame(rng), ["sex", "age"], Mechanism({"sex": M2}, BOOK))
    text = str(found)
    assert text.splitlines()[0].split() == ["sex", "age", "estimate", "std.", "error", "[95%", "interval]"]
    assert "perturbation of sex" in text
    assert "\nShares, unbiased (can be below 0 or above 1); 400 records; " in text
    rows = found.to_arrow()
    assert rows.column_names == ["sex", "age", "estimate", "standard_error", "lower", "upper"]
    assert rows.slice(4, 1).to_pylist()[0]["sex"] == "M"
    np.testing.assert_allclose(rows["estimate"].to_numpy(), found.value.ravel())
    assert found.to_dict()["labels"] == [["F", "M"], ["young", "middle", "old"]]
    low, high = found.interval(0.9)
    np.testing.assert_allclose((high - low) / 2, 1.6448536269514722 * found.standard_error, rtol=5e-3)
    assert found.to_dict()["warnings"] == []
    assert found.counts().value.sum() == pytest.approx(found.records)
    np.testing.assert_allclose(found.counts().interval()[1], found.records * found.interval()[1])
    np.testing.assert_allclose(
        found.counts().margin(["age"]).standard_error, found.records * found.margin(["age"]).standard_error
    )


def test_large_tables_have_standard_errors_but_no_full_covariance():
    counts = np.ones((70, 70))
    found = estimate.from_tally(estimate.from_counts(counts, [random_matrix(np.random.default_rng(5), 70), None]))
    assert found.standard_error.shape == (70, 70)
    with pytest.raises(EstimationError, match="full covariance"):
        _ = found.covariance
    assert found.margin(["v0"]).covariance.shape == (70, 70)
    assert "4,860 more cells" in str(found)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda f, m: estimate.table(f, [], m), UsageError, "name each variable"),
        (lambda f, m: estimate.table(f, ["sex", "sex"], m), UsageError, "name each variable"),
        (lambda f, m: estimate.table(f, "sex", m), UsageError, "name each variable"),
        (lambda f, m: estimate.proportions(f, "agee", m), DataError, "did you mean 'age'"),
        (lambda f, m: estimate.proportions(f.drop_columns("sex"), "sex", m), DataError, "no column 'sex'"),
        (lambda f, m: estimate.proportions(f, "sex", m, weights="ww"), DataError, "no column 'ww'"),
        (lambda f, m: estimate.proportions(f, "sex", m, weights="region"), DataError, "not numbers"),
        (
            lambda f, m: estimate.proportions(f.set_column(0, "sex", [["X"] * len(f)]), "sex", m),
            DataError,
            "not in the codebook",
        ),
        (lambda f, m: estimate.proportions(f.slice(0, 0), "sex", m), DataError, "no record"),
        (lambda f, m: estimate.proportions(f.slice(0, 1), "sex", m).covariance, EstimationError, "single record"),
        (lambda f, m: estimate.proportions(f, "age", m), EstimationError, "identified"),
        (lambda f, m: estimate.proportions(f, "sex", m).interval(95), UsageError, "not a probability"),
        (lambda f, m: estimate.proportions(f, "sex", m).margin(["age"]), UsageError, "not variables of the table"),
    ],
)
def test_bad_input_gets_a_clear_error(call, kind, message):
    frame = released_frame(np.random.default_rng(6), 30)
    singular = TransitionMatrix.from_array(np.full((3, 3), 1 / 3))
    with pytest.raises(kind, match=message):
        call(frame, Mechanism({"sex": M2, "age": singular}, BOOK))


def test_bad_weights_and_counts():
    frame = pa.table({"sex": ["F", "M"], "w": [1.0, -1.0]})
    with pytest.raises(DataError, match="not negative"):
        estimate.proportions(frame, "sex", Mechanism({"sex": M2}, BOOK), weights="w")
    with pytest.raises(DataError, match="not negative"):
        estimate.from_counts([1.0, -2.0], [M2])
    with pytest.raises(UsageError, match="differ in number"):
        estimate.from_counts([1.0, 2.0], [M2, M2])
    with pytest.raises(SpecificationError, match="does not fit"):
        estimate.from_counts([1.0, 2.0], [M3])


def test_a_table_too_large_is_refused_before_counting():
    variables = [Variable(f"v{i}", role="key", categories=tuple(range(100)), type="int64") for i in range(4)]
    frame = pa.table({v.name: [1, 2] for v in variables})
    mechanism = Mechanism({"v0": random_matrix(np.random.default_rng(7), 100)}, Codebook(tuple(variables)))
    with pytest.raises(PostrandError, match="100000000 cells"):
        estimate.table(frame, [v.name for v in variables], mechanism)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_every_kind_describe_themselves(kind):
    rng = np.random.default_rng(8)
    released = pa.DictionaryArray.from_arrays(rng.integers(0, 2, 200), ["M", "F"])
    table = pa.table({"sex": released, "ok": rng.random(200) < 0.3})
    if kind == "pandas":
        frame = table.to_pandas()
    elif kind == "polars":
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"sex": table["sex"].to_pylist(), "ok": table["ok"].to_pylist()})
        frame = frame.with_columns(sex=frame["sex"].cast(polars.Enum(["M", "F"])))
    else:
        frame = table
    found = estimate.table(frame, ["sex", "ok"], Mechanism({"sex": M2}))
    assert found.labels == (("M", "F"), ("False", "True"))
    counts = np.zeros((2, 2))
    np.add.at(counts, (np.array(released.indices), np.array(table["ok"]).astype(int)), 1)
    np.testing.assert_allclose(found.value, np.linalg.inv(M2.array).T @ counts / 200, atol=1e-12)
