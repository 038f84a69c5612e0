"""Render the report: values in, one HTML page out, the same bytes for the same values."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from postrand.certification.certificate import Certificate, Claim
from postrand.certification.plain_words import plain_promise, unit_claims
from postrand.engines.summary import Summary
from postrand.estimate import Estimate
from postrand.estimate.export import fits_r
from postrand.formats import format_of
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.block_data import weights_form
from postrand.mechanism.matrix import UNIT
from postrand.mechanism.one_member import kept_rules
from postrand.privacy import MetricPrivacy, PrivacyModel
from postrand.report import svg, text
from postrand.report.captions import alike_words, counted_words
from postrand.report.distances import metric_of, moves
from postrand.report.maps import picture
from postrand.report.split_values import split_view
from postrand.report.table_worth import EQUAL, table_worth, two_way
from postrand.report.together import scale_of, together
from postrand.report.values import VARIABLE_BUDGET, BlockView, Values, VariableView, page_values
from postrand.support import options, series_words, wordings
from postrand.support.exact import format_upper
from postrand.support.guesses import of_hundred, right_guesses
from postrand.support.showing import ORDERS, capital
from postrand.support.worth_basis import BASES

MAX_TEXT = 80
MAX_SENTENCE = 10_000
MAX_DRAWN = 6
MAX_MAPS = 20
"""Blocks after these have no drawing of distances, and no table of them, so that the page stays under 2 MB."""
PRIORS = {
    "public": ("public", "chosen from public figures, or without figures"),
    "dp": ("differentially private", "tuned on frequencies that were released with their own guarantee"),
    "confidential": ("confidential", "chosen with the confidential records; that choice is outside the guarantee"),
    "unstated": ("not stated", "of unknown origin; that choice is outside the guarantee"),
}


def public_report(
    mechanism: Mechanism,
    certificate: Certificate,
    summary: Summary,
    data_name: str,
    found: Values | None = None,
    completed: Markup | None = None,
) -> str:
    """Return the page that goes with a release: no script, no request to any host, the same bytes every time.

    It is a function of the other files of the release, so that ``verify`` makes it again and compares. ``found`` are
    the :func:`postrand.report.values.page_values` of the release, where they are known already; ``completed`` is the
    section on completed files, if there are any.
    """
    found, split = found or page_values(mechanism, summary), split_view(mechanism, summary)
    kept = kept_rules(mechanism.blocks, mechanism.require_codebook()).values()
    return (
        environment()
        .get_template("report.html")
        .render(
            key_is_private=certificate.facts.key_is_private,
            order=ORDERS[certificate.facts.order_is_shuffled],
            data_name=data_name,
            records=summary.records,
            names=mechanism.require_codebook().names,
            claims=_claims(certificate, mechanism),
            claimed=len(certificate.claims),
            stated=certificate.further,
            account=_account(mechanism, certificate),
            file=_file(certificate),
            units=(*wordings.unit_levels(certificate.units), *unit_claims(mechanism), *kept),
            recodes=mechanism.require_codebook().recodes,
            from_file={one.variable for one in mechanism.require_codebook().recodes if one.is_confidential},
            not_covered=certificate.not_covered,
            twice=series_words.TWICE,
            numerical=certificate.numerical,
            series=() if certificate.series is None else series_words.beside_others(certificate.series.to_dict()),
            variables=found.variables[:VARIABLE_BUDGET],
            perturbed=len(found.variables) + len(mechanism.partly),
            further=len(found.variables[VARIABLE_BUDGET:]),
            split=split,
            together=together(split.names, split.together) if split else "",
            steps=[f"{100 * scale_of(split.together) * p:.2g}" for p in (0.0, *svg.SHADES)] if split else [],
            pairs=two_way(mechanism, summary.records, of_split=False),
            worths=_worths(found.variables[:VARIABLE_BUDGET], mechanism, summary.records),
            basis=BASES[EQUAL.basis],
            split_tables=[_split_table(one) for one in split.tables] if split else [],
            alike=alike_words(mechanism),
            blocks=[
                _block(view, metric_of(block, certificate) if k < MAX_MAPS else None, draw=k < MAX_DRAWN)
                for k, (view, block) in enumerate(zip(found.blocks, mechanism.blocks, strict=False))
            ],
            left_out=len(mechanism.blocks) - len(found.blocks),
            table=found.table,
            uncertain=all(math.isfinite(block.matrix.epsilon) for block in mechanism.every_block),
            counted=counted_words(mechanism.require_codebook()),
            completed=completed,
            digest=certificate.mechanism_digest,
            python=_python(mechanism, found.variables),
            r=_r(mechanism, data_name),
            packages=_packages(mechanism, data_name),
            only_reads=split is not None and not fits_r(mechanism),
            priors=PRIORS,
            shades=[0.0, *svg.SHADES],
        )
    )


def _worths(
    variables: Sequence[VariableView], mechanism: Mechanism, records: int
) -> dict[str, tuple[float | None, str]]:
    """Return the worth of each variable's table, and in words its basis where it is not that of the page."""
    known = table_worth(mechanism, [(one.name,) for one in variables], records, EQUAL)
    return {
        one.name: (one.effective, BASES["released"] * (one.effective is not None))
        if equal.is_shared
        else (equal.effective_records, "")
        for one, equal in zip(variables, known, strict=True)
    }


def compiled() -> None:
    """Compile the templates of all pages: otherwise the first page of each kind waits for it."""
    for name in environment().list_templates(extensions=("html",)):
        environment().get_template(name)


@cache
def environment() -> Environment:
    """Return the templates of the pages, and how numbers and names are written on them."""
    made = Environment(
        loader=PackageLoader("postrand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {"style": _style, "style_source": _style_source}
    made.filters |= {
        "count": lambda n: f"{n:,}",
        "decimal": text.decimal,
        "percent": text.percent,
        "cell": text.cell,
        "upper": format_upper,
        "guesses": lambda epsilon: of_hundred(right_guesses(epsilon, 0.5), most=True),
        "short": lambda value: text.cut(str(value), MAX_TEXT),
        "options": options.describe,
        "capital": capital,
        "long": lambda value: text.cut(str(value), MAX_SENTENCE),
        "shade": svg.shade,
        "worded": _worded,
        "bar": svg.bar,
    }
    return made


def _style(*names: str) -> Markup:
    """Return style sheets of the package as the text of a ``style`` element."""
    folder = resources.files("postrand.report").joinpath("templates")
    return Markup("\n" + "".join(folder.joinpath(name).read_text("utf-8") for name in names))


def _style_source(*names: str) -> Markup:
    """Return what a content security policy calls exactly these style sheets, so that it allows no others."""
    digest = hashlib.sha256(_style(*names).encode()).digest()
    return Markup("'sha256-{}'").format(base64.b64encode(digest).decode())


def _worded(rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Return the columns of words, which are aligned to the left: a quarter of their texts begin with no digit or sign.

    >>> rows = [{"Category": name, "Share": share} for name, share in (("north", "12%"), ("10", "1%"), ("20", "2%"))]
    >>> sorted(_worded([*rows, {"Category": "30", "Share": "3%"}, {"Category": "south", "Share": "not tried"}]))
    ['Category']
    """
    found = set()
    for name in rows[0] if rows else ():
        texts = [value for row in rows if isinstance(value := row.get(name), str) and value]
        worded = sum(not (value[0].isdigit() or value[0] in "−-–<>≤≥∞") for value in texts)
        if 4 * worded >= max(len(texts), 1):
            found.add(name)
    return found


def _claims(certificate: Certificate, mechanism: Mechanism) -> list[dict[str, str]]:
    stated = zip(certificate.claims, certificate.findings, certificate.claim_texts, strict=True)
    return [_claim(claim, float(finding.level), text, mechanism) for claim, finding, text in stated]


def _claim(claim: Claim, level: float, text: str, mechanism: Mechanism) -> dict[str, str]:
    chosen = options.to_dict(claim.privacy)
    model = chosen.pop("model")
    every = claim.variables in (mechanism.variables, mechanism.listed) and len(mechanism.variables) > 1
    return {
        "variables": "all perturbed variables together" if every else ", ".join(claim.variables),
        "model": model,
        "asked": ", ".join(f"{name} = {_option(value)}" for name, value in chosen.items() if value != []),
        "level": _level(claim.privacy, level),
        "sentence": text[:1].upper() + text[1:],
        "plain": plain_promise(claim, mechanism),
    }


def _level(model: PrivacyModel, level: float) -> str:
    """Return the level, rounded against the claim: some protect more where they are larger."""
    return f"≥ {wordings.FORMATS['down'](level)}" if model.traits.stronger == "larger" else f"≤ {format_upper(level)}"


def _account(mechanism: Mechanism, certificate: Certificate) -> dict[str, Any]:
    """Return a row for each block: its name, what its matrix and its prior spend, and their share of the sum."""
    account, split = certificate.account, mechanism.split
    names = [" × ".join(block.perturbed) for block in mechanism.blocks][: len(account.blocks)]
    spent, priors = [*account.blocks], [*account.priors]
    if split is not None and account.split:
        names.append(f"The split: largest of its {len(account.split):,} subsets")
        spent.append(max(account.split))
        priors.append(split.blocks[0].prior_epsilon)
    sums = [one + prior for one, prior in zip(spent, priors, strict=True)]
    whole = math.fsum(sums)
    shares = [one / whole if 0 < whole < math.inf else None for one in sums]
    return {
        "rows": list(zip(names, spent, priors, shares, strict=True)),
        "priors": any(priors),
        "total": account.total,
        "split": bool(account.split),
        "smallest": min(account.split, default=0.0),
        "blocks": bool(account.blocks),
        "ranked": bool(certificate.numerical),
    }


def _file(certificate: Certificate) -> dict[str, Any] | None:
    """Return the level of the whole file, or what fails, as the page shows it; None if no δ was chosen."""
    level = certificate.file
    if level is None:
        return None
    fails = [wordings.say_entry("file", entry) for entry in level.fails]
    about = {"delta": f"{level.delta:.6g}", "fails": [one[:1].upper() + one[1:] for one in fails]}
    if level.epsilon is None:
        return about
    factor = math.exp(min(level.epsilon, 700.0)) * (1 + 1e-15)
    return {**about, "epsilon": level.epsilon, "factor": factor, "proof": wordings.say(f"bound.{level.bound}")}


def _option(value: object) -> str:
    said = options.brief(value)
    if said is not value:
        return f"{said}, in certificate.json"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _block(view: BlockView, metric: MetricPrivacy | None, draw: bool) -> dict[str, Any]:
    found, shown = view.corrected, list(view.shown)
    rows = [{"label": view.labels[k], "kept": view.diagonal[k], "released": view.released[k]} for k in shown]
    ends, largest = (0.0, 1.0), None
    if found is not None:
        value, error = view.cells(found.value)[shown], view.cells(found.standard_error)
        low, high = (view.cells(bound)[shown] for bound in found.interval())
        ends, largest = svg.axis_end(np.append(low, 0), np.append(high, view.released[shown])), float(error.max())
        numbers = zip(rows, view.released[shown], value, error[shown], low, high, strict=True)
        for row, released, v, e, below, above in numbers:
            row |= {"value": v, "error": e, "plot": svg.interval(released, v, below, above, ends)}
    return {
        "view": view,
        "rows": rows,
        "warnings": found.warnings if found is not None else (),
        "axis": svg.axis(ends),
        "panels": _panels(view),
        "spread": _spread(view.diagonal),
        "largest": largest,
        "moves": _moves(view, metric, draw) if metric else {},
    }


def _panels(view: BlockView) -> list[tuple[str, list[tuple[str, list[float]]]]]:
    """Return the name and the labelled rows of each part of the matrix that is drawn."""
    if not view.panels:
        return []
    matrix = view.matrix
    parts = ((one, matrix[np.ix_(one.cells, one.cells)].tolist()) for one in view.panels)
    return [(one.name, list(zip(one.labels, rows, strict=True))) for one, rows in parts]


def _split_table(found: Estimate) -> dict[str, Any]:
    """Return a corrected table of two variables of a split."""
    return {
        "names": found.variables,
        "rows": found.labels[0],
        "columns": found.labels[1],
        "value": found.value,
        "error": found.standard_error,
        "records": found.records,
        "warnings": found.warnings,
    }


def _moves(view: BlockView, metric: MetricPrivacy, draw: bool) -> dict[str, Any]:
    """Return the rows of the picture of distances: one for each category shown."""
    found = moves(view.matrix, metric.edges)
    drawn = picture((view.matrix * UNIT).astype(np.int64), metric, view.labels) if draw else ("", "")
    columns = (found.shares.tolist(), found.expected.tolist(), found.reach.tolist())
    return {
        "heads": ["none", *(f"to {text.decimal(end)}" for end in found.ends[1:])],
        "rows": [(view.labels[k], *(column[k] for column in columns)) for k in view.shown],
        "picture": drawn[0],
        "words": drawn[1],
        "largest": float(found.expected.max()),
        "mean": float(found.expected.mean()),
    }


def _spread(diagonal: NDArray[np.float64]) -> list[tuple[str, float]]:
    """Summarise the probabilities of staying unchanged, of a matrix that is too large to draw."""
    names = ("lowest", "lower quartile", "median", "upper quartile", "highest")
    return list(zip(names, np.quantile(diagonal, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))


def _python(mechanism: Mechanism, variables: Sequence[VariableView]) -> str:
    lines = [
        "import postrand as pr",
        "",
        'release = pr.read_release("path/to/release")',
        "frame = release.frame()  # an Arrow table; frame.to_pandas() for pandas",
    ]
    if mechanism.split is not None:
        largest = max(mechanism.split.blocks, key=lambda block: len(block.perturbed))
        names = ", ".join(json.dumps(name, ensure_ascii=False) for name in largest.perturbed[:2])
        lines.append(f"print(pr.estimate.table(frame, [{names}], release.mechanism))")
    if not variables:
        return "\n".join(lines)
    example = json.dumps(variables[0].name, ensure_ascii=False)
    lines += [
        f"shares = pr.estimate.proportions(frame, {example}, release.mechanism)",
        "print(shares.value, shares.standard_error)",
    ]
    if len(variables) > 1:
        names = ", ".join(json.dumps(v.name, ensure_ascii=False) for v in variables[:2])
        lines.append(f"print(pr.estimate.table(frame, [{names}], release.mechanism))")
    return "\n".join(lines)


def _packages(mechanism: Mechanism, data_name: str) -> str:
    """Return what of R has to be installed, in words; empty for base R."""
    law = "" if fits_r(mechanism) or not mechanism.blocks else "jsonlite"  # a split alone has no code for its matrices
    reader = _r_packages(data_name)
    return " and ".join(name for name in (law, reader) if name)


def _r_packages(data_name: str) -> str:
    """Return what R needs to read the data, empty if it needs nothing; ``postrand.R`` states the same."""
    if not PurePath(data_name).suffix:
        return "the package that reads the data files"  # a folder of them
    if data_name.endswith(".json"):
        return "DBI, and the driver of the database"
    return " or ".join(format_of(data_name).readers.r_values)


def _r(mechanism: Mechanism, data_name: str) -> str:
    """Return R code that makes corrected tables with the release's own script, or reads the matrix if it is large."""
    lines = [
        'folder <- "path/to/release"',
        'source(file.path(folder, "postrand.R"), encoding = "UTF-8")',
        "data <- DBI::dbReadTable(connection, name)  # the table in table.json"
        if data_name.endswith(".json")
        else f"data <- postrand_data(folder, {_quoted(data_name)})",
    ]
    if not fits_r(mechanism):
        return "\n".join([*lines, *_r_large(mechanism)])
    book = mechanism.require_codebook()
    shown = mechanism.variables
    if mechanism.split is not None:  # variables that records show together
        shown = max((block.perturbed for block in mechanism.split.blocks), key=len)
    lines += [
        "release <- postrand_read(folder)",
        f"postrand_table(data, {_quoted(shown[0])}, release)",
    ]
    if len(shown) > 1:
        lines.append(f"postrand_table(data, c({', '.join(map(_quoted, shown[:2]))}), release)")
    if weights := book.with_role("weight"):
        name = weights[0].name
        lines.append(f"postrand_table(data, {_quoted(shown[0])}, release, weights = {_quoted(name)})")
    return "\n".join(lines)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _r_large(mechanism: Mechanism) -> Iterable[str]:
    """Yield R code that corrects the first block of one variable, or reads the first matrix if there is none."""
    if not mechanism.blocks:  # there is no R code for a split
        return
    number, block = next(
        ((n, b) for n, b in enumerate(mechanism.blocks, 1) if len(b.variables) == 1 and b.cells is None),
        (1, mechanism.blocks[0]),
    )
    yield 'law <- jsonlite::fromJSON(file.path(folder, "mechanism.json"), simplifyVector = FALSE)'
    yield f"weights <- law$blocks[[{number}]]$weights  # {text.cut(text.one_line(block.name), MAX_TEXT)}"
    yield from _r_matrix(block)
    if len(block.variables) == 1 and block.cells is None:
        yield from _r_estimate(mechanism, block)


def _r_matrix(block: Block) -> Iterable[str]:
    """Yield R code for M, in the form of the block's matrix."""
    said = "  # rows true, columns released"
    kind = weights_form(block)
    if kind == "rows":
        yield f"M <- do.call(rbind, lapply(weights, unlist)) / 2^53{said}"
        return
    filled = "off" if kind == "diagonal" else "usual"
    yield f"n <- length(weights${filled})"
    yield f"M <- matrix(unlist(weights${filled}), n, n){said}"
    if kind == "diagonal":
        yield "diag(M) <- unlist(weights$diagonal)"
    else:
        yield "numbers <- function(x) as.numeric(unlist(x))"
        yield "for (i in seq_len(n)) M[i, numbers(weights$columns[[i]]) + 1] <- numbers(weights$weights[[i]])"
    yield "M <- M / 2^53"


def _r_estimate(mechanism: Mechanism, block: Block) -> Iterable[str]:
    name = block.variables[0]
    variable = mechanism.require_codebook()[name]
    position = mechanism.variables.index(name) + 1
    levels = f"unlist(law$variables[[{position}]]$categories)"
    if variable.missing == "category":
        levels = f"c({levels}, NA)"
    column = f"data[[{_quoted(name)}]]"
    if not isinstance(variable.categories[0], str):
        convert = "as.logical" if isinstance(variable.categories[0], bool) else "as.numeric"
        column = f"{convert}({column})"
    yield f"values <- factor({column}, levels = {levels}, exclude = NULL)"
    yield "counts <- tabulate(values, nrow(M))"
    yield "n <- sum(counts); lambda <- counts / n"
    yield "A <- solve(t(M))"
    yield "estimate <- as.vector(A %*% lambda)"
    yield "covariance <- A %*% (diag(lambda) - tcrossprod(lambda)) %*% t(A) / (n - 1)"
    yield "data.frame(category = levels(values), estimate, standard_error = sqrt(diag(covariance)))"
