"""One outline in its three forms, and what came from outside is text in each."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from stackproof.record import outline
from stackproof.record.outline import Fold, Heading, Part, Span, TextLine, TextTable

TABLE = TextTable(("name", "s"), [("conv2d", "1.5"), ("add", "10.0")], "times", right=(1,))
PARTS: list[Part] = [
    Heading("the verdict", 2),
    TextLine("a host:", 1),
    TextLine((Span("slow", "red", strong=True), ": ", Span("nox -s smoke", code=True)), 2),
    TABLE,
    Fold("all of it", [TextLine(Span("thread", address="https://example.org/a b"))]),
]


def shown(parts: list[Part], width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, record=True, color_system=None)
    outline.show(parts, console)
    return console.export_text()


def test_text_is_indented_and_aligned() -> None:
    assert outline.text(PARTS).splitlines() == [
        "the verdict", "  a host:", "    slow: nox -s smoke", "times", "name       s", "conv2d   1.5", "add     10.0",
    ]  # fmt: skip


def test_markdown_has_lists_tables_and_folds() -> None:
    assert outline.markdown(PARTS) == (
        "## the verdict\n\n- a host:\n  - **slow**: `nox -s smoke`\n\n"
        "| name | s |\n|---|---:|\n| conv2d | 1.5 |\n| add | 10.0 |\n\n"
        "<details><summary>all of it</summary>\n\n[thread](https://example.org/a%20b)\n\n</details>\n"
    )


def test_a_terminal_shows_rows_one_under_another_where_a_table_would_break_names() -> None:
    assert "\nconv2d " in shown(PARTS) and "all of it" not in shown(PARTS)
    assert "  conv2d  s 1.5\n" in shown([TABLE], 8)
    wide = TextTable(("name", "why"), [("conv2d", "a sentence " * 9)], wide=(1,))
    assert "conv2d  why" not in shown([wide], 50) and "conv2d  why" in shown([wide], 20)


def test_a_table_says_how_much_it_leaves_out() -> None:
    assert (
        outline.text([TextTable(("n",), [(str(n),) for n in range(5)], most=2)]) == "n\n0\n1\nand 3 more, in the record"
    )


@pytest.mark.parametrize("code", [False, True])
def test_what_came_from_outside_is_text(code: bool) -> None:
    cell = Span("<img src=x> | `@team` [x](y) \x1b[31m\n# title", code=code, address="javascript:alert(1)")
    parts: list[Part] = [
        Heading(cell),
        TextLine(cell, 1),
        TextTable(("", "b"), [(cell, "")], cell.text),
        Fold(cell.text, [TextLine(cell)]),
    ]
    for made in (outline.text(parts), outline.markdown(parts), shown(parts, 300)):
        assert "\x1b" not in made
    assert "\n# title" not in outline.text(parts) + outline.markdown(parts)
    page = outline.markdown(parts[:3])
    assert "javascript" not in page
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines()} == {0, 3}
    assert code or "<img" not in page
