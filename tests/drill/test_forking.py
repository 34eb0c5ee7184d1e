"""A process that is forked from a server is the one that its command starts, and nothing of another."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof.base import processes
from stackproof.drill import forking
from stackproof.drill.forkserver import ROOM

TELLS = """
import fractions, json, os, sys
print(json.dumps({
    "argv": sys.argv[1:], "orig": sys.orig_argv, "cwd": os.getcwd(), "told": os.environ.get("STACKPROOF_TOLD"),
    "session": os.getsid(0) == os.getpid(), "planted": getattr(sys, "planted", ""), "server": "forkserver" in sys.modules,
    "left": getattr(fractions, "left_behind", ""), "name": __name__, "ready": "fractions" in sys.ready}))
fractions.left_behind = "by one before"
sys.exit(7)
"""
PLANTED = "import sys; sys.planted, sys.ready = 'first', set(sys.modules)"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server that has imported one module, offered as a drill does."""
    yield from _serve(tmp_path, monkeypatch, "fractions")


def _serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *modules: str) -> Iterator[Path]:
    path, mark = tmp_path / "s", processes.new_mark()
    for name in ("PYTHONSAFEPATH", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    variables = {ROOM: "." * 20000, "PYTHONPATH": ""}
    with (tmp_path / "server.log").open("wb") as output:
        started = processes.start([sys.executable, str(forking.PROGRAM), str(path), *modules], output, variables, mark)
    while not path.exists() and started.poll() is None:
        time.sleep(0.01)
    monkeypatch.setenv(forking.SERVER, str(path))
    monkeypatch.setattr(subprocess, "Popen", forking.Popen)
    yield path
    processes.end_tree(mark, started)


def start(
    tmp_path: Path, *words: str, code: str = TELLS, mark: str = "a-mark", **variables: str
) -> subprocess.Popen[bytes]:
    """Start a module of the test's own, with something planted."""
    folder = tmp_path / "path"
    folder.mkdir(exist_ok=True)
    (folder / "told_module.py").write_text(code, encoding="utf-8")
    (folder / "sitecustomize.py").write_text(PLANTED, encoding="utf-8")
    with (tmp_path / "output").open("wb") as output:
        command = [sys.executable, "-X", "faulthandler", "-m", "told_module", *words]
        given = {"PYTHONPATH": str(folder), **variables}
        return processes.start(command, output, given, mark, cwd=str(tmp_path))


def test_a_forked_process_is_what_its_command_starts(server: Path, tmp_path: Path) -> None:
    child = start(tmp_path, "one", "two", STACKPROOF_TOLD="yes")
    assert isinstance(child, forking.Forked) and child.wait(20) == 7 == child.poll()
    told = json.loads((tmp_path / "output").read_text(encoding="utf-8"))
    assert (told["argv"], told["cwd"], told["told"], told["name"]) == (["one", "two"], str(tmp_path), "yes", "__main__")
    assert told["orig"][1:5] == ["-X", "faulthandler", "-m", "told_module"]
    assert told["session"] and told["planted"] == "first" and told["ready"]


def test_nothing_of_a_forked_process_reaches_the_next(server: Path, tmp_path: Path) -> None:
    for _ in range(2):
        start(tmp_path).wait(20)
        assert json.loads((tmp_path / "output").read_text(encoding="utf-8"))["left"] == ""


@pytest.mark.parametrize(
    ("variables", "forked"),
    [({"STACKPROOF_TOLD": "1"}, True), ({"TORCH_LOGS": "all"}, False), ({"PYTHONSAFEPATH": "1"}, False)],
)
def test_a_variable_that_an_import_may_read_starts_afresh(
    server: Path, tmp_path: Path, variables: dict[str, str], forked: bool
) -> None:
    child = start(tmp_path, code="import sys; sys.ready", **variables)
    assert child.wait(60) == 0 and isinstance(child, forking.Forked) is forked
    assert ("other variables" in (tmp_path / "server.log").read_text(encoding="utf-8")) is not forked


def test_another_interpreter_starts_afresh(server: Path, tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        child = processes.start([sys.executable, "-c", "0"], output, {}, "a-mark")
        assert child.wait(60) == 0 and not isinstance(child, forking.Forked)
    assert processes.run([sys.executable, "-m", "this"], seconds=60).ok


def test_a_forked_process_is_found_and_ended_by_its_mark(server: Path, tmp_path: Path) -> None:
    mark = processes.new_mark()
    child = start(tmp_path, code="import time; time.sleep(600)", mark=mark)
    assert isinstance(child, forking.Forked) and processes.with_mark(mark) == [child.pid]
    processes.end_tree(mark)
    assert child.wait(20) == -9 and not processes.with_mark(mark)


def test_a_forked_process_ends_with_the_one_that_asked_for_it(server: Path, tmp_path: Path) -> None:
    mark = processes.new_mark()
    child = start(tmp_path, code="import time; time.sleep(600)", mark=mark)
    assert isinstance(child, forking.Forked)
    child._connection.close()
    until = time.monotonic() + 20
    while processes.with_mark(mark) and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes.with_mark(mark)


def test_an_error_of_a_forked_process_is_printed(server: Path, tmp_path: Path) -> None:
    child = start(tmp_path, code="import atexit; atexit.register(print, 'at exit'); raise ValueError('wrong')")
    said = (child.wait(20), (tmp_path / "output").read_text(encoding="utf-8"))
    assert said[0] == 1 and "ValueError: wrong" in said[1] and "at exit" in said[1]


def test_nothing_is_forked_beside_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "busy_module.py"
    module.write_text("import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
    link = forking.PROGRAM.parent
    code = f"import sys; sys.path[:0] = [{str(link)!r}, {str(tmp_path)!r}]; import forkserver; forkserver.ForkServer('s', ['busy_module'])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "keeps 2 threads" in ended.stderr
