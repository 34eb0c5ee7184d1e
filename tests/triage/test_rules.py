"""The tables of endings, facts and expectations are read strictly, and the ones in use are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.base import toml
from stackproof.base.errors import Refusal
from stackproof.triage import rules

from .making import write

LOADERS = {
    "endings.toml": lambda path: toml.kept(path, rules.Endings),
    "facts.toml": lambda path: toml.kept_rows(path, "fact", rules.Fact),
    "expectations.toml": lambda path: toml.kept(path, rules.Claims),
}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("endings.toml", 'wrappers = []\n[[ending]]\nrole = "fatale"\npatterns = ["abcdef"]', "did you mean 'fatal'?"),
        (
            "endings.toml",
            'wrappers = []\n[[ending]]\nrole = "fatal"\npatterns = ["a?"]',
            "need not contain any fixed text",
        ),
        ("endings.toml", 'wrappers = []\n[[ending]]\nrole = "fatal"\npatterns = ["("]', "no regular expression"),
        (
            "endings.toml",
            'wrappers = []\n[[ending]]\nrole = "exit"\nspan = 2\npatterns = ["abcdef"]',
            "'ending[0].texts' is missing",
        ),
        ("endings.toml", '[[ending]]\nrole = "fatal"\npatterns = ["abcdef"]', "'wrappers' is missing"),
        ("facts.toml", '[[fact]]\nrole = "asked for"\npatterns = ["abcdef"]', "did you mean 'asked'?"),
        ("facts.toml", '[[fact]]\npattern = ["abcdef"]', "'fact[0].patterns' is missing (is 'pattern' meant?)"),
        ("expectations.toml", '[[expectation]]\nname = "x"\ntitle = "y"', "'expectation[0].how' is missing"),
        (
            "expectations.toml",
            '[[expectation]]\nname = "x"\ntitle = "y"\nhow = "z"\n'
            '[[expectation.sign]]\npart = "p"\nanswer = "maybe"\npatterns = ["abcdef"]',
            "'maybe'",
        ),
    ],
)
def test_refusals_name_file_row_and_key(tmp_path: Path, name: str, text: str, words: str) -> None:
    write(tmp_path, text, name)
    with pytest.raises(Refusal) as caught:
        LOADERS[name](tmp_path / name)()
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert words in str(caught.value)


def test_every_expectation_can_be_proved_and_refuted() -> None:
    found = rules.expectations()
    assert set(found) == {"efa", "rdma", "nvlink", "shm", "ccl-ofi-tcp", "ccl-mpi", "xccl", "p2p", "ib"}
    for row in found.values():
        parts = {sign.part for sign in row.signs}
        assert all({sign.answer for sign in row.signs if sign.part == part} == {"yes", "no"} for part in parts)


def test_every_role_of_an_ending_is_in_use() -> None:
    assert {row.role for row in rules.endings()} == set(rules.ROLES)
    assert {row.role for row in rules.facts()} == set(rules.FACT_ROLES)


def test_contradictions_have_a_remedy_and_a_link() -> None:
    assert all(row.remedy and row.link.startswith("https://") for row in rules.claims().contradiction)
