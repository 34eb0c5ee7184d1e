"""How fast logs are read: `python -m tools.triage_speed [MiB ...]` writes one, triages it, says MB/s and peak memory, deletes it."""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stackproof.triage import logs, reports

_MIB = 1 << 20
_LINES = 80_000  # of their own; then they repeat themselves, as logs do
_WORDS = (
    "the",
    "model",
    "was",
    "trained",
    "with",
    "a",
    "gradient",
    "step",
    "while",
    "loading",
    "checkpoint",
    "shard",
    "queue",
)
_FAULT = "node1:73:73 [2] init.cc:943 NCCL WARN Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 73010\n"


def _channel(draw: random.Random) -> str:
    first, second = draw.randrange(8), draw.randrange(8)
    where = f"node{draw.randrange(4)}:{draw.randrange(99999)}:{draw.randrange(99999)} [{first}]"
    return f"{where} NCCL INFO Channel {draw.randrange(32):02d}/0 : {first}[{first}] -> {second}[{second}] via P2P/CUMEM/read\n"


def _step(draw: random.Random) -> str:
    loss, norm, rate, epoch = (draw.random() for _ in range(4))
    return f"{{'loss': {1 + loss:.4f}, 'grad_norm': {norm}, 'learning_rate': {rate:e}, 'epoch': {epoch:.2f}}}\n"


def _bar(draw: random.Random) -> str:
    step = draw.randrange(100000)
    return f"\r {step // 1000}%|{'#' * (step // 4000):25}| {step}/100000 [{step // 60}:{step % 60:02d}<1:00:00,  {draw.random():.2f}it/s]"


def _talk(draw: random.Random) -> str:
    return f"[INFO|2026-11-20 12:{draw.randrange(60):02d}:01] {' '.join(draw.choices(_WORDS, k=12))} {draw.randrange(10**9)}\n"


KINDS: dict[str, tuple[Callable[[random.Random], str], ...]] = {
    "prose": (_talk,),
    "NCCL": (_channel,),
    "training": (_step, _bar, _talk),
    "mixed": (_channel, _step, _bar, _talk),
}


def write(path: Path, mib: int, kind: str) -> None:
    """Write a log of that many MiB that ends with a fault: steps after it would show that it was outlived."""
    draw = random.Random(kind)
    lines = [draw.choice(KINDS[kind])(draw) for _ in range(_LINES)]
    block = "".join(lines).encode()
    with path.open("wb") as stream:
        while stream.tell() + len(block) < mib * _MIB:
            stream.write(block)
        stream.write(block[: _MIB // 2] + b"\n" + _FAULT.encode())


def main(sizes: Sequence[str]) -> int:
    """Measure each kind of log in each size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.log"
        for mib in map(int, sizes or ("256",)):
            for kind in KINDS:
                write(path, mib, kind)
                began, cpu = time.perf_counter(), time.process_time()
                found = reports.report(logs.named([path])).judgement.root
                seconds, busy = time.perf_counter() - began, time.process_time() - cpu
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                megabytes = path.stat().st_size / 1e6
                print(  # noqa: T201
                    f"{kind:9} {megabytes:5.0f} MB in {seconds:5.1f} s, {busy:5.1f} s of one core: {megabytes / busy:4.0f} MB/s; "
                    f"peak memory {peak:.0f} MiB; found {found.signature if found else 'nothing'}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
