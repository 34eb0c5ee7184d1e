"""An update is held against what its optimiser must make of the gradients, whatever the trajectory does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stackproof.record.checks import CheckFailed
from stackproof.workloads.training import Update

OPTIMISERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "Adam": lambda given: torch.optim.Adam(given, lr=1e-2, amsgrad=True),
    "AdamW": lambda given: torch.optim.AdamW(given, lr=1e-2),
    "maximising AdamW": lambda given: torch.optim.AdamW(given, lr=1e-2, maximize=True),
    "RMSprop": lambda given: torch.optim.RMSprop(given, lr=1e-2, momentum=0.5),
    "NAdam": lambda given: torch.optim.NAdam(given, lr=1e-2),
    "Adagrad": lambda given: torch.optim.Adagrad(given, lr=1e-2),
    "Adamax": lambda given: torch.optim.Adamax(given, lr=1e-2),
}


def stepped(name: str, spoil: Callable[[torch.optim.Optimizer], None] = lambda _: None) -> list[float]:
    """Take three steps with drawn gradients, one parameter of noise alone; return the shares."""
    dice = torch.Generator().manual_seed(3)
    given = [torch.nn.Parameter(torch.randn(shape, generator=dice)) for shape in ((7, 5), (11,), (3, 3))]
    optimiser, shares = OPTIMISERS[name](given), []
    for _ in range(3):
        for one, size in zip(given, (1.0, 1e-9, 1e3), strict=True):
            one.grad = size * torch.randn(one.shape, generator=dice)
        update = Update(optimiser)
        optimiser.step()
        spoil(optimiser)
        shares.append(update.share())
    return shares


@pytest.mark.parametrize("name", OPTIMISERS)
def test_correct_steps_are_within(name: str) -> None:
    assert max(stepped(name)) < 1


@pytest.mark.parametrize(("place", "factor"), [(2, 1 + 1e-4), (0, math.nan)])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step_that_is_a_little_too_long_or_no_number_is_seen(name: str, place: int, factor: float) -> None:
    def spoil(optimiser: torch.optim.Optimizer) -> None:
        optimiser.param_groups[0]["params"][place].data.mul_(factor)

    with pytest.raises(CheckFailed, match="times what rounding may do from"):
        stepped(name, spoil)


@pytest.mark.parametrize("where", [0, 70_000, 199_999])
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_any_number_of_a_large_parameter_is_held(name: str, where: int) -> None:
    parameter = torch.nn.Parameter(torch.linspace(1, 2, 200_000).reshape(2, 100_000))
    optimiser = OPTIMISERS[name]([parameter])
    for spoilt in (False, True):
        parameter.grad = torch.linspace(-1, 1, 200_000).reshape(2, 100_000)
        update = Update(optimiser)
        optimiser.step()
        if spoilt:
            parameter.data.view(-1)[where] *= 1.001
            with pytest.raises(CheckFailed, match="the parameter is .* times what rounding may do"):
                update.share()
        else:
            assert update.share() < 1


def test_a_state_that_is_wrong_is_seen_before_it_matters() -> None:
    def spoil(optimiser: torch.optim.Optimizer) -> None:
        for state in optimiser.state.values():
            state["exp_avg_sq"].mul_(1.001)

    with pytest.raises(CheckFailed, match="a step of AdamW: the exp_avg_sq is"):
        stepped("AdamW", spoil)


class Mine(torch.optim.SGD):
    """Somebody's own optimiser, whose arithmetic is wrong by a hundredth on every device alike."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for one in group["params"]:
                one.data -= 1.01 * group["lr"] * one.grad


def test_what_an_update_was_held_against_is_said() -> None:
    given = [torch.nn.Parameter(torch.ones(3))]
    given[0].grad = torch.ones(3)
    own = Mine(given, lr=0.1)
    update = Update(own)
    own.step()
    assert update.share() < 1 and update.against == "the CPU only: no closed form for Mine"
    assert Update(torch.optim.SGD(given, lr=0.1)).against == "its closed form"
    assert Update(torch.optim.RMSprop(given)).against.endswith("no closed form for RMSprop")
    turned = Update(torch.optim.AdamW(given, maximize=True)).against
    assert turned.endswith("no closed form for AdamW with these options")


def test_a_step_without_gradients_is_none() -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    update = Update(optimiser)
    optimiser.step()
    with pytest.raises(CheckFailed, match="no parameter has a gradient"):
        update.share()
