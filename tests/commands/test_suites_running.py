"""From options to a run: which suites, what is refused before anything runs or is written, what is handed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.errors import Refusal
from stackproof.device import devices
from stackproof.operators import explore
from stackproof.runner import runs
from stackproof.runner.request import Request
from stackproof.runner.suites import of_verb


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suite", "data", "--dataset", "/nowhere/train.jsonl"], "cannot be read (No such file or directory)"),
        (["--suite", "smoke", "--dataset", __file__], "only the suite 'data' reads it; add --suite data"),
    ],
)
def test_a_training_set_that_cannot_be_read_is_exit_code_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--results", str(tmp_path / "results")]
    assert cli.main(["verify", "--stack", "cpu", *arguments, *results]) == 2
    said = capsys.readouterr().err
    assert f"--dataset {arguments[-1]}: " in said
    assert words in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "suites"),
    [
        (["rehearse"], ("smoke",)),
        (["rehearse", "--suite", "all"], of_verb("verify") + of_verb("ddp")),
        (["verify"], of_verb("verify")),
        (["verify", "--suite", "data", "--suite", "all"], of_verb("verify") + of_verb("ddp")),
        (["verify", "--suite", "data", "--suite", "rng"], ("data", "rng")),
    ],
)
def test_suites_are_chosen_by_name_or_all_at_once(
    arguments: list[str], suites: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert planned(monkeypatch, tmp_path, *arguments).suites == suites


def test_a_training_set_is_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    request = planned(monkeypatch, tmp_path, "verify", "--suite", "data", "--dataset", Path(__file__).name)
    assert request.dataset == __file__
    assert request.facts()["dataset"] == __file__
    assert planned(monkeypatch, tmp_path, "verify").facts()["dataset"] == "none"


def planned(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> Request:
    """Return what a command line would have run."""
    seen: list[Request] = []

    def conduct(request: Request, *_: object) -> None:
        seen.append(request)
        raise Refusal("that is enough")

    monkeypatch.setattr(runs, "conduct", conduct)
    assert cli.main([*arguments, "--stack", "cpu", "--results", str(folder)]) == 2
    return seen[0]


def test_no_stack_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["smoke"]) == 2
    assert "which stack? add --stack with one of: cpu, cpu-ipex, cuda" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cpu:x", "cuda:0"])
def test_what_is_no_device_is_refused_before_anything_is_written(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["smoke", "--stack", "cpu", "--device", device, "--results", str(tmp_path / "results")])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "") and f"device '{device}' is not" in err
    assert not (tmp_path / "results").exists()


def test_no_flag_imports_torch_before_the_environment_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "parse", None)
    monkeypatch.setattr(explore, "cases", None)
    assert planned(monkeypatch, tmp_path, "smoke", "--device", "cpu:9").device == "cpu:9"
    assert planned(monkeypatch, tmp_path, "explore", "--case", "nothing").options["case"] == "nothing"
