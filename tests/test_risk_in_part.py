"""An unperturbed column that goes with keys in part makes figures of risk too low, and every page says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.risk.findings import Findings
from postrand.risk.reveals import PairReveal
from postrand.workflow.risk_left_out import in_part, in_part_words


def pair(perturbed: str, clear: str, guessed: float, settled: float = 0.0) -> PairReveal:
    return PairReveal(perturbed, clear, guessed=guessed, settled=settled, same=0.2, right=0.6, blind=0.3)


def test_columns_that_go_with_keys_in_part_are_named_and_no_others():
    pairs = (pair("area", "w", 0.6), pair("sex", "w", 0.1), pair("ill", "w", 0.6), pair("area", "town", 0.95, 0.9))
    found = in_part(Findings(pairs=pairs), ["area", "sex", "town"])  # town is a key itself
    assert found == (("w", "area"),)
    assert in_part_words(found, ()).startswith(
        "w, released unperturbed, goes in part with area, which no figure counts"
    )
    assert "The informed attacker" not in in_part_words(found, ())
    assert in_part(Findings(pairs=pairs[1:]), ["area", "sex"]) == ()  # one says little, one is about no key
    assert in_part(Findings(pairs=(pair("area", "town", 0.95, 0.9),)), ["area"]) == ()  # told as not known
    assert in_part_words((), ()) == ""


def test_what_the_informed_attacker_weighs_by_is_told_as_counted():
    said = in_part_words((("w", "area"), ("u", "sex")), (("w", "area"), ("v", "area")))
    assert said.startswith("w, v, released unperturbed, go with area. The informed attacker does not know them ")
    assert "u, released unperturbed, goes in part with sex, which no figure counts" in said


RULES = "".join(f'[[rules]]\nmeasure = "{name}"\nat_most = 500\n' for name in ("correct_matches", "register_matches"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made, rng, n = tmp_path_factory.mktemp("weighted"), np.random.default_rng(8), 1500
    area = rng.integers(0, 6, n)
    weight = np.round(np.array([100, 140, 200, 280, 400, 560])[area] * np.exp(0.25 * rng.standard_normal(n)), -1)
    held = {
        "area": np.array(list("abcdef"))[area],
        "sex": rng.choice(["F", "M"], n),
        "ill": rng.choice(["no", "yes"], n),
    }
    pq.write_table(pa.table({**held, "w": weight}), made / "s.parquet")
    (made / "policy.toml").write_text(RULES, encoding="utf-8")
    call("init", made / "s.parquet", "--keys", "area,sex", "--sensitive", "ill", "--weight", "w", "--out", made)
    text = (made / "plan.toml").read_text(encoding="utf-8")
    (made / "plan.toml").write_text(text.replace("as_is = []", 'as_is = ["w"]'), encoding="utf-8")
    return made


def call(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code in (0, 11), done.output
    return done.output


def test_a_rule_that_is_met_is_told_with_what_its_figure_leaves_out(folder):
    found = call("check", "--plan", folder / "plan.toml", "--policy", folder / "policy.toml")
    rows = [line for line in found.splitlines() if "pass" in line]
    assert [line.endswith("w is not counted, so that the figure is too low") for line in rows] == [False, True]
    for said in (found, call("explain", folder / "plan.toml"), call("compare", *[folder / "plan.toml"] * 2)):
        assert "w, released unperturbed, goes with area. The informed attacker does not know it" in said


def test_init_warns_of_sensitive_columns_that_leave_with_the_values_of_the_file(folder, tmp_path):
    said = call("init", folder / "s.parquet", "--keys", "area,sex", "--sensitive", "ill", "--out", tmp_path / "one")
    assert "warning: sensitive, and released unperturbed: ill; the role alone protects nothing" in said
    asked = ("--perturb-also", "ill")
    said = call("init", folder / "s.parquet", "--keys", "area,sex", *asked, "--out", tmp_path / "two")
    assert ("role alone" in said) is ('"ill"' not in (tmp_path / "two" / "plan.toml").read_text(encoding="utf-8"))


def test_a_rule_that_everything_meets_is_refused(folder, tmp_path):
    (tmp_path / "policy.toml").write_text(
        '[[rules]]\nmeasure = "correct_matches_share"\nat_most = 1\n', encoding="utf-8"
    )
    done = CliRunner().invoke(
        main, ["check", "--plan", str(folder / "plan.toml"), "--policy", str(tmp_path / "policy.toml")]
    )
    assert done.exit_code == 3
    assert "a share of 1 is met by everything" in done.output
    assert "0 to below 1, such as 0.01 for 1%" in done.output
