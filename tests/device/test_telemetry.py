"""A card's clocks are read while it works; throttling is told by masks and counters; an absent tool is a fact."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.device import telemetry
from stackproof.device.kinds import Host
from stackproof.device.telemetry import (
    Query,
    Telemetry,
    TelemetryTool,
    family,
    others_on_card,
    physical_index,
    require_alone,
)
from stackproof.record.checks import CheckInconclusive
from stackproof.stack.stacks import Stack

from ..bench.tools_data import HYGON_STATE, NVIDIA_PROCESSES, NVIDIA_STATE, XPU_PROCESSES, XPU_STATE


class Card(Host):
    """A test double: a host that calls itself a CUDA card. Not an accelerator."""

    def driver(self) -> dict[str, str]:
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
    assert telemetry.answers([Query(("sleep", "60"), "csv")], "", lambda: None) == [None]


@pytest.mark.parametrize(("shown", "index", "expected"), [("2,5", 1, 5), ("", 1, 1), ("0.1", 0, 0), ("3", 1, 1)])
def test_visibility_is_undone(
    cpu: Stack, monkeypatch: pytest.MonkeyPatch, shown: str, index: int, expected: int
) -> None:
    monkeypatch.setitem(os.environ, "OWN_VISIBLE", shown)
    assert physical_index(index, replace(cpu, visibility="OWN_VISIBLE")) == expected


def test_a_long_answer_is_not_waited_for() -> None:
    query = Query(("head", "-c", "300000", "/dev/zero"), "regex", pattern="(?P<mhz>[1-9])")
    (said,) = telemetry.answers([query], "", lambda: None)
    assert said is not None
    assert len(said) == 300_000


def test_this_host_tells_its_clock(cpu: Stack) -> None:
    found = Telemetry(Host("cpu", 0), cpu)
    found.read(lambda: None)
    facts = found.facts()
    assert facts["telemetry"] in ("/proc/cpuinfo", "/proc/cpuinfo gave no figure")


SPIN = "import time; began = time.time()\nwhile time.time() < began + 30: pass"
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def listing(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    monkeypatch.setattr(telemetry, "tool_for", lambda _: telemetry.tools()[0])
    monkeypatch.setattr(telemetry, "answers", lambda *_: ["".join(f"{pid}, somebody\n" for pid in pids)])


def test_our_own_processes_are_no_neighbours(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(SLEEP)
    try:
        listing(monkeypatch, os.getpid(), os.getppid(), child.pid)
        assert {os.getpid(), os.getppid(), child.pid} <= family()
        assert others_on_card(CARD, cpu) == ()
    finally:
        child.kill()
        child.wait()


def test_processes_of_this_run_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = processes.new_mark()
    monkeypatch.setenv(processes.MARK, mark)
    rank = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        assert rank.pid in family()
    finally:
        rank.kill()
        rank.wait()


def test_a_stranger_is_named_and_ends_the_measurement(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, os.getpid(), 1)
    assert others_on_card(CARD, cpu) == ("somebody (1)",)
    with pytest.raises(CheckInconclusive, match=r"1 other process\(es\) on cuda: somebody \(1\); end them"):
        require_alone(CARD, cpu, allowed=False)
    assert require_alone(CARD, cpu, allowed=True) == ("1 other process(es) on cuda: somebody (1)",)


def test_ids_of_another_namespace_say_nothing(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, 99_999_999)
    assert others_on_card(CARD, cpu) is None
    assert require_alone(CARD, cpu, allowed=False) == ()


def test_a_process_that_has_ended_since_counts_beside_our_own(cpu: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, os.getpid(), 99_999_999)
    assert others_on_card(CARD, cpu) == ("somebody (99999999)",)


def vendor(name: str) -> TelemetryTool:
    return next(one for one in telemetry.tools() if one.name == name)


def test_every_vendor_has_a_tool() -> None:
    assert {one.name: one.device for one in telemetry.tools()} == {
        "nvidia-smi": "cuda", "hy-smi": "cuda", "xpu-smi": "xpu", "/proc/cpuinfo": "cpu", "torch_sim.tool": "sim",
    }  # fmt: skip


def test_reads_nvidia() -> None:
    assert vendor("nvidia-smi").state.facts(NVIDIA_STATE, "GPU-1") == {
        "sm_mhz": 1980.0, "memory_mhz": 3201.0, "celsius": 43.0, "watts": 512.3, "watts_allowed": 700.0,
        "utilisation_percent": 100.0, "throttle_mask": 4,
    }  # fmt: skip


def test_reads_hygon() -> None:
    assert vendor("hy-smi").state.facts(HYGON_STATE, "0") == {
        "celsius": 40.0, "memory_celsius": 30.0, "utilisation_percent": 10.0, "millivolts": 800.0,
    }  # fmt: skip
    assert vendor("hy-smi").state.facts(HYGON_STATE, "1") == {}


def test_reads_intel() -> None:
    found = vendor("xpu-smi").state.facts(XPU_STATE, "0")
    assert (found["sm_mhz"], found["watts"], found["throttle_words"]) == (2400.0, 118.5, "None")


def test_reads_the_host() -> None:
    said = "cpu MHz\t\t: 2000.0\nflags: x\ncpu MHz\t\t: 3000.0\ncpu MHz\t\t: 2500.0\n"
    assert vendor("/proc/cpuinfo").state.facts(said, "") == {"mhz": 2500.0}


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "", "[Not Supported]", "[Unknown Error]"])
def test_what_a_tool_does_not_know_is_left_out(word: str) -> None:
    assert Query((), "csv", ("celsius", "watts")).facts(f"{word}, 20", "") == {"watts": 20.0}


@pytest.mark.parametrize(
    "said", ["", "Failed to initialize NVML: Driver/library version mismatch\n", "1, 2\n", "{not json"]
)
def test_other_output_gives_no_facts(said: str) -> None:
    assert vendor("nvidia-smi").state.facts(said, "GPU-1") == {}
    assert vendor("hy-smi").state.facts(said, "0") == {}


def test_reads_processes() -> None:
    listed, nested = vendor("nvidia-smi").processes, vendor("xpu-smi").processes
    assert listed is not None
    assert listed.rows(NVIDIA_PROCESSES) == [(4711, "/usr/bin/miner --fast"), (815, "python")]
    assert listed.rows("No running processes found\n") == []
    assert nested is not None
    assert nested.rows(XPU_PROCESSES) == [(4711, "miner")]
    assert nested.rows("No process found") == []


def test_the_first_tool_that_is_there_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert telemetry.tool_for("cuda") is None
    (tmp_path / "hy-smi").write_text("#!/bin/sh\n")
    (tmp_path / "hy-smi").chmod(0o755)
    found = telemetry.tool_for("cuda")
    assert found is not None
    assert found.name == "hy-smi"
