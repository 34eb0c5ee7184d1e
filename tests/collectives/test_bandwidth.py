"""Bandwidth: sizes and factors of nccl-tests, and buffers whose result is known after any number of calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives import bandwidth
from stackproof.collectives.bandwidth import TRANSFERS, Share, most_calls, per_gb, sizes, words
from stackproof.collectives.table import rows
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank
from stackproof.workloads.collectives import bus_factor

CPU = torch.device("cpu")


def test_sizes_go_up_by_four() -> None:
    assert [words(size) for size in sizes("tiny")] == [
        "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"
    ]  # fmt: skip
    assert [words(size) for size in sizes("full")][6:] == ["16 MiB", "64 MiB", "256 MiB"]


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: bus_factor(name, 8) for name in TRANSFERS}
    assert factors == {
        "all_reduce": 1.75, "all_gather": 0.875, "reduce_scatter": 0.875, "all_to_all": 0.875, "broadcast": 1, "send_recv": 1
    }  # fmt: skip


def test_seconds_per_gb() -> None:
    assert per_gb([0.01], 20_000_000) == [pytest.approx(0.5)]
    assert per_gb([0.01], 20_000_000, 2.0) == [pytest.approx(0.25)]


def test_every_transfer_builds_on_a_check_that_exists() -> None:
    names = {row.name for row in rows()}
    assert {f"{transfer.row}-float32" for transfer in TRANSFERS.values()} <= names


@pytest.mark.parametrize("world", range(1, 17))
def test_repeated_sums_in_place_stay_exact(world: int) -> None:
    ranks = [torch.arange(-8.0, 9.0).roll(rank) for rank in range(world)]
    total, calls = torch.stack(ranks).sum(0), most_calls(world)
    exact = [Fraction(value) * Fraction(world) ** (calls - 1) for value in total.tolist()]
    for _ in range(calls - 1):
        total = sum(total.clone() for _ in range(world))  # type: ignore[assignment]
    assert [Fraction(value) for value in total.tolist()] == exact and 1 <= calls <= 50


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_buffers_agree_with_the_definition(world: int) -> None:
    shares = [Share(rank, world, 6, CPU) for rank in range(world)]
    given = {name: [transfer.buffers(share) for share in shares] for name, transfer in TRANSFERS.items()}
    for rank in range(world):
        parts = [list(one.source.split(6)) for one in given["all_to_all"]]
        expected = {
            "all_reduce": torch.stack([one.source for one in given["all_reduce"]]).sum(0),
            "broadcast": given["broadcast"][0].source,
            "all_gather": torch.cat([one.source for one in given["all_gather"]]),
            "reduce_scatter": torch.stack([one.source for one in given["reduce_scatter"]]).sum(0)[
                6 * rank : 6 * rank + 6
            ],
            "all_to_all": torch.cat([of[rank] for of in parts]),
            "send_recv": given["send_recv"][rank - 1].source,
        }
        for name, exact in expected.items():
            assert torch.equal(given[name][rank].expected, exact), (name, rank)


def test_long_buffers_repeat_and_are_filled_anew() -> None:
    buffers = TRANSFERS["all_gather"].buffers(Share(0, 2, 200_000, CPU))
    buffers.fill()
    assert buffers.wrong(1.0) == buffers.out.numel() == 400_000
    buffers.out.copy_(buffers.expected)
    assert buffers.wrong(1.0) == 0 and torch.equal(buffers.mine, buffers.source)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Rank]:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    names = [name for name in TRANSFERS if name != "send_recv"]
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, {"transfers": names, "sizes": [4096, 16384]}, tmp_path)
    dist.destroy_process_group()


def test_every_size_is_timed_in_spans(alone: Rank) -> None:
    found = bandwidth.measure(alone)["transfers"]
    for name in alone.arguments["transfers"]:
        assert [row["bytes"] for row in found[name]] == [4096, 16384]
        for row in found[name]:
            assert row["wrong"] == 0 and 5 <= len(row["seconds"]) <= 15 and min(row["seconds"]) > 0


@pytest.mark.parametrize("broken", ["all_reduce", "all_gather_into_tensor"])
def test_a_wrong_result_under_the_clock_is_counted(broken: str, alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = getattr(dist, broken), [0]

    def wrong(*tensors: torch.Tensor) -> Any:
        calls[0] += 1
        work = original(*tensors)
        if calls[0] > 10:
            tensors[0][-1] += 1
        return work

    monkeypatch.setattr(dist, broken, wrong)
    name = {"all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather"}[broken]
    assert max(row["wrong"] for row in bandwidth.measure(alone)["transfers"][name]) == 1


def test_a_refused_transfer_leaves_the_others_alone(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("isn't implementd on backend [cpu]")

    monkeypatch.setattr(dist, "broadcast", refuse)
    rank = replace(alone, arguments={"transfers": ["broadcast", "all_reduce"], "sizes": [4096]})
    found = bandwidth.measure(rank)["transfers"]
    assert found["broadcast"] == [{"refused": "RuntimeError: isn't implementd on backend [cpu]"}]
    assert found["all_reduce"][0]["wrong"] == 0
