"""What tests of stackproof share: a silent observer, and suites written on the spot that run under the real supervisor."""

from __future__ import annotations

import os
import shutil
import signal
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stackproof.base import processes
from stackproof.base.places import mount_suites
from stackproof.project import projects
from stackproof.record.records import Check, Record
from stackproof.runner import supervise
from stackproof.runner.request import Request
from stackproof.stack import stacks
from stackproof.stack.stacks import Stack

from . import warm

if TYPE_CHECKING:
    from stackproof.ranks.rank import Rank

if "PYTEST_XDIST_WORKER" in os.environ:  # two cores for two workers: a second thread would only spin
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("NOX_CURRENT_SESSION", "tests")  # sentences name sessions, whoever starts the tests

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # under nohup or a shell's `&`: jobs of tests would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

mount_suites()  # some tests look into the suites' own helpers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--all`: without it the slow tests are left out."""
    parser.addoption("--all", action="store_true", help="run the tests that are marked slow too, minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, and say of how many so."""
    if config.getoption("--all"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_sessionfinish() -> None:
    """End what starts warm processes."""
    warm.stop()


class Silent:
    """An observer that remembers what it was told."""

    def __init__(self) -> None:
        self.total = 0
        self.begun: list[str] = []
        self.ended: list[Check] = []

    def collected(self, total: int) -> None:
        """Remember the number of checks."""
        self.total = total

    def started(self, identifier: str) -> None:
        """Remember what began."""
        self.begun.append(identifier)

    def progress(self, identifier: str, said: str) -> None:
        """Remember how far a check came."""
        self.begun.append(f"{identifier}: {said}")

    def finished(self, check: Check) -> None:
        """Remember what ended."""
        self.ended.append(check)


@pytest.fixture
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rank]:
    """A rank that is a group of one over gloo, in this process; the arguments of its program are the module's `ARGUMENTS`."""
    import torch.distributed as dist  # most tests need no torch

    from stackproof.device.kinds import Host
    from stackproof.ranks.rank import Rank

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield Rank(0, 1, Host("cpu", 0), "gloo", 0.5, dict(getattr(request.module, "ARGUMENTS", {})), tmp_path)
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def environment_goes_back() -> Iterator[None]:
    """A verb sets variables for the processes that it starts (its project, what a replay wants); the next test is none of them."""
    before = _variables()
    yield
    for name in _variables().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
    projects.current.cache_clear()


def _variables() -> dict[str, str]:
    """Return the environment without pytest's own note of where it is."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def cpu() -> Stack:
    """The stack that every host has."""
    return stacks.load("cpu")


@pytest.fixture
def silent() -> Silent:
    """An observer that prints nothing."""
    return Silent()


RunSuite = Callable[..., Record]

SAYS = """
import pytest

@pytest.fixture(autouse=True)
def says(figures):
    figures["summary"] = "as expected"
"""
"""Lets checks that are written on the spot say something, as those of the suites do."""


@pytest.fixture(scope="session")
def run_suite(tmp_path_factory: pytest.TempPathFactory) -> RunSuite:
    """Run suite files given as text on the cpu stack, under the real supervisor, and return the record.

    `fresh`: start each process as the product does, where others start warm.
    """

    def run(
        files: dict[str, str],
        *,
        expected: int = 1,
        only: tuple[str, ...] = (),
        observer: Silent | None = None,
        scale: float = 1.0,
        earlier: list[Check] | None = None,
        conftest: str = SAYS,
        options: str = "",
        fresh: bool = False,
    ) -> Record:
        root = tmp_path_factory.mktemp("suites")
        shutil.copy(supervise.SUITES / "pytest.ini", root)
        configuration = root / "pytest.ini"
        text = configuration.read_text(encoding="utf-8")
        configuration.write_text(text.replace("addopts =", f"addopts = {options}"), encoding="utf-8")
        (root / "conftest.py").write_text(conftest, encoding="utf-8")
        (root / "own").mkdir()
        for name, text in files.items():
            (root / "own" / name).write_text(textwrap.dedent(text), encoding="utf-8")
        logs = tmp_path_factory.mktemp("logs")
        stack = replace(stacks.load("cpu"), expected={"own": expected})
        request = Request("smoke", stack, ("own",), only=only, deadline_scale=scale)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supervise, "SUITES", root)
            if not fresh:
                patch.setattr(processes, "start", warm.start)
            record = Record("smoke", "cpu", "2026-01-01T00:00:00+00:00", checks=list(earlier or ()))
            return supervise.run(request, record, observer or Silent(), logs)

    return run
