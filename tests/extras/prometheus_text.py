"""Prometheus's text format, read strictly."""

from __future__ import annotations

import re

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(stackproof_[a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} (-?\d+(?:\.\d+)?(?:e-?\d+)?)")


def parsed(text: str) -> dict[str, float]:
    """Read the format strictly: help, type, then samples of that name; return samples by series."""
    found: dict[str, float] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, *_ = line.split(" ")
            assert word in ("HELP", "TYPE")
            continue
        matched = SAMPLE.fullmatch(line)
        assert matched and matched[1] == name, line
        series = f"{name}{{{matched[2]}}}"
        assert series not in found
        found[series] = float(matched[3])
    assert text.endswith("\n")
    return found
