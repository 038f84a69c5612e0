"""Keys and keyed words: golden vectors from another AES and HKDF, and what keys never show."""

import json
import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from postrand.errors import DataError, UsageError
from postrand.support.randomness import (
    ReleaseKey,
    WordStream,
    as_release_key,
    derive,
    duplicate_keys,
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


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33), "ab" * 31, "zz" * 32, "secretsecret", 5])
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


@pytest.mark.parametrize("name", [".", "none", "key/below", "n" * 300, "\0", "/dev/zero"])
def test_a_key_that_cannot_be_read_is_one_of_our_errors(tmp_path, name):
    (tmp_path / "key").write_bytes(b"ab" * 32)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UsageError, match="release key"):
        ReleaseKey.from_file(tmp_path / name)
