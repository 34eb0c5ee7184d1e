"""Environments: built from the lock with hashes, reused for nothing, else refused in one sentence."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base import places
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError
from stackproof.stack import environments, installed_files, lockfile, stacks

from .. import fakes
from .conftest import Sandbox


def silent(line: str) -> None: ...


def unasked(line: str) -> None:
    raise AssertionError(line)


def never(*arguments: object) -> Path:
    raise AssertionError("this must not be called")


def installed(python: Path) -> list[str]:
    code = "from importlib import metadata as m; print(*sorted(d.name for d in m.distributions()))"
    return fakes.run([str(python), "-c", code]).stdout.split()


def test_environment_is_its_lock(sandbox: Sandbox, wheels: Path) -> None:
    other = f"old==1.0 ; python_version < '3' \\\n    --hash=sha256:{'0' * 64}\n"
    stack = sandbox(other + fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    said: list[str] = []
    python = environments.prepare(stack, said.append)
    assert installed(python) == ["torch"]
    stamp = environments.stamp(environments.location(stack))
    assert stamp["lock_digest"] == lockfile.read(stack.lock).digest
    assert (stamp["stack"], stamp["lock"], stamp["rehearsed"]) == ("tiny", "requirements.lock", False)
    assert str(stamp["uv"]).startswith("uv ")
    assert str(places.PACKAGE.parent) in fakes.run([str(python), "-c", "import sys; print(sys.path)"]).stdout
    assert "stacks/tiny/requirements.lock (1 package)" in said[0]


def test_second_call_asks_nobody(sandbox: Sandbox, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    python = environments.prepare(stack, silent)
    monkeypatch.setattr(environments, "find_uv", never)
    monkeypatch.setattr(environments, "find_interpreter", never)
    monkeypatch.setattr(environments.processes, "run", never)
    assert environments.prepare(stack, unasked) == python


def test_rehearsal_without_substitutes_shares_the_environment(sandbox: Sandbox, wheels: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    assert environments.location(stack.rehearse()) == environments.location(stack)
    other = replace(stack, rehearsal=replace(stack.rehearsal, substitutes=("torch==9.1.0",))).rehearse()
    assert environments.location(other).name.startswith("tiny.rehearsal")


def test_stacks_of_two_projects_share_no_environment(sandbox: Sandbox, tmp_path: Path) -> None:
    """One that was rebuilt from its own lock took the files from under the other's runs."""
    stack = sandbox("")
    other = replace(stack, folder=tmp_path / "other" / "stacks" / "tiny")
    assert environments.location(other) != environments.location(stack)
    assert environments.location(stacks.load("cpu")).name == "cpu"


def test_changed_lock_rebuilds(sandbox: Sandbox, wheels: Path) -> None:
    torch, extra = fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH), fakes.wheel(wheels, "extra", "1.0")
    python = environments.prepare(sandbox(fakes.pin(torch) + fakes.pin(extra)), silent)
    assert installed(python) == ["extra", "torch"]
    python = environments.prepare(sandbox(fakes.pin(torch)), silent)
    assert installed(python) == ["torch"]


def test_unfinished_build_is_done_again(sandbox: Sandbox, wheels: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    python = environments.prepare(stack, silent)
    stamp = environments.location(stack) / environments.STAMP
    for left in ("", "{", "[]", '{"lock_digest": 5}'):
        stamp.write_text(left, encoding="utf-8")
        (environments.location(stack) / "litter").touch()
        assert environments.prepare(stack, silent) == python
        assert not (environments.location(stack) / "litter").exists()
        assert json.loads(stamp.read_text(encoding="utf-8"))["lock_digest"]


def test_environment_whose_interpreter_is_gone_is_rebuilt(sandbox: Sandbox, wheels: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    python = environments.prepare(stack, silent)
    python.unlink()
    python.symlink_to("/nonexistent/python")
    assert installed(environments.prepare(stack, silent)) == ["torch"]


def test_interpreter_that_is_a_program_of_its_own_is_a_mismatch(sandbox: Sandbox, wheels: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    python = environments.prepare(stack, silent)
    python.unlink()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    with pytest.raises(EnvironmentMismatchError, match="bin/python is not the link to Python"):
        environments.prepare(stack, silent)


def test_environment_of_another_checkout_is_rebuilt(sandbox: Sandbox, wheels: Path, tmp_path: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    environments.prepare(stack, silent)
    where = environments.location(stack) / environments.STAMP
    facts = json.loads(where.read_text(encoding="utf-8"))
    assert facts["checkout"] == str(tmp_path)
    where.write_text(json.dumps({**facts, "checkout": "/elsewhere"}), encoding="utf-8")
    said: list[str] = []
    environments.prepare(stack, said.append)
    assert len(said) == 1


def test_installations_share_an_environment_and_run_their_own_code(
    sandbox: Sandbox, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    monkeypatch.setattr(places, "INSTALLED", True)
    monkeypatch.setenv(places.SOURCE, "")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    said: list[str] = []
    for name in ("one", "two", "one"):
        package = tmp_path / name / "stackproof"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(f"NAME = {name!r}\n", encoding="utf-8")
        monkeypatch.setattr(places, "PACKAGE", package)
        monkeypatch.setattr(environments, "ROOT", package)
        python = environments.prepare(stack, said.append)
        assert fakes.run([str(python), "-c", "import stackproof; print(stackproof.NAME)"]).stdout.strip() == name
    assert len(said) == 1
    monkeypatch.setattr(environments, "ROOT", tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "gone")
    environments.prepare(stack, said.append)
    assert len(said) == 2


BUILD = """
import sys, time
from pathlib import Path
from stackproof.stack import environments
from stackproof.stack import stacks
environments.ROOT = Path(sys.argv[1])
environments.HOME = Path(sys.argv[1]) / ".nox" / "stacks"
if sys.argv[2:] == ["stall"]:
    environments.link_checkout = lambda environment: (print("stalled", flush=True), time.sleep(60))
environments.prepare(stacks.load("tiny", Path(sys.argv[1]) / "stacks"))
"""


def builder(root: Path, *arguments: str) -> subprocess.Popen[str]:
    source = {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", BUILD, str(root), *arguments]
    return subprocess.Popen(command, env={**os.environ, **source}, stdout=subprocess.PIPE, text=True)


def test_killed_build_is_done_again(sandbox: Sandbox, wheels: Path, tmp_path: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    with builder(tmp_path, "stall") as killed:
        assert killed.stdout is not None
        while "stalled" not in (line := killed.stdout.readline()):
            assert line, "the builder ended before it stalled"
        killed.send_signal(signal.SIGKILL)
    assert environments.python_of(environments.location(stack)).exists()
    assert environments.stamp(environments.location(stack)) == {}
    assert installed(environments.prepare(stack, silent)) == ["torch"]
    assert environments.stamp(environments.location(stack))["stack"] == "tiny"


def test_two_builders_at_once_build_once(sandbox: Sandbox, wheels: Path, tmp_path: Path) -> None:
    sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    both = [builder(tmp_path) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("building the environment" in text for text in said) == 1


def test_builder_that_waited_does_not_build_again(
    sandbox: Sandbox, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    said: list[str] = []
    with environments.only_builder(environments.location(stack)):
        waiting = threading.Thread(target=environments.prepare, args=(stack, said.append))
        waiting.start()
        time.sleep(0.3)
        environments._build(
            stack, lockfile.read(stack.lock), environments.location(stack), Path(sys.executable), silent
        )
    waiting.join(timeout=240)
    assert not waiting.is_alive()
    assert said == []


@pytest.mark.parametrize("decoys", [0, 8], ids=["one hash", "many hashes"])
def test_wrong_hash_is_a_mismatch_that_names_the_package(sandbox: Sandbox, wheels: Path, decoys: int) -> None:
    path = fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    more = [f"sha256:{n:064x}" for n in range(1, decoys + 1)]
    stack = sandbox(fakes.pin(path, *more).replace(digest, "f" * 64))
    with pytest.raises(EnvironmentMismatchError) as caught:
        environments.prepare(stack, silent)
    said = str(caught.value)
    assert caught.value.exit_code == 4
    for word in ("stacks/tiny/requirements.lock", "torch==9.1.0", digest, "nox -s lock --"):
        assert word in said
    assert "\n" not in said
    assert environments.stamp(environments.location(stack)) == {}


def test_tampered_wheel_is_a_mismatch(sandbox: Sandbox, wheels: Path) -> None:
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)))
    fakes.wheel(wheels, "torch", "9.1.0", {**fakes.TORCH, "torch/evil.py": "print('hello')\n"})
    with pytest.raises(EnvironmentMismatchError, match=r"torch==9\.1\.0"):
        environments.prepare(stack, silent)


def test_package_that_cannot_be_had_is_refused(sandbox: Sandbox, wheels: Path) -> None:
    path = fakes.wheel(wheels, "absent", "1.0")
    stack = sandbox(fakes.pin(path))
    path.unlink()
    with pytest.raises(Refusal, match=r"stacks/tiny/requirements\.lock: uv could not install it: .*absent") as caught:
        environments.prepare(stack, silent)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_damage_in_place_does_not_come_back_from_the_cache(
    sandbox: Sandbox, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    stack = sandbox(
        fakes.pin(
            fakes.wheel(
                wheels, "torch", "9.1.0", {**fakes.TORCH, "torch/settings.json": "{}", "torch/table.bin": "[1]"}
            )
        )
    )
    site = environments.site_packages(environments.prepare(stack, silent).parent.parent)
    for name in ("torch/version.py", "torch/settings.json", "torch/table.bin"):
        with (site / name).open("a", encoding="utf-8") as stream:
            stream.write(" ")
        (said,) = installed_files.compare(site, environments.stamp(environments.location(stack)), deep=True)[1]
        assert name in said
        shutil.rmtree(environments.location(stack))
        environments.prepare(stack, silent)
        assert environments.stamp(environments.location(stack))[installed_files.FLAWED] == {}
        assert installed_files.compare(site, environments.stamp(environments.location(stack)), deep=True)[1] == []


def test_a_wheel_whose_record_is_wrong_is_taken_as_its_archive_has_it(sandbox: Sandbox, wheels: Path) -> None:
    path = fakes.wheel(wheels, "torch", "9.1.0", fakes.TORCH)
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text + b"Summary: not in RECORD\n" if name.endswith("METADATA") else text)
    stack = sandbox(fakes.pin(path))
    environments.prepare(stack, silent)
    stamp = environments.stamp(environments.location(stack))
    assert list(stamp[installed_files.FLAWED]) == ["torch-9.1.0.dist-info/METADATA"]  # type: ignore[call-overload]


INDEX = '\n[[vendor]]\nname = "torch"\nversion = "9.1.0+x"\nindex = "http://127.0.0.1:9/whl"\n'
BY_HAND = '\n[[vendor]]\nname = "torch"\nversion = "9.1.0+x"\nfile = "https://vendor.example/torch.whl"\n'
SECOND = '\n[[vendor]]\nname = "triton"\nversion = "3.0+x"\nfile = "https://vendor.example/triton.whl"\n'


@pytest.mark.parametrize(
    ("vendor", "remedy"),
    [
        (INDEX, "check that http://127.0.0.1:9/whl can be reached, or put the wheels into"),
        (BY_HAND, "tiny/wheels/, then `stackproof lock tiny` adds the hashes"),
        (BY_HAND + SECOND, "check that https://vendor.example/torch.whl, https://vendor.example/triton.whl can be"),
    ],
    ids=["index out of reach", "one file by hand", "two files by hand"],
)
def test_vendor_wheels_out_of_reach(
    sandbox: Sandbox, wheels: Path, monkeypatch: pytest.MonkeyPatch, vendor: str, remedy: str
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.delenv("UV_OFFLINE")
    monkeypatch.setenv("UV_DEFAULT_INDEX", wheels.as_uri())
    plain = fakes.wheel(wheels, "plain", "1.0")
    stack = sandbox(fakes.pin(plain) + "torch==9.1.0+x\n", fakes.TINY + vendor)
    with pytest.raises(Refusal) as caught:
        environments.prepare(stack, silent)
    said = str(caught.value)
    assert "wheels without a hash (torch==9.1.0+x) could not be had" in said
    assert remedy in said
    assert "\n" not in said
    assert installed(environments.python_of(environments.location(stack))) == ["plain"]


def test_vendor_wheel_from_the_wheelhouse(sandbox: Sandbox, wheels: Path) -> None:
    unhashed = "torch==9.1.0+x\nother==1.0 ; python_full_version < '3'\n"
    stack = sandbox(fakes.pin(fakes.wheel(wheels, "plain", "1.0")) + unhashed, fakes.TINY + BY_HAND)
    fakes.wheel(stack.folder / "wheels", "torch", "9.1.0+x", fakes.TORCH)
    assert installed(environments.prepare(stack, silent)) == ["plain", "torch"]


def test_index_that_only_hashed_vendor_wheels_need_is_named(sandbox: Sandbox, wheels: Path) -> None:
    vendor = fakes.wheel(wheels, "torch", "9.1.0+x", fakes.TORCH)
    stack = sandbox(fakes.pin(vendor), fakes.TINY + INDEX)
    vendor.unlink()
    with pytest.raises(Refusal, match=r"besides the package index it needs http://127\.0\.0\.1:9/whl"):
        environments.prepare(stack, silent)


def test_no_interpreter_of_the_version(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = sandbox("", fakes.TINY.replace(f'["{fakes.THIS_PYTHON}"]', '["3.98", "3.99"]'))
    monkeypatch.setattr(environments, "find_uv", never)
    with pytest.raises(StackUnavailableError) as caught:
        environments.prepare(stack, silent)
    said = str(caught.value)
    assert caught.value.exit_code == 3
    assert said.startswith("stack 'tiny' needs Python 3.98 or 3.99 and none is installed")
    assert "`uv python install 3.98`" in said
    assert "`pyenv install 3.98`" in said
    assert "\n" not in said


def test_place_that_cannot_be_written_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    stack = sandbox("")
    for file in (environments.location(stack), tmp_path / ".nox"):
        shutil.rmtree(tmp_path / ".nox", ignore_errors=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        with pytest.raises(Refusal, match="cannot be built .*: /.*; free space, delete that folder, or make it"):
            environments.prepare(stack, silent)


def test_missing_or_damaged_lock_is_refused(sandbox: Sandbox) -> None:
    stack = sandbox("")
    stack.lock.write_text(stack.lock.read_text(encoding="utf-8") + "torch==1.0\n", encoding="utf-8")
    with pytest.raises(Refusal, match="stackproof lock tiny"):
        environments.prepare(stack, silent)
    stack.lock.unlink()
    with pytest.raises(Refusal, match="No such file"):
        environments.prepare(stack, silent)
    assert not environments.location(stack).exists()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def says(version: str) -> str:
    return f"#!/bin/sh\necho {version}\n"


SHIM = "#!/bin/sh\necho 'pyenv: python3.98: command not found' >&2\nexit 127\n"


@pytest.fixture
def pythons(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stacks.Stack:
    """A stack on Python 3.98 or 3.97, and a host that has neither yet."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    return sandbox("", fakes.TINY.replace(f'["{fakes.THIS_PYTHON}"]', '["3.98", "3.97"]'))


@pytest.mark.parametrize(
    "shim",
    [SHIM, "#!/nonexistent/interpreter\n", says("3.11"), "#!/bin/sh\nprintf '\\377\\376'\n", ""],
    ids=["inactive shim", "no such loader", "another version", "rubbish", "empty"],
)
@pytest.mark.parametrize(
    "place",
    ["bin/python3.98", "pyenv/versions/3.98.1/bin/python3.98", "uv/cpython-3.98.0-linux/bin/python3.98"],
)
def test_interpreter_that_does_not_run_is_passed_over(
    pythons: stacks.Stack, tmp_path: Path, shim: str, place: str
) -> None:
    script(tmp_path / "shims" / "python3.98", shim)
    real = script(tmp_path / place, says("3.98"))
    assert environments.find_interpreter(pythons) == real


def test_preferred_version_comes_first(pythons: stacks.Stack, tmp_path: Path) -> None:
    second = script(tmp_path / "shims" / "python3.97", says("3.97"))
    assert environments.find_interpreter(pythons) == second
    first = script(tmp_path / "uv/cpython-3.98.0-linux/bin/python3.98", says("3.98"))
    assert environments.find_interpreter(pythons) == first


def test_uv_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "shims" / "uv", SHIM)
    own = script(tmp_path / "tools" / "bin" / "uv", "#!/bin/sh\necho uv 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{os.environ['PATH']}")
    monkeypatch.setattr(environments, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(environments.sys, "executable", str(tmp_path / "nowhere" / "python"))
    assert environments.find_uv(print) == own


def test_uv_that_cannot_be_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environments, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(environments.sys, "executable", str(script(tmp_path / "python", SHIM)))
    with pytest.raises(Refusal, match="cannot make an environment for uv: pyenv"):
        environments.find_uv(print)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let it be made in a temporary checkout, from a folder with one wheel."""
    wheels = tmp_path / "wheels"
    fakes.wheel(wheels, "asv", "99.1.0")
    for name, value in fakes.offline(wheels).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "requirements.in").write_text("asv==99.1.0\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\ndependencies = []\n', encoding="utf-8"
    )
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ASV_HOME", tmp_path / ".nox" / "tools" / "asv")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path / "requirements.in")
    monkeypatch.setattr(environments, "PROJECT", tmp_path / "pyproject.toml")
    return tmp_path


def test_it_is_made_once(offline: Path) -> None:
    said: list[str] = []
    python = environments.prepare_asv(said.append)
    assert python.exists()
    assert len(list(offline.glob(".nox/tools/asv/lib/*/site-packages/asv.py"))) == 1
    (linked,) = offline.glob(".nox/tools/asv/lib/*/site-packages/stackproof.pth")
    assert linked.read_text(encoding="utf-8").strip() == str(ROOT / "src")
    assert environments.prepare_asv(said.append) == python
    assert len([line for line in said if "building" in line]) == 1
    (offline / "requirements.in").write_text("asv>=99\n", encoding="utf-8")
    environments.prepare_asv(said.append)
    assert len([line for line in said if "building" in line]) == 2


def test_the_judges_are_made_once_for_all_stacks(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "JUDGES_HOME", offline / "judges")
    said: list[str] = []
    project = offline / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(f'{text}[dependency-groups]\njudges = ["asv==99.1.0"]\n', encoding="utf-8")
    python = environments.prepare_judges(said.append)
    assert python.exists() and environments.prepare_judges(said.append) == python
    assert len([line for line in said if "building" in line]) == 1
    project.write_text(f'{text}[dependency-groups]\njudges = ["asv>=99"]\n', encoding="utf-8")
    environments.prepare_judges(said.append)
    assert len([line for line in said if "building" in line]) == 2


@pytest.mark.parametrize(
    ("said", "hinted"),
    [
        ("error sending request for url (https://index.example/simple/torch/)", True),
        ("dns error: failed to lookup address information: Temporary failure in name resolution", True),
        ("Caused by: tcp connect error: Connection refused (os error 111)", True),
        ("invalid peer certificate: UnknownIssuer", True),
        ("because torch==9 was not found in the package registry", False),
        ("error: Failed to build `x`", False),
    ],
)
def test_an_index_out_of_reach_is_told_with_the_variables_of_a_mirror(said: str, hinted: bool) -> None:
    assert ("UV_DEFAULT_INDEX" in environments.mirror_hint(said)) is hinted


def test_what_cannot_be_had_is_one_sentence(offline: Path) -> None:
    (offline / "requirements.in").write_text("asv==99.9.9\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(Refusal, match="asv's environment cannot be made: .*asv==99.9.9"):
            environments.prepare_asv(lambda _: None)


def test_asv_is_in_no_stack() -> None:
    for name in stacks.names():
        for file in (ROOT / "stacks" / name).glob("*.lock"):
            assert "\nasv==" not in file.read_text(encoding="utf-8"), file


def test_asv_is_pinned_exactly() -> None:
    text = environments.REQUIREMENTS.read_text(encoding="utf-8")
    assert "\nasv==0.6.6\n" in text
