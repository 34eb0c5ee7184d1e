"""Real searches on this CPU for what was planted: does `bisect` name it? `nox -s bisect-demonstration -- [STORY ...]`.

Minutes each. The product never imports it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackproof.base.errors import Refusal
from tools.bisect_demonstration.stories import STACK, STORIES, BisectStory

WORK = Path("/tmp/stackproof-bisect")  # noqa: S108 - clones of this very checkout


def search(story: BisectStory, folder: Path) -> dict[str, Any]:
    """Run the search, let it say what it says, and return its record."""
    told = folder / "told.json"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "stackproof", "bisect", "--stack", STACK, *story.words]
    command += ["--json", str(told), "--results", str(folder / "results")]
    subprocess.run(command, cwd=folder, env={**os.environ, **story.environment}, check=False)
    found: dict[str, Any] = json.loads(told.read_text("utf-8")) if told.exists() else {"verdict": "nothing"}
    return found


def right(story: BisectStory, record: dict[str, Any]) -> bool:
    """Whether what was planted is named, proved, and nothing else is."""
    culprits = [check for check in record.get("checks", ()) if check["id"].startswith("bisect/culprit::")]
    named = len(culprits) == 1 and story.named in culprits[0]["id"] + culprits[0]["reason"]
    return named and record["verdict"] == "passed"


def main(words: Sequence[str] | None = None) -> int:
    """Read the flags and run the stories; exit code 1 if one was not named."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bisect_demonstration", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("stories", nargs="*", metavar="STORY", help=f"of {', '.join(STORIES)} (default: all)")
    options = parser.parse_args(words)
    missed = []
    try:
        for name in options.stories or STORIES:
            if name not in STORIES:
                raise Refusal(f"'{name}' is no story; there are: {', '.join(STORIES)}")
            folder = WORK / name
            folder.mkdir(parents=True, exist_ok=True)
            _say(f"{name}: {(STORIES[name].__doc__ or '').strip()}")
            story = STORIES[name](folder)
            missed += [] if right(story, search(story, folder)) else [name]
    except Refusal as refusal:
        _say(f"bisect-demonstration: {refusal}")
        return refusal.exit_code
    _say(f"not named: {', '.join(missed)}" if missed else "all that was planted was named")
    return 1 if missed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
