"""The blocks of a plan as TOML: what the draft of a plan and the workbench both write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tomlkit


def blocks_of(entries: Iterable[Mapping[str, Any]]) -> tomlkit.items.AoT:
    """Return ``[[blocks]]`` with ``variables`` and, on one line, ``privacy``.

    >>> entry = {"variables": ["sex"], "privacy": {"model": "differential", "epsilon": 1.0}}
    >>> print(tomlkit.dumps({"blocks": blocks_of([entry])}), end="")
    [[blocks]]
    variables = ["sex"]
    privacy = {model = "differential", epsilon = 1.0}
    """
    blocks = tomlkit.aot()
    for entry in entries:
        block = tomlkit.table()
        block["variables"] = entry["variables"]
        privacy = tomlkit.inline_table()
        privacy.update(entry["privacy"])
        block["privacy"] = privacy
        blocks.append(block)
    return blocks
