"""The verb `init`: writes a project that works, with one workload and its test; or a stack that works, to be changed."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from stackproof.base.errors import Refusal
from stackproof.base.places import EXAMPLE, ROOT, STACKS, require_checkout
from stackproof.commands import arguments
from stackproof.project import projects
from stackproof.stack import stacks

FILES = ("stackproof.toml", "README.md", "workloads/vit.py", "tests/test_workloads.py")

_IGNORE = ".gitignore"
_IGNORED = "results/local/\n__pycache__/\n.pytest_cache/\n"
"""Records of this machine's runs, and what Python leaves: nothing for a repository."""
_HELP = "make a project of your own: a folder whose models are verified, timed and gated beside ours"


def add(verbs: arguments.Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "init", _HELP, _run)
    help_ = "write a stack of this name in the project DIR, or in this checkout: the CPU's, to be changed"
    verb.add_argument("--stack", metavar="NAME", help=help_)
    verb.add_argument(
        "folder", nargs="?", type=arguments.folder, default=Path(), metavar="DIR", help="where (default: here)"
    )


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    if options.stack is not None:
        return _write_stack(options.stack, folder)
    if there := next((folder / name for name in FILES if (folder / name).exists()), None):
        raise Refusal(f"{there} exists already, and nothing was written; name another folder")
    try:
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text((EXAMPLE / name).read_text(encoding="utf-8"), encoding="utf-8")
        if own := not (folder / _IGNORE).exists():
            (folder / _IGNORE).write_text(_IGNORED, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
    where = "" if folder == Path() else f"cd {folder} && "
    print(f"written: {', '.join((*FILES, *([_IGNORE] if own else [])))}")  # noqa: T201
    if not own:
        print(f"{folder / _IGNORE} was there and stays as it is; results/local/ belongs into it")  # noqa: T201
    print(f"next: {where}stackproof smoke --stack cpu --locked")  # noqa: T201
    return 0


def _write_stack(name: str, folder: Path) -> int:
    """Write the development stack under another name: what is not changed in it works."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise Refusal(
            f"--stack {name!r} is no name for a stack; write small letters, digits and hyphens, such as my-card"
        )
    where = _stacks_of(folder)
    if name in {*stacks.names(), *stacks.names(where)}:
        raise Refusal(f"there is a stack '{name}' already, and nothing was written; give the new one another name")
    model = stacks.load(stacks.DEVELOPMENT)
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in (model.folder / "stack.toml", model.inputs, model.lock)
    }
    for path in model.folder.glob("overrides.in"):
        texts[path.name] = path.read_text(encoding="utf-8")
    texts["stack.toml"] = _definition(name, texts["stack.toml"])
    header = re.compile(rf"^(# stack: |# Made by `nox -s lock -- ){model.name}\b", re.MULTILINE)
    texts[model.lock.name] = header.sub(rf"\g<1>{name}", texts[model.lock.name])
    try:
        (where / name).mkdir(parents=True)
        for file, text in texts.items():
            (where / name / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{where / name}: cannot be written ({error.strerror}); name another folder") from error
    print(f"written: {', '.join(str(where / name / file) for file in texts)}")  # noqa: T201
    print(f"next: `stackproof doctor --stack {name}`; change its files, then `stackproof lock {name}`")  # noqa: T201
    return 0


def _stacks_of(folder: Path) -> Path:
    if folder.resolve() == ROOT:
        require_checkout("init --stack")
        return STACKS
    project = projects.at(str(folder))
    if project is None:
        raise Refusal(
            f"{folder.resolve()}: is no project; make one with `stackproof init {folder}`, then add the stack"
        )
    return project.stacks or project.folder / "stacks"


def _definition(name: str, text: str) -> str:
    """Return a definition with another title, no bounds of counts, and what a card's stack has besides."""
    text = re.sub(r"(?m)^title = .*$", f'title = "{name}: say in one line what it is"', text)
    text = re.sub(r"(?ms)^\[expected\]\n.*?(?=^\[)", "[expected]\n\n", text)
    return f"# What each key means: docs/adding-a-stack.md. [[host]] rows say how a host that has the stack is known.\n{text}"
