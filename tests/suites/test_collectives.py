"""Checks of the collectives suite are seen to fail: backends that are wrong at single sizes, drop data, do not wait, or are others."""

from __future__ import annotations

import textwrap

import pytest

from stackproof.collectives.table import lacking, rows
from stackproof.record.records import Check, Verdict

from ..planting import record_planted, run_planted

EXACT = "collectives/exact::agrees[gloo-"


def in_ranks(body: str) -> str:
    """Return code that is planted in the ranks alone."""
    return textwrap.dedent("""
        import os, sys
        if "stackproof.ranks.rank" in sys.orig_argv:
            import signal, time, torch, torch.distributed as dist
            rank, Op = os.environ.get("RANK"), dist.ReduceOp
        """) + textwrap.indent(textwrap.dedent(body), "    ")


# Each fault shows in the rows of CAUGHT that name its function, operator or dtype, and nowhere else among them.
FAULTS = in_ranks("""
class Done:
    def is_completed(self):
        return True
    def wait(self):
        return True

class After:
    def __init__(self, work, spoil):
        self.work, self.spoil = work, spoil
    def wait(self):
        self.work.wait()
        self.spoil()

all_reduce, reduce, broadcast, barrier = dist.all_reduce, dist.reduce, dist.broadcast, dist.barrier
all_gather, gather, scatter, reduce_scatter_tensor = dist.all_gather, dist.gather, dist.scatter, dist.reduce_scatter_tensor

def wrong_all_reduce(tensor, op=Op.SUM, group=None, async_op=False):
    if async_op and tensor.numel() == 129 and tensor.dtype is torch.float32:
        return Done()
    work = all_reduce(tensor, op, group, async_op)
    if op == Op.AVG and tensor.dtype is torch.float32 and tensor.numel() in (1, 2, 4, 28, 30, 31, 33):
        tensor.div_(dist.get_world_size())
    if op == Op.MAX and tensor.dtype is torch.int64:
        tensor.abs_()
    if op == Op.SUM and tensor.numel() == 65537 and tensor.dtype is torch.float32 and rank == "1":
        tensor[0] = torch.nextafter(tensor[0], torch.tensor(1e9))
    if op == Op.PRODUCT and tensor.numel() == 65537 and tensor.dtype is torch.float64:
        tensor.mul_(1.01)
    return work

def wrong_reduce(tensor, dst, op=Op.SUM, group=None, async_op=False):
    if op == Op.AVG and tensor.dtype is torch.int32:
        work = reduce(tensor, dst, Op.SUM, group, async_op)
        tensor.floor_divide_(dist.get_world_size())
        return work
    return reduce(tensor, dst, op, group, async_op)

def wrong_broadcast(tensor, src=None, group=None, async_op=False):
    return broadcast(tensor, 0 if tensor.dtype is torch.int32 else src, group, async_op)

def wrong_barrier(*arguments, **keywords):
    return None if keywords.get("async_op") is False else barrier(*arguments, **keywords)

def wrong_all_gather(out, tensor, group=None, async_op=False):
    if tensor.dtype is torch.bool and rank == "1":
        time.sleep(600)
    work = all_gather(out, tensor, group, async_op)
    return After(work, out[0].zero_) if async_op and group is not None else work

def wrong_gather(tensor, out=None, dst=0, group=None, async_op=False):
    if tensor.dtype is torch.float16:
        raise RuntimeError("gather is not for float16")
    return gather(tensor, out, dst, group, async_op)

def wrong_scatter(out, *arguments):
    if out.dtype is torch.bool and rank == "1":
        os.kill(os.getpid(), signal.SIGSEGV)
    return scatter(out, *arguments)

def wrong_reduce_scatter_tensor(out, tensor, *arguments):
    if tensor.dtype is torch.float64 and rank == "1":
        tensor.zero_()
    return reduce_scatter_tensor(out, tensor, *arguments)

dist.all_reduce, dist.reduce, dist.broadcast, dist.barrier = wrong_all_reduce, wrong_reduce, wrong_broadcast, wrong_barrier
dist.all_gather, dist.gather, dist.scatter = wrong_all_gather, wrong_gather, wrong_scatter
dist.reduce_scatter_tensor = wrong_reduce_scatter_tensor
dist.ProcessGroupGloo.__name__ = "ProcessGroupOther"
""")

CAUGHT = {
    f"{EXACT}all_reduce-avg-float32]": (Verdict.FAILED, "1 wrong, a tensor without dimensions, layout own"),
    f"{EXACT}all_reduce-max-int64]": (Verdict.FAILED, "rank 0 has "),
    f"{EXACT}reduce_scatter_tensor-sum-float64]": (Verdict.FAILED, "1 elements, layout"),
    f"{EXACT}broadcast-copy-int32]": (Verdict.FAILED, "root 1; "),
    f"{EXACT}reduce-avg-int32]": (Verdict.FAILED, "says it is not offered"),
    f"{EXACT}gather-copy-float16]": (Verdict.FAILED, "'RuntimeError: gather is not for float16'"),
    f"{EXACT}all_reduce-real_sum-float32]": (Verdict.FAILED, "the ranks hold different bits"),
    f"{EXACT}all_reduce-real_prod-float64]": (Verdict.FAILED, "exceeds the bound"),
    f"{EXACT}all_reduce-late-float32]": (Verdict.FAILED, "was complete on rank 0 before rank 1 had called it"),
    f"{EXACT}groups-interleaved-float32]": (
        Verdict.FAILED,
        "groups interleaved float32 (gloo, 2 ranks): rank 0 has 0.0",
    ),
    f"{EXACT}barrier-world-none]": (Verdict.FAILED, "let rank 0 go before rank 1 had come"),
    f"{EXACT}scatter-copy-bool]": (Verdict.CRASHED, "signal SIGSEGV"),
    f"{EXACT}all_gather-copy-bool]": (Verdict.HUNG, "did not come back from all_gather-copy-bool within"),
    "collectives/exact::backend[gloo]": (Verdict.FAILED, "gloo is served by ProcessGroupOther on rank 0"),
}
UNHARMED = (f"{EXACT}all_reduce-sum-float32]", f"{EXACT}scatter-copy-float32]", f"{EXACT}reduce_scatter-sum-int64]")


def exactly(check: str) -> str:
    """Return the pattern that matches a check whose name has brackets."""
    return check.replace("[", "[[]")


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One run with all the faults planted; a row may take 10 s."""
    only = tuple(map(exactly, (*CAUGHT, *UNHARMED)))
    record = record_planted("collectives", FAULTS, tmp_path_factory.mktemp("faults"), only, scale=0.5)
    return {check.id: check for check in record.checks}


@pytest.mark.parametrize("check", CAUGHT)
def test_the_fault_is_caught_by_name(check: str, checks: dict[str, Check]) -> None:
    """The row that is meant to see the fault ends as it must, for that reason."""
    verdict, words = CAUGHT[check]
    assert (checks[check].verdict, words in checks[check].reason) == (verdict, True), checks[check].reason


@pytest.mark.parametrize("check", UNHARMED)
def test_rows_without_a_fault_stay_green(check: str, checks: dict[str, Check]) -> None:
    """A crash and a hang before them, and wrong rows around them, cost nothing but a launch."""
    assert checks[check].verdict is Verdict.PASSED, checks[check].reason


def test_every_size_at_which_the_mean_is_wrong_is_seen(checks: dict[str, Check]) -> None:
    """Sizes 1, 2, 4, 28, 30, 31 and 33, and the tensor without dimensions, of nineteen that are tried."""
    assert "8 of this rank's 19 cases" in checks[f"{EXACT}all_reduce-avg-float32]"].reason


def test_wrong_numbers_come_with_code_to_paste(checks: dict[str, Check]) -> None:
    """The record holds a program for torchrun that repeats the first wrong case."""
    repro = str(checks[f"{EXACT}all_reduce-avg-float32]"].figures["repro"])
    assert "torchrun --nproc-per-node 2" in repro and "'operator': 'avg'" in repro and "'count': -1" in repro


ONE_BIT = in_ranks("""
import stackproof.collectives.rank as program
import stackproof.collectives.rank as order
from stackproof.collectives import turn as collectives_turn

def spoiled(compare):
    def fault(turn, collective):
        for _, view in turn.results:
            for place in [(0,) * view.dim()] if view.numel() else []:
                view.view(torch.uint8 if view.dtype is torch.bool else view.dtype)[place] = 1 - view[place].int()
        return compare(turn, collective)
    return fault

program.fault, order.fault = spoiled(program.fault), spoiled(order.fault)
""")


def test_every_row_sees_one_wrong_number(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the first number of every result wrong, no row that compares bits is green."""
    found = run_planted("collectives", ONE_BIT, tmp_path_factory.mktemp("bit"), (f"{exactly(EXACT)}*",))
    compared = [row for row in rows() if row.collective != "barrier" and not row.form.startswith("real_")]
    red = (Verdict.FAILED, Verdict.KNOWN_ISSUE, Verdict.CRASHED)
    for row in compared:
        check = found[f"{EXACT}{row.name}]"]
        assert check.verdict in red or lacking(row, "gloo", "cpu"), (check.id, check.reason)
    assert sum(check.verdict is Verdict.FAILED for check in found.values()) > 300


SLOW = in_ranks("""
from stackproof.device.kinds import HostStopwatch
HostStopwatch.seconds = lambda self: 1e-3

all_reduce = dist.all_reduce
def wrong_all_reduce(tensor, *arguments, **keywords):
    work = all_reduce(tensor, *arguments, **keywords)
    if tensor.numel() == 1 << 20 and "bandwidth" in open(sys.argv[-2]).read():
        tensor[-1] += 1
    return work
dist.all_reduce = wrong_all_reduce

import torch.profiler
torch.profiler.profile.events = lambda self: []
""")

TIMED = {
    "collectives/bandwidth::rates[gloo-all_reduce]": "all_reduce of 4 MiB: 1 numbers are wrong after timing",
    "collectives/bandwidth::rates[gloo-send_recv]": "take 1.00 times as long as 4 KiB: not the work was timed",
    "collectives/cost::exposed[classifier]": "made the step 0.0 ms longer: communication is not timed",
    "collectives/cost::profiled[classifier]": "the profiler shows no communication of gloo",
}


def test_times_that_are_not_of_the_work_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A clock that stands still, wrong numbers under the clock, and a profiler that sees nothing."""
    found = run_planted("collectives", SLOW, tmp_path_factory.mktemp("times"), tuple(map(exactly, TIMED)))
    for name, words in TIMED.items():
        assert (found[name].verdict, words in found[name].reason) == (Verdict.FAILED, True), found[name].reason


NOT_OFF = in_ranks("""
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
debugging_hooks.noop_hook = lambda state, bucket: default_hooks.allreduce_hook(dist.group.WORLD, bucket)
""")


def test_communication_that_cannot_be_switched_off_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Then the difference of steps says nothing."""
    only = tuple(exactly(f"collectives/cost::{check}[classifier]") for check in ("exposed", "profiled"))
    found = run_planted("collectives", NOT_OFF, tmp_path_factory.mktemp("off"), only)
    assert "it was not off" in found["collectives/cost::exposed[classifier]"].reason
    assert "in a step that has none" in found["collectives/cost::profiled[classifier]"].reason
