"""Check that a version is ready, and write its notes and digests: ``python -m tests.release``.

The version of pyproject.toml, both packages and CITATION.cff is one; the changelog has a dated section for it and
nothing unreleased; every file is committed. In dist/ then stand NOTES.md, the section of the changelog, and SHA256SUMS.
It says on which Pythons the packages were tried.
"""

import hashlib
import re
import subprocess
import sys
import tomllib

import postrand
from tests.conftest import ROOT

DIST = ROOT / "dist"
TRIED = ROOT / "build" / "pythons.txt"
NOBODY = "@example.org"  # R asks for an address of its maintainer; this domain belongs to nobody
WANTED = ("*.whl", "*.tar.gz", "sbom.json")


def versions():
    """Return the version by the file that states it."""
    fields = {"CITATION.cff": "version", "r/postrand/DESCRIPTION": "Version"}
    found = {
        name: re.search(rf"^{field}: (.+)$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
        for name, field in fields.items()
    }
    return {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"],
        "postrand": postrand.__version__,
        **{name: stated[1] if stated else None for name, stated in found.items()},
    }


def sections(text):
    """Return the title and the text of each section of a changelog, newest first."""
    parts = re.split(r"^## \[(.+?)\](.*)$", text, flags=re.MULTILINE)[1:]
    return [(name, rest.strip(" -"), body.strip()) for name, rest, body in zip(*[iter(parts)] * 3, strict=True)]


def problems(stated, found, status):
    """Say what is not ready: ``stated`` versions by file, ``found`` sections of the changelog, ``status`` of git."""
    version = stated["postrand"]
    yield from (
        f"{where}: version {got}, and the package has {version}" for where, got in stated.items() if got != version
    )
    dated = {name: date for name, date, _ in found}
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", dated.get(version, "")):
        yield f"CHANGELOG.md: no section '## [{version}] - YEAR-MONTH-DAY'"
    if any(body for name, _, body in found if name == "Unreleased"):
        yield f"CHANGELOG.md: the section Unreleased is not empty. Next: move it into [{version}]"
    if status:
        yield f"git: {len(status.splitlines())} files are not committed"


def main():
    """Write the notes and the digests, or say what is missing."""
    found = sections((ROOT / "CHANGELOG.md").read_text("utf-8"))
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if wrong := list(problems(versions(), found, status)):
        sys.exit("\n".join(["not ready:", *wrong]))
    made = sorted(path for pattern in WANTED for path in DIST.glob(pattern))
    notes = next(body for name, _, body in found if name == postrand.__version__)
    (DIST / "NOTES.md").write_text(f"# postrand {postrand.__version__}\n\n{notes}\n", encoding="utf-8")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in made]
    (DIST / "SHA256SUMS").write_text("".join(f"{line}\n" for line in sums), encoding="utf-8")
    tried = ", ".join(dict.fromkeys(TRIED.read_text("utf-8").splitlines()))
    said = ["ready, not uploaded:", *sums, f"tried with: {tried}; no other supported Python is at hand"]
    said.append(f"Next: git tag v{postrand.__version__}, then upload dist/")
    if NOBODY in (ROOT / "r" / "postrand" / "DESCRIPTION").read_text("utf-8"):
        said.append("for an archive of R packages: write its maintainer's address into r/postrand/DESCRIPTION")
    sys.stdout.write("\n".join([*said, ""]))


if __name__ == "__main__":
    main()
