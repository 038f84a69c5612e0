"""The frontier of the whole file: its points are designs, a target marks some of them, and a point can be taken."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.app import designing, frontier, frontier_views, opening
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.designing import Latest
from postrand.app.frontier import Target
from postrand.errors import UsageError
from postrand.estimate.planning import expected_precision
from postrand.workflow.plan_figures import figures_of

N = 300


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    rng = np.random.default_rng(3)
    columns = {name: rng.choice(list("abcd")[:k], N) for name, k in (("sex", 2), ("area", 4), ("job", 3))}
    path = tmp_path_factory.mktemp("frontier") / "survey.parquet"
    pq.write_table(pa.table(columns), path)
    return act(open_decisions(opening.open_file(path), dict.fromkeys(columns, "key")), "block", "1", "sex")


def test_points_are_the_designs_that_they_stand_for(
    decisions: Decisions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "LEVELS", (2.0, 6.0))
    latest, target = Latest(), Target(("sex", "area"), 20.0, "correct_matches", 30.0)
    found = frontier.levels(decisions, tmp_path, latest, target)
    assert [one.way for one in found[:: len(frontier.LEVELS)]] == ["separate", "blocks", "split", "shape-symmetric"]
    for way in frontier.WAYS:
        mine = [one for one in found if one.way == way]
        assert [one.epsilon for one in mine] == list(frontier.LEVELS)
        assert all(a.two < b.two for a, b in itertools.pairwise(mine))
    told = frontier.risks(decisions, found, target.measure)
    for one in (found[3], found[5]):
        taken = frontier.at_level(decisions, one.way, one.epsilon)
        made = latest.designed(taken, tmp_path)
        assert made.certificate.account.total == pytest.approx(one.epsilon, rel=1e-5)
        worst = expected_precision(made.mechanism, ("sex", "area"), N).worst
        assert one.points == pytest.approx(100 * 1.959964 * np.max(worst))
        risk = figures_of(designing.planned(taken, tmp_path)).risk("correct_matches")
        assert risk is not None
        assert risk.after is not None
        assert one.points is not None
        assert told[one.key] == pytest.approx(risk.after)
        keeps = one.points <= 20 and risk.after <= 30
        assert frontier.meets(one, told[one.key], target) == keeps
        page = str(frontier_views.points(found, told, target, taken, measuring=False))
        assert page.count(">In use<") == 1
        assert f'data-key="{one.key}"' in page
    assert "The least ε that keeps what you ask" in page
    assert "Sets of answers, shifted: worth the same as one that is drawn" in page
    assert frontier.at_level(decisions, "shape-symmetric", 2.0).structure == "symmetric"
    none = str(frontier_views.points(found, told, Target(("sex",), 0.01), decisions, measuring=False))
    assert "No level that is drawn keeps what you ask" in none


def test_targets_are_read_from_the_form(decisions: Decisions) -> None:
    asked = decisions
    for key, text in {"first": "sex", "second": "sex", "points": "2", "measure": "tau2", "limit": "5"}.items():
        asked = act(asked, "typed", f"{frontier.PREFIX}{key}", text)
    assert frontier.target_of(asked) == Target(("sex",), 2.0, "tau2", 5.0)
    assert "All levels" in str(frontier_views.form(asked))
    with pytest.raises(UsageError, match="limit of the risk"):
        frontier.target_of(act(asked, "typed", f"{frontier.PREFIX}limit", "-1"))
    for way, level in (("other", 1.0), ("split", float("nan"))):
        with pytest.raises(UsageError, match="no such point"):
            frontier.at_level(decisions, way, level)
