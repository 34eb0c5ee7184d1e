"""A judged fleet without names: hosts become pseudonyms that stay the same from sweep to sweep; users, homes and addresses go."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from stackproof.api.base import Redactor, Refusal, files, places
from stackproof.api.doctor import Machine
from stackproof.extras.fleet.judgement import FleetJudgement

_KEY_BYTES = 32


def key(path: Path | None = None) -> bytes:
    """Return the key of pseudonyms, which is made the first time; who has it can tell who is who.

    Raises:
        Refusal: it is no key, or cannot be written.
    """
    path = path or places.HOME / "fleet-pseudonyms.key"
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(secrets.token_bytes(_KEY_BYTES))
        except FileExistsError:
            pass
        except OSError as error:
            why = f"the key of pseudonyms cannot be written ({error.strerror}); name another with --key"
            raise Refusal(f"{path}: {why}") from error
    found = files.read_bytes(path, "name the key that an earlier --redact has made")
    if len(found) != _KEY_BYTES:
        raise Refusal(
            f"{path}: is no key of pseudonyms ({_KEY_BYTES} bytes); name another file, and a key is made there"
        )
    return found


def pseudonym(name: str, secret: bytes, kind: str = "host") -> str:
    """Return what a host is called without its name: the same for the same key, however its letters are written."""
    return f"{kind}-{hmac.new(secret, name.casefold().encode(), hashlib.sha256).hexdigest()[:10]}"


def redacted(found: FleetJudgement, secret: bytes, also: Collection[str] = ()) -> FleetJudgement:
    """Return the judgement with pseudonyms for its hosts, and without its folder's name, users, homes and addresses.

    By field: a host's name becomes its pseudonym, sentences are cleaned of every name, and subjects and units stay. A name that is a
    number says nothing in a sentence, and stays there. `also`: other names, such as those of files that are no host's.
    """
    cards = (card.partition(":")[0] for group in found.groups for card in group.cards)
    hosts = {name: pseudonym(name, secret) for name in (*(one.host for one in found.hosts), *cards, *also)}
    sweep = pseudonym(found.fleet, secret, "sweep")
    words = {found.fleet: sweep, **{name.partition(".")[0]: hosts[name] for name in hosts}, **hosts}
    domains = {name.partition(".")[2]: "domain" for name in hosts if "." in name}
    words = {name: becomes for name, becomes in {**domains, **words}.items() if name and not name.isdecimal()}
    redactor = Redactor.of(Machine(), hosts=words)

    def clean(text: str) -> str:
        return redactor.clean(text, links=False)

    def card(name: str) -> str:
        host, apart, number = name.partition(":")
        return f"{hosts[host]}{apart}{number}"

    judged = [
        replace(
            one, host=hosts[one.host], reason=clean(one.reason),
            findings=tuple(replace(finding, sentence=clean(finding.sentence)) for finding in one.findings),
        )
        for one in found.hosts
    ]  # fmt: skip
    groups = [
        replace(
            one, architecture=clean(one.architecture), differs=clean(one.differs), cards=tuple(map(card, one.cards))
        )
        for one in found.groups
    ]
    notes = tuple(map(clean, found.notes))
    ordered = tuple(sorted(judged, key=lambda one: one.host))
    return replace(found, fleet=sweep, hosts=ordered, groups=tuple(groups), notes=notes)
