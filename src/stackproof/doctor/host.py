"""The host as such: system, processors, memory, disk, limits, kernel settings and vendors' tools, as facts and as sentences.

Some facts are derived, as rows of `data/doctor.toml` say: what a search path leads to, whether folders may be used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Container, Facts, Finding, OnPath, Rules, load, ok
from stackproof.stack import hosts
from stackproof.stack.variables import Level


def examine(machine: Machine, rules: Rules, toolkits: Collection[str]) -> Iterator[Finding]:
    """Yield the ways in which the cards are sliced, the tools that are here, and those missed where cards of these toolkits are."""
    for row in rules.virtualisations:
        mentioned = [path for path, word in row.mentions.items() if word in machine.read(path)]
        if seen := _shown(row, machine) or next(iter(mentioned), ""):
            yield Finding("cards", Level.WARNING, f"{row.sentence} (seen: {seen})", row.remedy, row.link)
    here = [tool for tool in rules.tools if hosts.tools(tool.paths, machine.tree)]
    if here:
        yield ok("cards", f"tools: {', '.join(tool.name for tool in here)}")
    for tool in rules.tools:
        if tool.remedy and tool.toolkit in toolkits and tool not in here:
            yield Finding("cards", Level.NOTE, f"{tool.name} is not here", tool.remedy, toolkit=tool.toolkit)


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
    values = {name: machine.read(path).split("\n")[0] for name, path in _SETTINGS.items()}
    values |= {name: machine.environ.get(name, "") for name in _VARIABLES}
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release"), re.MULTILINE)
    values |= {
        "os": system[1] if system else "",
        "glibc": machine.libc.removeprefix("glibc ") if machine.libc.startswith("glibc ") else "",
        "container": next((row.name for row in load().containers if _shown(row, machine)), ""),
    }
    values |= _processors(machine) | _memory(machine) | _limits(machine)
    values["disk_free_mib"] = str(machine.disk_free() >> 20)
    values["shm_mib"] = _shared_memory(machine)
    values["rdma"] = ", ".join(name.rsplit("/", 1)[1] for name in machine.glob("/sys/class/infiniband/*"))
    return {name: value for name, value in values.items() if value}


def describe(facts: Facts) -> Iterator[Finding]:
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


def _shown(row: Container, machine: Machine) -> str:
    files = [text for pattern in row.paths for text in machine.glob(pattern)]
    variables = [f"{name}={machine.environ[name]}" for name in row.variables if name in machine.environ]
    return next(iter([*files, *variables]), "")


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
    result = os.statvfs("/dev/shm")  # noqa: S108 - it is looked at, not written to
    return str(result.f_blocks * result.f_frsize >> 20)


def _limits(machine: Machine) -> dict[str, str]:
    text = machine.read("/proc/self/limits")
    caught = {name: re.search(rf"^{label}\s+(\d+|unlimited)", text, re.MULTILINE) for name, label in _LIMITS.items()}
    values = {name: match[1] for name, match in caught.items() if match}
    return {
        name: str(int(value) >> 10) if name.endswith("_kib") and value.isdecimal() else value
        for name, value in values.items()
    }


def _size(mib: str) -> str:
    if not mib.isdecimal():
        return "unknown"
    return f"{mib} MiB" if int(mib) < 1024 else f"{int(mib) / 1024:.1f} GiB"


_PREFIX = "env."
_BUILT_IN = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")


def derive(machine: Machine, table: Rules) -> dict[str, str]:
    """Return the facts that the table makes of variables and of files; what cannot be read is left out."""
    values = {f"{_PREFIX}{name}": machine.environ[name] for name in _variables(table) if machine.environ.get(name)}
    values |= {row.fact: ", ".join(dict.fromkeys(_on_path(row, machine))) for row in table.paths}
    values |= {f"folder.{name}": _folder(machine, machine.environ.get(name, "")) for name in table.folders}
    values["tmp_noexec"] = _noexec(machine)
    cards = map(machine.read, machine.glob("/proc/driver/nvidia/gpus/*/information"))
    values["nvidia.models"] = ", ".join(dict.fromkeys(re.findall(r"^Model:\s*(.*\S)", "\n".join(cards), re.MULTILINE)))
    return {name: value for name, value in values.items() if value}


def _variables(table: Rules) -> set[str]:
    named = [name for row in table.rows for name in (*row.when, *row.unless, *row.absent, *row.below)]
    named += [name for agreement in table.agreements for name in agreement.values]
    return {name.removeprefix(_PREFIX) for name in named if name.startswith(_PREFIX)}


def _on_path(row: OnPath, machine: Machine) -> Iterator[str]:
    """Yield the folders of a search path that hold such files, or what `take` finds in the files' names."""
    for folder in machine.environ.get(row.variable, "").split(os.pathsep):
        own = folder.startswith(f"{machine.environment}/")
        for pattern in row.files if folder.startswith("/") and not own else ():
            for path in machine.glob(f"{folder.rstrip('/')}/{pattern}"):
                if not row.take:
                    yield folder.rstrip("/")
                elif caught := row.take.search(path):
                    yield caught[1]


def _folder(machine: Machine, name: str) -> str:
    if not name.startswith("/") or (machine.may_use(name) and machine.path(name).is_dir()):
        return ""
    if not machine.exists(name):
        return "missing"
    return "not writable" if machine.path(name).is_dir() else "no folder"


def _noexec(machine: Machine) -> str:
    """Return the folders in which programs are built and run, and in which nothing may be executed."""
    mounts = re.findall(r"^\S+ (\S+) \S+ (\S+)", machine.read("/proc/mounts"), re.MULTILINE)
    folders = [machine.environ.get("TMPDIR") or "/tmp", *filter(None, map(machine.environ.get, _BUILT_IN))]  # noqa: S108

    def options(folder: str) -> str:
        above = [mount for mount in mounts if f"{folder}/".startswith(f"{mount[0].rstrip('/')}/")]
        return max(above, key=lambda mount: len(mount[0]), default=("", ""))[1]

    return ", ".join(folder for folder in dict.fromkeys(folders) if "noexec" in options(folder).split(","))
