"""Every check of the smoke suite is seen to fail: a fault is planted in torch, the unchanged suite runs, the right check goes red.

The fault is Python in a `sitecustomize.py` that all processes of the run import, ranks too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.record.records import Verdict

from ..planting import record_planted


@dataclass(frozen=True)
class Fault:
    """What is broken, which checks must see it, and words that their reasons must hold."""

    name: str
    code: str
    checks: tuple[str, ...]
    words: str
    verdict: Verdict = Verdict.FAILED
    scale: float = 1.0
    """Of the deadlines: a hang that is planted need not take the suite's own ninety seconds."""


def float32_only(operator: str, change: str) -> str:
    """Return code that changes an operator's float32 result in the process of the checks, and leaves float64 as it is."""
    return f"""
        import sys
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        class Wrong(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                result = function(*arguments, **(keywords or {{}}))
                if function is torch.ops.aten.{operator} and result.dtype is torch.float32:
                    {change}
                return result

        if "pytest" in sys.orig_argv:
            Wrong().__enter__()
    """


FAULTS = (
    Fault(
        "a product of whole numbers is off by one",
        float32_only("mm.default", "result.view(-1)[0] += 1"),
        ("smoke/bringup::devices",),
        "is wrong",
    ),
    Fault(
        "addmm is 0.1 % too large",
        float32_only("addmm.default", "result.mul_(1.001)"),
        ("smoke/operators::float32",),
        "addmm",
    ),
    Fault(
        "convolution gives NaN",
        float32_only("convolution.default", "result.view(-1)[0] = float('nan')"),
        ("smoke/workloads::float32[yolov8n]",),
        "the loss is nan",
    ),
    Fault(
        "a matrix product is 0.1 % too large",
        float32_only("mm.default", "result.mul_(1.001)"),
        ("smoke/workloads::float32[llama3-8b-lora]", "smoke/workloads::float32[qwen3-0.6b-lora]"),
        "exceeds the bound",
    ),
    Fault(
        "autocast does not cast",
        """
        import contextlib, torch
        torch.autocast = lambda *arguments, **keywords: contextlib.nullcontext()
        """,
        ("smoke/workloads::autocast[llama3-8b-lora-bfloat16]", "smoke/workloads::autocast[yolov8n-bfloat16]"),
        "autocast did not cast: none of",
    ),
    Fault(
        "the gradient scaler skips every step",
        """
        import torch
        torch.amp.GradScaler.step = lambda self, optimiser: self.unscale_(optimiser)
        """,
        ("smoke/workloads::autocast[llama3-8b-lora-float16]", "smoke/workloads::autocast[yolov8n-float16]"),
        "parameters as they were",
    ),
    Fault(
        "the loss is exactly 0",
        """
        import torch.nn.functional as functional
        original = functional.cross_entropy
        functional.cross_entropy = lambda *arguments, **keywords: original(*arguments, **keywords) * 0
        """,
        ("smoke/workloads::float32[llama3-8b-lora]",),
        "the loss is exactly 0",
    ),
    Fault(
        "a rank's contribution is dropped",
        """
        import os, torch.distributed as dist
        original = dist.all_reduce
        def all_reduce(tensor, *arguments, **keywords):
            if os.environ.get("RANK") == "1":
                tensor.zero_()
            return original(tensor, *arguments, **keywords)
        dist.all_reduce = all_reduce
        """,
        ("smoke/ddp::bring_up",),
        "an all-reduce of known whole numbers is wrong",
    ),
    Fault(
        "the backend is silently another one",
        """
        import torch.distributed as dist
        dist.get_backend = lambda *arguments: "mpi"
        """,
        ("smoke/ddp::bring_up",),
        "has backend mpi, the stack's is gloo",
    ),
    Fault(
        "gradients are averaged 0.1 % too large",
        """
        import torch
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        from torch.nn.parallel import DistributedDataParallel as Parallel
        original = Parallel.__init__
        def hook(state, bucket):
            return default_hooks.allreduce_hook(state, bucket).then(lambda future: future.value() * 1.001)
        def init(self, *arguments, **keywords):
            original(self, *arguments, **keywords)
            self.register_comm_hook(None, hook)
        Parallel.__init__ = init
        """,
        ("smoke/ddp::gradients",),
        "exceeds the bound",
    ),
    Fault(
        "one rank drifts by one ulp",
        """
        import os, torch
        original = torch.optim.SGD.step
        def step(self, *arguments, **keywords):
            original(self, *arguments, **keywords)
            if os.environ.get("RANK") == "1":
                with torch.no_grad():
                    first = self.param_groups[0]["params"][0].view(-1)
                    first[0] = torch.nextafter(first[0], torch.tensor(float("inf")))
        torch.optim.SGD.step = step
        """,
        ("smoke/ddp::ranks_equal",),
        "the ranks' parameters differ",
    ),
    Fault(
        "the learning rate is 0",
        """
        import torch
        original = torch.optim.SGD.__init__
        torch.optim.SGD.__init__ = lambda self, params, lr=0, **keywords: original(self, params, lr=0.0, **keywords)
        """,
        ("smoke/ddp::loss_falls",),
        "was expected",
    ),
    Fault(
        "a rank hangs",
        """
        import os, time, torch
        if os.environ.get("RANK") == "1":
            torch.Tensor.backward = torch.autograd.backward = lambda *arguments, **keywords: time.sleep(600)
        """,
        ("smoke/ddp::bring_up",),
        "rank 1 hung in 'first backward'",
        Verdict.HUNG,
        scale=0.35,
    ),
    Fault(
        "a rank dies at start",
        """
        import os, signal
        if os.environ.get("RANK") == "1" and os.environ.get("LOCAL_RANK"):
            os.kill(os.getpid(), signal.SIGSEGV)
        """,
        ("smoke/ddp::bring_up",),
        "rank 1 ended with signal SIGSEGV in 'start-up'",
        Verdict.CRASHED,
    ),
    Fault(
        "the host's clock stands still",
        """
        from stackproof.device.kinds import HostStopwatch
        HostStopwatch.seconds = lambda self: 0.0
""",
        tuple(f"smoke/rates::training[{name}]" for name in ("yolov8n", "qwen3-0.6b-lora", "llama3-8b-lora")),
        "took no time",
    ),
    Fault(
        "a rank's clock stands still",
        """
        import time
        if "stackproof.ranks.rank" in __import__("sys").orig_argv:
            time.perf_counter = lambda: 0.0
        """,
        ("smoke/ddp::all_reduce_rate",),
        "took no time",
    ),
)


def exactly(check: str) -> str:
    """Return the pattern that matches a check whose name has brackets."""
    return check.replace("[", "[[]")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught_by_name(fault: Fault, tmp_path: Path) -> None:
    """The checks that are meant to see the fault fail, for that reason."""
    record = record_planted("smoke", fault.code, tmp_path, tuple(map(exactly, fault.checks)), fault.scale)
    ended = {check.id: check for check in record.checks}
    for name in fault.checks:
        assert ended[name].verdict is fault.verdict, ended[name].reason
        assert fault.words in ended[name].reason


def test_without_a_fault_nothing_is_red_and_every_check_has_a_fault(tmp_path: Path) -> None:
    """Planting nothing raises no alarm; a check that no fault above turns red is unfinished."""
    record = record_planted("smoke", "import torch\n", tmp_path)
    assert record.verdict is Verdict.PASSED, [check.reason for check in record.checks if check.verdict.exit_code]
    covered = {name for fault in FAULTS for name in fault.checks}
    assert {check.id for check in record.checks} - covered == set()
