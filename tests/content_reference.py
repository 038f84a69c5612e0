"""The content of records, one at a time in plain Python integers, from the formula of postrand/engines/content.py."""

import struct
from collections.abc import Iterable, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from postrand.support.randomness import ReleaseKey, content_keys

WORD = 1 << 64


def tag_of(cells: Iterable[Sequence[int]], sizes: Sequence[int], record_keys: Iterable[int], key: ReleaseKey) -> bytes:
    """``cells``: for each record its cell of every block, -1 where it is missing; nothing is released by ranks."""
    keys = content_keys(key)
    assert np.prod([float(size + 1) for size in sizes]) < WORD / 2, "more than one group"
    cipher = Cipher(algorithms.AES256(keys.record), modes.ECB()).encryptor()
    total, records = [0, 0], 0
    for row, number in zip(cells, record_keys, strict=True):
        index = 0
        for cell, size in zip(row, sizes, strict=True):
            index = index * (size + 1) + cell + 1
        block = struct.pack("<2Q", number, index)
        drawn = struct.unpack("<2Q", cipher.update(block))
        total = [(a + b) % WORD for a, b in zip(total, drawn, strict=True)]
        records += 1
    return struct.pack("<5Q", records, *total, 0, 0)
