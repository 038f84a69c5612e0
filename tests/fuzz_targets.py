"""Every reader of a file that others wrote: for each, files to start from, and how it is called with other bytes."""

import contextlib
import hashlib
import io
import json
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import postrand as pr
from postrand import formats, release
from postrand.codebook.rule_files import read_rules
from postrand.engines.content import Content
from postrand.engines.journal import journaled
from postrand.errors import PostrandError
from postrand.formats import ReadSettings
from postrand.metadata.ddi_xml import read_ddi
from postrand.plan import load_plan
from postrand.plan.infer import infer, load_codebook
from postrand.plan.policy import load_policy
from postrand.recoding.tables import rows_of
from postrand.release import canonical_json, postrand_verify
from postrand.release.ledger import Ledger, Terms
from postrand.release.ledger_lines import Entry
from postrand.release.signature import SigningKey, load_public
from tests.both_verifiers import disagreement
from tests.conftest import ROOT
from tests.release_case import BOOK, LAW, make, rehash, released_table, without_missing

PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"
separator = ","
[engine]
name = "local"
threads = 2
memory_limit = "4GiB"
[privacy]
model = "differential"
epsilon = 3.0
[design]
objective = "information"
prior = "dp"
prior_epsilon = 0.1
[[blocks]]
variables = ["sex"]
privacy = { model = "differential", epsilon = 1.0 }
matrix = [[0.75, 0.25], [0.25, 0.75]]
[[numerical]]
variables = ["pay"]
method = { model = "rank-blocks", k = 10 }
[release]
as_is = ["age"]
format = "csv"
[metadata]
title = "a"
[ledger]
file = "people.ledger"
population = "people"
limit = 9
"""
CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
labels = ["Female", "Male"]
[[variables]]
name = "region"
role = "key"
categories = ["n", "e"]
[[variables]]
name = "age"
role = "key"
categories = ["0-17", "18-64", "65+"]
ordered = true
[[recodes]]
variable = "age"
bands = [0, 18, 65]
[[variables]]
name = "pay"
role = "sensitive"
type = "double"
[[rules]]
sex = ["F"]
region = ["n"]
"""
POLICY = """
[[rules]]
measure = "tau2"
at_most = 0.01
[[rules]]
measure = "k"
at_least = 3
share_below = 0.05
[[rules]]
measure = "effective_records"
at_least = 100
tables = [["sex", "region"]]
[[rules]]
measure = "unperturbed"
never = ["pay"]
"""
PROJECT_PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 1.0
[[blocks]]
variables = ["sex"]
"""
PROJECT_BOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]
""" + "".join(
    f'[[variables]]\nname = "{name}"\nrole = "drop"\ntype = "string"\n' for name in ("region", "pay", "day", "note")
)
BATCH = pa.RecordBatch.from_pydict({"sex": pa.array([0, 1, 1], pa.uint8())})
TEXT = 'sex,region,pay,day,note\nF,n,1.5,2020-01-31,\nM,e,,2021-02-28,"a,""b"""\nF,,-3,,é\n'
DDI = """<codeBook xmlns="ddi:codebook:2_5"><dataDscr><var name="sex"><labl>Sex</labl><catgry missing="Y">
<catValu>9</catValu><labl>none</labl></catgry><catgry><catValu>1</catValu><labl>F</labl></catgry></var></dataDscr>
</codeBook>"""


class Target(NamedTuple):
    """``seeds`` makes files to start from in a new folder; ``read`` reads one from there."""

    suffix: str
    seeds: Callable[[Path], Iterable[bytes]]
    read: Callable[[Path], object]
    prepare: Callable[[Path, bytes], Path] | None = None


def texts(*held: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [text.encode() for text in held]


def documented(*own: str) -> Callable[[Path], list[bytes]]:
    """Start from these texts, and from all examples of TOML that the guides have."""

    def seeds(folder: Path) -> list[bytes]:
        (folder / "codebook.toml").write_text(CODEBOOK)
        (folder / "survey.csv").write_text(TEXT)
        guides = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
        return [text.encode() for text in (*own, *re.findall(r"```toml\n(.*?)```", guides, re.DOTALL))]

    return seeds


def every_batch(path: Path, settings: ReadSettings | None = None) -> None:
    """Read a file as `init` and `protect` do: settings found, codebook inferred, all records read."""
    found = formats.placed(path, settings or formats.detected(path))
    source = formats.read(found)
    rows = sum(batch.num_rows for batch in source.batches())
    assert source.num_rows in (None, rows)
    infer(source)


def in_many_ways(path: Path) -> None:
    """Read a text file as it is, and with settings that it may not fit."""
    settings = (
        None,
        ReadSettings(encoding="utf-16"),
        ReadSettings(encoding="windows-1252", separator=";", decimal=",", thousands="."),
    )
    for one in settings:
        with_own_error(every_batch, path, one)


def with_own_error(read: Callable[..., object], *arguments: Any) -> bool:
    """Call a reader; an error of the tree is its answer, and every other is passed on."""
    try:
        read(*arguments)
    except PostrandError as error:
        if not str(error).replace("\n", "").strip().isprintable():
            raise ValueError("a message that steers the terminal, or none") from error
        return False
    return True


def table_seed(suffix: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        table = (without_missing()[0] if suffix in (".dta", ".xpt") else released_table()).slice(0, 20)
        path = folder / f"seed{suffix}"
        with formats.open_writer(path, table.schema) as sink:
            for batch in table.to_batches():
                sink.write(batch)
        return [path.read_bytes()]

    return seeds


def packed(suffix: str) -> Callable[[Path, bytes], Path]:
    """Put text into an archive: damage to the archive itself is a target of its own."""

    def prepare(folder: Path, data: bytes) -> Path:
        path = folder / f"case.csv{suffix}"
        if suffix == ".gz":
            path.write_bytes(data)
            return path
        path = folder / "case.zip"
        path.write_bytes(data)
        return path

    return prepare


def archive_seeds(folder: Path) -> list[bytes]:
    import gzip

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a.csv", TEXT)
    return [held.getvalue(), gzip.compress(TEXT.encode(), mtime=0)]


PART = b"\n=====\n"


def workbook_seeds(folder: Path) -> list[bytes]:
    """Return the parts of workbooks, one after the other: the texts are mutated, and packed again."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for row in (["sex", "pay", "day"], ["F", 1.5, "x"], ["M", None, True], ["F", 3, "x"]):
        sheet.append(row)
    book.save(folder / "seed.xlsx")
    with zipfile.ZipFile(folder / "seed.xlsx") as archive:
        return [PART.join(name.encode() + b"\n" + archive.read(name) for name in archive.namelist())]


def workbook(folder: Path, data: bytes) -> Path:
    path = folder / "case.xlsx"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are given twice
        for part in data.split(PART):
            name, _, content = part.partition(b"\n")
            archive.writestr(name.decode("latin-1").replace("\0", "") or "x", content)
    return path


def canonical(data: bytes) -> bytes:
    """Return JSON in the one form that releases have; what is no JSON stays as it is."""
    try:
        return canonical_json.dump(json.loads(data))
    except (ValueError, RecursionError, PostrandError):
        return data


def release_seeds(name: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        make(folder / "release", released_table().slice(0, 30), data_name="data.csv")
        return [(folder / "release" / name).read_bytes()]

    return seeds


def in_release(name: str) -> Callable[[Path, bytes], Path]:
    """Exchange a file of a release, and the manifest that fits it, as a forger would."""

    def prepare(folder: Path, data: bytes) -> Path:
        root = folder / "forged"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(folder / "release", root)
        (root / name).write_bytes(canonical(data) if name.endswith(".json") else data)
        if name != "manifest.json":
            rehash(root)
        return root

    return prepare


def verified(root: Path) -> None:
    """Verify a release with both programs, and read it."""
    found = release.verify(root, raise_if_failed=False)
    assert not (differ := disagreement(root, found)), (differ, found.problems)
    with_own_error(lambda: release.read(root).frame())


def released(name: str) -> Target:
    return Target("", release_seeds(name), verified, in_release(name))


def fixture_seeds(*names: str) -> Callable[[Path], list[bytes]]:
    """Return whole releases as JSON, of which the objects and the texts are changed alike."""

    def held(path: Path) -> object:
        return json.loads(path.read_text("utf-8")) if path.suffix == ".json" else path.read_text("utf-8")

    def seeds(_: Path) -> list[bytes]:
        roots = [ROOT / "tests" / "fixtures" / "releases" / "3" / name for name in names]
        return [json.dumps({p.name: held(p) for p in sorted(root.iterdir())}).encode() for root in roots]

    return seeds


def unpacked(folder: Path, data: bytes) -> Path:
    """Write the files that an object of JSON holds, and the sizes and digests that fit them."""
    root = folder / "alone"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    try:
        held = json.loads(data)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        return root
    names = [name for name in held if re.fullmatch(r"[A-Za-z0-9_.]{1,60}", name)]
    contents = {name: _content(held[name]) for name in names if name not in (".", "..")}
    manifest = held.get("manifest.json")
    if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict):
        digests = {n: hashlib.sha256(content).hexdigest() for n, content in contents.items()}
        files = {n: {"bytes": len(c), "sha256": digests[n]} for n, c in contents.items() if n != "manifest.json"}
        contents["manifest.json"] = _content({**manifest, "files": files})
    for name, content in contents.items():
        (root / name).write_bytes(content)
    return root


def _content(value: object) -> bytes:
    return value.encode("utf-8", "replace") if isinstance(value, str) else canonical(json.dumps(value).encode())


def alone(root: Path) -> None:
    """Verify by the file that needs nothing: it answers with a code and sentences, whatever it is given."""
    said = postrand_verify.verify(str(root))
    assert said.code in (0, 7, 9), said.lines
    assert said.code == 0 or any(outcome in ("WRONG", "not checked") and text for outcome, _, text in said.lines)


def ledger_seeds(folder: Path) -> list[bytes]:
    ledger = Ledger(folder / "seed.ledger")
    for number, kind in enumerate(("first", "wave")):
        entry = Entry.of(Content(number), "aa" * 32, 1.0, f"release {number}")
        ledger.charge(entry, Terms(population="panel", kind=kind)).note(f"{number:064x}")
    return [ledger.path.read_bytes()]


def journal_seeds(folder: Path) -> list[bytes]:
    list(journaled(folder / "seed", "a" * 64, lambda _: iter([(BATCH, None)]), lambda _: None))
    (part,) = (folder / "seed").glob("*.arrow")
    return [part.read_bytes(), (folder / "seed" / "run.json").read_bytes()]


def journal(folder: Path, data: bytes) -> Path:
    """Put bytes in the place of a part of a run's journal, with the digest that fits; or of its note."""
    root = folder / "journal"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(0o700)
    is_note = data[:1] in b"{["
    (root / "run.json").write_bytes(data if is_note else b'{"run": "%s"}' % (b"a" * 64))
    if not is_note:
        (root / f"000000-{hashlib.sha256(data).hexdigest()[:32]}.arrow").write_bytes(data)
    return root


def project_seeds(_: Path) -> list[bytes]:
    files: dict[str, object] = {"survey.csv": TEXT, "codebook.toml": PROJECT_BOOK, "plan.toml": PROJECT_PLAN}
    digests = {"plan.toml": "", "codebook.toml": ""}
    files["project.json"] = {"schema": "postrand/project/1", "made": "2031", "files": digests}
    return [json.dumps(files).encode()]


def project(root: Path) -> None:
    """Open a project as the workbench does; its plan and codebook have the digests that it states."""
    from postrand.app.plans import open_plan  # loads all rooms, which every other target would wait for
    from postrand.app.projects import plan_of, release_of

    stated = root / "project.json"
    with contextlib.suppress(ValueError, RecursionError, OSError):
        held = json.loads(stated.read_bytes())
        if isinstance(held, dict) and isinstance(files := held.get("files"), dict):
            present = [name for name in files if re.fullmatch(r"\w+\.toml", name) and (root / name).is_file()]
            new = {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in present}
            stated.write_text(json.dumps({**held, "files": {**files, **new}}))
    found: Any = None
    try:
        found = open_plan(plan_of(root), root)
    finally:
        release_of(root, found, 1)


TARGETS: dict[str, Target] = {
    "codebook": Target(".toml", documented(CODEBOOK), load_codebook),
    "plan": Target(".toml", documented(PLAN), load_plan),
    "policy": Target(".toml", documented(POLICY), load_policy),
    "rules": Target(".csv", texts("sex,region\nF,n\n"), lambda path: read_rules(path, BOOK)),
    "recode table": Target(".csv", texts("from,to\na,b\n"), lambda path: rows_of(path.name, path.parent, "table")),
    "DDI": Target(".xml", texts(DDI), read_ddi),
    "ledger": Target(".ledger", ledger_seeds, lambda path: Ledger(path).read()),
    "saved mechanism": Target(".json", lambda folder: _saved(folder), pr.load_mechanism),
    "key": Target(".key", texts("ab" * 32), pr.load_key),
    "signing key": Target(".pem", lambda _: [b"-----BEGIN PRIVATE KEY-----\n"], lambda p: _keys(p)),
    "CSV": Target(".csv", texts(TEXT, TEXT.replace(",", ";")), in_many_ways),
    "zip": Target("", archive_seeds, every_batch, packed(".zip")),
    "gzip": Target("", archive_seeds, every_batch, packed(".gz")),
    "Excel": Target(".xlsx", workbook_seeds, every_batch, workbook),
    **{s: Target(s, table_seed(s), every_batch) for s in (".parquet", ".arrow", ".sav", ".dta", ".xpt")},
    **{n: released(n) for n in ("codebook.json", "mechanism.json", "certificate.json", "manifest.json", "data.csv")},
    "description.json": released("description.json"),
    "journal": Target(
        "", journal_seeds, lambda root: list(journaled(root, "a" * 64, lambda _: iter(()), lambda _: None)), journal
    ),
    "project": Target("", project_seeds, project, unpacked),
    "verifier": Target("", fixture_seeds("split", "averaged", "permuted", "completed"), alone, unpacked),
}


def _saved(folder: Path) -> list[bytes]:
    LAW.save(folder / "law.json", replace=True)
    return [(folder / "law.json").read_bytes()]


def _keys(path: Path) -> None:
    path.chmod(0o600)
    with_own_error(SigningKey.load, path)
    load_public(path)


def attempt(name: str, folder: Path, data: bytes) -> bool:
    """Give bytes to a reader; returns whether it took them, and raises what is not an error of the tree."""
    target = TARGETS[name]
    if target.prepare is None:
        path = folder / f"case{target.suffix}"
        path.write_bytes(data)
    else:
        path = target.prepare(folder, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return with_own_error(target.read, path)
