"""The page: rates with the right direction, everything escaped, nothing fetched, nothing executed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from stackproof.history import page
from stackproof.history.timeline import entries, histories
from stackproof.record.records import Figure, Record

from . import making

EVIL = "<script>alert(1)</script>'\"&<img src=x onerror=alert(2)>"


def rendered(*records: Record, problems: tuple[str, ...] = ()) -> str:
    """Return the page of records."""
    return page.render(histories(entries({Path(str(number)): one for number, one in enumerate(records)})), problems)


def slower(day: float, seconds: float, **facts: str) -> Record:
    """Return a record of a day and a speed."""
    return making.with_facts(making.record(day, making.figure(seconds, samples=[seconds] * 9)), dict(facts))


def test_rates_are_shown_with_their_direction() -> None:
    """Twice the seconds are half the rate, minus 50 %, worse; seconds per unit do not appear."""
    text = rendered(slower(0, 1.0), making.with_facts(slower(1, 2.0), making.NEW_DRIVER))
    assert "0.5 TFLOP/s" in text
    assert "1.00 TFLOP/s" in text
    assert "-50.0% worse" in text
    assert "s/TFLOP" not in text


def test_times_without_a_rate_are_shown_as_times() -> None:
    """Start-up is a time: less is better, and the change is of speed all the same."""
    first, second = (making.figure(value, unit="s", samples=[value] * 9) for value in (2.0, 1.0))
    text = rendered(making.record(0, first), making.record(1, second, commit="b" * 40))
    assert "1.00 s" in text
    assert "+100.0% better" in text


class Elements(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, what it would load, and what it would run."""
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "data", "srcset", "action")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_everything_is_escaped_and_nothing_is_fetched() -> None:
    """Names from other people's machines, in every place that is shown, stay text."""
    evil: dict[str, Figure] = {
        "host": EVIL,
        "stack": EVIL,
        "cuda:0.name": EVIL,
        "driver.nvidia-smi": EVIL,
        "commit": EVIL,
    }
    row = making.figure(2e-3, workload=EVIL, version=EVIL, note=EVIL)
    first = making.with_facts(
        making.record(0, making.figure(1e-3, workload=EVIL, version=EVIL)), {**evil, "driver.nvidia-smi": "1.0"}
    )
    text = rendered(first, making.with_facts(making.record(1, row), evil), problems=(EVIL,))
    seen = Elements()
    seen.feed(text)
    assert {"script", "img", "link", "iframe", "object", "base"} & set(seen.tags) == set()
    assert (seen.links, seen.handlers) == ([], [])
    assert "&lt;script&gt;alert(1)" in text
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?:", text)


def test_flagged_changes_say_what_changed() -> None:
    """The state that came with the change stands beside it."""
    text = rendered(slower(0, 1e-3), making.with_facts(slower(1, 1.12e-3), making.NEW_DRIVER))
    assert "Flagged changes" in text
    assert "driver: nvidia-smi: 580.65.06, NVIDIA L40S -&gt; 590.10.01, NVIDIA L40S" in text
    assert "No change is flagged" in rendered(slower(0, 1e-3))


def test_reference_figures_stand_beside_measured_ones() -> None:
    """With the device that they are of, and the source."""
    row = making.figure(0.2, workload="training-qwen3-0.6b-lora", preset="full", unit="s/sample")
    text = rendered(making.record(0, row))
    assert "5.88 samples/s on 2 ranks, 2 x Intel Arc Pro B60" in text
    assert "user report B2" in text


def test_long_histories_are_drawn_in_part() -> None:
    """The page grows with the number of series, not with their length."""
    short = rendered(*(slower(day, 1e-3, commit=f"{day:040x}") for day in range(300)))
    long = rendered(*(slower(day, 1e-3, commit=f"{day:040x}") for day in range(900)))
    assert len(long) < 1.05 * len(short)


def test_an_empty_store_has_a_page() -> None:
    """It says that there is nothing yet."""
    assert "There are no figures yet." in rendered()


def test_the_page_is_written_in_one_step(tmp_path: Path) -> None:
    """Into a folder that is made for it."""
    page.write([], [], tmp_path / "deep" / "rates.html")
    assert (tmp_path / "deep" / "rates.html").read_text(encoding="utf-8").startswith("<!doctype html>")
