"""The worked examples of CONTRIBUTING.md: put in their place, found by the house, and tried by their suites."""

import importlib
import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from postrand import designers, engines, estimate, formats, objectives, privacy, report, risk, testing
from postrand.certification.certificate import Facts, certify
from postrand.cli.frame import main
from postrand.codebook import Codebook, Variable
from postrand.engines.summary import summarise
from postrand.estimate.export import r_script
from postrand.recoding import Recode
from postrand.recoding.base import kinds as kinds_of_recoding
from postrand.support.options import discover
from postrand.testing import engines as of_engines
from postrand.testing import estimators as of_estimators
from postrand.testing import formats as of_formats
from postrand.testing import recoding as of_recoding
from postrand.testing import risk as of_risk
from tests.conftest import ROOT
from tests.release_case import CLAIMS, make

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python\n# src/(\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Put an example beside the modules of its room, for one test."""
    placed = []

    def place(path):
        folder, room = tmp_path / Path(path).parent, path.rpartition("/")[0].replace("/", ".")
        folder.mkdir(parents=True)
        (folder / Path(path).name).write_text(EXAMPLES[path], encoding="utf-8")
        package = importlib.import_module(room)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        _forget()
        placed.append(f"{room}.{Path(path).stem}")
        return importlib.import_module(placed[-1])

    yield place
    monkeypatch.undo()
    for name in placed:
        room, _, module = name.rpartition(".")
        del sys.modules[name]
        delattr(sys.modules[room], module)
    _forget()


def _forget():
    """Let the families look for their members again."""
    for found in (formats.formats, engines.engines, estimate.estimators, risk.measures.kinds, kinds_of_recoding):
        found.cache_clear()


def test_every_example_is_tried():
    tried = set(re.findall(r'put\("(\S+)"\)', Path(__file__).read_text("utf-8")))
    assert set(EXAMPLES) == tried


@pytest.mark.parametrize("law", of_formats.LAWS, ids=lambda law: law.__name__)
def test_the_format_keeps_every_law(put, tmp_path, law):
    assert law(put("postrand/formats/arrow_stream.py").FORMAT, tmp_path) is None  # it raises what is broken


def test_the_format_is_offered_everywhere(put):
    from postrand.app.decisions import Decisions
    from postrand.app.release_views import protect_form
    from postrand.plan.plan import _release_problems
    from postrand.plan.values import ReleaseOptions

    assert list(_release_problems(ReleaseOptions(format="arrows"), "plan"))
    assert put("postrand/formats/arrow_stream.py").FORMAT in formats.formats()
    assert list(_release_problems(ReleaseOptions(format="arrows"), "plan")) == []
    assert ".arrows (Arrow stream)" in str(protect_form(Decisions()))
    assert "arrows = switch(package(" in r_script()["postrand.R"]


@pytest.mark.parametrize("law", of_estimators.LAWS, ids=lambda law: law.__name__)
def test_the_estimator_keeps_every_law(put, law):
    (estimator,) = put("postrand/estimate/persons.py").ESTIMATORS
    assert law(estimator) is None


def test_the_estimator_is_a_question_of_the_command_line(put):
    assert "--persons" not in CliRunner().invoke(main, ["estimate", "--help"]).output
    put("postrand/estimate/persons.py")
    assert "--persons A,B" in CliRunner().invoke(main, ["estimate", "--help"]).output


def test_the_privacy_model_keeps_every_law(put):
    kind = put("postrand/privacy/total_variation.py").TotalVariation
    testing.check_model(kind)
    assert found_in(privacy, kind.name) == (kind,)


def test_the_objective_keeps_every_law(put):
    kind = put("postrand/objectives/kept.py").Kept
    testing.check_objective(kind)
    assert found_in(objectives, kind.name) == (kind,)


def test_the_structure_keeps_every_law(put):
    kind = put("postrand/designers/response.py").Response
    testing.check_structure(kind)
    assert found_in(designers, kind.name) == (kind,)


def found_in(room, name):
    """Return what the room finds of this name; its list was made before the example was put there."""
    return discover(room.__path__, room.__name__, lambda kind: getattr(kind, "name", "") == name)


def test_the_risk_measure_keeps_every_law(put):
    kind = put("postrand/risk/measures/pairs.py").MEASURE
    of_risk.check(kind(), lambda file: {"pairs": 2 * doubles(zip(*file.keys.codes, strict=True))})
    assert risk.measures.kinds()["pairs"] is kind


def doubles(cells):
    return list(Counter(cells).values()).count(2)


def test_the_kind_of_recoding_keeps_every_law(put):
    kind = put("postrand/recoding/beginning.py").Beginning
    of_recoding.check(kind, {"beginning": 2}, ["2221", "2310"])
    assert (
        Recode.from_dict({"variable": "job", "beginning": 1}).in_words().endswith("the first 1 characters of the code.")
    )


def test_the_engine_keeps_every_law(put):
    module = put("postrand/engines/acero.py")
    of_engines.check(module.AceroEngine())
    assert type(engines.engine("acero")) is module.AceroEngine


def test_the_command_answers(put):
    put("postrand/cli/formats.py")
    try:
        told = CliRunner().invoke(main, ["formats"])
        plain = json.loads(CliRunner().invoke(main, ["formats", "--json"]).stdout)
    finally:
        del main.commands["formats"]
    assert "SAS: .xpt, .sas7bdat" in told.output
    assert plain["SAS"] == {"read": [".xpt", ".sas7bdat"], "written": [".xpt"]}


def test_the_section_is_shown(put, tmp_path):
    module = put("postrand/workflow/dossier_missing.py")
    source = of_engines.Memory(pa.table({"a": ["x", None, None, "x"]}))
    rows = module.missing_rows(source, Codebook((Variable("a", role="other", missing="keep"),)))
    assert rows == [{"Variable": "a", "Missing": 0.5}]
    made = make(tmp_path / "release")
    summary = summarise(made.data_path, made.mechanism)
    certificate = certify(made.mechanism, CLAIMS, Facts())
    page = report.internal_report(made.mechanism, certificate, summary, made.data_path.name, {module.TITLE: rows})
    assert module.TITLE in page
