"""Every risk measure passes one suite, and brute force; what breaks a law is found, in a member of anybody's."""

import dataclasses
import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from postrand import risk
from postrand.errors import DataError, UsageError
from postrand.risk.cells import KeyCodes
from postrand.risk.file import RiskFile, household_numbers
from postrand.risk.measures import Unmeasured, base, kinds, measure_file
from postrand.risk.measures.base import Cost, Count, Fact, Histogram, Measured
from postrand.risk.measures.settings import settings_of
from postrand.testing import risk as suite

# -- brute force: by definition, from the records --------------------------------------------------------------------


def rows_of(file):
    return list(zip(*(c.tolist() for c in file.keys.codes), strict=True))


def classes_of(file):
    """The size of each record's class; a key of -1 agrees with every value."""
    rows = rows_of(file)
    return [sum(all(-1 in (x, y) or x == y for x, y in zip(row, other, strict=True)) for other in rows) for row in rows]


def brute_k_anonymity(file):
    sizes = classes_of(file)
    below = {f"records_below_{k}": sum(s < k for s in sizes) for k in (2, 3, 5)}
    return {"sample_uniques": sizes.count(1), "k": min(sizes, default=0), **below}


def brute_l_diversity(file):
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, value in zip(rows_of(file), file.columns["ill"].codes.tolist(), strict=True):
        groups.setdefault(row, []).append(value)
    entropies = []
    for values in groups.values():
        shares = [n / len(values) for n in Counter(values).values()]
        entropies.append(math.exp(-sum(s * math.log(s) for s in shares)))
    return {"ill_distinct": min(len(set(v)) for v in groups.values()), "ill_entropy": min(entropies)}


def inverse_by_summation(f, p):
    """E(1/F) over P(F=h) = C(h−1,f−1) p^f (1−p)^(h−f), summed until what is left is below 1e-12 of it."""
    chance, total, mass, h = p**f, 0.0, 0.0, f
    while mass < 1 - 1e-13 and h < 100_000:
        total, mass = total + chance / h, mass + chance
        chance *= h / (h - f + 1) * (1 - p)
        h += 1
    return total


def brute_person_risks(file):
    rows, weights = rows_of(file), file.inclusion_weights().tolist()
    found = []
    for row in rows:
        there = [w for other, w in zip(rows, weights, strict=True) if other == row]
        found.append(inverse_by_summation(len(there), len(there) / sum(there)))
    return found


def brute_individual(file):
    risks = brute_person_risks(file)
    facts = {"expected": sum(risks), "largest": max(risks, default=0), "high": sum(r > 0.2 for r in risks)}
    return {**facts, "mean": sum(risks) / max(len(risks), 1)}


def found_members(risks):
    """Enumerate who of a household is found, members independent: chances of at least one, and of all."""
    some = whole = 0.0
    for outcome in itertools.product([False, True], repeat=len(risks)):
        chance = math.prod(r if hit else 1 - r for r, hit in zip(risks, outcome, strict=True))
        some += chance * any(outcome)
        whole += chance * all(outcome)
    return some, whole


def brute_households(file):
    risks, homes = brute_person_risks(file), file.household.tolist()
    members = {h: [r for r, home in zip(risks, homes, strict=True) if home == h] for h in homes}
    found = {h: found_members(r) for h, r in members.items()}
    some = [s for s, _ in found.values()]
    return {
        "households": len(members),
        "expected": sum(some),
        "expected_persons": sum(found[h][0] for h in homes),
        "largest": max(some, default=0),
        "high": sum(s > 0.2 for s in some),
        "whole_expected": sum(w for _, w in found.values()),
        "whole_largest": max((w for _, w in found.values()), default=0),
    }


def brute_sub_sample(file):
    """Enumerate which records of each class are drawn, each with probability 0.1."""
    uniques = right = whole_uniques = 0.0
    none_whole = 1.0
    for size in Counter(rows_of(file)).values():
        whole = 0.0
        for drawn in itertools.product([0, 1], repeat=size):
            chance = 0.1 ** sum(drawn) * 0.9 ** (size - sum(drawn))
            alone = sum(drawn) == 1
            uniques += chance * alone
            right += chance * alone / size
            whole_uniques += chance * (alone and size == 1)
            whole += chance * (sum(drawn) == size)
        none_whole *= 1 - whole
    return {"uniques": uniques, "right": right, "whole_uniques": whole_uniques, "whole_class": 1 - none_whole}


def brute_suda(file):
    rows, size = rows_of(file), len(file.keys.names)
    sets = [s for k in range(1, size + 1) for s in itertools.combinations(range(size), k)]
    worth = {k: math.prod(size - i for i in range(k, size)) for k in range(1, size + 1)}
    scores, smallest = [], []
    for row in rows:
        unique = [s for s in sets if sum(all(other[j] == row[j] for j in s) for other in rows) == 1]
        minimal = [s for s in unique if not any(set(t) < set(s) for t in unique)]
        scores.append(sum(worth[len(s)] for s in minimal))
        smallest.append(min(map(len, minimal), default=0))
    sizes = {f"smallest_{k}": smallest.count(k) for k in range(1, size + 1)}
    mean = sum(scores) / max(len(scores), 1)
    return {"records": sum(s > 0 for s in scores), "largest_score": max(scores, default=0), "mean_score": mean, **sizes}


def brute_rare(file):
    rows, size = rows_of(file), len(file.keys.names)
    sets = [s for k in range(1, min(3, size) + 1) for s in itertools.combinations(range(size), k)]
    rare = [s for s in sets if any(n < 3 for n in Counter(tuple(row[j] for j in s) for row in rows).values())]
    return {"combinations": len(sets), "with_rare": len(rare)}


def brute_prosecutor(file):
    risks = [1 / s for s in classes_of(file)]
    facts = {"prosecutor_largest": max(risks, default=0), "prosecutor_high": sum(r > 0.2 for r in risks)}
    return {**facts, "prosecutor_mean": sum(risks) / max(len(risks), 1)}


ORACLES = {
    "attackers": brute_prosecutor,
    "households": brute_households,
    "individual": brute_individual,
    "k-anonymity": brute_k_anonymity,
    "l-diversity": brute_l_diversity,
    "rare-combinations": brute_rare,
    "sub-sample": brute_sub_sample,
    "suda": brute_suda,
}


@pytest.mark.parametrize("name", kinds())
def test_every_measure_passes_the_suite(name):
    suite.check(kinds()[name](), ORACLES.get(name))
    assert set(ORACLES) <= set(kinds())


@pytest.mark.parametrize("name", ORACLES)
def test_brute_force_finds_other_figures_of_another_file(name):
    """The oracles can fail: of the file with every record twice the figures are others, or the law of the classes."""
    file = suite.files()["few classes" if name == "l-diversity" else "weights"]
    other = suite.taken(file, np.arange(file.records // 2))
    assert ORACLES[name](file) != ORACLES[name](other)
    with pytest.raises(AssertionError, match="by brute force"):
        suite.check_oracle(kinds()[name](), file, lambda _: ORACLES[name](other), "half")


# -- a member of anybody's ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairs:
    """A third party's measure: the records that share their key values with one other."""

    name: ClassVar[str] = "pairs"
    title: ClassVar[str] = "Pairs"
    meaning: ClassVar[str] = "How many records share their key values with exactly one other."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def supports(self, file):
        """Say that missing keys are not supported."""
        return "Missing keys that match every value are not supported." if file.keys.has_wildcards else None

    def measure(self, file):
        """Count them."""
        if (reason := self.supports(file)) is not None:
            raise UsageError(reason)
        return self.found(file)

    def found(self, file):
        """Return the figures."""
        pairs = Count((file.frequency() == 2).sum())
        return Measured(self.name, self.title, (Fact("pairs", "Records in pairs", pairs),), records_at=self.risk(file))

    def risk(self, file):
        """Return 1/f."""
        return 1 / np.maximum(file.frequency(), 1)


def broken(**parts):
    return type("Broken", (Pairs,), parts)()


def test_a_measure_of_ones_own_passes_and_is_measured():
    suite.check(Pairs(), lambda file: {"pairs": classes_of(file).count(2)})
    found = risk.measure({"sex": ["F", "F", "M"]}, ["sex"], ["k-anonymity", Pairs()])
    assert found["pairs"]["pairs"] == 2
    assert "fewer than 5" in str(found)


def with_first_code(self, file):
    first = int(file.keys.codes[0][0]) if file.records else 0
    return Measured(self.name, self.title, (Fact("first", "First", float(first)),))


def with_largest_code(self, file):
    largest = int(file.keys.codes[0].max(initial=0) * 7 + (file.keys.codes[0] == 0).sum())
    return Measured(self.name, self.title, (Fact("largest", "Largest", float(largest)),))


def showing(self, file):
    class Loud(Measured):
        def to_dict(self):
            return {**Measured.to_dict(self), "facts": {f.key: int(f.value) for f in self.facts}}

    return Loud(self.name, self.title, (Fact("n", "Uniques", Count((file.frequency() == 1).sum())),))


def weights_as_risk(self, file):
    return file.inclusion_weights() if file.has_inclusion else np.zeros(file.records)


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        ({"found": with_first_code}, "records in another order"),
        ({"found": with_largest_code}, "categories in another order"),
        ({"found": showing}, "shows a small count"),
        ({"risk": lambda _, file: file.frequency().astype(float)}, "every record twice"),
        ({"risk": weights_as_risk}, "larger"),
        ({"risk": lambda _, file: np.zeros(3)}, "not one risk for each record"),
        ({"risk": lambda _, file: np.full(file.records, np.nan)}, "no number"),
        ({"supports": lambda _, file: "no" if file.keys.has_wildcards else None}, "not a sentence"),
        ({"supports": lambda _, file: "Nothing at all is supported."}, "no file is supported"),
        (
            {"supports": lambda _, file: "One is too few." if file.records < 2 else None, "measure": with_first_code},
            "does not refuse",
        ),
        ({"name": "Two words"}, "no name to type"),
        ({"meaning": "short."}, "not one sentence"),
    ],
)
def test_a_broken_measure_is_found(mutant, words):
    with pytest.raises(AssertionError, match=words):
        suite.check(broken(**mutant))


# -- the call -----------------------------------------------------------------------------------------------------


def frame(n=400):
    rng = np.random.default_rng(3)
    return {
        "age": [f"a{v}" for v in rng.geometric(0.3, n).clip(1, 8)],
        "area": [f"r{v}" for v in rng.integers(0, 6, n)],
        "ill": rng.choice(["yes", "no"], n),
        "h": np.repeat(np.arange(n // 4), 4),
        "w": rng.uniform(2, 30, n),
    }


def test_all_says_what_it_could_not_measure():
    found = risk.measure(frame(), ["age", "area"])
    left = {r.measure: r.reason for r in found.results if isinstance(r, Unmeasured)}
    assert set(left) == {"attackers", "groups", "households", "individual", "l-diversity", "latent-classes", "tau"}
    assert "--sampling-fraction" in left["individual"]
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["measures"]["households"] == {"measure": "households", "not_measured": left["households"]}
    assert "not measured" in str(found)
    with pytest.raises(UsageError, match="column of household numbers"):
        found["households"]
    with pytest.raises(UsageError, match="did you mean 'suda'"):
        found["sudda"]


def test_named_measures_that_cannot_be_measured_are_errors_all_at_once():
    with pytest.raises(UsageError) as error:
        risk.measure(frame(), ["age"], ["suda", "individual", "households"])
    assert [p.split(":")[0] for p in error.value.problems] == ["measure 'individual'", "measure 'households'"]


def test_wrong_names_and_options_are_errors_all_at_once():
    with pytest.raises(UsageError, match="did you mean 'suda'"):
        risk.measure(frame(), ["age"], "sudas")
    wrong = {"suda": {"max_size": 0}, "individual": {"limit": 1}}
    with pytest.raises(UsageError) as error:
        risk.measure(frame(), ["age"], ["suda", "individual"], settings=wrong)
    assert len(error.value.problems) == 2
    with pytest.raises(UsageError, match="the measure is not requested"):
        risk.measure(frame(), ["age"], ["suda"], settings={"groups": {"by": "ill"}})
    with pytest.raises(UsageError, match="both a sampling fraction and a weight"):
        RiskFile(KeyCodes(("a",), (1,), (np.zeros(1, int),)), 0.5, np.ones(1))
    with pytest.raises(DataError, match="did you mean 'age'"):
        risk.measure(frame(), ["agee"], "suda")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("suda", "not of the form that is wanted"),
        ("suda.max_size", "not of the form that is wanted"),
        ("suda.=3", "not of the form that is wanted"),
        (".x=3", "NAME"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        settings_of([text])


def test_options_are_numbers_truth_values_or_text():
    found = settings_of(["a.x=3", "a.y-z=0.5", 'b.x="3"', "b.y=north west", "c.d=true", "c.e=[1]"])
    assert found == {"a": {"x": 3, "y_z": 0.5}, "b": {"x": "3", "y": "north west"}, "c": {"d": True, "e": "[1]"}}
    with pytest.raises(UsageError, match="given twice"):
        settings_of(["a.x=3", "a.x=4"])


def test_the_result_is_what_assess_finds():
    """One piece of code: the figures that the summary has too are the same."""
    data = frame()
    report = risk.assess(data, ["age", "area"], weight="w", household="h", sensitive="ill")
    found = risk.measure(data, ["age", "area"], weight="w", household="h", sensitive="ill")
    assert found["k-anonymity"]["sample_uniques"] == report.sample_uniques
    assert found["individual"]["expected"] == pytest.approx(report.expected_reidentifications)
    np.testing.assert_array_equal(found["households"].records_at, report.records_at.household)
    assert found["tau"].to_dict()["facts"]["tau2"] == report.to_dict()["tau2"] == "<5"
    more = ["age", "area", "ill"]  # with more uniques than are hidden
    whole = risk.assess(data, more, weight="w").tau2_estimate
    assert whole is not None
    assert risk.measure(data, more, ["tau"], weight="w")["tau"]["tau2"] == whole.corrected
    assert found["l-diversity"]["ill_entropy"] == report.l_diversity["ill"].entropy
    assert report.readings is not None
    assert found["attackers"]["marketer"] == pytest.approx(report.readings.marketer)


def test_what_nobody_asked_for_and_shares_that_overlap_are_explained():
    found = risk.measure(frame(), ["age", "area"], ["groups", "suda"], sensitive="ill")
    assert found["groups"].notes == ("no variable to group by was named: ill is the first sensitive one",)
    assert "more than 1" in found["suda"].notes[0]


def test_groups_sum_to_the_file_and_small_ones_show_no_share():
    data = frame()
    data["region"] = ["x"] * 3 + ["y"] * 397
    found = risk.measure(data, ["age", "area"], "groups", weight="w", settings={"groups": {"by": "region"}})["groups"]
    rows = {row["region"]: row for row in found.table}
    assert sum(int(str(row["Records"])) for row in rows.values()) == 400
    assert rows["x"]["Share"] is None
    assert "fewer than 5" in str(found)
    assert found.to_dict()["table"][0]["Records"] in ("<5", 397)


def test_a_record_without_a_household_number_is_a_household_of_its_own():
    import pyarrow as pa

    numbers = household_numbers(pa.chunked_array([pa.array([7, None, 7, None, 3])]))
    assert len(set(numbers.tolist())) == 4
    assert numbers[0] == numbers[2]
    data = frame(8)
    data["h"] = [1, None, None, 1, None, 2, 2, 2]
    assert risk.measure(data, ["age"], "households", weight="w", household="h")["households"]["households"] == 5


def test_a_histogram_hides_small_counts_in_its_bars_too():
    drawn = [Histogram.of(np.array([0.3] * n + [0.9] * 8), "persons", (0.0, 0.5, 1.0)) for n in (1, 2, 3, 4)]
    assert len({h.text() for h in drawn}) == 1
    assert len({h.lengths() for h in drawn}) == 1
    assert [int(h.counts[0]) for h in drawn] == [1, 2, 3, 4]
    assert drawn[0].to_dict()["counts"] == ["<5", 8]
    assert Histogram.of(np.zeros(0), "persons").lengths() == (0.0,) * 10


def test_members_are_frozen_values_whose_options_have_defaults():
    for kind in kinds().values():
        assert dataclasses.is_dataclass(kind)
        assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
        assert kind() == kind()


def test_a_large_table_is_cut_in_text():
    names = tuple(f"v{i:02d}" for i in range(14))
    rng = np.random.default_rng(0)
    file = RiskFile(KeyCodes(names, (9,) * 14, tuple(rng.integers(0, 9, 60) for _ in names)))
    found = measure_file(file, [kinds()["rare-combinations"]()], named=True)["rare-combinations"]
    assert len(found.table) > 50
    assert "more rows" in str(found)
    assert len(found.to_dict()["table"]) == 50


def test_text_rounds_figures_of_risk_to_the_safe_side_and_json_keeps_them():
    assert [base.shown(x) for x in (0.18341, 0.1, 99.91, 1234.5, 0.0, 1.0)] == [
        "0.184",
        "0.1",
        "100",
        "1,235",
        "0",
        "1",
    ]
    least = base.Least(1.9987)
    assert (base.shown(least), base.plain(least)) == ("1.99", 1.9987)
