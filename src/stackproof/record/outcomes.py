"""What ranks leave of each row of a run: a file of JSON lines for each rank, which outlives a run that is stopped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from stackproof.base import files

Outcome = dict[str, Any]
"""What a rank says of a row, as JSON has it."""


def left_by(folder: Path, rank: int) -> dict[str, Outcome] | None:
    """Return the outcomes that a rank left, by name of row; None if it never began. A line that was cut off has no outcome."""
    try:
        text = (folder / f"rank{rank}.outcomes").read_text(encoding="utf-8")
    except OSError:
        return None
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return {outcome["row"]: outcome for outcome in (files.parse_json(line, "an answer of a rank") for line in whole)}


def finished_rows(folder: Path) -> int:
    """Return how many rows below a folder of a run have an outcome of each of their ranks."""
    count = 0
    for launch in {path.parent for path in folder.rglob("rank*.outcomes")}:
        ranks = [left_by(launch, rank) or {} for rank in range(len(list(launch.glob("rank*.outcomes"))))]
        count += len(set.intersection(*map(set, ranks)) - {""})
    return count


def take_over_rows(stopped: Path, folder: Path) -> None:
    """Give the run in a folder the rows of one that was stopped: what had come to an end there is not begun again.

    They are copied, with the tensors that checks read beside them: the stopped run stays as it was, to be continued once more.
    """
    for place in sorted({path.parent.parent for path in stopped.rglob("rank*.outcomes")}):
        shutil.copytree(place, folder / place.relative_to(stopped))
