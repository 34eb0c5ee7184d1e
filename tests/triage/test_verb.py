"""The verb as a user calls it: exit codes, one sentence for a refusal, a record, standard input, no torch and no network."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.record import reading
from stackproof.record.records import Verdict
from tools import triage_corpus

from .making import write


def triage(*arguments: str, stdin: bytes | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the verb in a process of its own."""
    command = [sys.executable, "-m", "stackproof", "triage", *arguments]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, input=stdin, capture_output=True, env=environment, cwd=cwd, timeout=120, check=False)


@pytest.mark.parametrize(
    ("arguments", "code", "first"),
    [
        (["plain-training.log"], 6, "CANNOT SAY  no failure"),
        (["dcu-lora-eight-cards.log"], 0, "CLEAN  it ended well (line "),
        (["nccl-duplicate-gpu-two-nodes.log"], 1, "ROOT CAUSE  rank 0 (then 1): two ranks on one card"),
        (["efa-missing-in-container.log"], 1, "ROOT CAUSE  the EFA plug-in of NCCL finds no provider"),
        (["efa-with-rdma.log", "--expect", "efa", "--expect", "rdma"], 0, "CLEAN"),
        (["efa-without-rdma.log", "--expect", "rdma"], 1, "NOT HELD  rdma: no: "),
        (["torchrun-per-rank"], 1, "ROOT CAUSE  rank 2: the card's memory is full"),
        (["slurm-per-task/slurm-4711-0.out", "slurm-per-task/slurm-4711-1.out"], 1, "ROOT CAUSE  rank 1: Slurm killed"),
        (
            ["two-faults-disk-then-memory.log", "plain-training.log", "--together"],
            1,
            "ROOT CAUSE  rank 0: the disk is full",
        ),
    ],
)
def test_exit_code_and_first_line(arguments: list[str], code: int, first: str) -> None:
    ended = triage(*arguments, cwd=triage_corpus.FOLDER)
    assert (ended.returncode, ended.stderr) == (code, b"")
    assert ended.stdout.decode().startswith(first)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothere.log"], "nothere.log: there is no such log"),
        (["plain-training.log", "--expect", "efaa"], "did you mean 'efa'?"),
        (["plain-training.log", "--json", "plain-training.log/r.json"], "cannot be written"),
    ],
)
def test_refusal_is_one_sentence(arguments: list[str], words: str) -> None:
    ended = triage(*arguments, cwd=triage_corpus.FOLDER)
    assert (ended.returncode, ended.stdout) == (2, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith(("stackproof: ", "stackproof triage: "))
    assert words in line


def test_standard_input_and_gzip() -> None:
    data = (triage_corpus.FOLDER / "cuda-driver-too-old.log").read_bytes()
    for stdin in (data, gzip.compress(data)):
        ended = triage("-", stdin=stdin)
        assert ended.returncode == 1
        assert ended.stdout.decode().startswith("ROOT CAUSE  the driver is older than torch's CUDA")


def test_record_is_written(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    ended = triage("dcu-lora-eight-cards.log", "--stack", "dcu", "--json", str(path), cwd=triage_corpus.FOLDER)
    record = reading.read(path)
    assert (ended.returncode, record.stack, record.verdict) == (0, "dcu", Verdict.PASSED)


def test_gzip_that_is_cut_short_says_so(tmp_path: Path) -> None:
    path = write(
        tmp_path, gzip.compress((triage_corpus.FOLDER / "xpu-lora-two-cards.log").read_bytes())[:2000], "run.log.gz"
    )
    ended = triage(str(path))
    assert ended.returncode == 6
    assert "is cut short" in ended.stdout.decode()


def test_it_needs_no_torch() -> None:
    code = (
        "import sys\nfrom stackproof.cli import main\n"
        f"code = main(['triage', {str(triage_corpus.FOLDER / 'plain-training.log')!r}])\n"
        "print(code, sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.decode().splitlines()[-1] == "6 []"
