"""The program of a rank, `python -m stackproof.ranks.joined FILE`: it meets the others, joins their group and runs what it is given.

Under an external launcher (`join`) the ranks hold the preflight as they meet; those of `launch` were arranged before they started.
"""

from __future__ import annotations

from stackproof.base import early

# isort: split
import contextlib
import hashlib
import importlib.util
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from stackproof.base import files
from stackproof.base.processes import die_with_parent
from stackproof.base.text import first_line
from stackproof.device.devices import HOST, visible
from stackproof.device.kinds import Device
from stackproof.project.offers import playing
from stackproof.ranks import preflight
from stackproof.ranks.blame import VARIABLES, Traces, named
from stackproof.ranks.launchers import Placement, Spec, note_failure, placement, unexplained
from stackproof.ranks.libraries import serving
from stackproof.ranks.preflight import PreflightRefusal
from stackproof.ranks.rank import (
    AFTER_DEADLINE_S,
    Board,
    Rank,
    digest,
    end,
    join,
    known,
    mean_loss,
    note_phase,
    require_exact,
    take_part,
)
from stackproof.record.checks import CheckHung
from stackproof.record.records import finite
from stackproof.stack import stacks
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import get

# A few bytes and a few MiB: libraries choose another algorithm for each.
_ELEMENTS = (1031, 1 << 20)


def report(rank: Rank) -> dict[str, Any]:
    """Return who this rank is, and the seconds that the group and a second one over the same ranks took to form.

    Raises:
        RuntimeError: an all-reduce of known whole numbers is wrong, over either of the groups.
    """
    for elements in _ELEMENTS:
        require_exact(rank, elements)
    rank.phase("splitting the group")
    began = time.perf_counter()
    second = dist.new_group(list(range(rank.world_size)))  # NCCL splits the communicator where a device is bound
    require_exact(rank, _ELEMENTS[0], second)
    split_s = time.perf_counter() - began
    return {
        "rank": rank.rank,
        "world_size": dist.get_world_size(),
        "backend": rank.backend,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": str(rank.device),
        "device of the group": str(getattr(dist.group.WORLD, "bound_device_id", None) or "none was given"),
        "name": rank.device.name(),
        "bus id": rank.device.bus_id(),
        "formed_s": rank.formed_s,
        "split_s": split_s,
    }


_SEED = 7
_STEPS = 20
_STAGGER_S = 0.2  # between the first and the last to come to the barrier


def prove(rank: Rank) -> dict[str, Any]:
    """Return this rank's evidence: `report`, exact collectives by name, and losses and digest of a short training.

    Raises:
        RuntimeError: a collective of known whole numbers is wrong.
    """
    evidence = report(rank)
    evidence["collectives"] = _collectives(rank)
    return {**evidence, "training": _train(rank)}


def _train(rank: Rank) -> dict[str, Any]:
    """Train on a global batch that grows with the world size, so that any number of ranks shares it equally."""
    rank.phase("building the workload")
    shard = (rank.rank, rank.world_size)
    job = get(playing("plain")).build(
        rank.device.torch, "tiny", _SEED, torch.float32, shard=shard, scale=rank.world_size
    )
    job.wrap(DistributedDataParallel)
    losses = []
    for number in range(_STEPS):
        rank.phase(f"step {number + 1}")
        losses.append(mean_loss(rank, job.step()))
    return {"losses": losses, "digest": digest(dict(job.model.named_parameters()))}


def _collectives(rank: Rank) -> list[str]:
    """Call some collectives, compare their results with the ranks' known data, and return their names."""
    last, mine = rank.world_size - 1, known(rank.rank).to(rank.device.torch)
    passed = mine.clone()  # `mine` is overwritten
    gathered = [torch.empty_like(mine) for _ in range(rank.world_size)]
    layer = DistributedDataParallel(torch.nn.Linear(len(mine), 1, bias=False, device=rank.device.torch))
    calls: dict[str, Callable[[], object]] = {
        "all-gather": lambda: dist.all_gather(gathered, mine),
        "broadcast": lambda: dist.broadcast(mine, src=last),
        "barrier": lambda: _barrier(rank),
        "DDP's mean": lambda: layer(rank.world_size * passed).backward(),
    }
    for name, call in calls.items():
        rank.phase(name)
        call()
    right = {"all-gather": all(torch.equal(part.cpu(), known(other)) for other, part in enumerate(gathered))}
    right["broadcast"] = torch.equal(mine.cpu(), known(last))
    (weight,) = layer.parameters()  # whose gradient is what each rank passed in, averaged
    total = torch.stack([known(other) for other in range(rank.world_size)]).sum(0)
    right["DDP's mean"] = weight.grad is not None and torch.allclose(weight.grad[0].cpu(), total)  # it divides first
    for name in (name for name, holds in right.items() if not holds):
        raise RuntimeError(f"{name} of known whole numbers is wrong")
    return list(calls)


def _barrier(rank: Rank) -> None:
    """Come one after another, each with a note in the store; whoever was let go finds the notes of all."""
    board, last = Board("barrier"), max(1, rank.world_size - 1)
    time.sleep(_STAGGER_S * rank.rank / last)
    board.put(f"rank {rank.rank}")
    dist.barrier()
    rank.device.synchronize()
    for note in (f"rank {other}" for other in range(rank.world_size)):
        if not board.has(note):
            raise RuntimeError(f"the barrier let rank {rank.rank} go before {note} came")


_FAREWELL_S, _POLL_S = 2.0, 0.1
_MEETING = "meeting the other ranks"


@dataclass(frozen=True)
class Decision:
    """What rank 0 decided for all: the backend, whether tensors are the host's, what the group does not prove, why it may not form."""

    backend: str
    on_host: bool = False
    note: str = ""
    refused: str = ""
    world_size: int = 0
    hung: bool = False
    """Whether a rank was started and did not come."""


def main(path: Path) -> int:
    """Take part in the group; rank 0's result holds those of all ranks."""
    early.done()
    die_with_parent()
    spec, place = Spec.load(path), placement(os.environ)
    take_part(spec, place, lambda: _run(spec, place))
    return 0


def _run(spec: Spec, place: Placement) -> dict[str, Any]:
    note_phase(spec.folder, place.rank, "importing")
    stack = stacks.load(spec.stack, rehearsed=spec.rehearsed)
    for name in stack.imports:
        importlib.import_module(name)
    if not spec.address:
        device = _bound(spec, place, HOST if spec.on_host else visible(stack.device)[spec.cards[place.rank]])
        patience = timedelta(seconds=spec.remaining_s + AFTER_DEADLINE_S)
        store: Store = TCPStore("localhost", int(os.environ["MASTER_PORT"]), is_master=False, timeout=patience)
        return join(spec, place, device, store)
    note_phase(spec.folder, place.rank, f"{_MEETING} at {_where(spec.address)}")
    store = meet(spec, place)
    cards = visible(stack.device)
    with _broadcast_failure(store, place, spec.folder):
        agreed = _agree(store, spec, place, stack, cards)
        device = _bound(spec, place, HOST if agreed.on_host else cards[_card(place, cards)])
        mine: dict[str, Any] = finite(
            join(replace(spec, backend=agreed.backend, on_host=agreed.on_host), place, device, store)
        )
        store.set(f"result/{place.rank}", json.dumps(mine))
        if place.rank:
            return mine
        return {"ranks": [_sent(store, f"result/{rank}") for rank in range(place.world_size)], **asdict(agreed)}


def _sent(store: Store, name: str) -> Any:
    return files.parse_json(store.get(name), "what a rank sent")


def _bound(spec: Spec, place: Placement, device: Device) -> Device:
    note_phase(spec.folder, place.rank, "binding the device")
    device.bind()
    return device


def meet(spec: Spec, place: Placement) -> Store:
    """Open the store over which the ranks meet; rank 0 holds it, unless torchrun or a file does.

    Raises:
        PreflightRefusal: rank 0's host has no such name, the port is taken, or rank 0 does not answer.
        CheckHung: a rank was started and never came so far as to meet the others.
    """
    patience = timedelta(seconds=spec.remaining_s / 2)
    host = os.environ["MASTER_ADDR"] if spec.address == "env://" else urlsplit(spec.address).hostname
    try:
        socket.getaddrinfo(host, 0)
    except OSError as error:
        raise PreflightRefusal(
            f"{_where(spec.address)}: this host knows no such name ({error}): give a MASTER_ADDR, or a HOST in --rendezvous, "
            "that every host can look up"
        ) from error
    try:
        store, _, _ = next(rendezvous(spec.address, place.rank, place.world_size, timeout=patience))
    except (RuntimeError, ValueError, OSError) as error:
        raise _no_meeting(spec, place, str(error)) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")  # torchrun's store outlives its ranks
    store = PrefixStore(f"stackproof{attempt}", store)
    # A rank that gave up waiting for another's result would be blamed for it: who hangs is for the supervisors to say.
    store.set_timeout(timedelta(seconds=spec.remaining_s + AFTER_DEADLINE_S))
    return store


def _where(address: str) -> str:
    variables = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')} (MASTER_ADDR, MASTER_PORT)"
    return variables if address == "env://" else address


def _no_meeting(spec: Spec, place: Placement, text: str) -> Exception:
    where, first = _where(spec.address), first_line(text)[:200]
    if "EADDRINUSE" in text or "already in use" in text:
        return PreflightRefusal(
            f"{where}: the port is taken by another program, or by another process that was started as rank 0: export another "
            "MASTER_PORT, add --rendezvous file:///FOLDER, or give each process a rank of its own"
        )
    if place.rank:
        return PreflightRefusal(
            f"rank {place.rank} did not reach rank 0 at {where} ({first}): check that rank 0 was started, "
            "and that its host name and port can be reached from here"
        )
    size, traces = place.world_size, Traces(spec.folder, place.world_size)
    started = [rank for rank in range(1, size) if traces.started(rank)]
    if stuck := [rank for rank in started if not traces.place(rank).startswith(_MEETING)]:
        return CheckHung("; ".join(_absent(rank, traces) for rank in stuck))
    others = [rank for rank in range(size) if f"{_MEETING} at {where}" not in traces.phases(rank)]
    who = f"not all of {size} ranks came"
    if f" {size - len(others)}/{size} clients" in text:  # else some have their folder on their own hosts
        who = f"{named(others)} of {size} did not come"
        for rank in others:
            went = [phase.partition(" at ")[2] for phase in traces.phases(rank) if phase.startswith(_MEETING)]
            who += "".join(f", rank {rank} went to {other}" for other in went[-1:])
    return PreflightRefusal(
        f"rank 0 waited at {where}, and {who} ({first}): "
        "what is missing was not started, failed before it could say so (its log is on its own host), or cannot reach this host"
    )


def _agree(store: Store, spec: Spec, place: Placement, stack: Stack, cards: tuple[Device, ...]) -> Decision:
    """Send rank 0 what this host has, and return what it decides for all.

    Raises:
        PreflightRefusal: the group would hang, crash, or be another one than was asked for.
    """
    environ = unexplained(place, os.environ)
    seat = preflight.seat_of(place.rank, _card(place, cards), cards, stack, environ)
    if store.add(f"here/{place.rank}", 1) > 1:
        store.set("twice", str(place.rank))
        raise PreflightRefusal(f"two processes claim to be rank {place.rank} of {place.world_size}")
    site = preflight.to_json(seat, preflight.this_host(cards, environ))
    fields = {**site, "world_size": place.world_size, "terms": _terms(spec)}
    store.set(f"site/{place.rank}", json.dumps(fields))
    if place.rank == 0:
        decided = replace(_decide(store, spec, place, stack), world_size=place.world_size)
        store.set("agreement", json.dumps(asdict(decided)))
    else:  # it decides, also over a store that a file holds without it; what it misses for half of its time is said by it first
        try:
            store.wait(["site/0"], timedelta(seconds=spec.remaining_s * 0.8))
        except dist.DistNetworkError:  # it came, held the store, and has ended
            raise
        except RuntimeError as error:
            traces = Traces(spec.folder, place.world_size)
            kind = CheckHung if traces.started(0) else PreflightRefusal
            raise kind(_absent(0, traces)) from error
    decision = Decision(**_sent(store, "agreement"))
    if decision.world_size != place.world_size:
        raise PreflightRefusal(_other_world(place.rank, place.world_size, decision.world_size))
    if decision.refused:
        raise CheckHung(decision.refused) if decision.hung else PreflightRefusal(decision.refused)
    return decision


def _decide(store: Store, spec: Spec, place: Placement, stack: Stack) -> Decision:
    seats, nodes, traces = [], [], Traces(spec.folder, place.world_size)
    terms, until = _terms(spec), time.time() + spec.remaining_s / 2
    for rank in range(place.world_size):
        while not store.check([f"site/{rank}"]):
            if store.check(["twice"]):
                twice = f"two processes claim to be rank {store.get('twice').decode()} of {place.world_size}"
                remedy = "give each process a rank of its own (RANK, or what the launcher sets in its place)"
                return Decision(stack.backend, refused=f"{twice}, and rank {rank} did not come: {remedy}")
            if time.time() > until:
                return Decision(stack.backend, refused=_absent(rank, traces), hung=traces.started(rank))
            time.sleep(_POLL_S)
        value = _sent(store, f"site/{rank}")
        if value["world_size"] != place.world_size:
            return Decision(stack.backend, refused=_other_world(rank, value["world_size"], place.world_size))
        for what, mine in terms.items():
            if (theirs := value["terms"].get(what)) != mine:
                both = f"rank {rank} has {what} {theirs}, and rank 0 {mine}"
                return Decision(stack.backend, refused=f"{both}: all ranks of a group need the same, on every host")
        seat, node = preflight.from_json(value)
        seats.append(seat)
        nodes.append(node)
    (spec.folder / VARIABLES).write_text(_unlike([node.environ for node in nodes]), encoding="utf-8")
    cards = len({seat.place for seat in seats})
    shared = spec.oversubscribe and serving(stack.backend).own_cards and cards < len(seats)
    agreed = Decision(stack.backend)
    if shared:  # over the backend that allows it, or in the host's memory
        backend = stack.shared_card_backend or "gloo"
        note = f"{len(seats)} ranks share {cards} card(s) over {backend}, as asked; {stack.backend} is not verified"
        agreed = Decision(backend, stack.device not in serving(backend).devices, note)
    group = preflight.group_of(replace(stack, backend=agreed.backend), seats, nodes, spec.deadline_s, agreed.on_host)
    refused = " | ".join(preflight.refusals(group)) if spec.checked else ""
    return replace(agreed, refused=refused)


def _terms(spec: Spec) -> dict[str, str]:
    """Return what all ranks of a group must have alike, by name."""
    file = ""
    with contextlib.suppress(Exception):  # one that is not there is a failure of its rank
        module = importlib.util.find_spec(spec.program.partition(":")[0])
        file = hashlib.sha256(Path(str(module and module.origin)).read_bytes()).hexdigest()[:12]
    ours = sorted(Path(__file__).parents[1].rglob("*.py"))
    detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
    return {
        "torch": torch.__version__,
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL" if detail else "below DETAIL",  # which forms a second group beside each
        "--program": spec.program,
        "--deadline": f"{spec.deadline_s:g} s",
        "a program of the file": file,
        "stackproof": hashlib.sha256(b"".join(map(Path.read_bytes, ours))).hexdigest()[:12],
    }


# What libraries read as a group forms; hosts may well differ in some, so that they are named only where the group fails.
_OF_GROUPS = ("TORCH_", "GLOO_", "NCCL_", "RCCL_", "CCL_", "FI_", "UCX_")


def _unlike(environs: Sequence[Mapping[str, str]]) -> str:
    """Name the variables that libraries of collectives read and that not all ranks have alike, by rank."""
    clauses = []
    for name in sorted({name for environ in environs for name in environ if name.startswith(_OF_GROUPS)}):
        ranks = dict[str, list[int]]()
        for rank, environ in enumerate(environs):
            ranks.setdefault(environ[name][:80] if name in environ else "not set", []).append(rank)
        if len(ranks) > 1:
            each = " and ".join(f"{value} on {named(those)}" for value, those in ranks.items())
            clauses.append(f"{name} is {each}")
    return ", ".join(clauses)


def _other_world(rank: int, count: int, of_rank_0: int) -> str:
    return (
        f"rank {rank} was started with {count} ranks, and rank 0 with {of_rank_0}: they were not started as one group; "
        "look at what sets the world size on each host"
    )


def _absent(rank: int, traces: Traces) -> str:
    text = f"rank {rank} of {traces.world_size} did not come: "
    if traces.started(rank):
        return f"{text}it was started, and in {traces.folder} it came no further than '{traces.place(rank)}'"
    return f"{text}it was not started, failed before it could say so (its log is on its own host), or cannot reach this host"


def _card(place: Placement, cards: tuple[Device, ...]) -> int:
    """A rank takes the card of its local number; where a host has fewer, two ranks meet on one, which the preflight says."""
    return place.local_rank % len(cards) if cards else place.local_rank


@contextlib.contextmanager
def _broadcast_failure(store: Store, place: Placement, folder: Path) -> Iterator[None]:
    """Publish this rank's error in the store; rank 0 saves those of all, because their folders may be on other hosts."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):
            store.set(f"error/{place.rank}", f"{type(error).__name__}: {error}"[:4000])
        if place.rank == 0 and not isinstance(error, (PreflightRefusal, CheckHung)):
            time.sleep(_FAREWELL_S)
            for rank in range(1, place.world_size):
                path = folder / f"rank{rank}.error"
                with contextlib.suppress(Exception):
                    if store.check([f"error/{rank}"]) and not path.exists():
                        path.write_text(store.get(f"error/{rank}").decode(), encoding="utf-8")
                        note_failure(folder, rank, 1)
        raise


if __name__ == "__main__":
    end(lambda: main(Path(sys.argv[1])))
