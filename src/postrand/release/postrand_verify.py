#!/usr/bin/env python3
"""Verify a release of postrand with Python 3.9 or later and nothing else: ``python3 postrand_verify.py FOLDER``.

Written from the published format (docs/release-format.md, docs/verification.md) and not from the package, of which it
imports nothing. Levels are computed from the integers of the matrices: ratios as fractions, logarithms as decimals of
60 digits, compared with a margin of 1e-40. Nothing of the release is executed, no link is followed, every size is
limited before it is used, and nothing is written.

One line for each check: ``ok``, ``WRONG``, ``not checked`` with the reason. Two more do not count: ``said`` is what
nobody can recompute from a release; ``left out`` are checks that only ``postrand verify`` makes, because they compare
bytes or words that a library or the package wrote. Exit codes, as those of ``postrand verify``: 0 all ok, 7 something
is wrong, 9 something could not be checked, 2 this is not how it is called.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import os
import re
import stat
import struct
import sys
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, BinaryIO, Callable, Iterable, Iterator

UNIT = 1 << 53
MAX_JSON, READ_JSON = 1 << 28, 1 << 26  # bytes that a JSON file can have, and that this program reads
MAX_FILE = 1 << 37  # bytes of a file whose digest is computed
MAX_ENTRIES = 1 << 22  # of a dense matrix
MAX_FIELDS = 1 << 24  # of a CSV file that is kept in memory
MAX_LINE = 1 << 20  # characters of a record in a CSV file
MAX_FILES = 100_000
MAX_CASES = 1 << 16  # strata, or pairs of rows, that are tried one by one
INFINITE = Decimal("Infinity")
TINY, SLACK = Decimal("1e-40"), Decimal("1e-9")
LEVEL = 1e-9  # a right release is refused by the test of the margins with at most this probability
NOT_RELEASED, NO_ANSWER = "(not released)", "(missing)"
VERSION = re.compile(
    r"(\d{1,4}(?:\.\d{1,4}){1,2})((a|b|rc)\d{1,4})?(\.post\d{1,4})?(\.dev\d{1,4})?(\+[a-z0-9.]{1,40})?"
)
LIBRARIES = {"pyarrow": "csv parquet arrow feather tsv txt", "pyreadstat": "sav zsav dta xpt", "openpyxl": "xlsx"}
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?|data/part-[0-9]{5,9}\.[a-z0-9]{1,8}")
SIGNATURE = "signatures.json"
PAGES = ("README.txt", "report.html", "ddi.xml", "croissant.json", "postrand.R")
TOOLS = {*PAGES, "codebook.json", "mechanism.json", "certificate.json", "manifest.json", "description.json"}
TOOLS |= {"completed.json", SIGNATURE, "r_categories.csv", "r_split.csv", "completed"}
ORIGINS = ("public", "dp", "confidential", "unstated")


class Wrong(Exception):
    """A check failed."""


class Unchecked(Exception):
    """A check cannot be made here."""


class Said(Exception):
    """A statement that nobody can recompute from a release."""


def need(condition: object, sentence: str) -> None:
    """Raise Wrong with the sentence unless the condition holds."""
    if not condition:
        raise Wrong(sentence)


# -- the folder ------------------------------------------------------------------------------------------------------


def listing(root: str) -> dict[str, str]:
    """Return the path of every file by its name, as in the manifest; refuse all that is no plain file."""
    found = {}
    try:
        kind = os.lstat(root).st_mode
    except (OSError, ValueError):
        raise Wrong("no such release: give the folder that 'postrand protect --out' made") from None
    need(stat.S_ISDIR(kind), "a release is a folder, and no link: give the folder that 'postrand protect --out' made")
    for prefix, folder in (("", root), ("data/", os.path.join(root, "data"))):
        if prefix and not stat.S_ISDIR(_mode(folder)):
            continue
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and not prefix and entry.name == "data":
                continue
            need(stat.S_ISREG(mode), f"{safe(prefix + entry.name)}: no plain file")
            found[prefix + entry.name] = entry.path
            need(len(found) <= MAX_FILES, f"more than {MAX_FILES:,} files")
    return found


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def opened(path: str) -> BinaryIO:
    """Open a plain file for reading in bytes, without following a link and without waiting for a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Wrong("no plain file")
    return os.fdopen(handle, "rb")


def digest(path: str) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file."""
    size, found = 0, hashlib.sha256()
    with opened(path) as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            found.update(chunk)
            size += len(chunk)
    return size, found.hexdigest()


def safe(text: str) -> str:
    """Return a text for a terminal: printable, and not long."""
    text = text if isinstance(text, str) else repr(text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 200 else text[:200] + "..."


# -- JSON in its one form --------------------------------------------------------------------------------------------


def read_json(path: str) -> dict[str, Any]:
    """Return the object in a JSON file; refuse any form but the one that the format allows."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        need(size <= MAX_JSON, "longer than 256 MiB")
        content = file.read(READ_JSON + 1)
    if len(content) > READ_JSON:
        raise Unchecked("longer than the 64 MiB that this program reads")
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse)
        again = (_text(value, "") + "\n").encode("utf-8")
    except (ValueError, RecursionError):
        raise Wrong("no well-formed JSON: or names twice, or numbers that no float64 holds") from None
    if not isinstance(value, dict):
        raise Wrong("no JSON object")
    need(again == content, "not in the one form of JSON that a release has")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is given twice")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _text(value: Any, indent: str) -> str:
    """Return the text of a value: an indent of two spaces, lists of plain values on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        entries = [f"{_scalar(name)}: {_text(entry, inner)}" for name, entry in value.items()]
    elif isinstance(value, list) and any(isinstance(entry, (dict, list)) for entry in value):
        entries = [_text(entry, inner) for entry in value]
    else:
        return _scalar(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return first + ",".join(f"\n{inner}{entry}" for entry in entries) + f"\n{indent}{last}"


def compact(value: Any) -> str:
    """Return the SHA-256 of a value without spaces, names sorted, ASCII only: the digest of law and codebook."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


# -- the shapes of the files: ? may be absent, * any other name -------------------------------------------------------


def named(names: str, shape: Any) -> dict[str, Any]:
    """Return an object's fields, which have one shape."""
    return dict.fromkeys(names.split(), shape)


SHA, COUNT, NUMBER, TEXT, TRUTH = "sha", "count", "number", "text", "truth"
NAMES: Any = [TEXT]
EMPTY: Any = (None, "", [], {})
NOTHING = ("one of", *EMPTY)
PLAIN = ("either", TEXT, NUMBER, TRUTH)
ORIGIN = ("one of", *ORIGINS)
MODEL = {"model": TEXT, "*": "any"}
RANKED = {"shown": NUMBER, "bits?": NUMBER}
FORM = ("one of", "permute", "average")
LISTED = {"*": {"bytes": COUNT, "sha256": SHA}}
PACKAGE = {"name": ("one of", "postrand"), "version": TEXT}
EPSILON = ("either", NUMBER, ("one of", None))
LEVELS = {"epsilon": EPSILON, "delta?": NUMBER}
MISSING = ("one of", "error", "category", "keep")
LIMIT: dict[str, Any] = {
    **{"code": TEXT, "variable?": TEXT, "blocks?": [NAMES], "members?": [NAMES]},
    **named("variables? block? given?", NAMES),
    **named("cells? combinations? classes? values?", COUNT),
    **named("plain? learnt?", NUMBER),
}
WEIGHTS = (
    "either",
    [[COUNT]],
    named("diagonal off", [COUNT]),
    {"usual": [COUNT], **named("columns weights", [[COUNT]])},
    named("size diagonal off", COUNT),
)
BLOCK: dict[str, Any] = {
    **{"variables": NAMES, "provenance": ORIGIN, "weights": WEIGHTS, "cells?": [[COUNT]], "given?": NAMES},
    **{"prior_epsilon?": NUMBER, "budget?": ORIGIN, "unit?": ("one of", *EMPTY, "person", "household")},
    **named("one? at_most_one? weight?", COUNT),
}
UNITS = {**named("household? person?", TEXT), **named("largest_household? most_records?", COUNT)}


def schemas(kind: str, last: int) -> tuple[str, ...]:
    """Return the shape of the field that names the schema of a kind of file."""
    return ("one of", *(f"postrand/{kind}/{number}" for number in range(1, last + 1)))


SHAPES: dict[str, Any] = {
    "manifest.json": {
        **{"schema": schemas("release", 3), "package": PACKAGE, "rendering_sha256?": SHA, "files": LISTED},
        **named("written_with data", TEXT),
        **named("completed? signatures?", NOTHING),
    },
    "mechanism.json": {
        "schema": schemas("mechanism", 2),
        "unit": ("one of", "2^-53"),
        "orientation": ("one of", "rows true, columns released"),
        "blocks": [BLOCK],
        "variables?": [{"name": TEXT, "categories": [PLAIN], "missing": MISSING}],
        "numerical?": [{"variable": TEXT, "method": MODEL, "form": FORM, "records": COUNT, "level?": RANKED}],
        "split?": ("either", NOTHING, {"subsets": [BLOCK]}),
        "units?": ("either", NOTHING, UNITS),
    },
    "codebook.json": {
        "schema": schemas("codebook", 3),
        "variables": [
            {
                "role": ("one of", "key", "sensitive", "other", "weight", "household", "record_key", "drop"),
                **{"labels?": NAMES, "ordered?": TRUTH, "missing?": MISSING, "unit?": NOTHING},
                **named("name type? label?", TEXT),
                **named("categories? missing_codes?", [PLAIN]),
                "not_released?": ("either", TEXT, NUMBER),
            }
        ],
        "rules?": [{"*": ("either", PLAIN, [PLAIN])}],
        "recodes?": [{"variable": TEXT, "*": "any"}],
        "units?": NOTHING,
        "survey?": {"*": "any"},
    },
    "certificate.json": {
        "schema": schemas("certificate", 3),
        **named("mechanism_sha256 codebook_sha256?", SHA),
        "claims": [
            {
                **{"privacy": MODEL, "variables": NAMES, "level": NUMBER, "sentence?": TEXT, "unit?": NOTHING},
                **{"within?": ("one of", True), "recomputable?": ("one of", False)},
                "figures?": {"*": ("either", NUMBER, TEXT, NAMES)},
            }
        ],
        "numerical?": [
            {
                **{"variables": NAMES, "method": MODEL, "form": FORM, "level?": RANKED, "sentence?": TEXT},
                **named("beta bits?", NUMBER),
                **named("records shared?", COUNT),
            }
        ],
        **named("blocks split?", ["charge"]),
        "account": {"blocks": [EPSILON], "priors": [NUMBER], "total": EPSILON},
        "not_covered": [("either", LIMIT, TEXT)],
        "facts": {
            **named("key_is_private order_is_shuffled ids_are_released", TRUTH),
            **named("households_are_renumbered? key_is_reused? differing_are_settled?", TRUTH),
        },
        "file?": {
            **{"records": COUNT, "delta": NUMBER, "epsilon?": NUMBER, "bound?": ("one of", "clones", "blanket")},
            "bounds?": named("clones blanket", NUMBER),
            "fails?": [{"code": TEXT, "variables?": NAMES, "blocks?": [NAMES]}],
        },
        "units?": named("household? person?", "unit"),
        "series?": {
            "kind": ("one of", "first", "wave", "corrected", "supplement"),
            **{"population": TEXT, "disjoint?": TEXT, "number": COUNT, "previous": SHA},
            **named("level total", LEVELS),
        },
    },
    "description.json": {
        "schema": schemas("description", 1),
        **named("title? description? creator? publisher? license? url? citation? date_published? version?", TEXT),
    },
    "charge": {
        **{"variables": NAMES, "given?": NAMES, "matrix_sha256": SHA, "epsilon": EPSILON, "prior_epsilon?": NUMBER},
        **{"prior": ORIGIN, "budget?": ORIGIN, "unit?": ("one of", "person", "household")},
        **named("classes? weight?", COUNT),
    },
    "unit": {
        **{"column": TEXT, "variables": NAMES, "member?": NAMES, "infinite?": [NAMES], "within?": TRUTH},
        "levels?": [{"records": COUNT, "epsilon": NUMBER}],
    },
    "columns manifest": {
        **{"schema": schemas("columns", 3), "package": PACKAGE, "rendering_sha256?": SHA, "written_with": TEXT},
        **{"files": LISTED, "signatures?": NOTHING},
    },
    "columns certificate": {
        **{"schema": schemas("columns", 3), "method": MODEL, "columns": NAMES, "units?": NOTHING},
        "claims": [
            {
                **{"column": ("either", TEXT, NAMES), "level?": RANKED, "sentence?": TEXT},
                **named("beta bits most_bits", NUMBER),
                **named("values? shared?", COUNT),
            }
        ],
        "details": {
            **named("records classes? smallest_class?", COUNT),
            **named("distinct_diversity? entropy_diversity?", {"*": NUMBER}),
            "link_rates?": {"*": [NUMBER]},
        },
        "not_covered": [("either", LIMIT, TEXT)],
        "facts": {"key_is_private?": TRUTH, "order_is_shuffled?": TRUTH},
    },
}


def fits(value: Any, shape: Any, where: str) -> str:
    """Return where a value has not its shape, or an empty text."""
    if isinstance(shape, dict):
        return _fits_object(value, shape, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return where
        return next((bad for i, one in enumerate(value) if (bad := fits(one, shape[0], f"{where}[{i}]"))), "")
    if isinstance(shape, tuple):
        if shape[0] == "either":
            return "" if any(not fits(value, one, where) for one in shape[1:]) else where
        return "" if any(type(value) is type(one) and value == one for one in shape[1:]) else where
    if shape in SHAPES:
        return fits(value, SHAPES[shape], where)
    good = {
        TEXT: isinstance(value, str),
        TRUTH: isinstance(value, bool),
        COUNT: type(value) is int and 0 <= value < 1 << 63,
        NUMBER: type(value) in (int, float) and abs(value) < 1e300,
        SHA: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
        "any": True,
    }
    return "" if good[shape] else where


def _fits_object(value: Any, shape: Any, where: str) -> str:
    if not isinstance(value, dict):
        return where
    fields = {name.rstrip("?"): one for name, one in shape.items() if name != "*"}
    missing = [name for name in shape if name != "*" and not name.endswith("?") and name not in value]
    if missing:
        return f"{where}.{missing[0]}"
    for name, entry in value.items():
        one = fields.get(name, shape.get("*"))
        bad = f"{where}.{name}" if one is None else fits(entry, one, f"{where}.{name}")
        if bad:
            return bad
    return ""


# -- exact levels ----------------------------------------------------------------------------------------------------


def ln(value: Any) -> Decimal:
    """Return the logarithm of a positive rational, with an error below 1e-50; exactly 0 for 1."""
    return exact(Fraction(value)).ln() if value != 1 else Decimal(0)


def exact(value: Any) -> Decimal:
    """Return a fraction as a decimal of 60 digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def at_least(stated: float, true: Decimal, what: str) -> None:
    """Refuse a stated upper bound that is below the truth, or above it by more than 1e-9."""
    need(Decimal(stated) >= true - TINY, f"{what} is stated as {stated!r}: the truth is more, {true:.17g}")
    need(Decimal(stated) <= true + SLACK * (1 + abs(true)), f"{what} is stated as {stated!r}: the truth is {true:.17g}")


def at_most(stated: float, true: Decimal, what: str) -> None:
    """Refuse a stated lower bound that is above the truth, or below it by more than 1e-9."""
    need(Decimal(stated) <= true + TINY, f"{what} is stated as {stated!r}: the truth is less, {true:.17g}")
    need(Decimal(stated) >= true - SLACK * (1 + abs(true)), f"{what} is stated as {stated!r}: the truth is {true:.17g}")


class Law:
    """The exact matrix of a block or subset: rows true, columns released, in units of 2^-53, and its cells."""

    def __init__(self, block: dict[str, Any], sizes: dict[str, int], where: str) -> None:
        """Read a block of mechanism.json; ``sizes`` are the numbers of codes of each variable."""
        self.block, self.names, self.given = block, block["variables"], block.get("given") or []
        self.own = [name for name in self.names if name not in self.given]
        self.where, self.unit = where, block.get("unit") or "record"
        self.prior, self.budget = block["provenance"], block.get("budget", "public")
        self.spent = Fraction(block.get("prior_epsilon", 0))
        need(self.spent >= 0, f"{where}: a prior spends less than nothing")
        need(set(self.given) <= set(self.names) and self.own, f"{where}: its variables and those it reads do not fit")
        need(len(set(self.names)) == len(self.names), f"{where}: a variable twice")
        self.size = 0
        self.diagonal: list[int] = []
        self.off: list[int] = []
        self.rows: list[list[int]] | None = None
        self._weights(block["weights"])
        self.combinations = 0
        self.cells: list[tuple[int, ...]] = [tuple(cell) for cell in block.get("cells", [])]
        if sizes is not None:
            need(set(self.names) <= set(sizes), f"{where}: a variable without categories")
            self._cells([sizes[name] for name in self.names])

    def _weights(self, weights: Any) -> None:
        if isinstance(weights, list):
            self.rows, self.size = weights, len(weights)
        elif "usual" in weights:
            usual, self.size = weights["usual"], len(weights["usual"])
            self._bounded(self.size**2)
            columns, others = weights["columns"], weights["weights"]
            need(len(columns) == len(others) == self.size, f"{self.where}: rows are missing")
            self.rows = [[one] * self.size for one in usual]
            for row, places, values in zip(self.rows, columns, others):
                need(len(places) == len(values) and max(places, default=0) < self.size, f"{self.where}: a column")
                for place, value in zip(places, values):
                    row[place] = value
        else:
            pair = "size" in weights
            self.size = weights["size"] if pair else len(weights["diagonal"])
            self._bounded(self.size)
            self.diagonal = [weights["diagonal"]] * self.size if pair else weights["diagonal"]
            self.off = [weights["off"]] * self.size if pair else weights["off"]
            need(len(self.diagonal) == len(self.off), f"{self.where}: rows are missing")
        need(self.size >= 1, f"{self.where}: no cells")
        if self.rows is None:
            sums: Iterable[int] = (a + (self.size - 1) * b for a, b in zip(self.diagonal, self.off))
        else:
            self._bounded(self.size**2)
            need(all(len(row) == self.size for row in self.rows), f"{self.where}: not a square matrix")
            sums = (sum(row) for row in self.rows)
        need(all(total == UNIT for total in sums), f"{self.where}: a row does not sum to exactly 2^53")

    def _bounded(self, entries: int) -> None:
        if entries > MAX_ENTRIES:
            raise Unchecked(f"{self.where}: a matrix of {self.size:,} cells is too large for this program")

    def _cells(self, sizes: list[int]) -> None:
        self.combinations = math.prod(sizes)
        if "cells" not in self.block:
            need(self.combinations == self.size, f"{self.where}: {self.size:,} cells of {self.combinations:,}")
            self.cells = list(itertools.product(*map(range, sizes)))
        need(len(self.cells) == self.size == len(set(self.cells)), f"{self.where}: the cells do not fit the matrix")
        for cell in self.cells:
            inside = len(cell) == len(sizes) and all(code < size for code, size in zip(cell, sizes))
            need(inside, f"{self.where}: a cell has a code that no category has")

    def row(self, i: int) -> list[int]:
        """Return one row of weights."""
        if self.rows is not None:
            return self.rows[i]
        return [self.off[i]] * i + [self.diagonal[i]] + [self.off[i]] * (self.size - i - 1)

    def dense(self) -> list[list[int]]:
        """Return all rows."""
        if self.size**2 > MAX_ENTRIES:
            raise Unchecked(f"{self.where}: {self.size:,} cells are too many for this program")
        return self.rows if self.rows is not None else [self.row(i) for i in range(self.size)]

    def sha256(self) -> str:
        """Return the digest of the matrix; from 64 cells on, one that is constant off the diagonal has its own."""
        diagonal, off = self.diagonal, self.off
        if not diagonal and self.size >= 64 and self.rows is not None:
            first = [row[1 if i == 0 else 0] for i, row in enumerate(self.rows)]
            if all(one == first[i] for i, row in enumerate(self.rows) for j, one in enumerate(row) if i != j):
                diagonal, off = [row[i] for i, row in enumerate(self.rows)], first
        if diagonal and self.size >= 64:
            parts, form = [diagonal, off], " constant"
        else:
            parts, form = self.dense(), ""
        found = hashlib.sha256(f"postrand-matrix {self.size}{form}\n".encode())
        for part in parts:
            found.update(struct.pack(f"<{len(part)}q", *part))
        return found.hexdigest()

    def classes(self) -> list[Any]:
        """Return the sets of cells that perturbation never leaves, as lists of positions."""
        if self.off and all(self.off):
            return [range(self.size)]
        top = list(range(self.size))

        def find(i: int) -> int:
            while top[i] != i:
                top[i] = i = top[top[i]]
            return i

        for i, row in enumerate(self.dense()):
            for j, weight in enumerate(row):
                if weight:
                    top[find(i)] = find(j)
        found: dict[int, list[int]] = {}
        for i in range(self.size):
            found.setdefault(find(i), []).append(i)
        return sorted(found.values(), key=lambda members: members[0])

    def worst(self, members: Any) -> Fraction | None:
        """Return the largest ratio of two weights in one column, among these rows; None if it is infinite."""
        if self.off and len(members) == self.size:
            order = sorted(range(self.size), key=self.off.__getitem__)
            ratio = Fraction(1)
            for j in range(self.size):
                ends = [self.diagonal[j], *(self.off[i] for i in (*order[:2], *order[-2:]) if i != j)]
                if max(ends) and not min(ends):
                    return None
                ratio = max(ratio, Fraction(max(ends), min(ends) or 1))
            return ratio
        worst = Fraction(1)
        for weights in zip(*(self.row(i) for i in members)):
            high, low = max(weights), min(weights)
            if high and not low:
                return None
            if high and high * worst.denominator > low * worst.numerator:
                worst = Fraction(high, low)
        return worst

    def ratios(self) -> dict[tuple[int, ...], Fraction | None]:
        """Return the ratio e^ε (None: infinite) of each stratum, by its codes, among true values of one class."""
        if self.block.get("at_most_one") is not None:
            return self._states()
        found: dict[tuple[int, ...], Fraction | None] = {}
        still = len(self.classes()) == self.size > 1  # nothing is ever changed
        for members in self.classes():
            strata = {self._stratum(i) for i in members}
            need(len(strata) == 1, f"{self.where}: the matrix changes a variable that the block only reads")
            worst, stratum = None if still else self.worst(members), strata.pop()
            other = found.get(stratum, Fraction(1))
            found[stratum] = None if worst is None or other is None else max(worst, other)
        return found

    def _stratum(self, i: int) -> tuple[int, ...]:
        if not self.given:
            return ()
        return tuple(self.cells[i][self.names.index(name)] for name in self.given)

    def _states(self) -> dict[tuple[int, ...], Fraction | None]:
        """Return a/b by the size of the household: k heads, each with one of k - 1 spouses or nobody."""
        found: dict[tuple[int, ...], Fraction | None] = {}
        place = {cell: i for i, cell in enumerate(self.cells)}
        read, drawn = self.names.index(self.given[0]), self.names.index(self.own[0])
        for code in sorted({cell[read] for cell in self.cells}):
            k = code + 1
            rows = {}
            for cell in self.cells:
                if cell[read] == code:
                    rows[cell[drawn]] = self.row(place[cell])
            head, spouse = self.block["one"], self.block["at_most_one"]
            other = next(iter({0, 1, 2} - {head, spouse}))
            at = {c: place[tuple(code if n == read else c for n in range(2))] for c in (head, spouse, other)}
            if k == 1:
                found[(code,)] = Fraction(1)
                continue
            b = Fraction(rows[spouse][at[head]], k)
            a = rows[head][at[head]] - (k - 1) * b
            wanted = {
                head: (a + (k - 1) * b, (k - 1) * b, (k - 1) ** 2 * b),
                spouse: (k * b, a + (k - 2) * b, (k - 1) ** 2 * b),
                other: (k * b, (k - 1) * b, a + k * (k - 2) * b),
            }
            for true, shares in wanted.items():
                got = tuple(rows[true][at[c]] for c in (head, spouse, other))
                need(got == shares, f"{self.where}: not the matrix of a head and at most one spouse, {k} records")
            found[(code,)] = None if not b else max(a / b, b / a if a else Fraction(1))
        return found

    def check_one(self) -> None:
        """Refuse a matrix that is not the draw of one member of a household."""
        if self.block.get("one") is None or self.block.get("at_most_one") is not None:
            return
        need(len(self.given) == 1 and len(self.own) == 1, f"{self.where}: one of each household reads its size alone")
        read, place = self.names.index(self.given[0]), {cell: i for i, cell in enumerate(self.cells)}
        one = self.block["one"]
        for code in sorted({cell[read] for cell in self.cells}):
            k, yes = code + 1, tuple(code if n == read else one for n in range(2))
            no = tuple(code if n == read else 1 - one for n in range(2))
            if k == 1 or yes not in place or no not in place:
                continue
            a, b = self.row(place[yes])[place[yes]], self.row(place[no])[place[yes]]
            need(a + (k - 1) * b == UNIT, f"{self.where}: not the choice of one of {k} members")

    def top(self) -> Decimal:
        """Return ε: ln of the largest ratio over all strata; it can be infinite."""
        return max(epsilon(self).values())

    def entropy(self) -> Decimal:
        """Return the entropy rate of a bistochastic matrix, in bits; refuse one whose columns do not sum to 1."""
        rows = self.dense()
        need(
            all(sum(column) == UNIT for column in zip(*rows)),
            "a column does not sum to 1: the matrix is not bistochastic",
        )
        counts = Counter(weight for row in rows for weight in row if weight)
        total = sum((n * w * (ln(UNIT) - ln(w)) for w, n in counts.items()), Decimal(0))
        return total / UNIT / self.size / ln(2)


def in_all(laws: list[Law]) -> Decimal:
    """Return the sum of ε of several laws: of those that read variables, the worst stratum counts."""
    total = sum((epsilon(law)[()] for law in laws if not law.given), Decimal(0))
    reading = [(law, epsilon(law)) for law in laws if law.given]
    values: dict[str, set[int]] = {}
    for law, found in reading:
        for place, name in enumerate(law.given):
            values.setdefault(name, set()).update(stratum[place] for stratum in found)
    if math.prod(map(len, values.values())) > MAX_CASES:
        raise Unchecked("the strata are too many for this program")
    worst = Decimal(0)
    for codes in itertools.product(*map(sorted, values.values())):
        at = dict(zip(values, codes))
        parts = (found.get(tuple(at[name] for name in law.given), Decimal(0)) for law, found in reading)
        worst = max(worst, sum(parts, Decimal(0)))
    return total + worst


def epsilon(law: Law) -> dict[tuple[int, ...], Decimal]:
    """Return ε of each stratum; it can be infinite."""
    return {stratum: INFINITE if ratio is None else ln(ratio) for stratum, ratio in law.ratios().items()}


# -- the release -----------------------------------------------------------------------------------------------------


class Release:
    """What is read of a folder, one part after the other."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.files: dict[str, str] = {}
        self.manifest: dict[str, Any] = {}
        self.book: dict[str, Any] = {}
        self.law: dict[str, Any] = {}
        self.certificate: dict[str, Any] = {}
        self.columns: dict[str, dict[str, Any]] = {}
        self.sizes: dict[str, int] = {}
        self.blocks: list[Law] = []
        self.subsets: list[Law] = []
        self.whole, self.data = False, list[str]()
        self.tabled: list[str] = []
        self.copies: list[str] = []
        self.records: int | None = None
        self.tables: list[Counter[int]] = []
        self.ranked: dict[str, list[Any]] = {}
        self.parts: Counter[int | None] = Counter()

    def all_laws(self) -> list[Law]:
        """Return blocks and subsets."""
        return self.blocks + self.subsets

    def read(self, name: str, shape: Any = None) -> dict[str, Any]:
        """Return the value of a JSON file of the release."""
        need(name in self.files, f"{name} is missing")
        value = read_json(self.files[name])
        bad = fits(value, SHAPES[shape or name], name)
        need(not bad, f"{safe(bad)}: not what its schema allows; a newer program may read it")
        return value

    def version(self) -> int:
        """Return the number of the certificate's schema."""
        return int(self.certificate["schema"][-1])


def check_manifest(release: Release) -> None:
    """Check the manifest, and which files there must be."""
    if "manifest.json" not in release.files:
        raise Wrong("manifest.json is missing: give the folder that 'postrand protect --out' made")
    value = read_json(release.files["manifest.json"])
    release.whole = str(value.get("schema", "")).startswith("postrand/columns/")
    release.manifest = release.read("manifest.json", "columns manifest" if release.whole else "manifest.json")
    listed = release.manifest["files"]
    for name in listed:
        need(NAME.fullmatch(name), f"{safe(name)}: not a name of a file of a release")
    need("manifest.json" not in listed and SIGNATURE not in listed, "the manifest lists itself, or its signatures")
    free = [name for name in listed if name not in TOOLS and not name.startswith(("data/", "r_"))]
    like = Counter(map(_look, [*free, *TOOLS]))
    need(max(like.values()) == 1, "two names of files look alike")
    version = VERSION.fullmatch(release.manifest["package"]["version"])
    least = version and [*map(int, version.group(1).split("."))] >= [0, 1, 0]
    need(least, "no version of postrand that writes such a release")
    third = release.manifest["schema"][-1] == "3"
    need(third == ("rendering_sha256" in release.manifest), "rendering_sha256 is missing, or too much")
    needed = ["certificate.json", "report.html"] + ([] if release.whole else ["codebook.json", "mechanism.json"])
    if not release.whole and release.manifest["schema"][-1] != "1":
        needed.append("description.json")
    missing = [name for name in needed if name not in listed]
    need(not missing, f"{', '.join(missing)}: not listed")
    if not release.whole:
        data = release.manifest["data"]
        release.data = [n for n in listed if n == data or (data == "data" and n.startswith("data/"))]
        need(release.data, f"{safe(data)}: the data are not listed")
        parts = any(name.startswith("data/") for name in listed)
        need(parts == (data == "data"), "data in a file, and in a folder")
        writers = {
            lib for lib, kinds in LIBRARIES.items() for n in release.data if n.rpartition(".")[2] in kinds.split()
        }
        library = re.fullmatch(r"([A-Za-z0-9_.-]{1,40})( [A-Za-z0-9.+_() -]{1,60})?", release.manifest["written_with"])
        need(library and (not writers or library.group(1) in writers), "another library than that of the data's format")


def _look(name: str) -> str:
    """Return what is left of a name without case, punctuation, and what tells 0 from o, and 1 and i from l."""
    return re.sub("[._-]", "", name.lower()).translate(str.maketrans("01i", "o" + 2 * "l"))


def check_digests(release: Release) -> str | None:
    """Check that every file has its size and SHA-256, and that there is no other."""
    listed = release.manifest["files"]
    others = sorted(set(release.files) - set(listed) - {"manifest.json", SIGNATURE})
    need(not others, f"{', '.join(map(safe, others))}: not in the manifest")
    for name, stated in listed.items():
        need(name in release.files, f"{safe(name)} is missing")
        need(os.lstat(release.files[name]).st_size == stated["bytes"], f"{safe(name)}: not the file of the manifest")
        if stated["bytes"] > MAX_FILE:
            raise Unchecked(f"{safe(name)}: larger than the 128 GiB that this program reads")
        size, found = digest(release.files[name])
        need(size == stated["bytes"] and found == stated["sha256"], f"{safe(name)}: not the file of the manifest")
    return f"{len(listed)} files have their size and SHA-256"


def check_codebook(release: Release) -> None:
    """Check the codebook."""
    release.book = release.read("codebook.json")
    variables = release.book["variables"]
    names = [v["name"] for v in variables]
    need(len(set(names)) == len(names) and all(names), "a variable twice, or without a name")
    release.columns = {v["name"]: v for v in variables}
    for v in variables:
        need(v["role"] != "drop", f"{safe(v['name'])}: a dropped variable is not released")
        categories = v.get("categories")
        if categories is None:
            need("labels" not in v and "not_released" not in v, f"{safe(v['name'])}: labels without categories")
            continue
        need(categories and len({_key(c) for c in categories}) == len(categories), f"{safe(v['name'])}: categories")
        need(len(v.get("labels", categories)) == len(categories), f"{safe(v['name'])}: labels do not fit")
        need(all(c in categories for c in v.get("missing_codes", [])), f"{safe(v['name'])}: missing codes")
        taken = NOT_RELEASED in [*map(_key, categories), *v.get("labels", [])]
        need(not taken, f"{safe(v['name'])}: a category {NOT_RELEASED}")
    for rule in release.book.get("rules", []):
        need(len(rule) > 0 and set(rule) <= set(names), "a rule names a variable that is not released")
        for name, values in rule.items():
            _codes(name, release.columns[name], values)
    kinds = {"recodes": "2", "survey": "3"}
    for field, least in kinds.items():
        need(field not in release.book or release.book["schema"][-1] >= least, f"{field} need a later schema")
    need(release.book["schema"][-1] != "3" or "survey" in release.book, "no survey design")
    for field in ("weights", "strata", "psu", "fpc"):
        named = release.book.get("survey", {}).get(field)
        need(named is None or named in names, f"the survey design names no variable: {field}")


def _key(value: Any) -> str:
    """Return the text of a category in a file, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _codes(name: str, variable: dict[str, Any], values: Any) -> set[int]:
    """Return the codes that a rule lists; missing answers that are one come last, after a category of their text."""
    held, listed = variable.get("categories") or [], values if isinstance(values, list) else [values]
    known = [*held, NO_ANSWER] if held and variable.get("missing") == "category" else held
    keys = [*map(_key, known)]
    need(all(v in known and _key(v) in keys for v in listed), f"a rule names no category of {safe(name)}")
    return {keys.index(_key(v)) for v in listed}


def check_mechanism(release: Release) -> str | None:
    """Check the matrices: rows sum to exactly 2^53, cells and codes fit."""
    law = release.law = release.read("mechanism.json")
    stated = {v["name"]: v for v in law.get("variables", [])}
    release.sizes = {n: len(v["categories"]) + (v["missing"] == "category") for n, v in stated.items()}
    for name, v in stated.items():
        book = release.columns.get(name, {})
        need("categories" in book, f"{safe(name)}: not a variable with categories in the codebook")
        same = list(map(_key, book["categories"])) == list(map(_key, v["categories"]))
        need(same and book.get("missing", "error") == v["missing"], f"{safe(name)}: not the categories of the codebook")
    split = law.get("split") or {"subsets": []}
    release.blocks = [Law(b, release.sizes, f"block {safe(' x '.join(b['variables']))}") for b in law["blocks"]]
    release.subsets = [Law(b, release.sizes, f"subset {safe(' x '.join(b['variables']))}") for b in split["subsets"]]
    for block in release.blocks:
        need("weight" not in block.block, f"{block.where}: a block has no probability")
        block.check_one()
    if release.subsets:
        need(all("weight" in s.block for s in release.subsets), "a subset has no probability")
        need(sum(s.block["weight"] for s in release.subsets) == UNIT, "the subsets' probabilities do not sum to 2^53")
        need(all(s.block["weight"] > 0 for s in release.subsets), "a subset has probability 0")
        need(len({frozenset(s.own) for s in release.subsets}) == len(release.subsets), "a subset twice")
        need(
            len({s.unit for s in release.subsets}) == 1,
            "one member of each household shows some subsets, and all others",
        )
    own = [name for block in release.blocks for name in block.own]
    split_names = sorted({name for subset in release.subsets for name in subset.own})
    ranked = [column["variable"] for column in law.get("numerical", [])]
    moved = [*own, *split_names, *ranked]
    need(len(set(moved)) == len(moved), "a variable is perturbed twice")
    reads = {name for one in release.all_laws() for name in one.given}
    need(not reads & set(moved), "a variable is perturbed, and read by a block")
    need(set(ranked) <= {n for n, v in release.columns.items() if "categories" not in v}, "a rank law on categories")
    partly = {n for n, v in release.columns.items() if "not_released" in v}
    need(partly == set(split_names), "what is not released is not that of the split")
    used = {*moved, *reads} - set(ranked)
    need(set(release.sizes) == used or not release.sizes, "variables of the law that no block has")
    units = law.get("units") or {}
    for unit in ("household", "person"):
        size = {"household": "largest_household", "person": "most_records"}[unit]
        need((unit in units) == (size in units), f"{unit}: no largest number of records")
        need(units.get(size, 1) >= 1, f"{unit}: no largest number of records")
    need(all(b.unit in units for b in release.all_laws() if b.unit != "record"), "a block's unit is not stated")
    broken = [one.where for one in release.all_laws() if _breaks(one, release)]
    need(not broken, f"{', '.join(broken)}: releases a combination that a rule forbids")
    cells = sum(one.size for one in release.all_laws())
    return f"{len(release.all_laws())} matrices with {cells:,} rows, each summing to exactly 2^53"


def _rules(release: Release) -> Iterator[dict[str, set[int]]]:
    """Yield each rule as its variables, with the codes that do not go together."""
    for rule in release.book.get("rules", []):
        yield {name: _codes(name, release.columns[name], values) for name, values in rule.items()}


def _breaks(law: Law, release: Release) -> bool:
    """Tell whether a law can release a combination of its own variables that a rule forbids."""
    rules = [rule for rule in _rules(release) if set(rule) <= set(law.names)]
    if not rules:
        return False
    released = _released(law)
    for i, cell in enumerate(law.cells):
        at = dict(zip(law.names, cell))
        if released(i) and any(all(at[n] in codes for n, codes in rule.items()) for rule in rules):
            # A forbidden combination is released only where its true one can occur: from another cell.
            return any(law.row(k)[i] for k in range(law.size) if k != i) if law.rows is not None else True
    return False


def _released(law: Law) -> Callable[[int], bool]:
    """Return whether a cell is ever released."""
    if law.rows is not None:
        seen = [any(column) for column in zip(*law.rows)]
        return seen.__getitem__
    others = sum(1 for one in law.off if one)
    return lambda i: bool(law.diagonal[i]) or others > (1 if law.off[i] else 0)


# -- the certificate -------------------------------------------------------------------------------------------------


def check_certificate(release: Release) -> str | None:
    """Check digests, blocks and account of the certificate."""
    c = release.certificate = release.read("certificate.json")
    third = c["schema"][-1] == "3"
    need(release.manifest["schema"][-1] == c["schema"][-1], "manifest and certificate have different schemas")
    for entry in [*c["claims"], *c.get("numerical", [])]:
        need(third != ("sentence" in entry), "a claim with a sentence, or without one in an early schema")
    if c["schema"][-1] != "1":
        need(c["mechanism_sha256"] == compact(release.law), "the certificate names another law (mechanism_sha256)")
        book = {k: v for k, v in release.book.items() if k != "schema"}
        book["variables"] = [{k: x for k, x in v.items() if k != "not_released"} for v in book["variables"]]
        need(c.get("codebook_sha256") == compact(book), "the certificate names another codebook (codebook_sha256)")
    need(len(c["blocks"]) == len(release.blocks), "not as many blocks as matrices")
    need(len(c.get("split", [])) == len(release.subsets), "not as many subsets as matrices")
    stated = [*c["blocks"], *c.get("split", [])]
    for law, charge in zip(release.all_laws(), stated):
        _charge(law, charge, release)
    return f"digests, {len(stated)} matrices with their ε"


def _charge(law: Law, charge: dict[str, Any], release: Release) -> None:
    for field, value in (("variables", law.names), ("given", law.given), ("prior", law.prior)):
        need(charge.get(field, []) == value, f"{law.where}: {field} is not that of the matrix")
    need(charge["matrix_sha256"] == law.sha256(), f"{law.where}: the digest of another matrix")
    need(charge.get("budget", law.budget) == law.budget, f"{law.where}: budget is not that of the matrix")
    need(charge.get("unit", "record") == law.unit, f"{law.where}: unit is not that of the matrix")
    need(charge.get("weight") == law.block.get("weight"), f"{law.where}: weight is not that of the subset")
    if release.version() > 1:
        need(Fraction(charge.get("prior_epsilon", 0)) == law.spent, f"{law.where}: what its prior spent")
    classes = len(law.classes())
    need(charge.get("classes", 1) == classes, f"{law.where}: {classes} classes")
    _same_level(charge["epsilon"], law.top(), f"{law.where}: ε")


def _same_level(stated: float | None, true: Decimal, what: str) -> None:
    """Refuse a stated ε that is not the true one; null is an infinite one."""
    need((stated is None) == (true == INFINITE), f"{what} is finite in one place only")
    if stated is not None:
        at_least(stated, true, what)


def check_facts(release: Release) -> None:
    """Check the facts that the columns contradict, and the description."""
    facts, roles = release.certificate["facts"], {v["role"] for v in release.columns.values()}
    renumbered, ids = facts.get("households_are_renumbered", False), facts["ids_are_released"]
    need("household" in roles or not renumbered, "households are said to be renumbered, and none are released")
    need(("record_key" in roles) or not ids, "ids are said to be released, and none are")
    if "description.json" in release.manifest["files"]:
        release.read("description.json")


def total_of(release: Release, blocks: list[Law] | None = None, subsets: list[Law] | None = None) -> Decimal:
    """Return ε of a record for blocks and subsets, by default for all: with what their priors spent."""
    blocks = release.blocks if blocks is None else blocks
    subsets = release.subsets if subsets is None else subsets
    shown = max((in_all([one]) for one in subsets), default=Decimal(0))
    return in_all(blocks) + shown + _spent(blocks + subsets)


def _spent(laws: list[Law]) -> Decimal:
    return exact(sum((law.spent for law in laws), Fraction(0)))


def check_account(release: Release) -> str | None:
    """Check what a record spends: by block, by prior, together."""
    account, laws = release.certificate["account"], release.blocks
    need(len(account["blocks"]) == len(laws), "account: not as many blocks as matrices")
    for law, stated in zip(laws, account["blocks"]):
        _same_level(stated, law.top(), f"account: {law.where}")
    spent = [law.spent for law in laws]
    subsets = max((law.spent for law in release.subsets), default=Fraction(0))
    stated = list(map(Fraction, account["priors"]))
    need(stated[: len(spent)] == spent, "account: what priors spent is not that of the law")
    need(sum(stated) in (sum(spent), sum(spent) + subsets), "account: what priors spent is not that of the law")
    _same_level(account["total"], total_of(release), "account: total")
    return "no finite ε" if account["total"] is None else f"ε <= {account['total']:.9g} for a record"


def check_claim(release: Release, claim: dict[str, Any]) -> str | None:
    """Check one claim: what the law attains, and that it is within what is promised."""
    names, model = claim["variables"], claim["privacy"]["model"]
    need(names and len(set(names)) == len(names), "no variables")
    blocks = [law for law in release.blocks if set(law.own) & set(names)]
    subsets = [law for law in release.subsets if set(law.own) & set(names)]
    held = {name for law in blocks + subsets for name in law.own}
    need(set(names) <= held, "names a variable that no matrix perturbs")
    need(set().union(*[law.own for law in blocks], set()) <= set(names) or model != "bistochastic", "a part of a block")
    within = any(len(law.classes()) > 1 for law in blocks + subsets)
    if model not in CLAIMS:
        raise Wrong(f"an unknown privacy model: {safe(model)}")
    need(
        ("within" in claim) == (within and model == "differential"), "within classes or not: the matrices say otherwise"
    )
    return CLAIMS[model](release, claim, blocks, subsets)


def _options(claim: dict[str, Any], *needed: str, allowed: tuple[str, ...] = ()) -> list[float]:
    options = {k: v for k, v in claim["privacy"].items() if k != "model"}
    need(set(needed) <= set(options) <= {*needed, *allowed}, "its privacy has other options than its model")
    for name in needed:
        need(not fits(options[name], NUMBER, name) and options[name] >= 0, f"{name} is not a number")
    return [options[name] for name in needed]


def claim_differential(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> str | None:
    """ε: the sum over blocks, the largest of subsets, and what priors spent."""
    (limit,) = _options(claim, "epsilon")
    total = total_of(release, blocks, subsets)
    need(total < INFINITE, "the matrices have no finite ε")
    need(total - TINY <= Decimal(limit), f"ε <= {limit!r} is claimed, and the matrices have {total:.17g}")
    at_least(claim["level"], total, "level")
    need(claim["level"] <= limit, "the level is above the claim")
    _figures(release, claim, total, _spent(blocks + subsets))
    return f"ε <= {claim['level']:.9g}"


def _figures(release: Release, claim: dict[str, Any], total: Decimal, spent: Decimal) -> None:
    """Check the figure beside ε: that of the matrices alone, where priors spent something."""
    figures = claim.get("figures", {})
    if release.version() > 2:
        need(set(figures) == ({"law_level"} if spent else set()), "figures: not those of this claim")
    if spent and figures:
        at_least(figures["law_level"], total - spent, "figures: law_level")


def claim_metric(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> str | None:
    """ε for a distance: the largest ln-ratio of the two ends of an edge over its length."""
    (limit,) = _options(claim, "epsilon", allowed=("edges", "points"))
    need(len(blocks) == 1 and not subsets and len(blocks[0].names) == 1, "a metric is for one variable")
    law, worst = blocks[0], Decimal(0)
    labels = list(map(_key, release.columns[law.names[0]]["categories"]))
    edges = claim["privacy"].get("edges")
    need(isinstance(edges, list) and edges, "no edges")
    joined = list(range(law.size))

    def find(i: int) -> int:
        while joined[i] != i:
            i = joined[i]
        return i

    for edge in edges:
        good = isinstance(edge, list) and len(edge) == 3 and not fits(edge[2], NUMBER, "it") and edge[2] > 0
        need(good, "an edge is not two categories and a length")
        ends = [_code(end, labels, law.size) for end in edge[:2]]
        joined[find(ends[0])] = find(ends[1])
        for a, b in zip(law.row(ends[0]), law.row(ends[1])):
            need(bool(a) == bool(b), "the matrix has no finite level for this distance")
            if a != b:
                worst = max(worst, abs(ln(Fraction(a, b))) / exact(Fraction(edge[2])))
    need(len({find(i) for i in range(law.size)}) == 1, "the edges do not connect all categories")
    need(worst - TINY <= Decimal(limit), f"ε <= {limit!r} is claimed, and the matrix has {worst:.17g}")
    spent = _spent(blocks)
    at_least(claim["level"], worst + spent, "level")
    return f"ε <= {claim['level']:.9g} at distance 1, over {len(edges)} edges"


def _code(end: Any, labels: list[str], size: int) -> int:
    if type(end) is int and 0 <= end < size:
        return end
    need(_key(end) in labels, "an edge names no category")
    return labels.index(_key(end))


def claim_bistochastic(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> str | None:
    """β: bits of all blocks over the most that there can be, with rows and columns that sum to 1."""
    (limit,) = _options(claim, "beta")
    need(not subsets, "a split has no β")
    found = [law.entropy() for law in blocks]
    bits, most = sum(found, Decimal(0)), sum((ln(law.size) / ln(2) for law in blocks), Decimal(0))
    level = bits / most if most else Decimal(1)
    need(level + TINY >= Decimal(limit), f"β >= {limit!r} is claimed, and the matrices have {level:.17g}")
    at_most(claim["level"], level, "level")
    figures = claim.get("figures") or {}
    if release.version() > 2:
        need({"bits", "most_bits"} <= set(figures), "no bits")
        at_most(figures["bits"], bits, "bits")
        need(abs(Decimal(figures["most_bits"]) - most) <= SLACK * (1 + most), "most_bits")
    return f"β >= {claim['level']:.9g}"


def _pairs(law: Law) -> set[Any]:
    """Return the different pairs of rows of one class, each as the sorted pairs of its weights."""
    found = set()
    for members in law.classes():
        if len(members) ** 2 * law.size > MAX_ENTRIES:
            raise Unchecked(f"{law.where}: the pairs of rows are too many for this program")
        rows = [law.row(i) for i in members]
        for one, two in itertools.permutations(rows, 2):
            found.add(tuple(sorted(Counter(zip(one, two)).items())))
    return found or {(((UNIT, UNIT), 1),)}


def claim_approximate(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> str | None:
    """δ at ε: the hockey-stick divergence of the worst pair of rows of all blocks together, summed exactly."""
    limit, most = _options(claim, "epsilon", "delta")
    if subsets or any(law.given for law in blocks):
        raise Unchecked("δ of a split, or of strata, is not computed by this program")
    factor = Fraction(Decimal(limit).exp() * (1 - Decimal("1e-50")))  # rounded down: δ is rounded up
    worst, pairs = Fraction(0), [_pairs(law) for law in blocks]
    if math.prod(map(len, pairs)) > 1000:
        raise Unchecked("the pairs of rows are too many for this program")
    for choice in itertools.product(*pairs):
        product: dict[tuple[int, int], int] = {(1, 1): 1}
        for one in choice:
            step: Counter[tuple[int, int]] = Counter()
            for (p, q), n in product.items():
                for (a, b), m in one:
                    step[(p * a, q * b)] += n * m
            product = step
            if len(product) > MAX_CASES:
                raise Unchecked("the products of probabilities are too many for this program")
        delta = sum((n * max(Fraction(0), p - factor * q) for (p, q), n in product.items()), Fraction(0))
        worst = max(worst, delta / UNIT ** len(blocks))
    need(Fraction(claim["level"]) >= worst - Fraction(1, 10**40), "δ is understated")
    need(claim["level"] <= most, "δ is above the claim")
    return f"δ <= {claim['level']:.9g} at ε = {limit:g}; exactly {float(worst):.9g}"


def claim_renyi(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> str | None:
    """Rényi divergence of one order: the sum over blocks of that of the worst pair of rows."""
    limit, order = _options(claim, "level", "order")
    need(order > 1, "the order is not above 1")
    if subsets or any(law.given for law in blocks):
        raise Unchecked("a Rényi level of a split, or of strata, is not computed by this program")
    total, a = Decimal(0), Decimal(order)
    for law in blocks:
        worst = Decimal(0)
        for pair in _pairs(law):
            need(all(not p or q for (p, q), _ in pair), "the matrices have no finite Rényi level")
            terms = (n * (a * ln(p) + (1 - a) * ln(q)).exp() for (p, q), n in pair if p)
            worst = max(worst, (sum(terms, Decimal(0)) / UNIT).ln() / (a - 1))
        total += worst
    total += _spent(blocks)
    need(total - TINY <= Decimal(limit), "the claim is below what the matrices have")
    at_least(claim["level"], total, "level")
    return f"level <= {claim['level']:.9g} at order {order:g}"


def claim_concentrated(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> None:
    """ρ: not below the Kullback-Leibler divergence, which it bounds at order 1; other orders are not tried."""
    (limit,) = _options(claim, "rho")
    need(claim["level"] <= limit, "the level is above the claim")
    if subsets or any(law.given for law in blocks):
        raise Unchecked("ρ of a split, or of strata, is not computed by this program")
    least = Decimal(0)
    for law in blocks:
        worst = Decimal(0)
        for pair in _pairs(law):
            need(all(not p or q for (p, q), _ in pair), "the matrices have no finite ρ")
            worst = max(worst, sum((n * p * ln(Fraction(p, q)) for (p, q), n in pair if p), Decimal(0)) / UNIT)
        least += worst
    need(Decimal(claim["level"]) >= least - TINY, "ρ is understated")
    raise Unchecked(f"ρ >= {least:.9g} holds; that {claim['level']:.9g} suffices for every order needs postrand verify")


def claim_shuffled(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> None:
    """(ε, δ) of the whole file: a numerical bound that this program does not compute."""
    _options(claim, "epsilon", "delta", "records")
    need(claim["level"] <= claim["privacy"]["delta"], "δ is above the claim")
    if release.records is not None:
        need(claim["privacy"]["records"] == release.records, "not the number of records of the data")
    raise Unchecked("the numerical bound for shuffled records needs postrand verify")


def claim_recognition(release: Release, claim: dict[str, Any], blocks: list[Law], subsets: list[Law]) -> None:
    """α: it rests on the file's frequencies."""
    _options(claim, "alpha", allowed=("subsets",))
    need(claim.get("recomputable") is False, "a claim on the file's frequencies is said to be recomputable")
    alpha = claim["privacy"]["alpha"]
    need(
        alpha > 0 and (release.records is None or release.records * alpha >= 1), "no matrix meets α for so few records"
    )
    raise Said("it rests on the frequencies of the file: only an auditor with the file can recompute it")


CLAIMS = {
    "differential": claim_differential,
    "metric": claim_metric,
    "bistochastic": claim_bistochastic,
    "approximate": claim_approximate,
    "renyi": claim_renyi,
    "concentrated": claim_concentrated,
    "shuffled": claim_shuffled,
    "recognition": claim_recognition,
}


def check_limits(release: Release) -> None:
    """Check what the certificate says that it does not cover, as far as this follows from the other files."""
    stated = release.certificate["not_covered"]
    if release.version() < 3:
        raise Said("the certificate holds sentences in place of codes, which are not compared")
    need(not any(isinstance(one, str) for one in stated), "a sentence in place of a code")
    wanted, free = expected_limits(release), {"persons", "listed_classes", "classes", "recognition"}
    free |= {"unchanged_values", "selected_values", "presence", "settled_person", "settled_household"}
    free |= {f"several_{unit}" for unit in ("person", "household")}
    known = free | {"links_alone", "link_rate"} | {one["code"] for one in wanted} | set(LIMIT_CODES)
    need(all(one["code"] in known for one in stated), "an unknown code")
    said = list(map(_unordered, stated))
    need(len(set(said)) == len(said), "a limit twice")
    must = set(map(_unordered, wanted))
    got = {text for text, one in zip(said, stated) if one["code"] not in free}
    lacking, added = sorted(must - got), sorted(got - must)
    need(not lacking, f"not said: {safe('; '.join(lacking))}")
    need(not added, f"said, but not so: {safe('; '.join(added))}")
    codes = {one["code"] for one in stated}
    units = bool(release.certificate.get("units"))
    need(("presence" if units else "persons") in codes, "not said: that a person is in the file is not covered")
    moved = any(one["privacy"]["model"] == "recognition" for one in release.certificate["claims"])
    need(("recognition" in codes) == moved, "security against recognition: a limit without a claim, or the reverse")
    for law in release.all_laws():
        classes = law.classes()
        found = [
            one for one in stated if one["code"] in ("classes", "listed_classes") and one.get("block") == law.names
        ]
        need(bool(found) == (len(classes) > 1) or "selected_values" in codes, f"{law.where}: its classes")
        need(all(one["classes"] == len(classes) for one in found), f"{law.where}: its classes")


def _unordered(limit: dict[str, Any]) -> str:
    """Return a limit as a text in which the order of names does not matter."""
    sets: dict[str, Any] = {name: sorted(limit[name]) for name in ("variables", "given") if name in limit}
    blocks: dict[str, Any] = {"blocks": sorted(map(sorted, limit["blocks"]))} if "blocks" in limit else {}
    return json.dumps({**limit, **sets, **blocks}, sort_keys=True)


LIMIT_CODES = re.findall(
    r"\w+",
    """not_private covers unclaimed unchanged fresh_numbers missing_shown feasible strata confidential_matrix
    unstated_matrix dp_budget confidential_budget unstated_budget confidential_recodes unstated_spending no_epsilon
    permuted averaged original_order ids shared_person shared_household one_member""",
)


def expected_limits(release: Release) -> list[dict[str, Any]]:
    """Return the limits that follow from law, codebook and facts, each as its object."""
    c, laws, facts = release.certificate, release.all_laws(), release.certificate["facts"]
    limits: list[dict[str, Any]] = [] if facts["key_is_private"] else [{"code": "not_private"}]
    covered = list(dict.fromkeys(name for claim in c["claims"] for name in claim["variables"]))
    perturbed = list(dict.fromkeys(name for law in laws for name in law.own))
    ranked = [column["variable"] for column in release.law.get("numerical", [])]
    if covered:
        limits.append({"code": "covers", "variables": covered})

    def add(code: Any, variables: Any) -> None:
        if variables:
            limits.append({"code": code, "variables": variables})

    add("unclaimed", [name for name in perturbed if name not in covered])
    for law in laws:
        if law.given:
            limits.append({"code": "strata", "block": law.names, "given": law.given})
        if law.combinations > law.size:
            counts = {"cells": law.size, "combinations": law.combinations}
            limits.append({"code": "feasible", "block": law.names, **counts})
    clear = [
        v for v in release.columns.values() if v["name"] not in {*perturbed, *ranked} and v["role"] != "record_key"
    ]
    fresh = [v["name"] for v in clear if v["role"] == "household" and facts.get("households_are_renumbered")]
    add("unchanged", [v["name"] for v in clear if v["name"] not in fresh])
    add("fresh_numbers", fresh)
    add("missing_shown", [n for n in [*perturbed, *ranked] if release.columns[n].get("missing") == "keep"])
    add("no_epsilon", ranked)
    for column in release.law.get("numerical", []):
        limits.append({"code": column["form"] + "d", "variable": column["variable"]})
    split = list(dict.fromkeys(name for law in release.subsets for name in law.names))
    designs = [(law.names, law) for law in release.blocks] + [(split, law) for law in release.subsets[:1]]
    for code, chosen in (
        ("confidential_matrix", [names for names, law in designs if law.prior == "confidential"]),
        ("unstated_matrix", [names for names, law in designs if law.prior == "unstated"]),
        ("unstated_spending", [names for names, law in designs if law.prior == "dp" and not law.spent]),
        *((f"{one}_budget", [names for names, law in designs if law.budget == one]) for one in ORIGINS[1:]),
    ):
        if chosen:
            limits.append({"code": code, "blocks": chosen})
    recodes = release.book.get("recodes", [])
    add("confidential_recodes", [one["variable"] for one in recodes if one.get("provenance") == "confidential"])
    limits += [] if facts["order_is_shuffled"] else [{"code": "original_order"}]
    limits += [{"code": "ids"}] if facts["ids_are_released"] else []
    for unit in ("person", "household"):
        add(f"shared_{unit}", [name for law in release.blocks if law.unit == unit for name in law.own])
    members = [name for law in release.subsets if law.unit == "household" for name in law.own]
    add("one_member", list(dict.fromkeys(members)))
    return limits


def check_units(release: Release) -> str | None:
    """Check the levels of persons and households: blocks drawn once, and others once for each record."""
    stated, units = release.certificate.get("units"), release.law.get("units") or {}
    need(bool(stated) == bool(units), "units: stated in one place only")
    for unit, entry in sorted((stated or {}).items()):
        need(unit in units and entry["column"] == units[unit], f"{unit}: not the column of the law")
        once = [b for b in release.blocks if b.unit == "household" or b.unit == unit]
        shown = [b.own for b in release.blocks if b.unit == unit]
        need(entry["variables"] == [name for names in shown for name in names], f"{unit}: not the variables drawn once")
        each = [b for b in release.blocks if b not in once]
        member = bool(release.subsets) and release.subsets[0].unit == "household"
        chosen = list(dict.fromkeys(name for s in release.subsets for name in s.own)) if member else []
        need(entry.get("member", []) == (chosen if unit == "household" else []), f"{unit}: not what one member shows")
        most = units["largest_household" if unit == "household" else "most_records"]
        fixed, more = in_all(once), in_all(each) + _spent(release.all_laws())
        split = max((in_all([one]) for one in release.subsets), default=Decimal(0))
        infinite = fixed + more + split == INFINITE
        need(("infinite" in entry) == infinite, f"{unit}: ε is finite in one place only")
        need(("infinite" in entry) != ("levels" in entry), f"{unit}: levels or the blocks without one")
        if infinite:
            continue
        records = [level["records"] for level in entry["levels"]]
        need(
            records == sorted({k for k in (1, 2, 4, most) if k <= most}),
            f"{unit}: not the levels of 1, 2, 4 and the most",
        )
        fixed, more = (fixed + split, more) if member else (fixed, more + split)
        for level in entry["levels"]:
            at_least(level["epsilon"], fixed + level["records"] * more, f"{unit}: ε of {level['records']} records")
        classes = any(len(law.classes()) > 1 for law in release.all_laws())
        need(bool(entry.get("within")) == classes, f"{unit}: within classes or not")
    return "levels of " + " and ".join(sorted(stated)) if stated else None


def check_series(release: Release) -> str | None:
    """Check that the place in a series is well formed, and its total not below the level of this release."""
    series = release.certificate.get("series")
    if series is None:
        return None
    level, total = series["level"]["epsilon"], series["total"]["epsilon"]
    own = release.certificate["account"]["total"]
    need(series["number"] >= 1 and series["population"], "no number or population")
    need((series["kind"] == "first") == (series["number"] == 1), "the first release is not the first")
    need(level == own, "its level is not that of the account")
    need(total is None or (level is not None and total >= level), "the total is below the level of this release")
    for one in (series["level"], series["total"]):
        need(0 <= one.get("delta", 0) < 1, "δ is not from 0 to 1")
    stated = "no finite ε" if total is None else f"ε <= {total:.6g}"
    return f"release {series['number']} of a population; that the total is {stated} needs its ledger"


def check_file(release: Release) -> str | None:
    """Check the level of the file: records and conditions. Its bounds are numerical, and left to the program."""
    stated = release.certificate.get("file")
    if stated is None:
        return None
    need(0 < stated["delta"] < 1, "δ is not between 0 and 1")
    need(release.records is None or stated["records"] == release.records, "not the number of records of the data")
    fails = sorted({one["code"] for one in stated.get("fails", [])})
    wanted = sorted(_conditions(release))
    need(
        fails == wanted,
        f"conditions that fail: {', '.join(wanted) or 'none'}; stated: {', '.join(map(safe, fails)) or 'none'}",
    )
    need(bool(fails) != ("epsilon" in stated), "a level, or the conditions that fail")
    if fails:
        return "no level: " + ", ".join(fails)
    bounds, total = stated["bounds"], total_of(release)
    need(stated["bound"] == min(sorted(bounds), key=bounds.__getitem__), "not the least bound")
    need(Decimal(stated["epsilon"]) <= total + SLACK, "above the record's ε")
    need(stated["epsilon"] >= bounds[stated["bound"]], "below its bound")
    raise Unchecked("the conditions hold; the two numerical bounds need postrand verify")


def _conditions(release: Release) -> Iterator[str]:
    """Yield the code of each condition of a level of the file that fails."""
    c, laws, facts = release.certificate, release.all_laws(), release.certificate["facts"]
    limits = {one["code"]: one for one in expected_limits(release)}
    yield from ["order"] if "original_order" in limits else []
    yield from ["ids"] if "ids" in limits else []
    clear = limits.get("unchanged", {"variables": []})["variables"]
    roles = {release.columns[name]["role"] for name in clear}
    yield from ["weight"] if "weight" in roles else []
    yield from ["household"] if "household" in roles or "fresh_numbers" in limits else []
    yield from ["clear"] if roles - {"weight", "household"} else []
    yield from ["missing"] if "missing_shown" in limits else []
    for code in ("shared_person", "shared_household", "one_member", "confidential_recodes", "unstated_spending"):
        yield from [code] if code in limits else []
    yield from ["ranks"] if "no_epsilon" in limits else []
    yield from ["strata"] if "strata" in limits else []
    yield from ["selected"] if any(one["code"] == "selected_values" for one in c["not_covered"]) else []
    yield from ["no_epsilon"] if any(law.top() == INFINITE for law in laws) else []
    for origin in ("confidential", "unstated"):
        yield from [f"{origin}_prior"] if any(origin in (law.prior, law.budget) for law in laws) else []
    yield from ["file_claims"] if any(claim.get("recomputable") is False for claim in c["claims"]) else []
    yield from ["seed"] if not facts["key_is_private"] else []
    yield from ["reused_key"] if facts.get("key_is_reused") else []


# -- the data --------------------------------------------------------------------------------------------------------

FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\Z)')


def records_of(paths: list[str]) -> Iterator[tuple[bool, list[tuple[str, bool]]]]:
    """Yield the records of CSV files, the header of each first: a field is (its text, whether it was quoted)."""
    for path in paths:
        with opened(path) as file:
            waiting, length, is_open, first = list[str](), 0, False, True
            while True:
                line = file.readline(MAX_LINE)
                if not line:
                    need(not waiting, "the last record does not end")
                    break
                try:
                    waiting.append(line.decode("utf-8"))
                except UnicodeDecodeError:
                    raise Wrong("the data are not UTF-8") from None
                length += len(waiting[-1])
                need(length < MAX_LINE, "a record of more than a million characters")
                is_open ^= waiting[-1].count('"') % 2 == 1
                if is_open:
                    continue
                need(waiting[-1].endswith("\n"), "the last record does not end")
                yield first, _fields("".join(waiting)[:-1])
                waiting, length, first = [], 0, False
            need(not first, "a data file without a header")


def _fields(line: str) -> list[tuple[str, bool]]:
    found, place = [], 0
    while True:
        match = FIELD.match(line, place)
        if match is None:
            raise Wrong("a record is no CSV")
        quoted = match.group(1) is not None
        found.append((match.group(1).replace('""', '"') if quoted else match.group(2), quoted))
        place = match.end()
        if not match.group(3):
            return found


def coder(variable: dict[str, Any]) -> Callable[[tuple[str, bool]], Any]:
    """Return a function from a field to the code of its category; None for what stays missing or is not released."""
    policy, categories = variable.get("missing", "error"), variable["categories"]
    texts = {(_key(c), True): i for i, c in enumerate(categories) if isinstance(c, str) or "not_released" in variable}
    texts.update({(_key(c), False): i for i, c in enumerate(categories) if isinstance(c, bool)})
    numbers = {c: i for i, c in enumerate(categories) if type(c) in (int, float)}
    hidden = variable.get("not_released")

    def code(field: tuple[str, bool]) -> Any:
        if field in texts:
            return texts[field]
        text, quoted = field
        if not text and not quoted:
            need(policy != "error", "a missing value where none may be")
            return len(categories) if policy == "category" else None
        if hidden is not None and text == str(hidden):
            return hidden
        value = None if quoted else number(text)
        need(value in numbers, "a value that the codebook does not have")
        return numbers[value]

    return code


def number(text: str) -> int | float | None:
    """Return the number that a text is, or None."""
    if len(text) > 400 or not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
        return None
    value = int(text) if re.fullmatch(r"-?\d{1,300}", text) else float(text)
    return value if isinstance(value, int) or math.isfinite(value) else None


def check_data(release: Release) -> str | None:
    """Check every value against codebook, rules, law and households, and count the cells."""
    if not all(name.endswith(".csv") for name in release.data):
        raise Unchecked("the data are no CSV: their digests alone are checked here")
    names = [
        n
        for n, v in release.columns.items()
        if v["role"] != "record_key" or release.certificate["facts"]["ids_are_released"]
    ]
    codes = {n: coder(release.columns[n]) for n in names if "categories" in release.columns[n]}
    places = {name: place for place, name in enumerate(names)}
    laws = release.all_laws()
    index = [{cell: i for i, cell in enumerate(law.cells)} for law in laws]
    seen = [_released(law) for law in laws]
    rules, home = list(_rules(release)), _Homes(release, names)
    ranked: dict[str, list[Any]] = {c["variable"]: [] for c in release.law.get("numerical", [])}
    tables: list[Counter[int]] = [Counter() for _ in laws]
    shown: Counter[int | None] = Counter()
    total = 0
    paths = [release.files[name] for name in sorted(release.data)]
    for header, fields in records_of(paths):
        if header:
            got = [text for text, _ in fields]
            need(got == names, "the columns are not those of the codebook, in its order")
            continue
        total += 1
        need(len(fields) == len(names), "a record has more or fewer fields than columns")
        at = {n: code(fields[places[n]]) for n, code in codes.items()}
        for n, v in release.columns.items():
            if n in places and n not in at:
                _plain(fields[places[n]], v)
        need(
            not any(all(at.get(n) in have for n, have in rule.items()) for rule in rules),
            "a combination that a rule forbids",
        )
        part = _which(release, at)
        shown[part] += bool(release.subsets)
        for i, law in enumerate(laws):
            if i >= len(release.blocks) and part != i - len(release.blocks):
                continue
            cell = tuple(at[n] for n in law.names)
            if None in cell:
                continue
            place = index[i].get(cell)
            if place is None or not seen[i](place):
                raise Wrong(f"{law.where}: a combination that it never releases")
            if law.unit == "record" or (i >= len(release.blocks) and part is not None):
                tables[i][place] += 1
            elif law.unit == "household" and home.new(fields):
                tables[i][place] += law.block.get("one") is None
        for n, values in ranked.items():
            text = fields[places[n]][0]
            if text:
                values.append(number(text))
        home.add(fields, at, part)
    home.finish(release)
    release.records, release.tables, release.ranked, release.parts = total, tables, ranked, shown
    return f"{total:,} records fit codebook, rules and law"


def _plain(field: tuple[str, bool], variable: dict[str, Any]) -> None:
    text, quoted = field
    if not text and not quoted:
        need(variable.get("missing", "error") == "keep", "a missing value where none may be")
        return
    kind = variable.get("type", "string")
    if kind in ("double", "float", "int64", "int32", "int16", "int8"):
        value = None if quoted else number(text)
        need(
            value is not None and (isinstance(value, int) or kind[0] != "i"), "a number is expected, and there is none"
        )


def _which(release: Release, at: dict[str, Any]) -> int | None:
    """Return which subset a record shows, or None where it shows none."""
    if not release.subsets:
        return None
    split = {n for law in release.subsets for n in law.own}
    hidden = {n for n in split if at[n] == release.columns[n]["not_released"] and not isinstance(at[n], int)}
    hidden |= {n for n in split if isinstance(at[n], str)}
    for i, law in enumerate(release.subsets):
        if set(law.own) == split - hidden:
            return i
    need(hidden == split and release.subsets[0].unit == "household", "a record shows what is no subset")
    return None


class _Homes:
    """What the records of each household show."""

    def __init__(self, release: Release, names: list[str]) -> None:
        units = release.law.get("units") or {}
        self.column = names.index(units["household"]) if units.get("household") in names else None
        self.most = units.get("largest_household", 0)
        self.once = [law for law in release.blocks if law.unit == "household" and law.block.get("one") is None]
        self.one = [law for law in release.blocks if law.block.get("one") is not None]
        self.member = bool(release.subsets) and release.subsets[0].unit == "household"
        self.held: dict[Any, Any] = {}
        self.alone = 0
        self.read: dict[Any, set[int]] = {}

    def new(self, fields: list[tuple[str, bool]]) -> bool:
        """Tell whether this is the first record of its household."""
        return self.column is None or not fields[self.column][0] or fields[self.column] not in self.held

    def add(self, fields: list[tuple[str, bool]], at: dict[str, Any], part: int | None) -> None:
        """Take a record."""
        if self.column is None:
            return
        self.alone += not fields[self.column][0]
        house = fields[self.column] if fields[self.column][0] else ("", self.alone)
        values = tuple(at[n] for law in self.once for n in law.own)
        ones = [at[law.own[0]] for law in self.one]
        size, first, members, firsts, others = self.held.get(house, (0, values, 0, [0] * len(ones), [0] * len(ones)))
        need(first == values, "a household shows two values of what is drawn once for it")
        firsts = [n + (code == law.block["one"]) for n, code, law in zip(firsts, ones, self.one)]
        others = [n + (code == law.block.get("at_most_one")) for n, code, law in zip(others, ones, self.one)]
        self.held[house] = (size + 1, first, members + (part is not None), firsts, others)
        need(size + 1 <= self.most, "a household is larger than stated")
        self.read.setdefault(house, set()).update(at[law.given[0]] for law in self.one)

    def finish(self, release: Release) -> None:
        """Check whole households."""
        for house, (size, _, members, firsts, others) in self.held.items():
            need(members == 1 or not self.member, "a household has not exactly one member who shows something")
            need(all(n == 1 for n in firsts), "a household has not exactly one record with a category that one has")
            need(all(n <= 1 for n in others), "a household has two records with a category that at most one has")
            need(
                all(code + 1 == size for code in self.read[house]), "a household has not the size that its records say"
            )


def check_margins(release: Release) -> str | None:
    """Test every count by itself: a right release is refused with a probability of at most 1e-9."""
    if release.records is None:
        raise Unchecked("the data are not read")
    tables: list[Any] = []
    for law, counts in zip(release.all_laws(), release.tables):
        if law.unit != "person" and law.size <= 4096:
            tables += _strata(law, counts)
    if release.subsets:
        weights = [s.block["weight"] / UNIT for s in release.subsets]
        shares = [release.parts.get(i, 0) for i in range(len(weights))]
        tables.append((shares, weights, weights, "the split"))
    bar = math.log(2 * max(len(tables), 1) / LEVEL)
    for counts, low, high, where in tables:
        n = sum(counts)
        for count, least, most in zip(counts, low, high):
            share = count / n if n else 0
            nats = _kl(share, least) if share < least else _kl(share, most) if share > most else 0
            need(
                n * nats * (1 - 1e-12) - 1e-9 <= bar + math.log(2 * len(counts)),
                f"{where}: counts that cannot be drawn",
            )
    return f"{len(tables)} tables can be drawn with these probabilities, cell by cell"


def _strata(law: Law, counts: Counter[Any]) -> list[Any]:
    """Yield the counts of each stratum with the least and the largest probability of each cell."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i in range(law.size):
        groups.setdefault(law._stratum(i), []).append(i)
    if law.rows is None:
        high, low = _extremes(law)
        return [([counts[i] for i in range(law.size)], low, high, law.where)] if not law.given else []
    found = []
    for members in groups.values():
        columns = [[law.rows[i][j] for i in members] for j in members]
        low, high = [min(c) / UNIT for c in columns], [max(c) / UNIT for c in columns]
        found.append(([counts[i] for i in members], low, high, law.where))
    return found


def _extremes(law: Law) -> tuple[list[float], list[float]]:
    order = sorted(range(law.size), key=law.off.__getitem__)
    ends = (*order[:2], *order[-2:])
    columns = [[law.diagonal[j], *(law.off[i] for i in ends if i != j)] for j in range(law.size)]
    return [max(c) / UNIT for c in columns], [min(c) / UNIT for c in columns]


def _kl(x: float, p: float) -> float:
    """Return ``x ln(x/p) + (1-x) ln((1-x)/(1-p))``."""
    if (x > 0 and p <= 0) or (x < 1 and p >= 1):
        return math.inf
    return sum(a * math.log(a / b) for a, b in ((x, p), (1 - x, 1 - p)) if a > 0)


# -- columns that follow rank laws -----------------------------------------------------------------------------------


def cuts(method: dict[str, Any], n: int) -> list[list[int]]:
    """Return the first ranks of the runs of every cut of n ranks; refuse an unknown law, or too few records."""
    options = {k: v for k, v in method.items() if k not in ("model", "form")}
    size: Any = next(iter(options.values()), None)
    need(
        len(options) == 1 and type(size) is int and 1 <= size <= n,
        "a rank law has other options, or more ranks than records",
    )
    if method["model"] == "rank-blocks" and "k" in options:
        return [[i * n // (n // size) for i in range(n // size)]]
    need(method["model"] == "rank-band" and "width" in options, f"an unknown rank law: {safe(method['model'])}")
    if n * size > 1 << 22:
        raise Unchecked("a rank law of too many cuts for this program")
    found = []
    for cut in range(size):
        starts = [0, *range(cut + size, n, size)]  # the run before the first boundary joins the next one
        found.append(starts[:-1] if n - starts[-1] < size and len(starts) > 1 else starts)
    return found


def rank_entropy(method: dict[str, Any], n: int) -> Decimal:
    """Return the entropy of the rank law in nats: exact for blocks, a lower bound for a band."""
    if method["model"] == "rank-blocks":
        (starts,) = cuts(method, n)
        sizes = Counter(b - a for a, b in zip(starts, [*starts[1:], n]))
        return sum((count * size * ln(size) for size, count in sizes.items()), Decimal(0)) / n
    w = method.get("width")
    if not isinstance(w, int) or not 1 <= w <= n:
        raise Wrong("a rank law has more ranks than records")
    if w > MAX_CASES:
        raise Unchecked("a rank law of too many ranks for this program")
    shares = [Fraction(w - abs(d), w * w) for d in range(1 - w, w)]
    inner, ends = -sum((exact(p) * ln(p) for p in shares), Decimal(0)), min(5 * w, n)
    return (inner * (n - ends) + ln(w) * ends) / n


def check_rank(values: list[Any], method: dict[str, Any], form: str, level: Any) -> None:
    """Check the level of the values of one column, from the released values."""
    values, n = sorted(values), len(values)
    if form == "average":
        need("bits" not in level, "averages have no bits")
        ((*starts,),) = cuts(method, n)
        runs_ = zip(starts, [*starts[1:], n])
        need(
            all(values[a] == values[b - 1] for a, b in runs_),
            "an average is shared by fewer records than the rank law says",
        )
        need(abs(Decimal(level["shown"]) - exact(_near(values, *cuts(method, n)))) <= SLACK, "shown")
        return
    bits, kept, runs = Decimal(0), Fraction(0), cuts(method, n)
    logs = {}
    for starts in runs:
        for a, b in zip(starts, [*starts[1:], n]):
            same = Counter(values[a:b])
            for m, times in [(b - a, 1), *((m, -1) for m in same.values() if m > 1)]:
                if m not in logs:
                    logs[m] = m * ln(m) / ln(2)
                bits += times * logs[m]
            kept += Fraction(sum(m * m for m in same.values()), b - a)
    total = n * len(runs)
    at_most(level["bits"], bits / total, "bits of the values")
    at_least(level["shown"], exact(kept / total) if bits else Decimal(1), "share of records that keep their value")


def _near(averages: list[Any], starts: list[int]) -> Fraction:
    """Return the share of values that the averages of the blocks give to within half a per cent."""
    n, known = len(averages), 0
    if len(starts) < 3:
        return Fraction(0)
    ends, means = [*starts[1:], n], [Fraction(averages[a]) for a in starts]
    for i in range(1, len(starts) - 1):
        s = ends[i] - starts[i]
        total, low, high = means[i] * s, means[i - 1], means[i + 1]
        for p in range(1, s + 1):
            least = max(low, (total - (s - p) * high) / p)
            most = min(high, (total - (p - 1) * low) / (s - p + 1))
            known += most - least <= Fraction(1, 100) * abs(means[i])
    return Fraction(known, n)


def check_beta(entry: dict[str, Any], method: dict[str, Any], n: int, level: Any) -> None:
    """Check β and bits of a column: the least of those of the law and of its values."""
    law = rank_entropy(method, n)
    bits = law / ln(2)
    beta = law / ln(n) if n > 1 else Decimal(1)
    if level is not None and "bits" in level:
        bits = min(bits, Decimal(level["bits"]))
    if n > 1:
        beta = min(beta, bits / (ln(n) / ln(2)))
    at_most(entry["beta"], beta, "β")
    if "bits" in entry:
        at_most(entry["bits"], bits, "bits")
    if "shared" in entry:
        need(entry["shared"] == (method.get("k") or 1), "not the number of records that share an average")


def check_numerical(release: Release) -> str | None:
    """Check the columns of a release that follow rank laws."""
    laws, stated = release.law.get("numerical", []), release.certificate.get("numerical", [])
    need(len(laws) == len(stated), "not as many columns in law and certificate")
    for law, entry in zip(laws, stated):
        same = entry["variables"] == [law["variable"]] and all(
            entry.get(f) == law.get(f) for f in ("method", "form", "records", "level")
        )
        need(same, f"{safe(law['variable'])}: not the rank law of mechanism.json")
        n, method = law["records"], law["method"]
        need(n >= 1, f"{safe(law['variable'])}: no records")
        check_beta(entry, method, n, law.get("level"))
        need(law["form"] == "permute" or method["model"] == "rank-blocks", "averages over a band reveal values")
        if release.records is None:
            raise Unchecked("the data are not read: β of the law holds, the level of its values is not computed")
        values = release.ranked[law["variable"]]
        need(None not in values and len(values) == n, f"{safe(law['variable'])}: not as many values as stated")
        if "level" in law:
            check_rank(values, method, law["form"], law["level"])
    return f"{len(laws)} columns" if laws else None


def table_of(path: str) -> tuple[list[str], dict[str, Any]]:
    """Return the header and the columns of fields of a CSV file."""
    header: list[str] = []
    rows: list[list[tuple[str, bool]]] = []
    for first, fields in records_of([path]):
        if (len(rows) + 1) * len(fields) > MAX_FIELDS:
            raise Unchecked(f"a table of more than {MAX_FIELDS:,} fields")
        if first:
            header = [text for text, _ in fields]
        else:
            need(len(fields) == len(header), "a record has more or fewer fields than columns")
            rows.append(fields)
    need(header and len(set(header)) == len(header), "no header, or a column twice")
    return header, dict(zip(header, zip(*rows))) if rows else {name: () for name in header}


def check_whole(release: Release) -> str | None:
    """Check the claims of a folder of permuted or averaged columns, or of Anatomy."""
    c = release.certificate = release.read("certificate.json", "columns certificate")
    need(c["schema"] == release.manifest["schema"], "manifest and certificate have different schemas")
    anatomy = c["method"]["model"] == "anatomy"
    tables = [
        n for n in release.manifest["files"] if n.partition(".")[0] in (("keys", "others") if anatomy else ("data",))
    ]
    release.tabled = tables
    need(len(tables) == (2 if anatomy else 1), "not the tables of such a folder")
    need(len(c["claims"]) == (1 if anatomy else len(c["columns"])), "not as many claims as columns")
    if not all(name.endswith(".csv") for name in tables):
        raise Unchecked("the tables are no CSV: their digests alone are checked here")
    if anatomy:
        return check_anatomy(release, *(table_of(release.files[name]) for name in sorted(tables)))
    header, columns = table_of(release.files[tables[0]])
    form = c["method"].get("form")
    need(form in ("permute", "average"), "no form")
    for claim, name in zip(c["claims"], c["columns"]):
        need(claim["column"] == name and name in header, "a claim on another column")
        values = [number(text) for text, _ in columns[name] if text]
        need(
            None not in values and claim.get("values", len(values)) == len(values), f"{safe(name)}: not as many values"
        )
        need(c["details"]["records"] == len(columns[name]), "not the number of records of the data")
        n, level = len(values), claim.get("level")
        check_beta(claim, c["method"], n, level)
        need(form == "permute" or c["method"]["model"] == "rank-blocks", "averages over a band reveal values")
        need(abs(Decimal(claim["most_bits"]) - ln(n) / ln(2)) <= SLACK * 64, "most_bits")
        if level is not None:
            check_rank(values, c["method"], form, level)
    clear = [name for name in header if name not in c["columns"]]
    if c["schema"][-1] == "3":
        said = {one["code"]: one for one in c["not_covered"]}
        need(said.get("unchanged", {"variables": []}).get("variables") == clear, "unchanged: not the other columns")
        need(said.get("ranks_only", {}).get("variables") == c["columns"], "ranks_only: not the columns")
        need(("not_private" in said) == (c["facts"].get("key_is_private") is False), "not_private")
        need(("original_order" in said) != c["facts"].get("order_is_shuffled", False), "original_order")
        moved = [
            one["variable"]
            for one in c["not_covered"]
            if one["code"] == ("permuted" if form == "permute" else "averaged")
        ]
        need(moved == c["columns"], "permuted, averaged: not the columns")
    return f"{len(c['columns'])} columns, {c['details']['records']:,} records"


def check_anatomy(release: Release, keys: Any, others: Any) -> str | None:
    """Check classes, β and diversity of the two tables of Anatomy."""
    c, details = release.certificate, release.certificate["details"]
    name = "anatomy_class"
    for header, _ in (keys, others):
        need(header[0] == name, "the first column is not that of the classes")
    need(keys[0][1:] == c["columns"], "the keys are not those of the certificate")
    one, two = ([_label(text) for text, _ in table[1][name]] for table in (keys, others))
    sizes = Counter(one)
    need(one and sizes == Counter(two) and sorted(sizes) == list(range(len(sizes))), "the tables have other classes")
    need(details["records"] == len(one) and details["classes"] == len(sizes), "not the number of records or classes")
    need(details["smallest_class"] == min(sizes.values()) >= c["method"].get("k", 0) >= 2, "a class is smaller than k")
    cells = {row for row in zip(one, *(keys[1][k] for k in c["columns"]))}
    counts = Counter(row[0] for row in cells)
    total = sum(counts.values())
    nats, most = sum((n * ln(n) for n in counts.values()), Decimal(0)) / total, ln(total)
    claim = c["claims"][0]
    need(claim["column"] == c["columns"], "a claim on other columns")
    at_most(claim["beta"], nats / most if most else Decimal(1), "β")
    at_most(claim["bits"], nats / ln(2), "bits")
    need(abs(Decimal(claim["most_bits"]) - most / ln(2)) <= SLACK * 64, "most_bits")
    for field, measure in (("distinct_diversity", _distinct_values), ("entropy_diversity", _effective_values)):
        stated = details[field]
        need(sorted(stated) == sorted(others[0][1:]), f"{field}: not the other columns")
        for column, level in stated.items():
            classes: dict[Any, Counter[Any]] = {}
            for label, value in zip(two, others[1][column]):
                classes.setdefault(label, Counter())[value] += 1
            at_most(level, min(map(measure, classes.values())), f"{field} of {safe(column)}")
    if c["schema"][-1] == "3":
        said = {entry["code"]: entry for entry in c["not_covered"]}
        need(said.get("as_they_are", {}).get("variables") == others[0][1:], "as_they_are: not the other columns")
        need(("not_private" in said) == (c["facts"].get("key_is_private") is False), "not_private")
    return f"{len(sizes)} classes of at least {min(sizes.values())} records"


def _label(text: str) -> int:
    need(re.fullmatch(r"\d{1,9}", text), "a class is not a number")
    return int(text)


def _distinct_values(counts: Counter[Any]) -> Decimal:
    return Decimal(len(counts))


def _effective_values(counts: Counter[Any]) -> Decimal:
    total = sum(counts.values())
    nats = sum((n * (ln(total) - ln(n)) for n in counts.values()), Decimal(0)) / total
    return nats.exp()


# -- tables for R, completed files -----------------------------------------------------------------------------------


def check_tables(release: Release) -> str | None:
    """Check that the tables for R hold the same matrices; that none is there that belongs to no block."""
    named = re.compile(r"r_(matrix|subset)_\d+\.csv|r_split\.csv|r_categories\.csv")
    present = [n for n in release.files if n.startswith("r_") and n.endswith(".csv")]
    wanted = {f"r_matrix_{i}.csv": law for i, law in enumerate(release.blocks, 1)}
    wanted.update({f"r_subset_{i}.csv": law for i, law in enumerate(release.subsets, 1)})
    allowed = {"r_categories.csv", *wanted, *(["r_split.csv"] if release.subsets else [])}
    odd = [n for n in present if n not in allowed]
    need(not odd, f"{', '.join(map(safe, odd))}: does not belong to the release")
    need(all(named.fullmatch(n) for n in present), "a table for R of another name")
    for name in present:
        if name in wanted:
            law, rows = wanted[name], None
            header, columns = table_of(release.files[name])
            need(header == [*law.names, *(f"p{j}" for j in range(1, law.size + 1))], f"{name}: its columns")
            rows = list(zip(*columns.values()))
            need(len(rows) == law.size, f"{name}: its rows")
            for i, row in enumerate(rows):
                numbers = [number(text) for text, _ in row]
                need(tuple(numbers[: len(law.names)]) == law.cells[i], f"{name}: the cell of row {i + 1}")
                shares = numbers[len(law.names) :]
                need(
                    all(s == w / UNIT for s, w in zip(shares, law.row(i))),
                    f"{name}: row {i + 1} is not that of the matrix",
                )
    if "r_split.csv" in present:
        _split_table(release, table_of(release.files["r_split.csv"]))
    if "r_categories.csv" in present:
        _, columns = table_of(release.files["r_categories.csv"])
        need({"variable", "value"} <= set(columns), "r_categories.csv: its columns")
        found: dict[str, list[str]] = {}
        for (variable, _), (value, _) in zip(columns["variable"], columns["value"]):
            found.setdefault(variable, []).append(value)
        for name, values in found.items():
            book = release.columns.get(name, {})
            count = len(book.get("categories", ()))
            need(count and len(values) - count in (0, 1), f"r_categories.csv: {safe(name)}")
            labels = book.get("labels", list(map(_key, book["categories"])))
            told = [one for (v, _), (one, _) in zip(columns["variable"], columns.get("label", ())) if v == name]
            need(told[:count] == labels, f"r_categories.csv: {safe(name)}: not its labels")
            same = all(v == _key(c) or v == str(c) or number(v) == c for v, c in zip(values, book["categories"]))
            need(same, f"r_categories.csv: {safe(name)}: not its categories")
    return f"{len(present)} tables" if present else None


def _split_table(release: Release, table: Any) -> None:
    header, columns = table
    need(header[:3] == ["subset", "variable", "probability"], "r_split.csv: its columns")
    rows = list(zip(*(columns[name] for name in header)))
    wanted = [(i, name, law) for i, law in enumerate(release.subsets, 1) for name in law.own]
    need(len(rows) == len(wanted), "r_split.csv: its rows")
    for row, (i, name, law) in zip(rows, wanted):
        texts = [text for text, _ in row]
        need(texts[:2] == [str(i), name], "r_split.csv: its rows")
        need(number(texts[2]) == law.block["weight"] / UNIT, "r_split.csv: a probability")
        if len(texts) > 4 and texts[3] and law.diagonal:
            same = [number(t) for t in texts[3:5]] == [law.diagonal[0] / UNIT, law.off[0] / UNIT]
            need(same or number(texts[3]) is None, "r_split.csv: a matrix")


def check_completed(release: Release) -> str | None:
    """Check that completed copies belong to this release, keep what it releases, and have values of the codebook."""
    if "completed.json" not in release.files:
        return None
    value = read_json(release.files["completed.json"])
    need(value.get("schema") == "postrand/completed/1", "completed.json: an unknown schema")
    shape = {"file": TEXT, "copies": COUNT, "released": {"data": {"*": SHA}, "mechanism_sha256": SHA}, "*": "any"}
    need(not fits(value, {**shape, "files": LISTED, "perturbed": NAMES, "columns": NAMES}, "it"), "not well formed")
    file, own, copies = value["file"], value["released"], value["copies"]
    release.copies = [file]
    need(file in release.manifest["files"] and copies >= 2, "the copies are missing, or fewer than two")
    need(own["mechanism_sha256"] == compact(release.law), "the copies were made from another law")
    data = {name: release.manifest["files"][name]["sha256"] for name in release.data}
    need(own["data"] == data, "the copies were made from other data")
    need(value["files"].get(file) == release.manifest["files"][file], "not the digest of the copies")
    if not file.endswith(".csv") or not all(name.endswith(".csv") for name in release.data):
        raise Unchecked("the copies are no CSV: their digests alone are checked here")
    perturbed = {name for law in release.all_laws() for name in law.own}
    need(set(value["perturbed"]) == perturbed, "perturbed: not the variables of the law")
    codes = {n: coder({k: x for k, x in release.columns[n].items() if k != "not_released"}) for n in perturbed}
    n, rules, names = release.records or 0, list(_rules(release)), list[str]()
    source: Iterator[list[tuple[str, bool]]] = iter(())
    copy, row = -1, n
    for first, fields in records_of([release.files[file]]):
        if first:
            names = [text for text, _ in fields][2:]
            need([text for text, _ in fields][:2] == ["Imputation_", "Record_"], "the first columns of the copies")
            need(value["columns"] == ["Imputation_", "Record_", *names], "not the columns that are stated")
            continue
        if row == n:
            copy, row = copy + 1, 0
            source = (f for h, f in records_of([release.files[x] for x in sorted(release.data)]) if not h)
        row += 1
        released = next(source)
        need(len(fields) == len(released) + 2, "a record has more or fewer fields than columns")
        need([text for text, _ in fields[:2]] == [str(copy), str(row)], "the copies are not in order")
        at = {}
        for name, field, was in zip(names, fields[2:], released):
            if name not in perturbed:
                need(field == was, f"{safe(name)}: a copy has another unperturbed value")
            elif copy == 0:
                need(not field[0], "copy 0 has a perturbed value")
            else:
                at[name] = codes[name](field)
        need(not copy or not any(all(at.get(x) in have for x, have in r.items()) for r in rules), "a rule is broken")
    need(copy == copies and row == n, "not as many copies or records as stated")
    return f"{copies} copies of {n:,} records keep what is released"


# -- signatures: Ed25519 (RFC 8032) over an in-toto statement in a DSSE envelope --------------------------------------

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "urn:postrand:release-statement:1"
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def _point(encoded: bytes) -> tuple[int, ...] | None:
    """Return the point of 32 bytes in extended coordinates; None if they are not its one encoding."""
    y, sign = int.from_bytes(encoded, "little") & ((1 << 255) - 1), encoded[31] >> 7
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * ROOT % P
    if x * x % P != square or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def _sum(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[int, ...]:
    a, b = (one[1] - one[0]) * (two[1] - two[0]) % P, (one[1] + one[0]) * (two[1] + two[0]) % P
    c, d = 2 * one[3] * two[3] * D % P, 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(factor: int, point: tuple[int, ...]) -> tuple[int, ...]:
    total: tuple[int, ...] = (0, 1, 1, 0)
    while factor:
        total = _sum(total, point) if factor & 1 else total
        point, factor = _sum(point, point), factor >> 1
    return total


def _same(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return (one[0] * two[2] - two[0] * one[2]) % P == 0 and (one[1] * two[2] - two[1] * one[2]) % P == 0


BASE = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little")) or ()


def ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether a signature is valid, strictly: canonical encodings, S below the order, no point of small order."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, nonce, s = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or nonce is None or s >= ORDER:
        return False
    if any(_same(_times(8, point), (0, 1, 1, 0)) for point in (key, nonce)):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    return _same(_times(s, BASE), _sum(nonce, _times(k, key)))


def public_key(path: str) -> bytes:
    """Return the 32 bytes of a public key in a PEM file."""
    try:
        with opened(path) as file:
            text = file.read(4096).decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise Wrong("the public key cannot be read") from None
    match = re.fullmatch(r"-----BEGIN PUBLIC KEY-----\s([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*", text)
    content = _base64(re.sub(r"\s", "", match.group(1))) if match else b""
    need(
        len(content) == 44 and content[:12].hex() == "302a300506032b6570032100", "no public key of Ed25519 in PEM form"
    )
    return content[12:]


def _base64(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        raise Wrong("no base64") from None
    need(base64.b64encode(content).decode() == text, "no canonical base64")
    return content


def fingerprint(public: bytes) -> str:
    """Return the name of a key: the SHA-256 of its 32 bytes."""
    return "sha256:" + hashlib.sha256(public).hexdigest()


def check_signature(release: Release, signer: str | None) -> str | None:
    """Check that the release is signed by the key in the file ``signer``, or say by which it is."""
    if SIGNATURE not in release.files:
        need(signer is None, "the release is not signed, and a signer is named")
        return None
    envelope = read_json(release.files[SIGNATURE])
    shape = {
        "payloadType": ("one of", PAYLOAD_TYPE),
        "payload": TEXT,
        "signatures": [{"keyid": TEXT, "sig": TEXT, "public": TEXT}],
    }
    need(not fits(envelope, shape, "it") and envelope["signatures"], f"{SIGNATURE}: no envelope of a signature")
    payload = _base64(envelope["payload"])
    message = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    signed = []
    need(len(envelope["signatures"]) <= 16, "more than 16 signatures")
    for one in envelope["signatures"]:
        public = _base64(one["public"])
        need(one["keyid"] == fingerprint(public), "a signature names another key than it has")
        need(ed25519(public, message, _base64(one["sig"])), f"the signature by {one['keyid']} is not valid")
        signed.append(public)
    try:
        statement = json.loads(payload.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Wrong("what is signed is no statement") from None
    named: dict[str, Any] = {"_type": ("one of", STATEMENT), "predicateType": ("one of", PREDICATE)}
    named["subject"] = [{"name": ("one of", "manifest.json"), "digest": {"sha256": SHA}}]
    named["predicate"] = {"title": TEXT, "version": TEXT, "claims": "any", "date?": TEXT}
    need(
        not fits(statement, named, "it") and len(statement["subject"]) == 1,
        "what is signed is no statement on a release",
    )
    _, manifest = digest(release.files["manifest.json"])
    need(statement["subject"][0]["digest"]["sha256"] == manifest, "what is signed is another manifest")
    predicate, package = statement["predicate"], release.manifest["package"]
    need(predicate["version"] == package["version"], "the statement names another version of postrand")
    if release.certificate:
        claims = [{k: v for k, v in one.items() if k != "sentence"} for one in release.certificate["claims"]]
        need(predicate["claims"] == claims, "the statement names other claims than the certificate")
    names = ", ".join(map(fingerprint, signed))
    if signer is None:
        return f"signed by {names}, not compared with a key that you trust (--signer office.pub)"
    trusted = public_key(signer)
    need(trusted in signed, f"signed by {names}, and not by the named signer, {fingerprint(trusted)}")
    return f"signed by {fingerprint(trusted)}, the named signer"


# -- the report ------------------------------------------------------------------------------------------------------


class Report:
    """The outcome of each check, in order."""

    def __init__(self) -> None:
        """Start with none."""
        self.lines: list[tuple[str, str, str]] = []

    def run(self, name: str, check: Any, *arguments: Any) -> bool:
        """Make a check, note its outcome with what it says, and return whether it was made and is not wrong."""
        try:
            said = check(*arguments)
            outcome = "ok"
        except Wrong as found:
            outcome, said = "WRONG", str(found)
        except Unchecked as found:
            outcome, said = "not checked", str(found)
        except Said as found:
            outcome, said = "said", str(found)
        except OSError:
            outcome, said = "WRONG", "a file cannot be read"
        except (MemoryError, RecursionError):
            outcome, said = "not checked", "too large for this program"
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, StopIteration):
            outcome, said = "WRONG", "not well formed"  # the shapes are checked before: what is left fits nothing
        self.lines.append((outcome, name, said or ""))
        return outcome in ("ok", "said")

    @property
    def code(self) -> int:
        """The exit code."""
        outcomes = {outcome for outcome, _, _ in self.lines}
        return 7 if "WRONG" in outcomes else 9 if "not checked" in outcomes else 0


def verify(root: str, signer: str | None = None) -> Report:
    """Return the report on a folder."""
    with localcontext() as context:
        context.prec = 60
        return _verified(root, signer)


def _verified(root: str, signer: str | None) -> Report:
    report, release = Report(), Release()
    if not report.run("files", lambda: release.files.update(listing(root))):
        return report
    if not report.run("manifest", check_manifest, release):
        return report
    report.run("digests", check_digests, release)
    if release.whole:
        report.run("columns", check_whole, release)
    elif report.run("codebook", check_codebook, release) and report.run("mechanism", check_mechanism, release):
        _verify_claims(report, release)
    report.run("signature", check_signature, release, signer)
    report.run("extra", check_extra, release)
    left = "report.html" if release.whole else ", ".join(PAGES)
    report.lines.append(("left out", "pages", f"the words of {left}"))
    report.lines.append(("left out", "bytes", "that data files have no bytes but those of their records"))
    return report


def check_extra(release: Release) -> None:
    """Name the files of which only the digests are checked."""
    own = {*TOOLS, *release.data, *release.tabled, *release.copies}
    extra = [n for n in release.manifest["files"] if n not in own and not re.fullmatch(r"r_[a-z]+_\d+\.csv", n)]
    if extra:
        raise Said(f"the contents of extra files are not checked: {', '.join(map(safe, extra))}")


def _verify_claims(report: Any, release: Release) -> None:
    if not report.run("certificate", check_certificate, release):
        return
    report.run("data", check_data, release)
    report.run("account", check_account, release)
    for number_, claim in enumerate(release.certificate["claims"], 1):
        what = f"claim {number_}: {safe(claim['privacy']['model'])} of {safe(', '.join(claim['variables']))}"
        report.run(what, check_claim, release, claim)
    report.run("claims", check_some, release)
    for name, check in (
        ("facts", check_facts),
        ("limits", check_limits),
        ("units", check_units),
        ("series", check_series),
        ("file", check_file),
        ("numerical", check_numerical),
        ("margins", check_margins),
        ("tables for R", check_tables),
        ("copies", check_completed),
    ):
        report.run(name, check, release)


def check_some(release: Release) -> None:
    """Check that something is claimed, where something is perturbed by matrices."""
    need(release.certificate["claims"] or not release.all_laws(), "nothing is claimed")


def main(arguments: list[str]) -> int:
    """Verify the folder that is named, print a line for each check, and return the exit code."""
    usage = "usage: python3 postrand_verify.py FOLDER [--signer PUBLIC-KEY.pem]\n"
    signer = None
    if "--signer" in arguments:
        place = arguments.index("--signer")
        signer = arguments[place + 1] if place + 1 < len(arguments) else ""
        arguments = arguments[:place] + arguments[place + 2 :]
    if len(arguments) != 1 or arguments[0].startswith("-") or signer == "":
        sys.stderr.write(usage)
        return 2
    report = verify(arguments[0], signer)
    for outcome, name, said in report.lines:
        line = "".join(c if c.isprintable() else "?" for c in f"{outcome:<11} {name}{': ' * bool(said)}{said}")
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(line.encode(encoding, "replace").decode(encoding) + "\n")
    verdict = {0: "verified", 7: "FAILED: this is not the release that it claims to be", 9: "incomplete"}
    sys.stdout.write(verdict[report.code] + "\n")
    return report.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
