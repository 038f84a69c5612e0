"""Worth is printed with the frequencies under which it was computed, and not at all of a handful of records."""

import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.report.table_worth import TableWorth, more_in_two
from postrand.support.worth_basis import BASES, HARMONIC, WEIGHTED

PLAN = """\
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
[design]
prior = "{prior}"
[[blocks]]
variables = ["sex"]
[blocks.privacy]
model = "differential"
epsilon = 1.5
[[blocks]]
variables = ["area"]
[blocks.privacy]
model = "differential"
epsilon = 1.5
"""
BOOK = """\
[[variables]]
name = "sex"
role = "key"
categories = ["f", "m"]
[[variables]]
name = "area"
role = "key"
categories = ["a", "b", "c"]
"""


def call(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, " ".join(done.output.split())


def place(folder, records, prior="uniform"):
    random = np.random.default_rng(0)
    shares = {"sex": (["f", "m"], [0.9, 0.1]), "area": (["a", "b", "c"], [0.8, 0.1, 0.1])}
    held = {name: random.choice(values, records, p=p) for name, (values, p) in shares.items()}
    pq.write_table(pa.table(held), folder / "s.parquet")
    (folder / "codebook.toml").write_text(BOOK)
    (folder / "plan.toml").write_text(PLAN.format(prior=prior))
    return folder / "plan.toml"


@pytest.mark.parametrize(("prior", "basis"), [("uniform", "equal"), ("file", "plan")])
def test_design_names_the_frequencies_that_it_assumes(tmp_path, prior, basis):
    code, text = call("design", "--plan", place(tmp_path, 500, prior))
    assert code == 0
    assert f"for the table of sex, {BASES[basis]}" in text
    assert f"on average (harmonic mean), {BASES['equal']}" in text or re.search(
        f"the least useful [0-9.]+, {BASES['equal']}", text
    )


def test_every_command_and_page_tells_the_same_worth_of_a_plan_and_its_basis(tmp_path):
    plan = place(tmp_path, 500, "file")
    told = call("explain", plan)[1].partition("A table of two perturbed variables is as precise as one from ")[2]
    [number] = re.findall(r"^[0-9.]+ unperturbed records on average", told)
    assert f"in the worst case, {BASES['equal']};" in told
    assert f"worth {number}" in call("design", "--plan", plan)[1]
    done = call("protect", "--plan", plan, "--out", tmp_path / "out", "--dossier", tmp_path / "in", "--seed", 1)[1]
    assert f"worth {number}" in done
    report = (tmp_path / "out" / "report.html").read_text()
    [row] = re.findall(r"sex × area</th><td>([0-9.]+)<", report)
    assert round(float(row)) == int(number.split()[0])
    dossier = " ".join(html.unescape((tmp_path / "in" / "dossier.html").read_text()).split())
    assert f"it is worth, {BASES['equal']}" in dossier
    assert f"The same, {BASES['file']}" in dossier
    again = tmp_path / "again.toml"
    again.write_text(plan.read_text())
    first, second = again.read_text().partition("[[blocks]]")[2].split("[[blocks]]")
    again.write_text(again.read_text().partition("[[blocks]]")[0] + f"[[blocks]]{second}\n[[blocks]]{first}")
    compared = call("compare", plan, again)[1]
    assert f"Worth, in unperturbed records, {BASES['equal']}" in compared
    assert ("sex × area" in compared) != ("area × sex" in compared)  # one table, whatever the order of the blocks
    made = call("advise", tmp_path / "s.parquet", "--keys", "sex,area", "--out", tmp_path / "advice")[1]
    assert re.search(f"More epsilon for plan 1: tables of two variables would be worth .* .{HARMONIC}, ", made)
    assert BASES["equal"] in made
    told = json.loads(CliRunner().invoke(main, ["design", "--plan", str(plan), "--json"]).stdout)
    assert told["two_way"][0]["basis"] == "equal"


def test_of_two_records_no_worth_is_told(tmp_path):
    plan = place(tmp_path, 2)
    for words in (("design", "--plan", plan), ("explain", plan), ("compare", plan, plan)):
        code, text = call(*words)
        assert code == 0, text
        assert "not told: the file has fewer than 10 records" in text
        assert "as precise as one from" not in text
    book = ("--codebook", tmp_path / "codebook.toml")
    code, text = call("advise", tmp_path / "s.parquet", *book, "--out", tmp_path / "advice")
    assert code != 0
    assert "the file has fewer than 10 records" in text
    assert not (tmp_path / "advice").exists()


@pytest.mark.parametrize(("weight", "mean"), [(1, HARMONIC), (6, WEIGHTED)])
def test_a_split_says_by_which_mean_its_tables_are_one_number(tmp_path, weight, mean):
    names = "abc"
    book = "".join(f'[[variables]]\nname = "{n}"\nrole = "key"\ncategories = ["0", "1"]\n' for n in names)
    pq.write_table(pa.table({n: ["0", "1"] * 50 for n in names}), tmp_path / "s.parquet")
    (tmp_path / "codebook.toml").write_text(book)
    head = PLAN.partition("[design]")[0]
    tables = [("a", "b", weight), ("a", "c", 1), ("b", "c", 1)]
    work = ", ".join(f'{{table = ["{x}", "{y}"], weight = {w}}}' for x, y, w in tables)
    (tmp_path / "plan.toml").write_text(f'{head}[split]\nvariables = ["a", "b", "c"]\nworkload = [{work}]\n')
    code, text = call("design", "--plan", tmp_path / "plan.toml")
    assert code == 0, text
    assert re.search(f"all tables: 1,000 released records are worth [0-9.]+, {mean}, if every", text)
    assert "the plan's own workload, which may weigh tables differently, is not used" in text


def test_a_table_of_two_that_is_worth_more_than_one_variable_is_explained():
    one, two = (TableWorth(("a",), 90.0, 1000),), (TableWorth(("a", "b"), 120.0, 1000),)
    assert "worth more than those of one" in more_in_two(one, two)[0]
    assert more_in_two(two, one) == more_in_two(one, ()) == ()
