"""A judged fleet without names: hosts become pseudonyms that stay the same from sweep to sweep, users, homes and addresses go."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from stackproof.api.base import Redactor, Refusal, files, places
from stackproof.api.doctor import Machine
from stackproof.extras.fleet.judgement import FleetJudgement, GroupTold, HostStanding
from stackproof.extras.fleet.names import Clean, Names, pseudonym
from stackproof.extras.fleet.persons import Persons

_KEY_BYTES = 32


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


def redacted(found: FleetJudgement, secret: bytes, also: Collection[str] = ()) -> FleetJudgement:
    """Return the judgement with pseudonyms for its hosts, and without its folder's name, users, homes and addresses.

    By field: what is a host's name becomes its pseudonym, sentences are cleaned, and words of closed sets, subjects and units stay.
    `also`: other names that must not be told, such as those of files that are no host's.
    """
    sweep = pseudonym(found.fleet, secret).replace("host", "sweep")
    known = Names.of([*_hosts(found), *also], secret, {found.fleet: sweep})
    people = Persons.of(Redactor.of(Machine()), _texts(found))

    def clean(text: str) -> str:
        named = text.partition(":")[0].casefold() in known.told  # a damaged file's name is no mail
        return known.clean(text if named else people.clean(text))

    hosts = sorted((_host(one, known, clean) for one in found.hosts), key=lambda one: one.host)
    return replace(
        found, fleet=sweep, hosts=tuple(hosts), groups=tuple(_group(one, known, clean) for one in found.groups),
        notes=tuple(map(clean, found.notes)),
    )  # fmt: skip


def _host(told: HostStanding, known: Names, clean: Clean) -> HostStanding:
    findings = tuple(replace(one, sentence=clean(one.sentence)) for one in told.findings)
    return replace(told, host=known.host(told.host), reason=clean(told.reason), findings=findings)


def _group(told: GroupTold, known: Names, clean: Clean) -> GroupTold:
    cards = (card.partition(":") for card in told.cards)
    named = tuple(f"{known.host(host)}{apart}{number}" for host, apart, number in cards)
    return replace(told, architecture=clean(told.architecture), differs=clean(told.differs), cards=named)


def _hosts(found: FleetJudgement) -> Iterator[str]:
    """Yield every name that a judgement tells as a host's."""
    yield from (host.host for host in found.hosts)
    yield from (card.partition(":")[0] for group in found.groups for card in group.cards)


def _texts(found: FleetJudgement) -> Iterator[str]:
    """Yield every sentence."""
    yield from found.notes
    for host in found.hosts:
        yield host.reason
        yield from (one.sentence for one in host.findings)
    for group in found.groups:
        yield from (group.architecture, group.differs)
