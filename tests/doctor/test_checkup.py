"""A whole look at whole boxes: what is found, what counts, and that nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.doctor import checkup as doctor
from stackproof.doctor.checkup import Checkup
from stackproof.stack import environments, hosts, stacks
from stackproof.stack.variables import Level

from .. import fakes
from .boxes import Box, b60, bare, h200, k100


def found(checkup: Checkup, *levels: Level) -> list[str]:
    """Return the sentences of these levels."""
    return [finding.sentence for finding in checkup.findings if finding.level in levels]


@pytest.mark.parametrize(
    ("make", "present"),
    [
        (b60, {"xpu-native", "xpu", "cpu", "cpu-ipex"}),
        (k100, {"dcu", "cpu", "cpu-ipex"}),
        (h200, {"cuda", "cpu", "cpu-ipex"}),
        (bare, {"cpu", "cpu-ipex"}),
    ],
)
def test_sound_boxes_have_no_problem(tmp_path: Path, make: object, present: set[str]) -> None:
    box: Box = make(tmp_path / "box")  # type: ignore[operator]
    checkup = doctor.examine(None, box.machine())
    assert {stack.name for stack in checkup.presence.stacks_here} == present
    assert (checkup.exit_code, found(checkup, Level.PROBLEM)) == (0, [])
    assert {finding.area for finding in checkup.findings} == {"host", "cards", "environment", "variables"}


def test_the_slice_of_a_hygon_box_is_named(tmp_path: Path) -> None:
    checkup = doctor.examine("dcu", k100(tmp_path / "box").machine())
    assert any("this is a vDCU" in sentence for sentence in found(checkup, Level.WARNING))


def test_a_container_that_may_not_open_kfd(tmp_path: Path) -> None:
    machine = k100(tmp_path / "box").machine(member=False)
    for name in (None, "dcu"):
        checkup = doctor.examine(name, machine)
        (sentence,) = found(checkup, Level.PROBLEM)
        assert sentence.startswith("this user may not read and write /dev/kfd")
        assert checkup.exit_code == 1


def test_a_card_that_nobody_uses_is_no_problem_until_its_stack_is_named(tmp_path: Path) -> None:
    box = bare(tmp_path / "box").card("0000:00:01.0/0000:01:00.0", "0x10de", "0x2684", driver="nouveau")
    general = doctor.examine(None, box.machine())
    assert general.exit_code == 0
    assert any("is bound to nouveau" in sentence for sentence in found(general, Level.WARNING))
    named = doctor.examine("cuda", box.machine())
    assert named.exit_code == 1
    assert any("is bound to nouveau" in sentence for sentence in found(named, Level.PROBLEM))
    assert doctor.examine("cpu", box.machine()).exit_code == 0


def test_a_named_stack_that_the_host_lacks_is_a_problem(tmp_path: Path) -> None:
    checkup = doctor.examine("xpu", bare(tmp_path / "box").machine())
    (finding,) = [row for row in checkup.findings if row.level is Level.PROBLEM]
    assert finding.sentence.startswith("this host has no stack 'xpu': it lacks a GPU render node")
    assert finding.remedy == stacks.load("xpu").install_hint


def test_facts_of_host_and_environment_meet(tmp_path: Path) -> None:
    box = h200(tmp_path / "box").file(
        "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Module  550.54.15  Release\n"
    )
    box.python({"torch": "2.15.0+cu132"}, "3.12", "cuda = '13.2'\n")
    (sentence,) = found(doctor.examine(None, box.machine()), Level.PROBLEM)
    assert (
        sentence == "torch 2.15.0+cu132 is built for CUDA 13.2, which needs a driver from 580 on; this one is 550.54.15"
    )


def test_variables_are_part_of_it(tmp_path: Path) -> None:
    box = b60(tmp_path / "box")
    box.environ["ZE_AFFINITY_MASK"] = "0.1"
    assert any(
        "ZE_AFFINITY_MASK=0.1 means" in sentence
        for sentence in found(doctor.examine("xpu", box.machine()), Level.WARNING)
    )


def test_an_amd_box_is_no_hygon_box(tmp_path: Path) -> None:
    box = bare(tmp_path / "box").node("/dev/kfd")
    box.card("0000:00:01.0/0000:03:00.0", "0x1002", "0x740c", kind="0x038000", driver="amdgpu", render="renderD128")
    sentences = found(doctor.examine(None, box.node("/dev/dri/renderD128").machine()), *Level)
    assert any(sentence.startswith("1 x AMD device 0x740c") for sentence in sentences)
    assert not any("Hygon" in sentence for sentence in sentences)


def test_a_broken_definition_is_kept_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fakes.stack(tmp_path / "checkout", "bad", "title = 1\n").parent
    fakes.lock(fakes.stack(tmp_path / "checkout"), "torch==9.1.0\n")
    real, every, names = stacks.load, stacks.load_all, stacks.names
    monkeypatch.setattr(stacks, "load", lambda name, folder=folder: real(name, folder))
    monkeypatch.setattr(stacks, "names", lambda folder=folder: names(folder))
    monkeypatch.setattr(hosts, "load_all", lambda: every(folder))
    checkup = doctor.examine(None, bare(tmp_path / "box").machine())
    assert "bad/stack.toml" in str(checkup.presence.broken)
    assert [stack.name for stack in checkup.presence.stacks_here] == ["tiny"]


def test_an_environment_that_cannot_be_built_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(stack: stacks.Stack) -> Path:
        raise Refusal(f"stack '{stack.name}' needs Python 3.10 and none is installed")

    monkeypatch.setattr(environments, "find_interpreter", none)
    checkup = doctor.examine("xpu", b60(tmp_path / "box").machine())
    assert found(checkup, Level.WARNING) == [
        "the environment of stack xpu cannot be built: needs Python 3.10 and none is installed"
    ]
    assert checkup.exit_code == 0


def test_an_unknown_stack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="did you mean 'cuda'"):
        doctor.examine("cud", bare(tmp_path / "box").machine())


def test_nothing_is_changed(tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in sorted(box.root.rglob("*"))}

    box = k100(tmp_path / "box")
    before, variables = state(), dict(box.environ)
    for name in (None, *stacks.names()):
        doctor.examine(name, box.machine(member=False))
    assert (state(), box.environ) == (before, variables)


def test_this_very_machine_is_answered() -> None:
    checkup = doctor.examine()
    assert "cpu" in [stack.name for stack in checkup.presence.stacks_here]
    assert {finding.area for finding in checkup.findings} == {"host", "cards", "environment", "variables"}
