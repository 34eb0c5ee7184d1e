"""What duels have said, as the files that they left: the newest word on a host, its card and a subject counts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.fleet import rules
from stackproof.record import records
from stackproof.record.records import Check, Verdict

FOLDER = "duels"
VERB = "duel"
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
    began: str


def gather(folder: Path, plan: str = "") -> tuple[Mapping[DuelKey, DuelSaid], list[str]]:
    """Return the newest word on each, and a sentence for each file that is not believed; no folder is no duel.

    `plan`: the id of the sweep's plan; what was said under another one counts for nothing here.
    """
    found, problems = dict[DuelKey, DuelSaid](), list[str]()
    paths = list[Path]()
    with contextlib.suppress(OSError):
        paths = sorted(path for path in (folder / FOLDER).iterdir() if path.suffix == ".json")
    for path in paths[: rules.load().limits.records]:
        try:
            said = [one for one in _read(path, plan) if one.key not in found or found[one.key].began <= one.began]
            found |= {one.key: one for one in said}
        except Refusal as refusal:
            problems.append(plain(str(refusal).replace(str(folder), folder.name), 400, lines=False))
    return found, problems


def _read(path: Path, plan: str) -> list[DuelSaid]:
    record = records.read(path)
    told = str(record.provenance.get("plan", ""))
    if plan and told and told != plan:
        raise Refusal(f"{path}: is a duel of another plan ({plain(told, 40, lines=False)}); it was passed over")
    if record.verb != VERB:
        raise Refusal(f"{path}: is a record of '{plain(record.verb, 40)}', not of a duel; it was passed over")
    return [_said(check, record.started) for check in record.checks]


def _said(check: Check, began: str) -> DuelSaid:
    key = tuple(plain(str(check.figures.get(name, "")), 253, lines=False) for name in ("host", "card", "of"))
    return DuelSaid((key[0], key[1], key[2]), word(check), plain(check.reason, 300, lines=False), began)


def word(check: Check) -> str:
    """Return what a duel's check comes to, in a word."""
    return _WORDS.get(check.verdict, OPEN)
