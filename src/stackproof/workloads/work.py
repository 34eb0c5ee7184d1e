"""What a benchmark runs: built once on a device, proved once against a reference, then run again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from ..device import Device
from ..records import Figure
from ..tables import Table


@dataclass(frozen=True)
class Setting:
    """Where and as what a piece of work is built; `parameters` is its row in `fixtures/benchmarks.toml`."""

    device: Device
    preset: str
    parameters: Table


class Work(ABC):
    """Work on a device that can be repeated: each run costs the same."""

    dtype: str = ""
    arithmetic: str = ""
    """The row of `fixtures/peaks.toml` that its rate is held against; empty where none is."""

    @property
    @abstractmethod
    def worth(self) -> Mapping[str, float]:
        """How much of each thing one run is: samples, tokens, TFLOP (1e12), GB (1e9 bytes)."""

    @abstractmethod
    def prove(self) -> str:
        """Run once and hold what came out against a reference; return what was seen in one sentence.

        Raises:
            CheckFailed: the result is wrong.
        """

    @abstractmethod
    def run(self) -> object:
        """Queue the work once; nothing waits for the device."""

    def conclude(self) -> Mapping[str, Figure]:
        """Look at the work after it was timed, and return what explains its figures and is known only here.

        Raises:
            CheckFailed: the timed runs did not do what was proved, and their figures are void.
        """
        return {}

    def close(self) -> None:  # noqa: B027 - most work leaves nothing behind
        """End what outlives the object, such as processes of a loader."""


Maker = Callable[[Setting], Work]


def dtype_named(table: Table, key: str = "dtype") -> torch.dtype:
    """Take the name of a floating dtype from a row."""
    allowed = ("float64", "float32", "bfloat16", "float16")
    found: torch.dtype = getattr(torch, table.take(key, str, allowed=allowed))
    return found


def name_of(dtype: torch.dtype) -> str:
    """Return a dtype's name without torch's prefix."""
    return str(dtype).removeprefix("torch.")
