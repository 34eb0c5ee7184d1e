"""How operators end: one outcome for each, with what was found wrong and the figures behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ..numerics import Judgement


class Outcome(str, Enum):
    """How one operator ended; the order is from worst to best."""

    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not run"
    NOT_APPLICABLE = "not applicable"
    FORM = "shape and dtype only"
    PASSED = "passed"

    @property
    def ok(self) -> bool:
        """Tell whether a stack may be proved with this outcome in its record."""
        return self not in (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_RUN)


@dataclass(frozen=True)
class Finding:
    """What one sample gave: one line to read, one line to repeat it, and the figures behind them."""

    sample: int
    outcome: Outcome
    sentence: str
    call: str
    elements: int
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Result:
    """One operator's outcome; `forward` and `backward` count samples, `findings` those not passed.

    `conditioned` samples agree only as well as their own conditioning allows; `left_out` ones were not examined, `why` says why.
    """

    operator: str
    outcome: Outcome
    reason: str
    forward: int = 0
    backward: int = 0
    worst: Judgement | None = None
    findings: tuple[Finding, ...] = ()
    conditioned: int = 0
    left_out: int = 0
    why: str = ""


def smallest(findings: Iterable[Finding]) -> Finding:
    """Return the finding that decides: the worst outcome, and of these the sample with the fewest numbers."""
    order = list(Outcome)
    return min(findings, key=lambda finding: (order.index(finding.outcome), finding.elements, finding.sample))
