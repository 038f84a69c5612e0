"""Plans: checked as a whole, with every problem at once and the nearest known names."""

import pytest

from postrand.errors import SpecificationError
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy

CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]

[[variables]]
name = "area"
role = "key"
categories = ["n", "s", "w"]

[[variables]]
name = "pay"
role = "sensitive"
type = "double"

[[variables]]
name = "id"
role = "record_key"
type = "int64"
"""
PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 2.0

[design]
prior = "file"

[release]
shuffle = false

[[blocks]]
variables = ["sex"]
privacy = { model = "differential", epsilon = 1.0 }

[[blocks]]
variables = ["area"]
privacy = { model = "differential", epsilon = 1.0 }
prior = "uniform"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "survey.csv").write_text("sex,area,pay,id\nF,n,1,1\n")
    return tmp_path


def load(folder, text):
    (folder / "plan.toml").write_text(text)
    return load_plan(folder / "plan.toml")


def test_defaults_come_from_the_design_section_and_blocks_override_them(folder):
    plan = load(folder, PLAN)
    assert plan.source == (folder / "survey.csv").resolve()
    assert plan.privacy == DifferentialPrivacy(2.0)
    assert [block.prior for block in plan.blocks] == ["file", "uniform"]
    assert not plan.release.shuffle
    assert [claim.variables for claim in plan.claims] == [(), ("sex",), ("area",)]


def test_the_claim_of_a_single_block_is_not_repeated(folder):
    text = PLAN[: PLAN.rindex("[[blocks]]")]
    assert len(load(folder, text).claims) == 1


def test_a_matrix_of_ones_own_is_taken(folder):
    plan = load(folder, PLAN.replace('prior = "uniform"', "matrix = [[0.8,0.1,0.1],[0.1,0.8,0.1],[0.1,0.1,0.8]]"))
    assert plan.blocks[1].matrix == ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 2.0", "epsilom = 2.0", r"unknown option 'epsilom' \(did you mean 'epsilon'\?\)"),
        ("epsilon = 2.0", "epsilon = -1", "epsilon is not a positive number"),
        ("epsilon = 2.0", "epsilon = nan", "epsilon is not a positive number"),
        ("epsilon = 2.0", 'epsilon = "2"', "epsilon is not a positive number"),
        ('model = "differential"\n', 'model = "diferential"\n', "did you mean 'differential'"),
        ("[release]", "[realease]", r"unknown option 'realease' \(did you mean 'release'\?\)"),
        ("shuffle = false", "shufle = false", "did you mean 'shuffle'"),
        ("shuffle = false", 'shuffle = "no"', "'shuffle' is not true or false"),
        ("shuffle = false", 'format = "xlsx"', "unknown format 'xlsx'"),
        ('variables = ["area"]', 'variables = ["sex"]', "'sex' is in two places"),
        ('variables = ["area"]', 'variables = ["aera"]', "did you mean 'area'"),
        ('variables = ["area"]', 'variables = ["pay"]', "no categories to perturb"),
        ('variables = ["area"]', 'variables = "area"', "not a list of names"),
        ('prior = "file"', 'prior = "fiel"', "did you mean 'file'"),
        ('prior = "file"', 'structure = "uniform"', "unknown model 'uniform'"),
        ('file = "survey.csv"\n', "", "'file' is missing"),
        ("[source]", "[source", "is not valid TOML"),
        ('"codebook.toml"', '"other.toml"', "other.toml"),
    ],
)
def test_each_problem_of_a_plan_is_named(folder, old, new, message):
    assert old in PLAN
    with pytest.raises(SpecificationError, match=message):
        load(folder, PLAN.replace(old, new))


def test_all_problems_of_plan_and_codebook_are_reported_at_once(folder):
    (folder / "codebook.toml").write_text(CODEBOOK.replace('role = "sensitive"', 'role = ""'))
    text = PLAN.replace("shuffle", "shufle").replace("epsilon = 2.0", "epsilon = 0").replace('"file"', '"fiel"')
    with pytest.raises(SpecificationError) as caught:
        load(folder, text)
    message = str(caught.value)
    for expected in (
        "variables without a role: pay",
        "did you mean 'shuffle'",
        "not a positive number",
        "did you mean 'file'",
    ):
        assert expected in message


def test_a_plan_without_blocks_is_refused(folder):
    with pytest.raises(SpecificationError, match="the plan has no blocks"):
        load(folder, PLAN[: PLAN.index("[[blocks]]")])


def test_a_missing_plan_is_refused(tmp_path):
    with pytest.raises(SpecificationError, match="cannot be read"):
        load_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('model = "differential"\nepsilon = 2.0', 'model = ["differential"]', r"unknown model \['differential'\]"),
        (
            'model = "differential"\nepsilon = 2.0',
            "epsilon = 2.0",
            r"\[privacy\]: 'model' is missing; wanted 'differential' or",
        ),
        ('prior = "uniform"', "matrix = [[0.5, 0.4], [0.5, 0.5]]", r"\[\[blocks\]\] 2 matrix: row 0 does not sum to 1"),
        ('prior = "uniform"', "matrix = [[0.5], [0.5, 0.5]]", r"\[\[blocks\]\] 2 matrix: the matrix is not an array"),
        ("epsilon = 2.0", "epsilon = 0x1" + "0" * 400, "privacy.epsilon: a whole number of more than 64 bits"),
        ("epsilon = 2.0", "epsilon = 1" + "0" * 5000, "is not valid TOML"),
        ("epsilon = 2.0", "epsilon = true", "epsilon is not a positive number; got True"),
        ("epsilon = 2.0", "epsilon = 2026-01-01", "epsilon is not a positive number"),
        ("[release]", "[[release]]", r"\[release\]: expected a table; got \[\{"),
        ("[source]", "metadata = [1]\n[source]", r"\[metadata\]: expected a table; got \[1\]"),
        ("[[blocks]]", "[blocks]", r"is not valid TOML"),
        ('variables = ["area"]', 'variables = [["area"]]', "'variables' is not a list of names"),
        ('prior = "uniform"', "given = 5", "'given' is not a list of names"),
        ('prior = "uniform"', "rarer_than = true", "'rarer_than' is not a number of records"),
        ('prior = "uniform"', 'prior_epsilon = "1"', "prior_epsilon is not a number >= 0; got '1'"),
        ('prior = "uniform"', 'prior = "dp"', "needs a budget"),
        ('prior = "uniform"', 'matrix = [["0.5"]]', "not a list of rows of numbers"),
        ('prior = "uniform"', "matrix = [[nan]]", "not a list of rows of numbers"),
        ('prior = "uniform"', 'matrix = "111"', "not a list of rows of numbers"),
        ('prior = "uniform"', "structure = 5", "expected a name or a table with 'model'; got 5"),
        ('"survey.csv"', r'"survey\u0000.csv"', "not a valid file name: it contains a control character"),
        ("[source]", "a = " + "[" * 3000 + "]" * 3000 + "\n[source]", "nested too deeply"),
    ],
)
def test_each_wrongly_typed_entry_of_a_plan_is_named(folder, old, new, message):
    assert old in PLAN
    with pytest.raises(SpecificationError, match=message):
        load(folder, PLAN.replace(old, new))


@pytest.mark.parametrize("held", [b"\xff\xfe", b"\0" * 100])
def test_a_plan_that_is_no_text_is_refused(folder, held):
    (folder / "plan.toml").write_bytes(held)
    with pytest.raises(SpecificationError, match="not"):
        load_plan(folder / "plan.toml")


def test_an_endless_plan_is_not_read_to_its_end():
    with pytest.raises(SpecificationError, match="a pipe or a device, not a file"):
        load_plan("/dev/zero")
