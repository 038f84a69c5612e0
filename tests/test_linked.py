"""Linked variables: what is found in codes, what a draft proposes, and what a release that tears them apart is told."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.data.frames import TableSource
from postrand.plan.infer import load_codebook
from postrand.risk import linked_sums
from postrand.risk.linked import Column, columns_of, dummy_sets, links
from postrand.risk.linked_sums import counts, sums
from postrand.risk.sample import sampled
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.draft import start

N = 3000


def survey(seed=0):
    """A survey with one of each kind of link, and columns that follow from nothing."""
    rng = np.random.default_rng(seed)
    year, area = rng.integers(90, 97, N), rng.integers(0, 12, N)
    work, part = rng.integers(0, 3, N), rng.integers(0, 2, N)
    wage, bonus = np.round(rng.lognormal(7, 1, N), 2), np.round(rng.lognormal(4, 1, N), 2)
    near = np.where(rng.random(N) < 0.005, 9, area // 4)
    return pa.table(
        {
            "year": year,
            "y94": (year == 94).astype(int),
            "period": np.array(["early", "late"])[(year >= 94).astype(int)],
            "area": area,
            "place": np.array([f"p{(7 * k) % 12:02}" for k in range(12)])[area],
            "region": near,
            "full": (work == 0).astype(int),
            "half": (work == 1).astype(int),
            "none": (work == 2).astype(int),
            "part": part,
            "wage": wage,
            "bonus": bonus,
            "pay": np.round(wage + bonus, 2),
            "lwage": np.log(wage),
            "band": np.searchsorted([800, 2000], wage),
            "late part": ((year == 94) & (part == 1)).astype(int),
        }
    )


def found_in(table, household=None):
    source = TableSource(table)
    return links(columns_of(sampled(source, table.column_names, []), table.column_names, household))


def test_each_kind_of_link_is_found_and_nothing_else():
    assert {link.text for link in found_in(survey())} == {
        "y94 is a function of year",
        "period is a function of year",
        "place and area are recodes of one another",
        "region is a function of area in nearly all records",
        "exactly one of full, half, none is 1: they are dummies of one variable",
        "lwage and wage are recodes of one another",
        "band is a function of wage",
        "pay = wage + bonus",
        "late part is a function of year, part",
    }


@pytest.mark.parametrize("seed", range(20))
def test_independent_columns_are_not_linked(seed):
    rng = np.random.default_rng(seed)
    columns = {f"c{size}": rng.integers(0, size, 600) for size in (2, 3, 2 + seed, 40, 500)}
    rare = (rng.random(600) < 0.01).astype(int)
    table = pa.table({**columns, "rare": rare, "x": rng.normal(size=600), "y": rng.lognormal(size=600)})
    assert found_in(table) == ()


def test_missing_values_do_not_hide_a_link():
    table = survey().select(["year", "y94", "wage", "bonus", "pay"])
    rng = np.random.default_rng(1)
    holes = {n: pa.array(table[n].to_numpy(), mask=rng.random(N) < 0.1) for n in table.column_names}
    assert {link.text for link in found_in(pa.table(holes))} == {"y94 is a function of year", "pay = wage + bonus"}


def households(seed, sizes, *, shuffled=False):
    """Persons in households: what members share has nothing to do with each other, other than what the names say."""
    rng = np.random.default_rng(seed)
    members = rng.integers(sizes[0], sizes[1] + 1, 500)
    hid = np.repeat(rng.permutation(500), members)
    n, district = hid.size, rng.integers(0, 20, 500)
    regions, taxes = rng.permutation(np.arange(20) % 4), rng.permutation(30) % 5
    band = rng.integers(0, 30, n)
    table = pa.table(
        {
            "hid": hid,
            "hhinc": np.round(rng.lognormal(8, 1, 500), 0)[hid],
            "hhsav": np.array([f"s{k}" for k in rng.permutation(500)])[hid],
            "weight": 10 * rng.integers(5, 22, 500)[hid],
            "roof": rng.integers(0, 3, 500)[hid],
            "district": district[hid],
            "region": regions[district][hid],
            "tenure": (rng.random(500) < 0.1).astype(int)[hid],
            "band": band,
            "tax": taxes[band],
            "sex": rng.integers(0, 2, n),
        }
    )
    return table.take(pa.array(rng.permutation(n))) if shuffled else table


TRUE = {"region is a function of district", "tax is a function of band"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [(1, 5), (4, 9)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_members_share_is_no_function_of_what_differs_between_households(seed, sizes, shuffled):
    table = households(seed, sizes, shuffled=shuffled)
    assert {link.text for link in found_in(table, "hid")} == TRUE
    flat = table.drop_columns(["district", "region", "band", "tax"])
    assert found_in(flat.select(flat.column_names[::-1]), "hid") == ()


@pytest.mark.parametrize("sizes", [(1, 5), (4, 9)])
def test_without_household_numbers_no_link_is_hidden_whatever_the_order(sizes):
    """A run of equal values can be a firm whose number nobody named so: its records are evidence."""
    orders = [households(2, sizes, shuffled=shuffled).drop_columns(["hid"]) for shuffled in (False, True)]
    told = [{link.text for link in found_in(table)} for table in orders]
    assert told[0] == told[1] >= TRUE
    assert sizes == (4, 9) or told[0] == TRUE


def test_members_without_a_number_are_households_of_their_own():
    codes, house = np.arange(60) % 6, np.where(np.arange(60) < 36, 0, -1)
    assert Column(codes, 6, household=house).repeats
    assert not Column(codes, 6, household=np.where(np.arange(60) < 37, 0, -1)).repeats
    large = np.repeat(np.arange(6), 10)
    assert not Column(large, 6, household=large).repeats
    assert Column(np.repeat(np.arange(6), 11), 6, household=np.repeat(np.arange(6), 11)).repeats


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_branch_of_a_firm_is_refused_beside_it_in_any_order(tmp_path, shuffled):
    rng = np.random.default_rng(5)
    firm = np.repeat(np.arange(500), 8)
    branch = rng.integers(1, 9, 500)[firm]
    made = {"sex": rng.integers(1, 3, 4000), "branch": [f"b{b}" for b in branch], "firm": [f"F{f:04}" for f in firm]}
    order = rng.permutation(4000) if shuffled else np.arange(4000)
    pq.write_table(pa.table(made).take(pa.array(order)), tmp_path / "s.parquet")
    plan = start(tmp_path / "s.parquet", tmp_path / "work", {"key": ["sex", "branch"], "other": ["firm"]}, way="blocks")
    found = pr.findings(pr.load_plan(plan.plan))
    assert "settle true values of perturbed ones, which no epsilon prevents: branch (by firm)" in found.refusal
    assert "perturb them too (in [[blocks]] or [split]; 'postrand advise --perturb-also' does so), or" in found.refusal


def test_household_incomes_are_said_to_reveal_nothing_of_weights(tmp_path):
    table = households(3, (5, 9), shuffled=True).select(["hid", "hhinc", "weight", "region", "district", "sex"])
    pq.write_table(table, tmp_path / "s.parquet")
    roles = {"key": ["sex", "region"], "household": ["hid"], "other": ["*"]}
    made = start(tmp_path / "s.parquet", tmp_path / "work", roles)
    assert [text.split(":")[0].split(",")[0] for text in made.linked] == ["region is a function of district"]
    found = pr.findings(pr.load_plan(made.plan)).found
    assert not any("function" in one.sentence for one in found if "hhinc" in (*one.variables, *one.about))
    assert any("district" in one.variables and "region" in one.about for one in found)


@pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")
def test_averaging_household_incomes_asks_for_no_decision_on_regions(tmp_path):
    table = households(4, (1, 5)).select(["hhinc", "weight", "region", "district", "sex"])
    pq.write_table(table.append_column("pay2", pa.array(2 * table["hhinc"].to_numpy())), tmp_path / "s.parquet")
    asked = ["microaggregate", str(tmp_path / "s.parquet"), "--columns", "hhinc", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(main, asked).stderr
    assert "pay2, released as it is, tells of" in said
    assert "weight" not in said.split("pay2, released")[0]
    done = CliRunner().invoke(main, [*asked, "--drop", "pay2"])
    assert done.exit_code == 0, done.output
    assert "function" not in done.output


def test_functions_are_those_that_counting_finds():
    rng = np.random.default_rng(5)
    for _ in range(30):
        x, y = rng.integers(0, 4, 40), rng.integers(0, 3, 4)
        table = pa.table({"x": x, "y": y[x]})
        is_function = len(set(y[x])) > 1
        both = len({*zip(x.tolist(), y[x].tolist(), strict=True)}) == len(set(y[x]))
        kinds = [link.kind for link in found_in(table)]
        assert kinds == (["recode" if both else "function"] if is_function else [])


def test_dummy_sets_are_those_that_trying_all_finds():
    rng = np.random.default_rng(2)
    state = rng.integers(0, 3, 60)
    flags = {f"d{j}": (state == j).astype(np.int64) for j in range(3)} | {"z": rng.integers(0, 2, 60)}
    columns = {name: Column(codes, 2) for name, codes in flags.items()}
    tried = [
        names
        for size in (3, 4)
        for names in itertools.combinations(flags, size)
        if (sum(flags[name] for name in names) == 1).all()
    ]
    assert list(dummy_sets(columns)) == tried == [("d0", "d1", "d2")]


def test_sums_of_many_and_differences_are_found():
    rng = np.random.default_rng(3)
    parts = {name: rng.integers(0, 900, 400).astype(float) for name in "abcd"}
    total = {"total": parts["a"] + parts["b"] + parts["c"] + parts["d"]}
    assert sums({**parts, **total}) == {"total": dict.fromkeys("abcd", 1)}
    left = {"in": parts["a"] + parts["b"], "out": parts["b"], "net": parts["a"]}
    assert sums(left) == {"in": {"out": 1, "net": 1}}
    assert sums({**parts, "noise": rng.normal(size=400)}) == {}


def test_counts_of_dummies_are_those_that_trying_all_subsets_finds():
    rng = np.random.default_rng(8)
    for _ in range(20):
        flags = {f"d{j}": (rng.random(400) < rng.uniform(0.05, 0.6)).astype(np.int64) for j in range(6)}
        chosen = [name for name in flags if rng.random() < 0.5]
        number = sum((flags[name] for name in chosen), np.zeros(400, dtype=np.int64)) + rng.integers(0, 3)
        tried = [
            names
            for size in range(2, 7)
            for names in itertools.combinations(flags, size)
            if np.unique(number - sum(flags[name] for name in names)).size == 1
        ]
        found = counts({"n": number.astype(float)}, flags)
        assert [tuple(terms) for terms in found.values()] == tried
        number[rng.integers(400)] += 1
        assert counts({"n": number.astype(float)}, flags) == {}


def test_counts_hold_beside_sets_of_dummies_rare_ones_missing_values_and_weights():
    rng = np.random.default_rng(9)
    state = rng.integers(0, 3, 5_000)
    flags = {f"s{j}": (state == j).astype(np.int64) for j in range(3)}
    flags |= {"rare": (np.arange(5_000) == 4_321).astype(np.int64), "half": rng.integers(0, 2, 5_000)}
    for names in (("s0", "rare", "half"), ("s2", "rare", "half")):
        number = sum(flags[name] for name in names).astype(float)
        number[::7] = np.nan
        assert [set(terms) for terms in counts({"n": number}, flags).values()] == [set(names)]
    score = (3.0 * flags["half"] - 2 * flags["rare"] + flags["s1"] + 4).astype(float)
    assert counts({"n": score}, flags) == {"n": {"s1": 1, "rare": -2, "half": 3}}


def test_a_few_records_rule_out_what_is_no_count_and_one_of_all_can_break_it(monkeypatch):
    rng = np.random.default_rng(10)
    flags = {f"d{j}": (rng.random(20_000) < 0.3).astype(np.int64) for j in range(12)}
    many = (flags["d1"] + flags["d5"] + flags["d9"]).astype(float)
    assert counts({"n": many}, flags) == {"n": {"d1": 1, "d5": 1, "d9": 1}}
    many[12_345] += 1
    assert counts({"n": many}, flags) == {}
    many[12_345] = np.nan
    flags["d5"][7] = -1  # a record without one of the dummies is not asked
    many[7] = 99
    assert counts({"n": many}, flags) == {"n": {"d1": 1, "d5": 1, "d9": 1}}
    fitted: list[int] = []

    def noted(values, *_):
        fitted.append(values.size)
        return {}, True

    monkeypatch.setattr(linked_sums, "_fitted", noted)
    noise = {f"n{j}": rng.integers(0, 9, 20_000).astype(float) for j in range(5)}
    assert counts({**noise, "n": many}, flags) == {}
    assert len(fitted) == 1


def test_a_count_of_what_is_perturbed_is_dropped_and_otherwise_noted(tmp_path):
    rng = np.random.default_rng(4)
    signs = {name: np.array(["no", "yes"])[rng.integers(0, 2, N)] for name in ("cough", "fever", "pain")}
    many = sum((values == "yes").astype(int) for values in signs.values())
    pq.write_table(pa.table({**signs, "many": many, "age": rng.integers(20, 60, N)}), tmp_path / "s.parquet")
    made = start(tmp_path / "s.parquet", tmp_path / "a", {"key": ["cough", "fever", "pain"], "other": ["*"]})
    assert load_codebook(made.codebook)["many"].role == "drop"
    assert made.linked[0].startswith("many is a count of cough, fever, pain: role = 'drop', because many would undo")
    made = start(tmp_path / "s.parquet", tmp_path / "b", {"key": ["cough", "fever"], "other": ["*"]})
    assert load_codebook(made.codebook, open_role="other")["many"].role == "other"
    assert "role = 'drop' for many, or perturb all of them together" in made.linked[0]
    named = {"key": ["cough", "fever", "pain", "many"], "other": ["*"]}
    made = start(tmp_path / "s.parquet", tmp_path / "c", named, way="blocks")
    assert "one joint fact, to be perturbed jointly" in made.linked[0]
    assert ("cough", "fever", "pain", "many") in [block.variables for block in pr.load_plan(made.plan).blocks]


def drafted(tmp_path, roles):
    path = tmp_path / "s.parquet"
    pq.write_table(survey(), path)
    made = start(path, tmp_path / "work", roles, way="blocks")
    return made, {v.name: v.role for v in load_codebook(made.codebook).variables}, made.plan.read_text()


def sizes_with_rules(made):
    """The sizes of the matrices as the draft is, and with the rules that it proposes in comments."""
    plain = [block.matrix.size for block in design_blocks(pr.load_plan(made.plan))]
    text = made.codebook.read_text()
    before, _, rules = text.partition("and the plan would be refused.\n")
    made.codebook.write_text(before + "\n" + rules.replace("# ", ""))
    return plain, [block.matrix.size for block in design_blocks(pr.load_plan(made.plan))]


def test_a_draft_drops_functions_of_what_is_perturbed_and_joins_what_is_named(tmp_path):
    keys = ["year", "area", "region", "full", "half", "none"]
    made, roles, plan = drafted(tmp_path, {"key": keys, "other": ["*"]} | {"drop": ["wage", "bonus", "pay", "lwage"]})
    assert [roles[name] for name in ("y94", "period", "place")] == ["drop"] * 3
    assert roles["part"] == "other"
    blocks = [list(block.variables) for block in pr.load_plan(made.plan).blocks]
    assert blocks == [["year"], ["area", "region"], ["full", "half", "none"]]
    assert sizes_with_rules(made) == ([7, 48, 8], [7, 48, 3])  # a near-function excludes nothing
    assert "One joint fact, one block: full, half, none; area, region." in plan
    assert "epsilon = 3.0" in plan
    assert any("y94, period are functions of year" in text for text in made.linked)
    assert (
        "y94 is a function of year: role = 'drop', because y94 would undo the perturbation" in made.codebook.read_text()
    )


def test_a_product_of_two_that_are_perturbed_is_dropped(tmp_path):
    numbers = ["wage", "bonus", "pay", "lwage"]
    _, roles, _ = drafted(tmp_path, {"key": ["year", "part"], "other": ["*"], "drop": numbers})
    assert roles["late part"] == "drop"


def test_numbers_of_records_are_not_taken_for_parents(tmp_path):
    table = survey().sort_by("area").append_column("id", pa.array(range(N)))
    pq.write_table(table, tmp_path / "s.parquet")
    made = start(tmp_path / "s.parquet", tmp_path / "work", {"key": ["area", "region"]})
    assert not any(" id" in text for text in made.linked)


def test_a_role_that_was_chosen_stays(tmp_path):
    made, roles, _ = drafted(tmp_path, {"key": ["year", "y94"], "drop": ["*"]})
    assert roles["y94"] == "key"
    assert [block.variables for block in pr.load_plan(made.plan).blocks] == [("year", "y94")]
    assert sizes_with_rules(made) == ([14], [7])
    plan = pr.load_plan(made.plan)
    rules = [str(rule) for rule in plan.codebook.rules]
    assert rules == ["y94 = 0, year = 94", "y94 = 1, year = 90 or 91 or 92 or 93 or 95 or 96"]
    pr.run(plan, tmp_path / "out", release_key=pr.ReleaseKey.from_seed(1))
    assert pr.verify(tmp_path / "out").ok


def test_init_says_what_is_linked_without_counts(tmp_path):
    pq.write_table(survey(), tmp_path / "s.parquet")
    ran = CliRunner().invoke(
        main, ["init", str(tmp_path / "s.parquet"), "--keys", "year", "--out", str(tmp_path / "w")]
    )
    assert ran.exit_code == 0, ran.output
    assert (
        "linked: y94, period are functions of year: role = 'drop', because they would undo the perturbation"
        in ran.output
    )
    noted = (tmp_path / "w" / "codebook.toml").read_text("utf-8")  # the screen has the most important ones
    assert "# pay = wage + bonus: if you perturb one of them, set role = 'drop' for pay" in noted


def plan_of(tmp_path, blocks, others, numerical=""):
    """A plan with these blocks, and these columns released as they are."""
    table = survey()
    pq.write_table(table, tmp_path / "s.parquet")
    names = [name for block in blocks for name in block]
    rest = [name for name in table.column_names if name not in (*names, *others)]
    made = start(tmp_path / "s.parquet", tmp_path / "work", {"key": names, "other": others, "drop": rest or ["*"]})
    text = made.plan.read_text().split("[[blocks]]")[0]
    for block in blocks:
        text += f"[[blocks]]\nvariables = {block}\nprivacy = {{model = 'differential', epsilon = 1.0}}\n"
    text = text.replace("epsilon = 1.0\n\n", "epsilon = 9.0\n\n", 1)
    made.plan.write_text(text + numerical)
    return pr.load_plan(made.plan)


def told(plan):
    return [(f.variables, f.about) for f in pr.findings(plan).found if f.code == "linked"]


def test_what_is_perturbed_separately_is_told_and_what_is_joint_is_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    apart = plan_of(tmp_path / "a", [["year"], ["y94"], ["area"], ["period"]], [])
    assert told(apart) == [((), ("year", "y94", "period"))]
    sentence = next(f.sentence for f in pr.findings(apart).found if f.code == "linked")
    assert sentence.startswith("y94, period are functions of year; they are perturbed separately")
    assert "epsilon is spent again on one fact, and released values contradict each other" in sentence
    assert sentence.endswith("perturb them in one block, or drop y94, period")
    assert told(plan_of(tmp_path / "b", [["year", "y94"], ["area"]], [])) == []
    (tmp_path / "c").mkdir()  # period is not released
    assert told(plan_of(tmp_path / "c", [["year"], ["y94"]], [])) == [((), ("year", "y94"))]


def test_a_coarse_copy_that_stays_unperturbed_is_told(tmp_path):
    plan = plan_of(tmp_path, [["area"]], ["region"])
    found = pr.findings(plan)
    assert told(plan) == [(("region",), ("area",))]
    assert "region released unperturbed reveals true values of area" in found.found[0].sentence
    assert "no epsilon prevents this" in found.found[0].sentence


def test_a_sum_of_what_a_rank_law_permutes_is_told(tmp_path):
    numerical = "[[numerical]]\nvariables = ['wage']\nmethod = {model = 'rank-band', width = 20}\n"
    numerical += "[release]\nas_is = ['bonus', 'pay']\n"
    plan = plan_of(tmp_path, [["area"]], ["wage", "bonus", "pay"])
    text = (tmp_path / "work" / "plan.toml").read_text()
    text = text.replace("as_is = []", "as_is = ['bonus', 'pay']")
    (tmp_path / "work" / "plan.toml").write_text(text + numerical.split("[release]")[0])
    plan = pr.load_plan(tmp_path / "work" / "plan.toml")
    assert told(plan) == [(("bonus", "pay"), ("wage",))]
    found = pr.findings(plan)  # exact relations are told first: before what singles out, and what reveals a share
    assert found.found[0].code == found.told[0].code == "linked"
    assert found.brief[0].startswith("pay = wage + bonus")
    assert len({one.code for one in found.found}) > 1


def test_exact_relations_are_proposed_before_near_ones(tmp_path):
    pq.write_table(survey(), tmp_path / "survey.parquet")
    roles = {"key": ["area", "year"], "other": ["region", "wage", "bonus", "pay"], "drop": ["*"]}
    said = start(tmp_path / "survey.parquet", tmp_path / "work", roles).linked
    assert [text.split(":")[0].split(",")[0] for text in said] == [
        "pay = wage + bonus",
        "region is a function of area in nearly all records",
    ]


def test_an_age_is_a_date_of_birth_in_another_form(tmp_path):
    rng = np.random.default_rng(1)
    born = rng.integers(-12_000, 13_000, N)
    dates = pa.array(born.astype(np.int32), pa.int32()).cast(pa.date32())
    seen = 18_600 + rng.integers(0, 200, N)
    age = np.floor((seen - born) / 365.25).astype(int)
    plain = {"age": age, "other": rng.integers(0, 90, N), "seen": pa.array(seen.astype(np.int32)).cast(pa.date32())}
    want = {"age is born counted in years, up to a constant and within 1 year"}
    for form in (dates, [d.strftime("%d.%m.%Y") for d in dates.to_pylist()], [d.year for d in dates.to_pylist()]):
        assert {link.text for link in found_in(pa.table({"born": form, **plain}))} == want
    fixed = np.floor((18_600 - born) / 365.25).astype(int)  # all seen on one day: exact
    assert {link.text for link in found_in(pa.table({"born": dates, "age": fixed}))} == {"age is a function of born"}
    assert not found_in(pa.table({"born": dates, "age": rng.permutation(age)}))
    pq.write_table(pa.table({"born": dates, "sex": ["f", "m"] * (N // 2), **plain}), tmp_path / "a.parquet")
    made = start(tmp_path / "a.parquet", tmp_path / "work", {"key": ["age", "sex"], "other": ["born"], "drop": ["*"]})
    said = "age is born counted in years, up to a constant and within 1 year, so one tells the others: role = "
    assert any(text.startswith(said) for text in made.linked)
    found = pr.findings(pr.load_plan(made.plan))
    assert "born" in found.undecided
    assert any(f.code == "linked" and f.about == ("age",) and f.is_open for f in found.found)


@pytest.mark.parametrize("broken", [0, 8], ids=["exact", "near"])
def test_init_lists_a_function_that_protect_refuses_whatever_few_records_each_value_has(tmp_path, broken):
    """300 schools of ten pupils each: too few to compare one by one, but each has one region."""
    rng = np.random.default_rng(1)
    school = np.repeat(np.arange(300), 10)
    region = school % 7
    region[:broken] = 6
    table = {
        "region": [f"R{k}" for k in region],
        "school": [f"S{k}x" for k in school],
        "sex": rng.choice(["m", "f"], 3000),
    }
    pq.write_table(pa.table(table), tmp_path / "f.parquet")
    run = CliRunner().invoke
    given = ["--keys", "region,sex", "--other", "school", "--out", str(tmp_path)]
    said = run(main, ["init", str(tmp_path / "f.parquet"), *given]).output
    plan = tmp_path / "plan.toml"
    refused = run(main, ["protect", "--plan", str(plan), "--out", str(tmp_path / "out")])
    assert refused.exit_code == 3
    assert 'name each in [release] as_is = ["school"]' in refused.output
    assert "Next: decide on school: released unperturbed, it all but settles true values of perturbed" in said
    assert "# To decide: school (region)." in plan.read_text()
    assert "all but settles region, which is perturbed" in (tmp_path / "codebook.toml").read_text()
