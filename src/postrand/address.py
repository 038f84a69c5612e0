"""Name databases and files in messages without showing their addresses: a message never contains a password."""

from __future__ import annotations

import re

NO_FILE = "a database is not a file"
HIDDEN = "the given address (not shown, because it can contain a password)"
_SUSPECT = re.compile(
    r"[a-z][a-z0-9+.\-]+:/|pass(word|wd|phrase)?\s*=|(pwd|secret|token|key_id)\s*=|[^\s/]:.*@\S", re.I | re.S
)
_PLAIN = "[A-Za-z0-9_.-]+"
# Exactly one "@", and nothing ambiguous before it: otherwise a message could show a part of the password.
_URL = re.compile(
    rf"postgres(?:ql)?://(?:[^:@/?#\s]*(?::[^:@/?#\s]*)?@)(?P<host>{_PLAIN})?(?::[0-9]+)?/(?P<name>{_PLAIN})"
)
_WORD = re.compile(r"\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\=]|\\.)+)(?=\s|$)", re.S)


def database_at(uri: object) -> str:
    """Return name and host of a PostgreSQL database, without user and password; ``the database`` if that is not safe.

    Reads both forms: ``postgresql://user:password@host/name`` and ``host=... dbname=... password=...``.

    >>> database_at("postgresql://curator:secret@db.example:5432/census")
    "database 'census' at db.example"
    >>> database_at("host=db.example user=curator password=secret dbname=census")
    "database 'census' at db.example"
    >>> database_at("postgresql://curator:se/cr@et@db.example/census")
    'the database'
    """
    if not isinstance(uri, str):
        return "the database"
    url = _URL.fullmatch(uri)
    held = {"dbname": url["name"], "host": url["host"]} if url else _words(uri)
    name, host = (held.get(key) or "" for key in ("dbname", "host"))
    if not re.fullmatch(_PLAIN, name):
        return "the database"
    return f"database {name!r} at {host if re.fullmatch(_PLAIN, host) else 'the default host'}"


def _words(text: str) -> dict[str, str]:
    """Return the words of a keyword string; none if it is not a keyword string, or if it contains a word twice."""
    held: dict[str, str] = {}
    end = 0
    while found := _WORD.match(text, end):
        if found[1] in held:
            return {}
        held[found[1]], end = found[2], found.end()
    return held if not text[end:].strip() else {}


def hidden(text: str) -> str:
    """Return a text, or ``HIDDEN`` if it looks like an address or could contain a password.

    >>> hidden("survey/region=1/data.csv")
    'survey/region=1/data.csv'
    >>> hidden("postgresql:/curator:secret@db.example/census")
    'the given address (not shown, because it can contain a password)'
    """
    return HIDDEN if _SUSPECT.search(text) else text
