"""Advice: what is said of names that the codebook does not have, and what its codebooks propose."""

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook
from postrand.plan.infer import load_codebook
from postrand.workflow.plan_settings import of_three


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """A file with codes for no answer, the codebook that init writes of it, with a recode."""
    folder = tmp_path_factory.mktemp("advice")
    rows = [f"{'fm'[i % 2]},d{i % 12:02},{(1, 2, 3, 4, 9)[i % 5]},{i % 3}" for i in range(1200)]
    (folder / "people.csv").write_text("\n".join(["sex,district,stress,school", *rows]) + "\n", "utf-8")
    tens = ",".join(f"d{i:02}" for i in range(10, 12))
    words = ["--keys", "sex,area,school", "--other", "stress", "--out", str(folder)]
    words += ["--recode", f"area=district:groups:tens={tens};others=ones"]
    made = CliRunner().invoke(main, ["init", str(folder / "people.csv"), *words])
    assert made.exit_code == 0, made.output
    return folder


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("sex x district", "a table of district, which the codebook recodes into area. Next: name area in its place."),
        ("sex x schol", "a table of schol, which the codebook does not have (did you mean 'school'?); wanted sex"),
    ],
)
def test_a_precision_for_a_column_under_another_name_says_which(survey, tmp_path, table, said):
    words = [
        "advise",
        str(survey / "people.csv"),
        "--codebook",
        str(survey / "codebook.toml"),
        "--out",
        str(tmp_path / "a"),
    ]
    run = CliRunner().invoke(main, [*words, "--precision", f"9 points for {table}"])
    assert run.exit_code == 2
    assert said in run.output


def test_the_codebook_of_advice_has_the_comment_on_codes_for_no_answer_that_init_writes(survey, tmp_path):
    note = '# if these mean no answer, uncomment: missing_codes = ["9"]\n'
    assert (survey / "codebook.toml").read_text("utf-8").count(note) == 1
    words = ["--keys", "sex,school", "--other", "stress", "--drop", "district", "--out", str(tmp_path / "a")]
    run = CliRunner().invoke(main, ["advise", str(survey / "people.csv"), *words])
    assert run.exit_code == 0, run.output
    path = tmp_path / "a" / "codebook.toml"
    before, _, after = path.read_text("utf-8").partition(note)
    assert after.startswith('name = "stress"\n')
    assert load_codebook(path)["stress"].missing_codes == ()
    path.write_text(before + note[2:].partition(": ")[2] + after, "utf-8")  # as the comment says
    assert load_codebook(path)["stress"].missing_codes == ("9",)


def test_right_links_are_not_known_where_a_key_has_no_categories(tmp_path):
    """A list with years of birth finds far more than the other keys alone, which are all that is counted."""
    rows = [f"{'fm'[i % 2]},d{i % 12:02},{1900 + i * 7 % 97}" for i in range(1200)]
    (tmp_path / "p.csv").write_text("\n".join(["sex,district,born", *rows]) + "\n", "utf-8")
    entries: list[dict[str, Any]] = [
        {"name": "sex", "role": "key", "categories": ["f", "m"]},
        {"name": "district", "role": "key", "categories": [f"d{i:02}" for i in range(12)]},
        {"name": "born", "role": "key", "type": "int64", "missing": "error"},
    ]
    said = "not known: born is a key without categories, which no figure counts"
    for role in ("key", "drop"):
        entries[2]["role"] = role
        Codebook.from_dict({"variables": entries}).save(tmp_path / f"{role}.toml")
        words = ["advise", str(tmp_path / "p.csv"), "--codebook", str(tmp_path / f"{role}.toml")]
        run = CliRunner().invoke(main, [*words, "--limit", "epsilon <= 4", "--out", str(tmp_path / role)])
        short = run.output.partition("In short:")[2].partition("\n\n")[0]
        assert (f"correct matches: {said}" in short) == (role == "key")
        assert (f"  Risk: {said}\n" in run.output) == (role == "key")
        assert ("matches, informed attacker, all persons: 1" in run.output) == (role == "drop")
        assert "nothing of born" not in run.output
        assert ("correct matches of the informed attacker: " in short) == (role == "drop")


@pytest.mark.parametrize(("of_members", "shared"), [(False, False), (True, False), (False, True)])
def test_completed_files_are_named_where_they_can_be_had(of_members, shared):
    names = tuple("abcd")
    subset = SimpleNamespace(variables=names, probability=1.0)
    split = SimpleNamespace(variables=names, subsets=[subset], of_members=of_members)
    (said,) = of_three(SimpleNamespace(split=split, blocks=(), shared=shared, units=None), 1_000)
    assert said.endswith("; completed files have all together") == (not (of_members or shared))


def split_of(*sets):
    return [SimpleNamespace(variables=tuple(one), probability=1 / len(sets)) for one in sets]


def test_the_sets_of_a_split_that_show_three_variables_are_named_where_they_are_few():
    def said(*sets: str) -> str:
        split = SimpleNamespace(variables=tuple("abcdefghi"), subsets=split_of(*sets), of_members=True)
        return of_three(SimpleNamespace(split=split, blocks=(), shared=False, units=None), 1_000)[0]

    few = said("cba", "ab", "bcde", "bcd", "hi")
    assert "are shown together by at most about 40% of the members that are drawn, and some three by none" in few
    assert " (together are shown: a × b × c; b × c × d × e); tables and" in few
    assert few.endswith("with three that none shows are refused")
    assert "(" not in said(*(f"{one}{two}i" for one, two in zip("abcabcabd", "defefdfdh", strict=True)))
    assert "(" not in said("abcdefghi")  # every three are shown
    rare = SimpleNamespace(variables=tuple("acd"), probability=0.0001)
    split = SimpleNamespace(variables=tuple("abcd"), subsets=[rare], of_members=False)
    (told,) = of_three(SimpleNamespace(split=split, blocks=(), shared=True, units=None), 1_000)
    assert "by no record" not in told  # it depends on the draw
    assert said("ab", "cd").endswith("together by no record; tables and regressions with three are refused")
    beside = SimpleNamespace(variables=("pay",))  # a block, which every record shows
    pairs = SimpleNamespace(variables=tuple("abcd"), subsets=split_of("ab", "cd"), of_members=True)
    (told,) = of_three(SimpleNamespace(split=pairs, blocks=(beside,), shared=False, units=None), 1_000)
    assert told.startswith("three variables of the split are shown together by no record; tables and regressions with")
    assert told.endswith("three of them are refused")
