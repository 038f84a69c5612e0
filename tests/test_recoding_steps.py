"""Several recodings in order are one recode: composed, recorded once, the same everywhere, refused with a sentence."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError
from postrand.recoding import Recode
from postrand.recoding.typed import entry_of
from postrand.workflow.recode_trial import tried

RNG = np.random.default_rng(4)
AGES = pa.array([int(a) for a in RNG.integers(0, 100, 80)] + [None, 999])
JOBS = ["nurse"] * 30 + ["clerk"] * 25 + ["diver", "pilot", "cook"] * 3
LIMITS, BANDS = {"top": 85}, {"bands": [0, 18, 65]}
ENDS = {"groups": {"a": ["20"], "b": ["60"]}, "others": "m"}
RARE = {"merge_rare": 5, "merged": ["diver"]}
CHAINS: list[tuple[dict[str, Any], Any]] = [
    ({"missing": [999], "steps": [LIMITS, BANDS]}, AGES),
    ({"steps": [{"rounding": 10}, {"bottom": 20, "top": 60}, ENDS]}, AGES),
    ({"steps": [RARE, {"groups": {"x": ["nurse", "clerk"]}, "others": "y"}]}, JOBS),
    ({"steps": [{"groups": {"x": ["nurse"], "diver": ["diver"]}, "others": "y"}, RARE]}, JOBS),
]


@pytest.mark.parametrize(("options", "values"), CHAINS)
def test_a_chain_gives_what_its_steps_give_one_after_the_other(options, values):
    recode = Recode.from_dict({"variable": "v", **options})
    column = values if isinstance(values, pa.Array) else pa.array(values)
    want, lost = column, options.get("missing", [])
    for step in options["steps"]:
        one = Recode.from_dict({"variable": "v", "missing": lost, **step})
        want, lost = pa.array(one.apply(want).to_pylist()), []
    assert recode.apply(column).to_pylist() == want.to_pylist()
    if recode.kind.categories():
        assert set(recode.kind.categories()) >= set(want.to_pylist()) - {None}
    assert recode.is_confidential == ("merge_rare" in json.dumps(options))
    assert Recode.from_dict(json.loads(json.dumps(recode.to_dict()))) == recode
    said = [Recode.from_dict({"variable": "v", **step}).kind.in_words() for step in options["steps"]]
    assert "; then ".join(said) in recode.in_words()


def test_what_does_not_go_together_is_refused_with_the_step():
    for steps, words in (
        ([{"bands": [0, 18]}, {"top": 85}], "step 2: top coding reads numbers, but step 1 gives names"),
        ([{"groups": {"A": ["x"], "B": ["y"]}}, {"groups": {"C": ["A"]}}], "step 2: no place for what step 1 gives: B"),
        ([{"top": 85}], "are not two recodings"),
        ([{"top": 85, "missing": [9]}, {"bands": [0]}], "step 1: a step has no 'missing' of its own"),
        ([{"top": 85}, {"band": [0]}], "step 2: no kind of recoding"),
        ([{"steps": [{"top": 8}, {"rounding": 2}]}, {"bands": [0, 2]}], "steps of its own"),
        ("top", "'steps' is not a list"),
    ):
        with pytest.raises(SpecificationError, match="recode of 'v'.*" + words):
            Recode.from_dict({"variable": "v", "steps": steps})
    with pytest.raises(SpecificationError, match="list them in steps"):
        Recode.from_dict({"variable": "v", "top": 85, "bands": [0]})


def test_a_chain_in_one_line_keeps_the_options_of_the_whole_recode():
    entry = entry_of("age=years:top:85 then bands:0,18;below=young;missing=99")
    want = {"variable": "age", "from": "years", "missing": [99]}
    assert entry == want | {"steps": [{"top": 85}, {"bands": [0, 18], "below": "young"}]}
    kept = entry_of("job=groups:now then later=a,b|rest=c")["groups"]  # no kind behind "then": a name
    assert kept == {"now then later": ["a", "b"], "rest": ["c"]}


def survey(folder: Path) -> Path:
    rows = [f"{'fm'[i % 2]},{i % 97 if i % 10 else 999},{JOBS[i % 64]},{10 + i % 30}" for i in range(640)]
    (folder / "a.csv").write_text("sex,age,job,pay\n" + "\n".join(rows) + "\n")
    return folder / "a.csv"


@pytest.mark.filterwarnings("ignore:recode of .*says by name which categories were merged")
def test_from_a_file_to_a_release_that_states_the_order(tmp_path):
    chains = (
        "age=top:85 then bands:0,18,65;missing=999",
        "job=groups:care=nurse|office=clerk|sea=diver|air=pilot|food=cook then merge_rare:40",
        "pay=rounding:10 then merge_rare:150;others=rare",
    )
    options = [text for chain in chains for text in ("--recode", chain)]
    command = ["init", survey(tmp_path), "--keys", "sex,age,job,pay", "--out", tmp_path, *options]
    done = CliRunner().invoke(main, [str(part) for part in command])
    assert done.exit_code == 0, done.output
    book = pr.load_codebook(tmp_path / "codebook.toml")
    counts = Counter(JOBS[i % 64] for i in range(640))
    assert {name for name in counts if counts[name] < 40} == {"diver", "pilot", "cook"}
    assert book["age"].categories == ("0-17", "18-64", "65+")
    assert book["job"].categories == ("care", "office", "Other")
    assert book["pay"].categories == ("20", "30", "rare")  # 10 and 40 have fewer than 150
    assert [recode.is_confidential for recode in book.recodes] == [False, True, True]
    before = (tmp_path / "codebook.toml").read_text("utf-8")
    trials, made = tried(tmp_path / "codebook.toml", tmp_path / "a.csv")
    assert [trial.problem for trial in trials] == ["", "", ""]
    assert ["says by name which categories were merged" in trial.note for trial in trials] == [False, True, True]
    assert made.recodes == book.recodes
    text = before.replace('merged = ["air", "food", "sea"]', "merged = []")
    assert text != before
    (tmp_path / "codebook.toml").write_text(text, "utf-8")
    assert "would merge other categories" in tried(tmp_path / "codebook.toml", tmp_path / "a.csv")[0][1].note
    (tmp_path / "codebook.toml").write_text(before, "utf-8")
    out = tmp_path / "out"
    pr.run(pr.load_plan(tmp_path / "plan.toml"), out, release_key=b"k" * 32)
    assert pr.verify(out)
    said = "top coding: 85 stands for 85 and more; then bands from each edge"
    assert "age: from age, top coding, then bands" in _text(out / "README.txt")
    pages = ["report.html", "ddi.xml", "croissant.json"]
    assert [name for name in pages if said in _text(out / name)] == pages
    assert json.loads((out / "codebook.json").read_text("utf-8"))["recodes"][0]["steps"][0] == {"top": 85}


def _text(path: Path) -> str:
    return " ".join(path.read_text("utf-8").split())


def test_frames_are_recoded_in_the_same_order():
    recode = Recode.from_dict({"variable": "age", **CHAINS[0][0]})
    book = Codebook((Variable("age", "key", ("0-17", "18-64", "65+"), missing="category"),), recodes=(recode,))
    made = pr.recode(pa.table({"age": AGES}), book).column("age").to_pylist()
    assert made == recode.apply(AGES).to_pylist()
