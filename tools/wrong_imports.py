"""Plant wrong imports in a copy of the source and see `lint-imports` name each: `python -m tools.wrong_imports` (in `nox -s lint`).

A contract that nothing can break holds nothing. Each row is an import that some contract of pyproject.toml forbids.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from stackproof import ROOT
from stackproof.base import processes

WRONG = {
    "up": ("base/text.py", "import stackproof.record.records"),
    "up, inside a function": ("stack/hosts.py", "def late() -> None:\n    import stackproof.device.devices"),
    "sideways": ("triage/verb.py", "import stackproof.doctor.rules"),
    "torch below the line": ("record/writer.py", "import torch"),
    "numpy below the line": ("stack/lockfile.py", "import numpy"),
    "torch in the nights": ("extras/nights/drift/series.py", "def late() -> None:\n    import torch"),
    "an extra in the core": ("runner/supervise.py", "import stackproof.extras.nights.drift.scan"),
    "the core behind its door": ("extras/bisect/evidence.py", "from stackproof.gate import cells"),
    "a room that no layer names": ("shed/__init__.py", '"""A room that nobody announced."""'),
    "the laboratory from the product": ("gate/plan.py", "import tools.lint"),
}


def main() -> int:
    """Return 0 if the sound copy keeps all contracts and each wrong import breaks one."""
    failed = [] if _kept(None) else ["the source as it is"]
    failed += [f"{what}: {line!r} in {file}" for what, (file, line) in WRONG.items() if _kept((file, line))]
    for one in failed:
        print(f"wrong_imports: lint-imports does not judge rightly of {one}", file=sys.stderr)  # noqa: T201
    print(f"wrong_imports: {len(WRONG)} planted, {len(failed)} missed")  # noqa: T201
    return 1 if failed else 0


def _kept(planted: tuple[str, str] | None) -> bool:
    """Whether lint-imports finds nothing in a copy of the source with this line appended to this file."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        other = shutil.ignore_patterns("__pycache__", "data", "*.toml", "*.json")
        copied = [shutil.copytree(ROOT / name, root / name, ignore=other) for name in ("src", "tools")]
        shutil.copy(ROOT / "pyproject.toml", root)
        if planted:
            path = copied[0] / "stackproof" / planted[0]
            path.parent.mkdir(exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                stream.write(f"\n{planted[1]}\n")
        return _lint(root)


def _lint(root: Path) -> bool:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    path = os.pathsep.join((str(root / "src"), str(root)))
    ended = processes.run(command, seconds=600, cwd=root, environment={"PYTHONPATH": path})
    if ended.code not in (0, 1) or "Contracts:" not in ended.output:
        raise SystemExit(f"wrong_imports: lint-imports did not judge: {ended.output[-500:]}{ended.errors[-500:]}")
    return ended.ok


if __name__ == "__main__":
    sys.exit(main())
