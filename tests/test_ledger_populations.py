"""A ledger with several populations: a release states its place among those of its own population."""

from postrand.certification.series import Level, series_from_dict
from postrand.release.ledger import Ledger
from postrand.release.ledger_lines import Entry
from postrand.release.ledger_terms import Terms


def _charged(book, population, kind="first"):
    entry = Entry(f"{population}{kind}", "m", 1.0, "r", "2026-01-01")
    charge = book.charge(entry, Terms(population=population, kind=kind))
    charge.note()
    return charge.series


def test_the_first_release_of_a_second_population_is_its_first(tmp_path):
    book = Ledger(tmp_path / "population.ledger")
    stated = [_charged(book, "patients"), _charged(book, "staff"), _charged(book, "patients", "wave")]
    assert [(one.population, one.number) for one in stated] == [("patients", 1), ("staff", 1), ("patients", 2)]
    for one in stated:
        assert series_from_dict(one.to_dict(), Level(1.0)) == one
    lines = book.read().lines
    assert [line.number for line in lines] == [1, 2, 3]
    assert [line.series for line in lines] == stated
