"""Which rank failed, crashed or hung, read from the files that the ranks left: phases, errors, stacks, last lines."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import signal
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from stackproof.base import files, processes
from stackproof.base.text import first_few, first_line
from stackproof.ranks.libraries import explain, is_symptom
from stackproof.record.checks import CheckCrashed, CheckFailed

FORMED, LEAVING = "starting the program", "leaving the group"
VARIABLES = "rank0.variables"
# Frames in which a rank waits for others, and is not itself what they wait for.
_WAITING = re.compile(
    r'torch/(distributed|autograd|nn/parallel)/| in synchronize|ranks/rank\.py", line \d+ in (wait|journal_notes)$'
)
_WRAPPED = 4  # a backend written in Python waits in frames of its own, above torch's
_SIGTERM = -15  # from the launcher, which ends the others once one has failed, or from outside
_GAVE_UP = (-signal.SIGABRT, -signal.SIGALRM, *range(1, 128))
_AT_ONCE_S = 1.0  # what the times of two failures are worth
_STARTING = ("start-up", "importing")


@dataclass(frozen=True)
class Traces:
    """What the ranks of one launch left in its folder."""

    folder: Path
    world_size: int

    def text(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / name).read_text(encoding="utf-8")
        return ""

    def left(self) -> list[int]:
        """Return the ids of processes of this launch that still live, however they were started."""
        mark = self.text("mark")
        return processes.with_mark(mark) if mark else []

    def phases(self, rank: int) -> list[str]:
        return self.text(f"rank{rank}.phases").splitlines()

    def size(self) -> int:
        """Return how much the ranks have noted: it grows with every phase of any."""
        return sum(path.stat().st_size for path in self.folder.glob("rank*.phases"))

    def place(self, rank: int) -> str:
        return (self.phases(rank) or ["start-up"])[-1]

    def answered(self, rank: int) -> bool:
        """Whether a rank left its result, whole, after which its process ends at once."""
        return files.try_read_json(self.folder / f"rank{rank}.json") is not None

    def ended(self, rank: int) -> bool:
        """Whether a rank came to the end of its program."""
        return LEAVING in self.phases(rank) or self.answered(rank)

    def alive(self, rank: int) -> Path:
        """Return the file in which a rank's supervisor says where it runs, and where its rank meets the others."""
        return self.folder / f"rank{rank}.alive"

    def started(self, rank: int) -> bool:
        return self.alive(rank).exists() and not (self.folder / f"rank{rank}.failure").exists()

    def ends(self, rank: int) -> list[Path]:
        """Return what a rank, or its supervisor, left of how it ended."""
        return [path for end in ("failure", "json") if (path := self.folder / f"rank{rank}.{end}").exists()]

    def supervised(self, rank: int) -> bool | None:
        """Whether a rank's supervisor lives; None where it is on another host."""
        supervisor = files.try_read_json(self.alive(rank)) or {}
        if supervisor.get("host") != socket.gethostname():
            return None
        with contextlib.suppress(OSError, LookupError):
            return bool(Path(f"/proc/{supervisor['supervisor']}/cmdline").read_bytes())  # of a zombie it is empty
        return False

    def vanished(self, rank: int) -> bool:
        """Whether a rank's supervisor on this host is gone without having said how its rank ended."""
        return not self.ends(rank) and self.supervised(rank) is False

    def begun(self) -> list[int]:
        """Return the ranks that are known to have begun their program."""
        return [rank for rank in range(self.world_size) if FORMED in self.phases(rank)]

    def formed(self) -> bool:
        return len(self.begun()) == self.world_size

    def journals(self) -> Journals:
        return {rank: journal(self.folder, rank) for rank in range(self.world_size)}

    def error(self, rank: int) -> str:
        return self.text(f"rank{rank}.error")

    def failures(self) -> list[dict[str, Any]]:
        """Return what the launcher, or each rank's own supervisor, noted of ranks that failed."""
        notes = [files.try_read_json(path) for path in sorted(self.folder.glob("rank*.failure"))]
        return [note for note in notes if note and note["rank"] < self.world_size]

    def lost_another(self, rank: int) -> bool:
        """Whether a rank's last words say that it lost another one, or gave up waiting for it, and nothing else.

        What it had logged before it raised, such as a download's lost connection, it had survived.
        """
        error, words = self.error(rank), self.everything(rank)
        return is_symptom(error + "".join(words.partition("\nTraceback (most recent")[1:]) if error else words)

    def raised(self) -> list[int]:
        """Return the ranks that raised something that does not merely follow from the loss of another."""
        errors = {rank: self.error(rank) for rank in range(self.world_size)}
        return [rank for rank, error in errors.items() if error and not is_symptom(error)]

    def variables(self) -> str:
        """Say which variables the ranks did not have alike when they met, to be put behind a failure."""
        text = self.text(VARIABLES)
        return f"; the ranks' variables differ: {text}" if text else ""

    def log(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.log"

    def last_lines(self, rank: int, count: int = 3) -> str:
        """Return the last lines of a rank's output, without the stacks that its deadline had dumped."""
        return " / ".join(dict.fromkeys(_before_dump(self._tail(rank))[-count:]))

    def stack(self, rank: int) -> list[str]:
        """Return the frames without ours around torch's own."""
        return [frame for frame in self.frames(rank) if not frame.endswith(" in journal_notes")]

    def frames(self, rank: int) -> list[str]:
        """Return the frames, the innermost first, of the thread that crashed, or of the main thread as the deadline dumped it (last)."""
        lines = self._tail(rank)
        heads = [number for number, line in enumerate(lines) if line.startswith(("Thread 0x", "Current thread 0x"))]
        current = [number for number in heads if lines[number].startswith("Current")]
        following = lines[(current or heads)[-1] + 1 :] if heads else []
        frames = itertools.takewhile(lambda line: line.startswith("File "), map(str.strip, following))
        # Without the door to torch's operators: what called it tells whether a rank waits.
        return [frame for frame in frames if "/torch/_ops.py" not in frame]

    def everything(self, rank: int) -> str:
        """Return what may explain a failure: the error, the end of the output and of the library's own log."""
        library = processes.last_lines(self.folder / f"library.rank{rank}.log", 200, of_bytes=65536)
        return "\n".join([self.error(rank), *self._tail(rank), *library])

    def library_said(self, rank: int) -> str:
        """Return everything that a rank's library said: NCCL writes a file of its own, oneCCL into the rank's output."""
        paths = [self.folder / f"library.rank{rank}.log", self.log(rank)]
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths if path.exists())

    def _tail(self, rank: int) -> list[str]:
        return processes.last_lines(self.log(rank), 200, of_bytes=65536)


Journals: TypeAlias = Mapping[int, Sequence["JournalEntry"]]
WORLD, TO_ONE, ANY = "the world", "the messages from", "any rank"
NEW_GROUPS = "the new groups"
SLOTS, SLOT = 2048, 512
"""How many calls a journal keeps, and the bytes of each."""
_SHARE, _SHORTEST_S = 0.25, 0.1  # of the time from the first to the last common call; seconds


def journal_path(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.journal"


def digests_path(journal: Path) -> Path:
    return journal.with_suffix(".digests")


@dataclass(frozen=True)
class JournalEntry:
    """A call as a rank's journal has it: its place among all calls and in its stream (a group), seconds since the group formed."""

    at: int
    seconds: float
    stream: str
    number: int
    words: str
    line: str
    members: tuple[int, ...]

    @property
    def alike(self) -> str:
        """What the others have to call as well: a message is sent by one function and received by another."""
        return self.words.partition(" of ")[2] if self.stream.startswith(TO_ONE) else self.words

    def __str__(self) -> str:
        return f"{self.words} ({self.line})"


def journal(folder: Path, rank: int) -> list[JournalEntry]:
    """Return the last calls of a rank, the first first; none where it left none."""
    calls = []
    with contextlib.suppress(OSError):
        for text in journal_path(folder, rank).read_bytes().replace(b"\0", b"").decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError):  # cut off
                at, seconds, stream, number, words, line, members = text.rstrip(" ").split("\t")
                ranks = tuple(map(int, filter(None, members.split(", "))))
                calls.append(JournalEntry(int(at), float(seconds), stream, int(number), words.strip(), line, ranks))
    return sorted(calls, key=lambda call: call.at)


@dataclass(frozen=True)
class Departure:
    """Where ranks first called something else in a stream than its others (`differ`), or nothing: who, who is ahead, in words."""

    ranks: list[int]
    ahead: list[int]
    differ: bool
    stream: str
    text: str


def departures(
    journals: Journals, begun: Collection[int] = (), ended: Collection[int] = (), excused: Collection[int] = ()
) -> list[Departure]:
    """Compare the journals of all ranks, stream by stream; an empty one of a rank that has `begun` says that it called nothing.

    Ranks that have `ended` are no longer waited for: where most of them never made a call, who made it made one too many. Those that are
    `excused` lost another rank, or gave up waiting for one: what they did not call follows from that.
    """
    written = {call.stream: call.members or tuple(journals) for calls in journals.values() for call in calls}
    counts = Counter((rank, call.stream) for rank, calls in journals.items() for call in calls)
    both = [[counts[rank, stream] for rank in ranks] for stream, ranks in written.items() if stream.startswith(TO_ONE)]
    usual = Counter(count for count, *others in both if {*others} <= {count})
    result = []
    for stream, members in written.items():
        numbered = {
            rank: {call.number: call for call in journals[rank] if call.stream == stream}
            for rank in members
            if journals.get(rank) or rank in begun
        }
        # Of a rank that has called much else since, and none of these, nobody knows how many of these there were.
        for rank in [rank for rank in numbered if not numbered[rank] and journals[rank] and journals[rank][0].at > 0]:
            del numbered[rank]
        if len(numbered) < 2 or _from_any(stream, written):
            continue
        first = max(min(calls, default=1) for calls in numbered.values())
        last = max(max(calls, default=0) for calls in numbered.values())
        numbers = (_departure(stream, number, numbered, ended, excused, usual) for number in range(first, last + 1))
        if departure := next(filter(None, numbers), None):
            # Their words may be alike for a while after the call that one rank made alone: the lines of the program tell.
            sites = (_shifted(stream, number, numbered, str) for number in range(first, last + 1))
            result.append(next(filter(None, sites), None) or departure)
    return result


def _from_any(stream: str, streams: Collection[str]) -> bool:
    """Whether the rank that messages go to also received some without naming the sender: which, no journal knows."""
    anybodys = re.sub(rf"(?<={TO_ONE} )rank \d+", ANY, stream)
    return stream.startswith(TO_ONE) and anybodys in streams


def differences(traces: Traces) -> str:
    """Say where ranks that all came to their end had not called the same; nothing if they had.

    The journals tell which call; where it is no longer in them, the digests of all calls tell that there was one.
    """
    texts = {row.stream: row.text for row in departures(traces.journals(), traces.begun(), range(traces.world_size))}
    ranks = {
        rank: files.try_read_json(digests_path(journal_path(traces.folder, rank))) for rank in range(traces.world_size)
    }
    ends = {rank: streams for rank, streams in ranks.items() if streams is not None}
    written = {stream: members for streams in ends.values() for stream, (_, _, members) in streams.items()}
    for stream, members in written.items():
        of = {rank: tuple(ends[rank].get(stream, [0, 0])[:2]) for rank in members or ranks if rank in ends}
        (usual, _), *_ = Counter(of.values()).most_common(1)
        odd = [rank for rank, end in of.items() if end != usual]
        if not odd and len(of) == len(members or ranks):
            texts.pop(stream, None)
        elif odd and not _from_any(stream, written):
            alike = [rank for rank in of if rank not in odd]
            texts.setdefault(
                stream,
                f"{named(odd)} and {named(alike)} did not call the same of {stream}: of {max(of.values())[0]} calls one differs that came "
                f"before the last {SLOTS}, which are all that is kept",
            )
    return "; ".join(texts.values())


def _departure(
    stream: str,
    number: int,
    numbered: Mapping[int, Mapping[int, JournalEntry]],
    ended: Collection[int],
    excused: Collection[int],
    usual: Counter[int],
) -> Departure | None:
    here = {rank: calls[number] for rank, calls in numbered.items() if number in calls}
    if not here:  # a line was cut off
        return None
    (common, count), *_ = Counter(call.alike for call in here.values()).most_common(1)
    ahead = [rank for rank, call in here.items() if call.alike == common]
    odd = [rank for rank in here if rank not in ahead]
    missing = [rank for rank in numbered if rank not in here and rank not in excused]
    what, most = f"number {number} of {stream}", 2 * count > len(here)
    if not odd:
        if not missing:
            return None
        call, since = f"{what}, {here[ahead[0]]}", 1 + min(max(numbered[rank], default=0) for rank in missing)
        # A message is one too many if other ranks exchanged as many as came before it.
        enough = stream.startswith(TO_ONE) and [number - 1] == [count for count, _ in usual.most_common(1)]
        alone = enough or len(missing) > len(ahead)
        if since < number:
            call = f"number {since} of {stream}, which is no longer kept, nor {call}"
        elif alone and not {*missing}.difference(ended):
            text = f"{named(ahead)} called {call}, and {named(missing)} ended without it"
            return Departure(ahead, missing, True, stream, text)
        verb = "send" if _sends(stream, missing[0]) else "receive" if stream.startswith(TO_ONE) else "call"
        text = f"{named(missing)} did not {verb} {call}, which {named(ahead)} called"
        return Departure(missing, ahead, False, stream, text)
    if shifted := _shifted(stream, number, numbered, lambda call: call.alike):
        return shifted
    if most:
        text = f"{named(odd)} called {here[odd[0]]} as {what}, where {named(ahead)} called {here[ahead[0]]}"
        return Departure(odd, ahead, True, stream, text)
    each = ", ".join(f"rank {rank} {call}" for rank, call in here.items())
    return Departure([*here], [], True, stream, f"{named([*here])} called different things as {what}: {each}")


def _shifted(
    stream: str, number: int, numbered: Mapping[int, Mapping[int, JournalEntry]], key: Callable[[JournalEntry], str]
) -> Departure | None:
    """Find a call that one rank made and another left out: from there on the one calls what the other called one call before."""
    here = {rank: key(calls[number]) for rank, calls in numbered.items() if number in calls}
    of = {words: rank for rank, words in reversed(here.items())}
    for short, full in itertools.permutations(of.values(), 2):
        if (after := numbered[full].get(number + 1)) is None or key(after) != here[short]:
            continue
        left, whole = ([key(call) for n, call in numbered[rank].items() if n >= number] for rank in (short, full))
        both = min(len(left), len(whole) - 1)
        if left[:both] != whole[1 : both + 1] or (both == 1 < len(left) and whole[0] in left):  # these were swapped
            continue
        more = [rank for rank in here if here[rank] == whole[0]]
        less = [rank for rank in here if rank not in more]
        call = f"number {number} of {stream}, {numbered[full][number]}"
        never = key is str and numbered[full][number].line not in {call.line for call in numbered[short].values()}
        if len(more) < len(less) or (len(more) == len(less) and never):
            text = f"{named(more)} called {call}, which {named(less)} did not call"
            return Departure(more, less, True, stream, text)
        text = f"{named(less)} skipped {call}, which {named(more)} called"
        return Departure(less, more, True, stream, text)
    return None


def named(ranks: Sequence[int], most: int = 4) -> str:
    rest = [f"{len(ranks) - most} more"] if len(ranks) > most else []
    return " and ".join([*(f"rank {rank}" for rank in ranks[:most]), *rest])


def late(journals: Journals) -> str:
    """Name the rank for which the others waited in call after call, and the seconds; nothing if there is none.

    A rank waits from the second last's arrival at a call, or from that of the last at the call before, to the last's. The ranks' clocks
    were set together when the group had formed. Of each rank the longest wait is left out: one slow step accuses nobody.
    """
    arrivals: dict[tuple[str, int], dict[int, float]] = {}
    for rank, calls in journals.items():
        for call in (call for call in calls if not call.stream.startswith(TO_ONE)):
            arrivals.setdefault((call.stream, call.number), {})[rank] = call.seconds
    common = [sorted((at, rank) for rank, at in of.items()) for of in arrivals.values() if len(of) == len(journals)]
    if len(journals) < 2 or len(common) < 4:
        return ""
    common.sort(key=lambda order: order[-1])
    waited: dict[int, list[float]] = {rank: [] for rank in journals}
    before = 0.0
    for *_, (second, _), (last, rank) in common:
        waited[rank].append(max(0.0, last - max(second, before)))
        before = last
    total = {rank: sum(sorted(waits)[:-1]) for rank, waits in waited.items()}
    *_, other, rank = sorted(total, key=lambda rank: total[rank])
    seconds, span = total[rank], common[-1][-1][0] - common[0][-1][0]
    if seconds < max(_SHORTEST_S, _SHARE * span, 3 * total[other]):
        return ""
    return f"rank {rank} is the straggler: the others waited {seconds:.1f} s of {span:.1f} s for it, in {len(waited[rank])} calls"


def who_hung(traces: Traces, after_s: float) -> str:
    """Name the ranks that the others wait for: they called fewer collectives than the others and are not inside one.

    Where no journal tells, those that got least far by their phases; among equals those that do not merely wait for the others.
    """
    silent = [rank for rank in range(traces.world_size) if not traces.answered(rank)]
    ranks = [rank for rank in silent if not traces.ended(rank)] or silent or list(range(traces.world_size))
    journals, waiting = traces.journals(), [rank for rank in ranks if _waits(traces, rank)]
    diverged, causes = _told(traces, waiting)
    behind = _behind(traces, ranks, causes, waiting)
    nobody = set(behind) == set(ranks) or len(waiting) == len(ranks)  # stands out: all wait
    first = "".join(
        f"{row.text}; "
        for row in diverged
        if row.differ or (causes.issuperset(row.ranks) and (nobody or any(map(traces.ended, row.ranks))))
    )
    counts = {calls[-1].at + 1 if calls else 0 for calls in journals.values()}
    level = nobody and not diverged and len(counts) == 1 and 0 not in counts
    alike = f"; each rank had called {max(counts)} collectives, so none is behind" if level else ""
    stack, last = traces.stack(behind[0]), traces.last_lines(behind[0])
    frame = "; it left no stack, so it was stopped or stuck outside Python"
    if stack or traces.error(behind[0]):
        frame = f"; it was in {stack[0]}" if stack else f"; it had raised {first_line(traces.error(behind[0]), 160)}"
    slow = ""
    if traces.place(behind[0]) in _STARTING:
        remedy = f"where a slow disk or {processes.load()} is why, --deadline-scale 4 (or --deadline) allows it more"
        slow = f" while it was importing torch; {remedy}"
    rest = sorted({*range(traces.world_size)}.difference(behind))
    others = first_few([f"rank {rank} in '{traces.place(rank)}'" for rank in rest], most=64)
    own = {rank: [frame for frame in traces.stack(rank) if "/torch/" not in frame] for rank in rest}
    were = ", ".join(f"rank {rank} was in {frames[0]}" for rank, frames in own.items() if frames)
    return (
        f"{first}{named(behind)} hung in '{traces.place(behind[0])}'{f' ({others})' if others else ''}; all ranks were ended after "
        f"{after_s:.0f} s{slow}{frame}{_called(diverged, first)}{alike}"
        f"{f'; {were}' if were else ''}{f'; it printed last: {last}' if last else ''}"
    )


def _called(diverged: Sequence[Departure], first: str) -> str:
    """Say what is left to say of the journals: who is behind, and whether all wait in a ring."""
    sentences = [departure.text for departure in diverged if departure.text not in first]
    behind, ahead = {rank for row in diverged for rank in row.ranks}, {rank for row in diverged for rank in row.ahead}
    sentences += ["they wait for each other, which is a deadlock"] if behind and behind <= ahead else []
    return "".join(f"; {sentence}" for sentence in sentences)


def _told(traces: Traces, waiting: Collection[int], excused: Collection[int] = ()) -> tuple[list[Departure], set[int]]:
    """Return where the journals depart, and the ranks at the end of the chain of who waits for whom; what accuses these comes first.

    A rank that sent to, or received from, another one than the one that waits for it was wrong. In a ring it is the rank whose last
    call never came after the one before it, which had been called before; else one that a message waits for; else the rank that came
    to its last call in a way that the fewest ranks ever did; else all.
    """
    journals = traces.journals()
    rows = departures(journals, traces.begun(), [rank for rank in journals if traces.ended(rank)], excused)
    behind = [row for row in rows if not row.differ]
    messages = [row for row in behind if row.stream.startswith(TO_ONE)]
    steps = {rank: list(itertools.pairwise(["", *(call.line for call in calls)])) for rank, calls in journals.items()}
    strayed = {rank for rank, mine in steps.items() if mine and _strayed(mine)}
    astray = _wrong_peers(messages, journals, waiting, strayed)
    accused = {rank for row in behind for rank in row.ranks if steps.get(rank)}
    ways = Counter(step for mine in steps.values() for step in set(mine))
    rarity = {rank: ways[steps[rank][-1]] for rank in accused}
    causes = (
        {rank for row in astray for rank in row.ranks}
        or _ends(behind, waiting)
        or _only(accused & strayed)
        or _ends(messages, waiting)
        or _only({rank for rank in accused if rarity[rank] == min(rarity.values())})
        or accused
    )
    return sorted(rows + astray, key=lambda row: (not row.differ, len(causes.symmetric_difference(row.ranks)))), causes


def _wrong_peers(
    messages: Sequence[Departure], journals: Journals, waiting: Collection[int], strayed: Collection[int]
) -> list[Departure]:
    """Name each rank that exchanged a message with one rank, while another waits for just that: it took the one for the other."""
    found = []
    for done, due in itertools.permutations(messages, 2):
        peer, who = done.ranks[0], due.ranks
        both_sent_or_received = _sends(done.stream, peer) != _sends(due.stream, who[0])
        unexpected = {*who} <= {*strayed} or not any(call.stream == done.stream for call in journals[peer])
        if done.ahead == who and both_sent_or_received and peer in waiting and unexpected:
            text = f"{named(who)} took {named([peer])} for {named(due.ahead)}"
            found.append(Departure(who, [peer], True, done.stream, text))
    return found


def _sends(stream: str, rank: int) -> bool:
    return stream.startswith(f"{TO_ONE} rank {rank} ")


def _strayed(steps: Sequence[tuple[str, str]]) -> bool:
    *earlier, last = steps
    return last not in earlier and last[0] in dict(earlier)


def _only(ranks: set[int]) -> set[int]:
    return ranks if len(ranks) == 1 else set()


def _ends(rows: Sequence[Departure], waiting: Collection[int]) -> set[int]:
    waits = {rank for row in rows for rank in row.ahead if rank in waiting}
    return {rank for row in rows for rank in row.ranks} - waits


def _behind(traces: Traces, ranks: Sequence[int], causes: Collection[int], waiting: Collection[int]) -> list[int]:
    free = [rank for rank in ranks if rank not in waiting]
    if those := [rank for rank in free or ranks if rank in causes]:
        return those
    least = min(len(traces.phases(rank)) for rank in ranks)
    equal = [rank for rank in ranks if len(traces.phases(rank)) == least]
    for depth in (1, _WRAPPED):
        those = [rank for rank in equal if not _waits(traces, rank, depth)]
        if 0 < len(those) < len(equal):
            return those
    return equal


def who_failed(traces: Traces) -> Exception:
    """Name the rank that failed first; the others only follow, because its connections break or the launcher ends them."""
    failures = traces.failures() or [{"rank": rank, "exitcode": 1, "time": 0} for rank in traces.raised()]
    first = min(failures, key=lambda failure: (_follows(traces, failure), failure["time"]))
    rank, where = first["rank"], traces.place(first["rank"])
    lost = [failure["rank"] for failure in failures if traces.lost_another(failure["rank"])]
    # Who was ended because another had failed left its stack, unless it was stuck outside Python.
    running = [other for other in range(traces.world_size) if not traces.ended(other)]
    waiting = [other for other in running if _waits(traces, other) or not traces.stack(other)]
    diverged, causes = _told(traces, waiting, lost)
    # A program's own watchdog ends it while it waits: what it waits for is the cause.
    died = first["exitcode"] in _GAVE_UP and not traces.error(rank)
    symptom = rank in lost or (died and any(rank in row.ahead for row in diverged if not row.differ))
    before = "".join(f"{row.text}; " for row in diverged if row.differ or (symptom and causes.issuperset(row.ranks)))
    rest = ""
    if symptom:
        noted = [failure["rank"] for failure in failures if failure["exitcode"] != _SIGTERM]
        silent = [other for other in running if other not in noted and not traces.error(other)]
        silent = [other for other in silent if not _waits(traces, other)] or silent
        if not before and (stuck := [other for other in silent if other not in waiting]):
            before = f"{named(stuck)} was in '{traces.place(stuck[0])}', {traces.stack(stuck[0])[0]}; "
        places = " and ".join(f"rank {other} in '{traces.place(other)}'" for other in silent)
        rest = f"; what it waited for left neither an error nor a result: {places}" if silent else ""
        rest += _called(diverged, before)
    meaning = explain(traces.everything(rank))
    because = f": {meaning}" if meaning else ""
    if error := traces.error(rank):
        text = first_line(error, 160 if meaning else 400)
        return CheckFailed(f"{before}rank {rank} failed in '{where}': {text}{because}{rest}")
    ended, text = processes.describe_exit(first["exitcode"]), traces.last_lines(rank) or "nothing"
    ended += "" if first["exitcode"] else ", before its program had come to its end,"
    stack = traces.stack(rank)
    at = f"; it was in {stack[0]}" if stack else ""
    return CheckCrashed(
        f"{before}rank {rank} ended with {ended} in '{where}'{because}{at}; it printed last: {text}{rest}"
    )


def _waits(traces: Traces, rank: int, depth: int = 1) -> bool:
    """Whether one of the `depth` innermost frames of a rank is a collective of torch, or waits for a note of another rank.

    One that left no stack is stopped or stuck outside Python.
    """
    return any(map(_WAITING.search, traces.frames(rank)[:depth]))


def _follows(traces: Traces, failure: Mapping[str, Any]) -> float:
    """Rank a failure by how likely another one caused it: a signal, an error, a SIGTERM that came first, a lost peer, another SIGTERM."""
    if failure["exitcode"] == _SIGTERM and not traces.error(failure["rank"]):
        others = [other["time"] for other in traces.failures() if other["rank"] != failure["rank"]]
        return 4 if failure.get("follows") or failure["time"] > min(others, default=math.inf) + _AT_ONCE_S else 2
    if traces.lost_another(failure["rank"]):  # others lose the rank that gave up
        return 2.5 if explain(traces.everything(failure["rank"])).startswith("it gave up waiting") else 3
    return 1 if traces.error(failure["rank"]) else 0


def _before_dump(lines: list[str]) -> list[str]:
    """Cut the stacks off that faulthandler writes, after 'Timeout (h:mm:ss)!' or 'Fatal Python error: ...'; the latter says something."""
    for number, line in enumerate(lines):
        if line.startswith(("Timeout (", "Fatal Python error", "Thread 0x", "Current thread 0x")):
            return lines[: number + line.startswith("Fatal")]
    return lines
