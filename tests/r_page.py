"""The table of docs/r.md: each question, answered by Python and by R. ``python -m tests.r_page`` writes it anew."""

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.page import filled
from benchmarks.papers.items import headed

from tests.conftest import ROOT
from tests.r_cases import QUESTIONS, Asked, Compared, ask_r, compare_all, make_releases, numbers

PAGE = ROOT / "docs" / "r.md"
NAME = "r and python"
HOW = "write it anew: python -m tests.r_page"
LEAST = 1e-16


def asked(one: Asked) -> str:
    """Return the question as its reader would put it."""
    given = dict(one.options)
    by = f" by {', '.join(given.pop('by'))}" if "by" in given else ""
    what = one.what if isinstance(one.what, str) else " × ".join(one.what)
    by = "".join(f" {name} {', '.join(given.pop(name))}" for name in ("of", "among") if name in given) + by
    design = f"; {', '.join(f'{name} {value}' for name, value in given.items())}" if given else ""
    kind = f"{one.kind} of" if one.kind in ("table", "mean", "share") else f"{one.kind} regression"
    return f"{kind} `{what}`{by}{design}"


def shown(value: Any, error: Any) -> str:
    """Return an estimate with its standard error."""
    return f"{value:.7g} ± {error:.5g}"


def answered(compared: Compared, answer: dict[str, Any]) -> list[str]:
    """Return the cells of a question that both answer."""
    value, error = (np.ravel(array)[-1] for array in (compared.found.value, compared.found.standard_error))
    theirs = (numbers(answer[name])[-1] for name in ("value", "error"))
    exponent = math.ceil(math.log10(max(compared.relative, LEAST)))
    return [str(np.size(compared.found.value)), shown(value, error), shown(*theirs), f"1e{exponent:03d}"]


def rows(compared: list[Compared | None], answers: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the row of each question."""
    for one, each, answer in zip(QUESTIONS, compared, answers[:-1], strict=True):
        refused = ["", "refused", "refused" if "refused" in answer else "answered", ""]
        cells = answered(each, answer) if each else refused
        yield f"| {one.release.removeprefix('kept/')} | {asked(one)} | {' | '.join(cells)} |"


def table(compared: list[Compared | None], answers: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    head = headed(("release", "question", "numbers", "Python, the last", "R, the last", "largest difference"))
    return [*head, *rows(compared, answers)]


def last(line: str) -> float:
    """Return the difference that a row states."""
    return float(line.strip("| ").rpartition("| ")[2]) if "1e-" in line else 0.0


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        releases = make_releases(folder)
        answers = ask_r(releases, folder)
        lines = table(compare_all(releases, answers), answers)
    most = max(map(last, lines[2:]))
    said = f"Made by `python -m tests.r_page`. {len(lines) - 2} questions; the largest difference is below {most:g}."
    PAGE.write_text(filled(PAGE.read_text("utf-8"), {NAME: lines}, said), encoding="utf-8")
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
