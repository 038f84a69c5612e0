"""The verifier in one file beside the package's own: what the one may pass that the other refuses, and why."""

import importlib.util
import json
import os
import types
from pathlib import Path

from postrand import release
from tests.conftest import ROOT

FILE = ROOT / "src" / "postrand" / "release" / "postrand_verify.py"
CODES = {0: "verified", 7: "failed", 9: "incomplete"}
# Checks of the package that the file leaves out, and says so: words and bytes that a library wrote, and what needs more
# than the release.
LEFT_OUT = {"derived", "bytes", "copies_bytes", "published", "redone", "file", "values", "drawn", "rendered"}
# Where the data are no CSV, their digest alone is checked: the exit code is 9, never 0.
OF_THE_DATA = {"data", "margins", "copies", "copies_said", "records", "stated"}
# Numerical bounds (level of the file, every order) are "not checked" alone; the package has them in "certificate".
NUMERICAL = ("file", "claim ", "columns")  # the last: claims of tables that are no CSV


def load():
    """Return the file as a module of its own, as who has only the file would."""
    spec = importlib.util.spec_from_file_location("alone", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ALONE = load()


def disagreement(root: Path, full: release.Verification) -> str:
    """Return how the two differ beyond what is listed, or an empty text."""
    found = ALONE.verify(str(root))
    said = "; ".join(f"{name}: {text}" for outcome, name, text in found.lines if outcome in ("WRONG", "not checked"))
    if full.verdict != "failed":
        worse = found.code == 7 or (found.code == 9 and not said)
        return f"{full.verdict}, and alone {CODES[found.code]}: {said}" if worse else ""
    if found.code == 7:
        return ""
    failed = {check.name for check in full.checks if check.outcome == "failed" and check.code != "check.stands_on"}
    if any(o == "not checked" and name.startswith(NUMERICAL) for o, name, _ in found.lines):
        failed -= {"certificate"}
    other = failed - LEFT_OUT - (OF_THE_DATA if found.code == 9 else set())
    return f"{sorted(other)} fails, and alone {CODES[found.code]}: {said}" if other else ""


def watch() -> None:
    """From now on, let every verification of a release in any test be made by both; ``POSTRAND_BOTH=1`` asks for it."""
    made = release.verify
    own = types.FunctionType(made.__code__, made.__globals__, "verify", made.__defaults__, made.__closure__)
    own.__kwdefaults__ = made.__kwdefaults__

    def both(*arguments, **options):
        from tests.both_verifiers import compared  # the name's code is taken alone, without what surrounds it

        return compared(*arguments, **options)

    made.__code__, made.__defaults__, made.__kwdefaults__ = both.__code__, None, None
    globals()["_own"] = own


def compared(directory, **options):
    """Verify by both, note the figures in the file that POSTRAND_BOTH names, and refuse a disagreement."""
    raising = options.pop("raise_if_failed", True)
    full = _own(directory, raise_if_failed=False, **options)
    moved = "left_out_added_or_moved" in os.environ.get("PYTEST_CURRENT_TEST", "")  # the order of fields is not told
    differ = "" if moved or options.get("manifest_sha256") else disagreement(Path(directory), full)
    with Path(os.environ["POSTRAND_BOTH"]).open("a") as file:
        file.write(json.dumps([full.verdict, CODES[ALONE.verify(str(directory)).code], differ]) + "\n")
    assert not differ, differ
    return full if not raising else _own(directory, **options)


def _own(*arguments, **options):
    raise AssertionError("watch() sets this")
