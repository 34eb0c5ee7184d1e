"""The launcher. Who failed, crashed or hung is named: suites/failures has a row for each, with nothing left."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stackproof.device.kinds import Accelerator, Host
from stackproof.ranks.launch import Arrangement, arrange, launch
from stackproof.ranks.preflight import PreflightRefusal
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.stack import stacks

TWO = Arrangement("gloo", (0, 0))


def run(program: str, folder: Path, within_s: float = 0.0) -> list[dict[str, object]]:
    name = f"tests.ranks.rank_programs:{program}"
    return launch(name, stacks.load("cpu"), TWO, {"answer": 42}, folder, 180.0, within_s=within_s)


def test_every_rank_answers_in_order(tmp_path: Path) -> None:
    results = run("report", tmp_path)
    assert all(str(result.pop("not numbers")) == "[nan, -inf]" for result in results)
    assert [
        {"rank": rank, "world_size": 2, "device": "cpu", "backend": "gloo", "answer": 42} for rank in (0, 1)
    ] == results
    for rank in (0, 1):
        assert f"rank {rank} was here" in (tmp_path / f"rank{rank}.log").read_text()


@pytest.mark.slow
def test_a_rank_that_answered_is_not_blamed_for_its_shutdown(tmp_path: Path) -> None:
    assert len(run("abort_at_exit", tmp_path)) == 2
    for rank in (0, 1):
        assert f"rank {rank} was here" in (tmp_path / f"rank{rank}.log").read_text()


@pytest.mark.slow
def test_a_program_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="no_such_program"):
        run("no_such_program", tmp_path)


@pytest.mark.slow
def test_ranks_get_variables_and_a_log_of_their_own_and_no_port_is_taken_by_luck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("localhost", 0)) as taken:
        monkeypatch.setenv("MASTER_ADDR", "localhost")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        environment = {"A_LOG": "{file}", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        program = "tests.ranks.rank_programs:variables"
        arguments = {"names": list(environment)}
        found = launch(program, stacks.load("cpu"), TWO, arguments, tmp_path, 180.0, environment=environment)
    logs = [str(tmp_path / f"library.rank{rank}.log") for rank in (0, 1)]
    assert [{"A_LOG": log, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"} for log in logs] == found


@pytest.mark.slow
def test_a_group_that_cannot_work_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    with pytest.raises(PreflightRefusal, match="GLOO_SOCKET_IFNAME='nosuch0' names nosuch0"):
        run("report", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    program = "tests.ranks.rank_programs:report"
    with pytest.raises(CheckFailed, match="GLOO_SOCKET_IFNAME names no interface of this host"):
        launch(program, stacks.load("cpu"), TWO, {}, tmp_path, 180.0, checked=False)


def test_ranks_get_cards_of_their_own() -> None:
    stack = stacks.load("xpu")
    assert Arrangement("ccl", (0, 1)) == arrange(
        stack, [Accelerator("xpu", 0), Accelerator("xpu", 1), Accelerator("xpu", 2)], 2
    )


def test_too_few_cards_are_shared_over_another_backend_and_labelled() -> None:
    arrangement = arrange(stacks.load("cuda"), [Accelerator("cuda", 0)], 2)
    assert ("gloo", (0, 0)) == (arrangement.backend, arrangement.cards)
    assert "nccl is not verified at this world size" in arrangement.note


def test_a_stack_whose_cards_cannot_be_shared_lacks_the_capability() -> None:
    with pytest.raises(CapabilityMissing, match=r"stacks/xpu/stack.toml: shared_card_backend is empty"):
        arrange(stacks.load("xpu"), [Accelerator("xpu", 0)], 2)


def test_ranks_share_a_cpu() -> None:
    assert Arrangement("gloo", (0, 0)) == arrange(stacks.load("cpu"), [Host("cpu", 0)], 2)
