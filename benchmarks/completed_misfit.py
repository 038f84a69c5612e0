"""Is a wrong model announced before it costs coverage? Severity of the fault, releases that are flagged, coverage.

Two faults. *Truncation*: a mixture of K classes only, for a split of New York-like persons at ε = 12. *Pairs only*:
an answer that is the parity of two others, with a strength between 0 and 1, in a split whose records show two
variables each; tables of three then rest on the model, and diagnostics have to say so. A release is *misfit* if
the diagnostics name tables that speak against the model (mended or not), and has *problems* if they name a reason not
to use the copies, which may also be convergence. *On the model* is the share of tables of three that are said to rest
on it, or that were not compared at all. Coverage is of 95 % intervals of cells above 1 %, pooled by Rubin's rules,
without and with anchoring.

Run ``python benchmarks/completed_misfit.py [REPLICATIONS] [RECORDS] [SWEEPS]``.
"""

import itertools
import math
import sys

import numpy as np
import pandas as pd

from completed_populations import new_york
from postrand import (
    Block,
    Codebook,
    Mechanism,
    ReleaseKey,
    Split,
    Variable,
    estimate,
    perturb,
    randomised_response,
    split_design,
)
from postrand.completion import complete

COPIES = 10
FREQUENT = 0.01


def truncated():
    """Yield the severities, with the population, its law and the settings of the fit."""
    population = new_york()
    frame = population.frame[list(population.perturbed)]
    book = codebook(frame)
    split = split_design(book, epsilon=12.0, n=4_000).split(book)
    for classes in (1, 2, 3, 5, 10, 0):
        yield f"{classes or 'as chosen'} classes", frame, Mechanism([], book, split=split), {"classes": classes}


def parity():
    """Yield the same for parity of growing strength, of which records show two variables only."""
    for strength in (0.0, 0.25, 0.5, 1.0):
        rng = np.random.default_rng(5)
        a, b, c = rng.integers(0, 2, (3, 100_000))
        wrong = rng.random(a.size) < (1 - strength) / 2
        frame = pd.DataFrame({"a": a, "b": b, "c": c, "answer": (a + b + wrong) % 2})
        book = codebook(frame)
        blocks = [Block(pair, randomised_response(4, 5.0)) for pair in itertools.combinations(frame.columns, 2)]
        yield f"parity {strength:g}", frame, Mechanism([], book, split=Split.of([1 / 6] * 6, blocks)), {}


def codebook(frame):
    return Codebook(tuple(Variable(n, "other", tuple(range(int(frame[n].max()) + 1)), type="int64") for n in frame))


def shares(codes, names, sizes, ways):
    """Return the shares of all cells of so many variables."""
    found = []
    for places in itertools.combinations(range(len(names)), ways):
        shape = [sizes[p] for p in places]
        cells = np.ravel_multi_index([codes[:, p] for p in places], shape)
        found.append(np.bincount(cells, minlength=math.prod(shape)) / len(codes))
    return np.concatenate(found)


def replication(frame, mechanism, settings, n, turn):
    """Return coverage of cells of two and of three variables, drawn and anchored, and what the diagnostics say."""
    who = np.random.default_rng([turn, 3]).integers(0, len(frame), n)
    released = perturb(frame.iloc[who].reset_index(drop=True), mechanism, ReleaseKey.from_seed(turn))
    completed = complete(released, mechanism, copies=COPIES, seed=turn, **settings)
    names = list(frame.columns)
    sizes = [mechanism.codebook[name].size for name in names]
    hits = []
    for codes in (completed.fit.copy, completed.codes):
        copies = [codes(i) for i in range(COPIES)]
        for ways in (2, 3):
            true = shares(frame.to_numpy(), names, sizes, ways)
            each = [shares(copy, names, sizes, ways) for copy in copies]
            low, high = estimate.pool(lambda p: (p, p * (1 - p) / n), each).interval()
            hits.append(float(((low <= true) & (true <= high))[true > FREQUENT].mean()))
    told = completed.diagnostics
    resting = sum(not one.on_model for one in told.rests_on_model if len(one.names) == 3)
    return (told.biased, bool(told.problems), 1 - resting / math.comb(len(names), 3), *hits)


def main(replications=4, n=4_000, sweeps=0):
    print("| fault | misfit | problems | on the model | drawn: pairs | triples | anchored: pairs | triples |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, frame, mechanism, settings in (*truncated(), *parity()):
        asked = {"sweeps": sweeps, **settings}
        found = [replication(frame, mechanism, asked, n, turn) for turn in range(replications)]
        shown = [f"{value:.1%}" for value in np.mean(np.array(found, float), axis=0)]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
