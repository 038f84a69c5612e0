"""Columns of free text: recognised by name or values, and never released without a decision."""

import re

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from postrand.app import data_views, opening
from postrand.app.decisions import act, open_decisions
from postrand.app.plans import open_plan
from postrand.cli import main
from postrand.plan.free_texts import identifying, is_free_text, is_remark, perturbed_texts

POINTING = [
    "see Müller family no. 12", "moved from Köln, tel. 0221-4711", "call: phone +49 (221) 4711", "Hauptstr. 17",
    "Lange Straße 4", "lives at 17 Main Street", "ask Ms Schmidt Nr. 9", "12, rue de Rivoli", "calle Mayor 5",
]  # fmt: skip
LABELS = [
    "Never married", "Grade 1 to 4, no diploma", "Working full time (35 hours and more)", "District no. 7",
    "By phone 2 or more times", "No. of children: 2", "Aged 15 to 24", "Tel Aviv", "Hotel 4 stars", "no 2nd job",
    "Wohnung Nr. 2", "Office clerks, general", "Nr 5", "Born in 1950 or before", "Northern region 2",
]  # fmt: skip


def test_texts_that_point_to_somebody_are_told_from_labels():
    for text in POINTING:
        assert is_free_text(pa.chunked_array([[text, "refused"] * 200])), text
        assert perturbed_texts(None, {"name": "x", "categories": [text, "refused"]}), text
        assert perturbed_texts(None, {"name": "x", "categories": [1, 2], "labels": [text, "refused"]}), text
    for text in LABELS:
        assert not is_free_text(pa.chunked_array([[text, "Other"] * 200])), text
        assert not perturbed_texts(None, {"name": "x", "categories": [text, "Other"]}), text


def test_occupations_are_labels_and_remarks_are_not():
    titles = [f"{a} {b} worker{chr(97 + i)}" for i in range(10) for a in ("Steel", "Wood") for b in
              ("field", "plant", "shop", "road", "yard", "mill", "mine")]  # fmt: skip
    assert len(titles) > 100
    column = pa.chunked_array([np.repeat(titles, 25).tolist()])
    assert not is_free_text(column)
    assert not perturbed_texts(column, {"name": "occupation", "categories": titles})
    thin = pa.chunked_array([np.repeat(titles, 3).tolist()])
    assert is_free_text(thin)
    assert not perturbed_texts(thin, {"name": "occupation", "categories": titles})
    alone = pa.chunked_array([[*titles, *[""] * 5000]])
    assert is_free_text(alone)
    assert perturbed_texts(alone, {"name": "what", "categories": titles})


def test_names_of_columns_of_remarks():
    for name in ("Remarks", "q7-remark", "FREE_TEXT", "anmerkungInt", "opmerking2"):
        assert is_remark(name), name
        assert identifying(pa.chunked_array([["moved away", "refused"] * 50]), {"name": name}), name
        assert not identifying(pa.chunked_array([[1, 2] * 50]), {"name": name}), name
        assert not identifying(pa.chunked_array([["1", "2", "A"] * 50]), {"name": name}), name
    for name in ("notebook", "commentator", "memory", "denoted", "text", "free", "note", "comment"):
        assert not is_remark(name), name


def test_what_is_called_a_note_or_a_comment_can_be_a_grade_or_a_way():
    """``Note`` is a school grade in German and French, ``comment`` is *how*: only longer texts make them remarks."""
    grades = {"name": "Note", "categories": ["sehr gut", "gut", "befriedigend", "ausreichend"]}
    ways = {"name": "comment_transport", "categories": ["on foot", "by car", "by bus"]}
    said = {"name": "notes", "categories": ["moved away last year", "was not at home", "refused"]}
    assert [perturbed_texts(None, one) for one in (grades, ways, said)] == [False, False, True]


def test_numbered_kinds_are_labels_and_industries_no_streets():
    for texts in (
        ["Bus line no. 12", "Tram line no. 4", "on foot"],
        ["Grade level no. 1", "Grade level no. 2", "Grade level no. 3"],
        ["Industr. 4", "industr. 12", "Grade 3"],
    ):
        assert not perturbed_texts(None, {"name": "x", "categories": texts}), texts
    for text in ("Neustr. 5", "Parkstr. 1", "Am Markt str. 2"):
        assert perturbed_texts(None, {"name": "x", "categories": [text, "other"]}), text


def test_values_that_look_like_remarks_can_be_listed_on_purpose(tmp_path):
    """A heuristic that refuses has a way on: the plan states it, and every surface says so."""
    lines = ["see Bell family no. 12", "at home"]
    rows = "\n".join(f"{'fm'[i % 2]},{'ab'[i % 3 > 0]},{lines[i % 5 > 0]}" for i in range(600))
    (tmp_path / "people.csv").write_text(f"sex,area,place\n{rows}\n", "utf-8")
    assert _run("init", tmp_path / "people.csv", "--keys", "sex,area,place", "--out", tmp_path / "w").exit_code == 0
    plan = tmp_path / "w" / "plan.toml"
    refused = _run("protect", "--plan", plan, "--out", tmp_path / "out")
    assert 'whose names point to nobody; if they do not, state [release] listed = ["place"]' in refused.output
    text = plan.read_text()
    plan.write_text(text.replace("\n[release]\n", '\n[release]\nlisted = ["place"]\n'))
    done = _run("protect", "--plan", plan, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "lists their values in its codebook: place; the plan states that they are listed" in done.output
    plan.write_text(text.replace("\n[release]\n", '\n[release]\nlisted = ["plaice"]\n'))
    wrong = _run("protect", "--plan", plan, "--out", tmp_path / "again")
    assert "no variable 'plaice' in the codebook (did you mean 'place'?)" in wrong.output


def _file(folder, remarks, rows=3601):
    rng = np.random.default_rng(5)
    texts = [remarks[i // 121 % len(remarks)] if i % 121 == 0 else "" for i in range(rows)]
    path = folder / "people.csv"
    kept = [f'{"fm"[rng.integers(2)]},{"abc"[rng.integers(3)]},"{text}"' for text in texts]
    path.write_text("\n".join(["sex,area,q9", *kept]))
    return path


FEW = ["see Müller family no. 12", "moved from Köln, tel. 0221-4711", "refused"]
MANY = [f"Ms Schmidt{i}x no. {i}, Hauptstr. 17, tel. 0221-{i}" for i in range(900, 930)]


def _run(*asked):
    return CliRunner().invoke(main, [*map(str, asked)])


@pytest.mark.parametrize("remarks", [FEW, MANY])
def test_a_release_of_remarks_needs_a_decision(tmp_path, remarks):
    path, work = _file(tmp_path, remarks), tmp_path / "w"
    told = _run("init", path, "--keys", "sex,area", "--other", "q9", "--out", work)
    assert told.exit_code == 0, told.output
    assert "can name persons: q9. Next: set role = 'drop'" in told.output
    plan = work / "plan.toml"
    assert re.search(r"holds free text or remarks.*\n.*\n# To decide: q9\.\nas_is = \[\]", plan.read_text())
    refused = _run("protect", "--plan", plan, "--out", tmp_path / "out")
    assert refused.exit_code != 0
    assert "hold free text: q9. Next: set role = 'drop', or name each in [release] as_is" in refused.output
    assert not (tmp_path / "out").exists()
    plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["q9"]'))
    assert _run("protect", "--plan", plan, "--out", tmp_path / "out").exit_code == 0
    suppress = _run("suppress", path, "--keys", "sex", "--drop", "area", "--out", tmp_path / "s")
    assert suppress.exit_code == 2
    assert "hold free text: q9" in suppress.output


@pytest.mark.parametrize("remarks", [FEW, MANY])
def test_remarks_get_no_role_by_default_and_are_never_perturbed(tmp_path, remarks):
    path = _file(tmp_path, remarks)
    for given, work in (([], tmp_path / "a"), (["--keys", "sex,area", "--other", "*"], tmp_path / "b")):
        assert _run("init", path, *given, "--out", work).exit_code == 0
        book = (work / "codebook.toml").read_text()
        assert re.search(r'name = "q9"\n(#.*\n)*role = ""', book), book
        assert "uncomment" not in book
        assert "q9" not in re.sub("#.*", "", (work / "plan.toml").read_text())
    assert _run("init", path, "--keys", "sex,area,q9", "--out", tmp_path / "c").exit_code == 0
    refused = _run("protect", "--plan", tmp_path / "c" / "plan.toml", "--out", tmp_path / "out")
    assert refused.exit_code != 0
    assert "lists their values in its codebook: q9. Next: set role = 'drop', or put them into groups" in refused.output


@pytest.mark.parametrize("remarks", [FEW, MANY])
def test_the_first_screen_of_the_workbench_says_it_too(tmp_path, remarks):
    path, work = _file(tmp_path, remarks), tmp_path / "w"
    told = "ree text or remarks, which can name persons: q9. Next: "
    assert told in _run("init", path, "--keys", "sex,area", "--other", "q9", "--out", work).output
    (tmp_path / "held").mkdir()
    opened = [open_decisions(opening.open_file(path)), open_plan(work / "plan.toml", tmp_path / "held")]
    for decisions in opened:
        assert told in str(data_views.variables(decisions))
        dropped = act(decisions, "role", str(decisions.names.index("q9")), "drop")
        assert told not in str(data_views.variables(dropped))
