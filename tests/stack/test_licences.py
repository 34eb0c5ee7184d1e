"""Licences as packages declare them: the exact form first, a text never, and silence is silence."""

from __future__ import annotations

from email.message import Message
from pathlib import Path
from typing import Any, cast

import pytest

from stackproof.stack import licences
from stackproof.stack.licences import Licence


def fields(*rows: tuple[str, str]) -> Any:
    """Return metadata with these rows."""
    message = Message()
    for key, value in rows:
        message[key] = value
    return cast(Any, message)


MIT = ("Classifier", "License :: OSI Approved :: MIT License")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("License-Expression", "Apache-2.0 OR BSD-2-Clause")], Licence("Apache-2.0 OR BSD-2-Clause")),
        ([("License-Expression", "mit")], Licence("MIT")),
        ([("License", "BSD-3-Clause"), MIT], Licence("BSD-3-Clause")),
        ([("License", "the text of\n a licence"), MIT], Licence(names=("MIT License",))),
        ([("License", "a very long line " * 20), MIT], Licence(names=("MIT License",))),
        ([("License", "Like Perl's"), MIT], Licence(names=("MIT License",))),
        ([MIT, ("Classifier", "License :: Public Domain")], Licence(names=("MIT License", "Public Domain"))),
        ([("Classifier", "License :: OSI Approved"), ("License", "Dual")], Licence(names=("Dual",))),
        ([("License", "odd\x1b[31m")], Licence(names=("odd\\x1b[31m",))),
        ([("License", "UNKNOWN")], None),
        ([("Classifier", "Programming Language :: Python")], None),
        ([], None),
    ],
)
def test_what_a_package_declares(rows: list[tuple[str, str]], found: Licence | None) -> None:
    assert licences.declared(fields(*rows)) == found


def test_environments_are_asked_by_name_and_version(tmp_path: Path) -> None:
    for prefix, version, said in (("a", "1.0", "MIT"), ("b", "1.0", "ISC"), ("b", "2.0", "Zlib")):
        folder = tmp_path / prefix / f"lib/python3.10/site-packages/Odd_Name-{version}.dist-info"
        folder.mkdir(parents=True)
        text = f"Metadata-Version: 2.4\nName: Odd_Name\nVersion: {version}\nLicense-Expression: {said}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
    known = licences.known([tmp_path / "a", tmp_path / "b", tmp_path / "absent"])
    assert {version: str(known["odd-name", version]) for version in ("1.0", "2.0")} == {"1.0": "MIT", "2.0": "Zlib"}
    assert ("odd-name", "3.0") not in known
