"""A judged fleet without names: hosts become pseudonyms that stay the same from sweep to sweep, users, homes and addresses go."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Collection
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from stackproof.base import files, places
from stackproof.base.errors import Refusal
from stackproof.doctor.machine import Machine
from stackproof.doctor.report import Redactor
from stackproof.fleet.judgement import FleetJudgement

_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_KEY_BYTES = 32
T = TypeVar("T")


def key_file() -> Path:
    """Return where the key of pseudonyms lies: who has it can tell who is who, so it stays with us."""
    return places.HOME / "fleet-pseudonyms.key"


def key(path: Path) -> bytes:
    """Return the key, which is made the first time.

    Raises:
        Refusal: it is no key, or cannot be written.
    """
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(secrets.token_bytes(_KEY_BYTES))
        except FileExistsError:
            pass
        except OSError as error:
            raise Refusal(
                f"{path}: the key of pseudonyms cannot be written ({error.strerror}); name another with --key"
            ) from error
    found = files.read_bytes(path, "name the key that an earlier --redact has made")
    if len(found) != _KEY_BYTES:
        raise Refusal(
            f"{path}: is no key of pseudonyms ({_KEY_BYTES} bytes); name another file, and a key is made there"
        )
    return found


def pseudonym(name: str, secret: bytes) -> str:
    """Return what a host is called without its name: the same for the same key."""
    return f"host-{hmac.new(secret, name.encode(), hashlib.sha256).hexdigest()[:10]}"


def redacted(found: FleetJudgement, secret: bytes, also: Collection[str] = ()) -> FleetJudgement:
    """Return the judgement with pseudonyms for its hosts, and without users, homes and addresses; `also`: other names of hosts."""
    names = {host.host: pseudonym(host.host, secret) for host in found.hosts}
    names |= {name: pseudonym(name, secret) for name in also}
    short = {name.partition(".")[0]: told for name, told in names.items() if "." in name}
    own = Redactor.of(Machine())
    return _mapped(found, lambda text: own.clean(_renamed(text, short | names)))


def _renamed(text: str, names: dict[str, str]) -> str:
    """Put pseudonyms where a name stands alone or before a colon, whatever is written around it."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def _mapped(value: T, clean: Callable[[str], str]) -> T:
    """Return a value with every text in it cleaned; words of closed sets stay."""
    found: Any = value
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        found = clean(value)
    elif isinstance(value, tuple):
        found = tuple(_mapped(one, clean) for one in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = {one.name: _mapped(getattr(value, one.name), clean) for one in dataclasses.fields(value)}
        found = dataclasses.replace(value, **told)
    return found  # type: ignore[no-any-return]
