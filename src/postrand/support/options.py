"""Values from plain data: the options of plans, certificates and forms are the fields of frozen dataclasses."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from postrand.errors import PostrandError, SpecificationError, nearest, raise_all, sentence, shown

MAX_LISTED = 10
"""The largest number of list entries that a sentence shows."""

_KERNELS = ("kernel", "kernels")


@dataclass(frozen=True, slots=True)
class Range:
    """Say which values of a number a form offers, from ``least`` to ``most``, first ``usual``, and what they mean.

    It stands in the metadata of a dataclass field, ``field(metadata={"range": Range(...)})``. A member accepts more
    than a form offers: what it refuses, it refuses by itself.
    """

    least: float
    most: float
    usual: float
    unit: str = ""
    hint: str = ""
    logarithmic: bool = True


def discover(
    path: Iterable[str], package: str, is_member: Callable[[type], bool], without: Sequence[str] = ()
) -> tuple[Any, ...]:
    """Return the classes that modules of a package define and ``is_member`` accepts, by rank and then by name.

    So a new member is one new file, and no list names it. Modules of compiled kernels hold no members and take a second
    to import: they are left out by their names. So are the modules ``without``, which are about something else.
    """
    found: set[type] = set()
    for name in _modules(path, f"{package}.", {f"{package}.{name}" for name in without}):
        values = vars(importlib.import_module(name)).values()
        found |= {v for v in values if isinstance(v, type) and v.__module__ == name and is_member(v)}
    return tuple(sorted(found, key=lambda member: (member.traits.rank, member.name)))


def _modules(path: Iterable[str], prefix: str, without: Set[str]) -> Iterator[str]:
    for module in pkgutil.iter_modules(path, prefix):
        if module.name in without or module.name.rpartition(".")[2].rpartition("_")[2] in _KERNELS:
            continue
        yield module.name
        if module.ispkg:
            yield from _modules(importlib.import_module(module.name).__path__, f"{module.name}.", without)


def named(family: Iterable[Any], name: str) -> Any:
    """Return the class of a family's member by its name."""
    return next(kind for kind in family if kind.name == name)


def usual(kind: type, **given: Any) -> Any:
    """Return a member made of ``given`` and, for options that have no default, the usual values of their ranges.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> usual(DifferentialPrivacy)
    DifferentialPrivacy(epsilon=1.0)
    """
    fields = [f for f in dataclasses.fields(kind) if "range" in f.metadata and f.name not in given]
    return kind(**{f.name: f.metadata["range"].usual for f in fields}, **given)


def to_dict(value: Any) -> dict[str, Any]:
    """Return ``{"model": name, field: value, ...}`` for a member of a family; confidential fields are not options.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> to_dict(DifferentialPrivacy(1.0))
    {'model': 'differential', 'epsilon': 1.0}
    """
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if not f.metadata.get("confidential")}
    return {"model": value.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}}


def describe(value: Any) -> str:
    """Return a member of a family as text for people.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> describe(DifferentialPrivacy(1.0))
    'differential (epsilon = 1.0)'
    """
    return in_words(to_dict(value))


def in_words(chosen: Mapping[str, Any]) -> str:
    """Return the plain data of a member of a family, as :func:`to_dict` gives it, as text for people."""
    fields = ", ".join(f"{name} = {brief(field)}" for name, field in chosen.items() if name != "model" and field != [])
    return f"{chosen['model']} ({fields})" if fields else str(chosen["model"])


def brief(value: object) -> object:
    """Return the length of a long list or of a list of lists (such as the edges of a map); otherwise the value itself.

    >>> brief([(0, 1, 1.0), (1, 2, 1.0)]), brief([1, 2])
    ('a list of 2', [1, 2])
    """
    if not isinstance(value, (list, tuple)):
        return value
    nested = any(isinstance(entry, (list, tuple)) for entry in value)
    return f"a list of {len(value):,}" if nested or len(value) > MAX_LISTED else value


def from_dict(family: Iterable[Any], data: Mapping[str, Any], where: str) -> Any:
    """Return the member of ``family`` that ``data["model"]`` names, made from the other entries.

    Raises
    ------
    SpecificationError
        With all unknown, missing or refused options together, and the nearest known name.

    Examples
    --------
    >>> from postrand.privacy import MODELS
    >>> from_dict(MODELS, {"model": "differential", "epsilon": 2.0}, "plan.toml [privacy]")
    DifferentialPrivacy(epsilon=2.0)
    """
    members = {member.name: member for member in family}
    if not isinstance(data, Mapping):
        what, fix = "expected a name or a table with 'model'", f"set model = {min(members)!r}"
        raise SpecificationError(sentence(what, where=where, got=shown(data, repr), fix=fix))
    model = data.get("model")
    if not isinstance(model, str) or model not in members:
        what = f"unknown model {shown(model, repr)}{nearest(shown(model), members)}"
        what = what if "model" in data else "'model' is missing"
        raise SpecificationError(sentence(what, where=where, wanted=" or ".join(map(repr, members))))
    return build(members[model], {k: v for k, v in data.items() if k != "model"}, where)


def build(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """Return ``kind(**values)`` for a dataclass; reports all problems of the values together."""
    if not isinstance(values, Mapping):
        raise SpecificationError(sentence("expected a table", where=where, got=shown(values, repr)))
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init and not f.metadata.get("confidential")}
    problems = [sentence(f"unknown option {k!r}{nearest(k, fields)}", where=where) for k in values if k not in fields]
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            problems.append(sentence(f"option {name!r} is missing", where=where, fix=f"give {name} a value"))
    raise_all(SpecificationError, problems)
    try:
        return kind(**values)
    except PostrandError as error:
        raise type(error)(f"{where}: {problem}" for problem in error.problems) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SpecificationError(sentence("an option has the wrong type", where=where, got=str(error))) from None
