"""Workloads: the objects that the suites verify and the benchmarks time, ours and those of the user's project.

Every module of this package, file of a project, and module of an entry point `stackproof.workloads` adds its tuple `WORKLOADS`; ours add
their kinds of work, `KINDS`, too. Ours import ultralytics (AGPL-3.0) and transformers inside functions, so that a listing is cheap.
`python -m stackproof.workloads.catalogue` builds every workload of the project once, tiny and on the CPU, and prints what they are.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from stackproof import workloads
from stackproof.base.errors import Refusal, answer, suggestion
from stackproof.base.text import error_line
from stackproof.base.toml import Wrong
from stackproof.project import offers, projects
from stackproof.project.projects import Project
from stackproof.workloads import contract
from stackproof.workloads.base import Workload
from stackproof.workloads.work import Maker

_PACKAGE = "stackproof_project"


@dataclass(frozen=True)
class KnownWorkload:
    """A workload and where it comes from; `digest` is the SHA-256 of the file whose text was run, empty for ours."""

    workload: Workload
    file: str
    digest: str = ""


def _modules() -> list[ModuleType]:
    ours = pkgutil.iter_modules(workloads.__path__)
    return [importlib.import_module(f"{workloads.__name__}.{module.name}") for module in ours]


@cache
def _known() -> dict[str, KnownWorkload]:
    known: dict[str, KnownWorkload] = {}
    own = [
        KnownWorkload(work, str(module.__file__)) for module in _modules() for work in getattr(module, "WORKLOADS", ())
    ]
    for entry in (*own, *_of_project(projects.current()), *_of_packages()):
        name = entry.workload.name
        if name in known:
            raise Refusal(
                f"{entry.file}: the workload '{name}' exists already, in {known[name].file}; give it another name"
            )
        known[name] = entry
    return known


def _of_project(project: Project | None) -> Iterator[KnownWorkload]:
    """Run the files that a project names, because it asked for it, and yield what they offer.

    What they import is looked for in the project first, so that a side of a gate has its own commit's code.
    """
    if project is None or not project.workloads:
        return
    sys.path[:0] = [str(folder) for folder in (project.folder, project.folder / "src") if str(folder) not in sys.path]
    for path in project.workloads:
        source = path.read_bytes()
        if __name__ == "__main__":
            print(path, flush=True)  # noqa: T201 - who it was, if it ends this process
        yield from _offered(_run(path, source), str(path), source)


def _run(path: Path, source: bytes) -> ModuleType:
    """Run a file's text as a module whose relative imports find its neighbours; no compiled file is taken or left."""
    package = f"{_PACKAGE}.{path.parent.name}"
    for name, folders in ((_PACKAGE, []), (package, [str(path.parent)])):
        sys.modules.setdefault(name, ModuleType(name)).__path__ = folders
    module = ModuleType(f"{package}.{path.stem}")
    module.__file__, module.__package__ = str(path), package
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - the project asked for it
    except Wrong as wrong:
        raise Refusal(f"{path}: '{wrong.key}' {wrong.why}") from wrong
    except (Exception, SystemExit) as error:
        raise Refusal(
            f"{path}: cannot be imported: {error_line(error)}{contract.line_of(error, str(path))}; mend it, or take it out"
        ) from error
    return module


def _of_packages() -> Iterator[KnownWorkload]:
    for point in importlib.metadata.entry_points(group=projects.WORKLOADS):
        try:
            module = importlib.import_module(point.value)
        except Exception as error:
            what = f"the entry point '{point.name}' of {projects.WORKLOADS}"
            raise Refusal(f"{what} names '{point.value}', which cannot be imported: {error_line(error)}") from error
        path = Path(str(module.__file__))
        yield from _offered(module, str(path), path.read_bytes())


def _offered(module: ModuleType, file: str, source: bytes) -> Iterator[KnownWorkload]:
    for workload in contract.declared(module, file):
        workload.origin = file
        yield KnownWorkload(workload, file, hashlib.sha256(source).hexdigest())


@cache
def kinds() -> dict[str, Maker]:
    return {name: maker for module in _modules() for name, maker in getattr(module, "KINDS", {}).items()}


def names() -> tuple[str, ...]:
    return tuple(sorted(_known()))


def theirs() -> dict[str, KnownWorkload]:
    """Return the workloads that are not ours, by name."""
    return {name: entry for name, entry in _known().items() if entry.digest}


def taking_part(part: str) -> tuple[str, ...]:
    """Return the workloads that take part in something (`offers.PARTS`): ours in the order of their table, then others."""
    return (*offers.ours_in(part), *(name for name, entry in theirs().items() if part in entry.workload.offer.parts))


def unanchored(name: str) -> str:
    """Return what a summary adds where forward and loss have no reference but the same Python: a mistake in it is in both."""
    if name in taking_part("closed-form"):
        return ""
    return f"; the reference is the same Python in float64: no closed form of {name} is known"


def get(name: str) -> Workload:
    """Return a workload by name, or refuse and suggest the nearest."""
    if name not in _known():
        raise Refusal(f"no workload '{name}'{suggestion(name, names())}; there are: {', '.join(names())}")
    return _known()[name].workload


def _vetted() -> str:
    """Hold every workload that is not ours to the contract, and return what each is as JSON."""
    return json.dumps({
        name: {"file": entry.file, "digest": entry.digest, "seen": contract.check(entry.workload)}
        for name, entry in theirs().items()
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(answer(_vetted))
