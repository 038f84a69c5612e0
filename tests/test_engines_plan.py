"""Certified releases from and into databases by plan: the table with its certificate, verified; every wrong input."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi
from click.testing import CliRunner, Result

import postrand as pr
from postrand.cli import main
from postrand.engines import placing
from postrand.engines.database import ADDRESS, Database
from postrand.engines.duckdb import DuckDBSource
from postrand.engines.postgres import PostgresSource, into_postgres
from postrand.errors import PostrandError, ReleaseError, SpecificationError
from postrand.release import bundle, canonical_json
from tests.postgres_server import server
from tests.test_engines import survey

POSTGRES = pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.xdist_group("postgres")])
every_database = pytest.mark.parametrize("kind", ["duckdb", POSTGRES])
ROLES = ["--key", "sex,age,area", "--sensitive", "ill", "--other", "weight", "--drop", "note", "--record-key", "id"]
KEY = bytes(range(32)).hex()


class Place:
    """A database of one kind, with the survey as the table ``persons``."""

    def __init__(self, kind: str, uri: str, run: Callable[[str], list[tuple[object, ...]]]) -> None:
        self.kind, self.uri, self.run = kind, uri, run


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as address:
        with into_postgres(address, "persons")(survey().schema) as writer:
            for batch in survey().to_batches():
                writer.write(batch)
        yield address


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if kind == "duckdb":
        path = tmp_path / "survey.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.register("given", survey())
            connection.execute("CREATE TABLE persons AS FROM given; CREATE SCHEMA out")

        def run(statement: str) -> list[tuple[object, ...]]:
            with duckdb.connect(str(path)) as connection:
                return connection.execute(statement).fetchall()

        return Place(kind, "duckdb:///survey.duckdb", run)
    uri = request.getfixturevalue("postgres")
    monkeypatch.setenv("PGUSER", "curator")

    def execute(statement: str) -> list[tuple[object, ...]]:
        with closing(dbapi.connect(uri)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            found = cursor.fetchall() if statement.startswith("SELECT") else []
            connection.commit()
            return list(found)

    execute("DROP SCHEMA IF EXISTS out CASCADE")
    execute("CREATE SCHEMA out")
    return Place(kind, uri, execute)


@pytest.fixture
def plan(place: Place, tmp_path: Path) -> Path:
    pq.write_table(survey(), tmp_path / "survey.parquet")
    done = call("init", tmp_path / "survey.parquet", "--out", tmp_path, *ROLES)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "plan.toml").read_text()
    (tmp_path / "file.toml").write_text(text)
    (tmp_path / "plan.toml").write_text(from_table(text, f'uri = "{place.uri}"\ntable = "persons"'))
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    return tmp_path / "plan.toml"


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def from_table(text: str, lines: str) -> str:
    return text.replace('file = "survey.parquet"', lines)


def into(plan: Path, lines: str) -> Path:
    """Return a plan that writes to a table."""
    text = plan.read_text().replace('\nformat = "same"', f"\n{lines}")
    changed = plan.with_name(f"into{len(list(plan.parent.glob('into*')))}.toml")
    changed.write_text(text)
    return changed


def protect(plan: Path, name: str, *more: object) -> pr.Release:
    out = plan.parent / name
    done = call("protect", "--plan", plan, "--out", out, "--key-file", plan.parent / "key", "--again", *more)
    assert done.exit_code == 0, done.output
    return pr.read_release(out)


def rows(release: pr.Release) -> list[dict[str, object]]:
    return sorted(release.frame().to_pylist(), key=str)


def with_split(path: Path) -> Path:
    """Return the plan with sex and age in a split, in place of a block each."""
    text = path.read_text()
    for name in ("sex", "age"):
        text, count = re.subn(rf'\[\[blocks\]\]\nvariables = \["{name}"\]\nprivacy = .*\n', "", text)
        assert count == 1
    changed = path.with_name(f"split_{path.name}")
    changed.write_text(text + '\n[split]\nvariables = ["sex", "age"]\nepsilon = 2.0\nprior = "file"\n')
    return changed


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
@every_database
def test_a_split_release_from_a_table_into_a_table(place, plan):
    wanted = protect(with_split(plan.with_name("file.toml")), "wanted")
    made = protect(into(with_split(plan), f'uri = "{place.uri}"\ntable = "out.released"'), "made")
    assert made.mechanism == wanted.mechanism
    assert made.mechanism.partly == ("sex", "age")
    assert rows(made) == rows(wanted)
    shown = {row["age"] for row in rows(made)}
    assert {"10", "20", "30"} < shown <= {"10", "20", "30", None, "(not released)"}
    verified = call("verify", made.path, "--plan", plan.with_name("into0.toml"), "--key-file", plan.parent / "key")
    assert verified.exit_code == 0, verified.output


@every_database
def test_a_table_is_read_twice_also_for_a_dossier(place, plan, monkeypatch):
    source: type[DuckDBSource] | type[PostgresSource] = DuckDBSource if place.kind == "duckdb" else PostgresSource
    inner, readings = source.batches, list[object]()

    def noted(self: Any, *about: Any) -> Any:
        readings.append(about)
        return inner(self, *about)

    monkeypatch.setattr(source, "batches", noted)
    protect(plan, "made", "--dossier", plan.parent / "inside")
    assert len(readings) == 2, readings


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
@every_database
def test_a_release_from_a_table_into_a_table(place, plan):
    wanted = protect(plan.with_name("file.toml"), "wanted")
    target = into(plan, f'uri = "{place.uri}"\ntable = "out.released"')
    made = protect(target, "made")
    assert {p.name for p in made.path.iterdir()} >= {"table.json", "manifest.json", "certificate.json", "report.html"}
    assert not list(made.path.glob("data*"))
    stated = json.loads((made.path / "table.json").read_text())
    assert (stated["table"], stated["records"], stated["columns"]) == (
        "out.released",
        survey().num_rows,
        list(made.codebook.names),
    )
    assert "curator" not in (made.path / "table.json").read_text()
    assert rows(made) == rows(wanted)
    names = ", ".join(made.codebook.names)
    assert sorted(place.run(f"SELECT {names} FROM out.released"), key=str) == [tuple(r.values()) for r in rows(made)]
    assert made.mechanism == wanted.mechanism
    for words in (
        ("verify", made.path),
        ("verify", made.path, "--plan", target, "--key-file", plan.parent / "key"),
        ("verify", made.path, "--file", plan.with_name("survey.parquet"), "--key-file", plan.parent / "key",
         "--record-key", "id"),
        ("estimate", made.path, "--table", "sex,age"),
        ("report", made.path, "--out", plan.parent / f"page{len(list(plan.parent.glob('page*')))}.html"),
    ):  # fmt: skip
        done = call(*words)
        assert done.exit_code == 0, done.output
    assert "The release is what it claims to be" in call("verify", made.path).output


@every_database
@pytest.mark.parametrize(
    "change",
    ["UPDATE out.t SET sex = CASE sex WHEN 'F' THEN 'M' ELSE 'F' END WHERE weight = 1", "DELETE FROM out.t WHERE ill",
     "INSERT INTO out.t (sex, ill, weight) VALUES ('F', true, 1)", "UPDATE out.t SET weight = weight + 1",
     "ALTER TABLE out.t ADD COLUMN id int", "DROP TABLE out.t"],
)  # fmt: skip
def test_a_table_that_was_changed_does_not_verify(place, plan, change):
    made = protect(into(plan, f'uri = "{place.uri}"\ntable = "out.t"'), "made")
    assert pr.verify(made.path).ok
    place.run(change)
    done = call("verify", made.path)
    assert done.exit_code == 7, done.output
    with pytest.raises(PostrandError):
        made.frame()


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
@every_database
def test_a_file_becomes_a_table_and_a_table_a_file(place, plan):
    wanted = rows(protect(plan.with_name("file.toml"), "wanted"))
    made = protect(into(plan.with_name("file.toml"), f'uri = "{place.uri}"\ntable = "out.a"'), "made")
    assert rows(made) == wanted
    file = protect(plan, "file")
    assert file.data_path.name == "data.parquet"
    assert rows(file) == wanted
    query = "SELECT * FROM persons WHERE ill OR NOT ill -- all;"
    text = plan.read_text().replace('table = "persons"', f'query = "{query}"')
    plan.write_text(text)
    assert rows(protect(into(plan, 'format = "csv"'), "query")) == wanted


@every_database
def test_without_a_record_key_the_order_leaves_no_ties(place, plan):
    book = plan.parent / "codebook.toml"
    book.write_text(book.read_text().replace('role = "record_key"', 'role = "drop"'))
    text = plan.read_text()
    plan.write_text(text.replace('table = "persons"', 'table = "persons"\norder = ["sex", "id"]'))
    one = protect(plan, "one")
    assert pr.verify(one.path, file=pr.load_plan(plan).source, release_key=bytes.fromhex(KEY)).ok
    plan.write_text(text.replace('table = "persons"', 'query = "SELECT * FROM persons ORDER BY sex, id"'))
    assert rows(protect(plan, "two")) == rows(one)
    for lines, said in (
        ('table = "persons"\norder = ["sex", "age"]', "neither a fixed order nor"),
        ('query = "SELECT * FROM persons ORDER BY sex"', "neither a fixed order nor"),
        ('table = "persons"\norder = ["ids"]', "no column 'ids' (did you mean 'id'?)"),
    ):
        plan.write_text(text.replace('table = "persons"', lines))
        done = call("protect", "--plan", plan, "--out", plan.parent / "three")
        assert done.exit_code in (2, 4)
        assert said in done.output


@every_database
def test_a_table_that_exists_is_kept_or_replaced_whole(place, plan):
    first = protect(into(plan, f'uri = "{place.uri}"\ntable = "out.t"'), "first")
    before = sorted(place.run("SELECT * FROM out.t"), key=str)
    again = into(plan, f'uri = "{place.uri}"\ntable = "out.t"')
    done = call("protect", "--plan", again, "--out", plan.parent / "again")
    assert done.exit_code == 7
    assert (
        "table 'out.t': the table already exists. Next: name another table, or set if_exists = 'replace'" in done.output
    )
    assert not (plan.parent / "again").exists()
    replaces = into(plan, f'uri = "{place.uri}"\ntable = "out.t"\nif_exists = "replace"')
    done = call("protect", "--plan", replaces, "--out", plan.parent / "no folder" / "again")  # fails before the table
    assert done.exit_code == 7
    assert sorted(place.run("SELECT * FROM out.t"), key=str) == before
    done = call("protect", "--plan", replaces, "--out", plan.parent / "second")
    assert done.exit_code == 0, done.output
    assert sorted(place.run("SELECT * FROM out.t"), key=str) != before
    assert pr.verify(plan.parent / "second").ok
    assert call("verify", first.path).exit_code == 7
    left = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'out'"
    assert place.run(left) == [("t",)]


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
@every_database
def test_releases_with_marks_share_a_table(place, plan):
    first = into(plan, f'uri = "{place.uri}"\ntable = "out.t"\nif_exists = "append"\nmark = "it\'s 2025"')
    one = protect(first, "one")
    second = into(plan, f'uri = "{place.uri}"\ntable = "out.t"\nif_exists = "append"\nmark = "2026"')
    two = protect(second, "two")
    assert rows(one) == rows(two)
    counted = place.run("SELECT postrand_release, count(*) FROM out.t GROUP BY 1 ORDER BY 1")
    assert counted == [("2026", survey().num_rows), ("it's 2025", survey().num_rows)]
    done = call("protect", "--plan", second, "--out", plan.parent / "three")
    assert done.exit_code == 7
    assert "the table already contains records of a release with the mark '2026'. Next: use another mark" in done.output
    place.run("DELETE FROM out.t WHERE postrand_release = '2026' AND ill")
    assert call("verify", two.path).exit_code == 7
    assert call("verify", one.path).exit_code == 0  # the records of others are none of its own
    place.run("ALTER TABLE out.t ADD COLUMN more int")
    third = into(plan, f'uri = "{place.uri}"\ntable = "out.t"\nif_exists = "append"\nmark = "2027"')
    done = call("protect", "--plan", third, "--out", plan.parent / "three")
    assert done.exit_code == 7
    assert "the columns of the table differ from the columns of the release" in done.output


@every_database
def test_a_run_that_fails_leaves_neither_table_nor_folder(place, plan, monkeypatch):
    target = into(plan, f'uri = "{place.uri}"\ntable = "out.t"')
    replaces = into(plan, f'uri = "{place.uri}"\ntable = "out.old"\nif_exists = "replace"')
    place.run("CREATE TABLE out.old (a int)")
    derive = bundle.derive
    monkeypatch.setattr(bundle, "derive", broken)
    for made in (target, replaces):
        done = call("protect", "--plan", made, "--out", plan.parent / "made")
        assert isinstance(done.exception, Broken)
    monkeypatch.setattr(bundle, "derive", derive)

    def commit(*_: object, **__: object) -> None:
        raise ReleaseError("the database is lost")

    monkeypatch.setattr(placing, "_named", commit)  # after the folder has its name
    done = call("protect", "--plan", target, "--out", plan.parent / "made")
    assert done.exit_code == 7
    assert "the database is lost" in done.output
    assert not (plan.parent / "made").exists()
    found = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'out'"
    assert place.run(found) == [("old",)]
    assert place.run("SELECT count(*) FROM out.old") == [(0,)]


class Broken(Exception):
    pass


def broken(*_: object) -> None:
    raise Broken


@every_database
def test_every_wrong_source_is_explained(place, plan):
    place.run("CREATE TABLE out.none (a int)")
    text = plan.read_text()
    for lines, code, said in (
        ('table = "nothing"', (2, 4), "no table 'nothing'|the table or schema does not exist"),
        ('table = "out.none"', (4,), "returns no records"),
        ('query = "SELECT 1; DELETE FROM persons"', (3,), "the query is more than one statement"),
        ('query = "SELECT 1 /* ; */; DROP TABLE persons; --"', (3,), "the query is more than one statement"),
        ('query = "DELETE FROM persons"', (3,), "the query does not read"),
        ('query = "WITH gone AS (DELETE FROM persons RETURNING id) SELECT * FROM gone"', (4,), "could not carry out"),
        ('query = "SELECT * FROM persons WHERE"', (4,), "could not carry out"),
        ('query = "SELECT id FROM persons"', (4,), "no column 'sex'"),
        ('table = "persons"\nquery = "SELECT 1"', (3,), "both a table and a query are named"),
        ("", (3,), "neither a table nor a query is named"),
        ('table = "persons"\nfile = "survey.parquet"', (3,), "both a file and a database are named"),
        ('table = ".persons"', (3,), "not a valid name of a table"),
        ('table = 5', (3,), "'table' is not text"),
        ('table = "persons"\norder = "id"', (3,), "'order' is not a list of names"),
        ('table = "persons"\norder = ["id", "id"]', (3,), "'order' names a column twice"),
        ('query = "SELECT * FROM persons"\norder = ["id"]', (3,), "'order' is only for a table"),
    ):  # fmt: skip
        plan.write_text(text.replace('table = "persons"', lines))
        done = call("protect", "--plan", plan, "--out", plan.parent / "made")
        assert done.exit_code in code, (lines, done.output)
        assert re.search(said, done.output), (lines, done.output)
    assert place.run("SELECT count(*) FROM persons") == [(survey().num_rows,)]


@pytest.mark.parametrize("kind", [POSTGRES])
def test_a_table_that_views_rest_on_is_not_replaced(place, plan):
    place.run("CREATE TABLE out.t (a int)")
    place.run("CREATE VIEW out.seen AS SELECT a FROM out.t")
    made = into(plan, f'uri = "{place.uri}"\ntable = "out.t"\nif_exists = "replace"')
    done = call("protect", "--plan", made, "--out", plan.parent / "made")
    assert done.exit_code == 7
    assert "other objects, such as views, depend on the table; got SQLSTATE 2BP01" in done.output
    assert not (plan.parent / "made").exists()
    assert place.run("SELECT count(*) FROM out.t") == [(0,)]


LOST = """
CREATE TABLE out.lost_when AS SELECT 'reading' AS step;

CREATE FUNCTION out.passes(here text) RETURNS boolean AS $$ SELECT CASE
WHEN here = (SELECT step FROM out.lost_when) THEN pg_terminate_backend(pg_backend_pid()) ELSE true END $$ LANGUAGE sql;

CREATE VIEW out.given AS SELECT * FROM persons
WHERE id <> 200 OR current_query() NOT LIKE 'COPY%' OR out.passes('reading');

CREATE FUNCTION out.passes() RETURNS trigger AS $$ BEGIN PERFORM out.passes(TG_ARGV[0]); RETURN NEW; END
$$ LANGUAGE plpgsql;

CREATE FUNCTION out.watched() RETURNS event_trigger AS $$ DECLARE made record; BEGIN
FOR made IN SELECT object_identity AS name FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP
EXECUTE format('CREATE TRIGGER one BEFORE INSERT ON %s FOR EACH ROW WHEN (NEW.weight = 3)
EXECUTE FUNCTION out.passes(''writing'')', made.name);
EXECUTE format('CREATE CONSTRAINT TRIGGER two AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION out.passes(''committing'')', made.name);
END LOOP; END $$ LANGUAGE plpgsql;

CREATE EVENT TRIGGER watched ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION out.watched()
"""
"""What ends the connection from within: at a record of COPY out of a view or into a new table, or in the commit."""


@pytest.mark.parametrize("kind", [POSTGRES])
def test_a_connection_lost_in_the_midst_leaves_nothing_and_the_next_run_completes(place, plan):
    for statement in LOST.split("\n\n"):
        place.run(statement)
    plan.write_text(plan.read_text().replace('table = "persons"', 'table = "out.given"'))
    target, out = into(plan, f'uri = "{place.uri}"\ntable = "out.t"'), plan.parent / "made"
    true, before = place.run("SELECT * FROM persons ORDER BY id"), sorted(plan.parent.iterdir())
    lost = r"postrand: database 'postgres' at 127\.0\.0\.1: .* the connection was lost.* Next: .* run again; {}\.\n"
    for step, code, left in (
        ("reading", 4, "nothing was written"),
        ("writing", 7, "nothing was written"),
        ("committing", 7, "the new table may exist: if it does, drop it before the next run"),
    ):
        place.run(f"UPDATE out.lost_when SET step = '{step}'")
        done = call("protect", "--plan", target, "--out", out)
        assert done.exit_code == code
        assert re.fullmatch(lost.format(left), done.stderr), done.stderr
        assert sorted(plan.parent.iterdir()) == before
        assert place.run("SELECT * FROM persons ORDER BY id") == true
        assert place.run("SELECT tablename::text FROM pg_tables WHERE schemaname = 'out'") == [("lost_when",)]
    place.run("UPDATE out.lost_when SET step = 'never'")
    assert call("protect", "--plan", target, "--out", out).exit_code == 0
    assert pr.verify(out).ok
    assert place.run("SELECT * FROM persons ORDER BY id") == true


@every_database
def test_every_wrong_target_is_explained(place, plan):
    place.run("CREATE VIEW out.seen AS SELECT 1 AS a")
    for lines, code, said in (
        ('table = "out.t"\nif_exists = "apend"', 3, "unknown if_exists 'apend' (did you mean 'append'?)"),
        ('table = "out.t"\nif_exists = "append"', 3, "could not be distinguished from records of other releases"),
        ('table = "out.t"\nformat = "csv"', 3, "a release in a table has no file format"),
        ("", 3, "the table of the release is not named"),
        ('table = "out.seen"', 7, "the table already exists"),
        ('table = "out.seen"\nif_exists = "replace"', 7, "could not carry out"),
        ('table = "nowhere.t"', 7, "could not carry out"),
    ):
        made = into(plan, f'uri = "{place.uri}"\n{lines}')
        done = call("protect", "--plan", made, "--out", plan.parent / "made")
        assert (done.exit_code, said in done.output) == (code, True), (lines, done.output)
        assert not (plan.parent / "made").exists()


@pytest.mark.parametrize(
    "uri",
    ["postgresql://curator:s3cretPW@h/d", "postgresql://h/d?password=s3cretPW", "postgres://:s3cretPW@h/d",
     "postgresql://h/d?sslpassword=s3cretPW", "host=h password=s3cretPW dbname=d", "postgresql://curator:s3cr@tPW@h/d",
     "postgresql://curator@h:s3cretPW/d", "duckdb://s3cretPW", "mysql://curator:s3cretPW@h/d", "s3cretPW",
     "postgresql://h/d?options=-cs3cretPW", "duckdb:///a?password=s3cretPW", "postgresql://h/s3cretPW#@", ""],
)  # fmt: skip
@pytest.mark.parametrize("part", ["source", "release"])
def test_an_address_with_a_password_is_refused_and_not_shown(tmp_path, uri, part):
    lines = {"source": "", "release": ""} | {part: f"uri = '{uri}'\ntable = 't'\n"}
    (tmp_path / "plan.toml").write_text(f"[source]\n{lines['source']}\n[release]\n{lines['release']}")
    with pytest.raises(SpecificationError) as caught:
        pr.load_plan(tmp_path / "plan.toml")
    text = str(caught.value)
    assert f"plan.toml [{part}]: the address" in text
    assert not any(piece in text for piece in ("s3cr", "PW", "curator"))
    with pytest.raises(SpecificationError):
        Database(uri)


def test_what_a_release_tells_of_its_database(tmp_path):
    for uri, told in (
        ("postgresql://curator@db.example:5432/census?sslmode=require", "postgresql://db.example:5432/census"),
        ("postgres://[::1]/census", "postgresql://[::1]/census"),
        ("postgresql:///?service=census&user=me", "postgresql:///?service=census"),
        (f"duckdb:///{tmp_path}/out/x.duckdb", "duckdb:///../out/x.duckdb"),
    ):
        assert Database(uri).public(tmp_path / "release") == told
        Database(told)  # and can be read again
    assert Database("duckdb:///x.duckdb", folder=tmp_path).path == tmp_path / "x.duckdb"
    for name in ("a b", "$PW", "s3cret-PW"):
        with pytest.raises(SpecificationError, match="not the name of a variable") as caught:
            Database("postgresql://h/d", name)
        assert name not in str(caught.value)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server that asks for a password; the survey is in it."""
    with server("s3cretPW/@:") as address:
        with_password = f"{address}?password=s3cretPW%2F%40%3A"
        with into_postgres(with_password, "persons")(survey().schema) as writer:
            for batch in survey().to_batches():
                writer.write(batch)
        yield address


@pytest.mark.postgres
@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", ["duckdb"])
def test_the_password_comes_from_the_environment_or_a_service_file(guarded, plan, monkeypatch, tmp_path):
    text = plan.with_name("file.toml").read_text()
    host, port = guarded.split("@")[1].split("/")[0].split(":")
    for name in ("PGUSER", "PGPASSWORD", "PGSERVICEFILE", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)

    def tried(lines: str, uri: str = guarded) -> Result:
        plan.write_text(from_table(text, f'uri = "{uri}"\ntable = "persons"\n{lines}'))
        done = call("protect", "--plan", plan, "--out", tmp_path / f"made{len(list(tmp_path.glob('made*')))}")
        assert not any(piece in done.output for piece in ("s3cretPW", "wrongPW"))
        return done

    assert "the server does not accept this user or password" in tried("").output
    monkeypatch.setenv("PGPASSWORD", "wrongPW")
    assert "the server does not accept this user or password" in tried("").output
    monkeypatch.setenv("PGPASSWORD", "s3cretPW/@:")
    assert tried("").exit_code == 0
    monkeypatch.delenv("PGPASSWORD")
    done = tried('password_from = "CENSUS_PASSWORD"')
    assert done.exit_code == 2
    assert "the environment has no variable 'CENSUS_PASSWORD'" in done.output
    monkeypatch.setenv("CENSUS_PASSWORD", "s3cretPW/@:")
    assert tried('password_from = "CENSUS_PASSWORD"').exit_code == 0
    (tmp_path / "services").write_text(
        f"[census]\nhost={host}\nport={port}\nuser=curator\ndbname=postgres\npassword=s3cretPW/@:\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert tried("", "postgresql:///?service=census").exit_code == 0
    done = tried("", "postgresql:///?service=nothing")
    assert done.exit_code == 4
    assert "the service is unknown. Next: check its name in ~/.pg_service.conf" in done.output
    # a released table: whoever verifies it logs in as themselves
    made = into(plan, 'uri = "postgresql:///?service=census"\ntable = "released"')
    made.write_text(made.read_text().replace("service=nothing", "service=census"))
    release = protect(made, "table")
    assert "service=census" in (release.path / "table.json").read_text()
    assert call("verify", release.path).exit_code == 0
    monkeypatch.delenv("PGSERVICEFILE")
    done = call("verify", release.path)
    assert done.exit_code == 9, done.output
    assert "the service is unknown" in done.output
    monkeypatch.setenv(ADDRESS, guarded)
    assert call("verify", release.path).exit_code == 9
    monkeypatch.setenv("PGPASSWORD", "s3cretPW/@:")
    assert call("verify", release.path).exit_code == 0
    monkeypatch.setenv(ADDRESS, f"{guarded}?password=s3cretPW")
    done = call("verify", release.path)
    assert done.exit_code == 7
    assert f"{ADDRESS}: the address contains a password" in done.output
    assert "s3cretPW" not in done.output


@pytest.mark.parametrize("kind", ["duckdb"])
def test_a_release_may_name_no_other_file(place, plan, tmp_path):
    """A release of strangers: its table must be a table, which reads nothing else, and its words are checked."""
    made = protect(into(plan, f'uri = "{place.uri}"\ntable = "out.t"'), "made")
    wanted = (made.path / "table.json").read_text()
    place.run(f"CREATE VIEW out.v AS SELECT * FROM read_csv('{tmp_path}/codebook.toml', all_varchar = true)")
    stated = json.loads(wanted)
    for change, said in (
        ({"table": "out.v"}, "could not carry out a query"),
        ({"table": "out.none"}, "no table 'out.none'"),
        ({"uri": "duckdb:///nowhere.duckdb"}, f"the DuckDB file of the released table is missing. Next: set {ADDRESS}"),
        ({"uri": "postgresql://h:x@y/d"}, "table.json: the address does not have the form"),
        ({"columns": ["sex"]}, "the columns are not those of the codebook"),
        ({"records": "many"}, "of another type"),
        ({"schema": "postrand/table/9"}, "unknown schema"),
        ({"sha256": "0" * 64}, "the table is not the one that was released"),
        ({"more": 1}, "a field is missing, unknown, or of another type"),
        ({"records": 3}, "the table is not the one that was released"),
    ):
        (made.path / "table.json").write_bytes(canonical_json.dump(stated | change))
        with pytest.raises(ReleaseError) as caught:
            pr.verify(made.path)
        assert said in str(caught.value), change
    (made.path / "table.json").write_text(wanted)
    assert pr.verify(made.path).ok
    (tmp_path / "moved").mkdir()
    (tmp_path / "survey.duckdb").rename(tmp_path / "moved" / "x.duckdb")
    with pytest.raises(ReleaseError, match="is missing"):
        pr.verify(made.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ADDRESS, f"duckdb:///{tmp_path}/moved/x.duckdb")
        assert pr.verify(made.path).ok


@every_database
def test_init_writes_codebook_and_plan_of_a_table(place, plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("init", "--uri", place.uri, "--table", "persons", "--out", tmp_path / "drafts", *ROLES)
    assert done.exit_code == 0, done.output
    loaded = pr.load_plan(tmp_path / "drafts" / "plan.toml")
    assert loaded.codebook.names == pr.load_plan(plan).codebook.names
    made = tmp_path / "made"
    assert call("protect", "--plan", tmp_path / "drafts" / "plan.toml", "--out", made).exit_code == 0
    assert call("verify", made, "--plan", tmp_path / "drafts" / "plan.toml").exit_code == 0
    for words, said in (
        ((), "no records are named"),
        (("--uri", place.uri), "neither a table nor a query"),
        (("survey.parquet", "--uri", place.uri, "--table", "persons"), "both a file and a database"),
        (("--uri", "postgresql://u:s3cretPW@h/d", "--table", "t"), "the address does not have the form"),
        (("--uri", place.uri, "--table", "persons", "--ddi", "survey.parquet"), "a DDI document describes a file"),
    ):
        done = call("init", *words, "--out", tmp_path / "more")
        assert done.exit_code == 2
        assert said in done.output
        assert "s3cretPW" not in done.output
