"""Anatomy releases: class sizes, nothing lost, links broken evenly, levels from independent formulas."""

import collections
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from postrand.anatomy import CLASS_COLUMN, anatomise, classes_by_proximity
from postrand.bistochastic import blocks
from postrand.errors import DataError, UsageError
from postrand.randomness import ReleaseKey

ALPHA = 1e-6
KEY = ReleaseKey.from_seed(5)


def people(n=60, seed=2):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(18, 90, n),
            "sex": pa.array(rng.choice(["f", "m"], n)).dictionary_encode(),
            "town": rng.choice(["x", "y", "z"], n),
            "illness": rng.choice(["a", "b", "c", "d"], n),
            "income": rng.normal(size=n),
        }
    )


def rows(table, names):
    return collections.Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


@given(st.integers(4, 90), st.integers(2, 7), st.integers(0, 99))
def test_classes_hold_at_least_k_and_both_tables_lose_nothing(n, k, seed):
    table = people(n, seed)
    if k > n:
        with pytest.raises(UsageError, match="k is larger"):
            anatomise(table, ["age"], k, KEY)
        return
    release = anatomise(table, ["age", "sex"], k, KEY)
    sizes = collections.Counter(release.keys[CLASS_COLUMN].to_pylist())
    assert sizes == collections.Counter(release.others[CLASS_COLUMN].to_pylist())
    assert k <= min(sizes.values()) == release.smallest_class
    assert max(sizes.values()) < 2 * k
    assert len(sizes) == release.classes
    for part, names in ((release.keys, ["age", "sex"]), (release.others, ["town", "illness", "income"])):
        assert rows(part, names) == rows(table, names)


def test_beta_is_that_of_the_block_matrix_over_distinct_combinations():
    release = anatomise(people(), ["age", "town"], 4, KEY)
    found = collections.defaultdict(set)
    for label, age, town in zip(*(release.keys[c].to_pylist() for c in (CLASS_COLUMN, "age", "town")), strict=True):
        found[label].add((age, town))
    matrix = blocks([len(combinations) for combinations in found.values()])
    assert release.beta == pytest.approx(matrix.beta, rel=1e-9)
    assert release.beta <= matrix.beta * (1 + 1e-12)
    assert release.bits == pytest.approx(matrix.entropy_rate / math.log(2), rel=1e-9)
    assert f"{release.smallest_class}-anonymity over {release.classes} classes" in release.sentence
    assert f"of {math.log2(matrix.size):.6g} bits" in release.sentence


def test_diversity_equals_brute_force():
    release = anatomise(people(), ["age"], 5, KEY)
    groups = collections.defaultdict(list)
    for label, illness in zip(*(release.others[c].to_pylist() for c in (CLASS_COLUMN, "illness")), strict=True):
        groups[label].append(illness)
    entropies = []
    for values in groups.values():
        shares = [count / len(values) for count in collections.Counter(values).values()]
        entropies.append(-sum(p * math.log(p) for p in shares))
    assert release.distinct_diversity["illness"] == min(len(set(v)) for v in groups.values())
    assert release.entropy_diversity["illness"] == pytest.approx(math.exp(min(entropies)))
    assert release.entropy_diversity["illness"] <= math.exp(min(entropies))


def test_near_records_share_a_class():
    rng = np.random.default_rng(4)
    centres = np.repeat(rng.permutation(8) * 10.0, 4)
    labels = classes_by_proximity((centres + rng.normal(scale=0.1, size=32))[:, None], 4)
    assert len(set(zip(centres, labels, strict=True))) == 8


@pytest.mark.statistical
def test_every_bijection_of_a_class_is_equally_likely():
    """Alpha 1e-6; 12,000 releases of a class of 3; tables left in record order give one bijection: 60,000."""
    table = pa.table({"key": [1, 2, 3], "value": ["a", "b", "c"]})
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(12_000):
        release = anatomise(table, ["key"], 3, ReleaseKey.from_seed(seed))
        link = dict(zip(release.keys["key"].to_pylist(), release.others["value"].to_pylist(), strict=True))
        seen[link[1] + link[2] + link[3]] += 1
    assert len(seen) == 6
    assert sum((count - 2000) ** 2 / 2000 for count in seen.values()) < chi2.isf(ALPHA, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 1}, "k is not a whole number of at least 2"),
        ({"k": 2.5}, "k is not a whole number of at least 2"),
        ({"k": 61}, "k is larger than the number of records"),
        ({"key_variables": ["agee"]}, "no column 'agee'"),
        ({"key_variables": []}, "both key variables and other variables"),
        ({"key_variables": ["age", "sex", "town", "illness", "income"]}, "both key variables and other variables"),
    ],
)
def test_bad_requests_are_refused(change, message):
    arguments = {"key_variables": ["age"], "k": 3, **change}
    with pytest.raises(UsageError, match=message):
        anatomise(people(), release_key=KEY, **arguments)


def test_bad_data_are_refused():
    table = pa.table({"a": [1.0, None, 3.0], "b": [1, 2, 3]})
    with pytest.raises(DataError, match="missing values"):
        anatomise(table, ["a"], 2, KEY)
    with pytest.raises(DataError, match="not finite"):
        anatomise(pa.table({"a": [1.0, math.inf, 3.0], "b": [1, 2, 3]}), ["a"], 2, KEY)
    with pytest.raises(UsageError, match="already named"):
        anatomise(table.append_column(CLASS_COLUMN, pa.array([1, 2, 3])), ["b"], 2, KEY)


@pytest.mark.parametrize(
    ("keys", "k", "error", "message"),
    [
        ("age", 2, UsageError, "a list of names"),
        (["age", "age"], 2, UsageError, "'age' is named twice"),
        (["age"], "2", UsageError, "k is not a whole number of at least 2; got '2'"),
        (["age"], float("nan"), UsageError, "k is not a whole number"),
        (["list"], 2, DataError, "no order"),
        (["age"], 5, UsageError, "k is larger than the number of records"),
    ],
)
def test_requests_of_the_wrong_kind_are_refused(keys, k, error, message):
    table = pa.table({"age": [1e308, -1e308, 2.0, 3.0], "list": [[1], [2], [3], [4]], "ill": list("abab")})
    with pytest.raises(error, match=message):
        anatomise(table, keys, k)


def test_the_widest_numbers_are_near_or_far_without_overflow():
    table = pa.table({"age": [1e308, -1e308, 0.9e308, -0.9e308], "ill": list("abcd")})
    release = anatomise(table, ["age"], 2, ReleaseKey.from_seed(1))
    ages = release.keys["age"].to_pylist()
    assert sorted(map(sorted, (ages[:2], ages[2:]))) == [[-1e308, -0.9e308], [0.9e308, 1e308]]
