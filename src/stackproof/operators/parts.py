"""The sweep in several processes at once.

On a card a sweep waits for its host: for float64 references, and for kernels that are compiled as they are called first. Operators are
dealt out one by one, so that neighbours of a kind, such as the special functions that take seconds to compile, go to different processes.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import torch

from stackproof.base import processes
from stackproof.base.files import parse_json
from stackproof.device import threads
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators import engine
from stackproof.operators.database import load, preserved
from stackproof.operators.relation import word
from stackproof.record.checks import CheckCrashed, CheckFailed, NotApplicable

_MOST, _CORES, _PATIENCE_S = 8, 2, 600.0
"""Processes at most, the cores that each should have, and how long one is waited for."""


@dataclass(frozen=True)
class OperatorEnd:
    """On how many samples one operator ran, forward and backward, and what is wrong with it; empty: nothing."""

    operator: str
    forward: int
    backward: int
    wrong: str


def suited(device: Device) -> int:
    """Return how many processes pay: one where the device is the host, whose cores would have to be shared."""
    return 1 if device == HOST else max(1, min(_MOST, processes.cores() // _CORES))


def swept(
    device: torch.device,
    dtype: torch.dtype,
    samples: int | None,
    imports: Sequence[str],
    parts: int,
    names: Sequence[str] | None = None,
) -> list[OperatorEnd]:
    """Examine the operators in so many processes, or in this one; `imports` is what each imports first.

    Raises:
        CheckCrashed: a process died; the operator that it was in is named.
    """
    names = names or list(load())
    if parts < 2:
        return _ends(device, dtype, samples, names)
    shared = {"device": str(device), "dtype": word(dtype), "samples": samples, "imports": [*imports]}
    with ThreadPoolExecutor(parts) as pool:
        rows = [*pool.map(_answered, [{**shared, "names": names[part::parts]} for part in range(parts)])]
    ends = {row["operator"]: OperatorEnd(**row) for part in rows for row in part}
    return [ends[name] for name in names]


def _ends(
    device: torch.device, dtype: torch.dtype, samples: int | None, names: Sequence[str], announce: bool = False
) -> list[OperatorEnd]:
    ends = []
    with preserved(device):
        for name in names:
            if announce:
                print(f"operator {name}", flush=True)  # noqa: T201 - for whoever has to explain a crash
            seen, wrong = dict[str, int](), ""
            try:
                for point, relation, message in engine.faults(
                    "samples", name, device, seen=seen, dtypes=[dtype], most=samples
                ):
                    if not engine.excuse("samples", point, relation, message):
                        wrong = f"{name} in {word(dtype)} on {device}, {relation.says}: {message}"
                        break
            except NotApplicable:
                pass
            except CheckFailed as failed:
                wrong = str(failed)
            ends.append(OperatorEnd(name, seen.get("relations", 0), seen.get("backward", 0), wrong))
    return ends


def _answered(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a process of its own answers, as JSON on the last line that it prints."""
    command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    ended = processes.run(command, seconds=_PATIENCE_S, stdin=json.dumps(asked).encode())
    lines = ended.output.splitlines()
    if not ended.ok or ended.timed_out:
        last = " / ".join([*ended.errors.splitlines()[-3:], *lines[-1:]])
        raise CheckCrashed(
            f"a process of the sweep ended with {processes.describe_exit(ended.code)}; it printed last: {last}"
        )
    rows: list[dict[str, Any]] = parse_json(lines[-1], "a part of the sweep")
    return rows


def answer() -> None:
    """Run as a process of its own: sweep what the standard input asks for, and name each operator before it is examined."""
    processes.die_with_parent()
    asked = parse_json(sys.stdin.read(), "what is asked of a part of the sweep")
    for name in asked["imports"]:
        importlib.import_module(name)
    threads.choose("tiny")  # the references of all parts share the cores
    device, dtype = torch.device(asked["device"]), getattr(torch, asked["dtype"])
    ends = _ends(device, dtype, asked["samples"], asked["names"], announce=True)
    print(json.dumps([asdict(end) for end in ends]))  # noqa: T201
