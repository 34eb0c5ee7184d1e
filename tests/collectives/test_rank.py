"""The rank's program: outcomes row by row, refusals, agreement of ranks, and the end of a row that hangs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from stackproof.collectives import rank as collectives
from stackproof.collectives.calls import Case
from stackproof.collectives.table import applicable, lacking, rows
from stackproof.ranks.rank import Board, Rank

ROWS = [row for row in rows() if row.dtype in ("float32", "none") and row.form != "scalar" and applicable(row, 1)]
ARGUMENTS = {"rows": [], "counts": [-1, 0, 3, 33]}


def asking(rank: Rank, *names: str) -> Rank:
    return replace(rank, arguments={**rank.arguments, "outcomes": str(rank.folder), "rows": list(names)})


def left(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "rank0.outcomes").read_text().splitlines()
    return {row["row"]: row for row in map(json.loads, lines)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*_coalesced` will be deprecated:FutureWarning")
def test_every_row_leaves_an_outcome(alone: Rank, tmp_path: Path) -> None:
    collectives.check(asking(alone, *(row.name for row in ROWS)))
    found = left(tmp_path)
    assert found.pop("") == {"row": "", "backend": "gloo", "implementation": "ProcessGroupGloo"}
    assert list(found) == [row.name for row in ROWS]
    for row in ROWS:
        outcome, offered = found[row.name], lacking(row, "gloo", "cpu") is None
        assert outcome["right"] + outcome["refused"] + outcome["wrong"] > 0
        assert offered or outcome["refused"], outcome
        assert not (offered and outcome["refusal"]), outcome
    assert (tmp_path / "rank0.phases").read_text().splitlines() == [row.name for row in ROWS]


def test_a_wrong_result_and_its_case_are_left(alone: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = dist.all_reduce

    def wrong(tensor: Any, *arguments: Any) -> Any:
        work = original(tensor, *arguments)
        tensor[...] = tensor + (tensor.numel() == 33)
        return work

    monkeypatch.setattr(dist, "all_reduce", wrong)
    collectives.check(asking(alone, "all_reduce-sum-float32"))
    outcome = left(tmp_path)["all_reduce-sum-float32"]
    assert (outcome["right"], outcome["wrong"]) == (3, 1)
    assert (outcome["fault"]["case"]["count"], outcome["fault"]["wrong"]) == (33, 33)


def test_a_refusal_is_left_in_one_line(alone: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise RuntimeError("not with me\nException raised from somewhere.cpp")

    monkeypatch.setattr(dist, "broadcast", refuse)
    collectives.check(asking(alone, "broadcast-copy-int64"))
    outcome = left(tmp_path)["broadcast-copy-int64"]
    assert (outcome["refused"], outcome["right"]) == (4, 0)
    assert outcome["refusal"]["message"] == "RuntimeError: not with me"
    assert outcome["refusal"]["case"]["count"] == -1


def test_a_refused_coalescing_leaves_nothing_open(alone: Rank, tmp_path: Path) -> None:
    collectives.check(asking(alone, "coalescing_all_reduce-sum-float32", "all_reduce-prod-float32"))
    found = left(tmp_path)
    assert found["coalescing_all_reduce-sum-float32"]["refused"] == 3
    assert found["all_reduce-prod-float32"]["right"] == 4 and dist.distributed_c10d._world.pg_coalesce_state == {}


def test_a_refused_batch_ends_the_block_that_the_backend_had_opened(
    alone: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    monkeypatch.setattr(dist.ProcessGroup, "_end_coalescing", lambda _, device: ends.append(str(device)))
    state, group = dist.distributed_c10d._world.pg_coalesce_state, dist.group.WORLD
    assert group is not None

    def refuse(operations: Any) -> None:
        state[group] = []
        raise ValueError("Tensors for P2P must be non-overlapping and dense")

    monkeypatch.setattr(dist, "batch_isend_irecv", refuse)
    case = Case("batch_isend_irecv", "copy", "float32", 3, 0, (0,), 0)
    with pytest.raises(ValueError, match="non-overlapping"):
        collectives.compared(alone, case, None)
    assert (ends, dict(state)) == (["cpu"], {})


def test_a_group_that_cannot_be_made_is_a_refusal_of_its_rows(
    alone: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise AttributeError("no attribute 'perform_nocolor_split'")

    monkeypatch.setattr(dist, "new_group", refuse)
    collectives.check(asking(alone, "batch_isend_irecv-copy-float32", "all_reduce-prod-float32"))
    found = left(tmp_path)
    assert "perform_nocolor_split" in found["batch_isend_irecv-copy-float32"]["refusal"]["message"]
    assert found["all_reduce-prod-float32"]["right"] == 4


def test_ranks_begin_a_row_together(alone: Rank) -> None:
    assert Board("all_reduce-sum-float32").gather(replace(alone, world_size=2), "done", 0.1) == []
    assert Board("all_reduce-sum-float32").gather(alone, "done", 0.1) == ["done"]


def test_ordinary_numbers_leave_the_worst_error_and_the_bits_of_all_cases(alone: Rank, tmp_path: Path) -> None:
    collectives.check(asking(alone, "all_reduce-real_prod-float32"))
    outcome = left(tmp_path)["all_reduce-real_prod-float32"]
    assert (outcome["right"], len(outcome["digest"])) == (2, 128) and outcome["error"] <= outcome["bound"]
