"""The flags of `bisect`: what is refused before anything is built, and what the help says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof import cli


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "both ends are this checkout; name what differs: --good REF"),
        (("--good", "HEAD", "--bad", "HEAD"), "both ends are HEAD"),
        (("--bad-env", "A=1", "--good-env", "A=1"), "both ends are this checkout, A=1; name what differs"),
        (("--good", "HEAD", "--what", "gemm-float3"), "did you mean 'gemm-float32'"),
        (("--good", "HEAD", "--what", "gemm-float32::tme"), "nothing that is compared (did you mean"),
        (("--good", "HEAD", "--what", "gemm-float32::tmie"), "(did you mean 'time'?); there are: time"),
        (("--good", "HEAD", "--what", "smoke/workloads"), "is no check (did you mean"),
        (
            ("--good", "HEAD", "--what", "smoke/workload::float32[yolov8n]"),
            "(did you mean 'smoke/workloads::float32'?)",
        ),
        (("--good", "HEAD", "--what", "smokey/ddp::x"), "is no check"),
        (("--good", "HEAD", "--what", "operators", "--command", "true"), "leave one out"),
        (("--good", "no.lock"), "--good no.lock: cannot be read"),
        (("--good", "no-such-commit"), "no commit, branch or tag"),
        (("--good", "HEAD", "--bad-source", "ultralytics=/nowhere"), "name a checkout"),
        (("--good", "HEAD", "--unpinned", "/nowhere/python"), "--unpinned /nowhere/python"),
        (("--good", "HEAD", "--only", "gemm"), "--only 'gemm' is no subject"),
    ],
)
def test_slips_are_refused_in_one_sentence(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(("bisect", "--stack", "cpu", *words, "--results", str(tmp_path))) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "word", ["operators", "graph-breaks", "gemm-float32", "gemm-float32::peak-memory", "process::start-up"]
)
def test_what_may_be_searched(word: str) -> None:
    from stackproof.extras.bisect.command import check_what

    check_what(word)


def test_the_help_says_what_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(("bisect", "--help"))
    said = " ".join(capsys.readouterr().out.split())
    assert "7 not reproduced: both ends are alike" in said and "125 says nothing" in said
