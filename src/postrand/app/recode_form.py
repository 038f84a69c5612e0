"""The form of a recode: the texts in its boxes become an entry of ``[[recodes]]``, and an entry fills the boxes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from postrand.errors import SpecificationError, raise_all, sentence
from postrand.recoding.base import key_of, twice
from postrand.recoding.entries import OWN

KINDS = {
    "": "as in the file",
    "groups": "groups of categories",
    "bands": "bands of numbers",
    "dates": "bands of years, of dates",
    "limits": "top and bottom coding",
    "rounding": "rounding",
    "merge_rare": "rare categories put together",
    "hierarchy": "a level of a hierarchy",
    "missing": "numbers, without codes for no answer",
}
WRITTEN = {
    "": "2020-12-31",
    "%d.%m.%Y": "31.12.2020",
    "%d/%m/%Y": "31/12/2020",
    "%m/%d/%Y": "12/31/2020",
    "%d-%m-%Y": "31-12-2020",
    "%Y%m%d": "20201231",
}
"""How texts of dates can be written, each as an example; a column of dates needs none."""
MAX_GROUPED = MAX_LOOKED = 200
_OTHER = "other"
"""A recode of an opened plan that the form cannot show."""


def kind_of(entry: Mapping[str, Any] | None) -> str:
    """Return the kind of a recode, as the form names it.

    >>> kind_of(None), kind_of({"top": 85}), kind_of({"missing": [99]}), kind_of({"bands": 5, "unit": "day"})
    ('', 'limits', 'missing', 'other')
    """
    if entry is None:
        return ""
    if entry.get("table") and "bands" in entry:
        return _OTHER
    if entry.get("unit"):
        is_of_years = entry["unit"] == "year" and isinstance(entry.get("bands"), (list, tuple))
        return "dates" if is_of_years and entry.get("format", "") in WRITTEN else _OTHER
    if "top" in entry or "bottom" in entry:
        return "limits"
    if not entry.keys() - {*OWN}:
        return "missing"
    return next((name for name in KINDS if name not in ("", "missing") and name in entry), _OTHER)


def entry_of(name: str, kind: str, texts: Mapping[str, str], values: Sequence[Any]) -> dict[str, Any] | None:
    """Return the recode of a variable as plain data for its codebook; None where it stays as in the file.

    ``texts`` are those in the boxes; ``values``: the values of the column, for groups, in their order.

    >>> entry_of("age", "bands", {"bands": "0; 15 30"}, ())
    {'variable': 'age', 'bands': [0, 15, 30]}
    >>> entry_of("born", "dates", {"bands": "1950, 1970", "format": "%d.%m.%Y"}, ())
    {'variable': 'born', 'bands': [1950, 1970], 'unit': 'year', 'format': '%d.%m.%Y'}
    >>> entry_of("sex", "groups", {"group.1": "woman or man", "group.0": "woman or man"}, (1, 2, 3))
    {'variable': 'sex', 'groups': {'woman or man': [1, 2], '3': [3]}}

    Raises
    ------
    SpecificationError
        With every box that cannot be read.
    """
    if not kind:
        return None
    problems: list[str] = []
    found: dict[str, Any] = {"variable": name}
    if kind == "groups":
        found["groups"] = _groups(texts, values)
    elif kind in ("bands", "dates"):
        found["bands"] = _numbers(texts.get("bands", ""), "where bands begin", problems)
        if kind == "dates":
            found |= {"unit": "year"} | ({"format": texts["format"]} if texts.get("format") else {})
        found |= {"below": texts["below"].strip()} if texts.get("below", "").strip() else {}
    elif kind == "hierarchy":
        found |= _hierarchy(texts, problems)
    elif kind == "missing":
        found["missing"] = list[int | float]()  # an empty box: all are true values
    else:
        of = {"limits": ("top", "bottom"), "rounding": ("rounding",), "merge_rare": ("merge_rare",)}[kind]
        told = [one for one in of if texts.get(one, "").strip()]
        problems += [] if told else [sentence("no number is given", where=f"{name}, {KINDS[kind]}")]
        found |= {one: number for one in told for number in _numbers(texts[one], one.replace("_", " "), problems)[:1]}
        if kind == "merge_rare" and texts.get("others", "").strip():
            found["others"] = texts["others"].strip()
    if kind in ("bands", "limits", "rounding", "missing") and texts.get("no_answer", "").strip():
        found["missing"] = _numbers(texts["no_answer"], "values that mean no answer", problems)
    if kind == "dates" and (none := [one.strip() for one in texts.get("no_answer", "").split(";") if one.strip()]):
        found["missing"] = none
    raise_all(SpecificationError, problems)
    return found


def boxes_of(entry: Mapping[str, Any] | None, values: Sequence[Any], labels: Sequence[str]) -> dict[str, str]:
    """Return the texts of the form for a recode; ``labels`` are those of the values of the file.

    >>> boxes_of({"variable": "age", "bands": [0, 15], "missing": [99]}, (), ())
    {'bands': '0, 15', 'no_answer': '99'}
    >>> boxes_of(None, ("12.12.1974",), ("12.12.1974",))["format"]
    '%d.%m.%Y'
    """
    found: dict[str, str] = {}
    for name, held in (entry or {}).items():
        if name in ("bands", "missing") and isinstance(held, (list, tuple)):
            between = "; " if name == "missing" and "unit" in (entry or {}) else ", "
            found["no_answer" if name == "missing" else name] = between.join(key_of(one) for one in held)
        elif name in ("top", "bottom", "rounding", "merge_rare", "level", "others", "below", "format"):
            found[name] = key_of(held)
    if entry is not None and "hierarchy" in entry:
        found["rows"] = "\n".join(f"{value};{group}" for value, group in dict(entry.get("table", {})).items())
        found["level"] = "1"
    if entry is None and (written := _written(values)):
        found["format"] = written
    groups = (entry or {}).get("groups", {})
    made = {key_of(old): new for new, olds in dict(groups).items() for old in olds}
    for k, (value, label) in enumerate(zip(values, labels, strict=True)):
        found[f"group.{k}"] = made.get(key_of(value), str((entry or {}).get("others", "")) if groups else label)
    return found


def _written(values: Sequence[Any]) -> str:
    """Return how most texts of dates are written; where two ways fit, they differ in day and month, never in the year.

    Texts that are no dates have the first way, which is none to set.
    """
    texts = [value for value in values if isinstance(value, str)]
    some = texts[:: max(1, len(texts) // MAX_LOOKED)]
    return max(WRITTEN, key=lambda form: sum(_is_date(text, form or "%Y-%m-%d") for text in some))


def _is_date(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _groups(texts: Mapping[str, str], values: Sequence[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for k, value in enumerate(values):
        groups.setdefault(" ".join(texts.get(f"group.{k}", "").split()) or key_of(value), []).append(value)
    return groups


def _numbers(text: str, what: str, problems: list[str]) -> list[int | float]:
    """Return the numbers of a text, which blanks, semicolons or commas separate."""
    found: list[int | float] = []
    for part in re.split(r"[;,\s]+", text.strip()):
        try:
            number = float(part)
        except ValueError:
            problems.append(sentence(f"{what}: a number cannot be read", got=repr(part), wanted="such as 0, 15, 30"))
            continue
        found.append(int(number) if number.is_integer() and "." not in part else number)
    return found


def _hierarchy(texts: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Return the options of a hierarchy from rows that are pasted: a value, then its groups, level by level."""
    rows = [re.split(r"\t|;", line) for line in texts.get("rows", "").splitlines() if line.strip()]
    rows = [[one.strip() for one in row] for row in rows]
    level = next(iter(_numbers(texts.get("level") or "1", "the level", problems)), 1)
    most = min((len(row) for row in rows), default=0) - 1
    if not rows or not 1 <= level <= most or level != int(level):
        wanted = f"1 to {most}" if most > 0 else "rows such as DE11;Stuttgart;South"
        problems.append(sentence("the rows do not have this level", got=f"level {level:g}", wanted=wanted))
        return {}
    if again := twice(row[0] for row in rows):
        problems.append(sentence(f"a value has two rows: {', '.join(again)}", fix="keep one of them"))
    return {"hierarchy": "pasted rows", "level": int(level), "table": {row[0]: row[int(level)] for row in rows}}
