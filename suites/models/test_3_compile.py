"""`torch.compile` on against off, where the stack has a compiler; whether it has is measured, not assumed.

Compiled are blocks, and the small classifier whole: on two cores a whole model takes minutes, and most of that is the compiler's.
"""

from __future__ import annotations

import math
import os
import shutil
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters

from stackproof.base.processes import cores
from stackproof.base.text import counted
from stackproof.device.kinds import Device
from stackproof.device.numerics import require_all
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import get, taking_part
from stackproof.workloads.gradients import conditioned
from suites.common import SEED, possible
from suites.models.observing import PRESET, anchored, compared, exact, observed_once


@pytest.fixture(scope="module", autouse=True)
def fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep kernels that are compiled here from other runs and from other environments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", str(min(4, cores())))
        yield
        torch._dynamo.reset()


@pytest.mark.deadline(240)
def test_compiler(device: Device, figures: dict[str, Figure]) -> None:
    """A trivial function compiles, forward and backward, and gives what it gives without: a fact of the stack."""
    figures["torch.compile works"] = not _obstacle(device)
    _need_compiler(device)
    numbers = torch.arange(8.0, device=device.torch, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(_trivial)(numbers)
    compiled.backward()
    seen, expected = float(compiled.detach()), 140 / 7
    require(abs(seen - expected) < 1e-5, f"a compiled sum of squares gives {seen}, {expected} was expected")
    slope = (torch.arange(8.0) * 2 / 7).to(device.torch)
    gradient = torch.full_like(slope, math.nan) if numbers.grad is None else numbers.grad
    require(torch.allclose(gradient, slope), f"a compiled sum of squares has the gradient {gradient.tolist()}")
    figures["summary"] = "a trivial function compiles, forward and backward"


@pytest.mark.deadline(240)
@pytest.mark.parametrize("name", taking_part("compile"))
def test_block(name: str, stack: Stack, device: Device, figures: dict[str, Figure]) -> None:
    """A compiled block inside its model: prediction, loss and all gradients agree with float64, as without compiling."""
    workload = possible(name)
    _need_compiler(device)
    if workload.offer.checkpointed:
        capabilities.require(stack, "compiled-checkpointing")
    job = workload.build(device.torch, PRESET, SEED, torch.float32)
    torch._dynamo.reset()
    counters.clear()
    _compile(job, workload.offer.compiled)
    actual = observed_once(job)
    # Graphs that reached the backend, not those that dynamo looked at.
    graphs = counters["aot_autograd"]["ok"]
    require(graphs > 0, f"{name}: torch.compile was on and nothing was compiled")
    judgements = conditioned(compared(actual, exact(name, observed_once), anchored(name, observed_once)), get(name))
    worst = require_all(judgements, f"{name} with {workload.offer.compiled or 'the whole model'} compiled,")
    figures |= {"graphs": graphs, "worst error": worst.error, "its bound": worst.bound}
    figures["summary"] = (
        f"{counted(graphs, 'graph')}, worst error of {len(judgements)}: {worst.error:.1e} of {worst.bound:.1e} allowed"
    )


def _compile(job: Job, block: str) -> None:
    """Compile a block in place, so that names stay, or send the whole model through its compiled form; all of it or not at all."""
    if block:
        job.model.get_submodule(block).compile(fullgraph=True)
    else:
        job.wrap(lambda model: cast(nn.Module, torch.compile(model, fullgraph=True)))


def _trivial(numbers: torch.Tensor) -> torch.Tensor:
    return (numbers * numbers).sum() / 7


def _need_compiler(device: Device) -> None:
    if not (reason := _obstacle(device)):
        return
    if lacking := _toolchain_gap():
        capabilities.withhold("host-compiler", f"{lacking}: {reason}")
    raise CapabilityMissing(f"torch.compile, measured on {device}: a trivial function does not compile: {reason}")


def _toolchain_gap() -> str:
    """Return what this host lacks of what torch.compile needs besides Python packages, or nothing."""
    compiler, header = os.environ.get("CXX", "g++"), Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None:
        return f"there is no {compiler} on PATH"
    return "" if header.exists() else f"{header} is not installed"


@cache
def _obstacle(device: Device) -> str:
    """Return why a trivial function does not compile here, or nothing if it does."""
    try:
        torch.compile(_trivial)(torch.ones(8, device=device.torch, requires_grad=True)).backward()
    except Exception as error:  # a missing compiler, header, package: each raises its own kind
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]
    return ""
