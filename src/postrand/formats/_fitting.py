"""What the files of statistical programs cannot hold, found by name before any record is perturbed.

Rules say what the programs' manuals say: of names, labels, texts and dates. Whatever else the library refuses is found
by a trial: the columns are written with their categories and read back, and where that fails each by itself.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook.coding import is_text, value_type
from postrand.codebook.not_released import METADATA_KEY
from postrand.errors import DataError, UsageError, sentence
from postrand.formats._readstat import Program, parsed, said, writer
from postrand.formats.base import writing
from postrand.support.signals import scratch_folder

OTHERS = "release as .parquet or .csv"
_TRIED = 200
"""Categories of a column that are written in a trial: the longest."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Say what a program allows, by its manual.

    Parameters
    ----------
    name, name_length
        A regular expression of a name and its most signs; ``in_words`` is what a message says of it.
    in_bytes
        Whether names are counted in bytes of UTF-8.
    reserved
        Names that mean something else, in small letters.
    one_case
        Whether names that differ in capitals only are one.
    label_length, value_label_length
        The most signs of the label of a variable, and the most bytes of that of a value; None where there are none.
    labelled
        The most values of a variable with labels.
    text_length
        The most bytes of a text.
    earliest
        The first day that the program shows.
    trims
        Whether blanks at the end of a text are lost.
    """

    name: str
    in_words: str
    name_length: int = 32
    in_bytes: bool = False
    reserved: frozenset[str] = frozenset()
    one_case: bool = False
    label_length: int | None = None
    value_label_length: int | None = None
    labelled: int = 32_767
    text_length: int = 32_767
    earliest: datetime.date = datetime.date(1582, 10, 15)
    trims: bool = True


def fitting(program: Program, limits: Limits) -> Callable[[pa.Schema, Mapping[str, pa.Array]], Iterator[str]]:
    """Return the ``misfits`` of a format."""

    def misfits(schema: pa.Schema, values: Mapping[str, pa.Array]) -> Iterator[str]:
        clash = {n for n in schema.names if limits.one_case and _repeated(n, schema.names)}
        held = {f.name: values.get(f.name, pa.array([], value_type(f.type))) for f in schema}
        found = {f.name: list(_by_rule(f, held[f.name], program, limits)) for f in schema}
        for name in clash:
            found[name].append(("another name differs in capitals only", None, "rename one of the columns"))
        left = [field for field in schema if not found[field.name]]
        if any(_by_trial(left, held, program)):  # of which some may not hold together what they hold apart
            found |= {field.name: list(_by_trial([field], held, program)) for field in left}
        for name, problems in found.items():
            for what, wanted, fix in problems:
                said = f"{program.name} files cannot hold it: {what}"
                yield sentence(said, where=f"column {name!r}", wanted=wanted, fix=fix)

    return misfits


_Misfit = tuple[str, Any, str]


def _repeated(name: str, names: list[str]) -> bool:
    return sum(other.casefold() == name.casefold() for other in names) > 1


def _by_rule(field: pa.Field, held: pa.Array, program: Program, limits: Limits) -> Iterator[_Misfit]:
    yield from _name(field.name, limits)
    if METADATA_KEY in (field.metadata or {}):
        return  # its labels are cut to what fits, and its values are made for the program
    yield from _labels(field, program, limits)
    yield from _values(field, held, limits)


def _name(name: str, limits: Limits) -> Iterator[_Misfit]:
    fix = f"rename the column in the file and the codebook, or {OTHERS}"
    if (len(name.encode()) if limits.in_bytes else len(name)) > limits.name_length:
        yield "its name is too long", f"at most {limits.name_length} {'bytes' if limits.in_bytes else 'signs'}", fix
    elif not re.fullmatch(limits.name, name):
        yield "its name has a sign that is not allowed", limits.in_words, fix
    elif name.casefold() in limits.reserved:
        yield "its name is a word of the program's language", None, fix


def _labels(field: pa.Field, program: Program, limits: Limits) -> Iterator[_Misfit]:
    label, most = said(field, "label"), limits.label_length
    if most is not None and len(label) > most:
        yield "its label is too long", f"at most {most} signs", f"shorten 'label' in the codebook, or {OTHERS}"
    if "variable_value_labels" not in program.keeps:
        return
    labels, most = parsed(field, "value_labels", dict), limits.value_label_length
    if most is not None and any(len(str(text).encode()) > most for text in labels.values()):
        fix = f"shorten 'labels' in the codebook, or {OTHERS}"
        yield "the label of a category is too long", f"at most {most} bytes", fix
    if len(labels) > limits.labelled:
        fix = f"remove 'labels' from the codebook, or {OTHERS}"
        yield "it has too many categories with labels", f"at most {limits.labelled:,}", fix
    if program.labels_text:
        return
    fix = f"remove 'labels' from the codebook, or {OTHERS}"
    if not is_text(field.type) and not all(map(is_number_label, labels)):
        yield "a category with a label is not a whole number of 32 bits", None, fix


def _values(field: pa.Field, held: pa.Array, limits: Limits) -> Iterator[_Misfit]:
    kind = value_type(field.type)
    if is_text(kind):
        texts = held.cast(pa.string()).drop_null()
        fix = f"correct the value in the file and the codebook, or {OTHERS}"
        if (pc.max(pc.binary_length(texts)).as_py() or 0) > limits.text_length:
            yield "a text is too long", f"at most {limits.text_length:,} bytes", fix
        if pc.any(pc.equal(texts, "")).as_py():
            yield "an empty text would become a missing value", None, fix
        if limits.trims and pc.any(pc.ends_with(texts, " ")).as_py():
            yield "a text ends with a blank, which the program removes", None, fix
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        first_day = pc.min(held).as_py()
        if first_day is not None and _day(first_day) < limits.earliest:
            fix = f"release it as text, or {OTHERS}"
            yield "a date is earlier than the program's calendar", f"{limits.earliest.isoformat()} or later", fix
    elif pa.types.is_duration(kind):
        yield "the program has no durations", None, f"write them as numbers in the file, or {OTHERS}"


def _day(moment: datetime.date) -> datetime.date:
    return moment.date() if isinstance(moment, datetime.datetime) else moment


def is_number_label(text: str) -> bool:
    """Return whether Stata labels the value with this text: a whole number of 32 bits, or a letter of a missing value.

    >>> [is_number_label(text) for text in ("7", "0.5", ".a", "3000000000")]
    [True, False, True, False]
    """
    number = re.fullmatch(r"-?[0-9]{1,10}(\.0)?", text)
    return abs(float(text)) <= 2_147_483_620 if number else re.fullmatch(r"\.[a-z]", text) is not None


def _by_trial(fields: Sequence[pa.Field], held: Mapping[str, pa.Array], program: Program) -> Iterator[_Misfit]:
    """Write columns and read them back; what the library says is about names and labels, never a value."""
    tried = [_longest(held[field.name]).to_pylist() for field in fields]
    rows = max(map(len, tried), default=0)
    padded = [values + [None] * (rows - len(values)) for values in tried]
    columns = [pa.array(v, value_type(f.type)).cast(f.type) for v, f in zip(padded, fields, strict=True)]
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    with scratch_folder("postrand.") as folder:
        path = Path(folder) / "trial"
        try:
            with writer(program)(path, table.schema, writing) as trial:
                for batch in table.to_batches():
                    trial.write(batch)
        except UsageError:  # the library is not installed: the run says so
            return
        except DataError as error:
            reason = re.search(r"got (.*?)\. Next", str(error))
            told = f" ({reason[1].rstrip('.')})" if reason else ""
            yield f"its values or labels do not come back as they are{told}", None, f"change them, or {OTHERS}"


def _longest(held: pa.Array) -> pa.Array:
    """Return the values, or of many those whose text is longest."""
    if len(held) <= _TRIED:
        return held
    texts = held.cast(pa.string())
    order = pc.array_sort_indices(pc.utf8_length(texts), order="descending")
    return held.take(order[:_TRIED])
