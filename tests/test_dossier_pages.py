"""The pages of the dossier: what is decided on, and matrices of strata as panels."""

import dataclasses
import re

import numpy as np
import pytest

from postrand import __version__, report
from postrand.certification import certify
from postrand.certification.certificate import Claim
from postrand.certification.series import Level, Series
from postrand.codebook import Codebook, Variable
from postrand.engines.summary import Summary
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy import DifferentialPrivacy
from postrand.report.values import panels
from postrand.risk.facts_told import Told
from postrand.risk.finding import Finding
from postrand.risk.findings import Findings
from postrand.support.measure_names import UNKNOWN_TO_IT, of_records
from postrand.workflow.column_ways import WAYS as IN_WORDS
from postrand.workflow.column_ways import ColumnWay
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import RECODED, RiskFigure
from postrand.workflow.dossier_decision import MEASURES, decision_of, risk_notes
from postrand.workflow.policy_check import PolicyCheck, Verdict
from tests.test_report import Page

MARKUP = "<b>age</b>"


def law() -> Mechanism:
    book = Codebook((Variable(MARKUP, role="key", categories=("young", "old")),))
    return Mechanism([Block((MARKUP,), randomised_response(2, 1.0))], book)


def figures(**changed: object) -> PlanFigures:
    risks = (
        RiskFigure("correct_matches", "", 600.0, 30.0, "records"),
        RiskFigure("individual_risk_above", "", 0.25, 0.5, "share"),
        RiskFigure("household_risk", "", None, None, "share", "no variable has the role 'household'"),
        RiskFigure("tau1", "", None, None, "records", "no sampling fraction or weight was given"),
        RiskFigure("joint_household_risk_above", "", 0.74, 0.21, "share"),
        RiskFigure("tau2", "", 5.0, 0.1, "records"),
        RiskFigure("register_matches", "", 3.0, 0.3, "records"),
        RiskFigure("below_2", "", 0.46, 0.97, "share"),
    )
    given = {"name": "survey.sav", "records": 1000, "claims": ("of 100 guesses",), "epsilon": 1.0, "risks": risks}
    return PlanFigures(**{**given, "one_way": (), "two_way": (), "settings": (), **changed})


WAYS = (
    ColumnWay(MARKUP, "perturbed"),
    ColumnWay("job", "made", "block job × sex"),
    ColumnWay("weight", "recoded"),
    ColumnWay("income", "as it is"),
    ColumnWay("home", "new numbers"),
    ColumnWay("remark", "not released"),
)


def test_the_two_pages_say_what_is_decided_in_sentences() -> None:
    mechanism = law()
    rules = (Verdict("ε", "at most 2", "none", "1", True), Verdict("Records alone", "at most 1%", "46%", "97%", False))
    policy = PolicyCheck("p", "", rules, not_ruled="No rule is about households.")
    certificate = certify(mechanism, [Claim(DifferentialPrivacy(1.0), (MARKUP,))])
    found = decision_of(
        figures(
            ways=WAYS,
            keys=(MARKUP, "job"),
            levels=("ε of a record: 1 at most", "of all 5 members of the largest household together: 5 at most"),
            unit_epsilon={"household": 5.0},
            unit_records={"household": 5},
            as_is={"joint_household_risk_above": 0.99, "correct_matches": 1000.0, "register_matches": 9.0},
        ),
        policy,
        certificate,
        Findings(
            (Finding("merged", (), (), "few"), Finding("together", ("a",), (), "income tells the rest", share=0.9))
        ),
    )
    text = Page(report.decision_page(found, "../release/report.html", "f00d" * 16)).text
    plan = Page(report.decision_page(found)).text
    assert "This page is of a plan" in plan
    assert "This page is of a plan" not in text
    for words in (
        "Decision on a release of survey.sav",
        "Perturbed <b>age</b> Recoded, then perturbed job (block job × sex)",
        "Released as in the file income Released with new numbers home Not released remark",
        "Order of the records a new random order",
        "Guarantee ε of a record: 1 at most; of all 5 members of the largest household together: 5 at most",
        "only the keys of a person (<b>age</b>, job), and not the true values of weight, income. If they "
        "also know these, figures are too low.",
        "Informed attacker, who knows the keys of each person, and looks for one at a time "
        "Correct matches: persons found 1,000 (100%) 600 (60%) 30 (3%)",
        "chance is above 20% not computed 25% 50%",
        "Where a risk is larger after than before: a person may be easier to find",
        "Not known, the risk of households: no variable has the role 'household'.",
        "Not known, the risk from the register attacker: no sampling fraction or weight was given.",
        "the keys of all members of a household together Households whose chance is above 20% 99% 74% 21%",
        "larger of each side alone: before the plan τ2, after the plan that of all records",
        "The office's policy: 1 of 2 rules is not met (each with its limit: on the second page).",
        "Not met: Records alone; at most 1%, before 46%, after 97%. No rule is about households.",
        "Result Records alone at most 1% 46% 97% not met ε at most 2 none 1 met",  # those that are not met come first
        "Income tells the rest. Few.",
        "Released as recoded, not perturbed weight",
        f"SHA-256 {'f00d' * 16}",
        "sha256sum manifest.json",
        "What is not guaranteed",
    ):
        assert words in text, words
    assert text.count("Internal – not for release") == 2  # all has its place, so nothing follows on a last page
    of_plan = (
        f"by postrand {__version__}; mechanism_sha256 of the plan's certificate: {certificate.mechanism_digest[:16]}…."
    )
    for one in (text, plan):
        assert re.search(rf"Made on 20\d\d-\d\d-\d\d \(UTC\) {re.escape(of_plan)}", one)
    assert "Bars, of 100%: grey recoded, not yet perturbed; blue after." in text
    assert UNKNOWN_TO_IT[1:] in text
    assert "This release is not private" not in text
    claims = text[text.index("What is guaranteed, whatever") : text.index("What is not guaranteed")]
    assert claims.index("A household with up to 5 records") < claims.rindex("of 100 guesses")
    assert "50 are right without and at most 99.4 with the perturbed values" in claims
    assert any("46% of the records are alone" in note for note in risk_notes(figures()))
    assert "What would be released, in full" not in text  # there is room for all names


def test_what_must_be_known_before_signing_has_a_line_on_the_first_page() -> None:
    """However much is released, no warning, finding or rule that is not met is without one, and all are whole."""
    certificate = certify(law())
    leaves_out = ("the risk leaves out pay, released without categories",)
    told = Findings(tuple(Finding("linked", (), (), f"finding {k} " + "of many words " * 20) for k in range(6)))
    policy = PolicyCheck("p", "", (Verdict("Records " + "alone " * 40, "at most 1%", "46%", "97%", False),))
    for lines in range(0, 400, 40):
        ways = tuple(ColumnWay(f"a_long_name_{way}_{k}", way) for way in IN_WORDS for k in range(lines))
        released = figures(ways=(*WAYS, *ways), keys=("sex",), risk_leaves_out=leaves_out)
        found = decision_of(released, policy, certificate, told)
        text = Page(report.decision_page(found)).text
        first, last = text.partition("What is guaranteed")[0], text.rpartition("Place, date and signature")[2]
        for said in (*found.warnings, *found.findings, *found.checks):
            assert said[:60].strip() in first, (lines, said)
        for said in (*found.warnings, *found.notes, *found.findings, *found.checks):
            assert said.strip() in (first + last), (lines, said)
        assert " ".join((*found.rules[0][0].split(), "at most 1% 46% 97% not met")) in last


def test_a_rule_of_many_words_is_cut_in_the_table_and_whole_on_the_last_page() -> None:
    rules = tuple(Verdict(f"rule {k} " + "of a measure " * 20, "at most 1", "2", "3", k > 3) for k in range(19))
    text = Page(report.decision_page(decision_of(figures(), PolicyCheck("p", "", rules), certify(law())))).text
    table, last = text.rpartition("The office's policy, rule by rule")[::2]
    assert table.count("not met ") >= 4
    assert re.search(r"met \d+ more: from page 3 on", table)
    assert last.count("of a measure " * 19) >= 19
    assert last.count(" met") == 19


def test_lines_that_a_list_does_not_need_are_left_to_the_others() -> None:
    """Rules that are not met, all rules, and claims have the lines that findings, limits and worth leave."""
    rules = tuple(Verdict(f"rule {k} of a measure", "at most 1", "2", "3", False) for k in range(9))
    alone = decision_of(figures(risks=()), PolicyCheck("p", "", rules), certify(law()))
    first, _, second = Page(report.decision_page(alone)).text.partition("What is guaranteed")
    assert first.count("Not met: rule") == 9
    assert "page 3" not in first + second
    many = dataclasses.replace(alone, rules=(), limits=("one",), claims=tuple(f"claim {k}" for k in range(25)))
    assert "more: from page 3 on" not in Page(report.decision_page(many)).text
    long = dataclasses.replace(alone, findings=tuple(f"{k} a finding " * 50 for k in range(9)))
    assert "6 more: from page 3 on" in Page(report.decision_page(long)).text  # and no more than a few where it does


@pytest.mark.parametrize("words", [4, 20, 40, 400])
def test_what_is_not_guaranteed_and_notes_are_whole_or_on_the_last_page(words: int) -> None:
    some = tuple(f"{kind} {k} {'of many words ' * words}end." for k in range(9) for kind in ("limit", "note"))
    found = decision_of(figures(), None, certify(law()))
    found = dataclasses.replace(found, limits=some[::2], notes=some[1::2])
    first, _, second = Page(report.decision_page(found)).text.partition("What is guaranteed, whatever")
    second, _, last = second.partition("Place, date and signature")
    for page, all_of_a_kind in ((first, found.notes), (second, found.limits)):
        shown = [text for text in all_of_a_kind if text in page]
        assert page.count("of many words") == words * len(shown)
        assert f"{9 - len(shown)} more: from page 3 on." in page or len(shown) == 9
        assert all(text in (last if len(shown) < 9 else page) for text in all_of_a_kind)


def test_the_limit_of_a_rule_is_never_cut() -> None:
    for length in range(20, 140, 3):
        limit = "never " + ", ".join(f"column{k}" for k in range(12))
        rules = (Verdict(("rule of measures " * 12)[:length].strip(), limit, "2", "3", False, "why " * 60),) * 30
        text = Page(report.decision_page(decision_of(LONG, PolicyCheck("p", "", rules), certify(law()), FOUND))).text
        assert text.count("never column0") == text.count(limit) > 30, length
        assert text.count("Rule Limit Recoded file After Result") == 2


def test_the_grey_bars_are_named_by_their_file_and_a_shared_value_has_its_share_of_the_households() -> None:
    seen = {"constant": 0.992, "majority": 0.8, "single": 0.6, "blind": 0.3}
    told = Findings((Finding("household", (), ("rent",), "long", seen),))
    text = Page(report.decision_page(decision_of(figures(), None, certify(law()), told))).text
    assert "Bars, of 100%: grey the file as it is, blue after." in text
    assert "In more than 99% of the households of two or more all members have the same rent: from what all" in text


def test_a_file_with_several_records_of_a_person_has_figures_of_records() -> None:
    counted = figures(person="patient", words=of_records, keys=("sex",))
    text = Page(report.decision_page(decision_of(counted, None, certify(law())))).text
    assert "keys of each record, and looks for one at a time Correct matches: records found 600 (60%) 30 (3%)" in text
    assert "Persons found" not in text
    assert any("patient says which are one person's: no figure puts them together" in s for s in counted.warnings)
    assert not any("one person's" in said for said in figures().warnings)


def test_a_bound_is_rounded_up_wherever_it_is_shown() -> None:
    """With keys drawn once for a household the figures after are too large: given as ``at most``, and never below."""
    risks = (RiskFigure("joint_household_risk", "", 0.9, 0.162179, "share"),)
    found = figures(risks=risks, shared_draws=("counted for each member", True))
    text = Page(report.decision_page(decision_of(found, None, certify(law())))).text
    assert "90% at most 16.3%" in text
    assert found.sides("joint_household_risk")[-1] == ("16.3%", "after, at most")


def test_what_no_ledger_counts_is_not_guaranteed() -> None:
    told = "No ledger counts the releases of these persons."
    alone = certify(law())
    of_series = dataclasses.replace(alone, series=Series("p", 1, "first", "0" * 64, Level(1.0), Level(1.0)))
    for certificate, is_told in ((alone, True), (of_series, False)):
        text = Page(report.decision_page(decision_of(figures(), None, certificate))).text
        limits = text[text.index("What is not guaranteed") : text.index("Name and function")]
        assert (told in limits) == is_told


def test_households_that_are_found_are_counted_as_persons_are() -> None:
    risks = (
        RiskFigure("household_risk", "", 0.5, 0.0131, "share", households=3200),
        RiskFigure("joint_household_risk", "", 0.934, 0.084331, "share", households=3200),
    )
    text = Page(report.decision_page(decision_of(figures(risks=risks), None, certify(law())))).text
    assert "Households with a member found rightly 1,600 (50%) 42 (1.31%)" in text
    assert "Households found rightly 2,989 (93.4%) 270 (8.44%)" in text  # 0.084331 · 3,200 = 269.9
    bound = figures(risks=risks[1:], shared_draws=("counted for each member", True))
    text = Page(report.decision_page(decision_of(bound, None, certify(law())))).text
    assert "2,989 (93.4%) at most 270 (8.44%)" in text


def test_a_matrix_with_strata_is_drawn_as_one_panel_for_each() -> None:
    names = ("north", "south")
    book = Codebook(
        (Variable("area", role="key", categories=names), Variable("job", role="key", categories=("a", "b", "c")))
    )
    one, two = randomised_response(3, 1.0).weights, randomised_response(3, 2.0).weights
    whole = np.block([[one, np.zeros((3, 3), dtype=np.int64)], [np.zeros((3, 3), dtype=np.int64), two]])
    cells = tuple((a, j) for a in range(2) for j in range(3))
    block = Block(("area", "job"), TransitionMatrix(whole), cells, given=("area",))
    drawn = panels(block, book, 1000)
    assert [(p.name, p.labels) for p in drawn] == [(name, ("a", "b", "c")) for name in names]
    kept = np.zeros_like(whole)
    for panel in drawn:
        kept[np.ix_(panel.cells, panel.cells)] = whole[np.ix_(panel.cells, panel.cells)]
    assert np.array_equal(kept, whole)  # what is not drawn is zero
    assert panels(block, book, 17) == ()
    mechanism = Mechanism([block], book)
    counts = np.full(6, 100)
    margins = {"area": np.array([300, 300]), "job": np.array([200, 200, 200])}
    page = report.public_report(
        mechanism, certify(mechanism), Summary(600, (counts,), margins, (), np.zeros((), dtype=np.int64)), "x.csv"
    )
    assert page.count('<table class="heat">') == 2
    assert "<caption>south</caption>" in page
    assert Page(page).open == []


LONG = figures(
    guesses=tuple(Told("variable" * 9 + str(k), 0.881, 0.612, 0.1) for k in range(5)),
    as_is=dict.fromkeys(MEASURES, 0.5),
    before_is=RECODED,
    claims=tuple(f"claim {k} " * 60 for k in range(30)),
    risks=tuple(RiskFigure(code, "", 0.9, 0.1, "share") for code in MEASURES),
    risk_leaves_out=("the risk leaves out something " * 9,) * 9,
    ways=tuple(ColumnWay(f"a_long_name_{way}_{k}", way) for way in IN_WORDS for k in range(60)),
    levels=("ε of a record: 1 at most", "of all 5 members of the largest household together: 5 at most"),
    keys=("sex",),
    shown=500,
)
FOUND = Findings(tuple(Finding("linked", (), (), f"{k} a finding " * 50) for k in range(9)))
"""A plan with more to say than two pages hold."""
