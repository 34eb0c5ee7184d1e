"""Provenance: a flat record of everything that could explain a figure, attached to every result."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof import DATA, __version__
from stackproof.base import git, processes
from stackproof.base.files import kernel_value
from stackproof.base.places import INSTALLED, PACKAGE, ROOT
from stackproof.base.processes import cores
from stackproof.base.text import first_few
from stackproof.base.toml import kept
from stackproof.record.records import COMMITTED, Figure
from stackproof.stack import findings, startup

if TYPE_CHECKING:
    from stackproof.stack.environment_proof import Proof
    from stackproof.stack.stacks import Stack


CODE = ("src", "suites", "stacks", "fixtures", "benchmarks")
"""What of a checkout runs, or is read where something runs."""
DIFFERS = "code.differs"


@dataclass(frozen=True)
class Explaining:
    """What explains a figure, by name: beginnings of variables, instruction sets of CPUs, packages."""

    variables: tuple[str, ...]
    instructions: tuple[str, ...]
    packages: tuple[str, ...]


explaining = kept(DATA / "provenance.toml", Explaining)


def host_facts(stack: Stack) -> dict[str, Figure]:
    """Return what can be known without torch: host, commit, driver, variables."""
    facts: dict[str, Figure] = {
        "stackproof": __version__, "host": host_name(), **code_facts(), "stack": stack.name,
        "rehearsed": stack.rehearsed, "hardware": stack.hardware, "verified on": stack.device, "backend": stack.backend,
        "python": platform.python_version(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(), "cpus": cores(),
    }  # fmt: skip
    facts |= {
        f"env.{name}": value for name, value in sorted(os.environ.items()) if name.startswith(explaining().variables)
    }
    facts |= {
        f"env.{name} (default of the stack)": value
        for name, value in stack.environment.items()
        if name not in os.environ
    }
    if changing := findings.of_results(os.environ):
        facts["changes results"] = "; ".join(env_finding.setting(os.environ) for env_finding in changing)
    return facts | startup.facts(stack, os.environ) | _processor_facts() | _driver_facts(stack)


def _processor_facts() -> dict[str, Figure]:
    """Return the processor's name and the instruction sets that kernels are chosen by; nothing where the kernel says nothing."""
    text = kernel_value(Path("/proc/cpuinfo")).partition("\n\n")[0]
    if not text:
        return {}
    rows = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    flags = set((rows.get("flags") or rows.get("features") or "").split())
    facts: dict[str, Figure] = {"cpu": rows.get("model name", "unknown")}
    return facts | {"cpu.flags": " ".join(name for name in explaining().instructions if name in flags)}


def host_name() -> str:
    """Return the name that histories know this host by: `STACKPROOF_HOST`, for rented and anonymous machines, else its own."""
    return os.environ.get("STACKPROOF_HOST") or platform.node() or "unnamed"


def proof_facts(proof: Proof) -> dict[str, Figure]:
    return {
        "pinned": proof.pinned,
        "lock": proof.lock_digest or "unpinned",
        "unhashed": len(proof.unhashed),
        "torch": proof.torch_version,
        **{f"torch.version.{name}": value for name, value in proof.toolkits.items()},
        **({"companions": proof.companions} if proof.companions else {}),
        **({"files hashed": proof.files.files, "files read": proof.files.read} if proof.files else {}),
    }


def _driver_facts(stack: Stack) -> dict[str, Figure]:
    facts: dict[str, Figure] = {}
    for path in stack.driver.files:
        if text := kernel_value(Path(path)).partition("\n")[0]:
            facts[f"driver.{path}"] = text
    if stack.driver.command and (text := _say(list(stack.driver.command))):
        facts[f"driver.{Path(stack.driver.command[0]).name}"] = text
    return facts


def code_facts() -> dict[str, Figure]:
    """Return which code this is: commit and its time, digest, files that differ; git is not asked of a wheel in a checkout."""
    home, places = (PACKAGE, (".",)) if INSTALLED else (ROOT, CODE)
    there = git.blobs_on_disk(home, places)
    text = "".join(f"{path} {name}\n" for path, name in sorted(there.items()))
    facts: dict[str, Figure] = {"code": hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()}
    if INSTALLED:
        return {"commit": git.package_version(__version__), **facts}
    commit = git.head(ROOT)
    if not commit:
        return {"commit": git.UNKNOWN, **facts}
    if made := (git.try_output(ROOT, "show", "--no-patch", "--format=%cI", "HEAD") or "").strip():
        facts[COMMITTED] = made  # a record that is older than that was made while the clock had gone back
    there_too = git.blobs_of_commit(ROOT, places)
    if differ := sorted(path for path in {*there, *there_too} if there.get(path) != there_too.get(path)):
        facts[DIFFERS] = first_few(differ, 5, " ")
    return {"commit": git.as_recorded(commit, bool(differ)), **facts}


def _say(command: list[str]) -> str:
    """Return the first line that a tool prints, or nothing: a tool that is absent, slow or angry is not a fact."""
    ended = processes.run(command, seconds=10)
    return next((line.strip() for line in ended.output.splitlines() if line.strip()), "") if ended.ok else ""
