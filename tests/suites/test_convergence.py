"""Checks of the convergence suite are seen to fail: each run plants what goes wrong between ranks, and the right checks go red."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.record.records import Verdict

from ..planting import run_planted

GRADIENTS, VARIANTS, EQUIVALENCE = (f"convergence/{topic}::" for topic in ("gradients", "variants", "equivalence"))
WORKLOADS = ("classifier", "yolov8n", "llama3-8b-lora")


def each(check: str, words: str) -> dict[str, str]:
    """Return the check for every workload, with the words that its reason must hold."""
    return {f"{GRADIENTS}{check}[{name}]": words for name in WORKLOADS}


def exchanged_by(body: str) -> str:
    """Return code that lets DDP exchange each bucket by the body of a function, which knows `bucket`, `rank` and `share`."""
    return f"""
        import os, torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as Parallel
        original = Parallel.__init__
        rank = os.environ.get("RANK")
        def share(tensor):
            return dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])
        def hook(state, bucket):
            {body}
        def init(self, *arguments, **keywords):
            original(self, *arguments, **keywords)
            self.register_comm_hook(None, hook)
        Parallel.__init__ = init
    """


@dataclass(frozen=True)
class Fault:
    """What is broken, and the checks that must see it with words of their reasons."""

    name: str
    code: str
    caught: dict[str, str]


FAULTS = (
    Fault(
        "a rank's gradient is dropped",
        exchanged_by("return share(bucket.buffer().mul_(0.0 if rank == '1' else 0.5))"),
        each("gradients", "exceeds the bound"),
    ),
    Fault(
        "gradients are summed where the mean is meant",
        exchanged_by("return share(bucket.buffer())"),
        # Adam's step does not depend on the gradient's size, so the curve of the language model cannot tell.
        each("gradients", "exceeds the bound")
        | {f"{GRADIENTS}curve[{name}]": "the loss curve of" for name in ("classifier", "yolov8n")},
    ),
    Fault(
        "gradients are not exchanged at all",
        """
        import torch
        from torch.nn.parallel import DistributedDataParallel as Parallel
        Parallel.forward = lambda self, *arguments, **keywords: self.module(*arguments, **keywords)
        """,
        {
            f"{GRADIENTS}ranks_equal[classifier]": "the ranks' parameters differ",
            f"{EQUIVALENCE}final_loss[float32]": "the ranks' parameters differ",
            f"{EQUIVALENCE}final_loss[bfloat16]": "the ranks' parameters differ",
        },
    ),
    Fault(
        "one rank drifts by one ulp",
        """
        import os, torch
        def drifting(kind):
            original = kind.step
            def step(self, *arguments, **keywords):
                original(self, *arguments, **keywords)
                if os.environ.get("RANK") == "1":
                    with torch.no_grad():
                        first = self.param_groups[0]["params"][0].view(-1)
                        first[0] = torch.nextafter(first[0], torch.tensor(float("inf")))
            kind.step = step
        drifting(torch.optim.SGD)
        drifting(torch.optim.AdamW)
        """,
        each("ranks_equal", "the ranks' parameters differ"),
    ),
    Fault(
        "the learning rate is 0",
        """
        import torch
        def still(kind):
            original = kind.__init__
            kind.__init__ = lambda self, params, lr=0, **keywords: original(self, params, lr=0.0, **keywords)
        still(torch.optim.SGD)
        still(torch.optim.AdamW)
        """,
        each("curve", "was expected") | each("golden", "from the golden of"),
    ),
    Fault(
        "a golden holds placeholders",
        """
        from pathlib import Path
        original = Path.read_text
        def read_text(self, *arguments, **keywords):
            text = original(self, *arguments, **keywords)
            return text.replace("1.3", "TODO ") if self.match("goldens/cpu/classifier.txt") else text
        Path.read_text = read_text
        """,
        {f"{GRADIENTS}golden[classifier]": "is a placeholder or no number, and a golden is a thing that was seen"},
    ),
    Fault(
        "the hook drops a rank's buckets",
        """
        import os, torch
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        def dropping(original):
            def hook(state, bucket):
                if os.environ.get("RANK") == "1":
                    bucket.buffer().zero_()
                return original(state, bucket)
            return hook
        default_hooks.allreduce_hook = dropping(default_hooks.allreduce_hook)
        default_hooks.bf16_compress_hook = dropping(default_hooks.bf16_compress_hook)
        import torch.distributed as dist
        def withholding(original):
            def scatter(*arguments, **keywords):
                if os.environ.get("RANK") == "1":
                    keywords["input"].zero_()
                return original(*arguments, **keywords)
            return scatter
        for name in ("reduce_scatter_tensor", "reduce_scatter_single"):  # as it was called, and is from torch 2.15
            if hasattr(dist, name):
                setattr(dist, name, withholding(getattr(dist, name)))
        """,
        dict.fromkeys(
            (
                f"{VARIANTS}variant[gradients-as-views]",
                f"{VARIANTS}variant[recompute-reentrant]",
                f"{VARIANTS}variant[recompute-non-reentrant]",
                f"{VARIANTS}bfloat16_exchange",
                f"{VARIANTS}sharded[classifier]",
                f"{VARIANTS}sharded[llama3-8b-lora]",
            ),
            "exceeds the bound",
        ),
    ),
    Fault(
        "what DDP is told is ignored",
        """
        import contextlib, torch
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        from torch.nn.parallel import DistributedDataParallel as Parallel
        original, join = Parallel.__init__, Parallel.join
        def init(self, module, bucket_cap_mb=None, find_unused_parameters=False, static_graph=False, **keywords):
            cut = {None: {}, 100: {"bucket_cap_mb": 0.004}, 0.004: {"bucket_cap_mb": 100}}[bucket_cap_mb]
            original(self, module, **cut, **keywords)
        Parallel.__init__ = init
        Parallel.no_sync = lambda self: contextlib.nullcontext()
        Parallel.join = lambda self: join(self, divide_by_initial_world_size=False)
        default_hooks.bf16_compress_hook = default_hooks.allreduce_hook
        """,
        {
            f"{VARIANTS}variant[unused-parameters]": "every rank raised: RuntimeError: Expected to have finished reduction",
            f"{VARIANTS}variant[static-graph]": "every rank raised: RuntimeError: Expected to have finished reduction",
            f"{VARIANTS}variant[one-bucket]": "one bucket of 100 MB was asked for, and",
            f"{VARIANTS}variant[small-buckets]": "buckets of 4 KiB were asked for, and 1 travelled",
            f"{VARIANTS}variant[accumulation]": "for 2 micro-batches; the gradients have",
            f"{VARIANTS}bfloat16_exchange": "has bits that bfloat16 cannot hold",
            f"{VARIANTS}uneven": "exceeds the bound",
        },
    ),
    Fault(
        "the sampler deals every rank the same pictures",
        """
        import torch.utils.data.distributed as distributed
        original = distributed.DistributedSampler.__init__
        def init(self, *arguments, rank=None, **keywords):
            original(self, *arguments, rank=0, **keywords)
        distributed.DistributedSampler.__init__ = init
        """,
        {
            f"{EQUIVALENCE}sampler": "the ranks drew 64 different pictures of 128, in 128 draws",
            f"{EQUIVALENCE}final_loss[float32]": "not shown to be equivalent over 16 seeds",
            f"{EQUIVALENCE}final_loss[bfloat16]": "not shown to be equivalent over 16 seeds",
        },
    ),
)

ON_CARDS_ONLY = f"{VARIANTS}synchronised_norm"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught_by_name(fault: Fault, tmp_path: Path) -> None:
    """The checks that are meant to see the fault fail, for that reason."""
    only = tuple(name.replace("[", "[[]") for name in fault.caught)
    ended = run_planted("convergence", fault.code, tmp_path, only)
    for name, words in fault.caught.items():
        assert ended[name].verdict is Verdict.FAILED, f"{name}: {ended[name].reason}"
        assert words in ended[name].reason


def test_without_a_fault_nothing_is_red_and_every_check_has_a_fault(tmp_path: Path) -> None:
    """Planting nothing raises no alarm; a check that no fault above turns red is unfinished."""
    ended = run_planted("convergence", "import torch\n", tmp_path)
    red = [check.reason for check in ended.values() if check.verdict.exit_code]
    assert red == []
    assert set(ended) - {name for fault in FAULTS for name in fault.caught} == {ON_CARDS_ONLY}
