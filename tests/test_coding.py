"""Codes against a value-by-value dictionary look-up; every type there and back."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.codebook import Variable
from postrand.codebook.coding import arrow_type, category_values, code_dtype, decode, encode, numpy_dtype
from postrand.errors import DataError, SpecificationError

TEXTS = ("a", "A", "a ", "", "é", "e\u0301", "\n", '"', "007", "NaN", "None", "null")
CATEGORIES = {
    "string": TEXTS,
    "large_string": TEXTS,
    "string_view": TEXTS,
    "dictionary<values=string, indices=int8, ordered=1>": TEXTS,
    "dictionary<values=int64, indices=int32, ordered=0>": (30, -1),
    "int64": (-9, 0, 1, 2**62),
    "int8": (-128, 127),
    "uint8": (255, 0),
    "double": (0.1, 1e300, -5.0, 0.0),
    "float": (0.5, -2.0),
    "bool": (True, False),
    "date32[day]": ("2020-02-29", "1969-12-31"),
    "timestamp[us, tz=UTC]": ("2020-02-29 12:00:00.000001Z", "1969-12-31 23:59:59Z"),
    "decimal128(5, 2)": ("1.50", "-0.01"),
}


def variable(**fields):
    return Variable(**{"name": "x", "role": "key", **fields})


def missing_code(v):
    return {"category": len(v.categories), "keep": -1}[v.missing]


@pytest.mark.parametrize("missing", ["error", "category", "keep"])
@pytest.mark.parametrize("type_", CATEGORIES)
@given(data=st.data())
def test_codes_equal_a_look_up_value_by_value(type_, missing, data):
    v = variable(type=type_, categories=CATEGORIES[type_], missing=missing)
    values = category_values(v).to_pylist()
    drawn = st.sampled_from(values) if missing == "error" else st.none() | st.sampled_from(values)
    chunks = data.draw(st.lists(st.lists(drawn, max_size=8), max_size=4))
    value_type = category_values(v).type
    column = pa.chunked_array([pa.array(c, type=value_type) for c in chunks], type=value_type)
    expected = [missing_code(v) if x is None else values.index(x) for c in chunks for x in c]
    for same in (column, column.dictionary_encode() if type_ != "string_view" else column):
        codes = encode(same, v)
        assert codes.dtype == np.int8
        assert codes.tolist() == expected
    back = decode(codes, v)
    assert back.to_pylist() == [x for c in chunks for x in c]
    assert np.array_equal(encode(back, v), codes)


@pytest.mark.parametrize("type_", CATEGORIES)
def test_decoding_restores_the_type_and_the_category_order(type_):
    v = variable(type=type_, categories=CATEGORIES[type_], ordered=True)
    back = decode(np.array([1], dtype=np.int8), v)
    wanted = arrow_type(type_)
    assert str(wanted) == type_
    if "string" in type_:
        assert back.type.ordered
        assert back.dictionary.to_pylist() == list(TEXTS)
    if "string" not in type_ or "dictionary" in type_:
        assert back.type == wanted


@pytest.mark.parametrize(("count", "dtype"), [(127, "int8"), (128, "int16"), (32_767, "int16"), (32_768, "int32")])
def test_codes_take_the_smallest_type(count, dtype):
    v = variable(type="int64", categories=tuple(range(count)))
    assert code_dtype(v) == np.dtype(dtype)
    codes = encode(pa.array([0, count - 1]), v)
    assert (codes.dtype, codes.tolist()) == (np.dtype(dtype), [0, count - 1])
    assert decode(codes, v).to_pylist() == [0, count - 1]


def test_a_dictionary_holds_as_many_categories_as_its_indices_tell_apart():
    for index, count in (("int8", 128), ("uint8", 256)):
        type_ = f"dictionary<values=int64, indices={index}, ordered=0>"
        v = variable(type=type_, categories=tuple(range(count)))
        assert decode(np.array([count - 1]), v).to_pylist() == [count - 1]
        with pytest.raises(SpecificationError, match="do not match"):
            decode(np.array([0]), variable(type=type_, categories=tuple(range(count + 1))))


def test_missing_as_a_category_counts_in_the_size():
    v = variable(type="int64", categories=tuple(range(127)), missing="category")
    assert encode(pa.array([None], pa.int64()), v).tolist() == [127]
    assert code_dtype(v) == np.int16


def test_numbers_are_compared_as_numbers():
    whole = variable(type="int64", categories=(0, 1, 2**53))
    assert encode(pa.array([1.0, -0.0]), whole).tolist() == [1, 0]
    assert encode(pa.array([1], pa.uint8()), whole).tolist() == [1]
    assert encode(pa.array([1, 2**53]), variable(type="double", categories=(1.0, float(2**53)))).tolist() == [0, 1]
    for stranger in (1.5, math.inf):
        with pytest.raises(DataError, match="not in the codebook"):
            encode(pa.array([stranger]), whole)
    with pytest.raises(DataError, match="not in the codebook"):
        encode(pa.array([2**53 + 1]), variable(type="double", categories=(float(2**53),)))


def test_nan_and_null_entries_of_a_dictionary_are_missing():
    v = variable(type="double", categories=(1.0,), missing="category")
    assert encode(pa.array([math.nan, None, 1.0]), v).tolist() == [1, 1, 0]
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert encode(column, variable(categories=("a",), missing="keep")).tolist() == [0, -1, -1]
    assert encode(pa.nulls(2), v).tolist() == [1, 1]
    with pytest.raises(DataError, match="a value is missing"):
        encode(column, variable(categories=("a",)))


def test_only_values_that_occur_are_refused():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "stranger"]))
    assert encode(column, variable(categories=("a",))).tolist() == [0, 0]


@pytest.mark.parametrize("text", [" a", "A", "e\u0301", "secret"])
def test_a_stranger_is_refused_and_not_shown(text):
    with pytest.raises(DataError, match=r"variable 'x': a value that is not in the codebook.*Next: add") as caught:
        encode(pa.array(["a", text, None]), variable(categories=("a", "é")))
    assert len(caught.value.problems) == 2
    assert "is missing" in caught.value.problems[0]
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array(["1"]), "int64"),
        (pa.array([1]), "string"),
        (pa.array([True]), "int64"),
        (pa.array([1]), "bool"),
        (pa.array([datetime.date(2020, 1, 1)]), "string"),
        (pa.array([Decimal("1.5")]), "double"),
    ],
)
def test_a_column_of_another_type_is_refused(column, type_):
    with pytest.raises(DataError, match="type differs from the codebook's type"):
        encode(column, variable(type=type_, categories=CATEGORIES[type_]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "int64", "categories": ("1",)}, "categories do not match the type 'int64'"),
        ({"type": "int8", "categories": (128,)}, "categories do not match"),
        ({"type": "string", "categories": (1,)}, "categories do not match"),
        ({"type": "bool", "categories": (0, 1)}, "categories do not match"),
        ({"type": "int64", "categories": (True, False)}, "categories do not match"),
        ({"type": "date32[day]", "categories": ("soon",)}, "categories do not match"),
        (
            {"type": "dictionary<values=int64, indices=int8, ordered=0>", "categories": tuple(range(129))},
            "categories do not match",
        ),
        ({"type": "text", "categories": ("a",)}, "unknown type 'text'"),
        ({"type": "int64"}, "no categories"),
    ],
)
def test_a_variable_that_cannot_be_coded_is_refused(fields, message):
    with pytest.raises(SpecificationError, match=message):
        decode(np.array([0]), variable(**fields))
    with pytest.raises(SpecificationError, match=message):
        encode(pa.array(["a"]), variable(**fields))


@pytest.mark.parametrize("missing", ["error", "category", "keep"])
def test_codes_out_of_range_are_refused(missing):
    v = variable(categories=("a", "b"), missing=missing)
    for code in {"error": (-1, 2), "category": (-1, 3), "keep": (-2, 2)}[missing]:
        with pytest.raises(DataError, match="outside the range"):
            decode(np.array([0, code]), v)
    assert decode(np.array([], dtype=np.int8), v).to_pylist() == []


def test_text_that_is_no_text_is_refused():
    broken = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(DataError, match="not valid UTF-8") as caught:
        encode(broken, variable(categories=("a",)))
    assert "xff" not in str(caught.value)


def test_the_numpy_type_of_numbers_is_arrows_own():
    """Where pandas is installed Arrow tells it; where not, older versions raise."""
    signed = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]
    for of in (*signed, pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        assert numpy_dtype(of) == np.dtype(of.to_pandas_dtype())
