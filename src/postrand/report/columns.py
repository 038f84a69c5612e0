"""Render the report of a folder of permuted or averaged columns, or of an Anatomy release, from its certificate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from postrand.formats import format_of
from postrand.report.html import environment
from postrand.support.entropy import format_lower
from postrand.support.wordings import FORMATS


def columns_report(certificate: Mapping[str, Any], files: Sequence[str]) -> str:
    """Return the page of a folder: a function of its certificate and the names of its data files, and of nothing else.

    No script, no request to any host, the same bytes every time: ``verify`` makes it again and compares.
    """
    method = dict(certificate["method"])
    model, form = method.pop("model"), method.pop("form", "anatomy")
    details = certificate["details"]
    diversity = details.get("distinct_diversity", {})
    code = _anatomy_code(files, certificate["columns"], list(diversity)) if form == "anatomy" else _code(files[0])
    return (
        environment()
        .get_template("columns.html")
        .render(
            form=form,
            files=files,
            columns=certificate["columns"],
            method=f"{model} ({', '.join(f'{name} = {value}' for name, value in method.items())})",
            claims=[_claim(claim) for claim in certificate["claims"]],
            details=details,
            diversity=[(n, least, details["entropy_diversity"][n]) for n, least in diversity.items()],
            not_covered=certificate["not_covered"],
            key_is_private=certificate["facts"].get("key_is_private", True),
            python="\n".join([*_imports(files), *code[0]]),
            r="\n".join(code[1]),
        )
    )


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim as it is shown: every figure with "at least" rounded down."""
    names = claim["column"] if isinstance(claim["column"], list) else [claim["column"]]
    shown = {name: FORMATS["down"](claim[name]) for name in ("beta", "bits")}
    choice = format_lower(2.0 ** claim["bits"], 3)
    return {**claim, **shown, "names": ", ".join(names), "share": claim["beta"], "choice": choice}


def _imports(files: Sequence[str]) -> list[str]:
    """Return what Python imports beside pandas to read the files."""
    libraries = dict.fromkeys(format_of(file).readers.python_library for file in files)
    return [f"import {name}" for name in libraries if name]


def _code(file: str) -> tuple[list[str], list[str]]:
    python, r = _read("data", file)
    return ["import pandas as pd", "", python], [r]


def _anatomy_code(files: Sequence[str], keys: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return code for the expected table of a key and another variable over all links that the release leaves open."""
    key, other = (json.dumps(names[-1], ensure_ascii=False) for names in (keys, others))
    read = [_read("keys", files[0]), _read("others", files[1])]
    python = ["import pandas as pd", "", *(code for code, _ in read)]
    python += [
        'pairs = keys.merge(others, on="anatomy_class")',
        'pairs["share"] = 1 / pairs["anatomy_class"].map(keys["anatomy_class"].value_counts())',
        f'print(pairs.pivot_table(index={key}, columns={other}, values="share", aggfunc="sum"))',
    ]
    r = [code for _, code in read]
    r += [
        'pairs <- merge(keys, others, by = "anatomy_class")',
        "pairs$share <- 1 / as.vector(table(keys$anatomy_class)[as.character(pairs$anatomy_class)])",
        f"tapply(pairs$share, pairs[c({key}, {other})], sum)",
    ]
    return python, r


def _read(name: str, file: str) -> tuple[str, str]:
    """Return Python and R code that reads a file of the release."""
    readers, path = format_of(file).readers, json.dumps(f"path/to/release/{file}")
    return f"{name} = {readers.python.format(path)}", f"{name} <- {readers.r.format(path)}"
