"""Signatures of releases: who signed, by both verifiers, and what is refused."""

import base64
import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from postrand import release
from postrand.cli import main
from postrand.errors import ReleaseError, UsageError
from postrand.release import canonical_json, fields
from postrand.release import signature as signatures
from postrand.release.checks import Audit
from postrand.release.signature import (
    SigningKey,
    attempt_signature,
    check_signature,
    encoded,
    envelope_of,
    load_public,
    signers,
)
from postrand.release.signing import sign
from tests.both_verifiers import ALONE
from tests.conftest import ROOT
from tests.json_schema import problems
from tests.release_case import CLAIMS, make

# RFC 8032, 7.1: public key, message, signature of TEST 1, 2 and 3.
VECTORS = [
    ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
    ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
]  # fmt: skip


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the office's keys, those of somebody else, and a signed release."""
    folder = tmp_path_factory.mktemp("office")
    for name in ("office", "other"):
        key = SigningKey.new()
        key.save(folder / f"{name}.key")
        (folder / f"{name}.pub").write_text(key.public_pem)
    make(folder / "release")
    sign(folder / "release", folder / "office.key")
    return folder


def outcome(root: Path, signer: Path | None) -> tuple[str, str]:
    """Return the outcome of the check of the signature, by the package and alone."""
    full = [
        c.outcome for c in release.verify(root, signer=signer, raise_if_failed=False).checks if c.name == "signature"
    ]
    alone = [
        o
        for o, name, said in ALONE.verify(str(root), None if signer is None else str(signer)).lines
        if name == "signature" and (o != "ok" or said)
    ]
    return "".join(full), "".join(alone)


def test_the_check_without_libraries_is_that_of_rfc_8032_and_of_the_library() -> None:
    for public, message, signature in (tuple(map(bytes.fromhex, vector)) for vector in VECTORS):
        assert ALONE.ed25519(public, message, signature)
        for place in range(0, 64, 5):
            other = bytearray(signature)
            other[place] ^= 1 << place % 8
            assert not ALONE.ed25519(public, message, bytes(other))
            with pytest.raises(InvalidSignature):
                Ed25519PublicKey.from_public_bytes(public).verify(bytes(other), message)
        assert not ALONE.ed25519(public, message + b" ", signature)
        s = int.from_bytes(signature[32:], "little") + ALONE.ORDER
        assert not ALONE.ed25519(public, message, signature[:32] + s.to_bytes(32, "little"))
        assert not ALONE.ed25519(public, message, signature[:63])
    drawn = [SigningKey.new() for _ in range(5)]
    assert all(ALONE.ed25519(key.public, b"text", key.sign(b"text")) for key in drawn)


def test_points_of_small_order_and_other_encodings_are_refused() -> None:
    """With a key of small order anybody can sign: S = 0 and R the neutral element fit every message in eight."""
    neutral = (1).to_bytes(32, "little")
    small = [neutral, (ALONE.P - 1).to_bytes(32, "little"), bytes(32), bytes(31) + b"\x80"]
    for public in small:
        assert not any(ALONE.ed25519(public, b"%d" % i, neutral + bytes(32)) for i in range(16))
    assert ALONE._point((ALONE.P + 1).to_bytes(32, "little")) is None  # y = 1 written as p + 1
    assert ALONE._point((1 | 1 << 255).to_bytes(32, "little")) is None  # x = 0 with a sign
    key = SigningKey.new()
    assert not ALONE.ed25519(key.public, b"", neutral + key.sign(b"")[32:])


def test_who_signed_is_said_and_only_the_named_signer_passes(office: Path) -> None:
    root = office / "release"
    assert release.verify(root, signer=office / "office.pub").ok
    assert outcome(root, None) == ("passed", "ok")
    assert outcome(root, office / "office.pub") == ("passed", "ok")
    assert outcome(root, office / "other.pub") == ("failed", "WRONG")
    (said,) = [c.sentence for c in release.verify(root).checks if c.name == "signature"]
    assert SigningKey.load(office / "office.key").fingerprint in said
    assert "not compared with a key that you trust" in said


def test_a_consistent_forgery_by_somebody_else_fails_where_the_signer_is_named(office: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "forged", claims=CLAIMS[:1]).path
    assert release.verify(root).ok
    assert outcome(root, office / "office.pub") == ("failed", "WRONG")  # not signed
    shutil.copy(office / "release" / "signatures.json", root)
    assert outcome(root, None) == ("failed", "WRONG")  # signed for another release
    (root / "signatures.json").unlink()
    sign(root, office / "other.key")
    assert outcome(root, None) == ("passed", "ok")
    assert outcome(root, office / "office.pub") == ("failed", "WRONG")


def test_no_entry_of_the_envelope_is_free(office: Path, tmp_path: Path) -> None:
    root = shutil.copytree(office / "release", tmp_path / "r")
    path = root / "signatures.json"
    held = path.read_bytes()
    statement = json.loads(base64.b64decode(json.loads(held)["payload"]))
    key = SigningKey.load(office / "office.key")

    def signed_anew(change):
        payload = json.dumps(change).encode()
        return {"payload": base64.b64encode(payload).decode(), "signatures": [
            {"keyid": key.fingerprint, "sig": base64.b64encode(key.sign(encoded(payload))).decode(),
             "public": base64.b64encode(key.public).decode()}]}  # fmt: skip

    other = base64.b64encode(SigningKey.load(office / "other.key").public).decode()
    changes = [
        {"payloadType": "text/plain"}, {"payload": "e30="}, {"payload": "?"}, {"signatures": []}, {"more": 1},
        {"signatures": [json.loads(held)["signatures"][0] | {"public": other}]},
        signed_anew(statement | {"predicateType": "other"}), signed_anew(statement | {"more": 1}), signed_anew([]),
        signed_anew(statement | {"predicate": statement["predicate"] | {"claims": []}}),
    ]  # fmt: skip

    def refused() -> bool:
        alone = ALONE.Release()
        alone.files, alone.manifest = ALONE.listing(str(root)), json.loads((root / "manifest.json").read_text())
        alone.certificate = json.loads((root / "certificate.json").read_text())
        with pytest.raises(ReleaseError):
            signers(root)
        with pytest.raises(ALONE.Wrong):
            ALONE.check_signature(alone, None)
        return True

    for change in changes:
        path.write_bytes(canonical_json.dump(json.loads(held) | change))
        assert refused(), change
    path.write_bytes(held + b" ")
    assert refused()


def test_what_is_signed_fits_its_schema(office: Path) -> None:
    envelope = json.loads((office / "release" / "signatures.json").read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    schema = fields.schema("signatures", 1)
    assert schema is not None
    for data, part in ((envelope, schema), (statement, schema["$defs"]["statement"])):
        assert list(problems(data, part, schema)) == []
        assert list(problems({**data, "more": 1}, part, schema)) == ["$: unknown more"]
        assert all(list(problems({k: v for k, v in data.items() if k != name}, part, schema)) for name in data)
    (entry,) = envelope["signatures"]
    for name in entry:
        assert list(problems({**envelope, "signatures": [{**entry, name: "e30"}]}, schema, schema))


def test_title_and_date_are_signed_where_the_release_has_a_description(tmp_path: Path) -> None:
    claims = {"claims": [{"level": 1.0, "sentence": "of an early release"}]}
    described = {"title": "Survey", "date_published": "2026-11-23"}
    wanted: dict[str, Any] = {"title": "Survey", "version": "1.2", "claims": [{"level": 1.0}]}
    cases: list[tuple[dict[str, Any], dict[str, str], dict[str, Any]]] = [
        ({"description.json": {}}, described, wanted | {"date": "2026-11-23"}),
        ({"description.json": {}}, {"title": "Survey"}, wanted),
        ({}, described, wanted | {"title": ""}),
    ]
    for files, held, told in cases:
        manifest = {"files": files, "package": {"version": "1.2"}}
        for name, content in (("manifest", manifest), ("description", held), ("certificate", claims)):
            (tmp_path / f"{name}.json").write_bytes(canonical_json.dump(content))
        assert signatures.statement(tmp_path)["predicate"] == told


def test_a_second_key_adds_its_signature_and_the_first_stays(office: Path, tmp_path: Path) -> None:
    root = shutil.copytree(ROOT / "tests/fixtures/releases/3/permuted", tmp_path / "r")
    sign(root, office / "office.key")
    sign(root, office / "other.key", is_verified=True)
    for name in ("office", "other"):
        assert outcome(root, office / f"{name}.pub") == ("passed", "ok")
    with pytest.raises(UsageError, match="already signed by this key"):
        sign(root, office / "other.key")


def test_what_does_not_verify_is_not_signed(office: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "release").path
    (root / "report.html").write_text("other")
    with pytest.raises(ReleaseError, match="a release that does not verify is not signed"):
        sign(root, office / "office.key")
    assert not (root / "signatures.json").exists()


def test_keys_are_of_their_owner_alone_and_never_overwritten(office: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    key, public = tmp_path / "k", tmp_path / "k.pub"
    made = run(main, ["key", "new", str(key), "--public", str(public), "--json"])
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert load_public(public) == SigningKey.load(key).public
    assert json.loads(made.output)["fingerprint"] in run(main, ["key", "show", str(key)]).output
    assert key.read_text().splitlines()[1] not in made.output
    before = key.read_bytes()
    assert run(main, ["key", "new", str(key)]).exit_code == 2
    assert key.read_bytes() == before
    key.chmod(0o640)
    refused = run(main, ["sign", str(office / "release"), "--key", str(key)])
    assert refused.exit_code == 2
    assert "others can read this key" in refused.output
    for wrong in (public, ROOT / "README.md"):
        wrong_key = tmp_path / "wrong"
        wrong_key.write_bytes(wrong.read_bytes())
        wrong_key.chmod(0o600)
        with pytest.raises(UsageError, match="no key that signs"):
            SigningKey.load(wrong_key)
    with pytest.raises(UsageError, match="no public key"):
        release.verify(office / "release", signer=office / "office.key")


def test_protect_signs_and_verify_takes_the_signer(office: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a\n" + "x\ny\n" * 40)
    (tmp_path / "codebook.toml").write_text('[[variables]]\nname = "a"\nrole = "key"\ncategories = ["x", "y"]\n')
    plan = '[source]\nfile = "s.csv"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\nepsilon = 1.0\n'
    (tmp_path / "plan.toml").write_text(plan + '[[blocks]]\nvariables = ["a"]\n')
    out = str(tmp_path / "out")
    made = CliRunner().invoke(
        main, ["protect", "--plan", str(tmp_path / "plan.toml"), "--out", out, "--sign", str(office / "office.key")]
    )
    assert made.exit_code == 0, made.output
    assert "signed by sha256:" in made.output
    for name, code in (("office", 0), ("other", 7)):
        assert CliRunner().invoke(main, ["verify", out, "--signer", str(office / f"{name}.pub")]).exit_code == code
    assert canonical_json.parse((Path(out) / "signatures.json").read_bytes(), "")["payloadType"] == ALONE.PAYLOAD_TYPE


def test_a_public_key_is_one_frame_around_the_32_bytes_of_an_ed25519_key(office: Path, tmp_path: Path) -> None:
    path, good = tmp_path / "k.pub", (office / "office.pub").read_text()
    der = base64.b64decode(good.splitlines()[1])
    path.write_text(good.replace("\n", "\r\n\n") + "\n")
    assert load_public(path) == der[12:]
    spread = "\n".join(good.splitlines()[1][k : k + 16] for k in range(0, 60, 16))
    path.write_text("-----BEGIN PUBLIC KEY-----\n" + spread + "\n-----END PUBLIC KEY-----")
    assert load_public(path) == der[12:]

    def framed(content: bytes, begin: str = "BEGIN PUBLIC KEY", end: str = "END PUBLIC KEY") -> str:
        return f"-----{begin}-----\n{base64.b64encode(content).decode()}\n-----{end}-----\n"

    wrong = [
        framed(der[:-1]), framed(der + b"0"), framed(der[12:]), framed(b"\x31" + der[1:]), framed(b""),
        framed(der, begin="BEGIN PRIVATE KEY"), framed(der, end="END PRIVATE KEY"), good.splitlines()[1],
        framed(der).replace("=", ""), good.replace("M", "?M", 1), "x " + framed(der), framed(der) + "x", "",
    ]  # fmt: skip
    for text in wrong:
        path.write_text(text)
        with pytest.raises(UsageError, match="no public key"):
            load_public(path)
    for name, got in (("none", "No such file or directory"), ("\0", "no name of a file")):
        with pytest.raises(UsageError, match=f"the key cannot be read; got {got}"):
            load_public(tmp_path / name)


def test_a_key_is_shown_in_the_form_of_other_programs_and_its_secret_not_at_all(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = SigningKey(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert key.public.hex() == VECTORS[0][0]
    assert key.sign(b"").hex() == VECTORS[0][2]
    assert load_pem(key).public_bytes_raw() == key.public
    assert "9d61" not in repr(key)
    key.save(tmp_path / "k")
    assert SigningKey.load(tmp_path / "k") == key
    held = key._key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"word")
    )
    (tmp_path / "k").write_bytes(held)
    with pytest.raises(UsageError, match="without a password"):
        SigningKey.load(tmp_path / "k")


def load_pem(key: SigningKey) -> Ed25519PublicKey:
    """Return the public key as another program reads it."""
    from cryptography.hazmat.primitives import serialization

    found = serialization.load_pem_public_key(key.public_pem.encode())
    assert isinstance(found, Ed25519PublicKey)
    return found


def checked(root: Path) -> Callable[[bytes | None], list[tuple[str, str]]]:
    """Return what the check of the signature says of a release, for a signer."""

    def told(signer: bytes | None) -> list[tuple[str, str]]:
        audit = Audit()
        attempt_signature(audit, root, signer, {})
        return [(check.outcome, check.code) for check in audit.checks]

    return told


def test_at_most_so_many_keys_sign_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signatures.MOST == 16  # as the page of the format says
    monkeypatch.setattr(signatures, "MOST", 2)
    root = shutil.copytree(ROOT / "tests/fixtures/releases/3/permuted", tmp_path / "r")
    first, second, third = (SigningKey.new() for _ in range(3))
    assert signers(root) == check_signature(root, None) == []
    with pytest.raises(ReleaseError, match="the release is not signed; wanted sha256"):
        check_signature(root, first.public)
    check = checked(root)
    assert [check(signer) for signer in (None, first.public)] == [[], [("failed", "")]]
    for key in (first, second):
        (root / "signatures.json").write_bytes(envelope_of(root, key))
    assert signers(root) == [first.public, second.public]
    told = [check(signer) for signer in (None, first.public)]
    assert told == [[("passed", "check.signed_by")], [("passed", "check.signed")]]
    assert check_signature(root, None) == [first.fingerprint, second.fingerprint]
    assert check_signature(root, second.public) == [second.fingerprint]
    with pytest.raises(
        ReleaseError, match=f"named signer; got {first.fingerprint}, {second.fingerprint}; wanted sha256"
    ):
        check_signature(root, third.public)
    for key, words in ((third, "16 keys have signed already"), (second, "already signed by this key")):
        with pytest.raises(UsageError, match=words):
            envelope_of(root, key)
    held = json.loads((root / "signatures.json").read_bytes())
    monkeypatch.setattr(signatures, "MOST", 1)
    with pytest.raises(ReleaseError, match="not the envelope of a signature"):
        signers(root)
    (root / "signatures.json").write_bytes(canonical_json.dump(held | {"signatures": held["signatures"][:1]}))
    assert signers(root) == [first.public]


def test_every_part_of_an_envelope_is_of_one_form(office: Path, tmp_path: Path) -> None:
    """Texts of base64 in one form alone, entries of three names alone, and a name that is that of the key."""
    root = shutil.copytree(office / "release", tmp_path / "r")
    path = root / "signatures.json"
    held = json.loads(path.read_bytes())
    (entry,), key = held["signatures"], SigningKey.load(office / "office.key")
    other = SigningKey.load(office / "other.key")

    def by(signer: SigningKey, **changed: str) -> dict[str, str]:
        sig = base64.b64encode(signer.sign(encoded(base64.b64decode(held["payload"])))).decode()
        public = base64.b64encode(signer.public).decode()
        return {"keyid": signer.fingerprint, "sig": sig, "public": public} | changed

    assert by(key) == entry
    loose = entry["public"][:-2] + chr(ord(entry["public"][-2]) + 1) + "="  # other bits that are not read
    assert base64.b64decode(loose) == key.public
    neutral = (1).to_bytes(32, "little")  # a key by which the library takes this signature of every message
    packed = [base64.b64encode(part).decode() for part in (neutral + bytes(32), neutral)]
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"any")
    anybody = {"keyid": signatures.fingerprint(neutral), "sig": packed[0], "public": packed[1]}
    for entries in ([by(other)], [by(key), by(other)]):
        path.write_bytes(canonical_json.dump(held | {"signatures": entries}))
        assert signers(root) == [base64.b64decode(one["public"]) for one in entries]
    changed: list[Any] = [
        [by(key, keyid=other.fingerprint)], [by(key, keyid="")], [by(key, more="")], [by(key, public=loose)],
        [by(key), by(key, sig=by(other)["sig"])], [{k: v for k, v in by(key).items() if k != "keyid"}],
        [by(key, public=by(other)["public"], keyid=other.fingerprint)], [by(key), {}], {}, "x", None,
        [by(key), by(other, more="")], [anybody],
    ]  # fmt: skip
    for wrong in changed:
        path.write_bytes(canonical_json.dump(held | {"signatures": wrong}))
        with pytest.raises(ReleaseError):
            signers(root)
    path.write_bytes(canonical_json.dump(held | {"payloadType": "application/json"}))
    with pytest.raises(ReleaseError, match="not the envelope of a signature"):
        signers(root)
