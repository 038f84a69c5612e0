"""Draft a codebook from a file, for a person to edit, and read it back; :mod:`postrand.plan.writing` writes it.

A draft decides nothing about privacy: roles stay empty, and probable codes for "no answer" or record numbers are
proposed in a comment. Fields of an Arrow schema can have two texts that a draft copies: ``label`` (of the variable) and
``value_labels`` (a JSON object from the text of a value to its label). A third, ``missing_codes`` (a JSON list of texts
of values, or of pairs of ends), lists the categories that mean "no answer" in the file itself. If all values of a
column have a label, labelled values that do not occur become categories too.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.coding import arrow_type, category_values, is_text, value_type
from postrand.codebook.no_answer import file_codes, file_labels, looks_missing
from postrand.codebook.rule_files import read_rules
from postrand.errors import SpecificationError, nearest, raise_all, sentence
from postrand.formats import Source
from postrand.plan import weighing
from postrand.plan.alike import same_but_spelling
from postrand.support.inputs import has_controls, read_toml

MAX_CATEGORIES = 100
_RARE, _RARE_SHARE = 20, 1000
"""Fewer records than this, or than one in so many, make a category rare."""
_MOST_TEXTS, _RECORDS_A_TEXT = 1000, 1000
"""Text has more categories in large files, one for so many records: codes of occupations and regions are long lists."""
_ALWAYS_CATEGORIES, _RECORDS_A_CATEGORY = 20, 4
"""Up to this many different values are always categories; more only in a key, or with enough records for each."""
_MAX_UNIQUE_CHECK = 20_000_000  # records; in larger files no column is proposed as a record key
DATES = (
    "dates or times: set role = 'drop', or put them into bands of years with [[recodes]]; 'other' releases them exactly"
)
"""The note on a column of dates or times, which are proposed as no categories unless they are few or a key."""
_DATE = (
    r"^(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))"
    r"(?:[ T]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$|^\d{1,2}:\d{2}(?::\d{2})?$"
)
"""Dates and times as text: 2020-01-31, 31.12.2020, 12/31/20, with or without the time of day, 23:59."""
_CODE = r"^\s*0\d+\s*$"
"""A text whose first digit is a zero that no number would have: 01084 is a postcode, and not 1,084."""
_CARRIED = ("weight", "household", "record_key")
"""Roles of columns that are numbers or names of something: their values are not categories."""


def infer(
    source: Source,
    *,
    max_categories: int | None = None,
    roles: Mapping[str, str] | None = None,
    seen: Callable[[pa.RecordBatch], None] | None = None,
) -> list[dict[str, Any]]:
    """Draft the entries of a codebook in one pass over the records, with bounded memory.

    Returns for each column a dict with the fields of :class:`postrand.Variable`, the role from ``roles`` or an empty
    one, and ``notes``, a list of proposals for a person. A weight, household or record key has no categories.
    Columns of at most ``max_categories`` different values get categories: by default 100, or for text one for 1,000
    records if that is more, at most 1,000. Not so, if the role is not ``key``, numbers with a fractional part, more
    than 20 dates or times, and more than 20 values with fewer than 4 records on average.
    Categories are in numeric order if all are numbers (or text of numbers), in the dictionary's order if the file has
    one, otherwise sorted. If values are missing, ``missing`` is ``category``, or ``keep`` for a column without
    categories. Text of a CSV file without categories becomes a number if nothing is lost. ``seen`` gets every batch.
    """
    roles, limit = roles or {}, _MOST_TEXTS if max_categories is None else max_categories
    convert = getattr(source, "lossless", None) if getattr(source, "untyped", False) else None
    beside = any(map(weighing.is_height, source.schema.names))
    columns = [
        _Column(f, limit, convert if is_text(f.type) else None, roles.get(f.name, ""), max_categories is None, beside)
        for f in source.schema
    ]
    for batch in () if all(pa.types.is_nested(of) for of in source.schema.types) else source.batches():
        if seen is not None:
            seen(batch)
        read = dict(zip(batch.schema.names, batch.columns, strict=True))  # lists and records are not read
        for column in columns:
            if column.field.name in read:
                column.add(read[column.field.name])
    return [column.draft() for column in columns]


def perturbs(draft: Mapping[str, Any]) -> bool:
    """Return whether a draft has values to exchange."""
    listed = len(draft.get("categories", ()))
    return listed > 1 or (listed == 1 and draft.get("missing") == "category")


def load_codebook(path: str | Path, open_role: str = "") -> Codebook:
    """Read a ``codebook.toml``; with ``open_role`` the variables without a role get that one.

    Raises
    ------
    SpecificationError
        With all problems together: invalid TOML, a variable without a role, an unknown field, type or policy,
        categories that do not match their type.
    """
    path = Path(path)
    return codebook_of(read_toml(path, "the codebook"), path, open_role)


_OTHER = "name the other file: 'postrand init' writes plan.toml and codebook.toml, and the plan names the codebook"


def codebook_of(data: Mapping[str, Any], path: Path, open_role: str = "") -> Codebook:
    """Return the codebook of what a file says, or would say; raises SpecificationError as :func:`load_codebook`."""
    if "source" in data and "variables" not in data:
        raise SpecificationError(sentence("this is a plan, and no codebook", where=str(path), fix=_OTHER))
    if open_role:
        data = {**data, "variables": [{**one, "role": one.get("role") or open_role} for one in _entries_of(data)]}
    known = ("variables", "rules", "rules_file", "recodes", "survey")
    problems = [
        sentence(f"unknown name {name!r}{nearest(name, known)}", where=str(path), wanted=", ".join(known))
        for name in data
        if name not in known
    ]
    try:
        codebook = Codebook.from_dict(data, where=str(path), folder=path.parent)
        if "rules_file" in data:
            rules = read_rules(path.parent / _file_name(data["rules_file"], str(path)), codebook)
            codebook = dataclasses.replace(codebook, rules=codebook.rules + rules)
    except SpecificationError as error:
        raise SpecificationError((*problems, *error.problems)) from None
    for variable in codebook.variables:
        try:
            if variable.is_categorical:
                category_values(variable)
            elif variable.role != "drop":  # lists and records can be in the file, but are not released
                arrow_type(variable.type)
        except SpecificationError as error:
            problems += error.problems
    for recode in codebook.recodes:
        try:
            arrow_type(recode.type or "string")
        except SpecificationError as error:
            problems += [f"recode of {recode.variable!r}: {text}" for text in error.problems]
    raise_all(SpecificationError, problems)
    return codebook


def open_roles(path: str | Path) -> tuple[str, ...]:
    """Return the variables of a ``codebook.toml`` whose role is not decided; as ``postrand init`` leaves some."""
    return tuple(
        str(one.get("name")) for one in _entries_of(read_toml(Path(path), "the codebook")) if not one.get("role")
    )


def _entries_of(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tables of variables of a codebook that may have any other fault."""
    held = data.get("variables")
    return [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []


def _file_name(value: object, where: str) -> str:
    if isinstance(value, str) and value and not has_controls(value):
        return value
    raise SpecificationError(sentence("'rules_file' is not a file name", where=where, fix='set "rules.csv"'))


ALIKE = (
    "some categories differ only by spaces or capital letters: merge them with [[recodes]] groups, or correct the file"
)
FEW, MANY, UNLISTED = "categories with fewer than", "more than", "a key variable without categories"
MEANT, NUMBERED = "if these mean no answer, uncomment", "whole numbers, all different"
ALL_MISSING = "every value is missing: role = 'drop'?"
REPEATED = (
    "values repeat or are missing, so that 'postrand protect' refuses it as a record key: role = 'household' if it "
    "tells who lives together, otherwise 'drop'"
)
"""The beginnings of notes on values, which a recode makes untrue."""


@dataclass(slots=True)
class _Column:
    """Collects the facts about a column in one pass."""

    field: pa.Field
    limit: int
    convert: Callable[[pa.Array, pa.DataType], pa.Array | None] | None  # of a file of text, where a number is a guess
    role: str = ""
    grows: bool = False  # the limit depends on the number of records
    beside_height: bool = False
    values: dict[Any, None] = field(default_factory=dict)  # distinct ones in order of arrival, up to the limit
    counts: Counter[Any] = field(default_factory=Counter)  # of the records of each distinct value
    repeats: bool = False  # of a record key
    is_many: bool = False
    has_missing: bool = False
    has_values: bool = False
    records: int = 0
    keys: list[range | NDArray[Any]] | None = field(default_factory=list)  # None: not unique integers
    fits: dict[str, bool] = field(default_factory=lambda: {"int64": True, "double": True})
    dates: bool = True  # as long as no value is seen that is none

    def add(self, column: pa.Array) -> None:
        column = column if pa.types.is_dictionary(column.type) or is_nested(column.type) else column.dictionary_encode()
        if is_nested(column.type):
            self.is_many = True
            self.has_missing |= column.null_count > 0
            return
        self.records += len(column)
        declared = pa.types.is_dictionary(self.field.type)
        dictionary = column.dictionary
        present = dictionary.take(pc.unique(column.indices).drop_null())
        usable = present.filter(pc.is_valid(present))
        if pa.types.is_floating(usable.type):
            usable = usable.filter(pc.invert(pc.is_nan(usable)))
        self.has_missing |= column.null_count > 0 or len(usable) < len(present)
        self.has_values |= len(usable) > 0
        self._add_values(dictionary.drop_null() if declared else usable)
        self._count(column)
        self._guess(usable)
        self._add_keys(column)
        if self.role == "record_key":
            self.repeats |= len(pc.unique(column.indices)) < len(column)

    def draft(self) -> dict[str, Any]:
        self._settle_limit()
        most = max(_ALWAYS_CATEGORIES, self.records // _RECORDS_A_CATEGORY)
        if self.has_values and self.dates:
            most = _ALWAYS_CATEGORIES
        is_few = self.role == "key" or pa.types.is_dictionary(self.field.type) or len(self.values) <= most
        if not (self.is_many or is_few):
            self.is_many, self.limit = True, most
        type_, categories = self._type_and_categories()
        categories = self._with_labelled(categories)
        notes = list(self._notes(type_, categories))
        missing = "error" if not self.has_missing else "category" if categories else "keep"
        draft: dict[str, Any] = {"name": self.field.name, "role": self.role, "type": type_, "missing": missing}
        if getattr(self.field.type, "ordered", False):
            draft["ordered"] = True
        if label := self._text(b"label"):
            draft["label"] = label
        if categories:
            draft["categories"] = categories
        if labels := self._labels(categories):
            draft["labels"] = labels
        if declared := self._missing_codes(categories):
            draft["missing_codes"] = declared
        return {**draft, "notes": notes}

    def _settle_limit(self) -> None:
        """Set the limit, where it depends on the number of records and on what the values are."""
        if not self.grows:
            return
        is_text_ = is_text(value_type(self.field.type)) and not self.fits["double"]
        by_records = min(_MOST_TEXTS, self.records // _RECORDS_A_TEXT) if is_text_ else 0
        self.limit = max(MAX_CATEGORIES, by_records)
        self.is_many = self.is_many or len(self.values) > self.limit

    def _add_values(self, values: pa.Array) -> None:
        if not self.is_many:
            texts = values.cast(pa.string()) if self._spells(values.type) else values
            self.values.update(dict.fromkeys(texts.to_pylist()))
            self.is_many = len(self.values) > self.limit

    def _count(self, column: pa.DictionaryArray) -> None:
        if self.is_many:
            return
        found = pc.value_counts(column.indices.drop_null())
        texts = column.dictionary.cast(pa.string()) if self._spells(column.dictionary.type) else column.dictionary
        values = texts.take(found.field("values")).to_pylist()
        self.counts.update(dict(zip(values, found.field("counts").to_pylist(), strict=True)))

    @staticmethod
    def _spells(of: pa.DataType) -> bool:
        """Whether values of a type are listed by their texts."""
        return not (is_text(of) or of in _PLAIN)

    def _guess(self, values: pa.Array) -> None:
        kind = value_type(values.type)
        if not is_text(kind):
            self.dates = self.dates and pa.types.is_temporal(kind)
        elif self.dates and len(values):
            self.dates = pc.all(pc.match_substring_regex(values, _DATE)).as_py()
        convert = self.convert
        if convert is not None and self.role != "weight" and pc.any(pc.match_substring_regex(values, _CODE)).as_py():
            convert = None
        for name in ("int64", "double"):
            fits = convert is not None and convert(values, arrow_type(name)) is not None
            self.fits[name] = self.fits[name] and fits

    def _add_keys(self, column: pa.DictionaryArray) -> None:
        if self.keys is None:
            return
        values = column.dictionary
        if self.convert is not None:
            values = self.convert(values, pa.int64())
        distinct = values is not None and column.null_count == 0 and len(pc.unique(column.indices)) == len(column)
        if not distinct or not pa.types.is_integer(values.type):
            self.keys = None
            return
        self.keys.append(_run_of(values.take(column.indices).to_numpy(zero_copy_only=False)))
        if sum(map(len, self.keys)) > _MAX_UNIQUE_CHECK:
            self.keys = None

    def _type_and_categories(self) -> tuple[str, list[Any]]:
        declared = str(self.field.type)
        if self.role in _CARRIED:
            return self._number_type() or str(value_type(self.field.type)), []
        fractional = any(not number.is_integer() for number in self._numbers() or ())
        if fractional and self.role == "key":  # others know it, so it needs categories
            if self.convert is not None and self._number_type():
                return self._number_type(), sorted(self._numbers() or ())
            fractional = False
        if self.convert is not None and self.has_values and (self.is_many or fractional):
            declared = self._number_type() or declared
            fractional = declared == "double"
        kind = value_type(self.field.type)
        if self.is_many or fractional or not self.values or pa.types.is_time(kind) or pa.types.is_duration(kind):
            return declared, []  # times of day and durations have no text that can be read back
        if pa.types.is_dictionary(self.field.type):
            return declared, list(self.values)
        numbers = self._numbers()
        if numbers is None:
            return declared, sorted(self.values)
        return declared, [value for _, value in sorted(zip(numbers, self.values, strict=True))]

    def _number_type(self) -> str:
        """Return the type of a column of texts that are all numbers, or an empty text; a weight can be any number."""
        order = ("double", "int64") if self.role == "weight" else ("int64", "double")
        return next((t for t in order if self.has_values and self.fits[t]), "")

    def _numbers(self) -> list[float] | None:
        """Return the distinct values as numbers, or None if one is not a number."""
        return None if self.is_many else self._first_numbers()

    def _first_numbers(self) -> list[float] | None:
        """Return the distinct values as numbers, the first of them where there are many; None if one is no number."""
        spelt = None if self.convert is None else self.convert(pa.array([*self.values], pa.string()), pa.float64())
        try:
            numbers = [float(value) for value in self.values] if spelt is None else spelt.to_pylist()
        except ValueError:
            return None
        return numbers if all(map(math.isfinite, numbers)) else None

    def _known_labels(self) -> dict[str, str]:
        return file_labels(self.field.metadata)

    def _labels(self, categories: Sequence[Any]) -> list[str]:
        known = self._known_labels()
        if not any(str(c) in known for c in categories):
            return []
        return [str(known.get(str(c), c)) for c in categories]

    def _with_labelled(self, categories: list[Any]) -> list[Any]:
        """Add labelled values that do not occur, if all values that occur have a label: they could occur."""
        known, held = self._known_labels(), {str(c) for c in categories}
        if not held or not held <= set(known) or pa.types.is_dictionary(self.field.type) or self.is_many:
            return categories
        kind = type(categories[0])
        more = [kind(_as_number(text)) if kind is not str else text for text in known if _fits(kind, text) - held]
        if len(held) + len(more) > self.limit:
            return categories
        every = [*categories, *more]
        numbers = [_as_number(c) for c in every]
        return sorted(every, key=_as_number) if all(map(math.isfinite, numbers)) else sorted(every)

    def _missing_codes(self, categories: Sequence[Any]) -> list[Any]:
        """Return the categories that mean "no answer" in the file itself."""
        return file_codes(self.field.metadata, categories)

    def _text(self, key: bytes) -> str:
        return (self.field.metadata or {}).get(key, b"").decode("utf-8", "replace")  # type: ignore[no-any-return]

    def _notes(self, type_: str, categories: Sequence[Any]) -> Iterable[str]:
        if is_nested(self.field.type):
            yield "lists, records and bytes are not released: role = 'drop'"
        if not self.has_values and not is_nested(self.field.type):
            yield ALL_MISSING
        if dated := self.has_values and self.dates and not categories:
            yield DATES
        if self.has_values and not categories and not self.role and not dated and is_text(arrow_type(type_)):
            many = f"{MANY} {self.limit} different values, not listed here"
            yield f"{many}: role = 'drop', or group them with [[recodes]]"
        if self.role == "key" and self.has_values and not categories:
            yield f"{UNLISTED} is released unperturbed: group its values, or set role = 'drop'"
        if self.repeats:
            yield REPEATED
        if self._is_key() and not self.role:
            yield f"{NUMBERED}: role = 'record_key' if they identify records, otherwise perhaps 'drop'"
        if weighing.is_weight(self.field.name) and self.role in ("", "weight"):
            body = weighing.is_of_body(self.field.name, self._first_numbers(), beside_height=self.beside_height)
            if body:
                yield weighing.GIVEN if self.role else weighing.BODY
            elif not self.role:
                yield "role = 'weight'? A weight is a number (type 'int64' or 'double') and has no categories"
        least = max(_RARE, self.records // _RARE_SHARE)
        rare = sum(0 < self.counts[c] < least for c in self.values)
        if rare and len(categories) > 2 and self.records >= 10 * least:
            few = f"{FEW} {least:,} records: {rare}"
            yield f"{few}; with their labels they are published: merge them with [[recodes]], if that makes sense"
        if same_but_spelling(categories):
            yield ALIKE
        if note := missing_note(categories, self._labels(categories), self._missing_codes(categories)):
            yield note

    def _is_key(self) -> bool:
        if not self.keys or not self.has_values:
            return False
        parts = [part for part in self.keys if len(part)]
        runs = sorted((part.start, part.stop) for part in parts if isinstance(part, range))
        if len(runs) == len(parts):  # numbered: the ends of the runs tell
            return self.records > 1 and all(a[1] <= b[0] for a, b in pairwise(runs))
        keys = np.concatenate([np.arange(p.start, p.stop) if isinstance(p, range) else p for p in parts])
        keys.sort()  # in place, not np.unique: the numbers of 20 million records take much memory
        return keys.size > 1 and bool((keys[1:] != keys[:-1]).all())


def missing_note(categories: Sequence[Any], labels: Sequence[str], declared: Collection[Any]) -> str:
    """Return the note on categories that look like codes for no answer, and are not ``declared`` so; "" without any.

    >>> missing_note([1, 2, 3, 9], [], ())
    'if these mean no answer, uncomment: missing_codes = [9]'
    """
    codes = [code for code in looks_missing(categories, labels) if code not in declared]
    return f"{MEANT}: missing_codes = [{', '.join(json.dumps(c, ensure_ascii=True) for c in codes)}]" if codes else ""


def _run_of(numbers: NDArray[Any]) -> range | NDArray[Any]:
    """Return the numbers, as a range where each is one more than the one before."""
    if numbers.size and numbers[0] <= numbers[-1] and (np.diff(numbers) == 1).all():
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


_PLAIN = (
    pa.bool_(),
    *(getattr(pa, f"{u}int{n}")() for u in ("", "u") for n in (8, 16, 32, 64)),
    pa.float32(),
    pa.float64(),
)


def is_nested(of: pa.DataType) -> bool:
    """Return whether a column contains lists, records or bytes, which are not values to count."""
    of = value_type(of)
    return any((pa.types.is_nested(of), pa.types.is_binary(of), pa.types.is_large_binary(of)))


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


def _fits(kind: type, text: str) -> set[str]:
    """Return the text itself if it is a value of this kind, otherwise nothing."""
    number = _as_number(text)
    whole = math.isfinite(number) and number.is_integer()
    good = {str: True, float: math.isfinite(number), int: whole}.get(kind, False)
    return {text} if good else set()
