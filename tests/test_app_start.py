"""The start of the workbench: the framework without what is not used, and the file read before a browser comes."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.app import framework, opening
from postrand.app.start import Start

LEAN = """
import gc, importlib.util, sys
from postrand.app import framework
with framework.uncollected():
    framework.load()
    import postrand.app.launch
assert "shiny" in sys.modules and not sys.meta_path[0].__class__.__name__.startswith("_Stand")
taken = [n for n in sys.modules if n.partition(".")[0] in (*framework.UNUSED, "pydantic", "wcwidth")]
assert not taken, taken
assert gc.isenabled() and gc.get_freeze_count()
for name, part in {"questionary": "text", "shinychat": "Chat"}.items():
    if importlib.util.find_spec(name):  # older versions of the framework do without
        assert getattr(importlib.import_module(name), part).__module__.startswith(name)
"""
"""A change of the framework that makes the stand-ins useless fails here: it would load the packages."""


def test_the_framework_is_imported_without_what_is_not_used():
    done = subprocess.run([sys.executable, "-W", "error", "-c", LEAN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_framework_that_needs_more_than_a_stand_in_gets_the_packages(tmp_path, monkeypatch):
    (tmp_path / "shiny.py").write_text("import questionary\nassert questionary.select('?').ask\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shiny", *framework.UNUSED)]:
        monkeypatch.delitem(sys.modules, name)
    before = list(sys.meta_path)
    framework.load()
    assert sys.meta_path == before
    assert "shiny" not in sys.modules
    assert "questionary" not in sys.modules


def test_a_file_is_read_once_before_the_first_tab_and_anew_for_the_next(tmp_path, monkeypatch):
    path = tmp_path / "survey.parquet"
    pq.write_table(pa.table({"sex": pa.array(["a", None, "b"]).dictionary_encode(), "n": [1, 2, 2]}), path)
    read, usual = [], opening.open_file

    def counted(path):
        read.append(path)
        return usual(path)

    monkeypatch.setattr(opening, "open_file", counted)
    start = Start(path)
    start.prepare()
    opened = start.take()
    assert (opened.rows, opened.missing, opened.names) == (3, (1, 0), ("sex", "n"))
    start.prepare()  # a tab has asked: it would be read in vain
    assert start.take() is None
    assert read == [path]
    with start._lock:
        assert start.take(patience=0) is None


@pytest.mark.parametrize("name", ["missing.parquet", "plan.toml"])
def test_what_cannot_be_read_ahead_is_left_to_the_tab(tmp_path, name):
    start = Start(tmp_path / name)
    start.prepare()
    assert start.take() is None
