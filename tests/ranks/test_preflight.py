"""The preflight: each thing that hangs, crashes or misleads a group is refused in one sentence with the remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from stackproof.device import devices
from stackproof.device.kinds import Accelerator, Device
from stackproof.ranks import preflight
from stackproof.ranks.preflight import Node, PlannedGroup, PreflightRefusal, RankPlace
from stackproof.record.checks import CheckCrashed, CheckFailed
from stackproof.stack import findings, stacks
from suites.groups import sharing

INTERFACES = ["eth0", "lo"]


def group(backend: str = "nccl", **environ: str) -> PlannedGroup:
    """Return two ranks on two cards of one host, of whom nothing is to be refused, under these variables."""
    seats = tuple(RankPlace(rank, "node0", f"cuda:{rank}", f"0000:0{rank}:00.0") for rank in (0, 1))
    node = Node("node0", 2, environ, INTERFACES)
    stack = replace(stacks.load("xpu" if backend in ("ccl", "xccl") else "cuda"), backend=backend)
    return PlannedGroup(stack, seats, (node,), 90.0, True)


def refused(found: PlannedGroup) -> str:
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
    nodes = tuple(Node(host, cards, {}, ["eth0"]) for host, cards in (("master", 2), ("worker", 4)))
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


BARE = tuple(replace(seat, identity="") for seat in group().seats)
THREE = (*group().seats, RankPlace(2, "node0", "cuda:2", ""))
CARDLESS = (replace(group().nodes[0], cards=0),)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (replace(group(), seats=THREE), "3 ranks on node0, which shows 2 cards: rank 2 has none; start 2 ranks there"),
        (replace(group(), seats=BARE, nodes=CARDLESS), "node0 shows no card to its ranks"),
        (replace(group("ccl"), available=False), f"torch {torch.__version__} has no backend 'ccl', which stack 'xpu' names"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(found: PlannedGroup, words: str) -> None:
    assert refused(found).startswith(words)


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


@pytest.mark.parametrize("misspelt", [{"GLOO_SOCKET_IFNME": "eth0"}, {"OMP_NUM_THREDS": "1"}])
def test_the_variables_of_every_rank_count(misspelt: dict[str, str]) -> None:
    sound = group("gloo")
    (node,) = sound.nodes
    (name,) = misspelt
    assert refused(replace(sound, nodes=(node, replace(node, environ=misspelt)))).startswith(f"rank 1: {name} is not")
    assert refused(replace(sound, nodes=(replace(node, environ=misspelt),) * 2)).startswith(f"{name} is not")


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
        ("nccl", "NCCL_SOCKET_IFNAME", "ens", "matches no interface of node0, which has eth0, lo: "),
        ("nccl", "NCCL_SOCKET_IFNAME", "docker", "matches no interface of node0"),
        ("gloo", "GLOO_SOCKET_IFNAME", "eth", "names eth, and node0 has eth0, lo: "),
        ("ccl", "CCL_KVS_IFACE", "eth2", "names eth2, and node0 has eth0, lo: "),
        ("ccl", "FI_TCP_IFACE", "docker0", "names docker0, and node0 has eth0, lo: "),
        ("ccl", "FI_PROVIDER", "nonexistent", "is not a provider such as tcp"),
    ],
)
def test_filters_that_match_nothing_useful_are_refused(backend: str, variable: str, value: str, words: str) -> None:
    said = refused(group(backend, **{variable: value}))
    assert said.startswith(f"{variable}='{value}'")
    assert words in said


@pytest.mark.parametrize(
    ("backend", "variable", "value"),
    [
        ("nccl", "NCCL_SOCKET_IFNAME", "^docker,lo"),
        ("nccl", "NCCL_SOCKET_IFNAME", "=eth0"),
        ("ccl", "FI_PROVIDER", "tcp;ofi_rxm"),
        ("ccl", "FI_PROVIDER", "^shm"),
    ],
)
def test_filters_that_leave_something_or_concern_another_library_pass(backend: str, variable: str, value: str) -> None:
    assert preflight.refusals(group(backend, **{variable: value})) == []


def test_a_provider_of_a_folder_of_ones_own_is_not_judged() -> None:
    assert preflight.refusals(group("ccl", FI_PROVIDER="mine", FI_PROVIDER_PATH="/opt/fi")) == []


def test_a_deadline_above_an_hour_is_refused() -> None:
    assert "a deadline of 180000000 s is above an hour" in refused(replace(group(), deadline_s=180000000.0))
    assert preflight.refusals(replace(group(), deadline_s=3600.0)) == []


def test_every_reason_is_given_at_once() -> None:
    with pytest.raises(PreflightRefusal, match="no backend 'nccl'.* \\| .*above an hour") as refusal:
        preflight.require(replace(group(), available=False, deadline_s=4000.0))
    assert refusal.value.exit_code == 2


NAMES = ["docker0", "eth0", "eth1", "lo"]


@pytest.mark.parametrize(
    ("grammar", "value", "left"),
    [
        ("prefixes", "eth", ["eth0", "eth1"]),
        ("prefixes", "=eth0", ["eth0"]),
        ("prefixes", "=eth", []),
        ("prefixes", "=eth0,eth1", ["eth0", "eth1"]),
        ("prefixes", "^docker", ["eth0", "eth1", "lo"]),
        ("prefixes", "^docker,lo", ["eth0", "eth1"]),
        ("prefixes", "^=eth0", ["docker0", "eth1", "lo"]),
        ("prefixes", "ib", []),
        ("names", "eth0, lo", ["eth0", "lo"]),
        ("names", "eth", []),
    ],
)
def test_filters_leave_what_their_library_would(grammar: str, value: str, left: list[str]) -> None:
    assert left == findings.passed_by(grammar, value, NAMES)


def test_interfaces_are_read_from_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, state in (("eth0", "up"), ("ib0", "down"), ("lo", "unknown"), ("docker0", "up")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "operstate").write_text(f"{state}\n")
    (tmp_path / "docker0" / "bridge").mkdir()
    monkeypatch.setattr(preflight, "SYSFS", tmp_path)
    assert preflight.interfaces() == INTERFACES


class Fake(Accelerator):
    """A card that no driver has to answer for."""

    def name(self) -> str:
        return "Some Card"

    def bus_id(self) -> str:
        """Return an address by index, for cuda only."""
        return f"0000:0{self.index}:00.0" if self.kind == "cuda" else ""


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "visible", lambda kind: (Fake("cuda", 0),))
    monkeypatch.setattr("stackproof.ranks.preflight.visible", lambda kind: (Fake("cuda", 0),))


@pytest.mark.usefixtures("one_card")
def test_two_ranks_on_a_card_pass_as_refused_and_fail_where_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    said = sharing.refused_by_preflight(stacks.load("cuda"))
    assert said.startswith("Duplicate GPU: rank 0 and rank 1 are both on cuda:0 (0000:00:00.0)")
    monkeypatch.setattr(preflight, "_LOOKS", ())
    with pytest.raises(CheckFailed, match="two ranks of nccl on cuda:0 were not refused"):
        sharing.refused_by_preflight(stacks.load("cuda"))


@pytest.mark.usefixtures("one_card")
@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (CheckFailed("rank 0 failed: two ranks share one card (Duplicate GPU), which NCCL refuses"), ""),
        (
            CheckCrashed("rank 0 ended with signal SIGABRT"),
            "the refusal was not recognised; add its words to libraries.toml",
        ),
        (None, "NCCL let 2 ranks share cuda:0: libraries.toml says that it refuses them"),
    ],
)
def test_a_library_that_shares_or_words_it_otherwise_is_red(outcome: Exception | None, failure: str) -> None:
    def launches(*arguments: Any, **options: Any) -> None:
        assert options["checked"] is False
        if outcome:
            raise outcome

    if not failure:
        assert sharing.refused_by_library(stacks.load("cuda"), launches) == str(outcome)
        return
    with pytest.raises(CheckFailed) as failed:
        sharing.refused_by_library(stacks.load("cuda"), launches)
    assert failure in str(failed.value)


def cards(kind: str, count: int) -> tuple[Device, ...]:
    return tuple(Fake(kind, index) for index in range(count))


@pytest.mark.parametrize(
    ("kind", "environ", "identity"),
    [
        ("cuda", {"CUDA_VISIBLE_DEVICES": "5,3"}, "0000:01:00.0"),
        ("xpu", {}, "xpu 1"),
        ("xpu", {"ZE_AFFINITY_MASK": "5,3"}, "xpu 3"),
        ("xpu", {"ZE_AFFINITY_MASK": "5"}, "xpu 1"),
    ],
)
def test_a_card_is_known_by_its_address_or_its_place_among_all(
    kind: str, environ: dict[str, str], identity: str
) -> None:
    stack = stacks.load("cuda" if kind == "cuda" else "xpu")
    found = preflight.seat_of(0, 1, cards(kind, 2), stack, environ)
    assert (f"{kind}:1", identity) == (found.card, found.identity)


def test_a_card_that_is_not_shown_has_no_identity() -> None:
    found = preflight.seat_of(2, 2, cards("cuda", 2), stacks.load("cuda"), {})
    assert ("cuda:2", "") == (found.card, found.identity)


def test_what_travels_is_what_libraries_and_launchers_read(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"NCCL_DEBUG": "INFO", "NCLL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "SLURM_PROCID": "0"}
    seat = preflight.seat_of(0, 0, cards("cuda", 1), stacks.load("cuda"), {})
    node = preflight.this_host(cards("cuda", 1), {**environ, "HF_TOKEN": "secret", "HOME": "/home/somebody"})
    told = json.loads(json.dumps(preflight.to_json(seat, node)))
    back = preflight.from_json(told)
    assert environ == back[1].environ
    assert (seat, replace(node, environ=back[1].environ)) == back


def test_a_group_has_a_description_per_rank_or_host_and_the_backends_own_variables() -> None:
    stack = stacks.load("cuda")
    seats = [
        replace(preflight.seat_of(rank, 0, cards("cuda", 1), stack, {}), host=f"node{rank % 2}") for rank in (2, 0, 1)
    ]
    nodes = [replace(preflight.this_host(cards("cuda", 1), {"A": str(seat.rank)}), host=seat.host) for seat in seats]
    found = preflight.group_of(replace(stack, backend="gloo"), seats, nodes, 60.0)
    assert [0, 1, 2] == [seat.rank for seat in found.seats]
    assert ["2", "0", "1"] == [node.environ["A"] for node in found.nodes]
    assert [("node0", "2"), ("node1", "1")] == [(node.host, node.environ["A"]) for node in found.hosts]
    assert found.stack.backend == "gloo"


def test_ranks_share_a_cpu_as_any_processes_do() -> None:
    found = preflight.local_group(stacks.load("cpu"), "gloo", (0, 0), 60.0)
    assert found.on_host
    assert found.available
    assert preflight.refusals(replace(found, nodes=(replace(found.nodes[0], environ={}),))) == []
