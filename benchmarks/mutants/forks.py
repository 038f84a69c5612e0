"""A plugin of pytest that runs the tests of one mutant after the other, each in a fork of one process.

In a fork the code of the changed function replaces that of the loaded one, wherever it is referred to; so decorated
functions, methods and properties are changed as well. A changed constant is set in each module that has taken it.
"""

import ast
import gc
import importlib
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from benchmarks.mutants.operators import Module, Mutant

HEAVY = ("duckdb", "pandas", "polars", "dp_accounting.pld.privacy_loss_distribution", "scipy.stats", "scipy.optimize")
KILLED, SURVIVED, STUCK = "killed", "survived", "time"
MEMORY = 6 << 30


@dataclass
class Forks:
    """Runs the mutants in the loop of a session of pytest whose tests are collected."""

    root: Path
    modules: Mapping[str, Module]
    mutants: Sequence[Mutant]
    covering: Mapping[str, set[str]]
    runs: Mapping[str, int]
    budget: float
    done: Callable[[Mutant, str, str], None]
    killers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    functions: dict[tuple[str, str, int], list[FunctionType]] = field(default_factory=lambda: defaultdict(list))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants in place of the tests."""
        items = {item.nodeid: item for item in session.items}
        for name in HEAVY:
            importlib.import_module(name)
        self._index()
        gc.collect()
        gc.freeze()  # or each fork would go through, and so copy, all that the parent holds
        for mutant in self.mutants:
            wanted = self.covering[mutant.name]
            self.done(mutant, *self._run(mutant, [items[name] for name in self._order(mutant, wanted & items.keys())]))
        return True

    def _index(self) -> None:
        files = {str(self.root / path): path for path in self.modules}
        for path in self.modules:
            importlib.import_module(path.removeprefix("src/").removesuffix(".py").replace("/", "."))
        for entry in gc.get_objects():
            if isinstance(entry, FunctionType) and entry.__code__.co_filename in files:
                code = entry.__code__
                self.functions[files[code.co_filename], code.co_qualname, code.co_firstlineno].append(entry)

    def _order(self, mutant: Mutant, names: set[str]) -> list[str]:
        """Return the tests: finders of mutants of the function and file, then those that run least of the core."""
        known = self.killers[mutant.path]
        first = [name for name, _ in self.killers[f"{mutant.path} {mutant.function}"].most_common(3) if name in names]
        first += [name for name, _ in known.most_common(3) if name in names and name not in first]
        return first + sorted(names.difference(first), key=lambda name: (self.runs[name], name))

    def _run(self, mutant: Mutant, items: list[pytest.Item]) -> tuple[str, str]:
        """Return what became of the mutant, and the test that found it."""
        if not items:
            return SURVIVED, "no test reaches it"
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.close(read)
            _only_processor(self.budget)
            self._child(mutant, items, write)
        os.close(write)
        state = _wait(child, 20 * self.budget)
        with open(read, "rb") as told:
            last = told.read().decode().split("\n")[-1]
        if state == 0:
            return SURVIVED, ""
        self.killers[mutant.path][last] += 1
        self.killers[f"{mutant.path} {mutant.function}"][last] += 1
        return (KILLED if state == 1 else STUCK), last

    def _child(self, mutant: Mutant, items: list[pytest.Item], write: int) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(null, number)
        state = 1
        try:
            self._change(mutant)
            state = 0
            begin = time.process_time()
            for place, item in enumerate(items):
                os.write(write, b"\n" + item.nodeid.encode())
                following = items[place + 1] if place + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if item.session.testsfailed:
                    state = 1
                    break
                if time.process_time() - begin > self.budget:
                    break
        except BaseException:  # whatever a mutant brings down is found
            state = 1
        finally:
            os._exit(state)

    def _change(self, mutant: Mutant) -> None:
        module = self.modules[mutant.path]
        mutant.edit()
        filename = str(self.root / mutant.path)
        compiled = compile(module.tree, filename, "exec", dont_inherit=True)
        codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(compiled, mutant.function)}
        found = [(function, key) for key in codes for function in self.functions.get((mutant.path, *key), [])]
        for function, key in found:
            function.__code__ = codes[key]
        if not found:
            _set(module, mutant)


def _codes(code: CodeType, function: str) -> list[CodeType]:
    inner = [entry for entry in code.co_consts if isinstance(entry, CodeType)]
    return [entry for entry in inner if entry.co_qualname == function] + [
        deeper for entry in inner if function.startswith(f"{entry.co_qualname}.") for deeper in _codes(entry, function)
    ]


def _set(module: Module, mutant: Mutant) -> None:
    """Compute a constant anew, and set it wherever the old one is known by its name."""
    name = module.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    names = sys.modules[name].__dict__
    statement = next(
        node
        for node in module.tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == mutant.function
    )
    old = names[mutant.function]
    new = eval(compile(ast.Expression(statement.value), name, "eval"), dict(names))
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(mutant.function, other) is old:
            setattr(other, mutant.function, new)


def _only_processor(budget: float) -> None:
    limit = int(2 * budget + 10)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait(child: int, seconds: float) -> int:
    """Return 0 or 1 as the fork says, 2 if it had to be ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 2
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 2


def reached(covered: Mapping[str, Mapping[int, set[str]]], mutant: Mutant, module: Module) -> set[str]:
    """Return the tests that run a line of the mutant; of a constant, the lines of its file that name it."""
    lines = set(range(mutant.lines[0], mutant.lines[1] + 1))
    if any(isinstance(node, ast.Assign) and node.lineno in lines for node in module.tree.body):
        named = (node for node in ast.walk(module.tree) if isinstance(node, ast.Name) and node.id == mutant.function)
        lines = {node.lineno for node in named if isinstance(node.ctx, ast.Load)}
    found = covered.get(mutant.path, {})
    return {test for line in lines for test in found.get(line, ())}


def run_by(covered: Mapping[str, Mapping[int, set[str]]]) -> Counter[str]:
    """Return how many lines of the core each test runs."""
    return Counter(test for lines in covered.values() for tests in lines.values() for test in tests)
