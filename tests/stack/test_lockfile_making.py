"""Making locks: vendors' wheels that can be reached, that cannot, and that lie in the wheelhouse."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.parser import Parser
from functools import partial
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import lockfile, stacks
from stackproof.stack.stacks import Vendor

DEFINITION = """\
title = "a stack for tests"
python = [{pythons}]
device = "cpu"
backend = "gloo"
priority = 0
imports = []
precisions = []
visibility = ""
install_hint = ""
[flavour]
[expected]
smoke = 1
[rehearsal]
device = "cpu"
backend = "gloo"
imports = []
substitutes = [{substitutes}]
[rehearsal.flavour]
[[vendor]]
name = "thing"
version = "1.0+xpu"
{source}
requires = ["dep>=1"]
"""
INPUTS = "tool>=1,<2\nthing==1.0+xpu\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
LOWEST = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing about it."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        ...


@dataclass
class Indexes:
    """A public index and a vendor's, both on this machine; `base` names a server that dies with the test."""

    folder: Path
    base: str

    def add(self, index: str, name: str, version: str, *requires: str) -> Path:
        """Publish a wheel; the index's page lists everything that lies in the package's folder."""
        folder = self.folder / index / name
        folder.mkdir(parents=True, exist_ok=True)
        return wheel(folder, name, version, *requires)

    def url(self, index: str) -> str:
        return f"{self.base}/{index}/"


def wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    stem = f"{name}-{version}"
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}",
        f"{stem}.dist-info/WHEEL": WHEEL,
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{stem}.dist-info/RECORD"])
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in {**files, f"{stem}.dist-info/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(inside), text)
    return path


@pytest.fixture(scope="session")
def uv() -> Path:
    """Find uv; without it nothing here can be shown, and that is a failure."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    assert found, "these tests need uv on PATH or beside this Python: python -m pip install uv"
    return Path(found)


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexes]:
    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        found = Indexes(tmp_path / "served", f"http://127.0.0.1:{server.server_port}")
        for name in [name for name in os.environ if name.startswith("UV_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("UV_DEFAULT_INDEX", found.url("public"))
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("UV_NO_CONFIG", "1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for version in ("1.0", "1.1"):
            found.add("public", "dep", version)
            found.add("public", "tool", version)
        yield found
        server.shutdown()
        thread.join()


def stack_of(
    folder: Path,
    source: str,
    inputs: str = INPUTS,
    substitutes: str = "",
    pythons: str = "",
) -> stacks.Stack:
    text = DEFINITION.format(pythons=pythons or f'"{LOWEST}"', source=source, substitutes=substitutes)
    (folder / "s").mkdir(parents=True, exist_ok=True)
    (folder / "s" / "stack.toml").write_text(text, encoding="utf-8")
    (folder / "s" / "requirements.in").write_text(inputs, encoding="utf-8")
    return stacks.load("s", folder)


def nothing(_: str) -> None: ...


def made(stack: stacks.Stack, uv: Path, *, upgrade: bool = False) -> lockfile.Lock:
    written = lockfile.lock(stack, uv, upgrade=upgrade, say=nothing)
    assert written[0] == stack.folder / "requirements.lock"
    return lockfile.read(written[0])


DEAD = 'index = "http://127.0.0.1:9/whl/"'
BY_HAND = 'file = "https://vendor.example/thing-1.0+xpu-py3-none-any.whl"'


def test_out_of_reach_is_pinned_without_a_hash_and_the_rest_is_whole(
    tmp_path: Path, indexes: Indexes, uv: Path
) -> None:
    lock = made(stack_of(tmp_path, DEAD), uv)
    assert {pin.requirement: pin.unhashed for pin in lock.pins} == {
        "dep==1.1": False,
        "thing==1.0+xpu": True,
        "tool==1.1": False,
    }
    text = lock.path.read_text(encoding="utf-8")
    assert "# unhashed: 1\n" in text and "#   thing==1.0+xpu  http://127.0.0.1:9/whl/\n" in text
    assert "`nox -s lock -- s` adds the hashes" in text
    note = "    # no hash yet, from http://127.0.0.1:9/whl/\n    # via requirements.in\n"
    assert f"thing==1.0+xpu\n{note}" in text
    assert indexes.base not in text


def test_index_that_answers_gives_hashes_and_the_true_requirements(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    indexes.add("vendor", "thing", "1.0+xpu", "other")
    indexes.add("vendor", "tool", "1.9")
    indexes.add("public", "other", "3.0")
    lock = made(stack_of(tmp_path, f'index = "{indexes.url("vendor")}"'), uv)
    assert [pin.requirement for pin in lock.pins] == ["other==3.0", "thing==1.0+xpu", "tool==1.1"]
    assert not lock.unhashed
    assert indexes.base not in lock.path.read_text(encoding="utf-8")


def test_index_without_the_wheel_is_out_of_reach(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    indexes.add("vendor", "thing", "1.1+xpu")
    lock = made(stack_of(tmp_path, f'index = "{indexes.url("vendor")}"'), uv)
    assert [pin.requirement for pin in lock.unhashed] == ["thing==1.0+xpu"]


def test_index_that_hangs_costs_little(
    tmp_path: Path, indexes: Indexes, uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockfile, "PROBE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        source = f'index = "http://127.0.0.1:{mute.getsockname()[1]}/"'
        assert len(made(stack_of(tmp_path, source), uv).unhashed) == 1


def test_completing_the_hashes_changes_no_version(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    first = made(stack_of(tmp_path, f'index = "{indexes.url("vendor")}"'), uv)
    indexes.add("vendor", "thing", "1.0+xpu", "dep>=1")
    indexes.add("public", "dep", "1.2")
    indexes.add("public", "tool", "1.2")
    shutil.rmtree(tmp_path / "cache")
    second = made(stacks.load("s", tmp_path), uv)
    assert first.unhashed and not second.unhashed
    assert first.expected() == second.expected()
    assert made(stacks.load("s", tmp_path), uv, upgrade=True).expected()["tool"] == "1.2"


def test_same_inputs_give_the_same_bytes(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, DEAD)
    first = made(stack, uv)
    assert made(stack, uv).digest == first.digest
    stack.lock.unlink()
    assert made(stack, uv).digest == first.digest


def test_wheel_put_there_by_hand_is_hashed_as_a_path(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, BY_HAND)
    assert len(made(stack, uv).unhashed) == 1
    text = stack.lock.read_text(encoding="utf-8")
    assert "with their files in stacks/s/wheels/, `nox -s lock -- s` adds the hashes" in text
    (stack.folder / "wheels").mkdir()
    wheel(stack.folder / "wheels", "thing", "1.0+xpu", "dep==1.0")
    lock = made(stack, uv)
    assert lock.expected() == {"dep": "1.0", "thing": "1.0+xpu", "tool": "1.1"}
    assert not lock.unhashed
    (thing,) = [pin for pin in lock.pins if pin.name == "thing"]
    assert thing.text.startswith("./wheels/thing-1.0+xpu-py3-none-any.whl ")
    assert str(tmp_path) not in stack.lock.read_text(encoding="utf-8")


def test_wheelhouse_lock_installs_with_hashes_after_a_move(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path / "before", BY_HAND)
    (stack.folder / "wheels").mkdir()
    wheel(stack.folder / "wheels", "thing", "1.0+xpu", "dep>=1")
    made(stack, uv)
    (tmp_path / "before").rename(tmp_path / "after")
    assert synced(uv, tmp_path / "after" / "s").returncode == 0
    asked: list[str | Path] = [tmp_path / "venv" / "bin" / "python", "-c", "import thing; print(thing.version)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "1.0+xpu\n"
    wheel(tmp_path / "after" / "s" / "wheels", "thing", "1.0+xpu", "dep>=1", "tool")
    swapped = synced(uv, tmp_path / "after" / "s")
    assert swapped.returncode != 0 and "hash mismatch" in swapped.stderr.lower()


def synced(uv: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Install the hashed part of a lock into a fresh environment, from a file that lies elsewhere."""
    root = folder.parents[1]
    (root / "hashed.txt").write_text(lockfile.read(folder / "requirements.lock").hashed_text(), encoding="utf-8")
    venv: list[str | Path] = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, root / "venv"]
    subprocess.run(venv, check=True)
    sync: list[str | Path] = [uv, "pip", "sync", "--require-hashes", "--python", root / "venv", root / "hashed.txt"]
    return subprocess.run(sync, cwd=folder, capture_output=True, text=True, check=False)


def test_stray_wheel_is_said_and_not_used(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, BY_HAND)
    (stack.folder / "wheels").mkdir()
    stray = wheel(stack.folder / "wheels", "thing", "1.1+xpu")
    said: list[str] = []
    lockfile.lock(stack, uv, say=said.append)
    assert f"{stray} is not what stack.toml names; not used" in said
    assert "thing==1.0+xpu cannot be had here; pinned without a hash" in said


def test_two_wheels_of_one_package_and_a_nameless_one_are_refused(tmp_path: Path, uv: Path) -> None:
    stack = stack_of(tmp_path, BY_HAND)
    (stack.folder / "wheels").mkdir()
    made_by_hand = wheel(stack.folder / "wheels", "thing", "1.0+xpu")
    shutil.copy(made_by_hand, made_by_hand.with_name("thing-1.0+xpu-cp310-cp310-linux_x86_64.whl"))
    with pytest.raises(Refusal, match="keep the one for this stack's Python"):
        lockfile.lock(stack, uv, say=nothing)
    made_by_hand.rename(made_by_hand.with_name("thing(1).whl"))
    with pytest.raises(Refusal, match="does not have a wheel's name"):
        lockfile.lock(stack, uv, say=nothing)


def test_rehearsal_takes_substitutes_and_the_same_companions(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    indexes.add("public", "thing", "1.0", "dep")
    stack = stack_of(tmp_path, DEAD, substitutes='"thing==1.0"')
    stack = replace(stack, vendor=(replace(stack.vendor[0], requires=("dep==1.0",)),))
    paths = lockfile.lock(stack, uv, say=nothing)
    assert paths == [stack.folder / "requirements.lock", stack.folder / "rehearsal.lock"]
    rehearsed = lockfile.read(stack.rehearse().lock)
    assert rehearsed.expected() == {"dep": "1.0", "thing": "1.0", "tool": "1.1"}
    assert rehearsed.header["kind"] == "rehearsal" and not rehearsed.unhashed
    text = rehearsed.path.read_text(encoding="utf-8")
    assert text.startswith("# REHEARSAL ")
    vias = [line.strip() for line in text.splitlines() if "# via" in line]
    assert vias == ["# via thing", "# via requirements.in", "# via requirements.in"]


def test_one_lock_serves_every_python_of_the_stack(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    inputs = 'thing==1.0+xpu\ndep==1.0; python_version < "3.11"\ndep==1.1; python_version >= "3.11"\n'
    stack = stack_of(tmp_path, DEAD, inputs, pythons='"3.12", "3.10"')
    lock = made(stack, uv)
    assert lock.expected({"python_full_version": "3.10.1"})["dep"] == "1.0"
    assert lock.expected({"python_full_version": "3.12.1"})["dep"] == "1.1"
    assert lock.header["python"] == "3.12, 3.10" and lock.header["platform"].startswith("any")


def test_override_leaves_a_requirement_out(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, DEAD)
    text = '# why\ndep>=1; python_version < "3"\n'
    (stack.folder / "overrides.in").write_text(text, encoding="utf-8")
    assert set(made(stack, uv).expected()) == {"thing", "tool"}


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ("tool>=7\nthing==1.0+xpu\n", "uv could not resolve it (Because only tool<=1.1 is available"),
        ("thing==2.0+xpu\n", "asks for 'thing==2.0+xpu' and stack.toml has thing==1.0+xpu"),
        ("other==1.0+xpu\n", "'other==1.0+xpu' is a vendor's build; add its [[vendor]] row"),
    ],
)
def test_failure_is_one_sentence_and_the_old_lock_survives(
    tmp_path: Path, indexes: Indexes, uv: Path, inputs: str, why: str
) -> None:
    stack = stack_of(tmp_path, DEAD)
    made(stack, uv)
    before = {path: path.read_bytes() for path in stack.folder.iterdir()}
    stack.inputs.write_text(inputs, encoding="utf-8")
    with pytest.raises(Refusal) as caught:
        lockfile.lock(stack, uv, say=nothing)
    assert why in str(caught.value) and "\n" not in str(caught.value)
    assert {**before, stack.inputs: inputs.encode()} == {path: path.read_bytes() for path in stack.folder.iterdir()}


def test_an_unwritable_lock_is_a_sentence(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, BY_HAND)
    stack.lock.mkdir()
    with pytest.raises(Refusal, match=r"cannot be written .*; the old lock is unchanged"):
        lockfile.lock(stack, uv, say=nothing)


def test_damaged_lock_is_made_anew(tmp_path: Path, indexes: Indexes, uv: Path) -> None:
    stack = stack_of(tmp_path, DEAD)
    good = made(stack, uv)
    stack.lock.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    assert made(stack, uv).digest == good.digest


ROW = Vendor("Some-Thing", "1.0+das.opt2", "", "https://vendor.example/thing.whl", ("numpy<2", "torch==2.4.1"))
BODY = """\
numpy==1.26.4 \\
    --hash=sha256:aa
    # via some-thing
some-thing==1.0+das.opt2 ; python_version < '3.12' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via requirements.in
torch==2.4.1 \\
    --hash=sha256:dd
"""


def test_wheel_declares_what_the_definition_says(tmp_path: Path) -> None:
    folder = lockfile.make([ROW], tmp_path / "standins")
    with zipfile.ZipFile(folder / "Some_Thing-1.0+das.opt2-py3-none-any.whl") as wheel:
        text = wheel.read("Some_Thing-1.0+das.opt2.dist-info/METADATA").decode()
    declared = Parser().parsestr(text)
    assert (declared["Name"], declared["Version"]) == ("Some-Thing", "1.0+das.opt2")
    assert declared.get_all("Requires-Dist") == ["numpy<2", "torch==2.4.1"]


def test_equal_rows_make_equal_bytes(tmp_path: Path) -> None:
    first, second = (next(lockfile.make([ROW], tmp_path / name).iterdir()) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_hash_of_a_stand_in_is_replaced_by_the_source() -> None:
    text = lockfile.without_hashes(BODY, [ROW])
    assert text.splitlines()[3:6] == [
        "some-thing==1.0+das.opt2 ; python_version < '3.12'",
        "    # no hash yet, from https://vendor.example/thing.whl",
        "    # via requirements.in",
    ]
    assert [line.split(":")[1] for line in text.splitlines() if "--hash" in line] == ["aa", "dd"]


def test_without_stand_ins_nothing_changes() -> None:
    assert lockfile.without_hashes(BODY, []) == BODY
    assert len(list(lockfile.entries(BODY))) == 3
