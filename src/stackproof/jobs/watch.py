"""The verb `watch`: run one job as if nobody watched, and keep its record: provenance, figures, how it ended, what its log says.

Its output, its exit code and the signals that it gets are its own. Nothing that goes wrong with the record changes any of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import IO

from stackproof.base import files, processes
from stackproof.base.errors import Refusal
from stackproof.base.text import plain
from stackproof.jobs import launch, metrics
from stackproof.jobs.launch import CommandEnd
from stackproof.jobs.metrics import STEPS_FILE
from stackproof.record import writer
from stackproof.record.records import Check, Measurement, Record, Verdict
from stackproof.record.writer import Outputs
from stackproof.stack import hosts, provenance
from stackproof.stack.stacks import Stack
from stackproof.triage import logs as sources
from stackproof.triage import reports

_SIGNALS = (*processes.ENDINGS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_CHUNK = 1 << 16
_LAST_S = 5.0
"""How long after the job's end a process that it left behind may keep its output open."""


def watch(words: Sequence[str], outputs: Outputs, stack: Stack | None) -> int:
    """Run the job, keep its record, and return its exit code: 128 and the signal's number where one ended it.

    `stack`: None for the one that this host has.
    """
    folder, record = _opened(words, outputs, stack)
    job = _Job(words, folder)
    try:
        ended = job.run()
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        _say(f"'{words[0]}' cannot be started {processes.why_not_started(words[0], error)}")
        return processes.NOT_FOUND if isinstance(error, FileNotFoundError) else processes.NOT_EXECUTABLE
    code = 128 - ended.status if ended.status < 0 else ended.status
    with processes.signals_ignored():
        try:
            if record is not None:
                _keep(record, outputs, folder, job, ended)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        except Exception as error:  # whatever it is, the job ended as it ended
            _say(f"the record could not be kept ({error}); the job's exit code is {code}")
    return code


def _say(text: str) -> None:
    """Say a sentence on stderr; stdout is the job's."""
    with suppress(OSError):
        os.write(2, f"stackproof watch: {plain(text)}\n".encode(errors="replace"))


def _opened(words: Sequence[str], outputs: Outputs, stack: Stack | None) -> tuple[Path, Record | None]:
    """Return a folder for the log and the empty record; where there can be none, the job runs all the same."""
    try:
        stack = stack or hosts.preferred().stack
        if why := files.why_no_folder(outputs.results):
            raise Refusal(f"{outputs.results} {why}; choose another folder with --results")
        outputs.prepare()
        record = writer.begin("watch", stack.name, provenance.host_facts(stack))
        record.provenance |= {"command": launch.shown(words), "folder": str(Path.cwd()), "pinned": False}
        return outputs.folder(record), record
    except Exception as error:  # the job is what matters
        _say(f"no record will be kept: {error}")
        return Path(tempfile.mkdtemp(prefix="stackproof-watch-")), None


class _Job:
    """The job: its output goes where it would go, and into a log."""

    def __init__(self, line: Sequence[str], folder: Path) -> None:
        self.log, self.steps = folder / "job.log", folder / "steps.jsonl"
        self.signalled: list[int] = []
        self.line = line
        self._job: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self) -> CommandEnd:
        """Run it to its end, in a session of its own, so that a Ctrl-C reaches it once, from us.

        Raises:
            OSError: it cannot be started.
        """
        began = time.monotonic()
        heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        with processes.handling(heard, self._pass_on):
            self._job = job = subprocess.Popen(
                self.line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                env={"PYTHONUNBUFFERED": "1", **os.environ, STEPS_FILE: str(self.steps)},
            )  # fmt: skip
            for number in tuple(self.signalled):  # they came while it was not yet there
                self._send(number)
            copies = self._copies(job)
            _, status, usage = os.wait4(job.pid, 0)
            job.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        for copy in copies:
            copy.join(_LAST_S)
        return CommandEnd(job.returncode, seconds, usage.ru_maxrss * 1024, hung=False)

    def _copies(self, job: subprocess.Popen[bytes]) -> list[threading.Thread]:
        kept: IO[bytes] | None = None
        try:
            kept = self.log.open("wb", buffering=0)
        except OSError as error:
            _say(f"its log cannot be kept ({error.strerror})")
        streams = ((job.stdout, 1, kept), (job.stderr, 2, kept))
        threads = [threading.Thread(target=self._copy, args=each, daemon=True) for each in streams]
        for copy in threads:
            copy.start()
        return threads

    def _copy(self, source: IO[bytes], target: int, log: IO[bytes] | None) -> None:
        """Copy bytes as they come; a full disk stops only what goes there, and if nobody reads on, the job is told as ever, by SIGPIPE."""
        with source:
            while chunk := os.read(source.fileno(), _CHUNK):
                if log is not None:
                    with suppress(OSError), self._lock:
                        log.write(chunk)
                try:
                    while chunk:
                        chunk = chunk[os.write(target, chunk) :]
                except BrokenPipeError:
                    return
                except OSError:
                    target = os.open(os.devnull, os.O_WRONLY)

    def _pass_on(self, number: int, _: object) -> None:
        self.signalled.append(number)
        self._send(number)

    def _send(self, number: int) -> None:
        """Send a signal to the job; a Ctrl-C to all of its processes, as a terminal does."""
        if self._job is not None:
            with suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGINT else os.kill)(self._job.pid, number)


def _keep(record: Record, outputs: Outputs, folder: Path, job: _Job, ended: CommandEnd) -> None:
    record.seconds, record.logs = ended.seconds, [job.log.name]
    record.checks.append(_exit(job, ended))
    _triage(record, job, ended)
    record.measurements += _figures(job, ended)
    record.verdict = record.overall
    path = writer.keep(record, folder / "record.json", outputs)
    wrong = next((check.reason for check in record.checks[1:] if check.verdict.exit_code), "")
    _say(f"{record.checks[0].reason}{f'; {wrong}' if wrong else ''}; record: {path}")


def _exit(job: _Job, ended: CommandEnd) -> Check:
    names = ", ".join(signal.Signals(number).name for number in job.signalled)
    reason = f"{processes.describe_exit(ended.status)} after {ended.seconds:.1f} s{f', having been sent {names}' if names else ''}"
    verdict = Verdict.PASSED if ended.status == 0 else Verdict.CRASHED if ended.status < 0 else Verdict.FAILED
    verdict = Verdict.INTERRUPTED if job.signalled and ended.status else verdict
    return Check(
        "watch/job::exit", verdict, reason, ended.seconds, {"status": ended.status, "peak_memory_bytes": ended.peak}
    )


def _triage(record: Record, job: _Job, ended: CommandEnd) -> None:
    """Add what the log says; that a log shows no good end says nothing where the exit code does."""
    try:
        report = reports.report(sources.named([job.log]))
    except Refusal as refusal:
        record.checks.append(Check("triage::root-cause", Verdict.NOT_APPLICABLE, str(refusal), 0.0))
        return
    found = reports.record([report], record.stack)
    for check in found.checks:
        if check.verdict is Verdict.INCONCLUSIVE:
            check.verdict = Verdict.NOT_APPLICABLE
            check.reason = (
                f"the log alone does not say why: {check.reason}" if ended.status else "the log shows no failure"
            )
    record.checks += found.checks
    record.measurements += found.measurements
    record.provenance |= {name: value for name, value in found.provenance.items() if name.endswith("(log)")}


def _figures(job: _Job, ended: CommandEnd) -> Iterator[Measurement]:
    name, note = Path(job.line[0]).name, "watched; nothing was verified"
    yield Measurement(name, "full", "", 1, "watch", "s", ended.seconds, [ended.seconds], note)
    steps = [row["seconds"] for row in metrics.rows_of(job.steps) if row.get("seconds", -1) >= 0]
    if steps:
        yield Measurement(name, "full", "", 1, "steps", "s/iteration", median(steps), steps, note)
