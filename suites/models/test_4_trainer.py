"""The ultralytics trainer itself, with the device written in every way that users write it (docs/users-reports.md A2, A3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch

from stackproof.base.toml import Table
from stackproof.device.devices import count
from stackproof.device.kinds import Device
from stackproof.project.offers import playing
from stackproof.record.checks import require
from stackproof.record.records import Figure
from stackproof.stack import capabilities
from stackproof.stack.stacks import Stack
from suites.common import SEED, possible
from suites.models.training import Course, contained, train, write_dataset


@dataclass(frozen=True)
class Spelling:
    """A way to write a device, and what must come of it."""

    name: str
    write: str
    expect: Literal["train", "either", "refuse"]

    def of(self, device: Device) -> str | torch.device:
        """Return what this device is called."""
        if self.write == "torch.device":
            return device.torch
        return self.write.format(device=device, kind=device.kind, index=device.index, beyond=count(device.kind))


SPELLINGS = Table.load(Path(__file__).with_name("spellings.toml")).rows("spelling", Spelling)


@pytest.fixture(scope="module", autouse=True)
def ultralytics(device: Device) -> None:
    """Let the workload import ultralytics without its side effects, before anything else here does."""
    possible(playing("trainer")).build(device.torch, "tiny", SEED)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_device(spelling: Spelling, stack: Stack, device: Device, tmp_path: Path, figures: dict[str, Figure]) -> None:
    """One epoch trains on the device that was meant, with a loss that is finite and changes; or the spelling is refused."""
    capabilities.require(stack, "trainer-by-name")
    asked = spelling.of(device)
    figures["asked"] = str(asked)
    try:
        with contained(device):
            course = train(write_dataset(tmp_path / "data"), asked)
    except ValueError as error:  # what ultralytics refuses with
        refusal = str(error).split("\n")[0].strip()
        require(spelling.expect != "train", f"device={asked!r} is this device, and was refused: {refusal}")
        figures["summary"] = f"device={str(asked)!r} is refused: {refusal[:120]}"
        return
    require(spelling.expect != "refuse", f"device={asked!r} was not refused and trained on {_places(course)}")
    _trained(course, device, str(asked))
    figures |= {
        "batches": len(course.losses),
        "parameters that stayed": len(course.still),
        "loss before": course.first,
        "loss after": course.last,
    }
    figures["summary"] = f"trained on {_places(course)}; loss of one batch {course.first:.2f} to {course.last:.2f}"


def _trained(course: Course, device: Device, asked: str) -> None:
    require(course.places == {device.torch}, f"device={asked!r} trained on {_places(course)}, not on {device.torch}")
    losses = [*course.losses, course.first, course.last]
    require(all(map(math.isfinite, losses)) and 0 not in losses, f"losses were {losses}")
    # A level of the head that no box of these few pictures falls to gets gradients that vanish in rounding.
    few = len(course.still) <= course.trainable / 10
    require(
        few,
        f"an epoch left {len(course.still)} of {course.trainable} parameters as they were, such as {course.still[:1]}",
    )
    require(course.last != course.first, f"an epoch left the loss of one batch at {course.first}")


def _places(course: Course) -> str:
    return " and ".join(sorted(map(str, course.places))) or "nothing"
