"""What there is to measure is data: every row can be measured, names are stable, slips are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.base.text import RATES
from stackproof.bench import engine, subjects
from stackproof.bench.subjects import Subject
from stackproof.project import projects
from stackproof.stack import capabilities, stacks
from stackproof.stack.stacks import Stack
from stackproof.workloads.catalogue import kinds

ROW = """
[[profile]]
name = "fast"
title = "a profile"
preset = "tiny"
noise = 0.1
seconds = 1
least = 5

[[subject]]
name = "thing"
version = "1"
kind = "gemm"
unit = "s/TFLOP"
title = "a thing"
profiles = ["fast"]
each = { mib = [0.5, 2.0], ranks = [2, 4] }
tiny = { size = 1 }
full = { size = 2 }
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "benchmarks.toml"
    path.write_text(ROW, encoding="utf-8")
    monkeypatch.setattr(subjects, "FILE", path)
    subjects._read.cache_clear()
    yield path
    subjects._read.cache_clear()


def everything(stack: Stack) -> list[Subject]:
    return [subject for profile in subjects.profiles() for subject in subjects.subjects(profile.name, stack)]


def test_profiles_are_the_promised_ones() -> None:
    assert [row.name for row in subjects.profiles()] == ["fast", "regular", "full"]
    assert [row.preset for row in subjects.profiles()] == ["tiny", "tiny", "full"]
    assert subjects.profile("full").budget.noise <= 0.01


def test_names_are_kebab_and_unique(cpu: Stack) -> None:
    for profile in subjects.profiles():
        names = [subject.name for subject in subjects.subjects(profile.name, cpu)]
        assert len(names) == len(set(names))
        assert all(re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name) for name in names), names


def test_every_row_can_be_measured(cpu: Stack) -> None:
    for subject in everything(cpu):
        assert subject.kind in {*kinds(), *engine._ELSEWHERE}
        assert subject.unit in (*RATES, "s", "ratio")
        assert set(subject.needs) <= set(capabilities.rules())
        assert set(subject.parameters["tiny"]) == set(subject.parameters["full"])


def test_the_users_workloads_are_in_every_profile(cpu: Stack) -> None:
    for profile in subjects.profiles():
        names = {subject.name for subject in subjects.subjects(profile.name, cpu)}
        assert {f"training-{name}" for name in ("yolov8n", "yolov8x", "qwen3-0.6b-lora", "llama3-8b-lora")} <= names


def test_a_listing_imports_no_torch() -> None:
    lists = "from stackproof.bench import subjects; from stackproof.stack import stacks; subjects.subjects('fast', stacks.load('cpu'))"
    code = f"import sys; {lists}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_names_are_refused_without_torch_also_in_a_project(tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "mine.py").write_text("import torch\n", encoding="utf-8")
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    blocked = "import sys; sys.modules['torch'] = None; from stackproof import cli; sys.exit(cli.main(sys.argv[1:]))"
    for verb in (["gate", "--same"], ["bench"], ["bisect", "--bad-env", "A=1"], ["night"]):
        words = [
            *verb,
            "--stack",
            "cpu",
            "--project",
            str(tmp_path),
            "--only",
            "training-mine",
            "--only",
            "gemm-flat32",
        ]
        done = subprocess.run([sys.executable, "-c", blocked, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "--only 'gemm-flat32' is no subject of any profile (did you mean 'gemm-float32'?)" in done.stderr


def test_without_a_project_no_other_workload_is_waited_for() -> None:
    with pytest.raises(Refusal, match="'training-nothing' is no subject"):
        subjects.require_named(["training-yolov8n", "training-nothing"])


def test_what_begins_as_a_project_s_subjects_do_may_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "mine.py").write_text("name = 'mine'\n", encoding="utf-8")
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    monkeypatch.setenv(places.PROJECT, "")
    projects.choose(str(tmp_path))
    try:
        subjects.require_named(["training-miine"])
        with pytest.raises(Refusal, match="'trainnig-miine' is no subject"):
            subjects.require_named(["trainnig-miine"])
    finally:
        projects.choose("")


def test_each_makes_one_subject_of_each_combination(table: Path, cpu: Stack) -> None:
    found = {subject.name: subject for subject in subjects.subjects("fast", cpu)}
    assert list(found) == [
        "thing-512-kib-2-ranks",
        "thing-512-kib-4-ranks",
        "thing-2-mib-2-ranks",
        "thing-2-mib-4-ranks",
    ]
    assert found["thing-2-mib-4-ranks"].parameters["full"] == {"size": 2, "mib": 2.0, "ranks": 4}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('profiles = ["fast"]', 'profiles = ["fsat"]', "'fsat' (did you mean 'fast'?)"),
        ("full = { size = 2 }", "full = { sise = 2 }", "must have the same keys as 'tiny'"),
        ('version = "1"', "version = 1", "'subject[0].version' is 1; it must be a string"),
        ('preset = "tiny"', 'preset = "small"', "allowed: 'tiny', 'full'"),
        ('title = "a thing"', 'titel = "a thing"', "is 'titel' meant?"),
    ],
)
def test_slips_are_refused_with_the_remedy(table: Path, cpu: Stack, old: str, new: str, words: str) -> None:
    table.write_text(ROW.replace(old, new), encoding="utf-8")
    with pytest.raises(Refusal, match=re.escape(words)):
        subjects.subjects("fast", cpu)


def test_two_rows_of_one_name_are_refused(table: Path, cpu: Stack) -> None:
    table.write_text(ROW + ROW[ROW.index("[[subject]]") :], encoding="utf-8")
    with pytest.raises(Refusal, match="two subjects 'thing-512-kib-2-ranks'"):
        subjects.subjects("fast", cpu)


def test_an_unknown_profile_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match=re.escape("there is no profile 'regulr' (did you mean 'regular'?)")):
        subjects.subjects("regulr", stacks.load("cpu"))
