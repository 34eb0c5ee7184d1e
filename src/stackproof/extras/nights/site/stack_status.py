"""Every record below some folders, and stack by suite what each cell may say; nothing that did not run, or ran too long ago, is green."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from stackproof.api.base import places, text
from stackproof.api.record import Check, Kind, Record, Verdict, store

VERIFIED = places.RESULTS / "records"
"""Records of cards that were verified as a whole; they are named by their day and verb."""
_RECORD_NAME = re.compile(r"^\d{8}T\d{6}-[a-z-]+\.json$")


@dataclass(frozen=True)
class IndexedRun:
    """A record with where it lies, as people read it, and the name of its page."""

    path: Path
    record: Record
    shown: str

    @cached_property
    def started(self) -> datetime:
        return datetime.fromisoformat(self.record.started)

    @property
    def minute(self) -> str:
        return self.record.started[:16].replace("T", " ")

    @property
    def day(self) -> str:
        """Its date in UTC."""
        return self.record.started[:10]

    @cached_property
    def place(self) -> store.Place:
        return store.place(self.record.provenance)

    @cached_property
    def id(self) -> str:
        """The same for the same bytes, wherever the file lies."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return f"{self.day.replace('-', '')}-{store.slug(self.record.verb)[:20]}-{digest[:10]}"

    @property
    def page(self) -> str:
        return f"record/{self.id}.html"


@dataclass(frozen=True)
class RecordsIndex:
    """All runs, oldest first, and a sentence for each file that is none."""

    runs: tuple[IndexedRun, ...]
    problems: tuple[str, ...]


def tops() -> tuple[Path, ...]:
    """Return the folders that a site is made of where none is named."""
    return (*store.folders(), VERIFIED) if not os.environ.get(store.RESULTS) else store.folders()


def files(folders: Iterable[Path]) -> list[Path]:
    """Return every file that is a record by its name."""
    every = ((path, path.relative_to(top).parts) for top in folders for path in top.rglob("*.json"))
    shown = (path for path, parts in every if not any(part.startswith(".") for part in parts))
    return sorted({path for path in shown if path.name.endswith(store.SUFFIX) or _RECORD_NAME.match(path.name)})


def read(paths: Sequence[Path], folders: Sequence[Path]) -> RecordsIndex:
    """Read these files; one that is no record is skipped and named."""
    loaded = store.read(paths)
    runs = (IndexedRun(path, record, shown(str(path), folders)) for path, record in loaded.records.items())
    problems = tuple(shown(sentence, folders) for sentence in loaded.problems)
    return RecordsIndex(tuple(sorted(runs, key=lambda run: (run.started, run.shown))), problems)


def shown(text: str, folders: Iterable[Path]) -> str:
    """Return text that names files without the folders of one machine: below the checkout, or below what was named."""
    others = [folder for folder in folders if not folder.absolute().is_relative_to(places.RESULTS.parent)]
    for start in (places.RESULTS.parent, *(path.parent for folder in others for path in (folder.absolute(), folder))):
        if str(start) not in ("/", "."):
            text = text.replace(f"{start}/", "")
    return text


DAYS = 14
"""For how many days a record proves anything."""
_GUARD = "guard: "


class ProofState(str, Enum):
    """What a cell or a whole stack is called, the worst first; only stacks are proved in part, or never run."""

    FAILED = "failed"
    STALE = "stale"
    PARTLY = "in part"
    UNVERIFIED = "unverified"
    REHEARSED = "rehearsed"
    KNOWN_ISSUE = "known issue"
    PASSED = "passed"
    NEVER = "never run"


@dataclass(frozen=True)
class MatrixCell:
    """One suite on one stack. `run` proves it, and is None where nothing ever ran; `why` says it in a sentence."""

    stack: str
    suite: str
    state: ProofState
    why: str
    run: IndexedRun | None = None


@dataclass(frozen=True)
class StackMatrix:
    """Every cell of every stack, as of a day."""

    stacks: tuple[str, ...]
    suites: tuple[str, ...]
    cells: Mapping[tuple[str, str], MatrixCell]
    today: date
    days: int
    nightly: tuple[str, ...] = ()
    """The suites that a night runs: a stack is proved by all of them."""
    measured: Mapping[str, IndexedRun] = field(default_factory=dict)
    """Of each stack the newest run that measured something on its device without verifying a suite, such as a night's."""

    def shown(self, stacks: Iterable[str]) -> list[str]:
        """Return the suites that ran on one of these stacks, those first of which the worst is said."""
        rows = {suite: [cell for stack in stacks if (cell := self.cells[stack, suite]).run] for suite in self.suites}
        states = list(ProofState)
        return sorted(
            (row for row in rows if rows[row]), key=lambda word: min(states.index(cell.state) for cell in rows[word])
        )

    def of(self, stack: str) -> list[MatrixCell]:
        return [self.cells[stack, suite] for suite in self.suites]

    @property
    def never_on_card(self) -> list[str]:
        """Return the stacks of which no record was made on the device that they are for."""
        known = [name for name in self.stacks if name not in self.measured]
        return [name for name in known if all(cell.run is None or cell.run.place.rehearsed for cell in self.of(name))]


@dataclass(frozen=True)
class _Proof:
    state: ProofState
    why: str
    run: IndexedRun
    executed: bool


def matrix(
    runs: Iterable[IndexedRun], stacks: Sequence[str], suites: Sequence[str], today: date, days: int = DAYS,
    nightly: Sequence[str] = (),
) -> StackMatrix:  # fmt: skip
    """Return the matrix as of a day.

    A cell is the worst of what the newest record of each host says, records of the last `days` first, those of the card before
    rehearsals. A run of single checks, or one that was interrupted, proves nothing and has no cell. `nightly` suites stand first;
    without any, all of `suites` are of a night.
    """
    newest: dict[_Key, _Proof] = {}
    measured: dict[str, IndexedRun] = {}
    for run in runs:  # oldest first
        if not run.record.runs_suites and run.record.measurements and not run.place.rehearsed:
            measured[run.record.stack] = run
        for suite, proof in _proofs(run):
            newest |= dict.fromkeys(_keys(run, suite, newest), proof)
    groups: dict[tuple[str, str], list[_Proof]] = {}
    for (stack, suite, _), proof in newest.items():
        groups.setdefault((stack, suite), []).append(proof)
    rows = tuple(dict.fromkeys((*stacks, *sorted({stack for stack, _ in groups}))))
    columns = tuple(dict.fromkeys((*nightly, *suites, *sorted({suite for _, suite in groups}))))
    cells = {
        (stack, suite): _cell(stack, suite, groups.get((stack, suite), []), today, days) for stack in rows for suite in columns
    }  # fmt: skip
    return StackMatrix(rows, columns, cells, today, days, tuple(nightly or suites), measured)


_Key = tuple[str, str, store.Place]


def _keys(run: IndexedRun, suite: str, known: Iterable[_Key]) -> list[_Key]:
    """Return for which places a run speaks: its own, or all of its host if it ended before a check could see devices."""
    stack, place = run.record.stack, run.place
    if any(map(_suite, run.record.checks)):
        return [(stack, suite, place)]
    host = (stack, suite, place.host, place.rehearsed)
    return [key for key in known if (*key[:2], key[2].host, key[2].rehearsed) == host]


def _proofs(run: IndexedRun) -> Iterator[tuple[str, _Proof]]:
    record = run.record
    if not record.runs_suites or record.provenance.get("only") or record.verdict is Verdict.INTERRUPTED:
        return
    groups: dict[str, list[Check]] = {}
    for check in record.checks:
        if suite := _suite(check):
            groups.setdefault(suite, []).append(check)
    if not groups and record.verdict.exit_code:
        groups = dict.fromkeys(str(record.provenance.get("suites", "")).split(), record.checks)
    for suite, checks in groups.items():
        yield suite, _proof(run, checks)


def _suite(check: Check) -> str:
    """Return the suite that a check is of; one that guards a suite's file counts with it."""
    if check.kind is Kind.SUITE:
        return check.group
    name, mark, _ = check.id.removeprefix(_GUARD).partition("/")
    return name if mark and check.id.startswith(_GUARD) and " " not in name else ""


def _proof(run: IndexedRun, checks: Sequence[Check]) -> _Proof:
    ran = [check for check in checks if check.verdict.executed]
    bad = [check for check in ran if check.verdict.exit_code]
    state = _state(run, bad, ran)
    worst = next(iter([check for check in bad if check.verdict is not Verdict.INCONCLUSIVE] or bad), None)
    if worst:
        why = f"{worst.verdict.value}: {worst.id}: {text.first_line(worst.reason)}"
    else:
        excused = sum(check.verdict is Verdict.KNOWN_ISSUE for check in ran)
        why = f"{len(ran) - excused} of {len(checks)} checks passed{f', {excused} known issues' if excused else ''}"
    return _Proof(state, why, run, bool(ran))


def _state(run: IndexedRun, bad: Sequence[Check], ran: Sequence[Check]) -> ProofState:
    if any(check.verdict not in (Verdict.INCONCLUSIVE, Verdict.UNAVAILABLE) for check in bad):
        return ProofState.FAILED
    if bad or not ran:
        return ProofState.UNVERIFIED
    if run.place.rehearsed:
        return ProofState.REHEARSED
    return ProofState.KNOWN_ISSUE if any(check.verdict is Verdict.KNOWN_ISSUE for check in ran) else ProofState.PASSED


def _cell(stack: str, suite: str, proofs: Sequence[_Proof], today: date, days: int) -> MatrixCell:
    if not proofs:
        return MatrixCell(stack, suite, ProofState.UNVERIFIED, "nothing proved here")
    aged = [(proof, (today - proof.run.started.date()).days) for proof in proofs]
    fresh = [proof for proof, age in aged if age <= days]
    if any(proof.state is ProofState.FAILED for proof in fresh):
        fresh = [proof for proof in fresh if proof.state is ProofState.FAILED]
    elif real := [proof for proof, _ in aged if proof.executed and not proof.run.place.rehearsed]:
        fresh = [proof for proof in fresh if proof in real]
        aged = [(proof, age) for proof, age in aged if proof in real]
    if fresh:
        worst = min(fresh, key=lambda proof: (list(ProofState).index(proof.state), -proof.run.started.timestamp()))
        return MatrixCell(stack, suite, worst.state, worst.why, worst.run)
    last, age = min(aged, key=lambda pair: pair[1])
    return MatrixCell(
        stack, suite, ProofState.STALE, f"no record for {age} days; then {last.state.value}: {last.why}", last.run
    )  # fmt: skip


@dataclass(frozen=True)
class StackStatus:
    """A stack in a word, with its scope: `proved` of `wanted` suites; `day`: the oldest of their proofs. `run` shows it, if any does."""

    stack: str
    word: ProofState
    proved: int
    wanted: int
    scope: str
    day: str
    run: IndexedRun | None
    unpinned: bool
    double: bool

    @property
    def remarks(self) -> list[str]:
        remarks = {
            "on a CPU, not on its device": self.word is ProofState.REHEARSED, "unpinned": self.unpinned,
            "has no card": self.double, self.day: self.day,
        }  # fmt: skip
        return [remark for remark, applies in remarks.items() if applies]


def statuses(cells: StackMatrix, doubles: Collection[str]) -> list[StackStatus]:
    """Return how each stack stands, the worst first; `doubles` have no card."""
    rows = [_status(stack, cells, stack in doubles) for stack in cells.stacks]
    return sorted(rows, key=lambda status: list(ProofState).index(status.word))


def _status(stack: str, cells: StackMatrix, double: bool) -> StackStatus:
    """Green needs every suite of a night, proved on the device and fresh; a failure of any suite is one of the stack."""
    every, wanted = cells.of(stack), [cells.cells[stack, suite] for suite in cells.nightly]
    groups = {state: [cell for cell in wanted if cell.state is state] for state in ProofState}
    known, failed = groups[ProofState.KNOWN_ISSUE], [cell for cell in every if cell.state is ProofState.FAILED]
    proved, measured = [*known, *groups[ProofState.PASSED]], cells.measured.get(stack)
    whole = len(proved) == len(wanted)
    ranked = {
        ProofState.FAILED: failed, ProofState.KNOWN_ISSUE: proved if whole and known else [],
        ProofState.PASSED: proved if whole else [], ProofState.PARTLY: proved,
        ProofState.REHEARSED: groups[ProofState.REHEARSED], ProofState.STALE: groups[ProofState.STALE],
        ProofState.UNVERIFIED: [cell for cell in every if cell.run],
    }  # fmt: skip
    word = next(
        (word for word, those in ranked.items() if those), ProofState.UNVERIFIED if measured else ProofState.NEVER
    )
    runs = [cell.run for cell in ranked.get(word, []) if cell.run]
    day = (max if word is ProofState.STALE else min)((run.day for run in runs), default="")
    scope = f"{len(proved)} of {text.counted(len(wanted), 'suite')} passed"
    scope += f"; failed: {text.first_few([cell.suite for cell in failed], 3)}" if failed else ""
    unpinned = any(run.record.provenance.get("pinned") is False for run in runs)
    return StackStatus(stack, word, len(proved), len(wanted), scope, day, next(iter(runs), measured), unpinned, double)


_RECENT = 30


def streak(runs: Iterable[IndexedRun], stack: str) -> str:
    """Say of a stack's last nights when one was good, how many since were not, or how many in a row are, and how often that changed."""
    nights = [run for run in runs if (run.record.verb, run.record.stack) == ("night", stack)]
    ended = [run for run in nights if run.record.verdict is not Verdict.INTERRUPTED][-_RECENT:]
    if not ended:
        return ""
    good = [not run.record.verdict.exit_code for run in ended]
    row = next((at for at, fine in enumerate(reversed(good)) if fine is not good[-1]), len(good))
    last = next((run.day for run, fine in zip(reversed(ended), reversed(good), strict=True) if fine), "")
    since = f"last good night {last}, {row} bad since" if last else f"no good night of {len(ended)}"
    flips = sum(fine is not other for fine, other in pairwise(good))
    now = f"{text.counted(row, 'good night')} in a row" if good[-1] else since
    return f"{now}, {text.counted(flips, 'flip')} in {text.counted(len(ended), 'night')}"
