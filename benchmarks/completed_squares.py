"""Squared error of all tables of two and three variables: completed files beside four other estimators.

A split of eight variables of the General Social Survey at ε = 8, designed for all pairs. Each replication draws its
records anew. For each table the squared error is summed over its cells and divided by that of one unperturbed record;
``1 / mean`` over the tables is the number of effective records. *Unbiased*: ``estimate.table``, where some record shows
the table. *Independence*: the product of the unbiased shares of single variables. *Likelihood, table by table*:
``estimate.maximum_likelihood``. *Likelihood, K classes*: latent classes by EM; *by BIC* takes the K that BIC prefers.

Run ``python benchmarks/completed_squares.py [REPLICATIONS] [EPSILON] [RECORDS]``.
"""

import itertools
import math
import sys

import numpy as np

from postrand import Mechanism, ReleaseKey, TablePrior, estimate, perturb, split_design
from postrand.completion import complete
from postrand.errors import EstimationError
from split_releases import files, tabulated

COPIES = 20
CLASSES = (2, 4, 8, 16)
STEPS = 400


def latent_classes(evidence, classes, seed, steps=STEPS):
    """Return weights and profiles of the most likely mixture of K products, and its log-likelihood, by EM.

    The complete data are: was the cell kept, and its class if so; a cell that was not kept says nothing.
    """
    rng = np.random.default_rng(seed)
    seen = []
    for number, law in enumerate(evidence.laws):
        cells, counts = np.unique(evidence.released[evidence.law == number], return_counts=True)
        seen.append((law.variables, law.cells[cells], counts, law.keep, law.noise[cells]))
    weights = rng.dirichlet(np.full(classes, 10.0))
    theta = [rng.dirichlet(np.full(size, 3.0), classes) for size in evidence.sizes]
    likelihood = -np.inf
    for _ in range(steps):
        before, likelihood = likelihood, 0.0
        members = np.full(classes, 1e-9)
        counted = [np.full(t.shape, 1e-9) for t in theta]
        for variables, cells, counts, keep, noise in seen:
            joint = keep * weights[:, None] * product(theta, variables, cells)
            chance = joint.sum(axis=0) + noise
            likelihood += float(counts @ np.log(chance))
            expected = joint * (counts / chance)
            members += expected.sum(axis=1)
            for place, variable in enumerate(variables):
                for k in range(classes):
                    size = evidence.sizes[variable]
                    counted[variable][k] += np.bincount(cells[:, place], expected[k], minlength=size)
        weights = members / members.sum()
        theta = [each / each.sum(axis=1, keepdims=True) for each in counted]
        if likelihood - before < 1e-3:
            break
    return weights, theta, likelihood


def product(theta, variables, cells):
    found = np.ones((len(theta[0]), len(cells)))
    for variable, codes in zip(variables, cells.T, strict=True):
        found *= theta[variable][:, codes]
    return found


def table_of(weights, theta, places):
    """Return the mixture's table of some variables."""
    found = weights[:, None]
    for place in places:
        found = (found[:, :, None] * theta[place][:, None, :]).reshape(len(weights), -1)
    return found.sum(axis=0).reshape([theta[place].shape[1] for place in places])


def estimates(released, mechanism, names, turn):
    """Return a function of a table's places for each estimator; it returns None where it has no answer."""
    book = mechanism.codebook
    completed = complete(released, mechanism, copies=COPIES, seed=turn)
    evidence, sizes = completed.fit.evidence, completed.fit.evidence.sizes
    copies = [completed.codes(i) for i in range(COPIES)]
    single = [np.maximum(estimate.table(released, [name], mechanism).value, 0) for name in names]

    def counted(places):
        shape = [sizes[p] for p in places]
        total = sum(np.bincount(np.ravel_multi_index([c[:, p] for p in places], shape), minlength=math.prod(shape))
                    for c in copies)  # fmt: skip
        return total.reshape(shape) / total.sum()

    def asked(function):
        def ask(places):
            try:
                return function(released, [names[p] for p in places], mechanism).value
            except EstimationError:
                return None

        return ask

    found = {
        "completed": counted,
        "unbiased": asked(estimate.table),
        "independence": lambda places: math.prod(np.ix_(*[single[p] / single[p].sum() for p in places])),
        "likelihood, table by table": asked(estimate.maximum_likelihood),
    }
    best, least = None, math.inf
    for classes in CLASSES:
        weights, theta, likelihood = max((latent_classes(evidence, classes, s) for s in range(2)), key=lambda f: f[2])
        free = classes - 1 + classes * sum(size - 1 for size in sizes)
        score = free * math.log(evidence.records) - 2 * likelihood
        found[f"likelihood, {classes} classes"] = lambda places, w=weights, t=theta: table_of(w, t, places)
        if score < least:
            best, least = found[f"likelihood, {classes} classes"], score
    assert book is not None
    return found | {"likelihood, classes by BIC": best}


def study(replications, epsilon, records=None):
    """Return effective records of each estimator, for pairs and triples: where the unbiased one answers, and of all."""
    _, frame, book, _ = next(files())
    names = book.names
    pairs, triples = (list(itertools.combinations(range(len(names)), k)) for k in (2, 3))
    truth = {t: tabulated(frame, book, [names[p] for p in t]) for t in (*pairs, *triples)}
    n = records or frame.num_rows
    prior = TablePrior({tuple(names[p] for p in t): truth[t] for t in pairs}, "confidential")
    mechanism = Mechanism([], book, split=split_design(book, epsilon=epsilon, prior=prior, n=n).split(book))
    errors: dict = {}
    for turn in range(replications):
        drawn = frame.take(np.random.default_rng(turn).integers(0, frame.num_rows, n))
        released = perturb(drawn, mechanism, ReleaseKey.from_seed(turn))
        for name, ask in estimates(released, mechanism, names, turn).items():
            for places, p in truth.items():
                if len(places) == 3 and name == "likelihood, table by table":
                    continue
                found = ask(places)
                if found is not None:
                    error = float(((found - p) ** 2).sum()) / (1 - float((p**2).sum()))
                    errors.setdefault(name, {}).setdefault(places, []).append(error)
        print(f"replication {turn}", *markdown(errors, pairs, triples), sep="\n", flush=True)
    return errors


def markdown(errors, pairs, triples):
    """Yield effective records by estimator."""
    shown = [t for t in triples if t in errors["unbiased"]]
    yield f"| estimator | pairs | / unbiased's squared error | {len(shown)} triples that records show | all triples |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    base = np.mean([np.mean(errors["unbiased"][t]) for t in pairs])
    for name, held in errors.items():
        columns = []
        for tables in (pairs, shown, triples):
            each = [np.mean(held[t]) for t in tables if t in held]
            columns.append(f"{1 / np.mean(each):,.0f}" if len(each) == len(tables) and each else "")
        ratio = np.mean([np.mean(held[t]) for t in pairs]) / base
        yield f"| {name} | {columns[0]} | {ratio:.2f} | {columns[1]} | {columns[2]} |"


if __name__ == "__main__":
    given = [float(a) for a in sys.argv[1:]]
    study(int((*given[:1], 8)[0]), (*given[1:2], 8.0)[0], int(given[2]) if len(given) > 2 else None)
