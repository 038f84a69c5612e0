"""No password in any message: addresses of databases, well formed or not, where a database or a file is expected."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import assume, example, given
from hypothesis import strategies as st

from postrand import formats
from postrand.address import HIDDEN, database_at, hidden
from postrand.cli import main
from postrand.engines.duckdb import DuckDBSource
from postrand.engines.postgres import _KINDS, PostgresSource, _complaint, into_postgres
from postrand.errors import PostrandError, sentence
from tests.test_engines import survey

FORMS = (
    "postgresql://curator:{}@db.example:5432/census",
    "postgres://curator:{}@db.example/census?sslmode=require",
    "postgresql://db.example/census?user=curator&password={}",
    "postgresql://curator:{}@/census",
    "postgresql://curator:{}/census",
    "postgresql://curator:{}",
    "postgresql:curator:{}@db.example",
    "host=db.example user=curator password={} dbname=census",
    "host=db.example user=curator password='{}' dbname=census",
    "password = {}",
    "host=db.example dbname=census password={}",
    "dbname=census password={} host",
)
# Not a piece of what stands around it: then a message would hold it without giving anything away.
PASSWORDS = st.text(min_size=6, max_size=20).filter(lambda text: text.strip() == text and len(set(text)) > 3)


@given(PASSWORDS, st.sampled_from(FORMS))
@example("se[cret@", FORMS[0])
@example("s3cr@t/pw", FORMS[0])
@example("12/secret", FORMS[0])
@example("12?secret#", FORMS[0])
@example("ab:cd/ef", FORMS[3])
@example("my secret", FORMS[7])
def test_a_database_is_named_without_its_password(password, form):
    told = database_at(form.format(password))
    assert told in ("the database", "database 'census' at db.example", "database 'census' at the default host")


@given(PASSWORDS, st.sampled_from(FORMS))
@example("0001 2", FORMS[6])
def test_a_password_in_the_place_of_a_file_is_not_echoed(password, form):
    address = form.format(password)
    assume("\0" not in address)
    # Nor of what is said of any password: "engine" is in the name of a page.
    assume(not any(password in text for text in (HIDDEN, *FORMS, *refusals(form.format("0 1 2 3")))))
    for said in refusals(address):
        assert password not in said
        assert password not in str(Path(said))


def refusals(address):
    """What is said of an address in the place of a file."""
    calls = (
        lambda: formats.read(address),
        lambda: formats.read(f"/data/{Path(address)}"),
        lambda: DuckDBSource("FROM x", Path(address)),
        lambda: formats.format_of(address),
    )
    for call in calls:
        with pytest.raises(PostrandError) as caught:
            call()
        yield str(caught.value)


def test_addresses_are_told_from_names():
    for name in ("survey.csv", "a/region=1/x.parquet", "C:/data/x.csv", "with spaces, and: colons.csv", "mail@x.csv"):
        assert hidden(name) == name
    for address in ("postgresql:/u:p@h/d", "md:census?motherduck_token=abc", "u:p@host/d", "host=h PASSWORD = p"):
        assert hidden(address) == HIDDEN
    assert "s3cret" not in sentence("no such file", where="postgresql://u:s3cret@h/d", got="password=s3cret")


@pytest.mark.parametrize("command", ["init", "assess", "estimate", "design"])
def test_the_command_line_does_not_echo_an_address(command):
    address = "postgresql://curator:s3cretPW@db.example/census"
    option = {"assess": ["--keys", "a", address], "estimate": ["--table", "a", address], "design": ["--plan", address]}
    done = CliRunner().invoke(main, [command, *option.get(command, [address])])
    assert done.exit_code == 2
    assert "s3cretPW" not in done.output
    assert "this looks like the address of a database; a file name is wanted" in done.output


def test_an_address_as_the_file_of_a_plan_is_not_echoed(tmp_path):
    from postrand.plan import load_plan

    (tmp_path / "plan.toml").write_text('[source]\nfile = "postgresql://u:s3cretPW@h/d"\ncodebook = "codebook.toml"\n')
    with pytest.raises(PostrandError) as caught:
        load_plan(tmp_path / "plan.toml")
    assert "s3cretPW" not in str(caught.value)


class Complaint(Exception):
    sqlstate: str | None = None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('FATAL:  password authentication failed for user "curator"', "does not accept this user or password"),
        ('FATAL:  database "x" does not exist', "the database does not exist"),
        ("server does not support SSL, but SSL was required", "SSL failed"),
        ("connection to server at \"h\" failed: Connection refused", "the server does not answer"),
        ('could not translate host name "h" to address', "is not reachable"),
        ('missing "=" after "s3cretPW" in connection info string', "the address is wrong"),
        ("something else about s3cretPW", "got Complaint"),
    ],
)  # fmt: skip
def test_failures_to_connect_are_told_apart(text, said):
    told = _complaint("the database", Complaint(text), "nothing is left")
    assert said in told
    assert "s3cretPW" not in told
    assert "curator" not in told


def test_states_are_told_apart():
    for codes, _, what, _ in _KINDS:
        for code in filter(None, codes.split("|")):
            error = Complaint("SSL password s3cretPW")  # words of the text do not count where there is a state
            error.sqlstate = code
            assert f"{what}; got SQLSTATE {code}" in _complaint("the database", error, "nothing is left")


@given(PASSWORDS)
@example("se[cret@")
def test_what_the_driver_says_of_an_address_stays_with_it(password):
    """Nothing listens there: the driver's text, which holds the address, is not passed on."""
    assume("\0" not in password)
    for form in ("postgresql://curator:{}@127.0.0.1:1/census", "host=127.0.0.1 port=1 user=curator password={}"):
        for use in (
            lambda a: PostgresSource(a, "SELECT 1"),
            lambda a: into_postgres(a, "t")(survey().schema).__enter__(),
        ):
            said = []
            for word in (password, "unlikely-3b1f"):
                address = form.format(word)
                with pytest.raises(PostrandError) as caught:
                    use(address)
                said.append(str(caught.value).replace(str(database_at(address)), ""))
                assert caught.value.__suppress_context__
            assert "unlikely-3b1f" not in said[1]
            assert password not in said[0] or password in said[1]  # such as ". Next", which every message has


def test_a_source_shows_neither_address_nor_query():
    source = DuckDBSource("SELECT 's3cretPW' AS a")
    assert "s3cretPW" not in repr(source)
    with pytest.raises(PostrandError) as caught:
        DuckDBSource("FROM postgres_scan('host=127.0.0.1 password=s3cretPW', 'public', 'persons')")
    assert "s3cretPW" not in str(caught.value)
