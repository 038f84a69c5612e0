"""Run the program on a file of units that differ, and read what an onlooker sees of each unit."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import postrand
from postrand import ReleaseKey
from postrand.codebook.not_released import NOT_RELEASED
from postrand.release import read

SERIAL = """
[[variables]]
name = "serial"
role = "other"
type = "int64"
"""
COMMAND = "import sys; from postrand.cli import main; sys.exit(main())"
PLACES = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, and units that differ in what it protects.

    ``waves`` are the plans of releases that follow each other, each with the records of every unit: ``units[u][m]`` is
    the record of member m. Of each unit the file has ``copies`` copies, one unit after the other, so the order of the
    file tells all; ``numbers`` are the columns that get the number of the copy. ``see`` are the released variables that
    the onlooker sees of all members; beside them place, numbers and weight are looked at. ``pairs``: which units are
    neighbours, by default all. ``claims`` measure what is promised. ``runs``: so many releases of the same file. The
    values of ``ranked``, a numerical variable, all differ, and each run of neighbours in rank has one of every unit.
    """

    name: str
    covers: str
    book: str
    waves: tuple
    see: tuple[str, ...]
    claims: tuple[Callable, ...]
    copies: int = 50_000
    numbers: tuple[str, ...] = ()
    pairs: tuple[tuple[int, int], ...] | None = None
    runs: int = 1
    ranked: str = ""
    command: bool = False


@dataclass(slots=True)
class Seen:
    """What was seen: of each copy its unit ``of`` (n,), and in each view an outcome (n,) below its number of outcomes.

    ``values[w][name]`` are released codes (n, members) of wave w: missing is the code after the last category, and not
    released the one after that. ``problems`` are those that ``verify`` found.
    """

    of: np.ndarray
    views: dict
    values: list
    releases: list

    @property
    def release(self):
        """The last release, whose claims cover all before it."""
        return self.releases[-1]


def table_of(case, units, copies, rng):
    """Return the file of one wave: every copy of a unit, member by member, under its serial numbers."""
    rows = [(unit, member) for unit, members in enumerate(units) for member in range(len(members))]
    sizes = [len(members) for members in units]
    at = np.concatenate([np.tile(np.arange(sum(sizes[:u]), sum(sizes[: u + 1])), copies) for u in range(len(units))])
    columns = {"serial": np.arange(at.size)}
    number = np.repeat(np.arange(len(units) * copies), np.repeat(sizes, copies))
    columns |= {name: number + 1_000_000 for name in case.numbers}
    for name in units[0][0]:
        held = [units[unit][member][name] for unit, member in rows]
        columns[name] = pa.array(held).take(pa.array(at))
    if case.ranked:  # runs of neighbours in rank, one of each unit
        columns[case.ranked] = (np.tile(np.arange(copies), len(units)) * len(units) + number // copies).astype(float)
    if '"weight"' in case.book:
        columns["weight"] = rng.integers(1, 5, at.size) / 4.0
    return pa.table(columns)


@contextmanager
def quiet():
    """Leave out the warnings for curators: what is audited is what is released."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def write(folder, name, book, plan, table):
    """Write a plan and its files to the folder, and return the plan's path."""
    pq.write_table(table, folder / f"{name}.parquet")
    (folder / f"{name}-codebook.toml").write_text(book, "utf-8")
    source = f'[source]\nfile = "{name}.parquet"\ncodebook = "{name}-codebook.toml"\n'
    (folder / f"{name}.toml").write_text(source + plan, "utf-8")
    return folder / f"{name}.toml"


def protect(plan, out, key=None, command=False):
    """Make a release as ``postrand protect`` does, by the call that the command makes, or by the command itself."""
    if command:
        asked = ["protect", "--plan", str(plan), "--out", str(out)]
        subprocess.run([sys.executable, "-c", COMMAND, *asked], check=True, capture_output=True)
        return read(out)
    postrand.run(postrand.load_plan(plan), out, release_key=key)
    return read(out)


def observe(case, folder, rng, copies=None):
    """Run a case under a fresh key, and return what was seen; raises PostrandError where the program refuses."""
    copies, key, releases, values = copies or case.copies, None, [], []
    if len(case.waves) > 1:
        key = ReleaseKey.fresh()
    views: dict = {}
    for run in range(case.runs):
        for wave, (plan, units) in enumerate(case.waves):
            name = f"wave{wave}-{run}"
            path = write(folder, name, case.book + SERIAL, plan, table_of(case, units, copies, rng))
            with quiet():
                release = protect(path, folder / f"out-{name}", key, case.command)
            found = read_codes(release, len(units[0]), len(units))
            releases.append(release)
            values.append(found.pop("values"))
            for view, (codes, number) in found.items():
                views.setdefault(f"{view}{wave or ''}", []).append((codes, number))
    of = np.tile(np.repeat(np.arange(len(case.waves[0][1])), copies), case.runs)
    joined = {view: (np.concatenate([codes for codes, _ in parts]), parts[0][1]) for view, parts in views.items()}
    waves = len(case.waves)
    held = [merged(values[w::waves]) for w in range(waves)]
    return Seen(of, {"values": joint(case, held), **joined}, held, releases)


def merged(runs):
    """Return the codes of several runs one after the other."""
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def verified(path):
    """Return what ``verify`` finds wrong with a release, a sentence for each check."""
    outcome = postrand.verify(path, raise_if_failed=False)
    return [f"{check.name}: {check.sentence}" for check in outcome.checks if check.ok is False]


def read_codes(release, members, units):
    """Return the released codes of each unit, (n, members), and its outcome in every other view."""
    frame = release.frame()
    place = np.argsort(frame["serial"].to_numpy(), kind="stable")
    book = release.mechanism.codebook
    values, found = {}, {}
    for variable in book.variables:
        if variable.name in frame.column_names and variable.is_categorical:
            held = codes_of(frame[variable.name], variable.categories)[place]
            values[variable.name] = held.reshape(-1, members)
    for column in release.mechanism.numerical:
        moved = frame[column.variable].to_numpy()[place] % units
        values[column.variable] = moved.astype(np.int64).reshape(-1, members)
    rank = place.reshape(-1, members)[:, 0]  # where each unit's first record stands in the released file
    found["place"] = (rank * PLACES // frame.num_rows, PLACES)
    for variable in book.variables:
        if variable.role in ("household", "weight") and variable.name in frame.column_names:
            held = frame[variable.name].to_numpy()[place].reshape(-1, members)[:, 0]
            distinct, codes = np.unique(held, return_inverse=True)
            parts = min(distinct.size, PLACES if variable.role == "household" else 64)
            found[variable.role] = (codes * parts // distinct.size, parts)
    return {"values": values, **found}


def codes_of(column, categories):
    """Return the code of each value (n,): that of its category, then missing, then not released."""
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    known = pa.array([*map(str, categories), NOT_RELEASED])
    codes = pc.index_in(column.cast(pa.string()), known).to_numpy(zero_copy_only=False)
    missing, blank = len(categories), len(categories) + 1
    return np.where(np.isnan(codes), missing, np.where(codes == missing, blank, codes)).astype(np.int64)


def joint(case, waves):
    """Return one outcome for all that is seen of a unit together, and how many there are."""
    columns = [column for values in waves for name in case.see for column in values[name].T]
    outcome = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        outcome = np.unique(outcome * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return outcome, int(outcome.max()) + 1


def neighbours(case):
    """Return the ordered pairs of units that are neighbours."""
    units = range(len(case.waves[0][1]))
    pairs = case.pairs or [(i, j) for i in units for j in units if i < j]
    return [ordered for i, j in pairs for ordered in ((i, j), (j, i))]


def halves(n, rng):
    """Return which of n copies choose the event; the others measure it."""
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[: n // 2]] = True
    return chosen


def where(folder, name):
    """Return a new folder of a case."""
    path = Path(folder) / name.replace(" ", "-")
    path.mkdir()
    return path
