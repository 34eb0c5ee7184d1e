"""The table of libraries: what it knows, and what of a table is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import Refusal
from stackproof.ranks import libraries
from stackproof.stack import stacks

LOGS = ROOT / "fixtures" / "logs"


def test_every_backend_of_every_stack_has_a_library() -> None:
    for stack in stacks.load_all():
        for backend in stack.backends:
            assert backend in libraries.serving(backend).backends


def test_a_backend_that_no_row_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match="no library has the backend 'ncll' .did you mean 'nccl'"):
        libraries.serving("ncll")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("oneccl-mpi-nested-launch-sigsegv.log", "torchrun ran inside mpirun"),
        ("oneccl-mpi-under-torchrun-hang.log", "CCL_ATL_TRANSPORT=mpi without an MPI launcher hangs"),
        ("oneccl-provider-missing.log", "no libfabric provider of that name is installed"),
        ("oneccl-transport-bogus.log", "unexpected value: bogus, expected values: ofi, mpi"),
        ("oneccl-peer-killed-no-agent.log", "a peer's process died"),
        ("oneccl-peer-killed-under-torchrun.log", "a peer's process died"),
    ],
)
def test_real_logs_of_oneccl_are_explained(log: str, words: str) -> None:
    assert words in libraries.explain((LOGS / log).read_text(encoding="utf-8"))


def test_a_log_of_a_run_that_worked_is_not_explained() -> None:
    assert libraries.explain((LOGS / "oneccl-ofi-ok.log").read_text(encoding="utf-8")) == ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        # https://github.com/verl-project/verl/issues/161, NCCL 2.20.5
        (
            "Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10",
            "two ranks share one card (Duplicate GPU)",
        ),
        # NCCL 2.30.7, a string of its library
        (
            "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
            "two ranks share one card",
        ),
        ("Bootstrap : no socket interface found", "no network interface passes NCCL_SOCKET_IFNAME"),
        ("terminate called: op.preamble.length <= op.nbytes. 1032 vs 1028", "the ranks' tensors differ in size"),
        # oneccl_bindings_for_pytorch 2.8 on the CPU, with the variable set
        (
            "RuntimeError: ProcessGroup ccl does not yet support sequence numbers.",
            "which TORCH_DISTRIBUTED_DEBUG=DETAIL asks of it",
        ),
        (
            "TypeError: BF16 all reduce communication hook required CUDA 11+ and NCCL 2.10+ or XPU and XCCL",
            "use a hook of your own",
        ),
        ("The server socket has failed to listen. code: -98, name: EADDRINUSE", "the port is taken by another program"),
    ],
)
def test_words_of_nccl_gloo_and_c10d_are_explained(said: str, words: str) -> None:
    assert words in libraries.explain(said)


def test_a_cause_goes_before_what_only_follows() -> None:
    both = "Connection closed by peer [127.0.0.1]:1\nop.preamble.length <= op.nbytes. 8 vs 4"
    assert "differ in size" in libraries.explain(both)
    assert not libraries.is_symptom(both)
    assert libraries.is_symptom("Connection closed by peer [127.0.0.1]:1")
    assert libraries.is_symptom("DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.")
    assert not libraries.is_symptom("ValueError: seven is missing")


def test_a_variable_can_allow_shared_cards() -> None:
    assert libraries.serving("nccl").separates({})
    assert not libraries.serving("nccl").separates({"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    assert libraries.serving("ccl").separates({"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    assert not libraries.serving("gloo").separates({})


def test_a_group_that_cannot_be_split_is_not_given_its_device() -> None:
    assert libraries.serving("nccl").device_id and not libraries.serving("gloo").device_id


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("facts = [{ name = 'version', pattern = 'version (.*)' }]", "has no group 'value'"),
        ("echo = '('", "is not a regular expression"),
        ("[[library.contradiction]]\nasked = 'A'\nvalue = '1'\nsentence = 's'", "or 'fact' is needed, and not both"),
    ],
)
def test_a_broken_row_is_refused(row: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libraries.toml"
    path.write_text(f"[[library]]\nname = 'x'\nbackends = []\ndevices = []\nown_cards = true\n{row}\n")
    monkeypatch.setattr(libraries, "LIBRARIES", path)
    libraries.libraries.cache_clear()
    try:
        with pytest.raises(Refusal, match=words) as refusal:
            libraries.libraries()
    finally:
        libraries.libraries.cache_clear()
    assert str(path) in str(refusal.value)


OK = (LOGS / "oneccl-ofi-ok.log").read_text(encoding="utf-8")

# NCCL 2.21.5 with EFA: https://github.com/aws/aws-ofi-nccl/issues/889; 2.26 on H200: https://github.com/NVIDIA/nccl/issues/1597; the
# channel and algorithm lines: format strings of NCCL 2.20.5, 2.27.3 and 2.30.7.
EFA = """\
ip-10-36-29-253:79:79 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
ip-10-36-29-253:79:79 [0] NCCL INFO Bootstrap : Using eth0:10.36.29.253<0>
NCCL version 2.21.5+cuda12.8
8h200-3:6310:6318 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.16.2
8h200-3:6310:6318 [0] NCCL INFO NET/OFI Selected Provider is efa (found 16 nics)
8h200-2:6831:6840 [0] NCCL INFO Using network Libfabric
8h200-2:6831:6840 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
8h200-2:6831:6840 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
8h200-2:6831:6840 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
8h200-2:6831:6840 [0] NCCL INFO Connected NVLS tree
8h200-2:6831:6840 [0] NCCL INFO 16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer
8h200-2:6831:6840 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId 0x1c71 - Init COMPLETE
8h200-2:6831:6840 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
"""
# https://github.com/aws/aws-ofi-nccl/issues/161, NCCL 2.10.3
OLD_EFA = """\
algo-1:462:462 [0] NCCL INFO NET/OFI Using aws-ofi-nccl 1.3.0aws
algo-1:462:462 [0] NCCL INFO NET/OFI Selected Provider is efa
algo-1:462:462 [0] NCCL INFO Using network AWS Libfabric
NCCL version 2.10.3+cuda11.3
"""
# https://github.com/NVIDIA/nccl-tests/issues/245
NO_GDR = """\
[0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR
[0] NCCL INFO NET/OFI Setting NCCL_PROTO to "simple"
"""
SOCKETS = """\
node0:79:79 [0] NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>
node0:79:79 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0>
node0:79:79 [0] NCCL INFO Using network Socket
node0:79:79 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
"""
RCCL = "RCCL version : 2.18.3-HEAD:2f6d59e\n"


def nccl(log: str, **asked: str) -> libraries.Effect:
    return libraries.serving("nccl").read(log, asked)


def ccl(log: str, **asked: str) -> libraries.Effect:
    return libraries.serving("ccl").read(log, asked)


def test_facts_of_oneccl() -> None:
    expected = {
        "version": "Gold-2021.15.2",
        "transport": "ofi",
        "provider": "tcp",
        "interface": "tcp:lo",
        "libfabric": "1.21.0-impi",
        "workers": "2",
        "launcher": "none",
    }
    found = ccl(OK)
    assert (expected, (), ()) == (found.facts, found.contradictions, found.warnings)


def test_facts_of_nccl() -> None:
    expected = {
        "version": "2.21.5+cuda12.8",
        "network": "Libfabric",
        "provider": "efa",
        "plugin": "aws-ofi-nccl 1.16.2",
        "transport": "NET/Libfabric, P2P/CUMEM",
        "GPUDirect RDMA": "GDRDMA",
        "interface": "eth0",
        "channels": "16",
        "NVLS channels": "16",
        "algorithm": "RING proto SIMPLE",
        "bus id": "18000",
    }
    assert expected == nccl(EFA).facts


@pytest.mark.parametrize(("log", "version"), [(OLD_EFA, "2.10.3+cuda11.3"), (RCCL, "2.18.3-HEAD:2f6d59e")])
def test_versions_word_their_names_differently(log: str, version: str) -> None:
    assert version == nccl(log).facts["version"]


def test_a_variable_that_has_another_value_in_effect_is_a_contradiction() -> None:
    log = "2026:11:20-08:02:26:( 6589) |CCL_INFO| CCL_WORKER_COUNT: 4\n"
    assert ccl(log, CCL_WORKER_COUNT="2").contradictions == ("CCL_WORKER_COUNT=2 was asked for, 4 is in effect",)
    assert ccl(log, CCL_WORKER_COUNT="4").contradictions == ()
    assert ccl(OK, CCL_WORKER_COUNT="2", CCL_ATL_TRANSPORT="ofi", FI_PROVIDER="tcp").contradictions == ()


def test_what_a_library_adds_by_itself_is_no_contradiction() -> None:
    log = "2026:11:20-08:02:26:( 6589) |CCL_INFO| FI_PROVIDER: {}\n"
    assert ccl(log.format("tcp,shm"), FI_PROVIDER="tcp", CCL_ATL_SHM="1").contradictions == ()
    for provider, environ in (("tcp,shm", {}), ("tcp,verbs", {"CCL_ATL_SHM": "1"})):
        assert ccl(log.format(provider), FI_PROVIDER="tcp", **environ).contradictions


def test_another_interface_than_was_asked_for_is_a_contradiction() -> None:
    assert ccl(OK, FI_TCP_IFACE="lo").contradictions == ()
    (said,) = ccl(OK, FI_TCP_IFACE="ib7").contradictions
    assert said == "FI_TCP_IFACE=ib7 was asked for, and libfabric talks over 'tcp:lo'"


def test_what_only_makes_a_library_talk_is_not_asked_of_it() -> None:
    assert ccl(OK, CCL_LOG_LEVEL="warn").contradictions == ()


@pytest.mark.parametrize(
    ("log", "asked", "words"),
    [
        (EFA, {"NCCL_P2P_DISABLE": "1"}, "asks for no peer-to-peer copies, and the log says 'via P2P/CUMEM'"),
        (SOCKETS, {"NCCL_SHM_DISABLE": "1"}, "the log says 'via SHM/direct/direct'"),
        (EFA, {"NCCL_NVLS_ENABLE": "0"}, "the log says 'Connected NVLS tree'"),
        (SOCKETS, {"NCCL_NET": "AWS Libfabric"}, "the log says 'Using network Socket'"),
        (SOCKETS, {"FI_PROVIDER": "efa"}, "the plugin (libnccl-net.so) was not loaded"),
        (EFA, {"FI_PROVIDER": "tcp"}, "the plugin selected 'efa'"),
        (NO_GDR, {"FI_EFA_USE_DEVICE_RDMA": "1"}, "disabling GDR"),
        (SOCKETS, {"NCCL_SOCKET_IFNAME": "eth0"}, "the log says it uses 'docker0'"),
        ("[0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB", {"NCCL_IB_DISABLE": "1"}, "asks for no InfiniBand"),
    ],
)
def test_a_log_that_denies_what_was_asked_for_is_a_contradiction(log: str, asked: dict[str, str], words: str) -> None:
    (sentence,) = nccl(log, **asked).contradictions
    assert words in sentence
    assert next(iter(asked)) in sentence


@pytest.mark.parametrize(
    ("log", "asked"),
    [
        (EFA, {"NCCL_NET": "AWS Libfabric"}),
        (OLD_EFA, {"NCCL_NET": "Libfabric"}),
        (EFA, {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}),
        (EFA, {"NCCL_P2P_DISABLE": "0", "NCCL_NVLS_ENABLE": "1", "NCCL_SOCKET_IFNAME": "eth0"}),
        (SOCKETS, {"NCCL_SOCKET_IFNAME": "docker"}),
        (SOCKETS, {"NCCL_SOCKET_IFNAME": "^eth"}),
        ("[0] NCCL INFO NCCL_NET set by environment to AWS Libfabric.", {"NCCL_NET": "AWS Libfabric"}),
        ("[0] NCCL INFO NCCL_BUFFSIZE set by environment to 4194304.", {"NCCL_BUFFSIZE": "0x400000"}),
        (SOCKETS, {"FI_PROVIDER": "^efa"}),
    ],
)
def test_wordings_that_mean_the_same_are_no_contradiction(log: str, asked: dict[str, str]) -> None:
    assert nccl(log, **asked).contradictions == ()


def test_bridges_of_containers_and_unknown_cards_are_warned_of() -> None:
    log = "|CCL_INFO|   nic: { name tcp:br-5f0a9c, state up }\n|CCL_WARN| device_family is unknown, topology discovery could be incorrect\n"
    bridge, family = sorted(ccl(log).warnings)
    assert "it does not know this card" in bridge
    assert "tcp:br-5f0a9c" in family
    assert any("docker0" in sentence for sentence in nccl(SOCKETS).warnings)


def test_ranks_that_agree_have_one_value(tmp_path: Path) -> None:
    first, second = nccl(EFA), nccl(EFA.replace("18000", "2a000").replace("NCCL version 2.21.5+cuda12.8\n", ""))
    found = libraries.common_facts({0: first, 1: second})
    assert (found["version"], found["bus id"]) == ("2.21.5+cuda12.8", "rank 0: 18000, rank 1: 2a000")
