"""Versions, topology and settings as logs show them; what was asked for against what is in effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.triage import facts

from .making import report

VALUES = {
    "NCCL version 2.21.5+cuda12.8": ("NCCL or RCCL", "2.21.5+cuda12.8"),
    "NCCL version 2.18.3+hip24.4": ("NCCL or RCCL", "2.18.3+hip24.4"),
    "PY rank0/2 pid=1 torch=2.13.0+cpu bindings=2.8.0+xpu": ("torch", "2.13.0+cpu"),
    "torch-2.4.1+das.opt2.dtk2504": ("torch", "2.4.1+das.opt2.dtk2504"),
    "lmslim 0.2.1+das.dtk2504": ("DTK", "2504"),
    "NET/OFI Initializing aws-ofi-nccl 1.16.2": ("aws-ofi-nccl", "1.16.2"),
    "NET/OFI Using aws-ofi-nccl 1.3.0aws": ("aws-ofi-nccl", "1.3.0aws"),
    "NET/OFI Using Libfabric version 2.1": ("libfabric", "2.1"),
    "(1) |CCL_INFO| library version: Gold-2021.15.2 2025": ("oneCCL", "Gold-2021.15.2"),
    "[0] MPI startup(): Intel(R) MPI Library, Version 2021.15  Build 20250213": ("Intel MPI", "2021.15"),
    "comm 0x1 rank 1 nranks 16 cudaDev 0": ("world size", "16"),
    "Process rank: 1, world size: 8, device: cuda:1, distributed": ("world size", "8"),
    "NET/OFI Selected Provider is efa (found 4 nics)": ("OFI provider", "efa (found 4 nics)"),
    "(1) |CCL_INFO| provider: tcp": ("OFI provider", "tcp"),
    "h:1:1 [0] NCCL INFO Using network AWS Libfabric": ("network plug-in", "AWS Libfabric"),
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read": ("channels", "P2P/CUMEM"),
    "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Libfabric/0/GDRDMA": ("channels", "NET/Libfabric"),
}


@pytest.mark.parametrize("line", VALUES)
def test_line_holds_a_fact(tmp_path: Path, line: str) -> None:
    name, value = VALUES[line]
    assert (value, 1) in {row.fact.name: row.values for row in report(tmp_path, line + "\n").shown}[name]


def test_values_are_counted_and_bounded(tmp_path: Path) -> None:
    text = "NCCL version 2.1.0\nNCCL version 2.2.0\nNCCL version 2.1.0\n"
    (row,) = report(tmp_path, text).shown
    assert row.values == (("2.1.0", 2), ("2.2.0", 1))
    many = "".join(f"NCCL version 2.{n}.0\n" for n in range(100))
    assert len(report(tmp_path, many).shown[0].values) < 20


def test_oddities_say_what_to_do(tmp_path: Path) -> None:
    bridge = "(1) |CCL_INFO|   nic: { name tcp:br-1894cb0b4cfd, state unknown, speed 1.25 GB/s }\n"
    (odd,) = [row for row in report(tmp_path, bridge).shown if row.fact.odd]
    assert "container bridge" in odd.fact.odd
    launch = "Initializing 2 distributed tasks at: 127.0.0.1:{}\n"
    assert report(tmp_path, launch.format(1)).shown == ()
    assert "twice" in report(tmp_path, launch.format(1) + launch.format(2)).shown[0].fact.odd


ASKED_AND_OTHERWISE = {
    "a script and oneCCL's list": ("export CCL_WORKER_COUNT=2\n", "(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n"),
    "a trace and oneCCL's warning": (
        "+ export CCL_WORKER_COUNT=2\n",
        "(1) |CCL_WARN| value of CCL_WORKER_COUNT changed to be 4 (default:1)\n",
    ),
    "a command line": ("CCL_WORKER_COUNT=2 torchrun x.py\n", "(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n"),
    "a list of variables": ("ENV: CCL_LOG_LEVEL=info CCL_WORKER_COUNT=2\n", "(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n"),
    "mpirun -genv": ("mpirun -genv I_MPI_X 1 -genv CCL_WORKER_COUNT=2 x\n", "(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n"),
}


@pytest.mark.parametrize("name", ASKED_AND_OTHERWISE)
def test_what_was_asked_for_and_is_otherwise(tmp_path: Path, name: str) -> None:
    (row,) = facts.differing(report(tmp_path, "".join(ASKED_AND_OTHERWISE[name])).evidence)
    assert row.title == "CCL_WORKER_COUNT=2 was asked for, 4 is in effect"
    assert (row.asked.place.line, row.shown.place.line) == (1, 2)


def test_protocol_that_a_plug_in_forces(tmp_path: Path) -> None:
    text = "export NCCL_PROTO=LL128\nh:1:1 [0] NCCL INFO NCCL_PROTO set by environment to simple\n"
    (row,) = facts.differing(report(tmp_path, text).evidence)
    assert row.title == "NCCL_PROTO=LL128 was asked for, simple is in effect"


@pytest.mark.parametrize(
    "text",
    [
        "export CCL_WORKER_COUNT=4\n(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n",
        "export CCL_WORKER_COUNT=2\nexport CCL_WORKER_COUNT=4\n(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n",
        "export CCL_ATL_TRANSPORT='OFI'\n(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n",
        "export CCL_MNIC_NAME=eth0\n(1) |CCL_INFO| CCL_MNIC_NAME: <not specified>\n",
        "export CCL_ROOT=$HOME/ccl\n(1) |CCL_INFO| CCL_ROOT: /home/me/ccl\n",
        "(1) |CCL_WARN| to force enable ATL/MPI set CCL_ATL_TRANSPORT=mpi\n(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n",
        "[rank1]: export CCL_LOCAL_RANK=1\n[rank0]: (1) |CCL_INFO| CCL_LOCAL_RANK: 0\n",
        "(1) |CCL_INFO| CCL_WORKER_COUNT: 4\n",
    ],
)
def test_what_is_as_it_was_asked_for(tmp_path: Path, text: str) -> None:
    assert facts.differing(report(tmp_path, text).evidence) == []
