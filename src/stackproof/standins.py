"""Stand-in wheels (metadata only) for vendors' wheels out of reach, and how a lock shows them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from .stacks import Stack, Vendor

# Zip files know no earlier time; a fixed one makes equal wheels equal bytes.
_EARLIEST = (1980, 1, 1, 0, 0, 0)
BACKSLASH = " \\\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: stackproof\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make(rows: Iterable[Vendor], folder: Path) -> Path:
    """Write one stand-in wheel a row into `folder` and return it, for `--find-links`.

    Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    """
    folder.mkdir(exist_ok=True)
    for row in rows:
        stem = f"{row.name.replace('-', '_')}-{row.version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for name, text in (("METADATA", _metadata(row)), ("WHEEL", _WHEEL), ("RECORD", "")):
                wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{name}", _EARLIEST), text)
    return folder


def without_hashes(body: str, rows: Sequence[Vendor]) -> str:
    """Return the lock's body with each stand-in's hash replaced by where the real wheel comes from."""
    stood_in = {canonicalize_name(row.name): row for row in rows}
    text = ""
    for head, rest in _entries(body):
        row = stood_in.get(canonicalize_name(head.partition("==")[0]))
        if row is None:
            text += head + rest
            continue
        notes = "".join(f"{line}\n" for line in rest.splitlines() if "--hash=" not in line)
        text += f"{head.rstrip(BACKSLASH)}\n    # no hash yet, from {source(row)}\n{notes}"
    return text


def count(body: str) -> int:
    """Return how many packages the body of a lock pins."""
    return sum(1 for _ in _entries(body))


def source(row: Vendor) -> str:
    """Return where the real wheel comes from."""
    return row.index or row.file


def explanation(stack: Stack, rows: Sequence[Vendor], again: str) -> list[str]:
    """Return the header's lines about wheels without a hash: which, where from, what completes them."""
    head = ["These wheels were out of reach here; name, version and source are exact:"]
    head += [f"  {row.pin}  {source(row)}" for row in rows]
    if any(row.file for row in rows):
        where = f"stacks/{stack.name}/wheels/"
        head += [f"No index serves them: download them into {where}, then `{again}` adds the hashes."]
    else:
        head += [f"On a machine that reaches their source `{again}` adds the hashes."]
    return head


def _metadata(row: Vendor) -> str:
    requires = "".join(f"Requires-Dist: {line}\n" for line in row.requires)
    return f"Metadata-Version: 2.1\nName: {row.name}\nVersion: {row.version}\n{requires}"


def _entries(body: str) -> Iterator[tuple[str, str]]:
    """Yield each pin as its first line and the lines that belong to it."""
    head, rest = "", ""
    for line in body.splitlines(keepends=True):
        if line[:1].isspace() or line.startswith("#"):
            rest += line
            continue
        if head:
            yield head, rest
        head, rest = line, ""
    if head:
        yield head, rest
