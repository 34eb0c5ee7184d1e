"""Several cases in one launch of ranks, which costs seconds: a case that every rank refuses alike does not end the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..numerics import shortened
from .rank import Rank

Case = Callable[[Rank], dict[str, Any]]

_PATIENCE = timedelta(seconds=20)
_RAISED = b"raised"


def conduct(rank: Rank, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Run the cases in order and return what each gave, by name; `error` is what all ranks raised.

    float32 is computed as float32, never as tf32. What only some ranks raise is raised: the others wait for them in a collective.
    """
    results: dict[str, Any] = {}
    for name, case in cases.items():
        rank.phase(name)
        try:
            with shortened(False):
                results[name] = case(rank)
        except Exception as error:
            if not _all_raised(rank, name):
                raise
            results[name] = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"}
        else:
            _store().set(_key(name, rank.rank), "done")
    return results


def _all_raised(rank: Rank, name: str) -> bool:
    """Tell the other ranks and wait a little to hear that they raised too; a rank that waits in a collective never says so."""
    _store().set(_key(name, rank.rank), _RAISED.decode())
    keys = [_key(name, other) for other in range(rank.world_size)]
    try:
        _store().wait(keys, _PATIENCE)
    except RuntimeError:  # torch.distributed.DistStoreError, as it was named later
        return False
    return all(_store().get(key) == _RAISED for key in keys)


def _key(name: str, rank: int) -> str:
    return f"stackproof/{name}/{rank}"


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def keep(rank: Rank, case: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Leave tensors of this rank, as float64 on the CPU, where the checks read them."""
    wide = {name: tensor.detach().cpu().double() for name, tensor in tensors.items()}
    torch.save(wide, rank.folder / f"{case}.rank{rank.rank}.pt")
