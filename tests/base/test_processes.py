"""Process trees: found by their mark, ended with everything that they started, described by the name of their signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackproof.base import processes
from stackproof.base.processes import HostLoad, cores, descendants, process_table

ENDED, EXECS, RUNS = "ended", "is in execve", "runs without variables"

GRANDCHILDREN = """
import subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "600"])
print("ready", flush=True)
time.sleep(600)
"""


Start = Callable[[str, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python script under a mark and wait until it says ready; whatever the test says, it is gone afterwards."""
    children = []

    def begin(script: str, mark: str) -> subprocess.Popen[bytes]:
        log = tmp_path / f"{mark}.log"
        with log.open("wb") as output:
            child = processes.start([sys.executable, "-c", script], output, {}, mark)
        children.append((mark, child))
        while b"ready" not in log.read_bytes() and child.poll() is None:
            time.sleep(0.02)
        return child

    yield begin
    for mark, child in children:
        processes.end_tree(mark, child)


def process(table: Path, kind: str) -> Path:
    """Write a process as the kernel shows one whose environment is empty."""
    folder = table / "4242"
    folder.mkdir()
    (folder / "environ").write_bytes(b"")
    fields = ["S", *["0"] * 49]
    fields[48] = "140721" if kind == RUNS else "0"
    (folder / "stat").write_text(f"4242 (a (name)) {' '.join(fields)}")
    if kind != ENDED:
        (folder / "exe").symlink_to("/bin/true")
    return folder


def test_a_process_that_is_in_execve_is_not_missed(tmp_path: Path) -> None:
    mark, folder = processes.new_mark(), process(tmp_path, EXECS)
    text = f"A=1\0{processes.MARK}={mark}\0".encode()
    later = threading.Timer(0.2, (folder / "environ").write_bytes, [text])
    later.start()
    assert processes.with_mark(mark, tmp_path) == [4242]
    later.join()


@pytest.mark.parametrize("kind", [ENDED, RUNS])
def test_a_process_that_will_never_show_an_environment_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    folder = process(tmp_path, kind)
    later = threading.Timer(1.0, (folder / "environ").write_bytes, [f"{processes.MARK}=mine\0".encode()])
    later.start()
    assert processes.with_mark("mine", tmp_path) == []
    later.cancel()


def test_end_tree_also_ends_what_left_the_session(start: Start) -> None:
    mark = processes.new_mark()
    child = start(GRANDCHILDREN, mark)
    assert len(processes.with_mark(mark)) >= 2
    processes.end_tree(mark, child)
    assert processes.with_mark(mark) == []
    assert child.returncode == -signal.SIGKILL


def test_end_tree_leaves_others_alone(start: Start) -> None:
    mine, theirs = processes.new_mark(), processes.new_mark()
    child = start("import time; print('ready', flush=True); time.sleep(600)", theirs)
    processes.end_tree(mine)
    assert child.poll() is None
    processes.end_tree(theirs, child)


def test_a_child_dies_with_its_parent(start: Start) -> None:
    mark = processes.new_mark()
    said = "import time; print('ready', flush=True); time.sleep(600)"
    inner = f"from stackproof.base.processes import die_with_parent; die_with_parent(); {said}"
    outer = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]).wait()"
    parent = start(outer, mark)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until = time.monotonic() + 60
    while processes.with_mark(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert processes.with_mark(mark) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-11, "signal SIGSEGV"), (-9, "signal SIGKILL"), (-200, "signal 200")],
)
def test_an_exit_is_described(status: int, words: str) -> None:
    assert words == processes.describe_exit(status)


def test_last_lines_of_any_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000 + b"\n\xff\xfe one\n\n\x00two\n")
    assert ["\ufffd\ufffd one", "\x00two"] == processes.last_lines(log, 2)
    assert processes.last_lines(tmp_path / "absent") == []


def test_a_run_inside_a_run_is_found_by_both_marks(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = processes.new_mark(), processes.new_mark()
    monkeypatch.setenv(processes.MARK, outer)
    child = start("import time; print('ready', flush=True); time.sleep(600)", inner)
    assert [child.pid] == processes.with_mark(inner)
    assert child.pid in processes.with_mark(outer)
    processes.end_tree(outer, child)
    assert processes.with_mark(inner) == []


def test_the_mark_is_inherited(tmp_path: Path) -> None:
    mark = processes.new_mark()
    with (tmp_path / "log").open("wb") as output:
        child = processes.start(
            [sys.executable, "-c", "import os; print(os.environ['STACKPROOF_RUN'])"], output, {}, mark
        )
    child.wait()
    assert mark == (tmp_path / "log").read_text().strip()
    assert os.environ.get(processes.MARK) != mark


def test_what_must_be_finished_is_not_disturbed() -> None:
    with processes.signals_ignored():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN


def test_the_last_words_of_a_crash_say_what_it_was_and_where(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\n\ndef inner():\n    os.abort()\n\ninner()\n", encoding="utf-8")
    with (tmp_path / "log").open("wb") as output:
        command = [sys.executable, "-X", "faulthandler", "-c", "print('begun\\n...', end='', flush=True); import mine"]
        processes.start(command, output, {"PYTHONPATH": str(tmp_path)}, processes.new_mark()).wait()
    said = processes.last_words(tmp_path / "log")
    assert said.startswith("begun / Fatal Python error: Aborted / File ") and said.endswith('mine.py", line 4 in inner')
    assert processes.own_frame(['File "/usr/lib/python3/dist-packages/a.py", line 1 in b']) == []


def test_the_last_words_of_others_are_their_last_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb\n\nc\n", encoding="utf-8")
    assert processes.last_words(tmp_path / "log", 2) == "b / c" and processes.last_words(tmp_path / "none") == "nothing"


def test_run_returns_what_a_program_printed_and_how_it_ended(tmp_path: Path) -> None:
    program = (
        "import os, sys; print(os.getcwd(), os.environ.get('A'), os.environ.get('B'), sys.stdin.read()); sys.exit('no')"
    )
    words = [sys.executable, "-c", program]
    environment, home = {"A": "1"}, tmp_path.resolve()
    ended = processes.run(words, seconds=60, cwd=home, environment=environment, unset=("B",), stdin=b"in")
    assert (ended.code, ended.errors, ended.ok) == (1, "no\n", False)
    assert ended.output == f"{home} 1 None in\n"
    assert processes.run([sys.executable, "-c", ""], seconds=60).ok


def test_run_says_what_could_not_be_started(tmp_path: Path) -> None:
    missing = processes.run([tmp_path / "none"], seconds=1)
    assert missing.code == processes.NOT_FOUND and "cannot be started (No such file" in missing.errors
    assert processes.run([tmp_path], seconds=1).code == processes.NOT_EXECUTABLE


def test_run_ends_the_whole_tree_when_the_time_is_over() -> None:
    child = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True); print('up', flush=True)"
    began = time.monotonic()
    ended = processes.run([sys.executable, "-c", f"{child}; import time; time.sleep(60)"], seconds=2)
    assert ended.timed_out and not ended.ok and ended.output == "up\n"
    assert time.monotonic() - began < 20


SPIN = "import time; began = time.time()\nwhile time.time() < began + 30: pass"


def test_what_others_do_to_the_cores_is_seen() -> None:
    code = f"""import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {SPIN!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    pid = int(said)  # its parent has ended, so that it is nobody's of ours
    try:
        load = HostLoad()
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        with_stranger = load.share()
    finally:
        os.kill(pid, 9)
    assert with_stranger * (os.cpu_count() or 1) > 0.1
    assert HostLoad.note(0.01) == ()
    assert HostLoad.note(0.5) == ("busy host: others used 50% of its cores",)


def test_what_an_ended_child_used_is_ours() -> None:
    ours = process_table()[os.getpid()].ticks
    code = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert process_table()[os.getpid()].ticks - ours >= 0.4 * os.sysconf("SC_CLK_TCK")


def test_descendants_are_found_at_any_depth() -> None:
    assert descendants(2, {1: 0, 2: 1, 3: 2, 4: 3, 5: 1}) == {3, 4}


@pytest.mark.parametrize(
    ("names", "text", "most"),
    [
        (("cpu.max",), "100000 100000\n", 1),
        (("cpu.max",), "50000 100000\n", 1),
        (("cpu.max",), "max 100000\n", None),
        (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), "100000\n", 1),
        (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), "-1\n", None),
    ],
)
def test_the_quota_of_a_container_counts(names: tuple[str, ...], text: str, most: int | None, tmp_path: Path) -> None:
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert cores(tmp_path) == (most or len(os.sched_getaffinity(0)))


def test_a_program_is_not_late_because_we_were_stopped_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    began, jump = time.monotonic, [0.0, 70.0]
    clock = lambda: began() + (jump.pop(0) if len(jump) > 1 else jump[0])  # noqa: E731
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    ended = processes.run(["sh", "-c", "sleep 1.5; cat"], seconds=1.0, stdin=b"seen")
    assert (ended.timed_out, ended.output) == (False, "seen")
