"""Everything that is checked without running stackproof: `python -m tools.lint PYTHON`, which `nox -s lint` calls.

PYTHON is that of the stack `cpu`; the other programs are those of pyproject.toml's group `lint`, in this Python.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.base.places import ROOT
from stackproof.stack.stacks import DEVELOPMENT

Commands = Iterator[list[str]]


def of_code(python: str) -> Commands:
    """Yield what looks at Python: style and types as a commit's hooks see them, layers, and what is made from code."""
    yield [_program("pre-commit"), "run", "--all-files", "--show-diff-on-failure"]
    yield [_program("lint-imports")]
    yield [python, "-m", "stackproof.stack.known_issues"]
    yield [python, "-m", "stackproof", "expect", "--stack", DEVELOPMENT, "--check"]
    yield [sys.executable, "-m", "tools.wrong_imports"]
    yield [sys.executable, "-m", "tools.architecture", "--check"]
    yield [sys.executable, "-m", "tools.named_paths"]
    yield [sys.executable, "-m", "tools.budget"]
    yield [python, "-m", "tools.random_page", "--check"]


def of_files(root: Path = ROOT) -> Commands:
    """Yield what looks at files that forges and builders of images read: their schemas, and what is known to be unsafe."""
    workflows = _paths(root, ".github/workflows/*.yml", "examples/*/.github/workflows/*.yml")
    forms = [path for path in _paths(root, ".github/ISSUE_TEMPLATE/*.yml") if not path.endswith("config.yml")]
    schemas = {"workflows": workflows, "actions": ["action.yml"], "issue-forms": forms}
    schemas["issue-config"] = [".github/ISSUE_TEMPLATE/config.yml"]
    for schema, paths in schemas.items():
        yield [_program("check-jsonschema"), "--builtin-schema", f"vendor.github-{schema}", *paths]
    yield [_program("zizmor"), "--offline", "--quiet", "action.yml", *workflows]
    yield [_program("hadolint"), "--config", ".hadolint.yaml", *_paths(root, "containers/*/Containerfile")]


def _paths(root: Path, *patterns: str) -> list[str]:
    return sorted(str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern))


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def run(commands: Sequence[list[str]]) -> list[str]:
    """Run all of them, and return those that failed."""
    failed = []
    for command in commands:
        told = " ".join([Path(command[0]).name, *command[1:3]])
        print(f"lint: {told}", flush=True)  # noqa: T201
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(told)
    return failed


def main(words: list[str]) -> int:
    """Run all of it, and say at the end what failed."""
    with tempfile.TemporaryDirectory() as folder:
        pages = [sys.executable, "-m", "tools.docs_site", folder]
        failed = run([*of_code(words[0]), *of_files(), pages])
    print(f"lint: failed: {', '.join(failed)}" if failed else "lint: all is well", flush=True)  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
