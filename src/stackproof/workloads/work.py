"""What a benchmark runs: built once on a device, proved once against a reference, then run again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from stackproof.base.toml import OneOf, Parsed, Table
from stackproof.device.kinds import Device
from stackproof.operators.spoiling import Spoilt
from stackproof.record.checks import require
from stackproof.record.records import Figure


@dataclass(frozen=True)
class Setting:
    """Where and as what a piece of work is built; `parameters` is its row in `data/benchmarks.toml`."""

    device: Device
    preset: str
    parameters: Table


@dataclass(frozen=True)
class OfWorkload:
    """The parameters of work that is a part of a workload."""

    workload: str


class Work(ABC):
    """Work on a device that can be repeated: each run costs the same."""

    dtype: str = ""
    arithmetic: str = ""
    """The row of `data/peaks.toml` that its rate is held against; empty where none is."""
    _spoilt: Spoilt

    @property
    @abstractmethod
    def worth(self) -> Mapping[str, float]:
        """How much of each thing one run is: samples, tokens, TFLOP (1e12), GB (1e9 bytes)."""

    @abstractmethod
    def prove(self) -> str:
        """Run once and compare the result with a reference; return in one sentence what was compared.

        Raises:
            CheckFailed: the result is wrong.
        """

    @abstractmethod
    def run(self) -> object:
        """Queue the work once; nothing waits for the device."""

    def ready(self, runs: int) -> None:  # noqa: B027 - most work can be repeated as it stands
        """Prepare so many runs, outside their timed span; queued on the device like them."""

    def verify(self) -> None:  # noqa: B027 - some work leaves nothing behind that could be looked at
        """Compare everything that the last run left with its reference; cheap enough to run between timed blocks.

        Raises:
            CheckFailed: the last run did not do what was proved.
        """

    def poison_output(self) -> None:  # noqa: B027 - as above
        """Overwrite the output and change the inputs, so that a result that is stale or cached shows."""

    def fresh_inputs(self) -> bool:
        """Give the next run inputs that no run had, after the last check; false where each run has new ones anyhow."""
        return False

    def reset_to_verified(self) -> bool:
        """Go back to the state that was proved, so that the next run can be verified in full; false where each run can be."""
        return False

    def outputs(self) -> Sequence[torch.Tensor]:
        """Return the tensors that the last run wrote whole, of which a spot check overwrites some numbers; none where there are none."""
        return ()

    def begin_spot_check(self) -> bool:
        """Prepare to check the next run alone; false where nobody could tell that it was left out."""
        self._spoilt = Spoilt(self.outputs())
        return bool(self.outputs())

    def end_spot_check(self) -> None:
        """Check the run since `begin_spot_check` closely enough to see that it was not left out.

        Raises:
            CheckFailed: it did nothing, or something else than was proved.
        """
        left = self._spoilt.left(self.outputs())
        require(not left, "it left what an earlier run had left: some of the timed ones did nothing")

    def conclude(self) -> Mapping[str, Figure]:
        """Verify the last timed run, and one more on other inputs; return facts that explain the figures.

        Raises:
            CheckFailed: the timed runs did not do what was proved, and their figures are void.
        """
        self.verify()
        self.poison_output()
        self.run()
        self.verify()
        return {}

    def close(self) -> None:  # noqa: B027 - most work leaves nothing behind
        """End what outlives the object, such as processes of a loader."""


Maker = Callable[[Setting], Work]


def _dtype_named(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


FloatingDtype = Annotated[torch.dtype, OneOf(("float64", "float32", "bfloat16", "float16")), Parsed(_dtype_named)]
"""A floating dtype, by its name in a table."""


def name_of(dtype: torch.dtype) -> str:
    """Return a dtype's name without torch's prefix."""
    return str(dtype).removeprefix("torch.")
