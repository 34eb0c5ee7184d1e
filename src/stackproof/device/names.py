"""What a device is called: a type and an index; and whether a stack's environment has it, asked of that environment without torch here.

`python -m stackproof.device.devices DEVICE` answers in the stack's own environment, which alone has its torch.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.places import PACKAGE
from stackproof.base.text import tail
from stackproof.stack import stacks

_ASKED_S = 300.0


def require_of(text: str, kind: str) -> None:
    """Refuse a name that no device of a stack of type `kind` can have."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*(:(0|[1-9]\d*))?", text):
        why = "is not one device; write a type and an index"
    elif text.partition(":")[0] != kind:
        why = f"is not of this stack, which uses '{kind}'; choose another stack, or write one"
    else:
        return
    raise Refusal(f"device '{text}' {why}, such as '{kind}:0'")


def require_in(python: Path, stack: stacks.Stack, device: str) -> None:
    """Refuse a device that an environment does not see, in that environment's own words.

    Raises:
        Refusal: the device is none of this stack's.
        StackUnavailableError: its torch cannot be asked.
    """
    require_of(device, stack.device)
    command = [str(python), "-m", "stackproof.device.devices", device]
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))
    ended = processes.run(
        command, seconds=_ASKED_S, environment={**stack.process_environment(), "PYTHONPATH": stack.path(path)}
    )
    text = tail(ended.errors)
    if ended.code == Refusal.exit_code:
        raise Refusal(text)
    if ended.timed_out:
        raise StackUnavailableError(f"{python}: does not answer within {_ASKED_S:.0f} s which devices it sees")
    if not ended.ok:
        remedy = f"name an interpreter that has the torch of '{stack.name}'"
        raise StackUnavailableError(f"{python}: cannot be asked which devices it sees: {text}; {remedy}")
