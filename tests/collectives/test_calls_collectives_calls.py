"""What each rank must hold, written out by hand for three ranks: peer s has for peer d the number 10 s + d."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from stackproof.collectives.calls import COLLECTIVES

ROOT = 1
# By rank: the numbers of each tensor that it must hold; the fold is a sum.
EXPECTED: dict[str, list[list[float]]] = {
    "all_reduce": [[30], [30], [30]],
    "reduce": [[], [30], []],
    "reduce_scatter": [[30], [33], [36]],
    "reduce_scatter_tensor": [[30], [33], [36]],
    "broadcast": [[10], [10], [10]],
    "all_gather": [[0, 10, 20]] * 3,
    "all_gather_into_tensor": [[0, 10, 20]] * 3,
    "gather": [[], [0, 10, 20], []],
    "scatter": [[10], [11], [12]],
    "all_to_all": [[0, 10, 20], [1, 11, 21], [2, 12, 22]],
    "all_to_all_single": [[0, 10, 20], [1, 11, 21], [2, 12, 22]],
    "send_recv": [[20], [0], [10]],
    "isend_irecv": [[20], [0], [10]],
    "batch_isend_irecv": [[20, 21, 22], [0, 1, 2], [10, 11, 12]],
    "all_reduce_coalesced": [[30, 33, 36]] * 3,
    "all_gather_coalesced": [[0, 1, 2, 10, 11, 12, 20, 21, 22]] * 3,
    "coalescing_all_reduce": [[30, 33, 36]] * 3,
    "coalescing_all_gather": [[0, 10, 20, 1, 11, 21, 2, 12, 22]] * 3,
    "coalescing_reduce_scatter": [[30, 30], [33, 33], [36, 36]],
}


def test_every_collective_has_a_row_here() -> None:
    assert EXPECTED.keys() == COLLECTIVES.keys()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("index", range(3))
def test_each_rank_holds_what_the_definition_says(name: str, index: int) -> None:
    seen = SimpleNamespace(
        sent=lambda source, part: torch.tensor([10.0 * source + part]),
        fold=lambda tensors: torch.stack(tensors).sum(0),
        index=index,
        root=ROOT,
        peers=3,
    )
    found = COLLECTIVES[name].expected(seen)
    assert [value for tensor in found for value in tensor.tolist()] == EXPECTED[name][index]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_function_of_torch_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, tuple[object, ...]]] = []
    for function in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "all_gather"):
        note(monkeypatch, function, called)
    for function in ("all_gather_into_tensor", "gather", "scatter", "all_to_all", "all_to_all_single", "send", "recv"):
        note(monkeypatch, function, called)
    for function in ("isend", "irecv", "batch_isend_irecv", "all_reduce_coalesced", "all_gather_coalesced"):
        note(monkeypatch, function, called)
    monkeypatch.setattr(dist, "P2POp", lambda *arguments: arguments)
    monkeypatch.setattr(dist.distributed_c10d, "_coalescing_manager", Manager)
    one = torch.zeros(2)
    turn = SimpleNamespace(mine=[one, one], out=[one, one], op="op", root=1, peers=(0, 1), index=1)
    turn.group, turn.later, turn.sizes = "group", True, None
    COLLECTIVES[name].call(turn)
    inner = {"coalescing_all_reduce": "all_reduce", "coalescing_all_gather": "all_gather_into_tensor"}
    inner |= {"coalescing_reduce_scatter": "reduce_scatter_tensor", "send_recv": "recv", "isend_irecv": "irecv"}
    first, arguments = called[0]
    assert first == inner.get(name, name)
    assert "group" in map(str, arguments) or name == "batch_isend_irecv"
    assert ("op" in map(str, arguments)) == COLLECTIVES[name].reduces
    rooted = any(argument is turn.root for argument in arguments if isinstance(argument, int))
    assert rooted or not COLLECTIVES[name].rooted


def note(monkeypatch: pytest.MonkeyPatch, function: str, called: list[tuple[str, tuple[object, ...]]]) -> None:
    """Put a double in place of a function that notes its call."""

    def double(*arguments: object, **keywords: object) -> None:
        called.append((function, (*arguments, *keywords.values())))

    monkeypatch.setattr(dist, function, double)


class Manager:
    """Stands in for torch's coalescing manager."""

    def __init__(self, *arguments: object, **keywords: object) -> None: ...

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *arguments: object) -> None: ...
