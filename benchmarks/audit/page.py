"""What an audit found, as a table for the terminal and as docs/audit.md."""

import math
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
TEXT = Path(__file__).with_name("page.md")


def table(head, rows):
    """Return lines of a Markdown table; columns of numbers are to the right."""
    marks = ["---:" if name in _RIGHT else "---" for name in head]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, marks, *rows))


_RIGHT = ("stated", "bound", "share", "units drawn")


def claim_rows(cases):
    """Return a row for each claim: the case, what it covers, claim, stated, bound, share of it, units drawn."""
    return [
        (
            case["name"] if first else "",
            case["covers"] if first else "",
            bound["claim"],
            f"{bound['stated']:.3f}",
            f"{'≤' if bound['least'] else '≥'} {bound['measured']:.3f}",
            f"{bound['share']:.0%}",
            f"{case['draws']:,}" if first else "",
        )
        for case in cases
        for first, bound in ((place == 0, bound) for place, bound in enumerate(case["bounds"]))
    ]


def defect_rows(defects):
    """Return a row for each defect: what is broken, in which case, and what found it."""
    return [(found["defect"], found["name"], "; ".join(found["caught"]) or "**not found**") for found in defects]


CLAIMS = ("case", "covers", "claim", "stated", "bound", "share", "units drawn")
FOUND = ("planted", "in the case", "found by")


def text(result):
    """Return the page of a full audit."""
    cases, defects = result["cases"], result["defects"]
    wrong = [case["name"] for case in cases if any(case["problems"].values())]
    by_name = {case["name"]: case for case in cases}
    return TEXT.read_text(encoding="utf-8").format(
        bounds=result["bounds"],
        alpha=result["alpha"],
        recognition=by_name["recognition"]["runs"],
        folders=by_name["whole folders"]["draws"] // 2,
        version=result["version"],
        draws=sum(case["draws"] for case in cases),
        count=sum(len(case["bounds"]) for case in cases),
        cases=len(cases),
        claims=table(CLAIMS, claim_rows(cases)),
        tests=f"contradicted in {', '.join(wrong)}" if wrong else "none was contradicted in any case",
        defects=table(FOUND, defect_rows(defects)),
        minutes=math.ceil(result["processor_seconds"] / 60) + 1,  # the commands' own processes are not counted
    )


def write(result):
    """Write docs/audit.md."""
    PAGE.write_text(text(result), encoding="utf-8")
