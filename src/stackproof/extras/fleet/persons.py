"""Users, homes, addresses and serials in what hosts have said: other people's, as far as their form tells them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stackproof.api.base import Redactor
from stackproof.extras.fleet import names

_HOME = re.compile(
    r"(?:/[\w.+-]+)*/(?:home\d*|[Uu]sers?|people|scratch|work|projects?)/([^/\s:;,'\")\]<>]+)|(?<![\w/])~([A-Za-z_][\w.-]*)"
)
_AT = re.compile(r"(?<![\w.+-])([A-Za-z_][\w.+-]*)@(?=[\w\[-])")
_SAID = re.compile(
    r"(?i)\b(user(?:name|id)?|accepted \w+ for|logname|owner|login|account|uid=\d+|gid=\d+|groups=\d+|sudo -u|--user)"
    r"(['\"]?[ =:(]+['\"]?)([a-z_][\w.-]*)"
)
_FOUR = re.compile(r"(?<![\d.])(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?!\d|\.\d)")
_WIRE = re.compile(
    r"(?i)\b(?:[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}|[0-9a-f]{4}(?::[0-9a-f]{4}){3,}|0x[0-9a-f]{12,16})\b"
)
_SIX = re.compile(
    r"(?i)(?<![\w:])(?=[0-9a-f:]*[0-9a-f]{3})[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7}(?:%[\w.-]+|/\d+)?(?![\w:])"
)
_SERIAL = re.compile(
    r"(?i)\b(s/?n|serial(?:[ _-]?(?:number|no\.?))?|uuid|guid|asset(?:[ _-]?tag)?)(['\"]?[ =:#]+['\"]?)([a-z0-9][\w-]{5,})"
)
_BOARD = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{6,}[\w-]*|\b\d{13}\b|(?<![\w])[0-9a-f]{32}(?![\w])")
_SHORT = 2
_KEPT = {"root", "user", "users", "nobody", "admin", "name"}


@dataclass(frozen=True)
class Persons:
    """What is taken out of texts: what this machine knows of itself, what has the form of a person's or an address, and users seen so."""

    own: Redactor
    users: re.Pattern[str]

    @classmethod
    def of(cls, own: Redactor, texts: Iterable[str]) -> Persons:
        """Gather the users that these texts name by their homes, their mails or their words."""
        found = {name for text in texts for name in _named(text)} - _KEPT
        told = [re.escape(name) for name in found if len(name) > _SHORT and not names.is_ordinary(name.casefold())]
        return cls(own, re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{'|'.join(sorted(told)) or '(?!)'})(?![A-Za-z0-9])"))

    def clean(self, text: str) -> str:
        """Return a text without them; addresses of pages are texts like others."""
        text = _HOME.sub("~", text)
        text = self.own.clean(text.replace("://", ":\0//")).replace("\0", "")
        text = _SAID.sub(self._said, _AT.sub("<user>@", text))
        text = _SERIAL.sub(r"\1\2<serial>", text)
        text = _BOARD.sub(lambda found: f"{found[1]}-<serial>" if found[1] else "<serial>", text)
        text = _FOUR.sub("<address>", _SIX.sub("<address>", _WIRE.sub("<address>", text)))
        return self.users.sub("<user>", text)

    def _said(self, found: re.Match[str]) -> str:
        name = found[3].rstrip(".")
        plain = (
            "=" not in found[2] and ":" not in found[2] and "=" not in found[1] and names.is_ordinary(name.casefold())
        )
        return found[0] if plain or name in _KEPT else f"{found[1]}{found[2]}<user>"


def _named(text: str) -> set[str]:
    """Return the users that a text names."""
    found = {one or other for one, other in _HOME.findall(text)} | set(_AT.findall(text))
    return found | {name.rstrip(".") for _, between, name in _SAID.findall(text) if set(between) & set("=:(")}
