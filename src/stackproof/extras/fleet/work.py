"""What one card does, in a process of its own: replay cold, unlike subjects, replay hot; rows and facts go into a file.

A card that hangs or crashes takes this process with it, and the host still leaves a record that says so.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import files
from stackproof.api.device import Device, Telemetry, devices, measure, measurements, threads
from stackproof.api.record import Check, CheckEnded, Figure, Measurement, Record, Verdict, records, writer
from stackproof.api.runs import bench_subjects
from stackproof.api.stack import stacks
from stackproof.extras.fleet import replay, rules
from stackproof.extras.fleet.card import CardTurns
from stackproof.extras.fleet.replay import ReplayedKind
from stackproof.extras.fleet.rules import CardProfile

_PATIENCE = 1 / 6
"""Of a card's deadline: so long it waits for the others."""
_LASTING = 3
"""Rows of the replay that keep the card busy while the vendor's tool is asked."""


@dataclass
class CardWork:
    """One card of a host, and the record of what it did."""

    stack: stacks.Stack
    card: int
    profile: CardProfile
    record: Record
    without: Sequence[str] = ()
    """What the plan leaves out."""

    @property
    def device(self) -> Device:
        """The card."""
        return devices.visible(self.stack.device)[self.card]

    def take(self, folder: Path) -> None:
        """Replay, measure, replay; `folder`: where the cards of this host meet."""
        turns = CardTurns(folder, self.card, devices.count(self.stack.device), _PATIENCE * 60 * self.profile.deadline)
        turns.announce()
        self.record.provenance |= {"cards": devices.count(self.stack.device), **devices.torch_facts(self.stack)}
        device = self.device
        telemetry = Telemetry(device, self.stack)
        with device.current(), threads.chosen(self.profile.name):
            replayed = list(self._cold(device))
            self._read(telemetry, replayed)
            self._measure(device, turns)
            self._hot(replayed, device)
            self._read(telemetry, replayed)
        self.record.checks += [one.check(self.card) for one in replayed]
        self.record.checks.append(replay.coverage(replayed, self.card, dict(telemetry.facts())))
        self.record.provenance |= _limits(telemetry)

    def _measure(self, device: Device, turns: CardTurns) -> None:
        """Measure what shares the host in turns, then what takes all cards, then what is this card's own, side by side."""
        known = {one.name: one for one in bench_subjects.subjects(self.profile.benchmarks, self.stack)}
        own, profile = [name for name in self.profile.subjects if name not in self.profile.turns], self.profile
        turns.meet("replayed")
        for name in self._kept_names(profile.turns):
            with turns.turn():
                self._subject(known[name], device)
        turns.meet("shared")
        for name in self._kept_names(profile.together) if self.card == 0 else ():
            self._subject(known[name], device)
        turns.meet("together")
        for name in self._kept_names(own):
            self._subject(known[name], device)

    def _kept_names(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.without]

    def _cold(self, device: Device) -> Iterator[ReplayedKind]:
        with replay.deterministic():
            for kind in replay.kinds(rules.load().replay, self.profile.name, self.stack.precisions):
                if not {kind.kernel, kind.name} & set(self.without):
                    yield replay.cold(kind, device, self.profile.replay)

    def _hot(self, replayed: list[ReplayedKind], device: Device) -> None:
        with replay.deterministic():
            for one in replayed:
                replay.hot(one, device, self.profile.replay)

    def _read(self, telemetry: Telemetry, replayed: list[ReplayedKind]) -> None:
        """Ask the vendor's tool for clocks and temperature while the card works."""

        def busy() -> None:
            for one in replayed[:_LASTING]:
                replay.hot(one, telemetry.device, 0.0)

        with replay.deterministic():
            telemetry.read(busy)

    def _subject(self, subject: bench_subjects.Subject, device: Device) -> None:
        """Verify and time one subject; what a stack cannot run is skipped with its reason."""
        chosen, began = self.profile, time.monotonic()
        budget = bench_subjects.Budget(chosen.noise, chosen.seconds, chosen.least, chosen.most)
        try:
            sampled = measure(subject, device, chosen.name, budget)
            verdict, reason = (Verdict.PASSED if sampled.verified else Verdict.FAILED), sampled.reason
            if sampled.verified:
                self._keep(measurements(sampled, subject.kind, device.name())[0])
        except CheckEnded as ended:
            verdict, reason = ended.verdict, str(ended)
        name, figures = f"subject/{self.card}::{subject.name}", dict[str, Figure]({"card": str(self.card)})
        self.record.checks.append(Check(name, verdict, reason, time.monotonic() - began, figures, subject=subject.name))

    def _keep(self, row: Measurement) -> None:
        row.figures["card"] = str(self.card)
        self.record.measurements.append(row)


def _limits(telemetry: Telemetry) -> dict[str, Figure]:
    """Return what was set for the card and does not move by itself, such as its power limit."""
    seen = telemetry.readings[-1] if telemetry.readings else {}
    return {f"set.{name}": seen[name] for name in rules.load().state.telemetry if name in seen}


def main(words: list[str], say: Callable[[str], None] = lambda _: None) -> int:
    """Work on one card and write what it did; the argument is a JSON object (`card.CardOrder.child`)."""
    faulthandler.enable()
    asked = files.parse_json(words[0], "the command of a card")
    stack = stacks.load(asked["stack"])
    for name in stack.imports:
        __import__(name)
    record = writer.begin(rules.VERB, stack.name)
    CardWork(stack, asked["card"], rules.profile(asked["profile"]), record, asked["without"]).take(Path(asked["turns"]))
    record.verdict = records.overall(check.verdict for check in record.checks)
    writer.keep(record, Path(asked["out"]))
    say(f"card {asked['card']}: {record.verdict.value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
