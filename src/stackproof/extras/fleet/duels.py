"""What duels have said, as the files that they left: the newest word on a host, its card and a subject counts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.extras.fleet import rules
from stackproof.record import records
from stackproof.record.records import Check, Record, Verdict

FOLDER = "duels"
VERB = "duel"
SWEPT = "swept"
"""The fact of a duel that says when the record began by which its host is suspected."""
_CLOCKS = timedelta(hours=1)
"""So much the clocks of hosts may differ."""
OPEN = "open"
_WORDS = {Verdict.FAILED: "confirmed", Verdict.PASSED: "refuted"}
DuelKey = tuple[str, str, str]
"""Host, card, subject."""


@dataclass(frozen=True)
class DuelSaid:
    """One suspect beside one healthy partner: `confirmed`, `refuted`, or `open` where it could not be said."""

    key: DuelKey
    word: str
    sentence: str
    began: datetime


def gather(
    folder: Path, plan: str = "", swept: Mapping[str, str] | None = None
) -> tuple[Mapping[DuelKey, DuelSaid], list[str]]:
    """Return the newest word on each, and a sentence for each file that is not believed; no folder is no duel.

    `plan`: the id of the sweep's plan; what was said under another one counts for nothing here. `swept`: when each host's record began;
    a host that has answered anew is suspected anew.
    """
    found, problems = dict[DuelKey, DuelSaid](), list[str]()
    paths = list[Path]()
    with contextlib.suppress(OSError):
        paths = sorted(path for path in (folder / FOLDER).iterdir() if path.suffix == ".json")
    for path in paths[: rules.load().limits.records]:
        try:
            said = [
                one
                for one in _read(path, plan, swept or {})
                if one.key not in found or found[one.key].began <= one.began
            ]
            found |= {one.key: one for one in said}
        except Refusal as refusal:
            problems.append(plain(str(refusal).replace(str(folder), folder.name), 400, lines=False))
    return found, problems


def _read(path: Path, plan: str, swept: Mapping[str, str]) -> list[DuelSaid]:
    if why := "is a link" if path.is_symlink() else files.why_unreadable(path, rules.load().limits.mib << 20):
        raise Refusal(f"{path}: {why}; it was passed over")
    record = records.read(path)
    if record.verb != VERB:
        raise Refusal(f"{path}: is a record of '{plain(record.verb, 40)}', not of a duel; it was passed over")
    told = plain(str(record.provenance.get("plan", "")), 40, lines=False)
    if plan and told != plan:
        raise Refusal(f"{path}: is a duel of another plan ({told or 'none'}); it was passed over")
    began = _began(record.started)
    if began is None:
        raise Refusal(f"{path}: does not say when it began, or in a time to come; it was passed over")
    if any(check.figures.get("host") != record.provenance.get("host") for check in record.checks):
        raise Refusal(f"{path}: speaks of another host than its own; it was passed over")
    host = str(record.provenance.get("host", ""))
    if host in swept and not _of(record, began, swept[host]):
        raise Refusal(f"{path}: is of an earlier record of {host}, which has answered anew; it was passed over")
    return [_said(check, began) for check in record.checks]


def _of(record: Record, began: datetime, swept: str) -> bool:
    """Whether a duel is about the record that began then."""
    since = _began(swept)
    return since is not None and began > since - _CLOCKS and record.provenance.get(SWEPT, swept) == swept


def _began(text: str) -> datetime | None:
    with contextlib.suppress(ValueError, TypeError):
        when = datetime.fromisoformat(text)
        return when if when < datetime.now(timezone.utc) + _CLOCKS else None
    return None


def _said(check: Check, began: datetime) -> DuelSaid:
    key = tuple(plain(str(check.figures.get(name, "")), 253, lines=False) for name in ("host", "card", "of"))
    return DuelSaid((key[0], key[1], key[2]), word(check), plain(check.reason, 300, lines=False), began)


def word(check: Check) -> str:
    """Return what a duel's check comes to, in a word."""
    return _WORDS.get(check.verdict, OPEN)
