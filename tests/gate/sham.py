"""Sides that take no time: real processes that speak the protocol of a side, and do what a variable says. Without torch."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from stackproof.gate.interleave import SideSpec

_PROGRAM = """
import faulthandler, json, os, signal, sys, time

what = os.environ.get("SHAM", "")
answers = os.fdopen(int(sys.argv[1]), "w")
print("noise on the standard output that is no answer", flush=True)

def answer(found):
    answers.write(json.dumps(found) + "\\n")
    answers.flush()

if what == "refuse":
    answer({"refused": "there is no such device", "exit_code": 3})
    sys.exit(3)
rows = {name: {"kind": "gemm", "unit": "s/iteration", "version": "1"} for name in ("one", "two")}
answer({"facts": {"torch": "2.15.0"}, "subjects": rows, "start_up": 1.0, "memory": 1000})
subject = ""
for line in sys.stdin:
    request = json.loads(line)
    ask = request["ask"]
    subject = request.get("subject", subject)
    here = subject == "one"
    if ask == "block" and here and what == "hang":
        faulthandler.dump_traceback_later(0.3)
        time.sleep(3600)
    if ask == "block" and here and what == "crash":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if ask == "open" and here and what == "wrong":
        answer({"verdict": "failed", "reason": "the gradient is off"})
        continue
    if ask == "open" and here and what == "skip":
        answer({"verdict": "skipped", "reason": "a rule"})
        continue
    answer({
        "open": {"proved": "as before" if request.get("earlier") else "sound", "worth": {"iteration": 1.0}},
        "warm": {"seconds": 0.01, "settled": True, "opening-memory": 1000},
        "compute": {"groups": {"timed": {"result": {"shape": [], "digest": "a"}}}, "settings": {}, "worth": {}, "dtype": "float32"},
        "done": {"peak-memory": 1000, "units": {"optimiser steps": 7}},
        "block": {"seconds": 0.01 if os.environ["SHAM_SIDE"] == "base" else 0.02},
        "conditions": {"reading": {}, "throttled": [], "others": []},
        "count": {"counters": {"operators": 3}},
    }.get(ask, {}))
"""


def spec(folder: Path, name: str, what: str = "") -> SideSpec:
    """Return a spec in which a sham side of this name sits; `what`: crash, hang, wrong, skip or refuse, with the subject `one`."""
    package = folder / "sham" / "stackproof" / "gate"
    package.mkdir(parents=True, exist_ok=True)
    for place in (package.parent, package):
        (place / "__init__.py").touch()
    (package / "side.py").write_text(textwrap.dedent(_PROGRAM), encoding="utf-8")
    environment = {"SHAM": what, "SHAM_SIDE": name}
    return SideSpec(name, Path(sys.executable), folder / "sham", environment, "cpu", False, "fast", "")
