"""The whole record in the objective: against the joint table, enumeration, a dense programme, and in plans."""

import itertools
import json
import math
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from postrand import ReleaseKey, load_plan, run, verify
from postrand.designers import Circulant, DesignWarning, FeasibleSet, General, Symmetric, UniformOffDiagonal, design
from postrand.designers.differential import whole_record as algorithm
from postrand.errors import DesignError, SpecificationError
from postrand.objectives import MutualInformation, WholeRecord
from postrand.privacy import DifferentialPrivacy
from postrand.risk.reveals import UnperturbedWarning
from postrand.workflow import design_blocks as blocks
from postrand.workflow import whole_record_counts as whole
from tests import oracles

SKEWED = np.array([[0.6, 0.0], [0.0, 0.2], [0.0, 0.1], [0.0, 0.06], [0.0, 0.04]])
"""C tells whether X is the frequent category."""


def table(seed, size, classes, shape=0.3):
    return np.random.default_rng(seed).dirichlet(np.full(size * classes, shape)).reshape(size, classes)


def designed(joint, epsilon, structure=None):
    joint = np.asarray(joint) / np.sum(joint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DesignWarning)
        return design(joint.sum(axis=1), DifferentialPrivacy(epsilon), WholeRecord(joint=joint), structure)


def conditional(joint, law):
    """I(X,C; Z,C) - H(C) of whole records, by the definition."""
    size, classes = joint.shape
    whole_law = np.zeros((size * classes,) * 2)  # true record (x, c) by released record (z, c)
    for x, c, z in itertools.product(range(size), range(classes), range(size)):
        whole_law[x * classes + c, z * classes + c] = joint[x, c] * law[x, z]
    clear = joint.sum(axis=0)
    clear = clear[clear > 0]
    return oracles.information(whole_law) + float(clear @ np.log(clear))


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 5), classes=st.integers(1, 4))
def test_the_value_is_that_of_whole_records_beyond_what_is_clear(seed, size, classes):
    joint = table(seed, size, classes)
    law = np.random.default_rng(seed + 1).dirichlet(np.ones(size), size=size)
    found = WholeRecord(joint=joint).value(law, joint.sum(axis=1))
    assert found == pytest.approx(conditional(joint, law), abs=1e-12)
    assert found <= MutualInformation().value(law, joint.sum(axis=1)) + 1e-12  # I(X;Z) - I(C;Z)


@pytest.mark.parametrize(("size", "epsilon"), [(3, 0.2), (3, 4.0), (4, 1.0), (5, 0.5), (5, 3.0), (7, 1.0)])
@pytest.mark.parametrize("classes", [1, 2, 6])
def test_the_best_vertex_equals_enumeration(size, epsilon, classes):
    joint = table(size + classes, size, classes)
    family = FeasibleSet(size, epsilon)
    best = max(conditional(joint, family.matrix(q)) for q in family.vertices())
    found = designed(joint, epsilon)
    assert found.value == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert found.bound >= best * (1 - 1e-9)  # vertices() carries 12 decimals
    assert found.status == "optimal"


def test_no_random_member_of_the_family_is_better():
    found, rng = designed(SKEWED, 1.0), np.random.default_rng(0)
    family, tried = FeasibleSet(5, 1.0), 0
    for q in rng.uniform(0, 1, size=(60_000, 5)):
        if family.contains(q):
            tried += 1
            assert conditional(SKEWED, family.matrix(q)) <= found.value + 1e-12
    assert tried > 50


@pytest.mark.parametrize("structure", [UniformOffDiagonal(), General(), Symmetric(), Circulant()], ids=lambda s: s.name)
def test_independent_variables_give_the_usual_optimum(structure):
    p = np.array([0.606, 0.216, 0.08, 0.058, 0.04])
    found = designed(np.outer(p, [0.3, 0.5, 0.2]), 1.0, structure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DesignWarning)
        usual = design(p, DifferentialPrivacy(1.0), structure=structure)
    assert found.value == pytest.approx(usual.value, rel=1e-9)
    if structure != Circulant():  # where several sets are best
        np.testing.assert_allclose(found.matrix.array, usual.matrix.array, atol=1e-9)


def test_dependence_can_change_the_best_matrix():
    """Where C tells whether X is the frequent category, the others are worth telling apart instead."""
    found, usual = designed(SKEWED, 1.0), design(SKEWED.sum(axis=1), DifferentialPrivacy(1.0))
    kept = conditional(SKEWED, usual.matrix.array)
    assert found.value > 1.2 * kept
    assert found.details["usual"] == pytest.approx(kept, rel=1e-9)
    assert f"would keep {kept:.6g} of this" in found.message


def test_a_matrix_that_is_best_for_every_class_is_proven_so_by_their_bounds(monkeypatch):
    """Without enumeration: the classes' own optima agree, and their mean is the proof."""
    joint = table(1, 9, 5, 5.0)
    known = designed(joint, 1.0)
    monkeypatch.setattr(algorithm, "_WORK", 0)
    found = designed(joint, 1.0)
    assert found.status == "optimal"
    assert found.value == pytest.approx(known.value, rel=1e-12)
    classes = algorithm.Classes(*WholeRecord(joint=joint).classes(joint.sum(axis=1)))
    assert known.value * (1 - 1e-12) <= algorithm.upper_bound(classes, 1.0) <= known.value * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_single_changes_find_the_optimum_and_the_bounds_hold(seed, monkeypatch):
    joint, epsilon = table(seed, 8, 50, 0.1), (0.3, 1.0, 3.0)[seed % 3]
    best = designed(joint, epsilon).value
    monkeypatch.setattr(algorithm, "_WORK", 0)
    found = designed(joint, epsilon)
    assert best * (1 - 1e-3) <= found.value <= best * (1 + 1e-11)
    assert best * (1 - 1e-12) <= found.bound < best * 1.5
    assert found.status in ("optimal", "bounded")


def test_merged_classes_bound_what_all_classes_keep(monkeypatch):
    joint = table(3, 6, 400, 0.2)
    best = designed(joint, 1.0)
    monkeypatch.setattr(algorithm, "_WORK", 200 * 7 * 32)  # enough for 32 merged classes, not for 400
    found = designed(joint, 1.0)
    assert found.value <= best.value * (1 + 1e-11)
    assert best.value * (1 - 1e-12) <= found.bound < best.value * 1.1


def test_a_search_without_time_is_no_worse_than_the_usual_optimum(monkeypatch):
    joint = table(5, 8, 60, 0.1)
    best, usual = designed(joint, 1.0), design(joint.sum(axis=1), DifferentialPrivacy(1.0))
    monkeypatch.setattr(algorithm, "_WORK", 0)
    monkeypatch.setattr(algorithm, "_EFFORT", 0)
    monkeypatch.setattr(algorithm, "_SEARCHED", 10)
    found = designed(joint, 1.0)
    assert conditional(joint, usual.matrix.array) * (1 - 1e-11) <= found.value <= best.value * (1 + 1e-11)
    assert found.bound >= best.value * (1 - 1e-12)


@pytest.mark.parametrize("size", [20, 40])
def test_many_categories_have_a_bound(size):
    found = designed(table(size, size, 12), 1.0)
    assert found.value <= found.bound < found.value * 1.1
    usual = design(table(size, size, 12).sum(axis=1), DifferentialPrivacy(1.0))
    assert found.value >= conditional(table(size, size, 12), usual.matrix.array) - 1e-12


@pytest.mark.parametrize(("size", "epsilon"), [(2, 1.0), (3, 0.05), (4, 2.0), (5, 1.0)])
def test_the_best_channel_is_the_programme_over_all_sets(size, epsilon):
    joint = table(size, size, 4)
    sets = np.array(list(itertools.product((0, 1), repeat=size)))[1:]
    columns = 1 + math.expm1(epsilon) * sets
    worth = np.zeros(len(sets))
    for c in joint.T:
        mass = columns @ c
        worth += (columns * np.log(columns)) @ c - mass * np.log(mass / c.sum())
    answer = linprog(-worth / worth.max(), A_eq=columns.T, b_eq=np.ones(size))
    found = designed(joint, epsilon, General())
    assert found.value == pytest.approx(-answer.fun * worth.max(), rel=1e-8)
    assert found.status == "optimal"
    assert found.value >= designed(joint, epsilon).value - 1e-15


def test_classes_that_leave_nothing_to_tell_keep_nothing():
    known = np.diag([0.5, 0.3, 0.2])
    for structure in (UniformOffDiagonal(), General(), Symmetric()):
        assert designed(known, 1.0, structure).value == 0
    part = WholeRecord(joint=SKEWED).part([np.array([0]), np.array([2])])
    assert part.joint.shape == (1, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WholeRecord(joint=np.ones(3)), "not a table of frequencies"),
        (lambda: WholeRecord(joint=np.full((2, 2), -1.0)), "not a table of frequencies"),
        (lambda: WholeRecord(joint=np.zeros((2, 2))), "not a table of frequencies"),
        (lambda: WholeRecord("age"), "'clear' is not a list of names"),
        (lambda: design([0.5, 0.5], DifferentialPrivacy(1.0), WholeRecord()), "frequencies of its variables together"),
        (lambda: design([0.5, 0.5], DifferentialPrivacy(1.0), WholeRecord(joint=SKEWED)), "not the margin"),
        (lambda: designed(table(0, 17, 2), 1.0, General()), "the table is too large"),
    ],
)
def test_what_cannot_be_treated_is_refused(make, message):
    with pytest.raises((DesignError, SpecificationError), match=message):
        make()


# -- in plans ---------------------------------------------------------------------------------------------------------

CODEBOOK = "".join(
    f'[[variables]]\nname = "{name}"\nrole = "key"\ncategories = {json.dumps(values)}\n'
    for name, values in {"x": list("abcde"), "c": ["p", "q"], "d": ["u", "v", "w"]}.items()
)
PLAN = """
[source]
file = "people.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 1.5
[design]
prior = "file"
[[blocks]]
variables = ["x"]
objective = OBJECTIVE
"""
OWN = 'privacy = { model = "differential", epsilon = 1.0 }\n'


@pytest.fixture
def folder(tmp_path):
    """Records in which c and x are those of the skewed table, and d tells nothing."""
    x, c = (part.ravel() for part in np.indices(SKEWED.shape))
    n = np.rint(SKEWED.ravel() * 1000).astype(int) * 3
    codes = {"x": np.repeat(x, n), "c": np.repeat(c, n), "d": np.arange(n.sum()) % 3}
    names = {"x": list("abcde"), "c": ["p", "q"], "d": ["u", "v", "w"]}
    arrays = {k: pa.DictionaryArray.from_arrays(codes[k].astype(np.int8), names[k]) for k in codes}
    pq.write_table(pa.table(arrays), tmp_path / "people.parquet")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    return tmp_path


def planned(folder, objective, rest=OWN, text=PLAN):
    (folder / "plan.toml").write_text(text.replace("OBJECTIVE", objective) + rest)
    return load_plan(folder / "plan.toml")


@pytest.mark.parametrize("objective", ['"whole-record"', '{ model = "whole-record", clear = ["c", "d"] }'])
def test_a_plan_designs_for_what_the_clear_variables_do_not_tell(folder, objective):
    plan = planned(folder, objective, text=PLAN.replace("[design]", '[release]\nas_is = ["c"]\n[design]'))
    assert plan.blocks[0].objective.clear == ("c", "d")
    found = blocks.design_blocks(plan)[0].design
    wanted = designed(SKEWED, 1.0)
    assert found.value == pytest.approx(wanted.value, rel=1e-9)
    assert (found.status, found.provenance) == ("optimal", "confidential")
    np.testing.assert_allclose(found.matrix.array, wanted.matrix.array, atol=1e-9)
    with pytest.warns(UnperturbedWarning, match="unperturbed variables reveal true values of x, which is perturbed: c"):
        release = run(plan, folder / "out", release_key=ReleaseKey.from_seed(1))
    assert verify(release.path).ok
    assert "0.6" not in (release.path / "certificate.json").read_text()  # no frequency of the file


def test_the_clear_variables_are_those_named(folder):
    usual = design(SKEWED.sum(axis=1), DifferentialPrivacy(1.0))
    found = blocks.design_blocks(planned(folder, '{ model = "whole-record", clear = ["d"] }'))[0].design
    assert found.value == pytest.approx(usual.value, rel=1e-6)  # d tells (nearly) nothing


def test_a_variable_that_is_perturbed_is_not_clear(folder):
    other = OWN + '[[blocks]]\nvariables = ["c"]\nprivacy = { model = "differential", epsilon = 0.5 }\n'
    assert planned(folder, '"whole-record"', other).blocks[0].objective.clear == ("d",)
    with pytest.raises(SpecificationError, match="'c' is in 'clear', but a block perturbs it"):
        planned(folder, '{ model = "whole-record", clear = ["c"] }', other)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ('{ model = "whole-record", clear = ["e"] }', "no variable 'e'"),
        ('{ model = "whole-record", clear = "c" }', "'clear' is not a list"),
        ('{ model = "whole-record", joint = [[1.0]] }', "unknown option 'joint'"),
    ],
)
def test_wrong_names_are_explained(folder, objective, message):
    with pytest.raises(SpecificationError, match=message):
        planned(folder, objective)


def test_the_whole_record_needs_frequencies(folder):
    with pytest.raises(SpecificationError, match="needs the frequencies of its variables together"):
        planned(folder, '"whole-record"', text=PLAN.replace('"file"', '"uniform"'))


def test_a_private_histogram_of_the_whole_table_is_in_the_account(folder):
    text = PLAN.replace('"file"', '"dp"\nprior_epsilon = 0.5')
    found = blocks.design_blocks(planned(folder, '"whole-record"', text=text))[0]
    assert found.block.prior_epsilon == 0.5
    assert found.design.provenance == "dp"
    wanted = designed(SKEWED, 1.0)  # noise of scale 4 on cells of hundreds of records
    np.testing.assert_allclose(found.matrix.array, wanted.matrix.array, atol=1e-9)


def test_strata_have_designs_of_their_own(folder):
    """Given c, the first stratum holds one category and the second the four others: c tells no more."""
    found = blocks.design_blocks(planned(folder, '"whole-record"', OWN + 'given = ["c"]\n'))[0]
    second = design(SKEWED[:, 1] / SKEWED[:, 1].sum(), DifferentialPrivacy(1.0))
    assert found.design.value == pytest.approx(0.4 * second.value, rel=1e-6)


def test_a_share_follows_what_the_whole_record_keeps(folder):
    both = 'privacy = { model = "share", weight = 2.0 }\n[[blocks]]\nvariables = ["d"]\nobjective = "information"\n'
    plan = planned(folder, '{ model = "whole-record", clear = ["c"] }', both)
    found = blocks.design_blocks(plan)
    assert sum(b.block.epsilon for b in found) == pytest.approx(1.5, rel=1e-6)
    usual = blocks.design_blocks(planned(folder, '"information"', both))
    assert found[0].block.epsilon < 0.5 < 1.0 < usual[0].block.epsilon  # little of x is left to tell beyond c


def test_too_many_combinations_are_refused(folder, monkeypatch):
    monkeypatch.setattr(whole, "MAX_CELLS", 29)
    with pytest.raises(
        DesignError, match=r"block 'x'.*too many combinations with the unperturbed variables|too many.*'x'"
    ):
        blocks.design_blocks(planned(folder, '"whole-record"'))
    monkeypatch.setattr(whole, "MAX_NOISY", 29)
    text = PLAN.replace('"file"', '"dp"\nprior_epsilon = 0.5')
    with pytest.raises(DesignError, match="too many combinations"):
        blocks.design_blocks(planned(folder, '"whole-record"', text=text))
