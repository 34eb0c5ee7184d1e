"""A card's clocks are read while it works; throttling is told by masks and counters; an absent tool is a fact."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.device import telemetry
from stackproof.device.kinds import Host
from stackproof.device.telemetry import Query, Telemetry, physical_index
from stackproof.record.records import Figure
from stackproof.stack.stacks import Stack

from ..bench.tools_data import NVIDIA_STATE


class Card(Host):
    """A test double: a host that calls itself a CUDA card. Not an accelerator."""

    def driver(self) -> dict[str, str]:
        """Only what tools need."""
        return {"properties.uuid": "be28f04d"}


CARD = Card("cuda", 0)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in nvidia-smi on an otherwise empty PATH: counters go up by two seconds of power cap at each question."""
    path = tmp_path / "nvidia-smi"
    path.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
case "$*" in
  *counters*) n=$(/bin/cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n + 2000000)); echo $n > {tmp_path}/n; echo "$n, 0, 0, 0";;
  *query-gpu*) /bin/sleep 0.2; echo "{NVIDIA_STATE.strip()}";;
esac
""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def test_the_card_works_while_it_is_read(tool: Path, cpu: Stack) -> None:
    done = 0

    def work() -> None:
        nonlocal done
        done += 1

    found = Telemetry(CARD, cpu)
    found.read(work)
    assert done > 10
    found.read(work)
    facts = found.facts()
    assert (facts["telemetry"], facts["sm_mhz at the start"], facts["celsius at the end"]) == (
        "nvidia-smi",
        1980.0,
        43.0,
    )


def test_the_tool_is_asked_about_the_right_card(tool: Path, cpu: Stack) -> None:
    Telemetry(CARD, cpu).read(lambda: None)
    assert "--id=GPU-be28f04d" in (tool.parent / "asked").read_text(encoding="utf-8")


def test_throttling_is_told_once_by_each_reason(tool: Path, cpu: Stack) -> None:
    found = Telemetry(CARD, cpu)
    found.read(lambda: None)
    found.read(lambda: None)
    assert found.throttled() == ("software power cap",)
    assert found.slowed() == {"software power cap": pytest.approx(2.0)}
    assert found.facts()["slowed_s software power cap"] == pytest.approx(2.0)


def test_an_idle_mask_is_no_throttling(tool: Path, cpu: Stack) -> None:
    found = Telemetry(CARD, cpu)
    found.readings = [{"throttle_mask": 0x1 | 0x2 | 0x10 | 0x100}]
    assert found.throttled() == ()


def test_an_absent_tool_is_recorded(cpu: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Telemetry(CARD, cpu)
    found.read(lambda: pytest.fail("there is nothing to wait for"))
    assert found.facts() == {"telemetry": "absent: no tool for 'cuda' is on the PATH"}
    assert found.throttled() == ()


@pytest.mark.parametrize("script", ["exit 9", "echo nonsense", "kill -9 $$"])
def test_a_tool_that_fails_gives_no_figure(tool: Path, cpu: Stack, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    found = Telemetry(CARD, cpu)
    found.read(lambda: None)
    assert found.facts() == {"telemetry": "nvidia-smi gave no figure"}


def test_a_tool_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "DEADLINE_S", 0.3)
    assert telemetry.answer(Query(("sleep", "60"), "csv"), "", lambda: None) is None


@pytest.mark.parametrize(("shown", "index", "expected"), [("2,5", 1, 5), ("", 1, 1), ("0.1", 0, 0), ("3", 1, 1)])
def test_visibility_is_undone(
    cpu: Stack, monkeypatch: pytest.MonkeyPatch, shown: str, index: int, expected: int
) -> None:
    monkeypatch.setitem(os.environ, "OWN_VISIBLE", shown)
    assert physical_index(index, replace(cpu, visibility="OWN_VISIBLE")) == expected


def test_a_long_answer_is_not_waited_for() -> None:
    query = Query(("head", "-c", "300000", "/dev/zero"), "regex", pattern="(?P<mhz>[1-9])")
    said = telemetry.answer(query, "", lambda: None)
    assert said is not None
    assert len(said) == 300_000


def test_this_host_tells_its_clock(cpu: Stack) -> None:
    found = Telemetry(Host("cpu", 0), cpu)
    found.read(lambda: None)
    facts = found.facts()
    assert facts["telemetry"] in ("/proc/cpuinfo", "/proc/cpuinfo gave no figure")


class Meter:
    """A counter of energy that grows by two joules a run, and whose tool reads it in the middle of the time that it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, silent: bool = False) -> None:
        self.used, self.silent = 0.0, silent
        monkeypatch.setattr(telemetry, "ask", self.ask)

    def run(self) -> None:
        """Use two joules."""
        self.used += 2.0

    def ask(self, query: Query, card: str, work: Callable[[], object]) -> dict[str, Figure]:
        """Let the card work, read, and let it work on until the tool has ended."""
        for _ in range(3):
            work()
        read = 1e3 * self.used
        for _ in range(4):
            work()
        return {} if self.silent else {"millijoules": read}


def test_the_energy_of_a_run_is_free_of_the_tool_s_own_time(
    tool: Path, cpu: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(monkeypatch)
    assert Telemetry(CARD, cpu).joules(meter.run, 0.01) == pytest.approx(2.0)


def test_a_tool_that_counts_no_energy_gives_none(tool: Path, cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Telemetry(CARD, cpu).joules(Meter(monkeypatch, silent=True).run, 0.01) == 0.0
    found, meter = Telemetry(CARD, cpu), Meter(monkeypatch)
    assert found.tool is not None
    found.tool = replace(found.tool, energy=None)
    assert found.joules(meter.run, 0.01) == 0.0 and meter.used == 0.0
