"""A failure is seen wherever it stands: behind bars, in boxes, under prefixes, without head or end."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record.records import Verdict

from .making import report

HEAD = "Traceback (most recent call last):"
FRAME = '  File "/opt/job/train.py", line 7, in <module>'
CODE = "    step()"
SAID = "KeyError: 'pixel_values'"
WHOLE = "\n".join((HEAD, FRAME, CODE, SAID)) + "\n"
BAR = " 42%|####2     | 420/1000 [07:01<09:41,  1.00s/it]"


def prefixed(prefix: str) -> str:
    """Return the traceback with something before each of its lines."""
    return "".join(f"{prefix}{line}\n" for line in WHOLE.splitlines())


PLACES = {
    "plain": WHOLE,
    "behind a bar": f"{BAR}{WHOLE}",
    "behind a bar that was drawn over": f"\r{BAR}\r{BAR}{WHOLE}",
    "behind spaces of a bar": f"{BAR}        {WHOLE}",
    "quote": prefixed("> "),
    "nested quote": prefixed("> > "),
    "syslog": prefixed("Aug 28 09:11:02 gpu01 train[4410]: "),
    "container": prefixed("2025-02-25T08:11:04.100000001Z stderr F "),
    "compose": prefixed("worker-1  | "),
    "cloud": prefixed("[2025-03-10T15:07:20Z] "),
    "logger": f"2024-01-18 10:22:31,040 - worker - ERROR - {WHOLE}",
    "logger with columns": prefixed("2023-12-22 16:03:40 | ERROR | stderr | "),
    "server": prefixed("(EngineCore_DP0 pid=223840) ERROR 10-25 13:08:43 [core.py:708] "),
    "rank": prefixed("[rank3]: "),
    "mpirun -l": prefixed("[3] "),
    "two labels": prefixed("[0] [rank0]: "),
    "pdsh": prefixed("gpu-node-17: "),
    "web page": "<pre><code>"
    + WHOLE.replace('"', "&quot;").replace("'", "&#39;").replace("<module>", "&lt;module&gt;")
    + "</code></pre>",
    "colours": prefixed("\x1b[31m"),
    "no head": "\n".join((FRAME, CODE, SAID)) + "\n",
    "no indentation": "\n".join(line.strip() for line in WHOLE.splitlines()) + "\n",
    "only the exception": f"step 420\n{SAID}\n",
    "only the exception of a rank": f"[rank2]: {SAID}\n",
    "behind a bar, only the exception": f"{BAR}{SAID}\n",
    "box": "╭──────────── Traceback (most recent call last) ────────────╮\n│ /opt/job/train.py:7 in <module>                  │\n"
    "│ ❱ 7 │   step()                                     │\n╰──────────────────────────────────────────────────╯\n"
    + SAID
    + "\n",
    "box without its top": "│ ❱ 7 │   step()                                     │\n╰─────────────────────────────╯\n"
    + SAID
    + "\n",
    "notebook": "-------\nKeyError                                  Traceback (most recent call last)\n"
    "Cell In[7], line 1\n----> 1 step()\n\n" + SAID + "\n",
    "two ranks in each other": f"{HEAD}\n{FRAME}\n{HEAD}\n{FRAME}\n{CODE}\n{CODE}\n{SAID}\n{SAID}\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_exception_is_found(tmp_path: Path, place: str) -> None:
    found = report(tmp_path, PLACES[place].encode())
    assert found.verdict is Verdict.FAILED
    assert found.judgement.root
    assert found.judgement.root.title == f"it raised {SAID}"


@pytest.mark.parametrize(
    "text",
    [
        "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --epocs 3\n",
        "  File \"train.py\", line 3\n    if x\n        ^\nSyntaxError: expected ':'\n",
        "./run.sh: line 3: torchrun: command not found\n",
        "nohup: failed to run command 'accelerate': No such file or directory\n",
        "CalledProcessError: Command '['python3', 'train.py']' died with <Signals.SIGKILL: 9>.\n",
        "Process finished with exit code 139 (interrupted by signal 11:SIGSEGV)\n",
        "##[error]Process completed with exit code 137.\n",
        "worker-1 exited with code 1\n",
        "[2024-01-01 00:00:00,000] [INFO] [launch.py:319:sigkill_handler] Main process received SIGINT, exiting\n",
        "FAILED tests/test_model.py::test_backward\n===== 1 failed, 3 passed in 2.00s =====\n",
        "(1) |CCL_ERROR| some.cpp:12 do: condition x == y failed\n",
        "h:1:2 [0] some.cc:12 NCCL WARN Something that nobody knows\n",
        "h:1:2 [0] NCCL INFO bootstrap.cc:270 -> 2\n",
        "NAME   READY  STATUS  RESTARTS\ntrain-0-abc   0/1     OOMKilled   0          5m\n",
        "81201  train  gpu  ml  16  FAILED  1:0\n",
        f"{HEAD}\n{FRAME}\n{CODE}\n",
        f"{WHOLE}step\n{HEAD}\n{FRAME}\n",
    ],
)
def test_failures_without_an_exception_of_their_own(tmp_path: Path, text: str) -> None:
    found = report(tmp_path, text.encode())
    assert found.verdict is Verdict.FAILED


def test_cut_off_traceback_hides_nothing(tmp_path: Path) -> None:
    root = report(tmp_path, f"{WHOLE}step\n{HEAD}\n{FRAME}\n".encode()).judgement.root
    assert root
    assert root.title == f"it raised {SAID}"


def test_rank_that_the_launcher_blames_is_the_exceptions(tmp_path: Path) -> None:
    agent = (
        "E0704 02:11:08.9 140 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 1 "
    )
    agent += "(pid: 217) of binary: python\n"
    root = report(tmp_path, (WHOLE + agent).encode()).judgement.root
    assert root
    assert root.who[0] == ("rank", 1)


@pytest.mark.parametrize(
    "said",
    [
        "subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'main.c', '-O3']' returned non-zero exit status 1.",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/3 clients joined.",
    ],
)
def test_causes_that_launchers_seem_to_raise(tmp_path: Path, said: str) -> None:
    found = report(tmp_path, WHOLE.replace(SAID, said).encode())
    assert found.judgement.root
    assert found.judgement.root.kind == "fault"


def test_port_that_may_not_be_used_is_not_taken(tmp_path: Path) -> None:
    said = "The server socket has failed to listen on any local network address. It has failed to bind to [::]:80 (errno: {})."
    for number, name in ((13, ""), (98, "store-port-in-use")):
        root = report(tmp_path, f"RuntimeError: {said.format(number)}\n").judgement.root
        assert root
        assert root.signature == name


def test_bars_of_loading_count_no_steps(tmp_path: Path) -> None:
    loading = "".join(f"Loading checkpoint shards: {n}/9 [00:0{n}<00:09,  1.00s/it]\n" for n in range(1, 9))
    fused = "YOLO11n summary (fused): 100 layers, 2,582,347 parameters, 0 gradients, 6.3 GFLOPs\n"
    found = report(tmp_path, f"{loading}{{'loss': 1.0}}\n{{'loss': 0.9}}\n{fused}").training
    assert found
    assert (found.progress, found.figures.get("trainable")) == ([], None)
