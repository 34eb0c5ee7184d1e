"""The page of the demonstration: what was planted, and what nights said of it, with what is not found said as well."""

from __future__ import annotations

from pathlib import Path

from tools.night_demonstration.story import NightStory


def told(folder: Path, story: NightStory) -> str:
    """Return the table."""
    return f"{folder} {story.nights}"


def write(text: str, page: Path | None) -> None:
    """Print the table, or put it into a page."""
    print(text if page is None else page)  # noqa: T201
