"""Which stacks are here: what the host has and lacks for each, said also where one is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.doctor import presence, report
from stackproof.stack import environments, hosts, lockfile, stacks

from .. import fakes

CARD = '\n[[host]]\nwhat = "a card that nobody has"\npaths = ["/nonexistent/card"]\ntools = ["no-such-tool"]\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the stacks 'tiny', which any host has, and 'card', which none has."""
    fakes.lock(fakes.stack(tmp_path), "torch==9.1.0\n")
    text = fakes.TINY.replace('visibility = ""', 'visibility = "CARD_VISIBLE"').replace("every host has it", "buy one")
    fakes.stack(tmp_path, "card", text + CARD)
    folder = tmp_path / "stacks"
    real, every = stacks.load, stacks.load_all
    monkeypatch.setattr(stacks, "load", lambda name, folder=folder: real(name, folder))
    monkeypatch.setattr(hosts, "load_all", lambda: every(folder))
    monkeypatch.setattr(environments, "HOME", tmp_path / "home")
    return tmp_path


def about(name: str) -> str:
    """Return the report about one stack."""
    return "\n".join(report.stack_lines(presence.look([name])))


def test_present_stack(root: Path) -> None:
    said = about("tiny")
    assert said.startswith("host: Linux ")
    assert "`nox -s smoke` would prove: tiny" in said
    assert "tiny: present - Tiny: a stack for tests" in said
    assert f"python: {environments.find_interpreter(stacks.load('tiny'))}" in said
    digest = lockfile.read(root / "stacks" / "tiny" / "requirements.lock").digest
    assert f"lock: 1 packages, {digest[:12]}, unhashed: 1 (run `stackproof lock tiny`" in said
    assert "environment: not built yet; `nox -s tiny-smoke` builds it" in said
    assert "to get it" not in said


def test_absent_stack(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARD_VISIBLE", raising=False)
    said = about("card")
    assert "card: not on this host - Tiny" in said
    assert "[missing] a card that nobody has (looked at: /nonexistent/card, no-such-tool)" in said
    assert "to get it: buy one" in said
    assert "lock: unusable - " in said
    assert "CARD_VISIBLE: not set, all cards are visible" in said
    monkeypatch.setenv("CARD_VISIBLE", "3")
    assert "CARD_VISIBLE: 3" in about("card")


def test_without_the_card_the_environment_is_the_rehearsals(root: Path) -> None:
    assert "environment: not built yet; `nox -s card-rehearse` builds it" in about("card")
    card = stacks.load("card")
    vendors = replace(card, rehearsal=replace(card.rehearsal, substitutes=("torch==9.1.0",)))
    said = presence._environment(vendors, present=False)
    assert said == "of its rehearsal: not built yet; `nox -s card-rehearse` builds it"
    environments.location(vendors).mkdir(parents=True)
    assert presence._environment(vendors, present=False).endswith("unfinished; `nox -s card-rehearse` builds it again")


def test_environments_are_named(root: Path) -> None:
    where = environments.location(stacks.load("tiny"))
    where.mkdir(parents=True)
    assert "unfinished; `nox -s tiny-smoke` builds it again" in about("tiny")
    (where / environments.STAMP).write_text(json.dumps({"lock_digest": "abcdef0123456789"}), encoding="utf-8")
    assert "built from lock abcdef012345\n" in f"{about('tiny')}\n"


def test_missing_interpreter(root: Path) -> None:
    fakes.stack(root, "tiny", fakes.TINY.replace(f'["{fakes.THIS_PYTHON}"]', '["3.99"]'))
    found = presence.look(["tiny"])
    assert "python: missing - needs Python 3.99" in "\n".join(report.stack_lines(found))
    assert "environment: " in "\n".join(report.stack_lines(found))
    assert found.unready["tiny"][0].startswith("needs Python 3.99")


def test_broken_definition_does_not_silence_the_rest(root: Path) -> None:
    fakes.stack(root, "bad", "title = 1\n")
    found = presence.look(["bad", "tiny"])
    said = "\n".join(report.stack_lines(found))
    assert "would prove: nothing - " in said
    assert "bad: broken - " in said
    assert "tiny: present" in said
    assert "bad/stack.toml: 'python' is missing" in str(found.broken)
    assert [stack.name for stack in found.stacks_here] == ["tiny"]


def test_a_definition_that_lacks_what_no_check_asks_for_is_broken(root: Path) -> None:
    definition = root / "stacks" / "tiny" / "stack.toml"
    definition.write_text(
        f'{definition.read_text(encoding="utf-8")}\n[missing]\nnosuch = "a reason"\n', encoding="utf-8"
    )
    assert "'missing.nosuch' is no capability" in str(presence.look(["tiny"]).broken)


def test_what_is_present_is_returned_in_order(root: Path) -> None:
    fakes.stack(root, "better", fakes.TINY.replace("priority = 1", "priority = 7"))
    assert [stack.name for stack in presence.look(["tiny", "better", "card"]).stacks_here] == ["better", "tiny"]


def test_nothing_is_changed(root: Path) -> None:
    before = sorted(root.rglob("*"))
    about("tiny")
    about("card")
    assert sorted(root.rglob("*")) == before


def test_shipped_stacks_are_all_reported() -> None:
    said = "\n".join(report.stack_lines(presence.look(stacks.names())))
    for stack in stacks.load_all():
        assert f"\n{stack.name}: " in said
        for row in stack.host:
            assert f"] {row.what} (" in said
