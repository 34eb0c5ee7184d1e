"""What a rank finds on its host, and what of it travels to the others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stackproof.device.kinds import Accelerator, Device
from stackproof.ranks import preflight
from stackproof.stack import stacks


class Fake(Accelerator):
    """A card whose address is known, or not."""

    def bus_id(self) -> str:
        """Return an address by index, for cuda only."""
        return f"0000:0{self.index}:00.0" if self.kind == "cuda" else ""


def cards(kind: str, count: int) -> tuple[Device, ...]:
    """Return so many cards."""
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
    environ = {
        "NCCL_DEBUG": "INFO",
        "NCLL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "1",
        "SLURM_PROCID": "0",
        "HF_TOKEN": "secret",
        "HOME": "/home/somebody",
    }
    seat, node = (
        preflight.seat_of(0, 0, cards("cuda", 1), stacks.load("cuda"), {}),
        preflight.this_host(cards("cuda", 1), environ),
    )
    told = json.loads(json.dumps(preflight.to_json(seat, node)))
    back = preflight.from_json(told)
    assert {"NCCL_DEBUG", "NCLL_DEBUG", "OMP_NUM_THREADS", "SLURM_PROCID"} == set(back[1].environ)
    assert (seat, replace(node, environ=back[1].environ)) == back


def test_a_crew_has_a_description_per_host_and_the_backends_own_variables() -> None:
    stack = stacks.load("cuda")
    seats = [
        replace(preflight.seat_of(rank, 0, cards("cuda", 1), stack, {}), host=f"node{rank % 2}") for rank in (2, 0, 1)
    ]
    nodes = [replace(preflight.this_host(cards("cuda", 1), {"A": str(seat.rank)}), host=seat.host) for seat in seats]
    found = preflight.group_of(stack, "gloo", seats, nodes, 60.0)
    assert [0, 1, 2] == [seat.rank for seat in found.seats]
    assert [("node0", "2"), ("node1", "1")] == [(node.host, node.environ["A"]) for node in found.nodes]
    assert "nccl" not in found.families
    assert "nccl" in preflight.group_of(stack, "nccl", seats, nodes, 60.0).families


def test_ranks_share_a_cpu_as_any_processes_do() -> None:
    found = preflight.local_group(stacks.load("cpu"), "gloo", (0, 0), 60.0)
    assert found.on_host
    assert found.available
    assert preflight.refusals(replace(found, nodes=(replace(found.nodes[0], environ={}),))) == []
