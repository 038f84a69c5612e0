from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Codes = NDArray[Any]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Block = tuple[int, Codes, Words | Integers, int, Codes]

def draw(words: Words, start: int, blocks: tuple[Block, ...], /) -> None: ...
def join_digits(number: Words, bases: tuple[int, ...], columns: tuple[Codes, ...], start: int, /) -> None: ...
def fill_tables(weights: Integers, bits: int, entries: Words, /) -> None: ...
def shuffle_runs(places: Integers, starts: Integers, words: Words, /) -> None: ...
def weigh_cells(
    tail: Floats, tails: Integers, weights: Floats, shares: Floats, starts: Integers, most: Floats, total: Floats, /
) -> None: ...
