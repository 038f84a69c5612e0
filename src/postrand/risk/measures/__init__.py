"""Risk measures by name: one module for each, found by its ``MEASURE``, a frozen dataclass of the measure's options."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from postrand.errors import PostrandError, UsageError, nearest, raise_all, sentence
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Count, Fact, Histogram, Measured, RiskMeasure
from postrand.risk.merged import warn_of
from postrand.support import options
from postrand.support.measure_names import keys_alone, records_on
from postrand.support.progress import Stage, stage

__all__ = [
    "Assessment",
    "Count",
    "Fact",
    "Histogram",
    "Measured",
    "RiskMeasure",
    "Unmeasured",
    "kinds",
    "make",
    "measure",
    "measure_file",
]

INTERNAL = "For use inside the agency: counts from 1 to 4 are hidden, but other figures can reveal them."


@cache
def kinds() -> Mapping[str, type[RiskMeasure]]:
    """Return the class of every measure of this package by its name, in the order of the modules' names.

    >>> sorted(kinds())[:2]
    ['attackers', 'groups']
    """
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    found = [module.MEASURE for module in modules if hasattr(module, "MEASURE")]
    return {kind.name: kind for kind in found}


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A measure that the file does not support, and the reason."""

    measure: str
    title: str
    reason: str

    def __str__(self) -> str:
        return f"{self.title} ({self.measure})\n  not measured: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"measure": self.measure, "not_measured": self.reason}


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the measures that were asked for found in a file; ``assessment["suda"]`` is one of them."""

    key_variables: tuple[str, ...]
    records: int
    results: tuple[Measured | Unmeasured, ...]
    notes: tuple[str, ...] = ()
    recoded: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Measured:
        """Return the result of a measure; raises UsageError where it was not asked for, or could not be measured."""
        for result in self.results:
            if result.measure == name:
                if isinstance(result, Unmeasured):
                    raise UsageError(result.reason)
                return result
        known = [result.measure for result in self.results]
        raise UsageError(sentence(f"no result of {name!r}{nearest(name, known)}", wanted=", ".join(known)))

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The results without those that could not be measured."""
        return tuple(result for result in self.results if isinstance(result, Measured))

    def without_records(self) -> Assessment:
        """Return the assessment without the risks of single records, which take much memory: nothing shown has them."""
        light = (dataclasses.replace(r, records_at=None) if isinstance(r, Measured) else r for r in self.results)
        return dataclasses.replace(self, results=tuple(light))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, counts of 1 to 4 as ``"<5"``; for use inside the agency."""
        results = {result.measure: result.to_dict() for result in self.results}
        head = {"notice": INTERNAL, "key_variables": list(self.key_variables), "records": self.records}
        head |= {"recoded": list(self.recoded)} if self.recoded else {}
        return {**head, "notes": [*self.notes, *keys_alone(self.key_variables)], "measures": results}

    def __str__(self) -> str:
        """Return the results as text."""
        head = records_on(self.records, self.key_variables, self.recoded)
        notes = [f"note: {note}" for note in (*self.notes, *keys_alone(self.key_variables))]
        return "\n\n".join(["\n".join([head, *notes]), *map(str, self.results), INTERNAL])


def measure(
    data: Any,
    key_variables: Sequence[str],
    measures: str | Sequence[str | RiskMeasure] = "all",
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **file: Any,
) -> Assessment:
    """Measure a file by some measures, or by all that it supports.

    ``measures`` are names, members of one's own, or ``"all"``: then what cannot be measured is said in its place.
    ``settings`` are options of measures by name. ``file`` is what :meth:`postrand.risk.file.RiskFile.read` takes:
    ``sampling_fraction``, ``weight``, ``household``, ``sensitive``, ``codebook``, ``model``, ``structural_zeros``,
    ``missing``.

    Raises
    ------
    UsageError
        If a measure or option is unknown, or a measure that is named does not support the file.
    DataError
        As :func:`postrand.risk.assess`.

    Examples
    --------
    >>> frame = {"sex": ["F", "M", "F", "F"], "age": ["0-14", "15-64", "65+", "65+"]}
    >>> found = measure(frame, ["sex", "age"], ["suda", "individual"], sampling_fraction=0.5)
    >>> found["suda"]["largest_score"], round(found["individual"]["expected"], 3)
    (2.0, 2.0)
    """
    chosen, named = make(measures, settings or {}), measures != "all"
    read = RiskFile.read(data, key_variables, **file)
    warn_of(file.get("codebook"), read.columns, (*key_variables, *read.sensitive))
    return measure_file(read, chosen, named=named)


def measure_file(file: RiskFile, measures: Iterable[RiskMeasure], *, named: bool = False) -> Assessment:
    """Measure a file that is read. Where the measures are ``named``, one that cannot be measured is an error.

    Raises
    ------
    UsageError
        With the sentence of every named measure that does not support the file.
    """
    chosen = tuple(measures)
    problems = {one.name: problem for one in chosen if (problem := one.supports(file)) is not None}
    raise_all(UsageError, (f"measure {name!r}: {problem}" for name, problem in problems.items() if named))
    results: list[Measured | Unmeasured] = []
    done = stage(Stage.RISK, len(chosen), "measures")
    for number, one in enumerate(chosen):
        done(number > 0)
        if one.name in problems:
            results.append(Unmeasured(one.name, one.title, problems[one.name]))
            continue
        try:
            results.append(one.measure(file))
        except PostrandError as error:
            if named:
                raise
            results.append(Unmeasured(one.name, one.title, str(error)))
    return Assessment(file.keys.names, file.records, tuple(results), file.notes, file.recoded)


def make(measures: str | Sequence[str | RiskMeasure], settings: Mapping[str, Mapping[str, Any]]) -> list[RiskMeasure]:
    """Return the members that are asked for, with their options.

    Raises
    ------
    UsageError
        With every unknown name and option at once.
    """
    known = kinds()
    names = list(known) if measures == "all" else [measures] if isinstance(measures, str) else list(measures)
    unknown = [name for name in names if isinstance(name, str) and name not in known]
    problems = [_unknown(name, known) for name in unknown]
    asked = {name if isinstance(name, str) else name.name for name in names}
    problems += [_unknown(name, known) for name in settings if name not in known]
    problems += [
        sentence(f"an option of {name!r} is given, but the measure is not requested", fix=f"add it: --measure {name}")
        for name in settings
        if name in known and name not in asked
    ]
    raise_all(UsageError, problems)
    made: list[RiskMeasure] = []
    for name in dict.fromkeys(names):
        if not isinstance(name, str):
            made.append(name)
            continue
        try:
            made.append(options.build(known[name], settings.get(name, {}), f"measure {name!r}"))
        except PostrandError as error:
            problems += error.problems
    raise_all(UsageError, problems)
    return made


def _unknown(name: str, known: Iterable[str]) -> str:
    return sentence(f"no measure {name!r}{nearest(name, known)}", wanted=f"all, or some of {', '.join(known)}")


def described() -> list[dict[str, Any]]:
    """Return name, meaning and options of every measure, as they are at first."""
    return [
        {
            "measure": kind.name,
            "meaning": kind.meaning,
            "options": {f.name: f.default for f in dataclasses.fields(kind)},  # type: ignore[arg-type]
        }
        for kind in kinds().values()
    ]
