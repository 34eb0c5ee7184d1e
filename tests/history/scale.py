"""How the history scales: `python tests/history/scale.py 1000 10000 50000` times it on so many files of records.

Each file is a record with 27 facts and one figure of 30 samples, for a commit of its own in a made-up repository, at one of five
hosts; a driver changes twice in the life of each. The figures in docs/history.md come from here.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "src")]

from stackproof.extras.nights.site import build  # noqa: E402
from stackproof.record import store  # noqa: E402
from stackproof.record.records import Figure  # noqa: E402
from tests.history import making  # noqa: E402

HOSTS = 5
T = TypeVar("T")


def fill(checkout: making.Checkout, count: int) -> None:
    """Make `count` records, and the commits that they name."""
    each = -(-count // HOSTS)
    names = _commits(checkout, each)
    for number in range(count):
        host, day = number % HOSTS, number // HOSTS
        drivers = ("550.54.14", "580.65.06", "590.10.01")
        seconds = 1e-3 * (1.0 if day < each * 2 // 3 else 1.12)
        facts: dict[str, Figure] = {
            "host": f"box{host}",
            "commit": names[day],
            "driver.nvidia-smi": drivers[day * 3 // each],
        }
        row = making.figure(seconds, samples=making.samples(seconds, seed=number))
        record = making.with_facts(making.record(day + host / HOSTS, row), facts)
        store.append(record, store.folder(record, checkout.results))


def _commits(checkout: making.Checkout, count: int) -> list[str]:
    """Add empty commits to the branch and return their hashes, oldest first."""
    before = checkout.git("rev-parse", "HEAD")
    rows = [
        f"commit refs/heads/main\ncommitter t <t@localhost> {1767225600 + day * 86400} +0000\ndata 4\nday\n\n"
        + (f"from {before}\n\n" if day == 0 else "")
        for day in range(count)
    ]
    checkout.git("fast-import", "--quiet", stream="".join(rows).encode())
    return checkout.git("rev-list", "--reverse", f"{before}..main").splitlines()


def _processor_s() -> float:
    """Return the processor time of this process and of those that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def timed(what: str, count: int, action: Callable[[], T]) -> T:
    """Print how long something took; on a busy host the processor's time says more than the clock's."""
    began, before = time.perf_counter(), _processor_s()
    found = action()
    seconds, used = time.perf_counter() - began, _processor_s() - before
    print(  # noqa: T201
        f"{count:>7} {what:<30} {seconds:8.2f} s {used:8.2f} s of a processor {used / count * 1e3:7.3f} ms a file",
        flush=True,
    )
    return found


def _ran(checkout: making.Checkout, *arguments: str) -> None:
    ended = checkout.asv(*arguments)
    if ended.returncode:
        sys.exit(f"asv {' '.join(arguments)} failed: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")


def scale(count: int, root: Path) -> None:
    """Time writing and loading, the site, and asv's commands on so many files."""
    checkout = making.Checkout(root)
    timed("write", count, lambda: fill(checkout, count))
    loaded = timed("load", count, lambda: store.load([checkout.results]))
    assert len(loaded.records) == count, loaded.problems
    order = build.SiteOrder((checkout.results,), ("cuda",), (), datetime.now(timezone.utc).date())
    timed("site", count, lambda: build.build(root / "site", order))
    timed("site, nothing new", count, lambda: build.build(root / "site", order))
    timed("publish", count, lambda: _ran(checkout, "publish"))
    timed("publish, nothing new", count, lambda: _ran(checkout, "publish"))
    timed("compare", count, lambda: _ran(checkout, "compare", "HEAD~1", "HEAD", "--machine", "box0"))


if __name__ == "__main__":
    for word in sys.argv[1:] or ["1000", "10000"]:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            scale(int(word), Path(folder))
