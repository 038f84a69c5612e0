"""What the suites try members on: files, laws inside and outside a model, and how a failure is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.mechanism.matrix import TransitionMatrix
from postrand.support import options

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

FILES: tuple[Counts, ...] = tuple(np.array(c) for c in ([30, 70], [50, 30, 20], [40, 25, 20, 15]))
"""Counts of the categories of a variable, for files of 100 records."""

SEED = 20
NEAR = 1e-6
"""How far a law next to a boundary is from it, as a part of the way from the uniform law."""


def require(holds: object, member: object, what: str) -> None:
    """Raise AssertionError that names the member where something does not hold."""
    if not holds:
        raise AssertionError(f"{getattr(member, 'name', member)}: {what}")


def example(kind: Any, counts: Counts) -> Any:
    """Return a member for a file with these counts: its own example, or the usual values of its options."""
    return kind.example(counts) if hasattr(kind, "example") else options.usual(kind)


def exact(model: Any, array: Floats) -> TransitionMatrix:
    """Return the exact law of a float matrix, its columns summing to 1 too where the model asks for that."""
    return round_bistochastic(array) if model.traits.columns_sum else TransitionMatrix.from_array(array)


def far_laws(model: Any, size: int) -> Iterator[Floats]:
    """Yield matrices to go to from the uniform law: the identity, and random ones where columns may sum to anything."""
    yield np.eye(size)
    generator = np.random.default_rng(SEED)
    for spread in () if model.traits.columns_sum else (0.2, 1.0, 5.0):
        yield generator.dirichlet(np.full(size, spread), size=size)


def on_the_way(far: Floats, share: float) -> Floats:
    """Return the mixture of ``far`` with the law that is the same for every true category."""
    mixed: Floats = share * far + (1 - share) / len(far)
    return mixed


def boundary(model: Any, far: Floats) -> float:
    """Return the largest share of ``far`` in a mixture with the uniform law that meets the model, by bisection."""
    low, high = 0.0, 1.0
    if model.check([exact(model, far)]).holds:
        return 1.0
    for _ in range(30):  # to a billionth of the way, far below NEAR
        middle = (low + high) / 2
        low, high = (middle, high) if model.check([exact(model, on_the_way(far, middle))]).holds else (low, middle)
    return low


def check_declared(kind: Any) -> None:
    """Check that a member has a name, and says in plain words what it is."""
    named = isinstance(getattr(kind, "name", None), str) and kind.name == kind.name.lower() and kind.name.isascii()
    require(named, kind, "its name is not a short text in lower case")
    plain = kind.traits.plain
    require(plain and plain == plain.strip() and plain.endswith("."), kind, "traits.plain is not a sentence")


def check_plain_data(kind: Any) -> None:
    """Check that a member survives the way through a plan or certificate: to plain data, JSON and back."""
    for counts in FILES:
        value = example(kind, counts)
        data = json.loads(json.dumps(options.to_dict(value), allow_nan=False))
        require(options.from_dict((kind,), data, "plan") == value, kind, f"it changes on its way through {data}")
        require(options.describe(value).startswith(kind.name), kind, "it cannot be described")
