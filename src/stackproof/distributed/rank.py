"""One rank: `python -m stackproof.distributed.rank SPEC` under torchrun binds its device, joins the group, runs the program."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from .. import stacks
from ..device import Device, visible
from ..processes import die_with_parent
from ..records import write_atomically
from .launch import Spec

# The launcher's deadline comes first: a peer that gave up waiting would be blamed for the rank that hangs.
_AFTER_DEADLINE_S = 60.0

Program = Callable[["Rank"], dict[str, Any]]


@dataclass(frozen=True)
class Rank:
    """What a program knows of its rank."""

    rank: int
    world_size: int
    device: Device
    backend: str
    formed_s: float
    arguments: dict[str, Any]
    folder: Path

    def phase(self, name: str) -> None:
        """Note how far this rank got; a hang is blamed on the rank that got least far."""
        note_phase(self.folder, self.rank, name)


def note_phase(folder: Path, rank: int, name: str) -> None:
    """Append a phase to the rank's own file."""
    with (folder / f"rank{rank}.phases").open("a", encoding="utf-8") as stream:
        stream.write(f"{name}\n")


def main(path: Path) -> int:
    """Run the program of the specification on this rank and leave its result beside it."""
    die_with_parent()
    spec, number = Spec.load(path), int(os.environ["RANK"])
    faulthandler.enable()
    faulthandler.dump_traceback_later(spec.remaining_s)
    try:
        result = _run(spec, number)
    except Exception as error:
        sentence = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
        (Path(spec.folder) / f"rank{number}.error").write_text(
            f"{type(error).__name__}: {sentence}"[:600], encoding="utf-8"
        )
        raise
    write_atomically(Path(spec.folder) / f"rank{number}.json", json.dumps(result))
    return 0


def _run(spec: Spec, number: int) -> dict[str, Any]:
    import torch.distributed as dist

    folder = Path(spec.folder)
    device = _bring_up(spec, number)
    note_phase(folder, number, "forming the group")
    began = time.perf_counter()
    patience = timedelta(seconds=spec.remaining_s + _AFTER_DEADLINE_S)
    dist.init_process_group(spec.backend, timeout=patience, **device.group_options())
    dist.barrier()  # ccl and nccl start at the first collective; that is where configuration errors surface
    context = Rank(
        number, len(spec.cards), device, str(dist.get_backend()), time.perf_counter() - began, spec.arguments, folder
    )
    result = _program(spec.program)(context)
    context.phase("leaving the group")
    dist.destroy_process_group()  # gloo may abort at exit when a group is left behind
    return result


def _bring_up(spec: Spec, number: int) -> Device:
    """Import the stack's packages in their order and bind the device, before any group forms."""
    note_phase(Path(spec.folder), number, "importing")
    stack = stacks.load(spec.stack)
    stack = stack.rehearse() if spec.rehearsed else stack
    for name in stack.imports:
        importlib.import_module(name)
    note_phase(Path(spec.folder), number, "binding the device")
    device = visible(stack.device)[spec.cards[number]]
    device.bind()
    return device


def _program(name: str) -> Program:
    module, _, function = name.partition(":")
    program: Program = getattr(importlib.import_module(module), function)
    return program


def _end(status: int) -> None:
    """End at once, without Python's own shutdown: the evidence is on disk by now.

    torch 2.8 and later keep the group alive after it was destroyed; its threads then race with the shutdown, and gloo sometimes aborts.
    https://github.com/pytorch/pytorch/pull/179291
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _end(main(Path(sys.argv[1])))
