"""What a rank reports of its group, and that a wrong sum is not reported."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stackproof.ranks import joined
from stackproof.ranks.blame import Traces
from stackproof.ranks.launchers import Placement
from stackproof.ranks.preflight import PreflightRefusal
from stackproof.ranks.rank import Rank
from stackproof.stack import stacks


def test_a_rank_says_who_it_is_and_what_its_groups_cost(alone: Rank) -> None:
    said = joined.report(alone)
    assert {
        "rank": 0,
        "world_size": 1,
        "backend": "gloo",
        "device": "cpu",
        "bus id": "",
        "formed_s": 0.5,
    }.items() <= said.items()
    assert said["split_s"] > 0
    phases = (alone.folder / "rank0.phases").read_text().splitlines()
    assert phases.index("splitting the group") == 2


@pytest.mark.parametrize("second", [False, True])
def test_a_sum_that_is_wrong_is_no_group(alone: Rank, monkeypatch: pytest.MonkeyPatch, second: bool) -> None:
    def wrong(tensor: Any, group: Any = None) -> None:
        if (group is not None) is second:
            tensor[5] += 1

    monkeypatch.setattr(dist, "all_reduce", wrong)
    with pytest.raises(RuntimeError, match="an all-reduce of known whole numbers is wrong"):
        joined.report(alone)


def test_a_rank_that_was_started_and_did_not_come_is_said_to_be_there(tmp_path: Path) -> None:
    traces = Traces(tmp_path, 2)
    assert "it was not started" in joined._absent(1, traces)
    (tmp_path / "rank1.alive").write_text("{}")
    assert "it was started, and" in joined._absent(1, traces)
    (tmp_path / "rank1.phases").write_text("importing\n")
    assert joined._absent(1, traces).endswith("it came no further than 'importing'")


def test_a_rank_proves_collectives_and_training(alone: Rank) -> None:
    said = joined.prove(alone)
    assert ["all-gather", "broadcast", "barrier", "DDP's mean"] == said["collectives"]
    assert len(said["training"]["losses"]) == 20
    assert said["training"]["losses"][-1] < 0.9 * said["training"]["losses"][0]


@pytest.mark.parametrize(("name", "collective"), [("all-gather", "all_gather"), ("broadcast", "broadcast")])
def test_a_collective_that_moves_wrong_data_is_not_exact(
    alone: Rank, monkeypatch: pytest.MonkeyPatch, name: str, collective: str
) -> None:
    def wrong(*arguments: Any, **keywords: Any) -> None:
        target = arguments[0][0] if isinstance(arguments[0], list) else arguments[0]
        target.zero_()

    monkeypatch.setattr(dist, collective, wrong)
    with pytest.raises(RuntimeError, match=f"{name} of known whole numbers is wrong"):
        joined.prove(alone)


def test_gradients_that_lack_a_rank_are_not_exact(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(DistributedDataParallel):
        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__(module)
            for parameter in module.parameters():
                parameter.register_hook(torch.zeros_like)

    monkeypatch.setattr(joined, "DistributedDataParallel", Lost)
    with pytest.raises(RuntimeError, match="DDP's mean of known whole numbers is wrong"):
        joined.prove(alone)


@pytest.mark.parametrize(
    ("what", "theirs"),
    [
        ("torch", "2.9.0"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("--program", "other:main"),
        ("--deadline", "6 s"),
        ("a program of the file", "0123"),
        ("stackproof", "another checkout"),
    ],
)
def test_ranks_that_were_started_otherwise_form_no_group(what: str, theirs: str) -> None:
    spec: Any = SimpleNamespace(folder="", remaining_s=9.0, deadline_s=30.0, program="json:dumps")
    terms = {name: theirs if what in name else mine for name, mine in joined._terms(spec).items()}
    assert list(terms.values()) != list(joined._terms(spec).values())
    sites = {f"site/{rank}": json.dumps({"world_size": 2, "terms": terms}) for rank in (0, 1)}
    store: Any = SimpleNamespace(get=sites.__getitem__, check=lambda keys: keys[0] in sites)
    refused = joined._decide(store, spec, Placement("plain", 0, 2, 0, 2), stacks.load("cpu")).refused
    assert (
        f"{what} " in refused
        and f" {theirs}, and rank 0 " in refused
        and "all ranks of a group need the same" in refused
    )


def test_a_number_that_two_processes_have_is_named_by_rank_0(tmp_path: Path) -> None:
    notes = {"twice": b"2"}
    store: Any = SimpleNamespace(get=notes.__getitem__, check=lambda keys: keys[0] in notes)
    spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=60.0, deadline_s=30.0, program="json:dumps")
    refused = joined._decide(store, spec, Placement("plain", 0, 3, 0, 3), stacks.load("cpu")).refused
    assert refused.startswith("two processes claim to be rank 2 of 3, and rank 0 did not come: give each process")


@pytest.mark.parametrize("address", ["tcp://nosuch.invalid:1234", "env://"])
def test_a_name_that_this_host_does_not_know_is_refused_at_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "nosuch.invalid")
    spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=2.0, address=address)
    for rank in (0, 1):
        with pytest.raises(PreflightRefusal, match="nosuch.invalid.* this host knows no such name .*can look up"):
            joined.meet(spec, Placement("plain", rank, 2, rank, 2))


def test_a_port_that_is_taken_is_no_hang_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank1.alive").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=4.0, address="env://")
        with pytest.raises(PreflightRefusal, match="the port is taken by another program"):
            joined.meet(spec, Placement("plain", 0, 2, 0, 2))


def test_a_second_attempt_of_torchrun_meets_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store outlives the ranks of the first, who had all said that they are here."""
    spec: Any = SimpleNamespace(folder=tmp_path, remaining_s=20.0, address=f"file://{tmp_path}/store")
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        assert joined.meet(spec, Placement("torchrun", 0, 1, 0, 1)).add("here/0", 1) == 1


def test_variables_that_ranks_do_not_have_alike_are_named() -> None:
    common = {"GLOO_LOG_LEVEL": "info", "LOCAL_RANK": "0"}
    environs = [common, {**common, "NCCL_ALGO": "Ring", "LOCAL_RANK": "1"}, common]
    assert joined._unlike(environs) == "NCCL_ALGO is not set on rank 0 and rank 2 and Ring on rank 1"
    assert joined._unlike([common] * 3) == ""
