"""The joint model of a release: what every fit and every copy keeps, whatever the data."""

import itertools
import time

import numpy as np
import pytest

from postrand.mixture import Draw, Evidence, Law, Settings, fit
from postrand.mixture.drawing import complete
from postrand.mixture.packing import disjoint, pack
from postrand.support.progress import Stage, listening

SIZES = (2, 3, 3)
FEW = Settings(8, 2, 60)
CELLS = np.array(list(itertools.product(*(range(s) for s in SIZES))))
RULES = np.ones((2, 3, 3), bool)
RULES[0, 0], RULES[0, 1] = [True, False, False], [False, False, True]  # 0 with 2 is impossible
RULES[1, 1], RULES[1, 2] = [True, False, True], [True, True, False]  # and 0 or 2 with 0 or 1: they overlap
FORBIDDEN = np.array([any(all(r[j, c[j]] for j in range(3)) for r in RULES) for c in CELLS])


def randomised(variables, sizes, keep):
    """Return randomised response on all combinations."""
    cells = np.array(list(itertools.product(*(range(s) for s in sizes))), np.int32)
    return Law(variables, cells, keep, np.full(len(cells), (1 - keep) / len(cells)))


def evidence(n=60, seed=0, rules=RULES[:0], laws=None, exact=True):
    """Return records seen through a block of two and one of one; the first ten of the third variable are known."""
    rng = np.random.default_rng(seed)
    laws = (randomised((0, 1), (2, 3), 0.7), randomised((2,), (3,), 0.6)) if laws is None else laws
    possible = CELLS[~FORBIDDEN] if len(rules) else CELLS
    x = possible[
        rng.choice(len(possible), n, p=np.arange(1, len(possible) + 1) / np.arange(1, len(possible) + 1).sum())
    ]
    known = np.full((n, 3), -1, np.int32)
    known[:10, 2] = x[:10, 2] if exact else -1
    many = np.where(known[:, 2] >= 0, 1, 2)
    law, released = [], []
    for i in range(n):
        for number in range(many[i]):
            cell = x[i, 0] * 3 + x[i, 1] if number == 0 else x[i, 2]
            size = 6 if number == 0 else 3
            law.append(number)
            released.append(cell if rng.random() < 0.6 else rng.integers(size))
    start = np.concatenate([[0], np.cumsum(many)])
    return Evidence(
        ("a", "b", "c"), SIZES, known, start, np.array(law, np.int32), np.array(released, np.int32), laws, rules
    )


def blank(n, sizes=SIZES):
    none = np.zeros(0, np.int32)
    return Evidence(
        ("a", "b", "c"), sizes, np.full((n, 3), -1, np.int32), np.zeros(n + 1, np.int64), none, none, (), RULES[:0]
    )


def same(one, other):
    return all(
        np.array_equal(a.weights, b.weights) and all(map(np.array_equal, a.theta, b.theta))
        for a, b in zip(one.draws, other.draws, strict=True)
    )


def test_a_seed_gives_the_same_fit_and_copies_in_any_order():
    one, other = fit(evidence(), 4, 5, FEW), fit(evidence(), 4, 5, FEW)
    assert same(one, other)
    assert np.array_equal(one.traces, other.traces)
    last = one.copy(3)
    assert np.array_equal(other.copy(0), one.copy(0))
    assert np.array_equal(other.copy(3), last)
    assert not np.array_equal(one.copy(0), last)
    assert not same(one, fit(evidence(), 4, 6, FEW))


def test_a_chain_does_not_depend_on_the_others():
    alone, both = fit(evidence(), 1, 5, Settings(8, 1, 60)), fit(evidence(), 2, 5, FEW)
    assert np.array_equal(alone.draws[0].weights, both.draws[0].weights)


def test_the_order_of_records_is_nothing_to_the_model():
    first = evidence(exact=False)
    turned = np.random.default_rng(1).permutation(first.records)
    at = (2 * turned[:, None] + np.arange(2)).ravel()
    second = Evidence(
        first.names, SIZES, first.exact[turned], first.start, first.law[at], first.released[at], first.laws, first.rules
    )
    assert same(fit(first, 2, 3, FEW), fit(second, 2, 3, FEW))


def test_groups_are_the_distinct_records():
    some = evidence(400)
    packed, group = pack(some)
    parts = [slice(*some.start[i : i + 2]) for i in range(some.records)]
    seen = [(*some.exact[i], *some.law[p], *some.released[p]) for i, p in enumerate(parts)]
    assert packed.counts.sum() == some.records
    assert len(packed.counts) == len(set(seen))
    assert len(set(zip(seen, group, strict=True))) == len(set(seen))
    assert np.array_equal(packed.counts, np.bincount(group))


def test_what_is_known_stays_and_no_copy_breaks_a_rule():
    some = evidence(200, rules=RULES)
    result = fit(some, 3, 1, FEW)
    for number in range(3):
        x = result.copy(number)
        assert (x[some.exact >= 0] == some.exact[some.exact >= 0]).all()
        assert not FORBIDDEN[np.ravel_multi_index(tuple(x.T), SIZES)].any()
        assert ((x >= 0) & (x < SIZES)).all()


def test_records_that_the_model_hardly_allows_keep_the_rules():
    """A draw whose only class gives the impossible: attempts fail, and what is not known is changed."""
    some = evidence(50, rules=RULES, exact=False)
    result = fit(some, 2, 1, FEW)
    tiny = 1e-30
    theta = (np.array([[1, tiny]]), np.array([[tiny, tiny, 1]]), np.array([[1, tiny, tiny]]))
    draw = Draw(np.ones(1), theta, result.draws[0].impossible)
    x = complete(some, draw, (0, 0))
    assert not FORBIDDEN[np.ravel_multi_index(tuple(x.T), SIZES)].any()


def test_a_matrix_is_the_law_that_it_writes():
    laws = evidence().laws
    matrices = tuple(
        Law(one.variables, one.cells, 0.0, 0 * one.noise, one.keep * np.eye(len(one.cells)) + one.noise) for one in laws
    )
    one, other = fit(evidence(), 2, 2, FEW), fit(evidence(laws=matrices), 2, 2, FEW)
    assert np.allclose(one.draws[1].weights, other.draws[1].weights, atol=1e-6)
    assert np.array_equal(one.copy(1), other.copy(1))


def test_laws_of_some_cells_only():
    """Cells that are not listed cannot occur; a general matrix on them has several sources for what it releases."""
    cells = np.array([[0, 0], [0, 1], [1, 1], [1, 2]], np.int32)
    matrix = np.random.default_rng(0).dirichlet(np.ones(5), 4)
    law = Law((0, 1), cells, 0.0, np.zeros(5), matrix)
    n = 300
    true = np.random.default_rng(1).integers(0, 4, n)
    released = np.array([np.random.default_rng(i).choice(5, p=matrix[t]) for i, t in enumerate(true)], np.int32)
    some = Evidence(
        ("a", "b", "c"),
        SIZES,
        np.full((n, 3), -1, np.int32),
        np.arange(n + 1),
        np.zeros(n, np.int32),
        released,
        (law,),
        RULES[:0],
    )
    x = fit(some, 2, 0, FEW).copy(1)
    assert {tuple(row) for row in x[:, :2]} <= {tuple(c) for c in cells}


@pytest.mark.parametrize("n", [1, 40])
def test_nothing_released_and_one_record(n):
    assert fit(blank(n), 2, 0, FEW).copy(0).shape == (n, 3)
    one = evidence(n)
    assert fit(one, 2, 0, FEW).copy(0).shape == (n, 3)


def test_a_law_that_says_nothing_gives_the_prior():
    """No class ever has a record, as if all were blank."""
    laws = (randomised((0, 1), (2, 3), 0.0), randomised((2,), (3,), 0.0))
    assert (fit(evidence(laws=laws, exact=False), 2, 0, FEW).occupied == 0).all()


def test_rules_become_disjoint_sets_with_the_same_union():
    boxes = disjoint(RULES, SIZES)
    edges = np.cumsum([0, *SIZES])
    inside = np.array([[all(box[edges[j] + c[j]] for j in range(3)) for box in boxes] for c in CELLS])
    assert (inside.sum(axis=1) == FORBIDDEN).all()


def test_the_table_of_a_draw_is_that_of_possible_records():
    rng = np.random.default_rng(0)
    draw = Draw(rng.dirichlet(np.ones(4)), tuple(rng.dirichlet(np.ones(s), 4) for s in SIZES), disjoint(RULES, SIZES))
    whole = np.einsum("k,ka,kb,kc->abc", draw.weights, *draw.theta)
    whole[tuple(CELLS[FORBIDDEN].T)] = 0
    whole /= whole.sum()
    assert np.allclose(draw.table((0, 1, 2)), whole)
    assert np.allclose(draw.table((2, 0)), whole.sum(axis=1).T)
    assert np.allclose(draw.table((1,)), whole.sum(axis=(0, 2)))


def test_traces_are_tables_of_the_model():
    """The last sweep of each chain is its last draw."""
    result = fit(evidence(200, rules=RULES), 2, 1, FEW)
    for chain in range(2):
        row = dict(zip(result.traced, result.traces[chain, -1], strict=True))
        assert row["b[1]"] == pytest.approx(result.draws[chain].table((1,))[1], abs=1e-5)
        pair = next(name for name in result.traced if name.startswith("a[1] b"))
        assert row[pair] == pytest.approx(result.draws[chain].table((0, 1))[1, int(pair[-2])], abs=1e-5)


def test_the_truncation_widens_where_it_is_reached():
    """Records of many kinds, known exactly: 32 classes are not enough."""
    rng = np.random.default_rng(0)
    n, kinds = 900, 300
    profile = np.stack([rng.integers(0, 4, 8) for _ in range(kinds)])
    x = profile[rng.integers(0, kinds, n)]
    none = np.zeros(0, np.int32)
    some = Evidence(
        tuple("abcdefgh"),
        (4,) * 8,
        x.astype(np.int32),
        np.zeros(n + 1, np.int64),
        none,
        none,
        (),
        np.zeros((0, 8, 4), bool),
    )
    result = fit(some, 2, 0, Settings(0, 1, 150))
    assert len(result.draws[0].weights) > 32
    assert len(fit(some, 2, 0, Settings(16, 1, 60)).draws[0].weights) == 16


def test_progress_is_told_and_an_interruption_ends_the_chains():
    steps, started = [], time.monotonic()

    def listener(step):
        steps.append(step)
        if step.stage == Stage.FITTING and step.done:
            raise KeyboardInterrupt

    with listening(listener), pytest.raises(KeyboardInterrupt):
        fit(evidence(2000), 2, 0, Settings(32, 2, 1_000_000))
    assert steps[-1].total == 2_000_000
    assert 0 < steps[-1].done < 100_000
    assert time.monotonic() - started < 30
