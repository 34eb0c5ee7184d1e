"""The command that makes a record again, from the words that it was asked for with."""

from __future__ import annotations

import pytest

from stackproof.base import places, typed
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
        (told("night", "night --stack cuda --without verify --launches 2 --only gemm-float32"),
         "nox -s cuda-night -- --without verify --launches 2 --only gemm-float32"),
        (told("gate", "gate --stack cuda --base main --profile full"), "nox -s cuda-gate -- --base main --profile full"),
        (told("smoke", "smoke --stack cuda --device cuda:1", pinned=False), "python -m stackproof smoke --stack cuda --device cuda:1"),
        (told("drill", "drill --only x"), "python -m stackproof drill --only x"),
        (told("verify", "verify --stack cuda --only 'x; rm -rf ~'"), "nox -s cuda-verify -- --only 'x; rm -rf ~'"),
        (told("verify", "night --stack cuda"), ""),
        (told("verify", "verify 'open"), ""),
        (told("verify", ""), ""),
    ],
)  # fmt: skip
def test_a_record_is_made_again_with_its_flags(record: Record, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our session in a checkout; words of another verb, or that are no words, make no command."""
    monkeypatch.setattr(places, "INSTALLED", False)
    assert repeat.whole(record) == command


def test_a_record_keeps_the_words_of_its_call() -> None:
    """They are a fact from its first moment on, and a record that nobody typed has none."""
    with typed.kept(["night", "--stack", "cuda", "--json", "x"]):
        assert writer.begin("night", "cuda").provenance == {"typed": "night --stack cuda"}
    assert writer.begin("night", "cuda").provenance == {}
