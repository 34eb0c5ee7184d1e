"""Paths of this repository that texts name and nothing links: `python -m tools.named_paths`, which `nox -s lint` runs.

Looked at are code spans of pages, and in tables (TOML) the reasons and the comments. A word in capitals stands for any name;
a path with dots for what lies between is nobody's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from stackproof.base.places import ROOT
from stackproof.base.toml import read_toml

PAGES = ("*.md", "containers/*.md", "docs/**/*.md", "examples/**/*.md", "fixtures/**/*.md", "results/*.md")
TABLES = ("*.toml", "examples/**/*.toml", "src/**/*.toml", "stacks/**/*.toml", "suites/**/*.toml", "tools/**/*.toml")
ELSEWHERE = re.compile(r"\./|torch/|\.nox/|results/local|stacks/[^/]+/wheels")
"""What is the user's own, torch's, or left behind by runs: no part of a checkout."""

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)
_PATH = re.compile(r"(?<![\w/.:$~<{*-])[\w.*-]+(?:/[\w.*\[\]-]+)+")
_ANY = re.compile(r"(?:\[\w+\]|(?!README)[A-Z][A-Z_]+(?![a-z])|(?<=[^/*])\*)+")
_OURS = (".py", ".md", ".toml", ".yml")


def wrong(root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each path that a text names and the checkout does not have."""
    for path, text in _texts(root):
        for name in dict.fromkeys(_PATH.findall(text)):
            if not _stands(name.rstrip("."), root, path.parent):
                yield f"{path.relative_to(root)}: names '{name}', which is not here; say where it is today"


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    for page in _found(root, PAGES):
        text = _FENCED.sub("", page.read_text(encoding="utf-8"))
        yield page, " ".join(_SPAN.findall(text))
    for table in _found(root, TABLES):
        text = table.read_text(encoding="utf-8")
        yield table, "\n".join([*_COMMENT.findall(text), *_reasons(read_toml(table))])


def _found(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def _reasons(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for inner, held in value.items():
            yield from _reasons(held, inner)
    elif isinstance(value, list):
        for held in value:
            yield from _reasons(held, key)
    elif key == "reason":
        yield str(value)


def _stands(name: str, root: Path, beside: Path) -> bool:
    """Return whether it is no path of ours, or is there: from the root, in the package, or beside the page."""
    pattern = _ANY.sub("*", name)
    ours = (root / name.partition("/")[0]).is_dir() or name.endswith(_OURS)
    if not ours or "..." in name or ELSEWHERE.match(name):
        return True
    return any(next(place.glob(pattern), None) for place in (root, root / "src" / "stackproof", beside))


def main() -> int:
    """Say what is wrong; return 1 if anything is."""
    found = list(wrong())
    for sentence in found:
        print(sentence)  # noqa: T201
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
