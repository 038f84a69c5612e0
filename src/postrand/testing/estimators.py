"""What every estimator must do: laws as plain functions, which raise AssertionError with what is broken.

An estimator of one's own is tried by one call: ``check(estimator)``. It is asked its ``example`` of :func:`survey`.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.engines.frame import perturb
from postrand.errors import DataError, PostrandError, UsageError
from postrand.estimate import Estimator
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.sampling import perturb_codes, sampler
from postrand.support.randomness import ReleaseKey
from postrand.testing.refusals import refused

ROWS = 4_000
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("area", role="key", categories=("east", "north", "west")),
        Variable("ill", role="sensitive", categories=("no", "yes")),
        Variable("hours", role="other", categories=(10, 20, 30), type="int64"),
        Variable("pay", role="other", type="double"),
        Variable("weight", role="weight", type="double"),
        Variable("stratum", role="other", categories=("a", "b")),
        Variable("note", role="other", categories=("x", "y")),
    )
)
"""Perturbed are sex, area, ill and hours; all others leave as they are. No example asks for notes."""

PERTURBED = {"sex": 0.8, "area": 0.7, "ill": 0.9, "hours": 0.7}
"""The probability with which a value of each stays."""

_SEED = 20_240_611
_KEY = ReleaseKey.from_seed(4)
_CLOSE = 5.5
"""Standard errors that an estimate may be off: a right one is farther with a probability below 1e-7."""


def survey(rows: int = ROWS) -> pa.Table:
    """Return true records that fit ``BOOK``, the same every time; all variables depend on each other."""
    rng = np.random.default_rng(_SEED)
    area = rng.integers(0, 3, rows)
    sex = (rng.random(rows) < 0.15 + 0.1 * area).astype(int)
    ill = (rng.random(rows) < 0.2 + 0.3 * sex).astype(int)
    hours = np.clip(area + rng.integers(-1, 2, rows), 0, 2)
    pay = np.round(1000 + 200 * sex + 100 * area + 50 * hours + rng.gamma(4, 50, rows), 2)
    codes = {"sex": sex, "area": area, "ill": ill, "hours": hours}
    columns = {name: _decoded(name, values) for name, values in codes.items()}
    weight = rng.integers(1, 5, rows) / 2
    more = {name: _decoded(name, rng.integers(0, 2, rows)) for name in ("stratum", "note")}
    return pa.table({**columns, "pay": pay, "weight": weight, **more})


def _decoded(name: str, codes: np.ndarray[Any, Any]) -> pa.Array:
    categories = BOOK[name].categories
    return pa.array([categories[code] for code in codes])


def mechanism() -> Mechanism:
    """Return the mechanism of the survey."""
    laws = {}
    for name, stays in PERTURBED.items():
        size = BOOK[name].size
        law = np.where(np.eye(size, dtype=bool), stays, (1 - stays) / (size - 1))
        laws[name] = TransitionMatrix.from_array(law)
    return Mechanism(laws, BOOK)


def keeping() -> Mechanism:
    """Return one that keeps every value."""
    return Mechanism({name: TransitionMatrix.identity(BOOK[name].size) for name in PERTURBED}, BOOK)


def elsewhere() -> Mechanism:
    """Return one that perturbs notes alone, which no example asks for: all else is true."""
    return Mechanism({"note": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, BOOK)


def splitting(*, whole: bool = False) -> Mechanism:
    """Return one whose records show two of the perturbed variables or all; ``whole``: all of them, and unchanged."""
    every = tuple(PERTURBED)
    subsets = [every] if whole else [*itertools.combinations(every, 2), every]
    sizes = [math.prod(BOOK[name].size for name in names) for names in subsets]
    laws = [TransitionMatrix.identity(size) if whole else randomised_response(size, 2.0) for size in sizes]
    blocks = [Block(names, law) for names, law in zip(subsets, laws, strict=True)]
    return Mechanism([], BOOK, split=Split.of([1 / len(blocks)] * len(blocks), blocks))


def released(table: pa.Table, seed: int = 1) -> pa.Table:
    """Return the survey as the mechanism releases it."""
    law, keys = mechanism(), np.arange(len(table), dtype=np.uint64)
    true = [_codes(table, block.variables[0]) for block in law.blocks]
    samplers = tuple(sampler(block.matrix) for block in law.blocks)
    drawn = perturb_codes(samplers, ReleaseKey.from_seed(seed).secret, keys, true)
    for block, codes in zip(law.blocks, drawn, strict=True):
        name = block.variables[0]
        table = table.set_column(table.schema.get_field_index(name), name, _decoded(name, codes))
    return table


def _codes(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    categories = BOOK[name].categories
    return np.array([categories.index(value) for value in table[name].to_pylist()], dtype=np.int8)


def check(estimator: Estimator) -> None:
    """Try every law.

    Raises
    ------
    AssertionError
        With the law that is broken.
    """
    for law in LAWS:
        law(estimator)


def ask(estimator: Estimator, table: pa.Table, law: Mechanism, **more: str) -> Any:
    """Return the answer to the estimator's example, with the options that it needs and ``more``."""
    return estimator.answer(table, law, estimator.example, {**(estimator.needs or {}), **more})


def check_declared(estimator: Estimator) -> None:
    """Assert that name, help and options can be typed and read, and that the function takes every option."""
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", estimator.name), f"{estimator.name!r} is no name to type"
    names = [option.name for option in estimator.options]
    assert len(set(names)) == len(names), f"{estimator.name}: an option is declared twice"
    for said in (estimator.help, *(option.help for option in estimator.options)):
        assert said.endswith("."), f"{estimator.name}: not a sentence: {said!r}"
    known = inspect.signature(estimator.ask).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    for option in estimator.options:
        assert takes_all or option.keyword in known, f"{estimator.name}: the function has no {option.keyword!r}"
    assert "mechanism" in known, f"{estimator.name}: the function takes no mechanism"
    missing = [name for name in estimator.needs or {} if name not in names]
    assert not missing, f"{estimator.name}: needs {missing}, which are no options of it"


def check_shown(estimator: Estimator) -> None:
    """Assert that the answer is a frozen value: plain JSON, text, and a table of at least one row."""
    found = ask(estimator, released(survey()), mechanism())
    frozen = getattr(found, "__dataclass_params__", None)
    assert frozen is not None, f"{estimator.name}: the answer is not a dataclass"
    assert frozen.frozen, f"{estimator.name}: the answer is not a frozen dataclass"
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.to_arrow().num_rows, f"{estimator.name}: the answer has no table"
    text = str(found)
    assert text.strip(), f"{estimator.name}: the answer has no text"
    assert all(line.isprintable() for line in text.split("\n")), f"{estimator.name}: the text steers the terminal"


def check_unperturbed(estimator: Estimator) -> None:
    """Assert that matrices that keep every value give what no matrices give: the answer of the plain data."""
    table = survey()
    kept, plain_data = (ask(estimator, table, law) for law in (keeping(), elsewhere()))
    _same(estimator, kept, plain_data, "with matrices that keep every value")


def check_order(estimator: Estimator) -> None:
    """Assert that the order of records and of columns changes nothing."""
    table = released(survey())
    mixed = table.take(np.random.default_rng(_SEED).permutation(len(table))).select(table.column_names[::-1])
    one, other = (ask(estimator, t, mechanism()) for t in (table, mixed))
    _same(estimator, one, other, "with records in another order")


def check_weights(estimator: Estimator) -> None:
    """Assert that weights of 1 change no estimate; a test may take another statistic where records are weighted."""
    table = released(survey())
    if "statistic" in ask(estimator, table, mechanism()).to_dict():
        return
    if all(option.keyword != "weights" for option in estimator.options):
        return
    ones = table.set_column(table.schema.get_field_index("weight"), "weight", pa.array(np.ones(len(table))))
    weighted, plain_data = (
        _estimates(ask(estimator, ones, mechanism(), **given)) for given in ({"weight": "weight"}, {})
    )
    close = np.allclose(weighted, plain_data, rtol=1e-6, atol=1e-8, equal_nan=True)
    assert close, f"{estimator.name}: weights of 1 change the estimate"


def check_design(estimator: Estimator) -> None:
    """Assert that a survey design changes no estimate, and that a perturbed column of it is refused by name.

    A test may take another statistic with a design. An estimator without the options of a design refuses them by name.
    """
    table, law = released(survey()), mechanism()
    if not any(option.design for option in estimator.options):
        refused(UsageError, "--psu cannot be used with", lambda: ask(estimator, table, law, psu="pay"))
        return
    found, plain_data = ask(estimator, table, law, psu="pay"), ask(estimator, table, law)
    if "statistic" not in plain_data.to_dict():
        close = np.allclose(_estimates(found), _estimates(plain_data), rtol=1e-6, atol=1e-8, equal_nan=True)
        assert close, f"{estimator.name}: a survey design changes the estimate"
    refused(UsageError, "perturbed", lambda: ask(estimator, table, law, psu="sex"))


def check_right(estimator: Estimator) -> None:
    """Assert that what is estimated from a release is near what the true records give, in standard errors."""
    truth = _estimates(ask(estimator, survey(), elsewhere()))
    for seed in (1, 2, 3):
        found = ask(estimator, released(survey(), seed), mechanism())
        errors = np.array([_number(e) for e in _leaves(found.to_dict().get("standard_error", []))])
        if not errors.size:
            continue
        values = _estimates(found)
        assert values.shape == errors.shape == truth.shape, f"{estimator.name}: not one error for each estimate"
        off = np.abs(values - truth) / errors
        assert np.nanmax(off) < _CLOSE, f"{estimator.name}: {np.nanmax(off):.1f} standard errors from the true records"


def check_split(estimator: Estimator) -> None:
    """Assert that a split is read as a split: right by its records that show what is asked, and by all that are true.

    Where the estimator has groups, it is asked by area, which the split perturbs.
    """
    by = {"by": "area"} if any(option.name == "by" for option in estimator.options) else {}
    law, whole = splitting(), splitting(whole=True)
    truth = ask(estimator, survey(), elsewhere(), **by)
    _same(estimator, ask(estimator, perturb(survey(), whole, _KEY), whole, **by), truth, "with a split that shows all")
    found = ask(estimator, perturb(survey(), law, _KEY), law, **by)
    errors = np.array([_number(e) for e in _leaves(found.to_dict().get("standard_error", []))])
    if errors.size:
        off = np.abs(_estimates(found) - _estimates(truth)) / errors
        what = f"{np.nanmax(off):.1f} standard errors from the true records, with a split"
        assert np.nanmax(off) < _CLOSE, f"{estimator.name}: {what}"


def check_refusals(estimator: Estimator) -> None:
    """Assert that what does not fit is refused by name, and that no value of a record is shown."""
    table = released(survey())
    given = dict(estimator.needs or {})
    refused(UsageError, "--nothing cannot be used with", lambda: ask(estimator, table, mechanism(), nothing="1"))
    unknown = re.sub(r"[a-z]+", lambda m: f"{m[0]}x" if m[0] in BOOK else m[0], estimator.example)
    error = refused(PostrandError, "", lambda: estimator.answer(table, mechanism(), unknown, given))
    assert any(f"{name}x" in str(error) for name in BOOK.names), f"{estimator.name}: an unknown variable is not named"
    for name in given:
        refused(UsageError, f"needs --{name}", lambda: estimator.answer(table, mechanism(), estimator.example, {}))
    for name in (name for name in PERTURBED if re.search(rf"\b{name}\b", estimator.example)):
        wild = ["secret" if BOOK[name].type == "string" else 987_654_321, *table[name].to_pylist()[1:]]
        bad = table.set_column(table.schema.get_field_index(name), name, pa.array(wild))
        error = refused(DataError, name, lambda bad=bad: ask(estimator, bad, mechanism()))  # type: ignore[misc]
        shown = any(word in str(error) for word in ("secret", "987"))
        assert not shown, f"{estimator.name}: an error shows a value"


LAWS: tuple[Callable[[Estimator], None], ...] = (
    check_declared,
    check_shown,
    check_unperturbed,
    check_order,
    check_weights,
    check_design,
    check_right,
    check_split,
    check_refusals,
)
"""What holds for every estimator."""


def _same(estimator: Estimator, one: Any, other: Any, where: str) -> None:
    pairs = zip(_leaves(_numbers(one.to_dict())), _leaves(_numbers(other.to_dict())), strict=True)
    for a, b in pairs:
        same = math.isclose(_number(a), _number(b), rel_tol=1e-6, abs_tol=1e-8) or _number(a) != _number(a)
        assert same, f"{estimator.name}, {where}: {a} and {b}"


def _estimates(found: Any) -> np.ndarray[Any, Any]:
    """Return what is estimated, as one array: ``estimate``, ``value`` or ``statistic``."""
    data = found.to_dict()
    named = next(data[name] for name in ("estimate", "coefficient", "value", "statistic") if name in data)
    return np.array([_number(value) for value in _leaves(named)])


def _numbers(data: Mapping[str, Any]) -> list[Any]:
    """Return the values of plain data that are numbers, or lists of them."""
    return [v for v in data.values() if isinstance(v, list | float | int | None) and not isinstance(v, bool)]


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, list | tuple):
        for part in data:
            yield from _leaves(part)
    elif isinstance(data, float | int) or data is None:
        yield data


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
