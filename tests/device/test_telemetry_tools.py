"""The vendors' tools are data: their outputs are read as documented, and what they do not know is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.device import telemetry
from stackproof.device.telemetry import Query, TelemetryTool

from ..bench.tools_data import HYGON_STATE, NVIDIA_PROCESSES, NVIDIA_STATE, XPU_PROCESSES, XPU_STATE


def tool(name: str) -> TelemetryTool:
    return next(one for one in telemetry.tools() if one.name == name)


def test_every_vendor_has_a_tool() -> None:
    assert {one.name: one.device for one in telemetry.tools()} == {
        "nvidia-smi": "cuda", "hy-smi": "cuda", "xpu-smi": "xpu", "/proc/cpuinfo": "cpu", "torch_sim.tool": "sim",
    }  # fmt: skip


def test_reads_nvidia() -> None:
    assert tool("nvidia-smi").state.facts(NVIDIA_STATE, "GPU-1") == {
        "sm_mhz": 1980.0, "memory_mhz": 3201.0, "celsius": 43.0, "watts": 512.3, "watts_allowed": 700.0,
        "utilisation_percent": 100.0, "throttle_mask": 4,
    }  # fmt: skip


def test_reads_hygon() -> None:
    assert tool("hy-smi").state.facts(HYGON_STATE, "0") == {
        "celsius": 40.0, "memory_celsius": 30.0, "utilisation_percent": 10.0, "millivolts": 800.0,
    }  # fmt: skip
    assert tool("hy-smi").state.facts(HYGON_STATE, "1") == {}


def test_reads_intel() -> None:
    found = tool("xpu-smi").state.facts(XPU_STATE, "0")
    assert (found["sm_mhz"], found["watts"], found["throttle_words"]) == (2400.0, 118.5, "None")


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("nvidia-smi", "734512345\n", {"millijoules": 734512345.0}),
        ("hy-smi", '{"card0": {"Energy counter": "7", "Accumulated Energy (uJ)": "1234.5"}}', {"microjoules": 1234.5}),
        (
            "xpu-smi",
            "Timestamp, DeviceId, GPU Energy Consumed (J)\n06:14:46.000,    0, 40211.25\n",
            {"joules": 40211.25},
        ),
        ("torch_sim.tool", "100.5", {"joules": 100.5}),
    ],
)
def test_reads_energy(name: str, said: str, found: dict[str, float]) -> None:
    query = tool(name).energy
    assert query is not None and query.facts(said, "0") == found


def test_reads_the_host() -> None:
    said = "cpu MHz\t\t: 2000.0\nflags: x\ncpu MHz\t\t: 3000.0\ncpu MHz\t\t: 2500.0\n"
    assert tool("/proc/cpuinfo").state.facts(said, "") == {"mhz": 2500.0}


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "", "[Not Supported]", "[Unknown Error]"])
def test_what_a_tool_does_not_know_is_left_out(word: str) -> None:
    assert Query((), "csv", ("celsius", "watts")).facts(f"{word}, 20", "") == {"watts": 20.0}


@pytest.mark.parametrize(
    "said", ["", "Failed to initialize NVML: Driver/library version mismatch\n", "1, 2\n", "{not json"]
)
def test_other_output_gives_no_facts(said: str) -> None:
    assert tool("nvidia-smi").state.facts(said, "GPU-1") == {}
    assert tool("hy-smi").state.facts(said, "0") == {}


def test_reads_processes() -> None:
    listed, nested = tool("nvidia-smi").processes, tool("xpu-smi").processes
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
