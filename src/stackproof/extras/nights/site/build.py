"""Writes the folder: nothing if no input has changed, and of the files only those that are not what they were."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from stackproof.api.base import Refusal, files, places
from stackproof.extras.fleet import judgement
from stackproof.extras.fleet.judgement import FleetJudgement
from stackproof.extras.nights.site import pages, stack_status
from stackproof.extras.nights.site.model import SiteModel, model
from stackproof.extras.nights.site.stack_status import DAYS

MANIFEST = "site.manifest.json"
"""What the folder was made from, and the digest of each of its files."""
_ASSETS = places.DATA / "site"


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
    """Write the site into a folder, which is new, empty, or a site (Refusal: the folder holds something else, or cannot be written)."""
    before = _manifest(out)
    inputs, paths = _inputs(order)
    known: dict[str, str] = before.get("files", {})
    if before.get("inputs") == inputs and all((out / name).is_file() for name in known):
        return SiteBuilt(len(known), problems=tuple(before["problems"]))
    with _uncollected():
        read = stack_status.read(paths, order.folders)
        found = model(
            read, order.folders, order.stacks, order.suites, order.today, order.days, order.doubles, order.nightly
        )
    try:
        made, written = _written(out, found, known)
        gone = [name for name in known if name not in made]
        for name in gone:
            (out / name).unlink(missing_ok=True)
        manifest = {"inputs": inputs, "files": made, "problems": found.problems}
        files.write_atomically(out / MANIFEST, json.dumps(manifest, indent=0, sort_keys=True) + "\n")
    except OSError as error:
        if (refused := files.disk_refusal(error)) is None:
            raise
        raise refused from error
    return SiteBuilt(len(made), written, len(gone), found.sentence, found.problems)


def require_folder(out: Path) -> None:
    """Refuse a folder that a site cannot go to, before anything is done that is shown on it.

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
    paths = stack_status.files(order.folders)
    code = sorted(
        path
        for path in places.PACKAGE.rglob("*")
        if path.suffix in (".py", ".toml", ".css", ".js", ".svg", ".html", ".xml")
    )
    asked = [str(getattr(order, field.name)) for field in fields(order)]
    marks = [stack_status.fingerprint(those) for those in (code, paths, _judgement_files(order.folders))]
    return hashlib.sha256(json.dumps([asked, marks]).encode()).hexdigest(), paths


def _manifest(out: Path) -> dict[str, Any]:
    """Return what an earlier build left; a folder with anything else in it is somebody's, and is left alone."""
    path, anew = out / MANIFEST, "remove the folder, and the site is made anew"
    if not path.is_file():
        if out.is_dir() and any(out.iterdir()):
            raise Refusal(f"{out}: holds files and is no site; name a new or an empty folder")
        return {}
    value = files.read_json(path, anew)
    try:
        names, problems = dict(value["files"]), [*map(str, value.get("problems", ()))]
        inputs = value["inputs"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{path}: is damaged ({error}); {anew}") from error
    if not all(isinstance(name, str) and _inside(name) for name in names):
        raise Refusal(f"{path}: names files outside of the site; {anew}")
    return {"inputs": inputs, "files": names, "problems": problems}


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


def _files(site: SiteModel) -> Iterator[tuple[str, bytes]]:
    for name, text in pages.pages(site, *_judgements(site.folders)):
        yield name, text.encode("utf-8", errors="backslashreplace")
    for asset in sorted(path for path in _ASSETS.iterdir() if path.is_file()):
        yield asset.name, asset.read_bytes()
    for run in site.kept.values():
        yield f"{run.page.removesuffix('.html')}.json", run.path.read_bytes()


def _judgements(folders: Sequence[Path]) -> tuple[list[FleetJudgement], list[str]]:
    judgements, problems = list[FleetJudgement](), list[str]()
    for path in _judgement_files(folders):
        try:
            judgements.append(judgement.read(path))
        except Refusal as refusal:
            problems.append(str(refusal))
    return sorted(judgements, key=lambda one: (one.judged, one.fleet), reverse=True), problems


def _judgement_files(folders: Sequence[Path]) -> list[Path]:
    paths = {path for top in folders for path in top.rglob(judgement.NAME)}
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())
