"""Advice: plans that keep every limit come first, and the short line names a limit that is missed with its figure."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan import load_plan
from postrand.support.showing import outward

KEYS = {"age": 9, "area": 8, "job": 6, "sex": 2, "school": 5}
ASKED = ("--attacker", "informed", "--limit", "epsilon <= 5")


def advised(folder: Path, out: str, *more: str) -> str:
    words = ["advise", str(folder / "s.parquet"), "--keys", ",".join(KEYS), *ASKED, *more, "--out", str(folder / out)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, rng, n = tmp_path_factory.mktemp("order"), np.random.default_rng(3), 3000
    held = {name: [f"{v:02}" for v in rng.integers(0, size, n)] for name, size in KEYS.items()}
    pq.write_table(pa.table(held), made / "s.parquet")
    return made


def matches(plan: dict[str, Any]) -> float:
    return next(one["after"] for one in plan["figures"]["risk"] if one["code"] == "correct_matches")


def test_a_plan_that_misses_a_limit_does_not_stand_before_one_that_keeps_all(folder: Path) -> None:
    before = json.loads(advised(folder, "free", "--json"))["plans"]
    first, least = matches(before[0]), min(map(matches, before))
    assert before[0]["way"] == "split"
    assert least < first
    bound = f"{(first + least) / 2:.4g}"
    told = advised(folder, "bound", "--limit", f"correct_matches <= {bound}")
    short = re.findall(r"^Plan (\d) \((.+?)\): .*limits asked: (.+)$", told, re.MULTILINE)
    assert [number for number, _, _ in short] == [str(n) for n in range(1, len(short) + 1)]
    kept = ["NOT" not in limits for _, _, limits in short]
    assert kept == sorted(kept, reverse=True)
    assert kept[0]
    (missed,) = [limits for _, way, limits in short if way == "split"]
    assert missed == f"1 of 2 met, NOT correct_matches <= {bound} ({outward(first)})"
    assert "repeat with --look" not in told  # the first plan keeps all
    for number, way, _ in short:
        path = folder / "bound" / f"plan-{number}.toml"
        assert path.read_text("utf-8").startswith(f"# Plan {number}: {way}.")
        assert f"{number}.toml --out release" in path.read_text("utf-8").replace("\n# ", " ")
        load_plan(path)


def test_a_limit_that_is_just_missed_is_not_rounded_to_one_that_is_met(folder: Path) -> None:
    found = matches(json.loads(advised(folder, "exact", "--json"))["plans"][0])
    just = float(f"{found - 0.002:.3f}")
    told = advised(folder, "just", "--limit", f"correct_matches <= {just}")
    (shown,) = re.findall(r"split\): .*NOT correct_matches <= \S+ \(([\d.]+)\)", told)
    assert float(shown) > just


def test_what_is_the_same_for_every_plan_stands_once_below_them(folder: Path) -> None:
    told = advised(folder, "once")
    plans = [block for block in told.split("\n\n") if block.startswith("Plan ")]
    (common,) = [block for block in told.split("\n\n") if block.startswith(("Both plans:", "All "))]
    assert len(plans) > 1
    assert told.index(common) > max(map(told.index, plans))
    head, *lines = common.splitlines()
    assert head == ("Both plans:" if len(plans) == 2 else f"All {len(plans)} plans:")
    assert "  Order of the records: a new random order" in lines
    for line in lines:
        assert told.count(f"\n{line}\n") == 1
    for block in plans:
        assert block.splitlines()[-1].startswith("  The rest is the same for every plan, and stands below the last one")
        assert "  Claim: " in block
