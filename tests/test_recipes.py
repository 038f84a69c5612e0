"""Completed files read back as programs read them, and what Stata and SPSS ask of such files."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
import scipy
import statsmodels.formula.api as smf

from postrand import Codebook, Mechanism, Variable, formats
from postrand.codebook.survey_design import SurveyDesign
from postrand.completion.files import Stacked, write_stacked
from postrand.errors import DataError, UsageError
from postrand.estimate import combine, completed_frames, pool
from postrand.release.completed_files import survey_of
from tests.completed_case import BOOK, COPIES, MECHANISM, RECORDS, recipe, tables, write
from tests.conftest import ROOT

SUFFIXES = (".csv", ".parquet", ".feather", ".sav", ".dta", ".xpt")
PAGE = (ROOT / "docs" / "completed.md").read_text("utf-8")


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stacked")
    return folder, write(folder, SUFFIXES)


def values(frame):
    """The columns of a frame, with texts for categories."""
    return {name: np.asarray(frame[name].astype(str) if name == "affair" else frame[name]) for name in frame.columns}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_copy_is_read_as_it_was_written(stacked, suffix):
    folder, copies = stacked
    found = completed_frames(folder / f"completed{suffix}", "pandas")
    assert len(found) == COPIES
    for frame, copy in zip(found, copies, strict=True):
        assert list(frame.columns) == copy.column_names
        got, wanted = values(frame), values(copy.to_pandas())
        if suffix == ".dta":  # Stata has labelled numbers in place of texts
            wanted["affair"] = np.where(wanted["affair"] == "yes", "2", "1")
        for name, column in wanted.items():
            np.testing.assert_array_equal(got[name], column)
    one = found[COPIES - 1]
    pd.testing.assert_frame_equal(one, found[-1])
    pd.testing.assert_frame_equal(found[1:3][1], found[2])


def test_frames_of_each_kind_have_the_same_categories(stacked):
    folder, copies = stacked
    path = folder / "completed.csv"
    assert all(list(f["affair"].cat.categories) == ["no", "yes"] for f in completed_frames(path, "pandas"))
    arrow = completed_frames(path)[0]
    assert isinstance(arrow, pa.Table)
    assert arrow.column("affair").chunk(0).dictionary.to_pylist() == ["no", "yes"]
    polars = completed_frames(path, "polars")[0]
    assert polars["affair"].cast(str).to_list() == copies[0].column("affair").to_pylist()
    with pytest.raises(UsageError, match="unknown kind"):
        completed_frames(path, "spark")


def test_pooling_from_the_file_is_pooling_of_the_frames(stacked):
    folder, copies = stacked

    def mean(frame):
        numbers = np.asarray(frame["religious"])
        return numbers.mean(), numbers.var(ddof=1) / len(numbers)

    direct = pool(mean, copies)
    for path, kind in ((folder / "completed.csv", "pandas"), (str(folder / "completed.sav"), None)):
        found = pool(mean, path, kind=kind)
        assert found.value.tolist() == direct.value.tolist()
        assert found.standard_error.tolist() == direct.standard_error.tolist()


def test_the_file_is_found_in_its_folder(tmp_path):
    (tmp_path / "release" / "completed").mkdir(parents=True)
    write(tmp_path / "release" / "completed", [".csv"])
    (tmp_path / "release" / "completed" / "completed.json").write_text("{}")
    assert (
        len(completed_frames(tmp_path / "release")) == len(completed_frames(tmp_path / "release/completed")) == COPIES
    )
    write(tmp_path / "release" / "completed", [".sav"])
    with pytest.raises(UsageError, match="several completed files"):
        completed_frames(tmp_path / "release")
    with pytest.raises(UsageError, match=r"no completed file.*completed\.csv"):
        completed_frames(tmp_path)


def csv(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_numbers_and_codes_of_csv_files(tmp_path):
    rows = ["0,1,,,1,1.5", "1,1,01,7,1,1.5", "2,1,02,3,2,2", "2,2,02,3,2,2", "1,2,01,7,2,3"]
    head = "Imputation_,Record_,code,number,other,amount"
    with pytest.raises(DataError, match="do not follow one another"):
        completed_frames(csv(tmp_path / "a.csv", head, *rows))
    rows = ["0,1,,,1,1.5", "0,2,,,1,2", "1,1,01,7,1,1.5", "1,2,01,7,1,2", "2,1,02,3,1,1.5", "2,2,02,3,1,2"]
    found = completed_frames(csv(tmp_path / "b.csv", head, *rows), "pandas")
    assert [list(f["code"]) for f in found] == [["01", "01"], ["02", "02"]]
    assert [list(f["code"].cat.categories) for f in found] == [["01", "02"]] * 2
    assert [f["number"].dtype.kind + f["amount"].dtype.kind for f in found] == ["if"] * 2


def test_files_that_hold_no_copies_are_refused(tmp_path):
    with pytest.raises(DataError, match="no column 'Imputation_'"):
        completed_frames(csv(tmp_path / "a.csv", "x,y", "1,2"))
    with pytest.raises(DataError, match="not numbered 1, 2"):
        completed_frames(csv(tmp_path / "b.csv", "Imputation_,Record_,x", "0,1,2", "0,2,2"))
    with pytest.raises(DataError, match="not numbered 1, 2"):
        completed_frames(csv(tmp_path / "c.csv", "Imputation_,Record_,x", "0,1,2", "1,1,2", "3,1,2"))
    with pytest.raises(DataError, match="same number of records"):
        completed_frames(csv(tmp_path / "d.csv", "Imputation_,Record_,x", "1,1,2", "1,2,2", "2,1,3"))
    with pytest.raises(DataError, match="not whole numbers"):
        completed_frames(csv(tmp_path / "e.csv", "Imputation_,Record_,x", "one,1,2", "one,2,2"))


def test_a_file_is_read_in_pieces_of_one_copy(tmp_path, monkeypatch):
    """Copies that begin in the middle of a batch are cut there."""
    write(tmp_path, [".parquet"])
    whole = [f.to_pylist() for f in completed_frames(tmp_path)]
    read = formats.read

    def short(path):
        source = read(path)
        table = pa.Table.from_batches(source.batches())
        monkeypatch.setattr(type(source), "batches", lambda *_: iter(table.to_batches(max_chunksize=37)))
        return source

    monkeypatch.setattr(formats, "read", short)
    assert [f.to_pylist() for f in completed_frames(tmp_path)] == whole


READ = {
    ".dta": lambda path: pyreadstat.read_dta(path),
    ".sav": lambda path: pyreadstat.read_sav(path),
}


@pytest.mark.parametrize("suffix", READ)
def test_what_mi_import_flong_and_spss_ask_of_the_file(stacked, suffix):
    """``mi import flong``: m = 0 is there, with missing values in imputed variables only; the ids of all m are the same
    and unique in each; all other variables have the same value in every m. SPSS: ``Imputation_`` is a number, 0 the
    original data, and the records are sorted by it."""
    folder, _ = stacked
    frame, told = READ[suffix](folder / f"completed{suffix}")
    assert list(frame.columns[:2]) == ["Imputation_", "Record_"]
    assert frame["Imputation_"].dtype.kind in "if"
    assert frame["Imputation_"].is_monotonic_increasing
    assert sorted(frame["Imputation_"].unique()) == list(range(COPIES + 1))
    ids = frame.groupby("Imputation_")["Record_"].apply(list)
    assert all(one == list(range(1, RECORDS + 1)) for one in ids)
    imputed = list(MECHANISM.variables)
    original, completed = frame[frame["Imputation_"] == 0], frame[frame["Imputation_"] > 0]
    empty = original[imputed].isna() | (original[imputed] == "")  # SPSS has no missing texts: they are empty
    assert empty.to_numpy().all()
    assert not (completed[imputed].isna() | (completed[imputed] == "")).to_numpy().any()
    others = [name for name in frame.columns if name not in {"Imputation_", "Record_", *imputed}]
    assert others == ["age"]
    assert not original[others].isna().to_numpy().any()
    assert (frame.groupby("Record_")[others].nunique() == 1).to_numpy().all()
    assert "copy" in str(told.column_names_to_labels["Imputation_"])
    if suffix == ".dta":  # Stata imputes numbers only
        assert all(frame[name].dtype.kind in "if" for name in imputed)
        labels = told.variable_value_labels["affair"]
        assert {labels[v] for v in completed["affair"].unique()} == {"no", "yes"}


def test_the_recipes_of_the_page_name_the_columns_of_the_file(stacked):
    folder, _ = stacked
    stata, spss = (re.search(rf"```{name}\n(.*?)```", PAGE, re.S).group(1) for name in ("stata", "spss"))
    said = re.search(r"mi import flong, m\((\w+)\) id\((\w+)\) imputed\(([\w ]+)\) clear", stata).groups()
    assert said == ("Imputation_", "Record_", " ".join(MECHANISM.variables))
    frame, _ = READ[".sav"](folder / "completed.sav")
    assert "SPLIT FILE LAYERED BY Imputation_." in spss
    named = re.search(r"/DEPENDENT (\w+) /METHOD=ENTER ([\w ]+)\.", spss).groups()
    assert {named[0], *named[1].split()} <= set(frame.columns)
    assert all(frame[name].dtype.kind == "f" for name in (named[0], *named[1].split()))


def test_the_readme_of_the_files_says_the_same(stacked, monkeypatch, capsys):
    folder, copies = stacked
    stata, spss = (re.search(rf"```{name}\n(.*?)```", PAGE, re.S).group(1) for name in ("stata", "spss"))
    assert recipe("completed.dta", "Stata").splitlines()[:2] == stata.splitlines()[:2]
    assert recipe("completed.sav", "SPSS").splitlines()[:3] == spss.splitlines()[:3]
    monkeypatch.chdir(folder)
    exec(recipe("completed.csv", "Python").replace("y ~ C(x)", "rate_marriage ~ affair + age"), {})
    wanted = pool(lambda f: smf.ols("rate_marriage ~ affair + age", f.to_pandas()).fit(), copies)
    assert capsys.readouterr().out == f"{wanted}\n"


def test_the_readme_of_a_survey_names_weights_and_clusters(tmp_path, monkeypatch, capsys):
    released, copies = tables()
    rng = np.random.default_rng(3)
    extra = {"w": pa.array(rng.uniform(1, 3, RECORDS)), "house no": pa.array(np.arange(RECORDS) // 2)}
    extra["area"] = pa.array(np.arange(RECORDS) // 50)
    released, *copies = (pa.table({**dict(zip(t.column_names, t.columns, strict=True)), **extra})
                         for t in (released, *copies))  # fmt: skip
    others = tuple(Variable(n, "other", type=t) for n, t in (("w", "double"), ("house no", "int64"), ("area", "int64")))
    survey = {"weights": "w", "psu": "house no", "strata": "area"}
    book = Codebook((*BOOK.variables, *others), survey=SurveyDesign(**survey))
    law = Mechanism({b.variables[0]: b.matrix for b in MECHANISM.blocks}, book)
    write_stacked(tmp_path / "completed.csv", Stacked.of(released.schema, law, ".csv"), released, copies)
    assert survey_of(law) == {"survey": survey}
    assert survey_of(MECHANISM) == {}
    said = {"survey": survey, "columns": released.column_names}
    monkeypatch.chdir(tmp_path)
    exec(recipe("completed.csv", "Python", **said).replace("y ~ C(x)", "rate_marriage ~ affair + age"), {})

    def clustered(frame):
        """The sandwich by hand: clusters in the middle, small-sample factor of statsmodels."""
        frame = frame.to_pandas()
        x = np.column_stack([np.ones(RECORDS), frame["affair"] == "yes", frame["age"]])
        bread = np.linalg.inv(x.T @ (x * frame["w"].to_numpy()[:, None]))
        beta = bread @ x.T @ (frame["w"] * frame["rate_marriage"]).to_numpy()
        score = x * (frame["w"] * (frame["rate_marriage"] - x @ beta)).to_numpy()[:, None]
        sums = pd.DataFrame(score).groupby(frame["house no"].to_numpy()).sum().to_numpy()
        factor = len(sums) / (len(sums) - 1) * (RECORDS - 1) / (RECORDS - 3)
        return beta, factor * bread @ (sums.T @ sums) @ bread

    found = re.findall(r"^(?:Intercept|affair.*?|age) +(\S+) +(\S+)", capsys.readouterr().out, re.M)
    wanted = pool(clustered, copies)
    assert [float(error) for _, error in found] == pytest.approx(wanted.standard_error, rel=1e-3)
    in_r = "design <- survey::svydesign(ids = ~`house no`, strata = ~area, weights = ~w, nest = TRUE, data = copy)"
    assert in_r in recipe("completed.csv", "R ", **said)
    assert "mi svyset house no [pweight=w], strata(area)" in recipe("completed.dta", "Stata", **said)
    assert "WEIGHT BY w." in recipe("completed.sav", "SPSS", **said)
    replicated = {"weights": "w", "replicates": ["a", "b"], "method": "fay", "rho": 0.3}
    told = {"survey": replicated, "columns": [*released.column_names, "a", "b"]}
    assert 'type = "Fay", combined.weights = TRUE, rho = 0.3' in recipe("completed.csv", "R ", **told)


def test_the_formulas_of_a_spreadsheet_are_the_rules():
    cells = dict(re.findall(r"^\| ([\w λ]+) \| `=(.*)` \|$", PAGE, re.M))
    rng = np.random.default_rng(2)
    estimates, variances = rng.normal(0.3, 0.02, 20), rng.uniform(0.001, 0.002, 20)
    rules = combine(estimates, variances)
    functions = {
        "AVERAGE": np.mean,
        "VARS": lambda x: np.var(x, ddof=1),
        "SQRT": np.sqrt,
        "TINV": lambda alpha, df: scipy.special.stdtrit(df, 1 - alpha / 2),
    }

    def calculated(formula, **known):
        code = formula.replace("VAR.S", "VARS").replace("T.INV.2T", "TINV").replace("^", "**")
        code = code.replace("B2:B21", "B").replace("C2:C21", "C")
        return float(eval(code, {**functions, "B": estimates, "C": variances, **known}))

    estimate = calculated(cells["estimate"])
    variance = calculated(cells["variance"])
    share = calculated(cells["λ"], variance=variance)
    df = calculated(cells["degrees of freedom"], λ=share)
    half = calculated(cells["half of the interval"], df=df, variance=variance)
    assert estimate == pytest.approx(float(rules.value))
    assert df == pytest.approx(float(rules.freedom))
    assert [estimate - half, estimate + half] == pytest.approx([float(end) for end in rules.bounds()])
