"""Takes out of a text what names a person, a host or a place: for reports that are shown to strangers.

What goes: names that the machine itself knows (its users, hosts, homes, domains), and what has the form of a home, a mail, an address
or a serial number. A name in a form that nobody expects stays: look before you send.
"""

from __future__ import annotations

import getpass
import ipaddress
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

# These name nobody, and as words of the language they would be missed.
_COMMON_USERS = {"root", "user", "ubuntu", "admin", "nobody", "docker", "runner", "jovyan", "test", "me"}
_COMMON_HOSTS = {
    "localhost", "ip6-localhost", "ip6-loopback", "broadcasthost", "ip6-allnodes", "ip6-allrouters", "none", "local",
}  # fmt: skip
_LINK = re.compile(r"https?://[^\s)]+")
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_HOMES = r"/home|/Users|/export/home|/mnt/home|/nfs/home|/data/home"
_FORMS = (
    (re.compile(rf"(?<![\w.~-])(?:{_HOMES})/[^/\s:;,'\")]+|(?<![\w.~/-])/root(?=/|\b)"), "~"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"), "<mail>"),
    (re.compile(r"\b(\w*(?:_ADDR|_HOST|_HOSTS|HOSTNAME|_ENDPOINT|_HOSTID))=(\S+)"), r"\1=<host>"),
    (re.compile(rf"\b(GPU-|MIG-)?{_UUID}\b"), lambda match: f"{match[1] or ''}<serial>"),
    (re.compile(r"\bip-\d{1,3}(?:-\d{1,3}){3}\b"), "<host>"),
)
_DOMAIN = r"(?:\.[A-Za-z][A-Za-z0-9-]*)*"
_MAC = re.compile(r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5,}\b")
_V4 = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9+-]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]+(?:%\w+)?(?![\w:])")


@dataclass(frozen=True)
class Redactor:
    """The names to take out, longest first, and texts to keep although they look like an address."""

    users: tuple[str, ...]
    hosts: tuple[str, ...]
    homes: tuple[str, ...]
    domains: tuple[str, ...]
    keep: frozenset[str]

    @classmethod
    def of(
        cls, environ: Mapping[str, str], read: Callable[[str], str], keep: Collection[str] = (), *, real: bool = False
    ) -> Redactor:
        """Gather the names of a machine by its variables and files; `real`: whether it is the one that we run on.

        `keep`: versions that look like addresses (25.38.4.1).
        """
        users = {name for name in _users(environ, real) if name and name not in _COMMON_USERS}
        names = {name for name in _host_names(environ, read, real) if name and name not in _COMMON_HOSTS}
        hosts = _longest(names | {name.split(".")[0] for name in names})
        homes = {environ.get("HOME", "")} - {"", "/"}
        return cls(_longest(users), hosts, _longest(homes), _longest(_domains(read)), frozenset(keep))

    def clean(self, text: str) -> str:
        """Return the text without them; addresses of pages stay as they are."""
        pieces, end = [], 0
        for link in _LINK.finditer(text):
            pieces += [self._clean(text[end : link.start()]), link[0]]
            end = link.end()
        return "".join([*pieces, self._clean(text[end:])])

    def _clean(self, text: str) -> str:
        for home in self.homes:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
        for form, becomes in _FORMS:
            text = form.sub(becomes, text)
        for domain in self.domains:
            text = re.sub(rf"\b[\w.-]*\b{re.escape(domain)}\b", "<host>", text)
        text = _words(self.hosts, _DOMAIN).sub("<host>", text)
        text = _words(self.users).sub("<user>", text)
        return _V4.sub(self._address, _V6.sub(self._address, _MAC.sub("<address>", text)))

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        if not text.strip(":") or ("." in text and any(text in version for version in self.keep)):
            return text
        try:
            ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return text
        return "<address>"


def _words(names: Collection[str], after: str = "") -> re.Pattern[str]:
    """Return a pattern of these names as whole words, in any case, with what may come after; of none it matches nothing."""
    either = "|".join(map(re.escape, names)) or "(?!)"
    return re.compile(rf"(?<![A-Za-z0-9])({either})(?![A-Za-z0-9]){after}", re.IGNORECASE | re.ASCII)


def _longest(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def _users(environ: Mapping[str, str], real: bool) -> Iterator[str]:
    for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME", "SLURM_JOB_USER"):
        yield environ.get(name, "")
    yield environ.get("HOME", "").rstrip("/").rsplit("/", 1)[-1]
    if real:
        try:
            yield getpass.getuser()
        except (OSError, KeyError):  # a user without a name, as in many containers
            return


def _host_names(environ: Mapping[str, str], read: Callable[[str], str], real: bool) -> Iterator[str]:
    yield from (environ.get(name, "") for name in ("HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST"))
    yield read("/etc/hostname")
    for line in read("/etc/hosts").splitlines():
        yield from line.partition("#")[0].split()[1:]
    if real:
        yield socket.gethostname()


def _domains(read: Callable[[str], str]) -> set[str]:
    """Return the domains that the resolver searches: what ends in one is a host of the site."""
    words = set()
    for line in read("/etc/resolv.conf").splitlines():
        if line.startswith(("search", "domain")):
            words |= {f".{name.strip('.')}" for name in line.split()[1:] if "." in name.strip(".")}
    return words
