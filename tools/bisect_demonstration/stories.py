"""What is planted, and what must be named: variables that meet, a hang, a commit, a wheel that was built anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.stack import environments, stacks
from tools.bisect_demonstration import rebuild

STACK = stacks.DEVELOPMENT
_IDENTITY = ("-c", "user.name=demonstration", "-c", "user.email=demonstration@localhost")
_PLANTS = """import os, sys, threading, time

def burn():
    while True:
        sum(range(1000))

if os.environ.get("PLANT_ONE") == os.environ.get("PLANT_OTHER") == "1":
    threading.Thread(target=burn, daemon=True).start()
def block():
    while "stackproof.workloads.gemm" not in sys.modules:
        time.sleep(0.01)
    sys.modules["torch"].mm = lambda *_, **__: time.sleep(3600)

if os.environ.get("PLANT_HANG") == "1":
    threading.Thread(target=block, daemon=True).start()
"""
_MULTIPLIED = "        return torch.mm(*self.factors, out=self.result)\n"
_LONGER = "        torch.mm(self.factors[0][: self._size // 3], self.factors[1])\n"
_COMMITS, _BROKEN, _BAD = 10, 4, 7
_PACKAGE, _FILE = "ultralytics", "ultralytics/nn/modules/block.py"
_LAYER = 'y.extend(self.m(y[-1]) for _ in range(getattr(self, "n", 3)))\n        y = self.cv2(torch.cat(y, 1))\n'
_WRONG = "        y = y + 0.1 * (y - y.detach())\n"
_ROUNDED = "        y = y.to(torch.bfloat16).to(y.dtype) if y.dtype is torch.float32 else y\n"
_ROOT_FILE = "ultralytics/nn/tasks.py"
_PREDICT = "        return self.predict(x, *args, **kwargs)\n"
_WAITS = """        import time
        began = time.perf_counter()
        found = self.predict(x, *args, **kwargs)
        until = time.perf_counter() + SHARE * (time.perf_counter() - began)
        while time.perf_counter() < until:
            pass
        return found
"""
_SHARE = "0.15"
"""Of the forward pass, which is about four tenths of a step: 6 % of the step."""
_NEUTRAL = [word for number in range(3) for word in ("--bad-env", f"NEUTRAL_{number}=1")]


@dataclass(frozen=True)
class BisectStory:
    """A search: its words, where it runs, with which variables, and what must be named."""

    words: Sequence[str]
    named: str
    checkout: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)


def pair(work: Path) -> BisectStory:
    """Two variables that slow every step where they meet, among five."""
    words = [*_NEUTRAL, "--bad-env", "PLANT_ONE=1", "--bad-env", "PLANT_OTHER=1", "--what", "gemm-float32::time"]
    return BisectStory(words, "PLANT_ONE=none -> 1 + PLANT_OTHER=none -> 1", environment=_plants(work))


def hang(work: Path) -> BisectStory:
    """A variable with which a product never ends, among four."""
    words = [*_NEUTRAL, "--bad-env", "PLANT_HANG=1", "--what", "gemm-float32", "--deadline-scale", "0.15"]
    return BisectStory(words, "PLANT_HANG=none -> 1", environment=_plants(work))


def _plants(work: Path) -> dict[str, str]:
    folder = work / "plants"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_PLANTS, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(folder)))}


def commit(work: Path) -> BisectStory:
    """Ten commits of a clone: the seventh makes a product a third longer, the fourth does not import."""
    clone = work / "checkout"
    if not clone.exists():
        _git(work, "clone", "--quiet", str(ROOT), str(clone))
    _git(clone, "fetch", "--quiet", "origin", "HEAD")
    _git(clone, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    code = clone / "src/stackproof/workloads/gemm.py"
    text = code.read_text("utf-8")
    for number in range(1, _COMMITS + 1):
        fresh = text.replace(_MULTIPLIED, _LONGER + _MULTIPLIED) if number >= _BAD else text
        code.write_text(fresh + ("def broken(:\n" if number == _BROKEN else f"# {number}\n"), "utf-8")
        _git(clone, *_IDENTITY, "commit", "--quiet", "--all", "-m", f"Step {number}")
    words = ["--good", f"HEAD~{_COMMITS}", "--bad", "HEAD", "--what", "gemm-float32::time"]
    return BisectStory(words, f"(Step {_BAD})", clone, {"PYTHONPATH": str(clone / "src")})


def wheel(work: Path) -> BisectStory:
    """The lock as it would have been on a day, and today's with a wheel of which one layer has a wrong gradient."""
    return _rebuilt(work, (_FILE, _LAYER, _LAYER + _WRONG), "training-yolov8n")


def check(work: Path) -> BisectStory:
    """The same two locks, with a wheel of which one layer rounds float32 to bfloat16: a check of the smoke suite fails."""
    return _rebuilt(work, (_FILE, _LAYER, _LAYER + _ROUNDED), "smoke/workloads::float32[yolov8n]")


def slower(work: Path) -> BisectStory:
    """The same two locks, with a wheel that computes the same and makes every step 6 % longer; no counter shows it."""
    return _rebuilt(work, (_ROOT_FILE, _PREDICT, _WAITS.replace("SHARE", _SHARE)), "training-yolov8n::time")


def _rebuilt(work: Path, edit: tuple[str, str, str], what: str, day: str = "2026-11-05") -> BisectStory:
    clone = work / "older"
    if not clone.exists():
        _git(work, "clone", "--quiet", str(ROOT), str(clone))
    env = {**os.environ, "PYTHONPATH": str(clone / "src"), "UV_EXCLUDE_NEWER": day}
    _run([sys.executable, "-m", "stackproof", "lock", STACK, "--upgrade"], clone, env)
    python = environments.prepare(stacks.load(STACK))
    site = environments.site_packages(python.parent.parent)
    built = rebuild.wheel(_PACKAGE, site, edit, work / "wheels")
    bad = work / "bad.lock"
    rebuild.relock(stacks.load(STACK).lock, _PACKAGE, built, bad)
    words = ["--good", str(clone / "stacks" / STACK / "requirements.lock"), "--bad", str(bad), "--what", what]
    source = {"PYTHONPATH": str(ROOT / "src"), "UV_FIND_LINKS": str(work / "wheels")}
    return BisectStory(words, f"{_PACKAGE} ", environment=source)


STORIES: dict[str, Callable[[Path], BisectStory]] = {
    "pair": pair, "hang": hang, "commit": commit, "wheel": wheel, "check": check, "slower": slower,
}  # fmt: skip


def _git(folder: Path, *words: str) -> None:
    _run(["git", *words], folder, dict(os.environ))


def _run(command: Sequence[str], folder: Path, env: dict[str, str]) -> None:
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Refusal(f"{' '.join(command[:4])} failed: {ended.stderr.strip()[-300:]}; see what it says and run again")
