"""Draw the rooms of the house from its imports, and list what plug-ins may import: `python -m tools.architecture` writes both into docs/.

A room is a package of `stackproof`, or a module beside them. The picture leaves out an arrow that a longer way implies; the table
says what each room is for, in the words of its docstring, whose sentence "May import" is held against the imports. `--check` writes
nothing and says whether the page is fresh.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof import ROOT
from stackproof.base.files import write_atomically
from stackproof.base.places import PACKAGE
from stackproof.base.toml import read_toml

PAGE, PLUG_INS = ROOT / "docs" / "architecture.md", ROOT / "docs" / "plug-ins.md"
BEGIN, END = "<!-- made by `python -m tools.architecture` -->", "<!-- end of what is made -->"
LINE = "device"
"""The lowest room that may import torch."""

Arrows = Mapping[str, frozenset[str]]


def order() -> list[str]:
    """Return the rooms from the highest layer to the lowest, as the contract in pyproject.toml has them."""
    contracts = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]["contracts"]
    listed = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [room.strip() for layer in listed for room in layer.split("|")]


def arrows(package: Path = PACKAGE) -> Arrows:
    """Return what each room imports, inside functions and for types alone too."""
    rooms = {path.stem for path in package.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}
    found: dict[str, frozenset[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        named = [name.split(".") for name in _names(ast.parse(path.read_text(encoding="utf-8")))]
        imported = {parts[1] for parts in named if parts[0] == package.name and parts[1:2] and parts[1] in rooms}
        if room != "__init__":
            found[room] = found.get(room, frozenset()) | (imported - {room})
    return found


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def picture(rooms: list[str], found: Arrows) -> list[str]:
    """Return a Mermaid diagram, in two storeys: what may import torch, and what may not."""
    wall = rooms.index(LINE) + 1
    storeys = (("torch may be imported", rooms[:wall]), ("no torch below this line", rooms[wall:]))
    lines = ["```mermaid", "flowchart TD"]
    for number, (title, inside) in enumerate(storeys):
        lines += [f'  subgraph storey{number}["{title}"]', *(f"    {room}" for room in inside), "  end"]
    lines += [f"  {room} --> {other}" for room in rooms for other in rooms if other in _direct(room, found)]
    return [*lines, "```"]


def _direct(room: str, found: Arrows) -> frozenset[str]:
    """Return what a room imports and reaches in no other way."""
    return found[room] - frozenset().union(*(_reached(other, found) for other in found[room]))


def _reached(room: str, found: Arrows) -> frozenset[str]:
    return found[room].union(*(_reached(other, found) for other in found[room]))


def table(rooms: list[str], found: Arrows) -> list[str]:
    """Return a row for each room: what it is for, what it imports."""
    rows = ["| room | what it is for | imports |", "|---|---|---|"]
    for room in rooms:
        imported = ", ".join(other for other in rooms if other in found[room])
        purpose = _docstring(room).partition("\n")[0].replace("|", "\\|")
        rows.append(f"| `{room}` | {purpose} | {imported} |")
    return rows


def _docstring(room: str) -> str:
    path = next(path for path in (PACKAGE / room / "__init__.py", PACKAGE / f"{room}.py") if path.exists())
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def untrue(rooms: list[str], found: Arrows) -> Iterator[str]:
    """Yield a sentence for each room that imports what its docstring does not allow; a module beside the rooms has no such words."""
    for room in rooms:
        words = re.search(r"^May import: (.*?)(?:[.;]|$)", _docstring(room), re.MULTILINE)
        if words and (more := found[room] - allowed(words[1], rooms)):
            yield f"{room}: imports {', '.join(sorted(more))}, and its docstring says 'May import: {words[1]}'"


def allowed(words: str, rooms: list[str]) -> frozenset[str]:
    """Return the rooms that such words mean: every room, or those between backticks, with all that lie lower than the highest of them."""
    named = [room for room in re.findall(r"`(\w+)`", words) if room in rooms]
    if words == "every room":
        return frozenset(rooms)
    return frozenset(rooms[min(map(rooms.index, named)) :] if " below" in words else named)


def surface(package: Path = PACKAGE) -> list[str]:
    """Return a row for each module of `stackproof.api`: what it says of itself, and the names in it."""
    rows = ["| `stackproof.api` | what | names |", "|---|---|---|"]
    for path in sorted(package.glob("api/[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
        names = sorted(
            {f"`{alias.asname or alias.name}`" for node in found for alias in node.names},
            key=lambda name: (name.lower(), name),
        )
        rows.append(f"| `{path.stem}` | {ast.get_docstring(tree)} | {', '.join(names)} |")
    return rows


def fresh(page: str, made: str) -> str:
    """Return the page with what is made between its marks.

    Raises:
        SystemExit: the page has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"a page has no '{BEGIN}' and '{END}'; put them where what is made belongs")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def main(words: list[str]) -> int:
    """Write the page or check it; return 1 if it was to be checked and is not fresh."""
    rooms, found = order(), arrows()
    wrong = list(untrue(rooms, found))
    for path, lines in ((PAGE, [*picture(rooms, found), "", *table(rooms, found)]), (PLUG_INS, surface())):
        page = path.read_text(encoding="utf-8")
        made = fresh(page, "\n".join(lines))
        if "--check" not in words:
            write_atomically(path, made)
        elif made != page:
            wrong.append(
                f"{path}: what is imported has changed; run `PYTHONPATH=src .nox/lint/bin/python -m tools.architecture`"
            )
    print("".join(f"{one}\n" for one in wrong), end="", file=sys.stderr)  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
