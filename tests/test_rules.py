"""Structural zeros: rules in codebooks and files, checked on the input, never contradicted by the output."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from postrand import Block, Mechanism, ReleaseKey, certify
from postrand.certification.reachable_rules import reachable
from postrand.codebook import Codebook, Variable
from postrand.codebook.rule_files import check_records, read_rules
from postrand.codebook.rules import Rule, feasible_cells, forbidden, linked
from postrand.designers.linked_cells import BlockRequest, advice, shapes_of
from postrand.engines.frame import perturb
from postrand.errors import DataError, PrivacyError, SpecificationError
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from tests.conftest import ROOT

AGES, JOBS, DEGREES = ("child", "teen", "adult", "old"), ("none", "worker", "lawyer"), ("none", "school", "law")
RULES = (
    Rule({"age": "child", "job": ["worker", "lawyer"]}),
    Rule({"age": "teen", "job": "lawyer"}),
    Rule({"age": ["child", "teen"], "degree": "law"}),
    Rule({"age": "child", "degree": "school"}),
)
SHARED = ROOT.parent / "shared" / "data" / "ny_structural_zeros.csv"


def book(rules=RULES, missing="error"):
    def make(name, categories):
        return Variable(name, role="key", categories=categories, missing=missing)

    parts = [make("age", AGES), make("job", JOBS), make("degree", DEGREES), make("sex", ("F", "M"))]
    return Codebook(parts, rules)


def all_records(codebook):
    sizes = [v.size for v in codebook.variables]
    return np.array(list(itertools.product(*map(range, sizes))))


def is_forbidden(codebook, row):
    """The definition, one record at a time."""
    labels = {v.name: v.code_labels[c] for v, c in zip(codebook.variables, row, strict=True)}
    return any(all(labels[n] in values for n, values in rule.parts) for rule in codebook.rules)


def closed(codebook, names, epsilon=1.0):
    blocks = []
    for shape in shapes_of(codebook, [BlockRequest((n,)) for n in names]):
        weights = np.zeros((len(shape.cells),) * 2, dtype=np.int64)
        for c in range(len(shape.laws)):
            inside = np.flatnonzero(shape.labels == c)
            weights[np.ix_(inside, inside)] = randomised_response(inside.size, epsilon).weights
        cells = tuple(map(tuple, shape.cells.tolist()))
        blocks.append(Block(shape.variables, TransitionMatrix(weights), cells, "public", shape.given))
    return Mechanism(blocks, codebook)


@pytest.mark.parametrize("missing", ["error", "category"])
def test_feasible_cells_and_matches_are_the_definition(missing):
    codebook = book(missing=missing)
    rows = all_records(codebook)
    wanted = np.array([not is_forbidden(codebook, row) for row in rows])
    np.testing.assert_array_equal(feasible_cells(codebook, codebook.names, codebook.rules), rows[wanted])
    codes = dict(zip(codebook.names, rows.T, strict=True))
    np.testing.assert_array_equal(forbidden(codebook, codes, codebook.rules), ~wanted)


def test_rules_survive_toml_and_selection():
    codebook = book()
    assert Codebook.from_dict(codebook.to_dict()) == codebook
    assert codebook.select(["age", "job"]).rules == RULES[:2]
    assert linked(codebook.rules) == [("age", "job", "degree")]


def test_a_csv_of_rules_is_read(tmp_path):
    path = tmp_path / "rules.csv"
    path.write_text("age,job,degree\nchild,worker,\n,lawyer,none\n")
    assert read_rules(path, book()) == (
        Rule({"age": "child", "job": "worker"}),
        Rule({"job": "lawyer", "degree": "none"}),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,jobb\nchild,worker\n", r"field 2 of the first line is not a variable; wanted age, job"),
        ("age,job\nchild,workr\n", "row 2: the text is not a category of 'job'"),
        ("age,job\nchild\n", "the number of fields in the row differs"),
        ("age,job\n,\n", "an empty row forbids every record"),
        ("", "contains no rules"),
    ],
)
def test_wrong_files_of_rules_are_explained(tmp_path, text, message):
    path = tmp_path / "rules.csv"
    path.write_text(text)
    with pytest.raises(SpecificationError, match=message):
        read_rules(path, book())


@pytest.mark.parametrize("head", ["age,job,name\n", ""])
def test_a_file_of_records_named_as_rules_is_never_shown(tmp_path, head):
    """A codebook whose rules_file is the data file: its records stood in the message, one line for each cell."""
    path = tmp_path / "survey.csv"
    path.write_text(head + "".join(f"41{i},surgeon,Ms Secret {i}\n" for i in range(120)))
    with pytest.raises(SpecificationError) as caught:
        read_rules(path, book())
    assert len(caught.value.problems) <= 11
    assert "file of records" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("Secret", "surgeon", "410", "419"))


def test_rules_that_are_records_are_not_shown_when_records_contradict_them():
    codebook = book()
    counts = {r.variables: np.full([codebook[v].size for v in r.variables], 9) for r in RULES}
    with pytest.raises(DataError, match="rule 1, of age, job") as caught:
        check_records(counts, codebook)
    assert "child" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"age": "baby"}, "'baby' is not a category of 'age'"),
        ({"agee": "child"}, "no variable 'agee'"),
        ({"age": list(AGES)}, "the rules forbid every combination"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(rule, message):
    with pytest.raises(SpecificationError, match=message):
        book((Rule(rule),))
    with pytest.raises(SpecificationError, match="forbids every record"):
        Rule({})


def test_contradicting_records_are_listed_without_small_counts():
    codebook = book()
    names = {rule.variables for rule in RULES}
    counts = {n: np.zeros([codebook[v].size for v in n], dtype=int) for n in names}
    counts["age", "job"][0, 1] = 3
    counts["age", "job"][1, 2] = 1234
    with pytest.raises(DataError) as caught:
        check_records(counts, codebook)
    text = str(caught.value)
    assert "fewer than 5 records" in text
    assert "1,234 records" in text
    assert "got 3" not in text
    assert text.startswith("2 problems:")  # the advice is none
    assert text.endswith("Next: correct the records, or remove the rules from the codebook.")
    check_records({n: table * 0 for n, table in counts.items()}, codebook)


def test_at_most_ten_kinds_are_listed():
    rules = [Rule({"a": a, "b": b}) for a in range(5) for b in range(3)]
    codebook = Codebook([Variable("a", role="key", type="int64", categories=range(6)),
                         Variable("b", role="key", type="int64", categories=range(4))], rules)  # fmt: skip
    with pytest.raises(DataError) as caught:
        check_records({("a", "b"): np.full((6, 4), 9)}, codebook)
    assert sum("contradict a rule" in p for p in caught.value.problems) == 10
    assert "5 more rules" in str(caught.value)


def test_independent_blocks_reach_forbidden_combinations_and_are_refused():
    codebook = book()
    mechanism = Mechanism({"age": randomised_response(4, 1.0), "job": randomised_response(3, 1.0)}, codebook)
    assert set(reachable(mechanism)) == set(RULES)  # a degree that stays does not help: the age moves
    with pytest.raises(PrivacyError, match="a combination that cannot occur could be released"):
        certify(mechanism)


def test_a_combination_that_is_no_cell_of_a_block_leads_nowhere():
    codebook = Codebook([Variable(n, "key", ("x", "y")) for n in "abc"], [Rule({"a": "y", "b": "y", "c": "x"})])
    last = Block("c", randomised_response(2, 1.0))
    for cells, wanted in ((3, []), (4, [*codebook.rules])):
        pair = Block(("a", "b"), randomised_response(cells, 1.0), [(0, 0), (0, 1), (1, 0), (1, 1)][:cells])
        assert reachable(Mechanism([pair, last], codebook)) == wanted


@pytest.mark.parametrize("names", [["age", "job", "degree", "sex"], ["job", "degree"], ["age"], ["degree", "age"]])
def test_closed_blocks_lead_from_feasible_records_to_feasible_records_only(names):
    """Enumerate every feasible record and every released record of positive probability."""
    codebook = book()
    mechanism = closed(codebook, names)
    assert reachable(mechanism) == []
    for row in all_records(codebook):
        if is_forbidden(codebook, row):
            continue
        true = dict(zip(codebook.names, row.tolist(), strict=True))
        options = []
        for block in mechanism.blocks:
            cells = list(block.cells)
            law = block.matrix.weights[cells.index(tuple(true[n] for n in block.variables))]
            options.append([dict(zip(block.variables, cells[j], strict=True)) for j in np.flatnonzero(law)])
        for choice in itertools.product(*options):
            released = dict(true)
            for block, cell in zip(mechanism.blocks, choice, strict=True):
                released |= {n: cell[n] for n in block.perturbed}
            assert not is_forbidden(codebook, [released[n] for n in codebook.names])
    certificate = certify(mechanism)
    assert certificate.account.total <= len(names) + 1e-9


def test_closed_blocks_exchange_whatever_the_rules_treat_alike():
    shapes = shapes_of(book(), [BlockRequest((n,)) for n in ("age", "job", "degree", "sex")])
    age = shapes[0]
    assert [np.flatnonzero(age.labels == c).tolist() for c in range(len(age.laws))] == [[0], [1], [2, 3]]
    assert shapes[1].given == ("age",)
    assert shapes[3].is_simple


@pytest.mark.parametrize("epsilon", [0.2, 4.0])
def test_the_advice_compares_what_joint_and_separate_blocks_keep(epsilon):
    names = ("age", "job", "degree")
    (text,) = advice(book(), [BlockRequest((n,), epsilon=epsilon) for n in names])
    sizes = [book()[n].size for n in names]
    cells = len(feasible_cells(book(), names, book().rules))

    def kept(size, budget):
        law = randomised_response(size, budget).array
        return float((law * np.log(law * size)).sum() / size)

    together, apart = kept(cells, 3 * epsilon), sum(kept(size, epsilon) for size in sizes)
    assert f"Rules link age, job, degree: {cells} feasible combinations." in text
    assert f"at ε = {3 * epsilon:.3g}, {together:.2g} nats" in text
    assert f"blocks apart {apart:.2g}" in text
    assert ("One joint block is recommended" in text) == (together >= apart) == (epsilon > 1)
    assert ("structure 'product'" in text) == (together < apart)


def test_a_joint_block_on_feasible_cells_states_its_domain():
    codebook = book()
    cells = tuple(map(tuple, feasible_cells(codebook, ["age", "job", "degree"], RULES).tolist()))
    mechanism = Mechanism([Block(("age", "job", "degree"), randomised_response(len(cells), 1.0), cells)], codebook)
    certificate = certify(mechanism)
    assert certificate.findings[0].level <= 1.0
    assert any(f"on the {len(cells)} feasible of 36 combinations" in line for line in certificate.not_covered)


def test_no_forbidden_combination_is_released_and_the_whole_law_is_used():
    codebook = book()
    rows = feasible_cells(codebook, codebook.names, RULES)
    rows = rows[np.random.default_rng(5).integers(len(rows), size=20_000)]
    columns = {
        v.name: pa.DictionaryArray.from_arrays(rows[:, j], list(v.categories)) for j, v in enumerate(codebook.variables)
    }
    mechanism = closed(codebook, ["age", "job", "degree", "sex"])
    out = perturb(pa.table(columns), mechanism, ReleaseKey.from_seed(1))
    codes = {n: np.array([codebook[n].categories.index(x) for x in out.column(n).to_pylist()]) for n in codebook.names}
    assert not forbidden(codebook, codes, RULES).any()
    assert (codes["age"] != rows[:, 0]).mean() > 0.05
    assert (codes["job"] != rows[:, 1]).mean() > 0.2


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not at hand")
def test_the_new_york_rules_give_five_groups_of_ages():
    import csv

    with SHARED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    categories = {n: sorted({r[n] for r in rows if r[n]} | {"other", "elsewhere"}) for n in rows[0]}
    codebook = Codebook([Variable(n, role="key", categories=c) for n, c in categories.items()])
    codebook = Codebook(codebook.variables, read_rules(SHARED, codebook))
    assert len(codebook.rules) == 60
    shapes = shapes_of(codebook, [BlockRequest((n,)) for n in codebook.names])
    age = shapes[codebook.names.index("age")]
    adults = {age.labels[codebook["age"].categories.index(a)] for a in ("18-24", "25-35", "36-50", "51-70", "71+")}
    assert len(adults) == 1
    assert all("age" in s.given for s in shapes if {"education", "veteran"} & set(s.variables))
