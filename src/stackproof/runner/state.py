"""The state of a run: what is known so far, over all the processes that the run needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from stackproof.record import records
from stackproof.record.records import Check, Record, Verdict
from stackproof.stack import findings

_CHECKPOINT_S = 10.0


class Observer(Protocol):
    """Who watches a run: the terminal, or nobody."""

    def collected(self, total: int) -> None:
        """The run has this many checks, as far as is known."""

    def started(self, identifier: str) -> None:
        """A check began."""

    def finished(self, check: Check) -> None:
        """A check ended."""


def _unchanged(check: Check) -> Check:
    return check


def _nowhere(record: Record) -> None:
    """Keep no checkpoint."""


@dataclass
class RunState:
    """Collects checks into a record, each once, and lets a run that is killed leave what it had.

    `excuse` may turn a failure into a known issue; `save` keeps the record as it stands.
    """

    record: Record
    observer: Observer
    excuse: Callable[[Check], Check] = _unchanged
    save: Callable[[Record], None] = _nowhere
    collected: dict[str, None] = field(default_factory=dict)
    known: dict[str, None] = field(default_factory=dict)
    """Every check of the suites that were looked at, chosen or not."""
    theirs: set[str] = field(default_factory=set)
    """Those of them that are a project's, which no manifest of ours counts."""
    _saved_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._ended = {check.id for check in self.record.checks}
        self._earlier = frozenset(self._ended)

    def announce(self, identifiers: list[str], known: Iterable[str] = (), theirs: Iterable[str] = ()) -> None:
        """Note what a process collected; a fresh process after a crash collects the same again."""
        self.known.update(dict.fromkeys(known))
        self.theirs.update(theirs)
        before = len(self.collected)
        self.collected.update(dict.fromkeys(identifiers))
        if len(self.collected) > before:
            self.observer.collected(len(self.collected.keys() - self._earlier))

    def conclude(self, check: Check) -> None:
        """Note how a check ended; the first word counts."""
        if check.id in self._ended:
            return
        self._ended.add(check.id)
        judged = self.excuse(records.of_suite(check))
        if judged.verdict is Verdict.FAILED:
            judged = replace(judged, reason=findings.with_settings(judged.reason, os.environ))
        self.record.checks.append(judged)
        self.observer.finished(judged)

    def checkpoint(self) -> None:
        """Keep the record every few seconds as if it had been interrupted now."""
        if time.monotonic() - self._saved_at < _CHECKPOINT_S:
            return
        verdict, self.record.verdict = self.record.verdict, Verdict.INTERRUPTED
        self.save(self.record)
        self.record.verdict, self._saved_at = verdict, time.monotonic()

    @property
    def ended(self) -> dict[str, tuple[str, str]]:
        """The checks that have a verdict: it and its reason, by name."""
        return {check.id: (check.verdict.value, check.reason) for check in self.record.checks}
