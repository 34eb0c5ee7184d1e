"""Language models by the other ways in which transformers computes them, against closed forms in NumPy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from stackproof.base import places
from stackproof.device.devices import HOST
from stackproof.operators import forms
from stackproof.operators.forms import Array
from stackproof.record.checks import CapabilityMissing, require
from stackproof.record.records import Figure
from stackproof.workloads.base import Job
from stackproof.workloads.catalogue import taking_part
from suites.common import SEED, possible

_EXACT = 1e-6
"""How closely two ways through float64 agree (transformers keeps the rotary embedding's frequencies in float32)."""
_PADDING = 3
_RULE = places.table("workloads.toml")
_IGNORED, _TOKENS = -100, 1000


def _job(name: str) -> Job:
    return possible(name).build(HOST.torch, "tiny", SEED, torch.float64)


def _base(job: Job) -> Any:
    """Return transformers' model below peft's."""
    return job.model.get_base_model()  # type: ignore[operator]


def _compare(actual: torch.Tensor, exact: Array, what: str) -> float:
    off = float(np.abs(actual.detach().numpy() - exact).max() / np.abs(exact).max())
    require(off <= _EXACT, f"{what} are {off:.2g} from the closed form, {_EXACT} is allowed")
    return off


@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_ways(name: str, figures: dict[str, Figure]) -> None:
    """Logits token by token from a cache, and of padded sequences in one batch, are the closed form's."""
    job = _job(name)
    exact = [job.closed_form(index)[0] for index in range(2)]
    tokens = [job.batches[index]["tokens"] for index in range(2)]
    job.model.eval()  # checkpointing, which training asks for, keeps no cache
    with torch.no_grad():
        for side in ("left", "right"):
            logits = _padded(job, tokens, side)
            what = f"{name}: logits of a batch padded on the {side}"
            figures[f"padded on the {side}"] = max(
                _compare(actual, value, what) for actual, value in zip(logits, exact, strict=True)
            )
        figures["from a cache"] = _compare(_cached(job, tokens[0]), exact[0], f"{name}: logits from a cache")
    figures["summary"] = "logits from a cache and in a padded batch are the closed form's"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_written(name: str, figures: dict[str, Figure]) -> None:
    """Logits with attention written out, as where no kernel serves it, are the closed form's."""
    job = _job(name)
    if not hasattr(_base(job), "set_attn_implementation"):
        raise CapabilityMissing(f"{_RULE}: this release of transformers chooses attention when it builds a model")
    _base(job).set_attn_implementation("eager")
    with torch.no_grad():
        logits = job.model(input_ids=job.batches[0]["tokens"], use_cache=False).logits[0]
    figures["worst"] = worst = _compare(logits, job.closed_form(0)[0], f"{name}: logits with attention written out")
    figures["summary"] = f"logits with attention written out are {worst:.1e} from the closed form"


def _padded(job: Job, tokens: list[torch.Tensor], side: str) -> list[torch.Tensor]:
    """Return the logits of sequences that stand in one batch, all filled up on one side."""
    longest = max(ids.shape[1] for ids in tokens) + _PADDING
    batch = torch.ones(len(tokens), longest, dtype=torch.int64)
    mask = torch.zeros_like(batch)
    places_of = [slice(longest - ids.shape[1], None) if side == "left" else slice(ids.shape[1]) for ids in tokens]
    for row, (ids, here) in enumerate(zip(tokens, places_of, strict=True)):
        batch[row, here], mask[row, here] = ids[0], 1
    logits = job.model(input_ids=batch, attention_mask=mask, use_cache=False).logits
    return [logits[row, here] for row, here in enumerate(places_of)]


def _cached(job: Job, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of a sequence whose first half is read at once, and the rest one by one."""
    half = tokens.shape[1] // 2
    step = job.model(input_ids=tokens[:, :half], use_cache=True)
    parts = [step.logits[0]]
    for place in range(half, tokens.shape[1]):
        step = job.model(input_ids=tokens[:, place : place + 1], past_key_values=step.past_key_values, use_cache=True)
        parts.append(step.logits[0])
    return torch.cat(parts)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("by", ["mean", "number"])
@pytest.mark.parametrize("name", taking_part("closed-form"))
def test_loss(name: str, by: str, figures: dict[str, Figure]) -> None:
    """The loss of transformers is that of the next token, without ignored ones, divided by their number or by a given one."""
    job = _job(name)
    tokens = job.batches[0]["tokens"]
    labels = tokens.clone()
    labels[0, 1:5] = labels[0, -1] = _IGNORED
    model, counted = _base(job).eval(), (labels[0, 1:] != _IGNORED).numpy()
    if by == "number" and "kwargs" not in inspect.signature(model.forward).parameters:
        raise CapabilityMissing(f"{_RULE}: this release of transformers takes no number of tokens")
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits[0].double().numpy()
        more = {"num_items_in_batch": _TOKENS} if by == "number" else {}
        loss = float(model(input_ids=tokens, labels=labels, use_cache=False, **more).loss)
    mean, _ = forms.cross_entropy(logits[:-1][counted], labels[0, 1:].numpy()[counted])
    exact = mean * int(counted.sum()) / _TOKENS if by == "number" else mean
    figures["worst"] = off = abs(loss / exact - 1)
    require(off <= _EXACT, f"{name}: the loss by {by} is {loss:.7g}, its closed form {exact:.7g}")
    figures["summary"] = f"the loss of {int(counted.sum())} tokens by {by} is its closed form, {off:.1e} off"


# ---- rotary embeddings whose angles are stretched

_THETA, _WIDTH, _FACTOR, _TRAINED = 10000.0, 64, 8.0, 256
_LOW, _HIGH = 1.0, 4.0


def _plain() -> Array:
    return np.asarray(_THETA ** (-np.arange(0, _WIDTH, 2) / _WIDTH))


def _llama3() -> tuple[Array, float]:
    """Long waves are stretched, short ones are not, and those between by how near they are to either (Llama 3.1's own code)."""
    plain = _plain()
    turns = _TRAINED * plain / (2 * math.pi)
    share = np.clip((turns - _LOW) / (_HIGH - _LOW), 0, 1)
    return plain * (share + (1 - share) / _FACTOR), 1.0


def _yarn() -> tuple[Array, float]:
    """Dimensions that turn more than 32 times stay, those below one turn are stretched, the rest in between (Peng et al., 2023)."""
    plain = _plain()
    ends = [_WIDTH * math.log(_TRAINED / (turns * 2 * math.pi)) / (2 * math.log(_THETA)) for turns in (32, 1)]
    low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), _WIDTH - 1)
    share = np.clip((np.arange(_WIDTH // 2) - low) / (high - low), 0, 1)
    return plain * (1 - share) + plain / _FACTOR * share, 0.1 * math.log(_FACTOR) + 1


_STRETCHED: Mapping[str, tuple[dict[str, Any], Callable[[], tuple[Array, float]]]] = {
    "linear": ({}, lambda: (_plain() / _FACTOR, 1.0)),
    "llama3": (
        {"low_freq_factor": _LOW, "high_freq_factor": _HIGH, "original_max_position_embeddings": _TRAINED},
        _llama3,
    ),
    "yarn": ({"original_max_position_embeddings": _TRAINED}, _yarn),
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", _STRETCHED)
def test_stretched(kind: str, figures: dict[str, Figure]) -> None:
    """Cosines and sines of positions, for each way to stretch the context, are the definition's."""
    try:
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    except ImportError as error:
        raise CapabilityMissing(f"{_RULE}: transformers is not installed, whose embedding this is") from error
    options, define = _STRETCHED[kind]
    config = LlamaConfig(
        hidden_size=2 * _WIDTH, num_attention_heads=2, rope_theta=_THETA, max_position_embeddings=_TRAINED,
        rope_scaling={"rope_type": kind, "factor": _FACTOR, **options},
    )  # fmt: skip
    places_of = torch.tensor([[0, 1, 255, 256, 1999]])
    embedding = LlamaRotaryEmbedding(config=config)(torch.zeros(1, dtype=torch.float64), places_of)
    speeds, size = define()
    angles = places_of[0].numpy()[:, None] * np.concatenate([speeds, speeds])
    for what, actual, exact in zip(("cosines", "sines"), embedding, (np.cos(angles), np.sin(angles)), strict=True):
        off = float(np.abs(actual[0].double().numpy() - size * exact).max())
        require(off <= 5e-4, f"{kind}: {what} are {off:.2g} off, 5e-4 is allowed for angles of up to 2000 in float32")
        figures[what] = off
    figures["summary"] = f"angles of {kind} are their definition at {places_of.numel()} places"
