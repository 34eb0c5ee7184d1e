"""What the simulated cards claim of themselves: memory, queues, clocks, random numbers, placement."""

from __future__ import annotations

import pytest

from .double import run


def test_memory_has_a_capacity_and_is_counted_by_card() -> None:
    run(
        """
import torch
MIB = 1 << 20
block = torch.ones(8 * MIB, dtype=torch.uint8, device="sim:1")
assert (torch.sim.memory_allocated(1), torch.sim.memory_allocated(0)) == (8 * MIB, 0)
assert torch.sim.mem_get_info(1) == (56 * MIB, 64 * MIB)
del block
assert (torch.sim.memory_allocated(1), torch.sim.memory_reserved(1)) == (0, 8 * MIB)
assert torch.sim.max_memory_allocated(1) == 8 * MIB
torch.sim.reset_peak_memory_stats(1)
torch.sim.empty_cache()
assert torch.sim.memory_reserved(1) == torch.sim.max_memory_allocated(1) == 0
try:
    torch.ones(65 * MIB, dtype=torch.uint8, device="sim:1")
except torch.OutOfMemoryError as error:
    assert "test double" in str(error)
else:
    raise AssertionError("granted")
assert torch.sim.memory_stats(1)["num_ooms"] == 1 and torch.sim.memory_allocated(1) == 0
assert torch.accelerator.memory_allocated(1) == 0
""",
        SIM_MEMORY_MIB="64",
    )


@pytest.mark.slow
def test_work_is_queued_and_waiting_waits() -> None:
    run(
        """
import time, torch
a = torch.ones(256, 256, device="sim")
torch.sim.synchronize()
first, last = (torch.sim.Event(enable_timing=True) for _ in range(2))
first.record()
a @ a
last.record()
expected = 2 * 256**3 / 1e7 * 1e3  # the model's rate, in ms: far more than the CPU takes
assert not last.query()
began = time.perf_counter()
torch.sim.synchronize()
assert last.query() and time.perf_counter() - began > 0.1
assert abs(first.elapsed_time(last) - expected) < 0.3 * expected, (first.elapsed_time(last), expected)
""",
        SIM_GFLOP_S="0.01",
    )


@pytest.mark.slow
def test_streams_are_queues_of_their_own() -> None:
    run("""
import torch
stream, outside = torch.sim.Stream(), torch.sim.current_stream()
with torch.sim.stream(stream):
    assert torch.sim.current_stream() == stream
    torch.ops.simulated.busy(0, 30.0)
    done = torch.sim.Event()
    done.record()
assert torch.sim.current_stream() == outside and outside.query() and not stream.query()
outside.wait_event(done)
assert not outside.query()
""")


@pytest.mark.slow
def test_each_card_has_a_generator() -> None:
    run("""
import torch
torch.manual_seed(1)
host, other, state = torch.get_rng_state(), torch.sim.get_rng_state(1), torch.sim.get_rng_state(0)
drawn = torch.rand(8, device="sim:0")
torch.nn.functional.dropout(torch.ones(64, device="sim:0"))
assert torch.equal(torch.get_rng_state(), host) and torch.equal(torch.sim.get_rng_state(1), other)
torch.sim.set_rng_state(state, 0)
assert torch.equal(torch.rand(8, device="sim:0"), drawn)
torch.manual_seed(1)
assert torch.equal(torch.rand(8, device="sim:0"), drawn)
""")


@pytest.mark.slow
def test_cards_do_not_mix_and_masks_hide_them() -> None:
    run("""
import torch
one, two = torch.ones(2, device="sim:0"), torch.ones(2, device="sim:1")
for pair in ((one, two), (one, torch.ones(2))):
    try:
        pair[0] + pair[1]
    except RuntimeError as error:
        assert "same device" in str(error)
    else:
        raise AssertionError("mixed")
assert (two.to("sim:0") + one).tolist() == [2, 2]
""")
    said = run("import torch; print(torch.sim.device_count(), torch.sim.get_device_name(0))", SIM_VISIBLE_CARDS="1")
    assert said.split(maxsplit=1) == ["1", "Simulated card 1 (test double)\n"]


@pytest.mark.slow
def test_pinned_memory_is_known_and_copies() -> None:
    run("""
import torch
host = torch.arange(10.0).pin_memory()
assert host.is_pinned() and not torch.ones(1).is_pinned()
assert host.to("sim", non_blocking=True).cpu().tolist() == list(range(10))
""")


@pytest.mark.slow
def test_nothing_is_loaded_unless_asked_for() -> None:
    run(
        """
import torch
assert not hasattr(torch, "sim") and torch._C._get_privateuse1_backend_name() == "privateuseone"
""",
        fresh=True,
        SIM_CARDS="",
    )
