"""Types are checked where torch's own are, by the hooks that `lint` and a commit run alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import environments
from tools import strict_types

yaml = pytest.importorskip("yaml")


def test_mypy_reads_the_types_of_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, said = tmp_path / "python", tmp_path / "said"
    (tmp_path / "mypy.py").write_text(
        f"import pathlib, sys\npathlib.Path({str(said)!r}).write_text(' '.join(sys.argv[1:]))\nsys.exit(3)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(environments, "prepare", lambda stack, say: python)
    assert strict_types.main(["--no-incremental"]) == 3
    assert said.read_text(encoding="utf-8") == f"--python-executable {python} --no-incremental"


def test_hooks_need_no_host_of_repositories() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    hooks = repos[0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "mypy"]
    assert len({(hook["language"], *hook["additional_dependencies"]) for hook in hooks}) == 1
