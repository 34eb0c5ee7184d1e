"""The command that makes a record again, from the words that it was asked for with."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base import advice, places
from stackproof.record import repeat, writer
from stackproof.record.records import Figure, Record


def told(verb: str, words: str, **facts: Figure) -> Record:
    """Return a record that was asked for with these words."""
    return Record(verb, "cuda", "2026-08-01T03:00:00.000+00:00", provenance={"typed": words, **facts})


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (told("verify", "verify --stack cuda --preset full"), "nox -s cuda-verify -- --preset full"),
        (told("verify", "verify --stack cuda"), "nox -s cuda-verify"),
        (told("smoke", "smoke --stack=cuda --device cuda:1"), "nox -s cuda-smoke -- --device cuda:1"),
        (told("night", "night --stack cuda --without verify --profile full --only gemm-float32"),
         "nox -s cuda-night -- --without verify --profile full --only gemm-float32"),
        (told("gate", "gate --stack cuda --base main --profile full"), "nox -s cuda-gate -- --base main --profile full"),
        (told("smoke", "smoke --stack cuda --device cuda:1", pinned=False), "python -m stackproof smoke --stack cuda --device cuda:1"),
        (told("drill", "drill --only x"), "nox -s drill -- --only x"),
        (told("verify", "verify --stack cuda --only 'x; rm -rf ~'"), "nox -s cuda-verify -- --only 'x; rm -rf ~'"),
        (told("verify", "night --stack cuda"), ""),
        (told("verify", "verify 'open"), ""),
        (told("verify", ""), ""),
    ],
)  # fmt: skip
def test_a_record_is_made_again_with_its_flags(record: Record, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "INSTALLED", False)
    assert repeat.command_of_record(record) == command


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (told("gate", "gate --stack cuda --same", commit="version 0.1.0"), "stackproof gate --stack cuda --same"),
        (told("verify", "verify --stack cuda", commit="version 0.1.0"), "stackproof verify --stack cuda --locked"),
        (told("drill", "drill --fast", commit="version 0.1.0"), "stackproof drill --fast"),
        (told("gate", "gate --stack cuda --same", commit="0123abcd"), "nox -s cuda-gate -- --same"),
        (told("watch", "watch --stack cuda", commit="version 0.1.0", command="python a.py 'b c'"),
         "stackproof watch --stack cuda -- python a.py 'b c'"),
        (told("gate", "gate --stack cuda --same", commit="0123abcd", **{"head.project.folder": "/a"}),
         "nox -s cuda-gate -- --project /a --same"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("package", [True, False])
def test_the_record_says_whether_there_were_sessions(
    record: Record, command: str, package: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "INSTALLED", package)
    assert repeat.command_of_record(record) == command


def test_what_is_installed_to_be_edited_has_no_sessions_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert repeat.command_of_record(told("verify", "verify --stack cuda")) == "stackproof verify --stack cuda --locked"


def test_a_record_keeps_the_words_of_its_call() -> None:
    with advice.typing(["night", "--stack", "cuda", "--json", "x"]):
        assert writer.begin("night", "cuda").provenance == {"typed": "night --stack cuda"}
    assert writer.begin("night", "cuda").provenance == {}


def test_the_command_carries_the_variables_of_the_user_and_none_of_the_host() -> None:
    facts = {
        "env.NVIDIA_TF32_OVERRIDE": "1",
        "env.SIM_FAULTS": "scale:op=a b",
        "env.SIM_CARDS (default of the stack)": "2",
        "env.LD_LIBRARY_PATH": "/x",
        "env.NVIDIA_VISIBLE_DEVICES": "all",
        "env.CUDA_VERSION": "13",
        "env.NCCL_PROTO": "x" * 100,
    }
    said = repeat.command_of_record(told("verify", "verify --stack cuda", commit="version 0.1.0", **facts))
    assert said == "NVIDIA_TF32_OVERRIDE=1 SIM_FAULTS='scale:op=a b' stackproof verify --stack cuda --locked"
