"""A command is split, never run by a shell, and told without its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base.errors import Refusal
from stackproof.jobs import words


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python train.py --steps 50", ["python", "train.py", "--steps", "50"]),
        ("sh -c 'a | b > c'", ["sh", "-c", "a | b > c"]),
        ("python t.py --pattern 'a*b' \"x;y\" c\\;d", ["python", "t.py", "--pattern", "a*b", "x;y", "c;d"]),
        ("env A=1 python t.py", ["env", "A=1", "python", "t.py"]),
    ],
)
def test_words_are_those_of_a_shell(command: str, found: list[str]) -> None:
    assert words.split(command) == found


@pytest.mark.parametrize(
    ("command", "thing"),
    [
        ("python a.py && python b.py", "'&'"),
        ("python a.py | tee log", "'|'"),
        ("python a.py > log", "'>'"),
        ("python a.py; true", "';'"),
        ("python a.py $HOME", "'$'"),
        ('python a.py "$HOME"', "'$'"),
        ("python a.py `date`", "'`'"),
        ("python a.py data/*.csv", "'*'"),
        ("OMP_NUM_THREADS=1 python a.py", "'OMP_NUM_THREADS='"),
        ("cd x", "'cd'"),
        ("python 'a.py", "close the quotes"),
        ("", "is empty"),
        ("   ", "is empty"),
    ],
)
def test_what_needs_a_shell_is_refused_with_the_way_out(command: str, thing: str) -> None:
    with pytest.raises(Refusal, match="--command") as refused:
        words.split(command)
    assert thing in str(refused.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["t.py", "--token", "hf_x", "a"], "t.py --token '***' a"),
        (["t.py", "--api-key=abc"], "t.py '--api-key=***'"),
        (["env", "HF_TOKEN=abc", "t.py"], "env 'HF_TOKEN=***' t.py"),
        (["t.py", "--tokens-per-step", "5"], "t.py --tokens-per-step '***'"),
        (["t.py", "--steps", "5"], "t.py --steps 5"),
    ],
)
def test_a_record_holds_no_secret(given: list[str], shown: str) -> None:
    assert words.told(given) == shown


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("python train.py a", ["train.py", "a"]),
        ("uv run /usr/bin/python3.11 -u -X dev -W error train.py", ["train.py"]),
        ("python -m pkg.train --x", ["-m", "pkg.train", "--x"]),
        ("python -c 'print(1)'", None),
        ("python", None),
        ("python -m", None),
        ("torchrun train.py", None),
    ],
)
def test_pythons_file_is_found(command: str, rest: list[str] | None, tmp_path: Path) -> None:
    found = words.python_call(words.split(command))
    assert (list(found.rest) if found else None) == rest
    if found:
        assert found.inside(tmp_path)[-len(found.rest) - 1 :] == ["--", *found.rest]
