"""What backends do not offer, by rows of `fixtures/collectives.toml`; a row is tried, and fails once what it names works."""

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
    """One row: what is refused by which backends of which versions of torch, in which words, and why."""

    number: int
    backends: tuple[str, ...]
    torch: SpecifierSet
    collectives: tuple[str, ...]
    forms: tuple[str, ...]
    dtypes: tuple[str, ...]
    says: str
    reason: str
    link: str

    @property
    def place(self) -> str:
        """How people find the row."""
        return f"fixtures/collectives.toml, lacks[{self.number}]"

    def covers(self, row: Row, backend: str, version: str) -> bool:
        """Whether the row is about this check on this backend."""
        pairs = ((row.collective, self.collectives), (row.form, self.forms), (row.dtype, self.dtypes))
        return (
            backend in self.backends
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


def lacking(row: Row, backend: str, version: str = torch.__version__) -> Lack | None:
    """Return the row of data that says that the backend does not offer this, or None."""
    return next((lack for lack in lacks() if lack.covers(row, backend, version)), None)


def _lack(row: Table, number: int) -> Lack:
    with row:
        return Lack(
            number,
            row.strings("backends"),
            _versions(row),
            row.strings("collectives"),
            row.strings("forms", ["*"]),
            row.strings("dtypes", ["*"]),
            row.take("says", str),
            row.take("reason", str),
            row.take("link", str, ""),
        )


def _versions(row: Table) -> SpecifierSet:
    text = row.take("torch", str, "")
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise row.refuse("torch", f"is {text!r}; it must be a version range such as '>=2.8,<2.11'") from error
