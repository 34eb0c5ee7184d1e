"""The wheel alone: built, installed into an empty environment, used from another directory, nothing of the checkout in reach."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import environments

from . import fakes

LOG = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"


def run(command: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command where nothing points at this checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(command, cwd=cwd, env={**clean, **env}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run([str(environments.find_uv()), "build", "--quiet", "--wheel", "--out-dir", str(folder), "."], ROOT)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it with its dependencies into an empty environment and return the command `stackproof`."""
    home, uv = tmp_path_factory.mktemp("installed"), str(environments.find_uv())
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
        [uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), str(wheel)],
    ):
        ended = run(command, home)
        assert ended.returncode == 0, ended.stderr
    return home / "bin" / "stackproof"


def test_wheel_holds_what_is_read_at_run_time(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    for name in (
        "py.typed",
        "data/faults.toml",
        "record/record.schema.json",
        "_shipped/suites/pytest.ini",
        "_shipped/examples/project/workloads/vit.py",
    ):
        assert f"stackproof/{name}" in names
    ours = ROOT / "stacks"
    tables = {str(path.relative_to(ours)) for path in ours.glob("*/*") if path.is_file()}
    assert tables == {name.partition("_shipped/stacks/")[2] for name in names if "_shipped/stacks/" in name}
    assert not [name for name in names if name.startswith(("tests", "src", "fixtures")) or "/wheels/" in name]


def test_help_and_version(installed: Path, tmp_path: Path) -> None:
    shown = run([str(installed), "--help"], tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert {"smoke", "gate", "triage", "doctor"} <= set(shown.stdout.split())


def test_doctor_looks_at_every_stack(installed: Path, tmp_path: Path) -> None:
    looked = run([str(installed), "doctor", "--all"], tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert looked.returncode in (0, 1), looked.stderr
    assert "cpu: present" in looked.stdout
    assert "xpu-native" in looked.stdout
    assert list(tmp_path.iterdir()) == []


def test_triage_names_the_cause(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    read = run([str(installed), "triage", "train.log"], tmp_path)
    assert (read.returncode, read.stderr) == (1, "")
    assert "ROOT CAUSE  the driver is older than torch's CUDA" in read.stdout


def test_init_writes_a_project_that_is_found(installed: Path, tmp_path: Path) -> None:
    made = run([str(installed), "init", "mine"], tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    ended = run([str(installed), "smoke", "--stack", "cpu"], tmp_path / "mine" / "workloads")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    (tmp_path / "mine" / "stackproof.toml").write_text("names = 1\n", encoding="utf-8")
    broken = run([str(installed), "smoke", "--stack", "cpu"], tmp_path / "mine")
    assert broken.returncode == 2
    assert "'names' is not a known key (did you mean 'name'?)" in broken.stderr


def test_the_wheel_runs_without_being_installed(wheel: Path, tmp_path: Path) -> None:
    shown = run([str(environments.find_uv()), "tool", "run", "--from", str(wheel), "stackproof", "--help"], tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "init" in shown.stdout.split()


def test_pipx_runs_the_wheel_too(wheel: Path, tmp_path: Path) -> None:
    homes = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR")}
    command = [str(environments.find_uv()), "tool", "run", "pipx", "run", "--spec", str(wheel), "stackproof", "--help"]
    shown = run(command, tmp_path, **homes)
    assert shown.returncode == 0, shown.stderr
    assert "init" in shown.stdout.split()


HOUSE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "house-models"
version = "1.0"
[project.entry-points."stackproof.workloads"]
gru = "house_models.gru"
[project.entry-points."stackproof.stacks"]
house = "house_models.stacks"
[tool.hatch.build.targets.wheel]
packages = ["house_models"]
"""


@pytest.fixture(scope="session")
def theirs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's package that offers a workload and a stack, built and installed beside ours; return the command."""
    root, uv = tmp_path_factory.mktemp("theirs"), str(environments.find_uv())
    package = root / "house_models"
    (root / "pyproject.toml").write_text(HOUSE, encoding="utf-8")
    package.mkdir()
    (package / "__init__.py").touch()
    gru = (ROOT / "examples" / "project" / "workloads" / "gru.py").read_text(encoding="utf-8")
    (package / "gru.py").write_text(gru.replace('name = "gru"', 'name = "house-gru"'), encoding="utf-8")
    wheels = root / "wheels"
    wrong = {**fakes.TORCH, "torch/version.py": "__version__ = '9.1.0'\ncuda = None\nhip = '6'\nxpu = None\n"}
    fakes.lock(fakes.stack(package, "house"), fakes.pin(fakes.wheel(wheels, "torch", "9.1.0", wrong)))
    install = [uv, "pip", "install", "--quiet", "--python", str(root / "env" / "bin" / "python")]
    for command in (
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(root / "dist"), str(root)],
        [uv, "venv", "--quiet", "--python", sys.executable, str(root / "env")],
        [*install, str(wheel)],
        [*install, "--no-index", "--find-links", str(root / "dist"), "house-models"],
    ):
        ended = run(command, root)
        assert ended.returncode == 0, ended.stderr
    return root / "env" / "bin" / "stackproof"


@pytest.mark.slow
def test_a_stack_of_a_package_is_found_and_goes_on_in_its_environment(theirs: Path, tmp_path: Path) -> None:
    looked = run([str(theirs), "doctor", "--all"], tmp_path)
    assert "house: present - Tiny: a stack for tests" in looked.stdout and "cpu: present" in looked.stdout
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **fakes.offline(theirs.parents[2] / "wheels")}
    borrowed = str(fakes.borrowed(tmp_path / "borrowed"))
    ended = run([str(theirs), "smoke", "--stack", "house", "--locked"], tmp_path, PYTHONPATH=borrowed, **env)
    assert ended.returncode == 4, ended.stdout + ended.stderr
    assert "torch.version.hip is 6, the stack wants it unset" in ended.stdout
    assert "so house_models.gru and its workloads take no part" in ended.stderr
    (record,) = (tmp_path / "results" / "local" / "house").glob("*/record.json")
    assert json.loads(record.read_text(encoding="utf-8"))["verdict"] == "mismatched"


@pytest.mark.slow
def test_a_workload_of_a_package_is_verified(theirs: Path, tmp_path: Path) -> None:
    (site,) = theirs.parents[1].glob("lib/python3*/site-packages")
    (site / "torch.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    try:
        words = ["smoke", "--stack", "cpu", "--only", "smoke/workloads::float32[[]house-gru]", "--json", "out.json"]
        ended = run([str(theirs), *words], tmp_path)
    finally:
        (site / "torch.pth").unlink()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    (check,) = [row for row in found["checks"] if "house-gru" in row["id"]]
    assert check["verdict"] == "passed"
    assert "house_models/gru.py" in found["provenance"]["workload.house-gru"]


@pytest.mark.parametrize("words", [["lock", "cpu"], ["drill", "--fast"], ["asv", "run"]])
def test_what_needs_a_checkout_says_so(installed: Path, tmp_path: Path, words: list[str]) -> None:
    refused = run([str(installed), *words], tmp_path)
    assert refused.returncode == 2
    assert re.search(f"{words[0]}.* needs a checkout of stackproof", refused.stderr)
    assert "Traceback" not in refused.stderr


def test_pytest_has_the_flag_and_nothing_else_of_ours(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text("def test_it(): pass\n", encoding="utf-8")
    command = [str(installed.with_name("python")), "-m", "pytest", "-p", "no:cacheprovider"]
    assert "1 passed" in run(command, tmp_path).stdout
    refused = run([*command, "--stack", "cup"], tmp_path)
    assert refused.returncode == 2 and "there is no stack 'cup'" in refused.stdout + refused.stderr
    assert "INTERNALERROR" not in refused.stdout + refused.stderr


def test_smoke_without_torch_leaves_its_record_where_the_user_works(installed: Path, tmp_path: Path) -> None:
    ended = run([str(installed), "smoke", "--stack", "cpu"], tmp_path)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "--locked" in ended.stdout
    (record,) = (tmp_path / "results" / "local" / "cpu").glob("*/record.json")
    found = json.loads(record.read_text(encoding="utf-8"))
    assert (found["verdict"], found["provenance"]["commit"]) == ("unavailable", "version 0.1.0")


@pytest.mark.wheel
def test_smoke_with_the_lock(installed: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    keep = {"UV_CACHE_DIR": run([str(environments.find_uv()), "cache", "dir"], tmp_path).stdout.strip()}
    ended = run([str(installed), "smoke", "--stack", "cpu", "--locked"], tmp_path, XDG_CACHE_HOME=str(cache), **keep)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (cache / "stackproof" / "stacks" / "cpu" / "bin" / "python").exists()
    (record,) = (tmp_path / "results" / "local" / "cpu").glob("*/record.json")
    found = json.loads(record.read_text(encoding="utf-8"))
    assert found["verdict"] == "passed"
    assert found["provenance"]["pinned"] is True
