"""Signatures on records: an in-toto Statement in a DSSE envelope beside the record, made and checked with a key file and `openssl`.

The statement names the record, its logs and its lock by SHA-256. Nothing is sent anywhere and no service is asked; a signature
says that who holds the key has vouched for these bytes, and not when.

Sources: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md, https://in-toto.io/Statement/v1
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.record import chain, records
from stackproof.record.records import Record

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://stackproof.dev/record/v2"
SUFFIX = ".dsse.json"
_SECONDS = 30
_TOLD = ("verb", "stack", "started")


class NotSignedError(Refusal):
    """Nobody who holds the key has vouched for this record as it is."""


@dataclass(frozen=True)
class KeyFile:
    """An ed25519 key in a PEM file, private or public; `identity` is the SHA-256 of its public half."""

    path: Path
    private: bool
    identity: str

    @classmethod
    def load(cls, path: Path) -> KeyFile:
        """Read a key.

        Raises:
            Refusal: there is none in the file, or it is of another kind.
        """
        private = b"PRIVATE KEY" in files.read_bytes(path, "name a PEM file")
        options = ["-in", str(path), *([] if private else ["-pubin"])]
        told = _openssl("pkey", *options, "-noout", *(["-text"] if private else ["-text_pub"]))
        if told is None or b"ED25519" not in told.upper():
            raise Refusal(
                f"--key {path}: holds no ed25519 key; make one with `openssl genpkey -algorithm ed25519 -out FILE`, "
                "and its public half with `openssl pkey -in FILE -pubout -out FILE.pub`"
            )
        public = _openssl("pkey", *options, "-pubout", "-outform", "DER") or b""
        return cls(path, private, hashlib.sha256(public).hexdigest())


def beside(path: Path) -> Path:
    """Return where the signature of a record lies."""
    return path.with_suffix(SUFFIX)


def sign(path: Path, key: KeyFile) -> Path:
    """Sign a record and return the file of the signature.

    Raises:
        Refusal: the record is no evidence, its logs were edited, or the key is a public one.
    """
    if not key.private:
        raise Refusal(f"--key {key.path}: is a public key, which can only verify; sign with the private one")
    record = records.read(path)
    if said := next(chain.broken_logs(record, path.parent), None):
        raise Refusal(f"{path}: is not signed: {said}")
    payload = json.dumps(statement(record, path), sort_keys=True).encode()
    signature = _made(key, _encoded(payload))
    told = {"keyid": key.identity, "sig": base64.b64encode(signature).decode()}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [told]}
    try:
        write_atomically(beside(path), json.dumps(envelope, indent=1) + "\n")
    except OSError as error:
        raise Refusal(f"{beside(path)}: the signature cannot be written ({error.strerror})") from error
    return beside(path)


def statement(record: Record, path: Path) -> dict[str, Any]:
    """Return the in-toto Statement of a record: itself, its logs and its lock as subjects, its headline as the predicate."""
    subjects = {path.name: chain.file_digest(path)}
    subjects |= {name: digest for name, digest in record.digests.items() if name != chain.RECORD}
    lock = str(record.provenance.get("lock", ""))
    if len(lock) == hashlib.sha256().digest_size * 2:
        subjects["lock"] = lock
    told = {"verb": record.verb, "stack": record.stack, "started": record.started, "verdict": record.verdict.value}
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": PREDICATE,
        "predicate": {**told, "commit": str(record.provenance.get("commit", "unknown"))},
    }


def verify(path: Path, key: KeyFile) -> str:
    """Hold a record against the signature beside it and return one sentence that says what was vouched for.

    Raises:
        NotSignedError: there is no signature, it is of another key or record, or anything was changed since.
        Refusal: the record cannot be read, or contradicts itself.
    """
    payload = _vouched(path, key)
    told = _statement(path, payload)
    digests = {row["name"]: row["digest"]["sha256"] for row in told["subject"]}
    if chain.file_digest(path) != told["subject"][0]["digest"]["sha256"]:  # the record is its first subject
        raise NotSignedError(f"{path}: {_another(path, told['predicate'])}")
    record = records.read(path)
    if said := next(chain.broken_logs(record, path.parent), None):
        raise NotSignedError(f"{path}: {said}, and only the one that was signed is vouched for")
    logs = sum(name != chain.RECORD and (path.parent / name).is_file() for name in record.digests)
    lock = f", lock {digests['lock'][:12]}" if "lock" in digests else ""
    return f"{path}: signed by {key.identity[:16]} as it is, with {logs} logs{lock}; it {record.verdict.value}"


def unedited(path: Path) -> str:
    """Hold a record and its logs against the record's own digests, and return one sentence.

    Raises:
        NotSignedError: something was edited, or there are no digests.
        Refusal: the record cannot be read, or contradicts itself.
    """
    record = records.read(path)
    if chain.RECORD not in record.digests:
        raise NotSignedError(
            f"{path}: holds no digests: it was written before records had them, so that an edit does not show"
        )
    if said := next(chain.broken_logs(record, path.parent), None):
        raise NotSignedError(f"{path}: {said}")
    return f"{path}: equals its own digests, which is no signature (--key); it {record.verdict.value}"


def require(path: Path, key: Path | None) -> None:
    """Refuse a record that the holder of a key has not vouched for; without a key nothing is asked."""
    if key is not None:
        verify(path, KeyFile.load(key))


def _vouched(path: Path, key: KeyFile) -> bytes:
    """Return the payload of the envelope beside a record, if a signature of the key is on it."""
    file = beside(path)
    if not path.is_file():
        raise Refusal(f"{path}: the record cannot be read (No such file or directory)")
    if not file.is_file():
        raise NotSignedError(f"{path}: is not signed: there is no {file.name} beside it; `stackproof sign` makes one")
    payload, signatures = _envelope(file)
    encoded = _encoded(payload)
    if any(_holds(key, encoded, signature) for _, signature in signatures):
        return payload
    names = sorted({identity[:16] for identity, _ in signatures if identity != key.identity})
    if any(identity == key.identity for identity, _ in signatures):
        raise NotSignedError(
            f"{file}: was changed after it was signed: the signature of {key.identity[:16]} does not hold"
        )
    raise NotSignedError(
        f"{file}: is signed by another key ({', '.join(names) or 'none'}), not by {key.identity[:16]} of {key.path}"
    )


def _envelope(file: Path) -> tuple[bytes, list[tuple[str, bytes]]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        rows = [(str(row.get("keyid", "")), base64.b64decode(row["sig"], validate=True)) for row in found["signatures"]]
        payload = base64.b64decode(found["payload"], validate=True)
        kind = found["payloadType"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise NotSignedError(f"{file}: is no DSSE envelope ({type(error).__name__}: {error})") from error
    if kind != PAYLOAD_TYPE:
        raise NotSignedError(f"{file}: holds '{kind}', not an in-toto statement ({PAYLOAD_TYPE})")
    return payload, rows


def _statement(path: Path, payload: bytes) -> dict[str, Any]:
    """Return the statement that was signed; a holder of the key may have signed other things with it."""
    try:
        told: dict[str, Any] = json.loads(payload)
        right = told["_type"] == STATEMENT and told["predicateType"] == PREDICATE
        right = right and all(isinstance(row["digest"]["sha256"], str) for row in told["subject"])
        right = right and isinstance(told["predicate"], Mapping) and len(told["subject"]) > 0
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise NotSignedError(f"{beside(path)}: what was signed is no statement about a record of stackproof")
    return told


def _another(path: Path, told: Mapping[str, Any]) -> str:
    """Say whether the signature is of another record, or this one was changed since."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        same = all(found.get(name) == told.get(name) for name in _TOLD)
    except (OSError, ValueError, AttributeError, RecursionError):
        same = True
    if same:
        return "was changed after it was signed; take it from where it was signed, or run again"
    whose = " ".join(str(told.get(name, "unknown")) for name in _TOLD)
    return f"the signature beside it is of another record ({whose})"


def _encoded(payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding, which is what is signed."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _made(key: KeyFile, text: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        given, made = Path(folder) / "text", Path(folder) / "signature"
        given.write_bytes(text)
        words = ("-sign", "-rawin", "-inkey", str(key.path), "-in", str(given), "-out", str(made))
        if _openssl("pkeyutl", *words) is None or not made.is_file():
            raise Refusal(f"--key {key.path}: openssl did not sign with it; it needs OpenSSL 3.0 or newer")
        return made.read_bytes()


def _holds(key: KeyFile, text: bytes, signature: bytes) -> bool:
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        given, made = Path(folder) / "text", Path(folder) / "signature"
        given.write_bytes(text)
        made.write_bytes(signature)
        public = [] if key.private else ["-pubin"]
        words = ("-verify", "-rawin", *public, "-inkey", str(key.path), "-in", str(given), "-sigfile", str(made))
        return _openssl("pkeyutl", *words) is not None


def _openssl(*words: str) -> bytes | None:
    """Return what openssl printed, or None if it said no; a key with a passphrase is not asked for one."""
    program = shutil.which("openssl")
    if program is None:
        raise Refusal("signatures need the program `openssl` (3.0 or newer), which is not on PATH; install it")
    try:
        ended = subprocess.run(
            [program, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if ended.returncode else ended.stdout
