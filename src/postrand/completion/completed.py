"""Complete a released frame: fit the joint model of its true records, and draw copies of them."""

from __future__ import annotations

import dataclasses
import secrets
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from postrand.completion.anchoring import Anchor, anchored, anchors
from postrand.completion.convergence import LEAST_TIMES, convergence
from postrand.completion.diagnostics import Diagnostics, diagnose
from postrand.completion.diagnostics_means import Numbers
from postrand.completion.diagnostics_relations import compare_relations
from postrand.completion.diagnostics_tables import Seen
from postrand.completion.files import write_frames
from postrand.completion.frames import Copies
from postrand.completion.predictive import LEVEL
from postrand.completion.related import Related, moves_of, relate, related_copy, separated
from postrand.completion.related_pairs import acting_pairs
from postrand.completion.totals import NO_TOTALS, Given, Totals, of_mixture, read_totals
from postrand.completion.totals_cost import cost
from postrand.completion.totals_moves import meet
from postrand.errors import UsageError, raise_all, sentence, shown
from postrand.estimate.evidence import evidence_of
from postrand.estimate.evidence_variables import Modelled
from postrand.mechanism import Mechanism
from postrand.mixture import Evidence, Fit, Settings, fit
from postrand.support.inputs import is_whole
from postrand.support.progress import Stage, stage

COPIES = 20
PILOTS = 6
"""Copies that are compared with the release to find which variables act together."""
MAX_KEPT_BYTES = 1 << 28
SEED_BITS = 53
"""A seed is below 2^53, so that every program reads it exactly from JSON."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Completed:
    """Hold completed copies of a release, and the fitted model that they were drawn from.

    ``frames`` are the copies, made when they are asked for; ``modelled`` says what the model has of the file,
    ``diagnostics`` how good it is. Where it is found biased, ``anchors`` move the copies' two-way tables, if ``anchor``
    says that they may. The copies follow from the released records, ``mechanism``, ``seed``, ``settings``, ``anchor``
    and ``totals`` alone.
    """

    released: Any
    mechanism: Mechanism
    modelled: Modelled
    fit: Fit
    diagnostics: Diagnostics
    anchors: tuple[Anchor, ...] = ()
    totals: Totals = NO_TOTALS
    related: Related | None = None
    anchor: bool = True
    _kept: dict[int, NDArray[np.integer]] = field(default_factory=dict, init=False)

    @property
    def frames(self) -> Copies:
        """The completed copies, a sequence of frames of the same kind as ``released``."""
        return Copies(self.released, self.modelled, self.copies, self.codes, self.mechanism.partly)

    @property
    def copies(self) -> int:
        """The number m of copies."""
        return len(self.fit.draws)

    @property
    def seed(self) -> int:
        """The seed of the draws: with the same release and settings it gives the same copies."""
        return self.fit.seed

    @property
    def settings(self) -> Settings:
        """How the model was fitted."""
        return self.fit.settings

    def codes(self, number: int) -> NDArray[np.int32]:
        """Return copy ``number`` as true codes of the model's variables, (n, J).

        Copies are kept if all of them take at most 256 MB, so that many questions cost one drawing of each.
        """
        kept = self._kept.get(number)
        if kept is not None:
            return kept.astype(np.int32)
        codes = codes_of(self.fit, self.anchors, self.totals, self.related, number)
        small = codes.astype(np.min_scalar_type(-max(self.fit.evidence.sizes)))
        if small.nbytes * self.copies <= MAX_KEPT_BYTES:
            self._kept[number] = small
        return codes

    def write(self, path: str | Path) -> Path:
        """Write all copies, one below the other, to a new file in the format of its suffix, for any software.

        Its first columns number the copies and the records; see :mod:`postrand.completion.files`. A folder with
        ``README.txt`` and all that ``verify`` checks is made by ``postrand complete``.
        """
        return write_frames(path, self.released, self.frames, self.mechanism)

    def __repr__(self) -> str:
        drawn = len(self.modelled.perturbed)
        what = "1 variable" if drawn == 1 else f"{drawn} variables"
        return f"Completed({self.copies} copies of {self.fit.evidence.records:,} records, {what} drawn)"


def complete(
    frame: Any,
    mechanism: Mechanism,
    *,
    copies: int = COPIES,
    seed: int | None = None,
    classes: int = 0,
    chains: int = 2,
    sweeps: int = 0,
    anchor: bool = True,
    totals: Given | str | Path | None = None,
) -> Completed:
    """Return completed copies of a released frame: true values drawn given the release and a joint model.

    Analyse each copy as if it were the true file, and pool the results by Rubin's rules (``estimate.pool``). Only the
    release goes in, so whatever guarantee it has, the copies have too.

    Parameters
    ----------
    frame
        The released records: a pandas or polars DataFrame or a pyarrow Table. Copies come back in the same kind.
    mechanism
        The published law.
    copies
        The number m of copies, 2 or more: what Rubin's rules need.
    seed
        A whole number of 0 or more, which makes the copies repeatable; None draws a fresh one. It is published with
        the copies, and must not be derived from the release key.
    classes, chains, sweeps
        The most classes of the mixture, the chains of the fit, and the sweeps of each; 0: chosen by the fit. Where
        chains of sweeps that it chose do not agree, it is made once more with four times as many.
    anchor
        Whether the copies' two-way tables are moved to the unbiased ones, within their error, where the diagnostics
        find the model biased. Without it the copies are drawn from the model as it is.
    totals
        Published totals that every copy meets exactly: a mapping of variables to categories to counts (or shares), or
        the name of a CSV file; see :func:`postrand.completion.totals.read_totals`.

    Raises
    ------
    UsageError
        If the number of copies, the seed or a setting is not valid.
    DataError, EstimationError
        As :func:`postrand.estimate.evidence.evidence_of`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand import Codebook, Variable, randomised_response
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> released = pa.table({"sex": ["F", "M", "M", "F"]})
    >>> done = complete(released, Mechanism({"sex": randomised_response(2, 3.0)}, book), copies=2, seed=1)
    >>> done
    Completed(2 copies of 4 records, 1 variable drawn)
    >>> done.frames[0].column_names, len(done.frames), done.seed
    (['sex'], 2, 1)
    """
    given = (("copies", copies, 2), ("classes", classes, 0), ("chains", chains, 1), ("sweeps", sweeps, 0))
    raise_all(
        UsageError,
        [
            sentence(f"{name} is not valid", got=shown(value, repr), wanted=f"a whole number of {least} or more")
            for name, value, least in (*given, ("seed", 0 if seed is None else seed, 0))
            if not is_whole(value, least)
        ],
    )
    stage(Stage.READING)
    everything, described = evidence_of(frame, mechanism)
    evidence, modelled, columns, codes = separated(everything, described, mechanism.given)
    wanted = NO_TOTALS
    if totals is not None:
        wanted = of_mixture(read_totals(totals, everything, described), described, modelled)
    number = secrets.randbits(SEED_BITS) if seed is None else int(seed)
    found = _fitted(evidence, copies, number, Settings(classes, chains, sweeps))
    related, seen = relate(found, columns, codes), Seen(found.evidence)
    told, moved = _examined(found, modelled, anchor, related, seen)
    done = Completed(frame, mechanism, modelled, found, told, moved, wanted, related, anchor)
    return _costed(_settled(done, seen))


def _fitted(evidence: Evidence, copies: int, seed: int, settings: Settings) -> Fit:
    """Return the fit; where the sweeps are left to it and its chains do not agree, a longer one takes its place.

    A fit of as many sweeps that are asked for is the same. The tests of the model are about the fit that is returned.
    """
    found = fit(evidence, copies, seed, settings)
    if settings.sweeps or convergence(found).agree:
        return found
    return fit(evidence, copies, seed, dataclasses.replace(settings, sweeps=LEAST_TIMES * found.settings.sweeps))


def _examined(
    found: Fit, modelled: Modelled, anchor: bool, related: Related | None, seen: Seen
) -> tuple[Diagnostics, tuple[Anchor, ...]]:
    """Return what the diagnostics say, and how the copies have to move where they find the model biased."""
    labels = [variable.labels for variable in modelled.variables]
    roughly = {variable.name: variable.note for variable in modelled.variables if variable.note}
    left_out = dict(modelled.left_out)
    if related is not None:
        roughly |= related.notes
        left_out |= dict.fromkeys(related.basis.left_out, "there are too many unperturbed columns for the records")
    told = diagnose(found, labels, left_out, roughly, seen=seen)
    moved = anchors(found, seen) if anchor and told.biased else ()
    return dataclasses.replace(told, anchored=bool(moved)), moved


def _together(done: Completed, seen: Seen) -> Completed:
    """Return the copies moved to what two variables do together to an unperturbed column, where they do."""
    if done.related is None:
        return done
    pilots = [done.codes(number) for number in range(min(PILOTS, done.copies))]
    acting = acting_pairs(seen, done.related.places, done.related.names, done.related.basis, pilots)
    if not acting:
        return done
    related = dataclasses.replace(done.related, acting=acting)
    again = dataclasses.replace(done, related=related)
    again._kept.update({at: codes for at, codes in done._kept.items() if not moves_of(related, done.fit, at)})
    return again


def _settled(plain: Completed, seen: Seen) -> Completed:
    """Return the copies with what their relations to unperturbed columns are found to be, moved for pairs or not.

    A move for one pair changes what others have in common with the column, and may spoil it: where the moved copies
    contradict the release, and those that are not moved do not, these are taken.
    """
    done = _compared(_together(plain, seen), seen)
    if done.related is None or not done.related.acting or not _contradicted(done):
        return done
    without = _compared(plain, seen)
    return done if _contradicted(without) else without


def _contradicted(done: Completed) -> bool:
    relations = done.diagnostics.relations
    return relations is not None and bool(relations.failed(LEVEL) or relations.failed_means(LEVEL))


def _compared(done: Completed, seen: Seen) -> Completed:
    """Return the copies with what their relations to unperturbed columns are found to be."""
    if done.related is None:
        return done
    numbers = Numbers.of(done.released, done.related.names)
    relations = compare_relations(done.related, seen, done.copies, done.codes, numbers, done.diagnostics.labels)
    return _told(done, dataclasses.replace(done.diagnostics, relations=relations))


def _costed(done: Completed) -> Completed:
    """Return the copies with what their totals are found to cost."""
    found, totals = done.fit, done.totals
    if not totals and not totals.met:
        return done
    without = partial(codes_of, found, done.anchors, NO_TOTALS, done.related)
    spent = cost(found, totals, without, done.codes)
    return _told(done, dataclasses.replace(done.diagnostics, totals=spent))


def _told(done: Completed, diagnostics: Diagnostics) -> Completed:
    again = dataclasses.replace(done, diagnostics=diagnostics)
    again._kept.update(done._kept)
    return again


def codes_of(
    found: Fit, moved: tuple[Anchor, ...], totals: Totals, related: Related | None, number: int
) -> NDArray[np.int32]:
    """Return copy ``number`` as true codes (n, J): drawn, anchored, related to other columns, totals met exactly."""
    codes = anchored(found, moved, number, totals.tables)
    if related is not None:
        with threadpool_limits(1, "blas"):
            codes = related_copy(related, found, codes, number)
    if not totals:
        return codes
    return meet(codes, found.evidence, found.draws[number], totals, np.random.default_rng([found.seed, 9, number]))
