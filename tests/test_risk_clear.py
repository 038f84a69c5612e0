"""What variables in clear settle about perturbed ones, against the same record by record."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.risk import clear
from postrand.risk.clear import CHANCE, Disclosed, Told, told, told_by_clear
from postrand.table import tally

PAIRS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60)


def by_hand(records):
    """Return the three measures from the list of (true value, clear value)."""
    n, true, seen = len(records), Counter(r[0] for r in records), Counter(r[1] for r in records)
    if len(true) < 2 or len(seen) < 2:
        return 0.0, 0.0, 0.0
    inside = {c: Counter(i for i, d in records if d == c) for c in seen}
    blind = max(true.values())
    right = sum(max(inside[c].values()) for c in seen)
    certain = [c for c in seen if len(inside[c]) == 1]
    shown = [c for c in certain if (true[next(iter(inside[c]))] / n) ** seen[c] <= CHANCE / len(seen)]
    x = np.array([[i == j for i, _ in records] for j in true], dtype=float)
    y = np.array([[c == d for _, c in records] for d in seen], dtype=float)
    same = np.corrcoef(np.vstack([x, y]))[: len(x), len(x) :].max()
    return (right - blind) / (n - blind), sum(seen[c] for c in shown) / n, same


@given(PAIRS)
def test_measures_against_every_record(records):
    table = np.zeros((3, 4), dtype=np.int64)
    for pair in records:
        table[pair] += 1
    found = told(table)
    assert (found.guessed, found.settled, found.same) == pytest.approx(by_hand(records), abs=1e-9)


def test_a_dummy_settles_its_category_and_independence_nothing():
    dummy = told(np.array([[0, 200], [300, 0], [500, 0]]))
    assert (dummy.guessed, dummy.settled, dummy.same) == pytest.approx((0.4, 0.2, 1.0))
    part = told(np.array([[440, 0], [470, 90]]))  # one value is a part of a category, as black women are of women
    assert (part.guessed, part.settled, part.is_much) == (0.0, pytest.approx(0.09), True)
    spread = told(np.outer([30, 20], [4, 6]))
    assert (spread.guessed, spread.settled, spread.is_much) == (0, 0, False)
    assert spread.same == pytest.approx(0)


def test_few_records_of_a_common_value_are_chance_and_empty_cells_nothing():
    assert told(np.array([[900, 9], [91, 0]])).settled == 0
    assert told(np.array([[900, 90], [91, 0]])).settled == pytest.approx(90 / 1081)
    assert told(np.array([[5, 7, 0], [0, 0, 0]])) == Told("perturbed", "clear", 0, 0, 0)


def test_pairs_are_of_other_categorical_variables_and_small(monkeypatch):
    rng = np.random.default_rng(1)
    names, sizes = ("a", "b", "c", "wide"), (2, 3, 2, 50)
    variables = [Variable(n, role="key", categories=tuple(range(s))) for n, s in zip(names, sizes, strict=True)]
    book = Codebook((*variables, Variable("pay", role="other")))
    codes = {n: rng.integers(0, s, 400) for n, s in zip(names, sizes, strict=True)}
    codes["c"] = codes["a"]

    def count(pair):
        return tally(pair, [book[n].size for n in pair], [([codes[n] for n in pair], None)])

    monkeypatch.setattr(clear, "MAX_PAIR_CELLS", 99)
    found = told_by_clear(book, ("a", "b"), book.names, count)
    assert [(t.perturbed, t.clear) for t in found.pairs] == [("a", "c"), ("b", "c")]
    assert found.left_out == 2
    assert "a by c;" in found.warning
    assert "b by" not in found.warning
    assert found.worst[0].clear == "c"
    assert (found.worst[0].guessed, found.worst[0].settled) == (1, 1)
    assert not Disclosed(found.pairs[1:]).warning


@pytest.mark.filterwarnings("always::postrand.risk.clear.ClearWarning")
def test_a_curator_is_warned_by_names_alone_and_the_release_says_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    year = rng.integers(1994, 1999, 731)
    columns = {"year": year, "was94": (year == 1994).astype(int), "likes": rng.integers(0, 3, 731)}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")

    def call(*arguments):
        done = CliRunner().invoke(main, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
        return done

    call("init", tmp_path / "s.parquet", "--out", tmp_path, "--key", "year", "--other", "*")
    base = ("protect", "--plan", tmp_path / "plan.toml", "--seed", 1)
    done = call(*base, "--out", tmp_path / "out", "--dossier", tmp_path / "in")
    (line,) = [text for text in done.stderr.splitlines() if "warning" in text]
    assert "year by was94;" in line
    assert "likes" not in line
    assert not any(str(number) in line for number in (1994, 731, int((year == 1994).sum())))
    pair = json.loads((tmp_path / "in" / "dossier.json").read_text("utf-8"))["clear"]["pairs"][0]
    table = np.array([[np.sum((year == y) & ((year == 1994) == d)) for d in (False, True)] for y in np.unique(year)])
    hand = by_hand([(i, c) for (i, c), k in np.ndenumerate(table) for _ in range(k)])
    assert (pair["guessed"], pair["settled"], pair["same"]) == pytest.approx(hand)
    assert "What variables in clear settle" in (tmp_path / "in" / "dossier.html").read_text("utf-8")
    monkeypatch.setattr(clear, "told_by_clear", lambda *_: Disclosed())
    assert "warning" not in call(*base, "--out", tmp_path / "unwarned").stderr
    written, unwarned = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("out", "unwarned"))
    assert written == unwarned


def test_where_all_is_perturbed_nothing_is_counted():
    book = Codebook((Variable("a", role="key", categories=(1, 2)), Variable("b", role="key", categories=(1, 2))))
    assert told_by_clear(book, ("a", "b"), book.names, lambda pair: pytest.fail("counted")) == Disclosed()
