"""Keys and keyed words: golden vectors from another AES and HKDF, and what keys never show."""

import hmac
import json
import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from postrand.errors import DataError, UsageError
from postrand.support.randomness import (
    KeyFileWarning,
    ReleaseKey,
    WordStream,
    as_release_key,
    content_keys,
    derive,
    derive_members,
    derive_unit,
    duplicate_keys,
    load_key,
    record_keys,
    words,
)

GOLDEN = Path(__file__).parent / "golden" / "words.json"
VECTORS = json.loads(GOLDEN.read_text())


def test_golden_vectors_are_those_of_the_script():
    script = runpy.run_path(str(GOLDEN.with_suffix(".py")))
    # FIPS 197, appendix C.3
    block = script["aes256"](bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert block.hex() == "8ea2b7ca516745bfeafc49904b496089"
    assert list(script["vectors"]()) == VECTORS


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"seed {v['seed']} slot {v['slot']}")
def test_words_equal_the_golden_vectors(vector):
    key = ReleaseKey.from_seed(vector["seed"])
    streams = derive(key, vector["mechanism_digest"])
    keys = np.array(vector["record_keys"], dtype=np.uint64)
    assert (key.secret.hex(), streams.draw.hex(), streams.order.hex()) == tuple(
        vector[name] for name in ("secret", "draw", "order")
    )
    assert words(streams.draw, keys, vector["slot"]).tolist() == vector["words"]


def test_a_word_stream_may_be_used_again_and_part_filled():
    keys = np.arange(100, dtype=np.uint64)
    stream = WordStream(bytes(32), 64)
    for part in (slice(0, 64), slice(64, 100)):
        stream.load(keys[part])
        for slot in (3, 0):
            assert (stream.words(slot) == words(bytes(32), keys[part], slot)).all()


def test_keys_are_checked_and_never_shown():
    secret = bytes(range(32))
    key = ReleaseKey.from_bytes(secret)
    assert (
        key
        == ReleaseKey.from_hex(secret.hex())
        == as_release_key(secret)
        == as_release_key(secret.hex().upper() + "\n")
    )
    assert as_release_key(key) is key
    assert key.is_private
    assert not ReleaseKey.from_seed(1).is_private
    assert as_release_key(None) != as_release_key(None)
    shown = repr(key) + str(key) + repr(derive(key, "d"))
    assert secret.hex() not in shown
    assert repr(secret)[2:20] not in shown


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33), "ab" * 31, "zz" * 32, "secretsecret", 5, 32])
def test_wrong_keys_name_the_length_and_not_the_key(wrong):
    with pytest.raises(UsageError, match="32 bytes, or 64 hexadecimal digits") as caught:
        as_release_key(wrong)
    if len(str(wrong)) > 3:
        assert str(wrong) not in str(caught.value)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "1"])
def test_wrong_seeds(wrong):
    with pytest.raises(UsageError, match="seed"):
        ReleaseKey.from_seed(wrong)


def test_streams_differ_by_key_mechanism_and_purpose():
    streams = [derive(ReleaseKey.from_seed(seed), digest) for seed in (1, 2) for digest in ("aa", "bb")]
    keys = [key for stream in streams for key in (stream.draw, stream.order)]
    assert len(set(keys)) == len(keys) == 8


def test_record_keys_are_twos_complement_or_the_head_of_a_digest():
    top = 2**64 - 1
    assert record_keys(pa.array([0, 7, -1], pa.int64())).tolist() == [0, 7, top]
    assert record_keys(pa.array([-1], pa.int8())).tolist() == [top]
    assert record_keys(pa.array([top], pa.uint64())).tolist() == [top]
    text = pa.array(["abc", "é", ""])
    # SHA-256 of "abc" starts ba7816bf8f01cfea (FIPS 180-2, appendix B.1)
    assert record_keys(text)[0] == int.from_bytes(bytes.fromhex("ba7816bf8f01cfea"), "little")
    for same in (text.dictionary_encode(), pa.chunked_array([text[:1], text[1:]]), text.cast(pa.large_string())):
        assert (record_keys(same) == record_keys(text)).all()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None]), "missing"),
        (pa.array([1.0]), "not an integer or text"),
        (pa.array([True]), "not an integer or text"),
    ],
)
def test_unfit_record_keys(column, message):
    with pytest.raises(DataError, match=message):
        record_keys(column)


def test_small_counts_of_duplicates_are_not_shown():
    assert "2 records" not in str(duplicate_keys(2))
    assert "12 records" in str(duplicate_keys(12))


@pytest.mark.parametrize(
    "held", [bytes(range(200, 232)), b"ab" * 32, b"AB" * 32 + b"\n", b"ab" * 32 + b"\r\n", b" " + b"0f" * 32 + b"\n\n"]
)
def test_a_key_file_holds_bytes_or_digits(tmp_path, held):
    (tmp_path / "key").write_bytes(held)
    (tmp_path / "key").chmod(0o600)
    found = ReleaseKey.from_file(tmp_path / "key")
    assert found.secret == (held if len(held) == 32 else bytes.fromhex(held.decode()))
    assert found.is_private


@pytest.mark.parametrize(
    "held",
    [
        b"",
        b"\xff\xfe" * 32,
        b"\x80" * 31,
        b"\x80" * 33,
        "ключ".encode() * 8,
        b"ab" * 16,  # 32 characters of text are no 32 random bytes
        b"correct horse battery staple 123",
        b"ab" * 31 + b"xy",
        b"ab" * 33,
        b"ab" * 32 + b"\0",
        "ａｂ".encode() * 32,
    ],
)
def test_a_key_file_with_anything_else_is_refused_and_never_shown(tmp_path, held):
    (tmp_path / "key").write_bytes(held)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UsageError, match="is not valid; wanted 32 bytes, or 64 hexadecimal digits") as caught:
        ReleaseKey.from_file(tmp_path / "key")
    shown = str(caught.value) + repr(caught.value.__cause__)
    assert not held or not any(piece in shown for piece in (held[:6].decode("latin-1"), held.hex()[:8], "0x", "byte "))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "the release key"), ("none", "No such file"), ("key/below", "Not a directory"), ("n" * 300, "too long"),
        ("\0", "not a valid file name"), ("/dev/zero", "the release key"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_read_is_one_of_our_errors(tmp_path, name, words):
    (tmp_path / "key").write_bytes(b"ab" * 32)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UsageError, match="release key") as caught:
        ReleaseKey.from_file(tmp_path / name)
    assert words in str(caught.value)


def test_every_derived_key_is_rfc_5869_with_its_own_label():
    """HKDF-SHA256 by hmac alone: extract with the salt, then one block of 32 bytes."""
    key = ReleaseKey.from_bytes(bytes(range(32)))

    def expanded(label: bytes) -> bytes:
        extracted = hmac.digest(b"postrand/1", key.secret, "sha256")
        return hmac.digest(extracted, label + b"\x01", "sha256")

    assert ReleaseKey.from_seed(7).secret == hmac.digest(
        hmac.digest(b"postrand/1", b"7", "sha256"), b"seed\x01", "sha256"
    )
    plain, bound = derive(key, "aa"), derive(key, "aa", b"tag")
    assert (plain.draw, plain.order) == (expanded(b"draw aa"), expanded(b"order aa"))
    assert (bound.draw, bound.order) == (expanded(b"draw aa content tag"), expanded(b"order aa content tag"))
    content = content_keys(key)
    assert (content.table, content.record) == (expanded(b"content table"), expanded(b"content record"))
    unit = derive_unit(key, "aa", b"tag", "person")
    label = b"of unit person aa content tag"
    assert (unit.numbered, unit.alone) == (expanded(b"numbered " + label), expanded(b"alone " + label))
    assert derive_members(key) == expanded(b"members of unit household")
    assert all(text not in repr((plain, content, unit)) for text in ("b'", "draw=", "table=", "alone="))


def test_words_of_several_slots_are_those_of_each_slot_however_the_stream_was_used():
    """Slots at once, parts of them, fewer records, and the same slots again for other records."""
    stream, keys = WordStream(bytes(range(32)), 8, 3), np.arange(5, 13, dtype=np.uint64)

    def wanted(part, first, slots):
        return np.stack([words(bytes(range(32)), part, slot) for slot in range(first, first + slots)])

    for part, first, slots in ((keys, 0, 3), (keys[::-1], 0, 3), (keys[:3], 0, 2), (keys[3:6], 4, 3), (keys, 4, 1)):
        stream.load(np.ascontiguousarray(part))
        np.testing.assert_array_equal(stream.words(first, slots), wanted(part, first, slots))
        np.testing.assert_array_equal(stream.words(first + 1, slots), wanted(part, first + 1, slots))
    assert words(bytes(32), np.array([], dtype=np.uint64), 0).shape == (0, 2)


def test_record_keys_of_every_type_of_integer_and_text():
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert record_keys(pa.array([1, -2], kind)).tolist() == [1, 2**64 - 2]
    for kind, most in ((pa.uint8(), 2**8), (pa.uint16(), 2**16), (pa.uint32(), 2**32), (pa.uint64(), 2**64)):
        assert record_keys(pa.array([0, most - 1], kind)).tolist() == [0, most - 1]
    text = record_keys(pa.array(["abc", "é"]))
    assert (record_keys(pa.array(["abc", "é"], pa.string_view())) == text).all()
    for empty in (
        pa.array([], pa.int64()),
        pa.array([], pa.string()),
        pa.chunked_array([], pa.int64()),
        pa.chunked_array([], pa.string()),
    ):
        found = record_keys(empty)
        assert (found.shape, found.dtype) == ((0,), np.uint64)
    with pytest.raises(DataError, match="a record key is missing"):
        record_keys(pa.array(["a", None]))


@pytest.mark.parametrize(("involved", "shown"), [(2, False), (4, False), (5, True), (12, True)])
def test_counts_of_five_or_more_duplicates_are_shown(involved, shown):
    assert (f"({involved} records" in str(duplicate_keys(involved))) == shown


def test_a_saved_key_is_its_owner_s_alone_and_read_again(tmp_path):
    key, path = ReleaseKey.fresh(), tmp_path / "key"
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == key.secret.hex().encode() + b"\n"
    assert load_key(path) == key
    with pytest.raises(UsageError):
        key.save(path)
    with pytest.raises(UsageError, match="grew from a seed"):
        ReleaseKey.from_seed(1).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    path.chmod(0o640)
    with pytest.warns(KeyFileWarning, match=r"other users can read this file.*chmod 600 key") as caught:
        assert load_key(str(path)) == key
    assert caught[0].filename.endswith("randomness.py")
    for kept in (bytearray(key.secret), memoryview(key.secret)):
        assert ReleaseKey.from_bytes(kept) == key
    path.write_bytes(b"ab" * 32 + b" " * 960)
    path.chmod(0o600)
    assert load_key(path).secret == bytes.fromhex("ab" * 32)
    path.write_bytes(b"ab" * 32 + b" " * 960 + b"x")  # only so much is read
    assert load_key(path).secret == bytes.fromhex("ab" * 32)
    assert ReleaseKey.from_seed(0) != ReleaseKey.from_seed(1)
