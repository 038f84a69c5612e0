"""Keyed randomness: every random bit is a function of release key, mechanism, content, record and block.

::

    release key ──HKDF-SHA256, mechanism digest, content──> draw key, order key    (AES-256)
    words of record r, slot s = AES-256(draw key, r as u64 LE ‖ s as u64 LE)  (16 bytes = two little-endian u64)
    block b reads word b & 1 of slot b >> 1

A block of a household has keys of its own (:func:`derive_unit`), and the household's identity in the place of r.

So a released value depends only on the key, the mechanism, the record key and the true values that the mechanism reads
(the content: a digest of all of them). It does not depend on batches, threads, order, engine or retries. Different
mechanisms or contents never share noise, and one AES block serves two blocks of the mechanism.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.errors import DataError, UsageError, sentence
from postrand.support import saving
from postrand.support.system import open_plain, others_may
from postrand.support.warned import warn

KEY_BYTES = 32
_LONGEST_KEY = 1024  # bytes that are read of a file that should contain a key
_SALT = b"postrand/1"
_AES_BLOCK = 16
SMALLEST_SHOWN_COUNT = 5
"""Counts of records below this are not shown in messages."""


class KeyFileWarning(UserWarning):
    """People other than the owner can read a file with a release key."""


def new_key(path: str | Path) -> str:
    """Return how a new release key is written to a file, as a next step.

    >>> new_key("my key").partition(": ")[2]
    "(umask 077; head -c 32 /dev/urandom > 'my key')"
    """
    return (
        "for a new release, write a new key that only you can read (mode 600): "
        f"(umask 077; head -c 32 /dev/urandom > {shlex.quote(str(path))})"
    )


@dataclass(frozen=True, slots=True)
class ReleaseKey:
    """Hold the 256-bit secret behind one release; its ``repr`` and errors never show it.

    ``is_private`` is False for a key made from a seed: anyone can repeat such a release, so it protects nobody.

    Examples
    --------
    >>> ReleaseKey.from_seed(7)
    ReleaseKey(is_private=False)
    >>> ReleaseKey.from_bytes(bytes(32)).is_private
    True
    """

    secret: bytes = field(repr=False)
    is_private: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != KEY_BYTES:
            raise UsageError(_wrong_key())

    @classmethod
    def fresh(cls) -> ReleaseKey:
        """Return a new key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_bytes(cls, secret: bytes) -> ReleaseKey:
        """Return the key of these 32 bytes; raises UsageError for any other length."""
        return cls(bytes(secret) if isinstance(secret, (bytearray, memoryview)) else secret)

    @classmethod
    def from_hex(cls, text: str) -> ReleaseKey:
        """Return the key of 64 hexadecimal digits (white space at the ends is ignored); raises UsageError otherwise."""
        try:
            return cls(bytes.fromhex(text.strip()))
        except (ValueError, AttributeError, TypeError):
            raise UsageError(_wrong_key()) from None

    @classmethod
    def from_file(cls, path: str | Path) -> ReleaseKey:
        """Return the key in a file: 32 bytes, or 64 hexadecimal digits with or without a line end.

        Warns (``KeyFileWarning``) if others than the file's owner can read or change it.

        Raises
        ------
        UsageError
            If the file cannot be read or contains anything else; the message never shows the content.
        """
        try:
            with open(path, "rb", opener=open_plain) as file:
                held = file.read(_LONGEST_KEY)
                shared = others_may(os.fstat(file.fileno()))
        except (OSError, ValueError) as error:
            got = getattr(error, "strerror", None) or "not a valid file name"
            fix = new_key(path) if isinstance(error, FileNotFoundError) else ""
            raise UsageError(sentence("the release key cannot be read", where=str(path), got=got, fix=fix)) from None
        try:
            raw = len(held) == KEY_BYTES and not held.isascii()
            key = cls(held) if raw else cls.from_hex(held.decode("ascii"))
        except (UnicodeDecodeError, UsageError):
            raise UsageError(_wrong_key(where=f"key file {Path(path).name!r}", fix=new_key("key"))) from None
        if shared:
            what = "other users can read this file, and can undo the release with it"
            text = sentence(what, where=f"key file {Path(path).name!r}", fix=f"chmod 600 {Path(path).name}")
            warn(text, KeyFileWarning, stacklevel=2)
        return key

    def save(self, path: str | Path) -> None:
        """Write the key to a new file, 64 hexadecimal digits that only its owner can read.

        :func:`postrand.load_key` and ``--key-file`` read it. A key is never written over another file: with the key
        that is lost, a release could not be continued or audited.

        Raises
        ------
        UsageError
            If the file exists or cannot be written, or the key grew from a seed: a file would not say so.
        """
        if not self.is_private:
            raise UsageError(sentence("the key grew from a seed and is not saved", fix="note the seed"))
        saving.write_whole(path, f"{self.secret.hex()}\n".encode(), mode=0o600)

    @classmethod
    def from_seed(cls, seed: int) -> ReleaseKey:
        """Return a key that anyone can rebuild from ``seed`` (an integer >= 0): for tests, never for a release."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise UsageError(sentence("the seed is not a whole number", wanted="an integer >= 0"))
        return cls(_expand(str(seed).encode(), b"seed"), is_private=False)


def load_key(path: str | Path) -> ReleaseKey:
    """Read a release key that :meth:`ReleaseKey.save` wrote; see :meth:`ReleaseKey.from_file`."""
    return ReleaseKey.from_file(path)


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """Hold the two AES-256 keys of one mechanism under one release key."""

    draw: bytes = field(repr=False)
    order: bytes = field(repr=False)


def as_release_key(value: ReleaseKey | bytes | str | None) -> ReleaseKey:
    """Return ``value`` as a release key: 32 bytes, 64 hexadecimal digits, or None for a new key.

    Raises
    ------
    UsageError
        If the length is wrong or the text is not hexadecimal; the message never shows the key.
    """
    if value is None:
        return ReleaseKey.fresh()
    if isinstance(value, ReleaseKey):
        return value
    return ReleaseKey.from_hex(value) if isinstance(value, str) else ReleaseKey.from_bytes(value)


@dataclass(frozen=True, slots=True)
class ContentKeys:
    """Hold the two AES-256 keys by which one release key digests contents."""

    table: bytes = field(repr=False)
    record: bytes = field(repr=False)


def content_keys(key: ReleaseKey) -> ContentKeys:
    """Derive the keys of content digests, which are bound to the release key alone.

    >>> one, two = content_keys(ReleaseKey.from_seed(1)), content_keys(ReleaseKey.from_seed(2))
    >>> len({one.table, one.record, two.table, two.record})
    4
    """
    return ContentKeys(_expand(key.secret, b"content table"), _expand(key.secret, b"content record"))


def derive(key: ReleaseKey, mechanism_digest: str, content: bytes = b"") -> StreamKeys:
    """Derive the keys of draws and record order by HKDF-SHA256 (RFC 5869), bound to mechanism and content.

    ``content`` is the tag of all records that are drawn for: leave it out only if nothing about them is released.

    Examples
    --------
    >>> one, two = derive(ReleaseKey.from_seed(1), "aa" * 32), derive(ReleaseKey.from_seed(1), "bb" * 32)
    >>> one == two, one.draw == one.order, len(one.draw)
    (False, False, 32)
    >>> derive(ReleaseKey.from_seed(1), "aa" * 32, b"another file") == one
    False
    """
    digest = mechanism_digest.encode() + (b" content " + content) * bool(content)
    return StreamKeys(_expand(key.secret, b"draw " + digest), _expand(key.secret, b"order " + digest))


@dataclass(frozen=True, slots=True)
class UnitKeys:
    """Hold the AES-256 keys of draws for units: ``numbered`` ones, and records ``alone``, which have no number."""

    numbered: bytes = field(repr=False)
    alone: bytes = field(repr=False)


def derive_unit(key: ReleaseKey, mechanism_digest: str, content: bytes, unit: str) -> UnitKeys:
    """Derive the keys of draws that all records of a unit share, as :func:`derive` does those of records.

    Keys differ by unit and from those of records: the identity of a household never meets an equal record key.

    >>> own = derive(ReleaseKey.from_seed(1), "aa", b"c")
    >>> house, person = (derive_unit(ReleaseKey.from_seed(1), "aa", b"c", unit) for unit in ("household", "person"))
    >>> len({own.draw, own.order, house.numbered, house.alone, person.numbered, person.alone})
    6
    """
    label = f"of unit {unit} {mechanism_digest} content ".encode() + content
    return UnitKeys(_expand(key.secret, b"numbered " + label), _expand(key.secret, b"alone " + label))


def derive_members(key: ReleaseKey) -> bytes:
    """Derive the key that chooses one member of each household; it needs no mechanism, for it reads no true value.

    >>> len(derive_members(ReleaseKey.from_seed(1)))
    32
    """
    return _expand(key.secret, b"members of unit household")


class WordStream:
    """Produce the words of up to ``capacity`` records, up to ``slots`` slots at a time, in buffers that are used again.

    Not for use by two threads at once. Buffers take ``32 * capacity * slots`` bytes: keep them within the L2 cache.
    """

    __slots__ = ("_cipher", "_encrypt", "_first", "_held", "_plain", "_slots")

    def __init__(self, aes_key: bytes, capacity: int, slots: int = 1) -> None:
        self._held = np.empty(capacity * slots * 2, dtype="<u8")
        # The cipher needs extra room at the end: one byte less than a block.
        self._cipher = np.empty(capacity * slots * _AES_BLOCK + _AES_BLOCK - 1, dtype=np.uint8)
        self._plain, self._slots, self._first = self._held[:0].reshape(slots, 0, 2), slots, -1
        self._encrypt = encryptor(aes_key)

    def load(self, record_keys: NDArray[np.uint64]) -> None:
        """Take the keys of the next records, shape (n,), n <= capacity."""
        n = record_keys.size
        if n != self._plain.shape[1]:
            self._plain, self._first = self._held[: self._slots * n * 2].reshape(self._slots, n, 2), -1
        self._plain[:, :, 0] = record_keys

    def words(self, first: int, slots: int = 1) -> NDArray[np.uint64]:
        """Return the words of so many slots from ``first``, shape (slots, n, 2): a view, valid until the next call."""
        plain = self._plain[:slots]
        if first != self._first:  # else the numbers of the slots are there, from the records before
            self._plain[:, :, 1] = np.arange(first, first + self._slots, dtype=np.uint64)[:, None]
            self._first = first
        self._encrypt.update_into(self._held.data.cast("B")[: plain.nbytes], self._cipher.data)
        return self._cipher[: plain.nbytes].view("<u8").reshape(plain.shape)


def encryptor(aes_key: bytes) -> Any:
    """Return AES-256 block by block: ``update_into(plain, cipher)``."""
    # Only draws and contents need the library, and every command imports this module.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # ECB on distinct counters is the block function itself, and only that is needed.
    return Cipher(algorithms.AES256(aes_key), modes.ECB()).encryptor()


def words(aes_key: bytes, record_keys: NDArray[np.uint64], slot: int) -> NDArray[np.uint64]:
    """Return the two words of each record, shape (n, 2): ``AES-256(key, record key ‖ slot)``, all little-endian.

    >>> words(bytes(32), np.array([0], dtype=np.uint64), 0).tobytes().hex()  # AES-256, zero key, zero block
    'dc95c078a2408989ad48a21492842087'
    """
    stream = WordStream(aes_key, max(1, record_keys.size))
    stream.load(record_keys)
    found: NDArray[np.uint64] = stream.words(slot)[0]
    return found


def record_keys(column: pa.Array | pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return the 64-bit key of each record, shape (n,), from a column of integers or text.

    Integers become their two's complement; text becomes the first 8 bytes (little-endian) of the SHA-256 of its UTF-8.

    Raises
    ------
    DataError
        If the column is of another type, or a key is missing.

    Examples
    --------
    >>> record_keys(pa.array([5, -1])).tolist()
    [5, 18446744073709551615]
    """
    if column.null_count:
        raise DataError(sentence("a record key is missing", fix="use a column without missing values, or none"))
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    types, of = pa.types, column.type
    if types.is_dictionary(of):
        return record_keys(column.dictionary.take(column.indices))
    if types.is_integer(of):
        return np.from_dlpack(column).astype(np.uint64)  # of numbers below 0, modulo 2^64
    if types.is_string(of) or types.is_large_string(of) or types.is_string_view(of):
        texts = pc.cast(column, pa.large_binary()).to_pylist()
        heads = b"".join(hashlib.sha256(text).digest()[:8] for text in texts)
        return np.frombuffer(heads, dtype="<u8").astype(np.uint64)
    raise DataError(sentence("a record key is not an integer or text", got=of, wanted="int64, uint64 or string"))


def shared_keys(keys: NDArray[Any]) -> int:
    """Return how many records have the key (n,) of another one.

    >>> shared_keys(np.array([7, 5, 7, 7]))
    3
    """
    keys = np.sort(keys)
    same = keys[1:] == keys[:-1]
    return int((np.append(same, False) | np.append(False, same)).sum()) if same.any() else 0


def duplicate_keys(involved: int) -> DataError:
    """Return the error for ``involved`` records that share their key with another."""
    many = f" ({involved} records are involved)" if involved >= SMALLEST_SHOWN_COUNT else ""
    return DataError(
        sentence(
            f"two records have the same record key{many}",
            wanted="a different key for each record, because equal keys draw equal noise",
            fix="use a column of unique values, or no record key (then row numbers are used)",
        )
    )


def _expand(secret: bytes, label: bytes) -> bytes:
    # As in encryptor.
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=_SALT, info=label).derive(secret)


def _wrong_key(where: str = "", fix: str = "") -> str:
    wanted = f"{KEY_BYTES} bytes, or {2 * KEY_BYTES} hexadecimal digits"
    return sentence("the release key is not valid", where=where, wanted=wanted, fix=fix)
