"""Completed copies: their values, their types, and their law given the fitted model, by brute force."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import postrand as pr
from postrand import Block, Codebook, Mechanism, Split, Variable, randomised_response
from postrand.codebook.coding import encode
from postrand.codebook.rules import forbidden
from postrand.completion import complete, completed
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.mixture import Draw, fitting
from postrand.support.progress import Stage, listening
from postrand.support.randomness import ReleaseKey
from postrand.testing.estimators import mechanism, released, survey

from .conftest import ROOT
from .evidence_cases import CASES, KEPT, frame_of, likelihood, released_records, true_records
from .stats import rejects

KEY = ReleaseKey.from_seed(9)
QUICK: dict[str, Any] = {"copies": 2, "seed": 1, "sweeps": 8, "classes": 4}
TYPED = Codebook(
    (
        Variable("sex", "key", ("F", "M"), labels=("female", "male")),
        Variable("grade", "key", ("low", "mid", "high"), ordered=True, missing="category"),
        Variable("hours", "other", (10, 20, 30), type="int64"),
        Variable("moved", "other", (False, True), type="bool", missing="keep"),
        Variable("pay", "other", type="double", missing="keep"),
    )
)


def typed(n: int = 400) -> pa.Table:
    """Return records with every type of variable, some of them missing where they can be."""
    rng = np.random.default_rng(2)
    grade = np.array(["low", "mid", "high", None])[rng.integers(0, 4, n)]
    moved = np.array([False, True, None])[rng.integers(0, 3, n)]
    columns = {
        "sex": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 2, n), pa.int8()), pa.array(["F", "M"])),
        "grade": pa.DictionaryArray.from_arrays(
            pa.array([None if g is None else ("low", "mid", "high").index(g) for g in grade], pa.int8()),
            pa.array(["low", "mid", "high"]),
            ordered=True,
        ),
        "hours": pa.array(rng.integers(1, 4, n) * 10),
        "moved": pa.array(moved.tolist(), pa.bool_()),
        "pay": pa.array([None if x < 20 else float(x) for x in rng.gamma(2, 50, n)]),
    }
    return pa.table({**columns, "note": np.arange(n)})


def laws(split: bool) -> Mechanism:
    """Return a mechanism of the typed records, in blocks or in a split."""
    if not split:
        sizes = {"sex": 2, "grade": 4, "hours": 3, "moved": 2}
        return Mechanism({name: randomised_response(size, 2.0) for name, size in sizes.items()}, TYPED)
    blocks = [
        Block(("sex", "grade", "hours"), randomised_response(24, 4.0)),
        Block(("moved",), randomised_response(2, 2.0)),
        Block(("hours",), randomised_response(3, 2.0)),
    ]
    return Mechanism([], TYPED, split=Split.of([0.5, 0.25, 0.25], blocks))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_copies_are_frames_of_the_callers_kind_with_the_types_of_the_true_file(kind: str, split: bool) -> None:
    true = {"arrow": lambda t: t, "pandas": pa.Table.to_pandas, "polars": pl.from_arrow}[kind](typed())
    if kind == "pandas":
        true.index = np.arange(len(true)) * 3
    law = laws(split)
    shown = pr.perturb(true, law, KEY)
    done = complete(shown, law, **QUICK)
    assert len(done.frames) == len(list(done.frames)) == done.copies == 2
    for copy in done.frames:
        assert type(copy) is type(true)
        assert len(copy) == len(true)
        if kind == "arrow":
            assert copy.column_names == true.column_names
            assert copy.schema.types == true.schema.types
            assert copy.column("sex").chunk(0).dictionary.to_pylist() == ["F", "M"]
            assert copy.select(["pay", "note"]).equals(true.select(["pay", "note"]))
        elif kind == "pandas":
            assert copy.index.equals(true.index)
            assert copy.dtypes["sex"].categories.tolist() == ["F", "M"]
            assert copy.dtypes["grade"] == true.dtypes["grade"]
            assert copy.dtypes["hours"] == true.dtypes["hours"]
            pd.testing.assert_frame_equal(copy[["pay", "note"]], true[["pay", "note"]])
        else:
            assert copy.columns == true.columns
            assert copy["hours"].dtype == true["hours"].dtype
            assert copy["moved"].dtype == pl.Boolean
            assert copy["grade"].cast(pl.String).drop_nulls().is_in(["low", "mid", "high"]).all()
            assert copy.select("pay", "note").equals(true.select("pay", "note"))
    assert_same(done.frames[1], done.frames[-1])
    assert_same(done.frames[0], done.frames[:1][0])
    with pytest.raises(IndexError):
        done.frames[2]


def assert_same(one: Any, other: Any) -> None:
    assert one.equals(other)


def test_a_value_that_is_missing_and_kept_is_missing_in_every_copy_and_no_other() -> None:
    true, law = typed(), laws(split=False)
    for copy in complete(pr.perturb(true, law, KEY), law, **QUICK).frames:
        assert copy["moved"].is_null().equals(true["moved"].is_null())
        assert 0 < copy["grade"].null_count < len(true)


def test_one_seed_gives_one_set_of_copies_and_no_seed_a_fresh_one() -> None:
    law, frame = mechanism(), released(survey(200))
    one, same = (complete(frame, law, **QUICK) for _ in range(2))
    assert all(a.equals(b) for a, b in zip(one.frames, same.frames, strict=True))
    fresh = [complete(frame, law, copies=2, sweeps=4) for _ in range(2)]
    assert fresh[0].seed != fresh[1].seed
    assert all(0 <= done.seed < 2**53 for done in fresh)
    again = complete(frame, law, copies=2, sweeps=4, seed=fresh[0].seed)
    assert again.frames[1].equals(fresh[0].frames[1])


@pytest.mark.parametrize("kind", ["feasible", "plain", "read by another", "split", "split strata"])
def test_copies_follow_the_posterior_of_the_drawn_model_by_brute_force(kind: str) -> None:
    """For each kind of record that can be released, what copies show of it, against all true records in turn.

    Columns outside the mixture are known, and its copies do not depend on them.
    """
    law = CASES[kind]()
    book, shown = law.require_codebook(), released_records(law)
    each = 200
    frame = frame_of(law, [r for r in shown for _ in range(each)])
    done = complete(frame, law, copies=2, seed=3, sweeps=12, classes=3, anchor=False)
    done = dataclasses.replace(done, related=None)
    copy, draw = done.frames[1], done.fit.draws[1]
    true = true_records(book)
    columns = [copy[name].to_pylist() for name in book.names]
    texts = [[*v.categories, *([None] if v.missing != "error" else [])] for v in book.variables]
    codes = np.array([[t.index(x) for x in column] for t, column in zip(texts, columns, strict=True)]).T
    places = [tuple(v.size if c == KEPT else c for v, c in zip(book.variables, x, strict=True)) for x in true]
    theta = thetas(done, draw, book)
    model = {p: float(draw.weights @ np.prod([t[:, c] for t, c in zip(theta, p, strict=True)], axis=0)) for p in places}
    for number, r in enumerate(shown):
        chance = np.array([model[p] * likelihood(law, r, x) for p, x in zip(places, true, strict=True)])
        counts = [int((codes[number * each : (number + 1) * each] == p).all(axis=1).sum()) for p in places]
        assert not rejects(counts, chance / chance.sum()), r


def thetas(done: pr.completion.Completed, draw: Draw, book: Codebook) -> list[np.ndarray]:
    """Return θ of each variable of the codebook by its codes; ones where it is not in the mixture."""
    inside = dict(zip(done.modelled.names, draw.theta, strict=True))
    found = []
    for v in book.variables:
        if v.name not in inside:
            found.append(np.ones((len(draw.weights), v.size + 1)))
            continue
        held = done.modelled[v.name]  # an unperturbed one has codes for what occurs alone
        at = [held.labels.index(text) for text in v.code_labels] if held.kind != "perturbed" else slice(None)
        found.append(inside[v.name][:, at])
    return found


def test_settings_that_are_not_valid_are_refused_together() -> None:
    with pytest.raises(UsageError) as error:
        complete(released(survey(50)), mechanism(), copies=1, seed=-1, chains=0)
    assert len(error.value.problems) == 3
    with pytest.raises(TypeError):
        complete(released(survey(50)), mechanism(), iterations=5)  # type: ignore[call-arg]  # this is tested


def test_a_release_is_completed_from_its_folder_or_as_a_value() -> None:
    folder = ROOT / "tests" / "fixtures" / "releases" / "3" / "split"
    from_path, release = pr.complete(folder, **QUICK), pr.read_release(folder)
    done = pr.complete(release, **QUICK)
    assert done.frames[0].equals(from_path.frames[0])
    assert done.released is release.frame()
    assert [v.name for v in release.codebook.variables] == done.frames[0].column_names
    assert "(not released)" not in str(done.frames[0].to_pydict())
    book = release.codebook
    codes = {v.name: encode(done.frames[0][v.name], v) for v in book.variables if v.is_categorical}
    assert book.rules
    assert not forbidden(book, codes, book.rules).any()
    with pytest.raises(ReleaseError):
        pr.complete(folder.parent)
    with pytest.raises(UsageError, match="of a frame"):
        pr.complete(release.frame())


def test_progress_is_told_by_stages() -> None:
    told: list[Any] = []
    with listening(told.append):
        complete(released(survey(50)), mechanism(), **QUICK)
    stages = [name for name, _ in itertools.groupby(step.stage for step in told)]
    assert stages[:2] == [Stage.READING, Stage.FITTING]


def test_values_read_well() -> None:
    done = complete(released(survey(60)), mechanism(), **QUICK)
    assert repr(done) == "Completed(2 copies of 60 records, 4 variables drawn)"
    assert repr(done.frames) == "Copies(2 of 60 records)"
    assert repr(done.modelled).startswith("Modelled(4 perturbed variables and 0 unperturbed ones")
    assert done.related is not None
    assert len(done.related.names) == 4
    assert done.settings.classes == 4


def test_a_frame_without_a_perturbed_column_is_refused() -> None:
    with pytest.raises(DataError, match="area"):
        complete(released(survey(50)).drop_columns(["area"]), mechanism(), **QUICK)


def test_a_mechanism_without_a_codebook_takes_the_categories_of_the_frame() -> None:
    frame = pa.table({"a": pa.array(["x", "y", "x", "y"]).dictionary_encode()})
    copy = complete(frame, Mechanism({"a": randomised_response(2, 2.0)}), **QUICK).frames[0]
    assert copy.schema == frame.schema


@pytest.mark.parametrize(("asked", "agrees", "wanted"), [(0, False, [0, 4000]), (0, True, [0]), (24, False, [24])])
def test_chains_that_do_not_agree_have_a_longer_fit_where_the_sweeps_are_left_to_it(monkeypatch, asked, agrees, wanted):
    fitted, found = [], fitting.fit

    def counted(evidence, copies, seed, settings):
        fitted.append(settings.sweeps)
        return found(evidence, copies, seed, settings)

    monkeypatch.setattr(completed, "fit", counted)
    monkeypatch.setattr(completed, "convergence", lambda fit: SimpleNamespace(agree=agrees))
    law = Mechanism({"sex": randomised_response(2, 2.0)}, TYPED.select(["sex"]))
    frame = pa.table({"sex": ["F", "M"] * 20})
    done = complete(frame, law, copies=2, seed=1, classes=2, sweeps=asked)
    assert fitted == wanted
    again = complete(frame, law, copies=2, seed=1, classes=2, sweeps=done.settings.sweeps)
    assert again.frames[0].equals(done.frames[0])
    assert again.settings == done.settings


def test_chains_that_a_fit_leaves_apart_agree_after_the_longer_one(monkeypatch):
    """The usual number of sweeps is made too small for these records, so that the first fit fails the test."""
    rough = fitting.resolved
    monkeypatch.setattr(
        fitting, "resolved", lambda packed, copies, settings: rough(packed, copies, replace_usual(settings))
    )

    def replace_usual(settings):
        return settings if settings.sweeps else dataclasses.replace(settings, sweeps=60)

    law = Mechanism(
        {"sex": randomised_response(2, 0.5), "grade": randomised_response(4, 0.5)}, TYPED.select(["sex", "grade"])
    )
    frame = pr.perturb(typed(300).select(["sex", "grade"]), law, release_key=KEY)
    first = complete(frame, law, copies=2, seed=3, sweeps=60)
    assert not first.diagnostics.chains.agree
    done = complete(frame, law, copies=2, seed=3)
    assert done.settings.sweeps == 240
    assert done.diagnostics.chains.r_hat.max() < first.diagnostics.chains.r_hat.max()
