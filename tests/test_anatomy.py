"""Anatomy releases: class sizes, nothing lost, links broken evenly, levels from independent formulas."""

import collections
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from postrand.columns.anatomy import CLASS_COLUMN, anatomise, classes_by_proximity, describe_tables
from postrand.columns.linkage import link_rates
from postrand.designers.bistochastic import blocks
from postrand.errors import DataError, UsageError
from postrand.support.randomness import ReleaseKey

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
    assert f"of {math.log2(matrix.size):.3g} bits" in release.sentence


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
    """Alpha 1e-6 (35.9); 6,000 releases of a class of 3; tables left in record order give one bijection: 30,000.

    A shuffle that swaps each place with any other (4/27 and 5/27 in place of 1/6) has noncentrality 6,000/81 = 74, and
    is found with probability 0.998.
    """
    table = pa.table({"key": [1, 2, 3], "value": ["a", "b", "c"]})
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(6_000):
        release = anatomise(table, ["key"], 3, ReleaseKey.from_seed(seed))
        link = dict(zip(release.keys["key"].to_pylist(), release.others["value"].to_pylist(), strict=True))
        seen[link[1] + link[2] + link[3]] += 1
    assert len(seen) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < chi2.isf(ALPHA, 5)


def linked(related, n=2_000):
    """A drawn file, an attack written anew (expectation and maximisation over classes), and the truth."""
    rng = np.random.default_rng(3)
    sex, age = rng.integers(0, 2, n), rng.integers(18, 80, n)
    ill = np.where(rng.random(n) < related, 2 * sex + (rng.random(n) < 0.5), rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]))
    table = pa.table({"age": age, "sex": np.array(["f", "m"])[sex], "ill": np.array(list("abcd"))[ill]})
    labels = classes_by_proximity(age[:, None] / 100.0, 4)
    return table, labels, sex, ill


def by_expectation_and_maximisation(labels, sex, ill):
    """Return the share guessed right: a common table, and each class's links by enumeration of who is female."""
    shares = np.full((2, 4), 0.25)
    members = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    for _ in range(15):
        counts, right = np.zeros((2, 4)), 0.0
        for own in members:
            values, women = ill[own], int((sex[own] == 0).sum())
            chosen = itertools.combinations(range(own.size), women)
            female = np.array([np.isin(np.arange(own.size), c) for c in chosen])
            likely = np.where(female, shares[0, values], shares[1, values]).prod(axis=1)
            p = likely @ female / likely.sum()
            found = np.array([np.bincount(values, p, 4), np.bincount(values, 1 - p, 4)])
            counts += found
            right += (found.argmax(axis=1)[sex[own]] == values).sum()
        shares = counts / counts.sum(axis=1, keepdims=True)
    return right / ill.size


def test_classes_tell_about_one_another_and_the_release_says_so():
    """Reproduces: who learns from all classes links far better than who thinks a class's links equally likely."""
    table, labels, sex, ill = linked(0.8)
    plain = sum(np.bincount(ill[labels == c]).max() for c in range(labels.max() + 1)) / ill.size
    learnt = by_expectation_and_maximisation(labels, sex, ill)
    assert learnt > plain + 0.1
    found = link_rates(labels, sex.astype(float), labels, ill)
    assert found is not None
    assert found[0] == pytest.approx(plain)
    assert plain + 0.1 < found[1] < learnt + 0.02
    unrelated = linked(0.0)[1:]
    nothing = link_rates(unrelated[0], unrelated[1].astype(float), unrelated[0], unrelated[2])
    assert nothing is not None
    assert nothing[1] - nothing[0] < 0.02
    release = anatomise(table, ["age", "sex"], 4, KEY)
    rates = release.link_rates["ill"]
    assert list(rates) == sorted(rates)
    again = describe_tables(release.keys, release.others.slice(0))
    assert again.link_rates == release.link_rates
    assert link_rates(labels % 30, sex * 1.0, labels % 30, ill) is None  # too few classes to learn from


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
