"""Any estimate from a fitted joint model: asked of each completed copy, and pooled by Rubin's rules.

It answers what a release alone does not, such as a table that no subset of a split shows, and all answers agree with
each other. How far it rests on the model is said beside it: the unbiased estimate's error, where there is one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.data import frames
from postrand.data.described import released_table
from postrand.errors import EstimationError, UsageError, nearest, sentence, shown
from postrand.estimate import tidy
from postrand.estimate.axes import Array
from postrand.estimate.by_model_law import Answered, law_of
from postrand.estimate.evidence_columns import true_columns
from postrand.estimate.evidence_variables import Modelled
from postrand.estimate.result import Estimate
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.support.inputs import listed
from postrand.support.progress import Stage, stage

FAILED = "THE MODEL FAILED A TEST"
"""The mark of everything that rests on a model that failed a test."""
Answer = TypeVar("Answer")


class Examined(Protocol):
    """What was found of how good a fitted model is."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each reason not to use it."""


class Fitted(Protocol):
    """A joint model fitted to released records, as :func:`postrand.complete` returns it."""

    @property
    def released(self) -> Any:
        """The released frame."""

    @property
    def mechanism(self) -> Mechanism:
        """The law by which it was released."""

    @property
    def modelled(self) -> Modelled:
        """The variables of the model."""

    @property
    def copies(self) -> int:
        """The number m of completed copies."""

    @property
    def diagnostics(self) -> Examined:
        """How good the model is."""

    def codes(self, number: int, /) -> NDArray[np.int32]:
        """Return one copy as true codes of the model's variables, (n, J)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelEstimate(Estimate):
    """Hold an estimate from completed copies; ``unbiased`` is the one without a model, None where there is none.

    ``problems`` are those of the model, if it failed a test. ``sampling`` is the mean covariance within a copy,
    ``perturbation`` what the differences between the copies add.
    """

    unbiased: Estimate | None = None
    problems: tuple[str, ...] = ()

    @property
    def unbiased_error(self) -> Array:
        """The standard error of the estimate without a model, in the shape of ``value``; NaN where there is none."""
        return np.full(self.value.shape, np.nan) if self.unbiased is None else self.unbiased.standard_error

    @property
    def rests_on_model(self) -> Array:
        """The part of what is known that the model adds, ``1 − (standard error / unbiased error)²`` from 0 to 1.

        It is 1 where the release alone answers nothing.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            found = 1 - (self.standard_error / self.unbiased_error) ** 2
        found = np.where(self.unbiased_error > 0, found, np.where(np.isnan(self.unbiased_error), 1.0, 0.0))
        return np.clip(np.where(np.isinf(self.unbiased_error), 1.0, found), 0.0, 1.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing to know before the numbers are used."""
        said: tuple[str, ...] = (*self.problems, *Estimate.warnings.__get__(self))
        return (*rests(self.perturbed, self.unbiased is not None), *said)

    @property
    def includes(self) -> str:
        """One sentence: what was pooled, what the standard errors include, and how far it rests on the model."""
        text: str = Estimate.includes.__get__(self) + " and the fit of the model"
        if self.unbiased is None:
            return text
        part = float(np.median(self.rests_on_model))
        return f"{text}; {100 * part:.0f}% of what is known rests on the model (the median over the estimates)"

    def margin(self, variables: Sequence[str]) -> ModelEstimate:
        """Return the table of some of the variables; see :meth:`Estimate.margin`."""
        found = Estimate.margin(self, variables)
        return dataclasses.replace(found, unbiased=None if self.unbiased is None else self.unbiased.margin(variables))  # type: ignore[return-value, call-arg]  # a copy of self

    def counts(self) -> ModelEstimate:
        """Return the same table on the scale of counts; see :meth:`Estimate.counts`."""
        found = Estimate.counts(self)
        return dataclasses.replace(found, unbiased=None if self.unbiased is None else self.unbiased.counts())  # type: ignore[return-value, call-arg]  # a copy of self

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """Return one row for each cell; after the columns of every estimate ``unbiased_standard_error``."""
        error = pa.array(self.unbiased_error.ravel(), from_pandas=True)
        return Estimate.to_arrow(self, level).append_column("unbiased_standard_error", error)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return plain data for JSON, with ``unbiased_standard_error`` and ``rests_on_model``."""
        found = Estimate.to_dict(self, level)
        beside = {"unbiased_standard_error": self.unbiased_error, "rests_on_model": self.rests_on_model}
        return found | {name: tidy.plain(numbers) for name, numbers in beside.items()}


def by_model(
    what: str, ask: Callable[..., Estimate], frame: Any, mechanism: Mechanism, model: Fitted | None, **asked: Any
) -> ModelEstimate:
    """Return what an estimator answers on completed copies, pooled; ``asked`` is its question, ``what`` names it.

    Each copy is asked as a file of which nothing was perturbed, so weights and strata count as they always do.

    Raises
    ------
    UsageError
        If there is no model, or it was fitted to other records or by another law.
    PostrandError
        Whatever the estimator raises.
    """
    fitted = _checked(model, frame, mechanism)
    held: dict[str, Any] = {}
    found = []
    for one in answers(ask, frame, mechanism, model, asked):
        held = {f.name: getattr(one, f.name) for f in dataclasses.fields(Estimate)}
        found.append(Answered.of(one))
    law = law_of(found)
    groups = f" by {', '.join(held['variables'])}" if asked.get("by") else ""
    method = f"{what}{groups}, by Rubin's rules over {fitted.copies} copies completed by a joint model"
    means = {name: round(float(np.mean([getattr(e, name) for e in found]))) for name in ("records", "dropped")}
    held |= {"value": law.value, "law": law, "method": method, **means}
    held["total"] = float(np.mean([e.total for e in found]))
    held["perturbed"] = tuple(name for name in _named(asked) if name in mechanism.variables)
    unbiased = alone(ask, frame, mechanism, asked)
    problems = failed_tests(fitted, held["perturbed"])
    return ModelEstimate(**held, unbiased=unbiased, problems=problems)


def alone(ask: Callable[..., Answer], frame: Any, mechanism: Mechanism, asked: dict[str, Any]) -> Answer | None:
    """Return what the release alone answers, None where it does not: that is what the model is for."""
    try:
        return ask(frame, mechanism=mechanism, **asked)
    except EstimationError:
        return None


def rests(perturbed: Sequence[str], answered: bool) -> tuple[str, ...]:
    """Return the warning where numbers of perturbed variables rest on the model alone; else nothing."""
    if answered or not perturbed:
        return ()
    what = "The release alone does not answer this: the numbers rest on the joint model of"
    return (f"{what} {', '.join(perturbed)} with the other variables.",)


def said_of(model: Fitted | None, perturbed: Sequence[str], answered: bool) -> tuple[str, ...]:
    """Return what must be known of numbers from the model: that they rest on it alone, and its failed tests."""
    return (*rests(perturbed, answered), *failed_tests(model, perturbed))


def failed_tests(model: Fitted | None, perturbed: Sequence[str]) -> tuple[str, ...]:
    """Return what tests of the model found against numbers of perturbed variables, with the mark of ``complete``."""
    problems = model.diagnostics.problems if model is not None and perturbed else ()
    return tuple(f"{FAILED}: {text}" for text in problems)


def answers(
    ask: Callable[..., Answer],
    frame: Any,
    mechanism: Mechanism,
    model: Fitted | None,
    asked: dict[str, Any],
    names: Sequence[str] | None = None,
) -> Iterator[Answer]:
    """Yield the answer of each copy; perturbed variables that are not asked for are left out of it.

    ``names`` are the columns that are needed, by default all that the question ``asked`` names.
    """
    model = _checked(model, frame, mechanism)
    book, named = model.modelled.codebook, _named(asked) if names is None else list(names)
    perturbed = [name for name in model.modelled.perturbed if name in named]
    clear = [name for name in frames.names_of(frame) if name not in model.mechanism.variables]
    table = released_table(frame, [*perturbed, *(name for name in clear if name in named)], mechanism)
    names = perturbed or list(model.modelled.perturbed[:1])
    kept = {name: TransitionMatrix.identity(book[name].size) for name in names}
    law = Mechanism(kept, book, model.mechanism.numerical)
    done = stage(Stage.ESTIMATING, model.copies, "copies")
    for number in range(model.copies):
        columns = true_columns(model.codes(number), model.modelled, perturbed)
        yield ask(frames.like(table, columns, categorical=model.mechanism.partly), mechanism=law, **asked)
        done(1)


def _named(asked: dict[str, Any]) -> list[str]:
    """Return every text of a question: the names of variables are among them."""
    found = [one for value in asked.values() for one in (listed(value) or (value,))]
    return list(dict.fromkeys(one for one in found if isinstance(one, str)))


def wants_model(method: str, model: Fitted | None, *others: str) -> bool:
    """Return whether the question is for a fitted model; raises UsageError for an unknown method."""
    known = ("unbiased", *others, "model")
    if method not in known:
        what = f"unknown method {shown(method, repr)}{nearest(shown(method), known)}"
        raise UsageError(sentence(what, wanted=", ".join(known)))
    return method == "model" or model is not None


def _checked(model: Fitted | None, frame: Any, mechanism: Mechanism) -> Fitted:
    if model is None:
        what = "the method 'model' needs a fitted model"
        raise UsageError(sentence(what, fix="give model=pr.complete(release); one answers many questions"))
    if model.mechanism is not mechanism and model.mechanism.digest() != mechanism.digest():
        raise UsageError(sentence("the model was fitted to a release of another mechanism", fix="fit it to this one"))
    if model.released is not frame:
        names = list(model.modelled.perturbed)
        mine, its = (released_table(held, names, model.mechanism) for held in (frame, model.released))
        if not mine.equals(its):
            what = "the model was fitted to other records, or to these in another order"
            raise UsageError(sentence(what, fix="ask of the frame that was completed"))
    return model
