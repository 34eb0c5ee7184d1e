"""Tools: those that are here are named, and only what is wanted for cards that are here is missed."""

from __future__ import annotations

from pathlib import Path

from stackproof.doctor import host, rules

from .boxes import bare, k100

TABLE = rules.load()


def test_tools_are_named(tmp_path: Path) -> None:
    _, finding = host.examine(k100(tmp_path / "box").tool("mpirun").machine(), TABLE, {"hip"})
    assert finding.sentence == "tools: hy-smi, mpirun"


def test_a_wanted_tool_is_missed_beside_its_cards_only(tmp_path: Path) -> None:
    machine = bare(tmp_path / "box").machine()
    assert list(host.examine(machine, TABLE, set())) == []
    (finding,) = host.examine(machine, TABLE, {"xpu"})
    assert (finding.sentence, finding.level.value) == ("xpu-smi is not here", "note")
