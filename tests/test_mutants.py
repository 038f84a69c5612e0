"""What `make mutants` changes, and that survivors which have a reason are mutants of today's core."""

import ast

import pytest
from benchmarks.mutants.__main__ import SURVIVORS, core, reasons
from benchmarks.mutants.operators import Module

from tests.conftest import ROOT

SOURCE = """
LIMIT = 2

@property
def level(x, y=1):
    if x < LIMIT and not y:
        raise ValueError(sentence("small", got=3))
    return math.nextafter(max(x, y), math.inf)
"""


def test_conditions_numbers_roundings_and_refusals_are_changed(tmp_path):
    (tmp_path / "law.py").write_text(SOURCE, "utf-8")
    made = [(mutant.function, mutant.what) for mutant in Module.read(tmp_path, "law.py").mutants]
    assert ("LIMIT", "2 => 3") in made
    for change in (
        "x < LIMIT => x <= LIMIT",
        "x < LIMIT => x >= LIMIT",
        "x < LIMIT and (not y) => x < LIMIT or not y",
        "x < LIMIT and (not y) => not y",
        "not y => y",
        "max => min",
        "math.inf => -math.inf",
        "return math.nextafter(max(x, y), math.inf) => return None",
        "raise ValueError(sentence('small', got=3)) => left out",
    ):
        assert ("level", change) in made
    assert not any("3 =>" in what for _, what in made if what.startswith("3"))


@pytest.mark.parametrize("place", range(5))
def test_an_edit_changes_one_place(tmp_path, place):
    (tmp_path / "law.py").write_text(SOURCE, "utf-8")
    module = Module.read(tmp_path, "law.py")
    before = ast.unparse(module.tree).splitlines()
    module.mutants[place].edit()
    after = ast.unparse(module.tree).splitlines()
    assert sum(one != two for one, two in zip(before, after, strict=True)) == 1


def test_survivors_with_a_reason_are_mutants_of_the_core():
    named = set(reasons())
    paths = {name.partition(" ")[0] for name in named}
    assert paths <= set(core())
    assert all((ROOT / path).is_file() for path in core())
    made = {mutant.name for path in paths for mutant in Module.read(ROOT, path).mutants}
    assert named - made == set()
    lines = SURVIVORS.read_text("utf-8").splitlines()[1:]
    kinds = [line.partition(" ## ")[2].partition(": ") for line in lines if line]
    assert all(kind in ("same", "open") and len(why) > 20 for kind, _, why in kinds)
