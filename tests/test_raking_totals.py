"""Totals: every copy meets them exactly, says what it costs, and refuses what cannot be."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.completion import complete
from postrand.completion.raking import Target
from postrand.completion.totals import Totals, largest_remainder
from postrand.completion.totals_moves import components, meet
from postrand.engines.frame import perturb
from postrand.errors import EstimationError, UsageError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mixture import Draw, Evidence, Law
from postrand.release.completed_files import given_totals, totals_of
from postrand.support.randomness import ReleaseKey

SIZES = {"sex": 2, "age": 3, "area": 3}
BOOK = Codebook(tuple(Variable(n, "key", tuple(f"{n}{k}" for k in range(s))) for n, s in SIZES.items()))


def truth(n, rng):
    sex = rng.integers(2, size=n)
    age = (rng.random(n)[:, None] > np.array([[0.5, 0.8], [0.2, 0.5]])[sex]).sum(axis=1)
    area = np.where(rng.random(n) < 0.6, age, rng.choice(3, size=n, p=[0.6, 0.3, 0.1]))
    return np.stack([sex, age, area], axis=1)


def frame_of(codes):
    return pa.table({n: [f"{n}{k}" for k in codes[:, j]] for j, n in enumerate(SIZES)})


def split_law(epsilon=4.0):
    pairs = list(itertools.combinations(SIZES, 2))
    blocks = [Block(p, randomised_response(int(np.prod([SIZES[n] for n in p])), epsilon)) for p in pairs]
    return Mechanism([], BOOK, split=Split.of(np.full(3, 1 / 3), blocks))


def table_of(codes, places):
    out = np.zeros([list(SIZES.values())[p] for p in places])
    np.add.at(out, tuple(codes[:, p] for p in places), 1)
    return out


def mapping(codes, *names):
    places = [list(SIZES).index(n) for n in names]
    table = table_of(codes, places)
    return {
        tuple(f"{n}{k}" for n, k in zip(names, at, strict=True)): float(table[at]) for at in np.ndindex(table.shape)
    }


@pytest.fixture(scope="module")
def released():
    true = truth(1_200, np.random.default_rng(1))
    law = split_law()
    return true, law, perturb(frame_of(true), law, ReleaseKey.from_seed(2))


def test_every_copy_meets_tables_that_overlap_and_says_what_it_costs(released):
    true, law, shown = released
    totals = {("sex", "age"): mapping(true, "sex", "age"), ("age", "area"): mapping(true, "age", "area")}
    done = complete(shown, law, copies=4, seed=3, sweeps=60, totals=totals)
    for number in range(4):
        codes = done.codes(number)
        np.testing.assert_array_equal(table_of(codes, (0, 1)), table_of(true, (0, 1)))
        np.testing.assert_array_equal(table_of(codes, (1, 2)), table_of(true, (1, 2)))
    np.testing.assert_array_equal(done.codes(1), done.codes(1))
    spent = done.diagnostics.totals
    assert 0 < spent.moved < 0.3
    assert spent.compatible
    assert "meets the totals exactly" in str(done.diagnostics)
    assert done.diagnostics.to_dict()["totals"]["share_moved"] == pytest.approx(spent.moved, abs=1e-6)


def test_totals_of_other_records_are_met_and_warned_of(released):
    _, law, shown = released
    far = {"sex": {"sex0": 900, "sex1": 300}}
    done = complete(shown, law, copies=8, seed=3, sweeps=60, totals=far)
    assert table_of(done.codes(2), (0,)).tolist() == [900, 300]
    assert not done.diagnostics.totals.compatible
    assert any("may be of other records" in text for text in done.diagnostics.warnings)


def test_shares_and_a_file_of_totals(released, tmp_path):
    _, law, shown = released
    path = tmp_path / "totals.csv"
    path.write_text(
        "variable,category,total\nsex,sex0,0.5004\nsex,sex1,0.4996\narea,area0,720\narea,area1,360\narea,area2,120\n"
    )
    done = complete(shown, law, copies=2, seed=3, sweeps=40, totals=path)
    assert table_of(done.codes(0), (0,)).tolist() == [600, 600]
    assert table_of(done.codes(1), (2,)).tolist() == [720, 360, 120]
    assert "rounded to whole records" in str(done.diagnostics)


def test_whole_numbers_by_largest_remainder():
    """Against all whole tables of the same sum: none is nearer."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        values = rng.dirichlet(np.ones(3)) * 7
        found = largest_remainder(values)
        every = [c for c in itertools.product(range(8), repeat=3) if sum(c) == 7]
        assert np.abs(found - values).sum() == pytest.approx(min(np.abs(np.array(c) - values).sum() for c in every))


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ({"sexx": {"sex0": 600, "sex1": 600}}, "not variables of the model"),
        ({"sex": {"sex0": 600, "other": 600}}, "not a category"),
        ({"sex": {"sex0": 1200}}, "every category needs a total"),
        ({"sex": {"sex0": 600, "sex1": -1}}, "every category needs a total"),
        ({"sex": {"sex0": 600, "sex1": 601}}, "not totals of this file"),
        ({"sex": {"sex0": 600.5, "sex1": 599.5}}, "not totals of this file"),
        ({}, "there are no totals"),
        ([1, 2], "not a mapping"),
    ],
)
def test_totals_that_are_not_valid_are_refused(released, totals, said):
    _, law, shown = released
    with pytest.raises(UsageError, match=said):
        complete(shown, law, copies=2, seed=1, sweeps=10, totals=totals)


def test_totals_that_contradict_each_other_are_refused(released):
    true, law, shown = released
    totals = {"sex": {"sex0": 1, "sex1": 1199}, ("sex", "area"): mapping(true, "sex", "area")}
    with pytest.raises(UsageError, match="contradict each other on sex"):
        complete(shown, law, copies=2, seed=1, sweeps=10, totals=totals)


def test_totals_against_clear_columns_rules_and_weights_are_refused():
    rng = np.random.default_rng(5)
    true = truth(300, rng)
    law = Mechanism({"sex": randomised_response(2, 1.0)}, BOOK)
    shown = perturb(frame_of(true), law, ReleaseKey.from_seed(2))
    wrong = {"area": {"area0": 100, "area1": 100, "area2": 100}}
    with pytest.raises(UsageError, match=r"totals of area: the totals differ from the file's own.*leave these totals"):
        complete(shown, law, copies=2, seed=1, totals=wrong)
    with pytest.raises(UsageError, match=r"relate sex to area, released unchanged.*give the totals of sex alone"):
        complete(shown, law, copies=2, seed=1, sweeps=10, totals={("sex", "area"): mapping(true, "sex", "area")})
    rule = Rule({"sex": ("sex0",), "age": ("age2",)})
    book = Codebook(BOOK.variables, (rule,))
    allowed = true[(true[:, 0] != 0) | (true[:, 1] != 2)]
    cells = tuple((a, b) for a in range(2) for b in range(3) if (a, b) != (0, 2))
    block = Block(("sex", "age"), randomised_response(5, 3.0), cells=cells)
    ruled = Mechanism([block], book)
    shown = perturb(frame_of(allowed), ruled, ReleaseKey.from_seed(2))
    wrong = mapping(allowed, "sex", "age")
    wrong["sex0", "age2"], wrong["sex0", "age1"] = wrong["sex0", "age1"], 0.0
    with pytest.raises(UsageError, match="rules forbid"):
        complete(shown, ruled, copies=2, seed=1, totals={("sex", "age"): wrong})


def test_totals_of_unperturbed_columns_are_met_by_the_file_and_it_is_said():
    rng = np.random.default_rng(5)
    true = truth(300, rng)
    law = Mechanism({"sex": randomised_response(2, 1.0)}, BOOK)
    shown = perturb(frame_of(true), law, ReleaseKey.from_seed(2))
    right = {"area": {names[0]: total for names, total in mapping(true, "area").items()}}
    options = {"copies": 2, "seed": 1, "sweeps": 10, "classes": 2}
    free = complete(shown, law, **options)
    done = complete(shown, law, **options, totals=right)
    assert "of unperturbed columns, which the release meets as it is: area" in str(done.diagnostics)
    assert all(np.array_equal(done.codes(k), free.codes(k)) for k in range(2))
    both = complete(shown, law, **options, totals=right | {"sex": {"sex0": 140, "sex1": 160}})
    assert table_of(both.codes(1), (0,)).tolist() == [140, 160]
    again = complete(shown, law, **options, totals=given_totals(totals_of(both)))  # as a file states them
    assert np.array_equal(again.codes(0), both.codes(0))
    assert again.diagnostics.to_dict() == both.diagnostics.to_dict()


def hand(matrix, codes, released):
    """Return evidence of one variable of three categories."""
    n = len(codes)
    law = Law((0,), np.arange(3, dtype=np.int32)[:, None], 0.0, np.zeros(3), np.array(matrix))
    zeros = np.zeros(n, np.int32)
    return Evidence(
        ("a",),
        (3,),
        np.full((n, 1), -1, np.int32),
        np.arange(n + 1),
        zeros,
        np.array(released, np.int32),
        (law,),
        np.zeros((0, 1, 3), bool),
    )


def test_a_record_that_cannot_move_there_makes_room_by_a_chain():
    """Records move one category at most: 0 to 1 and 1 to 2, never 0 to 2, and yet one goes from 0 to 2 in sum."""
    matrix = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]
    codes = np.array([[0], [0], [0], [1], [1], [2]], np.int32)
    evidence = hand(matrix, codes, [0, 1, 0, 1, 2, 2])
    draw = Draw(np.ones(1), (np.full((1, 3), 1 / 3),))
    totals = Totals((Target((0,), np.array([2.0, 2.0, 2.0])),))
    for seed in range(10):
        found = meet(codes, evidence, draw, totals, np.random.default_rng(seed))
        assert np.bincount(found[:, 0], minlength=3).tolist() == [2, 2, 2]
        assert all(matrix[x][y] > 0 for x, y in zip(found[:, 0], evidence.released, strict=True))
    none = Totals((Target((0,), np.array([6.0, 0.0, 0.0])),))
    with pytest.raises(EstimationError, match="no choice"):
        meet(codes, evidence, draw, none, np.random.default_rng(1))


def test_those_move_whose_odds_are_high():
    """Records released as 1 are truly 0 in 2% of cases: of 400 taken for 0, the 10 that must leave are of these."""
    matrix = [[0.98, 0.02, 0.0], [0.02, 0.98, 0.0], [0.0, 0.0, 1.0]]
    codes = np.zeros((400, 1), np.int32)
    evidence = hand(matrix, codes, [0] * 200 + [1] * 200)
    totals = Totals((Target((0,), np.array([390.0, 10.0, 0.0])),))
    draw = Draw(np.ones(1), (np.array([[0.5, 0.5, 0.0]]),))
    found = meet(codes, evidence, draw, totals, np.random.default_rng(6))
    assert (found[200:, 0] == 1).sum() == 10


def test_tables_that_share_variables_are_met_together():
    one, two = Target((0, 1), np.ones((2, 2))), Target((1, 2), np.ones((2, 2)))
    three, four = Target((4,), np.ones(2)), Target((2, 4), np.ones((2, 2)))
    assert [len(group) for group in components([one, two, three])] == [2, 1]
    assert [len(group) for group in components([one, two, three, four])] == [4]


def test_coverage_of_other_tables_stays_when_true_totals_are_met():
    """Sex by age, with both margins given: squared error is no larger than without, over 5 files."""
    law, errors = split_law(3.0), {"with": 0.0, "without": 0.0}
    for seed in range(5):
        true = truth(800, np.random.default_rng(10 + seed))
        shown = perturb(frame_of(true), law, ReleaseKey.from_seed(seed))
        totals = {n: {k[0]: v for k, v in mapping(true, n).items()} for n in SIZES}
        plain = complete(shown, law, copies=4, seed=seed, sweeps=60)
        met = complete(shown, law, copies=4, seed=seed, sweeps=60, totals=totals)
        for name, done in (("with", met), ("without", plain)):
            mean = np.mean([table_of(done.codes(k), (0, 1)) for k in range(4)], axis=0)
            errors[name] += float(((mean - table_of(true, (0, 1))) ** 2).sum())
    assert errors["with"] <= errors["without"]


def test_matrices_of_blocks_too():
    rng = np.random.default_rng(7)
    true = truth(500, rng)
    rows = 0.6 * np.eye(6) + 0.4 * rng.dirichlet(np.ones(6), 6)
    law = Mechanism([Block(("sex", "age"), TransitionMatrix.from_array(rows))], BOOK)
    shown = perturb(frame_of(true), law, ReleaseKey.from_seed(2))
    totals = {("age", "sex"): mapping(true, "age", "sex")}
    done = complete(shown, law, copies=2, seed=1, sweeps=60, totals=totals)
    np.testing.assert_array_equal(table_of(done.codes(1), (0, 1)), table_of(true, (0, 1)))
