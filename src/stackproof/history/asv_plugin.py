"""The plugin that `asv.conf.json` names: with it every asv command knows stacks, this host, and the store. Imports asv.

When asv loads it, asv's results are brought up to date with the store. When the command ends, its figures go into the store. A
command that asks asv to keep nothing (`--dry-run`, `--quick`) keeps nothing.
The environment of a stack (`stack:NAME`) is the one that its lock made, never another; the code of a commit comes first on its path.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO

import asv_runner
from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable
from asv.machine import Machine, MachineCollection

from stackproof import ROOT
from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.base.places import PACKAGE
from stackproof.history import asv_view, leaf
from stackproof.record import store
from stackproof.record.records import Figure
from stackproof.record.store import place, slug, state
from stackproof.stack import environments, hosts, provenance, stacks

HOME = Path(".asv")
"""Below the folder of `asv.conf.json`, which asv makes the current one; the same as the file says."""
_KEEP_NOTHING = {"--dry-run", "-n", "--quick", "-q"}


def setup() -> None:
    """Called by asv when it has loaded this module."""
    home = HOME.resolve()
    name = slug(provenance.host_name())  # asv would ask, and keep the answer in the home folder, which hosts may share
    Machine.hardcoded_machine_name = name
    MachineCollection.get_machine_file_path = staticmethod(lambda: str(home / "machine.json"))
    try:
        MachineCollection.load(name)
    except util.UserError:
        MachineCollection.save(name, {"machine": name})
    base, into = home / "pieces", store.writable()
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base))
    os.environ[leaf.PIECES] = str(folder)
    atexit.register(_end, folder, into)
    for sentence in asv_view.refresh(home / "results", ROOT, store.folders()):
        log.warning(sentence)


def _end(folder: Path, into: Path) -> None:
    made, problems = leaf.end(folder, into, keep=not _KEEP_NOTHING & set(sys.argv))
    for sentence in [*problems, *(f"figures: {os.path.relpath(path)}" for path in made)]:
        print(sentence, file=sys.stderr)  # noqa: T201 - asv's log is closed by now


PYTHON = "STACKPROOF_PYTHON"
PREFERRED = "preferred"
"""The only Python of `asv.conf.json`: the stack that the verb names, else the one that this host has."""
REHEARSAL = ".rehearsal"
"""`stack:NAME.rehearsal` is the rehearsal of a stack."""


class Refused(util.UserError):  # type: ignore[misc]
    """A refusal that asv reports as its own errors, with the exit code of the contracts for those who ask."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.exit_code = refusal.exit_code


class StackEnvironment(Environment):  # type: ignore[misc]
    """The environment of one stack, as it is."""

    tool_name = "stack"
    matches_python_fallback = False

    def __init__(self, conf: Any, python: str, requirements: Any, tagged_env_vars: Any) -> None:  # noqa: ARG002
        try:
            self._stack = _stack(python)
            self._interpreter = _interpreter(self._stack)
            figures = _ask(self._interpreter, self._stack.name, self._stack.rehearsed)
        except Refusal as refusal:
            if python == PREFERRED and not os.environ.get(
                leaf.STACK
            ):  # nobody asked for it, and another may be asked for
                raise EnvironmentUnavailable(str(refusal)) from refusal
            raise Refused(refusal) from refusal
        self._facts = figures | {"device": os.environ.get(leaf.DEVICE) or "the first"}
        self._place, self._state = place(self._facts), state(self._facts)
        self._lock: BinaryIO | None = None
        super().__init__(conf, python, leaf.axes(self._place, self._state), tagged_env_vars)

    @property
    def name(self) -> str:
        """The name that files of results carry."""
        return leaf.environment(self._place, self._state)

    @property
    def dir_name(self) -> str:
        """The folder of the checkouts; one for a stack, whatever its state."""
        return f"{self._stack.name}{REHEARSAL if self._stack.rehearsed else ''}"

    @property
    def python(self) -> str:
        return self._state.fact("wheels", "python")

    @classmethod
    def matches(cls, python: str) -> bool:
        return python == PREFERRED or python.removesuffix(REHEARSAL) in stacks.names()

    def check_presence(self) -> bool:
        """It is there, or making this object had failed."""
        return True

    def create(self) -> None:
        """Make the folder for checkouts, and leave the facts there for the benchmarks."""
        folder = Path(self._path)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "facts.json", json.dumps(self._facts, indent=1))
        link, target = folder / "runner" / "asv_runner", Path(asv_runner.__file__).resolve().parent
        # Importable in the stack's environment without installing what its lock does not name.
        link.parent.mkdir(exist_ok=True)
        if not (link.is_symlink() and link.resolve() == target):
            link.unlink(missing_ok=True)
            link.symlink_to(target)

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:  # noqa: ARG002 - asv's signature
        """Check the commit out; pure Python needs no building. Two commands would take each other's checkout away, and time each other."""
        if self._lock is None:
            self._lock = files.lock(Path(self._path) / "running.lock", wait_s=0)
        if self._lock is None:
            sentence = f"another asv command measures stack '{self.dir_name}' here; wait until it has ended"
            raise Refused(Refusal(sentence))
        if self._get_installed_commit_hash() != commit_hash or not Path(self._build_root).is_dir():
            self._set_installed_commit_hash(None)
            self.checkout_project(repo, commit_hash)
            self._set_installed_commit_hash(commit_hash)
        self._set_commit_hash(commit_hash)

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run the stack's interpreter, as asv's `check_output` does, and end whatever it leaves running.

        asv itself waits until nobody holds the output any more, so that a rank that is left over would hang it.
        """
        if kwargs.get("return_popen"):
            raise Refused(Refusal("a fork of a process that holds a device is broken; use --launch-method spawn"))
        with tempfile.TemporaryFile() as output:
            code = self._wait([str(self._interpreter), *args], output, kwargs)
            output.seek(0)
            text = output.read().decode("utf-8", errors="replace")
        valid = kwargs.get("valid_return_codes", (0,))
        if valid is not None and code not in valid:
            if kwargs.get("display_error", True):
                log.error(text)
            raise util.ProcessError(args, code, text, "")
        return (text, "", code) if kwargs.get("return_stderr") else text

    def _wait(self, command: list[str], output: IO[bytes], kwargs: dict[str, Any]) -> int:
        mark, inherited = processes.new_mark(), kwargs.get("env", os.environ)
        variables = {**inherited, **self._global_env_vars, **self._variables()}
        child = processes.start(command, output, variables, mark, cwd=kwargs.get("cwd"))
        try:
            return child.wait(kwargs.get("timeout", 600))
        except subprocess.TimeoutExpired:
            return int(util.TIMEOUT_RETCODE)
        finally:
            processes.end_tree(mark, child)

    def _variables(self) -> dict[str, str]:
        """Return what the benchmarks need: the path with the commit's code first, the stack, and its facts."""
        folder = Path(self._path)
        path = self._stack.path(os.pathsep.join([str(folder / "runner"), str(Path(self._build_root) / "src")]))
        return {
            **self._stack.process_environment(),
            "PYTHONPATH": path,
            "ASV_PYTHONPATH": path,  # asv's script takes PYTHONPATH off again, and puts this on
            leaf.STACK: self._stack.name,
            leaf.REHEARSED: "1" if self._stack.rehearsed else "",
            leaf.FACTS: str(folder / "facts.json"),
        }


def _stack(python: str) -> stacks.Stack:
    """Return the stack that asv's word for a Python means."""
    if python != PREFERRED:
        return stacks.load(python.removesuffix(REHEARSAL), rehearsed=python.endswith(REHEARSAL))
    return leaf.stack() if os.environ.get(leaf.STACK) else hosts.preferred().stack


@cache
def _ask(interpreter: Path, name: str, rehearsed: bool) -> dict[str, Figure]:
    """Ask once a command what the stack is: asv makes every environment of its configuration beside the one that is meant."""
    return leaf.ask(
        interpreter, stacks.load(name, rehearsed=rehearsed), {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    )


def _interpreter(stack: stacks.Stack) -> Path:
    if named := os.environ.get(PYTHON):
        return Path(named)
    python = environments.python_of(environments.location(stack))
    if not python.exists():
        raise Refusal(f"{python}: the stack's environment is not built; `{hosts.proof(stack)}` builds it")
    return python
