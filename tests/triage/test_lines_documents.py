"""In a document only what a program printed is evidence; a log is no document, however wordy its libraries are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.record.records import Verdict
from stackproof.triage import lines, logs, reports

from .making import report

NOTES = """\
# Notes on our cluster

When the card's memory is full, you will see a message such as `RuntimeError: CUDA out of memory. Tried to allocate 2 GiB` and the
run ends. We then use a smaller batch, or we set this in the script before the job is sent to the queue:

```bash
export CCL_ATL_TRANSPORT=mpi
export NCCL_P2P_LEVEL=NVL
```
"""
FENCED = """
This is what it said when we tried it on the second node, and we do not know what it is:

```
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    step()
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity)
```
"""
WORDY = """\
W1015 11:02:17.841273251 run.py:766] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system
being overloaded, please further tune the variable for optimal performance in your application as needed.
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity)
"""


def test_sentences_and_recipes_are_only_mentioned(tmp_path: Path) -> None:
    found = report(tmp_path, NOTES + "h:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct\n")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.judgement.root, found.conflicts) == (None, ())
    assert "cuda-out-of-memory" in found.evidence.mentioned


def test_what_a_program_printed_is_evidence(tmp_path: Path) -> None:
    root = report(tmp_path, NOTES + FENCED).judgement.root
    assert root
    assert (root.signature, root.first.place.line) == ("cuda-out-of-memory", 17)


def test_a_log_is_no_document(tmp_path: Path) -> None:
    assert lines.document(WORDY.encode()) is None
    root = report(tmp_path, WORDY).judgement.root
    assert root
    assert root.signature == "cuda-out-of-memory"


def test_long_texts_are_logs() -> None:
    assert lines.document(NOTES.encode())
    assert lines.document(NOTES.encode() * 2000) is None


@pytest.mark.parametrize(
    ("line", "is_prose"),
    [
        ("If you see this, then the driver is too old and you have to update it.", True),
        ("> - It is also possible to set the variable in the script itself.", True),
        ("重装环境后失败，请问怎么解决", True),
        ("node1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", False),
        ("{'loss': 1.2, 'learning_rate': 1e-4, 'epoch': 1.0}", False),
        ("training finished", False),
    ],
)
def test_prose_is_plain_words(line: str, is_prose: bool) -> None:
    assert lines.is_prose(line) is is_prose


def test_advice_of_a_library_is_no_request(tmp_path: Path) -> None:
    hint = "2024:08:14-11:08:27:(1) |CCL_WARN| did not find MPI-launcher specific variables, switch to ATL/OFI, to force enable ATL/MPI "
    found = report(tmp_path, f"step 1\n{hint}set CCL_ATL_TRANSPORT=mpi\nstep 2\n")
    assert found.conflicts == ()
    asked = report(tmp_path, f"export CCL_ATL_TRANSPORT=mpi\n{hint}set CCL_ATL_TRANSPORT=mpi\n")
    assert asked.conflicts


def test_a_script_says_what_was_asked_for(tmp_path: Path) -> None:
    script, log = tmp_path / "run.sh", tmp_path / "train.log"
    script.write_text("#!/bin/bash\nset -e\nexport NCCL_ALGO=Ring\nexport NCCL_P2P_LEVEL=NVL\nsrun python train.py\n")
    log.write_text("h:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n")
    (run,) = logs.runs([str(script), str(log)], together=True)
    (conflict,) = reports.report(run).conflicts
    assert conflict.title == "NCCL_P2P_LEVEL=NVL was asked for, LOC is in effect"
