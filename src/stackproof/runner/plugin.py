"""The pytest plugin inside a stack's environment: suites' fixtures, and one event per thing that happens.

Events go, a JSON object a line, to the file that the supervising process (`supervise`) reads: whatever kills this process, what happened
before is known. A pass is earned: the check's own body ran to its end here, and said what it saw. What pytest reports is not
asked: a plugin that answers for a check or a wrapper that swallows its error leaves the body's own end as it was.
"""

from __future__ import annotations

import ast
import faulthandler
import importlib
import math
import os
import re
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import _pytest.runner
import pytest

from stackproof.base import early, files, rpc
from stackproof.base.errors import Refusal
from stackproof.base.places import SUITES, mount_suites
from stackproof.base.processes import crowding, die_with_parent, note_start
from stackproof.base.text import error_line, first_line, is_visible, matches
from stackproof.device import devices, threads
from stackproof.device.devices import torch_facts
from stackproof.device.kinds import Device, computes
from stackproof.project import projects
from stackproof.record.checks import CapabilityMissing, CheckEnded, CheckFailed, CheckInconclusive
from stackproof.record.records import Check, Figure, Measurement, Verdict
from stackproof.runner import settings
from stackproof.runner.request import Request
from stackproof.stack import stacks
from stackproof.workloads import catalogue

DEFAULT_DEADLINE_S = 120.0
_MOST = 500  # characters of a sentence
_EXIT_DEADLINE_S = 180.0  # pytest writes the traceback of all that did not pass: hundreds, where a precision is missing


def check_id(nodeid: str) -> str:
    """Return the short name of a test: `smoke/test_4_ddp.py::test_loss_falls[x]` is `smoke/ddp::loss_falls[x]`.

    A number in a file's name only puts the files of a suite in order.
    """
    path, _, test = nodeid.partition("::")
    return re.sub(r"(^|/)test_(\d+_)?", r"\1", path.removesuffix(".py")) + (
        f"::{test.removeprefix('test_')}" if test else ""
    )


def needs_of(item: pytest.Item) -> list[str]:
    """Return the checks that a check builds on: `needs("smoke/a::b[{name}]")`, filled in with its own parameters."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return [str(name).format(**parameters) for marker in item.iter_markers("needs") for name in marker.args]


def ended_before(request: Request) -> dict[str, tuple[Verdict, str]]:
    """Return the checks that other processes of the run had ended."""
    return {name: (Verdict(verdict), reason) for name, (verdict, reason) in request.earlier.items()}


_SAID = (pytest.skip.Exception, pytest.fail.Exception, pytest.xfail.Exception)
_ENDED = pytest.StashKey[tuple[Verdict, str]]()
_FIGURES = pytest.StashKey[dict[str, Figure]]()
_REPORTER = pytest.StashKey["Reporter"]()


class Reporter:
    """Turns what pytest does into events."""

    def __init__(self, request: Request, config: pytest.Config) -> None:
        self.config = config
        self.request = request
        self.stack = request.stack
        self._ours = Path(config.rootpath).samefile(SUITES)
        self._known: dict[str, pytest.Item] = {}
        self._events = (Path(request.folder) / "events.jsonl").open("a", encoding="utf-8")
        self._stacks = (Path(request.folder) / "stacks.txt").open("a", encoding="utf-8")
        self.ended = ended_before(request)
        self._began, self._deadline, self._quiet = 0.0, 0.0, False
        self._settings: settings.Settings | None = None
        self._own: set[str] = set()
        self._owners: dict[str, str] = {}
        """By check, the process of the stage that took it; the file that says so was read as far as `_read`."""
        self._read = 0

    def progress(self, message: str) -> None:
        """Say how far the check that runs has come: its deadline is for silence, and begins anew."""
        faulthandler.dump_traceback_later(self._deadline, file=self._stacks)
        self.emit("progress", message=message, deadline_s=self._deadline)

    def emit(self, event: str, **values: Any) -> None:
        """Append one event; a line is written at once."""
        rpc.write(self._events, {"event": event, **values})

    def conclude(
        self, identifier: str, verdict: Verdict, reason: str, seconds: float, figures: dict[str, Figure] | None = None
    ) -> None:
        """Announce how a check ended."""
        self.ended[identifier] = (verdict, reason)
        row = asdict(
            Check(identifier, verdict, reason, seconds if seconds > 0 else 0.0, figures or {})
        )  # a clock may go back
        self.emit("finished", check={**row, "verdict": verdict.value})

    def import_packages(self) -> None:
        """Import what the stack names, in its order; a package that does not import ends the run with its name."""
        for name in self.stack.imports:
            try:
                importlib.import_module(name)
            except Exception as error:
                self.conclude(
                    f"import {name}", Verdict.FAILED, f"`import {name}` failed: {error_line(error, _MOST)}", 0.0
                )
                pytest.exit(f"import {name} failed", returncode=1)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Announce what was collected and leave out what an earlier process of this run has finished."""
        early.done()
        known = self._known = {check_id(item.nodeid): item for item in items}
        patterns, (mine, workers) = self.request.only, self.request.shard
        asked = [name for name in known if not patterns or matches(name, patterns)]
        share = [name for name in asked if zlib.crc32(name.encode()) % workers == mine]
        self._own = {
            *share,
            *(need for name in share for need in needs_of(known[name])),
        }  # so that one can be repeated alone
        chosen = [item for name, item in known.items() if name in self._own]
        others = [known[name] for name in reversed(asked) if name not in self._own and not needs_of(known[name])]
        theirs = [name for name, item in known.items() if self._theirs(item)]
        self.emit("collected", ids=[check_id(item.nodeid) for item in chosen], known=list(known), theirs=theirs)
        items[:] = [item for item in chosen + others if check_id(item.nodeid) not in self.request.earlier]
        if not self._ours:  # ours are linted
            for file in {item.path: item.nodeid.partition("::")[0] for item in items}.items():
                self._refuse_twice(*file)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run our share of the stage, then what others have not taken of theirs, from its end: some checks take a hundred times as long."""
        if self.request.shard[1] == 1:
            return None
        taken = filter(self._take, session.items)
        item = next(taken, None)
        while item is not None:
            following = next(taken, None)  # known before this one runs, because it says which fixtures stay
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        return True

    def _take(self, item: pytest.Item) -> bool:
        """Whether no other process of the stage took this check; we may have, before we were started again."""
        name, mine = check_id(item.nodeid), str(self.request.shard[0])
        try:
            if stream := files.lock(Path(self.request.folder).parent / "taken.txt"):
                with stream:
                    stream.seek(self._read)
                    lines = stream.read().decode().splitlines()
                    self._owners |= {check: owner for owner, _, check in (line.partition(" ") for line in lines)}
                    if name not in self._owners and not needs_of(item):
                        stream.write(f"{mine} {name}\n".encode())
                    self._read = stream.tell()
        except OSError:  # a file system without locks: each process keeps to its share
            return name in self._own
        return self._owners.setdefault(name, mine) == mine

    def _refuse_twice(self, path: Path, name: str) -> None:
        """Fail a file that defines a check twice: Python keeps the last, and the first never runs."""
        bodies = [
            node.body for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Module | ast.ClassDef)
        ]
        for body in bodies:
            counts = Counter(node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
            for twice in (word for word, times in counts.items() if times > 1 and word.lower().startswith("test")):
                reason = (
                    f"defines {twice} {counts[twice]} times, of which only the last runs; give each a name of its own"
                )
                self.conclude(check_id(f"{name}::{twice}"), Verdict.FAILED, reason, 0.0)

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Say which file is imported next, which may end this process."""
        if isinstance(collector, pytest.Module):
            self.emit("collecting", file=check_id(collector.nodeid))
            self._settings = settings.read(self.stack.device)

    def pytest_exception_interact(self, node: object, call: pytest.CallInfo[Any]) -> None:
        """A file that refuses as it is imported refuses what was asked of the run, which ends with that."""
        if isinstance(node, pytest.Collector) and call.excinfo and call.excinfo.type is Refusal:
            self.emit("refused", sentence=str(call.excinfo.value))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected is a failed check; a skipped one too, because nothing passes by not running."""
        if not report.passed and check_id(report.nodeid) not in self.request.earlier:
            lines = str(report.longrepr or "collection gave no reason").strip().splitlines()
            places = re.findall(r", line \d+", str(report.longrepr))
            what = lines[-1].removeprefix("E").strip()
            why = f"{report.nodeid} could not be collected: {what}{places[-1] if places else ''}"
            self.conclude(check_id(report.nodeid) or "collection", Verdict.FAILED, why, 0.0)
        if left := self._left_changed():
            self.conclude(check_id(report.nodeid), Verdict.FAILED, left, 0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Announce the beginning and the end of every check; the first of what is held waits until it may begin."""
        file = item.nodeid.partition("::")[0]
        if not self._quiet and {file, file.partition("/")[0]} & {*self.request.held}:
            self._quiet = True
            self.emit("waiting")
            os.kill(os.getpid(), signal.SIGSTOP)
            self.ended |= ended_before(Request.load())
        self._start(item)
        try:
            return (yield)
        finally:
            self._finish(item)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """End a check as what it builds on ended, if that did not pass: nothing is timed that was not verified."""
        for name in needs_of(item):
            if name not in self._known and name not in self.ended:  # of another stage
                raise CheckFailed(f"builds on '{name}', and there is no such check")
            verdict, reason = self.ended.get(name, (Verdict.INCONCLUSIVE, "it did not run"))
            if not verdict.executed:
                raise CapabilityMissing(reason)
            if verdict is not Verdict.PASSED:
                raise CheckInconclusive(f"was not run, because {name}, on which it builds, did not pass in this run")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Run the check's body ourselves, and keep how it ended whatever others make of its error."""
        try:
            run_body(pyfuncitem)
        except (Exception, *_SAID) as error:
            device = None if isinstance(error, _SAID) else pyfuncitem.funcargs.get("device")
            if isinstance(device, Device) and not computes(device.torch):  # the next checks need a new process
                self.config.pluginmanager.getplugin("capturemanager").suspend_global_capture()
                sys.stderr.write(f"{first_line(error, 400)}; nothing computes on {device} since then\n")
                sys.stderr.flush()
                os._exit(1)
            pyfuncitem.stash.setdefault(_ENDED, _judge(error))
            raise
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the verdict of the first phase that did not pass."""
        report = yield
        if call.excinfo is not None and _ENDED not in item.stash:
            item.stash[_ENDED] = _judge(call.excinfo.value)
        return report

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Say that the process came to its own end; where its exit hangs, its stack is left."""
        deadline = _EXIT_DEADLINE_S * self.request.deadline_scale
        faulthandler.dump_traceback_later(deadline, file=self._stacks)
        self.emit("ended", status=int(exitstatus), deadline_s=deadline)

    def _left_changed(self) -> str:
        """Set back what a check, or the import of its file, left changed for the whole process, and say what it was."""
        left = settings.restore(self._settings, self.stack.device) if self._settings else ""
        what = f"left the process changed for the checks after it: {left}"
        return f"{what}; set it back where the check ends" if left else ""

    def _theirs(self, item: pytest.Item) -> bool:
        """Whether a check is of a project: of a suite of its own, or of ours about one of its workloads."""
        if not self._ours:
            return True
        args = getattr(getattr(item, "callspec", None), "params", {}).values()
        words = {word for value in args for word in (value, getattr(value, "workload", None)) if isinstance(word, str)}
        return bool(words & catalogue.theirs().keys())

    def _start(self, item: pytest.Item) -> None:
        marker = item.get_closest_marker("deadline")
        asked = (marker.args or ("nothing",))[0] if marker else DEFAULT_DEADLINE_S
        good = isinstance(asked, (int, float)) and 0 < asked < math.inf
        if not good:
            reason = f"its mark deadline has {asked!r:.80}, which is no number of seconds above 0"
            item.stash[_ENDED] = Verdict.FAILED, reason
        deadline = (asked if good else DEFAULT_DEADLINE_S) * self.request.deadline_scale
        self._deadline = deadline * crowding()
        self._settings = settings.read(self.stack.device)
        self._began = time.perf_counter()
        faulthandler.dump_traceback_later(self._deadline, file=self._stacks)
        self.emit("started", id=check_id(item.nodeid), deadline_s=self._deadline)

    def _finish(self, item: pytest.Item) -> None:
        faulthandler.cancel_dump_traceback_later()
        verdict, reason = item.stash.get(_ENDED, (Verdict.PASSED, ""))
        if verdict is Verdict.SKIPPED and not self._ours and ".toml" not in reason:
            verdict, reason = (
                Verdict.FAILED,
                f"was skipped by no row of a table: {reason}; name the row (a .toml) that says so",
            )
        figures = {name: value for name, value in (item.stash.get(_FIGURES, None) or {}).items() if value is not None}
        summary = str(figures.pop("summary", ""))
        left = self._left_changed()
        if verdict is Verdict.PASSED and (lack := missing(item, summary) or left):
            verdict, reason = Verdict.FAILED, lack
        if odd := [name for name, value in figures.items() if not _fits(name, value)]:
            kind = type(figures[odd[0]]).__name__
            text = f"its figure {odd[0]!r:.80} is a {kind}, which no record can hold; make it a text or a number that a float can be"
            verdict, reason = Verdict.FAILED, f"{reason}; {text}" if reason else text
            figures = {name: value for name, value in figures.items() if name not in odd}
        self.conclude(check_id(item.nodeid), verdict, reason or summary, time.perf_counter() - self._began, figures)


def _fits(name: object, value: object) -> bool:
    """Whether JSON can hold a figure, and give it back: no float is as large as some of Python's integers."""
    small = not isinstance(value, int) or abs(value) <= sys.float_info.max
    return isinstance(name, str) and isinstance(value, (int, float, str)) and small


_RETURNED = pytest.StashKey[Any]()
"""What a body returned that came to its end; a check returns nothing."""


def run_body(item: pytest.Function) -> None:
    """Run a check's body and keep that it returned; only this leaves the sign that a pass needs."""
    code = getattr(item.function, "__code__", None)
    if code is None or Path(code.co_filename).resolve() != Path(item.path).resolve():
        place = code.co_filename if code else type(item.function).__name__
        raise CheckFailed(f"was replaced: its body is not the one in {item.path.name}, it comes from {place}")
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    item.stash[_RETURNED] = item.obj(**arguments)


def missing(item: pytest.Item, summary: str) -> str:
    """Say what a check lacks that no error ended, or nothing if its pass is earned."""
    if _RETURNED not in item.stash:
        return "its body did not run to its end in this process: something answered for it; look for plugins and options of pytest"
    if (value := item.stash[_RETURNED]) is not None:
        kind = type(value).__name__
        return f"returned a {kind}, and what runs only when somebody asks for it has shown nothing; let the check return nothing"
    return "" if is_visible(summary) else 'passed and did not say what it saw; set figures["summary"]'


class _Contained:
    """Turns what would end all checks after one, in its body or in a fixture, into its failure: no signal of a terminal comes here."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        try:
            return (yield)
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
            raise CheckFailed(f"raised {type(error).__name__}, which would end the checks after it, too") from error

    pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call


def pytest_configure(config: pytest.Config) -> None:
    """Tie this process to its supervisor and bring the stack's packages up in their order."""
    die_with_parent()
    mount_suites()
    config.addinivalue_line("markers", "deadline(seconds): the check is ended and called hung after this time")
    config.addinivalue_line("markers", "needs(name, ...): the check runs only if these checks passed in the same run")
    reporter = Reporter(Request.load(), config)
    config.stash[_REPORTER] = reporter
    config.pluginmanager.register(reporter, "stackproof-reporter")
    config.pluginmanager.register(_Contained(), "stackproof-contained")
    # Else pytest leaves a fixture that it had not torn down when one raised that; the next check would get what was made for this one.
    vars(_pytest.runner)["TEST_OUTCOME"] = BaseException
    if reporter.request.collect:
        return
    reporter.import_packages()
    note_start()
    threads.choose(reporter.request.preset)  # as many as all that measures
    reporter.emit("facts", values=torch_facts(reporter.stack))


def _judge(error: BaseException) -> tuple[Verdict, str]:
    if isinstance(error, CheckEnded) and not is_visible(str(error)):
        return Verdict.FAILED, f"ended as '{error.verdict.value}' and did not say why; give it a reason"
    if isinstance(error, CheckEnded):
        return error.verdict, first_line(error, _MOST)
    if isinstance(error, pytest.skip.Exception):
        return (
            Verdict.FAILED,
            f"was skipped without a rule from data ({error}); raise stackproof.record.checks.CapabilityMissing",
        )
    if isinstance(error, Refusal):
        return Verdict.FAILED, first_line(error, _MOST)
    return Verdict.FAILED, f"{error_line(error, _MOST)}{_in_project(error)}"


def _in_project(error: BaseException) -> str:
    """Return the line of the user's own project that an error passed last; nothing where it passed none."""
    project = projects.current()
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(path, line) for path, line in frames if project and path.is_relative_to(project.folder)]
    return f" (at {own[-1][0].relative_to(project.folder)}:{own[-1][1]})" if project and own else ""


@pytest.fixture(scope="session")
def run_request(pytestconfig: pytest.Config) -> Request:
    """What the supervising process asked for."""
    return pytestconfig.stash[_REPORTER].request


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> stacks.Stack:
    return pytestconfig.stash[_REPORTER].stack


@pytest.fixture(scope="session")
def progress(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Say how far a check has come; its deadline begins anew."""
    return pytestconfig.stash[_REPORTER].progress


@pytest.fixture(scope="session")
def device(run_request: Request, stack: stacks.Stack) -> Device:
    """The device under test: the one asked for, else the first visible one."""
    return devices.parse(run_request.device, stack.device) if run_request.device else devices.default(stack.device)


@pytest.fixture(scope="session")
def preset(run_request: Request) -> str:
    """The size of the workloads: tiny or full."""
    return run_request.preset


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> dict[str, Figure]:
    """The figures of this check; `summary` becomes the reason when it passes, and without one it does not."""
    node: pytest.Item = request.node
    return node.stash.setdefault(_FIGURES, {})


@pytest.fixture
def measured(pytestconfig: pytest.Config) -> Callable[[Measurement], None]:
    reporter = pytestconfig.stash[_REPORTER]
    return lambda row: reporter.emit("measurement", **asdict(row))
