"""What a pattern must contain is a text of every match, and of none too few."""

from __future__ import annotations

import re

import pytest

from stackproof.triage import reports
from stackproof.triage.search import texts_of


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"Duplicate GPU detected : rank \d+ and", [b"Duplicate GPU detected : rank "]),
        (r"(?:abc|defg) x?", [b"abc ", b"defg "]),
        (r"via (?:NET|P2P)/\w+ to host", [b"via NET/", b"via P2P/"]),
        (r"(?:aborted)? because of", [b" because of"]),
        (r"^\s*exitcode\s*: -9", [b"exitcode"]),
        (r"(?:long text){2,}", [b"long text"]),
        (r"a(b)?c", []),
        (r"(?:abc|x)", []),
        (r"(?i)warning", []),
        (r"(?i:warning) of", [b" of"]),
        (r"grad_norm: (?:nan|0\.0+)", [b"grad_norm: 0.0", b"grad_norm: nan"]),
        (r"the code \w+ is 802|the code", [b"the code"]),
    ],
)
def test_texts_are_those_that_no_match_can_do_without(pattern: str, texts: list[bytes]) -> None:
    assert list(texts_of(pattern)) == texts


def test_broken_pattern_is_an_error_of_its_own() -> None:
    with pytest.raises(re.error):
        texts_of("(")


def test_what_the_probes_look_for_stands_in_what_they_match() -> None:
    from stackproof.triage import rules

    examples = [line for row in rules.load_all() for text in row.examples for line in text.splitlines()]
    lost = []
    for probe in reports.probes():
        if probe.span > 1:
            continue
        for line in examples:
            if probe.match(line) and not any(text in line.encode() for text in probe.texts):
                lost.append((probe.key, line))
    assert lost == []
