"""The specification that a rank is started with, as a JSON file. Needs no torch.

Where a rank is, read from the environment of whoever started it: torchrun, srun, mpirun, or plain variables. Needs no torch.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from stackproof import DATA
from stackproof.base import files
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.base.toml import Table


@dataclass(frozen=True)
class Spec:
    """What every rank is started with, as a JSON file."""

    program: str
    stack: str
    rehearsed: bool
    backend: str
    cards: tuple[int, ...]
    arguments: dict[str, Any]
    folder: Path
    deadline_s: float
    until: float = 0.0
    """When the deadline passes, in seconds since the epoch: ranks start later than the launcher and must not think they have longer."""
    within_s: float = 0.0
    """How long the program may be silent once the group has formed; 0: only `until` counts."""
    on_host: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that each rank sets; `{file}` stands for a log of its own."""
    patience_s: float = 0.0
    """The group's own timeout; 0: longer than the deadline, so that the launcher says who hangs."""
    address: str = ""
    """Where ranks of an external launcher meet, as torch's rendezvous takes it."""
    checked: bool = True
    oversubscribe: bool = False

    @property
    def remaining_s(self) -> float:
        """Seconds that are left, at least one."""
        return max(1.0, self.until - time.time())

    def save(self, name: str = "spec.json") -> Path:
        path = self.folder / name
        write_atomically(path, json.dumps(asdict(self), default=str), durably=False)  # a twin of this rank reads it too
        return path

    @classmethod
    def load(cls, path: Path) -> Spec:
        values = files.read_json(path)
        return cls(**{**values, "cards": tuple(values["cards"]), "folder": Path(values["folder"])})


GONE = "is gone: something deleted it while the ranks ran"
"""What is said of their folder then."""


def note_failure(folder: Path, rank: int, status: int | None, follows: bool = False, interrupted: bool = False) -> None:
    """Leave how a rank ended (None: it hung) for `blame`.

    `follows`: another had failed, for which it only waited; `interrupted`: its supervisor was ended from outside.

    Raises:
        Refusal: the folder is gone.
    """
    exitcode = -signal.SIGKILL if status is None else status
    failure = {"rank": rank, "exitcode": exitcode, "time": time.time(), "follows": follows, "hung": status is None}
    failure["interrupted"] = interrupted
    try:
        write_atomically(folder / f"rank{rank}.failure", json.dumps(failure))
    except FileNotFoundError as error:
        raise Refusal(f"{folder} {GONE}") from error


LONGEST_S = 3600.0
SHOW_STACKS = signal.SIGRTMIN + 7
"""Lets a rank that has begun its program write its stacks into its log: who is ended because another failed may be what that waited for."""


def too_long(deadline_s: float) -> str:
    """Return why a deadline is refused, or nothing."""
    why = f"a deadline of {deadline_s:.0f} s is above an hour, and a hang would hold the machine for as long"
    return f"{why}: choose a shorter one (--deadline, --deadline-scale)" if deadline_s > LONGEST_S else ""


LAUNCHERS = DATA / "launchers.toml"
_HOW = (
    "start it by torchrun --nproc-per-node=N -m stackproof ranks ..., srun -n N python -m stackproof ranks ... "
    "or mpirun -n N python -m stackproof ranks ..."
)


@dataclass(frozen=True)
class Placement:
    """A rank's place: numbers among all ranks and among those of its host, who started it, and the id of the run if there is one."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    run: str = ""


_PLAIN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class _Row:
    name: str
    link: str
    marks: tuple[str, ...]
    rank: tuple[str, ...]
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    local_world_size: tuple[str, ...]
    run: tuple[str, ...]


def placement(environ: Mapping[str, str]) -> Placement:
    """Return the place of this process.

    Raises:
        Refusal: nothing says which rank this is, or a variable is missing or no number.
    """
    row = next((row for row in _rows() if all(name in environ for name in row.marks)), _rows()[-1])
    names = (row.rank, row.world_size, row.local_rank, row.local_world_size)
    given = [next((name for name in either if name in environ), "") for either in names]
    if not any(given[:2]):
        raise Refusal(f"no launcher started this process, so that it cannot know which rank it is: {_HOW}")
    if lacking := [" or ".join(either) for either, name in zip(names, given, strict=True) if not name]:
        text = f"{row.name} does not give {', '.join(lacking)}, without which this rank does not know its place"
        raise Refusal(f"{text}: export what is missing, or {_HOW}")
    rank, world_size, local_rank = (_number(row, name, environ[name]) for name in given[:3])
    local_size = _local_size(row, given[3], environ)
    run = [environ.get(name, "") for name in row.run]
    place = Placement(row.name, rank, world_size, local_rank, local_size, ".".join(run) if all(run) else "")
    if not (rank < world_size and local_rank < local_size <= world_size):
        raise Refusal(
            f"{row.name} says rank {rank} of {world_size}, {local_rank} of {local_size} on this host, which cannot be: "
            f"unset what an earlier launcher left ({', '.join(row.rank + row.world_size + row.local_rank)}), and {_HOW}"
        )
    return place


def around(place: Placement, environ: Mapping[str, str]) -> str:
    """Return the mpirun that started several torchruns, each of a group of its own; one a host, of one group, is usual."""
    outer = next((row for row in _rows() if row.name.startswith("mpirun") and all(map(environ.get, row.marks))), None)
    if place.launcher != "torchrun" or outer is None:
        return ""
    everywhere, here = (
        next((environ[name] for name in names if name in environ), "") == "1"
        for names in (outer.world_size, outer.local_world_size)
    )
    return "" if everywhere or (here and place.world_size > place.local_world_size) else outer.name


def _is_port(text: str) -> bool:
    return len(text) <= 5 and 0 < int(text) < 1 << 16


def rendezvous(place: Placement, environ: Mapping[str, str], asked: str = "", run: str = "") -> str:
    """Return the address of the store over which the ranks meet, as torch's rendezvous takes it.

    `asked`: file:///FOLDER that all hosts share, or tcp://HOST:PORT of rank 0's host; else MASTER_ADDR and MASTER_PORT count.
    `run`: what tells this run from earlier ones in that folder, if the launcher does not. A port is never made up.

    Raises:
        Refusal: no address is known.
    """
    if asked.startswith("file://"):
        if not (name := run or place.run):
            raise Refusal(
                f"{place.launcher} gives its runs no name, and a store that an earlier run left in {asked} would answer: "
                "add --run NAME, another one each time"
            )
        return f"{asked.rstrip('/')}/stackproof-{re.sub('[^A-Za-z0-9_.-]', '-', name)}.store"
    if asked:
        if not (match := re.fullmatch(r"tcp://[^:/\s]+:(\d{1,5})", asked)) or not _is_port(match[1]):
            raise Refusal(f"--rendezvous {asked}: write file:///FOLDER or tcp://HOST:PORT, a port from 1 to 65535")
        return asked
    port = environ.get("MASTER_PORT", "")
    if environ.get("MASTER_ADDR") and port.isdecimal():
        if not _is_port(port):
            raise Refusal(f"MASTER_PORT={port[:20]}: is no port; export one from 1 to 65535")
        return "env://"
    ports, hosts = environ.get("SLURM_STEP_RESV_PORTS", ""), environ.get("SLURM_STEP_NODELIST", "")
    if ports and hosts:
        return f"tcp://{first_host(hosts)}:{re.split('[-,]', ports)[0]}"
    wrong = f"MASTER_PORT={port[:20]} is no port, and " if port and not port.isdecimal() else ""
    raise Refusal(
        f"{wrong}the ranks do not know where to meet: export MASTER_ADDR=HOST-OF-RANK-0 MASTER_PORT=FREE-PORT, "
        "or add --rendezvous file:///FOLDER (one that all hosts share), or give srun --resv-ports"
    )


def unexplained(place: Placement, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without RANK and its like where they placed this rank, lest the preflight take them for leftovers."""
    explained = _PLAIN if place.launcher == _rows()[-1].name else ()
    return {name: value for name, value in environ.items() if name not in explained}


def first_host(hosts: str) -> str:
    """Return the first host of a list as Slurm writes it: `node[03-05,9],gpu1` begins with `node03`."""
    match = re.match(r"(?P<name>[^,\[]+)(?:\[(?P<first>\d+)[^\]]*\](?P<rest>[^,\[]*))?", hosts)
    if not match:
        raise Refusal(f"SLURM_STEP_NODELIST={hosts} names no host; add --rendezvous")
    return "".join(part or "" for part in match.group("name", "first", "rest"))


def _local_size(row: _Row, name: str, environ: Mapping[str, str]) -> int:
    """Slurm gives the numbers of all hosts, `2(x3),1`: the host's own index chooses."""
    if environ[name].isdecimal():
        return _number(row, name, environ[name])
    counts: list[int] = []
    for part in environ[name].split(","):
        match = re.fullmatch(r"(\d{1,5})(?:\(x(\d{1,5})\))?", part)
        if not match:
            raise Refusal(f"{name}={environ[name]} is not a list of numbers of ranks; {_HOW}")
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    node = environ.get("SLURM_NODEID", "0")
    return counts[int(node)] if node.isdecimal() and int(node) < len(counts) else counts[0]


def _number(row: _Row, name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value):  # what follows looks at the files of every rank
        raise Refusal(f"{name}={value[:40]} is not a whole number from 0 to 99999; {row.name} should set it: {_HOW}")
    return int(value)


@cache
def _rows() -> tuple[_Row, ...]:
    with Table.load(LAUNCHERS) as table:
        return table.rows("launcher", _Row)
