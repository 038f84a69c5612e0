"""Codes for no answer in quantities: found by their values, told on every surface, and settled by the codebook."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyreadstat
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import estimate
from postrand.app import data_views, opening
from postrand.app.plans import open_plan
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.codebook.no_answer import looks_missing, says_so
from postrand.codebook.quantity_codes import LEAST, quantities_told, suspects, suspects_in
from postrand.estimate.nominal import quantity_warnings
from postrand.recoding import Recode
from postrand.support.warned import heard, hushed

KEY = bytes(range(32))
RNG = np.random.default_rng(1)
AGES = [*range(16, 95)] * 9
OLD = RNG.exponential(25, 20_000).round()
INCOMES = np.r_[RNG.lognormal(10, 1, 5000).round(), [20_000] * 300, [0] * 500]
HOURS = RNG.normal(38, 12, 2000).round().clip(0, 80)
COLD, MILD = RNG.normal(8, 8, 3000), RNG.normal(11, 5, 3000)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([*AGES, *[999] * 9], {999: True}),
        ([*AGES, *[-9] * 30, *[-1] * 20], {-9: True, -1: True}),
        ([*AGES, 99, 99, 99, 99], {}),
        (OLD[OLD < 100], {}),  # to 99, without a gap
        (RNG.integers(0, 101, 3000), {}),
        (np.r_[HOURS, [99] * 60], {99: True}),
        (np.r_[HOURS, np.arange(80, 99), [99] * 60], {99: False}),
        (np.r_[[0] * 900, RNG.integers(1, 60, 1000), [-1] * 200, [-2] * 50], {-2: True, -1: True}),
        (COLD.round(), {}),
        (COLD.round(1), {}),
        (MILD.round(), {}),  # its few values below 0 are all between -9 and -1
        (np.r_[COLD.round(), [-99] * 20, [999] * 30], {-99: True, 999: True}),
        (INCOMES, {}),
        (np.r_[INCOMES, [-9] * 267, [-10_125, -2_000, -3_114]], {-9: False}),  # some true values are below 0
        (np.r_[INCOMES, [-9, -8, -2, -1, -2_000, -3_114]], {}),
        (np.r_[INCOMES, [9999] * 4], {}),
        (np.r_[INCOMES, [9_999_999] * 100, [-8] * 50], {-8: True, 9_999_999: True}),
        (np.r_[INCOMES, [99_999] * 100], {99_999: False}),
        (np.r_[RNG.normal(26, 4, 2000).round(1), [99.9] * 40], {99.9: True}),
        ([*range(1950, 2010)] * 5 + [9999] * 20, {9999: True}),
        ([-3] * 8 + [-2] * 60 + [-1] * 180 + [0] * 500 + [1] * 200 + [2] * 70 + [3] * 20, {}),
        ([*range(11)] * 30, {}),
        ([0] * 50 + [1] * 50 + [2] * 40 + [3] * 9 + [9] * 12, {9: True}),
        ([1, 5, 20, -9, 30], {}),
        ([-9] * 50 + [999] * 20, {-9: True, 999: True}),
        ([999] * 40, {999: True}),
        ([0] * 40, {}),
        (np.r_[INCOMES, -12, -250, -400, [-99_999] * 4], {}),  # of few records, below 0 as others are
        (np.r_[COLD.round(), [-99] * 300, -150, -200], {-99: False}),
        (np.r_[OLD[OLD < 96], [98] * 100, [99] * 100], {98: False, 99: False}),
        ([0.99, 1.99, 4.99, 9.99, 19.99, 49.99] * 50 + [99.99] * 40, {}),  # prices
        ([*range(40)] * 20 + [99.9] * 40, {99.9: True}),
    ],
)
def test_codes_are_told_from_true_values(values, want):
    assert {one.value: one.is_sure for one in suspects(pa.array(values))} == want


def test_a_value_of_few_records_is_never_told():
    for many in range(LEAST + 1):
        found = [one.value for one in suspects(pa.array([*AGES, *[-9] * many, *[9999] * many]))]
        assert found == ([-9, 9999] if many == LEAST else [])


def test_the_type_of_the_column_makes_no_difference():
    values = [*AGES, *[999] * 9, None]
    plain = pa.array(values)
    forms = [plain.cast(pa.float32()), plain.cast(pa.decimal128(20, 1)), plain.cast(pa.string())]
    forms += [plain.dictionary_encode(), pa.chunked_array([plain.slice(0, 300), plain.slice(300)])]
    for form in forms:
        assert [one.value for one in suspects(form)] == [999], form.type
    for none in (pa.nulls(5, pa.float64()), pa.array([True, False] * 9), pa.array(["iap"] * 9), pa.array([np.nan] * 9)):
        assert suspects(none) == ()


@pytest.mark.parametrize(
    ("codes", "labels", "want"),
    [
        ([1, 2, 3, 4, 8, 9], [], [8, 9]),
        ([1, 2, 3, 4, 5, 7, 8, 9], [], []),
        ([1, 2, 3, 4, 5, 6, 7, 9], [], []),
        ([7, 8, 9], ["7", "Don’t know/refused", "9. Not stated"], [8, 9]),
        ([1, 2, 9], ["Single", "Married", "Widowed"], []),
        ([*range(16, 100)], [], []),
        ([-2, -1, 0, 1, 2], [], []),
        ([1, 2, 3, 77, 88, 99], [], [77, 88, 99]),
    ],
)
def test_categories_are_proposed_with_evidence_only(codes, labels, want):
    assert looks_missing(codes, labels) == want


@pytest.fixture(params=[(",", "."), (";", ",")], ids=["point", "comma"])
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    between, sign = request.param
    rows = ["sex,area,pay,mass".replace(",", between)]
    for i in range(600):
        pay = [-9, -8][i // 10 % 2] if i % 10 == 0 else 1000 + 7 * i
        mass = "99.9" if i % 20 == 1 else f"{18 + i % 171 / 10:.1f}"
        rows.append(between.join(("fm"[i // 3 % 2], "NSEW"[i % 4], str(pay), mass.replace(".", sign))))
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def call(*args: Any) -> str:
    with hushed(UserWarning):  # the command line writes what is found below its answer
        return CliRunner().invoke(main, [str(one) for one in args], catch_exceptions=False).output


def test_every_surface_says_it_in_one_sentence_until_the_codebook_does(survey):
    told = "umbers that look like codes for no answer count as values, in means too: pay (probably -9, -8)"
    plan, book, work = survey / "w" / "plan.toml", survey / "w" / "codebook.toml", survey / "w"
    said = call("init", survey / "s.csv", "--out", work, "--key", "sex,area", "--other", "pay,mass")
    assert f"{told}, mass (probably 99.9)" in said
    assert 'write missing = [-9, -8] in an entry of [[recodes]] with variable = "pay"' in said
    assert "# values that look like codes for no answer: probably -9, -8" in book.read_text()
    plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["pay", "mass"]'))
    (work / "policy.toml").write_text('title = "P"\n[[rules]]\nmeasure = "epsilon"\nat_most = 9\n')
    checked = ("check", "--plan", plan, "--policy", work / "policy.toml")
    for asked in (("design", "--plan", plan), checked, ("protect", "--plan", plan, "--out", work / "r")):
        assert call(*asked).count(told) == 1, asked
    for question in (("--mean", "pay"), ("--quantile", "pay"), ("--regression", "pay~sex")):
        assert call("estimate", work / "r", *question).count(told) == 1, question
    text = book.read_text() + '\n[[recodes]]\nvariable = "pay"\nmissing = [-9, -8]\n'
    text += '\n[[recodes]]\nvariable = "mass"\nmissing = []\n'
    book.write_text(text)
    call("recode", book, "--plan", plan, "--write")
    assert pr.load_codebook(book)["pay"].missing == "keep"
    for asked in (("design", "--plan", plan), checked, ("protect", "--plan", plan, "--out", work / "q")):
        assert "look like codes" not in call(*asked), asked
    answer = call("estimate", work / "q", "--mean", "pay")
    assert "look like codes" not in answer
    assert "540 of 600 records, 60 left out" in answer
    assert "look like codes" not in call("estimate", work / "q", "--mean", "mass")


def test_a_quantity_without_its_codes_is_permuted_as_any_other(survey):
    work = survey / "w"
    recode = ("--recode", "pay=missing:-9,-8")
    call("init", survey / "s.csv", "--out", work, "--key", "sex,area", "--other", "pay,mass", *recode)
    plan = work / "plan.toml"
    law = '\n[[numerical]]\nvariables = ["pay"]\nmethod = {model = "rank-band", width = 30}\n'
    as_is = plan.read_text().replace("as_is = []", 'as_is = ["mass"]')
    plan.write_text(as_is + law)
    with heard() as said:
        made = pr.run(pr.load_plan(plan), work / "r", release_key=KEY)
    assert [text for text in said if "look like codes" in text and "pay" in text] == []
    released = made.frame().column("pay").drop_null().to_pylist()
    assert sorted(released) == [1000 + 7 * i for i in range(600) if i % 10]
    assert pr.verify(work / "r", file=pr.load_plan(plan).source, release_key=KEY)


def test_a_recode_of_missing_alone_comes_back_from_plain_data():
    for codes in ([-9, 999], []):
        recode = Recode.from_dict({"variable": "pay", "missing": codes})
        assert recode.to_dict() == {"variable": "pay", "missing": codes}
        assert Recode.from_dict(recode.to_dict()) == recode
    assert recode.in_words().endswith("numbers as they are; no value means no answer.")
    assert Recode.from_dict({"variable": "pay", "missing": [9], "top": 5}).kinds == "top coding"


def test_estimates_say_it_of_numbers_and_not_of_categories():
    pay = pa.array([*AGES, *[-9] * 30])
    for book, want in ((None, 1), (Codebook((Variable("pay", "other", tuple(sorted({*AGES, -9})), type="int64"),)), 0)):
        assert len(quantity_warnings(book, {"pay": pay})) == want
    sex = Variable("sex", "key", ("f", "m"))
    law = {"sex": pr.randomised_response(2, 3.0)}
    mechanism = pr.Mechanism(law, Codebook((sex, Variable("pay", "other", type="int64"))))
    frame = pa.table({"sex": (["f", "m", "m"] * 400)[: len(pay)], "pay": pay})
    found: list[Any] = [
        estimate.mean(frame, "pay", mechanism, by="sex"),
        estimate.total(frame, "pay", mechanism),
        estimate.regression("pay ~ sex", frame, mechanism, "linear"),
        estimate.regression("sex ~ pay", frame, mechanism, "logistic"),
    ]
    for one in found:
        assert sum("look like codes" in text for text in one.warnings) == 1
    assert not estimate.table(frame, ["sex"], mechanism).warnings


def test_a_code_with_blanks_behind_it_means_nothing_by_that():
    assert not any(map(says_so, ("5 ", "12  ", "2020 ", "1 -")))
    assert all(map(says_so, ("9 refused", " - ", "", "98. don't know ")))


def test_the_limit_of_a_top_coding_is_no_code_and_a_recode_says_what_means_no_answer():
    pay = pa.array([*(RNG.lognormal(8, 1, 3000).round().clip(0, 9999)), *[9999] * 60, *[-9] * 90])
    top = {"variable": "pay", "top": 9999}
    found = [suspects_in({"pay": pay}, [Recode.from_dict(entry)]) for entry in (top, top | {"missing": []})]
    assert [one.value for one in suspects(pay)] == [-9, 9999]
    assert [[one.value for one in held.get("pay", ())] for held in found] == [[-9], []]
    stated = Recode.from_dict(top | {"missing": []})
    assert Recode.from_dict(stated.to_dict()) == stated
    assert stated != Recode.from_dict(top)
    assert "no value means no answer" in stated.in_words()


@pytest.mark.parametrize("kind", [pa.decimal128(12, 2), pa.float32(), pa.float64(), pa.int64()])
def test_the_remedy_makes_codes_of_any_type_of_number_missing(kind):
    """The values that the warning names are those that the recode finds; the type of the column stays."""
    code = 999 if pa.types.is_integer(kind) else 99.9
    whole = [int(v) for v in RNG.integers(10, 40, 2000)]
    values = [Decimal(str(v)) if pa.types.is_decimal(kind) else v for v in [*whole, *[code] * 80]]
    column = pa.array(values, kind)
    (told,) = suspects(column)
    assert told.value == code
    made = Recode.from_dict({"variable": "x", "missing": [told.value]}).apply(column)
    assert (made.type, made.null_count) == (kind, 80)


def test_codes_that_the_file_states_are_told_whatever_they_look_like():
    column = pa.array([*range(20, 60)] * 20 + [5] * 30 + [61] * 30 + [7] * 2)
    told = {"pay": {b"value_labels": b'{"5": "Refused", "7": "Refused"}', b"missing_codes": b'["61"]'}}
    assert [(one.value, one.is_sure) for one in suspects_in({"pay": column}, (), told)["pay"]] == [
        (5, True),
        (61, True),
    ]
    assert suspects_in({"pay": column}) == {}
    column = pa.chunked_array([column, pa.array([-9] * 40 + [999] * 9)])
    found = suspects_in({"pay": column}, (), told)
    said = "pay (the file declares 61; the file labels so 5; probably -9, 999)"
    assert quantities_told(found).endswith(said)


def test_a_regression_takes_decimals_and_says_what_a_mean_says():
    """The codebook of the release settles the codes for both."""
    n, rng = 3000, np.random.default_rng(2)
    pay = [Decimal(int(v)) / 100 for v in rng.lognormal(10, 1, n).round()]
    pay[:200] = [Decimal("-9.00")] * 200
    table = pa.table({"sex": pa.array(rng.choice(["f", "m"], n)), "pay": pa.array(pay, pa.decimal128(12, 2))})
    sex = Variable("sex", "key", ("f", "m"))
    book = Codebook((sex, Variable("pay", "other", type="decimal128(12, 2)")))
    law = pr.Mechanism({"sex": pr.randomised_response(2, 2.0)}, codebook=book)
    released = pr.perturb(table, law, release_key=KEY)
    made = estimate.regression("pay ~ C(sex)", released, law, "linear")
    assert any("probably -9" in note for note in made.notes)
    said = Codebook(book.variables, recodes=(Recode.from_dict({"variable": "pay", "missing": []}),))
    settled = pr.Mechanism({"sex": pr.randomised_response(2, 2.0)}, codebook=said)
    assert estimate.regression("pay ~ C(sex)", released, settled, "linear").notes == ()


def test_what_a_file_declares_is_missing_in_the_draft_and_told_of_an_older_codebook(tmp_path):
    """Single codes among true values, ranges, and a typed recode; the mean is that of SPSS."""
    n, rng = 900, np.random.default_rng(3)
    mood = rng.integers(0, 1001, n) / 10
    mood[::9], mood[1::9], mood[2::9] = 55.0, 101.5, 103.0
    pay = 1000.0 + 7 * np.arange(n)
    pay[::10], pay[1::10] = -8, -9
    debt = pay.copy()
    rows = {"sex": rng.integers(1, 3, n).astype(float), "mood": mood, "pay": pay, "debt": debt}
    declared = {"mood": [55.0, {"lo": 101, "hi": 105}], "pay": [{"lo": -9, "hi": -7}], "debt": [{"lo": -9, "hi": -7}]}
    file, work = tmp_path / "s.sav", tmp_path / "w"
    pyreadstat.write_sav(
        pd.DataFrame(rows), str(file), missing_ranges=declared, variable_value_labels={"mood": {55.0: "?"}}
    )
    spss = pyreadstat.read_sav(str(file))[0]
    asked = ("--key", "sex", "--other", "mood,pay,debt", "--recode", "debt=rounding:100")
    said = call("init", file, "--out", work, *asked)
    assert (
        "missing, as the file declares it: debt (-9, -8, -7), mood (55, 101.5, 103), pay (-9, -8, -7); entries" in said
    )
    assert "no answer" not in said
    plan, book = work / "plan.toml", work / "codebook.toml"
    made = {one.variable: one for one in pr.load_codebook(book).recodes}
    assert {name: one.missing for name, one in made.items()} == {
        "debt": (-9, -8, -7), "mood": (55, 101.5, 103), "pay": (-9, -8, -7)
    }  # fmt: skip
    assert made["mood"].is_confidential  # a range of numbers with fractions: the values are those of the records
    assert not made["pay"].is_confidential
    assert pr.load_codebook(book)["mood"].missing == "keep"
    plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["mood", "pay", "debt"]'))
    call("protect", "--plan", plan, "--out", work / "r")
    released = pr.read_release(work / "r")
    for name in ("mood", "pay"):
        answer = estimate.mean(released.frame(), name, released.mechanism)
        assert answer.value == pytest.approx(spss[name].mean())
        assert not answer.warnings
    text = book.read_text()
    older = text[: text.index('\n[[recodes]]\nvariable = "mood"')]
    book.write_text(older.replace('missing = "keep"', 'missing = "error"', 2))
    told = "mood (the file declares 55, 101.5, 103)"
    assert told in call("design", "--plan", plan)
    assert told in call("protect", "--plan", plan, "--out", work / "q")
    for question in (("--mean", "mood"), ("--regression", "mood~sex")):
        assert told in call("estimate", work / "q", *question), question


def test_letters_for_no_answer_of_a_quantity_are_missing_in_the_draft(tmp_path):
    rng = np.random.default_rng(4)
    pay = ["a" if i % 10 == 0 else float(v) for i, v in enumerate(rng.lognormal(7, 1, 800).round())]
    frame = pd.DataFrame({"sex": rng.integers(1, 3, 800).astype(float), "pay": pd.Series(pay, dtype=object)})
    file, work, labels = tmp_path / "s.dta", tmp_path / "w", {"pay": {"a": "refused"}}
    pyreadstat.write_dta(frame, str(file), missing_user_values={"pay": ["a"]}, variable_value_labels=labels)
    said = call("init", file, "--out", work, "--key", "sex", "--other", "pay")
    assert "missing, as the file declares it: pay (.a); entries" in said
    plan = work / "plan.toml"
    plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["pay"]'))
    call("protect", "--plan", plan, "--out", work / "r")
    released = pr.read_release(work / "r")
    true = [one for one in pay if one != "a"]
    assert estimate.mean(released.frame(), "pay", released.mechanism).value == pytest.approx(np.mean(true))


def test_a_ddi_document_declares_codes_of_a_quantity_of_a_text_file(survey):
    codes = '<invalrng><item VALUE="-9"/><item VALUE="-8"/></invalrng>'
    (survey / "d.xml").write_text(f'<codeBook><dataDscr><var name="pay">{codes}</var></dataDscr></codeBook>')
    said = call(
        "init",
        survey / "s.csv",
        "--out",
        survey / "w",
        "--key",
        "sex,area",
        "--other",
        "pay,mass",
        "--ddi",
        survey / "d.xml",
    )
    assert "missing, as the file declares it: pay (-9, -8)" in said
    assert "pay (probably" not in said
    assert "mass (probably 99.9)" in said
    assert pr.load_codebook(survey / "w" / "codebook.toml")["pay"].missing == "keep"


@pytest.mark.parametrize("role", ["other", "key"])
def test_rounded_numbers_without_their_codes_stay_numbers_with_missing_ones(tmp_path, role):
    """Few different numbers are listed, but missing ones are a category only where a plan perturbs them."""
    file, rng, work = tmp_path / "s.csv", np.random.default_rng(5), tmp_path / "w"
    pay = rng.lognormal(7, 0.5, 900).round().astype(int)
    pay[::10] = -9
    pa.csv.write_csv(pa.table({"sex": rng.choice(["f", "m"], 900), "pay": pay}), file)
    keys = "sex,pay" if role == "key" else "sex"
    recode = ("--recode", "pay=rounding:100 then top:2000;missing=-9")
    call("init", file, "--out", work, "--key", keys, "--other", "*", *recode)
    book, want = work / "codebook.toml", "category" if role == "key" else "keep"
    assert pr.load_codebook(book)["pay"].is_categorical
    assert pr.load_codebook(book)["pay"].missing == want
    said = call("recode", book, "--plan", work / "plan.toml", "--write")
    assert pr.load_codebook(book)["pay"].missing == want
    assert "missing" not in said.splitlines()[-1]
    if role == "other":
        text = book.read_text()
        start, end = text.index("categories = [", text.index('name = "pay"')), text.rindex("[[recodes]]")
        book.write_text(f"{text[:start]}\n{text[end:]}")  # a quantity with "keep" when its recode was another
        call("recode", book, "--plan", work / "plan.toml", "--write")
        assert pr.load_codebook(book)["pay"].missing == "keep"
        plan = work / "plan.toml"
        plan.write_text(plan.read_text().replace("as_is = []", 'as_is = ["pay"]'))
        call("protect", "--plan", plan, "--out", work / "r")
        assert "Intercept" in call("estimate", work / "r", "--regression", "pay~C(sex)")


def test_the_first_screen_counts_declared_codes_as_missing(tmp_path):
    """Those of the file, listed or as a range, and those of a codebook."""
    rng = np.random.default_rng(6)
    rows = {"sex": rng.integers(1, 3, 500).astype(float), "pay": rng.lognormal(7, 1, 500).round()}
    rows["pay"][:60], rows["sex"][:20] = -8, 9
    rows["pay"][60] = np.nan
    file, text = tmp_path / "s.sav", tmp_path / "s.csv"
    pyreadstat.write_sav(pd.DataFrame(rows), str(file), missing_ranges={"pay": [{"lo": -9, "hi": -7}], "sex": [9]})
    assert opening.open_file(file).missing == (20, 61)
    pa.csv.write_csv(pa.table({"sex": rows["sex"].astype(int), "area": ["n", "s"] * 250}), text)
    assert opening.open_file(text).missing == (0, 0)
    call("init", text, "--out", tmp_path / "w", "--key", "sex,area")
    book, held = tmp_path / "w" / "codebook.toml", tmp_path / "held"
    held.mkdir()
    book.write_text(book.read_text().replace("# if these mean no answer, uncomment: missing_codes", "missing_codes"))
    decisions = open_plan(tmp_path / "w" / "plan.toml", held)
    assert decisions.opened is not None
    assert decisions.opened.missing == (20, 0)
    assert "4.0%" in str(data_views.variables(decisions))
