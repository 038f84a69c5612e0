"""Numbers stay numbers in completed files, as they are in the released data; what is stored as codes is said."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from postrand import estimate, formats, release
from postrand.codebook import Codebook, Variable
from postrand.completion import complete
from postrand.completion.files import Stacked, check_stacked, write_frames, write_stacked
from postrand.completion.readme import completed_readme
from postrand.engines import LocalEngine
from postrand.engines.frame import perturb
from postrand.errors import ReleaseError
from postrand.estimate.pooling_files import COPY
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.release import completed_files
from postrand.release.bundle import COMPLETED
from postrand.release.completed_files import columns_of, put, write_folder
from postrand.release.completed_folder import verify_completed
from postrand.support.randomness import ReleaseKey
from postrand.testing.engines import Memory
from tests.release_case import edit

KEY = ReleaseKey.from_seed(4)
RECORDS, COPIES = 240, 3
SUFFIXES = [".parquet", ".arrow", ".csv", ".sav", ".dta", ".xpt"]
STATISTICAL = [".sav", ".dta", ".xpt"]
BOOK = Codebook(
    (
        Variable("age", role="key", categories=("55", "65", "75")),
        Variable("flc", role="key", categories=("1.5", "3.5", "5.5"), missing="category"),
        Variable("creat", role="key", categories=("0.75", "1.25", "3"), labels=("low", "usual", "high")),
        Variable("sex", role="key", categories=("F", "M")),
        Variable("code", role="key", categories=("01", "02")),
        Variable("died", role="key", categories=(0, 1), type="int64"),
        Variable("rate", role="key", categories=(0.5, 2.0), type="double", labels=("half", "two")),
        Variable("pay", role="other", type="double"),
    )
)
DRAWN = [variable.name for variable in BOOK.variables[:-1]]
NUMBERS: dict[str, list[float]] = {
    "age": [55, 65, 75],
    "flc": [1.5, 3.5, 5.5],
    "creat": [0.75, 1.25, 3.0],
    "died": [0, 1],
    "rate": [0.5, 2.0],
}


def law() -> Mechanism:
    halves = [[Block((n,), randomised_response(BOOK[n].size, 3.0)) for n in DRAWN[k::2]] for k in (0, 1)]
    joint = [Block(tuple(DRAWN), randomised_response(int(np.prod([BOOK[n].size for n in DRAWN])), 5.0)), *halves[1]]
    return Mechanism([], BOOK, split=Split.of([1 / len(joint)] * len(joint), joint))


def plain_law() -> Mechanism:
    return Mechanism({name: randomised_response(BOOK[name].size, 3.0) for name in DRAWN}, BOOK)


def records(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for v in BOOK.variables[:-1]:
        values = [*v.categories, *([None] if v.missing == "category" else [])]
        columns[v.name] = pa.array([values[k] for k in rng.integers(0, len(values), RECORDS)], v.type)
    return pa.table({**columns, "pay": np.random.default_rng(0).normal(size=RECORDS)})


def copies() -> list[pa.Table]:
    return [records(seed) for seed in range(1, COPIES + 1)]


def plainly(path: Path) -> pd.DataFrame:
    """Read a file as an analyst does, with what is not released as a missing value."""
    readers: dict[str, Callable[[str], Any]] = {
        ".parquet": pd.read_parquet,
        ".arrow": pd.read_feather,
        ".csv": pd.read_csv,
        ".sav": lambda p: pyreadstat.read_sav(p)[0],
        ".dta": lambda p: pyreadstat.read_dta(p)[0],
        ".xpt": lambda p: pyreadstat.read_xport(p)[0],
    }
    frame: pd.DataFrame = readers[path.suffix](str(path))
    return frame.astype({n: object for n in frame.columns if isinstance(frame[n].dtype, pd.CategoricalDtype)})


def values(column: pd.Series) -> set[Any]:
    return {value for value in column.dropna().tolist() if value not in ("", "NR", "(not released)")}


def draw(own: Mechanism, path: Path) -> None:
    """Write released data in the format of the path."""
    table = records(9).select(list(own.require_codebook().names))
    LocalEngine().perturb(Memory(table), own, KEY, functools.partial(formats.open_writer, path), shuffle=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the released data of a split and its completed copies in each format."""
    made = tmp_path_factory.mktemp("stored")
    shown = perturb(records(9), law(), KEY)
    for suffix in SUFFIXES:
        draw(law(), made / f"data{suffix}")
        write_frames(made / f"completed{suffix}", shown, copies(), law())
    return made


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_texts_of_numbers_have_the_types_and_values_of_the_released_data(suffix: str, folder: Path) -> None:
    data, completed = (plainly(folder / f"{name}{suffix}") for name in ("data", "completed"))
    texts = [v.name for v in BOOK.variables[:-1] if isinstance(v.categories[0], str)]
    for name in texts if suffix != ".csv" else ["sex"]:  # "(not released)" makes texts of numbers in CSV data
        is_number = suffix in STATISTICAL and (name in NUMBERS or suffix == ".dta")
        for one in (data, completed):
            assert one[name].dtype == float if is_number else not pd.api.types.is_numeric_dtype(one[name])
        assert values(completed[name]) == values(data[name])
        assert len(values(data[name])) == len(BOOK[name].categories)


@pytest.mark.parametrize("suffix", [".csv", *STATISTICAL])
def test_numbers_are_those_of_the_copies_record_by_record(suffix: str, folder: Path) -> None:
    found = plainly(folder / f"completed{suffix}")
    for number, copy in enumerate(copies(), 1):
        part = found[found[COPY] == number]
        for name, wanted in NUMBERS.items():
            true = np.array([np.nan if v is None else float(v) for v in copy[name].to_pylist()])
            np.testing.assert_array_equal(part[name].to_numpy(dtype=float), true)
            assert set(true[~np.isnan(true)]) == set(map(float, wanted))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_released_and_completed_files_that_belong_together_are_found_to(suffix: str, folder: Path) -> None:
    shown = perturb(records(9), law(), KEY)
    form = Stacked.of(columns_of(folder / f"data{suffix}", law()), law(), suffix)
    path = folder / f"again{suffix}"
    write_stacked(path, form, shown, copies())
    assert check_stacked(path, form, law(), shown, COPIES) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pooled_slopes_are_those_per_unit_of_the_numbers(suffix: str, folder: Path) -> None:
    def slope(frame: pd.DataFrame) -> dict[str, Any]:
        held = frame.assign(**{n: frame[n].astype(float) for n in NUMBERS}).dropna(subset=["flc"])
        return {n: (np.polyfit(held[n], held["pay"], 1)[0], 1.0) for n in NUMBERS}

    pooled = estimate.pool(slope, folder / f"completed{suffix}", kind="pandas")
    each = [slope(pd.DataFrame(copy.to_pydict())) for copy in copies()]
    wanted = [np.mean([one[n][0] for one in each]) for n in NUMBERS]
    np.testing.assert_allclose(pooled.value, wanted, rtol=1e-10)
    if suffix in (".csv", *STATISTICAL):
        first = estimate.completed_frames(folder / f"completed{suffix}", "pandas")[0]
        assert all(pd.api.types.is_numeric_dtype(first[n]) for n in NUMBERS)


def test_stata_labels_whole_numbers_and_codes_and_spss_all(folder: Path) -> None:
    stata = pyreadstat.read_dta(str(folder / "completed.dta"))[1].variable_value_labels
    codes = {"sex": {1: "F", 2: "M"}, "code": {1: "01", 2: "02"}}
    assert stata == {**codes, "creat": {3: "high"}, "rate": {2: "two"}}
    spss = pyreadstat.read_sav(str(folder / "completed.sav"))[1].variable_value_labels
    assert spss == {"creat": {0.75: "low", 1.25: "usual", 3: "high"}, "rate": {0.5: "half", 2: "two"}}


def test_stata_has_numbers_where_the_released_texts_are_perturbed_in_every_record(tmp_path: Path) -> None:
    """Stata imputes no text, so texts of numbers become numbers there; SPSS keeps the released texts."""
    book = plain_law()
    write_frames(tmp_path / "completed.dta", records(9), copies(), book)
    assert values(plainly(tmp_path / "completed.dta")["flc"]) == {1.5, 3.5, 5.5}
    form = Stacked.of(records(9).schema, book, ".sav")
    assert form.schema.field("flc").type == pa.string()
    assert form.stored_as["flc"] == "numbers as text"


NUMERIC = {"age": "numbers", "flc": "numbers", "creat": "labelled numbers"}
ALWAYS = {"died": "numbers", "rate": "labelled numbers", "pay": "numbers"}
AS_TEXT = dict.fromkeys(NUMERIC, "numbers as text")
STORED = {
    ".csv": {**NUMERIC, "sex": "texts", "code": "texts", **ALWAYS},
    ".parquet": {**AS_TEXT, "sex": "texts", "code": "texts", **ALWAYS},
    ".arrow": {**AS_TEXT, "sex": "texts", "code": "texts", **ALWAYS},
    ".sav": {**NUMERIC, "sex": "texts", "code": "texts", **ALWAYS},
    ".xpt": {**NUMERIC, "sex": "texts", "code": "texts", **ALWAYS},
    ".dta": {**NUMERIC, "sex": "codes", "code": "codes", **ALWAYS},
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_how_each_column_is_stored_is_said(suffix: str, folder: Path) -> None:
    form = Stacked.of(columns_of(folder / f"data{suffix}", law()), law(), suffix)
    assert dict(form.stored_as) == STORED[suffix]


def mean_flc(path: Path) -> float:
    return float(estimate.pool(lambda frame: (frame["flc"].mean(), 1.0), path, kind="pandas").value[0])


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[release.Release, Any]:
    """Return a release in a Stata file, and its copies."""
    book = BOOK.select(["flc", "sex", "pay"])
    laws = [Block(("flc",), randomised_response(4, 3.0)), Block(("sex",), randomised_response(2, 3.0))]
    own = Mechanism([], book, split=Split.of([0.5, 0.5], laws))
    root = tmp_path_factory.mktemp("made") / "release"
    written = release.write(root, data_writer=functools.partial(draw, own), data_name="data.dta", mechanism=own)
    done = complete(written.frame(), written.mechanism, copies=2, seed=3, classes=2, sweeps=30, chains=1)
    return written, done


def test_readme_names_the_columns_that_are_codes(made: tuple[release.Release, Any], tmp_path: Path) -> None:
    told = write_folder(tmp_path / "c", *made)
    text = " ".join((tmp_path / "c" / "README.txt").read_text().split())
    assert "write factor(x), C(x) or i.x: sex." in text
    assert "Numbers, the same as in the codebook: flc, pay." in text
    assert 'is said above, in "How each column is stored"' in text
    assert verify_completed(tmp_path / "c", made[0].path).verdict == "verified"
    without = completed_readme({name: value for name, value in told.items() if name != "stored_as"})
    assert "How each column is stored" not in without


def test_what_is_said_of_columns_is_checked(made: tuple[release.Release, Any], tmp_path: Path) -> None:
    write_folder(tmp_path / "c", *made)
    edit(tmp_path / "c" / COMPLETED, lambda told: told["stored_as"].update(flc="codes"))
    with pytest.raises(ReleaseError, match="'stored_as' does not follow from the release"):
        verify_completed(tmp_path / "c", made[0].path)


def test_earlier_folders_are_verified_made_again_and_pooled(
    made: tuple[release.Release, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier files have the codes 1, 2, 3 for 1.5, 3.5, 5.5, and do not say so."""

    def facts(*of: Any) -> dict[str, Any]:
        return {name: value for name, value in said(*of).items() if name != "stored_as"}

    said = completed_files.facts
    with monkeypatch.context() as before:
        before.setattr(Stacked, "of", functools.partial(Stacked.of, earlier=True))
        before.setattr(completed_files, "facts", facts)
        write_folder(tmp_path / "c", *made)
    assert "stored_as" not in (tmp_path / "c" / COMPLETED).read_text()
    assert pyreadstat.read_dta(str(tmp_path / "c/completed.dta"))[1].variable_value_labels["flc"][1] == "1.5"
    assert verify_completed(tmp_path / "c", made[0].path, redo=True).verdict == "verified"
    of_codes = mean_flc(tmp_path / "c")
    new = put(tmp_path / "completed.dta", columns_of(made[0].data_path, made[0].mechanism), made[0].mechanism, made[1])
    assert new["stored_as"] == {"flc": "numbers", "sex": "codes", "pay": "numbers"}
    assert mean_flc(tmp_path / "completed.dta") == pytest.approx(2 * of_codes - 0.5)
