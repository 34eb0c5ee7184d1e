"""The soak's check is seen to fail: a rank that dies now and then, and a process that stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record.records import Verdict

from ..planting import record_planted

DIES = """
import os, signal, sys
if os.environ.get("RANK") == "1" and "stackproof.ranks.rank" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGSEGV)
"""
STAYS = """
from stackproof.base import processes
original = processes.end_tree
def end_tree(mark, *arguments, **keywords):
    original(mark, *arguments, **keywords)
    with open("/dev/null", "wb") as output:
        processes.start(["sleep", "120"], output, {}, mark)
processes.end_tree = end_tree
"""


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        (DIES, Verdict.CRASHED, "rank 1 ended with signal SIGSEGV"),
        (STAYS, Verdict.FAILED, "are left"),
        ("import torch", Verdict.PASSED, "gloo: 2 ranks formed in"),
    ],
)
def test_a_launch_that_is_not_clean_is_not_called_so(code: str, verdict: Verdict, words: str, tmp_path: Path) -> None:
    """One of the fifty stands for all; without a fault it passes."""
    record = record_planted("soak", code, tmp_path, ("soak/launches::clean[[]1]",))
    (check,) = record.checks
    assert (verdict, True) == (check.verdict, words in check.reason), check.reason
