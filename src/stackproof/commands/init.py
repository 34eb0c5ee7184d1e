"""The verb `init`: writes a project that works, with one workload and its test."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.base.errors import Refusal
from stackproof.base.places import EXAMPLE
from stackproof.commands import arguments

if TYPE_CHECKING:
    from stackproof.commands.arguments import Verbs

FILES = ("stackproof.toml", "README.md", "workloads/vit.py", "tests/test_workloads.py")

_IGNORE = ".gitignore"
_IGNORED = "results/local/\n__pycache__/\n.pytest_cache/\n"
"""Records of this machine's runs, and what Python leaves: nothing for a repository."""
_HELP = "make a project of your own: a folder whose models are verified, timed and gated beside ours"


def add(verbs: Verbs) -> None:
    """Add it to the parser of the command line."""
    verb = arguments.add(verbs, "init", _HELP, _run)
    verb.add_argument("folder", nargs="?", type=_folder, default=Path(), metavar="DIR", help="where (default: here)")


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names no folder; name one, or leave it out for the one you are in")
    return Path(text)


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.folder
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
