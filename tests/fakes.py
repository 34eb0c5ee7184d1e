"""Small real things that tests install, list and prove: wheels, locks, stacks, a checkout of its own."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.toml import read_toml
from stackproof.commands import plugins
from stackproof.stack import environments, lockfile

THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"

TORCH = {
    "torch/__init__.py": "from .version import __version__\n",
    "torch/version.py": "__version__ = '9.1.0'\ncuda: str | None = None\nhip = None\nxpu = None\n",
}

TINY = f"""\
title = "Tiny: a stack for tests"
python = ["{THIS_PYTHON}"]
device = "cpu"
backend = "gloo"
priority = 1
imports = ["torch"]
precisions = ["float32"]
visibility = ""
install_hint = "every host has it"

[flavour]
hip = "unset"
xpu = "unset"

[expected]
smoke = 1

[rehearsal]
device = "cpu"
backend = "gloo"
imports = ["torch"]

[rehearsal.flavour]
hip = "unset"
"""


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str] | None = None) -> Path:
    """Write a wheel that installers accept, with the digests and sizes of its files in RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    texts = {
        **(files or {f"{name.replace('-', '_')}.py": f"version = '{version}'\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{file},sha256={_digest(text)},{len(text.encode())}" for file, text in texts.items()]
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**texts, f"{info}/RECORD": "\n".join([*rows, f"{info}/RECORD,,", ""])}.items():
            archive.writestr(file, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def pin(path: Path, *more: str) -> str:
    """Return the lines of a lock for a wheel; `more` are further hashes."""
    name, version = path.name.split("-")[:2]
    hashes = [*more, f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"]
    return f"{name}=={version} \\\n" + " \\\n".join(f"    --hash={digest}" for digest in hashes) + "\n"


def lock(folder: Path, body: str, name: str = "requirements.lock") -> Path:
    """Write a lock whose header fits its body, and the stack beside it."""
    about = folder / "stack.toml"
    pythons = read_toml(about)["python"] if about.is_file() else [THIS_PYTHON]
    pins = [line for line in body.splitlines() if line[:1].isalnum()]
    header = {
        "stack": folder.name,
        "kind": "stack" if name == "requirements.lock" else "rehearsal",
        "python": ", ".join(pythons),
        "platform": "any",
        "packages": str(len(pins)),
        "unhashed": str(sum(not line.endswith("\\") for line in pins)),
        "content": lockfile.content_digest(body),
    }
    path = folder / name
    path.write_text("".join(f"# {key}: {value}\n" for key, value in header.items()) + body, encoding="utf-8")
    return path


def stack(root: Path, name: str = "tiny", definition: str = TINY) -> Path:
    """Write a stack's folder below `root`/stacks and return it."""
    folder = root / "stacks" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stack.toml").write_text(definition, encoding="utf-8")
    (folder / "requirements.in").write_text("torch>=1\n", encoding="utf-8")
    return folder


def checkout(root: Path, *stacks: str) -> Path:
    """Copy what runs from this checkout to `root`, with these of its stacks."""
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "suites", root / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "fixtures", root / "fixtures", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tools").mkdir()
    for name in ("noxfile.py", "pyproject.toml", "tools/sessions.toml"):
        shutil.copy(ROOT / name, root / name)
    (root / "stacks").mkdir(exist_ok=True)
    for name in stacks:
        shutil.copytree(ROOT / "stacks" / name, root / "stacks" / name)
    return root


def absent_verbs() -> set[str]:
    """Return the verbs of extras of ours that are not here."""
    known = read_toml(ROOT / "pyproject.toml")["project"]["entry-points"]["stackproof.verbs"]
    return set(known) - {entry.name for entry in plugins.verbs()}


def borrowed(folder: Path) -> Path:
    """Return a folder with links to the pure packages that `stackproof` itself needs, for PYTHONPATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("packaging", "rich", "pygments", "markdown_it", "mdurl", "fastjsonschema", "tomli"):
        found = [Path(path) / name for path in sys.path if (Path(path) / name).is_dir()]
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found[0])
    return folder


def offline(wheels: Path) -> dict[str, str]:
    """Return the environment variables that keep uv on one folder of wheels."""
    return {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(wheels), "UV_OFFLINE": "1"}


def venv(path: Path, *wheels: Path) -> Path:
    """Make an environment of this Python with the wheels in it and return its interpreter."""
    uv = str(environments.find_uv())
    run([uv, "venv", "--quiet", "--python", sys.executable, str(path)])
    python = path / "bin" / "python"
    if wheels:
        command = [uv, "pip", "install", "--quiet", "--no-index", "--no-deps", "--python", str(python)]
        run([*command, *map(str, wheels)])
    return python


def run(
    command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed and return what it printed."""
    ended = attempt(command, env=env, cwd=cwd)
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended


def attempt(
    command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command and return how it ended and what it printed."""
    full = {**os.environ, **(env or {})}
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=full, cwd=cwd, timeout=seconds, check=False
    )


def nox() -> list[str]:
    """Return the command that runs nox, as the `tests` session names it; without one the test fails."""
    if python := os.environ.get("STACKPROOF_NOX"):
        return [python, "-m", "nox"]
    if found := shutil.which("nox"):
        return [found]
    pytest.fail("nox is needed: run the tests with `nox -s tests`, or put nox on PATH")
