"""What backends do not offer, by rows of `fixtures/collectives.toml`.

A row is tried, and fails once what it names works; only what ends the ranks instead of refusing is left out, up to a version of torch.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from functools import cache

import torch
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from .. import ROOT
from ..tables import Table
from .collectives_rows import Row

RULES = ROOT / "fixtures" / "collectives.toml"


@dataclass(frozen=True)
class Lack:
    """One row: what is refused by which backends of which versions of torch, for tensors of which devices, in which words, and why."""

    number: int
    backends: tuple[str, ...]
    devices: tuple[str, ...]
    torch: SpecifierSet
    collectives: tuple[str, ...]
    forms: tuple[str, ...]
    dtypes: tuple[str, ...]
    says: str
    reason: str
    link: str
    tried: bool

    @property
    def place(self) -> str:
        """How people find the row."""
        return f"fixtures/collectives.toml, lacks[{self.number}]"

    @property
    def sentence(self) -> str:
        """Why a check is skipped, and whether that was seen in this run."""
        outcome = f"it says {self.says!r}" if self.tried else f"not tried, because it ended so: {self.says}"
        return f"{self.place}: {self.reason}; {outcome}"

    def covers(self, row: Row, backend: str, device: str, version: str) -> bool:
        """Whether the row is about this check on this backend, with tensors of this torch device type."""
        pairs = ((row.collective, self.collectives), (row.form, self.forms), (row.dtype, self.dtypes))
        return (
            backend in self.backends
            and any(fnmatch.fnmatchcase(device, pattern) for pattern in self.devices)
            and self.torch.contains(Version(version).base_version, prereleases=True)
            and all(any(fnmatch.fnmatchcase(word, pattern) for pattern in patterns) for word, patterns in pairs)
        )


@cache
def lacks() -> tuple[Lack, ...]:
    """Load the rows.

    Raises:
        Refusal: the file is broken; the sentence names the key and what is allowed.
    """
    with Table.load(RULES) as table:
        return tuple(_lack(row, number) for number, row in enumerate(table.tables("lacks")))


def lacking(row: Row, backend: str, device: str, version: str = torch.__version__) -> Lack | None:
    """Return the row of data that says that the backend does not offer this for tensors of the torch device type, or None."""
    return next((lack for lack in lacks() if lack.covers(row, backend, device, version)), None)


def _lack(row: Table, number: int) -> Lack:
    with row:
        tried = row.take("tried", bool, True)
        return Lack(
            number,
            row.strings("backends"),
            row.strings("devices", ["*"]),
            _versions(row, tried),
            row.strings("collectives"),
            row.strings("forms", ["*"]),
            row.strings("dtypes", ["*"]),
            row.take("says", str),
            row.take("reason", str),
            row.take("link", str, ""),
            tried,
        )


def _versions(row: Table, tried: bool) -> SpecifierSet:
    text = row.take("torch", str, "")
    try:
        versions = SpecifierSet(text)
    except InvalidSpecifier as error:
        raise row.refuse("torch", f"is {text!r}; it must be a version range such as '>=2.8,<2.11'") from error
    if not tried and not any(version.operator in ("<", "<=", "==") for version in versions):
        raise row.refuse(
            "torch",
            f"is {text!r}; a row that is not tried needs an end such as '<2.12', so that a newer torch is tried",
        )
    return versions
