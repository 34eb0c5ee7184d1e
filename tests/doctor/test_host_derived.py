"""Slips of variables, folders, limits and search paths, each found on a host made of files, and none on a good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.doctor import cards, host, rules

from .boxes import Box, bare

LIBRARIES = {"LD_LIBRARY_PATH": "/opt/a/lib:/opt/b/lib"}


def said(box: Box) -> str:
    """Return what the rows say of a host."""
    machine, table = box.machine(), rules.load()
    facts = host.gather(machine) | cards.gather(machine, table, ())
    facts |= host.derive(machine, table)
    return "\n".join(finding.sentence for area in ("host", "environment") for finding in table.judge(area, facts))


@pytest.mark.parametrize(
    ("variables", "files", "words"),
    [
        (LIBRARIES, ["/opt/a/lib/libcudart.so.11.0", "/opt/b/lib/libcudart.so.12"], "CUDA 11, 12"),
        (LIBRARIES, ["/opt/a/lib/libsycl.so.7", "/opt/b/lib/libsycl.so.8"], "several oneAPI runtimes"),
        (LIBRARIES, ["/opt/a/lib/libmpi.so.40", "/opt/b/lib/libmpi.so.12"], "several MPIs"),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"}, ["/usr/local/cuda/lib64/stubs/libcuda.so"], "stubs"),
        ({"PYTHONPATH": "/old"}, ["/old/torch/__init__.py"], "PYTHONPATH puts the torch of /old"),
        ({"PYTHONPATH": "/old"}, ["/old/numpy/__init__.py"], "PYTHONPATH puts packages of /old"),
        (LIBRARIES, ["/opt/a/lib/libamdhip64.so.5", "/opt/b/lib/libamdhip64.so.6"], "HIP 5, 6"),
        (LIBRARIES, ["/opt/a/lib/libccl.so.1", "/opt/b/lib/libccl.so.1"], "several oneCCLs"),
        (LIBRARIES, ["/opt/a/lib/libc10.so"], "another torch (/opt/a/lib)"),
        ({"TMPDIR": "/gone"}, [], "TMPDIR=/gone is missing"),
        ({"PYTHONOPTIMIZE": "1"}, [], "drops every assert"),
        ({"FI_PROVIDER": "efa"}, [], "no EFA adapter"),
    ],
)
def test_a_slip_is_found(tmp_path: Path, variables: dict[str, str], files: list[str], words: str) -> None:
    box = bare(tmp_path / "box")
    for name in files:
        box.file(name)
    box.environ |= variables
    assert words in said(box)


def test_what_is_meant_is_no_slip(tmp_path: Path) -> None:
    box = bare(tmp_path / "box").file("/opt/a/lib/libcudart.so.12")
    box.file("/sys/class/infiniband/efa_0/ports/1/state").file("/tmp/x")
    (box.root / "tmp").chmod(0o777)
    box.environ |= LIBRARIES | {"FI_PROVIDER": "efa", "TMPDIR": "/tmp"}
    assert said(box) == ""


def test_limits_and_mounts(tmp_path: Path) -> None:
    box = bare(tmp_path / "box").limits(nofile="1024").file("/sys/fs/cgroup/pids.max", "512\n")
    box.file(
        "/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 9000000 kB\nHugePages_Total: 300\nHugepagesize: 2048 kB\n"
    )
    box.file("/proc/mounts", "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw,noexec 0 0\n")
    box.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/ind"
    for words in ("1024 files", "512 processes", "61 % of the memory", "/tmp, /tmp/ind (mounted noexec)"):
        assert words in said(box)
