"""What one optimiser step did, held against what it must do with the very gradients that it was given.

A trajectory cannot be compared so closely: Adam divides a gradient by its own size, so that one whose value is rounding noise steps
the other way on one correct device and not on another, and every later step starts elsewhere.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from stackproof.operators import forms
from stackproof.record.checks import require

_ULPS = 4.0
_SHARE = 3e-5
"""Of a change's terms: CUDA's fused kernels take 1 - beta from beta in float32, 1.3e-5 off with a beta of 0.999."""
_SHARE_TWIN = 1e-3
"""The same where nobody wrote a closed form, and the sizes of terms are not known."""
_HOW = ("foreach", "fused", "capturable")

State = dict[str, Any]


class Update:
    """An optimiser before a step; after it, `share` says how much of its bound the worst number of all, or of some, parameters takes.

    SGD, Adam and AdamW have closed forms. Any other takes the same step in float64 on the CPU: another arithmetic and device, the same
    Python, in which a mistake is not seen. `against` says which.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, some: Sequence[torch.Tensor] = ()) -> None:
        self.optimiser, self.name = optimiser, type(optimiser).__name__
        self._parameters = list(some) or [item for group in optimiser.param_groups for item in group["params"]]
        self._options = {id(item): group for group in optimiser.param_groups for item in group["params"]}
        own = type(optimiser) is not getattr(torch.optim, self.name, None)
        odd = any(
            group.get("maximize") or (self.name == "Adam" and group.get("decoupled_weight_decay"))
            for group in optimiser.param_groups
        )
        self._written = self.name in forms.STEPS and not own and not odd
        with_options = " with these options" if odd else ""
        self.against = (
            "its closed form" if self._written else f"the CPU only: no closed form for {self.name}{with_options}"
        )
        self._before = {id(parameter): self._state(parameter) for parameter in self._parameters}

    def share(self) -> float:
        """Hold every parameter that has a gradient, and all that the optimiser keeps of it, against float64.

        Raises:
            CheckFailed: one is further from what the step must give than rounding may bring it.
        """
        tensors = [parameter for parameter in self._parameters if parameter.grad is not None]
        require(bool(tensors), f"a step of {self.name}: no parameter has a gradient")
        allowed, worst = _SHARE if self._written else _SHARE_TWIN, State()
        for tensor, (exact, sizes) in zip(tensors, self._exact(tensors), strict=True):
            before, eps = self._before[id(tensor)], torch.finfo(tensor.dtype).eps
            after = {name: value for name, value in self._state(tensor).items() if isinstance(value, np.ndarray)}
            require(
                after.keys() == exact.keys(),
                f"{self.name} keeps {', '.join(sorted(after))}, not {', '.join(sorted(exact))}",
            )
            for what, value in exact.items():
                bound = _ULPS * eps * sizes[what] + allowed * np.abs(value - before.get(what, 0.0))
                shares = np.abs(after[what] - value) / (bound + np.finfo(np.float32).tiny)
                share = float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0))
                worst[what] = max(share, worst.get(what, 0.0))
        most = max(worst, key=lambda what: float(worst[what]))
        require(
            worst[most] <= 1,
            f"a step of {self.name}: the {most} is {worst[most]:.3g} times what rounding may do from {self.against}",
        )
        return float(worst[most])

    def _state(self, parameter: torch.Tensor) -> State:
        """Return a parameter and what the optimiser keeps of it; tensors in float64 on the host."""
        kept = {"parameter": parameter, **self.optimiser.state.get(parameter, {})}
        return {name: in_float64(value) if torch.is_tensor(value) else value for name, value in kept.items()}

    def _exact(self, given: list[torch.Tensor]) -> Iterator[tuple[State, State]]:
        """Yield what the step must make of each parameter and its state, and how large the terms are that it adds up."""
        if self._written:
            for one in given:
                yield forms.STEPS[self.name](self._before[id(one)], in_float64(one.grad), self._options[id(one)])
            return
        starts = {
            id(one): {
                name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else copy.copy(value)
                for name, value in self._before[id(one)].items()
            }
            for one in given
        }
        wide = {key: start.pop("parameter").requires_grad_() for key, start in starts.items()}
        twin = copy.copy(self.optimiser)
        twin.param_groups = [
            {
                **group,
                **{key: False for key in _HOW if key in group},
                "params": [wide[id(one)] for one in group["params"] if id(one) in wide],
            }
            for group in self.optimiser.param_groups
        ]
        twin.state = defaultdict(dict, {wide[key]: start for key, start in starts.items() if start})
        for one in given:
            wide[id(one)].grad = torch.from_numpy(in_float64(one.grad))
        twin.step()
        for one in given:
            kept = {"parameter": wide[id(one)], **twin.state.get(wide[id(one)], {})}
            exact = {name: in_float64(value) for name, value in kept.items() if torch.is_tensor(value)}
            moved = {name: np.abs(value - self._before[id(one)].get(name, 0.0)) for name, value in exact.items()}
            # Terms may cancel in one number; how large they are shows in the others.
            yield exact, {name: 2 * np.abs(value) + 2 * moved[name].max(initial=0.0) for name, value in exact.items()}


def in_float64(tensor: Any) -> Any:
    """Return a copy of a tensor as a NumPy array in float64, made on the host: not every card has it."""
    return tensor.detach().cpu().to(torch.float64, copy=True).numpy()
