"""Runs command lines in processes forked from one that has imported the verbs: run as a program, it reads one job a line and answers one.

A job: `words`, `environment`, `folder` to stand in, `stdout` (a path, or "closed").
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_DEADLINE_S = 300.0  # the first run of an environment hashes all of it, which a slow disk makes minutes
_MOST_BYTES = 4 << 30  # a file without an end must not take the host's memory
_TICK_S = 0.005


def _become(job: dict[str, Any], out: int, err: int) -> None:
    """Be the command that was asked for."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if job["stdout"] == "closed":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
    else:
        os.dup2(os.open(job["stdout"], os.O_WRONLY) if job["stdout"] else out, 1)
    os.dup2(err, 2)
    from stackproof import cli

    code = 70  # a traceback, as Python would end: distinct from any verdict
    try:
        code = cli.main(job["words"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _run(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(job, out.fileno(), err.fileno())
        began, ended = time.monotonic(), 0
        while not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() - began > _DEADLINE_S:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return {"code": "hung", "out": "", "err": ""}
            time.sleep(0 if ended else _TICK_S)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "backslashreplace"))
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))

    from stackproof import cli  # noqa: F401
    from stackproof.doctor import checkup  # noqa: F401
    from stackproof.record import console, records, store, writer  # noqa: F401
    from stackproof.triage import reports

    reports.probes()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)  # noqa: T201
