"""The page of a calibration: every figure with its interval, and what was not measured is a dash."""

from __future__ import annotations

from stackproof.extras.nights.drift.rules import Cause
from tools.drift_calibration import page
from tools.drift_calibration.__main__ import Quiet, Step
from tools.drift_calibration.watching import Watched


def test_tables_say_rates_with_intervals() -> None:
    quiet = Quiet("white", 1000, Watched([[5], []], [[], []], 1), {"other": (2, 500)})
    step = Step("white", 0.02, 0, 4, [1, 3, 5], [], {"other": ([2], 4)})
    text = page.tables(
        page.Results([quiet], [step], {(Cause.CODE, 0.03): [Cause.CODE, Cause.MACHINE, None, None]}, 1.25)
    )
    assert "| white | 1.00 [0.03, 5.56] | 0.00 [0.00, 3.68] |" in text and "4.00 [0.48, 14.37]" in text
    assert "| white | 2% | 75% [19%, 99%] | 3 | 25% [1%, 81%] | 0% [0%, 60%] | - |" in text
    assert "| code | 3% | 50% [7%, 93%] | 50% [1%, 99%] | machine |" in text and "takes 1.2 s" in text
