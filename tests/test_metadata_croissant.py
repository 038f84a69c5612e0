"""The reference reader of Croissant accepts the metadata of a release, and reads its records by them."""

import warnings

import pytest

from tests.release_case import RECORDS, make


@pytest.fixture(scope="module")
def croissant():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports warns of its own age
        import mlcroissant

    return mlcroissant


def test_the_reference_reader_finds_no_error_and_reads_every_record(tmp_path, croissant):
    make(tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = croissant.Dataset(jsonld=tmp_path / "out" / "croissant.json")
        assert list(found.metadata.issues.errors) == []
        (records,) = found.metadata.record_sets
        rows = list(found.records(records.id))
    assert len(rows) == RECORDS
    assert {name.rpartition("/")[2] for name in rows[0]} >= {"sex", "region", "work"}
