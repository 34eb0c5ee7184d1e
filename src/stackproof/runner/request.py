"""What the supervising process (`verify`) tells the process that runs the checks (`plugin`)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stackproof.base.errors import Refusal
from stackproof.stack import stacks

SESSION = "STACKPROOF_SESSION"


@dataclass(frozen=True)
class Session:
    """What the supervising process wants of this one; passed as a JSON file."""

    stack: str
    rehearsed: bool
    device: str
    preset: str
    folder: str
    earlier: dict[str, tuple[str, str]]
    """Checks that ended before this process began: verdict and reason by name; they are not run again."""
    only: tuple[str, ...]
    deadline_scale: float
    shard: tuple[int, int]
    """This process takes the checks of this number out of so many, by a stable hash of their names."""
    shuffle: int | None
    dataset: str = ""
    """A training set to look through; empty if none was handed in."""
    preflight: bool = True
    """Whether groups of ranks are held against the preflight before they start."""
    options: dict[str, str] = field(default_factory=dict)
    """What only some suites ask for."""

    @classmethod
    def load(cls) -> Session:
        """Read the session that the environment variable names."""
        if SESSION not in os.environ:
            raise Refusal(
                "suites are run by stackproof: use `python -m stackproof smoke --stack NAME` or `nox -s NAME-smoke`"
            )
        read = json.loads(Path(os.environ[SESSION]).read_text(encoding="utf-8"))
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in read.items()
        }
        values["earlier"] = {name: tuple(ended) for name, ended in read["earlier"].items()}
        return cls(**values)

    def open_stack(self) -> stacks.Stack:
        """Return the stack under test, as rehearsed if it is."""
        found = stacks.load(self.stack)
        return found.rehearse() if self.rehearsed else found
