"""What a workload offers: in which checks and benchmarks it takes part, what it needs to be installed, and its own bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from stackproof.base.errors import suggestion
from stackproof.base.places import DATA
from stackproof.base.toml import Table, Wrong

FILE = DATA / "workloads.toml"

USUAL = ("smoke", "mixed", "models", "precision", "differences", "training")
"""What a workload takes part in that says nothing: every one of these needs no more than the interface."""

PARTS: Mapping[str, str] = {
    "smoke": "forward, loss and every gradient against float64, a step, and an indicative rate (suite smoke)",
    "mixed": "the same under autocast (suite smoke)",
    "models": "steps, evaluation and repetition against float64 (suite models)",
    "channels-last": "pictures in channels-last order (suite models)",
    "compile": "the submodule that `compiled` names under torch.compile (suite models)",
    "precision": "eight steps in each precision (suite precision)",
    "differences": "gradients against differences of forward in float64 (suite anchors)",
    "closed-form": "`Job.closed_form`, the model written out in NumPy (suite anchors)",
    "recompute": "`Job.recompute`, activations computed again in backward (suite recompute)",
    "training": "a training step (bench and gate)",
    "optimiser": "the optimiser's step alone (bench and gate)",
    "data-parallel": "training over ranks: gradients and bits (suite convergence), rates (bench)",
    "exchange": "what an all-reduce costs a step (suite collectives)",
    "sharded": "a step under fully_shard (suite convergence)",
}

ROLES: Mapping[str, str] = {
    "plain": "no state but its parameters, and a mean over equal parts: what ranks, memory and saved state are tried with",
    "accumulating": "several micro-batches and frozen weights: what variants of DDP are tried with",
    "normalised": "batch normalisation: what its synchronised form is tried with",
    "trainer": "its package's own trainer is tried with every spelling of a device",
}
"""What one workload of ours stands for; a project's own workloads play none of these."""

_HALVES = ("bfloat16", "float16")


@dataclass(frozen=True)
class Offer:
    """What a workload says of itself, beside its code.

    `needs`: requirements such as "timm>=1.0"; `reason`: why, for the sentence that says why it was skipped. `parts`: of `PARTS`.
    `compiled`: the submodule that torch.compile is tried on, "" for the whole model; `checkpointed`: whether it is recomputed in
    backward. `mixed`: how far half precision may move the whole gradient, by dtype; without one the CPU's own error decides.
    `effect`: the smallest change of its time that the gate judges, as a share, where the device's own is too fine.
    `spared`: types of device on which the gate leaves it out. `full_seconds`: how long the preset full is sampled at least.
    """

    needs: tuple[str, ...] = ()
    reason: str = ""
    parts: tuple[str, ...] = USUAL
    roles: tuple[str, ...] = ()
    title: str = ""
    compiled: str = ""
    checkpointed: bool = False
    mixed: Mapping[str, float] = field(default_factory=dict)
    effect: float = 0.0
    spared: tuple[str, ...] = ()
    full_seconds: float = 0.0

    def __post_init__(self) -> None:
        for key in ("needs", "parts", "roles", "spared"):
            object.__setattr__(self, key, _words(key, getattr(self, key)))
        _require_known("parts", self.parts, PARTS)
        _require_known("roles", self.roles, ROLES)
        _require_known("mixed", tuple(self.mixed), _HALVES)
        for need in self.needs:
            _requirement(need)


def _words(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise Wrong(key, f"is {value!r}; it must be a tuple of words, such as {USUAL[:2]!r}")
    return tuple(value)


def _require_known(key: str, words: tuple[str, ...], known: Any) -> None:
    for word in words:
        if word not in known:
            raise Wrong(key, f"has {word!r}{suggestion(word, known)}; allowed: {', '.join(known)}")


def _requirement(text: str) -> None:
    # The verbs start without this package, and say what is missing.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise Wrong(
            "needs", f"has {text!r}, which is no requirement ({error}); write one such as 'timm>=1.0'"
        ) from error


@dataclass(frozen=True, kw_only=True)
class _Row(Offer):
    name: str
    needs: tuple[str, ...]
    reason: str

    def offer(self) -> Offer:
        return Offer(**{key: value for key, value in vars(self).items() if key != "name"})


@cache
def ours(path: Path = FILE) -> Mapping[str, Offer]:
    """Return what our workloads offer, by name, in the order of `data/workloads.toml`."""
    with Table.load(path) as table:
        return {row.name: row.offer() for row in table.rows("workload", _Row)}


def ours_in(part: str) -> tuple[str, ...]:
    return tuple(name for name, offer in ours().items() if part in offer.parts)


def playing(role: str) -> str:
    return next(name for name, offer in ours().items() if role in offer.roles)
