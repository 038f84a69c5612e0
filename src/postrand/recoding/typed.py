"""A recode in one line, as people type it: ``age=bands:0,15,30;below=young``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from postrand.errors import DataError, SpecificationError, UsageError, nearest, raise_all, sentence
from postrand.recoding.base import kinds
from postrand.recoding.entries import OWN
from postrand.recoding.recode import twice

FORM = "RESULT=KIND:VALUE, RESULT=COLUMN:KIND:VALUE, each with ;OPTION=VALUE behind it, or with ' then KIND:VALUE'"
_KEPT = ("missing=keep", "missing=category")
_LISTS = ("bands", "labels", "missing", "merged")


def entry_of(text: str) -> dict[str, Any]:
    """Return a recode in one line as the plain data of a ``[[recodes]]`` entry.

    ``,`` separates the entries of a list, ``|`` groups, ``;`` more options; ``@`` is before the level of a hierarchy,
    and ``then`` between recodings that follow one another.

    Raises
    ------
    SpecificationError
        If the line has another form.

    Examples
    --------
    >>> entry_of("age=bands:0,15,30;missing=99")
    {'variable': 'age', 'bands': [0, 15, 30], 'missing': [99]}
    >>> entry_of("income=missing:-9,999")
    {'variable': 'income', 'missing': [-9, 999]}
    >>> entry_of("nuts1=area:hierarchy:nuts.csv@2")
    {'variable': 'nuts1', 'from': 'area', 'hierarchy': 'nuts.csv', 'level': 2}
    >>> entry_of("age=top:85 then bands:0,18,65")
    {'variable': 'age', 'steps': [{'top': 85}, {'bands': [0, 18, 65]}]}
    >>> entry_of("marital=groups:Couple=Married,Cohabiting|Single=Single;others=Other")["groups"]
    {'Couple': ['Married', 'Cohabiting'], 'Single': ['Single']}
    """
    marks = [mark for kind in kinds() for mark in kind.marks if mark != "steps"]
    result, _, rest = text.partition("=")
    result, pattern = result.strip(), rf"(?:([^:]+?)\s*:\s*)?({'|'.join(marks)})\s*:\s*(.+)"
    found = re.fullmatch(pattern, rest.strip(), re.DOTALL)
    if not result or ":" in result or found is None:
        fix = 'for example --recode "age=bands:0,15,30,45,60,75"'
        if rest.startswith("missing") or ":missing" in rest:
            fix = 'to make codes of a number missing and no more, write --recode "age=missing:-9,999"; with another '
            fix += 'recode, behind it: --recode "age=bands:0,15,30;missing=999"'
        wanted = f"{FORM}; KIND is one of {', '.join(marks)}"
        raise SpecificationError(sentence(_misread(result, rest, marks), wanted=wanted, fix=fix))
    source, kind, value = found.groups()
    entry: dict[str, Any] = {"variable": result, **({"from": source} if source else {})}
    parts = re.split(rf"\s+then\s+(?=(?:{'|'.join(marks)}):)", f"{kind}:{value}")
    steps = [_options(part) for part in parts]
    if len(steps) == 1:
        return entry | steps[0]
    own: dict[str, Any] = {}  # of the recode as a whole
    for step in steps:
        _add(own, {name: value for name, value in step.items() if name in OWN}, text)
    left = [held for step in steps if (held := {n: v for n, v in step.items() if n not in OWN})]
    return entry | own | (left[0] if len(left) == 1 else {"steps": left})


def _misread(result: str, rest: str, marks: Sequence[str]) -> str:
    """Return which part of a recode in one line was not understood, and what should stand there."""
    if ":" in result:
        return f"the part {result!r} was not understood: before the first '=' stands the name of the result alone"
    if not result or not rest:
        return f"the recode has another form, {result or rest!r} alone"
    parts = rest.partition(";")[0].split(":")
    for part in parts:
        kind, sign, value = (text.strip() for text in part.partition("="))
        if kind in marks:
            has = "there is '='" if sign else "nothing follows"
            what = f"the part {part!r} was not understood: behind {kind!r} must stand ':', and {has}"
            return f"{what}; write {kind}:{value or 'VALUE'}"
    words = [word for word in parts[:-1][:2] if word.isidentifier()]
    close = [f"{word!r}{near}" for word in words if (near := nearest(word, marks))]
    if close or len(parts) > 2:
        return f"unknown kind of recode {(close or [repr(word) for word in words[-1:]] or [repr(rest)])[0]}"
    if len(parts) == 2 and words and not any(mark in parts[-1] for mark in marks):
        return f"unknown kind of recode {words[0]!r}"  # or a column, with no kind behind it
    near = nearest(re.split(r"\W", parts[-1].strip())[0], marks)
    return f"the part {parts[-1]!r} was not understood: it is not of the form KIND:VALUE{near}"


def _options(step: str) -> dict[str, Any]:
    """Return the options of one recoding in one line, ``KIND:VALUE;OPTION=VALUE``."""
    kind, _, rest = step.partition(":")
    value, *more = rest.split(";")
    found = _value(kind, value)
    for option in more:
        if option.replace(" ", "") in _KEPT:
            what = f"the part {option!r} was not understood: behind missing= stand codes that become missing values"
            fix = "what becomes of missing values is said by the variable: set missing in [[variables]] of the codebook"
            raise SpecificationError(sentence(what, got=step, fix=fix))
        name, sign, held = option.partition("=")
        if not (sign and name.strip() and held.strip()):
            what = f"the part {option!r} was not understood: behind ; stand options as OPTION=VALUE"
            fix = "write " + re.sub(r"^\s*(\w+)\s*:\s*", r";\1=", option) if ":" in option else ""
            fix = fix or (f"for all other values write ;others={option.strip()}" * (kind.strip() == "groups"))
            raise SpecificationError(sentence(what, got=step, wanted=FORM, fix=fix))
        if kind.strip() == "groups" and name.strip() not in (*OWN, "others"):
            what = f"the part {option!r} was not understood: behind ; stand options, and groups have | between them"
            fix = f"write |{option.strip()}"
            raise SpecificationError(sentence(what, got=step, wanted="groups:NEW=OLD,OLD|NEW=OLD;others=REST", fix=fix))
        _add(found, _value(name.strip(), held), step)
    if "table" in found and len(found.get("bands", ())) == 1:
        found["bands"] = found["bands"][0]  # how many bands, not an edge
    return found


def _add(found: dict[str, Any], more: Mapping[str, Any], text: str) -> None:
    for name in found.keys() & more.keys():
        raise SpecificationError(sentence(f"{name!r} is there twice", got=text, fix=f"list all values in one {name}"))
    found |= more


def entries_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return recodes in one line each as plain data; raises UsageError with the problems of all.

    Two recodes of one result are a problem too.
    """
    entries, problems = [], list[str]()
    for text in texts:
        try:
            entries.append(entry_of(text))
        except SpecificationError as error:
            problems += error.problems
    problems += twice([entry["variable"] for entry in entries])
    raise_all(UsageError, problems)
    return entries


@contextmanager
def typed_errors(typed: bool) -> Iterator[None]:
    """Say the next steps of errors about recodes as they are typed, where they were ``typed`` in one line each.

    A recode that is not valid is a UsageError then; what its file does not fit stays a DataError.
    """
    try:
        yield
    except (SpecificationError, UsageError, DataError) as error:
        if not typed:
            raise
        is_recode = isinstance(error, SpecificationError) and all("recode" in text for text in error.problems)
        kind = UsageError if is_recode else type(error)
        raise kind([as_typed(text) for text in error.problems]) from None


def as_typed(text: str) -> str:
    """Return an error with its options as ``--recode`` has them; one that is not about a recode stays.

    >>> as_typed("recode of 'age': no edges. Next: set bands = [0, 15, 30].")
    "--recode, recode of 'age': no edges. Next: in --recode, write bands:0,15,30."
    """
    if "recode" not in text:
        return text
    what, _, step = text.partition(" Next: ")
    step = step.replace(
        "correct 'from' in [[recodes]] of the codebook", "correct the column in RESULT=COLUMN:KIND:VALUE"
    )
    step = re.sub(r"\b(\w+) = (\[[^\]]*\]|\"[^\"]*\"|'[^']*'|\d+)", _option, step)
    step = re.sub(r"\bset (?=\w+:|;)", "write ", step)
    place = "" if what.startswith("--recode") else "--recode, "
    return f"{place}{what}" + (f" Next: in --recode, {step}" if step else "")


def _option(found: re.Match[str]) -> str:
    name, held = found[1], found[2].strip("[]\"'").replace(", ", ",").replace('"', "")
    is_kind = name not in OWN and name in {mark for kind in kinds() for mark in kind.marks}
    return f"{name}:{held}" if is_kind else f";{name}={held}"


def _value(name: str, text: str) -> dict[str, Any]:
    """Return an option with its value, as TOML would have it."""
    if name == "groups":
        pairs = [part.partition("=") for part in text.split("|")]
        return {name: {label.strip(): [old.strip() for old in held.split(",")] for label, _, held in pairs}}
    if name == "hierarchy":
        file, _, level = text.rpartition("@")
        return {name: file or text, "level": _number(level) if file else 1}
    if name in _LISTS:
        return {name: [_number(part.strip()) if name != "labels" else part.strip() for part in text.split(",")]}
    return {name: text if name in ("others", "below", "table", "unit", "format", "type") else _number(text)}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
