"""What SPSS, Stata and SAS files have in common: typed numbers and text, labels, and codes for "no answer".

Fields of the schema carry what the file says of a column, as texts: ``label``; ``value_labels``, a JSON object from
the text of a value to its label; ``missing_codes``, a JSON list of such texts or of ``[low, high]`` ranges; ``format``
and ``measure``. Numbers are ``int64`` where all are whole, else ``double``. Empty text is missing: these programs do
not tell the two apart. A numeric column with lettered missing values (``.a`` to ``.z``) becomes text: so they survive.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import arrow_type, is_text, value_type
from postrand.codebook.not_released import METADATA_KEY, NOT_RELEASED, is_partly, released_field
from postrand.codebook.perturbed_labels import as_json, as_labelled
from postrand.errors import DataError, sentence
from postrand.formats import _xport
from postrand.formats._partly import Held, Rule, fitting_labels, kept_labels
from postrand.formats.base import BATCH_ROWS, Opening, Writer, bounded, conform, select
from postrand.support.extras import require
from postrand.support.refusals import refused
from postrand.support.signals import scratch_folder

ROWS = 1 << 17
LIMITS = "empty text, whole numbers beyond 2^53, and column names that the program does not allow"
_WHOLE = 1 << 53  # numbers are float64 in all three
_TAGGED = b"lettered_missing"
_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Program:
    """Describe one program's files: how pyreadstat reads and writes them, and where they hold the time of writing."""

    name: str
    read: str
    write: str
    keeps: tuple[str, ...]
    stamp: tuple[bytes, bytes]
    labels_text: bool = False
    user_missing: bool = True
    options: tuple[tuple[str, Any], ...] = ()
    partly: Rule = field(default_factory=Rule)
    note: tuple[str, str] = ("", "")
    """The option with a text about the file, and what it says where some records do not show every variable."""
    label_end: str = ""
    """What the label of such a variable of numbers ends with."""
    label_length: int = 256
    """The most signs of its label; the whole one is in the codebook."""
    bytewise: bool = False
    """Whether letters of missing numbers are written and read by this package: the library knows none."""


@dataclass(frozen=True, slots=True)
class LabelledSource:
    """A file of a statistical program, read part by part on each pass."""

    path: Path
    schema: pa.Schema
    num_rows: int
    program: Program
    partly: Mapping[str, Held] = field(default_factory=dict)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.path)
        start = 0
        for part, _ in _parts(self.program, self.path, names):
            arrays = [self._array(name, part[name], start) for name in names]
            batch = pa.RecordBatch.from_arrays(arrays, names=names)
            start += batch.num_rows
            yield from bounded(batch, batch_size)

    def _array(self, name: str, values: list[Any], start: int) -> pa.Array:
        field, held = self.schema.field(name), self.partly.get(name)
        if held is None:
            return _array(values, field, self.path)
        marked = None
        if self.program.bytewise and held.is_number:
            place = self.schema.get_field_index(name)
            try:
                marked = _xport.marked(self.path, place, start, len(values), str(held.mark)[1:])
            except (ValueError, IndexError):
                raise _damaged(self.program, self.path) from None
        return held.read(values, marked, field)


def reader(program: Program) -> Callable[[Path, Codebook | None], LabelledSource]:
    """Return the ``read`` of a format: one pass finds types and labels."""

    def read(path: Path, codebook: Codebook | None) -> LabelledSource:
        scans: dict[str, _Scan] = {}
        rows, meta = 0, None
        for part, said in _parts(program, path, None):
            for name, values in part.items():
                scans.setdefault(name, _Scan()).add(values)
            rows, meta = rows + len(next(iter(part.values()), ())), said
        if None in scans:  # the library's answer to a name that is no text
            raise _damaged(program, path)
        if not scans:
            raise DataError(sentence("the file has no columns", where=path.name))
        labels = getattr(meta, "column_names_to_labels", {})
        known = {v.name: as_labelled(v, labels.get(v.name)) for v in codebook.variables} if codebook else {}
        declared = {name: arrow_type(v.type) for name, v in known.items()}
        partly = {v.name: held for v in known.values() if (held := _held(v, scans, meta, program))}
        fields = [
            released_field(known[name]) if name in partly else _field(name, scan, declared.get(name), meta)
            for name, scan in scans.items()
        ]
        return LabelledSource(path, pa.schema(fields), rows, program, partly)

    return read


def writer(program: Program) -> Callable[[Path, pa.Schema, Opening], AbstractContextManager[Writer]]:
    """Return the ``open_writer`` of a format. What the program cannot hold exactly is refused, never changed."""

    @contextmanager
    def open_writer(path: Path, schema: pa.Schema, opening: Opening) -> Iterator[_Collected]:
        with opening(path) as sink:
            collected = _Collected(schema, [])
            yield collected
            table = pa.Table.from_batches(collected.batches, schema)
            with scratch_folder("postrand.") as folder:
                made = folder / path.name
                _write(program, made, table, path)
                with open(made, "rb") as file:
                    head = file.read(_HEAD)
                    sink.write(re.sub(program.stamp[0], program.stamp[1], head, flags=re.DOTALL))
                    while block := file.read(1 << 20):
                        sink.write(block)

    return open_writer


@dataclass(slots=True)
class _Collected:
    """Collects the records: these programs' files begin with what only the last record settles."""

    schema: pa.Schema
    batches: list[pa.RecordBatch]

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(conform(batch, self.schema))


def library() -> Any:
    require("pyreadstat", "a file of SPSS, Stata or SAS needs")
    import pyreadstat

    return pyreadstat


def _parts(program: Program, path: Path, names: list[str] | None) -> Iterator[tuple[Mapping[str, list[Any]], Any]]:
    """Yield columns as lists, at most ROWS records at a time, with the file's metadata."""
    read = getattr(library(), program.read)
    options: dict[str, Any] = {"usecols": names, "output_format": "dict", "row_limit": ROWS}
    if program.user_missing:
        options["user_missing"] = True
    with reading(program, path):
        offset = 0
        while True:
            part, meta = read(str(path), row_offset=offset, **options)
            rows = len(next(iter(part.values()), ()))
            if rows or not offset:
                yield part, meta
            offset += rows
            if rows < ROWS:
                return


@contextmanager
def reading(program: Program, path: Path) -> Iterator[None]:
    """Turn the library's error into a DataError, which shows no record."""
    own = (library().ReadstatError, library().PyreadstatError)
    errors = (*own, ValueError, TypeError, LookupError, ArithmeticError, OSError)  # only the library's code runs within
    with open(path, "rb") as file:
        locked = b"ENCRYPTEDSAV" in file.read(64)
    if locked:
        fix = "save it without a password in SPSS"
        raise DataError(sentence("the file is protected by a password", where=path.name, fix=fix))
    if path.suffix.lower() == ".xpt" and path.stat().st_size % 80:  # its records fill cards of 80 bytes
        raise _damaged(program, path)
    try:
        yield
    except errors as error:
        of_machine = refused(error)
        raise DataError(of_machine) if of_machine else _damaged(program, path) from None


def _damaged(program: Program, path: Path) -> DataError:
    fix = "the file is truncated or damaged; copy it again"
    with path.open("rb") as file:
        if file.read(4) == b"PK\3\4":
            fix = "this is a workbook or a zip file: give it the suffix that it had, such as .xlsx"
    return DataError(sentence(f"not a readable {program.name} file", where=path.name, fix=fix))


@dataclass(slots=True)
class _Scan:
    """Collects what kinds of values a column holds."""

    kinds: set[type] | None = None
    whole: bool = True

    def add(self, values: list[Any]) -> None:
        self.kinds = (self.kinds or set()) | (set(map(type, values)) - {type(None)})
        if self.whole and self.kinds <= {float, int}:
            numbers = pa.array(values, pa.float64())
            exact = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less_equal(pc.abs(numbers), _WHOLE))
            self.whole = pc.all(exact, min_count=0).as_py()


def _field(name: str, scan: _Scan, declared: pa.DataType | None, meta: Any) -> pa.Field:
    kinds = scan.kinds or set()
    numeric = meta.readstat_variable_types.get(name) != "string"
    found, tagged = pa.string(), numeric and str in kinds
    if numeric and not tagged:
        found = _number_type(kinds, scan.whole)
    usable = declared is not None and not tagged and _same_kind(found, declared)
    return pa.field(name, declared if usable else found, metadata=_metadata(name, found, tagged, meta))


def _held(variable: Variable, scans: Mapping[str, _Scan], meta: Any, program: Program) -> Held | None:
    """Return what the file holds for a variable that some records do not show; None of others."""
    if variable.name not in scans or not is_partly(variable):
        return None
    held = program.partly.held(tuple(map(str, variable.categories)), [*map(str, variable.missing_codes)])
    labels = meta.variable_value_labels.get(variable.name) or {}
    if not (program.bytewise or held.mark == NOT_RELEASED or NOT_RELEASED in labels.values()):
        return None
    return held if held.is_number != (meta.readstat_variable_types.get(variable.name) == "string") else None


def _number_type(kinds: set[type], whole: bool) -> pa.DataType:
    if datetime.datetime in kinds:
        return pa.timestamp("us")
    if datetime.date in kinds:
        return pa.date32()
    if datetime.time in kinds:
        return pa.time64("us")
    return pa.int64() if kinds and whole else pa.float64()


def _same_kind(found: pa.DataType, declared: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if is_text(found):
        return is_text(declared)
    return any(t(found) for t in numbers) and any(t(declared) for t in numbers)


def _metadata(name: str, of: pa.DataType, tagged: bool, meta: Any) -> dict[str, str]:
    def text(value: Any) -> str:
        return _tagged_text(value) if tagged else value if isinstance(value, str) else str(_whole(value, of))

    labels = meta.variable_value_labels.get(name) or {}
    codes: list[Any] = [text(v) for v in (getattr(meta, "missing_user_values", None) or {}).get(name, ()) if tagged]
    for entry in (meta.missing_ranges or {}).get(name, ()):
        low, high = (text(entry[end]) for end in ("lo", "hi"))
        codes.append(low if low == high else [low, high])
    said = {
        "label": meta.column_names_to_labels.get(name),
        "value_labels": as_json({text(value): label for value, label in labels.items()}),
        "missing_codes": as_json(codes),
        "format": meta.original_variable_types.get(name),
        "measure": measure if (measure := meta.variable_measure.get(name)) != "unknown" else None,
        _TAGGED.decode(): "yes" if tagged else None,
    }
    return {key: value for key, value in said.items() if value}


def value_labels_of(labels: Mapping[Any, str], of: pa.DataType) -> str:
    """Return labels as JSON, by the texts of the values of a column of this type."""
    return as_json({v if isinstance(v, str) else str(_whole(v, of)): text for v, text in labels.items()})


def _whole(value: Any, of: pa.DataType) -> Any:
    return int(value) if pa.types.is_integer(of) and float(value).is_integer() else float(value)


def _tagged_text(value: Any) -> str:
    if isinstance(value, str):
        return f".{value}"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _array(values: list[Any], field: pa.Field, path: Path) -> pa.Array:
    """Return one column of a part as the field's type, or refuse."""
    if _TAGGED in (field.metadata or {}):
        return pa.array([None if v is None else _tagged_text(v) for v in values], pa.string())
    try:
        if is_text(field.type):
            return pa.array([v or None for v in values], pa.string())
        if pa.types.is_temporal(field.type):
            return pa.array(values, field.type)
        numbers = pa.array(values, pa.float64())
        truths = pa.array([0.0, 1.0, None])
        if pa.types.is_boolean(field.type) and not pc.all(pc.is_in(numbers, truths), min_count=0).as_py():
            raise pa.ArrowInvalid("not 0 or 1")
        return numbers.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        what = f"column {field.name!r} has values that are not exactly of type {field.type}"
        raise DataError(sentence(what, where=path.name, fix="correct 'type' in the codebook")) from None


def _write(program: Program, made: Path, table: pa.Table, path: Path) -> None:
    """Write the table, read it back, and refuse where a value would have changed."""
    readstat, options = library(), dict(program.options)
    from pandas import DataFrame

    partly = {f.name: _held_by(f, program) for f in table.schema if METADATA_KEY in (f.metadata or {})}
    plain = [pa.field(f.name, value_type(f.type), metadata=f.metadata) for f in table.schema]
    texts, letters = table.cast(pa.schema(plain)), {}
    columns = {f.name: _series(texts.column(f.name), f, program) for f in plain if f.name not in partly}
    for name, held in partly.items():
        columns[name], letters[table.column_names.index(name)] = _partly_series(table.column(name), held, program)
    for option in program.keeps:
        said = {f.name: _told(option, f, partly.get(f.name), program) for f in plain}
        options[option] = {name: text for name, text in said.items() if text}
    labels = options.get("variable_value_labels", {}) if program.labels_text else {}
    for column in plain:
        if column.name in labels and _is_text_there(column, partly):
            narrow = fitting_labels if column.name in partly else kept_labels
            labels[column.name] = narrow(labels[column.name], columns[column.name])
    options |= dict([program.note] if partly else [])
    try:
        getattr(readstat, program.write)(DataFrame({f.name: columns[f.name] for f in plain}), str(made), **options)
        if program.bytewise:
            _xport.mark(
                made, {place: mask for place, mask in letters.items() if mask is not None}, program.partly.letter[1:]
            )
    except (readstat.ReadstatError, readstat.PyreadstatError) as error:  # names and labels, never values
        fix = "rename the column, or release as Parquet or CSV"
        raise DataError(
            sentence(f"a {program.name} file cannot hold this", where=path.name, got=error, fix=fix)
        ) from None
    if table.num_rows:
        fields = [table.schema.field(f.name) if f.name in partly else f for f in plain]
        source = LabelledSource(made, pa.schema(fields), len(table), program, partly)
        if changed := _changed(source, texts):
            what = f"a {program.name} file cannot hold the values of {', '.join(map(repr, changed))} exactly"
            raise DataError(sentence(what, where=path.name, fix="release as Parquet or CSV"))


def _changed(source: LabelledSource, wanted: pa.Table) -> list[str]:
    """Return the columns of which a value is not read back as it was written."""

    def is_same(names: list[str]) -> list[bool]:
        back = pa.Table.from_batches(list(source.batches(names)))
        return [back.column(n).cast(wanted.schema.field(n).type).equals(wanted.column(n)) for n in names]

    def is_held(name: str) -> bool:
        try:
            return is_same([name])[0]
        except DataError:  # another value, which no category of a split variable has
            return False

    names = wanted.column_names
    try:
        same = is_same(names)
    except DataError:
        same = [is_held(name) for name in names]
    return [name for name, is_right in zip(names, same, strict=True) if not is_right]


def _series(column: pa.ChunkedArray, field: pa.Field, program: Program) -> Any:
    from pandas import Series

    if is_text(field.type) or pa.types.is_temporal(field.type):
        values = column.to_pylist()
        if _is_lettered(field, program):
            values = [v if v is None else v[1:] if v.startswith(".") and len(v) == 2 else float(v) for v in values]
        return Series(values, dtype=object)
    return Series(column.cast(pa.float64(), safe=False).to_numpy(), dtype="float64")


def _partly_series(column: pa.ChunkedArray, held: Held, program: Program) -> tuple[Any, Any]:
    """Return a variable that some records do not show, and where the letter for that is to be written byte by byte."""
    from pandas import Series

    values = held.written(column)
    if not (program.bytewise and held.is_number):
        return Series(values, dtype=object if not held.is_number or held.letters else "float64"), None
    mask = values == held.letters[-1]
    values[mask] = None
    return Series(values, dtype="float64"), mask


def _held_by(field: pa.Field, program: Program) -> Held:
    missing = parsed(field, "missing_codes", list)
    return program.partly.held((*parsed(field, "value_labels", dict), NOT_RELEASED), missing)


def _told(option: str, field: pa.Field, held: Held | None, program: Program) -> Any:
    """Return what an option of the library says of a column."""
    text = _is_text(field) if held is None else not held.is_number
    if option == "variable_value_labels" and text and not program.labels_text:
        return None
    if held is None:
        return _SAID[option](field)
    labels, missing = (parsed(field, key, kind) for key, kind in (("value_labels", dict), ("missing_codes", list)))
    end = program.label_end if held.is_number else ""
    return {
        "column_labels": f"{said(field, 'label')[: program.label_length - len(end)]}{end}".strip(),
        "variable_value_labels": held.labels(labels, program.partly.letters),
        "missing_ranges": held.declared(missing),
        "missing_user_values": held.letters,
        "variable_format": f"F{held.digits}.0" if held.digits else None,
        "variable_measure": "nominal",
    }[option]


def _is_text_there(field: pa.Field, partly: Mapping[str, Held]) -> bool:
    """Whether the program's file holds texts for the column."""
    return not partly[field.name].is_number if field.name in partly else _is_text(field)


def _is_lettered(field: pa.Field, program: Program) -> bool:
    return _TAGGED in (field.metadata or {}) and "missing_user_values" in program.keeps


def _is_text(field: pa.Field) -> bool:
    """Whether the column is text in the program, too."""
    return is_text(field.type) and _TAGGED not in (field.metadata or {})


def said(field: pa.Field, key: str) -> str:
    return (field.metadata or {}).get(key.encode(), b"").decode("utf-8", "replace")  # type: ignore[no-any-return]


def parsed(field: pa.Field, key: str, kind: type) -> Any:
    try:
        found = json.loads(said(field, key) or "null")
    except json.JSONDecodeError:
        return kind()
    return found if isinstance(found, kind) else kind()


def _value(text: str, field: pa.Field) -> Any:
    """Return the value whose text is given, or None where it is none of the field's."""
    if _is_text(field):
        return text
    if re.fullmatch(r"\.[a-z]", text):
        return text[1:]
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _value_labels(field: pa.Field) -> dict[Any, str]:
    found = parsed(field, "value_labels", dict)
    return {v: str(label) for text, label in found.items() if (v := _value(text, field)) is not None}


def _missing_ranges(field: pa.Field) -> list[Any]:
    ends = [entry if isinstance(entry, list) else [entry, entry] for entry in parsed(field, "missing_codes", list)]
    pairs = [(_value(str(low), field), _value(str(high), field)) for low, high in ends]
    return [low if low == high else {"lo": low, "hi": high} for low, high in pairs if None not in (low, high)]


def _missing_letters(field: pa.Field) -> list[str]:
    return [v for v in _missing_ranges(field) if isinstance(v, str)] if _TAGGED in (field.metadata or {}) else []


_SAID: dict[str, Callable[[pa.Field], Any]] = {
    "column_labels": lambda field: said(field, "label"),
    "variable_value_labels": _value_labels,
    "missing_ranges": _missing_ranges,
    "missing_user_values": _missing_letters,
    "variable_format": lambda field: said(field, "format"),
    "variable_measure": lambda field: said(field, "measure"),
}
