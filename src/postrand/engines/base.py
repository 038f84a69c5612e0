"""What every engine does, and what it may release."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import is_partly, released_field, released_variable
from postrand.codebook.perturbed_labels import LABEL, VALUES, as_json, as_labelled, labelled
from postrand.codebook.variable import RELEASED_ROLES
from postrand.data.households import Renumbering
from postrand.data.table import ContingencyTable
from postrand.engines.content import Content, ContentReader
from postrand.engines.unit_members import Chosen, choices_of, chosen_of
from postrand.engines.unit_records import check_units, wants_of
from postrand.engines.wants import Answers, Count, Digest, Want, check_inputs
from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.formats import Source, Writer
from postrand.mechanism import Mechanism
from postrand.support.progress import Progress
from postrand.support.randomness import ReleaseKey

Sink = Callable[[pa.Schema], AbstractContextManager[Writer]]
"""Opens what takes the released records, for example ``functools.partial(formats.open_writer, path)``."""


@dataclass(frozen=True, slots=True)
class FolderSink:
    """A sink that writes a new folder of files; a cluster's executors write them themselves.

    The folder must be at the same path on every machine. ``sizes``: records of each file where one process writes.
    ``labels`` are what the metadata of columns say, by name; see :func:`labelled`.
    """

    folder: Path
    suffix: str = ".parquet"
    sizes: tuple[int, ...] = (0,)
    labels: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)

    def __call__(self, schema: pa.Schema) -> AbstractContextManager[Writer]:
        """Open the folder for one writer; see :func:`postrand.formats.open_parts`."""
        return formats.open_parts(self.folder, self.suffix, self.sizes, labelled(schema, self.labels))


PUBLIC_METADATA = frozenset(
    (LABEL, VALUES, b"missing_codes", b"missing_ranges", b"format", b"measure", b"lettered_missing")
)
"""What a column's own metadata may carry into a release; labels only as the codebook publishes them."""


class Engine(Protocol):
    """The verbs that process records: ``count_all`` and ``perturb``; single counts follow from the first.

    Equal inputs produce equal outputs on every engine, bit for bit.
    """

    @property
    def name(self) -> str:
        """The engine's name in plans and messages."""

    def count_all(self, source: Source, codebook: Codebook, wants: Sequence[Want]) -> Answers:
        """Answer all wants in as few readings of the source as the engine can; see :mod:`postrand.engines.wants`.

        Raises
        ------
        DataError
            If the source cannot be read. What is wrong with one want is raised where its answer is asked for.
        """

    def count(
        self, source: Source, codebook: Codebook, variables: Sequence[str], *, weight: str | None = None
    ) -> ContingencyTable:
        """Count the records (or sum their weights) in each combination of the variables' codes, in a pass of its own.

        Raises
        ------
        UsageError
            If a variable is named twice or has no categories.
        SpecificationError
            If a variable is not in the codebook.
        DataError
            If a record does not fit the codebook, or a weight is missing.
        """
        want = Count(tuple(variables), weight)
        found: ContingencyTable = self.count_all(source, codebook, [want])[want]
        return found

    def content(
        self, source: Source, mechanism: Mechanism, key: ReleaseKey, *, record_key: str | None = None
    ) -> Content:
        """Digest, under the release key, what the mechanism reads of the records; see :mod:`postrand.engines.content`.

        One pass, in which the records of units are checked too. The same records give the same content in any order
        (with a record key), batch and format. Raises as :meth:`perturb`.
        """
        want, units = Digest(ContentReader.of(mechanism, key), record_key), wants_of(mechanism)
        codebook = mechanism.require_codebook()
        answers = self.count_all(source, codebook, [want, *units])
        check_units(units, answers, lambda wants: self.count_all(source, codebook, wants))
        found: Content = answers[want]
        return found

    def members(
        self, source: Source, mechanism: Mechanism, key: ReleaseKey, content: Content, *, record_key: str | None = None
    ) -> Chosen:
        """Return who was chosen of the members of households; one pass over their columns, none where none is."""
        wants = choices_of(mechanism, key, content.tag(), record_key)
        return chosen_of(wants, lambda asked: self.count_all(source, mechanism.require_codebook(), asked))

    def perturb(
        self,
        source: Source,
        mechanism: Mechanism,
        key: ReleaseKey,
        sink: Sink,
        *,
        columns: Sequence[str] | None = None,
        record_key: str | None = None,
        shuffle: bool = True,
        content: Content | None = None,
        whole: bool = True,
        fresh: Renumbering | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Draw the released value of every block of every record, write the released records, return their number.

        Parameters
        ----------
        mechanism
            Bound to the codebook of the source.
        columns
            What to release, in which order; by default :func:`released_names`. Those that no block perturbs are
            released as they are.
        record_key
            A column of unique integers or texts that names the records; by default they are numbered 0, 1, ... in file
            order. The released values of a record depend on its key, never on its place.
        shuffle
            Whether to put the records in the order of a keyed pseudorandom permutation, instead of the file's.
        content
            What the words are bound to, from :meth:`content`; by default that of these records, in a pass of its own.
        whole
            Whether ``content`` is of these records, and no more. Then they are digested again while they are drawn for,
            and records that changed in between are refused.
        fresh
            Draws the numbers of the households anew; the mechanism's codebook has their released type.
        progress
            Called with the number of records perturbed since the last call.

        Raises
        ------
        SpecificationError
            If the mechanism has no codebook.
        UsageError
            If a column cannot be released: unknown, or named twice.
        DataError
            If a record does not fit the codebook, two records have the same key, a combination is not feasible, or
            the records are not those of the content.
        """


@dataclass(frozen=True, slots=True)
class EngineKind:
    """Describe one engine; the module of each has one as ``ENGINE``, and everything else asks that.

    Parameters
    ----------
    name
        As a person names it: ``--engine duckdb``.
    make
        ``make(scratch=..., resume=...)`` returns the engine; both are folders, or None. It raises UsageError for an
        option that it does not take. Where something of ``takes`` is asked for, it is given ``resources=`` too.
    writes_folder
        Whether a release by it is a folder of files, even of one file: several processes write.
    takes
        Which of the options of :class:`postrand.engines.resources.Resources` it honours.
    """

    name: str
    make: Callable[..., Engine]
    writes_folder: bool = False
    takes: tuple[str, ...] = ("threads", "memory_limit", "scratch")


def released_names(codebook: Codebook) -> tuple[str, ...]:
    """Return the columns that are released unless asked otherwise: all but the record key and what is dropped."""
    return tuple(v.name for v in codebook.with_role(*RELEASED_ROLES))


def released_schema(
    source: Source,
    columns: Sequence[str],
    codebook: Codebook | None = None,
    fresh: Renumbering | None = None,
    partly: Collection[str] = (),
    perturbed: Collection[str] = (),
) -> pa.Schema:
    """Return the source's fields of these columns; what the file says of itself beyond their labels is left behind.

    With a codebook, the labels are those that it publishes: of a label that a person took out of it, or of a value that
    is no category, nothing stays. Variables of a split (``partly``) become categorical text: see
    :mod:`postrand.codebook.not_released`. A label that says that one of ``perturbed`` is perturbed stays.
    """
    fields = []
    for name in columns:
        field, variable = source.schema.field(name), None if codebook is None else codebook[name]
        is_fresh = fresh is not None and fresh.name == name
        if variable is not None and name in perturbed:
            variable = as_labelled(variable, (field.metadata or {}).get(LABEL, b"").decode("utf-8", "replace"))
        if variable is not None and name in partly:
            fields.append(released_field(variable if is_partly(variable) else released_variable(variable)))
            continue
        label = "" if variable is None else variable.label
        fields.append(fresh.field(field, label) if fresh is not None and is_fresh else public_field(field, variable))
    return pa.schema(fields)


def public_field(field: pa.Field, variable: Variable | None) -> pa.Field:
    """Keep of a field's metadata what a release may say: the confidential file may have written anything there."""
    kept = {key: text for key, text in (field.metadata or {}).items() if key in PUBLIC_METADATA}
    if variable is not None:
        published = {LABEL: variable.label, **({VALUES: _labels(kept, variable)} if variable.is_categorical else {})}
        kept = {key: published.get(key, text) for key, text in kept.items() if published.get(key, text)}
    return field.remove_metadata().with_metadata(kept) if kept else field.remove_metadata()


def _labels(metadata: Mapping[bytes, bytes], variable: Variable) -> str:
    """Return the codebook's labels of the values that the file labels, in the file's order, as JSON."""
    try:
        found = json.loads(metadata.get(VALUES, b"{}"))
    except (ValueError, RecursionError):
        return ""
    texts = dict(zip(map(str, variable.categories), variable.labels, strict=False))
    kept = {value: texts[value] for value in found if value in texts} if isinstance(found, dict) else {}
    return as_json(kept)


def check_columns(
    source: Source, mechanism: Mechanism, columns: Sequence[str] | None, record_key: str | None
) -> tuple[str, ...]:
    """Return the columns to release; raises with every problem of the request before a record is read."""
    codebook = mechanism.require_codebook()
    names = released_names(codebook) if columns is None else tuple(columns)
    problems = [
        sentence(f"column {n!r} is named twice among the columns to release")
        for n in sorted({n for n in names if names.count(n) > 1})
    ]
    problems += [
        sentence(
            f"column {n!r} is not in the codebook{nearest(n, codebook.names)}",
            fix="use names of columns in the codebook",
        )
        for n in names
        if n not in codebook
    ]
    if columns is None:  # where the columns are named, leaving others out is meant
        problems += [
            sentence(
                f"column {n!r} of the data has no entry in the codebook, so it has no role",
                fix="add it to the codebook (role 'drop' leaves it out), or name the columns to release",
            )
            for n in source.schema.names
            if n not in codebook
        ]
    if not names:
        problems.append(sentence("no column is released", fix="give a variable the role key, sensitive or other"))
    raise_all(UsageError, problems)
    units = [] if mechanism.units is None else mechanism.units.columns.values()
    wanted = {*names, *mechanism.variables, *mechanism.given, *units, *([] if record_key is None else [record_key])}
    check_inputs(source, sorted(wanted), record_key)
    return names
