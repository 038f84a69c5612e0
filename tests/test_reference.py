"""The reference of the files that curators edit says what the program accepts, option by option."""

import dataclasses
import re
import tomllib

import pytest
from click.testing import CliRunner

from postrand import formats, load_plan
from postrand.cli import main
from postrand.codebook.codebook import Codebook
from postrand.codebook.survey_design import SurveyDesign
from postrand.codebook.variable import Variable
from postrand.designers import OBJECTIVES, STRUCTURES
from postrand.designers.split.splitting import MAX_CELLS
from postrand.engines import resources
from postrand.engines.database import TARGET_OPTIONS
from postrand.metadata import Description
from postrand.plan import infer, ledger_plan, plan, policy, split_plan, unit_plan
from postrand.plan.file_goal import NAMES as OF_THE_FILE
from postrand.plan.values import BlockPlan, ReleaseOptions
from postrand.privacy import MODELS
from postrand.ranks.laws import RANK_LAWS
from postrand.recoding import entries
from postrand.recoding.base import kinds
from tests import api_page, cli_page
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
NUMERICAL = ("variables", "method", "form")


def part(title):
    """Return the text below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}$\n(.*?)(?=^#|\Z)", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL),
                      re.MULTILINE | re.DOTALL)  # fmt: skip
    assert found is not None, title
    return found[1]


def rows(title):
    """Return the cells of the rows of all tables below a heading, without their heads."""
    lines = [line for line in part(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


def options(title):
    return [named(row[0])[0] for row in rows(title) if named(row[0])]


def fields(kind, skip=()):
    held = [f for f in dataclasses.fields(kind) if f.init and not f.metadata.get("confidential")]
    return [f.name for f in held if f.name not in skip]


SECTIONS = {
    "`[source]`": plan._SOURCE,
    "`[engine]`": resources.OPTIONS,
    "`[privacy]`": OF_THE_FILE,
    "`[design]`": plan._DESIGN,
    "`[[blocks]]`": fields(BlockPlan),
    "`[split]`": split_plan.FIELDS,
    "`[unit]`": unit_plan.OPTIONS,
    "`[[numerical]]`": NUMERICAL,
    "`[release]`": [*fields(ReleaseOptions), *TARGET_OPTIONS],
    "`[metadata]`": fields(Description),
    "`[policy]`": ["file"],
    "`[ledger]`": list(ledger_plan.NAMES),
    "`[analysts]`": ["uses"],
    "`[[variables]]`": fields(Variable),
    "`[survey]`": fields(SurveyDesign),
}


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_lists_the_options_that_it_accepts(title):
    assert sorted(options(title)) == sorted(SECTIONS[title])


def test_every_section_of_a_plan_is_on_the_page():
    held = {re.sub(r"[`\[\]]", "", title) for title in SECTIONS} - {"variables", "survey"}
    assert held == set(plan._SECTIONS) - {"claims"}
    assert "`[[claims]]`" in part("`[privacy]`")
    assert set(formats.SETTINGS) < set(options("`[source]`"))


@pytest.mark.parametrize(
    ("title", "family"),
    [("Privacy models", MODELS), ("Objectives", OBJECTIVES), ("Structures", STRUCTURES), ("Rank laws", RANK_LAWS)],
)
def test_every_model_is_listed_with_its_options(title, family):
    listed = {named(row[0])[0]: row[1] for row in rows(title) if named(row[0])}
    assert set(listed) == {member.name for member in family}
    for member in family:
        told = [text for text in listed[member.name].split(", ") if text]
        assert [named(text)[0] for text in told] == fields(member)
        for field, text in zip((f for f in dataclasses.fields(member) if f.init), told, strict=False):
            has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            assert (" = " in text) == has_default
            if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
                assert text.endswith(f"= {field.default:g}") or text.endswith("= found")


def test_recodes_are_listed_by_kind():
    own = [name for name in options("`[[recodes]]`") if name in entries.OWN]
    assert own == list(entries.OWN)
    listed = {row[0]: [named(text)[0] for text in row[1].split(", ")] for row in rows("`[[recodes]]`")
              if row[0] in {kind.name for kind in kinds()}}  # fmt: skip
    assert set(listed) == {kind.name for kind in kinds()}
    for kind in kinds():
        # The table of a hierarchy is filled in from the file that the recode names.
        # What every recode has is no option of a kind, also where it is all that is written.
        options_ = [name for name in listed[kind.name] if name not in entries.OWN]
        assert options_ == fields(kind, skip=("table",) if kind.name == "hierarchy" else ())


def test_the_parts_of_a_codebook_and_of_a_policy():
    for name in ("variables", "rules", "rules_file", "recodes", "survey"):
        assert re.search(rf"^\| `\[*{name}\]*` ", part("codebook.toml"), re.MULTILINE)
    listed = {named(row[0])[0]: named(row[1]) for row in rows("policy.toml") if named(row[0])}
    assert {"title", "enforce", "rules"} < set(listed)
    assert {measure: tuple(listed[measure]) for measure in policy.MEASURES} == {
        measure: policy.OPTIONS[kind] for measure, kind in policy.MEASURES.items()
    }
    assert set(listed) == {"title", "enforce", "rules", *policy.MEASURES}


def test_defaults_are_those_of_the_program():
    usual = {named(row[0])[0]: row[1].strip("`") for row in rows("`[release]`") if named(row[0])}
    held = ReleaseOptions()
    assert (usual["format"], usual["household_numbers"]) == (held.format, held.household_numbers)
    assert (
        (usual["shuffle"], usual["release_ids"])
        == ("true", "false")
        == tuple(str(x).lower() for x in (held.shuffle, held.release_ids))
    )
    variable = {named(row[0])[0]: row[1].strip("`") for row in rows("`[[variables]]`") if named(row[0])}
    plain = Variable("a", role="other")
    assert (variable["type"], variable["missing"]) == (plain.type, plain.missing)
    split = {named(row[0])[0]: row[1].strip("`") for row in rows("`[split]`") if named(row[0])}
    assert split["max_cells"] == str(MAX_CELLS)


def test_the_examples_are_accepted(tmp_path):
    small, _, recodes, rules = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    assert policy.policy_from_dict(rules).rules[1].share == 0.2
    towns, bands = ["city", "country"], ["0-14", "15-29", "30-44", "45-59", "60-74", "75+"]
    both = [{"name": "age", "role": "key", "categories": bands}, {"name": "town", "role": "key", "categories": towns}]
    assert len(Codebook.from_dict({"variables": both, **recodes}).recodes) == 2
    (tmp_path / "survey.csv").write_text(
        "sex,region,age,income\n" + "".join(f"{n % 2},{n % 3},{n % 4},{n}\n" for n in range(40))
    )
    names = {"sex": ["0", "1"], "region": ["0", "1", "2"], "age": ["0", "1", "2", "3"]}
    entries = [f'[[variables]]\nname = "{n}"\nrole = "key"\ncategories = {c}\n' for n, c in names.items()]
    entries.append('[[variables]]\nname = "income"\nrole = "other"\ntype = "int64"\n')
    (tmp_path / "codebook.toml").write_text("\n".join(entries))
    (tmp_path / "plan.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    assert load_plan(tmp_path / "plan.toml").release.as_is == tuple(small["release"]["as_is"])
    assert infer.load_codebook(tmp_path / "codebook.toml").names == ("sex", "region", "age", "income")


def test_the_example_of_three_models_says_what_design_says(tmp_path):
    plan, said = re.search(r"plain words\n.*?```toml\n(.*?)```.*?```text\n(.*?)```", PAGE, re.DOTALL).groups()
    sizes = {"sex": 2, "region": 3, "age": 4}
    entries = [
        f'[[variables]]\nname = "{n}"\nrole = "key"\ncategories = {[*map(str, range(s))]}\n' for n, s in sizes.items()
    ]
    (tmp_path / "codebook.toml").write_text("\n".join(entries))
    (tmp_path / "survey.csv").write_text(
        "sex,region,age\n" + "".join(f"{n % 2},{n // 2 % 3},{n // 6 % 4}\n" for n in range(6000))
    )
    (tmp_path / "plan.toml").write_text(plan)
    found = CliRunner().invoke(main, ["design", "--plan", str(tmp_path / "plan.toml")]).output.splitlines()
    for line in said.splitlines():
        assert line in found


@pytest.mark.parametrize("made", [api_page, cli_page])
def test_the_references_of_python_and_of_the_command_line_are_current(made):
    assert made.PAGE.read_text(encoding="utf-8") == made.page()  # else: python -m tests.api_page, tests.cli_page
