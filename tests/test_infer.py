"""Drafts of codebooks: what is inferred, what is only proposed, and the way through TOML and back."""

import csv
import datetime
import json
import tomllib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import formats
from postrand.codebook import Codebook
from postrand.codebook.coding import encode
from postrand.errors import SpecificationError
from postrand.plan import infer, writing


def draft_of(tmp_path, table, suffix=".arrow", cut=3, **options):
    path = tmp_path / f"x{suffix}"
    with formats.open_writer(path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=cut):
            writer.write(batch)
    source = formats.read(path)
    drafts = infer.infer(source, **options)
    assert [d["name"] for d in drafts] == table.column_names
    return {d["name"]: d for d in drafts}


def one(tmp_path, values, **options):
    suffix = options.pop("suffix", ".arrow")
    return draft_of(tmp_path, pa.table({"x": values}), suffix, **options)["x"]


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".csv"])
@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["b", "a", "b", "C"], ["C", "a", "b"]),
        (["10", "9", "-1", "2"], ["-1", "2", "9", "10"]),
        (["2", "02", "1"], ["1", "02", "2"]),
        (["10", "9", "x"], ["10", "9", "x"]),
        (["inf", "1"], ["1", "inf"]),
        (["a", "", " a"], ["", " a", "a"]),
    ],
)
def test_text_is_sorted_and_in_numeric_order_where_all_are_numbers(tmp_path, suffix, values, categories):
    draft = one(tmp_path, values, suffix=suffix)
    assert draft["categories"] == categories
    assert (draft["type"], draft["missing"], draft["role"]) == ("string", "error", "")


@pytest.mark.parametrize(
    ("column", "type_", "categories"),
    [
        (pa.array([3, -1, 3, 20]), "int64", [-1, 3, 20]),
        (pa.array([3, 1], pa.int8()), "int8", [1, 3]),
        (pa.array([2.0, 1.0, 2.0]), "double", [1.0, 2.0]),
        (pa.array([2.0, 1.5]), "double", None),
        (pa.array([True, False]), "bool", [False, True]),
        (pa.array([True, True]), "bool", [True]),
        (pa.array([datetime.date(2020, 1, 2), datetime.date(1999, 1, 2)]), "date32[day]", ["1999-01-02", "2020-01-02"]),
        (pa.array([[1], [2]]), "list<item: int64>", None),
        (pa.array([b"a", b"b"]), "binary", None),
    ],
)
def test_types_and_categories(tmp_path, column, type_, categories):
    draft = one(tmp_path, column)
    assert (draft["type"], draft.get("categories")) == (type_, categories)


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_a_dictionary_keeps_its_order_and_its_unused_categories(tmp_path, suffix):
    column = pa.DictionaryArray.from_arrays(pa.array([2, None, 0], pa.int8()), ["low", "mid", "high"], ordered=True)
    draft = one(tmp_path, column, suffix=suffix)
    assert draft["categories"] == ["low", "mid", "high"]
    assert draft["ordered"] is True
    assert draft["type"] == "dictionary<values=string, indices=int8, ordered=1>"
    assert draft["missing"] == "category"


@pytest.mark.parametrize(
    ("column", "missing"),
    [
        (pa.array(["a", None]), "category"),
        (pa.array([1.0, float("nan")]), "category"),
        (pa.array([1.5, float("nan")]), "keep"),
        (pa.array([1.5, None]), "keep"),
        (pa.nulls(2, pa.string()), "keep"),
        (pa.array(["a", "b"]), "error"),
    ],
)
def test_missing_policies(tmp_path, column, missing):
    assert one(tmp_path, column)["missing"] == missing


def test_a_limit_on_categories(tmp_path):
    texts = [f"t{i}" for i in range(6)]
    assert len(one(tmp_path, texts, max_categories=6)["categories"]) == 6
    (tmp_path / "x.arrow").unlink()
    draft = one(tmp_path, texts, max_categories=5)
    assert "categories" not in draft
    listed = "more than 5 different values, not listed here"
    assert draft["notes"] == [f"{listed}: role = 'drop', or group them with [[recodes]]"]


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "22", "-3"], "int64"),
        (["1", "22", None], "int64"),
        (["1.50", "22", "3e2"], "double"),
        (["007", "22", "3"], "string"),  # codes, such as postcodes: a number has no such zero
        (["0.5", "0", "3"], "double"),
        (["1", "22", "x"], "string"),
        (["0.12345678901234567890", "1", "2"], "string"),
    ],
)
def test_text_in_csv_with_many_values_becomes_a_number_where_nothing_is_lost(tmp_path, texts, type_):
    draft = one(tmp_path, texts, suffix=".csv", max_categories=1)
    assert (draft["type"], "categories" in draft) == (type_, False)
    parquet = one(tmp_path, texts, suffix=".parquet", max_categories=1)
    assert parquet["type"] == "string"


def test_numbers_with_a_fraction_are_no_categories_in_csv(tmp_path):
    assert one(tmp_path, ["0.5", "0.25", "0.5"], suffix=".csv")["type"] == "double"


def test_record_keys_are_proposed(tmp_path):
    n = 250
    shuffled = np.random.default_rng(1).permutation(n)
    twice = np.r_[0, np.arange(n - 1)]
    nearly = pa.array([None, *range(1, n)])
    table = pa.table(
        {"id": shuffled, "twice": twice, "nearly": nearly, "real": shuffled / 1.0, "name": shuffled.astype(str)}
    )
    for suffix, keys in ((".arrow", ["id"]), (".csv", ["id", "name"])):
        drafts = draft_of(tmp_path, table.drop_columns(["real"]), suffix, cut=40)
        assert [n for n, d in drafts.items() if any("record_key" in note for note in d["notes"])] == keys


@pytest.mark.parametrize(
    ("values", "proposed"),
    [
        (["iap", "dk", "yes", "N/A", "Not applicable", "no"], '["N/A", "Not applicable", "dk", "iap"]'),
        ([1, 2, -9, -1], "[-9, -1]"),
        ([1, 2, 3, 9], "[9]"),
        ([1, 50, 98, 99], "[98, 99]"),
        (["1", "2", "99"], '["99"]'),
        ([1.0, 2.0, 999.0], "[999.0]"),
        ([*range(10)], None),
        ([7, 8, 9], None),
        ([-50, 3, 99], None),
        ([True, False], None),
        (["9", "Female", "Male"], '["9"]'),
        (["0-8", "9", "10 or more"], None),
    ],
)
def test_codes_for_no_answer_are_proposed_and_not_decided(tmp_path, values, proposed):
    draft = one(tmp_path, values)
    assert "missing_codes" not in draft
    found = [note for note in draft["notes"] if "missing_codes" in note]
    assert found == ([f"if these mean no answer, uncomment: missing_codes = {proposed}"] if proposed else [])


def test_labels_come_from_the_fields(tmp_path):
    labels = {b"label": "Sex of respondent", b"value_labels": json.dumps({"1": "Male", "2": "Female", "9": "Refused"})}
    fields = [pa.field("sex", pa.int64(), metadata=labels), pa.field("bad", pa.int64(), metadata={"value_labels": "{"})]
    drafts = draft_of(tmp_path, pa.table([[1, 2, 9, 3, 3], [1] * 5], schema=pa.schema(fields)))
    assert drafts["sex"]["label"] == "Sex of respondent"
    assert drafts["sex"]["labels"] == ["Male", "Female", "3", "Refused"]
    assert drafts["sex"]["notes"] == ["if these mean no answer, uncomment: missing_codes = [9]"]
    assert "labels" not in drafts["bad"]


def test_other_proposals(tmp_path):
    drafts = draft_of(tmp_path, pa.table({"empty": pa.nulls(2), "weight": ["100", "100"]}))
    assert drafts["empty"]["notes"] == ["every value is missing: role = 'drop'?"]
    assert drafts["weight"]["notes"][0].startswith("role = 'weight'?")


def test_the_file_tells_what_to_edit_and_its_roles_must_be_filled_in(tmp_path):
    drafts = draft_of(tmp_path, pa.table({"sex": ["m", "f"], "odd": ["iap", "x"]}), ".csv")
    text = writing.codebook_text(drafts.values())
    assert 'role = "" # write one of: key, sensitive, other' in text
    assert '# if these mean no answer, uncomment: missing_codes = ["iap"]\n' in text
    path = tmp_path / "codebook.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecificationError) as caught:
        infer.load_codebook(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}: variables without a role: sex, odd; wanted key, sensitive, other")
    assert "--other '*' or --drop '*'" in problem
    uncommented = text.replace("# if these mean no answer, uncomment: ", "").replace('role = ""', 'role = "key"')
    path.write_text(uncommented, encoding="utf-8")
    assert infer.load_codebook(path)["odd"].missing_codes == ("iap",)


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=40, unique=True),
    name=st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40, unique=True),
)
def test_any_draft_comes_back_from_toml(tmp_path_factory, texts, name, numbers):
    drafts = [
        {"name": name, "role": "key", "type": "string", "missing": "category", "categories": texts, "label": texts[0]},
        {
            "name": name + "2",
            "role": "other",
            "type": "double",
            "missing": "keep",
            "categories": numbers,
            "notes": ["a"],
        },
    ]
    path = tmp_path_factory.mktemp("toml") / "codebook.toml"
    path.write_text(writing.codebook_text(drafts), encoding="utf-8")
    plain = [{k: v for k, v in d.items() if k != "notes"} for d in drafts]
    assert infer.load_codebook(path) == Codebook.from_dict({"variables": plain})


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".csv"])
def test_a_filled_in_draft_encodes_its_file(tmp_path, suffix):
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "text": pa.array(rng.choice(["a", "b", "", " "], 50)),
            "number": pa.array([None if x == 3 else int(x) for x in rng.integers(0, 4, 50)]),
            "real": rng.normal(size=50),
        }
    )
    drafts = draft_of(tmp_path, table, suffix)
    path = tmp_path / "codebook.toml"
    path.write_text(writing.codebook_text({**d, "role": "other"} for d in drafts.values()), encoding="utf-8")
    book = infer.load_codebook(path)
    batches = pa.Table.from_batches(list(formats.read(tmp_path / f"x{suffix}", book).batches()))
    assert book["real"].type == "double"
    for name in ("text", "number"):
        codes = encode(batches.column(name), book[name])
        assert [book[name].code_labels[c] for c in codes] == [
            "(missing)" if v is None else str(v) for v in table.column(name).to_pylist()
        ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("variables = 3 =", ["the codebook is not valid TOML"]),
        ("", ["no variables"]),
        ("[[variable]]\nname = 'a'", ["unknown name 'variable' (did you mean 'variables'?)", "no variables"]),
        (
            "[[variables]]\nname = 'a'\nrole = 'key'\ntype = 'int64'\ncategories = ['1']\n"
            "[[variables]]\nname = 'b'\nrole = 'key'\ntype = 'text'\n",
            ["variable 'a': the categories do not match the type 'int64'", "unknown type 'text'"],
        ),
        (
            "[[variables]]\nname = 'a'\nroll = 'key'\n[[variables]]\nrole = 'key'\n",
            [
                "variable 'a': unknown field 'roll' (did you mean 'role'?)",
                "variables without a role: a;",
                "the name is missing",
            ],
        ),
    ],
)
def test_all_problems_of_a_codebook_at_once(tmp_path, text, messages):
    path = tmp_path / "codebook.toml"
    path.write_text(text)
    with pytest.raises(SpecificationError) as caught:
        infer.load_codebook(path)
    for message in messages:
        assert any(message in problem for problem in caught.value.problems), (message, caught.value.problems)
    assert len(caught.value.problems) == len(messages)


def test_a_codebook_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecificationError, match="cannot be read; got No such file"):
        infer.load_codebook(tmp_path / "none.toml")
    with pytest.raises(SpecificationError, match="cannot be read; got a folder"):
        infer.load_codebook(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(SpecificationError, match="not UTF-8"):
        infer.load_codebook(tmp_path / "latin.toml")


def test_the_census_sample(shared_data):
    path = shared_data / "ny_pums_2000_sample.csv"
    drafts = infer.infer(formats.read(path))
    with path.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    assert [d["name"] for d in drafts] == header
    assert [d["categories"] for d in drafts] == [sorted({*column} - {""}) for column in zip(*rows, strict=True)]
    assert {d["missing"] for d in drafts} == {"category"}
    text = tomllib.loads(writing.codebook_text(drafts))
    assert [v["name"] for v in text["variables"]] == [d["name"] for d in drafts]


def test_a_key_with_decimals_has_categories_and_one_without_categories_is_noted(tmp_path):
    rows = "\n".join(f"{n % 4 + 0.5:.1f};{n * 1.5:.2f};{n % 3 + 0.5:.1f}".replace(".", ",") for n in range(600))
    (tmp_path / "a.csv").write_text(f"age;pay;size\n{rows}\n")
    settings = formats.ReadSettings(separator=";", decimal=",")
    source = formats.read(formats.placed(tmp_path / "a.csv", settings))
    age, pay, size = infer.infer(source, roles={"age": "key", "pay": "key"})
    assert (age["type"], age["categories"]) == ("double", [0.5, 1.5, 2.5, 3.5])
    assert (pay["type"], pay.get("categories"), size.get("categories")) == ("double", None, None)
    assert any("released unperturbed" in note for note in pay["notes"])
    assert not any("released unperturbed" in note for one in (age, size) for note in one.get("notes", ()))
