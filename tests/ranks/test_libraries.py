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
