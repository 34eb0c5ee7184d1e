"""Closed forms: what layers, optimisers and schedules compute, written out from their definitions.

A float64 reference that runs the same Python as what it judges cannot see what is wrong in that Python. Nothing here calls anybody's
layers: plain arithmetic on arrays, of NumPy or, where `xp` says so, of torch on a device. Every function gives float64 for float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "np.ndarray[Any, Any]"
Floats = npt.NDArray[np.float64]


def attention(query: Any, key: Any, value: Any, cotangent: Any | None, xp: Any = np) -> dict[str, tuple[Any, Any]]:
    """Return causal softmax(q k' / sqrt(width)) v and, with a cotangent, the gradients, (..., length, width) each.

    With each comes a scale, (..., length): the size that a row's terms have before anything cancels. Scores must be small enough for
    exp, as those of normal random numbers are.
    """
    width = query.shape[-1]
    weights = xp.tril(xp.exp(query @ key.swapaxes(-1, -2) / width**0.5))
    weights = weights / weights.sum(-1)[..., None]
    square = weights * weights
    output = weights @ value
    groups = {"output": (output, _size(square, value))}
    if cotangent is None:
        return groups
    slope = cotangent @ value.swapaxes(-1, -2)
    mean = (cotangent * output).sum(-1)[..., None]
    moved = weights * (slope - mean) / width**0.5
    terms = square * (slope * slope + mean * mean) / width
    groups["query"] = (moved @ key, _size(terms, key))
    groups["key"] = (moved.swapaxes(-1, -2) @ query, _size(terms.swapaxes(-1, -2), query))
    groups["value"] = (weights.swapaxes(-1, -2) @ cotangent, _size(square.swapaxes(-1, -2), cotangent))
    return groups


def _size(squares: Any, vectors: Any) -> Any:
    """Return sqrt(sum of squares x |vector|^2) of each row."""
    return ((squares @ (vectors * vectors).sum(-1)[..., None])[..., 0]) ** 0.5


# ---- optimisers: one step of one parameter. Each returns the new state, which holds the parameter, and by the same names how large the
# terms are that were added up to it


State = dict[str, Any]


def sgd(state: State, gradient: Floats, options: Mapping[str, Any]) -> tuple[State, State]:
    """Stochastic gradient descent with momentum b <- mu b + g, where g holds the decay (Sutskever et al., 2013, as torch writes it)."""
    old, rate, momentum, decay = (state["parameter"], *(options[name] for name in ("lr", "momentum", "weight_decay")))
    slope, size = gradient + decay * old, np.abs(gradient) + decay * np.abs(old)
    if not momentum:
        return {"parameter": old - rate * slope}, {"parameter": np.abs(old) + rate * size}
    first = "momentum_buffer" not in state
    kept = slope if first else momentum * state["momentum_buffer"] + (1 - options["dampening"]) * slope
    kept_size = size if first else momentum * np.abs(state["momentum_buffer"]) + size
    step, reach = (slope + momentum * kept, size + momentum * kept_size) if options["nesterov"] else (kept, kept_size)
    new = {"parameter": old - rate * step, "momentum_buffer": kept}
    return new, {"parameter": np.abs(old) + rate * reach, "momentum_buffer": kept_size}


def adam(state: State, gradient: Floats, options: Mapping[str, Any], *, decoupled: bool = False) -> tuple[State, State]:
    """Adam (Kingma and Ba, 2015), or with decoupled decay AdamW: p <- (1 - lr decay) p, once (Loshchilov and Hutter, 2019)."""
    rate, (first, second), decay = options["lr"], options["betas"], options["weight_decay"]
    old, count = state["parameter"], float(state.get("step", 0.0)) + 1
    slope = gradient if decoupled else gradient + decay * old
    terms = np.abs(gradient) + (0.0 if decoupled else decay * np.abs(old))
    mean = first * state.get("exp_avg", 0.0) + (1 - first) * slope
    reach = first * np.abs(state.get("exp_avg", 0.0)) + (1 - first) * terms
    square = second * state.get("exp_avg_sq", 0.0) + (1 - second) * slope**2
    squares = second * state.get("exp_avg_sq", 0.0) + (1 - second) * terms**2
    new: State = {"step": np.asarray(count), "exp_avg": mean, "exp_avg_sq": square}
    sizes: State = {"step": np.asarray(count), "exp_avg": reach, "exp_avg_sq": squares}
    largest = square
    if options.get("amsgrad"):
        largest = new["max_exp_avg_sq"] = np.maximum(state.get("max_exp_avg_sq", 0.0), square)
        sizes["max_exp_avg_sq"] = np.maximum(largest, squares)
    root = np.sqrt(largest / (1 - second**count)) + options["eps"]
    kept = old * (1 - rate * decay) if decoupled else old
    new["parameter"] = kept - rate * mean / (1 - first**count) / root
    sizes["parameter"] = np.abs(old) + rate * reach / (1 - first**count) / root
    return new, sizes


def adamw(state: State, gradient: Floats, options: Mapping[str, Any]) -> tuple[State, State]:
    return adam(state, gradient, options, decoupled=True)


STEPS = {"SGD": sgd, "Adam": adam, "AdamW": adamw}
"""By the name of torch's class."""


# ---- layers


def rms_norm(values: Floats, weight: Any, small: float, axes: int | tuple[int, ...] = -1) -> Floats:
    """Divide rows, or what `axes` span, by their root mean square (Zhang and Sennrich, 2019)."""
    array: Floats = values / np.sqrt((values**2).mean(axes, keepdims=True) + small) * weight
    return array


def rotary(values: Floats, base: float) -> Floats:
    """Turn (..., length, width) by its places (Su et al., 2021), in Llama's order: dimension i goes with i + width / 2.

    The pair (a, b) at place m becomes (a cos - b sin, b cos + a sin) of the angle m base^(-2 i / width).
    """
    length, width = values.shape[-2:]
    half = width // 2
    angle = np.arange(length)[:, None] * base ** (-2.0 * np.arange(half) / width)
    first, second = values[..., :half], values[..., half:]
    return np.concatenate(
        [first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)], -1
    )


def silu(values: Floats) -> Floats:
    """Return x / (1 + e^-x)."""
    array: Floats = values / (1 + np.exp(-values))
    return array


def softmax(array: Floats, axis: int) -> Floats:
    """e^x by its sum."""
    powers = np.exp(array - array.max(axis, keepdims=True))
    result: Floats = powers / powers.sum(axis, keepdims=True)
    return result


def cross_entropy(scores: Floats, labels: npt.NDArray[np.int64]) -> tuple[float, Floats]:
    """Return the mean of -log softmax at the labels, and its gradient."""
    shifted = scores - scores.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    rows = np.arange(len(labels))
    slope = np.exp(logs)
    slope[rows, labels] -= 1
    return float(-logs[rows, labels].mean()), slope / len(labels)


# ---- a language model of Llama's kind, from these


def decoder(
    tokens: npt.NDArray[np.int64], weights: Mapping[str, Floats], config: Mapping[str, Any], scaling: float
) -> Floats:
    """Return the logits (length, vocabulary) of one sequence: Llama, or Qwen3 where heads have norms of their own, with adapters.

    Weights go by transformers' names, and adapters add `scaling` B A to a layer's matrix.
    """

    def linear(values: Floats, name: str) -> Floats:
        array = values @ weights[f"{name}.base_layer.weight"].T
        return (
            array
            + scaling
            * (values @ weights[f"{name}.lora_A.default.weight"].T)
            @ weights[f"{name}.lora_B.default.weight"].T
        )

    heads, groups, small = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    width = config.get("head_dim", config["hidden_size"] // heads)
    hidden = weights["model.embed_tokens.weight"][tokens]

    def split(values: Floats, count: int, norm: str) -> Floats:
        parts = values.reshape(len(tokens), count, width)
        parts = rms_norm(parts, weights[norm], small) if norm in weights else parts
        return parts.swapaxes(0, 1)

    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        normal = rms_norm(hidden, weights[f"{at}.input_layernorm.weight"], small)
        own = f"{at}.self_attn"
        query = rotary(split(linear(normal, f"{own}.q_proj"), heads, f"{own}.q_norm.weight"), config["rope_theta"])
        key = rotary(split(linear(normal, f"{own}.k_proj"), groups, f"{own}.k_norm.weight"), config["rope_theta"])
        value = split(linear(normal, f"{own}.v_proj"), groups, "")
        key, value = (part.repeat(heads // groups, axis=0) for part in (key, value))
        mixed = attention(query, key, value, None)["output"][0].swapaxes(0, 1).reshape(len(tokens), -1)
        hidden = hidden + linear(mixed, f"{own}.o_proj")
        normal = rms_norm(hidden, weights[f"{at}.post_attention_layernorm.weight"], small)
        gated = silu(linear(normal, f"{at}.mlp.gate_proj")) * linear(normal, f"{at}.mlp.up_proj")
        hidden = hidden + linear(gated, f"{at}.mlp.down_proj")
    last = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return rms_norm(hidden, weights["model.norm.weight"], small) @ last.T
