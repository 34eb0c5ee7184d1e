"""A checkup for people, for programs, and for an issue, which then names no user, host or card.

The doctor comes before any environment, so it needs no rich.
"""

from __future__ import annotations

import getpass
import ipaddress
import json
import re
import socket
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stackproof import __version__
from stackproof.base.text import plain
from stackproof.doctor.checkup import Checkup
from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import AREAS, Finding
from stackproof.stack.provenance import VARIABLES
from stackproof.stack.variables import Level

# These name nobody, and as words of the language they would be missed.
_COMMON_USERS = {"root", "user", "ubuntu", "admin", "nobody", "docker", "runner", "jovyan", "test", "me"}
_COMMON_HOSTS = {
    "localhost",
    "ip6-localhost",
    "ip6-loopback",
    "broadcasthost",
    "ip6-allnodes",
    "ip6-allrouters",
    "none",
    "local",
}

_LINK = re.compile(r"https?://[^\s)]+")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b")
_MAC = re.compile(r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5,}\b")
_UUID = re.compile(r"\b(GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_V4 = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9+-]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]+(?:%\w+)?(?![\w:])")
_HOME = re.compile(
    r"(?<![\w.~-])(?:/home|/Users|/export/home|/mnt/home|/nfs/home|/data/home)/[^/\s:;,'\")]+|(?<![\w.~/-])/root(?=/|\b)"
)
_CLOUD_HOST = re.compile(r"\bip-\d{1,3}(?:-\d{1,3}){3}\b")
_ADDRESSED = re.compile(r"\b(\w*(?:_ADDR|_HOST|_HOSTS|HOSTNAME|_ENDPOINT|_HOSTID))=(\S+)")


@dataclass(frozen=True)
class Redactor:
    """What is to be taken out of one machine's texts, and what is to be kept although it looks like it."""

    users: tuple[str, ...]
    hosts: tuple[str, ...]
    homes: tuple[str, ...]
    domains: tuple[str, ...]
    keep: frozenset[str]

    @classmethod
    def of(cls, machine: Machine, keep: Collection[str] = ()) -> Redactor:
        """Gather the names of a machine; `keep`: versions, some of which look like addresses (25.38.4.1)."""
        users = {name for name in _users(machine) if name and name not in _COMMON_USERS}
        names = {name for name in _hosts(machine) if name and name not in _COMMON_HOSTS}
        short = {name.split(".")[0] for name in names}
        homes = {machine.environ.get("HOME", "")} - {"", "/"}
        return cls(
            _longest(users), _longest(names | short), _longest(homes), _longest(_domains(machine)), frozenset(keep)
        )

    def clean(self, text: str) -> str:
        """Return the text without them; links to public pages stay."""
        pieces, end = [], 0
        for link in _LINK.finditer(text):
            pieces += [self._clean(text[end : link.start()]), link[0]]
            end = link.end()
        return "".join([*pieces, self._clean(text[end:])])

    def _clean(self, text: str) -> str:
        for home in self.homes:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
        text = _HOME.sub("~", text)
        text = _MAIL.sub("<mail>", text)
        text = _ADDRESSED.sub(lambda found: f"{found[1]}=<host>", text)
        text = _UUID.sub(lambda found: f"{found[1] or ''}<serial>", text)
        text = _CLOUD_HOST.sub("<host>", text)
        for domain in self.domains:
            text = re.sub(rf"\b[\w.-]*\b{re.escape(domain)}\b", "<host>", text)
        for name in self.hosts:
            text = _word(name).sub("<host>", text)
        for name in self.users:
            text = _word(name).sub("<user>", text)
        text = _MAC.sub("<address>", text)
        text = _V6.sub(self._address, text)
        return _V4.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        text = found[0]
        if not text.strip(":") or ("." in text and any(text in version for version in self.keep)):
            return text
        try:
            ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return text
        return "<address>"


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")


def _longest(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def _users(machine: Machine) -> Iterator[str]:
    yield from (
        machine.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME", "SLURM_JOB_USER")
    )
    yield machine.environ.get("HOME", "").rstrip("/").rsplit("/", 1)[-1]
    if machine.real:
        try:
            yield getpass.getuser()
        except (OSError, KeyError):  # a user without a name, as in many containers
            return


def _hosts(machine: Machine) -> Iterator[str]:
    yield from (machine.environ.get(name, "") for name in ("HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST"))
    yield machine.read("/etc/hostname")
    for line in machine.read("/etc/hosts").splitlines():
        yield from line.partition("#")[0].split()[1:]
    if machine.real:
        yield socket.gethostname()


def _domains(machine: Machine) -> set[str]:
    """Return the domains that the resolver searches: what ends in one is a host of the site."""
    found = set()
    for line in machine.read("/etc/resolv.conf").splitlines():
        if line.startswith(("search", "domain")):
            found |= {f".{name.strip('.')}" for name in line.split()[1:] if "." in name.strip(".")}
    return found


_COLOURS = {Level.OK: "32", Level.NOTE: "36", Level.WARNING: "33", Level.PROBLEM: "1;31"}
_INDENT = 11
_WIDEST = 150


def terminal(checkup: Checkup, width: int = _WIDEST, colour: bool = False) -> Iterator[str]:
    """Yield the lines of the whole report: the stacks, then the findings by area, then one line of counts."""
    yield from map(plain, checkup.presence)
    for area in AREAS:
        yield ""
        yield area
        for finding in checkup.findings:
            if finding.area == area:
                yield from _lines(finding, min(width, _WIDEST), colour)
    yield ""
    yield _total(checkup, colour)


def as_json(checkup: Checkup) -> str:
    """Return the checkup as one JSON object."""
    findings = [
        {
            "area": row.area,
            "level": row.level.value,
            "sentence": row.sentence,
            "remedy": row.remedy,
            "link": row.link,
        }
        for row in checkup.findings
    ]
    whole = {
        "schema": "stackproof.doctor/1",
        "stackproof": __version__,
        "exit_code": checkup.exit_code,
        "present": checkup.present,
        "stacks": checkup.presence,
        "findings": findings,
        "facts": dict(sorted(checkup.facts.items())),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False)


def for_an_issue(checkup: Checkup, machine: Machine) -> str:
    """Return one block of text to paste, without names of users and hosts, addresses, and home folders."""
    chosen = {name: value for name, value in sorted(machine.environ.items()) if name.startswith(VARIABLES)}
    lines = [
        f"stackproof {__version__} doctor; names of users and hosts, addresses and home folders are removed",
        "",
        *terminal(checkup),
        "",
        "variables of the libraries below torch",
        *(f"  {name}={plain(value)}" for name, value in chosen.items()),
        *([] if chosen else ["  none is set"]),
    ]
    keep = {value for name, value in checkup.facts.items() if name not in ("container",)}
    return "```text\n" + Redactor.of(machine, keep).clean("\n".join(lines)).replace("```", "'''") + "\n```"


def _lines(finding: Finding, width: int, colour: bool) -> Iterator[str]:
    room = max(width - _INDENT, 40)
    level = finding.level.value.ljust(_INDENT - 3)
    shown = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m" if colour else level
    first, *rest = textwrap.wrap(plain(finding.sentence), room, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"  {shown} {first}"
    yield from (f"{' ' * _INDENT}{line}" for line in rest)
    for extra in (f"> {finding.remedy}" if finding.remedy else "", finding.link):
        if extra:  # never wrapped, so that it can be copied
            yield f"{' ' * _INDENT}{plain(extra)}"


def _total(checkup: Checkup, colour: bool) -> str:
    counts = {level: checkup.count(level) for level in reversed(Level)}
    said = ", ".join(f"{count} {_plural(level, count)}" for level, count in counts.items() if count)
    worst = "PROBLEM" if checkup.exit_code else "NO PROBLEM"
    shown = f"\x1b[{_COLOURS[Level.PROBLEM if checkup.exit_code else Level.OK]}m{worst}\x1b[0m" if colour else worst
    return f"{shown}  {said}"


def _plural(level: Level, count: int) -> str:
    return level.value if count == 1 or level is Level.OK else f"{level.value}s"
