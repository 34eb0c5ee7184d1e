"""Claims about a run are proved, refuted, or not shown, in the wordings of several versions; contradictions are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record.records import Verdict
from stackproof.triage import facts
from tools import triage_corpus

from .making import report

H = "h:1:2 [0] NCCL INFO "
NODES = f"{H}comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8\n"
PROVED = {
    "efa": [
        f"{H}NET/OFI Initializing aws-ofi-nccl 1.16.2\n{H}NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n"
        f"{H}Using network Libfabric\n{NODES}",
        f"{H}NET/OFI Using aws-ofi-nccl 1.3.0aws\n{H}NET/OFI Selected Provider is efa\n{H}Using network AWS Libfabric\n{NODES}",
        f"{H}NET/Plugin: Loaded net plugin AWS Libfabric (v8)\n{H}NET/OFI Selected Provider is efa (found 16 nics)\n"
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/0/GDRDMA\n",
    ],
    "rdma": [
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n",
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA(PCI)\n",
        f"{H}GPU Direct RDMA Enabled for GPU 1b000 / HCA 0 (distance 4 <= 4), read 0\n",
        f"{H}Connected all rings, use ring PXN 0 GDR 1\n",
    ],
    "nvlink": [
        f"{H}+ NVL[240.0] - GPU/1B000\n",
        f"{H}Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX\n",
    ],
    "p2p": [
        f"{H}Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
        f"{H}Channel 00 : 0[0] -> 1[1] via P2P/direct pointer\n",
        "  p2p_access: 1\n",
    ],
    "shm": [f"{H}Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n", "  out: { shm: 1, hmem: 0, mnic_type: none }\n"],
    "ib": [
        f"{H}NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>\n{H}comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8\n",
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n",
    ],
    "ccl-ofi-tcp": [
        "(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n(1) |CCL_INFO| provider: tcp\n",
        "(1) |CCL_WARN| did not find MPI-launcher specific variables, switch to ATL/OFI\n"
        "(1) |CCL_INFO|   nic: { name tcp:lo, state unknown }\n",
    ],
    "ccl-mpi": [
        "(1) |CCL_INFO| CCL_ATL_TRANSPORT: mpi\n(1) |CCL_INFO| coord: global [ idx 0, cnt 2 ], local [ idx 0, cnt 2 ]\n"
    ],
    "xccl": ["[rank0]: backend=xccl\n", "[rank0]:[I1 x ProcessGroupXCCL.cpp:1] init\n"],
}
REFUTED = {
    "efa": [
        f"{H}NET/OFI Initializing aws-ofi-nccl 1.16.2\n{H}NET/OFI Selected provider is tcp, fabric is x (found 1 nics)\n"
        f"{H}Using network Libfabric\n",
        f"{H}NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n{H}Using network Socket\n",
    ],
    "rdma": [
        f"{H}NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n",
        f"{H}NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n",
        f"{H}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n{H}Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n",
    ],
    "nvlink": [f"{H}+ PCI[24.0] - GPU/AB000 (1)\n", f"{H}Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n"],
    "p2p": [
        f"{H}Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n{H}Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct\n",
        "  p2p_access: 0\n",
    ],
    "shm": [f"{H}Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", "  out: { shm: 0, hmem: 0, mnic_type: none }\n"],
    "ib": [f"{H}NET/IB : No device found.\n{H}Using network Socket\n", f"{H}NCCL_IB_DISABLE set by environment to 1\n"],
    "ccl-ofi-tcp": [
        "(1) |CCL_INFO| CCL_ATL_TRANSPORT: mpi\n",
        "(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n(1) |CCL_INFO| provider: psm3\n",
    ],
    "ccl-mpi": [
        "MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY\n",
        "(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n",
    ],
    "xccl": ["[rank0]: backend=ccl\n", "import oneccl_bindings_for_pytorch\n"],
}
CASES = [
    (name, text, answer)
    for table, answer in ((PROVED, "yes"), (REFUTED, "no"))
    for name in table
    for text in table[name]
]


@pytest.mark.parametrize(
    ("name", "text", "answer"), CASES, ids=[f"{name}-{answer}-{n}" for n, (name, _, answer) in enumerate(CASES)]
)
def test_log_answers(tmp_path: Path, name: str, text: str, answer: str) -> None:
    (found,) = report(tmp_path, text, [name]).answers
    assert (found.answer, found.holds) == (answer, answer == "yes")
    assert found.sentence.startswith(f"{answer}: ")
    proof = [hit for part in found.parts for hit in (part.for_it if answer == "yes" else part.against)]
    assert proof


@pytest.mark.parametrize("name", PROVED)
def test_log_that_says_nothing_proves_nothing(tmp_path: Path, name: str) -> None:
    found = report(tmp_path, "step 1 loss 2.0\n", [name])
    (answer,) = found.answers
    assert (answer.answer, answer.holds) == ("not shown", False)
    assert "run with" in answer.sentence
    assert found.verdict is not Verdict.PASSED


def test_half_a_proof_is_none(tmp_path: Path) -> None:
    (found,) = report(tmp_path, f"{H}NET/OFI Selected Provider is efa (found 4 nics)\n", ["efa"]).answers
    assert (found.answer, [part.answer for part in found.parts]) == (
        "not shown",
        ["not shown", "not shown", "yes", "not shown"],
    )
    assert "NCCL uses it" in found.sentence


def test_what_holds_for_some_lines_only_is_said_to(tmp_path: Path) -> None:
    (found,) = report(tmp_path, REFUTED["p2p"][0], ["p2p"]).answers
    assert "partly" in found.sentence


CONFLICTS = {
    "rdma-asked-gdr-off": (
        "export FI_EFA_USE_DEVICE_RDMA=1\n",
        f"{H}NET/OFI Need to force simple protocol: GDR not supported\n",
    ),
    "efa-asked-not-used": ("export FI_PROVIDER=efa\n", f"{H}Using network Socket\n"),
    "nvlink-asked-shm-used": (
        f"{H}NCCL_P2P_LEVEL set by environment to NVL\n",
        f"{H}Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n",
    ),
    "mpi-asked-ofi-used": ("export CCL_ATL_TRANSPORT=mpi\n", "(1) |CCL_INFO| CCL_ATL_TRANSPORT: ofi\n"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_contradictions_are_findings(tmp_path: Path, name: str) -> None:
    asked, shown = CONFLICTS[name]
    found = report(tmp_path, asked + shown)
    assert [row.id for row in facts.conflicts(found.evidence)] == [name]
    assert found.verdict is not Verdict.PASSED
    for half in (asked, shown):
        assert report(tmp_path, half + "step\n").conflicts == ()


@pytest.mark.parametrize(
    ("log", "name", "answer"),
    [
        ("efa-with-rdma.log", "efa", "yes"),
        ("efa-with-rdma.log", "rdma", "yes"),
        ("efa-without-rdma.log", "efa", "yes"),
        ("efa-without-rdma.log", "rdma", "no"),
        ("efa-missing-in-container.log", "efa", "no"),
        ("nccl-nvlink.log", "nvlink", "yes"),
        ("nccl-nvlink.log", "p2p", "yes"),
        ("nccl-nvlink.log", "shm", "no"),
        ("nccl-nvlink.log", "ib", "no"),
        ("oneccl-ofi-ok.log", "ccl-ofi-tcp", "yes"),
        ("oneccl-ofi-ok.log", "ccl-mpi", "no"),
        ("oneccl-ofi-ok.log", "xccl", "no"),
        ("oneccl-mpi-under-torchrun-hang.log", "ccl-mpi", "no"),
        ("xpu-lora-two-cards.log", "ccl-ofi-tcp", "yes"),
        ("xpu-lora-two-cards.log", "p2p", "yes"),
        ("xpu-lora-two-cards.log", "rdma", "no"),
    ],
)
def test_whole_logs_answer(log: str, name: str, answer: str) -> None:
    assert facts.answer(name, triage_corpus.judge(log).evidence).answer == answer
