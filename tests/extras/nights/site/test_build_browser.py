"""The site in a real browser: from a disk and from a server, with and without scripts, in light and dark, wide and narrow.

`nox -s site-tests` runs these: they need Playwright and the system's Chromium, whose place STACKPROOF_CHROMIUM may name.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stackproof.extras.nights.site import build
from stackproof.record.records import Verdict

from . import making
from .making import TODAY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PAGES = ("index.html", "changes.html", "runs.html")


class Quiet(SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


@dataclass
class Seen:
    """What a page asked for and said."""

    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("STACKPROOF_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "these tests need Chromium; install Debian's package chromium, or name it in STACKPROOF_CHROMIUM"
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield one
        one.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred nights of ten figures with steps, and a run of suites for each word that a cell may say."""
    folder = making.store(tmp_path_factory.mktemp("store"), 200, 10)
    runs = [
        making.suites("cpu", TODAY), making.suites("cuda", TODAY, Verdict.FAILED), making.suites("dcu", TODAY, rehearsed=True),
        making.suites("xpu", TODAY - timedelta(40)),
        making.suites("sim", TODAY, Verdict.KNOWN_ISSUE),
    ]  # fmt: skip
    making.kept(folder, runs)
    out = tmp_path_factory.mktemp("site") / "out"
    build.build(out, making.order(folder))
    return out


@pytest.fixture(scope="module", params=["file", "http"])
def root(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where the folder is: on the disk, or behind a loopback server."""
    if request.param == "file":
        yield site.as_uri()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def opened(browser: Browser, address: str, **context: object) -> tuple[Page, Seen]:
    """Open a page and return it with what it asks for and says."""
    page = browser.new_context(**context).new_page()
    seen = Seen()
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.said.append(message.text))
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    page.on("dialog", lambda dialog: seen.said.append(dialog.message))
    page.goto(address)
    return page, seen


def every_kind(site: Path) -> list[str]:
    """Return a page of each kind, the longest of its kind."""
    folders = [max((site / name).glob("*.html"), key=lambda path: path.stat().st_size) for name in ("series", "record")]
    steps = with_step(site)
    return [*PAGES, *(path.relative_to(site).as_posix() for path in {*folders, steps})]


def test_nothing_leaves_and_nothing_is_said(browser: Browser, site: Path, root: str) -> None:
    for name in every_kind(site):
        page, seen = opened(browser, f"{root}/{name}")
        assert seen.said == [], name
        assert len(seen.requests) >= 2 and all(address.startswith(root) for address in seen.requests), (
            name,
            seen.requests,
        )
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_axe_finds_nothing(browser: Browser, site: Path, scheme: str, width: int) -> None:
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    for name in every_kind(site):
        page, _ = opened(
            browser,
            f"{site.as_uri()}/{name}",
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            bypass_csp=True,
        )
        page.evaluate("for (const one of document.querySelectorAll('details')) { one.open = true; }")
        page.add_script_tag(content=axe)
        found = page.evaluate("axe.run().then((told) => told.violations.map((one) => [one.id, one.nodes[0].html]))")
        assert found == [], (name, found)
        page.context.close()


def test_400_pixels_are_enough(browser: Browser, site: Path) -> None:
    for name in every_kind(site):
        page, _ = opened(browser, f"{site.as_uri()}/{name}", viewport={"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        page.context.close()


def test_the_first_screen_says_how_each_stack_stands(browser: Browser, site: Path) -> None:
    page, _ = opened(browser, f"{site.as_uri()}/index.html", viewport={"width": 1280, "height": 800})
    told = {}
    for card in page.locator(".card").all():
        box = card.bounding_box()
        assert box and box["y"] + box["height"] <= 800
        told[card.locator(".name").inner_text()] = card.inner_text()
    words = {"cpu": "passed", "cuda": "failed", "dcu": "rehearsed", "xpu": "stale", "sim": "known issue"}
    assert {stack: word for stack, word in words.items() if word in told[stack]} == words
    assert "4 of 4 suites passed" in told["cpu"] and "models" in told["cuda"]


def with_step(site: Path) -> Path:
    """Return the page of a figure with a step that a gate has confirmed or may confirm, by a command."""
    pages = sorted((site / "series").glob("*.html"))
    return next(path for path in pages if 'class="command"' in path.read_text(encoding="utf-8"))


def test_what_goes_on_to_the_right_is_hinted_at(browser: Browser, site: Path) -> None:
    for width, shown in ((400, True), (1280, False)):
        page, _ = opened(browser, f"{site.as_uri()}/index.html", viewport={"width": width, "height": 800})
        assert page.locator(".sideways").is_visible() is shown


def test_commands_and_axes_are_whole(browser: Browser, site: Path) -> None:
    steps = with_step(site)
    for width in (1280, 400):
        page, _ = opened(browser, steps.as_uri(), viewport={"width": width, "height": 800})
        cut = page.evaluate(
            "[...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth).length"
        )
        assert page.locator("pre").count() > 0 and cut == 0
        field = page.locator(".field").first.bounding_box()
        assert field
        boxes = [one.bounding_box() for one in page.locator(".chart").first.locator(".scale text").all()]
        assert len(boxes) > 1 and all(box and box["x"] + box["width"] <= field["x"] for box in boxes)


def test_keyboard_reaches_each_cell(browser: Browser, site: Path) -> None:
    page, _ = opened(browser, f"{site.as_uri()}/index.html")
    cells = page.locator("a.cell").count()
    assert cells >= 20
    reached = set()
    for _ in range(cells + 20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className === 'cell' ? document.activeElement.title : ''"))
    assert len(reached - {""}) == cells
    page.locator("a.cell").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/record/*.html")


def test_without_scripts_every_verdict_is_there(browser: Browser, site: Path) -> None:
    page, _ = opened(browser, f"{site.as_uri()}/index.html", java_script_enabled=False)
    text = page.inner_text("main")
    for word in (
        "passed",
        "failed",
        "rehearsed",
        "stale",
        "known issue",
        "unverified",
        "suspected",
        "on its device",
    ):
        assert word in text, word
    page.goto(f"{site.as_uri()}/{every_kind(site)[-1]}")
    page.goto(with_step(site).as_uri())
    assert page.locator(".plot .line").count() == 3 and page.locator("table.points tbody tr").count() > 14
    assert "nox -s" in page.inner_text("main") and "likeliest cause" in page.inner_text("main")
    box = page.locator(".plot").first.bounding_box()
    assert box and box["width"] > 600 and box["height"] > 150


def test_an_old_page_says_so(browser: Browser, site: Path) -> None:
    page = browser.new_context().new_page()
    page.clock.set_fixed_time(f"{TODAY}T12:00:00Z")
    page.goto(f"{site.as_uri()}/index.html")
    assert "days ago" not in page.inner_text("main")
    page.clock.set_fixed_time("2026-08-20T12:00:00Z")
    page.goto(f"{site.as_uri()}/index.html")
    assert "built 19 days ago; nothing on it counts as proved any more" in page.inner_text("main")


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_stay_text(browser: Browser, tmp_path: Path, scripts: bool) -> None:
    making.hostile(tmp_path / "store")
    out = tmp_path / "out"
    build.build(out, making.order(tmp_path / "store"))
    for path in sorted(out.rglob("*.html")):
        page, seen = opened(browser, path.as_uri(), java_script_enabled=scripts)
        assert page.locator("img").count() == 0 and seen.said == [], path
        assert all(address.startswith(out.as_uri()) for address in seen.requests), path
        assert "\u202e" not in page.inner_text("body")
        page.context.close()
    page, seen = opened(browser, f"{out.as_uri()}/index.html")
    assert "onerror=alert(1)" in page.inner_text("main")
