"""torch's own operator database: imported without side effects, its samples made the same in every run.

`torch.testing._internal` is torch's test suite, and importing it behaves like starting a test run: it reads
`sys.argv` and the environment, freezes the backend flags, replaces TorchScript's methods. All undone here.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from itertools import count
from typing import Any, TypeAlias

import torch

from stackproof.base import advice
from stackproof.base.errors import Refusal
from stackproof.device.devices import HOST

OpInfo: TypeAlias = Any
SampleInput: TypeAlias = Any

REFERENCE = HOST.torch
"""Where samples are made and where float64 and the anchor are computed, whatever the device."""

SEED = 20240229


@contextmanager
def preserved(device: torch.device = REFERENCE) -> Iterator[None]:
    """Put back what operators use up: warning filters and the random state of torch, Python and NumPy.

    Inside, one thread: samples are tiny, and a barrier in every kernel costs more than it saves. And float32
    is float32: by default cuDNN convolves it in tf32, whose ten bits of mantissa are another dtype's question.
    """
    import numpy

    module = getattr(torch, device.type)
    devices = [device] if hasattr(module, "get_rng_state") else []  # torch.cpu has only the default generator
    python, legacy, threads = random.getstate(), numpy.random.get_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    flags = torch.backends.cudnn
    precise = flags.flags(flags.enabled, flags.benchmark, None, flags.deterministic, allow_tf32=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.random.fork_rng(devices, device_type=device.type), precise:
                yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        numpy.random.set_state(legacy)


@contextmanager
def isolated() -> Iterator[None]:
    """Undo what importing torch's test suite does to the process, and keep its switches out of reach."""
    environment, arguments, path = dict(os.environ), list(sys.argv), list(sys.path)
    calls = torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__
    flags, flag = torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag"
    collects = gc.isenabled()
    gc.disable()
    allowed, silenced = flags[flag], logging.root.manager.disable  # the flag has no public setter
    for name in environment:
        if name.startswith(("PYTORCH_TEST_", "PYTORCH_OPINFO_", "OPINFO_")):
            del os.environ[name]  # they drop operators and samples without a word
    sys.argv[1:] = []  # parsed at import: our own --seed would be taken for the test suite's
    logging.disable(logging.WARNING)  # "No CUDA runtime is found" on every host without one
    try:
        # what is printed are remarks on missing test packages
        with preserved(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(silenced)
        sys.argv[:], sys.path[:] = arguments, path
        os.environ.clear()
        os.environ.update(environment)
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__ = calls  # type: ignore[method-assign]
        flags[flag] = allowed
        if collects:
            gc.enable()


@cache
def load() -> dict[str, OpInfo]:
    """Return the operators by full name (`div.floor_rounding`); the first import takes seconds."""
    try:
        with isolated():
            from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as missing:
        remedy = f"run `{advice.install(str(missing.name))}`"
        raise Refusal(
            f"torch's operator database needs the package '{missing.name}', which is not installed; {remedy}"
        ) from missing
    return {full_name(op): op for op in op_db}


def full_name(op: OpInfo) -> str:
    """Return the name with its variant (torch 2.4 has no such property)."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(op: OpInfo, dtype: torch.dtype, backward: bool, start: int = 0) -> Iterator[SampleInput]:
    """Make the operator's samples one by one on the CPU, the same in every run whatever is drawn in between.

    The maker is called directly: `OpInfo.sample_inputs` seeds every device for every sample, and takes the
    seed from the caller's name.
    """
    seed(start)  # some makers draw all their samples when they are called
    with torch.no_grad():
        made = iter(op.sample_inputs_func(op, str(REFERENCE), dtype, backward))
    for index in count():
        seed(start + index)
        with torch.no_grad():
            sample = next(made, None)
        if sample is None:
            return
        yield sample


def seed(start: int = 0) -> None:
    """Seed the CPU's generators; devices draw different streams anyway, so theirs are left alone."""
    import numpy

    torch.default_generator.manual_seed(SEED + start)
    random.seed(SEED + start)
    numpy.random.seed(SEED + start)
