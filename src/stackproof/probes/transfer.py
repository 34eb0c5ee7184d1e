"""Data on its way to the device: workers that start afresh, pinned memory, copies that nobody waits for.

The data set lives here and not in a suite because a worker that is spawned imports it by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, get_worker_info, random_split
from torch.utils.data.distributed import DistributedSampler

from stackproof.device.kinds import Device
from stackproof.record.checks import require

SAMPLES = 32
BATCH = 4
WORKERS = 2
_CHOSEN = 20_000
"""A share of three quarters strays by 0.003 (standard deviation)."""
Batch = dict[str, torch.Tensor]


class Numbers(Dataset[Batch]):
    """Samples that say which they are, what they hold, and who drew their random number."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Batch:
        worker = get_worker_info()
        return {
            "index": torch.tensor(index),
            "payload": torch.arange(64) * (index + 1),
            "worker": torch.tensor(-1 if worker is None else worker.id),
            "seed": torch.tensor(torch.initial_seed() % (1 << 62)),
            "drawn": torch.stack(
                [torch.rand((), dtype=torch.float64), torch.tensor(np.random.rand()), torch.tensor(random.random())]
            ),
        }


def loader(workers: int, *, pinned: bool = False, seed: int = 5) -> DataLoader[Batch]:
    """Return a shuffling loader; its workers are spawned, as every accelerator's runtime needs (a forked one is broken)."""
    options: dict[str, Any] = {"multiprocessing_context": "spawn"} if workers else {}
    options |= {"num_workers": workers, "pin_memory": pinned, "generator": torch.Generator().manual_seed(seed)}
    return DataLoader(Numbers(), batch_size=BATCH, shuffle=True, **options)


@dataclass(frozen=True)
class Delivery:
    """All that an epoch delivered, in order."""

    order: list[int]
    workers: list[int]
    seeds: list[int]
    drawn: list[list[float]]
    """By torch's generator, NumPy's and Python's own, for each sample."""
    broken: list[int]


def deliver(batches: Iterator[Batch]) -> Delivery:
    """Read an epoch; a sample whose payload is not what was put in is broken."""
    delivery = Delivery([], [], [], [], [])
    for batch in batches:
        delivery.order.extend(batch["index"].tolist())
        delivery.workers.extend(batch["worker"].tolist())
        delivery.seeds.extend(batch["seed"].tolist())
        delivery.drawn.extend(batch["drawn"].tolist())
        for index, payload in zip(batch["index"].tolist(), batch["payload"], strict=True):
            if not torch.equal(payload, torch.arange(64) * (index + 1)):
                delivery.broken.append(index)
    return delivery


def complete(delivery: Delivery, expected: list[int]) -> None:
    """Every sample came once, whole, and in the order that the seed means."""
    require(not delivery.broken, f"samples {delivery.broken[:5]} arrived with other contents than they were given")
    lost = sorted(set(range(SAMPLES)) - set(delivery.order))
    require(not lost, f"samples {lost[:5]} never arrived")
    require(len(delivery.order) == SAMPLES, f"{len(delivery.order)} samples arrived, {SAMPLES} were expected")
    require(delivery.order == expected, f"workers change the order: {delivery.order[:6]} instead of {expected[:6]}")


def seeds_differ(delivery: Delivery) -> None:
    """Each worker worked, with a seed of its own, and no two drew the same numbers."""
    seeds = {worker: {seed for who, seed in zip(delivery.workers, delivery.seeds, strict=True) if who == worker}
             for worker in set(delivery.workers)}  # fmt: skip
    require(set(seeds) == set(range(WORKERS)), f"workers {sorted(seeds)} delivered, {WORKERS} were asked for")
    different = set.union(*seeds.values())
    require(len(different) == WORKERS, f"{WORKERS} workers share seeds: {seeds}; they augment alike")
    for source, drawn in zip(("torch", "numpy", "random"), zip(*delivery.drawn, strict=True), strict=True):
        alike = len(set(drawn)) <= SAMPLES // 2
        require(not alike, f"workers drew the same random numbers from {source}: {sorted(drawn)[:4]}")


def shuffles() -> None:
    """Each epoch has an order of its own, of one process and of the ranks' sampler; weights are those that were given."""
    plain = DataLoader(Numbers(), batch_size=None, shuffle=True)
    ranked: DistributedSampler[Batch] = DistributedSampler(Numbers(), 2, 0, seed=5)
    torch.manual_seed(5)
    for shuffled in (plain, loader(0)):  # by torch's own generator, and by one that is given
        epochs = [list(shuffled.sampler) for _ in range(3)]
        alike = f"epochs are shuffled alike: {epochs[0][:6]} and again"
        require(epochs[0] != epochs[1] != epochs[2] != epochs[0], alike)
    parts = random_split(Numbers(), [SAMPLES // 3, SAMPLES - SAMPLES // 3])
    lost = sorted(set(range(SAMPLES)) - {index for part in parts for index in part.indices})
    require(not lost, f"samples {lost[:5]} are in no part of a split")
    orders = []
    for epoch in range(2):
        ranked.set_epoch(epoch)
        orders.append(list(ranked))
    require(orders[0] != orders[1], f"epochs of ranks are shuffled alike: {orders[0][:6]} and again")
    chosen = list(WeightedRandomSampler([1.0, 0.0, 3.0], _CHOSEN, generator=torch.Generator().manual_seed(5)))
    share, never = chosen.count(2) / _CHOSEN, not chosen.count(1)
    text = f"a sampler with weights 1, 0 and 3 chose the last {share:.1%} of the time"
    require(abs(share - 0.75) < 0.03 and never, text)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda tensor: tensor,
    "transposed": lambda tensor: tensor.t(),
    "every second": lambda tensor: tensor[:, ::2],
    "expanded": lambda tensor: tensor[:1].expand(7, -1),
    "empty": lambda tensor: tensor[:0],
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


def pattern(seed: int, dtype: torch.dtype, rows: int = 257, columns: int = 129) -> torch.Tensor:
    """Return numbers that every dtype here holds exactly, odd in size so that no copy is a whole number of lines."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2 if dtype is torch.bool else 128, (rows, columns), generator=generator).to(dtype)


def copies(device: Device, prepare: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor) -> int:
    """Send and fetch without waiting, in every dtype and layout; what comes back is what was sent. Returns how many."""
    rows = [(number, dtype, layout) for number, dtype in enumerate(DTYPES) for layout in LAYOUTS]
    meant = {f"{layout} {dtype}": LAYOUTS[layout](pattern(number, dtype)) for number, dtype, layout in rows}
    # torch pins no expanded tensor, but a view of a pinned one is.
    sent = {f"{layout} {dtype}": LAYOUTS[layout](prepare(pattern(number, dtype))) for number, dtype, layout in rows}
    there = {name: tensor.to(device.torch, non_blocking=True, copy=True) for name, tensor in sent.items()}
    back = {name: torch.empty_like(sent[name]).copy_(tensor, non_blocking=True) for name, tensor in there.items()}
    device.synchronize()
    for name, tensor in meant.items():
        require(there[name].device.type == device.torch.type, f"{name}: arrived on {there[name].device}")
        wrong = int((back[name] != tensor).sum())
        require(wrong == 0, f"{name}: {wrong} of {tensor.numel()} numbers changed on their way to {device} and back")
    return len(sent)


def overlap(device: Device, prepare: Callable[[torch.Tensor], torch.Tensor], buffers: int = 8) -> int:
    """Compute on each buffer right after its copy was queued: no sum may see a copy that is still on its way."""
    sent = [prepare(pattern(number, torch.float32, 1024, 1024)) for number in range(buffers)]
    sums = [tensor.to(device.torch, non_blocking=True, copy=True).to(torch.int64).sum() for tensor in sent]
    device.synchronize()
    exact = [int(tensor.to(torch.int64).sum()) for tensor in sent]
    wrong = [number for number, (result, sum_) in enumerate(zip(sums, exact, strict=True)) if int(result) != sum_]
    require(not wrong, f"sums over buffers {wrong} were taken before their copies had arrived on {device}")
    return buffers
