"""Real nights on this CPU with planted steps, one after the other: what does `night` find? `nox -s night-demonstration`.

A clone of this checkout gets a commit a night, a driver that is a file, and a CPU quota; in it `python -m stackproof night` is called as a
runner calls it. What is planted, and when, is in `story.toml`. The product never imports it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.places import ROOT
from stackproof.commands import arguments
from stackproof.record import records, store
from tools.night_demonstration import page
from tools.night_demonstration.quota import Quota
from tools.night_demonstration.story import NightStory, Planted, load

KEPT = ROOT / "results" / "demonstration"
HOST = "demonstration"
_STACK = "cpu"
_WORK = Path("/tmp/stackproof-demonstration")  # noqa: S108 - a clone of this very checkout
_MULTIPLIED = "        return torch.mm(*self.factors, out=self.result)\n"
_TWICE = "        torch.mm(self.factors[0][:{rows}], self.factors[1])\n"
_DRIVER = '\n[driver]\nfiles = ["{file}"]\n'
_SHARED = {"load = { cpu = 0.25,": "load = { cpu = 1.0,", "most = 4": "most = 1", "minutes = 15": "minutes = 6"}
"""What the table of nights says in the clone: the host is shared whatever it does, and there is an hour for all."""
_IDENTITY = ("-c", "user.name=demonstration", "-c", "user.email=demonstration@localhost")


class Laboratory:
    """The clone in which nights are held; `python`: of the cpu stack's environment."""

    def __init__(self, work: Path, python: Path) -> None:
        self.clone, self.results, self.driver, self.python = (
            work / "checkout",
            work / "results",
            work / "driver",
            python,
        )

    def begin(self) -> None:
        """Clone this checkout's commit, give it a driver that can change, tell it that the host is shared, and freeze it as the anchor."""
        self.clone.parent.mkdir(parents=True, exist_ok=True)
        _run("git", "clone", "--quiet", str(ROOT), str(self.clone))
        stack = self.clone / "stacks" / _STACK / "stack.toml"
        stack.write_text(stack.read_text("utf-8") + _DRIVER.format(file=self.driver), "utf-8")
        table = self.clone / "src/stackproof/data/night.toml"
        text = table.read_text("utf-8")
        for before, after in _SHARED.items():
            text = text.replace(before, after)
        table.write_text(text, "utf-8")
        self.commit("A driver that is a file, and a host that is shared")
        (self.clone / "stacks" / _STACK / "anchor.toml").unlink(missing_ok=True)
        self.stackproof("night", "--stack", _STACK, "--anchor", "new")
        self.commit("Freeze the anchor")

    def commit(self, title: str) -> None:
        """Commit whatever there is, or nothing."""
        _run("git", "-C", str(self.clone), "add", "--all")
        _run("git", "-C", str(self.clone), *_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", title)

    def plant(self, now: Planted, number: int) -> None:
        """Make the checkout and the driver of a night."""
        code = self.clone / "src/stackproof/workloads/gemm.py"
        kept = [
            line
            for line in code.read_text("utf-8").splitlines(keepends=True)
            if "torch.mm(self.factors[0][" not in line
        ]
        twice = _TWICE.format(rows=now.rows) if now.rows else ""
        code.write_text("".join(kept).replace(_MULTIPLIED, twice + _MULTIPLIED), "utf-8")
        self.driver.write_text(f"{now.driver}\n", "utf-8")
        self.commit(f"Night {number}")

    def night(self, story: NightStory, quota: Quota) -> int:
        """Hold one."""
        words = [word for name in story.subjects for word in ("--only", name)]
        without = [word for name in ("doctor", "smoke", "verify", "site") for word in ("--without", name)]
        return self.stackproof(
            "night", "--stack", _STACK, "--unpinned", str(self.python), "--results", str(self.results), "--pause", "0",
            "--launches", str(story.launches), *words, *without, quota=quota,
        )  # fmt: skip

    def stackproof(self, *words: str, quota: Quota | None = None) -> int:
        """Run a verb of the clone."""
        env = {
            **os.environ,
            "PYTHONPATH": str(self.clone / "src"),
            "STACKPROOF_HOST": HOST,
            store.RESULTS: str(self.results),
        }
        command = [sys.executable, "-m", "stackproof", *words]
        return subprocess.run(
            command, env=env, cwd=self.clone, preexec_fn=quota.enter if quota else None, check=False
        ).returncode

    def records(self) -> list[Path]:
        """Return what nights and their gates have written."""
        return sorted(self.results.glob(f"{_STACK}/*/record.json"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def hold(laboratory: Laboratory, story: NightStory, nights: int) -> None:
    """Hold nights until there are so many; one that was held is not held again."""
    if not laboratory.clone.exists():
        laboratory.begin()
    quota = Quota()
    with quota.made():
        for number in range(1 + sum("-night-" in path.parent.name for path in laboratory.records()), nights + 1):
            now = story.at(number)
            laboratory.plant(now, number)
            quota.grant(now.quota)
            print(f"=== night {number}: {now.title}", flush=True)  # noqa: T201
            code = laboratory.night(story, quota)
            print(f"=== night {number} ended with {code}", flush=True)  # noqa: T201


def keep(laboratory: Laboratory) -> None:
    """Copy the records into the repository's results, without their logs."""
    folder = KEPT / _STACK
    folder.mkdir(parents=True, exist_ok=True)
    for path in laboratory.records():
        (folder / f"{path.parent.name}.record.json").write_text(records.read(path).as_json(), "utf-8")


def main(words: Sequence[str]) -> int:
    """Hold what is asked for, keep the records, and write the page."""
    parser = argparse.ArgumentParser(prog="night-demonstration", description=__doc__)
    parser.add_argument("--nights", type=int, default=0, help="hold so many in all (default: the story's)")
    parser.add_argument("--python", type=Path, metavar="FILE", help="the Python of the cpu stack's environment")
    parser.add_argument("--work", type=Path, default=_WORK, metavar="DIR", help="where the clone and all records lie")
    parser.add_argument(
        "--report", action="store_true", help="hold none; write the page from the records that are kept"
    )
    parser.add_argument("--page", type=arguments.file, metavar="FILE", help="put the table there, between its marks")
    options = parser.parse_args(words)
    story = load()
    try:
        if not options.report:
            python = options.python or ROOT / ".nox" / "stacks" / _STACK / "bin" / "python"
            laboratory = Laboratory(options.work.absolute(), python.absolute())
            hold(laboratory, story, options.nights or story.nights)
            keep(laboratory)
        page.write(page.told(KEPT, story), options.page)
    except Refusal as refusal:
        print(f"night-demonstration: {refusal}", file=sys.stderr)  # noqa: T201
        return refusal.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
