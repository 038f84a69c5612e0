"""What every risk measure must do: laws as plain functions, which raise AssertionError with what is broken.

A member of one's own is tried by one call: ``check(MyMeasure())``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError
from postrand.risk.cells import KeyCodes
from postrand.risk.data import Coded
from postrand.risk.file import RiskFile
from postrand.risk.measures.base import Count, Measured, RiskMeasure

Oracle = Callable[[RiskFile], Mapping[str, float]]
"""Figures of a small file by brute force, written without the measure's code: their names are those in JSON."""

FEW = frozenset({1, 2, 3, 4})
_SEED = 20_240_611


def check(measure: RiskMeasure, oracle: Oracle | None = None, others: Mapping[str, RiskFile] | None = None) -> None:
    """Try every law on every small file that the measure supports; ``others`` are files of one's own.

    Raises
    ------
    AssertionError
        With the law that is broken, and the file.
    """
    check_declared(measure)
    tried = {**files(), **(others or {})}
    supported = {where: file for where, file in tried.items() if check_support(measure, file, where) is None}
    assert supported, f"{measure.name}: no file is supported, so that nothing was tried"
    for where, file in supported.items():
        for law in LAWS:
            law(measure, file, where)
        if oracle is not None:
            check_oracle(measure, file, oracle, where)


def files() -> dict[str, RiskFile]:
    """Return small files by what is awkward about them."""
    rng = np.random.default_rng(_SEED)
    shape, n = (4, 3, 5), 40
    mixed = tuple((rng.random(n) ** 2 * s).astype(np.int64) for s in shape)
    weights, household = rng.uniform(1, 30, n), rng.integers(0, 12, n)
    ill = Coded(rng.integers(0, 2, n), 2, 2, ("no", "yes"), True)
    none, one, distinct = np.zeros(0, dtype=np.int64), (np.zeros(1, dtype=np.int64),), (np.arange(6),)
    wild = (np.where(rng.random(n) < 0.1, -1, mixed[0]), *mixed[1:])
    names = ("a", "b", "c")
    full: dict[str, Any] = {"household": household, "sensitive": ("ill",), "columns": {"ill": ill}}
    hidden = 2 * (np.arange(n) % 2)  # each record shows two of three keys; the last code says that it does not show one
    split = tuple(np.where(hidden == j, s, codes) for j, (s, codes) in enumerate(zip(shape, mixed, strict=True)))
    few = KeyCodes(("a",), (2,), (np.arange(16) // 2 % 2,))
    told: dict[str, Any] = {
        "sensitive": ("ill",),
        "columns": {"ill": Coded(np.arange(16) // 3 % 3, 3, 3, ("no", "yes", "so"), True)},
    }
    return {
        "keys alone": RiskFile(KeyCodes(names, shape, mixed)),
        "a fraction": RiskFile(KeyCodes(names, shape, mixed), 0.1, **full),
        "weights": RiskFile(KeyCodes(names, shape, mixed), weights=weights, **full),
        "few classes": RiskFile(few, weights=weights[:16], household=household[:16], **told),
        "the whole population": RiskFile(KeyCodes(names, shape, mixed), 1.0, **full),
        "missing keys that match all": RiskFile(KeyCodes(names, shape, wild), 0.1, **full),
        "released by a split": RiskFile(KeyCodes(names, tuple(s + 1 for s in shape), split), 0.1, **full),
        "no records": RiskFile(KeyCodes(("a",), (2,), (none,)), 0.5, household=none),
        "one record": RiskFile(KeyCodes(("a",), (1,), one), 0.5, household=one[0]),
        "all alike": RiskFile(KeyCodes(("a",), (3,), (np.full(9, 2),)), 0.5, household=np.arange(9) // 2),
        "all distinct": RiskFile(KeyCodes(("a",), (6,), distinct), 0.5, household=np.zeros(6, dtype=np.int64)),
    }


def check_declared(measure: RiskMeasure) -> None:
    """Assert that a measure has a name, a title, a sentence of meaning, what it costs, and a tolerance."""
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", measure.name), f"{measure.name!r} is no name to type"
    assert measure.title.strip(), f"{measure.name}: no title"
    assert re.fullmatch(r"[A-Z0-9].{15,160}\.", measure.meaning), f"{measure.name}: its meaning is not one sentence"
    assert measure.cost in ("counts", "model", "long"), f"{measure.name}: unknown cost {measure.cost!r}"
    assert 0 <= measure.tolerance <= 0.5, f"{measure.name}: a tolerance beyond 0.5 tests nothing"


def check_support(measure: RiskMeasure, file: RiskFile, where: str) -> str | None:
    """Assert that ``supports`` gives None or a sentence, and that ``measure`` refuses with this sentence; return it."""
    reason = measure.supports(file)
    assert reason == measure.supports(file), f"{measure.name}, {where}: supports() says two things"
    if reason is None:
        return None
    assert re.fullmatch(r"\S.{9,}\.", reason), f"{measure.name}, {where}: not a sentence: {reason!r}"
    refused: tuple[str, ...] = ()
    try:
        measure.measure(file)
    except UsageError as error:
        refused = error.problems
    assert reason in refused, f"{measure.name}, {where}: measure() does not refuse with the sentence of supports()"
    return reason


def check_shown(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that the result is plain JSON and text, which show no record's risk and no count of 1 to 4."""
    found = measure.measure(file)
    assert found.measure == measure.name, f"{measure.name}, {where}: the result has another name"
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    keys = [fact.key for fact in found.facts]
    assert len(set(keys)) == len(keys) > 0, f"{measure.name}, {where}: figures need names, each its own"
    assert set(told["facts"]) == set(keys), f"{measure.name}, {where}: JSON leaves figures out"
    for fact in found.facts:
        small = isinstance(fact.value, Count) and fact.value in FEW
        assert (told["facts"][fact.key] == "<5") == small, f"{measure.name}, {where}: {fact.key} shows a small count"
    for row, shown in zip(found.table, told["table"], strict=False):
        assert row.keys() == found.table[0].keys(), f"{measure.name}, {where}: rows differ in headings"
        hidden = [name for name, value in row.items() if isinstance(value, Count) and value in FEW]
        assert all(shown[name] == "<5" for name in hidden), f"{measure.name}, {where}: a row shows a small count"
    text = str(found)
    assert measure.name in text, f"{measure.name}, {where}: the text does not name the measure"
    assert all(line.isprintable() for line in text.split("\n")), f"{measure.name}, {where}: text steers the terminal"
    assert "records_at" not in text + repr(found) + json.dumps(told), f"{measure.name}, {where}: records are shown"
    assert len(found.rows()) == len(found.facts), f"{measure.name}, {where}: rows and figures differ"


def check_records(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that the risks of records, where there are any, are one finite number for each, 0 or more."""
    risk = measure.measure(file).records_at
    if risk is not None:
        assert risk.shape == (file.records,), f"{measure.name}, {where}: not one risk for each record"
        assert bool(np.isfinite(risk).all() and (risk >= 0).all()), f"{measure.name}, {where}: a risk is no number >= 0"


def check_order(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that the order of the records changes nothing; risks of records move with them."""
    order = np.random.default_rng(_SEED).permutation(file.records)
    before, after = measure.measure(file), measure.measure(taken(file, order))
    same(before, after, measure, f"{where}, records in another order")
    if before.records_at is not None and after.records_at is not None:
        close = np.allclose(after.records_at, before.records_at[order], rtol=measure.tolerance, atol=1e-9)
        assert close, f"{measure.name}, {where}: risks do not move with their records"


def check_categories(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that the order of the categories of the keys changes nothing."""
    same(measure.measure(file), measure.measure(recoded(file)), measure, f"{where}, categories in another order")


def check_duplicates(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that no record has more risk where every record is there twice, in households of their own."""
    _not_more(measure, file, twice(file), np.tile(np.arange(file.records), 2), f"{where}, every record twice")


def check_scale(measure: RiskMeasure, file: RiskFile, where: str) -> None:
    """Assert that no record has more risk where the population is three times as large."""
    if file.has_inclusion:
        larger = changed(
            file,
            fraction=None if file.fraction is None else file.fraction / 3,
            weights=None if file.weights is None else 3 * file.weights,
        )
        _not_more(measure, file, larger, np.arange(file.records), f"{where}, a larger population")


def check_oracle(measure: RiskMeasure, file: RiskFile, oracle: Oracle, where: str) -> None:
    """Assert that the figures are those of brute force."""
    found = measure.measure(file)
    for key, value in oracle(file).items():
        close = np.isclose(float(found[key]), value, rtol=max(measure.tolerance, 1e-9), atol=1e-12)
        assert close, f"{measure.name}, {where}: {key} is {found[key]}, by brute force {value}"


LAWS: tuple[Callable[[RiskMeasure, RiskFile, str], None], ...] = (
    check_shown,
    check_records,
    check_order,
    check_categories,
    check_duplicates,
    check_scale,
)
"""What holds for every file that a measure supports."""


def same(before: Measured, after: Measured, measure: RiskMeasure, where: str) -> None:
    """Assert that two results have the same figures, tables and histograms, within the measure's tolerance."""
    for (one, old), (other, new) in zip(_figures(before), _figures(after), strict=True):
        assert one == other, f"{measure.name}, {where}: {one} and {other}"
        if isinstance(old, str) or isinstance(new, str) or old is None or new is None:
            assert measure.tolerance > 1e-6 or old == new, f"{measure.name}, {where}: {one} was {old}, is {new}"
        else:
            scale = measure.tolerance * max(1.0, abs(old))
            assert abs(new - old) <= scale, f"{measure.name}, {where}: {one} was {old}, is {new}"


def _figures(found: Measured) -> Iterator[tuple[str, float | str | None]]:
    for fact in found.facts:
        yield fact.key, fact.value
    rows = sorted(found.table, key=lambda row: str(next(iter(row.values()))))
    for k, row in enumerate(rows):
        for name, value in row.items():
            yield f"row {k}, {name}", value if value is None or isinstance(value, int | float | str) else str(value)
    if found.histogram is not None:
        yield from ((f"bin {k}", count) for k, count in enumerate(found.histogram.counts))


def _not_more(measure: RiskMeasure, file: RiskFile, other: RiskFile, at: NDArray[np.int64], where: str) -> None:
    assert measure.supports(other) is None, f"{measure.name}, {where}: not supported any more"
    before, after = measure.measure(file).records_at, measure.measure(other).records_at
    assert (before is None) == (after is None), f"{measure.name}, {where}: risks of records come and go"
    if before is not None and after is not None:
        most = before[at] + max(measure.tolerance, 1e-9)
        assert bool((after <= most).all()), f"{measure.name}, {where}: a record has more risk than before"


def taken(file: RiskFile, order: NDArray[np.int64]) -> RiskFile:
    """Return the file with some of its records, in another order."""
    return changed(
        file,
        keys=file.keys.take(order),
        weights=None if file.weights is None else file.weights[order],
        household=None if file.household is None else file.household[order],
        columns={name: _at(file.columns[name], order) for name in file.columns},
    )


def recoded(file: RiskFile) -> RiskFile:
    """Return the file with the categories of every key in reverse order; a missing key that matches all stays one."""
    sizes = file.keys.shape
    codes = tuple(np.where(c < 0, c, s - 1 - c) for c, s in zip(file.keys.codes, sizes, strict=True))
    return changed(file, keys=KeyCodes(file.keys.names, sizes, codes))


def twice(file: RiskFile) -> RiskFile:
    """Return the file with every record there twice: the second ones live in households of their own."""
    both = taken(file, np.tile(np.arange(file.records), 2))
    if file.household is None:
        return both
    second = file.household + int(file.household.max(initial=0)) - int(file.household.min(initial=0)) + 1
    return changed(both, household=np.concatenate([file.household, second]))


def changed(file: RiskFile, **parts: Any) -> RiskFile:
    """Return the file with other parts."""
    names = ("keys", "fraction", "weights", "household", "sensitive", "columns", "model", "rules")
    held = {name: getattr(file, name) for name in names}
    return RiskFile(**{**held, **parts})


def _at(column: Coded, order: NDArray[np.int64]) -> Coded:
    return Coded(column.codes[order], column.size, column.missing, column.categories, column.from_codebook)
