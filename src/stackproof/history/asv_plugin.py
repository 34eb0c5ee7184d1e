"""The plugin that `asv.conf.json` names: with it every asv command knows stacks, this host, and the store. Imports asv.

When asv loads it, what killed commands left is joined, and asv's results are brought up to date with the store. When the
command ends, its figures go into the store. A command that asks asv to keep nothing (`--dry-run`, `--quick`) keeps nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from asv.console import log
from asv.machine import Machine, MachineCollection
from asv.util import UserError

from stackproof import ROOT
from stackproof.history import asv_view, leaf
from stackproof.history.asv_environment import Refused, StackEnvironment
from stackproof.history.asv_view import Branches
from stackproof.record import store
from stackproof.record.store import slug
from stackproof.stack import provenance

__all__ = ["Branches", "Refused", "StackEnvironment", "setup"]
"""What asv finds by its subclasses: without them it knows neither the stacks' environments nor a repository that is quick."""

HOME = Path(".asv")
"""Below the folder of `asv.conf.json`, which asv makes the current one; the same as the file says."""
RESULTS = HOME / "results"
_KEEP_NOTHING = {"--dry-run", "-n", "--quick", "-q"}


def setup() -> None:
    """Called by asv when it has loaded this module."""
    home = HOME.resolve()
    _name_this_host(home)
    base, into = home / "pieces", store.writable()
    made, problems = leaf.seal_left(base, into)
    command = leaf.Command.begin(base)
    os.environ[leaf.PIECES] = str(command.folder)
    atexit.register(_end, command, into)
    for path in made:
        log.warning(f"a command that was killed had left figures; they are in {path}")
    for sentence in problems + asv_view.refresh(home / "results", ROOT, store.folders()):
        log.warning(sentence)


def _name_this_host(home: Path) -> None:
    """Tell asv what machine this is: it would ask, and keep the answer in the home folder, which hosts may share."""
    name = slug(provenance.host_name())
    Machine.hardcoded_machine_name = name
    MachineCollection.get_machine_file_path = staticmethod(lambda: str(home / "machine.json"))
    try:
        MachineCollection.load(name)
    except UserError:
        MachineCollection.save(name, {"machine": name})


def _end(command: leaf.Command, into: Path) -> None:
    keep = not _KEEP_NOTHING & set(sys.argv)
    made, problems = command.end(into, keep=keep)
    for sentence in [*problems, *(f"figures: {os.path.relpath(path)}" for path in made)]:
        print(sentence, file=sys.stderr)  # noqa: T201 - asv's log is closed by now
