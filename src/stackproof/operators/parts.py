"""The sweep in several processes at once, `python -m stackproof.operators.parts ASKED ANSWER` in each.

On a card a sweep waits for its host: for float64 references, and for kernels that are compiled as they are called first. Operators are
dealt out one by one, so that neighbours of a kind, such as the special functions that take seconds to compile, go to different processes.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from stackproof.base import files, processes
from stackproof.device.devices import HOST
from stackproof.device.kinds import Device
from stackproof.operators.compare import word
from stackproof.operators.database import load, preserved
from stackproof.operators.examine import Outcome, examine
from stackproof.record.checks import CheckCrashed

_MOST, _CORES = 8, 2
"""Processes at most, and the cores that each should have."""


@dataclass(frozen=True)
class OperatorEnd:
    """How one operator ended, and on how many samples forward and backward."""

    operator: str
    outcome: Outcome
    reason: str
    forward: int
    backward: int


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
    if parts < 2:
        return list(_ends(device, dtype, samples, names or list(load())))
    asked = {"device": str(device), "dtype": word(dtype), "samples": samples, "imports": [*imports], "names": names}
    with tempfile.TemporaryDirectory() as folder:
        rows = _run([{**asked, "part": (part, parts)} for part in range(parts)], Path(folder))
    rows.sort(key=lambda row: int(row.pop("at")))
    return [OperatorEnd(outcome=Outcome(row.pop("outcome")), **row) for row in rows]


def _ends(
    device: torch.device, dtype: torch.dtype, samples: int | None, names: Sequence[str], tell: bool = False
) -> Iterator[OperatorEnd]:
    database = load()
    with preserved(device):
        for name in names:
            if tell:
                print(f"operator {name}", flush=True)  # noqa: T201 - for whoever has to explain a crash
            seen = examine(name, database[name], device, dtype, samples)
            yield OperatorEnd(name, seen.outcome, seen.reason, seen.forward, seen.backward)


def _run(asked: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Start a process for each part, and return what all of them answer; none outlives this."""
    mark, running = processes.new_mark(), []
    try:
        for part, one in enumerate(asked):
            (folder / f"{part}.asked").write_text(json.dumps(one), encoding="utf-8")
            with (folder / f"{part}.log").open("wb") as log:
                files = [str(folder / f"{part}.{what}") for what in ("asked", "answer")]
                running.append(processes.start([sys.executable, "-m", __name__, *files], log, {}, mark))
        return [row for part, process in enumerate(running) for row in _answer(folder, part, process)]
    finally:
        for process in running:
            processes.end_tree(mark, process)


def _answer(folder: Path, part: int, process: processes.Process) -> list[dict[str, Any]]:
    if (status := process.wait()) != 0:
        said = " / ".join(processes.last_lines(folder / f"{part}.log", 3))
        raise CheckCrashed(
            f"a process of the sweep ended with {processes.describe_exit(status)}; it printed last: {said}"
        )
    rows: list[dict[str, Any]] = files.read_json(folder / f"{part}.answer")
    return rows


def main(asked: Path, answer: Path) -> int:
    """Sweep what is asked for, and name each operator before it is examined, for whoever has to explain a crash."""
    processes.die_with_parent()
    wanted = files.read_json(asked)
    part, parts = wanted["part"]
    for name in wanted["imports"]:
        importlib.import_module(name)
    names = list(wanted["names"] or load())[part::parts]
    found = _ends(torch.device(wanted["device"]), getattr(torch, wanted["dtype"]), wanted["samples"], names, tell=True)
    rows = [{**asdict(one), "outcome": one.outcome.value, "at": part + parts * turn} for turn, one in enumerate(found)]
    answer.write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
