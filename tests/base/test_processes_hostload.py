"""What others do to the host's cores is measured, and what ended processes of ours did is not taken for theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stackproof.base.processes import HostLoad, cores, descendants, everyone

SPIN = "import time; began = time.time()\nwhile time.time() < began + 30: pass"


def test_what_others_do_to_the_cores_is_seen() -> None:
    code = f"""import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {SPIN!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    pid = int(said)  # its parent has ended, so that it is nobody's of ours
    try:
        load = HostLoad()
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        with_stranger = load.share()
    finally:
        os.kill(pid, 9)
    assert with_stranger * (os.cpu_count() or 1) > 0.1
    assert HostLoad.note(0.01) == ()
    assert HostLoad.note(0.5) == ("busy host: others used 50% of its cores",)


def test_what_an_ended_child_used_is_ours() -> None:
    ours = everyone()[os.getpid()].ticks
    code = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert everyone()[os.getpid()].ticks - ours >= 0.4 * os.sysconf("SC_CLK_TCK")


def test_descendants_are_found_at_any_depth() -> None:
    assert descendants(2, {1: 0, 2: 1, 3: 2, 4: 3, 5: 1}) == {3, 4}


@pytest.mark.parametrize(
    ("names", "text", "most"),
    [
        (("cpu.max",), "100000 100000\n", 1),
        (("cpu.max",), "50000 100000\n", 1),
        (("cpu.max",), "max 100000\n", None),
        (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), "100000\n", 1),
        (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), "-1\n", None),
    ],
)
def test_the_quota_of_a_container_counts(names: tuple[str, ...], text: str, most: int | None, tmp_path: Path) -> None:
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert cores(tmp_path) == (most or len(os.sched_getaffinity(0)))
