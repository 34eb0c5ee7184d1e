"""One rank: `python -m stackproof.ranks.rank SPEC PORT` under torchrun binds its device, joins the group, runs the program."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from stackproof.base.files import write_atomically
from stackproof.base.places import mount_suites
from stackproof.base.processes import die_with_parent
from stackproof.device.devices import HOST, visible
from stackproof.device.kinds import Device
from stackproof.ranks import libraries
from stackproof.ranks.blame import FORMED, LEAVING
from stackproof.ranks.counting import counted
from stackproof.ranks.launchers import Placement, Spec, placement
from stackproof.stack import stacks

# The launcher's deadline comes first: a peer that gave up waiting would be blamed for the rank that hangs.
_AFTER_DEADLINE_S = 60.0
_PARTING_S = 5.0
_FAREWELL_S = 20.0


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
    silence_s: float = 0.0
    """How long it may be silent before its stacks are dumped; 0: until the launch's own deadline."""

    def phase(self, name: str) -> None:
        """Note how far this rank got; a hang is blamed on the rank that got least far."""
        note_phase(self.folder, self.rank, name)
        if self.silence_s:
            faulthandler.dump_traceback_later(self.silence_s)


def note_phase(folder: Path, rank: int, name: str) -> None:
    """Append a phase to the rank's own file."""
    with (folder / f"rank{rank}.phases").open("a", encoding="utf-8") as stream:
        stream.write(f"{name}\n")


def main(path: Path, port: int) -> int:
    """Run the program of the specification on this rank and leave its result beside it."""
    die_with_parent()
    spec, place = Spec.load(path), placement(os.environ)
    patience = timedelta(seconds=spec.remaining_s + _AFTER_DEADLINE_S)
    store = partial(TCPStore, "localhost", port, is_master=False, timeout=patience)
    take_part(spec, place, lambda: join(spec, place, _bring_up(spec, place), store()))
    return 0


def take_part(spec: Spec, place: Placement, run: Callable[[], dict[str, Any]]) -> None:
    """Run the rank with its stacks dumped at the deadline; leave its result, or what it raised, in the folder."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(spec.remaining_s)
    for name, value in spec.environment.items():
        os.environ[name] = value.replace("{file}", str(spec.folder / f"library.rank{place.rank}.log"))
    try:
        result = run()
    except Exception as error:
        text = str(error).strip() or "no message"
        (spec.folder / f"rank{place.rank}.error").write_text(f"{type(error).__name__}: {text}"[:8000], encoding="utf-8")
        raise
    write_atomically(spec.folder / f"rank{place.rank}.json", json.dumps(result))


def join(spec: Spec, place: Placement, device: Device, store: Store) -> dict[str, Any]:
    """Form the group over the store, run the program, leave the group, and return what the program gave."""
    folder = spec.folder
    note_phase(folder, place.rank, "forming the group")
    began = time.perf_counter()
    patience = timedelta(seconds=spec.patience_s or max(spec.remaining_s, spec.within_s) + _AFTER_DEADLINE_S)
    dist.init_process_group(
        spec.backend,
        store=store,
        rank=place.rank,
        world_size=place.world_size,
        timeout=patience,
        **(device.group_options() if libraries.serving(spec.backend).device_id else {}),
    )
    dist.barrier()  # ccl and nccl start at the first collective; that is where configuration errors surface
    formed_s = time.perf_counter() - began
    context = Rank(
        place.rank, place.world_size, device, str(dist.get_backend()), formed_s, spec.arguments, folder, spec.within_s
    )
    context.phase(FORMED)
    module, _, function = spec.program.partition(":")
    mount_suites()
    program = getattr(importlib.import_module(module), function)
    with counted(folder, place.rank):
        result: dict[str, Any] = program(context)
    context.phase(LEAVING)
    # A rank that ends while another still receives breaks its connection: wait a moment for the others to come as far. The group
    # is not destroyed: the process ends at once after this, and torch 2.4.1 was seen to hang for ever in the destructor of gloo's groups.
    with contextlib.suppress(RuntimeError):
        store.set(f"parting/{place.rank}", "")
        store.wait([f"parting/{rank}" for rank in range(place.world_size)], timedelta(seconds=_PARTING_S))
    return result


def import_packages(spec: Spec, rank: int) -> stacks.Stack:
    """Import the stack's packages in their order, and return the stack."""
    note_phase(spec.folder, rank, "importing")
    stack = stacks.load(spec.stack)
    stack = stack.rehearse() if spec.rehearsed else stack
    for name in stack.imports:
        importlib.import_module(name)
    return stack


def _bring_up(spec: Spec, place: Placement) -> Device:
    stack = import_packages(spec, place.rank)
    note_phase(spec.folder, place.rank, "binding the device")
    device = HOST if spec.on_host else visible(stack.device)[spec.cards[place.rank]]
    device.bind()
    return device


def end(run: Callable[[], int]) -> None:
    """Run a rank and end at once, without Python's own shutdown: the evidence, or the error, is on disk by then.

    torch 2.8 and later keep the group alive after it was destroyed; its threads then race with the shutdown, and gloo sometimes aborts.
    https://github.com/pytorch/pytorch/pull/179291
    """
    try:
        status = run()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0 and dist.is_initialized() and libraries.finalises(str(dist.get_backend())):
        # The group is destroyed and Python shuts down, so that the library takes its leave; one that hangs there is ended all the same.
        last = threading.Timer(_FAREWELL_S, os._exit, [0])
        last.daemon = True
        last.start()
        dist.destroy_process_group()
        sys.exit(0)
    os._exit(status)


if __name__ == "__main__":
    end(lambda: main(Path(sys.argv[1]), int(sys.argv[2])))
