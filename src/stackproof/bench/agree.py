"""Our figures beside other people's tools, measured in turn in one run: A B B A, so that drift falls on both.

ultralytics (AGPL-3.0) and transformers are imported only inside the functions of this module.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from stackproof import DATA
from stackproof.base import places
from stackproof.base.errors import Refusal, suggestion
from stackproof.base.statistics import Interval, median_interval
from stackproof.base.toml import Table, Wrong
from stackproof.bench.ranks import Together, rest
from stackproof.bench.ranks import setting_of as setting_of_rank
from stackproof.bench.sampling import Sampler, warm_up
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.ranks.rank import Rank
from stackproof.record.checks import CapabilityMissing, CheckFailed
from stackproof.workloads import inputs
from stackproof.workloads.base import Job
from stackproof.workloads.collectives import TimedCollective
from stackproof.workloads.gemm import Gemm
from stackproof.workloads.training import SEED, TrainingSteps
from stackproof.workloads.work import Setting
from stackproof.workloads.yolo import setting_of, without_side_effects

FILE = DATA / "agreement.toml"

Block = Callable[[], float]
"""Runs for a while and returns the mean seconds of one unit of work: other tools tell means, and a mean is not a median."""


@dataclass(frozen=True)
class OtherTool:
    """One comparison: whose figure, how far apart they may be, and what the other tool does beside the same work."""

    name: str
    theirs: str
    link: str
    bound: float
    differs: str

    def __post_init__(self) -> None:
        if not 0 < self.bound < 1:
            raise Wrong("bound", f"is {self.bound}; it must be a share between 0 and 1")


@dataclass(frozen=True)
class Turns:
    """What the two gave, in seconds per unit of work, block by block in turn."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> Interval:
        """Ours over theirs, by rounds; above 1 where ours takes longer."""
        rounds = range(0, len(self.ours), 2)
        return median_interval([sum(self.ours[n : n + 2]) / sum(self.theirs[n : n + 2]) for n in rounds])

    @property
    def medians(self) -> tuple[float, float]:
        """The medians of both."""
        return median(self.ours), median(self.theirs)


def pair(name: str) -> OtherTool:
    """Return a comparison by name, or refuse and suggest the nearest."""
    if name not in pairs():
        raise Refusal(f"{FILE}: there is no pair '{name}'{suggestion(name, pairs())}; there are: {', '.join(pairs())}")
    return pairs()[name]


@cache
def pairs() -> dict[str, OtherTool]:
    """Return all comparisons of the file."""
    with Table.load(FILE) as table:
        return {row.name: row for row in table.rows("pair", OtherTool)}


def side_by_side(ours: Block, theirs: Block, rounds: int) -> Turns:
    """Take turns, ours theirs theirs ours, after one block of each that does not count."""
    ours(), theirs()
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for which, block in ((0, ours), (1, theirs), (1, theirs), (0, ours)):
            taken[which].append(block())
    return Turns(tuple(taken[0]), tuple(taken[1]))


_EPOCHS = 4
_BATCHES = 8


def compare_detector(setting: Setting, rounds: int) -> tuple[str, Turns]:
    """Prove the job, then train in turns; returns what was proved and the seconds of one step."""
    work = TrainingSteps(setting)
    reason = work.prove()
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 10.0)
    with tempfile.TemporaryDirectory(prefix="stackproof-detector-") as folder:
        data = _data_set(Path(folder), setting.preset)
        theirs = _trainer(work.workload.name, setting.device, setting.preset, data)
        return reason, side_by_side(lambda: mean(sampler.block(_BATCHES)), theirs, rounds)


def _data_set(folder: Path, preset: str) -> Path:
    """Write the job's kind of pictures with labels as ultralytics reads them; return the file that names them."""
    from PIL import Image

    layout, batch = setting_of(preset).layout, setting_of(preset).samples
    made = inputs.detection(SEED, batch * _BATCHES, layout)
    for kind in ("images", "labels"):
        (folder / kind / "train").mkdir(parents=True)
    for number, image in enumerate(made.images):
        Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(
            folder / "images" / "train" / f"{number:04}.png"
        )
        mine = made.owners == number
        rows = zip(made.labels[mine], made.corners[mine].astype(float) / layout.size, strict=True)
        text = "".join(
            f"{int(kind)} {(x + u) / 2:.6f} {(y + v) / 2:.6f} {u - x:.6f} {v - y:.6f}\n" for kind, (x, y, u, v) in rows
        )
        (folder / "labels" / "train" / f"{number:04}.txt").write_text(text, encoding="ascii")
    names = "".join(f"  {number}: kind {number}\n" for number in range(80))
    path = folder / "data.yaml"
    path.write_text(f"path: {folder}\ntrain: images/train\nval: images/train\nnames:\n{names}", encoding="ascii")
    return path


def _trainer(name: str, device: Device, preset: str, data: Path) -> Block:
    """Return a function that trains some epochs and returns the seconds of a step, as the trainer's epoch_time tells them."""
    own = setting_of(preset)
    place = str(device.torch)
    settings: dict[str, Any] = {
        "model": f"{name}.yaml", "data": str(data), "epochs": _EPOCHS, "imgsz": own.layout.size, "batch": own.samples, "device": place,
        "amp": False, "val": False, "plots": False, "save": False, "workers": 2, "cache": "ram", "optimizer": "SGD", "nbs": own.samples,
        "lr0": 0.01, "momentum": 0.937, "warmup_epochs": 0, "mosaic": 0.0, "close_mosaic": 0, "deterministic": False, "pretrained": False,
        "project": str(data.parent), "exist_ok": True, "verbose": False, "patience": 0,
    }  # fmt: skip

    def block() -> float:
        with without_side_effects(), _quiet():
            from ultralytics.cfg import DEFAULT_CFG_DICT
            from ultralytics.models.yolo.detect import DetectionTrainer

            return _epochs(DetectionTrainer(overrides={**settings, **_laid_out(DEFAULT_CFG_DICT)}))

    return block


def _laid_out(known: Mapping[str, Any]) -> dict[str, Any]:
    """Keep pictures contiguous, as ours are: versions that know the setting lay them out channels-last on CUDA by themselves."""
    return {"channels_last": False} if "channels_last" in known else {}


def _epochs(trainer: Any) -> float:
    """Train and return the median seconds of a step; the first epoch warms up and the last one also validates."""
    threads, seconds = torch.get_num_threads(), list[float]()
    trainer.add_callback("on_train_start", lambda _: torch.set_num_threads(threads))
    trainer.add_callback("on_fit_epoch_end", lambda one: seconds.append(float(one.epoch_time) / len(one.train_loader)))
    trainer.train()
    return median(seconds[1:-1])


@contextlib.contextmanager
def _quiet() -> Any:
    """Swallow progress bars: this process speaks to its supervisor through files."""
    logger = logging.getLogger("ultralytics")
    level = logger.level
    logger.setLevel(logging.ERROR)
    threads = torch.get_num_threads()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
        torch.set_num_threads(threads)


_BLOCK_S = 0.3


def compare_products(setting: Setting, theirs: Callable[[Gemm, int], Block], rounds: int) -> tuple[str, Turns]:
    """Prove the product, then time it in turns; returns what was proved and the seconds of one product."""
    work = Gemm(setting)
    try:
        return work.prove(), _turns(work, setting, theirs, rounds)
    finally:
        work.close()


def _turns(work: Gemm, setting: Setting, theirs: Callable[[Gemm, int], Block], rounds: int) -> Turns:
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 5.0)
    once = median(sampler.block(5))
    count = max(5, round(_BLOCK_S / once))
    return side_by_side(lambda: mean(sampler.block(count)), theirs(work, count), rounds)


def torch_timer(work: Gemm, count: int) -> Block:
    """Time by torch.utils.benchmark: the mean over `count` products, on as many threads as now."""
    from torch.utils.benchmark import Timer

    timer = Timer("run()", globals={"run": work.run}, num_threads=torch.get_num_threads())
    return lambda: float(timer.timeit(count).median)


def triton_do_bench(work: Gemm, _: int) -> Block:
    """Time by triton.testing.do_bench: the median over about 0.3 s.

    Raises:
        CapabilityMissing: triton is not installed.
    """
    if importlib.util.find_spec("triton") is None:
        raise CapabilityMissing(
            f"{places.table('agreement.toml')}, gemm-triton: triton is not installed in this environment"
        )
    from triton.testing import do_bench  # type: ignore[import-untyped, unused-ignore]

    return lambda: float(do_bench(work.run, warmup=50, rep=int(_BLOCK_S * 1e3), return_mode="median")) / 1e3


_REDUCTION_BLOCK_S = 0.3


def program(rank: Rank) -> dict[str, Any]:
    """Prove the all-reduce, then time it in turns; every rank returns the slowest rank's seconds of one call."""
    work = TimedCollective(setting_of_rank(rank))
    reason = work.prove()
    rank.phase("taking turns")
    sampler = Together(rank.device, work.run, ready=work.ready)
    warm_up(sampler, 5.0)
    count = max(5, round(_REDUCTION_BLOCK_S / median(sampler.block(5))))
    sampler.number = 1
    turns = side_by_side(lambda: mean(sampler.block(count)), lambda: _bare(rank, work, count), rank.arguments["rounds"])
    work.conclude()
    rest()
    return {"reason": reason, "ours": turns.ours, "theirs": turns.theirs}


def _bare(rank: Rank, work: TimedCollective, count: int) -> float:
    """Call it so many times between two looks at the clock; return the slowest rank's seconds of one call."""
    work.ready(count)
    dist.barrier()
    rank.device.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        work.run()
    rank.device.synchronize()
    slowest = torch.tensor([(time.perf_counter() - began) / count], dtype=torch.float32).to(rank.device.torch)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return float(slowest.cpu()[0])


_TRAINER_BLOCK_S = 4.0
_LEAST_STEPS = 3


def compare_trainer(setting: Setting, rounds: int) -> tuple[str, Turns]:
    """Prove the job, then train it and its twin in turns; returns what was proved and the seconds of one sample."""
    work = TrainingSteps(setting)
    reason = work.prove()
    twin = work.build(work.job.recipe.preset)
    samples = work.worth["sample"]
    sampler = Sampler(setting.device, work.run)
    warm_up(sampler, 10.0)
    steps = max(_LEAST_STEPS, round(_TRAINER_BLOCK_S / median(sampler.block(3))))
    with tempfile.TemporaryDirectory(prefix="stackproof-trainer-") as folder:
        theirs = _hf_trainer(twin, setting.device, steps, Path(folder))
        return reason, side_by_side(lambda: mean(sampler.block(steps)) / samples, theirs, rounds)


def _hf_trainer(job: Job, device: Device, steps: int, folder: Path) -> Block:
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
