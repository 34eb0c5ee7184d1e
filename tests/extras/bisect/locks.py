"""Locks of a few packages, as text and as files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stackproof.stack import lockfile, stacks


def pin(name: str, version: str, files: str = "") -> str:
    """Return the lines of a pin; `files` makes other hashes of the same version."""
    digest = hashlib.sha256(f"{name} {version} {files}".encode()).hexdigest()
    return f"{name}=={version} \\\n    --hash=sha256:{digest}\n"


def lock(path: Path, *pins: str, python: str = "") -> lockfile.Lock:
    """Write a lock of these pins and read it."""
    body = "".join(pins)
    said = {
        "stack": "cpu",
        "kind": "stack",
        "python": python or ", ".join(stacks.load("cpu").pythons),
        "platform": "any",
        "packages": str(len(pins)),
        "unhashed": "0",
    }
    said["content"] = lockfile.content_digest(body)
    path.write_text("".join(f"# {key}: {value}\n" for key, value in said.items()) + body, encoding="utf-8")
    return lockfile.read(path)
