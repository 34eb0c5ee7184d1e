"""What else changed while a gate ran: clocks, temperature, throttling, others on the card or on the host. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stackproof.gate.plan import Condition

_BUSY = 0.1
"""From this share of the host's cores on, what others did is worth a word."""


@dataclass
class Conditions:
    """Readings of all launches, in order."""

    rules: tuple[Condition, ...]
    readings: list[Mapping[str, float]] = field(default_factory=list)
    throttled: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)

    def add(self, told: Sequence[Mapping[str, Any]], load: float) -> None:
        """Take over what one launch was told by the vendor's tool, and the share of the host's cores that others used."""
        self.loads.append(load)
        for one in told:
            self.readings.append(
                {name: value for name, value in one["reading"].items() if isinstance(value, (int, float))}
            )
        for reason in {reason for one in told for reason in one["throttled"]}:
            self.throttled[reason] = self.throttled.get(reason, 0) + 1
        for other in {other for one in told for other in one["others"]}:
            self.others[other] = self.others.get(other, 0) + 1

    def said(self) -> list[str]:
        """Return a sentence for each thing that may have disturbed the comparison; none if nothing is known to have."""
        launches = len(self.loads)
        busy = [load for load in self.loads if load > _BUSY]
        found = [sentence for rule in self.rules for sentence in self._moved(rule)]
        found += [f"throttled in {count} of {launches} launches: {reason}" for reason, count in self.throttled.items()]
        found += [f"{other} used the card in {count} of {launches} launches" for other, count in self.others.items()]
        if busy:
            found.append(
                f"others used up to {max(busy):.0%} of the host's cores, in {len(busy)} of {launches} launches"
            )
        return found

    def _moved(self, rule: Condition) -> list[str]:
        names = sorted({name for reading in self.readings for name in reading if rule.name in name})
        found = []
        for name in names:
            values = [float(reading[name]) for reading in self.readings if name in reading]
            low, high = min(values), max(values)
            if (rule.share and low > 0 and high / low - 1 > rule.share) or (rule.rise and high - low > rule.rise):
                found.append(f"the {rule.title} ({name}) moved between {low:g} and {high:g}")
        return found
