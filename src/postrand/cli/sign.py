"""The commands of signatures, and of the verifier in one file.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from postrand.cli.frame import FILE, FOLDER, Result, command
from postrand.errors import UsageError


@command
@click.argument("what", type=click.Choice(["new", "show"]))
@click.argument("file", type=FOLDER)
@click.option("--public", type=FOLDER, help="Write the public key to this new file, to be published.")
def key(what: str, file: Path, public: Path | None) -> Result:
    """Make or show the key with which an office signs its releases.

    'new' writes a secret key of Ed25519 to a new file that only its owner can read. Both print the public key and its
    fingerprint, which are no secrets: publish them, so that everybody can tell your releases from those of others.
    This is not a release key.

    \b
    postrand key new office.key --public office.pub
    postrand key show office.key
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.release.signature import SigningKey
    from postrand.support.saving import write_whole

    held = SigningKey.new() if what == "new" else SigningKey.load(file)
    if public is not None:
        write_whole(public, held.public_pem.encode())
    try:
        if what == "new":
            held.save(file)
    except UsageError:  # the private key was not written
        if public is not None:  # of a key that nobody has
            public.unlink()
        raise
    lines = [f"key: {file}, readable by its owner only", f"fingerprint: {held.fingerprint}", held.public_pem.rstrip()]
    data = {"key": str(file), "fingerprint": held.fingerprint, "public": held.public_pem}
    return data, "\n".join(lines)


@command
@click.argument("directory", type=FOLDER)
@click.option("--key", "key_file", type=FILE, required=True, help="The office's key, made by 'postrand key new'.")
def sign(directory: Path, key_file: Path) -> Result:
    """Sign a release. It is verified first: a release that does not verify is not signed.

    Writes signatures.json into the release, which changes no other file. A signature of another key stays.

    \b
    postrand sign release --key office.key
    postrand verify release --signer office.pub
    """  # noqa: D301 -- as above
    from postrand.release.signature import SigningKey
    from postrand.release.signing import sign as signed

    held = SigningKey.load(key_file)
    path = signed(directory, held)
    text = f"signed: {path}\nby {held.fingerprint}"
    return {"signature": str(path), "fingerprint": held.fingerprint}, text


@command
@click.option("--out", type=FOLDER, default=Path("postrand_verify.py"), show_default=True, help="The new file.")
def verifier(out: Path) -> Result:
    """Write the verifier in one file, which needs Python 3.9 or later and nothing else.

    Compare its SHA-256 with the one that docs/verification.md publishes, then run: python3 postrand_verify.py release
    """
    import hashlib
    from importlib import resources

    from postrand.support.saving import write_whole

    content = (resources.files("postrand.release") / "postrand_verify.py").read_bytes()
    write_whole(out, content)
    found = hashlib.sha256(content).hexdigest()
    text = f"verifier: {out}\nSHA-256: {found}\n\nNext: python3 {quote(str(out))} release"
    return {"verifier": str(out), "sha256": found}, text
