"""Dtypes: a planted fault of each kind turns a relation red, and none does without one (`test_engine` has what they share)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from stackproof.device.devices import HOST
from stackproof.operators import engine
from stackproof.operators.database import preserved


class _Wrong:
    """An operator of the database that is wrong where a condition on its arguments holds."""

    def __init__(self, op: Any, when: Any) -> None:
        self.op, self.when = op, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        kinds = [leaf.dtype for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        result = self.op(*arguments, **options)
        return result + 1 if self.when(kinds, options, result) else result


_CASES: dict[str, tuple[str, Any]] = {
    "dtype=*": ("sum", lambda kinds, options, _: kinds == [torch.float32] and "dtype" in options),
    "argument 1 of float64": ("add", lambda kinds, *_: set(kinds) == {torch.float32, torch.float64}),
    "* numbers as int64": ("floor_divide", lambda kinds, *_: kinds[0] is torch.int8),
    "drawn numbers as float64": ("cumsum", lambda kinds, *_: kinds[0] is torch.int32),
    "under autocast": ("tanh", lambda *_: torch.is_autocast_enabled("cpu")),
    "of no dimension as of one": ("exp", lambda _kinds, _options, result: result.dim() == 0),
}


@pytest.mark.parametrize("says", _CASES)
def test_each_relation_is_seen_red_and_green(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    name, when = _CASES[says]
    judge = "parts" if "joined" in says else "dtypes"

    def red() -> set[str]:
        return {relation.says for _, relation, _ in engine.faults(judge, name, HOST.torch)}

    with preserved():
        assert red() == set()
        monkeypatch.setitem(engine.database(), name, _Wrong(engine.database()[name], when))
        assert any(engine.matches(words, (says,)) for words in red())


def test_a_cast_that_cuts_before_it_asks_for_zero_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def red() -> set[str]:
        return {relation.says for _, relation, _ in engine.faults("casts", "to", HOST.torch)}

    with preserved():
        assert red() == set()
        own = torch.Tensor.to

        def cut(x: torch.Tensor, *into: Any, **more: Any) -> torch.Tensor:
            return own(x.trunc() if x.is_floating_point() and into[0] is torch.bool else x, *into, **more)

        monkeypatch.setattr(torch.Tensor, "to", cut)
        assert red() == {"to bool"}
