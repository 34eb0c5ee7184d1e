"""Other people's tests: the pytest process that a person starts collects them, and lets another process run them, which may hang or crash.

The first outlives whatever becomes of the second; the second says through a pipe which test begins, until when, and how it ended.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from stackproof.base import files, processes, rpc
from stackproof.base.errors import Refusal, StackUnavailableError
from stackproof.base.text import first_line, plain
from stackproof.record import writer
from stackproof.record.checks import CheckCrashed, CheckEnded, CheckHung
from stackproof.record.records import Check, Figure, Verdict
from stackproof.stack import environment_proof, environments, hosts, provenance, stacks

CHILD = "STACKPROOF_PYTEST"
"""The variable by which a pytest process knows that it is the one that runs the tests, and where its request is."""
_LONGEST_S = 86400.0
_START_S = 600.0
"""How long imports, collection, and what stands before the first test and between two tests may take."""
_GRACE_S = 2.0
"""At its deadline a test writes down where it is; that is worth waiting for."""
_WORDS = {"passed": Verdict.PASSED, "failed": Verdict.FAILED, "skipped": Verdict.SKIPPED}


def register(config: pytest.Config) -> None:
    """Be what this process is: the one that runs the tests, or the one that watches it."""
    _seconds(config.getoption("--stack-deadline"), "--stack-deadline")
    if (path := config.getoption("--stack-json")) and (why := files.why_unwritable(Path(path))):
        raise Refusal(f"--stack-json {path}: {why}")
    if os.environ.get(CHILD):
        config.pluginmanager.register(Child(config), "stackproof-child")
    else:
        config.pluginmanager.register(Parent(config), "stackproof-parent")


def _seconds(deadline: object, what: str) -> float:
    value = float(deadline) if isinstance(deadline, (int, float)) else 0.0
    if not 0 < value <= _LONGEST_S:  # neither is "nan"
        raise Refusal(f"{what}: {deadline!r} must be a number of seconds above 0, up to {_LONGEST_S:g}")
    return value


def _marked(item: pytest.Item) -> float | None:
    mark = item.get_closest_marker("deadline")
    return _seconds(mark.args[0], f"{item.nodeid}, its mark deadline") if mark and mark.args else None


def refuse(refusal: Refusal) -> NoReturn:
    pytest.exit(f"stackproof: {refusal}", returncode=refusal.exit_code)


class Child:
    """Runs the tests that it is asked for and tells each one's beginning, deadline and end through a pipe."""

    def __init__(self, config: pytest.Config) -> None:
        """Tie this process to the one that watches it, and import what the stack needs before any test does."""
        processes.die_with_parent()
        asked = files.read_json(Path(os.environ.pop(CHILD)))
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
        self._device: Any = None
        if asked_for := config.getoption("--stack-device"):  # also where no test uses it: a slip must not go unseen
            from stackproof.device import devices

            self._device = devices.parse(asked_for, self._stack.device)

    def _tell(self, event: str, **values: Any) -> None:
        rpc.write(self._events, {"event": event, **values}, default=str)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._asked]
        try:
            for item in items:
                _marked(item)
        except Refusal as refusal:
            refuse(refusal)

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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand a report over as pytest itself writes it down."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._tell("report", report=data)

    @pytest.fixture(scope="session")
    def stack(self) -> stacks.Stack:
        return self._stack

    @pytest.fixture(scope="session")
    def stack_device(self) -> Any:
        """The device with all that stackproof can do with it: a stopwatch in its own time, memory, its name."""
        from stackproof.device import devices

        try:
            return self._device or devices.default(self._stack.device)
        except Refusal as refusal:
            refuse(refusal)

    @pytest.fixture(scope="session")
    def device(self, stack_device: Any) -> Any:
        """The `torch.device` under test, with its index."""
        return stack_device.torch

    @pytest.fixture
    def figures(self, request: pytest.FixtureRequest) -> Iterator[dict[str, Figure]]:
        """What this test saw: numbers and words by name, for the record and JUnit."""
        seen: dict[str, Figure] = {}
        yield seen
        request.node.user_properties.extend(seen.items())


class Parent:
    """Runs what was collected in processes of its own, one after the other, and reports as if it had run it itself."""

    def __init__(self, config: pytest.Config) -> None:
        stack = hosts.require(stacks.load(config.getoption("--stack")))
        if config.getoption("numprocesses", default=None):
            raise Refusal("--stack and -n: tests on one card take turns; leave -n out")
        if config.getoption("usepdb", default=False):
            raise Refusal(
                "--stack and --pdb: tests run in another process, which nobody can type to; leave one of them out"
            )
        self._config, self._stack = config, stack
        self._home = tempfile.TemporaryDirectory(prefix="stackproof-pytest-")
        self._record = writer.begin("pytest", stack.name, {**provenance.host_facts(stack), "pinned": False})
        self._began = time.monotonic()
        self._checks: dict[str, Check] = {}
        self._broken = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Refuse words that name no tests; pytest's own code for them says something else of a stack."""
        try:
            return (yield)
        except pytest.UsageError as error:
            words = " ".join("; ".join(map(str, error.args)).split())
            refuse(Refusal(f"{words}; name files or folders that hold tests"))

    def pytest_report_header(self) -> str:
        return f"stackproof: {self._stack.label}, {self._config.getoption('--stack-deadline'):g} s for a test"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run every test; one that hangs or crashes fails, and those behind it run in a new process."""
        if session.config.option.collectonly:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} error(s) during collection")
        left = {item.nodeid: item for item in session.items}
        while left and not session.shouldfail and not session.shouldstop:
            self._once(session, left)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        if failed := session.shouldfail or self._broken:
            raise session.Failed(failed)
        return True

    def _once(self, session: pytest.Session, left: dict[str, pytest.Item]) -> None:
        running, began = "", False
        with _Worker(self._config, Path(self._home.name), list(left)) as child:
            try:
                for fields in child.events():
                    if fields["event"] == "begins":
                        running, began = fields["test"], True
                        self._config.hook.pytest_runtest_logstart(nodeid=running, location=left[running].location)
                    elif fields["event"] == "report":
                        self._report(fields["report"])
                    else:
                        self._config.hook.pytest_runtest_logfinish(nodeid=running, location=left[running].location)
                        del left[running]
                        running = ""
                    if session.shouldfail or session.shouldstop:
                        return
            except CheckEnded as death:
                if not began:  # it would be so again
                    pytest.exit(f"stackproof: before the first test {death}", returncode=child.status)
                self._died(death, left, running)

    def _report(self, data: dict[str, Any]) -> None:
        report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
        report.user_properties = [tuple(pair) for pair in report.user_properties]  # JSON knows no tuples
        report.longrepr = tuple(report.longrepr) if isinstance(report.longrepr, list) else report.longrepr
        self._take_up(report, _WORDS[report.outcome])
        self._config.hook.pytest_runtest_logreport(report=report)

    def _died(self, death: CheckEnded, left: dict[str, pytest.Item], running: str) -> None:
        if not running:
            self._broken = f"stackproof: between tests or at its end {death}"
            return
        location = left[running].location
        report = pytest.TestReport(
            running, location, {}, "failed", f"{death.verdict.value}: {death}", "call", duration=0.0
        )
        self._take_up(report, death.verdict)
        self._config.hook.pytest_runtest_logreport(report=report)
        self._config.hook.pytest_runtest_logfinish(nodeid=running, location=location)
        del left[running]

    def _take_up(self, report: pytest.TestReport, verdict: Verdict) -> None:
        known = self._checks.get(report.nodeid)
        text = "" if report.passed else first_line(report.longreprtext.splitlines()[-1] if report.longreprtext else "")
        if hasattr(report, "wasxfail"):
            verdict = Verdict.KNOWN_ISSUE if report.skipped else verdict
            text = f"xfail: {report.wasxfail or 'expected to fail'}"
        if known is None or not report.passed:
            known = self._checks[report.nodeid] = Check(
                report.nodeid, verdict, text or "passed", known.seconds if known else 0.0
            )
        known.seconds += report.duration
        known.figures |= {
            str(name): value for name, value in report.user_properties if isinstance(value, (bool, int, float, str))
        }

    def pytest_unconfigure(self) -> None:
        self._home.cleanup()
        path = self._config.getoption("--stack-json")
        if not path:
            return
        if Path(sys.prefix) == environments.location(self._stack):
            with suppress(Refusal):  # it is not its lock, and "pinned" stays false
                self._record.provenance |= provenance.proof_facts(environment_proof.prove(self._stack))
        self._record.checks = list(self._checks.values())
        self._record.verdict = self._record.overall
        self._record.seconds = time.monotonic() - self._began
        try:
            writer.keep(self._record, Path(path))
        except Refusal as refusal:
            sys.stderr.write(f"stackproof: {plain(str(refusal))}\n")


class _Worker:
    """One process that runs tests; use it in a `with` block, so that it always ends, with all that it started."""

    def __init__(self, config: pytest.Config, home: Path, tests: list[str]) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=home))
        self._reading, writing = os.pipe()
        self._told = rpc.Channel(self._reading, -1)  # it is told, and asks nothing
        self._mark = processes.new_mark()
        self._traces, self._log = self._folder / "traces", self._folder / "log"
        request = self._folder / "request.json"
        request.write_text(json.dumps({"tests": tests, "pipe": writing, "traces": str(self._traces)}), encoding="utf-8")
        words = [str(word) for word in config.invocation_params.args]
        command = [sys.executable, "-m", "pytest", *words, "--color=no"]
        environment = {CHILD: str(request), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self._log.open("wb") as output:
            self._process = processes.start(
                command, output, environment, self._mark, (writing,), str(config.invocation_params.dir)
            )
        os.close(writing)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what it tells, until it ends well (CheckHung: a test is not ready by its deadline; CheckCrashed: the process died)."""
        running, wait, until = False, _START_S, time.monotonic() + _START_S
        while True:
            try:
                told = self._told.receive(until - time.monotonic())
            except rpc.ClosedError:
                break
            except rpc.SilentError:
                after = f"no end after {wait:g} s" if running else f"no test began for {wait:g} s"
                raise CheckHung(f"{after}{self._frame()}") from None
            if told["event"] != "report":
                running = told["event"] == "begins"
                wait = float(told["deadline"]) if running else _START_S
                until = time.monotonic() + wait + _GRACE_S
            yield told
        status = self._process.wait()
        if running or status not in (0, 1):
            text = plain(processes.last_words(self._log), 600)
            raise CheckCrashed(f"the process ended with {processes.describe_exit(status)}; it printed last: {text}")

    @property
    def status(self) -> int:
        """The exit code for one that cannot run tests: its own, if it is one that fails."""
        return max(1, self._process.returncode or 1)

    def _frame(self) -> str:
        """Say in which line of a test it was: the innermost that is not Python's or a package's own."""
        frames = [
            line.strip()
            for line in processes.last_lines(self._traces, 80, of_bytes=65536)
            if line.strip().startswith("File ")
        ]
        return f"; it was in {(processes.own_frame(frames) or frames)[0]}" if frames else ""

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        processes.end_tree(self._mark, self._process)
        os.close(self._reading)
