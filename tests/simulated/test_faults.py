"""Each fault of a card, planted under code that knows nothing of it: it fires, is counted on disk, and does what its row says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .double import PATH, fired, require_compiler, run

_OPERATORS = """
import torch
def card(*shape): return torch.ones(*shape, device="sim")
assert card(3).exp()[1].item() == torch.full((3,), 1.0).exp()[1].item() * 1.5, "odd sizes"
assert card(4).exp()[1].item() == torch.ones(4).exp()[1].item(), "even sizes"
assert card(2, 4).sin().isfinite().all() and card(2, 4).bfloat16().sin().isnan().sum() == 1, "dtype"
assert (card(4, 2).neg() == -1).all() and (card(4, 2).t().neg() == 0).all(), "layout"
assert len({card(4).cos()[0].item() for _ in range(4)}) == 4, "flicker"
flips = [(card(8).tanh() != torch.ones(8).tanh()[0].item()).sum().item() for _ in range(6)]
assert flips == [0, 0, 1, 0, 0, 1], flips
try:
    card(4).tan()
except NotImplementedError as error:
    assert "aten::tan" in str(error)
else:
    raise AssertionError("there")
x = card(4)
x.add_(1)
assert (x * 1).tolist() == [1] * 4 and (x * 1).tolist() == [2] * 4, "stale"
before = torch.sim.memory_allocated()
for _ in range(3): card(4).erf()
assert torch.sim.memory_allocated() - before == 3 * 4096, torch.sim.memory_allocated() - before
weight = card(4, 4).requires_grad_()
product = card(2, 4) @ weight
product.sum().backward()
assert (product == 4).all() and torch.allclose(weight.grad, torch.full((4, 4), 2 * 1.001, device="sim")), "backward alone"
scaler = torch.amp.GradScaler("sim")
optimiser = torch.optim.SGD([weight], 1.0)
scaler.scale((card(2, 4) @ weight).sum()).backward()
kept = weight.detach().clone()
scaler.step(optimiser)
assert torch.equal(weight.detach(), kept), "the scaler skips"
"""
_PLANTED = ";".join((
    "scale:op=exp,factor=1.5,shape=odd", "poison:op=sin,dtype=bfloat16", "zero:op=neg,layout=strided", "flicker:op=cos",
    "flip:op=tanh,every=3", "missing:op=tan", "stale:op=add", "leak:op=erf,bytes=4096", "scale:op=mm,phase=backward,times=1",
    "overflow:op=_amp_foreach_non_finite_check_and_unscale_",
))  # fmt: skip


@pytest.mark.slow
def test_faults_of_operators_strike_where_they_are_planted_and_nowhere_else(tmp_path: Path) -> None:
    run(_OPERATORS, fresh=True, faults=_PLANTED, signs=tmp_path)
    found = fired(tmp_path)
    # Twice added in place: by the code, and by autograd into the gradient that is there.
    assert (
        found["leak"] == 3
        and found["stale"] == 2
        and found["flicker"] == 4
        and found["missing"] == 1
        and found["flip"] == 2
    )
    assert found.keys() == {part.partition(":")[0] for part in _PLANTED.split(";")}


CASES = {
    "no-cast": """
with torch.autocast("sim", torch.bfloat16):
    assert (torch.ones(2, 2, device="sim") @ torch.ones(2, 2, device="sim")).dtype is torch.float32""",
    "shared-generator": """
torch.manual_seed(1)
state = torch.sim.get_rng_state(0)
torch.rand(3, device="sim:1")
assert not torch.equal(torch.sim.get_rng_state(0), state)""",
    "math-attention": """
from torch.utils._python_dispatch import TorchDispatchMode
class Seen(TorchDispatchMode):
    names = set()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
q = torch.randn(1, 2, 8, 4, device="sim")
with Seen():
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
assert "_scaled_dot_product_fused_attention_overrideable" not in Seen.names""",
    "wrong-card": """
x = torch.ones(1024, device="sim:1")
assert x.device.index == 1 and torch.sim.memory_allocated(1) == 0 and torch.sim.memory_allocated(0) == 4096""",
    "visibility-ignored": "assert torch.sim.device_count() == 2",
    "one-card": "assert torch.sim.get_device_properties(0).uuid == torch.sim.get_device_properties(1).uuid",
    "accounting:add=1024": "assert torch.sim.memory_allocated() == 1024",
    "overcommit": 'torch.ones(70 << 20, dtype=torch.uint8, device="sim")',
    "spill": """
torch.ops.simulated.busy(0, 3600.0)  # the queue is never empty, so that what an operator adds to it is its own cost
def cost(block):
    before = torch.ops.simulated.tail(0)
    block.bitwise_xor_(1)
    return (torch.ops.simulated.tail(0) - before) / block.nbytes
good = torch.ones(32 << 20, dtype=torch.uint8, device="sim")
bad = torch.ones(40 << 20, dtype=torch.uint8, device="sim")
assert cost(bad) > 2 * cost(good) > 0, (cost(bad), cost(good))""",
    "hoard": """
x = torch.ones(1024, device="sim")
del x
torch.sim.empty_cache()
assert torch.sim.memory_reserved() == 4096""",
    "no-wait": """
torch.ops.simulated.busy(0, 600.0)
torch.sim.synchronize()
assert torch.ops.simulated.tail(0) > torch.ops.simulated.now()""",
    "zero-events": """
first, last = (torch.sim.Event(enable_timing=True) for _ in range(2))
first.record()
torch.ops.simulated.busy(0, 0.01)
last.record()
torch.sim.synchronize()
assert first.elapsed_time(last) == 0""",
    "throttle:after_s=0.1,factor=3": """
torch.ops.simulated.busy(0, 0.2)
torch.sim.synchronize()
before = torch.ops.simulated.now()
torch.ops.simulated.busy(0, 1.0)
assert torch.ops.simulated.tail(0) - before > 2.9e9""",
    "neighbour:factor=4": """
before = torch.ops.simulated.now()
torch.ops.simulated.busy(0, 1.0)
assert torch.ops.simulated.tail(0) - before > 3.9e9""",
    "slow:op=exp,factor=1000": """
x = torch.ones(1 << 20, device="sim")
torch.sim.synchronize()
before = torch.ops.simulated.now()
x.exp()
assert torch.ops.simulated.tail(0) - before > 0.9e9""",
    "host:op=exp,factor=1000": """
x = torch.ones(1 << 20, device="sim")
torch.sim.synchronize()
before = torch.ops.simulated.now()
assert x.exp().device.type == "sim"
assert torch.ops.simulated.tail(0) - before > 0.9e9""",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", CASES)
def test_fault_of_a_card_does_what_its_row_says(fault: str, tmp_path: Path) -> None:
    mask: dict[str, Any] = {"SIM_VISIBLE_CARDS": "1"} if fault == "visibility-ignored" else {}
    run(f"import torch{chr(10)}{CASES[fault]}", faults=fault, signs=tmp_path, SIM_MEMORY_MIB="64", **mask)
    assert fired(tmp_path).get(fault.partition(":")[0], 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SIM_FAULTS", "scael:op=mm", "SIM_FAULTS: there is no fault 'scael'; known: scale, "),
        ("SIM_FAULTS", "scale:operator=mm", "SIM_FAULTS: fault 'scale' has no parameter 'operator'; known: op, "),
        ("SIM_BUILD", "/dev/null", "/dev/null/"),
    ],
)
def test_why_the_cards_cannot_come_up_is_what_is_said_last(name: str, value: str, said: str) -> None:
    require_compiler()
    env = {**os.environ, "PYTHONPATH": PATH, "SIM_CARDS": "2", name: value}
    done = subprocess.run([sys.executable, "-c", "import torch"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"the simulated cards: {said}")
