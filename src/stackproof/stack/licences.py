"""Licences of packages, by the metadata of environments where they are installed; nothing is imported, and none is guessed.

Source: https://packaging.python.org/en/latest/specifications/core-metadata/
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from stackproof.base import files
from stackproof.base.text import plain
from stackproof.stack import environments
from stackproof.stack.environment_proof import normal_version

_CLASSIFIER = "License :: "
_LONGEST = 120
"""Characters of a licence's name; what is longer is its text."""


@dataclass(frozen=True)
class Licence:
    """What a package declares: an expression of SPDX, or the names that its authors wrote."""

    expression: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.expression or " / ".join(self.names)


Licences = Mapping[tuple[str, str], Licence]
"""By canonical name and version."""


def known(first: Iterable[Path] = ()) -> Licences:
    """Return the licences of all that is installed in these environments, in this Python, and in those of any stack."""
    found: dict[tuple[str, str], Licence] = {}
    for which, fields in _distributions(first):
        if licence := declared(fields):
            found.setdefault(which, licence)
    return found


def installed(first: Iterable[Path] = ()) -> frozenset[tuple[str, str]]:
    """Return what is installed in the same environments, whether or not it declares a licence."""
    return frozenset(which for which, _ in _distributions(first))


def _distributions(first: Iterable[Path]) -> Iterator[tuple[tuple[str, str], metadata.PackageMetadata]]:
    folders = [
        *map(_sites, first),
        *map(_sites, [Path(sys.prefix)]),
        *map(_sites, files.matching(environments.HOME, "*")),
    ]
    for row in metadata.distributions(path=[str(site) for sites in folders for site in sites]):
        if name := row.metadata["Name"]:
            yield (canonicalize_name(name), normal_version(row.version)), row.metadata


def _sites(prefix: Path) -> list[Path]:
    return files.matching(prefix, "lib/python3*/site-packages")


def declared(fields: metadata.PackageMetadata) -> Licence | None:
    """Return what a package's metadata say, the exact first: an expression, classifiers, a name; None where they are silent."""
    said = [text for key in ("License-Expression", "License") for text in fields.get_all(key) or () if _is_short(text)]
    for text in said:
        if expression := _expression(text):
            return Licence(expression)
    classified = tuple(_classified(fields.get_all("Classifier") or ()))
    if classified:
        return Licence(names=classified)
    return Licence(names=(plain(said[0].strip(), _LONGEST, lines=False),)) if said else None


def _is_short(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text.strip() and len(text) <= _LONGEST and text.strip() != "UNKNOWN"


def _classified(rows: Iterable[str]) -> Iterator[str]:
    for row in rows:
        name = row.removeprefix(_CLASSIFIER).removeprefix("OSI Approved").removeprefix(" :: ")
        if row.startswith(_CLASSIFIER) and name:
            yield plain(name, _LONGEST, lines=False)


def _expression(text: str) -> str:
    """Return an expression of SPDX in its usual form; empty for what is none, and where `packaging` is too old to know them."""
    try:
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    except ImportError:
        return ""
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return ""
