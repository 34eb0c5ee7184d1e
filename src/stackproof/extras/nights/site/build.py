"""Writes the folder, and takes away pages of records that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stackproof.api.base import Refusal, files, places
from stackproof.extras.nights.site import pages, stack_status
from stackproof.extras.nights.site.model import SiteModel, SiteOrder, model

_ASSETS = places.DATA / "site"
_OF_RECORDS = ("record", "series")
"""The folders of a site whose files come and go with records."""


def build(out: Path, order: SiteOrder) -> SiteModel:
    """Write the site into a folder, which is new, empty, or a site (Refusal: the folder holds something else, or cannot be written)."""
    require_folder(out)
    read = stack_status.read(stack_status.files(order.folders), order.folders)
    site = model(read, order)
    made = set[Path]()
    try:
        for name, content in _files(site):
            path = out / name
            made.add(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path in (path for name in _OF_RECORDS for path in (out / name).glob("*") if path not in made):
            path.unlink()
    except OSError as error:
        if (refused := files.disk_refusal(error)) is None:
            raise
        raise refused from error
    return site


def require_folder(out: Path) -> None:
    """Refuse a folder that a site cannot go to, before anything is done that is shown on it.

    Refusal: it cannot be written, or holds something else: only a site has a `data.json` of our schema.
    """
    if why := files.why_no_folder(out):
        raise Refusal(f"{out}: {why}; name a new or an empty folder for the site")
    if out.is_dir() and any(out.iterdir()):
        known = files.try_read_json(out / pages.DATA)
        if not isinstance(known, dict) or known.get("schema") != pages.SCHEMA:
            raise Refusal(f"{out}: holds files and is no site; name a new or an empty folder")


def _files(site: SiteModel) -> Iterator[tuple[str, bytes]]:
    for name, text in pages.pages(site):
        yield name, text.encode("utf-8", errors="backslashreplace")
    for asset in sorted(path for path in _ASSETS.iterdir() if path.is_file()):
        yield asset.name, asset.read_bytes()
    for run in site.kept.values():
        yield f"{run.page.removesuffix('.html')}.json", run.path.read_bytes()
