"""Environments: read from metadata without importing anything; held against stack, lock and one-to-one tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stackproof.doctor import installed, rules
from stackproof.doctor.installed import Installed
from stackproof.doctor.rules import Finding
from stackproof.stack import environments, lockfile, stacks
from stackproof.stack.variables import Level

from .. import fakes
from .boxes import Box

XPU = {
    "torch": "2.8.0+xpu",
    "torchvision": "0.23.0+xpu",
    "intel-extension-for-pytorch": "2.8.10+xpu",
    "oneccl_bind_pt": "2.8.0+xpu",
}
DCU = {
    "torch": "2.4.1+das.opt2.dtk2504",
    "torchvision": "0.19.1+das.opt2.dtk2504",
    "flash_attn": "2.6.1+das.opt4.dtk2504",
    "deepspeed": "0.14.2+das.opt2.dtk2504",
}


def own(box: Box, packages: dict[str, str], version: str = "3.10", torch: str = "") -> Installed:
    """Make the environment in the box and read it."""
    box.python(packages, version, torch)
    found = installed.own(box.machine())
    assert found is not None
    return found


def judged(found: Installed, **facts: str) -> list[Finding]:
    """Return what the rules for environments say, with facts of a host."""
    given = {name.replace("_", "."): value for name, value in facts.items()}
    return list(rules.load().judge("environment", {**given, **found.facts}))


def test_torch_is_read_without_importing_it(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    found = own(box, XPU, torch="cuda = None\nxpu: str = '20250101'\nraise SystemExit('imported')\n")
    assert (found.torch, dict(found.toolkits), found.python) == ("2.8.0+xpu", {"xpu": "20250101"}, "3.10")
    assert found.facts["oneccl-bind-pt"] == "2.8.0+xpu"
    assert "torch" not in sys.modules or not hasattr(sys.modules["torch"], "imported")


def test_bindings_of_the_cpu_are_at_home_beside_plain_torch_though_their_version_says_xpu(tmp_path: Path) -> None:
    box, packages = Box(tmp_path / "box"), {"torch": "2.8.0+cpu", "oneccl_bind_pt": "2.8.0+xpu"}
    assert judged(own(box, packages)) == []
    library = box.root / "opt/env/lib/python3.10/site-packages/oneccl_bindings_for_pytorch/lib"
    library.mkdir(parents=True)
    (library / "liboneccl_bindings_for_pytorch_xpu.so").touch()
    (finding,) = judged(own(Box(tmp_path / "box"), {}))
    assert finding.sentence.startswith("the oneCCL bindings 2.8.0+xpu for XPU stand beside plain torch 2.8.0+cpu")


def test_an_environment_without_torch_is_none(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    assert installed.own(box.machine()) is None
    box.python({"nox": "2025.1"})
    assert installed.own(box.machine()) is None


def test_a_damaged_torch_is_said_so(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    prefix = box.python({"torch": "2.8.0"})
    (prefix / "lib/python3.10/site-packages/torch/version.py").write_text("'", encoding="utf-8")
    found = installed.own(box.machine())
    assert found is not None
    assert found.torch == "that cannot be read"


@pytest.mark.parametrize(
    ("packages", "torch"),
    [
        (XPU, "xpu = '20250101'\n"),
        (DCU, "hip = '6.1'\n"),
        ({"torch": "2.8.0+cu128", "torchvision": "0.23.0", "nvidia-nccl-cu12": "2.27.3"}, ""),
    ],
)
def test_sound_environments_are_left_alone(tmp_path: Path, packages: dict[str, str], torch: str) -> None:
    assert judged(own(Box(tmp_path / "box"), packages, torch=torch), dtk="25.04.1", nvidia_driver="580.95.05") == []


@pytest.mark.parametrize(
    ("packages", "torch", "facts", "words"),
    [
        (
            XPU | {"torch": "2.8.0+cu128"},
            "cuda = '12.8'\n",
            {"nvidia_driver": "580.1"},
            "IPEX 2.8.10+xpu for XPU stands beside plain torch 2.8.0+cu128",
        ),
        (
            XPU | {"intel-extension-for-pytorch": "2.7.10+xpu"},
            "",
            {},
            "torch's release, IPEX and the oneCCL bindings must be one and the same",
        ),
        ({"torch": "2.8.0", "intel-extension-for-pytorch": "2.7.0"}, "", {}, "torch's release and IPEX must be one"),
        (
            XPU | {"torchvision": "0.22.0+xpu"},
            "",
            {},
            "torch 2.8.0+xpu goes with torchvision 0.23, not with 0.22.0+xpu",
        ),
        (
            DCU | {"flash_attn": "2.6.1+das.opt4.dtk2404"},
            "hip = '6'\n",
            {"dtk": "25.04"},
            "the DTK must be one and the same throughout",
        ),
        (DCU, "hip = '6'\n", {"dtk": "24.04.3"}, "dtk 24.04.3, torch 2.4.1+das.opt2.dtk2504"),
        (DCU, "hip = '6'\n", {}, "is built for a DTK, and /opt/dtk has none"),
        (
            DCU | {"pynvml": "11.5.3"},
            "hip = '6'\n",
            {"dtk": "25.04"},
            "dies with NameError: name 'amdsmi' is not defined",
        ),
        (DCU | {"nvidia-ml-py": "12.5"}, "hip = '6'\n", {"dtk": "25.04"}, "nvidia-ml-py 12.5 without amdsmi"),
        (
            {"torch": "2.15.0", "nvidia-nccl-cu12": "2.29.3", "nvidia-nccl-cu13": "2.29.7"},
            "",
            {},
            "two NCCLs share one folder",
        ),
        (
            {"torch": "2.2.0", "nvidia-nccl-cu11": "2.14.3", "nvidia-nccl-cu12": "2.27.3"},
            "",
            {},
            "two NCCLs share one folder",
        ),
        (
            {"torch": "2.15.0+cu132"},
            "cuda = '13.2'\n",
            {"nvidia_driver": "550.54.15"},
            "needs a driver from 580 on; this one is 550.54.15",
        ),
        ({"torch": "2.4.1+cu124"}, "cuda = '12.4'\n", {"nvidia_driver": "470.1"}, "needs a driver from 525 on"),
    ],
)
def test_each_conflict_is_named(
    tmp_path: Path, packages: dict[str, str], torch: str, facts: dict[str, str], words: str
) -> None:
    found = judged(own(Box(tmp_path / "box"), packages, torch=torch), **facts)
    assert [finding for finding in found if words in finding.sentence]
    assert all(finding.level is Level.PROBLEM and finding.remedy for finding in found)


def test_amdsmi_mends_pynvml(tmp_path: Path) -> None:
    assert (
        judged(own(Box(tmp_path / "a"), DCU | {"pynvml": "11.5.3", "amdsmi": "24.6"}, torch="hip = '6'\n"), dtk="25.04")
        == []
    )
    assert judged(own(Box(tmp_path / "b"), {"torch": "2.8.0+rocm6.4", "pynvml": "11.5.3"}, torch="hip = '6'\n")) == []


def test_the_wrong_python_for_a_dtk(tmp_path: Path) -> None:
    found = judged(own(Box(tmp_path / "box"), DCU, version="3.12", torch="hip = '6'\n"), dtk="25.04")
    assert "comes for Python 3.10, and this is Python 3.12" in " ".join(finding.sentence for finding in found)


def test_a_package_in_two_versions(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    prefix = box.python({"torch": "2.8.0+xpu", "numpy": "2.2.0"})
    site = prefix / "lib/python3.10/site-packages"
    (site / "torch-2.8.0.dist-info").mkdir()
    (site / "numpy-1.26.4.dist-info").mkdir()
    found = installed.own(box.machine())
    assert found is not None
    numpy, torch = installed.doubled(found)
    assert "numpy is there twice, as 1.26.4 and as 2.2.0" in numpy.sentence
    assert "torch is there twice, as 2.8.0 and as 2.8.0+xpu" in torch.sentence
    assert (numpy.level, torch.level) == (Level.WARNING, Level.PROBLEM)


def test_a_library_for_two_cudas_and_an_older_toolkit_on_the_path(tmp_path: Path) -> None:
    packages = {"torch": "2.4.1", "nvidia-cusparse-cu11": "11.7", "nvidia-cusparse-cu12": "12.3"}
    found = own(Box(tmp_path / "box"), packages, torch="cuda = '12.4'\n")
    (twice,) = installed.doubled(found)
    assert "nvidia-cusparse is there twice, as 11.7-cu11 and as 12.3-cu12" in twice.sentence
    (older,) = judged(found, **{"ld.toolkit": "12.1"})
    assert "leads to CUDA 12.1, older than the 12.4 of torch" in older.sentence
    assert judged(found, **{"ld.toolkit": "12.6"}) == []


def test_the_named_stack_wants_another_torch(tmp_path: Path) -> None:
    found, xpu = own(Box(tmp_path / "box"), {"torch": "2.8.0+cu128"}, torch="cuda = '12.8'\n"), stacks.load("xpu")
    (finding,) = installed.examine_own(found, xpu, [xpu])
    assert finding.level is Level.PROBLEM
    assert "torch.version.xpu is None, the stack wants it set" in finding.sentence
    assert "nox -s xpu-smoke" in finding.remedy


def test_without_the_card_only_the_rehearsal_can_be_built(tmp_path: Path) -> None:
    found = own(Box(tmp_path / "box"), {"torch": "2.8.0+cu128"}, torch="cuda = '12.8'\n")
    (finding,) = installed.examine_own(found, stacks.load("xpu"), [])
    assert "nox -s xpu-rehearse" in finding.remedy and "smoke" not in finding.remedy


def test_a_torch_that_does_not_know_the_hosts_cards(tmp_path: Path) -> None:
    found = own(Box(tmp_path / "box"), {"torch": "2.8.0"})
    present = [stacks.load(name) for name in ("xpu-native", "xpu", "cpu")]
    fine, idle = installed.examine_own(found, None, present)
    assert (fine.level, "the flavour of cpu" in fine.sentence) == (Level.OK, True)
    assert (idle.level, "of no use to this host's cards (stacks xpu-native, xpu)" in idle.sentence) == (
        Level.WARNING,
        True,
    )


def test_the_right_torch_fits(tmp_path: Path) -> None:
    found = own(Box(tmp_path / "box"), XPU, torch="xpu = '20250101'\n")
    (finding,) = installed.examine_own(found, None, [stacks.load(name) for name in ("xpu-native", "xpu", "cpu")])
    assert "the flavour of xpu-native, xpu" in finding.sentence


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stacks.Stack:
    """A stack with a lock of three packages, one of them for another Python, and an environment that is equal to it."""
    folder = fakes.stack(tmp_path / "checkout")
    other = "3.10" if fakes.THIS_PYTHON != "3.10" else "3.11"
    body = (
        "torch==9.1.0\nnumpy==2.2.0\n" + f"tomli==2.0.1 ; python_full_version < '3.4' or python_version == '{other}'\n"
    )
    fakes.lock(folder, body)
    real = stacks.load
    monkeypatch.setattr(stacks, "load", lambda name, folder=tmp_path / "checkout" / "stacks": real(name, folder))
    stack = stacks.load("tiny")
    site = environments.location(stack) / f"lib/python{fakes.THIS_PYTHON}/site-packages"
    for name in ("torch-9.1.0", "numpy-2.2.0", "stackproof-0.1.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(fakes.TORCH["torch/version.py"], encoding="utf-8")
    stamp = {"lock_digest": "0" * 64}
    (environments.location(stack) / environments.STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    return stack


def held(stack: stacks.Stack) -> Finding:
    """Return what is said of the stack's environment."""
    found = installed.built(stack)
    assert found is not None
    (finding,) = installed.examine_built(stack, found, [stack])
    return finding


def test_an_environment_that_is_its_lock(tiny: stacks.Stack) -> None:
    finding = held(tiny)
    assert (
        finding.sentence
        == "stack tiny: 2 packages have the versions of its lock (files are not read here), torch 9.1.0"
    )
    assert finding.level is Level.OK


def test_an_environment_that_is_not_its_lock(tiny: stacks.Stack) -> None:
    site = environments.location(tiny) / f"lib/python{fakes.THIS_PYTHON}/site-packages"
    (site / "numpy-2.2.0.dist-info").rename(site / "numpy-1.26.4.dist-info")
    (site / "pynvml-11.0.dist-info").mkdir()
    (site / "torch-9.1.0.dist-info").rmdir()
    finding = held(tiny)
    assert finding.level is Level.PROBLEM
    for words in ("numpy: lock 2.2.0, installed 1.26.4", "- torch==9.1.0 (in the lock", "+ pynvml==11.0 (installed"):
        assert words in finding.sentence
    assert finding.remedy.endswith("&& nox -s tiny-smoke")


def test_a_broken_lock_is_said(tiny: stacks.Stack) -> None:
    tiny.lock.write_text("rubbish\n", encoding="utf-8")
    assert held(tiny).level is Level.PROBLEM


def test_an_unfinished_environment_is_none(tiny: stacks.Stack) -> None:
    (environments.location(tiny) / environments.STAMP).unlink()
    assert installed.built(tiny) is None


def of_the_lock(name: str) -> dict[str, str]:
    """Return all that a stack's lock pins for its Python."""
    stack = stacks.load(name)
    return lockfile.read(stack.lock).expected(lockfile.environment_of(stack.pythons[0]))


def beside(tmp_path: Path, packages: dict[str, str], named: str = "dcu", version: str = "3.10") -> list[Finding]:
    """Return what is said of an environment that is not ours and has these packages."""
    found = own(Box(tmp_path / "box"), packages, version=version, torch="hip = '6'\n")
    return list(installed.examine_companions(found, stacks.load(named) if named else None, [stacks.load("dcu")]))


def test_companions_as_locked_are_told(tmp_path: Path) -> None:
    (finding,) = beside(tmp_path, of_the_lock("dcu"))
    assert finding.level is Level.OK
    assert "the companions that stack dcu asks for are in their ranges" in finding.sentence


@pytest.mark.parametrize("named", ["dcu", ""])
def test_companions_that_the_stack_does_not_ask_for(tmp_path: Path, named: str) -> None:
    wrong = {"transformers": "5.20.0", "numpy": "2.2.6"}
    (finding,) = beside(tmp_path, of_the_lock("dcu") | wrong, named)
    assert finding.level is Level.WARNING
    assert "transformers 5.20.0 (locked 4.45.0, asked for ==4.45.0)" in finding.sentence
    assert "numpy 2.2.6 (locked 1.26.4, asked for <2,>=1.26)" in finding.sentence
    assert finding.remedy.endswith("pip install -c constraints.txt transformers numpy")


def test_companions_that_are_near_or_absent(tmp_path: Path) -> None:
    packages = of_the_lock("dcu") | {"peft": "0.13.0", "torch": "2.4.1+das.opt1.dtk2504"}
    del packages["ultralytics"]
    (absent,) = beside(tmp_path, packages)
    assert absent.level is Level.NOTE
    assert "of stack dcu ultralytics is not installed" in absent.sentence and absent.remedy.endswith(" ultralytics")


def test_another_python_and_another_release_of_the_vendors(tmp_path: Path) -> None:
    packages = of_the_lock("dcu") | {"flash-attn": "2.0.4+das.opt1.dtk2504"}
    (finding,) = beside(tmp_path, packages, version="3.12")
    assert "Python 3.12 (the stack is for 3.10)" in finding.sentence
    assert "nox -s dcu-smoke" in finding.remedy
    assert "flash-attn 2.0.4+das.opt1.dtk2504 (locked 2.6.1+das.opt4.dtk2504)" in finding.sentence


def test_the_nearest_stack_is_meant(tmp_path: Path) -> None:
    found = own(Box(tmp_path / "box"), of_the_lock("xpu"), torch="xpu = '20250101'\n")
    (finding,) = installed.examine_companions(found, None, [stacks.load(name) for name in ("xpu-native", "xpu")])
    assert "stack xpu asks for are in their ranges" in finding.sentence


def test_an_environment_of_somebodys_own_is_for_no_stack(tmp_path: Path) -> None:
    found = own(Box(tmp_path / "box"), {"torch": "2.4.1", "numpy": "1.26.4"}, torch="cuda = '12.1'\n")
    cpu = stacks.load("cpu")
    assert list(installed.examine_companions(found, None, [cpu, stacks.load("cpu-ipex")])) == []
    first, *_ = installed.examine_companions(found, cpu, [cpu])
    assert first.level is Level.WARNING and f"torch 2.4.1 (locked {of_the_lock('cpu')['torch']}" in first.sentence
    assert "nox -s cpu-smoke" in first.remedy and "pip install" not in first.remedy
