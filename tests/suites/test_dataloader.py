"""Every check of the dataloader suite that runs on the CPU is seen to fail: order, seeds and contents."""

from __future__ import annotations

import pytest

from stackproof.record.records import Check, Verdict

from ..planting import run_planted

FAULTS = """
import sys

if "pytest" in sys.orig_argv or "--multiprocessing-fork" in sys.orig_argv:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.data import get_worker_info
    from torch.utils.data._utils.fetch import _MapDatasetFetcher as Fetcher

    fetch = Fetcher.fetch
    Fetcher.fetch = lambda self, index: fetch(self, index[::-1] if get_worker_info() else index)
    torch.manual_seed = lambda seed: torch.default_generator.manual_seed(5)

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if function is torch.ops.aten._to_copy.default and result.shape == (257, 129) and result.dtype is torch.int64:
                result[0, 0] += 1
            return result

    if "pytest" in sys.orig_argv:
        Wrong().__enter__()
"""


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run of the suite with all the faults planted; each breaks what others leave alone."""
    return run_planted("dataloader", FAULTS, tmp_path_factory.mktemp("dataloader"))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("dataloader/workers::order", "workers change the order"),
        ("dataloader/workers::seeds", "workers share seeds"),
        ("dataloader/copies::non_blocking", "plain torch.int64: 1 of 33153 numbers changed"),
    ],
)
def test_the_fault_is_caught_by_name(checks: dict[str, Check], check: str, words: str) -> None:
    """The check that is meant to see the fault fails, for that reason."""
    assert (checks[check].verdict, True) == (Verdict.FAILED, words in checks[check].reason), checks[check].reason
