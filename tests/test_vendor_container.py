"""A vendor's container, stood in for by a plain environment: the words of docs/start.md, typed as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.stack import environments, lockfile, stacks

HELD = ("torch==2.4.1", "torchvision==0.19.1", "numpy==1.26.4")
"""What the container of the stack `dcu` has, as the package index builds it."""


def documented() -> list[str]:
    """Return the commands of docs/start.md for somebody else's environment."""
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8").partition("## In somebody else's environment")[2]
    block = re.search(r"```\n(python .*?)```", text, re.DOTALL)  # behind how the container is started
    assert block
    return block[1].strip().splitlines()


def test_the_words_are_there() -> None:
    install, constraints, companions, smoke = documented()
    assert install == "python -m pip install -e ."
    assert constraints.startswith("python -m stackproof constraints dcu > ")
    assert " -c constraints.txt " in companions and smoke == "python -m stackproof smoke --stack dcu"


@pytest.mark.vendor
def test_documented_words_leave_the_vendors_builds_alone_and_the_rehearsal_passes(tmp_path: Path) -> None:
    uv, home = str(environments.find_uv()), tmp_path / "container"
    python = environments.find_interpreter(stacks.load("dcu"))
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env = {**clean, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def type_(command: str, folder: Path = ROOT) -> str:
        ended = subprocess.run(["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
        return ended.stdout

    type_(f"{python} -m venv {home}")
    type_(f"{uv} pip install --quiet --python {home / 'bin' / 'python'} {' '.join(HELD)}")
    for command in documented()[:-1]:
        type_(command.replace("constraints.txt", str(tmp_path / "constraints.txt")))
    there = {row["name"]: row["version"] for row in json.loads(type_("python -m pip list --format json"))}
    assert {name: there[name].partition("+")[0] for name, _, _ in (one.partition("==") for one in HELD)} == dict(
        one.split("==") for one in HELD
    )
    locked = lockfile.read(stacks.load("dcu").lock).expected(lockfile.environment_of("3.10"))
    for name in ("transformers", "ultralytics", "peft", "tokenizers"):
        assert there[name] == locked[name]
    type_(f"python -m stackproof rehearse --stack dcu --json {tmp_path / 'record.json'}", tmp_path)
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert (record["verdict"], record["provenance"]["pinned"]) == ("passed", False)
