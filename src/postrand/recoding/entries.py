"""From the plain data of one recoding to its kind: the options say which kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postrand.errors import SpecificationError, nearest, sentence
from postrand.recoding.base import kinds
from postrand.support import options as _options

OWN = ("variable", "from", "type", "missing", "provenance")
"""The options that every recode has, whatever its kind."""


def kind_from(entry: Mapping[str, Any], where: str, folder: Path | None = None) -> Any:
    """Return the recoding that the options of an entry describe, without those of :data:`OWN`.

    Raises
    ------
    SpecificationError
        With all problems of the entry: no kind or several, unknown options, a table that cannot be read.
    """
    named = [kind for kind in kinds() if set(kind.marks) & entry.keys()]
    named = [kind for kind in named if not {*kind.marks} <= {*OWN}] or named  # missing is a kind only where it is alone
    if len(named) != 1:
        known = ", ".join(mark for kind in kinds() for mark in kind.marks)
        close = next((hint for name in entry if name not in OWN and (hint := nearest(name, known.split(", ")))), "")
        what = "two kinds of recoding in one recode" if named else f"no kind of recoding{close}"
        fix = "to do one after the other, list them in steps = [...]" if named else ""
        raise SpecificationError(sentence(what, where=where, wanted=f"one of {known}", fix=fix))
    chosen = {name: value for name, value in entry.items() if name not in OWN}
    try:
        if hasattr(named[0], "opened"):
            chosen = named[0].opened(chosen, folder)
        return _options.build(named[0], chosen, where)
    except SpecificationError as error:
        said = [text if text.startswith(where) else f"{where}: {text}" for text in error.problems]
        raise SpecificationError(said) from None
