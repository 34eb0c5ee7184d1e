"""Our figures beside other people's tools: the same work in one run, block by block in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from stackproof.base.units import shown
from stackproof.bench import agree
from stackproof.bench.agree import Turns, pair
from stackproof.bench.ranks import launched
from stackproof.bench.sampling import calibrate
from stackproof.bench.subjects import Profile, Subject, profile, subjects
from stackproof.device import threads
from stackproof.device.kinds import Device
from stackproof.project.offers import playing
from stackproof.record.checks import CheckInconclusive, require
from stackproof.record.records import Figure, Measurement
from stackproof.runner.request import Request
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from stackproof.workloads.work import Setting

_ROUNDS = {"fast": 6, "regular": 12, "full": 8}
_SLOW_ROUNDS = {"fast": 2, "regular": 4, "full": 8}
_DETECTORS = {"tiny": playing("pair"), "full": playing("pair-full")}
"""YOLOv8x is narrowed in `tiny`, which ultralytics' trainer would not know."""

Judge = Callable[..., None]


@pytest.fixture(scope="module")
def chosen(run_request: Request) -> Profile:
    """The profile that was asked for."""
    return profile(run_request.options["profile"])


@pytest.fixture
def subject_named(chosen: Profile, stack: Stack) -> Callable[[str], Subject]:
    """Return a function that finds a subject in any profile."""
    known = {row.name: row for row in subjects("regular", stack)} | {
        row.name: row for row in subjects(chosen.name, stack)
    }
    return lambda name: known[name]


@pytest.fixture
def setting(device: Device, chosen: Profile, subject_named: Callable[[str], Subject]) -> Callable[[str], Setting]:
    """Return a function that gives what a subject is built from."""
    calibrate(device)
    return lambda name: Setting(device, chosen.preset, subject_named(name).table(chosen.preset))


@pytest.fixture
def judge(preset: str, measured: Callable[[Measurement], None], figures: dict[str, Figure]) -> Judge:
    """Return a function that records both figures and holds their ratio against the pair's bound."""

    def decide(name: str, unit: str, reason: str, turns: Turns, dtype: str = "") -> None:
        told, ratio = pair(name), turns.ratio
        for whose, samples in (("ours", turns.ours), ("theirs", turns.theirs)):
            note = told.theirs if whose == "theirs" else ""
            measured(
                Measurement(
                    f"{name} {whose}", preset, dtype, 1, "agreement", unit, median(samples), list(samples), note
                )
            )
        ours, theirs = (shown(one, unit) for one in turns.medians)
        facts: dict[str, Figure] = {"ratio": ratio.median, "low": ratio.low, "high": ratio.high, "bound": told.bound}
        facts.update(
            {"ours": ours, "theirs": theirs, "theirs is": told.theirs, "differs": told.differs, "link": told.link}
        )
        figures.update(facts, verified=reason)
        apart = f"ours {ours}, {told.theirs} {theirs}: ratio of times {ratio.median:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
        _decide(apart, ratio.low, ratio.high, ratio.median, told.bound)
        figures["summary"] = apart

    return decide


def _decide(apart: str, low: float, high: float, ratio: float, bound: float) -> None:
    """Pass within the bound, fail where the whole interval lies outside, else say that the noise does not allow a verdict."""
    if abs(ratio - 1) <= bound:
        return
    require(low <= 1 + bound and high >= 1 - bound, f"{apart}; {bound:.0%} apart are allowed")
    raise CheckInconclusive(f"{apart}; the interval is too wide for a bound of {bound:.0%}")


@pytest.mark.deadline(300)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gemm_torch_timer(
    dtype: str,
    setting: Callable[[str], Setting],
    chosen: Profile,
    judge: Judge,
) -> None:
    """A matrix product under the engine and under torch.utils.benchmark."""
    name = f"gemm-{dtype}"
    with threads.chosen(chosen.preset):
        reason, turns = agree.compare_products(setting(name), agree.torch_timer, _ROUNDS[chosen.name])
    judge("gemm-torch-timer", "s/iteration", reason, turns, dtype)


@pytest.mark.deadline(300)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gemm_triton(
    dtype: str,
    stack: Stack,
    setting: Callable[[str], Setting],
    chosen: Profile,
    judge: Judge,
) -> None:
    """A matrix product under the engine and under triton's do_bench, which needs a card."""
    capabilities.require(stack, "device-events")
    name = f"gemm-{dtype}"
    reason, turns = agree.compare_products(setting(name), agree.triton_do_bench, _ROUNDS[chosen.name])
    judge("gemm-triton", "s/iteration", reason, turns, dtype)


@pytest.mark.deadline(900)
def test_lora_trainer(setting: Callable[[str], Setting], chosen: Profile, judge: Judge) -> None:
    """A LoRA step under the engine and under transformers' Trainer, on the same sequences."""
    with threads.chosen(chosen.preset):
        reason, turns = agree.compare_trainer(
            setting(f"training-{playing('pair-sequences')}"), _SLOW_ROUNDS[chosen.name]
        )
    judge("lora-trainer", "s/sample", reason, turns)


@pytest.mark.deadline(900)
def test_yolo_ultralytics(setting: Callable[[str], Setting], chosen: Profile, judge: Judge) -> None:
    """A detector's step under the engine and under ultralytics' own trainer."""
    with threads.chosen(chosen.preset):
        reason, turns = agree.compare_detector(
            setting(f"training-{_DETECTORS[chosen.preset]}"), _SLOW_ROUNDS[chosen.name]
        )
    judge("yolo-ultralytics", "s/iteration", reason, turns)


@pytest.mark.deadline(300)
def test_all_reduce_loop(
    device: Device, subject_named: Callable[[str], Subject], chosen: Profile, run_request: Request, judge: Judge
) -> None:
    """An all-reduce under the engine and in a bare loop over c10d."""
    subject = subject_named("all-reduce-16-mib-2-ranks")
    parameters = dict(subject.parameters[chosen.preset])
    arguments = {"parameters": parameters, "preset": chosen.preset, "rounds": _ROUNDS[chosen.name]}
    folder = Path(run_request.folder) / "all-reduce-loop"
    found = launched(subject, device, 2, "stackproof.bench.agree:program", arguments, folder, 240.0)[0]
    judge("all-reduce-loop", "s/iteration", found["reason"], Turns(tuple(found["ours"]), tuple(found["theirs"])))
