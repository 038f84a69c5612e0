"""The laws of the family of recodings, tried on every kind, also on those of others."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pyarrow as pa

from postrand.recoding import Recode, Recoding

EXAMPLES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "bands": ({"bands": [0, 10, 20.5], "below": "under"}, [3, -1.5, 10, 99, 20.5]),
    "groups": ({"groups": {"A": ["x", "y"], "B": ["z"]}, "others": "rest"}, ["z", "x", "other", "y"]),
    "hierarchy": ({"hierarchy": "h.csv", "level": 1, "table": {"x": "A", "y": "A", "z": "B"}}, ["z", "x", "y"]),
    "merge_rare": ({"merge_rare": 2, "merged": ["y"], "others": "rest"}, ["x", "y", "z"]),
    "missing": ({"missing": [-9, 999]}, [2, 13, 0]),
    "rounding": ({"rounding": 5}, [2, 13, -3]),
    "steps": ({"steps": [{"top": 85}, {"bands": [0, 18, 65]}]}, [17, 99, 0, 40]),
    "top": ({"top": 10, "bottom": 0}, [-3, 4, 20]),
}
"""For each kind, by its first mark, options and values that have a place."""


def check(kind: type[Any], options: dict[str, Any] | None = None, values: list[Any] | None = None) -> None:
    """Raise AssertionError unless a kind keeps the laws of :class:`postrand.recoding.Recoding`.

    Without ``options`` and ``values``, those of :data:`EXAMPLES` are taken.
    """
    known = EXAMPLES.get(kind.marks[0], ({}, []))
    chosen, held = options or known[0], values or known[1]
    assert held, "values are needed that have a place in the result"
    recode = Recode.from_dict({"variable": "v", **chosen})
    assert type(recode.kind) is kind, "the options are those of another kind"
    _check_values(recode.kind, held)
    _check_recode(recode, held)
    assert Recode.from_dict(json.loads(json.dumps(recode.to_dict()))) == recode, "plain data do not come back"
    assert dataclasses.replace(recode.kind) == recode.kind  # type: ignore[type-var]  # every kind is a dataclass
    hash(recode)


def _check_values(kind: Recoding, held: list[Any]) -> None:
    column = pa.array(held)
    made = kind.to_arrow(column)
    assert len(made) == len(held), "not one result for each value"
    assert not made.null_count, "a value of the example has no place"
    assert kind.to_arrow(column.slice(0, 0)).type == made.type, "the type depends on the values"
    each = [kind.to_arrow(column.slice(k, 1))[0].as_py() for k in range(len(held))]
    assert each == made.to_pylist(), "a result depends on other records"
    if kind.categories():
        assert set(made.to_pylist()) <= set(kind.categories()), "a result is no category"
        assert len(set(kind.categories())) == len(kind.categories()), "a category is there twice"
    assert kind.in_words(), "no words for analysts"


def _check_recode(recode: Recode, held: list[Any]) -> None:
    want = recode.apply(pa.array([*held, None])).to_pylist()
    assert want[-1] is None, "a missing value does not stay missing"
    column = pa.array([None, *reversed(held)])
    for form in (column, column.dictionary_encode(), pa.chunked_array([column.slice(0, 2), column.slice(2)])):
        assert recode.apply(form).to_pylist() == want[::-1], "the result depends on how a column is stored"
