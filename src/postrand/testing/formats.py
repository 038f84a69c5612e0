"""What every file format must do: laws as plain functions, which raise AssertionError with what is broken.

A member of one's own is tried by one call: ``check(FORMAT, folder)``. No law looks for it among those of the package.
"""

from __future__ import annotations

import datetime
import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, Variable, not_released
from postrand.codebook.not_released import released_field, shown_codebook
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.formats.base import Format, comparing, new_file, read_file, writing
from postrand.testing.refusals import refused

ROWS = 12
NAMES = ("a.b", "a b", 'quo"ted', "comma, too", "é")
"""Names of columns that a format holds exactly, or refuses."""

_TEXTS = ("a", "", None, " padded ", 'say "hi"', "a,b", "line\nbreak", "carriage\r\nreturn", "é", "007", "NA", "\\N")
_SECRET = "secret"
_SEED = 20_240_611


def check(entry: Format, folder: Path) -> None:
    """Try every law in a folder of its own under ``folder``, which is there and empty.

    Raises
    ------
    AssertionError
        With the law that is broken.
    """
    for law in LAWS:
        place = folder / law.__name__
        place.mkdir()
        law(entry, place)


def records(entry: Format) -> pa.Table:
    """Return 12 records with what is awkward: a column of each kind, and a missing value in each.

    A format that says what it cannot hold (``limits``) gets numbers that float64 holds, and no empty or padded text.
    """
    texts = ["b" if text in ("", " padded ") else text for text in _TEXTS] if entry.limits else list(_TEXTS)
    largest, smallest = (2**53, 1e-70) if entry.limits else (2**63 - 1, 1e-300)
    columns = {
        "text": pa.array(texts),
        "level": pa.DictionaryArray.from_arrays(
            pa.array([2, 0, None] * (ROWS // 3), pa.int8()), ["low", "unused", "high"], ordered=True
        ),
        "whole": pa.array([None, -largest, largest, 0] * (ROWS // 4)),
        "weight": pa.array([None, 0.1, smallest, 1e22, -0.5, 123456789.123456789] * (ROWS // 6)),
        "flag": pa.array([True, False, None] * (ROWS // 3)),
        "day": pa.array([datetime.date(2020, 2, 29), None] * (ROWS // 2)),
    }
    fields = [pa.field(n, c.type, metadata={"label": f"label of {n}"}) for n, c in columns.items()]
    return pa.table(columns).cast(pa.schema(fields, metadata={"of": "file"}))


def book_of(table: pa.Table) -> Codebook:
    """Return a codebook with the table's types; every value may be missing."""
    return Codebook(tuple(Variable(f.name, role="other", type=str(f.type), missing="keep") for f in table.schema))


def write(entry: Format, path: Path, table: pa.Table, cut: int = 5) -> Path:
    """Write a table in batches of ``cut`` records."""
    with new_file(entry, path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=cut):
            writer.write(batch)
    return path


def read(entry: Format, path: Path, codebook: Codebook | None = None, **options: Any) -> pa.Table:
    """Read a file whole."""
    return pa.Table.from_batches(list(read_file(entry, path, codebook).batches(**options)))


def values(table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of each column."""
    return {name: table[name].to_pylist() for name in table.column_names}


def check_declared(entry: Format, folder: Path) -> None:
    """Assert that what others ask of the format is there: its name, and how Python and R read it."""
    assert entry.name.strip(), "a format needs a name that people know"
    for code in (entry.readers.python, entry.readers.r):
        assert code.count("{}") == 1, f"{entry.name}: {{}} stands for the path once in {code!r}"
    assert entry.readers.r_values, f"{entry.name}: no way to read it in R"
    for code in entry.readers.r_values.values():
        assert re.search(r"\bpath\b", code), f"{entry.name}: R reads no path in {code!r}"
    assert re.fullmatch(r"[a-z]+/[A-Za-z0-9.+-]+", entry.media_type), (
        f"{entry.name}: no media type {entry.media_type!r}"
    )
    for suffix in entry.read_only:
        path = folder / f"x{suffix}"
        refused(UsageError, "can be read, but not written", lambda path=path: new_file(entry, path, pa.schema([])))  # type: ignore[misc]


def check_values(entry: Format, folder: Path) -> None:
    """Assert that names, types, the number of records and every value come back."""
    table = records(entry)
    for suffix in entry.written:
        path = write(entry, folder / f"x{suffix}", table)
        source = read_file(entry, path, book_of(table))
        assert source.schema.names == table.column_names, f"{entry.name}: columns came back as {source.schema.names}"
        assert source.schema.types == table.schema.types, f"{entry.name}: types came back as {source.schema.types}"
        assert source.num_rows in (ROWS, None), f"{entry.name}: {source.num_rows} records of {ROWS}"
        assert values(read(entry, path, book_of(table))) == values(table), f"{entry.name}: values changed"


def check_metadata(entry: Format, folder: Path) -> None:
    """Assert that labels, and whole types with the order of categories, survive where the format says so."""
    table = records(entry)
    found = read_file(entry, write(entry, _file(entry, folder), table), None).schema
    if entry.keeps_labels:
        said = {f.name: (f.metadata or {}).get(b"label", b"").decode() for f in found}
        assert said == {n: f"label of {n}" for n in table.column_names}, f"{entry.name}: labels came back as {said}"
    if entry.keeps_types:
        assert found.equals(table.schema, check_metadata=True), f"{entry.name}: the schema came back as another"


def check_encoded(entry: Format, folder: Path) -> None:
    """Assert that text comes dictionary-encoded."""
    batch = next(read_file(entry, write(entry, _file(entry, folder), records(entry)), None).batches())
    for name in ("text", "level"):
        assert pa.types.is_dictionary(batch.column(name).type), f"{entry.name}: {name!r} is not dictionary-encoded"


def check_batches(entry: Format, folder: Path) -> None:
    """Assert that a source can be read again, in batches of any size, with the same records."""
    table = records(entry)
    source = read_file(entry, write(entry, _file(entry, folder), table), book_of(table))
    for size in (1, 5, ROWS, 1 << 20):
        for _ in range(2):
            batches = list(source.batches(batch_size=size))
            assert max(b.num_rows for b in batches) <= size, f"{entry.name}: a batch is larger than {size}"
            assert values(pa.Table.from_batches(batches)) == values(table), f"{entry.name}: batches of {size} differ"


def check_selection(entry: Format, folder: Path) -> None:
    """Assert that columns come in the order named; unknown and repeated ones are refused, each by its name."""
    table = records(entry)
    path = write(entry, _file(entry, folder), table)
    found = read(entry, path, book_of(table), columns=["whole", "text"])
    assert found.column_names == ["whole", "text"], f"{entry.name}: columns came as {found.column_names}"
    assert values(found) == values(table.select(["whole", "text"])), f"{entry.name}: values of chosen columns changed"
    source = read_file(entry, path, None)
    words = r"2 problems.*'txet' \(did you mean 'text'\?\).*'zzz'"
    refused(DataError, words, lambda: next(source.batches(columns=["txet", "whole", "zzz"])))
    refused(UsageError, "asked for twice", lambda: next(source.batches(columns=["text", "text"])))
    refused(UsageError, "batch size", lambda: next(source.batches(batch_size=0)))


def check_bytes(entry: Format, folder: Path) -> None:
    """Assert that the bytes depend on the records alone: not on batches, nor on the order of a batch's columns."""
    table, (a, b, c) = records(entry), (folder / f"{name}{entry.written[0]}" for name in "abc")
    plain = write(entry, a, table, cut=ROWS).read_bytes()
    assert write(entry, b, table, cut=1).read_bytes() == plain, f"{entry.name}: bytes depend on the batches"
    with new_file(entry, c, table.schema) as writer:
        writer.write(table.select(table.column_names[::-1]).to_batches()[0])
    assert c.read_bytes() == plain, f"{entry.name}: bytes depend on the order of a batch's columns"


def check_comparison(entry: Format, folder: Path) -> None:
    """Assert that a file is told from one with another value, and from one with more bytes."""
    table = pa.table({"x": ["b", "a", "b"], "y": ["1", "2", "3"]})
    path = write(entry, _file(entry, folder), table)
    _compare(entry, path, table)
    other = table.set_column(0, "x", pa.array(["b", "b", "b"]))
    refused(DataError, "byte for byte", lambda: _compare(entry, path, other))
    with path.open("ab") as file:
        file.write(b"\n")
    refused(DataError, "byte for byte", lambda: _compare(entry, path, table))


def _compare(entry: Format, path: Path, table: pa.Table) -> None:
    with entry.open_writer(path, table.schema, comparing) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def check_copy(entry: Format, folder: Path) -> None:
    """Assert that what was read can be written, and is the same."""
    table = records(entry)
    source = read_file(entry, write(entry, folder / f"a{entry.written[0]}", table), book_of(table))
    again = folder / f"b{entry.written[0]}"
    with new_file(entry, again, source.schema) as writer:
        for batch in source.batches(batch_size=7):
            writer.write(batch)
    assert values(read(entry, again, book_of(table))) == values(table), f"{entry.name}: a copy has other values"


def check_names(entry: Format, folder: Path) -> None:
    """Assert that any name of a column comes back; a format with limits may refuse it, and leaves no file."""
    for number, name in enumerate(NAMES):
        path, table = folder / f"{number}{entry.written[0]}", pa.table({name: ["u", None, "w"], "z": ["1", "2", "3"]})
        if not _holds(entry, path, table):
            continue
        assert values(read(entry, path)) == values(table), f"{entry.name}: a column {name!r} does not come back"
        only = values(read(entry, path, columns=[name]))
        assert only == {name: ["u", None, "w"]}, f"{entry.name}: a column {name!r} cannot be chosen"


def check_texts(entry: Format, folder: Path) -> None:
    """Assert that any text comes back, or is refused by a format with limits; texts are drawn from awkward signs."""
    generator = np.random.default_rng(_SEED)
    signs = np.array(
        [*"ab,;'\"\\\n\r\t =+-@.0\u00e9\u20ac\u2028\ufeff", "\U0001f600", "\x00", "NA", "null"], dtype=object
    )
    for number in range(40):
        texts = ["".join(generator.choice(signs, generator.integers(0, 5))) for _ in range(9)]
        table = pa.table({"x": pa.array([t if generator.random() < 0.9 else None for t in texts], pa.string())})
        table = table.append_column("n", pa.array([str(i) for i in range(len(table))]))
        path = folder / f"{number}{entry.written[0]}"
        if _holds(entry, path, table):
            assert values(read(entry, path)) == values(table), f"{entry.name}: a text comes back as another"


def _holds(entry: Format, path: Path, table: pa.Table) -> bool:
    """Write a table; a format with limits may refuse it, and then leaves no file."""
    refusal = ""
    try:
        write(entry, path, table)
    except DataError as error:
        refusal = str(error)
    if refusal:
        assert entry.limits, f"{entry.name} names no limits, and refuses: {refusal}"
        assert not path.exists(), f"{entry.name}: a refusal leaves a file"
    return not refusal


def check_single_column(entry: Format, folder: Path) -> None:
    """Assert that a missing value in the first and last record of a single column comes back."""
    table = pa.table({"x": [None, "b" if entry.limits else "", "a", None]})
    path = write(entry, _file(entry, folder), table)
    assert values(read(entry, path)) == values(table), f"{entry.name}: missing values of a single column are lost"


def check_dictionaries(entry: Format, folder: Path) -> None:
    """Assert that the dictionary of a column may differ from batch to batch."""
    batches = [
        pa.record_batch({"x": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), listed)})
        for listed in (["a", "b"], ["c", "a"], ["b", "d"])
    ]
    path = _file(entry, folder)
    with new_file(entry, path, batches[0].schema) as writer:
        for batch in batches:
            writer.write(batch)
    found = values(read(entry, path))["x"]
    assert found == ["b", "a", None, "a", "c", None, "d", "b", None], (
        f"{entry.name}: values of dictionaries are mixed up"
    )


def check_many(entry: Format, folder: Path) -> None:
    """Assert that 12,345 records come back, and that their bytes do not depend on the batches."""
    drawn = np.random.default_rng(5).integers(0, 700, 12_345).astype(str)
    table = pa.table({"x": drawn, "i": np.arange(drawn.size).astype(str)})
    one, two = (folder / f"{name}{entry.written[0]}" for name in "ab")
    same = write(entry, one, table, cut=999).read_bytes() == write(entry, two, table, cut=4096).read_bytes()
    assert same, f"{entry.name}: bytes of many records depend on the batches"
    assert values(read(entry, one, batch_size=777)) == values(table), f"{entry.name}: of many records some changed"


def check_not_released(entry: Format, folder: Path) -> None:
    """Assert that what a record does not show is told from what is missing, and that what stands for it is declared.

    Categories are numbers, texts, truth values and letters of missing values, among them what usually stands for it.
    """
    for number, book in enumerate(_split_codebooks()):
        shown = shown_codebook(book, book.names)
        schema = pa.schema([released_field(variable) for variable in shown.variables])
        for kind, codes in _split_codes(book).items():
            columns = [not_released.decode(codes[variable.name], variable) for variable in book.variables]
            table = pa.Table.from_arrays(columns, schema=schema)
            for suffix in entry.written:
                path = write(entry, folder / f"{number}{kind}{suffix}", table)
                said = f"{entry.name}: {kind} values of split {number}"
                assert values(read(entry, path, shown)) == values(table), f"{said} came back as others"
                source = read_file(entry, path, shown)
                for variable in book.variables:
                    column = pa.Table.from_batches(list(source.batches([variable.name])))[variable.name]
                    found = not_released.encode(column, variable).tolist()
                    assert found == codes[variable.name].tolist(), f"{said} came back as other codes"
                _compare(entry, path, table)
        for variable in shown.variables:
            texts = tuple(map(str, variable.categories))
            held = texts if entry.partly is None else entry.partly(texts, [*map(str, variable.missing_codes)])
            assert len({*held}) == len(texts), f"{entry.name}: what stands for (not released) is a category too"


def _split_codebooks() -> Iterator[Codebook]:
    """Yield codebooks of split variables, with what usually stands for what is not released among the categories."""
    categories: dict[str, tuple[Any, ...]] = {
        "int64": (10, 20, -9, 99),
        "int8": (-9, -99, 0),
        "double": (0.5, -9.0, 1e22),
        "bool": (False, True),
        "string": ("F", "NR", "é, too long to be declared", "."),
        "large_string": ("1", ".n", "2", "-1"),
    }
    for missing in ("error", "category", "keep"):
        kinds = [
            Variable(f"x{number}", role="key", type=of, categories=held, missing=missing, missing_codes=held[1:2])
            for number, (of, held) in enumerate(categories.items())
        ]
        labelled = [replace(v, name=f"{v.name}_said", labels=tuple("zyxw"[: len(v.categories)])) for v in kinds]
        yield Codebook((*kinds, *labelled))


def _split_codes(book: Codebook) -> dict[str, dict[str, Any]]:
    """Return codes of each variable: any, and not released in all records and in none."""
    generator = np.random.default_rng(_SEED)
    drawn: dict[str, dict[str, Any]] = {"mixed": {}, "hidden": {}, "shown": {}}
    for variable in book.variables:
        lowest = -1 if variable.missing == "keep" else 0
        every = np.arange(lowest, variable.size + 1, dtype=np.int8)
        drawn["mixed"][variable.name] = generator.permutation(np.resize(every, 4 * ROWS))
        drawn["hidden"][variable.name] = np.full(ROWS, variable.size, dtype=np.int8)
        drawn["shown"][variable.name] = generator.permutation(np.resize(every[:-1], ROWS))
    return drawn


def check_codebook(entry: Format, folder: Path) -> None:
    """Assert that a file that does not fit its codebook is refused, with every column at once."""
    path = write(entry, _file(entry, folder), pa.table({"a": ["1"], "b": ["2"]}))
    book = Codebook((Variable("b", role="other"), Variable("c", role="other")))
    error = refused(DataError, "", lambda: read_file(entry, path, book))
    assert len(error.problems) == 2, f"{entry.name}: not both columns are named: {error}"
    assert "column 'a' has no entry in the codebook, so it has no role" in error.problems[0]
    assert "no column 'c'" in error.problems[1]


def check_empty(entry: Format, folder: Path) -> None:
    """Assert that a file without a byte is refused, and one without records is refused or says so."""
    path = _file(entry, folder)
    path.touch()
    refused(DataError, "the file is empty", lambda: read_file(entry, path, None))
    none = write(entry, folder / f"none{entry.written[0]}", records(entry)[:0])
    said, source = "", None
    try:
        source = read_file(entry, none, None)
    except DataError as error:
        said = str(error)
    fits = "no records" in said if source is None else source.num_rows == 0
    assert fits, f"{entry.name}: a file without records is not told from others"


def check_damaged(entry: Format, folder: Path) -> None:
    """Assert that a file that was cut off is refused, and that no value of it is shown, nor the library's error."""
    table = pa.table({"x": [_SECRET] * 4000, "y": ["a,\"b'"] * 4000})
    whole = write(entry, _file(entry, folder), table).read_bytes()
    path = folder / f"cut{entry.written[0]}"
    path.write_bytes(whole[: len(whole) * 2 // 3 + 1])
    error = refused(DataError, "", lambda: list(read_file(entry, path, None).batches()))
    assert _SECRET not in str(error), f"{entry.name}: an error shows a value"
    hidden = error.__suppress_context__ or error.__context__ is None
    assert hidden, f"{entry.name}: the library's own error is shown, and may hold values (raise ... from None)"


def check_interrupted(entry: Format, folder: Path) -> None:
    """Assert that an error, and a full disk, leave no file; a file that is there stays as it is."""
    table, path = records(entry), _file(entry, folder)
    try:
        with new_file(entry, path, table.schema) as writer:
            writer.write(table.to_batches()[0])
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert not path.exists(), f"{entry.name}: an interrupted run leaves a file"
    refused(ReleaseError, "cannot be written", lambda: _write_to(entry, path, table, _full))
    assert not path.exists(), f"{entry.name}: a full disk leaves a file"
    path.write_text("precious")
    refused(ReleaseError, "cannot be written", lambda: write(entry, path, table))
    assert path.read_text() == "precious", f"{entry.name}: a file that was there is changed"


def _write_to(entry: Format, path: Path, table: pa.Table, opening: Callable[[Path], Any]) -> None:
    with entry.open_writer(path, table.schema, opening) as writer:
        for batch in table.to_batches():
            writer.write(batch)


@contextmanager
def _full(path: Path) -> Iterator[BinaryIO]:
    """Open a new file on a disk that is full."""

    class Full:
        closed = False

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None: ...

        def close(self) -> None: ...

        def tell(self) -> int:
            return 0

        def seekable(self) -> bool:
            return False

        def readable(self) -> bool:
            return False

        def writable(self) -> bool:
            return True

    with writing(path):
        yield Full()  # type: ignore[misc]


def check_columns(entry: Format, folder: Path) -> None:
    """Assert that a batch without the columns of the schema is refused, and leaves no file."""
    table, path = records(entry).select(["text"]), _file(entry, folder)
    words = r"no column 'text' to write.*'txt' is not in the schema"

    def attempt() -> None:
        with new_file(entry, path, table.schema) as writer:
            writer.write(table.rename_columns(["txt"]).to_batches()[0])

    refused(UsageError, words, attempt)
    assert not path.exists(), f"{entry.name}: a refusal leaves a file"


def _file(entry: Format, folder: Path) -> Path:
    return folder / f"x{entry.written[0]}"


LAWS: tuple[Callable[[Format, Path], None], ...] = (
    check_declared,
    check_values,
    check_metadata,
    check_encoded,
    check_batches,
    check_selection,
    check_bytes,
    check_comparison,
    check_copy,
    check_names,
    check_texts,
    check_single_column,
    check_dictionaries,
    check_many,
    check_not_released,
    check_codebook,
    check_empty,
    check_damaged,
    check_interrupted,
    check_columns,
)
"""What holds for every format; each takes the format and an empty folder."""
