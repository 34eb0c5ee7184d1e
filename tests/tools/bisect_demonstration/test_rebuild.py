"""A wheel built anew is one that an installer takes, with the edit, and the lock names it by its hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.stack import lockfile
from tests.extras.bisect.locks import lock, pin
from tools.bisect_demonstration import rebuild


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a site-packages with one package."""
    site = tmp_path / "site"
    info = site / "some_package-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "some_package.py").write_text("value = 1\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    rows = ["some_package.py", *(f"{info.name}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "INSTALLER"))]
    (info / "RECORD").write_text("".join(f"{row},,\n" for row in [*rows, "../../../bin/tool", "some_package.pyc"]))
    return site


def test_the_wheel_installs_with_the_edit(environment: Path, tmp_path: Path) -> None:
    built = rebuild.wheel(
        "some-package", environment, ("some_package.py", "value = 1", "value = 2"), tmp_path / "wheels"
    )
    target = tmp_path / "target"
    words = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target), str(built)]
    subprocess.run([sys.executable, "-m", *words], check=True)
    assert (target / "some_package.py").read_text() == "value = 2\n"
    assert "Version: 1.0.post1" in (target / "some_package-1.0.post1.dist-info" / "METADATA").read_text()
    with pytest.raises(Refusal, match="0 times"):
        rebuild.wheel("some-package", environment, ("some_package.py", "nothing", ""), tmp_path / "wheels")


def test_the_lock_names_the_wheel_by_its_hash(environment: Path, tmp_path: Path) -> None:
    built = rebuild.wheel("some-package", environment, ("some_package.py", "1", "2"), tmp_path / "wheels")
    lock(tmp_path / "old.lock", pin("other", "3"), pin("some-package", "1.0"))
    rebuild.relock(tmp_path / "old.lock", "some-package", built, tmp_path / "new.lock")
    found = {one.name: one for one in lockfile.read(tmp_path / "new.lock").pins}
    assert found["some-package"].version == "1.0.post1" and found["other"].version == "3"
    assert found["some-package"].hashes == (f"sha256:{hashlib.sha256(built.read_bytes()).hexdigest()}",)
