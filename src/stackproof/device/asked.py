"""Has this host the device that was asked for? Asked in the stack's own environment, which alone has its torch.

python -m stackproof.device.asked STACK DEVICE
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.places import PACKAGE
from stackproof.base.text import tail
from stackproof.stack import stacks

_ASKED_S = 300.0


def require(python: Path, stack: stacks.Stack, device: str) -> None:
    """Refuse a device that this environment does not see, in the words of the device room.

    Raises:
        Refusal: the device is none of this stack's, or its torch cannot be asked.
    """
    command = [str(python), "-m", "stackproof.device.asked", stack.name, device]
    environment = {**os.environ, "PYTHONPATH": stack.path(_path())}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, timeout=_ASKED_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StackUnavailableError(f"{python}: does not answer which devices it sees ({error})") from error
    said = tail(ended.stderr).removeprefix("stackproof: ")
    if ended.returncode == Refusal.exit_code:
        raise Refusal(said)
    if ended.returncode:
        raise StackUnavailableError(
            f"{python}: cannot be asked which devices it sees: {said}; name an interpreter that has the torch of '{stack.name}'"
        )


def _path() -> str:
    return os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))


def _main(words: list[str]) -> int:
    from stackproof.device import devices  # imports torch, which only the stack's interpreter has

    try:
        devices.parse(words[1], stacks.load(words[0]).device)
    except Refusal as refusal:
        print(f"stackproof: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
