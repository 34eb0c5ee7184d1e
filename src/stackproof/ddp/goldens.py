"""Golden loss curves: a text file per stack and workload, written and read here and nowhere else.

The float64 reference is computed by the code under test, so that a fault in both (other data, another optimiser) goes unseen; a curve
that was kept sees it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackproof import DATA
from stackproof.base.errors import Refusal
from stackproof.base.files import write_atomically
from stackproof.stack.stacks import Stack

FOLDER = DATA / "goldens"

_TITLE = "# stackproof golden loss curve, format 1"
_FIXED = ("stack", "workload", "preset", "seed", "ranks", "steps")
_TOLD = ("torch", "device", "backend", "made")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Golden:
    """The mean loss of the global batch at each step, what determines it (`setting`), and where it was seen (`seen`)."""

    setting: Mapping[str, str]
    seen: Mapping[str, str]
    losses: tuple[float, ...]

    def text(self) -> str:
        """Return the file's text; nine digits hold a float32 exactly."""
        facts = [f"{key} = {value}" for key, value in {**self.setting, **self.seen}.items()]
        return "\n".join([_TITLE, *facts, "losses:", *(f"{loss:.9g}" for loss in self.losses)]) + "\n"


def path(stack: Stack, workload: str, folder: Path = FOLDER) -> Path:
    """Return where the golden of a stack is kept; a rehearsal has its own, as it says nothing of the card."""
    return folder / f"{stack.name}{'-rehearsed' if stack.rehearsed else ''}" / f"{workload}.txt"


def setting(stack: Stack, workload: str, preset: str, seed: int, ranks: int, steps: int) -> dict[str, str]:
    """Return what determines a curve, as the file writes it."""
    label = stack.name + (" rehearsed" if stack.rehearsed else "")
    return dict(zip(_FIXED, (label, workload, preset, str(seed), str(ranks), str(steps)), strict=True))


def save(where: Path, golden: Golden) -> None:
    """Write a golden, after holding it to what `load` will ask of it."""
    _require_curve(where, golden.losses, golden.setting)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(where, golden.text())


def load(where: Path, wanted: Mapping[str, str], remedy: str) -> Golden:
    """Return the golden in the file, which must have been made with the settings that are `wanted`.

    Raises:
        Refusal: the file is not a golden, has a placeholder, is no curve, or was made with other settings; `remedy` makes another.
    """
    try:
        lines = where.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{where}: cannot be read ({error}); {remedy}") from error
    try:
        golden = _parsed(where, lines)
        _require_curve(where, golden.losses, golden.setting)
        for key, value in wanted.items():
            if golden.setting[key] != value:
                raise Refusal(f"{where}: was made with {key} = {golden.setting[key]}, and the run has {value}")
    except Refusal as refusal:
        raise Refusal(f"{refusal}; {remedy}") from None
    return golden


def collect(run: Path, passed: Sequence[str], folder: Path = FOLDER) -> list[Path]:
    """Copy the curves that a run left into the goldens, those of the workloads that agreed with float64 only."""
    kept = []
    for found in sorted(run.rglob("goldens/*/*.txt")):
        if found.stem in passed:
            target = folder / found.parent.name / found.name
            save(target, _parsed(found, found.read_text(encoding="utf-8").splitlines()))
            kept.append(target)
    return kept


def _parsed(where: Path, lines: Sequence[str]) -> Golden:
    if not lines or lines[0] != _TITLE or "losses:" not in lines:
        raise Refusal(f"{where}: is not a golden: its first line must be '{_TITLE}', and 'losses:' must follow")
    middle = lines.index("losses:")
    facts = dict(_fact(where, number, line) for number, line in enumerate(lines[1:middle], 2))
    if missing := [key for key in (*_FIXED, *_TOLD) if key not in facts]:
        raise Refusal(f"{where}: '{missing[0]}' is missing")
    losses = [_loss(where, number, line) for number, line in enumerate(lines[middle + 1 :], middle + 2)]
    return Golden({key: facts[key] for key in _FIXED}, {key: facts[key] for key in _TOLD}, tuple(losses))


def _fact(where: Path, number: int, line: str) -> tuple[str, str]:
    key, separator, value = line.partition(" = ")
    if not separator or key not in (*_FIXED, *_TOLD):
        raise Refusal(f"{where}:{number}: '{line[:80]}' is not one of the lines KEY = VALUE of a golden")
    if not value.strip() or re.search(r"todo|tbd|fixme|xxx|placeholder|<.*>|\{.*\}|\?\?", value, re.IGNORECASE):
        raise Refusal(f"{where}:{number}: '{line[:80]}' is a placeholder, and a golden is a thing that was seen")
    return key, value.strip()


def _loss(where: Path, number: int, line: str) -> float:
    if not _NUMBER.fullmatch(line.strip()):
        raise Refusal(
            f"{where}:{number}: '{line[:80]}' is a placeholder or no number, and a golden is a thing that was seen"
        )
    return float(line)


def _require_curve(where: Path, losses: Sequence[float], made: Mapping[str, str]) -> None:
    """Refuse what no training gives: another number of steps, a loss that is 0 or infinite, one value throughout."""
    if str(len(losses)) != made["steps"]:
        raise Refusal(f"{where}: holds {len(losses)} losses and says steps = {made['steps']}")
    if not all(math.isfinite(loss) and loss > 0 for loss in losses) or len(set(losses)) < 2:
        raise Refusal(f"{where}: its losses are placeholders: {', '.join(f'{loss:g}' for loss in losses[:3])} ...")
