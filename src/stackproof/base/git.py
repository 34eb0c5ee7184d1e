"""Git, asked about a folder: what it prints, or one sentence why it cannot say; and how a record names the code that ran."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

from stackproof.base import processes
from stackproof.base.errors import Refusal
from stackproof.base.text import tail

_ELSEWHERE = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
)  # fmt: skip
"""What a hook of another repository leaves in the environment, which would redirect git (`git rev-parse --local-env-vars`)."""


class GitMissingError(Refusal):
    """There is no git, so that nothing is known of commits."""


def output(folder: Path, *words: str, stdin: bytes = b"", seconds: float = math.inf) -> str:
    """Return what git prints about the repository that a folder lies in; bytes that are no UTF-8 as surrogates.

    Raises:
        GitMissingError: git is not installed.
        Refusal: the folder is in no repository, or git failed; the sentence has its last line.
    """
    ended = processes.run(
        ["git", "-C", folder, *words],
        seconds=seconds,
        environment={"LC_ALL": "C.UTF-8"},
        unset=_ELSEWHERE,
        stdin=stdin,
        decoding="surrogateescape",
    )
    if not ended.started:
        raise GitMissingError("git is not installed, and nothing is known of commits without it; install git")
    if ended.timed_out:
        raise Refusal(
            f"git {words[0]} took longer than {seconds:.0f} s in {folder}; is its disk slow, or locked by another git?"
        )
    if "not a git repository" in ended.errors:
        raise Refusal(
            f"{folder} is in no git repository, so nothing is known of its commits; clone it with its history"
        )
    if not ended.ok:
        text = next((line for line in ended.errors.splitlines() if line.startswith("fatal: ")), tail(ended.errors))
        raise Refusal(f"git {words[0]} failed in {folder}: {text.removeprefix('fatal: ')}")
    return ended.output


def output_bytes(folder: Path, *words: str) -> bytes:
    """Return what git prints as it is, such as an archive; `output` says what is refused."""
    return output(folder, *words).encode("utf-8", errors="surrogateescape")


def try_output(folder: Path, *words: str, seconds: float = 10.0) -> str | None:
    """Return what git prints, or None where it cannot say: there is no git, no repository, or no answer in time."""
    try:
        return output(folder, *words, seconds=seconds)
    except Refusal:
        return None


_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_TREE_ROW = re.compile(r"\d+ \w+ (?P<blob>[0-9a-f]{40,64})\t(?P<path>.+)", re.DOTALL)
_NOT_CODE = ("__pycache__", "wheels", "node_modules")
"""Folders of what is made, or hashed by a lock."""


def head(folder: Path) -> str:
    """Return the commit that is checked out; empty where git cannot say, or what is called git prints something else."""
    text = (try_output(folder, "rev-parse", "HEAD") or "").strip()
    return text if _COMMIT.fullmatch(text) else ""


def blobs_of_commit(folder: Path, places: Iterable[str]) -> dict[str, str]:
    """Return the files that the checked out commit has in these places, each with its blob's name; none where git cannot say.

    The commit's own tree is asked, so that no index, ignored name or setting hides a change.
    """
    text = try_output(folder, "--no-replace-objects", "ls-tree", "-r", "-z", "HEAD", "--", *places) or ""
    rows = (_TREE_ROW.fullmatch(row) for row in text.split("\0") if row)
    return {row["path"]: row["blob"] for row in rows if row}


def blobs_on_disk(folder: Path, places: Iterable[str]) -> dict[str, str]:
    """Return the files that lie in these places, each with the name that git would give its blob, computed by us.

    Source: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    """
    values = {}
    for place in places:
        for home, inner, names in os.walk(folder / place):
            inner[:] = [name for name in inner if name not in _NOT_CODE and not name.endswith(".egg-info")]
            # To folders, into which nobody looks here.
            links = [name for name in inner if Path(home, name).is_symlink()]
            for path in (Path(home, name) for name in (*names, *links)):
                data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
                name = hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()
                values[path.relative_to(folder).as_posix()] = name
    return values


LOCAL_CHANGES = " (with local changes)"
UNKNOWN = "unknown"
_VERSION = "version "


def as_recorded(commit: str, changed: bool) -> str:
    return f"{commit}{LOCAL_CHANGES}" if changed else commit


def package_version(version: str) -> str:
    """Return what a record says where no checkout ran but an installed package."""
    return f"{_VERSION}{version}"


def is_package(text: str) -> bool:
    """Whether an installed package ran, which has no sessions of nox."""
    return text.startswith(_VERSION)


def is_reachable(text: str) -> bool:
    """Whether somebody else can go to what a record says: no commit is known, or files differed from it, and nobody can."""
    return text != UNKNOWN and not text.endswith(LOCAL_CHANGES)
