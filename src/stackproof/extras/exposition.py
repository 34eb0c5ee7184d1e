r"""Prometheus's text format, which the node exporter reads from a file (its textfile collector).

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stackproof.api.base import plain

Labels = dict[str, str]
_MOST = 200


@dataclass(frozen=True)
class Gauge:
    """One gauge with its labels."""

    name: str
    labels: Labels
    value: float

    @property
    def series(self) -> str:
        """Return what tells it from every other sample."""
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in self.labels.items())
        return f"stackproof_{self.name}{{{labels}}}"

    def line(self) -> str:
        """Return it as Prometheus reads it."""
        number = int(self.value) if float(self.value).is_integer() else self.value
        return f"{self.series} {number!r}"


def text(help_: Mapping[str, str], samples: Iterable[Gauge]) -> str:
    """Return the whole file, in the order of the help texts; what stands twice is told once, the first time."""
    by_name: dict[str, dict[str, Gauge]] = {name: {} for name in help_}
    for sample in samples:
        by_name[sample.name].setdefault(sample.series, sample)
    lines = []
    for name, same in by_name.items():
        if same:
            lines += [f"# HELP stackproof_{name} {help_[name]}", f"# TYPE stackproof_{name} gauge"]
            lines += [one.line() for one in same.values()]
    return "".join(f"{line}\n" for line in lines)


def _escaped(value: str) -> str:
    """Return a label's value as one line, without what a terminal or a page would obey."""
    shown = plain(value, _MOST, lines=False)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
