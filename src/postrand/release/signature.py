"""Signatures of releases: Ed25519 (RFC 8032) over an in-toto statement on the manifest, in a DSSE envelope.

``signatures.json`` lies beside the manifest, which cannot list it: it names the manifest by its SHA-256, and so every
file that the manifest lists. Keys are PEM files, as other programs make and read them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postrand.errors import ReleaseError, UsageError, sentence
from postrand.release import canonical_json
from postrand.release.bundle import CERTIFICATE, DESCRIPTION, MANIFEST, SIGNATURE, file_digest
from postrand.release.checks import Audit, Phrase
from postrand.support import saving
from postrand.support.system import open_plain, others_may

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "urn:postrand:release-statement:1"
MOST = 16
"""The most signatures of a release."""
_ENVELOPE = {"payloadType", "payload", "signatures"}
_ENTRY = {"keyid", "sig", "public"}
_LONGEST = 4096
_MAKE = "make one with 'postrand key new office.key'"


def fingerprint(public: bytes) -> str:
    """Return the name of a public key (32 bytes): ``sha256:`` and the SHA-256 in hexadecimal.

    >>> fingerprint(bytes(32))[:20]
    'sha256:66687aadf862b'
    """
    return f"sha256:{hashlib.sha256(public).hexdigest()}"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key of an office that signs releases; its secret is never shown.

    Examples
    --------
    >>> key = SigningKey.new()
    >>> key, len(key.sign(b"text")), key.fingerprint == fingerprint(key.public)
    (SigningKey(), 64, True)
    """

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> SigningKey:
        """Draw a key from the operating system."""
        return cls(os.urandom(32))

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a key that :meth:`save` wrote.

        Raises
        ------
        UsageError
            If the file cannot be read, holds anything else, or others can read it; the message never shows it.
        """
        from cryptography.hazmat.primitives import serialization  # slow to load: only who signs needs it
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        held, shared = _read(path)
        if shared:
            what, fix = "others can read this key, and can sign as its owner", f"chmod 600 {Path(path).name}"
            raise UsageError(sentence(what, where=Path(path).name, fix=f"{fix}, or make another one"))
        try:
            key = serialization.load_pem_private_key(held, None)
        except (ValueError, TypeError):  # TypeError: it has a password
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            wanted = "a private key of Ed25519 in PEM form, without a password"
            raise UsageError(sentence("no key that signs", where=Path(path).name, wanted=wanted, fix=_MAKE))
        return cls(key.private_bytes_raw())

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner can read; raises UsageError if the file exists."""
        from cryptography.hazmat.primitives import serialization as form  # as above

        written = self._key().private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        saving.write_whole(path, written, mode=0o600)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return bytes(self._key().public_key().public_bytes_raw())

    @property
    def public_pem(self) -> str:
        """The public key as the text of a PEM file."""
        der = base64.b64encode(_DER + self.public).decode()
        return f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"

    @property
    def fingerprint(self) -> str:
        """The name of the key."""
        return fingerprint(self.public)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return bytes(self._key().sign(message))

    def _key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # as above

        return Ed25519PrivateKey.from_private_bytes(self.secret)


_DER = bytes.fromhex("302a300506032b6570032100")
"""What precedes the 32 bytes of a public key of Ed25519 (RFC 8410)."""


def load_public(path: str | Path) -> bytes:
    """Return the 32 bytes of a public key from a PEM file; raises UsageError where it holds anything else."""
    text = _read(path)[0].decode("ascii", "replace").split()
    middle = "".join(text[3:-3])
    framed = text[:3] == ["-----BEGIN", "PUBLIC", "KEY-----"] and text[-3:] == ["-----END", "PUBLIC", "KEY-----"]
    try:
        der = base64.b64decode(middle, validate=True) if framed else b""
    except ValueError:  # no base64
        der = b""
    if len(der) != len(_DER) + 32 or not der.startswith(_DER):
        fix = "show it with 'postrand key show office.key --public office.pub'"
        wanted = "a public key of Ed25519 in PEM form"
        raise UsageError(sentence("no public key", where=Path(path).name, wanted=wanted, fix=fix))
    return der[len(_DER) :]


def _read(path: str | Path) -> tuple[bytes, bool]:
    try:
        with open(path, "rb", opener=open_plain) as file:
            return file.read(_LONGEST), others_may(os.fstat(file.fileno()))
    except (OSError, ValueError) as error:  # ValueError: the name has a null character
        got = getattr(error, "strerror", None) or "no name of a file"
        raise UsageError(sentence("the key cannot be read", where=str(path), got=got, fix=_MAKE)) from None


def statement(root: Path) -> dict[str, Any]:
    """Return what is signed: the manifest by its SHA-256; title, version and claims for whoever reads it alone."""
    manifest = canonical_json.read(root / MANIFEST)
    description = canonical_json.read(root / DESCRIPTION) if DESCRIPTION in manifest["files"] else {}
    claims = canonical_json.read(root / CERTIFICATE)["claims"]
    date = {"date": description["date_published"]} if "date_published" in description else {}
    return {
        "_type": STATEMENT,
        "subject": [{"name": MANIFEST, "digest": {"sha256": file_digest(root / MANIFEST)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "title": description.get("title", ""),
            "version": manifest["package"]["version"],
            "claims": [{name: value for name, value in claim.items() if name != "sentence"} for claim in claims],
            **date,
        },
    }


def encoded(payload: bytes) -> bytes:
    """Return the bytes that are signed: the envelope's pre-authentication encoding of the statement.

    >>> encoded(b"{}")
    b'DSSEv1 28 application/vnd.in-toto+json 2 {}'
    """
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def signers(root: Path) -> list[bytes]:
    """Return the public keys by which a release is signed, in order; [] where it is not.

    Raises
    ------
    ReleaseError
        If there is an envelope, and it is not well formed, a signature is not valid, or it is on another release.
    """
    if not (root / SIGNATURE).exists():
        return []
    try:
        envelope = canonical_json.read(root / SIGNATURE)
        entries = _entries(envelope)
        payload = _bytes(envelope["payload"])
        found = json.loads(payload)
        keys = [_checked(entry, encoded(payload)) for entry in entries]
        wanted = statement(root)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):  # another shape
        raise ReleaseError(sentence("not the envelope of a signature", where=SIGNATURE)) from None
    if canonical_json.dump(found) != canonical_json.dump(wanted):
        fix = "do not use this release, or delete the file if you do not need its signature"
        raise ReleaseError(sentence("what is signed is not this release", where=SIGNATURE, fix=fix))
    return keys


def _entries(envelope: Mapping[str, Any]) -> list[dict[str, str]]:
    entries = envelope["signatures"]
    good = set(envelope) == _ENVELOPE and envelope["payloadType"] == PAYLOAD_TYPE and 0 < len(entries) <= MOST
    if not good or not all(set(entry) == _ENTRY for entry in entries):
        raise ValueError
    return list(entries)


def _checked(entry: Mapping[str, str], message: bytes) -> bytes:
    from cryptography.exceptions import InvalidSignature  # slow to load: only signed releases need it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from postrand.release.postrand_verify import ed25519  # stricter: it refuses keys that anybody can sign with

    public, sig = _bytes(entry["public"]), _bytes(entry["sig"])
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(sig, message)
        valid = entry["keyid"] == fingerprint(public) and ed25519(public, message, sig)
    except InvalidSignature:
        valid = False
    if not valid:
        raise ReleaseError(sentence("a signature is not valid", where=SIGNATURE, fix="do not use this release"))
    return public


def _bytes(text: str) -> bytes:
    content = base64.b64decode(text, validate=True)
    if base64.b64encode(content).decode() != text:
        raise ValueError
    return content


def envelope_of(root: Path, key: SigningKey) -> bytes:
    """Return the content of ``signatures.json`` with one more signature, by this key.

    Raises
    ------
    UsageError
        If the key has signed already, or 16 have.
    """
    held = signers(root)
    if key.public in held or len(held) >= MOST:
        what = "the release is already signed by this key" if key.public in held else "16 keys have signed already"
        raise UsageError(sentence(what, where=str(root)))
    payload = json.dumps(statement(root), ensure_ascii=False, separators=(",", ":")).encode()
    entries: list[Any] = []
    if held:
        earlier = canonical_json.read(root / SIGNATURE)
        entries, payload = earlier["signatures"], _bytes(earlier["payload"])
    sig, public = (base64.b64encode(one).decode() for one in (key.sign(encoded(payload)), key.public))
    entries = [*entries, {"keyid": key.fingerprint, "sig": sig, "public": public}]
    packed = base64.b64encode(payload).decode()
    return canonical_json.dump({"payloadType": PAYLOAD_TYPE, "payload": packed, "signatures": entries})


def check_signature(root: Path, signer: bytes | None) -> list[str]:
    """Return the fingerprints of the keys that signed: of the named signer alone, where one is named.

    Raises
    ------
    ReleaseError
        If the envelope or a signature is not valid, or the named signer has not signed.
    """
    keys = signers(root)
    if signer is None:
        return [fingerprint(key) for key in keys]
    if signer not in keys:
        what = "the release is not signed by the named signer" if keys else "the release is not signed"
        got = ", ".join(map(fingerprint, keys)) or None
        fix = "do not trust that this signer released it"
        raise ReleaseError(sentence(what, where=SIGNATURE, got=got, wanted=fingerprint(signer), fix=fix))
    return [fingerprint(signer)]


def attempt_signature(audit: Audit, root: Path, signer: bytes | None, manifest: Mapping[str, Any] | None) -> None:
    """Run the check of the signature, where there is one or a signer is named."""
    if signer is not None or os.path.lexists(root / SIGNATURE):
        told = "check.signed_by" if signer is None else "check.signed"
        audit.attempt("signature", check_signature, _told(told), root, signer, needs=[manifest])


def _told(code: str) -> Callable[[list[str]], Phrase]:
    return lambda keys: (code, {"keys": keys})
