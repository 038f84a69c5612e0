"""Texts and their places among known ones, by compiled loops, against Python's own lists."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import Variable
from postrand.codebook.coding import encode
from postrand.errors import DataError
from postrand.support import loops
from postrand.support.texts import find_places, texts_at

# Of every length up to beyond what is compared at once, many of them alike at both ends.
WORDS = st.one_of(
    st.text("ab\u00e9", max_size=4),
    st.builds("{}{}{}".format, st.just("x" * 8), st.text("yz", max_size=9), st.just("x" * 8)),
)
TYPES = st.sampled_from([pa.string(), pa.large_string()])


WIDTHS = st.sampled_from([np.int8, np.int16, np.int32, np.int64])


@given(st.lists(WORDS, max_size=12, unique=True), st.lists(st.none() | WORDS, max_size=40), st.data(), TYPES, WIDTHS)
def test_places_are_those_of_a_list(known, values, data, of, width):
    start, values = data.draw(st.integers(0, 5)), [*values, *known, *known]  # most of them known
    column = pa.array(values, of)[start:]
    found = np.empty(len(column), dtype=width)
    if not find_places(column, known, -2, found):
        assert not loops.COMPILED or len(values) - start < max(1, len(known))
        return
    for value, place in zip(values[start:], found.tolist(), strict=True):
        assert value is None or place == (known.index(value) if value in known else -2)


@given(st.lists(WORDS, max_size=12), st.data(), TYPES, WIDTHS)
def test_texts_are_those_of_a_list(known, data, of, width):
    places = data.draw(st.lists(st.integers(0, len(known)), max_size=40))
    made = texts_at(pa.array(known, pa.string()), np.array(places, dtype=width), of)
    made.validate(full=True)
    assert made.type == of
    assert made.to_pylist() == [[*known, None][place] for place in places]


def test_known_texts_that_are_too_much_alike_are_left_to_arrow():
    known = [f"{'x' * 8}{number:02}{'x' * 8}" for number in range(40)]
    assert not find_places(pa.array(known), known, -2, np.empty(40, dtype=np.int8))
    variable = Variable("v", role="key", categories=tuple(known))
    assert encode(pa.array(known[::-1]), variable).tolist() == [*range(40)][::-1]


def test_one_unknown_text_is_refused_as_in_a_dictionary():
    variable = Variable("v", role="key", categories=("a", "b"), missing="keep")
    assert encode(pa.array(["b", None, "a"]), variable).tolist() == [1, -1, 0]
    with pytest.raises(DataError, match="not in the codebook"):
        encode(pa.array(["b", None, "c"]), variable)
