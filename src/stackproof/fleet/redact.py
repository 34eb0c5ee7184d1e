"""A judged fleet without names: hosts become pseudonyms that stay the same from sweep to sweep, users, homes and addresses go."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from stackproof.base import files, places
from stackproof.base.errors import Refusal
from stackproof.doctor.machine import Machine
from stackproof.doctor.report import Redactor
from stackproof.fleet.judgement import FleetJudgement

_DOMAIN = re.compile(r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+")
_LONG = 4
"""So many letters are a name wherever they stand."""
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
    """Return what a host is called without its name: the same for the same key, however its letters are written."""
    return f"host-{hmac.new(secret, name.casefold().encode(), hashlib.sha256).hexdigest()[:10]}"


def redacted(found: FleetJudgement, secret: bytes, also: Collection[str] = ()) -> FleetJudgement:
    """Return the judgement with pseudonyms for its hosts, and without its folder's name, users, homes and addresses.

    `also`: other names that must not be told, such as those of files that are no host's.
    """
    sweep = pseudonym(found.fleet, secret).replace("host", "sweep")
    names, own = Names.of([*_hosts(found), *also], secret, {found.fleet: sweep}), Redactor.of(Machine())

    def clean(text: str) -> str:
        named = (
            text.partition(":")[0].casefold() in names.told
        )  # what is a name is one pseudonym; sentences lose mails first
        return names.clean(text if named else own.clean(text))

    return dataclasses.replace(_mapped(found, clean), fleet=sweep)


def _hosts(found: FleetJudgement) -> Iterator[str]:
    """Yield every name that a judgement tells as a host's."""
    yield from (host.host for host in found.hosts)
    yield from (card.partition(":")[0] for group in found.groups for card in group.cards)
    yield from (name for link in found.links for name in (link.first, link.second) if name)


@dataclasses.dataclass(frozen=True)
class Names:
    """Names of hosts, and what each becomes; found in any case, with a domain or without, and within other words."""

    told: Mapping[str, str]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, names: Iterable[str], secret: bytes, more: Mapping[str, str]) -> Names:
        """Take names; one with a domain goes by its first part too, and its domain goes with it. `more`: words with what they become."""
        told = {name.casefold(): said for name, said in more.items() if name}
        for name in sorted({one.casefold() for one in names if one}):
            short, _, domain = name.partition(".")
            told.setdefault(name, pseudonym(name, secret))
            told.setdefault(short, told[name])
            if domain and not domain.isdecimal():
                told.setdefault(domain, "domain")
        return cls(told, tuple(sorted({len(one) for one in told}, reverse=True)))

    def clean(self, text: str) -> str:
        """Return a text without them; the longest name counts where several begin."""
        folded, pieces, at, kept = text.casefold(), list[str](), 0, 0
        if len(folded) != len(text):  # letters that fold to two, which no host's name has
            folded = text.lower() if len(text.lower()) == len(text) else text
        while at < len(text):
            size = next(
                (one for one in self.lengths if folded[at : at + one] in self.told and self._stands(folded, at, one)), 0
            )
            if not size:
                at += 1
                continue
            after = _DOMAIN.match(text, at + size)
            pieces += [text[kept:at], self.told[folded[at : at + size]]]
            at = kept = after.end() if after else at + size
        return "".join([*pieces, text[kept:]])

    @staticmethod
    def _stands(text: str, at: int, size: int) -> bool:
        """Whether it is a name: a short one must stand alone, as its letters are in other words too."""
        alone = not text[at - 1 : at].isalnum() and not text[at + size : at + size + 1].isalnum()
        return alone or size >= _LONG


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
