"""Signatures: a record that was changed, swapped or never signed is refused with the reason, and one that was signed is not."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.cli import main
from stackproof.record import records, signing, store
from stackproof.record.records import Check, Record, Verdict

from .test_chain import kept


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two people's private keys, the public half of the first, and a key of another kind."""
    folder = tmp_path_factory.mktemp("keys")
    found = {name: folder / name for name in ("ours", "theirs", "public", "rsa")}
    for name in ("ours", "theirs"):
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(found[name])], check=True)
    public = ["openssl", "pkey", "-in", str(found["ours"]), "-pubout", "-out", str(found["public"])]
    subprocess.run(public, check=True)
    rsa = ["openssl", "genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:1024", "-out", str(found["rsa"])]
    subprocess.run(rsa, check=True, capture_output=True)
    return found


@pytest.fixture
def signed(tmp_path: Path, keys: dict[str, Path]) -> Path:
    """A record with its log and its signature."""
    path = kept(tmp_path)
    assert main(["sign", str(path), "--key", str(keys["ours"])]) == 0
    return path


def refused(path: Path, key: Path) -> str:
    """Return why a record is not vouched for."""
    with pytest.raises(signing.NotSignedError) as caught:
        signing.verify(path, signing.KeyFile.load(key))
    return str(caught.value)


def envelope(path: Path) -> dict[str, Any]:
    """Return the envelope beside a record."""
    found: dict[str, Any] = json.loads(signing.beside(path).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("which", ["ours", "public"])
def test_what_was_signed_is_vouched_for(signed: Path, keys: dict[str, Path], which: str) -> None:
    said = signing.verify(signed, signing.KeyFile.load(keys[which]))
    assert "as it is, with 1 logs, lock aaaaaaaaaaaa; it passed" in said


def test_the_envelope_is_dsse_around_an_in_toto_statement(signed: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    found = envelope(signed)
    payload = base64.b64decode(found["payload"])
    told = json.loads(payload)
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert [row["name"] for row in told["subject"]] == ["record.json", "suite-0.log", "lock"]
    kind = b"application/vnd.in-toto+json"
    text = b"DSSEv1 " + str(len(kind)).encode() + b" " + kind + b" " + str(len(payload)).encode() + b" " + payload
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "sig").write_bytes(base64.b64decode(found["signatures"][0]["sig"]))
    words = [
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        keys["public"],
        "-in",
        tmp_path / "text",
        "-sigfile",
        tmp_path / "sig",
    ]
    assert subprocess.run(["openssl", "pkeyutl", *map(str, words)], capture_output=True, check=False).returncode == 0


def test_a_record_that_was_changed_is_refused(signed: Path, keys: dict[str, Path]) -> None:
    record = records.read(signed)
    record.provenance["host"] = "elsewhere"
    from stackproof.record import chain

    chain.seal(record, signed.parent)
    records.write(record, signed)
    assert records.read(signed).provenance["host"] == "elsewhere"
    assert "was changed after it was signed" in refused(signed, keys["ours"])


def test_a_log_that_was_changed_is_refused(signed: Path, keys: dict[str, Path]) -> None:
    (signed.parent / "suite-0.log").write_text("2 passed", encoding="utf-8")
    assert "suite-0.log was edited" in refused(signed, keys["ours"])


def test_another_key_is_refused(signed: Path, keys: dict[str, Path]) -> None:
    assert "is signed by another key" in refused(signed, keys["theirs"])


def test_a_missing_signature_is_refused(tmp_path: Path, keys: dict[str, Path]) -> None:
    assert "is not signed: there is no record.dsse.json" in refused(kept(tmp_path), keys["ours"])


def test_the_signature_of_another_record_is_refused(signed: Path, keys: dict[str, Path]) -> None:
    other = signed.parent / "other.json"
    check = Check("smoke/ddp::x", Verdict.PASSED, "as expected", 0.25)
    records.write(Record("smoke", "sim", "2026-02-02T03:04:05+00:00", 1.0, Verdict.PASSED, {}, [check]), other)
    signing.beside(other).write_bytes(signing.beside(signed).read_bytes())
    assert "is of another record (smoke cpu 2026-01-02T03:04:05+00:00)" in refused(other, keys["ours"])


def _payload(found: dict[str, Any]) -> None:
    told = json.loads(base64.b64decode(found["payload"]))
    told["predicate"]["verdict"] = "failed"
    found["payload"] = base64.b64encode(json.dumps(told).encode()).decode()


def _signature(found: dict[str, Any]) -> None:
    found["signatures"][0]["sig"] = base64.b64encode(b"x" * 64).decode()


def _none(found: dict[str, Any]) -> None:
    found["signatures"] = []


def _kind(found: dict[str, Any]) -> None:
    found["payloadType"] = "text/plain"


def _lost(found: dict[str, Any]) -> None:
    del found["payload"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_payload, "was changed after it was signed: the signature of"),
        (_signature, "was changed after it was signed: the signature of"),
        (_none, "is signed by another key (none)"),
        (_kind, "holds 'text/plain', not an in-toto statement"),
        (_lost, "is no DSSE envelope"),
    ],
)
def test_an_envelope_that_was_changed_is_refused(
    signed: Path, keys: dict[str, Path], change: Callable[[dict[str, Any]], None], words: str
) -> None:
    found = envelope(signed)
    change(found)
    signing.beside(signed).write_text(json.dumps(found), encoding="utf-8")
    assert words in refused(signed, keys["ours"])


def test_an_envelope_that_is_no_json_is_refused(signed: Path, keys: dict[str, Path]) -> None:
    signing.beside(signed).write_text("{", encoding="utf-8")
    assert "is no DSSE envelope" in refused(signed, keys["ours"])


def test_a_good_signature_of_something_else_vouches_for_nothing(signed: Path, keys: dict[str, Path]) -> None:
    payload = json.dumps(
        {"_type": signing.STATEMENT, "subject": [], "predicateType": "https://slsa.dev/provenance/v1"}
    ).encode()
    key = signing.KeyFile.load(keys["ours"])
    found = envelope(signed)
    found["payload"] = base64.b64encode(payload).decode()
    found["signatures"][0]["sig"] = base64.b64encode(signing._made(key, signing._encoded(payload))).decode()
    signing.beside(signed).write_text(json.dumps(found), encoding="utf-8")
    assert "no statement about a record" in refused(signed, keys["ours"])


@pytest.mark.parametrize(("which", "words"), [("rsa", "holds no ed25519 key"), ("nosuch", "cannot be read")])
def test_a_bad_key_is_refused(signed: Path, keys: dict[str, Path], which: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        signing.KeyFile.load(keys.get(which, signed.parent / which))


def test_a_public_key_does_not_sign(signed: Path, keys: dict[str, Path]) -> None:
    with pytest.raises(Refusal, match="is a public key"):
        signing.sign(signed, signing.KeyFile.load(keys["public"]))


def test_the_verb_has_an_exit_code_for_each(
    signed: Path, keys: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify-record", str(signed)]
    assert main(words) == 0 and "equals its own digests" in capsys.readouterr().out
    assert main([*words, "--key", str(keys["public"])]) == 0
    assert main([*words, "--key", str(keys["theirs"])]) == 1
    assert main([*words, "--key", str(keys["rsa"])]) == 2
    signed.write_text("{", encoding="utf-8")
    assert main(words) == 2


def test_a_store_that_asks_for_signatures_leaves_the_others_out(signed: Path, keys: dict[str, Path]) -> None:
    other = signed.parent / "other.json"
    other.write_bytes(signed.read_bytes())
    found = store.read([signed, other], keys["public"])
    assert list(found.records) == [signed]
    assert "other.json: is not signed" in found.problems[0] and other.exists()


def test_a_signed_record_stays_signed_in_the_store(signed: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    added = store.append(records.read(signed), tmp_path / "published", signed)
    assert "signed by" in signing.verify(added, signing.KeyFile.load(keys["public"]))


def test_the_gate_takes_no_unsigned_base(
    tmp_path: Path, keys: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gate", "--stack", "cpu", "--require-signed", str(keys["public"])]
    assert main(words) == 2 and "asks for a signature on --base-record" in capsys.readouterr().err
    assert main([*words, "--base-record", str(kept(tmp_path))]) == 2
    assert "is not signed" in capsys.readouterr().err
