"""What no work can beat: the best product and the best copy that this process measured before it.

Peaks are published of few devices. Of every other, and below the peak of those, what the device was seen to do at best bounds the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stackproof.bench.rows import Sampled
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure

FACTOR = 2.0
"""A median against the best sample of another row: sizes, kernels and neighbours make less, and nothing that computes all makes twice."""
_LEVELS = {"float64": 0, "float32": 1, "tf32": 2, "bfloat16": 3, "float16": 3}
"""Arithmetics by how coarse they are: what is asked in a coarse one may be computed in a finer one, never the other way round."""


@dataclass(frozen=True)
class _Best:
    rate: float
    subject: str


@dataclass
class OwnBounds:
    """The best rates of one process: of products by arithmetic, in TFLOP/s, and of copies within the device's memory, in GB/s."""

    products: dict[str, _Best] = field(default_factory=dict)
    copies: list[_Best] = field(default_factory=list)

    def note(self, sampled: Sampled, kind: str) -> None:
        """Remember a row that bounds others."""
        fastest = min(sampled.samples, default=0.0) / sampled.median * sampled.per_run if sampled.samples else 0.0
        if fastest <= 0:
            return
        if kind == "gemm":
            best = _Best(sampled.worth["TFLOP"] / fastest, sampled.subject)
            self.products[sampled.arithmetic] = max(
                best, self.products.get(sampled.arithmetic, best), key=lambda one: one.rate
            )
        elif sampled.facts.get("memory") == "device":
            self.copies.append(_Best(sampled.worth["GB"] / fastest, sampled.subject))

    def hold(self, sampled: Sampled) -> dict[str, Figure]:
        """Return the share of its own bound that a row's median is; nothing where no row bounds it.

        Raises:
            CheckFailed: it is above the bound times the factor.
        """
        found: dict[str, Figure] = {}
        for thing, unit, best in self._bounding(sampled):
            rate = sampled.worth[thing] / sampled.per_run
            share = rate / best.rate
            found |= {f"of the same run's {best.subject}": share}
            if share > FACTOR:
                raise CheckFailed(
                    f"it would run at {rate:.3g} {unit}, {share:.1f} times what {best.subject} did at best in the same run "
                    f"({best.rate:.3g}); {FACTOR:g} times are allowed: it did less than it is counted for, or one of the two is wrong"
                )
        return found

    def _bounding(self, sampled: Sampled) -> list[tuple[str, str, _Best]]:
        found, own = [], _LEVELS.get(sampled.arithmetic, -1)
        levels = {_LEVELS[name] for name in self.products}
        if "TFLOP" in sampled.worth and own in levels:
            able = [best for name, best in self.products.items() if _LEVELS[name] <= own]
            found.append(("TFLOP", "TFLOP/s", max(able, key=lambda one: one.rate)))
        moved = next((thing for thing in ("GB over a link", "GB") if thing in sampled.worth), None)
        if moved and self.copies and sampled.per_run > 0:
            found.append((moved, "GB/s", max(self.copies, key=lambda one: one.rate)))
        return found
