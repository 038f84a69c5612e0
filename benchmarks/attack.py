"""Is the informed attacker's claim right, and the posterior of a target? On the New York-like population.

``python benchmarks/attack.py FOLDER`` with ``ny_like_population_953076.parquet`` in FOLDER; about two minutes.

Prints, for each total ε, correct matches and claims in 1,000 (all 9,530 persons of each of six samples are targets).
Then, for persons whom nobody in the file is like, the mean posterior at their own combination: the probability over the
count, ``posterior``, ``bound``, and the one from the true counts, ``a / (a N + (1 − a) Σ_others M[l, k0])``.
"""

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.estimate import candidates
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.risk.attack import link
from postrand.risk.cells import table
from postrand.risk.law import KeyLaw, release
from risk import read_population

NAMES = ("age", "sex", "marital_status", "race", "education", "employment")
SIZE, FILES, TARGETS = 9530, 6, 60


def mechanism_of(keys, total):
    book = Codebook(
        tuple(
            Variable(n, role="key", categories=tuple(map(str, range(s))))
            for n, s in zip(keys.names, keys.shape, strict=True)
        )
    )
    each = total / len(keys.names)
    return Mechanism({n: randomised_response(s, each) for n, s in zip(keys.names, keys.shape, strict=True)}, book)


def margins_claim(keys, out, law):
    """Return the mean claim of an attacker who takes the others' keys for independent."""
    seen, types = table(out), table(keys)
    weight = np.ones((types.counts.size, seen.counts.size))
    for j, size in enumerate(keys.shape):
        share = np.bincount(out.codes[j], minlength=size) / out.records
        weight *= law.matrices[j][types.codes[:, j]][:, seen.codes[:, j]] / share[seen.codes[:, j]]
    return float((types.counts * weight.max(axis=1) / (weight @ seen.counts)).sum() / keys.records)


def calibration(files, total):
    rows = []
    for seed, keys in enumerate(files):
        law = KeyLaw.of(mechanism_of(keys, total), keys.names, keys.shape)
        out = release(law, keys, seed)
        found, alone = link(keys, out, law), (table(keys).counts == 1)[table(keys).record_cell]
        unique = (found.correct[alone].mean(), found.claimed[alone].mean())
        rows.append((found.rate, found.claimed_rate, margins_claim(keys, out, law), *unique))
    mean, error = 1000 * np.mean(rows, axis=0), 1000 * np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    print(
        f"{total:6g} | {mean[0]:.1f} ({error[0]:.1f}) | {mean[1]:.1f} | {mean[2]:.1f} | {mean[3]:.0f} | {mean[4]:.0f}"
    )


def posteriors(keys, total):
    mechanism, rng = mechanism_of(keys, total), np.random.default_rng(2)
    law, types = KeyLaw.of(mechanism, keys.names, keys.shape), table(keys)
    out = release(law, keys, 1)
    frame = pa.table({n: pa.array(c).cast(pa.string()) for n, c in zip(keys.names, out.codes, strict=True)})
    seen, rows = table(out), []
    for i in rng.permutation(np.flatnonzero(types.uniques)):
        person = types.codes[i]
        shown = seen.counts[(seen.codes == person).all(axis=1)].sum()
        if not shown:
            continue
        into = np.prod([m[types.codes[:, j], person[j]] for j, m in enumerate(law.matrices)], axis=0)
        own = into[i]
        exact = own / (own * shown + (1 - own) * (into @ types.counts - own))
        found = candidates(frame, keys.names, dict(zip(keys.names, map(str, person), strict=True)), mechanism)
        rows.append((own / shown, found.posterior[tuple(person)], found.bound[tuple(person)], exact))
        if len(rows) == TARGETS:
            break
    print(f"{total:6g} | " + " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0)))


def main():
    population, _ = read_population(Path(sys.argv[1]))
    population = population.select(NAMES)
    draws = (np.random.default_rng(seed).choice(population.records, SIZE, replace=False) for seed in count())
    files = [population.take(next(draws)) for _ in range(FILES)]
    print("total ε | right in 1,000 (s.e.) | claimed | by margins | right, sample uniques | claimed, sample uniques")
    for total in (6.0, 12.0, 24.0, 36.0):
        calibration(files, total)
    print("total ε | over the count | posterior | bound | from the true counts")
    for total in (12.0, 24.0, 30.0):
        posteriors(files[0], total)


if __name__ == "__main__":
    main()
