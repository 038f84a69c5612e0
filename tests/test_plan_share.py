"""A plan keeps the share of the population that is in its file: no command has to be given it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from click.testing import CliRunner, Result

from postrand.cli import main
from postrand.errors import SpecificationError
from postrand.plan import load_plan

SHARE = "sampling_fraction = 0.1\n"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a plan without the share, and the same plan with it, both under one name."""
    folder, rng = tmp_path_factory.mktemp("share"), np.random.default_rng(7)
    rows = {"sex": rng.choice(["F", "M"], 400), "area": rng.choice(list("nesw"), 400), "w": np.full(400, 10.0)}
    pc.write_csv(pa.table(rows), folder / "in.csv")
    done = call("init", folder / "in.csv", "--keys", "sex,area", "--drop", "w", "--out", folder / "plain")
    assert done.exit_code == 0, done.output
    text = (folder / "plain" / "plan.toml").read_text(encoding="utf-8")
    stated = folder / "share"
    stated.mkdir()
    (stated / "codebook.toml").write_text((folder / "plain" / "codebook.toml").read_text(encoding="utf-8"))
    (stated / "plan.toml").write_text(
        text.replace('codebook = "codebook.toml"\n', f'codebook = "codebook.toml"\n{SHARE}')
    )
    return folder / "plain" / "plan.toml", stated / "plan.toml"


def test_the_share_of_the_plan_is_that_of_the_option(plans: tuple[Path, Path], tmp_path: Path) -> None:
    plain, stated = plans
    option = ("--sampling-fraction", "0.1")
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nmeasure = "register_matches"\nat_most = 9.0\n', encoding="utf-8")
    for words in (["explain", "{}"], ["compare", "{}", "{}"], ["check", "--plan", "{}", "--policy", policy]):
        without, given, kept = (
            call(*(str(word).format(plan) for word in words), *more)
            for plan, more in ((plain, ()), (plain, option), (stated, ()))
        )
        assert kept.output.replace("/share/", "/plain/") == given.output, words
        assert kept.exit_code == given.exit_code
        assert without.output != given.output
    tuned = [
        call("tune", "--plan", plan, "--limit", "tau2 <= 5", "--json", *more).output
        for plan, more in ((plain, option), (stated, ()))
    ]
    assert tuned[0] == tuned[1]
    assert (
        "share of the population in the file is not known"
        in call("tune", "--plan", plain, "--limit", "tau2 <= 5").output
    )


def test_an_option_stands_above_the_plan(plans: tuple[Path, Path]) -> None:
    half = [call("explain", plan, "--sampling-fraction", "0.5").output for plan in plans]
    assert half[0] == half[1] != call("explain", plans[1]).output


def test_a_dossier_has_the_register_attacker_by_the_plan_alone(plans: tuple[Path, Path], tmp_path: Path) -> None:
    for plan, known in zip(plans, (False, True), strict=True):
        place = tmp_path / plan.parent.name
        place.mkdir()
        done = call("protect", "--plan", plan, "--out", place / "release", "--dossier", place / "in", "--seed", "1")
        assert done.exit_code == 0, done.output
        page = (place / "in" / "dossier.html").read_text(encoding="utf-8")
        assert ("no sampling fraction or weight was given" not in page) is known
    alone = call("protect", "--plan", plans[1], "--out", tmp_path / "alone", "--seed", "1")
    assert alone.exit_code == 0, alone.output  # no dossier needs it, and none is asked for


@pytest.mark.parametrize("share", ["0", "1.5", "nan", '"0.1"', "true"])
def test_a_share_is_one_of_a_population(share: str, plans: tuple[Path, Path]) -> None:
    path = plans[1].with_name("wrong.toml")
    path.write_text(plans[1].read_text(encoding="utf-8").replace("= 0.1", f"= {share}"), encoding="utf-8")
    with pytest.raises(SpecificationError, match=r"\[source\]: the sampling fraction is outside its range"):
        load_plan(path)


def test_a_file_with_weights_has_no_share(plans: tuple[Path, Path], tmp_path: Path) -> None:
    book = plans[1].with_name("codebook.toml").read_text(encoding="utf-8")
    before, mark, rest = book.partition('name = "w"')
    (tmp_path / "codebook.toml").write_text(before + mark + rest.replace('role = "drop"', 'role = "weight"', 1))
    (tmp_path / "plan.toml").write_text(plans[1].read_text(encoding="utf-8"))
    with pytest.raises(SpecificationError, match="both a sampling fraction and a weight are given; got w in the codeb"):
        load_plan(tmp_path / "plan.toml")
