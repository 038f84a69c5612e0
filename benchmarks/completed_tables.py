"""The tables of the study of completed files, from its runs."""

import itertools

import numpy as np

ENOUGH = 500
"""Unbiased effective records from which on coverage is to be 93 to 97 %."""
FREQUENT = 0.01


def markdown(lines):
    """Yield the tables in Markdown: by release, then by analysis."""
    truth = {line["population"]: line["truth"] for line in lines if "truth" in line}
    runs = [line for line in lines if "found" in line]
    yield from shown(by_release(runs, truth))
    yield ""
    yield from shown(by_analysis(runs, truth))


def by_release(runs, truth):
    """Return a row for each population, release and level."""
    return [
        {
            "population": key[0],
            "release": key[1],
            "level": key[2],
            "unbiased n_eff": round(float(np.median([r["effective"] for r in held]))),
            **summary(held, truth[key[0]], [name for name in truth[key[0]] if name != "cells"]),
            **cell_summary(held, truth[key[0]]),
            "flagged": f"{sum(bool(r['said']['problems']) for r in held)}/{len(held)}",
            "warned": f"{sum(bool(r['said']['warnings']) for r in held)}/{len(held)}",
            "note": "" if np.median([r["effective"] for r in held]) >= ENOUGH else "rests on the model",
        }
        for key, held in grouped(runs, ("population", "release", "level"))
    ]


def by_analysis(runs, truth):
    """Return a row for each analysis: releases worth enough records, and the others."""
    rows = []
    for enough in (True, False):
        held = [r for r in runs if (r["effective"] >= ENOUGH) == enough]
        for name in next(iter(truth.values())) if held else ():
            parts = [summary(list(runs_of), truth[key[0]], [name]) for key, runs_of in grouped(held, ("population",))]
            count = np.array([part["intervals"] for part in parts])
            row = {"analysis": name, "unbiased n_eff": f">= {ENOUGH}" if enough else f"< {ENOUGH}"}
            if not count.sum():
                continue
            for column in ("intervals", "bias", "coverage", "length", "own coverage"):
                row[column] = float(
                    np.average([part[column] for part in parts if part["intervals"]], weights=count[count > 0])
                )
            rows.append(row | {"intervals": int(count.sum())})
    return rows


def summary(runs, truth, names):
    """Return bias (root mean square, in standard errors), coverage with its error, length beside the true file's."""
    hits, own, lengths, errors = [], [], [], []
    names = [name for name in names if all(name in run["found"] for run in runs)]
    if not names:
        return dict.fromkeys(("intervals",), 0) | dict.fromkeys(
            ("bias", "coverage", "error", "length", "own coverage"), np.nan
        )
    for run in runs:
        value, half, sample, spread, variance = (
            np.concatenate([run["found"][name][part] for name in names])
            for part in ("value", "half", "own", "own_variance", "variance")
        )
        true = np.concatenate([truth[name] for name in names])
        kept = (spread > 0) & (variance > 0)
        hits.append((np.abs(value - true) <= half)[kept])
        own.append((np.abs(sample - true) <= 1.959964 * np.sqrt(spread))[kept])
        lengths.append(half[kept] / 1.959964 / np.sqrt(spread[kept]))
        errors.append(np.divide(value - true, np.sqrt(variance), out=np.full(len(true), np.nan), where=kept))
    each = [np.mean(hit) for hit in hits]
    every = np.array(errors)
    known = np.isfinite(every)
    mean = np.where(known, every, 0).sum(axis=0)[known.any(axis=0)] / known.sum(axis=0)[known.any(axis=0)]
    return {
        "intervals": int(sum(map(len, hits))),
        "bias": float(np.sqrt(np.mean(mean**2))),
        "coverage": float(np.mean(each)),
        "error": float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan"),
        "length": float(np.median(np.concatenate(lengths))),
        "own coverage": float(np.mean(np.concatenate(own))),
    }


def cell_summary(runs, truth):
    """Return coverage of the two-way cells, and of those above one percent."""
    every, frequent = [], []
    true = np.array(truth["cells"])
    for run in runs:
        found = run["found"]["cells"]
        hit = np.abs(np.array(found["value"]) - true) <= np.array(found["half"])
        every.append(hit[true > 0].mean())
        frequent.append(hit[true > FREQUENT].mean())
    count = int((true > 0).sum()) * len(runs)
    return {"cells": count, "cells coverage": float(np.mean(every)), "cells above 1 %": float(np.mean(frequent))}


def grouped(rows, names):
    """Return rows by the values of some columns."""

    def key(row):
        return tuple(row[name] for name in names)

    return [(k, list(held)) for k, held in itertools.groupby(sorted(rows, key=key), key)]


def shown(rows):
    """Yield rows as a table."""
    if rows:
        yield "| " + " | ".join(rows[0]) + " |"
        yield "|" + " --- |" * len(rows[0])
    for row in rows:
        yield "| " + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()) + " |"
