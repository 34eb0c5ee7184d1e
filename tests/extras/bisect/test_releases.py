"""Releases between two versions, as an index has them: asked one by one from the newest, each with its hashes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.extras.bisect.atoms import Atom, AtomKind
from stackproof.extras.bisect.releases import between, searchable
from stackproof.stack.lockfile import Pin

_UV = """#!{python}
import re, sys
known = "1.0 1.1 1.2rc1 1.2 1.3".split()
wanted = re.match(r"(\\S+)>(\\S+),<(\\S+)", open(sys.argv[-1]).read())
early = sys.argv[sys.argv.index("--prerelease") + 1] == "allow"
low, high = (known.index(wanted[at]) for at in (2, 3))
found = [one for one in known[low + 1 : high] if early or "rc" not in one]
if not found or {silent}:
    sys.exit("error: No solution found")
print(f"{{wanted[1]}}=={{found[-1]}} \\\\\\n    --hash=sha256:{{'a' * 64}} \\\\\\n    --hash=sha256:{{'b' * 64}}")
"""


def uv(tmp_path: Path, silent: bool = False) -> Path:
    """Return a program that answers as an installer does."""
    path = tmp_path / "uv"
    path.write_text(_UV.format(python=sys.executable, silent=silent))
    path.chmod(0o755)
    return path


def pin(version: str = "1.0", hashes: tuple[str, ...] = ("sha256:1",), path: str = "") -> Pin:
    """Return a pin of the package."""
    return Pin("alpha", version, "", hashes, path, "")


def package(before: str, after: str) -> Atom:
    """Return a changed package."""
    return Atom(AtomKind.PACKAGE, "alpha", before, after)


def test_releases_between_are_pins_oldest_first(tmp_path: Path) -> None:
    found = between(package("1.0", "1.3"), uv(tmp_path), "3.12")
    assert [one.version for one in found] == ["1.1", "1.2"] and found[0].name == "alpha"
    assert found[0].text == f"alpha==1.1 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n"
    early = between(package("1.1", "1.2rc1"), uv(tmp_path), "3.12")
    assert early == [] and [one.version for one in between(package("1.2rc1", "1.3"), uv(tmp_path), "3.12")] == ["1.2"]


def test_an_index_that_cannot_be_reached_is_no_index_without_releases(tmp_path: Path) -> None:
    path = tmp_path / "uv"
    path.write_text("#!/bin/sh\necho 'error: Failed to fetch / dns error' >&2; exit 2\n")
    path.chmod(0o755)
    with pytest.raises(Refusal, match="the index cannot be reached: error: Failed to fetch"):
        between(package("1.0", "1.3"), path, "3.12")


def test_an_index_that_has_none_between_gives_none(tmp_path: Path) -> None:
    assert between(package("1.0", "1.3"), uv(tmp_path, silent=True), "3.12") == []
    assert between(package("1.0", "1.3"), tmp_path / "nothing", "3.12") == []


@pytest.mark.parametrize(
    ("atoms", "is_searchable"),
    [
        ([package("1.0", "1.3")], True),
        ([package("1.3", "1.0")], False),
        ([package("none", "1.0")], False),
        ([package("1.0, 1.1", "1.3")], False),
        ([package("1.0 (12345678)", "1.0 (87654321)")], False),
        ([package("1.0", "1.3"), package("1.0", "1.2")], False),
        ([Atom(AtomKind.VARIABLE, "V", "1.0", "1.3")], False),
        ([], False),
    ],
)
def test_only_a_package_that_moves_alone_and_forward_is_searched(atoms: list[Atom], is_searchable: bool) -> None:
    assert (searchable(atoms, [pin("1.0"), pin("1.3")]) is not None) is is_searchable


@pytest.mark.parametrize("own", [pin(path="./wheels/alpha-1.0.whl"), pin(hashes=()), pin("1.0+xpu")])
def test_what_came_from_elsewhere_is_not_looked_up_under_its_name(own: Pin) -> None:
    assert searchable([package("1.0", "1.3")], [own, pin("1.3")]) is None
    assert searchable([package("1.0", "1.3")], [pin("1.0"), own]) is None
