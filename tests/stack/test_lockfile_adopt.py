"""What people have in place of our lock: `pip freeze`, `uv pip compile`, an environment's folder; what pins no release is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.stack import lockfile, stacks

CPU = stacks.load("cpu")
OWN = lockfile.read(CPU.lock)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "HOME", tmp_path / "home")


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("torch==2.8.0+cu128\nzip_safe==1.0\n", {"torch": "2.8.0+cu128", "zip-safe": "1.0"}),
        ("# made by uv\nanyio==4.1 \\\n    --hash=sha256:" + "a" * 64 + "\n    # via httpx\n", {"anyio": "4.1"}),
        ("--index-url https://a.b\n-c limits.txt\nuvicorn[standard]==0.3  # why\n", {"uvicorn": "0.3"}),
        ("tomli==2.0 ; python_version < '3.12'\n", {"tomli": "2.0"}),
    ],
)
def test_lines_of_pins_become_a_lock_of_the_stack(tmp_path: Path, text: str, pins: dict[str, str]) -> None:
    path = tmp_path / "frozen.txt"
    path.write_text(text, encoding="utf-8")
    found = lockfile.read_of(lockfile.adopt(path, CPU), CPU)
    assert {pin.name: pin.version for pin in found.pins} == pins
    assert all(pin.hashes == (("sha256:" + "a" * 64,) if pin.name == "anyio" else ()) for pin in found.pins)


def test_an_environment_is_pinned_and_known_releases_keep_their_hashes(tmp_path: Path) -> None:
    known = OWN.pins[0]
    for name, version in ((known.name, known.version), ("pip", "25.0"), ("other", "1.0")):
        there = tmp_path / "env/lib/python3.11/site-packages" / f"{name}-{version}.dist-info"
        there.mkdir(parents=True)
        (there / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n", encoding="utf-8")
    found = lockfile.read_of(lockfile.adopt(tmp_path / "env", CPU), CPU)
    assert [(pin.name, pin.unhashed) for pin in found.pins] == [(known.name, False), ("other", True)]
    (tmp_path / "env/lib/python3.11").rename(tmp_path / "env/lib/python3.9")
    with pytest.raises(Refusal, match=r"is of Python 3.9, and 'cpu' runs on 3.11"):
        lockfile.adopt(tmp_path / "env", CPU)


def test_our_own_lock_stays(tmp_path: Path) -> None:
    assert lockfile.adopt(CPU.lock, CPU) == CPU.lock


def test_the_lock_of_another_stack_is_no_side(tmp_path: Path) -> None:
    assert lockfile.adopt_side(CPU.lock, CPU) == CPU.lock
    with pytest.raises(Refusal, match="is a lock of the stack 'sim', and 'cpu' is asked for; name a lock that"):
        lockfile.adopt_side(stacks.load("sim").lock, CPU)


def test_a_release_that_cannot_be_is_no_matter_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "frozen.txt"
    path.write_text("numpy==2x.0\n", encoding="utf-8")
    with pytest.raises(Refusal, match=r"is not a pin \(Invalid version: '2x.0'\); name a lock, what `pip freeze`"):
        lockfile.adopt(path, CPU)


@pytest.mark.parametrize(
    "text",
    [
        "numpy>=2\n",
        "a==1\n-r base.txt\n",
        "-e git+https://a.b/c#egg=d\n",
        "a @ file:///b\n",
        "",
        "\0\1",
        "{}",
        "a==1\na==2\n",
    ],
)
def test_what_pins_no_release_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "frozen.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refusal, match=r"frozen.txt: .*pins (no|a twice, 1 and 2; keep one)"):
        lockfile.adopt(path, CPU)


def test_pins_of_a_side_without_what_compares_it_are_refused(tmp_path: Path) -> None:
    (tmp_path / "frozen.txt").write_text("torch==2.8.0\n", encoding="utf-8")
    with pytest.raises(
        Refusal, match=r"has no .*pytest.*, which stackproof needs in every environment that it compares; "
    ):
        lockfile.adopt_side(tmp_path / "frozen.txt", CPU)
