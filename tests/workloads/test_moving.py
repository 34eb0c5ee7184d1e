"""Copies: every byte arrives, and bytes count as many times as they move."""

from __future__ import annotations

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.moving import Copy

from .working import setting


@pytest.mark.parametrize(("source", "passes"), [("device", 2), ("host", 1)])
def test_bytes_count_as_they_move(source: str, passes: int) -> None:
    work = Copy(setting(mib=1, source=source, target="device"))
    assert work.worth == {"GB": passes * (1 << 20) / 1e9}
    assert work.prove() == "1048576 bytes arrived unchanged"
    assert work.conclude() == {"memory": "device" if passes == 2 else "link"}


def test_a_copy_that_does_nothing_is_caught() -> None:
    work = Copy(setting(mib=1, source="device", target="device"))
    work.run = lambda: work.targets[0]  # type: ignore[method-assign]
    with pytest.raises(CheckFailed, match="a copy of 1048576 bytes changed some of them"):
        work.prove()


def test_a_copy_that_moves_a_block_is_caught() -> None:
    work = Copy(setting(mib=1, source="device", target="device"))

    def swapped() -> torch.Tensor:
        target = work.targets[0]
        target.copy_(work.sources[1])
        first = target[:4096].clone()
        target[:4096] = target[4096:8192]
        target[4096:8192] = first
        return target

    work.run = swapped  # type: ignore[method-assign]
    with pytest.raises(CheckFailed):
        work.prove()
