"""Advice: what is said of names that the codebook does not have, and what its codebooks propose."""

import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan.infer import load_codebook


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
