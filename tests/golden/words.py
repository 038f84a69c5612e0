"""Write words.json: keyed words made by an AES and an HKDF that share nothing with the package.

Run ``python tests/golden/words.py``. AES-256 is FIPS 197 over GF(2^8), HKDF is RFC 5869 by ``hmac``.
"""

import hashlib
import hmac
import json
from pathlib import Path

CASES = [  # seed, mechanism digest, record keys, slots
    (0, "00" * 32, [0, 1, 2], [0, 1]),
    (42, "ab" * 32, [0, 953_075, 2**63 - 1, 2**64 - 1], [0, 4, 500]),
]


def times(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def s_box(byte):
    inverse = next((x for x in range(256) if times(byte, x) == 1), 0)
    rotated = [(inverse << s | inverse >> (8 - s)) & 255 for s in range(5)]
    return rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63


SBOX = [s_box(byte) for byte in range(256)]


def expand_key(key):
    words, constant = [list(key[i : i + 4]) for i in range(0, 32, 4)], 1
    while len(words) < 60:
        last = list(words[-1])
        if len(words) % 8 == 0:
            last = [SBOX[b] for b in last[1:] + last[:1]]
            last[0] ^= constant
            constant = times(constant, 2)
        elif len(words) % 8 == 4:
            last = [SBOX[b] for b in last]
        words.append([a ^ b for a, b in zip(words[-8], last, strict=True)])
    return [[byte for word in words[i : i + 4] for byte in word] for i in range(0, 60, 4)]


def aes256(key, block):
    round_keys = expand_key(key)
    state = [a ^ b for a, b in zip(block, round_keys[0], strict=True)]
    for number, round_key in enumerate(round_keys[1:], 1):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 14:
            columns = [state[i : i + 4] for i in range(0, 16, 4)]
            state = [
                times(c[r], 2) ^ times(c[(r + 1) % 4], 3) ^ c[(r + 2) % 4] ^ c[(r + 3) % 4]
                for c in columns
                for r in range(4)
            ]
        state = [a ^ b for a, b in zip(state, round_key, strict=True)]
    return bytes(state)


def hkdf(secret, info):
    extracted = hmac.new(b"postrand/1", secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def vectors():
    for seed, digest, records, slots in CASES:
        secret = hkdf(str(seed).encode(), b"seed")
        draw, order = hkdf(secret, f"draw {digest}".encode()), hkdf(secret, f"order {digest}".encode())
        for slot in slots:
            blocks = [aes256(draw, r.to_bytes(8, "little") + slot.to_bytes(8, "little")) for r in records]
            yield {
                "seed": seed,
                "mechanism_digest": digest,
                "secret": secret.hex(),
                "draw": draw.hex(),
                "order": order.hex(),
                "slot": slot,
                "record_keys": records,
                "words": [[int.from_bytes(b[:8], "little"), int.from_bytes(b[8:], "little")] for b in blocks],
            }


if __name__ == "__main__":
    text = json.dumps(list(vectors()), indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n")
