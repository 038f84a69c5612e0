"""Any analysis of a data frame, repeated on each completed copy and pooled by Rubin's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from postrand.data.frames import Kind, check_kind, of_arrow, to_arrow
from postrand.errors import EstimationError, UsageError, nearest, sentence
from postrand.estimate.axes import Array
from postrand.estimate.pooling_answers import Answer, answer_of
from postrand.estimate.pooling_files import completed_frames
from postrand.estimate.pooling_resampling import Method, Resampling, resampled
from postrand.estimate.pooling_result import Pooled
from postrand.estimate.pooling_rules import check_copies, combine, covariance_between
from postrand.estimate.pooling_scale import SCALES, Scale, ScaleName
from postrand.support.showing import few


def pool(
    analysis: Callable[[Any], Any],
    completed: Any,
    *,
    kind: Kind | None = None,
    scale: ScaleName | Mapping[str, ScaleName] = "identity",
    complete_freedom: float | None = None,
    variance: Method | None = None,
    replicates: int = 50,
    unit: str | None = None,
    seed: int = 0,
) -> Pooled:
    """Run an analysis on each completed copy and pool its estimates: ``T = W + (1 + 1/m) B``.

    Parameters
    ----------
    analysis
        A function of a data frame. It returns a fitted result with ``params`` and ``cov_params()`` (statsmodels), a
        pair (estimate, variance) of numbers, arrays, Series or mappings (the variance of a vector: one for each
        number, or the covariance matrix), ``{name: (estimate, variance)}``, or estimates alone.
    completed
        What ``pr.complete`` returned, its ``frames``, any iterable of frames, or the path of a completed file or of
        its folder. Each frame is visited once and not kept.
    kind
        The kind of frames that the analysis wants, ``"pandas"``, ``"polars"`` or ``"arrow"``; None: as they are, which
        is Arrow for the copies of a release and for files.
    scale
        Where estimates are pooled, for all or by name: ``"logit"`` for shares, ``"log"`` for ratios and odds ratios,
        ``"fisher-z"`` for correlations. Variances are those of the estimates themselves; intervals are taken back.
    complete_freedom
        Degrees of freedom of the variance in one true file. By default those that the analysis gives (``df_resid`` of
        a fit, or the third of a tuple); infinite if it gives none.
    variance
        ``"bootstrap"`` or ``"jackknife"`` repeats the analysis ``replicates`` times within each copy, for analyses
        that give no variance; what they give is not used then. ``unit`` names the column of units that were sampled
        whole, for example households. The jackknife is for smooth estimates: not for a median or a tree.

    Examples
    --------
    >>> found = pool(lambda ages: {"mean": (sum(ages) / 2, 9.0)}, [[30, 40], [34, 40], [28, 42]])
    >>> found.value.tolist(), found.standard_error.tolist(), found.degrees_of_freedom.tolist()
    ([35.666], [3.283], [73.508])

    Raises
    ------
    UsageError
        If there are fewer than two copies, or the analysis returns nothing that can be pooled.
    EstimationError
        If an estimate is not finite, or the copies answer with different names.

    References
    ----------
    Rubin (1987); Barnard & Rubin (1999); Li, Raghunathan & Rubin (1991) for :meth:`Pooled.joint_test`.
    """
    how = None if variance is None else Resampling(variance, replicates, seed, unit)
    if how is None and unit is not None:
        raise UsageError(sentence("units are drawn only with a variance by drawing", fix="add variance='bootstrap'"))
    answers = _answers(analysis, frames_of(completed, kind), how)
    words = how.words if how else "as the analysis gave it"
    return _pooled(answers, scale, complete_freedom, words)


def frames_of(completed: Any, kind: Kind | None = None) -> Iterable[Any]:
    """Return the frames of what pooling accepts: a path, a thing with ``frames``, or any iterable of frames."""
    if isinstance(completed, (str, Path)):
        return completed_frames(completed, kind or "arrow")
    held = getattr(completed, "frames", completed)
    if not isinstance(held, Iterable) or isinstance(held, Mapping) or hasattr(held, "columns"):
        wanted = "what pr.complete returned, an iterable of frames, or a path"
        raise UsageError(sentence("not completed copies", got=type(completed).__name__, wanted=wanted))
    if kind is None:
        return held
    check_kind(kind)
    found = _OfKind(held, kind)
    return iter(found) if isinstance(held, Iterator) else found


@dataclass(frozen=True, slots=True)
class _OfKind:
    """Frames that are converted when they are visited."""

    frames: Iterable[Any]
    kind: Kind

    def __iter__(self) -> Iterator[Any]:
        return (of_arrow(to_arrow(frame), self.kind) for frame in self.frames)


def _answers(analysis: Callable[[Any], Any], frames: Iterable[Any], how: Resampling | None) -> list[Answer]:
    """Return the answer of each copy, all with the same names; an error says in which copy it came up."""
    found: list[Answer] = []
    for number, frame in enumerate(frames, 1):
        try:
            answer = answer_of(analysis(frame)) if how is None else resampled(analysis, frame, how, number)
            found.append(_in_order(answer, found[0]) if found else answer)
        except Exception as error:
            error.add_note(f"This is copy {number}.")
            raise
    check_copies(len(found))
    return found


def _in_order(answer: Answer, first: Answer) -> Answer:
    """Return the answer, if its names and parts are those of the first copy."""
    if answer.names != first.names:
        differ = sorted(set(answer.names) ^ set(first.names)) or list(answer.names)
        what = f"the copies give different estimates: {few(differ, 5)}"
        fix = "let every frame list all categories, or merge the rare ones before the analysis"
        raise EstimationError(sentence(what, fix=fix))
    parts = [(one.variance is None, one.covariance is None) for one in (answer, first)]
    if parts[0] != parts[1]:
        raise UsageError(sentence("some copies give a variance, and others do not"))
    return answer


def _pooled(
    answers: list[Answer], scale: ScaleName | Mapping[str, ScaleName], freedom: float | None, words: str
) -> Pooled:
    """Return the pooled result of answers with the same names."""
    names = answers[0].names
    scales = _scales(scale, names)
    raw = np.array([answer.value for answer in answers])
    values = _each(scales, raw, Scale.to)
    slopes = _each(scales, raw, lambda one, x: one.slope(x))
    complete = min(answer.complete for answer in answers) if freedom is None else float(freedom)
    given = [answer.variance for answer in answers if answer.variance is not None]
    if not given:
        return Pooled(names, combine(values, np.zeros_like(values)), scales, None, None, "", _unfinished(answers))
    rules = combine(values, np.array(given) * slopes**2, complete)
    held = [answer.covariance for answer in answers if answer.covariance is not None]
    if not held:
        return Pooled(names, rules, scales, None, None, words, _unfinished(answers))
    within = np.mean([c * np.outer(s, s) for c, s in zip(held, slopes, strict=True)], axis=0)
    return Pooled(names, rules, scales, within, covariance_between(values), words, _unfinished(answers))


def _unfinished(answers: list[Answer]) -> int:
    return sum(not answer.converged for answer in answers)


def _each(scales: tuple[Scale, ...], raw: Array, function: Callable[[Scale, Array], Array]) -> Array:
    """Return a function of each column (m,) on its own scale."""
    return np.stack([function(one, raw[:, place]) for place, one in enumerate(scales)], axis=1)


def _scales(scale: ScaleName | Mapping[str, ScaleName], names: tuple[str, ...]) -> tuple[Scale, ...]:
    wanted = scale if isinstance(scale, Mapping) else dict.fromkeys(names, scale)
    for name, one in wanted.items():
        if one not in SCALES:
            raise UsageError(sentence(f"unknown scale{nearest(str(one), SCALES)}", got=one, wanted=", ".join(SCALES)))
        if name not in names:
            raise UsageError(sentence(f"no estimate {name!r} to put on a scale{nearest(name, names)}"))
    return tuple(SCALES[wanted.get(name, "identity")] for name in names)
