"""Everything that is checked without running stackproof: `python -m tools.lint PYTHON`, which `nox -s lint` calls.

PYTHON is that of the stack `cpu`; the other programs are those of pyproject.toml's group `lint`, in this Python. `python -m tools.lint
types` is what `pre-commit` runs.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof.base import git, processes
from stackproof.base.places import ROOT
from stackproof.base.toml import read_toml
from stackproof.stack import environments, stacks

Commands = Iterator[list[str]]

_PAGES = ("*.md", "containers/*.md", "docs/**/*.md", "examples/**/*.md", "fixtures/**/*.md", "results/*.md")
_TABLES = ("*.toml", "examples/**/*.toml", "src/**/*.toml", "stacks/**/*.toml", "suites/**/*.toml", "tools/**/*.toml")
_ELSEWHERE = re.compile(r"\./|torch/|\.nox/|results/local|stacks/[^/]+/wheels")
"""What is the user's own, torch's, or left behind by runs: no part of a checkout."""
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)
_PATH = re.compile(r"(?<![\w/.:$~<{*-])[\w.*-]+(?:/[\w.*\[\]-]+)+")
_ANY = re.compile(r"(?:\[\w+\]|(?!README)[A-Z][A-Z_]+(?![a-z])|(?<=[^/*])\*)+")
"""A word in capitals stands for any name."""
_OURS = (".py", ".md", ".toml", ".yml")


def of_code(python: str) -> Commands:
    """Yield what looks at Python: style and types as a commit's hooks see them, layers, and what is made from code."""
    yield [_program("pre-commit"), "run", "--all-files", "--show-diff-on-failure"]
    yield [_program("lint-imports")]
    yield [python, "-m", "stackproof.stack.known_issues"]
    yield [python, "-m", "stackproof", "expect", "--stack", stacks.DEVELOPMENT, "--check"]
    yield [sys.executable, "-m", "tools.wrong_imports"]
    yield [sys.executable, "-m", "tools.architecture", "--check"]


def of_files(root: Path = ROOT) -> Commands:
    """Yield what looks at files that forges and builders of images read: their schemas, and what is known to be unsafe."""
    workflows = _relative(root, ".github/workflows/*.yml", "examples/*/.github/workflows/*.yml")
    forms = [path for path in _relative(root, ".github/ISSUE_TEMPLATE/*.yml") if not path.endswith("config.yml")]
    schemas = {"workflows": workflows, "actions": ["action.yml"], "issue-forms": forms}
    schemas["issue-config"] = [".github/ISSUE_TEMPLATE/config.yml"]
    for schema, paths in schemas.items():
        yield [_program("check-jsonschema"), "--builtin-schema", f"vendor.github-{schema}", *paths]
    yield [_program("zizmor"), "--offline", "--quiet", "action.yml", *workflows]
    yield [_program("hadolint"), "--config", ".hadolint.yaml", *_relative(root, "containers/*/Containerfile")]


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _paths(root: Path, *patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def _relative(root: Path, *patterns: str) -> list[str]:
    return [str(path.relative_to(root)) for path in _paths(root, *patterns)]


def run(command: list[str]) -> bool:
    """Run a command at the top of the checkout with its output shown, and return whether it went well."""
    print(f"lint: {' '.join([Path(command[0]).name, *command[1:3]])}", flush=True)  # noqa: T201
    return processes.run(command, seconds=math.inf, cwd=ROOT, captured=False).ok


def lost_paths(root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each path that a page's code spans, or a table's comments and reasons, name and the checkout does not have."""
    for path, text in _texts(root):
        for name in dict.fromkeys(_PATH.findall(text)):
            if not _stands(name.rstrip("."), root, path.parent):
                yield f"{path.relative_to(root)}: names '{name}', which is not here; say where it is today"


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    for page in _paths(root, *_PAGES):
        yield page, " ".join(_SPAN.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))))
    for table in _paths(root, *_TABLES):
        yield table, "\n".join([*_COMMENT.findall(table.read_text(encoding="utf-8")), *_reasons(read_toml(table))])


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
    ours = (root / name.partition("/")[0]).is_dir() or name.endswith(_OURS)
    if not ours or "..." in name or _ELSEWHERE.match(name):
        return True
    places = (root, root / "src" / "stackproof", beside)
    return any(next(place.glob(_ANY.sub("*", name)), None) for place in places)


def sizes(root: Path = ROOT) -> dict[str, int]:
    """Return what there is: lines of `src`, of its `core`, of each room, `tests`, `suites` and `tools`, and `words` of docs."""
    package = root / "src" / "stackproof"
    rooms = {path.name: _lines(path) for path in package.iterdir() if (path / "__init__.py").exists()}
    whole = {name: _lines(root / name) for name in ("src", "tests", "suites", "tools")}
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in (root / "docs").rglob("*.md"))
    return {**rooms, **whole, "core": whole["src"] - rooms.get("extras", 0), "words": words}


def _lines(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def exceeded(found: Mapping[str, int], budget: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each size that has no budget, or more than that."""
    for name, size in sorted(found.items()):
        if size > budget.get(name, 0):
            unit, most = "words" if name == "words" else "lines", budget.get(name, "nothing")
            yield f"{name}: {size} {unit}, and [tool.budget] of pyproject.toml allows {most}; delete as much, or say why it is raised"


def unknown() -> Iterator[str]:
    """Yield a sentence for each file of Python that git does not know, because the hooks look at no such file."""
    for path in (git.try_output(ROOT, "ls-files", "--others", "--exclude-standard", "*.py") or "").splitlines():
        yield f"{path}: git does not know it, so that no hook looks at it; `git add` it, or delete it"


def types(words: list[str]) -> int:
    """Check types strictly, in this Python, against the environment of `cpu`: without torch's own types nearly every file is in error."""
    python = environments.prepare(stacks.load(stacks.DEVELOPMENT), lambda said: print(said, file=sys.stderr))  # noqa: T201
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python), *words]
    return processes.run(command, seconds=math.inf, captured=False).code


def main(words: list[str]) -> int:
    """Run all of it, and say at the end what failed."""
    if words[:1] == ["types"]:
        return types(words[1:])
    wrong = [*unknown(), *lost_paths(), *exceeded(sizes(), read_toml(ROOT / "pyproject.toml")["tool"]["budget"])]
    with tempfile.TemporaryDirectory() as folder:
        pages = [sys.executable, "-m", "tools.docs_site", folder]
        wrong += [" ".join(command[:4]) for command in (*of_code(words[0]), *of_files(), pages) if not run(command)]
    print("\n".join(f"lint: failed: {one}" for one in wrong) or "lint: all is well", flush=True)  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
