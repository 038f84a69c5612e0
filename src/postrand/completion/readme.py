"""What a person reads first who opens completed files: which file to open for what, and how to analyse it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.codebook.survey_design import SurveyDesign, survey_from_dict
from postrand.completion import survey_recipes
from postrand.completion.stored import TOLD
from postrand.estimate.evidence_variables import WEAKER, moved_told
from postrand.estimate.pooling_files import COPY, RECORD
from postrand.support.showing import few

WIDTH = 96
ENOUGH_COPIES = 5
"""With fewer copies, pooled standard errors depend much on the draw of the copies."""
_NAMES_SHOWN = 12
_PLAIN = 'fit = lambda copy: smf.ols("y ~ C(x)", copy).fit()'
_CODED = (
    "(Put your own model in place of the one of y and x. Here x is a variable of categories. Where these are stored as "
    "codes, a program takes the codes for amounts without factor(x), C(x) or i.x, and says nothing. Write true numbers "
    "as x alone.{where})"
)
"""What the recipes take for granted: a code of a category is no amount."""
RULES = (
    "Analyse each copy by itself, then combine the results by Rubin's rules. The recipes below do both.",
    "Never analyse the stacked file as if it were {copies} x {records} records: standard errors would be far too "
    "small.",
    "Never take a value of a copy as a fact about a person. Drawn values are plausible, not true; where copies differ, "
    "nobody knows the value, and where they agree, it can still be wrong.",
    "Copy 0 is the released file without the perturbed variables. Programs need it; leave it out of every analysis.",
)


def completed_readme(told: Mapping[str, Any]) -> str:
    """Return the README.txt of a folder of completed files, from what its ``completed.json`` says."""
    entries = {
        told["file"]: f"the {told['copies']} copies, one below the other: open this file for every analysis",
        "report.html": "open it in a browser: pictures of the tests of the model, and which results rest on it",
        "completed.json": "how the copies were made: seed, settings, digests, and the tests of the model",
        "README.txt": "this text",
    }
    about = (
        "The values of some variables of the released file were changed at random to protect persons (perturbed). "
        f"Whoever counts them as they are gets wrong shares. This folder has {told['copies']} copies of the file in "
        "which a plausible true value was drawn for each perturbed one, given the released values, the published law "
        "of the perturbation and a model of how the variables go together. Ordinary software can analyse them. They "
        "were made from the release alone: they say no more about a person than the release does."
    )
    title = f"COMPLETED FILES: {told['copies']} copies of {told['records']:,} records"
    parts = [title, "=" * len(title), "", wrapped(about), "", *file_list(entries), "", *how_to(told)]
    return "\n".join(parts) + "\n"


def how_to(told: Mapping[str, Any]) -> list[str]:
    """Return the lines on the use of completed files: rules, what the tests of the model say, and recipes."""
    rules = [rule.format(copies=told["copies"], records=f"{told['records']:,}") for rule in RULES]
    rules += few_copies(told["copies"])
    drawn = f"Drawn anew in each copy: {named(told['perturbed'])}. All other columns are as released."
    columns = f"The first columns are {COPY} (0 to {told['copies']}) and {RECORD} (1 to {told['records']:,})."
    return [
        *heading("How to use the copies"),
        *numbered(rules),
        "",
        wrapped(f"{drawn} {columns}"),
        "",
        *_stored(told.get("stored_as", {})),
        *_tests(told),
        "",
        *heading("Recipes"),
        *recipes(told),
    ]


def _stored(stored: Mapping[str, str]) -> list[str]:
    """Return which columns are numbers and which are codes, all by name: a program does not say; [] if not known."""
    held = {kind: [name for name, of in stored.items() if of == kind] for kind in TOLD}
    lines = [
        textwrap.fill(f"{text}: {', '.join(held[kind])}.", WIDTH, initial_indent="  - ", subsequent_indent="    ")
        for kind, text in TOLD.items()
        if held[kind]
    ]
    return [*heading("How each column is stored"), *lines, ""] if lines else []


def few_copies(copies: int) -> list[str]:
    """Return a sentence where there are so few copies that pooled errors depend on their draw; [] else.

    >>> few_copies(20)
    []
    """
    if copies >= ENOUGH_COPIES:
        return []
    what = f"{copies} cop{'y is' if copies == 1 else 'ies are'} few: pooled standard errors depend on their draw."
    return [f"{what} Make 20 for results that you publish (--copies 20)."]


def _tests(told: Mapping[str, Any]) -> list[str]:
    """Return what the tests of the model found."""
    lines = heading("What the tests of the model found")
    if told["problems"]:
        from postrand.estimate.by_model import FAILED  # a release without copies needs no model

        lines.append(wrapped(f"{FAILED}. Do not rely on results for what is named here:"))
        lines += numbered(told["problems"])
    else:
        lines.append(wrapped("No test of the model failed" + (", but read what follows." if told["warnings"] else ".")))
    if told["warnings"]:
        moved = moved_told(told["diagnostics"]["approximated"])
        lines += ["", "Read these, too:", *numbered([*told["warnings"], *moved])]
    more = (
        "What the release itself does not show rests on the model, such as tables of many variables. "
        f"{WEAKER} Compare important results with estimates from the release alone: postrand estimate."
    )
    return [*lines, "", wrapped(more)]


def recipes(told: Mapping[str, Any]) -> list[str]:
    """Return a few lines for each program that read the stacked file and fit one model, pooled."""
    name, drawn = told["file"], told["perturbed"]
    suffix, design = Path(name).suffix, _design(told)
    where = ' Which columns are which is said above, in "How each column is stored".' if told.get("stored_as") else ""
    found = [wrapped(_CODED.format(where=where)), ""]
    if design is not None:
        found += [text for sentence in survey_recipes.said(design) for text in (wrapped(sentence), "")]
    found += _recipe_r(name, design)
    fit, errors = (_PLAIN, "") if design is None else survey_recipes.in_python(design)
    found += [f"Python (packages postrand and statsmodels{f'; {errors}' if errors else ''}):"]
    found += _code(
        "import postrand as pr, statsmodels.formula.api as smf",
        fit,
        f'print(pr.estimate.pool(fit, "{name}", kind="pandas"))',
    )
    found += ["Stata:"]
    if suffix == ".dta":
        found += _code(
            f'use "{name}", clear',
            f"mi import flong, m({COPY}) id({RECORD}) imputed({' '.join(drawn)}) clear",
            *(("mi estimate: regress y i.x",) if design is None else survey_recipes.in_stata(design)),
        )
    else:
        found += _code(*_again(told, "dta"))
    weighted, warned = ((), "") if design is None else survey_recipes.in_spss(design)
    found += [f"SPSS{f' ({warned})' if warned else ''}:"]
    if suffix in (".sav", ".zsav"):
        found += _code(
            f"GET FILE='{name}'.",
            *weighted,
            f"SORT CASES BY {COPY}.",
            f"SPLIT FILE LAYERED BY {COPY}.",
            "* One such line for each category of x but the first; x itself is for true numbers only.",
            "COMPUTE x2 = (x = 2).",
            "REGRESSION /DEPENDENT y /METHOD=ENTER x2.",
        )
    else:
        found += _code(*_again(told, "sav"))
    return found


def _design(told: Mapping[str, Any]) -> SurveyDesign | None:
    """Return the survey design that the release records, if it has one."""
    stated = told.get("survey")
    return None if stated is None else survey_from_dict(stated, "completed.json, survey", told["columns"])


def _recipe_r(name: str, design: SurveyDesign | None) -> list[str]:
    if design is not None:
        head = "R (packages survey and mitools, and haven or arrow where they are named; -1 leaves copy 0 out):"
        return [head, *_code(*survey_recipes.in_r(design, _reading_r(name)))]
    return [
        "R (packages mice, and haven or arrow where they are named; -1 leaves copy 0 out):",
        *_code(
            f"long <- {_reading_r(name)}",
            f"fits <- lapply(split(long, long${COPY})[-1], function(copy) lm(y ~ factor(x), data = copy))",
            "summary(mice::pool(fits), conf.int = TRUE)",
        ),
    ]


def _reading_r(name: str) -> str:
    """Return how R reads the file; where a text is missing, a CSV file has an empty field, for R a text of its own."""
    code = formats.format_of(name).readers.r.format(_quoted(name))
    return code.replace("check.names", 'na.strings = "", check.names') if name.endswith(".csv") else code


def _again(told: Mapping[str, Any], suffix: str) -> tuple[str, str]:
    """Return how to make the same copies in another format."""
    asked = {name: value for name, value in told["settings"].items() if name != "anchor"}
    settings = "".join(f" --{name} {value}" for name, value in asked.items() if value)
    settings += "" if told["settings"].get("anchor", True) else " --no-anchor"
    settings += " --totals TOTALS.csv" if told["totals"] else ""
    command = f"postrand complete RELEASE --copies {told['copies']} --seed {told['seed']}{settings}"
    return "first make the same copies as a file of this program, then read its README.txt:", (
        f"{command} --format {suffix} --out copies"
    )


def heading(text: str) -> list[str]:
    """Return a heading with its line."""
    return [text, "-" * len(text)]


def file_list(entries: Mapping[str, str]) -> list[str]:
    """Return which file is for what."""
    width = max(map(len, entries)) + 2
    lines = [
        textwrap.fill(text, WIDTH, initial_indent=f"  {name:<{width}}", subsequent_indent=" " * (width + 2))
        for name, text in entries.items()
    ]
    return [*heading("Which file to open for what"), *lines]


def numbered(texts: Iterable[str]) -> list[str]:
    """Return texts with their numbers, wrapped."""
    return [
        textwrap.fill(text, WIDTH, initial_indent=f"{number:3}. ", subsequent_indent=" " * 5)
        for number, text in enumerate(texts, 1)
    ]


def wrapped(text: str) -> str:
    """Return a paragraph in lines of one width."""
    return textwrap.fill(text, WIDTH)


def named(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

    >>> named(["a", "b"]), named([str(k) for k in range(15)])[-13:]
    ('a, b', '11 and 3 more')
    """
    return few(names, _NAMES_SHOWN)


def _code(*lines: str) -> list[str]:
    return [*(f"    {line}" for line in lines), ""]


def _quoted(text: str) -> str:
    return '"' + text + '"'
