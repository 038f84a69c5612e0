"""Household numbers show how many records a household has: what follows from that is not protected by perturbation."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.errors import SpecificationError
from postrand.plan.policy import policy_from_dict
from postrand.risk.reveals import UnperturbedWarning
from postrand.risk.sample import Sampled
from postrand.risk.size_told import told_by_sizes
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.policy_check import check_policy
from postrand.workflow.unperturbed import findings

KEYS = ("area", "age", "members")
SIZES = np.random.default_rng(3).choice([1, 2, 3, 4], 900, p=[0.4, 0.3, 0.2, 0.1])


def survey() -> pa.Table:
    """Return persons in households, of which ``members`` says how many they are, and ``kind`` whether one is alone."""
    rng, house = np.random.default_rng(4), np.repeat(np.arange(SIZES.size), SIZES)
    n, members = house.size, SIZES[house]
    kind = np.where(members == 1, "single", rng.choice(["couple", "family"], n))
    area, age = (rng.choice([*values], n) for values in ("abcdef", "01234567"))
    return pa.table({"hh": house + 100, "area": area, "age": age, "members": members.astype(str), "kind": kind})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pa.parquet.write_table(survey(), tmp_path / "s.parquet")
    return tmp_path


def call(*words: object) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert not done.exit_code, done.output
    return " ".join(done.output.split())


def planned(folder: Path, perturbed: str, more: str = "") -> pr.Plan:
    names = {"area": "abcdef", "age": "01234567", "members": "1234", "kind": ("couple", "family", "single")}
    held = [f'[[variables]]\nname = "{n}"\nrole = "key"\ncategories = {[*c]}\n' for n, c in names.items()]
    book = ['[[variables]]\nname = "hh"\nrole = "household"\ntype = "int64"\n', *held]
    if "kind" not in perturbed:
        book[-1] = '[[variables]]\nname = "kind"\nrole = "drop"\n'
    (folder / "codebook.toml").write_text("".join(book))
    (folder / "plan.toml").write_text(
        '[source]\nfile = "s.parquet"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\nepsilon = 4.0\n'
        f"[release]\n{more}\n[split]\nvariables = {perturbed.split()}\nepsilon = 4.0\n"
    )
    return pr.load_plan(folder / "plan.toml")


def test_sizes_tell_what_they_tell_and_no_more() -> None:
    table = survey()
    sample = Sampled(table, table.num_rows, {}, "hh")
    found = {one.perturbed: one for one in told_by_sizes(sample, (*KEYS, "kind"), (*KEYS, "kind"))}
    assert {*found} == {"members", "kind"}  # area and age do not depend on the size
    n, alone = table.num_rows, (SIZES == 1).sum()
    assert (found["members"].guessed, found["members"].right) == (1.0, 1.0)
    most = max(np.sum(size == SIZES) * size for size in range(1, 5))
    assert found["members"].blind == pytest.approx(most / n)
    kinds = table.column("kind").to_numpy()
    of_size = np.repeat(SIZES, SIZES)
    right = alone + sum(
        max(np.sum((of_size == size) & (kinds == kind)) for kind in ("couple", "family")) for size in (2, 3, 4)
    )
    assert found["kind"].right == pytest.approx(right / n)
    assert told_by_sizes(Sampled(table, n, {}, None), KEYS, KEYS) == ()


def test_a_plan_that_perturbs_what_sizes_tell_must_decide(folder: Path) -> None:
    plan = planned(folder, "area age members")
    found = findings(plan)
    assert found.undecided == ("hh",)
    told = "household numbers show how many records a household has, which all but tells perturbed variables: members"
    with pytest.raises(SpecificationError, match=told):
        pr.run(plan, folder / "r", release_key=pr.ReleaseKey.from_seed(1))
    decided = planned(folder, "area age members", 'as_is = ["hh"]')
    assert findings(decided).undecided == ()
    shows, again = "the household number hh shows how many records", "all members have the same value of members"
    with pytest.warns(UnperturbedWarning, match=shows), pytest.warns(UnperturbedWarning, match=again):
        pr.run(decided, folder / "r", release_key=pr.ReleaseKey.from_seed(1))
    for independent in (planned(folder, "area age"), planned(folder, "area age", "")):
        assert not any("members" in one.about for one in findings(independent).found)


def test_a_size_counts_for_the_informed_attacker_whatever_role_its_column_has(folder: Path) -> None:
    """Perturbed, unperturbed or dropped: the numbers show it, and correct matches are the same but for the draws."""
    asked = [{"measure": "correct_matches", "at_most": 2000}, {"measure": "k", "at_least": 2, "share_below": 1.0}]
    rules = policy_from_dict({"rules": asked})
    hidden = figures_of(planned(folder, "area age members", 'as_is = ["hh"]'))
    links, classes = check_policy(hidden, rules).verdicts
    assert links.is_met
    assert (classes.after, classes.is_met) == ("not known", False)
    assert classes.why.endswith(
        "all measures but those of the informed attacker leave out how many records a household has, which hh shows: "
        "it all but tells members"
    )
    assert "release these keys as in the file" in classes.step
    assert "no epsilon changes this" in classes.step
    shown = figures_of(planned(folder, "area age"))
    assert any("which the informed attacker is taken to know" in text for text in shown.attackers)
    assert all(one.is_met for one in check_policy(shown, rules).verdicts)
    book = (folder / "codebook.toml").read_text()
    (folder / "codebook.toml").write_text(
        book.replace('name = "members"\nrole = "key"', 'name = "members"\nrole = "drop"')
    )
    dropped = figures_of(pr.load_plan(folder / "plan.toml"))
    first, second, third = (one.risk("correct_matches") for one in (shown, hidden, dropped))
    true = survey().to_pandas()
    alike = true.groupby(["area", "age", "members"]).size().size
    for one in (first, second, third):
        assert one is not None
        assert one.before == pytest.approx(alike)
    assert second.after == pytest.approx(first.after, rel=0.1)
    assert third.after == pytest.approx(first.after, rel=0.1)


def test_init_and_advise_leave_unperturbed_what_sizes_tell(folder: Path) -> None:
    asked = ("--keys", ",".join(KEYS), "--household", "hh", "--drop", "kind", "--largest-household", 4)
    said = call("init", folder / "s.parquet", *asked, "--out", folder / "p")
    why = "the number of members of the household, which a release shows, tells members, so that it is not perturbed"
    assert why in said
    assert (
        "# not perturbed: the number of members of the household tells it"
        in (folder / "p" / "codebook.toml").read_text()
    )
    plan = pr.load_plan(folder / "p" / "plan.toml")
    assert {name for block in plan.blocks for name in block.variables} | {*getattr(plan.split, "variables", ())} == {
        "area",
        "age",
    }
    assert findings(plan).undecided == ()
    advised = call("advise", folder / "s.parquet", "--codebook", folder / "p" / "codebook.toml", "--out", folder / "a")
    assert why in advised
    assert "Released as in the file, with no protection of their own: members" in advised
    assert not [path for path in (folder / "a").glob("plan-*.toml") if findings(pr.load_plan(path)).undecided]
