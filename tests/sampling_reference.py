"""The sampler again, slowly: plain Python integers, one record at a time, no shared code."""

from collections.abc import Sequence


def alias_row(weights: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    """Return k and, for each of 2^k buckets, threshold and alias."""
    size, bits = len(weights), 1
    while 1 << bits < size:
        bits += 1
    unit = 2 ** (53 - bits)
    rest = [int(w) for w in weights] + [0] * (2**bits - size)
    buckets: list[tuple[int, int]] = [(0, j) for j in range(2**bits)]
    donors = [j for j, weight in enumerate(rest) if weight > unit]
    for start in [j for j, weight in enumerate(rest) if weight < unit]:
        taker = start
        while True:
            donor = donors[0]
            buckets[taker] = (rest[taker], donor)
            rest[donor] -= unit - rest[taker]
            if rest[donor] > unit:
                break
            donors.pop(0)
            if rest[donor] == unit:
                break
            taker = donor
    return bits, buckets


def draw_one(weights: Sequence[Sequence[int]], code: int, word: int) -> int:
    """Return the released code of one true code."""
    if code == -1:
        return -1
    bits, buckets = alias_row(weights[code])
    bucket, rest = divmod(word >> 11, 2 ** (53 - bits))
    threshold, alias = buckets[bucket]
    return bucket if rest < threshold else alias


def law(weights: Sequence[int]) -> list[int]:
    """Return how many of the 2^53 values each category is released for, given one row of weights."""
    bits, buckets = alias_row(weights)
    total = [0] * 2**bits
    for bucket, (threshold, alias) in enumerate(buckets):
        total[bucket] += threshold
        total[alias] += 2 ** (53 - bits) - threshold
    return total
