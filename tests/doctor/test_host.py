"""The host as such: what is read, what a rule makes of it, and that what cannot be read is not judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.doctor import host, rules
from stackproof.stack.variables import Level

from .boxes import Box, b60, bare


def judged(box: Box) -> list[str]:
    """Return what the host's rules say."""
    return [finding.sentence for finding in rules.load().judge("host", host.gather(box.machine()))]


def test_a_good_host_is_described_and_nothing_is_said(tmp_path: Path) -> None:
    box = bare(tmp_path / "box")
    system, size, limits = (finding.sentence for finding in host.describe(host.gather(box.machine())))
    assert system == "Ubuntu 25.04, kernel 6.14.0-1006-intel, glibc 2.41, not in a container"
    assert size.startswith(
        "16 CPUs (Some CPU) in 1 NUMA node; 120.0 GiB of 128.0 GiB memory available; 200.0 GiB disk free"
    )
    assert limits == "shared memory (/dev/shm) 64.0 GiB; 1048576 open files; lockable memory unlimited"
    assert judged(box) == []


def test_an_empty_tree_claims_nothing(tmp_path: Path) -> None:
    machine = bare(tmp_path / "box").machine()
    empty = Box.__new__(Box)
    empty.root, empty.environ = tmp_path / "empty", {}
    empty.disk_free, empty.libc = 200 << 30, ""
    empty.root.mkdir()
    facts = host.gather(empty.machine())
    assert set(facts) == {"disk_free_mib", "numa_nodes"}
    assert set(facts) < set(host.gather(machine))
    assert [finding.sentence for finding in rules.load().judge("host", facts)] == []
    assert all("unknown" in finding.sentence for finding in host.describe(facts))


def change_glibc(box: Box) -> None:
    """Make the C library old."""
    box.libc = "glibc 2.17"


def change_disk(box: Box) -> None:
    """Fill the disk."""
    box.disk_free = 3 << 30


def change_preload(box: Box) -> None:
    """Load something into every process."""
    box.environ["LD_PRELOAD"] = "/usr/local/vgpu/libvgpu.so"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_glibc, "glibc 2.17 is older than 2.28"),
        (change_disk, "only 3072 MiB of disk are free"),
        (change_preload, "LD_PRELOAD puts /usr/local/vgpu/libvgpu.so into every process"),
        (lambda box: box.shm("65536k"), "/dev/shm has 64 MiB"),
        (lambda box: box.container(), "/dev/shm has 64 MiB"),
        (lambda box: box.memory(16 << 20, 1 << 20), "only 1024 MiB of memory are available"),
        (lambda box: box.limits(nofile="256"), "only 256 files may be open"),
        (
            lambda box: box.limits(memlock="65536").file("/sys/class/infiniband/mlx5_0/ports"),
            "only 64 KiB may be locked in memory, and the RDMA adapters (mlx5_0)",
        ),
        (lambda box: box.file("/sys/fs/cgroup/cpu.max", "200000 100000\n"), "the cgroup gives 2 CPUs of the 16"),
        (
            lambda box: box.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n").file(
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n"
            ),
            "governed by 'powersave'",
        ),
        (lambda box: box.file("/proc/sys/kernel/numa_balancing", "1\n"), "automatic NUMA balancing is on"),
        (lambda box: box.file("/proc/sys/kernel/yama/ptrace_scope", "2\n"), "ptrace_scope=2 forbids"),
        (
            lambda box: box.file("/proc/sys/kernel/osrelease", "5.4.0-150-generic\n"),
            "kernel 5.4.0-150-generic has no pidfd",
        ),
        (lambda box: box.file("/opt/dtk/.info/version", "25.04\n"), "its environment is not loaded"),
    ],
)
def test_each_rule_of_the_host_can_hold(tmp_path: Path, change: object, words: str) -> None:
    box = bare(tmp_path / "box")
    change(box)  # type: ignore[operator]
    assert [words in sentence for sentence in judged(box)] == [True]


@pytest.mark.parametrize(
    "change",
    [
        lambda box: box.limits(memlock="65536"),
        lambda box: box.limits(nofile="unlimited"),
        lambda box: box.file("/sys/fs/cgroup/cpu.max", "max 100000\n"),
        lambda box: box.file("/sys/fs/cgroup/cpu.max", "6400000 100000\n"),
        lambda box: box.file("/sys/fs/cgroup/cpu.max", "rubbish\n"),
        lambda box: box.file("/proc/sys/kernel/yama/ptrace_scope", "1\n"),
        lambda box: box.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n").file(
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"
        ),
        lambda box: box.file("/proc/mounts", "garbage\n"),
        lambda box: box.shm("50%"),
        lambda box: box.file("/proc/meminfo", "MemTotal: what\n"),
    ],
)
def test_ordinary_hosts_are_left_alone(tmp_path: Path, change: object) -> None:
    box = bare(tmp_path / "box")
    change(box)  # type: ignore[operator]
    assert judged(box) == []


def test_a_container_is_told_how_to_get_shared_memory(tmp_path: Path) -> None:
    for box, remedy in (
        (bare(tmp_path / "a").container(), "--shm-size=8g"),
        (bare(tmp_path / "b").shm("65536k"), "remount"),
    ):
        (finding,) = rules.load().judge("host", host.gather(box.machine()))
        assert remedy in finding.remedy
        assert finding.level is Level.WARNING


def test_a_containers_memory_is_its_limit(tmp_path: Path) -> None:
    box = (
        bare(tmp_path / "box")
        .file("/sys/fs/cgroup/memory.max", f"{8 << 30}\n")
        .file("/sys/fs/cgroup/memory.current", f"{6 << 30}\n")
    )
    facts = host.gather(box.machine())
    assert (facts["memory_mib"], facts["memory_free_mib"]) == ("8192", "2048")
    assert judged(box) == ["only 2048 MiB of memory are available: building an environment or a model may be killed"]


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        (lambda box: box.file("/.dockerenv"), "Docker"),
        (lambda box: box.file("/run/.containerenv"), "Podman"),
        (lambda box: box.file("/.singularity.d/env"), "Apptainer"),
        (lambda box: box.environ.update(KUBERNETES_SERVICE_HOST="10.0.0.1"), "Kubernetes"),
    ],
)
def test_containers_are_recognised(tmp_path: Path, mark: object, name: str) -> None:
    box = b60(tmp_path / "box")
    assert "container" not in host.gather(box.machine())
    mark(box)  # type: ignore[operator]
    assert host.gather(box.machine())["container"] == name


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (lambda box: box.file("/etc/vdev/docker/pod/vdev0.conf", "cu_count: 60\n"), "this is a vDCU"),
        (lambda box: box.file("/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n"), "HAMi slices the cards"),
        (lambda box: box.environ.update(CUDA_DEVICE_MEMORY_LIMIT_0="8192m"), "seen: CUDA_DEVICE_MEMORY_LIMIT_0=8192m"),
        (lambda box: box.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access"), "MIG slices the cards"),
    ],
)
def test_sliced_cards_are_named(tmp_path: Path, mark: object, words: str) -> None:
    box = (
        bare(tmp_path / "box")
        .file("/usr/local/vgpu/libvgpu.so")
        .file("/etc/vdev/vdev0.conf")
        .file("/etc/ld.so.preload", "libx.so\n")
    )
    assert list(host.examine(box.machine(), rules.load(), ())) == []
    mark(box)  # type: ignore[operator]
    (finding,) = host.examine(box.machine(), rules.load(), ())
    assert (words in finding.sentence, finding.level) == (True, Level.WARNING)
