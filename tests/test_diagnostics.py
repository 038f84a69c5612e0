"""Diagnostics of completed files: right where the model is right, and failing where it is not."""

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.completion.diagnostics import diagnose
from postrand.completion.diagnostics_tables import Seen, expected, law_axis
from postrand.completion.diagnostics_unbiased import compare, jackknife, overall, unbiased
from postrand.completion.predictive import combined, predict
from postrand.completion.readme import completed_readme
from postrand.estimate.evidence import evidence_of
from postrand.estimate.evidence_variables import TAKEN_FOR_TRUE, WEAKER, moved_told
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mixture import Draw, Evidence, Fit, Law, Settings
from postrand.report.completed_values import completed_view
from tests.evidence_cases import CASES, frame_of, released_records
from tests.mixture_cases import SIZES, draw_released, mixture_table, mixture_truth, release, response, split

PAIRS = list(itertools.combinations(range(4), 2))


def true_draw():
    """Return the parameters that the records were drawn from."""
    thetas = tuple(np.random.default_rng(5 + j).dirichlet(np.full(s, 0.7), 3) for j, s in enumerate(SIZES))
    return Draw(np.array([0.5, 0.3, 0.2]), thetas)


def independent_draw():
    """Return the best model of one class: the margins, and no relation."""
    return Draw(np.ones(1), tuple(mixture_table((j,))[None] for j in range(4)))


def as_fit(evidence, draws):
    rng = np.random.default_rng(1)
    traces = rng.normal(size=(2, 400, 3))
    return Fit(evidence, Settings(), 3, tuple(draws), traces, ("a[0]", "a[1]", "b[0]"), np.full((2, 400), 1))


def wide(draw, classes=8):
    """Return the same model with classes that no record is in: a truncation that is not reached."""
    more = classes - len(draw.weights)
    theta = tuple(np.concatenate([t, np.full((more, t.shape[1]), 1 / t.shape[1])]) for t in draw.theta)
    return Draw(np.concatenate([draw.weights, np.zeros(more)]), theta)


def examined(evidence, draws, places):
    seen = Seen(evidence)
    groups = list(seen.groups(places))
    counts = expected(draws, groups, evidence.sizes)
    return predict(groups, counts, places, evidence.sizes), compare(seen, draws, places, groups, counts)


def matrix_law(places, rng):
    cells = np.array(list(itertools.product(*(range(SIZES[p]) for p in places))), np.int32)
    rows = rng.dirichlet(np.ones(len(cells)), len(cells)) * 0.4 + 0.6 * np.eye(len(cells))
    return Law(tuple(places), cells, 0.0, np.zeros(len(cells)), rows)


@pytest.mark.parametrize("places", [(0,), (0, 1), (1, 0), (1, 3), (0, 1, 2), (2, 3)])
def test_expected_released_tables_are_those_of_many_records(places):
    """Blocks of both forms side by side and a known variable: the expectation against 80,000 simulated records."""
    rng = np.random.default_rng(2)
    laws = [matrix_law((0, 1), rng), response((2,))]
    true = mixture_truth(80_000, rng)
    out = true.copy()
    for law in laws:
        out[:, list(law.variables)] = law.cells[_fast(law, true, rng)]
    table = np.zeros([SIZES[p] for p in places])
    np.add.at(table, tuple(out[:, p] for p in places), 1 / len(out))
    evidence = release(true[:500], laws, rng, together=True, exact=(3,))
    found, _ = examined(evidence, [true_draw()], places)
    np.testing.assert_allclose(found.expected, table, atol=5 * 0.5 / math.sqrt(len(out)))


def _fast(law, true, rng):
    """Return released cells of many records: as ``draw_released``, cell by cell."""
    out = np.zeros(len(true), int)
    for k, row in enumerate(law.cells):
        at = np.flatnonzero((true[:, list(law.variables)] == row).all(axis=1))
        weights = law.matrix[k] if law.matrix is not None else law.keep * (np.arange(len(law.cells)) == k) + law.noise
        out[at] = rng.choice(len(weights), size=len(at), p=weights / weights.sum())
    return out


def test_the_unbiased_table_is_the_estimators():
    """On independent blocks, one joint, the table and its variance are those of ``estimate.table``."""
    rng = np.random.default_rng(4)
    joint, alone = matrix_law((0, 1), rng), matrix_law((2,), rng)
    book = Codebook(tuple(Variable("abcd"[j], "key", tuple(f"v{k}" for k in range(s))) for j, s in enumerate(SIZES)))
    blocks = [Block(("a", "b"), TransitionMatrix.from_array(joint.matrix))]
    blocks.append(Block(("c",), TransitionMatrix.from_array(alone.matrix)))
    law = Mechanism(blocks, book)
    joint, alone = (
        Law(one.variables, one.cells, 0.0, one.noise, block.matrix.array)
        for one, block in zip((joint, alone), blocks, strict=True)
    )
    true = mixture_truth(800, rng)
    evidence = release(true, [joint, alone], rng, together=True, exact=(3,))
    cells = [joint.cells[evidence.released[::2]], alone.cells[evidence.released[1::2]], true[:, 3:]]
    codes = np.concatenate(cells, axis=1)
    frame = pa.table({"abcd"[j]: [f"v{k}" for k in codes[:, j]] for j in range(4)})
    for places in [(0,), (0, 1), (1, 2), (3, 1), (2, 0, 3)]:
        wanted = estimate.table(frame, ["abcd"[p] for p in places], law)
        value, variance = unbiased(list(Seen(evidence).groups(places)), places, SIZES)
        np.testing.assert_allclose(value, wanted.value, atol=1e-10)
        np.testing.assert_allclose(np.sqrt(variance), wanted.standard_error, rtol=1e-8)


def test_the_unbiased_table_of_a_split_is_unbiased_and_its_variance_right():
    """Over 120 files: standardised errors have mean 0 and variance 1, within 4 of their own standard errors."""
    rng = np.random.default_rng(5)
    laws = [response((0, 1, 2)), response((0, 1), epsilon=2.0), response((1, 3)), response((0, 1, 3), epsilon=3.0)]
    true, off = mixture_table((0, 1)), []
    for _ in range(120):
        evidence = release(mixture_truth(1_000, rng), laws, rng)
        value, variance = unbiased(list(Seen(evidence).groups((0, 1))), (0, 1), SIZES)
        off.append(((value - true) / np.sqrt(variance)).ravel())
    errors = np.array(off)
    assert np.abs(errors.mean(axis=0)).max() < 4 / math.sqrt(120)
    assert np.abs(errors.var(axis=0) - 1).max() < 4 * math.sqrt(2 / 120)


def test_randomised_response_on_feasible_cells_only():
    """The marginal inverse of a law with structural zeros undoes the law: inverse times law is the projection."""
    cells = np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)], np.int32)
    keep = 0.6
    law = Law((0, 1), cells, keep, np.full(5, 0.4 / 5))
    full = keep * np.eye(5) + 0.4 / 5
    for kept in [(0,), (1,), (0, 1), (1, 0)]:
        axis = law_axis(law, kept, SIZES)
        assert axis.kept == kept
        sizes = [SIZES[p] for p in kept]
        into = np.zeros((5, math.prod(sizes)))
        into[np.arange(5), np.ravel_multi_index([cells[:, law.variables.index(p)] for p in kept], sizes)] = 1
        seen = np.eye(axis.released)[axis.marginal]
        np.testing.assert_allclose(full @ seen @ axis.inverse.T, into, atol=1e-12)


def test_a_right_model_passes_and_one_without_relations_fails():
    """Level: of 40 releases of a right model, at most 3 may fail a test of level 1% (probability below 0.001)."""
    rng, passed = np.random.default_rng(6), []
    for _ in range(40):
        evidence = release(mixture_truth(400, rng), split(), rng)
        passed.append(combined([examined(evidence, [true_draw()], p)[0] for p in PAIRS]) >= 0.01)
    assert passed.count(False) <= 3
    evidence = release(mixture_truth(3_000, rng), split(), rng)
    assert combined([examined(evidence, [independent_draw()], p)[0] for p in PAIRS]) < 0.01


def test_the_bias_over_all_tables_holds_its_level():
    """Of 40 right models, at most 8 may have p below 5%, and at most 4 below 1% (probability below 0.001 each)."""
    rng, found = np.random.default_rng(20), []
    for _ in range(40):
        evidence = release(mixture_truth(400, rng), split(), rng)
        found.append(overall([examined(evidence, [true_draw()], p)[1] for p in PAIRS])[1])
    assert np.sum(np.array(found) < 0.05) <= 8
    assert np.sum(np.array(found) < 0.01) <= 4
    assert 0.2 < np.median(found) < 0.8


def test_the_bias_is_found_where_no_single_table_is_far_off():
    """Every relation is shrunk by a third: no cell stands out, all tables together do."""
    rng, weak = np.random.default_rng(21), true_draw()
    theta = tuple(t + (mixture_table((j,)) - t) / 3 for j, t in enumerate(weak.theta))
    evidence = release(mixture_truth(1_500, rng), split(), rng)
    tables = [examined(evidence, [Draw(weak.weights, theta)] * 2, p)[1] for p in PAIRS]
    assert overall(tables)[1] < 0.01
    assert overall(tables)[0] > 1.3


def test_parts_of_the_file_add_up_to_the_unbiased_table():
    rng = np.random.default_rng(22)
    evidence = release(mixture_truth(900, rng), [*split(), response((0, 1))], rng)
    for places in PAIRS:
        table = examined(evidence, [true_draw()], places)[1]
        np.testing.assert_allclose(table.parts.sum(axis=0), table.unbiased, atol=1e-10)


def test_a_three_way_interaction_is_found():
    """Parity of three fair coins: no pair shows it, the table of three does."""
    sizes, rng = (2, 2, 2, 2), np.random.default_rng(7)
    true = rng.integers(2, size=(3_000, 4)).astype(np.int32)
    true[:, 2] = true[:, 0] ^ true[:, 1]
    evidence = release(true, split(3, 3.0, sizes), rng, sizes=sizes)
    fair = Draw(np.ones(1), tuple(np.full((1, 2), 0.5) for _ in sizes))
    found = diagnose(as_fit(evidence, [wide(fair)] * 5))
    assert not found.ok
    assert "a by b by c" in found.problems[0]
    pairs = [t for t in found.predicted if len(t.places) == 2]
    assert combined(pairs) >= 0.01
    mended = diagnose(as_fit(evidence, [wide(fair)] * 5), anchored=True)
    assert not mended.ok, "anchoring two-way tables does not mend it"


def test_strata_have_laws_of_their_own():
    """One law in each stratum of a known variable: a right model passes, and the unbiased table is right."""
    rng = np.random.default_rng(8)
    laws = [matrix_law((1,), rng), matrix_law((1,), rng)]
    true = mixture_truth(4_000, rng)
    n = len(true)
    released = np.where(true[:, 0] == 0, draw_released(laws[0], true, rng), draw_released(laws[1], true, rng))
    known = np.stack([true[:, 0], np.full(n, -1), true[:, 2], true[:, 3]], axis=1).astype(np.int32)
    evidence = Evidence(
        tuple("abcd"),
        SIZES,
        known,
        np.arange(n + 1),
        true[:, 0].astype(np.int32),
        released.astype(np.int32),
        tuple(laws),
        np.zeros((0, 4, 3), bool),
    )
    for places in [(1,), (1, 2), (0, 1), (1, 0, 3)]:
        predicted, compared = examined(evidence, [true_draw()], places)
        assert predicted.p > 0.001
        off = (compared.unbiased - mixture_table(places)) / np.sqrt(compared.variance)
        assert np.abs(off).max() < 4


def test_missing_values_that_are_kept_are_known():
    """A third code of a variable is a missing value, shown as it is; the law is about the two others."""
    rng = np.random.default_rng(13)
    sizes, n = (3, 2), 6_000
    shares = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])
    true = np.column_stack(np.unravel_index(rng.choice(6, size=n, p=shares.ravel()), sizes)).astype(np.int32)
    law, other = response((0,), (2, 2), 1.0), response((1,), sizes, 1.0)
    shown = true[:, 0] < 2
    each = np.where(shown, 2, 1)
    start = np.concatenate([[0], np.cumsum(each)])
    number, released = np.ones(start[-1], np.int32), np.zeros(start[-1], np.int32)
    number[start[:-1][shown]] = 0
    released[start[:-1][shown]] = draw_released(law, true[shown], rng)
    released[start[1:] - 1] = draw_released(other, true, rng)
    exact = np.full((n, 2), -1, np.int32)
    exact[~shown, 0] = 2
    evidence = Evidence(("a", "b"), sizes, exact, start, number, released, (law, other), np.zeros((0, 2, 3), bool))
    right = Draw(shares.sum(axis=1), (np.eye(3), shares / shares.sum(axis=1, keepdims=True)))
    wrong = Draw(np.ones(1), (shares.sum(axis=1)[None], shares.sum(axis=0)[None]))
    predicted, compared = examined(evidence, [right], (0, 1))
    assert predicted.p > 0.01
    assert np.abs((compared.unbiased - shares) / np.sqrt(compared.variance)).max() < 4
    assert examined(evidence, [wrong], (0, 1))[0].p < 1e-4


def test_what_no_record_shows_rests_on_the_model():
    rng = np.random.default_rng(9)
    evidence = release(mixture_truth(2_000, rng), [response((0, 1)), response((2, 3))], rng)
    found = diagnose(as_fit(evidence, [wide(true_draw())] * 4))
    rests = {one.names: one for one in found.rests_on_model}
    assert rests["a", "c"].ratio is None
    assert rests["a", "c"].on_model
    assert rests["a", "b"].effective > 0
    assert "alone" in str(rests["a", "c"])
    assert any("a by c" in text for text in found.warnings)
    assert found.ok


def test_the_worth_of_an_unbiased_table_says_its_basis_and_its_simulation_error():
    """Oracle: over fits with other draws the figure spreads as the error says; alpha 1e-4 for each end."""
    rng = np.random.default_rng(12)
    evidence = release(mixture_truth(2_000, rng), split(), rng)

    def found(seed):
        own = np.random.default_rng(seed)
        draws = [
            wide(dataclasses.replace(true_draw(), weights=own.dirichlet(40 * true_draw().weights))) for _ in range(10)
        ]
        rests = diagnose(as_fit(evidence, draws)).rests_on_model
        return next(one for one in rests if one.names == ("a", "b"))

    many = [found(seed) for seed in range(12)]
    spread = np.std([one.effective for one in many], ddof=1)
    stated = np.sqrt(np.mean([one.error**2 for one in many]))
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 11) / 11
    assert low / 2 < (spread / stated) ** 2 < 2 * high  # the error is itself of four degrees of freedom a fit
    text = (
        f"{many[0].effective:,.0f} ± {math.ceil(many[0].error):,} unperturbed records, with the shares that the model"
    )
    assert text in str(many[0])
    assert many[0].to_dict()["simulation_error"] == pytest.approx(many[0].error, rel=1e-4)
    assert jackknife(lambda of: 1.0, 1) is None


def test_a_table_of_few_unperturbed_records_is_marked():
    rng = np.random.default_rng(10)
    evidence = release(mixture_truth(300, rng), split(2, 2.0), rng)
    found = diagnose(as_fit(evidence, [wide(true_draw())] * 4))
    assert all(one.on_model for one in found.rests_on_model)
    assert any("fewer than 500" in text for text in found.warnings)


def test_numbers_moved_in_rank_are_told_wherever_copies_are():
    """The test of the words that a release has; its completed.json stays as it is, to be made again."""
    kept = Path(__file__).parent / "fixtures" / "releases" / "3" / "completed" / "completed.json"
    told = json.loads(kept.read_text("utf-8"))
    (said,) = moved_told(told["diagnostics"]["approximated"])
    assert "pay were exchanged or averaged among neighbours in rank" in said
    assert "standard errors are too small" in said
    assert said in " ".join(completed_readme(told).split())
    assert WEAKER in " ".join(completed_readme(told).split())
    assert said in completed_view(told, "data.csv")["warnings"]
    rng = np.random.default_rng(12)
    fit = as_fit(release(mixture_truth(500, rng), split(), rng), [wide(independent_draw())] * 4)
    assert said in str(diagnose(fit, approximated={"pay": TAKEN_FOR_TRUE}))
    assert "in rank" not in str(diagnose(fit, approximated={"age": "by 10 classes of equal size"}))


def test_what_is_said_and_kept():
    rng = np.random.default_rng(11)
    evidence = release(mixture_truth(2_000, rng), split(), rng)
    fit = as_fit(evidence, [wide(independent_draw())] * 4)
    found = diagnose(fit, left_out={"income": "moved in rank"}, approximated={"age": "by 10 classes of equal size"})
    assert not found.ok
    said = str(found)
    for text in (*found.problems, *found.warnings, "income (moved in rank)", "age is in the model only roughly"):
        assert text in said
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["problems"] == list(found.problems)
    assert not data["ok"]
    assert {tuple(one["variables"]) for one in data["rests_on_model"]} >= {("a",), ("a", "b"), ("a", "b", "c")}
    bias, p = found.bias
    assert p < 1e-6
    pairs = [c for c in found.compared if len(c.places) == 2]
    wanted = np.mean(
        [(np.square(c.unbiased - c.model)).sum() / c.spread.sum() for c in pairs if c.unbiased is not None]
    )
    assert bias == pytest.approx(wanted - 1)
    mended = diagnose(fit, anchored=True)
    assert len(mended.problems) < len(found.problems)


def test_a_truncation_that_is_reached_is_a_problem_of_a_model_that_fails():
    rng = np.random.default_rng(12)
    evidence = release(mixture_truth(1_000, rng), split(), rng)
    found = diagnose(as_fit(evidence, [independent_draw()] * 3))
    assert any("all of its classes" in text for text in found.problems)
    fits = diagnose(dataclasses.replace(as_fit(evidence, [true_draw()] * 3), occupied=np.full((2, 400), 3)))
    assert fits.ok
    assert any("uses all of its classes (3 of 3)" in text for text in fits.warnings)
    chains = dataclasses.replace(fits.chains, occupied=62, classes=64)
    nearly = dataclasses.replace(fits, chains=chains)
    assert any("uses nearly all of its classes (62 of 64)" in text for text in nearly.warnings)


@pytest.mark.parametrize("kind", sorted(CASES))
def test_the_unbiased_tables_of_every_kind_of_release_are_the_estimators(kind):
    """Of blocks exactly; of a split within a tenth of a standard error, since subsets are weighted in another way."""
    law = CASES[kind]()
    rng, shown = np.random.default_rng(30), released_records(law)
    frame = frame_of(law, [shown[k] for k in rng.integers(len(shown), size=1_500)])
    evidence, _ = evidence_of(frame, law)
    kept = [v.name for v in law.require_codebook().variables if v.missing == "keep"]
    seen = Seen(evidence)
    for places in [p for r in (1, 2, 3) for p in itertools.combinations(range(3), r)]:
        names = [evidence.names[p] for p in places]
        groups = list(seen.groups(places))
        if not groups or set(names) & set(kept):
            continue
        value, variance = unbiased(groups, places, evidence.sizes)
        wanted = estimate.table(frame, names, law)
        off = np.abs(value - wanted.value) / np.maximum(wanted.standard_error, 1e-9)
        assert off.max() < (0.4 if law.split else 1e-6)
        assert np.sqrt(variance.sum()) == pytest.approx(np.sqrt((wanted.standard_error**2).sum()), rel=0.02)


def test_copies_that_were_anchored_to_be_on_the_safe_side_are_named():
    rng = np.random.default_rng(14)
    fit = as_fit(release(mixture_truth(2_000, rng), split(), rng), [wide(true_draw())] * 4)
    assert not any("safe side" in text for text in diagnose(fit).warnings)
    assert any("safe side" in text for text in diagnose(fit, anchored=True).warnings)
