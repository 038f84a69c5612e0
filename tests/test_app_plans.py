"""Plans in the workbench: every valid plan is opened, shown and kept, and blocks are made by hand."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.app import (
    data_views,
    designing,
    documents,
    goals,
    opening,
    plan_views,
    plans,
    precision,
    precision_views,
    views,
)
from postrand.app.blocks import Together
from postrand.app.changes import changes
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.designing import Latest
from postrand.errors import PostrandError, UsageError
from postrand.plan import Plan, load_plan
from postrand.report.table_worth import EQUAL, table_worth
from postrand.support.worth_basis import BASES
from postrand.workflow.explanation import explain
from postrand.workflow.pipeline import run
from postrand.workflow.plan_figures import figures_of
from tests.test_cli import call

N = 600
EACH = 'privacy = {model = "differential", epsilon = %s}\n'
SPLIT = '[split]\nvariables = ["sex", "area"]\nepsilon = 3\n'
JOB = '[[blocks]]\nvariables = ["job"]\n'
PLANS = {
    "joint": f'[[blocks]]\nvariables = ["area", "sex"]\n{EACH % 2.5}{JOB}{EACH % 2.5}',
    "beside": f'{SPLIT}[[blocks]]\nvariables = ["born"]\n{EACH % 2}',
    "different": f'[[blocks]]\nvariables = ["born"]\nprior = "file"\n{EACH % 2}{JOB}{EACH % 3}',
    "shares": f'{JOB}[[blocks]]\nvariables = ["sex"]\n',
    "weighted": f'{JOB}privacy = {{model = "share", weight = 2.0}}\n[[blocks]]\nvariables = ["sex"]\n',
    "order": f'{JOB}{EACH % 2.5}[[blocks]]\nvariables = ["area"]\n{EACH % 2.5}',
    "strata": f'{JOB}given = ["sex"]\n',
    "rare": f"{JOB}rarer_than = 300\n",
    "matrix": '[[blocks]]\nvariables = ["sex"]\nmatrix = [[0.9, 0.1], [0.1, 0.9]]\n',
    "noisy prior": f'[design]\nprior = "dp"\nprior_epsilon = 0.5\n{JOB}',
    "chosen with the file": f'[design]\nchosen_with = "file"\n{JOB}',
    "approximate": f'{JOB}privacy = {{model = "approximate", epsilon = 1.0, delta = 1e-6}}\n',
    "several models": '[[blocks]]\nvariables = ["sex"]\nmatrix = [[0.6, 0.4], [0.4, 0.6]]\n'
    'privacy = [{model = "differential", epsilon = 2}, {model = "bistochastic", beta = 0.5}]\n',
    "distances": '[[blocks]]\nvariables = ["born"]\nprivacy = {model = "metric", epsilon = 1, distance = "ranks"}\n',
    "numbers": f'{JOB}[[numerical]]\nvariables = ["pay"]\nmethod = {{ model = "rank-blocks", k = 5}}\n',
    "household": f'{JOB}[unit]\nhousehold = "house"\nlargest_household = 4\n',
    "the file": f"delta = 1e-6\n{JOB}",
    "analysts": f'{JOB}[analysts]\nuses = ["mean pay by job", "table job x sex"]\n',
}
IN_FORMS = {"joint", "shares", "order", "strata", "chosen with the file", "numbers", "household", "analysts"}


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(11)
    columns = {
        "sex": rng.choice(["F", "M"], N),
        "area": rng.choice(["n", "e", "s", "w"], N, p=[0.4, 0.3, 0.2, 0.1]),
        "job": [["yes", "no", None][k] for k in rng.integers(0, 3, N)],
        "born": rng.choice([1990, 2000, 2010], N),
        "pay": rng.uniform(900, 4000, N),
        "house": np.arange(N) // 2,
    }
    path = tmp_path_factory.mktemp("plans") / "survey.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def fresh(survey: Path) -> Decisions:
    roles = dict.fromkeys(("sex", "area", "job", "born"), "key") | {"pay": "other", "house": "household"}
    return dataclasses.replace(open_decisions(opening.open_file(survey), roles), as_is=("pay",))


def planned(fresh: Decisions, folder: Path, extra: str) -> Path:
    assert fresh.opened is not None
    (folder / "codebook.toml").write_text(documents.codebook_toml(fresh))
    as_is = "[]" if "numerical" in extra else '["pay"]'
    head = f'[source]\nfile = "{fresh.opened.path}"\ncodebook = "codebook.toml"\n[release]\nas_is = {as_is}\n'
    privacy = '[privacy]\nmodel = "differential"\nepsilon = 5.0\n'
    (folder / "plan.toml").write_text(f"{head}{privacy}{extra}")
    return folder / "plan.toml"


def said(plan: Plan) -> dict[str, object]:
    """Return all that a plan says; a split holds arrays, so it is compared as data."""
    found = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    return {**found, "split": None if plan.split is None else plan.split.to_dict()}


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_is_opened_shown_and_kept(name: str, fresh: Decisions, tmp_path: Path) -> None:
    path = planned(fresh, tmp_path, PLANS[name])
    opened, folder = plans.open_plan(path, tmp_path), tmp_path / "again"
    folder.mkdir()
    assert said(load_plan(documents.write(opened, folder))) == said(load_plan(path))
    assert opened.is_of_plan != (name in IN_FORMS)
    made = Latest().designed(opened, tmp_path)
    page = str(plan_views.whole_view(made, *designing.worths(made, N)))
    for block in made.mechanism.blocks:
        assert " × ".join(block.perturbed) in page
    form = str(views.design_form(opened))
    assert ("no control of this screen changes it" in form) == opened.is_of_plan


def test_the_share_of_the_population_is_that_of_the_plan(fresh: Decisions, tmp_path: Path) -> None:
    path = planned(fresh, tmp_path, JOB)
    text = path.read_text()
    path.write_text(text.replace("[source]\n", "[source]\nsampling_fraction = 0.1\n"))
    opened, folder = plans.open_plan(path, tmp_path), tmp_path / "again"
    folder.mkdir()
    assert opened.fraction == 0.1
    assert said(load_plan(documents.write(opened, folder))) == said(load_plan(path))


def test_every_variable_has_the_figures_of_the_command_line(fresh: Decisions, tmp_path: Path) -> None:
    strata = PLANS["strata"].replace("job", "area") + EACH % 2
    path = planned(
        fresh, tmp_path, f'[[blocks]]\nvariables = ["born"]\nprior = "file"\n{EACH % 1}{JOB}{EACH % 2}{strata}'
    )
    told = json.loads(call("design", "--json", "--plan", path).output)
    two = {frozenset(one["table"]): one["effective_records"] for one in told["two_way"]}
    made = Latest().designed(plans.open_plan(path, tmp_path), tmp_path)
    found = precision.precisions(made, N)
    worth = {one.name: one.one.effective_records or 0 for one in found}
    known = table_worth(made.mechanism, [(name,) for name in worth], N, EQUAL)
    assert worth == pytest.approx({one.name: one.effective_records for one in known})
    assert list(worth.values()) == sorted(worth.values())
    for one in found:
        least = min((worth, other) for pair, worth in two.items() if one.name in pair for other in pair - {one.name})
        assert one.worst is not None
        assert (one.worst.effective_records, one.other) == (pytest.approx(least[0]), least[1])
        assert one.epsilon == made.mechanism[one.name].epsilon
    page = str(precision_views.precision_view(fresh, found, N))
    assert BASES["equal"] in page
    assert 'data-act="shown"' in page


@pytest.mark.parametrize("name", ["beside", "strata", "numbers"])
@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_the_release_is_that_of_the_command_line(name: str, fresh: Decisions, tmp_path: Path) -> None:
    path = planned(fresh, tmp_path, PLANS[name])
    folder = tmp_path / "again"
    folder.mkdir()
    written = documents.write(plans.open_plan(path, tmp_path), folder)
    made = [run(load_plan(one), one.parent / "release", release_key=bytes(32)) for one in (path, written)]
    files = [{f.name: f.read_bytes() for f in one.path.iterdir() if f.is_file()} for one in made]
    assert files[0] == files[1]


def test_a_plan_is_told_as_the_command_line_tells_it(fresh: Decisions, tmp_path: Path) -> None:
    path = planned(fresh, tmp_path, PLANS["strata"])
    opened = plans.open_plan(path, tmp_path)
    found = designing.explained(opened, tmp_path, Latest())
    assert found.sections == explain(load_plan(path), figures_of(load_plan(path))).sections
    page = str(plan_views.explained(found, waiting=False))
    assert all(title in page for title, _ in found.sections)
    assert 'data-act="explain"' in str(plan_views.explained(None, waiting=False))


def test_an_opened_design_is_not_changed_but_replaced(fresh: Decisions, tmp_path: Path) -> None:
    opened = plans.open_plan(planned(fresh, tmp_path, PLANS["beside"]), tmp_path)
    whole = documents.plan_data(opened, tmp_path)
    refused = act(opened, "perturb", "2", "true")
    assert "choose another way of release" in refused.problem
    assert refused.perturb == opened.perturb
    assert "choose another way of release" in act(opened, "role", "0", "drop").problem
    assert act(opened, "role", "0", "sensitive").problem == ""  # a role that does not change what is perturbed
    other = act(act(opened, "way", value="blocks"), "perturb", "2", "true")
    assert [one.name for one in other.blocks] == ["sex", "area", "job", "born"]
    assert documents.plan_data(act(other, "way", value="plan"), tmp_path) == whole
    assert "not a choice" in act(fresh, "way", value="plan").problem


def test_what_has_no_control_is_named(fresh: Decisions, tmp_path: Path) -> None:
    form = str(views.design_form(plans.open_plan(planned(fresh, tmp_path, PLANS["numbers"]), tmp_path)))
    assert "Numbers that are moved or averaged among similar values: pay" in form
    form = str(views.design_form(plans.open_plan(planned(fresh, tmp_path, PLANS["household"]), tmp_path)))
    assert re.search(r'data-act="house" data-key="" type="checkbox" checked', form)
    form = str(views.design_form(plans.open_plan(planned(fresh, tmp_path, PLANS["chosen with the file"]), tmp_path)))
    assert "chosen with the file" in form


def test_a_table_of_a_database_is_refused_with_the_way_out(fresh: Decisions, tmp_path: Path) -> None:
    path = planned(fresh, tmp_path, JOB)
    text = path.read_text().splitlines()
    text[1] = 'uri = "duckdb:///survey.duckdb"\ntable = "survey"'
    path.write_text("\n".join(text))
    with pytest.raises(UsageError, match=r"in a database. .*postrand protect --plan plan.toml --out release"):
        plans.open_plan(path, tmp_path)


@pytest.mark.parametrize("name", ["joint", "beside"])
def test_roles_that_a_codebook_leaves_open_are_asked_for(name: str, fresh: Decisions, tmp_path: Path) -> None:
    """One of a variable that the plan perturbs, one of another; the plan is the same once they are decided."""
    path = planned(fresh, tmp_path, PLANS[name])
    whole, book = plans.open_plan(path, tmp_path), tmp_path / "codebook.toml"
    text = book.read_text()
    for variable in ("area", "pay"):
        start, _, rest = text.partition(f'name = "{variable}"')
        text = f'{start}name = "{variable}"' + re.sub(r'role = "\w+"', 'role = ""', rest, count=1)
    book.write_text(text)
    opened = plans.open_plan(path, tmp_path)
    assert [opened.names[j] for j in opened.unset] == ["area", "pay"]
    assert "2 variables have no role yet: area, pay." in str(data_views.variables(opened))
    assert any("without a role: area, pay" in one for one in documents.problems(opened))
    decided = act(act(opened, "role", "1", "key"), "role", "4", "other")
    assert decided.problem == ""
    assert documents.plan_data(decided, tmp_path) == documents.plan_data(whole, tmp_path)
    with pytest.raises(UsageError, match=r"this is a codebook, .*plan.toml beside it"):
        plans.open_plan(book, tmp_path)
    path.write_text('policy = "policy.toml"\n' + path.read_text())
    with pytest.raises(PostrandError, match=r"\[policy\]: expected a table"):
        plans.open_plan(path, tmp_path)


# -- blocks by hand ---------------------------------------------------------------------------------------------------


def test_blocks_and_strata_are_made_by_hand(fresh: Decisions, tmp_path: Path) -> None:
    joint = act(act(fresh, "block", "1", "sex"), "perturb", "3", "false")
    assert [one.name for one in joint.blocks] == ["sex × area", "job"]
    assert not joint.is_plain
    strata = act(joint, "given", "2:3", "true")
    assert changes(joint, strata) == ("strata: none → job within born",)  # nothing more is drawn together
    plan = load_plan(documents.write(strata, tmp_path))
    assert [(b.variables, b.given) for b in plan.blocks] == [(("sex", "area"), ()), (("job",), ("born",))]
    assert documents.plan_data(strata, tmp_path)["privacy"]["epsilon"] == 2.0  # two blocks of the usual level
    made = Latest().designed(strata, tmp_path)
    assert [block.epsilon for block in made.mechanism.blocks] == pytest.approx([1, 1])
    page = str(plan_views.whole_view(made, *designing.worths(made, N)))
    assert "sex × area" in page
    assert "born" in page
    assert "is above 8" not in page
    high = Latest().designed(act(strata, "option", "privacy.differential.epsilon", "9"), tmp_path)
    assert "epsilon = 18 for a record is above 8" in str(plan_views.whole_view(high, *designing.worths(high, N)))
    form = str(views.design_form(strata))
    assert "Released together: sex × area" in form
    assert "Strata: job within born" in form
    shared = act(act(strata, "goal", value="shared"), "option", goals.RECORD, "3")
    data = documents.plan_data(shared, tmp_path)
    assert data["privacy"] == {"model": "differential", "epsilon": 3.0}
    assert all("privacy" not in block for block in data["blocks"])
    assert Latest().designed(shared, tmp_path).certificate.account.total <= 3.0
    assert act(act(strata, "block", "1", ""), "given", "2:3", "false").is_plain


def test_blocks_follow_what_is_perturbed(fresh: Decisions) -> None:
    joint = act(act(fresh, "block", "1", "sex"), "block", "2", "area")
    assert joint.blocks[0] == Together(("sex", "area", "job"))
    assert [one.name for one in act(joint, "perturb", "1", "false").blocks] == ["sex × job", "born"]
    for action, key, value in (
        ("block", "0", "pay"),
        ("block", "4", "sex"),
        ("given", "0:1", "true"),
        ("given", "", ""),
    ):
        assert act(joint, action, key, value).problem


def test_many_variables_are_put_together_in_the_plan(fresh: Decisions) -> None:
    assert fresh.opened is not None
    drafts = tuple({"name": f"v{k}", "type": "string", "categories": ["a", "b"]} for k in range(3000))
    opened = dataclasses.replace(fresh.opened, drafts=drafts, missing=(0,) * len(drafts))
    wide = open_decisions(opened, dict.fromkeys(opened.names, "key"))
    assert len(str(plan_views.blocks_form(wide))) < 1000
