"""The two ends as they are typed: commits, locks, records, with variables and locks of their own; and what cannot be moved here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.bisect import endpoints
from stackproof.gate import variants
from stackproof.gate.variants import Variant
from stackproof.record.records import Check, Figure, Record, Verdict, write
from stackproof.stack import lockfile, stacks
from tests.extras.bisect.locks import lock, pin

STACK = stacks.load("cpu")
OURS = endpoints.repository(own_command=False)


def named(word: object = "", unpinned: bool = False, **more: Any) -> endpoints.Endpoint:
    """Return the good side of this name."""
    return endpoints.named(Variant("good", str(word), **more), STACK, unpinned, OURS)


def record(tmp_path: Path, **facts: Figure) -> Path:
    """Write a record with these facts."""
    check = Check("x", Verdict.PASSED, "it is", 0.0)
    told = Record("gate", "cpu", "2026-01-01T00:00:00.000+00:00", 1.0, Verdict.PASSED, dict(facts), [check])
    path = tmp_path / "told.json"
    write(told, path)
    return path


def test_what_is_not_named_is_this_checkout() -> None:
    found = named(environment={"A": "1"})
    assert (found.commit, found.words, dict(found.environment)) == ("", "this checkout", {"A": "1"})
    assert found.lock.digest == lockfile.read(STACK.lock).digest


def test_a_commit_brings_its_own_lock() -> None:
    head = variants.resolved("HEAD")
    assert named("HEAD").commit == head


def test_a_lock_is_a_side(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    other = lock(path, pin("alpha", "1"))
    assert named(path).lock.digest == other.digest
    assert named("HEAD", lock=path).lock.digest == other.digest
    with pytest.raises(Refusal, match="name one"):
        named(path, lock=path)


def test_a_lock_for_another_python_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    lock(path, pin("alpha", "1"), python="3.98")
    with pytest.raises(Refusal, match="is a lock of the python '3.98'"):
        named(path)


def test_a_lock_of_another_stack_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    lock(path, pin("alpha", "1"))
    path.write_text(path.read_text().replace("# stack: cpu", "# stack: xpu"))
    with pytest.raises(Refusal, match="is a lock of the stack 'xpu', and 'cpu' is asked for"):
        named(path)


def test_locks_cannot_be_compared_where_nothing_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    lock(path, pin("alpha", "1"))
    with pytest.raises(Refusal, match="nothing is installed in an environment that is not ours"):
        named(path, unpinned=True)
    found = named("HEAD", unpinned=True)
    assert found.commit == variants.resolved("HEAD") and found.lock.digest == lockfile.read(STACK.lock).digest


def test_a_record_is_its_commit_and_its_variables(tmp_path: Path) -> None:
    head = variants.resolved("HEAD")
    facts = {
        "commit": f"{head} (with local changes)",
        "env.OMP_NUM_THREADS": "2",
        "env.A": "0",
        "env.B (default of the stack)": "1",
    }
    path = record(tmp_path, **facts)
    found = named(path, environment={"A": "1"})
    assert found.commit == head and dict(found.environment) == {"OMP_NUM_THREADS": "2", "A": "1"}


def test_a_record_whose_lock_is_gone_asks_for_the_file(tmp_path: Path) -> None:
    path = record(tmp_path, commit=variants.resolved("HEAD"), lock="f" * 64)
    with pytest.raises(Refusal, match=r"lock \(ffffffffffff\) is not that of its commit .* --good-lock"):
        named(path)


def test_a_record_of_another_stack_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path, commit=variants.resolved("HEAD"))
    path.write_text(path.read_text().replace('"stack": "cpu"', '"stack": "cuda"'))
    with pytest.raises(Refusal, match=r"--good .*told.json: is of stack 'cuda', not of 'cpu'"):
        named(path)


def test_what_a_record_tells_of_the_driver_is_held(tmp_path: Path) -> None:
    facts: dict[str, Figure] = {"commit": "unknown", "driver.nvidia-smi": "550.54"}
    good = named(record(tmp_path, **facts))
    bad = named()
    assert any("550.54" in one and one.startswith("driver") for one in endpoints.immovable(good, bad, STACK))
    assert endpoints.immovable(bad, bad, STACK) == []


@pytest.mark.parametrize("word", ["nothing.json", "nothing.lock", "no-such-commit"])
def test_what_is_neither_a_file_nor_a_commit_is_refused(word: str) -> None:
    with pytest.raises(Refusal, match=word):
        endpoints.check(word, "good", OURS)
