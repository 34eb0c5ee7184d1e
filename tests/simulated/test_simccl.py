"""The collectives of the simulated cards, on two and four ranks, and what their faults do."""

from __future__ import annotations

from pathlib import Path

import pytest

from .double import fired, run

_BEGIN = """
import os, torch
import torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.sim.set_device(rank)
card = torch.device("sim", rank)
dist.init_process_group("simccl", device_id=card)
def ranks(value=0.0): return [float(value) + peer for peer in range(world)]
mine = torch.full((3,), float(rank), device=card)
"""
_END = """
dist.barrier()
"""
_COLLECTIVES = """
total = sum(ranks())
x = mine.clone(); dist.all_reduce(x); assert x.tolist() == [total] * 3
x = mine.bfloat16(); dist.all_reduce(x, dist.ReduceOp.AVG); assert x.tolist() == [total / world] * 3
x = torch.tensor([True, rank == 1, False], device=card); dist.all_reduce(x); assert x.tolist() == [True, True, False]
x = torch.tensor([-rank - 1], device=card); dist.all_reduce(x, dist.ReduceOp.MAX); assert x.item() == -1
x = mine.clone(); dist.broadcast(x, 1); assert x[0] == 1
x = torch.zeros(6, device=card)[::2]; x.fill_(rank); dist.all_reduce(x); assert x.tolist() == [total] * 3
into = torch.zeros(world, 3, device=card); dist.all_gather_into_tensor(into, mine); assert into[:, 0].tolist() == ranks()
part = torch.zeros(1, device=card)
dist.reduce_scatter_tensor(part, torch.arange(float(world), device=card)); assert part.item() == rank * world
out = torch.zeros(world, device=card)
dist.all_to_all_single(out, torch.full((world,), float(rank), device=card)); assert out.tolist() == ranks()
got = torch.zeros(3, device=card)
works = [dist.isend(mine, (rank + 1) % world), dist.irecv(got, (rank - 1) % world)]
for work in works: work.wait()
assert got[0] == (rank - 1) % world
pair = dist.new_group([0, 1])
if rank < 2:
    x = torch.ones(1, device=card); dist.all_reduce(x, group=pair); assert x.item() == 2

from copy import deepcopy
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
batch, alone = torch.randn(2 * world, 8), deepcopy(model)
alone(batch).square().mean().backward()
shard = batch[2 * rank : 2 * rank + 2].to(card)
parallel = torch.nn.parallel.DistributedDataParallel(deepcopy(model).to(card), device_ids=[rank])
sharded = deepcopy(model).to(card)
fully_shard(sharded)
for trained in (parallel, sharded):
    trained(shard).square().mean().backward()
    for found, expected in zip(trained.parameters(), alone.parameters()):
        whole = found.grad.full_tensor() if hasattr(found.grad, "full_tensor") else found.grad
        torch.testing.assert_close(whole.cpu(), expected.grad)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cards", ["2", "4"])
def test_collectives_are_right_and_ranks_train_as_one_process(cards: str, tmp_path: Path) -> None:
    run(_BEGIN + _COLLECTIVES + _END, ranks=tmp_path / "ranks.py", SIM_CARDS=cards)


_FAULTS = """
x = mine.clone(); dist.all_reduce(x, dist.ReduceOp.AVG); assert x.tolist() == [0.5] * 3, "not a chosen size"
x = torch.full((4,), 1.0, device=card); dist.all_reduce(x, dist.ReduceOp.AVG); assert x.tolist() == [2.0] * 4, "avg-wrong"
x = torch.tensor([-5, 2], device=card); dist.all_reduce(x, dist.ReduceOp.MAX); assert x.tolist() == [5, 2], "max-wrong"
x = mine.clone(); dist.broadcast(x, 0); assert x[0] == 1, "wrong-root"
"""


@pytest.mark.slow
def test_faults_of_collectives_strike_where_they_are_planted(tmp_path: Path) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    run(_BEGIN + _FAULTS + _END, ranks=tmp_path / "ranks.py", faults="avg-wrong;max-wrong;wrong-root", signs=signs)
    assert fired(signs) == {"avg-wrong": 2, "max-wrong": 2, "wrong-root": 2}


_OTHERS = """
import time
assert dist.get_backend() == "gloo", "silently-gloo"
x = torch.ones(2, device=card); dist.all_reduce(x); assert x[0] == 1 if rank == 0 else x[0] > 1, "dropped, and drift on rank 1"
if rank == 0: time.sleep(1)
began = time.perf_counter(); dist.barrier(); assert time.perf_counter() - began < 0.9 or rank == 0, "barrier-passes"
"""


@pytest.mark.slow
def test_faults_of_ranks_strike_where_they_are_planted(tmp_path: Path) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    planted = "silently-gloo;dropped:rank=1;drift:rank=1;barrier-passes"
    run(_BEGIN + _OTHERS, ranks=tmp_path / "ranks.py", faults=planted, signs=signs)
    assert fired(signs).keys() == {"silently-gloo", "dropped", "drift", "barrier-passes"}


_SHARED = """
torch.sim.set_device(0)
try:
    dist.all_reduce(torch.ones(1, device="sim:0"))
except RuntimeError as error:
    assert "Duplicate GPU detected: rank 0 and rank 1 both on card" in str(error), error
else:
    raise AssertionError("shared")
"""
_DIFFERENT = """
try:
    dist.all_reduce(torch.ones(1 + rank, device=card))
except RuntimeError as error:
    assert "Collectives differ in the following aspects: tensor shapes: [1] torch.float32 on rank 0, [2]" in str(error), error
else:
    raise AssertionError("summed")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "detail"), [(_SHARED, "OFF"), (_DIFFERENT, "DETAIL")], ids=["one card", "shapes"])
def test_what_libraries_refuse_is_refused(code: str, detail: str, tmp_path: Path) -> None:
    run(_BEGIN + code, ranks=tmp_path / "ranks.py", TORCH_DISTRIBUTED_DEBUG=detail)
