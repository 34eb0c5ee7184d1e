"""The plugin: any asv command knows this host and the store, asks nothing, and keeps what it was told to keep."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from stackproof.base import processes

from .making import Checkout

RUN = ("run", "HEAD^!", "--bench", "float32")


def test_plain_asv_asks_nothing_and_keeps_the_figures(fresh: Checkout) -> None:
    home = fresh.root / "home"
    home.mkdir()
    ended = fresh.plain_asv(*RUN, HOME=str(home))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(home.iterdir()) == []
    (kept,) = fresh.stored()
    assert len(kept.measurements[0].samples) == 20
    assert "figures: records/cpu/" in ended.stderr
    assert list((fresh.root / ".asv" / "pieces").iterdir()) == []


def test_a_dry_run_keeps_nothing(fresh: Checkout) -> None:
    ended = fresh.plain_asv(*RUN, "--dry-run")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert fresh.files() == []
    assert fresh.stored() == []


def test_the_view_and_asv_write_the_same_file(checkout: Checkout) -> None:
    folder = checkout.root / ".asv" / "results" / "box"
    before = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in checkout.files()}
    (checkout.root / ".asv" / "results" / "view.index").unlink(missing_ok=True)
    assert checkout.plain_asv("publish").returncode == 0
    after = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in checkout.files()}
    assert set(before) == set(after)
    for name, row in before.items():
        assert row["params"] == after[name]["params"]
        assert row["results"].keys() == after[name]["results"].keys()
        assert [cells[0] for cells in row["results"].values()] == [
            cells[0] for cells in after[name]["results"].values()
        ]


def test_a_view_can_be_deleted(checkout: Checkout) -> None:
    before = checkout.files()
    shutil.rmtree(checkout.root / ".asv")
    ended = checkout.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert checkout.files() == before
    index = json.loads((checkout.root / ".asv" / "html" / "index.json").read_text(encoding="utf-8"))
    assert index["params"]["driver"] == ["550.54.14", "560.35.3"]


def test_damaged_records_are_told(checkout: Checkout) -> None:
    bad = checkout.results / "cpu" / "20260101T000000-asv-0000.record.json"
    bad.write_text("{", encoding="utf-8")
    ended = checkout.plain_asv("publish")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert bad.name in ended.stdout
    assert bad.with_name(f"{bad.name}.damaged").exists()
    assert len(checkout.files()) == 2


ON_CPU = ("--stack", "cpu", *RUN)


def test_a_stack_that_is_not_built_says_how_to_build_it(fresh: Checkout) -> None:
    ended = fresh.asv(*ON_CPU, STACKPROOF_PYTHON="")
    assert ended.returncode == 2
    assert "`nox -s cpu-smoke` builds it" in ended.stdout
    assert not (fresh.root / ".nox").exists()


def test_the_stack_s_own_environment_is_used(fresh: Checkout) -> None:
    home = fresh.root / ".nox" / "stacks" / "cpu" / "bin"
    home.mkdir(parents=True)
    used = fresh.root / ".nox" / "used"
    script = f'#!/bin/sh\necho "$PYTHONPATH" >> {used}\nexec {sys.executable} "$@"\n'
    (home / "python").write_text(script, encoding="utf-8")
    (home / "python").chmod(0o755)
    ended = fresh.asv(*ON_CPU, STACKPROOF_PYTHON="")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    paths = used.read_text(encoding="utf-8").splitlines()
    checkout = fresh.root / ".asv" / "env" / "cpu"
    assert paths[0] == str(fresh.root / "src")  # what it is, is asked once, with this checkout's code
    assert set(paths[1:]) == {f"{checkout / 'runner'}:{checkout / 'project' / 'src'}"}
    assert [path.name for path in (checkout / "runner").iterdir()] == ["asv_runner"]


def test_a_stack_that_the_host_lacks_is_unavailable(fresh: Checkout) -> None:
    definition = fresh.root / "stacks" / "cpu" / "stack.toml"
    text = definition.read_text(encoding="utf-8")
    definition.write_text(f'{text}\n[[host]]\nwhat = "a card"\npaths = ["/nonexistent/card"]\n', encoding="utf-8")
    ended = fresh.asv(*ON_CPU)
    assert ended.returncode == 3
    assert "this host has no stack 'cpu': it lacks a card" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_two_commands_do_not_measure_at_once(fresh: Checkout) -> None:
    folder = fresh.root / ".asv" / "env" / "cpu"
    folder.mkdir(parents=True)
    with (folder / "running.lock").open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        ended = fresh.asv(*ON_CPU)
    assert ended.returncode == 2
    assert "another asv command measures stack 'cpu' here" in ended.stdout


def test_forks_are_refused(fresh: Checkout) -> None:
    ended = fresh.asv(*ON_CPU, "--launch-method", "forkserver")
    assert ended.returncode == 2
    assert "use --launch-method spawn" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_what_a_benchmark_leaves_running_is_ended(fresh: Checkout, tmp_path: Path) -> None:
    engine = fresh.root / "src" / "stackproof" / "bench" / "engine.py"
    left = tmp_path / "left"
    start = f"""
    import subprocess
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path({str(left)!r}).write_text(str(child.pid))
"""
    text = engine.read_text(encoding="utf-8")
    engine.write_text(text.replace("    source =", f"{start}    source =", 1), encoding="utf-8")
    fresh.commit("Leave something running")
    assert fresh.asv(*ON_CPU).returncode == 0
    gone = Path("/proc") / left.read_text(encoding="utf-8")
    until = time.monotonic() + 240
    while gone.exists() and "Z" not in (gone / "stat").read_text().split()[2:3]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert processes.MARK not in os.environ


def test_a_stack_that_nobody_asked_for_is_in_nobody_s_way(fresh: Checkout) -> None:
    other = fresh.root / "stacks" / "other"
    shutil.copytree(fresh.root / "stacks" / "cpu", other)
    text = (other / "stack.toml").read_text(encoding="utf-8")
    (other / "stack.toml").write_text(text.replace("priority = 0", "priority = 9"), encoding="utf-8")
    python = fresh.root / ".nox" / "stacks" / "cpu" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    ended = fresh.plain_asv("run", "HEAD^!", "-E", "stack:cpu", "--bench", "just-discover", STACKPROOF_PYTHON="")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "`nox -s other-smoke` builds it" in ended.stdout


@pytest.mark.parametrize("spec", ["stack:cpu", "stack:cpu.rehearsal"])
def test_series_tell_a_rehearsal(fresh: Checkout, spec: str) -> None:
    ended = fresh.plain_asv("run", "HEAD^!", "-E", spec, "--bench", "float32")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (name,) = fresh.files()
    row = json.loads((fresh.root / ".asv" / "results" / "box" / name).read_text(encoding="utf-8"))
    rehearsed = spec.endswith("rehearsal")
    assert ("-rehearsed-" in name) is rehearsed
    assert row["params"]["stack"] == ("cpu (rehearsed)" if rehearsed else "cpu")
