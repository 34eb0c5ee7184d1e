"""Hold the lines of each room, and the words of docs, against `[tool.budget]`: `python -m tools.budget` (in `nox -s lint`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof import ROOT
from stackproof.base.toml import read_toml


def lines(folder: Path) -> int:
    """Return how many lines of Python a folder holds, or a module of that name."""
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def sizes(root: Path = ROOT) -> dict[str, int]:
    """Return what there is: lines of `src`, of its `core`, of each room, `tests`, `suites` and `tools`, and `words` of docs."""
    package = root / "src" / "stackproof"
    rooms = {path.name: lines(path) for path in package.iterdir() if (path / "__init__.py").exists()}
    whole = {name: lines(root / name) for name in ("src", "tests", "suites", "tools")}
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in (root / "docs").rglob("*.md"))
    return {**rooms, **whole, "core": whole["src"] - rooms.get("extras", 0), "words": words}


def exceeded(found: Mapping[str, int], budget: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each size that has no budget, or more than that."""
    for name, size in sorted(found.items()):
        if size > budget.get(name, 0):
            yield f"{name}: {size}, and pyproject.toml allows {budget.get(name, 'nothing')}; delete as much, or raise it with the reason"


def main() -> int:
    """Print what is exceeded; 1 if anything is."""
    wrong = list(exceeded(sizes(), read_toml(ROOT / "pyproject.toml")["tool"]["budget"]))
    for sentence in wrong:
        print(f"budget: {sentence}", file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
