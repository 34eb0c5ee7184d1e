"""What a project offers is looked at before anything runs, by a process of the environment in which it will run.

This process imports no torch and none of the project's code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.text import counted, tail
from stackproof.project import projects
from stackproof.project.projects import Project
from stackproof.record.records import Figure

_SECONDS = 300.0


@dataclass(frozen=True)
class Offered:
    """A workload that is not ours: its file, the SHA-256 of the text that was run, and what was seen of it."""

    file: str
    digest: str
    seen: str


@dataclass(frozen=True)
class Vetted:
    """A project, or what packages offer, after every workload was built once."""

    project: Project | None
    workloads: Mapping[str, Offered]

    def sentence(self) -> str:
        """Say what stands beside ours."""
        told = [
            f"{name} ({self._display_path(one.file)} {one.digest[:12]}: {one.seen})"
            for name, one in self.workloads.items()
        ]
        where = f"project {self.project.name} at {self.project.folder}" if self.project else "packages"
        return f"{where}: {counted(len(told), 'workload')}" + (f": {'; '.join(told)}" if told else "")

    def facts(self) -> dict[str, Figure]:
        """Return what a record keeps of it."""
        found: dict[str, Figure] = dict(self.project.facts()) if self.project else {}
        return found | {
            f"workload.{name}": f"{self._display_path(one.file)} {one.digest}" for name, one in self.workloads.items()
        }

    def _display_path(self, file: str) -> str:
        return self.project.display_path(Path(file)) if self.project else file


def vet(
    python: Path = Path(sys.executable), environment: Mapping[str, str] | None = None, scale: float = 1.0
) -> Vetted | None:
    """Build every workload that is not ours once; None where nobody offers any.

    Args:
        python: the interpreter of the environment in which they will run.
        environment: variables besides ours, such as a side's.
        scale: what the deadline is multiplied by, for slow hosts.

    Raises:
        Refusal: one cannot be imported, or lacks something; the sentence names its file and the remedy.
    """
    project = projects.at((environment or {}).get(projects.VARIABLE, "")) or projects.current()
    if project is None and not projects.packaged():
        return None
    if project is not None and not project.workloads and not projects.packaged():
        return Vetted(project, {})
    command = [str(python), "-m", "stackproof.workloads.catalogue"]
    variables = {projects.VARIABLE: str(project.folder) if project else "", **(environment or {})}
    ended = processes.run(command, seconds=_SECONDS * scale, environment=variables)
    if ended.timed_out:
        where = str(project.folder) if project else "installed packages"
        raise Refusal(f"the workloads of {where} were not built in {_SECONDS * scale:.0f} s; make `tiny` smaller")
    if ended.code:
        raise Refusal(tail(ended.errors, 1 if ended.code == Refusal.exit_code else 3, most=2000))
    found = files.parse_json(ended.output.strip().splitlines()[-1], "what the workloads say of themselves")
    return Vetted(project, {name: Offered(**row) for name, row in found.items()})
