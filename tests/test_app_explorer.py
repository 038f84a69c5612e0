"""The risk explorer and the screen before and after: every figure against the records, and what must not leave."""

import dataclasses
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import estimate, randomised_response, risk
from postrand.app import (
    charts,
    comparison_views,
    computations,
    documents,
    exploring,
    houses,
    measure_views,
    opening,
    risk_screen,
    risk_views,
    views,
)
from postrand.app.computations import Margin
from postrand.app.conclusions import _closest, conclusions
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.watch import Watch
from postrand.codebook import Codebook, Variable
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.risk.cells import KeyCodes, table
from postrand.risk.file import RiskFile
from postrand.risk.key_parts import key_parts
from postrand.risk.suda import suda
from postrand.support.showing import outward
from postrand.workflow import dossier_risk

NAMES = ("age", "area", "job", "birth")
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def records() -> list[tuple[int, ...]]:
    rng = np.random.default_rng(5)
    sizes = (5, 3, 4, 2)
    return [tuple(int(rng.integers(s)) if rng.random() < 0.4 else 0 for s in sizes) for _ in range(120)]


@pytest.fixture(scope="module")
def keys(records: list[tuple[int, ...]]) -> KeyCodes:
    return KeyCodes(NAMES, (5, 3, 4, 2), tuple(np.array(records).T))


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    rng = np.random.default_rng(2)
    n = 600
    columns = {
        "sex": rng.choice(["F", "M"], n),
        "area": rng.choice(["n", "e", "s", EVIL], n, p=[0.6, 0.3, 0.09, 0.01]),
        "age": [[*map(str, range(9)), None][k] for k in rng.integers(0, 10, n)],
        "ill": rng.choice(["yes", "no"], n),
        "home": np.arange(n) // 3,
    }
    path = tmp_path_factory.mktemp("explorer") / "survey.parquet"
    pq.write_table(pa.table(columns), path)
    roles = {"sex": "key", "area": "key", "age": "key", "ill": "sensitive", "home": "household"}
    opened = opening.open_file(path)
    return dataclasses.replace(open_decisions(opened, roles), roles=("key", "key", "key", "sensitive", "household"))


# -- what the keys do -------------------------------------------------------------------------------------------------


def alone_on(records: list[tuple[int, ...]], subset: tuple[int, ...]) -> list[bool]:
    values = [tuple(r[j] for j in subset) for r in records]
    counts = Counter(values)
    return [counts[v] == 1 for v in values]


def test_each_combination_singles_out_whom_a_count_of_the_records_says(
    keys: KeyCodes, records: list[tuple[int, ...]]
) -> None:
    found = suda(keys, 3)
    subsets = [s for k in (1, 2, 3) for s in itertools.combinations(range(4), k)]
    assert [one.names for one in found.sets] == [tuple(NAMES[j] for j in s) for s in subsets]
    first = [-1] * len(records)
    for place, subset in enumerate(subsets):
        alone = alone_on(records, subset)
        parts = [alone_on(records, p) for k in range(1, len(subset)) for p in itertools.combinations(subset, k)]
        minimal = [a and not any(part[i] for part in parts) for i, a in enumerate(alone)]
        assert (found.sets[place].records, found.sets[place].minimal) == (sum(alone), sum(minimal))
        first = [place if new and at < 0 else at for new, at in zip(minimal, first, strict=True)]
    assert found.first.tolist() == first
    assert max(first) > 4  # some need two keys


def test_what_a_key_adds_is_the_difference_of_two_counts(keys: KeyCodes, records: list[tuple[int, ...]]) -> None:
    found = key_parts(table(keys), ordered=["age"])
    whole = Counter(records)
    assert (found.together.uniques, found.together.links) == (list(whole.values()).count(1), len(whole))
    for part in found.parts:
        j = NAMES.index(part.name)
        without = Counter(r[:j] + r[j + 1 :] for r in records)
        assert (part.without.uniques, part.without.links) == (list(without.values()).count(1), len(without))
        if part.name == "birth":
            assert part.halved is None  # it has two categories
            continue
        assert part.halved is not None
        held = Counter(r[j] for r in records).most_common()
        kept = [value for value, _ in held[: (part.categories + 1) // 2 - 1]]
        new = {v: v // 2 if part.name == "age" else (v if v in kept else "other") for v in range(part.categories)}
        assert len(set(new.values())) == math.ceil(part.categories / 2)
        halved = Counter((*r[:j], new[r[j]], *r[j + 1 :]) for r in records)
        assert (part.halved.uniques, part.halved.links) == (list(halved.values()).count(1), len(halved))
    assert [p.without.links for p in found.parts] == sorted(p.without.links for p in found.parts)


def test_the_histogram_counts_every_record_once(keys: KeyCodes, records: list[tuple[int, ...]]) -> None:
    sizes = Counter(records).values()
    bins = key_parts(table(keys)).sizes
    for one in bins:
        inside = [s for s in sizes if one.low <= s <= (one.high or math.inf)]
        assert (one.classes, one.records) == (len(inside), sum(inside))
    assert sum(one.records for one in bins) == len(records)


def test_keys_that_match_all_are_refused() -> None:
    keys = KeyCodes(("a",), (2,), (np.array([-1, 0, 1]),))
    with pytest.raises(PostrandError, match="complete keys"):
        key_parts(table(keys))


# -- the risk screen --------------------------------------------------------------------------------------------------


def test_the_screen_says_who_is_found_and_by_what(decisions: Decisions) -> None:
    file, book = computations.read_keys(decisions), documents.codebook_of(decisions)
    assert file is not None
    found = exploring.explored(file, book)
    page = str(risk_views.explored_view(found))
    rows = pq.read_table(decisions.opened.path).select(["sex", "area", "age"]).to_pylist()
    classes = Counter(tuple(r.values()) for r in rows)
    assert f"{len(classes):,} links are right on average" in page  # one of each class
    assert f"{list(classes.values()).count(1):,} persons are alone" in page
    assert "In a household, at least one member is found" in page
    assert "knows the keys of all members together" in page
    assert "chance is above 20 of 100, a usual limit: that of one among five." in page
    assert f"<td>{sum(v for v in classes.values() if v == 2):,}</td>" in page
    none = [one for one in found.search.sets if not one.minimal]
    assert none
    assert found.doubt is None
    wide = dataclasses.replace(file, household=np.arange(600) // 60)
    assert "is this a household number?" in str(risk_views.explored_view(exploring.explored(wide, book)))
    listed = page[page.index("Worst combinations of keys") :]
    assert not any(f">{' × '.join(one.names)}<" in listed for one in none)  # no rows of zeros
    assert "<img" not in page


def test_figures_of_a_file_with_several_records_of_a_person_are_of_records(decisions: Decisions) -> None:
    file, book = computations.read_keys(decisions), documents.codebook_of(decisions)
    assert file is not None
    found = exploring.explored(file, book)
    report = computations.assess(decisions, with_model=False)
    several = dataclasses.replace(decisions, kept={"unit": {"person": "who", "most_records": 3}})
    assert (houses.person(decisions), houses.person(several)) == ("", "who")
    both = [
        str(risk_views.explored_view(found, name))
        + str(risk_views.risk_view(report, None, False, attacks=found.attacks, person=name))
        for name in ("", "who")
    ]
    assert "all 600 persons of this file" in both[0]
    assert "linked to the right person" in both[0]
    assert "which are one person" not in both[0]
    assert "all 600 records of this file" in both[1]
    assert re.search(r"records are\s+alone with these values", both[1])
    assert not re.search(r"[\d,]+ persons", both[1])
    assert "linked to the right record" in both[1]
    assert "Figures of risk count records, and who says which are one person" in both[1]


def test_single_records_are_shown_on_request_alone_and_kept_nowhere(
    decisions: Decisions, capfd: pytest.CaptureFixture[str]
) -> None:
    file, book = computations.read_keys(decisions), documents.codebook_of(decisions)
    assert file is not None
    found = exploring.explored(file, book)
    closed = str(risk_views.records_view(decisions.keys, None))
    assert "Show the most exposed records" in closed
    assert "<td" not in closed
    shown = exploring.exposed(file, found.search, book)
    rows = pq.read_table(decisions.opened.path).select(list(decisions.keys)).to_pylist()
    true = [tuple("(missing)" if v is None else str(v) for v in r.values()) for r in rows]
    classes = Counter(true)
    for one in shown:
        assert one.values == true[one.number - 1]
        assert one.alike == classes[one.values]
        at = tuple(decisions.keys.index(name) for name in one.alone_on)
        assert not at or sum(all(r[j] == one.values[j] for j in at) for r in true) == 1
        assert "confidential" in repr(one)
        assert EVIL not in repr(one)
    uniques = list(classes.values()).count(1)
    assert [bool(one.alone_on) for one in shown] == [k < uniques for k in range(10)]  # they come first
    page = str(risk_views.records_view(decisions.keys, shown))
    assert "Confidential: these are values of persons" in page
    assert page.count("<tr>") == 1 + len(shown) == 11
    assert "<img" not in page
    after = act(decisions, risk_screen.ACTION, "show")  # it is no decision, and cannot become one
    assert dataclasses.replace(after, problem="") == decisions
    assert capfd.readouterr() == ("", "")


class Instant:
    """A tab that computes at once, and counts what it computes."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[object, object]] = {}
        self.computed: list[str] = []

    def ask(self, kind: str, key: object, function: Callable[[], object]) -> tuple[object, bool]:
        if self.held.get(kind, (None,))[0] != key:
            self.computed.append(kind)
            self.held[kind] = (key, function())
        return self.held[kind][1], False


def test_the_file_is_read_once_and_the_model_fitted_once(decisions: Decisions, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[Any] = []
    whole = RiskFile.modelled

    def noted(self: RiskFile) -> Any:
        fits.append(self._once)
        return whole(self)

    monkeypatch.setattr(RiskFile, "modelled", noted)
    tab, half = Instant(), dataclasses.replace(decisions, fraction=0.5)
    report, _ = risk_screen.reported(tab, half)
    assert report.tau1 is not None
    assert report.households is not None
    file, _ = risk_screen.whole_of(tab, half)
    found = computations.measures(half, file)
    assert found is not None
    assert found["tau"]["tau1"] == report.tau1_estimate.corrected
    assert len({id(once) for once in fits}) == 1  # the same file, whose model is fitted the first time
    assert tab.computed == ["keys", "share", "modelled"]
    risk_screen.reported(tab, dataclasses.replace(half, fraction=0.25))
    assert tab.computed == ["keys", "share", "modelled", "share", "modelled"]
    assert risk_screen.keys_of(tab, decisions)[0] is risk_screen.keys_of(tab, half)[0]


def test_tau_is_written_alike_on_every_screen(decisions: Decisions) -> None:
    half = dataclasses.replace(decisions, fraction=0.5)
    report = computations.assess(half, with_model=True)
    text = risk_views.tau_text(report.tau1_estimate)
    page = str(risk_views.risk_view(report, report, False))
    assert page.count(f"{text} (95%") == 1  # in the table
    assert "recoded" not in page
    assert "are those in the recoded file" in str(risk_views.risk_view(report, report, False, recoded=True))
    assert re.search(rf"<dd>\s*{re.escape(text)}\s*<span[^>]*>95% interval", page)
    assert str(report.tau1_estimate).startswith(f"{text} (95%")
    measured = str(measure_views.measures_view(computations.measures(half)))
    measured = measured[measured.index("Population uniques (tau1)</th>") :]
    assert measured.split("<td>")[1].startswith(f"{text}</td>")


# -- before and after -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(decisions: Decisions, tmp_path_factory: pytest.TempPathFactory):
    chosen = dataclasses.replace(decisions, fraction=0.5, as_is=("ill", "home"))
    return chosen, computations.protect(chosen, tmp_path_factory.mktemp("made"), Watch())


def test_the_risk_before_and_after_is_read_from_the_internal_report_which_measured_it(made, monkeypatch) -> None:
    decisions, done = made
    with monkeypatch.context() as patched:
        patched.setattr(computations, "_dossier", lambda _: {})
        measured = computations.risks(decisions, done)
    monkeypatch.setattr(dossier_risk, "assess", None)  # nothing is measured again
    for held, one in zip(computations.risks(decisions, done), measured, strict=True):
        assert held is not None
        assert one is not None
        assert held.tau2 is not None
        assert held.exact() == one.exact()
        assert held == risk.RiskReport.of_exact(json.loads(json.dumps(one.exact())))
        earlier = {name: value for name, value in one.exact().items() if name != "recoded"}
        assert held == risk.RiskReport.of_exact(earlier)


def test_right_links_come_first_and_uniques_are_explained(made) -> None:
    decisions, done = made
    attacks = computations.attacks(done)
    risks = computations.risks(decisions, done)
    page = str(comparison_views.compare_view(None, risks, False, attacks=attacks))
    told = json.loads((done.path.parent / "dossier" / "dossier.json").read_text())["figures"]["risk"]
    before, after = next((r["before"], r["after"]) for r in told if r["code"] == "correct_matches")
    assert f"{before:,.0f} of them to the right record before" in page  # exact: one of each class
    assert f"{outward(after)} after" in page
    places = [page.index(word) for word in ("Expected correct matches", "(τ1)", "Sample uniques</th>", "can rise")]
    assert places == sorted(places)
    early = str(comparison_views.compare_view(None, None, True, attacks=attacks))  # while the model is being fitted
    assert f"{outward(after)} after" in early
    assert "(τ1)" not in early
    recoded = str(comparison_views.compare_view(None, risks, False, attacks=attacks, recoded=True))
    assert "Before, recoded" in recoded
    assert "Before: in the recoded file." in recoded
    beside = str(comparison_views.compare_view(None, risks, False, attacks=attacks, together="All single out 75.3%"))
    assert "Figures of risk are of attackers who know only the keys of a person. All single out 75.3%." in beside
    assert page.count("Figures of risk are of attackers who know only the keys of a person.<") == 1
    assert "the keys of all persons, and that they are in the file, links" in page
    several = str(comparison_views.compare_view(None, risks, False, attacks=attacks, person="who"))
    assert "the keys of all records, and that they are in the file, links" in several
    assert "Figures of risk count records, and who says which are one person" in several
    assert "Figures of risk count records" not in page


def test_a_table_of_ones_choice_has_three_marks_and_its_worth(made) -> None:
    decisions, done = made
    two = act(act(decisions, "pair", "first", "1"), "pair", "second", "3")  # a perturbed and an unperturbed one
    assert [decisions.names[j] for j in two.comparable] == ["sex", "area", "age", "ill"]
    found = computations.margin(two, done, computations.counts(two, two.pair), two.pair)
    page = str(comparison_views.compare_view(found, None, False))
    assert page.count('class="before"') == 1 + np.count_nonzero(found.true + found.released)  # one in the legend
    assert "Effective records: this table is as precise as one of" in page
    assert "What an analyst would conclude" in page
    assert "area by ill" in page
    assert "<img" not in page
    form = str(comparison_views.table_form(two))
    assert form.count("<option") == 4 + 4
    assert "nothing: one variable alone" in form
    with pytest.raises(PostrandError, match="does not have these variables; got home"):
        computations.require_released(["home"])


def test_cells_without_a_record_are_left_out_and_large_tables_cut() -> None:
    true = np.zeros((20, 10))
    true[:9, :] = np.arange(90).reshape(9, 10) + 1
    labels = tuple(tuple(f"{c}{i}" for i in range(n)) for c, n in (("a", 20), ("b", 10)))
    found = Margin(("a", "b"), labels, true, true, true, true - 5, true + 5)
    page = str(charts.margins(found))
    assert page.count('<th scope="row">') == charts.MAX_ROWS
    assert "a8 × b9" in page
    assert "✗" not in page
    apart = dataclasses.replace(found, low=true + 1, high=true + 2)
    assert str(charts.margins(apart)).count(" ✗") == charts.MAX_ROWS
    assert "about 5 in 100 intervals" in str(comparison_views.compare_view(apart, None, False))
    assert "about 5 in 100 intervals" not in str(comparison_views.compare_view(found, None, False))
    assert "a0 × b0" not in page
    assert f"The {charts.MAX_ROWS} cells with most records before, of 90. Not shown: 110 cells" in page


def test_a_mark_before_stands_at_its_share() -> None:
    from postrand.report import svg

    drawn = str(svg.interval(0.5, 0.4, 0.3, 0.6, (0.0, 1.0), before=0.5))
    x = drawn[drawn.index('class="before" d="M') + len('class="before" d="M') :].split()[0]
    assert f'class="ring" cx="{x}"' in drawn
    assert "before" not in str(svg.interval(0.5, 0.4, 0.3, 0.6, (0.0, 1.0)))  # the public report has no such mark


def test_points_are_plain_numbers() -> None:
    assert views._points(2.7) == "529 points"
    assert views._points(0.0123) == "2.4 points"


# -- what an analyst would conclude -----------------------------------------------------------------------------------


def estimated(counts: list[list[int]] | list[int], epsilon: float | None = None) -> estimate.Estimate:
    true = np.array(counts)
    names = ("x", "y")[: true.ndim]
    sizes = zip((*names, "other"), (*true.shape, 2), strict=True)
    book = Codebook(tuple(Variable(n, role="key", categories=tuple("abcdef"[:s])) for n, s in sizes))
    other = {"other": randomised_response(2, 1.0)}  # a mechanism perturbs something
    kept = {n: randomised_response(s, epsilon) for n, s in zip(names, true.shape, strict=True)} if epsilon else other
    codes = np.repeat(np.stack(np.unravel_index(np.arange(true.size), true.shape)), true.ravel(), axis=1)
    frame = pa.table({n: np.array(list("abcdef"))[c] for n, c in zip(names, codes, strict=True)})
    return estimate.table(frame, list(names), Mechanism(kept, codebook=book))


def numbers(text: str) -> list[float]:
    text = text.replace("−", "-")
    low, high = text[text.index("interval ") + 9 : text.rindex(")")].split(" to ")
    return [float(low), float(high)]


def test_the_interval_of_two_shares_is_the_textbook_one() -> None:
    (one,) = conclusions(estimated([300, 180, 120]), np.array([300, 180, 120]))
    pa_, pb = 0.5, 0.3
    se = math.sqrt((pa_ + pb - (pa_ - pb) ** 2) / 599)
    assert numbers(one.said) == pytest.approx([100 * (0.2 - 1.96 * se), 100 * (0.2 + 1.96 * se)], abs=0.06)
    assert one.agrees is True
    assert "“a” is the most frequent value of x" in one.said


def test_the_interval_of_two_conditional_shares_is_the_textbook_one() -> None:
    true = np.array([[120, 150], [80, 250]])
    (one,) = conclusions(estimated(true.tolist()), true)
    p, q = 80 / 200, 250 / 400
    se = math.sqrt(p * (1 - p) / 200 + q * (1 - q) / 400)
    assert numbers(one.said) == pytest.approx([100 * (q - p - 1.96 * se), 100 * (q - p + 1.96 * se)], abs=0.1)
    assert "“b” is more frequent where y is “b” than where it is “a”" in one.said
    assert one.truth == f"the share in “b” minus that in “a” is {100 * (q - p):.1f} percentage points."
    assert one.agrees is True
    (other,) = conclusions(estimated(true.tolist()), true[:, ::-1])
    assert other.agrees is False


def test_what_the_release_cannot_tell_is_said() -> None:
    (one,) = conclusions(estimated([52, 48], epsilon=0.2), np.array([52, 48]))
    assert one.agrees is None
    assert "“a” comes first, but “b” may be the most frequent value of x" in one.said


def test_the_most_frequent_value_is_compared_with_the_one_that_may_be_it() -> None:
    covariance = np.diag([0.0001, 0.0001, 0.0100])  # the third share is the smallest, and the least precise
    value = np.array([0.40, 0.35, 0.25])
    low = [0.05 - 1.96 * math.sqrt(0.0002), 0.15 - 1.96 * math.sqrt(0.0101)]
    assert low[1] < 0 < low[0]
    assert _closest(value, covariance) == (0, 2)
