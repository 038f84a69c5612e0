"""A released file with a stacked file of its copies, without a model: values are drawn from fixed shares."""

import numpy as np
import pyarrow as pa

from postrand import Codebook, Mechanism, Variable, randomised_response
from postrand.completion.files import Stacked, write_stacked
from postrand.completion.readme import recipes

BOOK = Codebook(
    (
        Variable("affair", role="sensitive", categories=("no", "yes")),
        Variable("rate_marriage", role="key", categories=(1.0, 2.0, 3.0, 4.0, 5.0), type="double"),
        Variable("religious", role="key", categories=(1.0, 2.0, 3.0, 4.0), type="double"),
        Variable("age", role="other", type="double"),
    )
)
LAWS = {"affair": (2, 2.0), "rate_marriage": (5, 2.5), "religious": (4, 2.5)}
MECHANISM = Mechanism({n: randomised_response(size, epsilon) for n, (size, epsilon) in LAWS.items()}, BOOK)
COPIES, RECORDS = 6, 150


def drawn(rng, n):
    """Columns in which the answers depend on one another."""
    religious = rng.integers(1, 5, n).astype(float)
    affair = rng.random(n) < 0.5 - 0.1 * religious
    rate = np.clip(np.round(4 - affair + 0.3 * religious + rng.normal(size=n)), 1, 5)
    return {"affair": np.where(affair, "yes", "no"), "rate_marriage": rate, "religious": religious}


def tables(seed=1):
    """The released records and the copies."""
    rng = np.random.default_rng(seed)
    age = pa.array(np.round(rng.uniform(18, 60, RECORDS), 1))
    made = [pa.table({**drawn(rng, RECORDS), "age": age}) for _ in range(COPIES + 1)]
    return made[0], made[1:]


def write(folder, suffixes):
    """Write the stacked file in each format, and return the copies."""
    released, copies = tables()
    for suffix in suffixes:
        form = Stacked.of(released.schema, MECHANISM, suffix)
        write_stacked(folder / f"completed{suffix}", form, released, copies)
    return copies


def recipe(name, program, **more):
    """The lines of README.txt for a program, for a stacked file of this name."""
    told = {"file": name, "perturbed": MECHANISM.variables, "copies": COPIES, "seed": 1, "settings": {}, "totals": []}
    told |= more
    lines = recipes(told)
    start = next(i for i, line in enumerate(lines) if line.startswith(program)) + 1
    return "\n".join(line.strip() for line in lines[start : lines.index("", start)])
