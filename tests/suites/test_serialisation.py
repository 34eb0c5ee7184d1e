"""Every check of the serialisation suite is seen to fail: one number of what was loaded is another."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys

if "pytest" in sys.orig_argv:
    import safetensors.torch
    import torch

    def first(state):
        for value in state.values():
            if isinstance(value, dict) and first(value):
                return True
            if isinstance(value, torch.Tensor) and value.dim() and value.is_floating_point() and value.numel():
                value.view(-1)[-1] += 1
                return True
        return False

    def wrong(load):
        def loaded(*arguments, **keywords):
            state = load(*arguments, **keywords)
            first(state)
            return state
        return loaded

    torch.load, safetensors.torch.load_file = wrong(torch.load), wrong(safetensors.torch.load_file)
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("serialisation", FAULTS, tmp_path_factory.mktemp("serialisation"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("serialisation/state::tensors", "entries are not bit-equal"),
        ("serialisation/state::safetensors", "entries are not bit-equal"),
        ("serialisation/state::checkpoint", "entries are not bit-equal, such as '['model."),
        ("serialisation/state::resume", "state that was loaded into a new job: 1 of"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason
