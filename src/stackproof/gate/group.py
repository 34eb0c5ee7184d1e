"""A subject of a side that takes several ranks: they are launched once and wait for requests, each on a socket of its own.

Ranks that waited in a collective would keep a card, or a core, busy while the other side is timed; on a socket they sleep.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stackproof.base import rpc
from stackproof.bench.engine import alone
from stackproof.bench.ranks import rest, work_of
from stackproof.bench.sampling import freeze_collector, warm_up
from stackproof.bench.subjects import Subject
from stackproof.collectives.timing import Together
from stackproof.device.kinds import Device
from stackproof.gate import computed
from stackproof.ranks import libraries
from stackproof.ranks.blame import Traces
from stackproof.ranks.launch import Arrangement, launch
from stackproof.ranks.libraries import serving
from stackproof.ranks.rank import Rank
from stackproof.record.checks import CheckCrashed, CheckEnded
from stackproof.record.records import Verdict
from stackproof.stack.stacks import Stack

Answer = rpc.Message


class RankServer:
    """The work of one rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._work = work_of(rank)
        self._sampler = Together(rank.device, self._work.run, begin=self._work.begin)

    def prove(self) -> Answer:
        """Verify the work together with the other ranks."""
        return {"proved": self._work.prove(), "worth": dict(self._work.worth)}

    def warm(self, seconds: float) -> Answer:
        """Warm up together; all ranks look at the slowest, so they stop together."""
        freeze_collector()
        self._rank.device.reset_peak()
        warm_up(self._sampler, seconds)
        return {"seconds": min(self._sampler.block(3))}

    def block(self, runs: int) -> Answer:
        """Begin together and return the slowest rank's mean seconds of a run."""
        return {"seconds": self._sampler.spans([runs])[0] / runs}

    def done(self) -> Answer:
        """Return the most memory that was in use since the warm-up began, in bytes."""
        return {"peak-memory": self._rank.device.memory().peak}

    def count(self) -> Answer:
        self._sampler.begin(1)
        counts = {"operators": computed.operators(self._work.run)}
        self._rank.device.synchronize()
        return {"counters": counts}

    def conclude(self) -> Answer:
        """Let the work say whether the timed runs did what was proved."""
        return {"figures": dict(self._work.conclude())}


def serve(rank: Rank) -> Answer:
    """Answer requests until there are no more; a check that ended is an answer, of anything else the launcher tells why."""

    @contextmanager
    def within(ask: str, _: Answer) -> Iterator[None]:
        rank.phase(ask)
        yield

    def failed(error: Exception) -> Answer:
        if isinstance(error, CheckEnded):
            return {"verdict": error.verdict.value, "reason": str(error)}
        raise error

    with socket.socket(socket.AF_UNIX) as line:
        line.connect(rank.arguments["address"])
        with line.makefile("rw", encoding="utf-8") as stream:
            rpc.serve(RankServer(rank), stream, stream, failed, within)
    rest()
    return {}


_PROGRAM = "stackproof.gate.group:serve"
_PROBE = "stackproof.ranks.joined:report"
_PROBE_S = 180.0
_WHOLE_S = 3000.0
"""Longer than any subject of a launch takes, and within what the preflight allows. Each request has its own
deadline, which ends this side with all its ranks."""
_POLL_S = 0.5
_LAST_S = 30.0


def arranged(subject: Subject, preset: str, device: Device, backend: str) -> Arrangement:
    """Return a rank on each card, over the stack's backend or the one that is asked for, with tensors that the backend takes.

    Raises:
        CapabilityMissing: there are fewer cards than ranks.
        Refusal: nobody knows the backend.
    """
    arrangement = alone(subject, device, int(subject.parameters[preset]["ranks"]))
    if not backend or backend == arrangement.backend:
        return arrangement
    return replace(arrangement, backend=backend, on_host=subject.stack.device not in serving(backend).devices)


class RankGroup:
    """A station of several ranks, which prove their work in every launch."""

    def __init__(self, subject: Subject, preset: str, device: Device, backend: str) -> None:
        arrangement = arranged(subject, preset, device, backend)
        self._home = tempfile.TemporaryDirectory(prefix="sp-")  # short, a socket's name has 108 characters at most
        self._failure: Exception | None = None
        self._lines: list[socket.socket] = []
        self._channels: list[rpc.Channel] = []
        where, self._folder = Path(self._home.name) / "s", Path(self._home.name) / "ranks"
        parameters = dict(subject.parameters[preset])
        arguments = {"address": str(where), "kind": subject.kind, "preset": preset, "parameters": parameters}
        self._thread = threading.Thread(target=self._launch, args=(subject.stack, arrangement, arguments), daemon=True)
        try:
            self._accept(where, len(arrangement.cards))
            opened = self._ask("prove")
        except BaseException:
            self.close()
            raise
        self.proved, self.worth = str(opened["proved"]), {"iteration": 1.0, **opened["worth"]}

    def _launch(self, stack: Stack, arrangement: Arrangement, arguments: Answer) -> None:
        try:
            launch(_PROGRAM, stack, arrangement, arguments, self._folder, _WHOLE_S)
        except Exception as ended:  # whoever asks next is told
            self._failure = ended

    def _accept(self, where: Path, ranks: int) -> None:
        """Start the ranks, and wait for every one to come, or for the launch to fail."""
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(where))
            server.listen(ranks)
            self._thread.start()
            server.settimeout(_POLL_S)
            while len(self._lines) < ranks:
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    if not self._thread.is_alive():
                        raise self._lost() from None
                    continue
                connection.setblocking(True)
                self._lines.append(connection)
                self._channels.append(rpc.Channel(connection.fileno(), connection.fileno()))

    def _ask(self, request: str, **arguments: Any) -> Answer:
        """Return the largest of each number that ranks answer, and the first rank's of all else; the first answer that is bad is raised."""
        try:
            for channel in self._channels:
                channel.send(request, **arguments)
            answers = [channel.receive(_WHOLE_S) for channel in self._channels]
        except (rpc.ClosedError, rpc.SilentError):
            raise self._lost() from None
        for answer in answers:
            if "verdict" in answer:
                ended = CheckEnded(answer["reason"])
                ended.verdict = Verdict(answer["verdict"])
                raise ended
        numbers = [name for name, value in answers[0].items() if isinstance(value, (int, float))]
        return {**answers[0], **{name: max(answer[name] for answer in answers) for name in numbers}}

    def _lost(self) -> Exception:
        """Return why a rank is gone: what the launcher found out."""
        self._thread.join(_LAST_S)
        return self._failure or CheckCrashed("a rank ended without a word")

    def __getattr__(self, request: str) -> Callable[..., Answer]:
        """Ask all ranks: the answer is the slowest one's seconds, the largest peak and the first one's counters."""
        if request not in ("warm", "block", "done", "count", "conclude"):
            raise AttributeError(request)
        return partial(self._ask, request)

    def run(self) -> object:
        return self._ask("block", runs=1)

    def compute(self) -> Answer:
        """Say nothing: ranks are held against one another and against float64 by their proof, and not yet against the other side."""
        return {}

    def close(self) -> None:
        for line in self._lines:
            with suppress(OSError):  # of a rank that is gone
                line.sendall(b'{"ask": "stop"}\n')
            line.close()
        self._lines, self._channels = [], []
        self._thread.join(_LAST_S)
        self._home.cleanup()


def in_effect(stack: Stack, arrangement: Arrangement, asked: Mapping[str, str]) -> Answer:
    """Bring a group up with its library told to talk, and return what its log says is in effect of what was asked for.

    `facts` by name, `denied` and `warned` as sentences, `echoed` the variables that the log names; `silent` is why there is no log.
    """
    library = serving(arrangement.backend)
    if library.silent:
        return {"silent": library.silent}
    with tempfile.TemporaryDirectory(prefix="sp-") as home:
        folder, ranks = Path(home), range(len(arrangement.cards))
        launch(_PROBE, stack, arrangement, {}, folder, _PROBE_S, environment=library.talk)
        logs = {rank: Traces(folder, len(ranks)).library_said(rank) for rank in ranks}
    effects = {rank: library.read(log, asked) for rank, log in logs.items()}
    echoed = {match["name"] for log in logs.values() for match in (library.echo.finditer(log) if library.echo else ())}
    return {
        "facts": libraries.common_facts(effects),
        "denied": list(dict.fromkeys(sentence for effect in effects.values() for sentence in effect.contradictions)),
        "warned": list(dict.fromkeys(sentence for effect in effects.values() for sentence in effect.warnings)),
        "echoed": sorted(echoed),
        "silent": "" if library.echo else f"the log of {library.name} does not list variables",
    }
