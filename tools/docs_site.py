"""The documentation as one folder of pages: `python -m tools.docs_site [FOLDER]`, which `nox -s docs` runs.

Pages link to files beside docs/ (tables, examples, records), so what they reach is gathered first; mkdocs then refuses a link that
leads nowhere.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from stackproof.base import processes
from stackproof.base.places import ROOT
from stackproof.base.text import in_markdown
from stackproof.drill import table
from stackproof.drill.table import AREAS, Fault, Faults

PAGES = ROOT / ".nox" / "docs-pages"
SITE = ROOT / "dist" / "docs"
STARTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "containers/README.md", "docs/**/*.md")

_LINK = re.compile(r"(\]\()([^)#\s]+)")


def gather(root: Path, into: Path) -> list[Path]:
    """Copy all pages, and whatever file they link to, to the same places below a fresh folder; return what was copied."""
    shutil.rmtree(into, ignore_errors=True)
    waiting = [path for pattern in STARTS for path in sorted(root.glob(pattern))]
    copied: list[Path] = []
    while waiting:
        path = waiting.pop()
        if path in copied or not path.is_file():
            continue
        copied.append(path)
        target = into / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, target)
            continue
        text = path.read_text(encoding="utf-8")
        target.write_text(_to_pages(text, path), encoding="utf-8")
        waiting += [found for found in reached(text, path) if found.is_relative_to(root)]
    return copied


def reached(text: str, path: Path) -> list[Path]:
    """Return the files of the repository that a page links to; a folder stands for the page in it."""
    links = [(path.parent / found[2]).resolve() for found in _LINK.finditer(text) if "://" not in found[2]]
    return [link / "README.md" if link.is_dir() else link for link in links]


def _to_pages(text: str, path: Path) -> str:
    """Let links to folders lead to the page in them, as a forge does."""

    def page(found: re.Match[str]) -> str:
        folder = (path.parent / found[2]).is_dir() and "://" not in found[2]
        return f"{found[1]}{found[2].rstrip('/')}/README.md" if folder else found[0]

    return _LINK.sub(page, text)


_HEAD = """# The drill: every check is seen to fail

Each row is a fault that the drill injects into a run of a public verb, on the CPU and the simulated accelerator, and the checks that
must go red for it: with the words that the row names, with its exit code, and with every other check of that run green. Afterwards
the same runs without a fault must have nothing red.

`nox -s drill` runs all of it, `nox -s drill -- --fast` a part, `nox -s drill -- --only ID` one row. A new check needs a new row, and
a row that nothing catches fails.

## Families

| family | faults | not planted here |
|---|---|---|"""


def drill_page(faults: Faults) -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines(faults)) + "\n"


def _lines(faults: Faults) -> Iterator[str]:
    yield _HEAD
    for family in faults.families:
        planted = sum(family.has(row) for row in faults.rows)
        yield f"| {in_markdown(family.name)} | {planted or 'none'} | {in_markdown(family.beyond)} |"
    for area in AREAS:
        yield f"\n## {area.capitalize()}\n\n| fault | imitates | checks that must fail | exit code |\n|---|---|---|---|"
        yield from (_row(row) for row in faults.rows if row.area == area)
    yield "\n## Checks that no fault covers\n\n| checks | why |\n|---|---|"
    yield from (f"| {in_markdown(excuse.checks)} | {in_markdown(excuse.reason)} |" for excuse in faults.excuses)


def _row(row: Fault) -> str:
    source = f"[thread]({row.source})" if row.source.startswith("https://") else in_markdown(row.source)
    checks = " ".join(f"`{name}`" for name in (*row.expected.red, *row.expected.noted))
    return f"| `{row.id}` | {in_markdown(row.imitates)} ({source}) | {checks} | {row.expected.exit_code} |"


def main(words: list[str]) -> int:
    """Gather and build, strictly; say where the first page is."""
    site = Path(words[0]).resolve() if words else SITE
    gather(ROOT, PAGES)
    (PAGES / "docs" / "drill.md").write_text(drill_page(table.load()), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    ended = processes.run(
        [*command, "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(site)],
        seconds=math.inf,
        environment={"STACKPROOF_PAGES": str(PAGES), "NO_MKDOCS_2_WARNING": "1"},
        captured=False,
    )
    if ended.ok:
        print(f"open {site / 'index.html'}; it needs no network")  # noqa: T201
    return ended.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
