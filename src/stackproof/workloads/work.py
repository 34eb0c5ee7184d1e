"""What a benchmark runs: built once on a device, proved before and after, and run in blocks of which every run leaves its trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated

import torch

from stackproof.base.toml import OneOf, Parsed, Table
from stackproof.device.kinds import Device
from stackproof.record.records import Figure


@dataclass(frozen=True)
class Setting:
    """Where and as what a piece of work is built.

    `parameters`: its row in `data/benchmarks.toml`; `micro_batches`: a step that accumulates takes so many at most, all of them where 0.
    """

    device: Device
    preset: str
    parameters: Table
    micro_batches: int = 0


class Work(ABC):
    """Work on a device that is repeated in blocks: `begin(n)`, n times `run`, `verify(n)`. Each run costs the same.

    `arithmetic`: the row of `data/peaks.toml` that its rate is held against, empty where none is; `most_runs`: the longest block of which
    every run leaves its trace, because in a longer one later runs write over what earlier ones left; `facts`: what explains the figures;
    `worth`: how much of each thing one run is, samples, tokens, TFLOP (1e12), GB (1e9 bytes); `proof`: what a block of one run shows, in
    one sentence, where nothing else is compared.
    """

    dtype: str = ""
    arithmetic: str = ""
    most_runs: int = 256
    facts: Mapping[str, Figure] = {}
    worth: Mapping[str, float]
    proof: str = ""

    def prove(self) -> str:
        """Run once and compare the result with a reference; return in one sentence what was compared. It can be called again.

        Raises:
            CheckFailed: the result is wrong.
        """
        self.begin(1)
        self.run()
        self.verify(1)
        return self.proof

    @abstractmethod
    def run(self) -> object:
        """Queue the work once; nothing waits for the device."""

    @abstractmethod
    def begin(self, runs: int, compared: bool = True) -> None:
        """Go to the start of a block of so many runs, outside the timed span; one that is not `compared` may go on from where it is."""

    @abstractmethod
    def verify(self, runs: int) -> None:
        """Hold what a block of so many runs left against what it must leave.

        Raises:
            CheckFailed: a run was left out, cut short, or computed something else than was proved.
        """

    @cached_property
    def switches(self) -> ExitStack:
        """What is switched while the work lives: once, because switching costs what a small run does."""
        return ExitStack()

    def close(self) -> None:
        """End what outlives the object, such as switches and processes of a loader."""
        self.switches.close()

    def conclude(self) -> Mapping[str, Figure]:
        """Prove once more, now that the timed runs are over, and return the facts."""
        self.prove()
        return self.facts


Maker = Callable[[Setting], Work]


FloatingDtype = Annotated[
    torch.dtype, OneOf(("float64", "float32", "bfloat16", "float16")), Parsed(partial(getattr, torch))
]
"""A floating dtype, by its name in a table."""
