"""What is known of how good completed files are: made once, and told by commands, Python, report and workbench."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from postrand.completion.convergence import LEAST_EFFECTIVE, MOST_R_HAT, Convergence, convergence
from postrand.completion.diagnostics_means import ENOUGH_OF_CATEGORY, CategoryMean
from postrand.completion.diagnostics_plain import number, points, shares, thinned
from postrand.completion.diagnostics_relations import Relation, Relations
from postrand.completion.diagnostics_tables import Places, Seen, expected
from postrand.completion.diagnostics_unbiased import ENOUGH, Compared, compare, largest, overall
from postrand.completion.predictive import LEVEL, Predicted, combined, predict
from postrand.completion.totals_cost import Cost
from postrand.estimate.evidence_variables import TAKEN_FOR_TRUE, moved_told
from postrand.mixture import Fit
from postrand.support.showing import show_whole, unshown
from postrand.support.worth_basis import BASES

SUSPECT = 0.1
"""Copies are anchored where the p-value of the bias over all tables is below this: it does a right model no harm."""
MOST_TABLES = 250
"""Tables that are compared; of more, those of fewest variables, then those that most records show."""


@dataclass(frozen=True, slots=True)
class Rests:
    """Say how far one table rests on the model.

    ``ratio`` is the standard error by the model over the unbiased one, None where no record shows the table;
    ``effective`` the unperturbed records that the unbiased table is worth with the shares of the model, and ``error``
    the simulation error of that, from the draws of the model.
    """

    names: tuple[str, ...]
    ratio: float | None
    effective: float
    records: int
    error: float | None = None

    @property
    def on_model(self) -> bool:
        """Whether the unbiased table is worth fewer than 500 unperturbed records, so that the model decides."""
        return self.effective < ENOUGH

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "variables": list(self.names),
            "ratio": None if self.ratio is None else number(self.ratio),
            "effective_records": number(self.effective),
            "simulation_error": None if self.error is None else number(self.error),
            "on_model": self.on_model,
            "sentence": str(self),
        }

    def __str__(self) -> str:
        what = " by ".join(self.names)
        if self.ratio is None:
            return f"{what}: no record shows these variables together, so the table rests on the model alone."
        by = f"the standard error by the model is {self.ratio:.2f} times the unbiased one"
        error = "" if self.error is None else f" ± {math.ceil(self.error):,}"
        worth = f"the unbiased table is worth {self.effective:,.0f}{error} unperturbed records, {BASES['model']}"
        end = ": the result rests on the model" if self.on_model else ""
        return f"{what}: {by}; {worth}{end}."


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Hold what the diagnostics of a fit found, in the order of its variables ``names``.

    ``predicted`` are the released tables beside what the model expects, ``compared`` the model's tables beside the
    unbiased ones. ``left_out`` and ``approximated`` name what is not in the model, or only roughly, with a reason.
    ``anchored``: whether the copies' two-way tables were moved to the unbiased ones within their error; ``totals``:
    what it costs to meet totals, if there are any. ``relations``: those of perturbed variables to unperturbed columns
    outside the mixture, if there are any.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    records: int
    copies: int
    chains: Convergence
    worst_trace: np.ndarray[Any, np.dtype[np.float64]]
    predicted: tuple[Predicted, ...]
    compared: tuple[Compared, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    approximated: Mapping[str, str] = field(default_factory=dict)
    anchored: bool = False
    not_compared: int = 0
    totals: Cost | None = None
    relations: Relations | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against using the copies."""
        return not self.problems

    @property
    def biased(self) -> bool:
        """Whether the copies are better anchored: a test speaks against the model, or the bias nearly does."""
        return bool(self._misfits) or self.bias[1] < SUSPECT

    @cached_property
    def rests_on_model(self) -> tuple[Rests, ...]:
        """How far each table that was compared rests on the model."""
        return tuple(
            Rests(self._names(c.places), c.ratio, c.effective, c.records, c.simulation_error) for c in self.compared
        )

    @cached_property
    def predictive(self) -> float:
        """The p-value of all released tables together: small if the model could not have released them."""
        return combined(self.predicted)

    @cached_property
    def bias(self) -> tuple[float, float]:
        """The model's squared bias over all two-way tables, relative to the variance ``V − V_model``, and its p-value.

        It is the mean of ``|unbiased − model|²/tr(V − V_model)`` over tables, less 1: about 0 if the model is right.
        """
        mean, p = overall([c for c in self.compared if len(c.places) == min(2, len(self.names))])
        return mean - 1, p

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each reason not to use the copies; empty if there is none."""
        return (
            *self._chains(),
            *(text for text, mended in self._misfits if not mended),
            *self._relations(),
            *self._means(),
        )

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing to know before the copies are used."""
        said = [f"{text} The copies were moved to the unbiased tables." for text, mended in self._misfits if mended]
        if self.anchored and not said:
            what = "The copies' tables of two variables were moved towards the unbiased ones"
            said.append(f"{what}, to be on the safe side.")
        chains, effective = self.chains, self.chains.fewest
        if effective < LEAST_EFFECTIVE:
            same = "; the sweeps that are proposed above for the chains are to mend this too"
            said.append(
                f"The chains are worth only {effective:,.0f} independent draws (wanted {LEAST_EFFECTIVE}): standard "
                f"errors are rough{same if self._apart else f'. Next: {chains.more}'}."
            )
        if chains.truncated and not self._simple:
            moved = f"Copies were moved for what it misses; more may miss less. {self._more_classes}"
            said.append(f"{self._full()} {moved if self._misfits else 'No test says that it is too simple.'}")
        if self.relations is not None and self.relations.together:
            what = "The copies were moved to what two perturbed variables do together to an unperturbed column"
            said.append(f"{what}, as the release shows it: {_several(self.relations.together)}.")
        said += [*self._on_model(), *self._rare()]
        if self.totals is not None and self.totals.warning is not None:
            said.append(self.totals.warning)
        if self.left_out:
            each = "; ".join(f"{name} ({why})" for name, why in self.left_out.items())
            said.append(f"Not in the model, so that analyses with it are biased towards no relation: {each}.")
        said += [f"{name} is in the model only roughly: {why}." for name, why in self.approximated.items()]
        if self.not_compared:
            said.append(f"{self.not_compared:,} tables of two or three variables are too many or too large to compare.")
        return tuple(said)

    def _relations(self) -> list[str]:
        failed = self.relations.failed(LEVEL) if self.relations is not None else []
        if not failed or self.relations is None:
            return []
        what = _several([str(one) for one in failed], 3)
        return [
            f"What the copies say of perturbed variables and unperturbed columns differs from the release (p "
            f"{_p(self.relations.p)}, {len(failed)} of {len(self.relations.compared)} relations): {what}. "
            f"Analyses that relate these are biased. {self._instead(failed)}"
        ]

    def _means(self) -> list[str]:
        failed = self.relations.failed_means(LEVEL) if self.relations is not None else []
        if not failed or self.relations is None:
            return []
        return [
            f"Means of unperturbed numbers by category in the copies differ from what the release says (p "
            f"{_p(self.relations.p_means)}, {len(failed)} of {len(self.relations.means)} means): "
            f"{_several([str(one) for one in failed], 3)}. Results about these categories are biased, "
            f"and means of the same numbers by other variables can be. {self._instead(failed)}"
        ]

    def _instead(self, failed: Sequence[Relation | CategoryMean]) -> str:
        """Return the next step for relations that differ: nothing corrects those with numbers that moved in rank."""
        ranked = [n for n in dict.fromkeys(one.column for one in failed) if self.approximated.get(n) == TAKEN_FOR_TRUE]
        said = []
        if ranked:
            which = f"those with {', '.join(ranked)}"
            why = "its values moved by rank" if len(ranked) == 1 else "their values moved by rank"
            said.append(f"Next: leave {which} out: {why}, which neither more sweeps nor an estimate corrects.")
        if any(one.column not in ranked for one in failed):
            which = "the others" if ranked else "them"
            said.append(
                f"Next: use estimates from the release alone for {which}: "
                "postrand estimate RELEASE --mean NUMBER --by VARIABLE."
            )
        return " ".join(said)

    def _chains(self) -> list[str]:
        chains, said = self.chains, []
        worst = float(chains.r_hat[chains.worst])
        if self._apart:
            said.append(
                f"The chains have not converged: R-hat of {chains.traced[chains.worst]} is {worst:.3f}, wanted at most "
                f"{MOST_R_HAT}. Next: {chains.more}."
            )
        if chains.truncated and self._simple:
            said.append(f"{self._full()} It is too simple. {self._more_classes}")
        return said

    @property
    def _apart(self) -> bool:
        """Whether the chains do not agree."""
        return not self.chains.agree

    @property
    def _simple(self) -> bool:
        """Whether something that moving the copies does not mend speaks against the model."""
        return any(not mended for _, mended in self._misfits)

    @property
    def _more_classes(self) -> str:
        return f"Next: ask for {2 * self.chains.classes} classes."

    def _full(self) -> str:
        nearly = "nearly " * (self.chains.occupied < self.chains.classes)
        return f"The model uses {nearly}all of its classes ({self.chains.occupied} of {self.chains.classes})."

    @cached_property
    def _misfits(self) -> list[tuple[str, bool]]:
        """Return what speaks against the model, and whether anchoring mends it: it does for tables of two variables."""
        said = []
        if self.predictive < LEVEL:
            failed = [t for t in self.predicted if t.p * len(self.predicted) < LEVEL]
            failed.sort(key=lambda t: (-len(t.places), t.p))
            what = _several([" by ".join(self._names(t.places)) for t in failed], 3)
            said.append(
                (
                    f"The model could not have released what was released (p {_p(self.predictive)}, {len(failed)} of "
                    f"{len(self.predicted)} tables): {what}.",
                    self.anchored and all(len(t.places) <= 2 for t in failed),
                )
            )
        most = largest(self.compared)
        if most is not None and most[2] < LEVEL:
            table, size, p = most
            said.append(
                (
                    f"The model's table of {' by '.join(self._names(table.places))} differs from the unbiased one by "
                    f"{size:.1f} standard errors (p {_p(p)} over all tables).",
                    self.anchored and len(table.places) <= 2,
                )
            )
        bias, p = self.bias
        if p < LEVEL:
            text = (
                f"Over all tables of two variables, the model's squared bias is {bias:.2f} times the error variance of "
                f"the unbiased tables (p {_p(p)})."
            )
            said.append((text, self.anchored))
        return said

    def _on_model(self) -> list[str]:
        alone = [one for one in self.rests_on_model if one.ratio is None and len(one.names) == 2]
        weak = [one for one in self.rests_on_model if one.ratio is not None and one.on_model and len(one.names) <= 2]
        said = []
        if alone:
            said.append(f"No record shows these together, so that they rest on the model alone: {_listed(alone)}.")
        if weak:
            said.append(
                f"These tables rest on the model, because the release alone is worth fewer than {ENOUGH:,.0f} "
                f"unperturbed records for them, with its own frequencies: {_listed(weak)}."
            )
        return said

    def _rare(self) -> list[str]:
        """Return which categories are so rare that what they have in common with numbers rests on the model."""
        means = self.relations.means if self.relations is not None else ()
        rare = list(dict.fromkeys(one.where for one in means if one.scores and one.on_model))
        if not rare:
            return []
        return [
            "How numbers differ in these categories rests on the model: differences can come out smaller than they "
            "are, intervals too short, and no test sees a moderate error, because the "
            f"release alone is worth fewer than {ENOUGH_OF_CATEGORY:.0f} unperturbed records for their means: "
            f"{_several(rare, 12)}. Where a result is about them, compare it with postrand estimate RELEASE --mean "
            "NUMBER --by VARIABLE."
        ]

    def _names(self, places: Places) -> tuple[str, ...]:
        return tuple(self.names[p] for p in places)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, all that the report shows; a number that is not finite is None."""
        bias, p = self.bias
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
            "variables": list(self.names),
            "records": self.records,
            "copies": self.copies,
            "anchored": self.anchored,
            "totals": None if self.totals is None else self.totals.to_dict(),
            "left_out": dict(self.left_out),
            "approximated": dict(self.approximated),
            "convergence": {**self.chains.to_dict(), "trace": thinned(self.worst_trace)},
            "released_tables": {
                "p_value": number(self.predictive),
                "tables": [
                    {"variables": list(self._names(t.places)), "records": t.records, "p_value": number(t.p)}
                    for t in self.predicted
                ],
                "points": points(self.predicted),
            },
            "bias": {"relative": number(bias), "p_value": number(p)},
            "relations": None if self.relations is None else self.relations.to_dict(),
            "rests_on_model": [one.to_dict() for one in self.rests_on_model],
            "shares": shares(self.compared, self.names, self.labels),
        }

    def __repr__(self) -> str:
        state = _many(len(self.problems), "problem") if self.problems else "no problem"
        return f"Diagnostics({self.copies} copies of {self.records:,} records; {state})"

    def __str__(self) -> str:
        chains = self.chains
        lines = [
            f"{self.copies} copies of {self.records:,} records, {_many(len(self.names), 'variable')} in the model.",
            f"Chains: {chains.chains} of {chains.sweeps:,} sweeps; largest R-hat {chains.r_hat[chains.worst]:.3f}; "
            f"fewest effective draws {chains.fewest:,.0f}; classes used {chains.occupied} of {chains.classes}.",
            f"Released tables: {len(self.predicted)} compared with the model, p {_p(self.predictive)} together.",
        ]
        most = largest(self.compared)
        if most is not None:
            lines.append(
                f"Unbiased tables: {sum(c.unbiased is not None for c in self.compared)} compared; largest difference "
                f"{most[1]:.1f} standard errors ({' by '.join(self._names(most[0].places))}), p {_p(most[2])}."
            )
            lines[-1] += f" Squared bias over tables of two variables: {self.bias[0]:.2f}, p {_p(self.bias[1])}."
        if self.relations is not None and self.relations.compared:
            many = f"{len(self.relations.compared)} compared with the release"
            lines.append(f"Relations to unperturbed columns: {many}, p {_p(self.relations.p)} together.")
            if self.relations.means:
                many = f"{len(self.relations.means)} means by category"
                lines[-1] += f" Numbers: {many}, p {_p(self.relations.p_means)} together."
        ratios = [one.ratio for one in self.rests_on_model if one.ratio is not None and len(one.names) == 2]
        if ratios:
            lines.append(
                "Standard errors by the model are "
                f"{min(ratios):.2f} to {max(ratios):.2f} times the unbiased ones, tables of two variables."
            )
        lines += self.totals.sentences if self.totals is not None else ()
        lines += [f"Problem: {text}" for text in self.problems]
        lines += [f"Warning: {text}" for text in (*self.warnings, *moved_told(self.approximated))]
        return "\n".join(lines if self.problems else [*lines, "Nothing speaks against using the copies."])

    _repr_pretty_ = show_whole


def diagnose(
    fit: Fit,
    labels: Sequence[Sequence[str]] | None = None,
    left_out: Mapping[str, str] | None = None,
    approximated: Mapping[str, str] | None = None,
    *,
    anchored: bool = False,
    seen: Seen | None = None,
) -> Diagnostics:
    """Test a fit against the released records that it was made from.

    ``labels`` are texts for the codes of each variable; ``left_out`` and ``approximated`` say by name why a variable of
    the data is not in the model, or only roughly. The level of the tests of fit is 1% for all tables together.
    """
    seen = seen or Seen(fit.evidence)
    sizes, names = fit.evidence.sizes, fit.evidence.names
    every, dropped = _tables(seen)
    predicted, compared = [], []
    for places in every:
        groups = list(seen.groups(places))
        counts = expected(fit.draws, groups, sizes) if groups else None
        if counts and len(places) >= min(2, len(names)):
            predicted.append(predict(groups, counts, places, sizes))
        compared.append(compare(seen, fit.draws, places, groups, counts))
    chains = convergence(fit)
    texts = labels or [[str(code) for code in range(size)] for size in sizes]
    return Diagnostics(
        tuple(names),
        tuple(tuple(one) for one in texts),
        fit.evidence.records,
        len(fit.draws),
        chains,
        np.asarray(fit.traces, dtype=np.float64)[:, :, chains.worst],
        tuple(predicted),
        tuple(compared),
        dict(left_out or {}),
        dict(approximated or {}),
        anchored,
        dropped,
    )


def _tables(seen: Seen) -> tuple[list[Places], int]:
    """Return the tables to compare, and how many are left out: of three variables, those that records show."""
    places = range(len(seen.evidence.sizes))
    every = [p for width in (1, 2) for p in itertools.combinations(places, width)]
    triples = [p for p in itertools.combinations(places, 3) if seen.shows(p)]
    triples.sort(key=lambda p: -seen.records(p))
    small = [p for p in (*every, *triples) if seen.compares(p)]
    return small[:MOST_TABLES], len(every) + len(triples) - len(small[:MOST_TABLES])


def _listed(tables: Sequence[Rests]) -> str:
    return _several([" by ".join(one.names) for one in tables])


def _several(texts: Sequence[str], most: int = 6) -> str:
    more = unshown(len(texts), most)
    return "; ".join(texts[: len(texts) - more]) + (f"; and {more:,} more" if more else "")


def _many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"
