"""A restored schedule goes on as one that was never left, whether it was made before or after its optimiser was restored."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.optim import lr_scheduler

from stackproof.operators.points import OperatorPoint
from stackproof.operators.relation import Relation

WHAT = "resumed is gone on"
DTYPES = (torch.float32,)
_ARGUMENTS: dict[str, Any] = {
    "lr_lambda": lambda step: 0.9**step, "step_size": 2, "milestones": [2, 4], "gamma": 0.5, "T_max": 5, "T_0": 3, "total_iters": 5,
    "max_lr": 0.3, "base_lr": 0.01, "total_steps": 12, "step_size_up": 3, "cycle_momentum": False, "verbose": None,
}  # fmt: skip
"""By the names of the constructors' parameters, so that a new schedule needs none of its own."""
_LEFT, _STEPS = 3, 7


def _two(optimiser: Any) -> list[Any]:
    return [lr_scheduler.ConstantLR(optimiser, 1.0, 1), lr_scheduler.ExponentialLR(optimiser, 0.9)]


def subjects() -> Mapping[str, Callable[[Any], Any]]:
    """Return how to make each schedule of this torch; chained ones from two others."""
    schedules: dict[str, Callable[[Any], Any]] = {}
    for name, kind in vars(lr_scheduler).items():
        plain = inspect.isclass(kind) and issubclass(kind, lr_scheduler.LRScheduler) and not name.startswith("_")
        if not plain or name in ("LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"):
            continue
        named = {key: _ARGUMENTS[key] for key in inspect.signature(kind).parameters if _ARGUMENTS.get(key) is not None}
        schedules[name] = partial(kind, **named)
    schedules["SequentialLR"] = lambda optimiser: lr_scheduler.SequentialLR(optimiser, _two(optimiser), [2])
    schedules["ChainedScheduler"] = lambda optimiser: lr_scheduler.ChainedScheduler(_two(optimiser))
    return schedules


def relations(point: OperatorPoint) -> Iterator[Relation]:
    """Yield a schedule that is left after a few steps and taken up again in either order."""

    def start(parameter: torch.Tensor, rate: Any) -> Any:
        optimiser = torch.optim.SGD([parameter.clone().requires_grad_()], lr=rate)
        return optimiser, point.op(optimiser)

    def advance(pair: Any, steps: int) -> list[float]:
        rates = []
        for _ in range(steps):
            pair[0].step()
            pair[1].step()
            rates.append(float(pair[0].param_groups[0]["lr"]))
        return rates

    def resumed(parameter: torch.Tensor, late: bool, left: bool = True, rate: Any = 0.1) -> torch.Tensor:
        """Return the rates from the third step on; `late`: the schedule is made for an optimiser that has its state already."""
        pair = start(parameter, rate)
        advance(pair, _LEFT)
        if left:
            states = copy.deepcopy((pair[0].state_dict(), pair[1].state_dict()))
            optimiser = torch.optim.SGD([parameter.clone().requires_grad_()], lr=0.1)
            early = None if late else point.op(optimiser)
            optimiser.load_state_dict(states[0])
            pair = optimiser, early or point.op(optimiser)
            pair[1].load_state_dict(states[1])
        return torch.tensor(advance(pair, _STEPS), dtype=torch.float64)

    code = "# state_dict() of optimiser and schedule after three steps, loaded into new ones; rates from then on\nfirst = second = None"
    for says, way, tolerance in (
        ("made before its optimiser was restored", partial(resumed, late=False), 1e-9),
        ("made after its optimiser was restored", partial(resumed, late=True), 1e-9),
        ("with a rate that is a tensor", partial(resumed, late=False, left=False, rate=torch.tensor(0.1)), 1e-6),
    ):
        inputs = (torch.ones(2, device=point.device),)
        yield Relation(says, inputs, {}, way, partial(resumed, late=False, left=False), code, tolerance=tolerance)
