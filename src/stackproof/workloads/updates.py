"""What one optimiser step did, held against what it must do with the very gradients that it was given.

A trajectory cannot be compared so closely: Adam divides a gradient by its own size, so that one whose value is rounding noise steps
the other way on one correct device and not on another, and every later step starts elsewhere.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from stackproof.operators import forms
from stackproof.record.checks import require

_ULPS = 4.0
_EPS = torch.finfo(torch.float32).eps
_SHARE = 3e-5
"""Of a change's terms: CUDA's fused kernels take 1 - beta from beta in float32, 1.3e-5 off with a beta of 0.999."""
_SHARE_TWIN = 1e-3
"""The same where nobody wrote a closed form, and the sizes of terms are not known."""
_HOW: Mapping[str, Any] = {"foreach": False, "fused": False, "capturable": False}

State = dict[str, Any]


def against(optimiser: torch.optim.Optimizer) -> str:
    """Return what its updates are held against, in words; where that is the same Python, a mistake in it is not seen."""
    if written(optimiser):
        return "its closed form"
    name = type(optimiser).__name__
    odd = " with these options" if _of_torch(optimiser) and name in forms.STEPS else ""
    return f"the CPU only: no closed form for {name}{odd}"


def unanchored(optimiser: torch.optim.Optimizer) -> str:
    """Return what a summary of gradients adds where updates are held against the same Python alone."""
    name = type(optimiser).__name__
    return "" if written(optimiser) else f"; updates of {name} compared with {against(optimiser)}"


def _of_torch(optimiser: torch.optim.Optimizer) -> bool:
    return type(optimiser) is getattr(torch.optim, type(optimiser).__name__, None)


def written(optimiser: torch.optim.Optimizer) -> bool:
    """Whether the closed form is written out; somebody's own class of the same name is another optimiser."""
    name = type(optimiser).__name__
    odd = any(
        group.get("maximize") or (name == "Adam" and group.get("decoupled_weight_decay"))
        for group in optimiser.param_groups
    )
    return name in forms.STEPS and _of_torch(optimiser) and not odd


class Update:
    """An optimiser before a step; after it, `share` says how much of its bound the worst number of all, or of some, parameters takes.

    `before`: by the id of each of these parameters, it and what was kept of it, where the step was taken already.
    """

    def __init__(
        self,
        optimiser: torch.optim.Optimizer,
        some: Sequence[torch.Tensor] = (),
        before: Mapping[int, State] | None = None,
    ) -> None:
        self.optimiser, self.name = optimiser, type(optimiser).__name__
        self._parameters = list(some) or [one for group in optimiser.param_groups for one in group["params"]]
        self._options = {id(one): group for group in optimiser.param_groups for one in group["params"]}
        self._before = before or {id(one): self._state(one) for one in self._parameters}

    def share(self) -> float:
        """Hold every parameter that has a gradient, and all that the optimiser keeps of it, against float64.

        Raises:
            CheckFailed: one is further from what the step must give than rounding may bring it.
        """
        given = [one for one in self._parameters if one.grad is not None]
        require(bool(given), f"a step of {self.name}: no parameter has a gradient")
        return max(map(self._judged, given)) if written(self.optimiser) else self._as_its_twin(given)

    @property
    def against(self) -> str:
        """What it is held against, in words."""
        return against(self.optimiser)

    def _state(self, parameter: torch.Tensor, copied: bool = True) -> State:
        """Return a parameter and what the optimiser keeps of it, on the host; in float64 it would take twice the memory."""
        kept = self.optimiser.state.get(parameter, {})
        tensors = {name: value for name, value in kept.items() if torch.is_tensor(value)}
        return {name: on_host(value, copied) for name, value in {"parameter": parameter, **tensors}.items()}

    def _judged(self, parameter: torch.Tensor) -> float:
        options = self._options[id(parameter)]
        before, after = self._before[id(parameter)], self._state(parameter, copied=False)
        gradient, eps = on_host(parameter.grad).ravel(), torch.finfo(parameter.dtype).eps
        worst = dict[str, float]()
        for piece in _pieces(parameter.numel()):
            slope = gradient[piece].astype(np.float64)
            shares = self._shares(_part(before, piece), _part(after, piece), slope, options, eps)
            worst = {what: max(share, worst.get(what, 0.0)) for what, share in shares.items()}
        return self._within(worst, "the closed form")

    def _shares(
        self, before: State, after: State, gradient: Any, options: Mapping[str, Any], eps: float
    ) -> dict[str, float]:
        exact, sizes = forms.STEPS[self.name](before, gradient, options)
        require(
            after.keys() == exact.keys(),
            f"{self.name} keeps {', '.join(sorted(after))}, not {', '.join(sorted(exact))}",
        )
        return {
            what: _share(after[what], exact[what], sizes[what], before.get(what, 0.0), _SHARE, eps) for what in exact
        }

    def _as_its_twin(self, given: list[torch.Tensor]) -> float:
        """Let the same optimiser take the step in float64 on the CPU: another arithmetic and device, the same Python."""
        starts = {id(one): self._before[id(one)]["parameter"].astype(np.float64) for one in given}
        wide = {key: torch.from_numpy(start.copy()).requires_grad_() for key, start in starts.items()}
        twin = copy.copy(self.optimiser)
        twin.param_groups = [
            {
                **group,
                **{key: value for key, value in _HOW.items() if key in group},
                "params": [wide[id(one)] for one in group["params"] if id(one) in wide],
            }
            for group in self.optimiser.param_groups
        ]
        twin.state = defaultdict(dict)
        for one in given:
            twin.state[wide[id(one)]] = self._kept(one)
            wide[id(one)].grad = torch.from_numpy(in_float64(one.grad))
        twin.step()
        worst = 0.0
        for one in given:
            before, after = starts[id(one)], in_float64(one)
            exact = in_float64(wide[id(one)])
            # Terms may cancel in one number; how large they are shows in the others.
            size = np.abs(before) + np.abs(exact) + np.abs(exact - before).max()
            share = _share(after, exact, size, before, _SHARE_TWIN)
            worst = max(worst, self._within({"parameter": share}, "its own step in float64"))
        return worst

    def _kept(self, parameter: torch.Tensor) -> State:
        """Return what the optimiser kept of a parameter before the step, as it wants it; plain numbers are not copied back."""
        kept = {
            name: torch.from_numpy(value.astype(np.float64))
            for name, value in self._before[id(parameter)].items()
            if name != "parameter"
        }
        if not kept:
            return {}
        others = {name: value for name, value in self.optimiser.state[parameter].items() if not torch.is_tensor(value)}
        return {**others, **kept}

    def _within(self, shares: Mapping[str, float], what: str) -> float:
        worst = max(shares, key=lambda name: shares[name])
        require(
            shares[worst] <= 1,
            f"a step of {self.name}: the {worst} is {shares[worst]:.3g} times what rounding may do from {what}",
        )
        return shares[worst]


def _share(found: Any, exact: Any, size: Any, before: Any, change: float, eps: float = _EPS) -> float:
    """Return how much of its bound the worst number takes: some ulp of its terms, and a share of its change."""
    bound = _ULPS * eps * size + change * np.abs(exact - before) + np.finfo(np.float32).tiny
    return float((np.abs(found - exact) / bound).max())


_PIECE = 1 << 14


def _pieces(size: int) -> Iterator[slice]:
    """Yield slices of a flat array whose temporaries stay in a cache: a closed form is made of many, and each number stands alone."""
    for start in range(0, size, _PIECE):
        yield slice(start, start + _PIECE)


def _part(state: State, piece: slice) -> State:
    return {name: (value.ravel()[piece] if value.ndim else value).astype(np.float64) for name, value in state.items()}


def in_float64(tensor: Any) -> Any:
    """Return a copy of a tensor as a NumPy array in float64."""
    return on_host(tensor).astype(np.float64)


def on_host(tensor: Any, copied: bool = False) -> Any:
    """Return a tensor as a NumPy array, of the same dtype where NumPy has it; on the host it is the same memory unless it is copied."""
    host = tensor.detach().to("cpu", copy=copied)
    return (host.float() if host.dtype is torch.bfloat16 else host).numpy()
