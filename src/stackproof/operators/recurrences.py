"""Closed forms of torch's optimisers besides SGD and Adam (`forms`): one step of one parameter, from the papers' recurrences.

Each takes the state, which holds the parameter, a gradient and the options of its group, and returns the new state by torch's own names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stackproof.operators import forms
from stackproof.operators.forms import Floats, State

Options = Mapping[str, Any]


def _decayed(state: State, gradient: Floats, options: Options) -> Floats:
    """Return the gradient with the decay of weights added."""
    found: Floats = gradient + options["weight_decay"] * state["parameter"]
    return found


def _count(state: State) -> float:
    return float(state.get("step", 0.0)) + 1


def _moments(state: State, slope: Floats, options: Options) -> tuple[Floats, Floats]:
    """Return the running means of the gradient and of its square."""
    first, second = options["betas"]
    mean = first * state.get("exp_avg", 0.0) + (1 - first) * slope
    square = second * state.get("exp_avg_sq", 0.0) + (1 - second) * slope**2
    return mean, square


def _shrunk(state: State, gradient: Floats, options: Options) -> tuple[Floats, Floats]:
    """Return the parameter and the gradient after decay, which is decoupled where the options say so."""
    if not options.get("decoupled_weight_decay"):
        return state["parameter"], _decayed(state, gradient, options)
    return state["parameter"] * (1 - options["lr"] * options["weight_decay"]), gradient


def adagrad(state: State, gradient: Floats, options: Options) -> State:
    """Divide by the root of the sum of squares (Duchi et al., 2011)."""
    slope, count = _decayed(state, gradient, options), _count(state)
    total: Any = state.get("sum", float(options["initial_accumulator_value"])) + slope**2
    rate = options["lr"] / (1 + (count - 1) * options["lr_decay"])
    new = state["parameter"] - rate * slope / (np.sqrt(total) + options["eps"])
    return {"parameter": new, "step": np.asarray(count), "sum": total}


def adadelta(state: State, gradient: Floats, options: Options) -> State:
    """Step by the ratio of two running roots of squares (Zeiler, 2012)."""
    slope, kept, small = _decayed(state, gradient, options), options["rho"], options["eps"]
    square = kept * state.get("square_avg", 0.0) + (1 - kept) * slope**2
    moved = state.get("acc_delta", np.zeros_like(slope))
    change = np.sqrt(moved + small) / np.sqrt(square + small) * slope
    return {
        "parameter": state["parameter"] - options["lr"] * change,
        "step": np.asarray(_count(state)),
        "square_avg": square,
        "acc_delta": kept * moved + (1 - kept) * change**2,
    }


def adamax(state: State, gradient: Floats, options: Options) -> State:
    """Adam with the largest gradient, decayed, in place of the root of squares (Kingma and Ba, 2015)."""
    slope, count, (first, second) = _decayed(state, gradient, options), _count(state), options["betas"]
    mean, _ = _moments(state, slope, options)
    largest = np.maximum(second * state.get("exp_inf", 0.0), np.abs(slope) + options["eps"])
    new = state["parameter"] - options["lr"] / (1 - first**count) * mean / largest
    return {"parameter": new, "step": np.asarray(count), "exp_avg": mean, "exp_inf": largest}


def nadam(state: State, gradient: Floats, options: Options) -> State:
    """Adam with Nesterov's momentum, which rises by a schedule (Dozat, 2016)."""
    old, slope = _shrunk(state, gradient, options)
    count, (first, second) = _count(state), options["betas"]
    now, later = (first * (1 - 0.96 ** (one * options["momentum_decay"]) / 2) for one in (count, count + 1))
    product = state.get("mu_product", 1.0) * now
    mean, square = _moments(state, slope, options)
    root = np.sqrt(square / (1 - second**count)) + options["eps"]
    step = (1 - now) / (1 - product) * slope + later / (1 - product * later) * mean
    return {
        "parameter": old - options["lr"] * step / root,
        "step": np.asarray(count),
        "mu_product": np.asarray(product),
        "exp_avg": mean,
        "exp_avg_sq": square,
    }


def radam(state: State, gradient: Floats, options: Options) -> State:
    """Adam whose adaptive rate waits until its variance can be told, and is rectified then (Liu et al., 2020)."""
    old, slope = _shrunk(state, gradient, options)
    count, (first, second) = _count(state), options["betas"]
    mean, square = _moments(state, slope, options)
    most = 2 / (1 - second) - 1
    length = most - 2 * count * second**count / (1 - second**count)
    step = mean / (1 - first**count)
    if length > 5:
        rectified = np.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
        step = step * rectified * np.sqrt(1 - second**count) / (np.sqrt(square) + options["eps"])
    return {
        "parameter": old - options["lr"] * step,
        "step": np.asarray(count),
        "exp_avg": mean,
        "exp_avg_sq": square,
    }


def rmsprop(state: State, gradient: Floats, options: Options) -> State:
    """Divide by the running root of squares, or of the variance, with momentum after that (Hinton, 2012; Graves, 2013)."""
    slope, kept = _decayed(state, gradient, options), options["alpha"]
    new: State = {"step": np.asarray(_count(state))}
    square = new["square_avg"] = kept * state.get("square_avg", 0.0) + (1 - kept) * slope**2
    if options["centered"]:
        new["grad_avg"] = kept * state.get("grad_avg", 0.0) + (1 - kept) * slope
        square = square - new["grad_avg"] ** 2
    step = slope / (np.sqrt(square) + options["eps"])
    if options["momentum"]:
        step = new["momentum_buffer"] = options["momentum"] * state.get("momentum_buffer", 0.0) + step
    return {**new, "parameter": state["parameter"] - options["lr"] * step}


def asgd(state: State, gradient: Floats, options: Options) -> State:
    """Descend at a falling rate, and average the parameters from t0 on (Polyak and Juditsky, 1992)."""
    slope, count = _decayed(state, gradient, options), _count(state)
    rate, share = (float(state.get(name, first)) for name, first in (("eta", float(options["lr"])), ("mu", 1.0)))
    new = state["parameter"] * (1 - options["lambd"] * rate) - rate * slope
    mean = state.get("ax", np.zeros_like(new))
    falling = options["lr"] / (1 + options["lambd"] * options["lr"] * count) ** options["alpha"]
    return {
        "parameter": new,
        "step": np.asarray(count),
        "eta": np.asarray(falling),
        "mu": np.asarray(1 / max(1.0, count - options["t0"])),
        "ax": mean + share * (new - mean),
    }


def rprop(state: State, gradient: Floats, options: Options) -> State:
    """Step by sign; each number's own step grows while its sign stays and shrinks when it turns (Riedmiller and Braun, 1993)."""
    (down, up), (least, most) = options["etas"], options["step_sizes"]
    turned = np.sign(gradient * state.get("prev", 0.0))
    factor = np.where(turned > 0, up, np.where(turned < 0, down, 1.0))
    size = np.clip(state.get("step_size", float(options["lr"])) * factor, least, most)
    slope = np.where(turned < 0, 0.0, gradient)
    return {
        "parameter": state["parameter"] - np.sign(slope) * size,
        "step": np.asarray(_count(state)),
        "prev": slope,
        "step_size": size,
    }


def adafactor(state: State, gradient: Floats, options: Options) -> State:
    """Adam's second moment from those of rows and columns alone, and steps relative to the parameter (Shazeer and Stern, 2018)."""
    count, old = _count(state), state["parameter"]
    share, (small, least) = count ** options["beta2_decay"], options["eps"]
    rate = max(least, float(np.sqrt((old**2).mean()))) * min(options["lr"], count**-0.5)
    new: State = {"step": np.asarray(count)}

    def running(name: str, value: Floats) -> Floats:
        new[name] = state.get(name, 0.0) + share * (value - state.get(name, 0.0))
        found: Floats = new[name]
        return found

    if gradient.ndim > 1:
        rows = running("row_var", (gradient**2).mean(-1, keepdims=True))
        columns = running("col_var", (gradient**2).mean(-2, keepdims=True))
        square = rows * columns / np.maximum(rows.mean(-2, keepdims=True), small)
    else:
        square = running("variance", gradient**2)
    step = gradient / np.sqrt(np.maximum(square, small**2))
    held = max(1.0, float(np.sqrt((step**2).mean())) / options["d"])
    return {**new, "parameter": old * (1 - options["lr"] * options["weight_decay"]) - rate / held * step}


def _known(name: str) -> Callable[[State, Floats, Options], State]:
    return lambda state, gradient, options: forms.STEPS[name](state, gradient, options)[0]


RECURRENCES: Mapping[str, Callable[[State, Floats, Options], State]] = {
    **{name: _known(name) for name in forms.STEPS},
    "Adagrad": adagrad,
    "Adadelta": adadelta,
    "Adamax": adamax,
    "NAdam": nadam,
    "RAdam": radam,
    "RMSprop": rmsprop,
    "ASGD": asgd,
    "Rprop": rprop,
    "Adafactor": adafactor,
}
"""By the name of torch's class."""


def quasi_newton(slope: Callable[[Floats], Floats], start: Floats, rate: float, history: int, steps: int) -> Floats:
    """Return where L-BFGS ends without a line search, by the recursion of two loops (Liu and Nocedal, 1989).

    As torch does it, the first step is no longer than `rate` by the sum of the gradient's sizes.
    """
    place, gradient = start, slope(start)
    moves: list[tuple[Floats, Floats]] = []
    for step in range(steps):
        towards, shares = gradient, []
        for moved, turned in reversed(moves):
            shares.append(moved @ towards / (moved @ turned))
            towards = towards - shares[-1] * turned
        if moves:
            moved, turned = moves[-1]
            towards = towards * (moved @ turned) / (turned @ turned)
        for (moved, turned), share in zip(moves, reversed(shares), strict=True):
            towards = towards + moved * (share - turned @ towards / (moved @ turned))
        length = rate * (min(1.0, 1 / float(np.abs(gradient).sum())) if step == 0 else 1.0)
        moved, before = -length * towards, gradient
        place = place + moved
        gradient = slope(place)
        moves = [*moves, (moved, gradient - before)][-history:]
    return place
