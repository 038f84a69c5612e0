"""The fragments of the guide to structure make one plan, which runs."""

import json
import re

from click.testing import CliRunner

from postrand import load_plan, verify
from postrand.cli import main
from tests.conftest import ROOT
from tests.guides import run_examples

GUIDE = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")


def fragments(first: str) -> str:
    found = re.findall(rf"```toml\n# {first}[^\n]*\n(.*?)```", GUIDE, re.DOTALL)
    return "\n".join(found)


def command(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_fragments_make_one_plan_that_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called = re.search(r"`postrand (init people.parquet [^`]*)`", GUIDE)
    assert called is not None
    assert run_examples(GUIDE, "structure.md") == 1
    command(*called.group(1).split())
    with open("codebook.toml", "a", encoding="utf-8") as book:
        book.write("\n" + fragments("codebook.toml"))
    (tmp_path / "plan.toml").write_text(fragments("plan.toml"), encoding="utf-8")
    plan = load_plan("plan.toml")
    assert [b.variables for b in plan.blocks] == [("attend", "regattend"), ("happy",), ("region",), ("workstat",)]
    designed = json.loads(command("design", "--plan", "plan.toml", "--json"))["blocks"]
    assert [b["status"] for b in designed] == ["optimal", "optimal", "local", "optimal"]
    assert designed[0]["categories"] == 15
    assert all(block["condition"] < 100 for block in designed)
    assert all(0.2 < low <= high < 0.9 for low, high in (block["unchanged"] for block in designed))
    told = command("design", "--plan", "plan.toml")
    assert told.count("unperturbed records for the table of") == 5
    assert "warning" not in told
    command("protect", "--plan", "plan.toml", "--out", "release")
    release = tmp_path / "release"
    assert verify(release).ok
    certificate = json.loads((release / "certificate.json").read_text("utf-8"))
    assert certificate["account"]["total"] <= 14.0
    assert certificate["account"]["priors"] == [0.0, 0.0, 0.0, 0.2]
    assert "<title>Where values of" in (release / "report.html").read_text("utf-8")
