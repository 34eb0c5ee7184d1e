"""Bad input to every verb: one clear sentence with the thing and the remedy, the right exit code, no traceback, and nothing lost."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stackproof import ROOT
from stackproof.base.toml import Table

_LONGEST = 1200
_QUICK = 1  # of each row; the others show no more of the verb, and are slow tests
_ESCAPE = re.compile(r"\x1b")


@dataclass(frozen=True)
class Case:
    """A command line, and how it must end."""

    words: tuple[str, ...]
    says: tuple[str, ...] = ()
    code: int = 2
    stdout: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False

    def __str__(self) -> str:
        return " ".join(word or "''" for word in self.words) + (f" > {self.stdout}" if self.stdout else "")


@dataclass(frozen=True)
class _Family:
    """A command line with a file, of every kind in turn."""

    words: tuple[str, ...]
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    whole: bool = False
    """Whether none is left to the slow tests."""
    code: int = 2


@dataclass(frozen=True)
class _Each:
    """A command line with a word, of several in turn."""

    words: tuple[str, ...]
    of: tuple[str, ...]
    says: tuple[str, ...]
    slow: bool = False


@dataclass(frozen=True)
class _Listed:
    read: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    write: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    family: tuple[_Family, ...] = ()
    each: tuple[_Each, ...] = ()
    case: tuple[Case, ...] = ()


def _cases() -> Iterator[Case]:
    core = Table.load(Path(__file__).parent / "bad_input.toml").row(_Listed)
    yield from _rows(core, core)
    for path in sorted(Path(__file__).parent.glob("extras/*/bad_input.toml")):
        yield from _rows(Table.load(path).row(_Listed), core)


def _rows(listed: _Listed, core: _Listed) -> Iterator[Case]:
    for family in listed.family:
        for kinds, words in ((family.read, core.read), (family.write, core.write)):
            for place, kind in enumerate(kinds):
                slow = place >= _QUICK and not family.whole
                yield Case(_with(family.words, f"{{{kind}}}"), words[kind], code=family.code, slow=slow)
    for each in listed.each:
        for place, one in enumerate(each.of):
            yield Case(_with(each.words, one), _with(each.says, one), slow=each.slow or place >= _QUICK)
    yield from listed.case


def _with(words: tuple[str, ...], it: str) -> tuple[str, ...]:
    return tuple(word.replace("{it}", it) for word in words)


CASES = tuple(_cases())


class Commands:
    """The process that runs command lines, and the things that they may name."""

    def __init__(self, folder: Path) -> None:
        self.things = _things(folder)
        self.folder = folder
        path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
        command = [sys.executable, str(Path(__file__).parent / "forked.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def run(self, case: Case) -> dict[str, Any]:
        """Run one."""
        own = {name: self._filled(value) for name, value in case.environment.items()}
        job = {
            "words": [self._filled(word) for word in case.words],
            "environment": {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **own},
            "folder": str(self.folder),
            "stdout": case.stdout,
        }
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def _filled(self, word: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: str(self.things[found[1]]), word)

    def stop(self) -> None:
        """End it."""
        self._process.communicate()


def _things(folder: Path) -> dict[str, Path]:
    """Make one of every kind of file that there is."""
    found = {
        name: folder / name
        for name in ("folder", "fifo", "socket", "loop", "empty", "records", "missing", "new", "sweep")
    }
    for name in ("folder", "records", "sweep", "sweep/records"):
        (folder / name).mkdir()
    os.mkfifo(found["fifo"])
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(found["socket"]))
    found["loop"].symlink_to(found["loop"])
    texts = {
        "empty": b"",
        "binary": bytes(range(256)) * 64,
        "latin1": "Gr\xf6\xdfe: 1\n".encode("latin-1") * 40,
        "broken_json": b'{"schema": "stackproof.record/1", "verb": ',
        "other_json": b'{"hello": [1, 2, 3]}',
        "deep_json": b"[" * 100_000,
        "run.log": b"RuntimeError: boom\n",
        "clean.log": b"Training completed successfully\n",
        "record.json": b"{}",
    }
    for name, data in texts.items():
        found[name.partition(".")[0]] = folder / name
        (folder / name).write_bytes(data)
    found["log"] = found["run"]
    with (folder / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    return found | {
        "huge": folder / "huge",
        "device": Path("/dev/zero"),
        "full": Path("/dev/full"),
        "in_proc": Path("/proc/nosuch/file"),
        "below_a_file": folder / "run.log" / "x",
        "long_name": folder / ("x" * 300),
    }


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """One process for all of them."""
    made = Commands(tmp_path_factory.mktemp("bad"))
    yield made
    made.stop()


def complaints(case: Case, ended: dict[str, Any]) -> list[str]:
    """Return what is wrong with an answer."""
    said = ended["err"]
    found = [] if ended["code"] == case.code else [f"exit code {ended['code']}, not {case.code}"]
    found += ["a traceback"] if "Traceback" in said + ended["out"] else []
    found += ["an escape sequence"] if _ESCAPE.search(said + ended["out"]) else []
    found += [f"does not say {word!r}" for word in case.says if word.casefold() not in said.casefold()]
    found += ["is silent"] if case.says and not said.strip() else []
    found += ["is long"] if len(said) > _LONGEST else []
    return found


def test_there_are_enough() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("case", [pytest.param(one, id=str(one), marks=[pytest.mark.slow] * one.slow) for one in CASES])
def test_bad_input(commands: Commands, case: Case) -> None:
    ended = commands.run(case)
    assert complaints(case, ended) == [], ended["err"] or ended["out"][-500:]
