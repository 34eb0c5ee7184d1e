"""The verb as a process, with commands that take no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackproof import ROOT

FIVE = [word for name in "ABCDE" for word in ("--good-env", f"{name}=0", "--bad-env", f"{name}=1")]


class Run:
    """One call of the verb in a folder of its own, with the environment of this Python."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.script = folder, folder / "tells.py"

    def __call__(
        self, program: str, *words: str, flags: Sequence[str] = FIVE, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it with a program that tells good from bad, with more variables if some are exported."""
        self.script.write_text(program)
        return subprocess.run(
            self.words(*words, flags=flags), cwd=self.folder, env=self.environment(env), capture_output=True, text=True,
            timeout=120, check=False
        )  # fmt: skip

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        """Return the environment of somebody who stands in the folder."""
        return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "STACKPROOF_PROJECT": "", **(more or {})}

    def words(self, *words: str, flags: Sequence[str] = FIVE) -> list[str]:
        """Return the words of the call."""
        command = [sys.executable, "-m", "stackproof", "bisect", "--stack", "cpu", "--unpinned", sys.executable]
        command += ["--results", str(self.folder / "results"), "--json", str(self.folder / "told.json")]
        return [*command, *flags, "--command", f"{sys.executable} {self.script}", *words]

    def record(self) -> dict[str, Any]:
        """Return the record of the last call."""
        found: dict[str, Any] = json.loads((self.folder / "told.json").read_text())
        return found

    def journals(self) -> list[Path]:
        """Return the journals, oldest first."""
        return sorted((self.folder / "results").glob("cpu/*/journal.jsonl"))
