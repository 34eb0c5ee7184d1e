"""LoRA fine-tuning as the first users run it: transformers' model, peft's adapters, gradient checkpointing.

One step is `accumulation` micro-batches of one sequence each, without padding, then one optimiser step. The
loss is the mean over sequences of the mean over tokens, so equal shards average to the global batch. Under
`full` the weights are bfloat16 with bfloat16 autocast and trainable parameters float32, as trainers do with
`bf16=True`; other precisions hold everything in the dtype asked for. peft starts the B matrices at zero,
where every gradient of A vanishes; here they start small instead, so that each gradient is exercised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any

import torch
from torch import nn
from torch.nn import functional

from stackproof import DATA
from stackproof.base.toml import OneOf, Parsed, Table
from stackproof.operators import forms
from stackproof.workloads import inputs
from stackproof.workloads.base import Batch, Evaluation, Job, Preset, Recipe, Units, Workload
from stackproof.workloads.weights import fan_in_bound, materialise, widened

_DTYPES = ("float32", "bfloat16")
_B_BOUND = 0.02  # of the B matrices; peft's own A matrices start within 1/sqrt(fan in)


@dataclass(frozen=True)
class Adapters:
    """LoRA's rank, scaling numerator alpha, and the linear layers that get adapters."""

    rank: int
    alpha: int
    targets: tuple[str, ...]


def _dtype(name: str) -> torch.dtype | None:
    dtype: torch.dtype | None = getattr(torch, name) if name else None
    return dtype


@dataclass(frozen=True)
class ModelSize:
    """One preset: precision, micro-batches a step, mean tokens a sequence, learning rate, configuration."""

    dtype: Annotated[torch.dtype, OneOf(_DTYPES), Parsed(_dtype)]
    autocast: Annotated[torch.dtype | None, OneOf(("", *_DTYPES)), Parsed(_dtype)]
    accumulation: int
    mean_length: int
    learning_rate: float
    config: dict[str, Any]


@dataclass(frozen=True)
class _File:
    """A model: its architecture as transformers names it, adapters, and the presets."""

    architecture: str
    lora: Adapters
    tiny: ModelSize
    full: ModelSize


class _Job(Job):
    workload: Lora

    def evaluate(self, model: nn.Module, batch: Batch) -> Evaluation:
        logits = model(input_ids=batch["tokens"], use_cache=False).logits[0]
        predicted = logits[:-1].to(torch.promote_types(logits.dtype, torch.float32))
        return logits, functional.cross_entropy(predicted, batch["tokens"][0, 1:])

    def differentiate(self, loss: torch.Tensor) -> None:
        """Run backward; torch 2.4's checkpointing calls a torch function that torch 2.4 deprecates."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch.cpu.amp.autocast\(args...\)` is deprecated", FutureWarning)
            super().differentiate(loss)

    def recompute(self, mode: str | None) -> None:
        """Turn checkpointing of each layer off, or on in a mode, as users of transformers do.

        The reentrant kind sees no parameters: without an input that requires a gradient, frozen embeddings would leave the first layer's
        adapters without one. Backward does not run under the function mode that widens a float64 reference, so the recomputation enters it.
        """
        base: Any = self.model.get_base_model()  # type: ignore[operator]
        _renamed(base, "disable")()
        if mode is None:
            return
        options: dict[str, Any] = {"use_reentrant": mode == "reentrant"}
        if self.recipe.dtype is torch.float64 and mode != "reentrant":
            options["context_fn"] = lambda: (nullcontext(), widened())
        _renamed(base, "enable")(options)
        if mode == "reentrant":
            base.enable_input_require_grads()

    def closed_form(self, index: int) -> tuple[Any, float]:
        state = self.model.state_dict()
        weights = {name.removeprefix("base_model.model."): tensor.detach().numpy() for name, tensor in state.items()}
        adapters, config = self.workload._file.lora, self.workload.setting(self.recipe.preset).config
        tokens = self.batches[index]["tokens"][0].numpy()
        logits = forms.decoder(tokens, weights, config, adapters.alpha / adapters.rank)
        return logits, forms.cross_entropy(logits[:-1], tokens[1:])[0]

    @cached_property
    def units(self) -> Units:
        """Sequences, tokens, and FLOPs as trainers print them: 6 x tokens x non-embedding parameters."""
        tokens = sum(batch["tokens"].numel() for batch in self.batches)
        return Units(len(self.batches), tokens, 6 * tokens * non_embedding(self.model))


class Lora(Workload):
    """A causal language model with adapters, defined by `data/models/<model>.toml`."""

    def __init__(self, name: str, model: str) -> None:
        self.name = name
        self.file = DATA / "models" / f"{model}.toml"

    def precision(self, preset: Preset) -> tuple[torch.dtype, torch.dtype | None]:
        setting = self.setting(preset)
        return setting.dtype, setting.autocast

    def accumulation(self, preset: Preset) -> int:
        return self.setting(preset).accumulation

    def setting(self, preset: Preset) -> ModelSize:
        return self._file.tiny if preset == "tiny" else self._file.full

    def assemble(self, recipe: Recipe) -> Job:
        setting = self.setting(recipe.preset)
        model = self.skeleton(recipe.preset)
        _restore_buffers(model, recipe)
        materialise(
            model, recipe.device, recipe.dtype, recipe.seed, partial(_bound, setting.config["initializer_range"])
        )
        model.train()
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(trainable, lr=setting.learning_rate)
        job = _Job(recipe, model, optimiser, batches(setting, recipe))
        job.workload = self
        job.recompute("non-reentrant")
        return job

    def skeleton(self, preset: Preset) -> Any:
        """Return the model with adapters on the meta device: no memory, no weights."""
        from peft import LoraConfig, get_peft_model
        from transformers import AutoConfig, AutoModelForCausalLM

        architecture, adapters, config = self._file.architecture, self._file.lora, self.setting(preset).config
        settings = AutoConfig.for_model(architecture, use_cache=False, attn_implementation="sdpa", **config)
        lora = LoraConfig(
            r=adapters.rank,
            lora_alpha=adapters.alpha,
            lora_dropout=0.0,
            target_modules=list(adapters.targets),
            task_type="CAUSAL_LM",
        )
        with torch.device("meta"), warnings.catch_warnings():
            # peft 0.21 asks transformers 5.20+ for a property by the name that it had before.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
            return get_peft_model(AutoModelForCausalLM.from_config(settings), lora)

    @cached_property
    def _file(self) -> _File:
        return Table.load(self.file).row(_File)


def non_embedding(model: nn.Module) -> int:
    """Count the parameters that trainers multiply by 6 x tokens: each tied one once, and no embeddings of tokens."""
    tokens = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    return sum(map(torch.numel, model.parameters())) - sum(map(torch.numel, tokens))


def _bound(deviation: float, name: str, parameter: torch.Tensor) -> float:
    if "lora_A" in name:
        return fan_in_bound(name, parameter)
    return _B_BOUND if "lora_B" in name else deviation * 3**0.5


def _renamed(base: Any, verb: str) -> Callable[..., None]:
    """Return a method that transformers renamed in 5.x; it warns about the old name."""
    return getattr(base, f"activation_checkpointing_{verb}", None) or getattr(base, f"gradient_checkpointing_{verb}")  # type: ignore[no-any-return]


def _restore_buffers(model: Any, recipe: Recipe) -> None:
    """Replace the rotary embeddings, whose tables are lost on the meta device, by ones made on the CPU; transformers keeps float32."""
    for path, module in list(model.named_modules()):
        if any(True for _ in module.buffers(recurse=False)):
            fresh = type(module)(config=model.config)
            parent, _, name = path.rpartition(".")
            wide = recipe.dtype if recipe.dtype is torch.float64 else torch.float32
            setattr(model.get_submodule(parent), name, fresh.to(recipe.device, wide))


def batches(setting: ModelSize, recipe: Recipe) -> list[Batch]:
    """Draw the global batch and keep this rank's sequences, one micro-batch (1, length) each."""
    drawn = inputs.progressions(
        recipe.seed, setting.accumulation * recipe.scale, setting.config["vocab_size"], setting.mean_length
    )
    return [{"tokens": torch.from_numpy(drawn[index]).view(1, -1)} for index in recipe.part(setting.accumulation)]


WORKLOADS = (Lora("qwen3-0.6b-lora", "qwen3-0.6b"), Lora("llama3-8b-lora", "llama3-8b"))
