"""Every check of the memory suite that runs on the CPU is seen to fail; those of cards are in tests/test_memory.py."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import resource, sys

resource.setrlimit = lambda *arguments: None  # nothing refuses too much memory

if "pytest" in sys.orig_argv:
    import torch

    kept, ones, step = [], torch.ones, torch.optim.SGD.step

    def keep(size, *arguments, **keywords):
        result = ones(size, *arguments, **keywords)
        if size == 256 << 20:
            kept.append(result)
        return result

    def leak(self, *arguments, **keywords):
        kept.append(ones(100 << 10, dtype=torch.uint8))
        return step(self, *arguments, **keywords)

    torch.ones, torch.optim.SGD.step = keep, leak
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("memory", FAULTS, tmp_path_factory.mktemp("memory"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("memory/accounting::host", "of 268435456 are still allocated after the tensor was released"),
        ("memory/growth::host", "200 training steps left"),
        ("memory/overcommit::host", "one block of 1.2 x the free memory was granted"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason
