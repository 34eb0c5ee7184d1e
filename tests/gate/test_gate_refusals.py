"""What the comparing verbs refuse before anything is built or started."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli
from stackproof.gate import plan


def _refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(arguments)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("gate",), "which stack"),
        (("gate", "--stack", "cpu"), "both sides are this checkout"),
        (("gate", "--stack", "cpu", "--head-env", "NCCL_PROTO"), "NAME=VALUE"),
        (("gate", "--stack", "cpu", "--head-drill", "sping"), "did you mean 'spin'"),
        (("gate", "--stack", "cpu", "--same", "--profile", "fats"), "did you mean 'fast'"),
        (("gate", "--stack", "cpu", "--base", "no-such-commit", "--unpinned"), "no commit, branch or tag"),
        (("gate", "--stack", "cpu", "--head-lock", "x.lock", "--unpinned"), "installs nothing"),
        (("sweep", "--stack", "cpu"), "what is swept"),
        (("sweep", "--stack", "cpu", "--env", "OMP_NUM_THREAD=1,2"), "OMP_NUM_THREADS is; with this one nothing"),
        (("gate", "--stack", "cpu", "--head-env", "NCCL_BUFSIZE=1"), "NCCL_BUFFSIZE is; with this one nothing"),
    ],
)
def test_slips_are_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = _refusal(capsys, *arguments, "--results", str(tmp_path))
    assert code == 2
    assert sentence in said


@pytest.mark.parametrize(("kind", "profile"), [("cpu", "fast"), ("sim", "fast"), ("cuda", "full"), ("xpu", "full")])
def test_a_card_is_given_work_that_it_waits_for(kind: str, profile: str) -> None:
    assert plan.load().profile(kind) == profile
