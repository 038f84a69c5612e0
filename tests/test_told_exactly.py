"""Two unperturbed columns that settle a perturbed one by their exact values, which ranges of numbers do not show."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable
from postrand.cli import main
from postrand.data.frames import TableSource
from postrand.mechanism import Mechanism
from postrand.risk.findings import Finding, find
from postrand.risk.told_exactly import guessed_by_others


def by_hand(true: np.ndarray, seen: np.ndarray) -> float:
    """Guess each record by counting the others one by one."""
    total, most = 0.0, np.bincount(true).argmax()
    for i in range(true.size):
        others = [int(true[j]) for j in range(true.size) if j != i and seen[j] == seen[i]]
        counts = np.bincount(others, minlength=true.max() + 1)
        best = np.flatnonzero(counts == counts.max())
        if not others:
            total += true[i] == most
        elif true[i] in best:
            total += 1.0 if best.size == 1 else 0.5
    return total / true.size


@pytest.mark.parametrize("seed", range(20))
def test_each_record_is_guessed_by_the_others(seed):
    rng = np.random.default_rng(seed)
    n, values, classes = int(rng.integers(1, 60)), int(rng.integers(1, 20)), int(rng.integers(1, 4))
    true, seen = rng.integers(0, classes, n), rng.integers(0, values, n)
    right, blind = guessed_by_others(true, seen)
    assert right == pytest.approx(by_hand(true, seen))
    assert blind == pytest.approx(np.bincount(true).max() / n)


def states(n: int, *, follows: bool) -> pa.Table:
    """Return persons of 40 states in 4 regions, with a rate and a benefit of the state and the year, or of anywhere."""
    rng = np.random.default_rng(5)
    state, year = rng.integers(0, 40, n), rng.integers(0, 8, n)
    of = state * 8 + year if follows else rng.integers(0, 320, n)
    rate, benefit = rng.integers(20, 120, 320) / 10, rng.integers(84, 293, 320)
    held = {"region": np.array(["N", "E", "S", "W"])[state % 4], "rate": rate[of], "benefit": benefit[of]}
    return pa.table({**held, "sex": rng.choice(["f", "m"], n)})


def told(table: pa.Table) -> list[Finding]:
    book = Codebook(
        (
            Variable("region", "key", ("N", "E", "S", "W")),
            Variable("rate", "other", type="double"),
            Variable("benefit", "other", type="int64"),
            Variable("sex", "key", ("f", "m")),
        )
    )
    mechanism = Mechanism({"region": pr.randomised_response(4, 2.0), "sex": pr.randomised_response(2, 2.0)}, book)
    return [one for one in find(TableSource(table), book, mechanism, book.names).found if one.code == "tells"]


def test_a_rate_and_a_benefit_of_the_state_tell_it_together():
    """Neither does alone: who learns from half of the file guesses nearly all of the others rightly."""
    table = states(6000, follows=True)
    found = next(one for one in told(table) if one.variables == ("rate", "benefit"))
    assert (found.about, found.is_open) == (("region",), True)
    assert "the best guess from rate and benefit is right in about 100, without in about 26" in found.sentence
    half, rest = table.slice(0, 3000).to_pylist(), table.slice(3000).to_pylist()
    learnt: dict[tuple[float, int], list[str]] = {}
    for one in half:
        learnt.setdefault((one["rate"], one["benefit"]), []).append(one["region"])
    given = [learnt.get((one["rate"], one["benefit"]), ["N"]) for one in rest]
    hits = [one["region"] == max(set(got), key=got.count) for one, got in zip(rest, given, strict=True)]
    assert np.mean(hits) > 0.98


def test_combinations_of_few_records_settle_nothing_by_chance():
    """Of 320 random pairs of values a record each side of the mean would settle many: by the others it settles none."""
    table = states(1500, follows=False)
    assert told(table) == []
    codes = np.unique(np.array(table["region"].to_pylist()), return_inverse=True)[1]
    benefit, rate = (np.array(table[name].to_pylist()) for name in ("benefit", "rate"))
    seen = np.unique(benefit * 1000 + rate, return_inverse=True)[1]
    counts = np.zeros((seen.max() + 1, 4))
    np.add.at(counts, (seen, codes), 1)
    assert counts.max(axis=1).sum() / 1500 > 0.45  # the mutant, which counts the record itself
    assert guessed_by_others(codes, seen)[0] < 0.3


def test_a_release_stops_until_it_is_decided(tmp_path):
    table = states(3000, follows=True)
    pq.write_table(table, tmp_path / "people.parquet")
    asked = ["init", tmp_path / "people.parquet", "--keys", "region,sex", "--other", "rate,benefit", "--out", tmp_path]
    assert CliRunner().invoke(main, [str(one) for one in asked]).exit_code == 0
    run = ["protect", "--plan", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "release")]
    stopped = CliRunner().invoke(main, run)
    assert stopped.exit_code == 3, stopped.output
    assert "all but settle true values of perturbed ones, which no epsilon prevents: region (by rate and benefit)" in (
        stopped.output
    )
    assert not (tmp_path / "release").exists()
