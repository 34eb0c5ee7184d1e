"""The matrix product under our engine, under torch's own timer and under triton's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from statistics import mean, median

import torch

from ..checks import CapabilityMissing
from ..measuring.sampling import Sampler, warm_up
from ..workloads.gemm import Gemm
from ..workloads.work import Setting
from . import Block, Turns, side_by_side

_BLOCK_S = 0.3


def compare(setting: Setting, theirs: Callable[[Gemm, int], Block], rounds: int) -> tuple[str, Turns]:
    """Prove the product, then time it in turns; returns what was proved and the seconds of one product."""
    work = Gemm(setting)
    try:
        return work.prove(), _turns(work, setting, theirs, rounds)
    finally:
        work.close()


def _turns(work: Gemm, setting: Setting, theirs: Callable[[Gemm, int], Block], rounds: int) -> Turns:
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 5.0)
    once = median(sampler.block(5))
    count = max(5, round(_BLOCK_S / once))
    return side_by_side(lambda: mean(sampler.block(count)), theirs(work, count), rounds)


def torch_timer(work: Gemm, count: int) -> Block:
    """Time by torch.utils.benchmark: the mean over `count` products, on as many threads as now."""
    from torch.utils.benchmark import Timer

    timer = Timer("run()", globals={"run": work.run}, num_threads=torch.get_num_threads())
    return lambda: float(timer.timeit(count).median)


def triton_do_bench(work: Gemm, _: int) -> Block:
    """Time by triton.testing.do_bench: the median over about 0.3 s.

    Raises:
        CapabilityMissing: triton is not installed.
    """
    if importlib.util.find_spec("triton") is None:
        raise CapabilityMissing("fixtures/agreement.toml, gemm-triton: triton is not installed in this environment")
    from triton.testing import do_bench  # type: ignore[import-untyped, unused-ignore]

    return lambda: float(do_bench(work.run, warmup=50, rep=int(_BLOCK_S * 1e3), return_mode="median")) / 1e3
