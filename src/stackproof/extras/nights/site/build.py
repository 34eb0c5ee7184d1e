"""Writes the folder: nothing if no input has changed, and of the files only those that are not what they were."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from stackproof.api.base import DATA, PACKAGE, Refusal, __version__, files, write_atomically
from stackproof.extras.nights.site import beside, cards, drilled, fleets, front, runs, series, shelf, told
from stackproof.extras.nights.site.matrix import DAYS
from stackproof.extras.nights.site.model import SiteModel, model

MANIFEST = "site.manifest.json"
"""What the folder was made from, and the digest of each of its files."""
_ASSETS = DATA / "site"


@dataclass(frozen=True)
class SiteOrder:
    """What a site is made of, and as of which day; `days` is for how long a record proves anything."""

    folders: tuple[Path, ...]
    stacks: tuple[str, ...]
    suites: tuple[str, ...]
    today: date
    days: int = DAYS
    doubles: tuple[str, ...] = ()
    """Stacks that have no card to run on, so that nobody waits for it."""
    nightly: tuple[str, ...] = ()
    """Suites that a night runs; none: all of them are."""


@dataclass(frozen=True)
class SiteBuilt:
    """What was done: files in all, written and removed; `sentence` is what the site says first, None where nothing was new."""

    files: int
    written: int = 0
    removed: int = 0
    sentence: str | None = None
    problems: tuple[str, ...] = ()


def build(out: Path, order: SiteOrder) -> SiteBuilt:
    """Write the site into a folder, which is new, empty, or a site.

    Raises:
        Refusal: the folder holds something else, or cannot be written.
    """
    before = _manifest(out)
    inputs, paths = _inputs(order)
    known: dict[str, str] = before.get("files", {})
    if before.get("inputs") == inputs and all((out / name).is_file() for name in known):
        return SiteBuilt(len(known), problems=tuple(before["problems"]))
    with _uncollected():
        read = shelf.read(paths, order.folders)
        found = model(
            read, order.folders, order.stacks, order.suites, order.today, order.days, order.doubles, order.nightly
        )
    try:
        made, written = _written(out, found, known)
        gone = [name for name in known if name not in made]
        for name in gone:
            (out / name).unlink(missing_ok=True)
        _keep(out, {"inputs": inputs, "files": made, "problems": found.problems})
    except OSError as error:
        if (refused := files.disk_refusal(error)) is None:
            raise
        raise refused from error
    return SiteBuilt(len(made), written, len(gone), found.sentence, found.problems)


def require_folder(out: Path) -> None:
    """Refuse a folder that a site cannot go to, before anything is done that is shown on it.

    Raises:
        Refusal: it holds something else, or cannot be written.
    """
    if why := files.why_no_folder(out):
        raise Refusal(f"{out}: {why}; name a new or an empty folder for the site")
    _manifest(out)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let Python look for no cycles meanwhile: records have none, and of 50,000 the looking took a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _inputs(order: SiteOrder) -> tuple[str, list[Path]]:
    """Return the digest of all that decides what is written, and the files of records."""
    paths = shelf.files(order.folders)
    code = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml", ".css", ".js", ".svg"))
    told = [
        __version__,
        order.stacks,
        order.suites,
        str(order.today),
        order.days,
        order.doubles,
        order.nightly,
        [str(one) for one in order.folders],
    ]
    marks = [
        shelf.fingerprint(code),
        shelf.fingerprint(paths),
        shelf.fingerprint(fleets.files(order.folders)),
    ]
    return hashlib.sha256(json.dumps([told, marks]).encode()).hexdigest(), paths


def _manifest(out: Path) -> dict[str, Any]:
    """Return what an earlier build left; a folder with anything else in it is somebody's, and is left alone."""
    path = out / MANIFEST
    try:
        if not path.is_file():
            if out.is_dir() and any(out.iterdir()):
                raise Refusal(f"{out}: holds files and is no site; name a new or an empty folder")
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        names = found["files"]
        if all(isinstance(name, str) and _inside(name) for name in names):
            return {
                "inputs": found["inputs"],
                "files": dict(names),
                "problems": list(map(str, found.get("problems", ()))),
            }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refusal(f"{path}: is damaged ({error}); remove the folder, and the site is made anew") from error
    raise Refusal(f"{path}: names files outside of the site; remove the folder, and the site is made anew")


def _inside(name: str) -> bool:
    return ".." not in name.split("/") and not name.startswith("/") and bool(name)


def _written(out: Path, site: SiteModel, known: dict[str, str]) -> tuple[dict[str, str], int]:
    made, written = dict[str, str](), 0
    for name, content in _files(site):
        digest = hashlib.sha256(content).hexdigest()
        made[name] = digest
        if known.get(name) != digest or not (out / name).is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
            written += 1
    return dict(sorted(made.items())), written


def _keep(out: Path, told: dict[str, object]) -> None:
    write_atomically(out / MANIFEST, json.dumps(told, indent=0, sort_keys=True) + "\n")


def _files(site: SiteModel) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the site but its manifest."""
    for name, text in _pages(site):
        yield name, text.encode("utf-8", errors="backslashreplace")
    for asset in sorted(_ASSETS.iterdir()):
        yield asset.name, asset.read_bytes()
    for run in site.kept.values():
        yield f"{run.page.removesuffix('.html')}.json", run.path.read_bytes()


def _pages(site: SiteModel) -> Iterator[tuple[str, str]]:
    yield "index.html", front.index(site)
    yield "changes.html", told.render(site)
    yield "runs.html", runs.listing(site)
    yield "compare.html", beside.chooser(site)
    yield "drill.html", drilled.render(site)
    yield fleets.NAME, fleets.render(*fleets.read(fleets.files(site.folders)))
    yield "feed.xml", told.feed(site)
    yield "data.json", front.as_json(site)
    yield from cards.badges(site)
    for view in site.views:
        yield view.page, series.render(site, view)
    for run in site.kept.values():
        yield run.page, runs.render(site, run)
        yield f"data/{run.id}.js", beside.data(run)
        if before := site.before.get(run.path):
            yield f"compare/{run.id}.html", beside.render(run, before)


def default(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that were named, or those that a checkout keeps records in."""
    return tuple(folders) or shelf.tops()
