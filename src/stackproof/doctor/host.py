"""The host as such: system, processors, memory, disk, limits, kernel settings and vendors' tools, as facts and as sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Container, Facts, Finding, Rules, Tool, load, ok
from stackproof.stack.variables import Level

_VERSION = re.compile(r"\d+(?:\.\d+)+\S*")


def examine(machine: Machine, rules: Rules, toolkits: Collection[str]) -> Iterator[Finding]:
    """Yield the tools that are here, and those that are missed where cards of these toolkits are."""
    here = {tool: path for tool in rules.tools if (path := next(filter(None, map(machine.find, tool.paths)), ""))}
    with ThreadPoolExecutor(max_workers=max(len(here), 1)) as pool:
        versions = dict(zip(here, pool.map(lambda pair: _version(machine, *pair), here.items()), strict=True))
    if here:
        said = ", ".join(f"{tool.name} {versions[tool]}".strip() for tool in here)
        yield ok("cards", f"tools: {said}")
    for tool in rules.tools:
        if tool.wanted and tool.toolkit in toolkits and tool not in here:
            yield Finding("cards", Level.NOTE, f"{tool.name} is not here", tool.wanted, toolkit=tool.toolkit)


def _version(machine: Machine, tool: Tool, path: str) -> str:
    found = _VERSION.search(machine.ask([path, *tool.version])) if tool.version else None
    return found[0].rstrip(",;)") if found else ""


_UNITS = {"": 1 / (1 << 20), "k": 1 / (1 << 10), "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}
_LIMITS = {"nofile": "Max open files", "memlock_kib": "Max locked memory", "nproc": "Max processes"}
_SETTINGS = {
    "kernel": "/proc/sys/kernel/osrelease",
    "ptrace_scope": "/proc/sys/kernel/yama/ptrace_scope",
    "numa_balancing": "/proc/sys/kernel/numa_balancing",
    "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "cpufreq_driver": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "dtk": "/opt/dtk/.info/version",
    "pids_max": "/sys/fs/cgroup/pids.max",
}
_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD")


def gather(machine: Machine) -> dict[str, str]:
    """Return what can be read, as text; what cannot is left out, so that no rule judges it."""
    found = {name: machine.read(path).split("\n")[0] for name, path in _SETTINGS.items()}
    found |= {name: machine.environ.get(name, "") for name in _VARIABLES}
    found |= {
        "os": _os(machine),
        "glibc": _glibc(machine),
        "container": next((row.name for row in load().containers if _shown(row, machine)), ""),
    }
    found |= _processors(machine) | _memory(machine) | _limits(machine)
    found["disk_free_mib"] = str(machine.disk_free() >> 20)
    found["shm_mib"] = _shared_memory(machine)
    found["rdma"] = ", ".join(name.rsplit("/", 1)[1] for name in machine.glob("/sys/class/infiniband/*"))
    return {name: value for name, value in found.items() if value}


def describe(facts: Facts) -> Iterator[Finding]:
    """Yield the facts as three sentences."""

    def size(name: str) -> str:
        return _size(facts.get(name, ""))

    where = f"in a container ({facts['container']})" if "container" in facts else "not in a container"
    system, kernel, glibc = (facts.get(name, "unknown") for name in ("os", "kernel", "glibc"))
    yield ok("host", f"{system}, kernel {kernel}, glibc {glibc}, {where}")
    model = f" ({facts['cpu_model']})" if "cpu_model" in facts else ""
    nodes = facts.get("numa_nodes", "1")
    cpus = f"{facts.get('cpus', 'unknown')} CPUs{model} in {nodes} NUMA node{'s' * (nodes != '1')}"
    memory = f"{size('memory_free_mib')} of {size('memory_mib')} memory available"
    yield ok("host", f"{cpus}; {memory}; {size('disk_free_mib')} disk free for environments")
    lockable = facts.get("memlock_kib", "unknown")
    amount = _size(str(int(lockable) >> 10)) if lockable.isdecimal() else lockable
    adapters = f"; RDMA adapters {facts['rdma']}" if "rdma" in facts else ""
    files = facts.get("nofile", "unknown")
    yield ok(
        "host", f"shared memory (/dev/shm) {size('shm_mib')}; {files} open files; lockable memory {amount}{adapters}"
    )


def surroundings(machine: Machine) -> Iterator[Finding]:
    """Yield a warning for each way in which the cards are sliced."""
    for row in load().virtualisations:
        mentioned = [path for path, word in row.mentions.items() if word in machine.read(path)]
        if seen := _shown(row, machine) or next(iter(mentioned), ""):
            yield Finding("cards", Level.WARNING, f"{row.sentence} (seen: {seen})", row.remedy, row.link)


def _shown(row: Container, machine: Machine) -> str:
    """Return what shows it: the first file, or the first variable."""
    files = [found for pattern in row.paths for found in machine.glob(pattern)]
    variables = [f"{name}={machine.environ[name]}" for name in row.variables if name in machine.environ]
    return next(iter([*files, *variables]), "")


def _os(machine: Machine) -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release"), re.MULTILINE)
    return found[1] if found else ""


def _glibc(machine: Machine) -> str:
    name, _, version = machine.libc.partition(" ")
    return version if name == "glibc" else ""


def _processors(machine: Machine) -> dict[str, str]:
    text = machine.read("/proc/cpuinfo")
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    model = re.search(r"^model name\s*:\s*(.*)", text, re.MULTILINE)
    quota, _, period = machine.read("/sys/fs/cgroup/cpu.max").partition(" ")
    allowed = int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else 0
    return {
        "cpus": str(count) if count else "",
        "cpu_model": model[1].strip() if model else "",
        "cpu_quota": f"{max(round(allowed), 1)}" if 0 < allowed < count else "",
        "numa_nodes": str(len(machine.glob("/sys/devices/system/node/node[0-9]*")) or 1),
    }


def _memory(machine: Machine) -> dict[str, str]:
    """Total and available MiB; a container's limit counts where it is lower."""
    text = machine.read("/proc/meminfo")
    rows = re.findall(r"^(MemTotal|MemAvailable|HugePages_Total|Hugepagesize):\s+(\d+)", text, re.MULTILINE)
    kib = {name: int(value) for name, value in rows}
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        return {}
    huge = 100 * kib.get("HugePages_Total", 0) * kib.get("Hugepagesize", 0) // max(kib["MemTotal"], 1)
    total, free = kib["MemTotal"] >> 10, kib["MemAvailable"] >> 10
    limit, used = machine.read("/sys/fs/cgroup/memory.max"), machine.read("/sys/fs/cgroup/memory.current")
    if limit.isdecimal() and used.isdecimal() and int(limit) >> 20 < total:
        total = int(limit) >> 20
        free = min(free, max(total - (int(used) >> 20), 0))
    return {"memory_mib": str(total), "memory_free_mib": str(free), "huge_pages_percent": str(huge) if huge else ""}


def _shared_memory(machine: Machine) -> str:
    """Return the MiB of /dev/shm: as it was mounted, or as the file system says; nothing if nobody says."""
    mounted = re.findall(r"^\S+ /dev/shm \S+ (\S+)", machine.read("/proc/mounts"), re.MULTILINE)
    sized = re.search(r"(?:^|,)size=(\d+)([kmgt]?)(?:,|$)", mounted[-1], re.IGNORECASE) if mounted else None
    if sized:
        return str(int(int(sized[1]) * _UNITS[sized[2].lower()]))
    if not machine.real or not mounted:
        return ""
    found = os.statvfs("/dev/shm")  # noqa: S108 - it is looked at, not written to
    return str(found.f_blocks * found.f_frsize >> 20)


def _limits(machine: Machine) -> dict[str, str]:
    """Return the soft limits of this process; bytes as KiB, `unlimited` as the kernel says it."""
    text = machine.read("/proc/self/limits")
    found = {}
    for name, label in _LIMITS.items():
        if match := re.search(rf"^{label}\s+(\d+|unlimited)", text, re.MULTILINE):
            in_kib = name.endswith("_kib") and match[1].isdecimal()
            found[name] = str(int(match[1]) >> 10) if in_kib else match[1]
    return found


def _size(mib: str) -> str:
    """Return a size for people: MiB below one GiB, else GiB."""
    if not mib.isdecimal():
        return "unknown"
    return f"{mib} MiB" if int(mib) < 1024 else f"{int(mib) / 1024:.1f} GiB"
