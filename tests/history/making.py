"""Makes what histories are made of: records with figures, a checkout of its own with commits, and the real asv in it."""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.record import store
from stackproof.record.records import Check, Figure, Measurement, Record, Verdict, seal
from stackproof.stack import environments

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
FACTS: dict[str, Figure] = {
    "stackproof": "0.1.0",
    "host": "box",
    "commit": "a" * 40,
    "stack": "cuda",
    "rehearsed": False,
    "hardware": "cuda",
    "verified on": "cuda",
    "backend": "nccl",
    "python": "3.12.1",
    "kernel": "6.8.0-31-generic",
    "libc": "glibc 2.39",
    "machine": "x86_64",
    "cpus": 16,
    "devices": 2,
    "cuda:0.name": "NVIDIA L40S",
    "cuda:1.name": "NVIDIA L40S",
    "cuda:0.driver api": "13000",
    "cuda:1.driver api": "13000",
    "cuda:0.properties.uuid": "a-1",
    "driver.nvidia-smi": "580.65.06, NVIDIA L40S",
    "pinned": True,
    "lock": "f" * 64,
    "torch": "2.15.0+cu132",
    "torch.version.cuda": "13.2",
    "torch.threads": 16,
    "device": "the first",
}
NEW_DRIVER: dict[str, Figure] = {"driver.nvidia-smi": "590.10.01, NVIDIA L40S"}


def samples(seconds: float, count: int = 30, seed: int = 1, noise: float = 0.005) -> list[float]:
    source = random.Random(seed)
    return [seconds * math.exp(source.gauss(0, noise)) for _ in range(count)]


def figure(seconds: float = 1e-3, **changed: Any) -> Measurement:
    values: dict[str, Any] = {
        "workload": "gemm-float32",
        "preset": "tiny",
        "dtype": "float32",
        "world_size": 1,
        "metric": "time",
        "unit": "s/TFLOP",
        "samples": samples(seconds),
        "version": "1",
    }
    values |= changed
    return Measurement(**{"value": statistics.median(values["samples"]), **values})


def record(
    day: float = 0, *figures: Measurement, verb: str = "asv", verdict: Verdict = Verdict.PASSED, **facts: Figure
) -> Record:
    """Return a record of some day; facts whose names are no words are given as `facts={...}` by `with_facts`."""
    started = (BEGAN + timedelta(days=day)).isoformat(timespec="milliseconds")
    rows = list(figures) or [figure()]
    check = Check("asv/gemm::gemm-float32[tiny]", verdict, "as expected", 1.0)
    made = Record(verb, "cuda", started, 1.0, verdict, {**FACTS, **facts}, [check], rows)
    seal(made, Path())
    return made


def with_facts(made: Record, facts: dict[str, Figure]) -> Record:
    made.provenance |= facts
    return made


def asv_python() -> str:
    """Return the interpreter of asv's environment, as the `tests` session names it; without one the test fails."""
    if python := os.environ.get("STACKPROOF_ASV"):
        return python
    if (built := environments.ASV_HOME / "bin" / "python").exists():
        return str(built)
    pytest.fail("asv's environment is needed: run the tests with `nox -s tests`, which builds it")


def asv_packages() -> Path:
    (found,) = Path(asv_python()).parents[1].glob("lib/python3*/site-packages")
    return found


# After the engine's own text: as fast as the file says that the environment names, times what the commit says, proved as the file says.
_ENGINE = """

def measure(subject, device, preset, budget):
    import os
    from pathlib import Path

    seconds, _, verdict = Path(os.environ["PLANTED_SPEED"]).read_text().strip().partition(" ")
    source = random.Random(subject.name)
    factor = Path(__file__).parents[3] / "factor"
    seconds = float(seconds) * (float(factor.read_text()) if factor.exists() else 1)
    drawn = [seconds * (1 + source.gauss(0, 0.005)) for _ in range(20)]
    verified = verdict != "wrong"
    return Sampled(
        subject.name, subject.version, preset, subject.dtype, 1, subject.unit, tuple(drawn) if verified else (), {"TFLOP": 1.0},
        "proved by a planted engine" if verified else "planted: the product is wrong",
    )
"""


class Checkout:
    """A checkout with commits, a stack whose driver's version is a file, and an engine that says what it is told."""

    def __init__(self, root: Path) -> None:
        self.root, self.results = root, root / "records"
        self.driver, self.speed = root / "driver-version", root / "speed"
        for folder in ("src", "suites", "fixtures", "benchmarks", "tools"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "stacks" / "cpu", root / "stacks" / "cpu")
        for name in ("asv.conf.json", "pyproject.toml"):
            shutil.copy(ROOT / name, root)
        for leaf in (root / "benchmarks").glob("[!_]*.py"):
            if leaf.name != "gemm.py":
                leaf.unlink()
        with (root / "src" / "stackproof" / "bench" / "engine.py").open("a", encoding="utf-8") as engine:
            engine.write(_ENGINE)
        self._read_the_driver()
        self.be(driver="550.54.14", seconds=1e-3)
        (root / ".gitignore").write_text(".asv/\nrecords/\ndriver-version\nspeed\n__pycache__/\n", encoding="utf-8")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("Begin")

    def _read_the_driver(self) -> None:
        definition = self.root / "stacks" / "cpu" / "stack.toml"
        text = definition.read_text(encoding="utf-8")
        assert "[driver]" not in text
        definition.write_text(f'{text}\n[driver]\nfiles = ["{self.driver}"]\n', encoding="utf-8")

    def copy(self, root: Path) -> Checkout:
        """Return a copy that can be changed."""
        shutil.copytree(self.root, root, symlinks=True, dirs_exist_ok=True)
        other = object.__new__(Checkout)
        other.root, other.results, other.driver, other.speed = root, root / "records", self.driver, root / "speed"
        return other

    def be(self, driver: str | None = None, seconds: float | None = None, wrong: bool = False) -> None:
        """Change the driver's version, or how fast everything is."""
        if driver is not None:
            self.driver.write_text(f"{driver}\n", encoding="utf-8")
        if seconds is not None:
            self.speed.write_text(f"{seconds} {'wrong' if wrong else ''}\n", encoding="utf-8")

    def git(self, *arguments: str, stream: bytes | None = None) -> str:
        """Run git here as nobody in particular."""
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        command = ["git", *who, *arguments]
        ended = subprocess.run(command, cwd=self.root, input=stream, capture_output=True, timeout=120, check=True)
        return ended.stdout.decode().strip()

    def commit(self, message: str, factor: float | None = None) -> str:
        """Commit everything, and how many times as long the code of this commit takes; return the commit."""
        if factor is not None:
            (self.root / "factor").write_text(str(factor), encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def environment(self, **changed: str) -> dict[str, str]:
        """Return the variables that asv is run with."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("STACKPROOF_")},
            "PYTHONPATH": str(self.root / "src"),
            "STACKPROOF_PYTHON": sys.executable,
            "STACKPROOF_RESULTS": str(self.results),
            "STACKPROOF_HOST": "box",
            "PLANTED_SPEED": str(self.speed),
            "OMP_NUM_THREADS": "1",
            **changed,
        }

    def asv(self, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run the verb `asv` here, in asv's environment."""
        return self._run([asv_python(), "-m", "stackproof", "asv", *arguments], changed)

    def plain_asv(self, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run asv itself here, as somebody who knows asv would."""
        return self._run([asv_python(), "-m", "asv", *arguments], changed)

    def _run(self, command: Sequence[str], changed: dict[str, str]) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(**changed),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=1200,
            check=False,
        )
        ended.stdout = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)
        return ended

    def files(self) -> list[str]:
        """Return asv's files of results, without the folder."""
        return sorted(path.name for path in (self.root / ".asv" / "results" / "box").glob("*-*.json"))

    def stored(self) -> list[Record]:
        """Return the records of the store, oldest first."""
        return list(store.load([self.results]).records.values())
