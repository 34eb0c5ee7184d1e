"""Every check of the groups suite is seen to fail: on the CPU by a fault planted in a whole run, those of cards by a library that lies."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stackproof.device import devices
from stackproof.device.kinds import Card
from stackproof.ranks import preflight
from stackproof.record.checks import CheckCrashed, CheckFailed
from stackproof.record.records import Verdict
from stackproof.stack import stacks
from suites.groups import sharing

from ..planting import record_planted


@dataclass(frozen=True)
class Fault:
    """What is broken, which checks must see it, words that their reasons must hold, and variables of the run."""

    name: str
    checks: tuple[str, ...]
    words: str
    code: str = "import torch\n"
    environment: tuple[tuple[str, str], ...] = ()


FAULTS = (
    Fault(
        "a variable is misspelt",
        ("groups/preflight::suits[gloo]", "groups/bringup::forms[gloo]"),
        "OMP_NUM_THREDS is not a variable known to OpenMP and MKL; OMP_NUM_THREADS is",
        environment=(("OMP_NUM_THREDS", "1"),),
    ),
    Fault(
        "an interface does not exist",
        ("groups/preflight::suits[gloo]", "groups/bringup::forms[gloo]"),
        "GLOO_SOCKET_IFNAME=nosuch0 matches no interface",
        environment=(("GLOO_SOCKET_IFNAME", "nosuch0"),),
    ),
    Fault(
        "the backend is silently another one",
        ("groups/bringup::forms[gloo]",),
        "rank 0 has backend mpi, gloo was asked for",
        """
        import torch.distributed as dist
        dist.get_backend = lambda *arguments: "mpi"
        """,
    ),
    Fault(
        "the group is of one rank",
        ("groups/bringup::forms[gloo]",),
        "is in a group of 1, 2 was asked for",
        """
        import torch.distributed as dist
        dist.get_world_size = lambda *arguments: 1
        """,
    ),
    Fault(
        "the second group sums wrong",
        ("groups/bringup::splits[gloo]",),
        "an all-reduce of known whole numbers is wrong",
        """
        import torch.distributed as dist
        original = dist.all_reduce
        def all_reduce(tensor, *arguments, group=None, **keywords):
            done = original(tensor, *arguments, group=group, **keywords)
            if group is not None:
                tensor.view(-1)[7] += 1
            return done
        dist.all_reduce = all_reduce
        """,
    ),
    Fault(
        "a rank's clock stands still",
        ("groups/bringup::splits[gloo]",),
        "a second group took no time",
        """
        import sys, time
        if "stackproof.ranks.rank" in sys.orig_argv:
            time.perf_counter = lambda: 0.0
        """,
    ),
    Fault(
        "a library that can talk is silent",
        ("groups/bringup::effect[gloo]",),
        "left no log that says its version",
        """
        import dataclasses
        from stackproof.ranks import libraries
        original = libraries.serving
        libraries.serving = lambda backend: dataclasses.replace(original(backend), silent="")
""",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught_by_name(fault: Fault, tmp_path: Path) -> None:
    """The checks that are meant to see the fault fail, for that reason."""
    only = tuple(check.replace("[", "[[]") for check in fault.checks)
    record = record_planted("groups", textwrap.dedent(fault.code), tmp_path, only, **dict(fault.environment))
    ended = {check.id: check for check in record.checks}
    for name in fault.checks:
        assert ended[name].verdict is Verdict.FAILED, ended[name].reason
        assert fault.words in ended[name].reason


def test_without_a_fault_nothing_is_red_and_every_check_of_the_cpu_has_a_fault(tmp_path: Path) -> None:
    """Planting nothing raises no alarm; what the CPU cannot be asked has its fault below."""
    record = record_planted("groups", "import torch\n", tmp_path)
    assert record.verdict is Verdict.PASSED, [check.reason for check in record.checks if check.verdict.exit_code]
    covered = {name for fault in FAULTS for name in fault.checks}
    asked = {check.id for check in record.checks if check.verdict is not Verdict.NOT_APPLICABLE}
    assert asked - covered == set()
    assert {check.id for check in record.checks} - asked == {
        "groups/preflight::duplicate",
        "groups/shared::library_refuses",
    }


class Fake(Card):
    """A card that no driver has to answer for."""

    def name(self) -> str:
        """Return a name."""
        return "Some Card"

    def bus_id(self) -> str:
        """Return an address by index."""
        return f"0000:0{self.index}:00.0"


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with one card of the cuda stack."""
    monkeypatch.setattr(devices, "visible", lambda kind: (Fake("cuda", 0),))
    monkeypatch.setattr("stackproof.ranks.site.visible", lambda kind: (Fake("cuda", 0),))


@pytest.mark.usefixtures("one_card")
def test_two_ranks_on_a_card_pass_as_refused_and_fail_where_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of cards: our preflight has to say Duplicate GPU."""
    said = sharing.refused_by_preflight(stacks.load("cuda"))
    assert said.startswith("Duplicate GPU: rank 0 and rank 1 are both on cuda:0 (0000:00:00.0)")
    monkeypatch.setattr(preflight, "_LOOKS", ())
    with pytest.raises(CheckFailed, match="two ranks of nccl on cuda:0 were not refused"):
        sharing.refused_by_preflight(stacks.load("cuda"))


@pytest.mark.usefixtures("one_card")
@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (CheckFailed("rank 0 failed: two ranks share one card (Duplicate GPU), which NCCL refuses"), ""),
        (
            CheckCrashed("rank 0 ended with signal SIGABRT"),
            "the refusal was not recognised; add its words to libraries.toml",
        ),
        (None, "NCCL let 2 ranks share cuda:0: libraries.toml says that it refuses them"),
    ],
)
def test_a_library_that_shares_or_words_it_otherwise_is_red(outcome: Exception | None, failure: str) -> None:
    """The row of the table is itself checked."""

    def launches(*arguments: Any, **options: Any) -> None:
        assert options["checked"] is False
        if outcome:
            raise outcome

    if not failure:
        assert sharing.refused_by_library(stacks.load("cuda"), launches) == str(outcome)
        return
    with pytest.raises(CheckFailed) as failed:
        sharing.refused_by_library(stacks.load("cuda"), launches)
    assert failure in str(failed.value)
