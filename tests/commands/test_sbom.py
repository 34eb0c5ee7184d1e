"""The verb `sbom`: one JSON object on stdout, and on stderr what it does not know."""

from __future__ import annotations

import json

import pytest

from stackproof import cli


def test_stdout_is_the_bill(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sbom", "dcu"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    names = {part["name"] for part in made["components"]}
    assert {"torch", "transformers", "flash-attn"} <= names and len(names) > 100
    unknown = [part["name"] for part in made["components"] if "licenses" not in part]
    assert said.err.startswith(f"stackproof: licences not known: {len(unknown)}; ")


def test_why_a_licence_is_not_known_is_said_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sbom", "cpu", "--licences"]) == 0
    rows = capsys.readouterr().err.removeprefix("stackproof: ").strip().split("; ")
    assert next(row for row in rows if "colorama" in row).endswith(
        "(never installed on this platform, so that the licence binds nobody here)"
    )
    assert next(row for row in rows if "cuda-toolkit" in row).startswith(
        "cuda-toolkit (installed, and its own metadata"
    )
    assert not any("build the environment" in row for row in rows)


def test_a_line_for_each_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sbom", "cpu", "--licences"]) == 0
    rows = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert "ultralytics" in rows["AGPL-3.0"].split(", ")
    assert "pytest" in rows["MIT"].split(", ")


def test_an_unknown_stack_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sbom", "dcuu"]) == 2
    assert "did you mean 'dcu'?" in capsys.readouterr().err
