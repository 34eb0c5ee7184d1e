"""Write the table of random operators into docs/random-operators.md: `python -m tools.random_page`; `--check` writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from stackproof import ROOT
from stackproof.base.files import write_atomically
from stackproof.operators.draws import DRAWS

PAGE = ROOT / "docs" / "random-operators.md"
BEGIN = "<!-- made by `python -m tools.random_page` -->\n"


def rows() -> Iterator[str]:
    """Return the lines of the table: dtypes of one operator that draw alike stand in one line."""
    yield "| operator | dtypes | numbers | smallest error that 999 of 1000 seeds show |"
    yield "|---|---|---|---|"
    for draw in DRAWS:
        alike: dict[tuple[object, ...], list[str]] = {}
        for name in draw.dtypes:
            seen = tuple(f"{error:.2%}" for error in draw.seen(getattr(torch, name)).values())
            near = round(draw.count(getattr(torch, name)), -3)
            alike.setdefault((near, *seen), []).append(name)
        for names in alike.values():
            dtype = getattr(torch, names[0])
            what = [f"{name} to {error:.2%}" for name, error in draw.seen(dtype).items()]
            what += [*["both ends"] * draw.ends, *["none twice"] * draw.distinct]
            yield f"| `{draw.name}` | {', '.join(names)} | {draw.count(dtype):,} | {', '.join(what)} |"


def page(text: str) -> str:
    """Return the page with the table as it is now."""
    return text.partition(BEGIN)[0] + BEGIN + "\n" + "\n".join(rows()) + "\n"


def main() -> int:
    """Write the page, or say whether it is fresh."""
    old = PAGE.read_text(encoding="utf-8")
    if page(old) == old:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE}: is not what `python -m tools.random_page` writes", file=sys.stderr)  # noqa: T201
        return 1
    write_atomically(PAGE, page(old))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
