"""Numbers that a recode made: of bands they are told to be of bands, and of a hierarchy they are codes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.estimate.nominal import band_warnings, is_coded, nominal_warnings
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.recoding import Recode
from tests.r_cases import in_r, run_r

TREE = {"11": "1", "12": "1", "21": "2", "31": "3"}
OCC = Recode.from_dict({"variable": "occ", "hierarchy": "o.csv", "level": 1, "table": TREE})
WAGE = Recode.from_dict({"variable": "wage", "bands": [0, 3500], "labels": ["2300", "6000"]})
STEPS = [{"hierarchy": "o.csv", "level": 1, "table": TREE}, {"groups": {"5": ["1", "2"], "7": ["3"]}}]
LATER = Recode.from_dict({"variable": "group", "steps": STEPS})
BOOK = Codebook(
    (
        Variable("occ", "key", ("1", "2", "3")),
        Variable("wage", "key", ("2300", "6000"), ordered=True, missing="category"),
        Variable("group", "key", ("5", "7")),
        Variable("job", "key", ("no", "yes")),
    ),
    recodes=(OCC, WAGE, LATER),
)  # fmt: skip
COUNTED = "0 to <3500 counts as 2300, 3500+ as 6000"
BANDED = (
    f"wage: in bands or groups, so this mean is that of their numbers ({COUNTED}), not of the values of the file; it "
    "can be too high or too low."
)


def frame(n=4_000):
    rng = np.random.default_rng(1)
    job = rng.choice(["no", "yes"], n, p=[0.4, 0.6])
    wage = [None if one == "no" else str(rng.choice([2300, 6000])) for one in job]
    return pa.table(
        {"occ": rng.choice(["1", "2", "3"], n), "wage": wage, "group": rng.choice(["5", "7"], n), "job": job}
    )


def test_a_mean_of_bands_is_told_to_be_of_their_numbers_and_a_hierarchys_codes_are_codes():
    law = Mechanism({"wage": randomised_response(3, 4.0)}, BOOK)
    assert BANDED in estimate.mean(frame(), "wage", law).warnings
    assert BANDED.replace("this mean", "this quantile") in estimate.quantile(frame(), "wage", law).warnings
    told = estimate.regression("wage ~ C(group)", frame(), law, "linear").warnings
    assert BANDED.replace("this mean", "this regression") in told
    (of_occ,) = estimate.mean(frame(), "occ", law).warnings
    assert of_occ.startswith("The numbers of occ are codes (1, 2, 3), and this calculates with them as amounts.")
    assert [name for name in BOOK.names if is_coded(BOOK, name)] == ["occ"]
    scale = Codebook((Variable("occ", "key", ("1", "2", "3"), ordered=True), *BOOK.variables[1:]), recodes=BOOK.recodes)
    assert not is_coded(scale, "occ")


def banded(what="mean", **options):
    recode = Recode.from_dict({"variable": "pay", **options})
    book = Codebook((Variable("pay", "key", recode.kind.categories(), ordered=True),), recodes=(recode,))
    return band_warnings(book, ["pay"], what)[0]


def test_the_numbers_of_bands_are_listed_and_the_direction_is_told_where_it_is_known():
    low = {"bands": [-1.5, 1000], "labels": ["-2", "1000"]}
    assert "(-1.5 to <1000 counts as -2, 1000+ as 1000)" in banded(**low)
    assert banded(**low).endswith("; it can only be too low.")
    assert banded("regression", **low).endswith("; it can be too high or too low.")
    assert banded(**low, below="-9").endswith("; it can be too high or too low.")
    assert "(below -1.5 counts as -9, -1.5 to <1000 as -2" in banded(**low, below="-9")
    many = {"bands": [*range(11)], "labels": [f"{n}.5" for n in range(11)]}
    for other in (many, {"groups": {"1": ["1", "2"], "3": ["3"]}}):
        assert "their numbers (codebook.json says of which values), not" in banded(**other)


def test_a_group_in_which_nobody_can_have_a_value_is_not_said_to_be_too_small():
    law = Mechanism({"wage": randomised_response(3, 4.0), "job": randomised_response(2, 4.0)}, BOOK)
    found = estimate.mean(frame(), "wage", law, by="job")
    assert np.isinf(found.standard_error).tolist() == [True, False]
    assert found.warnings[-1] == (
        "How many records of job = no have a value cannot be told from zero: perhaps none has one, and then there is "
        "nothing to estimate. If some have one, merge categories."
    )


@pytest.mark.r
def test_r_says_the_same(tmp_path: Path):
    (tmp_path / "book.json").write_text(json.dumps(BOOK.to_dict()), "utf-8")
    names = ["occ", "wage", "group"]
    low = {"variable": "pay", "bands": [-1.5, 1000], "labels": ["-2", "1000"]}
    kinds = [low, low | {"below": "-9"}, low | {"bands": [*range(11)], "labels": [f"{n}.5" for n in range(11)]}]
    (tmp_path / "kinds.json").write_text(json.dumps(kinds), "utf-8")
    script = f"""
        book <- jsonlite::read_json("book.json")
        variables <- lapply(book$variables, variable_of)
        names(variables) <- vapply(variables, function(v) v$name, "")
        release <- list(variables = variables, recodes = book$recodes)
        told <- list(band_warnings(release, {in_r(names)}, "mean"), nominal_warnings(release, "occ"),
                     nominal_warnings(release, "wage"), too_few(data.frame(job = "no"), TRUE, partly = TRUE),
                     lapply(jsonlite::read_json("kinds.json"), function(one) {{
                       band_warnings(list(variables = list(), recodes = list(one)), "pay", "mean")
                     }}))
        writeLines(jsonlite::toJSON(told), "told.json")
    """
    run_r(tmp_path, script)
    bands, occ, wage, few, others = json.loads((tmp_path / "told.json").read_text("utf-8"))
    assert bands == [*band_warnings(BOOK, names, "mean")]
    assert occ == [*nominal_warnings(BOOK, ["occ"])]
    assert wage == []
    assert few[0].startswith("How many records of no have a value cannot be told from zero: perhaps none has one")
    assert others == [[banded(**kind)] for kind in kinds]
