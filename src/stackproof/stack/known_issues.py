"""Known issues: rows that excuse a failing check for a range of versions, with a link, an owner and an end.

A row that starts to pass, expires, or matches no check fails the run and says which line to delete or renew:
skip lists rot (torch-xpu-ops#2159).
"""

from __future__ import annotations

import datetime
import re
import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from stackproof import DATA
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.text import is_visible, matches
from stackproof.base.toml import OneOf, Parsed, Table, Wrong
from stackproof.project import projects
from stackproof.record.records import Check, Figure, Record, Verdict
from stackproof.stack import installed_files
from stackproof.stack.stacks import STACKS, SUITES, Stack, display_path, suites

EXCUSABLE = (Verdict.FAILED, Verdict.CRASHED, Verdict.HUNG)
WHERE = ("cards", "rehearsal", "both")
# Suite, file and check by name; what a check is parametrised with may be a pattern.
_PATTERN = re.compile(r"[a-z0-9_]+/[a-z0-9_]+::[A-Za-z0-9_:]+(\[.+)?")


def version_range(text: str) -> SpecifierSet:
    """Return the range that a text writes, or raise `ValueError` with what it must be."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f"is {text!r}; it must be a version range such as '>=2.8,<2.9'") from error


BACKENDS = DATA / "backends"
"""Rows that follow a backend to every stack that has it, a file each."""
ANY_VERSION = SpecifierSet()
_SHORTEST = 4
_LONGEST = datetime.timedelta(days=366)
"""For so long a row may excuse before somebody looks at its thread again; a last day beyond it is none."""
_ANY = "\n".join((*string.printable, "AssertionError", "RuntimeError", "ValueError", "TypeError"))
"""What a pattern may not match: any one character, and the kind of an error alone."""
Versions = Annotated[SpecifierSet, Parsed(version_range)]


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """One row of `stacks/NAME/known_issues.toml`."""

    file: Path
    line: int | str
    test: str
    torch: Versions = ANY_VERSION
    driver: Versions = ANY_VERSION
    link: str
    owner: str
    expires: datetime.date
    reason: str
    where: Annotated[str, OneOf(WHERE)] = "cards"
    when: Mapping[str, str] = field(default_factory=dict)
    """Facts of provenance that must hold, each as a pattern; the row says nothing of a host on which one does not."""
    most: int
    """It excuses at most so many checks: as many as were seen to fail, or as many as there are where it fails by chance."""
    says: str
    """A pattern of what the failure says, such as "True is 2": another failure of the same check is excused by nothing."""
    sometimes: bool = False
    """Whether the check also passes, such as where the fault depends on what lay in memory; a pass is no complaint then."""

    def __post_init__(self) -> None:
        if not _PATTERN.fullmatch(self.test):
            raise Wrong(
                "test",
                f"is {self.test!r}; it must name suite, file and check, as in 'rng/rng::seed[[]*', with * only behind [",
            )
        if (suite := self.test.partition("/")[0]) not in suites():
            raise Wrong("test", f"is {self.test!r}, and there is no suite '{suite}'{suggestion(suite, suites())}")
        for name in ("owner", "reason"):
            if not is_visible(getattr(self, name)):
                raise Wrong(name, "is empty; a row without it is looked at by nobody")
        try:
            vague = re.search(self.says, _ANY) or len(self.says) < _SHORTEST  # a word such as "is" stands anywhere
        except (re.error, OverflowError, RecursionError) as error:
            raise Wrong("says", f"is {self.says!r}, and no pattern: {error}") from error
        if vague:
            why = "any failure says; write words or numbers of the row's own failure"
            raise Wrong("says", f"is {self.says!r}, which {why}")
        if self.expires > datetime.date.today() + _LONGEST:
            why = f"a row ends within {_LONGEST.days} days, when its thread is read again"
            raise Wrong("expires", f"is {self.expires}; {why}")
        if self.most < 1:
            raise Wrong("most", f"is {self.most}; it must be 1 or more, because a row that excuses nothing is none")
        if not self.link.startswith("https://"):
            raise Wrong("link", f"is {self.link!r}; it must be the address of a public thread, starting with https://")

    @property
    def place(self) -> str:
        """File and line, as people name a row; where its header does not stand in a line of its own, `issue[3]`."""
        return f"{display_path(self.file)}:{self.line}"

    @property
    def expired(self) -> bool:
        """Whether the row's last day is over."""
        return datetime.date.today() > self.expires

    @property
    def exists(self) -> bool:
        """Whether a suite's files hold a check of that name."""
        suite, _, rest = self.test.partition("/")
        file, _, check = rest.partition("::")
        named = re.compile(rf"^def test_{check.partition('[')[0]}\(", re.MULTILINE)
        project = projects.current()
        roots = [SUITES, *([project.suites] if project and project.suites else [])]
        files = (path for root in roots for path in (root / suite).glob("test_*.py"))
        mine = (path for path in files if re.fullmatch(rf"test_(\d+_)?{file}", path.stem))
        return any(named.search(path.read_text(encoding="utf-8")) for path in mine)

    def matches(self, check: Check) -> bool:
        return matches(check.id, [self.test])

    def applies(self, provenance: dict[str, Figure]) -> bool:
        """Whether the versions that ran are in the row's ranges; a driver that nobody could read is in any."""
        torch, driver = [str(provenance.get("torch", ""))], _drivers(provenance)
        facts = (fact in provenance and matches(str(provenance[fact]), [text]) for fact, text in self.when.items())
        return _within(self.torch, torch) and _within(self.driver, driver) and all(facts)


def load(stack: Stack) -> tuple[KnownIssue, ...]:
    """Return the rows that hold where a stack runs, on its cards or in its rehearsal: its own, a project's, its backends'."""
    project = projects.current()
    paths = [stack.folder / "known_issues.toml", *([project.known_issues] if project and project.known_issues else [])]
    paths += [BACKENDS / f"{backend}.toml" for backend in stack.backends]
    place = "rehearsal" if stack.rehearsed else "cards"
    return tuple(row for path in paths if path.exists() for row in _read(path) if row.where in (place, "both"))


def _read(path: Path) -> tuple[KnownIssue, ...]:
    with Table.load(path) as table:
        found = table.tables("issue")
    text = path.read_text(encoding="utf-8")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*issue\s*]]", line)]
    places = lines if len(lines) == len(found) else [f"issue[{number}]" for number in range(len(found))]
    return tuple(row.row(KnownIssue, file=path, line=line) for row, line in zip(found, places, strict=True))


def excuse(rows: tuple[KnownIssue, ...], check: Check, record: Record) -> Check:
    """Return the check as a known issue if a row that holds is about it; its own reason is kept."""
    if check.verdict not in EXCUSABLE:
        return check
    about = [row for row in rows if not row.expired and row.matches(check) and row.applies(record.provenance)]
    for row in about:
        if re.search(row.says, check.reason):
            reason = f"{row.reason} ({row.link}, until {row.expires}); it said: {check.reason}"
            return replace(check, verdict=Verdict.KNOWN_ISSUE, reason=reason)
    others = "".join(f"; the row at {row.place} knows another failure of it, which says '{row.says}'" for row in about)
    return replace(check, reason=f"{check.reason}{others}") if about else check


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
    excused = sum(check.verdict is Verdict.KNOWN_ISSUE for check in matched)
    if excused > row.most:
        return (
            f"'{row.test}' excuses {excused} checks, its row at {row.place} says at most {row.most}: look at the others"
        )
    if not row.sometimes and all(check.verdict is Verdict.PASSED for check in matched):
        return f"'{row.test}' passes now: delete the row at {row.place} ({row.owner} owns it)"
    return ""


def _within(specifier: SpecifierSet, texts: list[str]) -> bool:
    """Whether the first word that is a version, for driver tools print sentences, is in the range in one of the texts."""
    words = (map(installed_files.version_of, text.replace(",", " ").split()) for text in texts)
    versions = [version.base_version for each in words if (version := next(filter(None, each), None))]
    return not versions or any(specifier.contains(version, prereleases=True) for version in versions)


def _drivers(provenance: dict[str, Figure]) -> list[str]:
    """Return the compute driver's version, which torch tells; else all that name a driver: a kernel module's is another (xe 1.1.0)."""
    values = {key: str(value) for key, value in provenance.items() if "driver" in key}
    return [value for key, value in values.items() if key.endswith("driver_version")] or list(values.values())


def main() -> int:
    """`python -m stackproof.stack.known_issues`: judge every row of every stack for existence and day; lint calls it."""
    lines = []
    for path in sorted([*STACKS.glob("*/known_issues.toml"), *BACKENDS.glob("*.toml")]):
        try:
            for row in _read(path):
                lines += [f"{row.place}: {_complaint(row, [], True)}"] if row.expired else []
                if not row.exists:
                    lines.append(f"{row.place}: no check is called '{row.test}'; mend the pattern or delete the row")
        except Refusal as refusal:
            lines.append(str(refusal))
    for line in lines:
        print(line)  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
