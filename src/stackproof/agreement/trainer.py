"""The LoRA step under our engine and under transformers' Trainer, which says samples a second itself."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from ..checks import CheckFailed
from ..device import HOST, Device
from ..measuring.sampling import Sampler, warm_up
from ..workloads.base import Job
from ..workloads.training import Training
from ..workloads.work import Setting
from . import Block, Turns, side_by_side

_BLOCK_S = 4.0
_LEAST_STEPS = 3


def compare(setting: Setting, rounds: int) -> tuple[str, Turns]:
    """Prove the job, then train it and its twin in turns; returns what was proved and the seconds of one sample."""
    work = Training(setting)
    reason = work.prove()
    twin = work.build(work.job.recipe.preset)
    samples = work.worth["sample"]
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 10.0)
    steps = max(_LEAST_STEPS, round(_BLOCK_S / median(sampler.block(3))))
    with tempfile.TemporaryDirectory(prefix="stackproof-trainer-") as folder:
        theirs = _trainer(twin, setting.device, steps, Path(folder))
        return reason, side_by_side(lambda: mean(sampler.block(steps)) / samples, theirs, rounds)


def _trainer(job: Job, device: Device, steps: int, folder: Path) -> Block:
    """Return a function that trains so many steps and returns the seconds of a sample, as the Trainer tells them."""
    from transformers import Trainer, TrainingArguments

    data = [{"input_ids": batch["tokens"][0].cpu(), "labels": batch["tokens"][0].cpu()} for batch in job.batches]
    mixed = {torch.bfloat16: {"bf16": True}, torch.float16: {"fp16": True}}
    settings: dict[str, Any] = {
        "output_dir": str(folder), "per_device_train_batch_size": 1, "gradient_accumulation_steps": len(data), "max_steps": steps,
        "learning_rate": job.optimiser.param_groups[0]["lr"], "optim": "adamw_torch", "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0, "logging_strategy": "no", "save_strategy": "no", "report_to": [], "disable_tqdm": True,
        "logging_nan_inf_filter": False, "dataloader_num_workers": 0, "use_cpu": device == HOST, "remove_unused_columns": False,
        **(mixed[job.recipe.autocast] if job.recipe.autocast else {}),
    }  # fmt: skip

    def block() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = Trainer(
                model=job.model, args=TrainingArguments(**settings), train_dataset=data, data_collator=_alone
            )
            made.callback_handler.callbacks = [
                one for one in made.callback_handler.callbacks if "Printer" not in type(one).__name__
            ]
            metrics = made.train().metrics
        if metrics["train_steps_per_second"] <= 0 or not metrics["train_loss"] > 0:
            raise CheckFailed(f"the Trainer says {metrics}")
        return 1.0 / float(metrics["train_samples_per_second"])

    return block


def _alone(samples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Collate a batch of one sequence, as the job has them: no padding, no mask."""
    (sample,) = samples
    return {name: tensor.unsqueeze(0) for name, tensor in sample.items()}
