"""Every check of the failures suite is seen to fail: blame that is wrong, processes that stay, faults that do not fail."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from stackproof.record.records import Verdict

from ..planting import record_planted

NAMED = (
    "killed",
    "hangs",
    "stopped",
    "raises",
    "crashes at import",
    "a collective too few",
    "mismatched shapes",
    "the store dies",
)


@dataclass(frozen=True)
class Fault:
    """What is broken, which checks must see it, and words that their reasons must hold."""

    name: str
    code: str
    checks: tuple[str, ...]
    words: str


FAULTS = (
    Fault(
        "another rank is blamed",
        """
        import stackproof.ranks.blame as blame
        for name in ("who_hung", "who_failed"):
            original = getattr(blame, name)
            def swapped(*arguments, original=original):
                said = original(*arguments)
                if isinstance(said, str):
                    return said.replace("rank 1", "rank 7").replace("rank 0", "rank 7")
                return type(said)(str(said).replace("rank 1", "rank 7").replace("rank 0", "rank 7").replace("SIGKILL", "SIGFPE"))
            setattr(blame, name, swapped)
""",
        tuple(f"failures/ranks::named[{name}]" for name in NAMED if name != "mismatched shapes"),
        "is not in:",
    ),
    Fault(
        "c10d does not compare what the ranks call",
        """
        import os
        os.environ.pop("TORCH_DISTRIBUTED_DEBUG", None)
        """,
        ("failures/ranks::named[mismatched shapes]",),
        "is not in:",
    ),
    Fault(
        "a process stays",
        """
        from stackproof.base import processes
        original = processes.end_tree
        def end_tree(mark, *arguments, **keywords):
            original(mark, *arguments, **keywords)
            with open("/dev/null", "wb") as output:
                processes.start(["sleep", "120"], output, {}, mark)
        processes.end_tree = end_tree
""",
        ("failures/ranks::named[raises]", "failures/ranks::straggler"),
        "are left after",
    ),
    Fault(
        "the fault does not fail",
        """
        import suites.failures.programs as programs
        programs.raises = programs.healthy
        """,
        ("failures/ranks::named[raises]",),
        "two ranks ended well",
    ),
    Fault(
        "the slow rank is not slow",
        """
        import time
        sleep = time.sleep
        time.sleep = lambda seconds: sleep(min(seconds, 0.02))
        """,
        ("failures/ranks::straggler",),
        "no straggler was found",
    ),
    Fault(
        "another rank is slow",
        """
        import suites.failures.programs as programs
        programs._FAULTY = 0
        """,
        ("failures/ranks::straggler",),
        "rank 0 was named as the straggler, rank 1 is",
    ),
    Fault(
        "a port that is taken is not said to be",
        """
        import sys, torch.distributed
        def rendezvous(*arguments, **keywords):
            raise RuntimeError("something went wrong")
        sys.modules["torch.distributed.rendezvous"].rendezvous = rendezvous
        """,
        ("failures/port::taken",),
        "is not in: ",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught_by_name(fault: Fault, tmp_path: Path) -> None:
    """The checks that are meant to see the fault fail, for that reason."""
    only = tuple(check.replace("[", "[[]") for check in fault.checks)
    record = record_planted("failures", textwrap.dedent(fault.code), tmp_path, only)
    ended = {check.id: check for check in record.checks}
    for name in fault.checks:
        assert ended[name].verdict is Verdict.FAILED, ended[name].reason
        assert fault.words in ended[name].reason


def test_without_a_fault_nothing_is_red_and_every_check_has_a_fault(tmp_path: Path) -> None:
    """Planting nothing raises no alarm; a check that no fault above turns red is unfinished."""
    record = record_planted("failures", "import torch\n", tmp_path)
    assert record.verdict is Verdict.PASSED, [check.reason for check in record.checks if check.verdict.exit_code]
    covered = {name for fault in FAULTS for name in fault.checks}
    assert {check.id for check in record.checks} - covered == set()
