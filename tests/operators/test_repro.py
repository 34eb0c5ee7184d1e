"""A failure as code: it repeats the fault where it is, here and in another process, and writes arguments exactly."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stackproof.device import devices
from stackproof.operators import database, examine, repro
from stackproof.record.checks import CheckFailed
from stackproof.record.records import Figure

CPU = devices.default("cpu")

FAULT = '''
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Fault(TorchDispatchMode):
    """Errs by a quarter in one kernel and dtype."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        first, *rest = result if isinstance(result, tuple) else (result,)
        if str(func) != KERNEL or first.dtype is not DTYPE:
            return result
        return (first * 1.25, *rest) if rest else first * 1.25
'''


def fault(kernel: str, dtype: torch.dtype) -> TorchDispatchMode:
    """Make the fault that also runs in another process."""
    names: dict[str, Any] = {"KERNEL": kernel, "DTYPE": dtype}
    exec(FAULT, names)
    made: TorchDispatchMode = names["Fault"]()
    return made


def pasted(code: str, kernel: str, dtype: torch.dtype) -> tuple[int, str]:
    """Run the code in another process, with the fault; return exit status and output."""
    planted = f"KERNEL = {kernel!r}\n{FAULT.replace('DTYPE', str(dtype))}\nFault().__enter__()\n"
    command = [sys.executable, "-W", "ignore", "-c", f"{planted}\nexec({code!r})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def status(code: str) -> int:
    """Run the code in this process, which starts faster; return its exit status."""
    with database.preserved(), pytest.raises(SystemExit) as end:
        exec(code, {"__name__": "pasted"})
    return int(end.value.code or 0)


def failing(name: str, op: Any, kernel: str, dtype: torch.dtype) -> dict[str, Figure]:
    """Run a check that the fault makes fail; return its figures."""
    figures: dict[str, Figure] = {}
    with fault(kernel, dtype), pytest.raises(CheckFailed, match="exceeds the bound .* figure 'repro' is code"):
        examine.check(name, op, CPU, dtype, figures)
    return figures


@pytest.mark.parametrize(
    ("name", "dtype", "kernel", "holds"),
    [
        ("addmm", torch.bfloat16, "aten.addmm.default", "torch.tensor(["),
        ("tanh", torch.float32, "aten.tanh_backward.default", "operator = torch.tanh"),
        ("linalg.svd", torch.float32, "aten._linalg_svd.default", "of the operator database of torch"),
    ],
)
def test_the_code_repeats_the_failure(name: str, dtype: torch.dtype, kernel: str, holds: str) -> None:
    code = str(failing(name, database.load()[name], kernel, dtype)["repro"])
    assert holds in code
    with fault(kernel, dtype):
        assert status(code) == 1
    assert status(code) == 0


@pytest.mark.slow
def test_the_code_can_be_pasted_anywhere() -> None:
    figures = failing("addmm", database.load()["addmm"], "aten.addmm.default", torch.bfloat16)
    code = str(figures["repro"])
    assert "stackproof" not in code
    ended, printed = pasted(code, "aten.addmm.default", torch.bfloat16)
    assert ended == 1, printed
    assert "error 0.25" in printed


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(7.0)[1::2],
        torch.ones(1, 3).expand(4, 3),
        torch.tensor([float("inf"), float("nan"), 1.5]).bfloat16(),
        torch.tensor([1 + 2j]),
        torch.zeros(0, 3),
        torch.tensor(3),
    ],
)
def test_tensors_are_written_exactly(value: torch.Tensor) -> None:
    made = eval(repro.literal(value), {"torch": torch, "inf": float("inf"), "nan": float("nan")})
    assert (made.dtype, made.stride(), made.storage_offset()) == (value.dtype, value.stride(), value.storage_offset())
    assert torch.equal(made.nan_to_num(7), value.nan_to_num(7))


def test_other_arguments_are_written_exactly() -> None:
    value = {"a": [1, (2.5,), None, True, "x"], "b": torch.float16, "c": slice(1, None), "d": torch.channels_last}
    assert eval(repro.literal(value), {"torch": torch}) == value
    with pytest.raises(repro.NotWritableError):
        repro.literal(print)
