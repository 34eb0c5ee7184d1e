"""What is asked of deliveries and copies, by making each wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from stackproof.device.devices import HOST
from stackproof.probes import transfer
from stackproof.record.checks import CheckFailed

WHOLE = list(range(transfer.SAMPLES))
RIGHT = transfer.Delivery(WHOLE, [0, 1] * 16, [5, 6] * 16, [[n / 64] * 3 for n in WHOLE], [])


def test_a_right_delivery_passes() -> None:
    transfer.complete(RIGHT, WHOLE)
    transfer.seeds_differ(RIGHT)


@pytest.mark.parametrize(
    ("delivery", "words"),
    [
        (replace(RIGHT, broken=[3]), r"samples \[3\] arrived with other contents"),
        (replace(RIGHT, order=[0, 0, *WHOLE[2:]]), r"samples \[1\] never arrived"),
        (replace(RIGHT, order=[*WHOLE, 0]), "33 samples arrived, 32 were expected"),
        (replace(RIGHT, order=WHOLE[::-1]), "workers change the order"),
    ],
    ids=["broken", "lost", "twice", "other order"],
)
def test_a_wrong_delivery_is_caught(delivery: transfer.Delivery, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        transfer.complete(delivery, WHOLE)


@pytest.mark.parametrize(
    ("delivery", "words"),
    [
        (replace(RIGHT, workers=[0] * 32), r"workers \[0\] delivered, 2 were asked for"),
        (replace(RIGHT, seeds=[5] * 32), "workers share seeds"),
        (replace(RIGHT, drawn=[[n, n % 2, n] for n in WHOLE]), "workers drew the same random numbers from numpy"),
    ],
    ids=["one worker", "one seed", "the same draws"],
)
def test_workers_that_are_alike_are_caught(delivery: transfer.Delivery, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        transfer.seeds_differ(delivery)


def test_one_process_delivers_what_it_should() -> None:
    first, second, other = (transfer.deliver(iter(transfer.loader(0, seed=seed))) for seed in (5, 5, 6))
    transfer.complete(second, first.order)
    assert sorted(other.order) == WHOLE != other.order != first.order


def test_only_whole_tensors_are_pinned() -> None:
    def pin(tensor: torch.Tensor) -> torch.Tensor:
        assert tensor.is_contiguous()
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        return tensor.clone()

    assert transfer.copies(HOST, pin) == len(transfer.LAYOUTS) * len(transfer.DTYPES)


def test_a_copy_that_is_used_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transfer.overlap(HOST, lambda tensor: tensor, buffers=2) == 2
    to = torch.Tensor.to
    late = lambda self, *where, **how: to(self, *where, **how) * (0 if "non_blocking" in how else 1)  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "to", late)
    with pytest.raises(CheckFailed, match=r"sums over buffers \[0, 1\] were taken before"):
        transfer.overlap(HOST, lambda tensor: tensor, buffers=2)


def test_a_sampler_that_keeps_its_order_and_parts_that_share_samples_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    transfer.shuffles()
    with monkeypatch.context() as patch, pytest.raises(CheckFailed, match="in no part of a split"):
        patch.setattr(transfer, "random_split", lambda data, _: [torch.utils.data.Subset(data, range(9))] * 2)
        transfer.shuffles()
    order = torch.utils.data.RandomSampler.__iter__
    orders: dict[object, list[int]] = {}
    monkeypatch.setattr(
        torch.utils.data.RandomSampler,
        "__iter__",
        lambda self: iter(orders.setdefault(self, list(order(self))) if self.generator else order(self)),
    )
    with pytest.raises(CheckFailed, match="shuffled alike"):
        transfer.shuffles()
