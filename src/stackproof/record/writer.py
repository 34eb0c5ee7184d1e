"""The one way in which a verb opens its record and keeps it, and the same as JUnit XML (the schema that pytest and Jenkins share)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import combinations
from pathlib import Path

from stackproof.base import advice
from stackproof.base.errors import Refusal
from stackproof.base.places import INSTALLED, ROOT
from stackproof.base.text import plain
from stackproof.record import records, repeat
from stackproof.record.records import TYPED, Check, Figure, Record, Verdict
from stackproof.record.store import LOCAL


@dataclass(frozen=True)
class Outputs:
    """Where a run leaves what it found: always a record under `results`, and the files that were asked for."""

    results: Path = LOCAL
    json: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None

    @property
    def _named(self) -> list[tuple[str, Path]]:
        files = (("--json", self.json), ("--junit", self.junit), ("--markdown", self.markdown))
        return [(flag, path) for flag, path in files if path]

    def prepare(self) -> None:
        """Refuse before minutes are spent, not after, if something cannot be written."""
        for (flag, path), (other, same) in combinations(self._named, 2):
            if path == same:
                raise Refusal(
                    f"{path}: is named by {flag} and by {other}, and one would overwrite the other; name two files"
                )
        for folder in {self.results, *(path.parent for _, path in self._named)}:
            try:
                self._make(folder)
                with tempfile.TemporaryFile(dir=folder):
                    pass
            except OSError as error:
                flags = ", ".join(("--results", *(flag for flag, _ in self._named)))
                raise Refusal(
                    f"{folder}: nothing can be written there ({error.strerror}); make it writable, "
                    f"or choose another place with {flags}"
                ) from error

    def _make(self, folder: Path) -> None:
        """Make a folder; where nobody named it and it is not in our checkout, git shall not see it in the user's repository."""
        new = self.results == LOCAL and not self.results.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if new and self.results.exists() and (INSTALLED or not LOCAL.is_relative_to(ROOT)):
            (self.results / ".gitignore").write_text("*\n", encoding="utf-8")

    def folder(self, record: Record) -> Path:
        """Make and return a new folder for the record and the logs of one run."""
        base = self.results / record.stack
        self._make(base)
        began = record.started[:19].replace("-", "").replace(":", "")
        return Path(tempfile.mkdtemp(prefix=f"{began}-{record.verb}-", dir=base))


def begin(verb: str, stack: str, provenance: Mapping[str, Figure] | None = None) -> Record:
    """Return the record of a run that starts now, with the facts that are known by then."""
    started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    figures: dict[str, Figure] = {TYPED: words} if (words := advice.typed()) else {}
    return Record(verb, stack, started, provenance={**figures, **(provenance or {})})


def checkpoint(record: Record, path: Path) -> None:
    """Keep a record as it stands while its run goes on; if that fails now, the end of the run will say so."""
    with contextlib.suppress(Refusal):
        records.write(record, path)


def keep(
    record: Record, path: Path, outputs: Outputs | None = None, page: Callable[[Record], str] | None = None
) -> Path:
    """Write the record to `path` and every output that was asked for; return `path`.

    `page` makes the Markdown. If the record cannot be written now, it still survives in the temporary folder.
    """
    try:
        records.seal(record, path.parent)
        records.write(record, path)
    except Refusal as refusal:
        raise Refusal(f"{refusal}{_rescued(record)}") from refusal
    try:
        write_asked(record, outputs or Outputs(), page)
    except Refusal as refusal:
        raise Refusal(f"{refusal}; the record of this run is {path}") from refusal
    return path


def _rescued(record: Record) -> str:
    """Save a record in the temporary folder, and say where; where that cannot be either, nothing is left there."""
    folder = Path(tempfile.mkdtemp(prefix="stackproof-"))
    try:
        (folder / "record.json").write_text(record.as_json(), encoding="utf-8")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        return ""
    return f"; the record of this run was saved as {folder / 'record.json'}"


def write_asked(record: Record, outputs: Outputs, page: Callable[[Record], str] | None = None) -> None:
    """Write the files that were asked for; `page` makes the Markdown."""
    if outputs.json:
        records.write(record, outputs.json)
    if outputs.junit:
        records.write_file(outputs.junit, junit(record), "JUnit file", "--junit")
    if outputs.markdown and page:
        records.write_file(outputs.markdown, page(record), "page", "--markdown")


_ELEMENTS = {
    Verdict.PASSED: "",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.KNOWN_ISSUE: "skipped",
    Verdict.FAILED: "failure",
}


_OF_GATES = {Verdict.CRASHED: "failure", Verdict.HUNG: "failure"}
"""A side of a gate that crashed or hung is why nothing is merged, and no trouble of the tool."""


def _element(record: Record, verdict: Verdict) -> str:
    """Return how a verdict is written in JUnit; empty for a pass."""
    ours = _OF_GATES.get(verdict, "") if record.verb == "gate" else ""
    return ours or _ELEMENTS.get(verdict, "error")


def junit(record: Record) -> str:
    """Return the XML text; verdicts that are neither passed, skipped nor failed are errors.

    Where the run as a whole is worse than each of its checks, it is a case of its own: no reader takes it for a pass.
    """
    record = _with_whole(record)
    suite = ET.Element(
        "testsuite", name=plain(f"{record.stack} {record.verb}"), timestamp=record.started, time=f"{record.seconds:.3f}"
    )
    kinds = [_element(record, check.verdict) for check in record.checks]
    suite.set("tests", str(len(kinds)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))
    properties = ET.SubElement(suite, "properties")
    for key, fact in record.provenance.items():
        ET.SubElement(properties, "property", name=plain(key), value=plain(str(fact)))
    for check in record.checks:
        _case(suite, record, check)
    # Written out, because Python 3.10 would declare the locale's encoding and the file is UTF-8 everywhere.
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _with_whole(record: Record) -> Record:
    """Return the record with a check for the whole, if it is bad and none of its checks says so."""
    if not record.verdict.exit_code or any(check.verdict.exit_code for check in record.checks):
        return record
    reason = f"the run ended as '{record.verdict.value}', although none of its {len(record.checks)} checks is bad: nothing was shown"
    return replace(record, checks=[*record.checks, Check(f"{record.verb}/run::verdict", record.verdict, reason, 0.0)])


def _case(suite: ET.Element, record: Record, check: Check) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=plain(f"{record.stack}.{record.verb}"),
        name=plain(check.id),
        time=f"{check.seconds:.3f}",
    )
    kind = _element(record, check.verdict)
    if kind:
        element = ET.SubElement(case, kind, message=plain(check.reason), type=check.verdict.value)
        if kind != "skipped":
            again = repeat.command_of(record, check)
            element.text = plain(f"{check.reason}\nrun it again: {again}" if again else check.reason)
    else:
        ET.SubElement(case, "system-out").text = plain(check.reason)
