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
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from stackproof import __version__
from stackproof.base import advice
from stackproof.base.text import plain
from stackproof.doctor.checkup import Checkup
from stackproof.doctor.machine import Machine
from stackproof.doctor.presence import NOTHING, Presence, Sight
from stackproof.doctor.rules import AREAS, Finding
from stackproof.stack.provenance import VARIABLES, host_name
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


def terminal(checkup: Checkup, width: int = _WIDEST, colour: bool = False, every: bool = False) -> Iterator[str]:
    """Yield the lines of the whole report: the verdict, what is wrong, what is as it should be, the stacks (`every`: one by one)."""
    yield _total(checkup, colour)
    wrong = [row for level in reversed(Level) for row in checkup.findings if row.level is level is not Level.OK]
    if wrong:
        yield ""
    for finding in wrong:
        yield from _lines(finding, min(width, _WIDEST), colour)
    yield from ("", "as it should be")
    for area in AREAS:
        for finding in checkup.findings:
            if finding.area == area and finding.level is Level.OK:
                yield from _lines(finding, min(width, _WIDEST), colour)
    yield ""
    yield from map(plain, stack_lines(checkup.presence) if every else _stacks(checkup.presence))


def stack_lines(presence: Presence) -> Iterator[str]:
    """Yield what there is of each stack, requirement by requirement."""
    yield f"host: {presence.host}"
    yield _would_prove(presence)
    for sight in presence.stacks:
        yield ""
        yield from _sight(sight)


def _would_prove(presence: Presence) -> str:
    """Say what is proved where nobody names a stack; the command itself asks for one."""
    name = "NAME" if presence.preferred.startswith(NOTHING) else presence.preferred
    typical = "nox -s smoke" if advice.sessions() else advice.command(name, "smoke")
    return f"`{typical}` would prove: {presence.preferred}"


def _sight(sight: Sight) -> Iterator[str]:
    if sight.broken:
        yield f"{sight.name}: broken - {sight.broken}"
        return
    yield f"{sight.name}: {'present' if sight.present else 'not on this host'} - {sight.title}"
    for row in sight.requirements:
        state, how = ("ok", "seen") if row.found else ("missing", "looked at")
        yield f"  [{state}] {row.what} ({how}: {row.evidence})"
    if sight.hint:
        yield f"  to get it: {sight.hint}"
    yield from (f"  python: {sight.python}", f"  lock: {sight.lock}", f"  environment: {sight.environment}")
    if sight.visibility:
        yield f"  {sight.visibility}: {'not set, all cards are visible' if sight.visible is None else sight.visible}"


def _stacks(presence: Presence) -> Iterator[str]:
    """Yield the stacks in a few lines; one that was asked for by name is said in full."""
    if len(presence.stacks) == 1:
        yield from stack_lines(presence)
        return
    here = ", ".join(sight.name for sight in presence.stacks if sight.present)
    absent = ", ".join(sight.name for sight in presence.stacks if not sight.present and not sight.broken)
    yield f"host: {presence.host}"
    yield f"stacks here: {here or 'none'}; {_would_prove(presence)}"
    if absent:
        yield f"not here: {absent}; `--all` says what each lacks"
    yield from (f"{sight.name}: broken - {sight.broken}" for sight in presence.stacks if sight.broken)


def as_json(checkup: Checkup) -> str:
    """Return the checkup as one JSON object; what is in it is data, not text for people."""
    findings = [
        {
            "area": row.area,
            "level": row.level.value,
            "sentence": row.sentence,
            "remedy": row.remedy,
            "link": row.link,
            "variables": row.subjects,
        }
        for row in checkup.findings
    ]
    presence = checkup.presence
    whole = {
        "schema": "stackproof.doctor/2",
        "stackproof": __version__,
        "node": host_name(),
        "looked": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "exit_code": checkup.exit_code,
        "host": presence.host,
        "preferred": presence.preferred,
        "present": [stack.name for stack in presence.stacks_here],
        "stacks": [asdict(sight) for sight in presence.stacks],
        "findings": findings,
        "variables": asdict(checkup.known),
        "facts": dict(sorted(checkup.facts.items())),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False)


def for_an_issue(checkup: Checkup, machine: Machine) -> str:
    """Return one block of text to paste, without names of users and hosts, addresses, and home folders."""
    chosen = {name: value for name, value in sorted(machine.environ.items()) if name.startswith(VARIABLES)}
    lines = [
        f"stackproof {__version__} doctor; names of users and hosts, addresses and home folders are removed",
        "",
        *terminal(checkup, every=True),
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
    first, *rest = textwrap.wrap(
        f"{finding.area}: {plain(finding.sentence)}", room, break_long_words=False, break_on_hyphens=False
    ) or [""]
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
