"""Every check of the rng suite that runs on the CPU is seen to fail; those of several cards are in tests/test_randomness.py."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys
if "pytest" in sys.orig_argv:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    drawn = []

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if (keywords or {}).get("generator") is not None:
                drawn.append(function)
                result.copy_(result.roll(len(drawn)))
            return result

    Wrong().__enter__()
    torch.manual_seed = torch.set_rng_state = lambda value: None
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("rng", FAULTS, tmp_path_factory.mktemp("rng"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("rng/rng::seed[uniform]", "differ between two generators of the same seed"),
        ("rng/rng::seed[normal]", "differ between two generators of the same seed"),
        ("rng/rng::seed[whole numbers]", "differ between two generators of the same seed"),
        ("rng/rng::seed[permutation]", "differ between two generators of the same seed"),
        ("rng/rng::seed[bernoulli]", "differ between two generators of the same seed"),
        ("rng/rng::seed[exponential]", "differ between two generators of the same seed"),
        ("rng/rng::independent", "numbers differ after another generator was used"),
        ("rng/rng::state", "the device's own generator: "),
        ("rng/rng::checkpointed[reentrant]", "differ between forward and recomputation"),
        ("rng/rng::checkpointed[not_reentrant]", "differ between forward and recomputation"),
        ("rng/rng::seed_all", "differ after all cards were seeded alike"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason
