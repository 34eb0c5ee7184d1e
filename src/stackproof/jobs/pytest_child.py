"""The pytest process that runs other people's tests: fixtures of the stack, and one event for each thing that happens."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from stackproof.base import rpc
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.processes import die_with_parent
from stackproof.jobs.pytest_entry import CHILD, seconds
from stackproof.record.records import Figure
from stackproof.stack import stacks

_FIGURES = pytest.StashKey[dict[str, Figure]]()


class Child:
    """Runs the tests that it is asked for and tells each one's beginning, deadline and end through a pipe."""

    def __init__(self, config: pytest.Config) -> None:
        """Tie this process to the one that watches it, and import what the stack needs before any test does."""
        die_with_parent()
        asked = json.loads(Path(os.environ.pop(CHILD)).read_text(encoding="utf-8"))
        self._config, self._asked = config, set(asked["tests"])
        self._deadline = float(config.getoption("--stack-deadline"))
        self._events = os.fdopen(asked["pipe"], "w", encoding="utf-8")
        self._traces = Path(asked["traces"]).open("a", encoding="utf-8")  # noqa: SIM115 - open as long as this process
        self._stack = stacks.load(config.getoption("--stack"))
        for name in self._stack.imports:
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise StackUnavailableError(
                    f"stack.toml, imports: '{name}' cannot be imported: {error}; run the pytest of an environment that has it"
                ) from error
        self._device = self._choose(config.getoption("--stack-device"))

    def _choose(self, asked: str) -> Any:
        """Return the device that is asked for, also where no test uses it: a slip must not go unseen; None leaves the choice."""
        from stackproof.device import devices

        return devices.parse(asked, self._stack.device) if asked else None

    def _tell(self, event: str, **values: Any) -> None:
        rpc.say(self._events, {"event": event, **values}, default=str)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what this process is asked for."""
        items[:] = [item for item in items if item.nodeid in self._asked]
        try:
            for item in items:
                _marked(item)
        except Refusal as refusal:
            pytest.exit(f"stackproof: {refusal}", returncode=refusal.exit_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Tell that a test begins and until when it must have ended; leave a trace of where it is when that passes."""
        deadline = _marked(item) or self._deadline
        faulthandler.dump_traceback_later(deadline, file=self._traces)
        self._tell("begins", test=item.nodeid, deadline=deadline)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._tell("ended", test=item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the test's figures into its report, from where JUnit and the record take them."""
        report = yield
        if report.when == "call":
            report.user_properties.extend(item.stash.get(_FIGURES, {}).items())
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand a report over as pytest itself writes it down."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._tell("report", report=data)

    @pytest.fixture(scope="session")
    def stack(self) -> stacks.Stack:
        """The stack under test."""
        return self._stack

    @pytest.fixture(scope="session")
    def stack_device(self) -> Any:
        """The device with all that stackproof can do with it: a stopwatch in its own time, memory, its name."""
        from stackproof.device import devices

        try:
            return self._device or devices.default(self._stack.device)
        except Refusal as refusal:
            pytest.exit(f"stackproof: {refusal}", returncode=refusal.exit_code)

    @pytest.fixture(scope="session")
    def device(self, stack_device: Any) -> Any:
        """The `torch.device` under test, with its index."""
        return stack_device.torch

    @pytest.fixture
    def figures(self, request: pytest.FixtureRequest) -> dict[str, Figure]:
        """What this test saw: numbers and words by name, for the record and JUnit."""
        node: pytest.Item = request.node
        return node.stash.setdefault(_FIGURES, {})


def _marked(item: pytest.Item) -> float | None:
    """Return the deadline that a test is marked with."""
    mark = item.get_closest_marker("deadline")
    return seconds(mark.args[0], f"{item.nodeid}, its mark deadline") if mark and mark.args else None
