"""Every command that a page shows is one that the command line takes, in whichever language the page is."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.base.places import ROOT
from stackproof.stack import stacks

from . import fakes

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "containers").rglob("*.md")))
_CALL = re.compile(r"(?:^|&& |\$\()(?:python[0-9.]* -m )?stackproof (?=[a-z])(.*)")
_OPEN = re.compile(r"\.\.\.|\b(?:VERB|STEP)\b|[<>|\\[]|\$[({]")
_SESSION = re.compile(r"nox -s ([a-zA-Z-]+)")


def shown(page: Path) -> Iterator[str]:
    """Yield what stands as code: lines of blocks, joined where they go on, and spans."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S):
        yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def commands() -> list[tuple[str, str]]:
    """Return page and words of every whole command of ours."""
    found = [
        (str(page.relative_to(ROOT)), re.split(r" && |\s{3,}", call[1])[0].strip())
        for page in PAGES
        for line in shown(page)
        if (call := _CALL.search(line.strip()))
    ]
    return sorted({(page, words) for page, words in found if " " in words and not _OPEN.search(words)})


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Build the command line once."""
    return cli._parser()


def test_there_are_many() -> None:
    assert len(commands()) > 30 and any(page == "docs/zh/start.md" for page, _ in commands())


@pytest.mark.parametrize(("page", "words"), commands())
def test_it_is_a_command(
    page: str, words: str, parser: argparse.ArgumentParser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if (verb := words.split()[0]) in fakes.absent_verbs():
        pytest.skip(f"the extra with `{verb}` is not here")
    assert page and parser.parse_args(shlex.split(words)).run


def test_sessions_of_stacks_are_named_right() -> None:
    known = (*stacks.names(), "NAME", "STACK")
    plain = re.compile(r"smoke|verify|bench|gate|bisect|ddp|rehearse|sweep|asv|night|fleet")
    named = {(page.name, one) for page in PAGES for line in shown(page) for one in _SESSION.findall(line)}
    wrong = [
        (page, one)
        for page, one in named
        if (verb := one.rpartition("-")[2])
        and plain.fullmatch(verb)
        and one != verb
        and one[: -len(verb) - 1] not in known
    ]
    assert not wrong
