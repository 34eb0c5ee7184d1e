"""The states of each place in the order in which they were, as a git repository with a commit for each.

A new driver is no commit of anybody's code, so a history by commit cannot show it: figures before and after it are two
series, and nothing is flagged. Here every state of the stack, driver and wheels and code and settings, is a manifest, and each
change of the manifest is a commit whose message says what changed. Any tool that reads a history by commit, asv first of all,
then shows a driver like a patch.

Nothing of this is stored. The repository is made from the records, the same commits from the same records wherever it is made.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import Refusal
from .entries import Entry
from .identity import Place, State, changes

_GIT = shutil.which("git") or "git"
_WHO = "stackproof <stackproof@localhost>"


@dataclass
class Stay:
    """The entries that were made while a place stayed in one state."""

    place: Place
    state: State
    entries: list[Entry] = field(default_factory=list)

    @property
    def seconds(self) -> int:
        """When the state was first seen, in seconds since 1970."""
        return int(self.entries[0].started.timestamp())


def stays(entries: Iterable[Entry]) -> dict[str, list[Stay]]:
    """Return the states of each place (by its slug) in order; a state that comes back later is another stay."""
    found: dict[str, list[Stay]] = {}
    for one in entries:
        chain = found.setdefault(one.place.slug, [])
        if not chain or chain[-1].state != one.state:
            chain.append(Stay(one.place, one.state))
        chain[-1].entries.append(one)
    return found


def subject(before: Stay | None, now: Stay) -> str:
    """Return the first line of a state's commit: which groups changed, and how where that is short."""
    if before is None:
        return f"first seen: {now.place.label}"
    found = changes(before.state, now.state)
    return "; ".join(_phrase(group, phrases) for group, phrases in found.items())


def _phrase(group: str, phrases: Sequence[str]) -> str:
    more = f" and {len(phrases) - 1} more" if len(phrases) > 1 else ""
    return f"{group}: {phrases[0]}{more}"


def write(chains: dict[str, list[Stay]], repository: Path) -> dict[str, list[str]]:
    """Make the repository anew, a branch for each place, and return the hashes of its commits, oldest first.

    Raises:
        Refusal: git is missing, or fails.
    """
    shutil.rmtree(repository, ignore_errors=True)
    repository.parent.mkdir(parents=True, exist_ok=True)
    _git(["init", "--quiet", "--bare", "--object-format=sha1", str(repository)])
    marks = repository.resolve() / "stays.marks"
    stream = b"".join(_stream(chains))
    _git(["-C", str(repository), "fast-import", "--quiet", f"--export-marks={marks}"], stream)
    hashes = _read(marks)
    numbered = iter(range(1, len(hashes) + 1))
    return {name: [hashes[next(numbered)] for _ in chain] for name, chain in chains.items()}


def _stream(chains: dict[str, list[Stay]]) -> Iterator[bytes]:
    """Yield what git's fast-import reads (git-fast-import(1)): one commit for each stay, its manifest as a file."""
    mark = 0
    for name, chain in chains.items():
        yield f"reset refs/heads/{name}\n\n".encode()
        for number, stay in enumerate(chain):
            mark += 1
            before = chain[number - 1] if number else None
            yield f"commit refs/heads/{name}\nmark :{mark}\ncommitter {_WHO} {stay.seconds} +0000\n".encode()
            yield _data(_message(before, stay))
            yield b"M 100644 inline state.json\n" + _data(stay.state.as_json())


def _message(before: Stay | None, now: Stay) -> str:
    found = changes(before.state, now.state) if before else {}
    lines = [f"{group}: {phrase}" for group, phrases in found.items() for phrase in phrases]
    return "\n".join([subject(before, now)[:200], "", *lines]) + "\n"


def _data(text: str) -> bytes:
    content = text.encode("utf-8", errors="surrogatepass")
    return b"data %d\n%s\n" % (len(content), content)


def _read(marks: Path) -> dict[int, str]:
    rows = (line.split() for line in marks.read_text(encoding="ascii").splitlines())
    return {int(mark.removeprefix(":")): commit for mark, commit in rows}


def _git(arguments: list[str], stream: bytes = b"") -> None:
    try:
        subprocess.run([_GIT, *arguments], input=stream, capture_output=True, check=True, timeout=600)
    except FileNotFoundError as error:
        raise Refusal("git is not installed; histories by state are kept as a git repository, install git") from error
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise Refusal(f"git {arguments[0]} failed: {said[-1] if said else error}") from error
