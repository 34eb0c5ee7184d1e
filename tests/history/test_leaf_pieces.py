"""Pieces: joined into one record a state, kept when a command is killed, dropped when it was told to keep nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stackproof import ROOT
from stackproof.history import leaf
from stackproof.record import store
from stackproof.record.records import Verdict

from . import making


def test_pieces_of_one_commit_become_one_record(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    for day, commit in ((2, "a"), (0, "a"), (1, "b")):
        store.append(making.record(day, making.figure(1e-3 * (day + 1)), commit=commit * 40), command.folder)
    made, problems = command.end(tmp_path / "store", keep=True)
    assert problems == []
    found = store.load([tmp_path / "store"]).records
    assert set(found) == set(made)
    (first,) = [one for one in found.values() if one.provenance["commit"] == "a" * 40]
    assert [round(row.value, 4) for row in first.measurements] == [1e-3, 3e-3]
    assert (first.verb, len(first.checks), first.seconds, first.verdict) == ("asv", 2, 2.0, Verdict.PASSED)
    assert len(found) == 2
    assert list((tmp_path / "pieces").iterdir()) == []


def test_one_failure_does_not_lose_the_others(tmp_path: Path) -> None:
    good, bad = making.record(0), making.record(1, verdict=Verdict.FAILED)
    bad.measurements = []
    (joined,) = leaf.join([good, bad])
    assert joined.verdict is Verdict.FAILED
    assert len(joined.measurements) == 1


def test_a_command_that_keeps_nothing_leaves_nothing(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    store.append(making.record(0), command.folder)
    assert command.end(tmp_path / "store", keep=False) == ([], [])
    assert store.files([tmp_path]) == []


def test_pieces_of_a_running_command_are_its_own(tmp_path: Path) -> None:
    command = leaf.Command.begin(tmp_path / "pieces")
    store.append(making.record(0), command.folder)
    other = f"""
from pathlib import Path
from stackproof.history import leaf
print(leaf.seal_left(Path({str(tmp_path / "pieces")!r}), Path({str(tmp_path / "store")!r})))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run([sys.executable, "-c", other], env=env, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "([], [])"
    made, _ = command.end(tmp_path / "store", keep=True)
    assert len(made) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from stackproof.record import records
from stackproof.history import leaf
from stackproof.record import store
command = leaf.Command.begin(Path(sys.argv[1]))
store.append(records.read(Path(sys.argv[2])), command.folder)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_command_measured_is_kept(tmp_path: Path) -> None:
    seed = store.append(making.record(0), tmp_path / "seed")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pieces"), str(seed)]
    assert subprocess.run(command, env=env, check=False).returncode < 0
    (folder,) = (tmp_path / "pieces").iterdir()
    (folder / "20260101T000000-asv-0.record.json").write_text("{", encoding="utf-8")
    made, problems = leaf.seal_left(tmp_path / "pieces", tmp_path / "store")
    assert len(made) == 1
    assert len(problems) == 1
    assert list((tmp_path / "pieces").iterdir()) == []
    assert store.load([tmp_path / "store"]).records[made[0]].measurements == making.record(0).measurements
