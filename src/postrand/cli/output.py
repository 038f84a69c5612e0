"""Standard output that accepts every text in any encoding."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from postrand.cli.printing import fitting

_SPELT = {"ε": "epsilon", "δ": "delta", "α": "alpha", "β": "beta", "τ": "tau", "λ": "lambda", "≤": "<=", "≥": ">="}
_SPELT |= {"–": "-", "−": "-", "—": "-", "×": "x", "²": "^2", "…": "...", "’": "'", "“": '"', "”": '"'}


def _spelt(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace characters that the encoding lacks: Greek letters by their names, others by their numbers."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = (
        _SPELT.get(c) or c.encode("ascii", "backslashreplace").decode() for c in error.object[error.start : error.end]
    )
    return "".join(found), error.end


def open_outputs() -> None:
    """Open outputs that are closed (``>&-``), to nowhere: the next file that is opened would take their place."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 -- until the end


def tell(text: str) -> None:
    """Print a message to standard error; one that cannot be written there does not change how the command ends."""
    with suppress(OSError):
        print(fitting(text, sys.stderr), file=sys.stderr, flush=True)


def write_anything() -> None:
    """Let both outputs accept every text in any encoding, so that a finished release does not end in an error."""
    codecs.register_error("postrand", _spelt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="postrand")


def as_json_text(data: Mapping[str, Any]) -> str:
    """Return JSON text, in ASCII only if standard output cannot show other characters."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(data, indent=2)
    return text
