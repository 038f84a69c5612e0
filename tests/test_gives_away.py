"""What gives away a perturbed variable: sums and scores of others, values that are ruled out, the order of the file."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import postrand as pr
from postrand.data.frames import TableSource
from postrand.errors import SpecificationError
from postrand.mechanism import Mechanism
from postrand.risk.findings import find
from postrand.risk.reveals import told as measured

N = 3_000
CLEAR = ("german", "english", "sport", "made")


def grades(seed=1):
    rng = np.random.default_rng(seed)
    able = rng.normal(0, 1, N)
    return {n: np.clip(np.rint(3 + able + rng.normal(0, 1, N)), 1, 6) for n in ("maths", "german", "english", "sport")}


def found_in(made, names=CLEAR, columns=None, as_is=()):
    columns = {**(grades() if columns is None else columns), "made": made}
    book = pr.Codebook((
        pr.Variable("maths", role="key", categories=tuple(map(float, range(1, 7))), type="double"),
        *(pr.Variable(name, role="other", type="double") for name in names),
    ))  # fmt: skip
    law = Mechanism({"maths": pr.randomised_response(6, 1.0)}).bind(book)
    table = pa.table({name: columns[name] for name in ("maths", *names)})
    return find(TableSource(table), book, law, names, as_is=as_is)


def told(findings):
    return [one for one in findings.found if one.about == ("maths",) and len(one.variables) > 2]


@pytest.mark.parametrize(
    ("of", "of_all"),
    [
        (lambda g: (g["maths"] + g["german"] + g["english"] + g["sport"]) / 4, True),
        (lambda g: 24 - g["maths"] - g["german"] - g["english"] - g["sport"], True),
        (lambda g: np.round((g["maths"] + g["german"] + g["english"]) / 3, 2), False),
        (lambda g: 3 * g["maths"] - 2 * g["german"] + 2.5 * g["english"] + 7, False),
    ],
    ids=["mean", "points", "rounded", "weights"],
)
@pytest.mark.parametrize("codes", [False, True])
def test_a_number_that_others_make_is_told_and_must_be_decided_on(of, of_all, codes):
    made = of(grades())
    if codes:  # an undeclared code for no answer: the guess is wrong there, and nowhere else
        made = np.where(np.arange(N) % 20 == 3, -9.0, made)
    (one,) = told(found_in(made))
    assert set(one.variables) == set(CLEAR if of_all else ("german", "english", "made"))
    assert one.is_open
    assert "unperturbed variables together reveal true values of maths, which is perturbed: german, english" in (
        one.sentence
    )
    assert one.figures["right"] >= (0.95 if codes else 1.0)
    with pytest.raises(SpecificationError, match=r"maths \(by german, english"):
        found_in(made).require_decisions()
    decided = found_in(made, as_is=CLEAR)
    decided.require_decisions()
    assert "released all the same" in told(decided)[0].sentence


def test_the_guess_is_no_better_than_it_is_said_to_be():
    """The share of right guesses, by a regression of all records written anew."""
    rng = np.random.default_rng(4)
    held = grades()
    made = held["maths"] + held["german"] + held["english"] + rng.normal(0, 0.45, N)
    (one,) = told(found_in(made))
    design = np.column_stack([np.ones(N), held["german"], held["english"], made])
    guess = np.clip(np.rint(design @ np.linalg.lstsq(design, held["maths"], rcond=None)[0]), 1, 6)
    assert one.figures["right"] == pytest.approx((guess == held["maths"]).mean(), abs=0.03)
    assert not one.is_open


def test_numbers_that_only_have_to_do_with_it_are_not_told():
    held = grades()
    rng = np.random.default_rng(5)
    findings = found_in(np.rint(held["maths"] + rng.normal(0, 1.5, N)))
    assert told(findings) == []
    assert any("other functions of three are not found" in text for text in findings.not_tried)


def test_a_sum_that_is_named_is_not_told_twice():
    held = grades()
    findings = found_in(held["maths"] + held["german"] + held["english"] + held["sport"])
    (one,) = told(findings)
    assert one.code == "linked"
    assert "made = maths + german + english + sport" in one.sentence


@pytest.mark.parametrize("seed", range(3))
def test_order_of_columns_and_units_change_nothing(seed):
    held = grades(seed)
    made = np.round((held["maths"] + held["german"] + held["english"]) / 3, 2)
    (first,) = told(found_in(made, columns=held))
    turned = {**held, "german": 1000 * held["german"] + 3}
    (second,) = told(found_in(made, ("made", "sport", "english", "german"), turned))
    assert {*first.variables} == {*second.variables}
    assert first.figures["right"] == second.figures["right"]


def test_what_a_column_rules_out_is_told_where_it_says_no_value():
    """Exact weights of two strata with different categories: no best guess, but three of six categories each."""
    rng = np.random.default_rng(6)
    low = rng.random(N) < 0.5
    maths = np.where(low, rng.integers(1, 4, N), rng.integers(4, 7, N)).astype(float)
    weights = np.where(low, 1.0, 3.0) + (rng.random(N) < 0.5)
    findings = found_in(weights, ("made",), {"maths": maths})
    (one,) = [one for one in findings.found if one.about == ("maths",)]
    assert one.code == "tells"
    assert "made rules out, in the mean, the values that 50 of 100 records have" in one.sentence
    assert not one.is_open
    loose = found_in(rng.permutation(weights), ("made",), {"maths": maths})
    assert [one for one in loose.found if one.about == ("maths",)] == []


def reveals(true, seen):
    return measured(np.histogram2d(true, seen, bins=(int(true.max()) + 1, int(seen.max()) + 1))[0])


def test_all_but_one_value_says_as_much_as_one_value():
    """No job is all but employed: the correlation is -1, and both decide alike."""
    rng = np.random.default_rng(7)
    status = rng.integers(0, 4, N)
    job = np.where(status == 0, rng.integers(1, 6, N), 0)
    found = reveals(job, status)
    assert found.same == pytest.approx(1)
    assert found.is_certain
    assert not reveals(job, rng.permutation(status)).is_much


def test_a_few_refusals_do_not_hide_what_a_value_says():
    """P(no | no victim) = .995 is told as 1 is, although "no" is common without it too."""
    rng = np.random.default_rng(8)
    victim = (rng.random(20_000) < 0.23).astype(int)
    burglary = np.where(victim == 1, (rng.random(20_000) < 0.25).astype(int), 0)
    refused = np.where(rng.random(20_000) < 0.005, 2, burglary)
    assert reveals(burglary, victim).is_certain
    assert reveals(refused, victim).is_certain
    assert not reveals(rng.permutation(refused), victim).is_much


@pytest.mark.parametrize("function", [np.any, np.all])
def test_a_function_of_dummies_is_told(function):
    rng = np.random.default_rng(9)
    items = {name: (rng.random(N) < (0.1 if function is np.any else 0.7)).astype(float) for name in CLEAR}
    made = function(np.stack([values == 1 for values in items.values()]), axis=0).astype(float)
    book = pr.Codebook((
        pr.Variable("any", role="key", categories=(0.0, 1.0), type="double"),
        *(pr.Variable(name, role="other", type="double") for name in CLEAR),
    ))  # fmt: skip
    law = Mechanism({"any": pr.randomised_response(2, 1.0)}).bind(book)
    findings = find(TableSource(pa.table({"any": made, **items})), book, law, CLEAR)
    held = [one for one in findings.found if one.about == ("any",) and one.is_open]
    assert any({*one.variables} == {*CLEAR} for one in held)


def test_a_sorted_file_in_its_own_order_is_told(tmp_path):
    rng = np.random.default_rng(10)
    region = np.sort(rng.integers(0, 8, N))
    pa.csv.write_csv(pa.table({"region": region, "sex": rng.integers(0, 2, N)}), tmp_path / "a.csv")
    codebook = pr.Codebook(tuple(
        pr.Variable(name, role="key", categories=tuple(range(size)), type="int64")
        for name, size in (("region", 8), ("sex", 2))
    ))  # fmt: skip
    codebook.save(tmp_path / "codebook.toml")
    for shuffle, told_of in (("false", [("region",)]), ("true", [])):
        plan = tmp_path / f"{shuffle}.toml"
        plan.write_text(
            '[source]\nfile = "a.csv"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\nepsilon = 2.0\n'
            f'[[blocks]]\nvariables = ["region", "sex"]\n[release]\nshuffle = {shuffle}\n'
        )
        findings = pr.findings(pr.load_plan(plan))
        assert [one.about for one in findings.found if one.code == "order"] == told_of
        said = [one.sentence for one in findings.found if one.code == "order"]
        assert all("set shuffle = true in [release]" in text for text in said)


@pytest.mark.parametrize("form", ["text", "number"])
def test_exact_values_that_many_records_have_are_compared_one_by_one(form):
    """A school of 35 pupils says the region, although bins of its numbers, or no bins of its texts, say little."""
    rng = np.random.default_rng(11)
    school = rng.permutation(np.repeat(np.arange(200), 35))
    region = rng.permutation(np.arange(200) % 5)[school]
    codes = pa.array(school) if form == "number" else pa.array([f"S{k:03}" for k in school])
    book = pr.Codebook((
        pr.Variable("region", role="key", categories=tuple(range(5)), type="int64"),
        pr.Variable("school", role="other", type="string" if form == "text" else "int64"),
    ))  # fmt: skip
    law = Mechanism({"region": pr.randomised_response(5, 1.0)}).bind(book)
    findings = find(TableSource(pa.table({"region": region, "school": codes})), book, law, ["school"])
    (one,) = [one for one in findings.found if one.about == ("region",)]
    assert one.is_open
    assert findings.pairs[0].right == pytest.approx(1) or one.code == "linked"


def test_what_is_compared_in_ranges_alone_or_not_at_all_is_named():
    rng = np.random.default_rng(12)
    sex = rng.integers(0, 2, N)
    fine = rng.integers(0, 600, N)
    book = pr.Codebook((
        pr.Variable("sex", role="key", categories=(0, 1), type="int64"),
        pr.Variable("fine", role="other", type="int64"),
        pr.Variable("text", role="other", type="string"),
    ))  # fmt: skip
    law = Mechanism({"sex": pr.randomised_response(2, 1.0)}).bind(book)
    table = pa.table({"sex": sex, "fine": fine, "text": [f"t{k}" for k in fine]})
    said = " ".join(find(TableSource(table), book, law, ["fine", "text"]).not_tried)
    assert "Compared in ranges alone, because few records have each of their values: fine." in said
    assert "Not known, because of too many different values: what text may reveal of sex." in said
