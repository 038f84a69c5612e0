"""What 1,000 released records will be worth, against the variance written out over every released combination."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.engines.summary import Summary
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.plan import load_plan
from postrand.report.values import expected_shares, page_values
from postrand.workflow.design_blocks import design_blocks

A = Variable("a", role="key", categories=("p", "q"))
B = Variable("b", role="key", categories=("x", "y", "z"))
BOOK = Codebook((A, B))


def law(size, seed):
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(0.6 * np.eye(size) + 0.4 * rng.dirichlet(np.ones(size), size))


def worth(matrix, pi, groups):
    """Return (1 − Σπ_v²) / V_v with V_v summed over groups of cells, each released cell's share of records by hand."""
    inverse = np.linalg.inv(matrix.array)
    released = pi @ matrix.array
    mass, variance = [], 0.0
    for members in groups:
        says = inverse[:, members].sum(axis=1)  # what one released record adds to the estimate of this group's share
        mean = sum(released[j] * says[j] for j in range(len(pi)))
        variance += sum(released[j] * (says[j] - mean) ** 2 for j in range(len(pi)))
        mass.append(mean)
    return (1 - np.square(mass).sum()) / variance


@pytest.mark.parametrize("seed", range(4))
def test_one_variable(seed):
    matrix, pi = law(3, seed), np.random.default_rng(seed).dirichlet(np.ones(3))
    found = expected_shares(Block(("b",), matrix), BOOK, pi)
    assert found == {"b": pytest.approx(worth(matrix, pi, [[0], [1], [2]]), rel=1e-5)}


@pytest.mark.parametrize("seed", range(4))
def test_each_variable_of_a_joint_block(seed):
    matrix, pi = law(6, seed), np.random.default_rng(seed).dirichlet(np.ones(6))
    cells = list(itertools.product(range(2), range(3)))
    found = expected_shares(Block(("a", "b"), matrix), BOOK, pi)
    for axis, name in enumerate(("a", "b")):
        groups = [[k for k, cell in enumerate(cells) if cell[axis] == c] for c in range(2 + axis)]
        assert found[name] == pytest.approx(worth(matrix, pi, groups), rel=1e-5)


def test_the_report_says_the_same_of_a_file_with_these_frequencies():
    matrix, pi, n = law(3, 9), np.array([0.5, 0.3, 0.2]), 10_000_000
    mechanism = Mechanism([Block(("b",), matrix)], BOOK)
    counts = np.rint(n * (pi @ matrix.array)).astype(np.int64)
    summary = Summary(int(counts.sum()), (counts,), {}, (), np.zeros((0, 0), np.int64))
    (view,) = page_values(mechanism, summary).variables
    share = expected_shares(mechanism.blocks[0], BOOK, pi)["b"]
    assert view.effective is not None
    assert view.effective / n == pytest.approx(share, rel=1e-4)


def test_a_singular_law_and_a_kept_variable_are_worth_nothing_known_and_all():
    assert expected_shares(Block(("a",), TransitionMatrix.from_array(np.full((2, 2), 0.5))), BOOK, np.ones(2) / 2) == {
        "a": None
    }
    kept = expected_shares(Block(("a",), TransitionMatrix.identity(2)), BOOK, np.array([0.3, 0.7]))
    assert kept == {"a": pytest.approx(1, abs=1e-5)}


@pytest.fixture
def plan(tmp_path):
    rng = np.random.default_rng(4)
    columns = {
        "region": rng.choice(["N", "S"], 900),
        "sex": rng.choice(["F", "M"], 900, p=[0.6, 0.4]),
        "age": rng.permutation(np.arange(900) % 60),
    }
    pq.write_table(pa.table(columns), tmp_path / "survey.parquet")
    given = ["--out", str(tmp_path), "--key", "sex,age", "--other", "region"]
    assert CliRunner().invoke(main, ["init", str(tmp_path / "survey.parquet"), *given]).exit_code == 0
    return tmp_path / "plan.toml"


def test_design_says_what_is_expected_and_warns_where_it_is_little(plan):
    told = CliRunner().invoke(main, ["design", "--plan", str(plan), "--json"])
    sex, age = json.loads(told.stdout)["blocks"]
    assert sex["effective_per_1000"] == {"sex": pytest.approx(1000 * np.tanh(0.5) ** 2, rel=1e-5)}
    assert "warning" not in sex
    assert age["effective_per_1000"]["age"] < 10
    assert "few shares of age can be estimated" in age["warning"]
    text = CliRunner().invoke(main, ["design", "--plan", str(plan)]).stdout
    assert "1,000 released records are worth 214 unperturbed records for the table of sex" in text
    assert text.count("  warning:") == 1
    assert "\nwarning: little is left for tables: 1 of 2 tables of one variable is of little use (less than 100" in text


def test_the_prior_and_the_strata_are_those_of_the_plan(plan):
    text = plan.read_text().replace('prior = "uniform"', 'prior = "file"')
    plan.write_text(text.replace('variables = ["sex"]', 'variables = ["sex"]\ngiven = ["region"]'))
    designed = next(d for d in design_blocks(load_plan(plan)) if d.plan.variables == ("sex",))
    data = pq.read_table(plan.parent / "survey.parquet").to_pydict()
    book = load_plan(plan).codebook
    cells = [tuple(book[n].code_labels[c] for n, c in zip(designed.shape.variables, row, strict=True))
             for row in designed.shape.cells.tolist()]  # fmt: skip
    records = list(zip(*(data[n] for n in designed.shape.variables), strict=True))
    assert designed.frequencies == pytest.approx([records.count(cell) / 900 for cell in cells])
    at = designed.shape.variables.index("sex")
    groups = [[k for k, cell in enumerate(cells) if cell[at] == value] for value in ("F", "M")]
    wanted = worth(designed.block.matrix, designed.frequencies, groups)
    assert expected_shares(designed.block, book, designed.frequencies) == {"sex": pytest.approx(wanted, rel=1e-5)}


def test_design_says_why_nothing_is_known(plan):
    words = "the worth of released records for the table of sex is not known: the matrix cannot be inverted"
    flat = "matrix = [[0.5, 0.5], [0.5, 0.5]]"
    text = plan.read_text().replace('variables = ["sex"]', f'variables = ["sex"]\n{flat}')
    plan.write_text(text)
    told = CliRunner().invoke(main, ["design", "--plan", str(plan)])
    assert (told.exit_code, words in told.stdout) == (0, True), told.output
