"""Known issues: rows that excuse a failing check for a range of versions, with a link, an owner and an end.

A row that starts to pass, expires, or matches no check fails the run and says which line to delete or renew:
skip lists rot (torch-xpu-ops#2159).
"""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from stackproof.base.toml import OneOf, Parsed, Table, Wrong
from stackproof.record.records import Check, Figure, Record, Verdict
from stackproof.stack.stacks import Stack

EXCUSABLE = (Verdict.FAILED, Verdict.CRASHED, Verdict.HUNG)
WHERE = ("cards", "rehearsal", "both")


def version_range(text: str) -> SpecifierSet:
    """Return the range that a text writes, or raise `ValueError` with what it must be."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f"is {text!r}; it must be a version range such as '>=2.8,<2.9'") from error


ANY_VERSION = SpecifierSet()
Versions = Annotated[SpecifierSet, Parsed(version_range)]


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """One row of `stacks/NAME/known_issues.toml`."""

    file: Path
    line: int
    test: str
    torch: Versions = ANY_VERSION
    driver: Versions = ANY_VERSION
    link: str
    owner: str
    expires: datetime.date
    reason: str
    where: Annotated[str, OneOf(WHERE)] = "cards"

    def __post_init__(self) -> None:
        if not self.link.startswith("https://"):
            raise Wrong("link", f"is {self.link!r}; it must be the address of a public thread, starting with https://")

    @property
    def place(self) -> str:
        """File and line, as people name a row."""
        return f"stacks/{self.file.parent.name}/{self.file.name}:{self.line}"

    @property
    def expired(self) -> bool:
        """Whether the row's last day is over."""
        return datetime.date.today() > self.expires

    def matches(self, check: Check) -> bool:
        """Whether the row is about this check."""
        return check.id == self.test or fnmatch.fnmatchcase(check.id, self.test)

    def applies(self, provenance: dict[str, Figure]) -> bool:
        """Whether the versions that ran are in the row's ranges; a driver that nobody could read is in any."""
        return _within(self.torch, [str(provenance.get("torch", ""))]) and _within(self.driver, _drivers(provenance))


def load(stack: Stack) -> tuple[KnownIssue, ...]:
    """Return the stack's rows that hold where it runs: on its cards, or in its rehearsal.

    Raises:
        Refusal: the file is broken; the sentence names file, key and what is allowed.
    """
    path = stack.folder / "known_issues.toml"
    if not path.exists():
        return ()
    lines = [
        number
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip() == "[[issue]]"
    ]
    wanted = "rehearsal" if stack.rehearsed else "cards"
    with Table.load(path) as table:
        pairs = zip(table.tables("issue"), lines, strict=True)
        rows = [row.row(KnownIssue, file=path, line=line) for row, line in pairs]
    return tuple(row for row in rows if row.where in (wanted, "both"))


def excuse(rows: tuple[KnownIssue, ...], check: Check, record: Record) -> Check:
    """Return the check as a known issue if a row that holds is about it; its own reason is kept."""
    if check.verdict not in EXCUSABLE:
        return check
    for row in rows:
        if not row.expired and row.matches(check) and row.applies(record.provenance):
            reason = f"{row.reason} ({row.link}, until {row.expires}); it said: {check.reason}"
            return replace(check, verdict=Verdict.KNOWN_ISSUE, reason=reason)
    return check


def verdicts(rows: tuple[KnownIssue, ...], record: Record, suites: tuple[str, ...], partial: bool) -> Iterator[Check]:
    """Yield a failed check for each row that should be deleted or renewed.

    `partial`: only some checks of the suites ran, so that a row without a match says nothing.
    """
    for row in rows:
        if not row.applies(record.provenance) or row.test.split("/", 1)[0] not in suites:
            continue
        matched = [check for check in record.checks if row.matches(check)]
        if complaint := _complaint(row, matched, partial):
            yield Check(f"known issue {row.place}", Verdict.FAILED, complaint, 0.0)


def _complaint(row: KnownIssue, matched: list[Check], partial: bool) -> str:
    if row.expired:
        return (
            f"expired on {row.expires}: look at {row.link} again, then renew 'expires' or delete the row at {row.place}"
        )
    if not matched:
        return "" if partial else f"matches no check ('{row.test}'): delete the row at {row.place} or mend its pattern"
    if all(check.verdict is Verdict.PASSED for check in matched):
        return f"'{row.test}' passes now: delete the row at {row.place} ({row.owner} owns it)"
    return ""


def _within(wanted: SpecifierSet, texts: list[str]) -> bool:
    versions = [version for text in texts if (version := _version(text))]
    return (
        not str(wanted)
        or not versions
        or any(wanted.contains(version.base_version, prereleases=True) for version in versions)
    )


def _version(text: str) -> Version | None:
    """Return the first word that is a version: driver tools print sentences."""
    for word in text.replace(",", " ").split():
        try:
            return Version(word)
        except InvalidVersion:
            continue
    return None


def _drivers(provenance: dict[str, Figure]) -> list[str]:
    """Return the compute driver's version, which torch tells; without it, every version that has to do with a driver.

    A kernel module's version is counted otherwise (xe 1.1.0 beside Level Zero 1.14.37435).
    """
    found = {key: str(value) for key, value in provenance.items() if "driver" in key}
    return [value for key, value in found.items() if key.endswith("driver_version")] or list(found.values())
