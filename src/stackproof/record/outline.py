"""What people read: headings, lines and tables, which become plain text, a terminal's colours or Markdown; all of it is escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from stackproof.base.text import in_html, in_markdown, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SENTENCE = 24
"""Characters of a sentence that are a column; fewer are a ladder."""


@dataclass(frozen=True)
class Span:
    """A piece of a line: strong, code (kept as it is typed), a link to an address, or with a style of rich's on a terminal."""

    text: str
    style: str = ""
    strong: bool = False
    code: bool = False
    address: str = ""


Cell = str | Span | tuple[str | Span, ...]


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the highest."""

    text: Cell
    level: int = 1


@dataclass(frozen=True)
class TextLine:
    """A paragraph at depth 0, deeper an item of a list."""

    text: Cell
    depth: int = 0


@dataclass(frozen=True)
class TextTable:
    """Rows under their heads; `right`: columns of figures, `wide`: columns of sentences, which may break, `most`: rows that are shown."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    right: Collection[int] = ()
    wide: Collection[int] = ()
    most: int = 1 << 30

    @property
    def shown(self) -> list[Sequence[Cell]]:
        """The rows that are shown; the last one says how many more there are."""
        left = len(self.rows) - self.most
        more = [[f"and {left} more, in the record", *[""] * (len(self.heads) - 1)]] if left > 0 else []
        return [*self.rows[: self.most], *more]


@dataclass(frozen=True)
class Fold:
    """What a page keeps folded under a title, and a terminal leaves out."""

    title: str
    parts: Sequence[Part]


Part = Heading | TextLine | TextTable | Fold


def text(parts: Iterable[Part]) -> str:
    """Return lines without colours; the columns of a table are aligned."""
    return "\n".join(line.rstrip() for part in parts for line in _text(part))


def show(parts: Iterable[Part], console: Console) -> None:
    """Print on a terminal; a table that would break the names of its rows has them one under another."""
    for part in parts:
        if isinstance(part, TextTable):
            _show_table(part, console)
        elif not isinstance(part, Fold):
            indent = "  " * part.depth if isinstance(part, TextLine) else ""
            console.print(_rich(part.text, indent, lines=False), soft_wrap=True)


def markdown(parts: Iterable[Part]) -> str:
    """Return a page of Markdown, such as a comment on a pull request."""
    lines, listed = list[str](), False
    for part in parts:
        item = isinstance(part, TextLine) and part.depth > 0
        lines += [] if not lines or (item and listed) else [""]
        lines += _markdown(part)
        listed = item
    return "\n".join([*lines, ""])


def _spans(cell: Cell) -> Iterator[Span]:
    for piece in cell if isinstance(cell, tuple) else (cell,):
        yield piece if isinstance(piece, Span) else Span(piece)


def _words(cell: Cell) -> str:
    return "".join(span.text for span in _spans(cell))


def _text(part: Part) -> Iterator[str]:
    if isinstance(part, TextTable):
        rows = [[plain(_words(cell), lines=False) for cell in row] for row in (part.heads, *part.shown)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from [plain(part.title, lines=False)] if part.title else []
        for row in rows:
            pairs = enumerate(zip(row, widths, strict=True))
            yield "  ".join(cell.rjust(width) if at in part.right else cell.ljust(width) for at, (cell, width) in pairs)
    elif not isinstance(part, Fold):
        indent = "  " * part.depth if isinstance(part, TextLine) else ""
        yield f"{indent}{plain(_words(part.text), lines=False)}"


def _rich(cell: Cell, indent: str = "", *, lines: bool = True) -> Text:
    from rich.text import Text

    return Text.assemble(indent, *((plain(span.text, lines=lines), span.style) for span in _spans(cell)))


def _show_table(part: TextTable, console: Console) -> None:
    from rich import table

    if console.width < _needed(part):
        _show_rows(part, console)
        return
    if part.title:
        console.print(_rich(part.title))
    drawn = table.Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for at, head in enumerate(part.heads):
        drawn.add_column(
            head, justify="right" if at in part.right else "left", no_wrap=at not in part.wide, overflow="fold"
        )
    for row in part.shown:
        drawn.add_row(*map(_rich, row))
    console.print(drawn)


def _show_rows(part: TextTable, console: Console) -> None:
    if part.title:
        console.print(_rich(part.title))
    for row in part.shown:
        pairs = zip(part.heads, (_words(cell).replace("\n", " ") for cell in row), strict=True)
        cells = [f"{head} {cell}".strip() if at else cell for at, (head, cell) in enumerate(pairs) if cell]
        console.print(_rich("  ".join(cells), "  ", lines=False), soft_wrap=True)


def _needed(part: TextTable) -> int:
    """Return the width below which names would be broken."""
    from rich.cells import cell_len

    widths = list(map(cell_len, part.heads))
    for row in part.shown:
        for at, cell in enumerate(row):
            longest = max(map(cell_len, plain(_words(cell)).split("\n")))
            widths[at] = max(widths[at], min(longest, _SENTENCE) if at in part.wide else longest)
    return sum(widths) + 2 * len(widths)


def _markdown(part: Part) -> list[str]:
    if isinstance(part, Heading):
        return [f"{'#' * part.level} {_in_markdown(part.text)}"]
    if isinstance(part, TextLine):
        return [f"{'  ' * (part.depth - 1)}- {_in_markdown(part.text)}" if part.depth else _in_markdown(part.text)]
    if isinstance(part, Fold):
        title = in_html(" ".join(part.title.split()))
        return [f"<details><summary>{title}</summary>", "", markdown(part.parts), "</details>"]
    rule = "|".join("---:" if at in part.right else "---" for at in range(len(part.heads)))
    rows = [f"| {' | '.join(map(_in_markdown, row))} |" for row in (part.heads, *part.shown)]
    return [rows[0], f"|{rule}|", *rows[1:]]


def _in_markdown(cell: Cell) -> str:
    pieces = list[str]()
    for span in _spans(cell):
        sentence = _typed(span.text) if span.code else in_markdown(span.text)
        before, after = (" " * edge for edge in (span.text[:1].isspace(), span.text[-1:].isspace()))
        sentence = f"**{sentence}**" if span.strong else sentence
        if span.address.startswith(("https://", "http://")):
            sentence = f"[{sentence}]({quote(span.address, safe=':/#?=&%-._~')})"
        pieces.append(f"{before}{sentence}{after}")
    return "".join(pieces).strip()


def _typed(words: str) -> str:
    """Return code that no cell of a table and no mark of Markdown's breaks."""
    return f"`{plain(words, lines=False).replace('|', '¦').replace('`', chr(39))}`" if words else ""
