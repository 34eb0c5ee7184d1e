"""Hosts made of files: what `doctor` reads of a box, as small trees below a folder; nothing of this machine shows through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stackproof.doctor.machine import Machine

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            {nofile:<20} 1048576              files
Max locked memory         {memlock:<20} unlimited            bytes
"""


class Box:
    """A host below `root`; each method adds to it and returns it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ: dict[str, str] = {"PATH": "/usr/bin", "USER": "grace", "HOME": "/home/grace"}
        self.disk_free = 200 << 30
        self.libc = "glibc 2.41"
        root.mkdir(parents=True, exist_ok=True)
        self.file("/etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 25.04"\n')
        self.file("/etc/hostname", "gpu07\n").file(
            "/etc/hosts", "127.0.0.1 localhost\n10.1.2.7 gpu07.cluster.example gpu07\n"
        )
        self.file("/etc/group", "root:x:0:\nrender:x:4711:\nvideo:x:44:grace\n")
        self.file("/proc/sys/kernel/osrelease", "6.14.0-1006-intel\n")
        self.processors(16).memory(128 << 20, 120 << 20).shm("65536m").limits()

    def file(self, name: str, text: str = "") -> Box:
        """Write a file."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def processors(self, count: int, nodes: int = 1) -> Box:
        """Say how many CPUs and NUMA nodes there are."""
        self.file("/proc/cpuinfo", "".join(f"processor\t: {n}\nmodel name\t: Some CPU\n\n" for n in range(count)))
        for node in range(nodes):
            self.file(f"/sys/devices/system/node/node{node}/cpulist", "0\n")
        return self

    def memory(self, total_kib: int, free_kib: int) -> Box:
        """Say how much memory there is."""
        return self.file("/proc/meminfo", f"MemTotal: {total_kib:>15} kB\nMemAvailable: {free_kib:>11} kB\n")

    def shm(self, size: str) -> Box:
        """Mount /dev/shm with a size."""
        return self.file("/proc/mounts", f"proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size={size} 0 0\n")

    def limits(self, nofile: str = "1048576", memlock: str = "unlimited") -> Box:
        """Set the soft limits of this process, in files and in bytes."""
        return self.file("/proc/self/limits", LIMITS.format(nofile=nofile, memlock=memlock))

    def library(self, name: str) -> Box:
        """Let the loader's cache have a library."""
        cache = self.root / "etc/ld.so.cache"
        return self.file("/etc/ld.so.cache", f"{cache.read_text() if cache.exists() else ''}{name}\0")

    def node(self, name: str, mode: int = 0o660) -> Box:
        """Make a device node, as a file that has its mode; it belongs to the group that /etc/group calls render."""
        self.file(name)
        (self.root / name.lstrip("/")).chmod(mode)
        number = (self.root / name.lstrip("/")).stat().st_gid
        return self.file("/etc/group", f"root:x:99999:\nrender:x:{number}:\nvideo:x:44:grace\n")

    def card(
        self,
        chain: str,
        vendor: str,
        device: str,
        *,
        kind: str = "0x030000",
        driver: str = "",
        render: str = "",
        width: int = 16,
        widest: int = 16,
        speed: str = "32.0",
        bar_mib: int = 32768,
        numa: int = 0,
    ) -> Box:
        """Put a device on the PCI bus; `chain` is the way to it from the root port, parted by slashes."""
        address = chain.rsplit("/", 1)[-1]
        folder = f"/sys/devices/pci0000:00/{chain}"
        start = 0x6000000000
        facts = {
            "vendor": vendor,
            "device": device,
            "class": kind,
            "numa_node": str(numa),
            "current_link_width": str(width),
            "max_link_width": str(widest),
            "current_link_speed": f"{speed} GT/s PCIe",
            "resource": f"0x{start:016x} 0x{start + (bar_mib << 20) - 1:016x} 0x0000000000140204\n",
        }
        for name, value in facts.items():
            self.file(f"{folder}/{name}", f"{value}\n")
        self._link(f"/sys/bus/pci/devices/{address}", folder)
        if driver:
            self.file(f"/sys/bus/pci/drivers/{driver}/module")
            self._link(f"{folder}/driver", f"/sys/bus/pci/drivers/{driver}")
        if render:
            self.file(f"{folder}/drm/{render}/dev", "226:128\n")
        return self

    def _link(self, name: str, target: str) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(os.path.relpath(self.root / target.lstrip("/"), path.parent))

    def container(self) -> Box:
        """Put everything into a Docker container, where the host's groups have no names."""
        return self.file("/.dockerenv").file("/etc/group", "root:x:99999:\n").shm("65536k")

    def tool(self, name: str) -> Box:
        """Install a tool."""
        return self.file(name if "/" in name else f"/usr/bin/{name}")

    def python(self, packages: Mapping[str, str], version: str = "3.10", torch: str = "") -> Path:
        """Make an environment out of metadata and, if it has torch, of its version.py; return its prefix."""
        site = self.root / f"opt/env/lib/python{version}/site-packages"
        site.mkdir(parents=True, exist_ok=True)
        for name, number in packages.items():
            (site / f"{name.replace('-', '_')}-{number}.dist-info").mkdir()
        if "torch" in packages:
            (site / "torch").mkdir()
            (site / "torch/version.py").write_text(f"__version__ = '{packages['torch']}'\n{torch}", encoding="utf-8")
        return self.root / "opt/env"

    def machine(self, *, member: bool = True) -> Machine:
        """Return the box for `doctor`; the user is in the group of the nodes, or in no group that counts."""
        needed = 0o060 if member else 0o006
        return Machine(
            root=self.root,
            environ=self.environ,
            prefix=self.root / "opt/env",
            libc=self.libc,
            access=lambda path: path.exists() and path.stat().st_mode & needed == needed,
            disk_free=lambda: self.disk_free,
        )


def b60(root: Path) -> Box:
    """Two Arc Pro B60 behind their own switches, as the first users have them."""
    box = Box(root).file("/sys/module/xe/version", "1.1.0\n").library("libze_intel_gpu.so.1")
    for n, bus in enumerate(("01", "05")):
        up, down, gpu = f"0000:{bus}:00.0", f"0000:{int(bus) + 1:02}:01.0", f"0000:{int(bus) + 2:02}:00.0"
        port = f"0000:00:0{n + 1}.0"
        box.card(f"{port}/{up}", "0x8086", "0xe2ff", kind="0x060400", width=8, widest=8)
        box.card(f"{port}/{up}/{down}", "0x8086", "0xe2f0", kind="0x060400", width=8, widest=8)
        box.card(
            f"{port}/{up}/{down}/{gpu}",
            "0x8086",
            "0xe211",
            driver="xe",
            render=f"renderD{128 + n}",
            width=1,
            widest=1,
            speed="2.5",
        )
        box.node(f"/dev/dri/renderD{128 + n}")
    return box.tool("xpu-smi")


def k100(root: Path) -> Box:
    """Eight K100-AI in a container that HAMi gave one slice to."""
    box = (
        Box(root)
        .container()
        .shm("16g")
        .node("/dev/kfd")
        .file("/opt/dtk/.info/version", "25.04.1\n")
        .file("/opt/dtk/env.sh")
    )
    box.file("/sys/module/hydcu/version", "6.3.8\n").file(
        "/etc/vdev/docker/vdev0.conf", "cu_count: 60\nmem: 4096 MiB\n"
    )
    for n in range(8):
        box.card(
            f"0000:00:0{n}.1/0000:{n + 1:02}:00.0",
            "0x1d94",
            "0x6210",
            kind="0x0b4000",
            driver="hydcu",
            render=f"renderD{128 + n}",
            numa=n // 4,
        )
        box.node(f"/dev/dri/renderD{128 + n}")
    box.environ |= {"LD_LIBRARY_PATH": "/opt/dtk/lib:/opt/dtk/hip/lib"}
    return box.tool("/opt/hyhal/bin/hy-smi").processors(64, nodes=2)


def h200(root: Path) -> Box:
    """Eight H200 with a current driver."""
    box = Box(root).library("libcuda.so.1").processors(128, nodes=2)
    box.file(
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
    )
    for n in range(8):
        address = f"0000:{n + 16:02x}:00.0"
        box.card(f"0000:00:0{n}.1/{address}", "0x10de", "0x2335", kind="0x030200", driver="nvidia", numa=n // 4)
        box.file(f"/proc/driver/nvidia/gpus/{address}/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n").node(
            f"/dev/nvidia{n}", 0o666
        )
    box.node("/dev/nvidiactl", 0o666).node("/dev/nvidia-uvm", 0o666)
    box.file("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    return box.tool("nvidia-smi")


def bare(root: Path) -> Box:
    """A box with a CPU and nothing else."""
    return Box(root)
