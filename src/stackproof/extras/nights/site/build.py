"""Writes the folder, and of its files only those that are not what they were."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stackproof.api.base import Refusal, files, places
from stackproof.extras.nights.site import pages, stack_status
from stackproof.extras.nights.site.model import SiteModel, SiteOrder, model

MANIFEST = "site.manifest.json"
"""The digest of each file of the folder."""
_ASSETS = places.DATA / "site"


@dataclass(frozen=True)
class SiteBuilt:
    """What was done: files in all, written and removed; `sentence` is what the site says first."""

    files: int
    written: int
    removed: int
    sentence: str
    problems: tuple[str, ...]


def build(out: Path, order: SiteOrder) -> SiteBuilt:
    """Write the site into a folder, which is new, empty, or a site (Refusal: the folder holds something else, or cannot be written)."""
    known = _manifest(out)
    read = stack_status.read(stack_status.files(order.folders), order.folders)
    site = model(read, order)
    try:
        made, written = _written(out, site, known)
        gone = [name for name in known if name not in made]
        for name in gone:
            (out / name).unlink(missing_ok=True)
        files.write_atomically(out / MANIFEST, json.dumps({"files": made}, indent=0, sort_keys=True) + "\n")
    except OSError as error:
        if (refused := files.disk_refusal(error)) is None:
            raise
        raise refused from error
    return SiteBuilt(len(made), written, len(gone), site.sentence, site.problems)


def require_folder(out: Path) -> None:
    """Refuse a folder that a site cannot go to, before anything is done that is shown on it.

    Refusal: it holds something else, or cannot be written.
    """
    if why := files.why_no_folder(out):
        raise Refusal(f"{out}: {why}; name a new or an empty folder for the site")
    _manifest(out)


def _manifest(out: Path) -> dict[str, str]:
    """Return the files that an earlier build left; a folder with anything else in it is somebody's, and is left alone."""
    path, anew = out / MANIFEST, "remove the folder, and the site is made anew"
    if not path.is_file():
        if out.is_dir() and any(out.iterdir()):
            raise Refusal(f"{out}: holds files and is no site; name a new or an empty folder")
        return {}
    value = files.read_json(path, anew)
    try:
        names = dict(value["files"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{path}: is damaged ({error}); {anew}") from error
    if not all(isinstance(name, str) and name and name[0] != "/" and ".." not in name.split("/") for name in names):
        raise Refusal(f"{path}: names files outside of the site; {anew}")
    return names


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
    for name, text in pages.pages(site):
        yield name, text.encode("utf-8", errors="backslashreplace")
    for asset in sorted(path for path in _ASSETS.iterdir() if path.is_file()):
        yield asset.name, asset.read_bytes()
    for run in site.kept.values():
        yield f"{run.page.removesuffix('.html')}.json", run.path.read_bytes()
