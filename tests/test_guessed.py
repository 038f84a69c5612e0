"""Guesses of a confidential variable from its released value: by enumeration, closed form and simulated releases."""

from __future__ import annotations

import dataclasses
import html
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import Codebook, Variable
from postrand.cli import main
from postrand.engines.frame import perturb
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.plan import load_plan
from postrand.plan.policy import Policy, policy_from_dict
from postrand.report.text import beside_limit
from postrand.support.guesses import of_hundred
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.guessed import guesses
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.planned import mechanism_of
from postrand.workflow.policy_check import check_policy

BOOK = Codebook((Variable("sex", "key", ("f", "m")), Variable("ill", "sensitive", ("no", "mild", "bad"))))
SHARES = np.array([0.7, 0.2, 0.1])


def guessed(mechanism):
    (found,) = guesses(mechanism, BOOK, lambda name: SHARES)
    return found


def test_the_guess_is_the_best_one_for_each_released_value():
    matrix = randomised_response(3, 1.5)
    found = guessed(Mechanism([Block(("ill",), matrix)], BOOK))
    joint = SHARES[:, None] * matrix.array
    assert found.right == pytest.approx(joint.max(axis=0).sum())
    assert found.blind == 0.7
    posterior = (joint / joint.sum(axis=0)).max(axis=1)
    assert found.sure == (("no", pytest.approx(posterior.max())),)
    assert posterior.argmax() == 0


def test_nobody_is_surer_than_the_claim_allows():
    """The odds of a value grow by e^epsilon at most, and with two values randomised response reaches it."""
    for epsilon in (0.5, 2.0, 4.0):
        found = guessed(Mechanism([Block(("ill",), randomised_response(3, epsilon))], BOOK))
        odds = 0.7 / 0.3 * np.exp(epsilon)
        ((_, sure),) = found.sure
        assert sure <= odds / (1 + odds) + 1e-12
        assert found.blind <= found.right <= sure


@pytest.mark.parametrize("together", [False, True])
def test_of_a_split_and_a_joint_block_it_is_that_of_simulated_releases(together):
    """An attacker sees which subset a record shows: each is a law of its own, and the surest value is one of them."""
    both = Block(("sex", "ill"), randomised_response(6, 3.0))
    rest = [Block(("sex",), randomised_response(2, 3.0)), Block(("ill",), randomised_response(3, 3.0))]
    split = Split.of([0.5, 0.3, 0.2], [both, *rest])
    mechanism = Mechanism([both], BOOK) if together else Mechanism([], BOOK, split=split)
    found, n = guessed(mechanism), 200_000
    true = np.repeat([0, 1, 2], (n * SHARES).astype(int))
    sexes, ills = np.array(["f", "m"]), np.array(["no", "mild", "bad"])
    table = pa.table({"sex": sexes[np.arange(n) % 2], "ill": ills[true]})
    released = perturb(table, mechanism, pr.ReleaseKey.from_seed(3))
    shown, sex = (released.column(name).to_pylist() for name in ("ill", "sex"))
    of = np.array([{"no": 0, "mild": 1, "bad": 2}.get(value, 3) for value in shown])
    of += 4 * np.array([value in ("f", "m") for value in sex])  # which values a record shows is seen
    counts = np.zeros((3, 8))
    np.add.at(counts, (true, of), 1)
    assert counts.max(axis=0).sum() / n == pytest.approx(found.right, abs=4 * 0.5 / np.sqrt(n))
    has = [0, 1, 2, 4, 5, 6]
    assert counts[:, has].sum() / n == pytest.approx(found.shown, abs=4 * 0.5 / np.sqrt(n))
    of_these = counts[:, has].max(axis=0).sum() / counts[:, has].sum()
    assert of_these == pytest.approx(found.right_shown, abs=5 * 0.5 / np.sqrt(n))
    mass = counts.sum(axis=0)
    surest = (counts[:, mass > 0] / mass[mass > 0]).max(axis=1)
    assert found.sure == ((ills[surest.argmax()], pytest.approx(surest.max(), abs=0.02)),)


def test_of_two_answers_both_are_told_and_no_answer_is_no_fact():
    book = Codebook((Variable("ill", "sensitive", ("no", "yes", "not asked"), missing_codes=("not asked",)),))
    matrix = randomised_response(3, 2.0)
    (found,) = guesses(Mechanism([Block(("ill",), matrix)], book), book, lambda name: np.array([0.2, 0.1, 0.7]))
    joint = np.array([0.2, 0.1, 0.7])[:, None] * matrix.array
    sure = (joint / joint.sum(axis=0)).max(axis=1)
    assert found.blind == 0.7
    assert found.sure == (("no", pytest.approx(sure[0])), ("yes", pytest.approx(sure[1])))
    assert sure[2] > sure[0] > sure[1]


def test_what_is_not_perturbed_or_no_confidential_fact_is_not_guessed():
    assert guesses(Mechanism([Block(("sex",), randomised_response(2, 1.0))], BOOK), BOOK, lambda name: SHARES) == ()
    assert guesses(Mechanism([Block(("ill",), randomised_response(3, 1.0))], BOOK), BOOK, lambda name: None) == ()


def test_explain_and_the_page_to_sign_say_it(tmp_path):
    rng = np.random.default_rng(2)
    held = {"sex": rng.choice(["f", "m"], 500), "ill": rng.choice(["no", "mild", "bad"], 500, p=SHARES)}
    pq.write_table(pa.table(held), tmp_path / "people.parquet")
    BOOK.save(tmp_path / "codebook.toml")
    blocks = "".join(f'[[blocks]]\nvariables = ["{name}"]\n' for name in ("sex", "ill"))
    source = '[source]\nfile = "people.parquet"\ncodebook = "codebook.toml"\n'
    privacy = '[privacy]\nmodel = "differential"\nepsilon = 2.0\n'
    (tmp_path / "plan.toml").write_text(source + privacy + blocks, encoding="utf-8")
    done = CliRunner().invoke(main, ["explain", str(tmp_path / "plan.toml"), "--decision", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    own = "Guesses of ill by somebody who knows which record is a person's, right of 100 persons: "
    by_all = ". By somebody who also knows the keys: "
    weighed = "The informed attacker does use the released values of ill, as far as they tell of the keys"
    for said in (own, by_all, weighed):
        assert said in done.output
        assert said in page
    assert "No attacker uses" not in page


def test_of_a_joint_block_of_many_cells_randomised_response_has_a_closed_form():
    """20,000 cells: no matrix is made of them. Of few, it is the sum over the cells of the whole matrix."""
    for sizes in ((5, 4, 3), (50, 40, 10)):
        names = ("a", "b", "ill")
        book = Codebook(
            tuple(
                Variable(n, "sensitive" if n == "ill" else "key", tuple(f"{n}{i}" for i in range(s)))
                for n, s in zip(names, sizes, strict=True)
            )
        )
        shares = np.arange(1.0, sizes[2] + 1) / np.arange(1.0, sizes[2] + 1).sum()
        matrix = randomised_response(int(np.prod(sizes)), 6.0)
        (found,) = guesses(Mechanism([Block(names, matrix)], book), book, {"ill": shares}.get)
        cells, many = int(np.prod(sizes)), sizes[0] * sizes[1]
        off = 1 / (np.exp(6.0) + cells - 1)
        law = np.full((sizes[2], sizes[2]), many * off) + np.eye(sizes[2]) * (np.exp(6.0) - 1) * off
        assert found.right == pytest.approx((shares[:, None] * law).max(axis=0).sum(), rel=1e-6)
        if cells < 100:
            whole = matrix.array.reshape(many, sizes[2], many, sizes[2]).sum(axis=2)[0]
            assert whole == pytest.approx(law, rel=1e-6)


def policy(*rules: tuple[str, float]) -> Policy:
    return policy_from_dict({"rules": [{"measure": name, "at_most": most} for name, most in rules]})


def test_an_office_can_limit_what_is_guessed(tmp_path):
    """Whom the record of tells: the figure is that of the page, and by a simulated attacker within its error."""
    rng, n = np.random.default_rng(8), 4000
    sex = rng.integers(0, 2, n)
    ill = np.where(rng.random(n) < 0.3 + 0.3 * sex, 1, 0)
    table = pa.table({"sex": np.array(["f", "m"])[sex], "ill": np.array(["no", "yes"])[ill]})
    pq.write_table(table, tmp_path / "people.parquet")
    book = Codebook((Variable("sex", "key", ("f", "m")), Variable("ill", "sensitive", ("no", "yes"))))
    book.save(tmp_path / "codebook.toml")
    blocks = "".join(f'[[blocks]]\nvariables = ["{name}"]\n' for name in ("sex", "ill"))
    text = '[source]\nfile = "people.parquet"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\n'
    (tmp_path / "plan.toml").write_text(f"{text}epsilon = 2.0\n{blocks}", encoding="utf-8")
    plan = load_plan(tmp_path / "plan.toml")
    figures, known = figures_of(plan), Known.of(plan, dossier=True)
    (best,) = figures.guesses
    law = mechanism_of(plan, design_blocks(plan, known), known)["ill"].matrix.array
    shares = np.array([[np.mean((sex == s) & (ill == i)) for i in (0, 1)] for s in (0, 1)])
    right = sum((shares[s][:, None] * law).max(axis=0).sum() for s in (0, 1))
    without = shares.max(axis=1).sum()
    assert best.right == pytest.approx(right, abs=4 * 0.5 / np.sqrt(3 * n))
    assert best.without == pytest.approx(without)
    found = check_policy(figures, policy(("right_guesses", 0.6), ("guess_gain", best.right - best.without)))
    most, gain = found.verdicts
    assert (most.is_met, most.before, gain.is_met) == (False, "100% if unperturbed", True)
    assert most.after == f"{beside_limit(100 * best.right, 60)}% (ill)"
    assert "coarser confidential variables" in most.step
    close = check_policy(figures, policy(("guess_gain", best.right - best.without - 1e-6)))
    assert not close.is_met
    (sure,) = check_policy(figures, policy(("sure_guesses", 0.5))).verdicts
    posterior = shares[:, :, None] * law[None]
    posterior = posterior / posterior.sum(axis=1, keepdims=True)
    surest, mass = posterior.max(axis=1), (shares[:, :, None] * law[None]).sum(axis=1)
    assert best.sure == pytest.approx(mass[surest > 0.95].sum(), abs=4 * 0.5 / np.sqrt(3 * n))
    assert sure.is_met is (best.sure <= 0.5)
    unknown = dataclasses.replace(figures, risks=())
    (told,) = check_policy(unknown, policy(("right_guesses", 0.99))).verdicts
    assert (told.is_met, told.after) == (False, "not known")
    clear = dataclasses.replace(figures, unperturbed=("ill",))
    (told,) = check_policy(clear, policy(("right_guesses", 0.99))).verdicts
    assert (told.is_met, told.why) == (False, "released unperturbed: ill")
    (told,) = check_policy(dataclasses.replace(figures, confidential=()), policy(("guess_gain", 0.0))).verdicts
    assert told.is_met
    assert told.why.startswith("does not apply")


def test_the_page_to_sign_has_what_is_guessed_in_its_table(tmp_path):
    test_an_office_can_limit_what_is_guessed(tmp_path)
    plan, page = str(tmp_path / "plan.toml"), tmp_path / "page.html"
    assert CliRunner().invoke(main, ["explain", plan, "--decision", str(page)]).exit_code == 0
    text = " ".join(re.sub("<[^>]+>", " ", html.unescape(page.read_text(encoding="utf-8"))).split())
    (best,) = figures_of(load_plan(plan)).guesses
    row = f"ill ({of_hundred(best.without)} without the record) 100 {of_hundred(best.right)}"
    who = "Right guesses of 100 persons by who knows their records, and their keys"
    assert f"{who} {row}" in text


def test_what_the_keys_tell_already_hides_no_gain_of_the_others(tmp_path):
    """Who died by a cause that the release gives away: the living, whose keys tell that they have none, do not count.

    Of all persons the gain is the share of those who died times theirs, by the exact law; the rule is on theirs.
    """
    rng, n = np.random.default_rng(9), 6000
    dead = np.arange(n) % 4 == 0
    cause = np.where(dead, rng.integers(1, 4, n), 0)
    names = np.array(["alive", "heart", "cancer", "other"])
    pq.write_table(pa.table({"dead": np.array(["no", "yes"])[dead * 1], "cause": names[cause]}), tmp_path / "p.parquet")
    variables = (Variable("dead", "key", ("no", "yes")), Variable("cause", "sensitive", tuple(names.tolist())))
    Codebook(variables).save(tmp_path / "codebook.toml")
    block = '[[blocks]]\nvariables = ["cause"]\n[release]\nas_is = ["dead"]\n'
    text = (
        '[source]\nfile = "p.parquet"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\nepsilon = 6.0\n'
    )
    (tmp_path / "plan.toml").write_text(text + block, encoding="utf-8")
    plan = load_plan(tmp_path / "plan.toml")
    figures, known = figures_of(plan), Known.of(plan, dossier=True)
    (best,) = figures.guesses
    law = mechanism_of(plan, design_blocks(plan, known), known)["cause"].matrix.array
    shares = np.bincount(cause[dead], minlength=4) / dead.sum()
    right, without = (shares[:, None] * law).max(axis=0).sum(), shares.max()
    assert best.open is not None
    assert best.open.share == 0.25
    assert best.open.without == pytest.approx(without)
    assert best.open.right == pytest.approx(right, abs=4 * 0.5 / np.sqrt(n / 4))
    assert best.right - best.without == pytest.approx((best.open.right - best.open.without) / 4)
    (rule,) = check_policy(figures, policy(("guess_gain", 0.25))).verdicts
    assert not rule.is_met  # of all persons the record adds less than the limit
    assert best.right - best.without < 0.25
    assert rule.before == f"{beside_limit(100 * (1 - without), 25)} points if unperturbed"
    assert rule.after.endswith(" points (cause, where keys do not tell it)")
    assert any("; of the persons whose keys do not tell it already (25 of 100): " in one for one in figures.guessed)
    page = tmp_path / "page.html"
    assert CliRunner().invoke(main, ["explain", str(tmp_path / "plan.toml"), "--decision", str(page)]).exit_code == 0
    said = " ".join(re.sub("<[^>]+>", " ", html.unescape(page.read_text(encoding="utf-8"))).split())
    assert f"cause of the 25 of 100 whose keys do not tell it ({of_hundred(without)} without the record) 100 " in said


def test_a_perturbed_column_that_is_not_called_confidential_is_named_beside_the_rule(tmp_path):
    test_an_office_can_limit_what_is_guessed(tmp_path)
    book = (tmp_path / "codebook.toml").read_text(encoding="utf-8")
    (tmp_path / "codebook.toml").write_text(book.replace('"sensitive"', '"other"'), encoding="utf-8")
    (rule,) = check_policy(figures_of(load_plan(tmp_path / "plan.toml")), policy(("guess_gain", 0.0))).verdicts
    assert rule.why.endswith("guesses of ill are not counted: perturbed, with the role 'other' and not 'sensitive'")
