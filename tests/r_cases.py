"""Questions to releases of every kind, asked of the R package and of Python, and how far the answers are apart."""

import json
import subprocess
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import postrand as pr
from postrand import Codebook, Mechanism, ReleaseKey, Variable, estimate, formats
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError
from postrand.mechanism import Block, Split
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.units import SharedDrawsWarning, Units
from tests.conftest import ROOT

PACKAGE = ROOT / "r" / "postrand"
EXTDATA, KEPT = PACKAGE / "inst" / "extdata", ROOT / "tests" / "fixtures" / "releases"
NEAR = 1e-10
RECORDS = 600
PAIR = ("size", "diagonal", "off")


def rough(size: int, seed: int) -> TransitionMatrix:
    """Return a matrix without any structure."""
    law = np.random.default_rng(seed).dirichlet(np.ones(size), size)
    return TransitionMatrix.from_array(0.5 * np.eye(size) + 0.5 * law)


BOOK = Codebook(
    (
        Variable("house", "household", type="int64", missing="keep"),
        Variable("sex", "key", ("F", "É"), ("Female", "Élève")),
        Variable("score", "key", (1, 2, 4, 9), type="int64", missing_codes=(9,)),
        Variable("visits", "key", (0, 1, 3), type="int64"),
        Variable("region", "key", ("n", "e", "s"), missing="category"),
        Variable("owner", "key", (False, True), type="bool", missing="keep"),
        Variable("area", "other", ("town", "country")),
        Variable("pay", "other", type="double", missing="keep"),
        Variable("w", "weight", type="double"),
        Variable("village", "other", type="int64"),
        Variable("text, 'quoted' \"", "other", missing="keep"),
    )
)
CELLS = ((0, 0), (0, 1), (1, 1), (1, 2), (0, 2))
STRATA = tuple((a, s) for a in range(2) for s in range(2))
BY_AREA = TransitionMatrix.from_array([[0.8, 0.2, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.4, 0.6]])
MERGED = TransitionMatrix(np.array([[UNIT // 2, UNIT // 2, 0], [UNIT // 2, UNIT // 2, 0], [0, 0, UNIT]]))
SUBSETS = [
    Block(("sex", "score"), randomised_response(8, 3.0)),
    Block(("sex", "region"), rough(8, 3)),
    Block(("sex",), rough(2, 4)),
    Block(("visits", "sex"), randomised_response(5, 2.5), cells=((0, 0), (1, 0), (1, 1), (2, 1), (2, 0))),
]
MEMBERS = [Block(n, randomised_response(s, 3.0), unit="household") for n, s in ((("region", "sex"), 8), (("sex",), 2))]
LAWS = {
    "singles": Mechanism(
        {"sex": rough(2, 1), "score": randomised_response(4, 3.0), "region": rough(4, 2), "owner": rough(2, 5)}, BOOK
    ),
    "joint": Mechanism([Block(("sex", "visits"), randomised_response(5, 3.0), cells=CELLS),
                        Block(("region",), rough(4, 2))], BOOK),
    "strata": Mechanism([Block(("area", "sex"), BY_AREA, cells=STRATA, given=("area",)),
                         Block(("visits",), MERGED)], BOOK),
    "split": Mechanism([Block(("owner",), rough(2, 6))], BOOK, split=Split.of([0.4, 0.3, 0.2, 0.1], SUBSETS)),
    "members": Mechanism([], BOOK, split=Split.of([0.6, 0.4], MEMBERS), units=Units("house", largest_household=12)),
    "households": Mechanism([Block(("region",), rough(4, 2), unit="household"), Block(("sex",), rough(2, 1))], BOOK,
                            units=Units("house", largest_household=12)),
}  # fmt: skip


def people() -> pa.Table:
    """Return true records of households, with every kind of column."""
    rng = np.random.default_rng(11)
    house = np.sort(rng.integers(0, 200, RECORDS))
    region = rng.integers(0, 4, 200)[house]
    sex = rng.integers(0, 2, RECORDS)
    visits = np.array([(0, 1, 2), (1, 2, 2)])[sex, rng.integers(0, 3, RECORDS)]
    pay = np.round(5 + 2 * sex + rng.gamma(2.0, 3.0, RECORDS), 2)
    codes = {"sex": sex, "score": rng.integers(0, 4, RECORDS), "visits": visits, "area": house % 2}
    columns: dict[str, Any] = {n: pa.array([BOOK[n].categories[k] for k in code]) for n, code in codes.items()}
    columns["house"] = pa.array(house + 4_000_000_000_000_000, mask=house == 0)
    columns["region"] = pa.array([("n", "e", "s", None)[k] for k in region])
    columns["owner"] = pa.array(rng.random(RECORDS) < 0.5, mask=rng.random(RECORDS) < 0.05)
    columns["pay"] = pa.array(pay, mask=rng.random(RECORDS) < 0.05)
    columns["w"] = pa.array(rng.integers(2, 9, RECORDS) / 3)
    columns["village"] = pa.array(house // 5 + 1)
    columns["text, 'quoted' \""] = pa.array([f'a "{k}",\nb' for k in range(RECORDS)])
    return pa.table({v.name: columns[v.name] for v in BOOK.variables})


@dataclass(frozen=True)
class Files:
    """Hold a release: its folder for R, and for Python its records, law and recorded design."""

    path: Path
    frame: Any
    mechanism: Mechanism
    survey: SurveyDesign | None = None


@dataclass(frozen=True)
class Asked:
    """A question to a release: ``kind`` is table, mean, share or a regression's family; ``options`` are those of R."""

    release: str
    kind: str
    what: Any
    options: dict[str, Any] = field(default_factory=dict)
    formula: str = ""

    def python(self, release: Files) -> Any:
        """Return the estimate by Python."""
        given, survey = dict(self.options), release.survey
        if "psu" in given or survey is not None:
            parts = {name: given.pop(name) for name in ("weights", "strata", "psu") if name in given}
            given["design"] = SurveyDesign(**parts) if survey is None else survey
        frame, law = release.frame, release.mechanism
        if self.kind == "table":
            return estimate.table(frame, self.what, law, **given)
        if self.kind in ("mean", "share"):
            return getattr(estimate, self.kind)(frame, self.what, law, **given)
        return estimate.regression(self.what, frame, law, self.kind, **given)

    def r(self) -> str:
        """Return the call in R."""
        options = "".join(f", {name} = {in_r(value)}" for name, value in self.options.items())
        if self.kind in ("table", "mean", "share"):
            return f"release_{self.kind}(release, {in_r(self.what)}{options})"
        family = {"linear": "gaussian", "logistic": "binomial"}.get(self.kind, self.kind)
        return f"release_glm({self.formula or self.what}, release, {family}(){options})"


def in_r(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else f"c({', '.join(map(json.dumps, value))})"


QUESTIONS = [
    Asked("singles", "table", ["sex"]),
    Asked("singles", "table", ["region", "sex", "area"]),
    Asked("singles", "table", ["owner", "score"], {"weights": "w"}),
    Asked("singles", "table", ["region", "score"], {"weights": "w", "strata": "village"}),
    Asked("singles", "table", ["region", "sex"], {"weights": "w", "strata": "area", "psu": "village"}),
    Asked("singles", "mean", "pay"),
    Asked("singles", "mean", "pay", {"by": ["region", "owner"], "weights": "w"}),
    Asked("singles", "mean", "score", {"by": ["sex"], "strata": "area"}),
    Asked("singles", "mean", "visits", {"by": ["area", "region"], "psu": "village"}),
    Asked("singles", "share", "score", {"of": ["2"], "among": ["1", "2"], "by": ["sex", "area"], "weights": "w"}),
    Asked("singles", "share", "score", {"of": ["1", "4"], "strata": "area", "psu": "village"}),
    Asked("singles", "share", "area", {"of": ["town"], "by": ["region"]}),
    Asked("singles", "share", "owner", {"of": ["True"]}),
    Asked("singles", "linear", "pay ~ sex + score + area"),
    Asked("singles", "linear", "pay ~ sex * region + visits", {"weights": "w", "strata": "area"}),
    Asked(
        "singles", "logistic", "sex ~ pay + owner + C(visits)", {"weights": "w"}, "sex ~ pay + owner + factor(visits)"
    ),
    Asked("singles", "logistic", "owner ~ sex + pay", {"weights": "w"}),
    Asked("singles", "logistic", "area ~ sex + region", {"strata": "area", "psu": "village"}),
    Asked("singles", "poisson", "visits ~ sex + pay"),
    Asked("singles", "linear", "score ~ sex + pay"),
    Asked("singles", "poisson", "score ~ sex", {"weights": "w", "strata": "area"}),
    Asked("joint", "table", ["visits", "region", "sex"]),
    Asked("joint", "table", ["visits"], {"weights": "w"}),
    Asked("joint", "mean", "visits", {"by": ["sex"]}),
    Asked("joint", "share", "visits", {"of": ["3"], "among": ["1", "3"], "by": ["sex"]}),
    Asked("joint", "mean", "pay", {"by": ["visits", "sex"]}),
    Asked("joint", "linear", "visits ~ region + pay"),
    Asked("joint", "linear", "pay ~ C(visits) + sex", {}, "pay ~ factor(visits) + sex"),
    Asked("joint", "linear", "score ~ region + sex"),
    Asked("joint", "logistic", "sex ~ region + pay", {"psu": "village"}),
    Asked("joint", "poisson", "visits ~ sex + area"),
    Asked("strata", "table", ["sex", "area"]),
    Asked("strata", "table", ["sex", "region"], {"weights": "w", "strata": "area"}),
    Asked("strata", "table", ["visits"]),
    Asked("strata", "mean", "pay", {"by": ["sex", "area"]}),
    Asked("strata", "mean", "visits", {"by": ["sex"]}),
    Asked("strata", "linear", "pay ~ sex + area"),
    Asked("strata", "logistic", "sex ~ area + pay"),
    Asked("split", "table", ["sex"]),
    Asked("split", "table", ["region", "sex", "owner"], {"weights": "w"}),
    Asked("split", "table", ["score", "area"], {"weights": "w", "strata": "area"}),
    Asked("split", "table", ["visits", "sex"]),
    Asked("split", "table", ["region"], {"psu": "village"}),
    Asked("split", "table", ["region", "score"]),
    Asked("split", "mean", "pay", {"by": ["sex"]}),
    Asked("split", "share", "score", {"of": ["2"], "among": ["1", "2"], "by": ["sex"]}),
    Asked("split", "mean", "score", {"by": ["sex", "area"], "weights": "w"}),
    Asked("split", "mean", "pay", {"by": ["sex"], "strata": "area", "psu": "village"}),
    Asked("split", "linear", "pay ~ sex + owner"),
    Asked("split", "logistic", "sex ~ region + pay", {"weights": "w"}),
    Asked("split", "linear", "score ~ sex + area"),
    Asked("split", "logistic", "sex ~ pay", {"psu": "village"}),
    Asked("members", "table", ["region", "sex"]),
    Asked("members", "table", ["sex", "area"], {"weights": "w"}),
    Asked("members", "mean", "pay", {"by": ["region"]}),
    Asked("members", "share", "region", {"of": ["n"], "among": ["n", "e"], "by": ["sex"]}),
    Asked("members", "linear", "pay ~ sex"),
    Asked("households", "table", ["region", "sex"]),
    Asked("households", "table", ["region"], {"psu": "village"}),
    Asked("households", "mean", "pay", {"by": ["region"], "psu": "village"}),
    Asked("households", "linear", "pay ~ region + sex", {"psu": "village"}),
    *(Asked(f"kept/{one}", "table", ["sex", "region"]) for one in ("survey", "mixed", "split")),
    *(Asked(f"kept/{one}", "mean", "pay") for one in ("survey", "split")),
    Asked("kept/surveyed", "table", ["sex", "area"]),
    Asked("kept/surveyed", "mean", "weight", {"by": ["sex"]}),
    Asked("kept/surveyed", "share", "sex", {"of": ["F"], "by": ["area"]}),
    Asked("kept/surveyed", "linear", "weight ~ sex"),
    Asked("kept/housed", "table", ["tenure", "sex"]),
    Asked("kept/recoded", "table", ["grown", "occupation"]),
]

LIBRARY = f"""
for (file in list.files("{(PACKAGE / "R").as_posix()}", full.names = TRUE)) source(file, encoding = "UTF-8")
library <- function(...) invisible()
"""
ANSWER = """
found <- tryCatch({{
  release <- releases[["{release}"]]
  e <- {call}
  ends <- if (isFALSE(e$interval)) NULL else unname(confint(e))
  labels <- lapply(e$table[seq_len(ncol(e$table) - 2)], as.character)
  list(value = e$table$estimate, error = e$table$standard_error, low = ends[, 1], high = ends[, 2],
       warnings = e$warnings, modelled = as.character(e$modelled),
       counted = counted(e), dropped = e$dropped, records = e$records, labels = labels)
}}, error = function(e) list(refused = conditionMessage(e)))
out <- c(out, list(found))
"""
POOLED = """
copies <- suppressWarnings(as_imputations("{folder}/completed", read_release("{folder}/survey")))
pooled <- mitools::MIcombine(with(copies, lm(pay ~ sex + weight)))
found <- list(value = coef(pooled), error = sqrt(diag(vcov(pooled))), freedom = pooled$df)
writeLines(jsonlite::toJSON(lapply(found, unname), digits = NA), "pooled.json")
"""


def run_r(folder: Any, script: str) -> str:
    """Run a script with the functions of the package, and return what it prints."""
    (folder / "script.R").write_text(LIBRARY + script, "utf-8")
    done = subprocess.run(
        ["Rscript", "--encoding=UTF-8", "script.R"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_releases(into: Path) -> dict[str, Files]:
    """Return new releases, of which the files are written that R estimates from, and those that are kept."""
    found, truth = {}, people()
    for name, law in LAWS.items():
        folder = into / name
        folder.mkdir()
        frame = pr.perturb(truth, law, ReleaseKey.from_seed(3))
        with formats.open_writer(folder / "data.csv", frame.schema) as sink:
            for batch in frame.to_batches():
                sink.write(batch)
        manifest = {"schema": "postrand/release/3", "data": "data.csv"}
        parts = {
            "manifest": manifest,
            "codebook": {"schema": "postrand/codebook/1", **BOOK.to_dict()},
            "mechanism": law.to_dict(),
        }
        for part, value in parts.items():
            (folder / f"{part}.json").write_text(json.dumps(value), "utf-8")
        found[name] = Files(folder, frame, law)
    for name in ("survey", "mixed", "split", "surveyed", "housed", "recoded"):
        kept = pr.read_release(KEPT / "3" / name)
        found[f"kept/{name}"] = Files(kept.path, kept.frame(), kept.mechanism, kept.codebook.survey)
    return found


def ask_r(releases: dict[str, Files], folder: Path) -> list[dict[str, Any]]:
    """Return the answers of R to all questions, from one run of it."""
    read = "releases[[{}]] <- read_release({}, check = {})"
    reads = (
        read.format(in_r(name), in_r(one.path.as_posix()), "TRUE" if name.startswith("kept/") else "FALSE")
        for name, one in releases.items()
    )
    calls = (ANSWER.format(release=one.release, call=one.r()) for one in QUESTIONS)
    end = 'writeLines(jsonlite::toJSON(out, digits = NA, auto_unbox = FALSE, na = "string"), "out.json")'
    run_r(
        folder, "\n".join(["releases <- out <- list()", *reads, *calls, end, POOLED.format(folder=EXTDATA.as_posix())])
    )
    found: list[dict[str, Any]] = json.loads((folder / "out.json").read_text("utf-8"))
    return [*found, json.loads((folder / "pooled.json").read_text("utf-8"))]


def numbers(values: Any) -> Any:
    return np.array([float(str(v).replace("NA", "nan").replace("Inf", "inf")) for v in values])


@dataclass(frozen=True)
class Compared:
    """Python's estimate, and how far that of R is from it: absolutely, and relative to the largest of its kind.

    ``shared``: Python warned that records share one draw.
    """

    found: Any
    apart: float
    relative: float
    shared: bool = False


def compare(one: Asked, release: Files, answer: dict[str, Any]) -> Compared:
    """Compare an answer of R with Python's in values, standard errors and intervals; raises what Python raises."""
    found = one.python(release)
    wanted = {"value": found.value, "error": found.standard_error}
    if answer.get("low"):
        wanted |= dict(zip(("low", "high"), found.interval(), strict=True))
    assert answer["records"] == [found.records]
    assert answer["dropped"] == [found.dropped]
    apart, relative = 0.0, 0.0
    for name, array in wanted.items():
        ours, theirs = np.ravel(array).astype(float), numbers(answer[name])
        assert ours.shape == theirs.shape
        with np.errstate(invalid="ignore"):
            gap = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0.0, np.abs(ours - theirs))
        finite = np.abs(ours[np.isfinite(ours)])
        apart = max(apart, float(gap.max()))
        relative = max(relative, float(gap.max()) / float(finite.max(initial=1e-300)))
    return Compared(found, apart, relative)


def compare_all(releases: dict[str, Files], answers: list[dict[str, Any]]) -> list[Compared | None]:
    """Compare all answers of R; None where Python refuses the question."""
    found: list[Compared | None] = []
    for one, answer in zip(QUESTIONS, answers[:-1], strict=True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                compared = compare(one, releases[one.release], answer)
            except EstimationError:
                found.append(None)
                continue
        found.append(replace(compared, shared=any(issubclass(w.category, SharedDrawsWarning) for w in caught)))
    return found
