"""Interfaces and what filters leave of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.ranks import preflight
from stackproof.ranks.preflight import Interface

NAMES = ["docker0", "eth0", "eth1", "lo"]


@pytest.mark.parametrize(
    ("grammar", "value", "left"),
    [
        ("prefixes", "eth", ["eth0", "eth1"]),
        ("prefixes", "=eth0", ["eth0"]),
        ("prefixes", "=eth", []),
        ("prefixes", "=eth0,eth1", ["eth0", "eth1"]),
        ("prefixes", "^docker", ["eth0", "eth1", "lo"]),
        ("prefixes", "^docker,lo", ["eth0", "eth1"]),
        ("prefixes", "^=eth0", ["docker0", "eth1", "lo"]),
        ("prefixes", "ib", []),
        ("names", "eth0, lo", ["eth0", "lo"]),
        ("names", "eth", []),
    ],
)
def test_filters_leave_what_their_library_would(grammar: str, value: str, left: list[str]) -> None:
    assert left == preflight.passed_by(grammar, value, NAMES)


def test_interfaces_are_read_from_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, state in (("eth0", "up"), ("ib0", "down"), ("lo", "unknown"), ("docker0", "up")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "operstate").write_text(f"{state}\n")
    (tmp_path / "docker0" / "bridge").mkdir()
    monkeypatch.setattr(preflight, "SYSFS", tmp_path)
    expected = [("docker0", True, True), ("eth0", True, False), ("ib0", False, False), ("lo", True, False)]
    assert [Interface(*row) for row in expected] == list(preflight.interfaces())


def test_bridges_are_known_by_kind_and_by_name() -> None:
    found = [Interface("br0", True, True), Interface("vethab12", True, False), Interface("eth0", True, False)]
    assert preflight.bridges(found, ["docker", "veth"]) == ["br0", "vethab12"]


def test_providers_are_listed_without_their_layers_and_exclusions_ask_for_none() -> None:
    assert preflight.providers("tcp;ofi_rxm, verbs") == ["tcp", "ofi_rxm", "verbs"]
    assert preflight.providers("^shm") == []


def test_installed_providers_are_the_files_that_libfabric_loads(tmp_path: Path) -> None:
    for name in ("libmine-fi.so", "libother-fi.so.1.2", "libfabric.so"):
        (tmp_path / name).touch()
    assert (preflight.installed(str(tmp_path)), preflight.installed("")) == (["mine", "other"], [])
