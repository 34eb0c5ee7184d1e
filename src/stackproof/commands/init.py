"""The verbs that make projects and pins: `init` writes a project, or a stack, that works; `lock` pins stacks, `constraints` shows pins."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

from stackproof.base import files
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
    """Add them to the parser of the command line."""
    verb = arguments.add(verbs, "init", _HELP, _run)
    help_ = "write a stack of this name in the project DIR, or in this checkout: the CPU's, to be changed"
    verb.add_argument("--stack", metavar="NAME", help=help_)
    verb.add_argument("folder", nargs="?", type=arguments.folder, metavar="DIR", help="where (default: here)")
    verb = arguments.add(verbs, "lock", "(dev) re-pin stacks from their requirements.in with uv", _lock)
    arguments.add_named_stacks(verb, several=True)
    help_ = "move existing pins to the newest versions that the ranges allow"
    verb.add_argument("--upgrade", action="store_true", help=help_)
    help_ = "print a stack's pins for `pip install -c`; builds of a vendor that are installed here are held as they are"
    arguments.add_named_stacks(arguments.add(verbs, "constraints", help_, _constraints))


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.folder or Path(getattr(options, "project", "."))
    if options.stack is not None:
        return _write_stack(options.stack, folder)
    if (folder / FILES[0]).exists():
        raise Refusal(f"{folder / FILES[0]} exists already, and nothing was written; name another folder")
    texts = {name: (EXAMPLE / name).read_text(encoding="utf-8") for name in FILES} | {_IGNORE: _IGNORED}
    there = [name for name in texts if (folder / name).exists()]
    with files.writing(folder, "name another folder"):
        for name in texts.keys() - there:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(texts[name], encoding="utf-8")
    where = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    print(f"written: {', '.join(name for name in texts if name not in there)}")  # noqa: T201
    if there:
        hint = "; results/local/ belongs into .gitignore" if _IGNORE in there else ""
        print(f"was there and stays as it is: {', '.join(there)}{hint}")  # noqa: T201
    print(f"next: {where}stackproof smoke --stack cpu --locked")  # noqa: T201
    return 0


def _write_stack(name: str, folder: Path) -> int:
    """Write the development stack under another name: what is not changed in it works."""
    if why := stacks.why_no_name(name):
        raise Refusal(f"--stack {name!r} {why}")
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
    with files.writing(where / name, "name another folder"):
        (where / name).mkdir(parents=True)
        for file, text in texts.items():
            (where / name / file).write_text(text, encoding="utf-8")
    print(f"written: {', '.join(str(where / name / file) for file in texts)}")  # noqa: T201
    words = ("nox -s doctor --", "nox -s lock --") if where == STACKS else ("stackproof doctor", "stackproof lock")
    print(f"next: `{words[0]} --stack {name}`; change its files, then `{words[1]} {name}`")  # noqa: T201
    return 0


def _stacks_of(folder: Path) -> Path:
    if folder.resolve() == ROOT:
        require_checkout("init --stack")
        return STACKS
    project = projects.at(str(folder))
    if project is None and (folder / "src" / "stackproof").is_dir():
        raise Refusal(
            f"{folder.resolve()}: is a checkout, and the stackproof that runs is installed elsewhere; there, type "
            "PYTHONPATH=src python -m stackproof init --stack NAME"
        )
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


def _lock(options: argparse.Namespace) -> int:
    from stackproof.stack import environments, lockfile

    chosen = [stacks.load(name) for name in options.names]
    if any(stack.folder.is_relative_to(STACKS) for stack in chosen):  # a project's own are its own to write
        require_checkout("lock of a stack of ours")
    uv = environments.find_uv()
    for stack in chosen:
        for path in lockfile.lock(stack, uv, upgrade=options.upgrade):
            print(f"locked {path}")  # noqa: T201
    return 0


def _constraints(options: argparse.Namespace) -> int:
    from stackproof.stack import environment_proof, lockfile

    stack = stacks.load(options.names)
    lock, there = lockfile.own(stack), environment_proof.installed()
    for note in environment_proof.weaknesses(lock, there):
        print(f"stackproof: {note}", file=sys.stderr)  # noqa: T201
    print(f"# {stack.name}: `pip install -c` of this leaves the vendor's builds alone; all else is as in the lock.")  # noqa: T201
    for line in environment_proof.constraints(lock, there):
        print(line)  # noqa: T201
    return 0
