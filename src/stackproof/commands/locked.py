"""What `--locked` does: build the environment of a stack from its lock, and let the same command go on in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stackproof.base import places
from stackproof.project import projects

if TYPE_CHECKING:
    from stackproof.stack.stacks import Stack

FLAG = "--locked"


def again(chosen: Sequence[Stack], given: Sequence[str]) -> int:
    """Become the same command in the environment of the first of these stacks, with all of them built.

    It is this process that goes on: signals and exit code are its own.

    Raises:
        StackUnavailableError: the host lacks what the stack needs; nothing was downloaded.
        Refusal: the environment cannot be built.
    """
    from stackproof.stack import environments, hosts  # need packages that a bare Python lacks

    python, *_ = [str(environments.prepare(hosts.require(stack), _say)) for stack in chosen]
    if behind := projects.carry():
        said = (
            f"the environment of a lock holds no package besides, so {', '.join(behind)} and its workloads take no part"
        )
        _say(
            f"{said}; a project's do ({places.page('your-project.md')}), or run without {FLAG} where the package is installed"
        )
    sys.stderr.flush()
    os.execv(python, [python, "-m", "stackproof", *(word for word in given if word != FLAG)])  # noqa: S606 - no shell


def _say(sentence: str) -> None:
    print(f"stackproof: {sentence}", file=sys.stderr)  # noqa: T201
