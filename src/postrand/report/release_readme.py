"""The README.txt of a release, in plain words: which file to open for what, and that the data alone are perturbed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from postrand.codebook.not_released import NOT_RELEASED
from postrand.completion.readme import file_list, heading, how_to, named, wrapped
from postrand.completion.survey_recipes import recorded
from postrand.mechanism import Mechanism
from postrand.mechanism.one_member import kept_rules
from postrand.mechanism.units import words_of
from postrand.report.text import cut, one_line
from postrand.report.values import BlockView, Values, VariableView
from postrand.support import wordings
from postrand.support.series_words import beside_others
from postrand.support.showing import unshown
from postrand.support.unit_wordings import member_weight

MAX_LISTED = 40
MAX_NAME = 60
FRESH = "fresh_numbers"
"""The limit of a certificate that names the columns of new household numbers."""


def readme(
    mechanism: Mechanism,
    found: Values,
    data_name: str,
    title: str = "",
    completed: Mapping[str, Any] | None = None,
    limits: Iterable[Mapping[str, Any]] = (),
    series: Mapping[str, Any] | None = None,
) -> str:
    """Return the text; a function of the other files of the release, so that ``verify`` makes it again and compares.

    ``found`` are the numbers of the report; ``completed`` is what ``completed.json`` says, if there is one; ``limits``
    are those of the certificate, which say whether households have new numbers; ``series`` is its place among releases.
    """
    head = one_line(title) or "Released data"
    parts = [head, "=" * min(len(head), 96), "", *map(wrapped, _warning(mechanism, found, data_name)), ""]
    changed = _changed(mechanism, found, [limit for limit in limits if limit["code"] == FRESH])
    parts += [*file_list(_entries(data_name, completed)), "", *heading("What was changed"), *changed]
    if told := beside_others(series):
        parts += ["", *heading("Other releases of the same persons"), *map(wrapped, told)]
    if completed is None:
        more = "postrand estimate (a command for tables, means, regressions and tests), postrand.R (tables in R), and "
        more += "postrand complete, which makes copies of the file for any software, from this folder alone."
        if mechanism.split is not None and mechanism.split.of_members:  # of which no copies can be made
            more = "postrand estimate (a command for tables, means and regressions) and postrand.R (tables in R)."
        elif mechanism.shared:
            more = (
                "postrand estimate (a command for tables, means, regressions and tests) and postrand.R (tables in R). "
            )
            more += wordings.NO_COPIES
        parts += ["", *heading("How to analyse the data"), wrapped(f"With what corrects for the perturbation: {more}")]
        parts += [wrapped(told) for told in (*_member_weight(mechanism, data_name), *_drawn(mechanism))]
    else:
        parts += ["", *how_to(completed)]
    return "\n".join(parts) + "\n"


DONE = {
    "permute": (
        "the values of {columns} were exchanged among neighbours in rank, each column by itself. Each column has all "
        "of its values, so its total, mean and quantiles are right. What relates it to other columns is weakened, "
        "because values moved between records."
    ),
    "average": (
        "the values of {columns} were averaged over neighbours in rank, each column by itself. Totals and means are "
        "right. Variances and quantiles are not those of the true values, and relations to other columns are changed."
    ),
    "anatomy": (
        "{columns} are in one table and all other columns in another, which are linked by classes of records only. "
        "What relates the two tables can be estimated for classes, never for single records."
    ),
}


def columns_readme(certificate: Mapping[str, Any], files: Sequence[str]) -> str:
    """Return the text of a folder of permuted or averaged columns, or of Anatomy, from its certificate."""
    done = DONE[certificate["method"].get("form", "anatomy")].format(columns=named(certificate["columns"]))
    entries = {
        "report.html": "open it first, in a browser: what was changed, the guarantee, how to read the data",
        ", ".join(files): "the released records: not those of the original file",
        "certificate.json": "the guarantee, which 'postrand verify' checks again from these files; "
        "'postrand verifier' writes a program that does so with Python alone",
        "manifest.json": "the digest of every file, which 'postrand verify' compares",
    }
    about = f"To protect persons, {done}"
    return "\n".join(["Released data", "=============", "", wrapped(about), "", *file_list(entries)]) + "\n"


def _warning(mechanism: Mechanism, found: Values, data_name: str) -> Iterable[str]:
    """Yield the paragraphs that whoever opens the data alone must read."""
    names = mechanism.variables
    many = f"{len(names)} variables" if len(names) > 1 else f"the variable {names[0]}" if names else "no variable"
    yield (
        f"The values of {many} in {data_name} were changed at random, to protect persons. THE DATA ALONE ARE "
        "PERTURBED: shares, tables and models of these variables, computed as if they were true, are wrong."
    )
    if example := _example(found):
        yield example
    for unit, shared in mechanism.shared.items():
        yield words_of(mechanism.units)(wordings.limit({"code": f"shared_{unit}", "variables": shared}))
    yield from kept_rules(mechanism.blocks, mechanism.require_codebook()).values()
    if mechanism.partly:
        stata = " In Stata it is the missing code with this label, .n as a rule; . alone is a missing value."
        what = f"{NOT_RELEASED}: the record does not show this variable. This is not a missing value of the person."
        yield what + stata * data_name.endswith(".dta")
    if mechanism.split is not None and mechanism.split.of_members:
        yield words_of(mechanism.units)(wordings.limit({"code": "one_member", "variables": mechanism.partly}))


def _member_weight(mechanism: Mechanism, data_name: str) -> Iterable[str]:
    """Yield which weight a record needs in other software, where one member of each household shows values."""
    if mechanism.split is not None and mechanism.split.of_members and mechanism.units is not None:
        weights = [one.name for one in mechanism.require_codebook().with_role("weight")]
        yield words_of(mechanism.units)(member_weight(mechanism.units.household, weights, data_name))


def _drawn(mechanism: Mechanism) -> Iterable[str]:
    """Yield by which columns the persons were drawn, and what no column tells of it."""
    design = mechanism.require_codebook().survey
    if design is not None:
        if how := recorded(design):
            yield f"{how}. postrand estimate uses these columns without being told."
        yield from design.lacking


def _example(found: Values) -> str:
    """Return the category whose released share is farthest from the estimated true one."""
    worst, text = (0.0, 0.0), ""
    for block in found.blocks:
        for shown, true, error, label in _shares(block):
            wrong = (round(abs(shown - true), 9), -true)  # of two categories, the rarer one
            if 0 <= true <= 1 and wrong > worst:
                worst = wrong
                text = (
                    f"For example, {block.name} = {cut(one_line(label), MAX_NAME)}: {100 * shown:.1f}% of the "
                    f"released values, but an estimated {100 * true:.1f}% of the true ones (standard error "
                    f"{100 * error:.1f}%)."
                )
    return text


def _shares(block: BlockView) -> Iterable[tuple[float, float, float, str]]:
    if block.corrected is None:
        return ()
    true, error = (block.cells(np.asarray(table)) for table in (block.corrected.value, block.corrected.standard_error))
    places = block.shown
    return ((block.released[k], float(true[k]), float(error[k]), block.labels[k]) for k in places)


def _entries(data_name: str, completed: Mapping[str, Any] | None) -> dict[str, str]:
    data = "data/" if data_name == "data" else data_name
    copies = {}
    if completed is not None:
        copies = {
            completed["file"]: (
                f"analyses with ordinary software (R, Stata, SPSS, Python): {completed['copies']} copies of the file "
                "with plausible true values; read below how to use them"
            ),
            "completed.json": "how these copies were made: seed, settings, digests, and the tests of the model",
        }
    return {
        **copies,
        "report.html": "open it first, in a browser: what was changed, the guarantee, corrected tables",
        data: "the released records: only for programs that correct for the perturbation",
        "codebook.json": "the variables: names, labels, categories",
        "mechanism.json": "the matrices with which values were changed",
        "certificate.json": "the guarantee, which 'postrand verify' checks again from these files; "
        "'postrand verifier' writes a program that does so with Python alone",
        "postrand.R, r_*.csv": "functions for R that read the data and correct tables, and the tables that they read",
        "ddi.xml, croissant.json": "descriptions for data catalogues",
        "description.json": "title, publisher and terms of use, as the curator wrote them",
        "manifest.json": "the digest of every file, which 'postrand verify' compares",
    }


def _changed(mechanism: Mechanism, found: Values, fresh: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return a line for each perturbed variable with the share of values that are expected to be changed.

    ``fresh`` are limits that name new household numbers.
    """
    lines = [f"  {_name(view.name)}: {_share(view)}" for view in found.variables[:MAX_LISTED]]
    if len(found.variables) > MAX_LISTED:
        lines.append(f"  and {len(found.variables) - MAX_LISTED} more variables: see report.html")
    if split := mechanism.split:
        chances = {n: sum(s.probability for s in split.subsets if n in s.variables) for n in split.variables}
        who = words_of(mechanism.units)("members who were chosen") if split.of_members else "records"
        shown = f"of the {who} show it, with values changed at random"
        lines += [f"  {_name(name)}: {'about ' * (p < 1)}{100 * p:.0f}% {shown}" for name, p in _first(chances)]
        if len(chances) > MAX_LISTED:
            lines.append(f"  and {len(chances) - MAX_LISTED} more variables: see report.html")
    lines += [f"  {_name(c.variable)}: {c.done[:1].lower()}{c.done[1:]}" for c in mechanism.numerical]
    treated = {*mechanism.variables, *(column.variable for column in mechanism.numerical)}
    recodes = mechanism.require_codebook().recodes
    done = treated | {recode.variable for recode in recodes} | {name for limit in fresh for name in limit["variables"]}
    lines += [wrapped(words_of(mechanism.units)(wordings.limit(limit))) for limit in fresh]
    clear = [_name(name) for name in mechanism.require_codebook().names if name not in done]
    lines += [wrapped(f"Not changed: {named(clear)}.")] if clear else []
    if recodes:
        only = {r.variable: "" if r.variable in treated else "; not perturbed" for r in recodes}
        by = {r.variable: "; perhaps by confidential counts" if r.is_confidential else "" for r in recodes}
        made = [
            f"  {_name(r.variable)}: from {_name(r.source)}, {r.kinds}{by[r.variable]}{only[r.variable]}"
            for r in recodes
        ]
        left = unshown(len(made), MAX_LISTED)
        made, more = made[: len(made) - left], [f"  and {left} more"] * bool(left)
        head = "Before that, these variables were recoded; report.html and codebook.json say how:"
        lines += ["", wrapped(head), *made, *more]
    return lines


def _share(view: VariableView) -> str:
    """Return in words how many values are expected to be changed: as estimated, else the bounds of the law."""
    least, most = 1 - view.highest, 1 - view.lowest
    if view.unchanged is not None:
        return f"about {100 * min(max(1 - view.unchanged, least), most):.0f}% of the values are expected to be changed"
    if round(100 * least) == round(100 * most):
        return f"{100 * most:.0f}% of the values are expected to be changed"
    return f"{100 * least:.0f}% to {100 * most:.0f}% of the values are expected to be changed"


def _first(chances: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return list(chances.items())[:MAX_LISTED]


def _name(name: str) -> str:
    return cut(one_line(name), MAX_NAME)
