"""Takes out of a text what says whose it is: users, hosts, addresses, home folders, serial numbers of cards."""

from __future__ import annotations

import getpass
import ipaddress
import re
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .machine import Machine

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
