"""The preflight: each thing that hangs, crashes or misleads a group is refused in one sentence with the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stackproof.ranks import preflight
from stackproof.ranks.preflight import Interface, Node, PlannedGroup, PreflightRefusal, RankPlace

ETH0, IB0, DOCKER0, LO = (
    Interface("eth0", True, False),
    Interface("ib0", False, False),
    Interface("docker0", True, True),
    Interface("lo", True, False),
)
XPU = ("omp", "pytorch", "torch", "ze", "ccl", "fi", "i_mpi")
CUDA = ("omp", "pytorch", "torch", "cuda", "fi", "nccl")


def group(backend: str = "nccl", **environ: str) -> PlannedGroup:
    """Return two ranks on two cards of one host, of whom nothing is to be refused, under these variables."""
    seats = tuple(RankPlace(rank, "node0", f"cuda:{rank}", f"0000:0{rank}:00.0") for rank in (0, 1))
    node = Node("node0", 2, environ, (DOCKER0, ETH0, IB0, LO))
    families = XPU if backend in ("ccl", "xccl") else CUDA
    mask = "ZE_AFFINITY_MASK" if families is XPU else "CUDA_VISIBLE_DEVICES"
    return PlannedGroup("some", backend, families, mask, seats, (node,), True, "2.15.0", 90.0)


def refused(found: PlannedGroup) -> str:
    """Return the one sentence with which a group is refused."""
    (sentence,) = preflight.refusals(found)
    return sentence


@pytest.mark.parametrize("backend", ["nccl", "ccl", "xccl", "gloo"])
def test_a_sound_group_is_not_refused(backend: str) -> None:
    assert preflight.refusals(group(backend)) == []
    preflight.require(group(backend))


def test_two_ranks_on_one_card_are_refused_in_nccls_own_words() -> None:
    seats = tuple(replace(seat, card="cuda:0", identity="0000:18:00.0") for seat in group().seats)
    said = refused(replace(group(), seats=seats))
    assert said.startswith(
        "Duplicate GPU: rank 0 and rank 1 are both on cuda:0 (0000:18:00.0) of node0, and NCCL refuses"
    )
    assert "start as many ranks on each host as it has cards" in said


def test_hosts_with_different_numbers_of_cards_are_told_apart_as_the_cause() -> None:
    master = [RankPlace(rank, "master", f"cuda:{rank % 2}", f"0000:0{rank % 2}:00.0") for rank in range(4)]
    worker = [RankPlace(4 + rank, "worker", f"cuda:{rank}", f"0000:0{rank}:00.0") for rank in range(4)]
    nodes = tuple(Node(host, cards, {}, (ETH0,)) for host, cards in (("master", 2), ("worker", 4)))
    found = preflight.refusals(replace(group(), seats=(*master, *worker), nodes=nodes))
    assert [sentence.split(" are both")[0] for sentence in found] == [
        "Duplicate GPU: rank 0 and rank 2",
        "Duplicate GPU: rank 1 and rank 3",
    ]
    assert "different numbers of cards (master 2, worker 4), so start on each as many ranks as it has" in found[0]


def test_one_bus_id_on_two_hosts_is_two_cards() -> None:
    one, other = (replace(seat, identity="0000:18:00.0") for seat in group().seats)
    assert preflight.refusals(replace(group(), seats=(one, replace(other, host="node1")))) == []
    assert preflight.refusals(replace(group(), seats=(replace(one, machine="a"), replace(other, machine="b")))) == []


@pytest.mark.parametrize("way", ["gloo", "on_host", "variable"])
def test_cards_may_be_shared_where_the_library_allows_it(way: str) -> None:
    found = (
        group("gloo") if way == "gloo" else group(**({"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if way == "variable" else {}))
    )
    seats = tuple(replace(seat, identity="0000:18:00.0") for seat in found.seats)
    assert preflight.refusals(replace(found, seats=seats, on_host=way == "on_host")) == []


def test_more_ranks_than_cards_are_refused() -> None:
    seats = (*group().seats, RankPlace(2, "node0", "cuda:2", ""))
    said = refused(replace(group(), seats=seats))
    assert said.startswith("3 ranks on node0, which shows 2 cards: rank 2 has none; start 2 ranks there")


def test_a_host_without_cards_is_refused() -> None:
    seats = tuple(replace(seat, identity="") for seat in group().seats)
    node = replace(group().nodes[0], cards=0)
    assert "node0 shows no card to its ranks" in refused(replace(group(), seats=seats, nodes=(node,)))


def test_a_backend_that_torch_lacks_is_refused() -> None:
    assert "torch 2.15.0 has no backend 'ccl', which stack 'some' names" in refused(
        replace(group("ccl"), available=False)
    )


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"CCL_ATL_TRANSPORT": "mpi", "TORCHELASTIC_RUN_ID": "x"}, "CCL_ATL_TRANSPORT=mpi under plain torchrun hangs"),
        (
            {"PMI_FD": "9", "TORCHELASTIC_RUN_ID": "x"},
            "torchrun runs inside mpirun: its ranks inherit a dead PMI descriptor",
        ),
        ({"CCL_WORKER_CONT": "2"}, "CCL_WORKER_CONT is not a variable known to oneCCL; CCL_WORKER_COUNT is"),
    ],
)
def test_variables_that_hang_crash_or_are_misspelt_are_refused(environ: dict[str, str], words: str) -> None:
    said = refused(group("ccl", **environ))
    assert words in said
    assert any(remedy in said for remedy in ("export CCL_ATL_TRANSPORT=ofi", "export CCL_WORKER_COUNT='2'"))


def test_a_nested_launch_that_works_is_not_refused() -> None:
    assert preflight.refusals(group("ccl", PMI_FD="9", TORCHELASTIC_RUN_ID="x", CCL_ATL_TRANSPORT="ofi")) == []


def test_a_mask_that_leaves_fewer_cards_than_ranks_was_not_meant_so() -> None:
    node = replace(group("ccl", ZE_AFFINITY_MASK="0.1").nodes[0], cards=1)
    seats = tuple(replace(seat, identity="0000:18:00.0") for seat in group().seats)
    found = preflight.refusals(replace(group("ccl"), seats=seats, nodes=(node,)))
    assert "if cards 0 and 1 were meant, it is '0,1': export ZE_AFFINITY_MASK=0,1" in found[0]
    assert "Duplicate GPU" in found[1]
    assert preflight.refusals(replace(group("ccl"), seats=seats[:1], nodes=(node,))) == []


@pytest.mark.parametrize(
    ("backend", "variable", "value", "words"),
    [
        (
            "nccl",
            "NCCL_SOCKET_IFNAME",
            "ens",
            "matches no interface of node0, which has docker0, eth0, ib0, lo: name one of these",
        ),
        (
            "nccl",
            "NCCL_SOCKET_IFNAME",
            "docker",
            "matches only docker0 of node0, a bridge of containers: name eth0, or unset it",
        ),
        ("nccl", "NCCL_SOCKET_IFNAME", "ib", "matches only ib0 of node0, which is down: name eth0, or unset it"),
        ("gloo", "GLOO_SOCKET_IFNAME", "eth", "matches no interface"),
        ("ccl", "CCL_KVS_IFACE", "eth2", "matches no interface"),
        ("ccl", "FI_TCP_IFACE", "docker0", "matches only docker0"),
        (
            "ccl",
            "FI_PROVIDER",
            "nonexistent",
            "libfabric knows no provider 'nonexistent': export FI_PROVIDER=tcp, or unset it",
        ),
    ],
)
def test_filters_that_match_nothing_useful_are_refused(backend: str, variable: str, value: str, words: str) -> None:
    said = refused(group(backend, **{variable: value}))
    assert said.startswith(f"{variable}={value}")
    assert words in said


@pytest.mark.parametrize(
    ("backend", "variable", "value"),
    [
        ("nccl", "NCCL_SOCKET_IFNAME", "^docker,lo"),
        ("nccl", "NCCL_SOCKET_IFNAME", "=eth0"),
        ("gloo", "NCCL_SOCKET_IFNAME", "nosuch"),
        ("ccl", "FI_PROVIDER", "tcp;ofi_rxm"),
        ("ccl", "FI_PROVIDER", "^shm"),
    ],
)
def test_filters_that_leave_something_or_concern_another_library_pass(backend: str, variable: str, value: str) -> None:
    assert preflight.refusals(group(backend, **{variable: value})) == []


def test_a_provider_that_is_installed_is_known() -> None:
    node = replace(group(FI_PROVIDER="mine", FI_PROVIDER_PATH="/opt/fi").nodes[0], providers=("mine",))
    assert preflight.refusals(replace(group(), nodes=(node,))) == []


def test_time_outs_above_an_hour_are_refused() -> None:
    assert "a deadline of 180000000 s is above an hour" in refused(replace(group(), deadline_s=180000000.0))
    assert preflight.refusals(replace(group(), deadline_s=3600.0)) == []
    said = refused(group(TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="3600001"))
    assert "export TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=600000" in said
    assert preflight.refusals(group(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="600")) == []


def test_every_reason_is_given_at_once() -> None:
    with pytest.raises(PreflightRefusal, match="no backend 'nccl'.* \\| .*above an hour") as refusal:
        preflight.require(replace(group(), available=False, deadline_s=4000.0))
    assert refusal.value.exit_code == 2
