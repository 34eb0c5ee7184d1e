"""Processes of `stackproof ranks`, started as a launcher would: its variables, and nothing else of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof import ROOT

# What an elastic agent or an MPI launcher around the tests would have left.
_LAUNCHERS = ("TORCHELASTIC_", "GROUP_", "ROLE_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "PMI_", "OMPI_", "SLURM_")


def plain(rank: int, world_size: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
    }


def open_mpi(rank: int, world_size: int) -> dict[str, str]:
    names = ("RANK", "LOCAL_RANK", "SIZE", "LOCAL_SIZE")
    values = (rank, rank, world_size, world_size)
    return {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in zip(names, values, strict=True)}


def join(
    folder: Path, environs: Sequence[Mapping[str, str]], *options: str, stack: str = "cpu", seconds: float = 240.0
) -> list[subprocess.CompletedProcess[str]]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    base |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "stackproof", "ranks", "--stack", stack, "--folder", str(folder), *options]
    children = [
        subprocess.Popen(
            command, env={**base, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        for environ in environs
    ]
    ended = []
    for child in children:
        out, err = child.communicate(timeout=seconds)
        ended.append(subprocess.CompletedProcess(command, child.returncode, out, err))
    return ended
