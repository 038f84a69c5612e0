"""Tables and queries of databases as a plan names them: an address without a password, and what is read or written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, quote, unquote

from postrand import formats
from postrand.codebook import Codebook
from postrand.columns.recoded import before_recodes, recoded
from postrand.engines.duckdb import DuckDBSource, require_table, settings_of
from postrand.engines.grouped import dotted, order_sql
from postrand.engines.postgres import PostgresSource
from postrand.engines.resources import NOTHING, Resources
from postrand.errors import DataError, SpecificationError, UsageError, nearest, raise_all, sentence, shown
from postrand.formats import File, Source
from postrand.formats.base import check_schema
from postrand.support.inputs import has_controls, is_names

IfExists = Literal["fail", "replace", "append"]
SOURCE_OPTIONS = ("uri", "table", "query", "order", "password_from")
TARGET_OPTIONS = ("uri", "table", "if_exists", "mark", "password_from")
ADDRESS = "POSTRAND_DATABASE"
"""The variable of the environment that says where released tables are now, if not where the release says."""

_FORM = "postgresql://[user@]host[:port]/database, postgresql:///?service=NAME, or duckdb:///file.duckdb"
_PASSWORD_FIX = (
    "remove the password: set PGPASSWORD, name another variable with password_from, or use a service or password file"
)
_NAME = r"[A-Za-z0-9_.~%+-]"
# No ":" before the "@": whatever could be read as a password is refused, and nothing of it is shown.
_POSTGRES = re.compile(
    rf"postgres(?:ql)?://(?:(?P<user>{_NAME}+)@)?(?P<host>{_NAME}+|\[[0-9a-fA-F:]+\])?(?::(?P<port>[0-9]{{1,5}}))?"
    rf"(?:/(?P<name>{_NAME}*))?(?:\?(?P<options>[^?#@\s]*))?"
)
_DUCKDB = re.compile(r"duckdb:///(?P<path>[^?#\0]+)")
_PUBLIC = ("host", "port", "dbname", "service")
_ALLOWED = (*_PUBLIC, "user", "hostaddr", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "connect_timeout")
_SETTINGS = (*_ALLOWED, "application_name", "target_session_attrs", "channel_binding", "gssencmode", "krbsrvname")
# Literals, names and comments of SQL, in which a semicolon parts no statements.
_HIDDEN_SQL = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$""", re.DOTALL
)
_READS = re.compile(r"\s*(?:\(\s*)*(?:SELECT|FROM|WITH|TABLE|VALUES)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Database:
    """Say where a database is; the password is never part of it.

    Parameters
    ----------
    uri
        ``postgresql://user@host:port/database``, ``postgresql:///?service=NAME``, or ``duckdb:///file.duckdb``, whose
        path is relative to ``folder``.
    password_from
        The variable of the environment with the password; by default PostgreSQL's own ways: PGPASSWORD, a password
        file, a service file.

    Raises
    ------
    SpecificationError
        If the address has another form, or could hold a password; nothing of it is shown then.
    """

    uri: str
    password_from: str = ""
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _address_problems(self.uri))
        if self.password_from and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.password_from):
            what = "password_from is not the name of a variable of the environment"
            raise SpecificationError(
                sentence(what, fix="give the name of the variable that contains the password, not the password")
            )

    @property
    def path(self) -> Path | None:
        """The DuckDB file; None for PostgreSQL."""
        found = _DUCKDB.fullmatch(self.uri)
        return (self.folder / found["path"]).resolve() if found else None

    def address(self) -> str:
        """Return PostgreSQL's address, with the password of the named variable: not to be shown."""
        if not self.password_from:
            return self.uri
        if (password := os.environ.get(self.password_from)) is None:
            what = f"the environment has no variable {self.password_from!r}, which must contain the password"
            raise UsageError(sentence(what, fix=f"set {self.password_from}, or leave password_from out"))
        return f"{self.uri}{'&' if '?' in self.uri else '?'}password={quote(password, safe='')}"

    def public(self, folder: Path) -> str:
        """Return the address as a release can contain it: without user and settings; a file relative to the release."""
        if self.path is not None:
            return f"duckdb:///{Path(os.path.relpath(self.path, folder.resolve())).as_posix()}"
        found = _POSTGRES.fullmatch(self.uri)
        assert found is not None
        kept = [(name, value) for name, value in parse_qsl(found["options"] or "") if name in _PUBLIC]
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in kept)
        port = f":{found['port']}" if found["port"] else ""
        return f"postgresql://{found['host'] or ''}{port}/{found['name'] or ''}{'?' * bool(text)}{text}"


@dataclass(frozen=True, slots=True)
class Table:
    """Say which records of a database are read: those of a table or of one query, in an order that leaves no ties.

    Raises
    ------
    SpecificationError
        If not one of ``table`` and ``query`` is given, or the query is no single statement that reads.
    """

    database: Database
    table: str = ""
    query: str = field(default="", repr=False)
    order: tuple[str, ...] = ()
    resources: Resources = field(default=NOTHING, compare=False, repr=False)

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _table_problems(self.table, self.query, self.order))

    @property
    def name(self) -> str:
        """What the records are called in messages."""
        return self.table or "query"

    def open(self, codebook: Codebook | None = None) -> Source:
        """Open the records; raises DataError where the database refuses, or they do not fit the codebook."""
        source = self._source("")
        if self.order:
            known = source.schema.names
            missing = [n for n in self.order if n not in known]
            raise_all(DataError, [sentence(f"no column {n!r}{nearest(n, known)}", where="'order'") for n in missing])
            source = self._source(order_sql(dict.fromkeys(self.order, "")))
        check_schema(source.schema, Path(self.name), codebook)
        return source

    def to_dict(self, folder: Path) -> dict[str, str]:
        """Return the options of a plan in this folder that name these records."""
        path, uri = self.database.path, self.database.uri
        if path is not None:
            uri = f"duckdb:///{Path(os.path.relpath(path, folder.resolve())).as_posix()}"
        told = {"uri": uri, "table": self.table, "query": self.query, "password_from": self.database.password_from}
        return {name: text for name, text in told.items() if text}

    def _source(self, order: str) -> Source:
        query = self.query.rstrip().rstrip(";").rstrip() or f"SELECT * FROM {dotted(self.table)}{order}"
        query += "\n" * ("--" in query)  # what is written behind it is no part of a comment
        if (path := self.database.path) is None:
            return PostgresSource(self.database.address(), query)
        if self.table:
            require_table(path, self.table)
        return DuckDBSource(query, path, settings=settings_of(self.resources))


@dataclass(frozen=True, slots=True)
class Target:
    """Say which table a release becomes.

    ``if_exists``: ``fail`` where the table is there, ``replace`` it in the transaction that writes the new one, or
    ``append`` to it. With a ``mark``, each record has this text in the column ``postrand_release``, by which the
    release is told apart from others in its table: appending takes one.

    Raises
    ------
    SpecificationError
        If no table is named, an option is unknown, or records are to be appended without a mark.
    """

    database: Database
    table: str
    if_exists: IfExists = "fail"
    mark: str = ""
    resources: Resources = field(default=NOTHING, compare=False, repr=False)

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _target_problems(self.table, self.if_exists, self.mark))

    def share(self, part: int) -> int | None:
        """Return this part of the memory limit in bytes, or None: the database and the digest of the table share it."""
        limit = self.resources.memory_limit
        return None if limit is None else max(1, limit // part)


def open_records(place: Path | File | Table, codebook: Codebook | None = None) -> Source:
    """Open confidential records, a file or a table, recoded as the codebook says.

    Raises as :func:`postrand.formats.read` and :func:`postrand.columns.recoded.recoded`.
    """

    def opened(book: Codebook | None) -> Source:
        return place.open(book) if isinstance(place, Table) else formats.read(place, book)

    if codebook is None or not codebook.recodes:
        return opened(codebook)
    plain = opened(None)
    types = {} if getattr(plain, "untyped", False) else {field.name: str(field.type) for field in plain.schema}
    recoded(plain, codebook.recodes)  # whose columns are there, before any is said to be unknown
    return recoded(opened(before_recodes(codebook, types)), codebook.recodes)


def source_from(data: Mapping[str, Any], folder: Path, where: str) -> tuple[Table | None, list[str]]:
    """Return the table that a plan's ``[source]`` names, or None; and every problem of it."""
    if not any(name in data for name in SOURCE_OPTIONS):
        return None, []
    if "file" in data:
        return None, [sentence("both a file and a database are named", where=where, fix="keep 'file' or 'uri'")]
    if wrong := list(_type_problems(data, ("uri", "table", "query", "password_from"), where)):
        return None, wrong
    if not is_names(data.get("order", [])):
        return None, [sentence("'order' is not a list of names", where=where, fix='set order = ["id"]')]
    try:
        database = Database(data.get("uri", ""), data.get("password_from", ""), folder)
        chosen = {name: data[name] for name in ("table", "query") if name in data}
        return Table(database, order=tuple(data.get("order", ())), **chosen), []
    except SpecificationError as error:
        return None, [f"{where}: {problem}" for problem in error.problems]


def target_from(data: Any, folder: Path, where: str) -> tuple[Target | None, list[str]]:
    """Return the table that a plan's ``[release]`` is written to, or None; and every problem of it."""
    if not isinstance(data, Mapping) or not any(name in data for name in TARGET_OPTIONS):
        return None, []
    if wrong := list(_type_problems(data, TARGET_OPTIONS, where)):
        return None, wrong
    if data.get("format", "same") != "same":
        return None, [sentence("a release in a table has no file format", where=where, fix="leave 'format' out")]
    try:
        database = Database(data.get("uri", ""), data.get("password_from", ""), folder)
        chosen = {name: data[name] for name in ("if_exists", "mark") if name in data}
        return Target(database, data.get("table", ""), **chosen), []
    except SpecificationError as error:
        return None, [f"{where}: {problem}" for problem in error.problems]


def _type_problems(data: Mapping[str, Any], names: tuple[str, ...], where: str) -> Iterator[str]:
    for name in names:
        if name in data and (not isinstance(data[name], str) or "\0" in data[name]):
            yield sentence(f"{name!r} is not text", where=where)


def _address_problems(uri: str) -> Iterator[str]:
    """Say what is wrong with an address, showing nothing of it."""
    if not uri:
        yield sentence("the address of the database is missing", fix=f"set uri = {_FORM}")
    elif uri.startswith("duckdb:"):
        if not _DUCKDB.fullmatch(uri):
            yield sentence("the address is not that of a DuckDB file", wanted="duckdb:///file.duckdb")
    elif (found := _POSTGRES.fullmatch(uri)) is None:
        what = "the address does not have the form of an address without a password"
        yield sentence(what, wanted=_FORM, fix=_PASSWORD_FIX)
    else:
        options = [name for name, _ in parse_qsl(found["options"] or "", keep_blank_values=True)]
        if any("pass" in name.lower() and name != "passfile" for name in options):
            yield sentence("the address contains a password", fix=_PASSWORD_FIX)
        elif not set(options) <= set(_SETTINGS) or "%" in unquote(found["user"] or ""):
            yield sentence("the address has a setting that is not permitted in a plan", wanted=", ".join(_SETTINGS))


def _name_problems(table: str) -> Iterator[str]:
    parts = table.split(".", 1)
    if not all(parts) or has_controls(table):
        yield sentence("this is not a valid name of a table", got=shown(table, repr), wanted="table, or schema.table")


def _table_problems(table: str, query: str, order: tuple[str, ...]) -> Iterator[str]:
    if bool(table) == bool(query):
        what = "both a table and a query are named" if table else "neither a table nor a query is named"
        yield sentence(what, fix='set table = "schema.table", or query = "SELECT ..."')
    elif table:
        yield from _name_problems(table)
    else:
        bare = _HIDDEN_SQL.sub(" ", query)
        if ";" in bare.rstrip().rstrip(";"):
            yield sentence("the query is more than one statement", fix="keep the one that reads the records")
        elif not _READS.match(bare):
            yield sentence(
                "the query does not read records", wanted="SELECT ..., WITH ... SELECT, TABLE ... or FROM ..."
            )
    if len(set(order)) < len(order):
        yield sentence("'order' names a column twice")
    elif order and query:
        yield sentence("'order' is only for a table", fix="end the query with ORDER BY and these columns")


def _target_problems(table: str, if_exists: str, mark: str) -> Iterator[str]:
    if not table:
        yield sentence("the table of the release is not named", fix='set table = "schema.table"')
    else:
        yield from _name_problems(table)
    known = get_args(IfExists)
    if if_exists not in known:
        hint = nearest(shown(if_exists), known)
        yield sentence(f"unknown if_exists {shown(if_exists, repr)}{hint}", wanted=" or ".join(known))
    elif if_exists == "append" and not mark:
        what = "appended records could not be distinguished from records of other releases"
        yield sentence(what, fix='set mark = "2026", a text that no other release in the table has')
    if has_controls(mark):
        yield sentence("'mark' contains a control character")
