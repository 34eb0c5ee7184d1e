"""Two hosts: ranks meet through torch's c10d rendezvous over a network, train, bear a delay, and end in time when the wire is cut."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.record import reading
from stackproof.record.records import Record, Verdict

from .namespaces import Network, refusal, two_hosts

pytestmark = pytest.mark.two_hosts

START_S = 240.0
FOREVER = "tests.ranks.host_programs:train_for_ever"


@pytest.fixture(autouse=True, scope="module")
def permitted() -> None:
    if reason := refusal():
        pytest.skip(reason)


@dataclass
class Nodes:
    """A process of a launcher on each host, and the folder that both write to."""

    network: Network
    folder: Path
    mark: str = field(default_factory=processes.new_mark)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, host: int, command: list[str], **environment: str) -> None:
        """Start a command on a host; one thread a rank, as the cores are shared."""
        log = self.folder / f"host{host}.out"
        environment = {"OMP_NUM_THREADS": "1", **environment}
        self.started.append(self.network.hosts[host].start(command, log, environment, self.mark))

    def torchrun(self, deadline_s: float, *program: str) -> None:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
        meeting = ["--rdzv-backend=c10d", "--rdzv-endpoint=alpha:29400", "--rdzv-id=two-hosts", "--max-restarts=0"]
        for host in range(2):
            self.start(host, [*launcher, *meeting, "-m", *self.ranks(deadline_s), *program])

    def ranks(self, deadline_s: float) -> list[str]:
        return ["stackproof", "ranks", "--stack", "cpu", "--folder", str(self.folder), "--deadline", str(deadline_s)]

    def wait(self, seconds: float) -> list[int]:
        until = time.monotonic() + seconds
        return [process.wait(max(1.0, until - time.monotonic())) for process in self.started]

    def record(self) -> Record:
        return reading.read(self.folder / "record.json")

    def await_step(self, number: int) -> None:
        until = time.monotonic() + START_S
        files = [self.folder / f"rank{rank}.phases" for rank in range(2)]
        while not all(file.exists() and f"step {number}\n" in file.read_text() for file in files):
            assert time.monotonic() < until, self.said()
            assert all(process.poll() is None for process in self.started), self.said()
            time.sleep(0.1)

    def await_word(self, host: int, word: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while word not in (self.folder / f"host{host}.out").read_text(errors="replace"):
            assert time.monotonic() < until, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        return "\n".join(f"{log.name}: {processes.last_lines(log, 12)}" for log in sorted(self.folder.glob("*.out")))


@pytest.fixture
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """Two hosts with the delay that the test asks for; nothing that it started is left."""
    with two_hosts(tmp_path, getattr(request, "param", 0.0)) as network:
        shared = tmp_path / "shared"
        shared.mkdir()
        found = Nodes(network, shared)
        try:
            yield found
        finally:
            processes.end_tree(found.mark)
            found.wait(10)


def test_ranks_on_two_hosts_form_a_group_and_train(nodes: Nodes) -> None:
    nodes.torchrun(START_S)
    assert [0, 0] == nodes.wait(START_S + 60), nodes.said()
    record = nodes.record()
    assert record.verdict is Verdict.PASSED
    figures = {name: value for check in record.checks for name, value in check.figures.items()}
    assert {"alpha", "beta"} <= {str(value) for value in figures.values()}, figures


@pytest.mark.parametrize("nodes", [0.02], indirect=True, ids=["20 ms each way"])
def test_a_delayed_link_is_borne(nodes: Nodes) -> None:
    nodes.torchrun(START_S)
    assert [0, 0] == nodes.wait(START_S + 60), nodes.said()
    record = nodes.record()
    assert record.verdict is Verdict.PASSED
    formed = [value for check in record.checks for name, value in check.figures.items() if "formed_s" in name]
    assert formed
    assert max(float(value) for value in formed) > 0.04


def test_a_cut_link_ends_in_time(nodes: Nodes) -> None:
    """Though neither host hears of it, both end their ranks at the deadline; the record says that they hung, and where.

    The torchrun of the host that lost its rendezvous goes on waiting for the network; nothing else is left.
    """
    deadline_s = 90.0
    nodes.torchrun(deadline_s, "--program", FOREVER)
    nodes.await_step(5)
    nodes.network.cut()
    assert nodes.started[0].wait(deadline_s + 60) != 0, nodes.said()
    nodes.await_word(1, "hung in 'step ", 60)
    record = nodes.record()
    assert record.verdict is Verdict.HUNG, nodes.said()
    assert re.match(
        r"rank \d( and rank 1)? hung in 'step \d+'.*; all ranks were ended after 90 s", record.checks[-1].reason
    )
    left = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes.with_mark(nodes.mark)]
    assert all(b"torch.distributed.run" in command for command in left), left


def test_a_host_that_never_comes_is_told_from_a_network_that_is_wrong(nodes: Nodes) -> None:
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    meeting = {"MASTER_ADDR": "alpha", "MASTER_PORT": "29500"}
    nodes.start(0, [sys.executable, "-m", *nodes.ranks(60.0)], **place, **meeting)
    assert 2 == nodes.wait(START_S)[0], nodes.said()
    reason = nodes.record().checks[-1].reason
    assert reason.startswith("rank 0 waited at alpha:29500 (MASTER_ADDR, MASTER_PORT), and rank 1 of 2 did not come"), (
        reason
    )
