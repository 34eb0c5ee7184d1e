"""Several cases in one launch: what all ranks refuse is a result, what one rank raises ends the launch at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from stackproof.ddp import course
from stackproof.device.kinds import Host
from stackproof.ranks.rank import Rank


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A group of one rank over gloo, in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.1, {}, tmp_path)
    dist.destroy_process_group()


def fine(rank: Rank) -> dict[str, Any]:
    """Answer."""
    return {"answer": 42}


def broken(rank: Rank) -> dict[str, Any]:
    """Refuse, as torch does what a backend lacks."""
    raise NotImplementedError("not for this device\nand more lines")


def test_what_every_rank_refuses_does_not_end_the_others(alone: Rank) -> None:
    results = course.conduct(alone, {"first": fine, "second": broken, "third": fine})
    assert {"error": "NotImplementedError: not for this device"} == results["second"]
    assert {"answer": 42} == results["first"] == results["third"]
    assert ["first", "second", "third"] == (alone.folder / "rank0.phases").read_text().split()


def test_what_one_rank_raises_ends_the_launch(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    together = Rank(0, 2, alone.device, "gloo", 0.1, {}, alone.folder)
    monkeypatch.setattr(course, "_PATIENCE", course.timedelta(seconds=0.2))
    with pytest.raises(NotImplementedError):
        course.conduct(together, {"waits": broken})
    course._store().set("stackproof/done/1", "done")
    with pytest.raises(NotImplementedError):
        course.conduct(together, {"done": broken})
    course._store().set("stackproof/too/1", "raised")
    assert "error" in course.conduct(together, {"too": broken})["too"]


def test_tensors_are_kept_wide(alone: Rank) -> None:
    course.keep(alone, "case", {"weight": torch.ones(3, dtype=torch.bfloat16)})
    kept = torch.load(alone.folder / "case.rank0.pt", weights_only=True)
    assert torch.equal(torch.ones(3, dtype=torch.float64), kept["weight"])
