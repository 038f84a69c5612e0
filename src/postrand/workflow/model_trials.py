"""Named regressions, fitted to simulated releases of a plan: whether they can be, and how precise they then are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.survey_design import SurveyDesign
from postrand.engines.frame import perturb
from postrand.errors import EstimationError, PostrandError
from postrand.estimate.regression_data import FamilyName
from postrand.estimate.regressions import regression
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.report.table_worth import little_use
from postrand.support.randomness import ReleaseKey
from postrand.support.warned import heard
from postrand.workflow.advice_needs import Model

TRIALS, FEWEST = 10, 3
"""Releases that are simulated; fewer of a large file, so that ``MOST_RECORDS`` are in all of them together."""
MOST_RECORDS = 1_000_000
ENOUGH = 0.9
"""A regression is promised where this share of the simulated releases has a fit."""


@dataclass(frozen=True, slots=True)
class Fits:
    """Hold in how many simulated releases a regression could be fitted, and its precision: confidential.

    ``ratios`` are, of each coefficient, the standard error in a release over that of the unperturbed file, the median
    over the releases with a fit; () without one. ``why`` is the last refusal.
    """

    records: int
    trials: int
    fitted: int
    ratios: tuple[float, ...] = ()
    why: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it is fitted nearly always, and some coefficient is worth more than a few records."""
        return self.fitted >= ENOUGH * self.trials and not all(self._little)

    @property
    def _little(self) -> list[bool]:
        return [little_use(self.records / ratio**2, self.records) for ratio in self.ratios]

    def __str__(self) -> str:
        """Return both in words.

        >>> print(Fits(5000, 10, 10, (1.5, 3.0)))
        fitted in 10 of 10 simulated releases, with standard errors 1.5 to 3 times those of the unperturbed file
        """
        text = f"fitted in {self.fitted} of {self.trials} simulated releases"
        if self.ratios:
            low, high = (f"{round(ratio, 1):g}" for ratio in (min(self.ratios), max(self.ratios)))
            text += f", with standard errors {low if low == high else f'{low} to {high}'} times those of the "
            text += "unperturbed file" + ": of little use" * all(self._little)
        return text + f"; else refused: {self.why}" * (self.fitted < self.trials and bool(self.why))


def simulated(source: Source, mechanism: Mechanism, model: Model, family: FamilyName) -> Fits | None:
    """Fit a regression to simulated releases of a file; None where it is refused of the unperturbed file, too.

    ``source`` has the records as the codebook of the mechanism recodes them. The releases are drawn by keys made from
    seeds, and are never written.
    """
    whole = mechanism.require_codebook()
    book = dataclasses.replace(whole, recodes=())
    law, design = dataclasses.replace(mechanism, codebook=book), whole.survey
    formula = str(model).removeprefix("model ")
    table = _table(source, mechanism, model, design)
    with heard():
        try:
            base = regression(formula, table, _none_of(book, mechanism), family, design=design).standard_error
        except PostrandError:
            return None
        trials = int(np.clip(MOST_RECORDS // max(table.num_rows, 1), FEWEST, TRIALS))
        tried = [_tried(table, law, formula, family, design, seed) for seed in range(trials)]
    errors = [one for one in tried if not isinstance(one, str)]
    ratios = [one / base for one in errors if one.shape == base.shape]
    middle = tuple(np.median(ratios, axis=0).tolist()) if ratios else ()
    why = next((one for one in tried if isinstance(one, str)), "")
    return Fits(table.num_rows, trials, len(errors), middle, why)


def _tried(
    table: pa.Table, law: Mechanism, formula: str, family: FamilyName, design: SurveyDesign | None, seed: int
) -> NDArray[np.float64] | str:
    """Return the standard errors from a simulated release, shape (P,), or why the regression is refused."""
    released = perturb(table, law, ReleaseKey.from_seed(seed))
    try:
        return regression(formula, released, law, family, design=design).standard_error
    except EstimationError as error:
        return error.problems[0].partition("; got")[0].partition(". Next")[0]


def _none_of(book: Codebook, mechanism: Mechanism) -> Mechanism:
    """Return a mechanism that perturbs nothing: one variable, by the identity."""
    first = mechanism.variables[0]
    return Mechanism({first: TransitionMatrix.identity(book[first].size)}, book)


def _table(source: Source, mechanism: Mechanism, model: Model, design: SurveyDesign | None) -> pa.Table:
    """Return the columns that a release of the mechanism and the regression need."""
    units = () if mechanism.units is None else (mechanism.units.household, mechanism.units.person)
    names = dict.fromkeys([*mechanism.variables, *model.table, *units, *(() if design is None else design.columns)])
    held = [name for name in source.schema.names if name in names]
    return pa.Table.from_batches(list(source.batches(held))).unify_dictionaries()
