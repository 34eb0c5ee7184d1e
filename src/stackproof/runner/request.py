"""What is asked of a run: one object, from the command line to each process that runs checks, which reads it as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stackproof.base import advice, files
from stackproof.base.errors import Refusal
from stackproof.record.records import Figure
from stackproof.stack import stacks
from stackproof.stack.stacks import Stack

REQUEST = "STACKPROOF_REQUEST"
"""Names the file that holds the request of a process."""


@dataclass(frozen=True)
class Request:
    """What to run: a stack, the folders of suites, and how; for one process of the run, its share as well."""

    verb: str
    stack: Stack
    suites: tuple[str, ...]
    device: str = ""
    preset: str = "tiny"
    only: tuple[str, ...] = ()
    deadline_scale: float = 1.0
    dataset: str = ""
    """A training set to look through; empty if none was handed in."""
    preflight: bool = True
    """Whether groups of ranks are held against the preflight before they start."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What only some suites ask for, such as the profile of benchmarks."""
    deep: bool = False
    """Whether every file of the environment is hashed again."""
    collect: bool = False
    """Whether checks are only collected, so that packages of a stack that is not here need not import."""
    folder: str = ""
    """Where one process leaves its events and logs."""
    shard: tuple[int, int] = (0, 1)
    """One process takes the checks of this number out of so many, by a stable hash of their names."""
    held: tuple[str, ...] = ()
    """Suites or files whose checks one process begins only when nothing of the run works beside it any more, or the device has room."""
    earlier: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Checks that ended before one process began: verdict and reason by name; they are not run again."""

    def facts(self) -> dict[str, Figure]:
        """Return what of the request explains a record: a run of some checks must never look like a run of all."""
        return {
            "suites": " ".join(self.suites), "only": " ".join(self.only), "preset": self.preset,
            "device": self.device or "the first", "deadline_scale": self.deadline_scale,
            "dataset": self.dataset or "none", "preflight": self.preflight, **self.options,
        }  # fmt: skip

    def write(self) -> Path:
        """Write it into its folder for another process; the stack travels by its name, and is read there from its folder."""
        path = Path(self.folder) / "request.json"
        path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have deleted it since the last process
        values = {**vars(self), "stack": self.stack.name, "rehearsed": self.stack.rehearsed}
        files.write_atomically(path, json.dumps(values), durably=False)
        return path

    @classmethod
    def load(cls) -> Request:
        """Read the request that the environment variable names."""
        if REQUEST not in os.environ:
            raise Refusal(f"suites are run by stackproof: use `{advice.command('NAME', 'smoke')}`")
        read: dict[str, Any] = files.read_json(Path(os.environ[REQUEST]))
        read["stack"] = stacks.load(read["stack"], rehearsed=read.pop("rehearsed"))
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in read.items()
        }
        values["earlier"] = {name: tuple(ended) for name, ended in read["earlier"].items()}
        return cls(**values)
