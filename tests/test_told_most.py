"""What unperturbed columns and household sizes say most of a perturbed one: against counting by hand."""

import json
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.mechanism import Block, Mechanism, Units
from postrand.mechanism.matrix import randomised_response
from postrand.risk.findings import find
from postrand.risk.household_sizes import OF_SIZE

AGES, AREAS = ("young", "middle", "old"), ("north", "south")


def people(seed: int, by_size: float) -> dict[str, list]:
    """Return persons of whom weights are larger in the north, and who are young in large households."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 900)
    house, size = np.repeat(np.arange(900), sizes), np.repeat(sizes, sizes)
    age = np.where(rng.random(house.size) < by_size * (size > 2), 0, rng.integers(0, 3, house.size))
    area = rng.integers(0, 2, house.size)
    weight = np.where(rng.random(house.size) < 0.6, 10 + 10 * area, 30)
    named = {"age": [AGES[k] for k in age], "area": [AREAS[k] for k in area]}
    return {**named, "hid": house.tolist(), "wgt": weight.tolist(), "size": size.tolist()}


def best(rows: dict[str, list], about: str, by: list[str]) -> float:
    """Return the share of right guesses that the best guess adds, counted record by record."""
    held: defaultdict[tuple, Counter] = defaultdict(Counter)
    for value, seen in zip(rows[about], zip(*(rows[name] for name in by), strict=True), strict=True):
        held[seen][value] += 1
    right = sum(max(counts.values()) for counts in held.values())
    return (right - max(Counter(rows[about]).values())) / len(rows[about])


def told(rows: dict[str, list], household: str = "household"):
    table = pa.table({name: values for name, values in rows.items() if name != "size"})
    book = Codebook(
        (
            Variable("age", "key", AGES),
            Variable("area", "key", AREAS),
            Variable("hid", household, type="int64"),
            Variable("wgt", "weight", type="int64"),
        )
    )
    units = Units("hid", 4) if household == "household" else None
    law = Mechanism([Block(name, randomised_response(size, 1.0)) for name, size in (("age", 3), ("area", 2))], book)
    law = Mechanism(law.blocks, book, units=units)
    return find(TableSource(table), book, law, ["age", "area", "hid", "wgt"], exempt=["hid"])


@pytest.mark.parametrize(("seed", "by_size"), [(1, 0.0), (2, 0.2), (3, 0.6)])
def test_the_best_guess_of_all_is_that_of_counting_by_hand(seed: int, by_size: float) -> None:
    rows = people(seed, by_size)
    found = told(rows)
    ways = {"wgt": ["wgt"], OF_SIZE: ["size"], f"wgt, {OF_SIZE}": ["wgt", "size"]}
    known = {(one.perturbed, one.clear) for one in found.pairs if one.is_much}
    gains = {
        (about, way): best(rows, about, by)
        for about in ("age", "area")
        for way, by in ways.items()
        if (about, way.partition(",")[0]) not in known
    }
    assert found.most is not None
    key = found.most.perturbed, found.most.clear
    assert gains[key] == pytest.approx(found.most.right - found.most.blind)
    assert gains[key] == pytest.approx(max(gains.values()))


def test_it_is_said_inside_alone_in_hundreds() -> None:
    found = told(people(3, 0.6))
    (line,) = found.quiet
    assert line.startswith(
        "Beside this, of all perturbed variables, age is the one that unperturbed columns tell best: of 100 guesses "
    )
    assert OF_SIZE in line
    assert line in found.inside
    assert line in found.brief
    assert line not in found.sentences
    assert "guesses from" not in json.dumps(found.to_dict())
    assert found.internal()["most"]["perturbed"] == "age"


def test_without_household_numbers_columns_alone_count() -> None:
    rows = people(1, 0.6) | {"hid": [0] * len(people(1, 0.6)["hid"])}
    found = told(rows, "other")
    assert found.most is not None
    assert (found.most.perturbed, found.most.clear) == ("age", "wgt")


@pytest.mark.parametrize("seed", range(4))
def test_a_column_of_many_values_that_says_nothing_is_not_named(seed: int) -> None:
    """Of 20 values at random the best guess is right more often, by chance: 3 in 100 of 600 records."""
    rng, n = np.random.default_rng(seed), 600
    age, noise = rng.integers(0, 3, n), rng.integers(0, 20, n)
    area = np.where(rng.random(n) < 0.7, age % 2, rng.integers(0, 2, n))
    rows = {"age": [AGES[k] for k in age], "area": [AREAS[k] for k in area], "hid": list(range(n))}
    chance = best(rows | {"wgt": noise.tolist()}, "age", ["wgt"])
    assert chance > 0.02
    said = told(rows | {"wgt": noise.tolist()}, "record_key").most
    assert said is not None
    assert said.gains_little
    tells = told(rows | {"wgt": np.where(rng.random(n) < 0.15, age, noise).tolist()}, "record_key").most
    assert tells is not None
    assert (tells.clear, tells.gains_little) == ("wgt", False)
