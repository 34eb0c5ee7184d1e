"""Tools: their versions are read, and only what is wanted for cards that are here is missed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from stackproof.doctor import host, rules
from stackproof.doctor.machine import Machine

from .boxes import b60, bare, k100

TABLE = rules.load()


def test_versions_are_found_in_what_tools_print(tmp_path: Path) -> None:
    box = k100(tmp_path / "box").tool(
        "mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.15 Build 20250213 (id: 1)\n"
    )
    _, finding = host.examine(box.machine(), TABLE, {"hip"})
    assert finding.sentence == "tools: hy-smi 1.6.0, mpirun 2021.15"


def test_a_wanted_tool_is_missed_beside_its_cards_only(tmp_path: Path) -> None:
    machine = bare(tmp_path / "box").machine()
    assert list(host.examine(machine, TABLE, set())) == []
    (finding,) = host.examine(machine, TABLE, {"xpu"})
    assert (finding.sentence, finding.level.value) == ("xpu-smi is not here", "note")


def test_a_tool_that_says_nothing_is_here_all_the_same(tmp_path: Path) -> None:
    box = b60(tmp_path / "box").tool("xpu-smi", "Error: no driver\n")
    (finding,) = host.examine(box.machine(), TABLE, {"xpu"})
    assert finding.sentence == "tools: xpu-smi"


def test_a_slow_or_broken_tool_does_not_hold_the_doctor(tmp_path: Path) -> None:
    for name, text in (("nvidia-smi", "sleep 60; echo nvidia-smi 9.9"), ("hy-smi", "echo hy-smi 1.7.2 >&2; exit 3")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "xpu-smi").write_bytes(b"\x00\x01")
    (tmp_path / "xpu-smi").chmod(0o755)
    machine = replace(Machine(), environ={"PATH": f"{tmp_path}{os.pathsep}/usr/bin:/bin"})
    said = next(finding.sentence for finding in host.examine(machine, TABLE, set()) if "tools:" in finding.sentence)
    assert "nvidia-smi, xpu-smi, hy-smi 1.7.2" in said
