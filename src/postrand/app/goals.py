"""What a guarantee is about, and how it is spent: variables in blocks or in a split, the record or the whole file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.app import forms

WAYS = {
    "blocks": "each by itself, or in blocks",
    "split": "split: random subsets",
}
WORKLOADS = {
    "pairs": "all tables of two variables",
    "triples": "all tables of three variables",
    "worst": "the least precise table of two",
}
GOALS = {
    "record": "of a record",
    "shared": "of a record, shared by its blocks",
    "stated": "of a record, file stated",
    "file": "of the whole file",
}
FROM_PLAN = "plan"
"""The choice that stands for what an opened plan asks and no form can show."""
OF_PLAN = "as the opened plan says"

RECORD, FILE, DELTA = "split.epsilon", "file.epsilon", "file.delta"
"""The boxes of a level that is not one of a model: of a record of a split, and of the file."""


def record_level(values: Mapping[str, str], blocks: int) -> str:
    """Return the ε that blocks give a record together: a split that replaces them starts with the same guarantee.

    >>> record_level({"privacy.differential.epsilon": "0.5"}, 8)
    '4'
    """
    from postrand.privacy import DifferentialPrivacy  # not at the top: the first screen needs no model

    usual = next(f.initial for f in forms.fields_of(DifferentialPrivacy) if f.name == "epsilon")
    text = values.get(f"privacy.{DifferentialPrivacy.name}.epsilon", usual)
    try:
        return f"{float(text) * max(1, blocks):.6g}"
    except ValueError:  # an unfinished form: the same text has the same problem
        return text


def usual_delta(records: int) -> float:
    """Return a δ far below 1/n: at most a hundredth of it, and at most 1e-6.

    >>> usual_delta(17_137), usual_delta(953_076)
    (1e-06, 1e-08)
    """
    return min(1e-6, float(f"1e-{len(str(records)) + 2}"))


def unlisted(kept: Mapping[str, Any], name: str) -> bool:
    """Return whether an opened plan states a split's ``workload`` or ``prior`` that the forms do not list.

    >>> unlisted({"split": {"workload": [["sex", "age"]]}}, "workload"), unlisted({}, "prior")
    (True, False)
    """
    usual = {"workload": tuple(WORKLOADS), "prior": ("uniform", "file")}[name]
    return kept.get("split", {}).get(name, kept.get("design", {}).get(name, usual[0])) not in usual
