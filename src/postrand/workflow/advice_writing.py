"""A recommended plan as a file with comments: what it is, why, and what was chosen with the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import tomlkit

from postrand.plan import writing

_WIDTH = 110
_ORDER = ("source", "privacy", "unit", "design", "split", "blocks", "numerical", "release", "analysts")


def plan_toml(data: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """Return the plain data of a plan as TOML under a head of sentences.

    >>> data = {"source": {"file": "a.csv"}, "blocks": [{"variables": ["sex"]}], "privacy": {"model": "differential"}}
    >>> print(plan_toml(data, ["A plan."]).rstrip())
    # A plan.
    <BLANKLINE>
    [source]
    file = "a.csv"
    <BLANKLINE>
    [privacy]
    model = "differential"
    <BLANKLINE>
    [[blocks]]
    variables = ["sex"]
    """
    document = tomlkit.document()
    for sentence in sentences:
        for line in fill(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False).splitlines():
            document.add(tomlkit.comment(line))
    for name in (*_ORDER, *(name for name in data if name not in _ORDER)):
        if not data.get(name):
            continue
        document.add(tomlkit.nl())
        document[name] = _section(name, data[name])
    return re.sub(r"\n{3,}", "\n\n", tomlkit.dumps(document))


def _section(name: str, value: Any) -> Any:
    if name == "blocks":
        return writing.blocks_of(value)
    if name in ("split", "source", "privacy", "unit", "design", "release", "analysts"):
        return writing.split_of(value)
    entries = tomlkit.aot()
    for entry in value:
        entries.append(writing.split_of(entry))
    return entries
