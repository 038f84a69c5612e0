"""The page on survey designs: its examples print what it shows; the command line takes a design, and refuses."""

import json
import re

from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT
from tests.guides import run_examples
from tests.release_case import make

PAGE = (ROOT / "docs" / "survey-design.md").read_text("utf-8")


def test_examples_print_what_the_page_shows():
    assert run_examples(PAGE, "survey-design.md") == 2


def test_the_command_takes_a_design_and_refuses_what_is_not_released_as_it_is(tmp_path):
    folder = str(make(tmp_path / "release").path)
    asked = ["estimate", folder, "--table", "sex", "--weight", "weight", "--json"]
    told = CliRunner().invoke(main, [*asked, "--psu", "weight"])
    assert told.exit_code == 0, told.output
    assert "primary sampling units" in json.dumps(json.loads(told.stdout))
    for name, what, code in (("region", "perturbed", 2), ("name", "no column", 4)):
        told = CliRunner().invoke(main, [*asked, "--psu", name])
        assert told.exit_code == code, (name, told.output)
        assert what in told.output
        assert name in told.output
    named = set(re.findall(r"^postrand estimate .*$", PAGE, re.MULTILINE))
    known = CliRunner().invoke(main, ["estimate", "--help"]).output
    assert {option for line in named for option in re.findall(r"--[a-z-]+", line)} <= set(
        re.findall(r"--[a-z-]+", known)
    )
