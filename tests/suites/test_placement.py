"""Every check of the placement suite that runs on the CPU is seen to fail; those of cards are in tests/test_placement.py."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys

if "pytest" in sys.orig_argv:
    import torch
    from stackproof.device import devices
from stackproof.device.devices import HOST

    to = torch.Tensor.to
    torch.Tensor.to = lambda self, *arguments, **keywords: to(self, *(("meta",) if arguments == ("cpu:0",) else arguments), **keywords)
    devices.parse = lambda text, kind: HOST
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("placement", FAULTS, tmp_path_factory.mktemp("placement"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("placement/in_process::spellings", "tensor.to('cpu:0'): the tensor is on meta, not on cpu"),
        ("placement/in_process::slips", "'cpu:0,1' was taken for cpu"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason
