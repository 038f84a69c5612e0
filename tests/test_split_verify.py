"""Forged splits are not believed: other probabilities, other matrices, subsets that follow the data."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import postrand as pr
from postrand import formats, release
from postrand.codebook.not_released import NOT_RELEASED
from postrand.engines.frame import perturb
from postrand.engines.summary import Summary, check_margins, summarise
from postrand.errors import DataError, ReleaseError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.margins import Table, impossible
from postrand.mechanism.matrix import randomised_response
from postrand.mechanism.split_margins import split_tables
from postrand.plan import load_plan
from postrand.support.randomness import ReleaseKey
from postrand.workflow import pipeline
from tests.release_case import edit, rehash
from tests.split_plan_case import NAMES, UNIT, law_of, make_release


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_release(tmp_path_factory.mktemp("split"))


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "release", tmp_path / "copy"))


# What is not believed.


def everything(root: Path) -> None:
    """Write every file that follows from others anew, as the best forger would, without looking at the data's law."""
    import postrand.release.verification as reading
    from postrand.certification.certificate import claims_from_dict, recertify
    from postrand.release.bundle import derive

    law = Mechanism.from_dict(law_of(root), reading._codebook(root))
    stated, facts = claims_from_dict(json.loads((root / "certificate.json").read_text()))
    data = root / json.loads((root / "manifest.json").read_text())["data"]
    found = derive(law, recertify(law, stated, facts), summarise(data, law), data, reading._description(root, 3))
    for name, content in found.items():
        (root / name).write_bytes(content)
    rehash(root)


def moved(law: dict[str, Any]) -> None:
    """Move a tenth of all probability from the most frequent subset to another."""
    subsets = sorted(law["split"]["subsets"], key=lambda s: -s["weight"])
    subsets[0]["weight"] -= UNIT // 10
    subsets[1]["weight"] += UNIT // 10


def test_forged_probabilities_are_refused(copied: Path) -> None:
    edit(copied / "mechanism.json", moved)
    rehash(copied)
    with pytest.raises(ReleaseError, match="the certificate does not agree with the matrices"):
        release.verify(copied)


def test_probabilities_that_do_not_sum_to_one_are_refused(copied: Path) -> None:
    edit(copied / "mechanism.json", lambda law: law["split"]["subsets"][0].update(weight=1))
    rehash(copied)
    with pytest.raises(ReleaseError, match="do not sum to 2"):
        release.verify(copied)


def test_probabilities_that_were_not_drawn_by_are_refused_by_the_records(copied: Path) -> None:
    edit(copied / "mechanism.json", moved)
    everything(copied)
    with pytest.raises(ReleaseError, match=r"margins: block 'subsets of the split': .*almost never produces"):
        release.verify(copied)


def test_a_stronger_matrix_that_was_not_used_is_refused_by_the_records(copied: Path) -> None:
    """The file says more than it should: its cells were drawn at a larger ε than is stated."""

    def stronger(law: dict[str, Any]) -> None:
        for subset in law["split"]["subsets"]:
            held = subset["weights"]
            if isinstance(held, dict):
                held["off"] = UNIT // held["size"] - 1
                held["diagonal"] = UNIT - (held["size"] - 1) * held["off"]

    edit(copied / "mechanism.json", stronger)
    everything(copied)
    with pytest.raises(ReleaseError, match=r"margins: block '.*' of the split"):
        release.verify(copied)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("certificate.json", lambda c: c["split"][0].update(epsilon=0.5), "does not agree with the matrices"),
        ("certificate.json", lambda c: c["split"].pop(), "does not agree with the matrices"),
        ("certificate.json", lambda c: c.pop("split"), "does not agree with the matrices"),
        ("codebook.json", lambda b: b["variables"][0].pop("not_released"), "codebook.json: this file does not follow"),
        ("codebook.json", lambda b: b["variables"][0].update(not_released="M"), "codebook.json: this file does not"),
        ("mechanism.json", lambda m: m.pop("split"), "."),
    ],
)
def test_a_changed_file_is_refused(copied: Path, name: str, change: Any, message: str) -> None:
    edit(copied / name, change)
    rehash(copied)
    with pytest.raises(ReleaseError, match=message):
        release.verify(copied)


def swapped(root: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write other records, with a manifest that fits."""
    table = pq.read_table(root / "data.parquet")
    rows = table.to_pylist()
    change(rows)
    with formats.open_writer(root / "data.parquet.new.parquet", table.schema) as writer:
        for batch in pa.Table.from_pylist(rows, table.schema.remove_metadata()).to_batches():
            writer.write(batch)
    (root / "data.parquet.new.parquet").replace(root / "data.parquet")
    rehash(root)


def test_a_record_that_shows_no_subset_is_refused(copied: Path) -> None:
    def blank(rows: list[dict[str, Any]]) -> None:
        rows[0].update(dict.fromkeys(NAMES, NOT_RELEASED))

    swapped(copied, blank)
    with pytest.raises(ReleaseError, match="a set of variables that is no subset of the split"):
        release.verify(copied)


def test_a_combination_that_cannot_be_is_refused(copied: Path) -> None:
    def impossible_pair(rows: list[dict[str, Any]]) -> None:
        row = next(r for r in rows if NOT_RELEASED not in (r["age"], r["ill"]))
        row.update(age="10", ill="True")

    swapped(copied, impossible_pair)
    with pytest.raises(ReleaseError, match=r"a rule of the codebook forbids|not a cell of the subset"):
        release.verify(copied)


# Subsets that follow the data.


def summary_of(
    folder: Path, chances: Callable[[str], tuple[float, float]], rows: int = 20_000
) -> tuple[Summary, Mechanism]:
    """Return a release whose subsets were drawn with probabilities that may depend on sex, and the law it states."""
    book = pr.Codebook(
        (pr.Variable("sex", role="key", categories=("F", "M")), pr.Variable("age", role="key", categories=("o", "y")))
    )
    blocks = [Block((name,), pr.TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])) for name in ("sex", "age")]
    rng = np.random.default_rng(1)
    true = pa.table({"sex": np.array(["F", "M"])[rng.integers(0, 2, rows)], "age": np.array(["o", "y"])[[0] * rows]})
    parts = []
    for sex in ("F", "M"):
        law = Mechanism([], book, split=Split.of(chances(sex), blocks))
        drawn = perturb(true, law, ReleaseKey.from_seed(7))
        parts.append(drawn.filter(pa.array(np.array(true["sex"].to_pylist()) == sex)))
    law, table = Mechanism([], book, split=Split.of((0.5, 0.5), blocks)), pa.concat_tables(parts).unify_dictionaries()
    with formats.open_writer(folder / "data.parquet", table.schema) as writer:
        writer.write(table.combine_chunks().to_batches()[0])
    found = summarise(folder / "data.parquet", law)
    (folder / "data.parquet").unlink()
    return found, law


def test_subsets_drawn_by_the_law_pass_and_others_do_not(tmp_path: Path) -> None:
    assert check_margins(*summary_of(tmp_path, lambda _: (0.5, 0.5))) == 3
    for wrong in (lambda _: (0.55, 0.45), lambda sex: (0.65, 0.35) if sex == "F" else (0.5, 0.5)):
        with pytest.raises(DataError, match="subsets of the split"):
            check_margins(*summary_of(tmp_path, wrong))


@pytest.mark.parametrize("level", [0.3, 0.01, 1e-6])
@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.3, 0.5)])
def test_a_right_draw_is_refused_no_more_often_than_stated(level: float, probabilities: tuple[float, ...]) -> None:
    """All outcomes of 30 records, each with its probability."""
    n, wrong = 30, 0.0
    for counts in itertools.product(range(n + 1), repeat=len(probabilities) - 1):
        if sum(counts) <= n:
            every = [*counts, n - sum(counts)]
            if impossible([Table("x", (np.array([probabilities]),), np.array(every))], level):
                wrong += stats.multinomial.pmf(every, n, probabilities)
    assert wrong <= level


BESIDE = pr.Codebook(
    tuple(
        pr.Variable(name, role="key", categories=("0", "1", "2")[:size])
        for name, size in zip("abcz", (2, 3, 2, 2), strict=True)
    )
)
PAIRS = Split.of(
    [0.4, 0.35, 0.25],
    [Block(tuple(names), randomised_response(size, 1.5)) for names, size in (("ab", 6), ("bc", 6), ("ac", 4))],
)


def refusals(follows: Callable[[dict[str, np.ndarray]], np.ndarray], rows: int, seed: int, level: float) -> list[str]:
    """Return what is refused of a release where record r shows subset t with the probability ``follows(...)[r, t]``."""
    rng = np.random.default_rng(seed)
    true = {"a": rng.choice(2, rows, p=(0.8, 0.2)), "b": rng.choice(3, rows)}
    true |= {name: rng.choice(2, rows) for name in "cz"}
    chances = np.broadcast_to(follows(true), (rows, 3))
    shown = (rng.random(rows)[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    cells = []
    for t, block in enumerate(PAIRS.blocks):
        here = shown == t
        x = np.ravel_multi_index([true[n][here] for n in block.variables], [BESIDE[n].size for n in block.variables])
        ends = np.cumsum(block.matrix.array[x], axis=1)
        y = (rng.random(len(x))[:, None] > ends).sum(axis=1)
        cells.append(np.bincount(y, minlength=block.matrix.size))
    among = {"z": np.array([np.bincount(shown[true["z"] == value], minlength=3) for value in range(2)])}
    return impossible(split_tables(PAIRS, BESIDE, np.bincount(shown, minlength=3), cells, among), level)


def test_right_releases_are_hardly_ever_refused() -> None:
    law = np.array([0.4, 0.35, 0.25])
    refused = sum(bool(refusals(lambda _: law, 300, seed, 0.3)) for seed in range(150))
    assert refused <= stats.binom.ppf(1 - 1e-6, 150, 0.3)
    assert not any(refusals(lambda _: law, 50_000, seed, 1e-3) for seed in range(5))


def test_subsets_that_follow_something_else_are_refused() -> None:
    """By a variable beside the split, and by one that two subsets show; the shares over all records are right."""
    law, move = np.array([0.4, 0.35, 0.25]), np.array([0.15, -0.15, 0.0])
    by_z = refusals(lambda true: law + np.where(true["z"] == 1, 1, -1)[:, None] * move, 20_000, 1, 1e-9)
    assert by_z == ["'subsets of the split' by 'z'"] * 2
    move = np.array([0.05, 0.0, -0.05])
    by_a = refusals(lambda true: law + np.where(true["a"] == 1, 4, -1)[:, None] * move, 200_000, 1, 1e-9)
    assert by_a == ["'a' in all subsets of the split"]


def test_a_matrix_that_does_not_treat_values_alike_is_left_out() -> None:
    """A table of one variable then depends on the other one too."""
    array = np.full((4, 4), 0.1) + np.diag([0.6, 0.6, 0.6, 0.6])
    array[0] = (0.4, 0.1, 0.3, 0.2)
    blocks = [Block(("a", "c"), pr.TransitionMatrix.from_array(array)), *PAIRS.blocks[:2]]
    split, cells = Split.of([0.5, 0.25, 0.25], blocks), [np.ones(block.matrix.size, int) for block in blocks]
    tables = split_tables(split, BESIDE, np.array([4, 6, 6]), cells, {})
    assert [table.name for table in tables if "all subsets" in table.name] == ["'b' in all subsets of the split"]


def test_a_draw_of_probability_zero_is_refused() -> None:
    assert impossible([Table("x", (np.array([[1.0, 0.0]]),), np.array([99, 1]))]) == ["x"]


def test_the_folder_of_the_same_key_has_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = pipeline.run(load_plan(made / "plan.toml"), tmp_path / "again", release_key=bytes(range(32)))
    for path in (made / "release").iterdir():
        assert path.read_bytes() == (again.path / path.name).read_bytes()


def test_the_guide_says_which_shares_of_subsets_are_refused() -> None:
    law = (np.array([[0.5, 0.5]]),)
    for share, refused in ((0.533, False), (0.535, True)):
        counts = np.array([round(10_000 * share), 10_000 - round(10_000 * share)])
        assert bool(impossible([Table("x", law, counts), *[Table("y", law, np.array([1, 1]))] * 2])) == refused
