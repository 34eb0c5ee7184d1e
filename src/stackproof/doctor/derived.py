"""Facts that rows of `data/doctor.toml` derive: what a search path leads to, what figures sum up to, whether folders may be used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from math import prod

from stackproof.doctor.machine import Machine
from stackproof.doctor.rules import Facts, Figure, OnPath, Rules

_PREFIX = "env."
_BUILT_IN = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")


def gather(machine: Machine, table: Rules, facts: Facts) -> dict[str, str]:
    """Return the facts that the table derives from these, from variables and from files; what cannot be read is left out."""
    found = {f"{_PREFIX}{name}": machine.environ[name] for name in _variables(table) if machine.environ.get(name)}
    found |= {row.fact: ", ".join(dict.fromkeys(_on_path(row, machine))) for row in table.paths}
    found |= {f"folder.{name}": _folder(machine, machine.environ.get(name, "")) for name in table.folders}
    user = re.search(r"^Uid:\s+\d+\s+(\d+)", machine.read("/proc/self/status"), re.MULTILINE)
    found |= {"tmp_noexec": _noexec(machine), "uid": user[1] if user else ""}
    found |= {"hub_cache": _cache(machine, "hub", "models--*"), "datasets_cache": _cache(machine, "datasets", "*")}
    cards = map(machine.read, machine.glob("/proc/driver/nvidia/gpus/*/information"))
    found["nvidia.models"] = ", ".join(dict.fromkeys(re.findall(r"^Model:\s*(.*\S)", "\n".join(cards), re.MULTILINE)))
    found = {name: value for name, value in found.items() if value}
    for version, model in table.capabilities.items():
        if model.search(found.get("nvidia.models", "")):
            found["nvidia.capability"] = version
    if _covers(found.get("env.TORCH_CUDA_ARCH_LIST", ""), found.get("nvidia.capability", "")):
        found["arch_covered"] = "yes"
    for figure in table.figures:
        if value := _figure(figure, {**facts, **found}):
            found[figure.fact] = value
    return found


def _covers(listed: str, capability: str) -> bool:
    """Whether a list of architectures has kernels, or PTX, for a card; names such as Hopper are not judged."""
    if re.search(r"[A-Za-z]{4}", listed):
        return True
    wanted = tuple(map(int, capability.split("."))) if capability else ()
    for major, minor, ptx in re.findall(r"(\d+)\.(\d)[a-f]?(\+PTX)?", listed):
        built = int(major), int(minor)
        if wanted and built <= wanted and (ptx or built[0] == wanted[0]):
            return True
    return False


def _variables(table: Rules) -> set[str]:
    """Return the variables that rows ask for."""
    named = [name for row in table.rows for name in (*row.when, *row.unless, *row.absent, *row.below)]
    named += [name for agreement in table.agreements for name in agreement.values]
    named += [name for figure in table.figures for name in (*figure.first, *figure.product, figure.items)]
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


def _figure(figure: Figure, facts: Facts) -> str:
    if figure.items:
        listed = [item for item in facts.get(figure.items, "").split(",") if item.strip()]
        return str(len(listed)) if listed else ""
    if figure.first:
        values = (re.match(r"\d+", facts.get(name, "")) for name in figure.first)
        return next((value[0] for value in values if value), "")
    factors = [facts.get(name, "") for name in figure.product]
    return str(prod(map(int, factors))) if all(factor.isdecimal() for factor in factors) else ""


def _folder(machine: Machine, name: str) -> str:
    """Say what is wrong with a folder that a variable names."""
    if not name.startswith("/"):
        return ""
    if not machine.exists(name):
        return "missing"
    if not machine.path(name).is_dir():
        return "no folder"
    return "" if machine.may_use(name) else "not writable"


def _cache(machine: Machine, name: str, held: str) -> str:
    home = machine.environ.get("HF_HOME") or f"{machine.environ.get('HOME', '/root')}/.cache/huggingface"
    folder = machine.environ.get(f"HF_{name.upper()}_CACHE") or f"{home}/{name}"
    items = machine.glob(f"{folder}/{held}") if folder.startswith("/") else []
    return f"{len(items)} items" if items else "empty" if machine.exists(folder) else "missing"


def _noexec(machine: Machine) -> str:
    """Return the folders in which programs are built and run, and in which nothing may be executed."""
    mounts = re.findall(r"^\S+ (\S+) \S+ (\S+)", machine.read("/proc/mounts"), re.MULTILINE)
    wanted = [machine.environ.get("TMPDIR") or "/tmp", *filter(None, map(machine.environ.get, _BUILT_IN))]  # noqa: S108

    def options(folder: str) -> str:
        above = [mount for mount in mounts if f"{folder}/".startswith(f"{mount[0].rstrip('/')}/")]
        return max(above, key=lambda mount: len(mount[0]), default=("", ""))[1]

    return ", ".join(folder for folder in dict.fromkeys(wanted) if "noexec" in options(folder).split(","))
