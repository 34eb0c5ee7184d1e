"""A bill of materials: every pin once, with address, digests and licence, or the word that nobody knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackproof.stack import lockfile, sbom, stacks
from stackproof.stack.licences import Licence

from .. import fakes

PINNED = f"numpy==1.26.4 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n"
LOCK = f"torch==9.1.0+v1\n{PINNED}tomli==2.0.1 ; python_version < '3.11' \\\n    --hash=sha256:{'c' * 64}\n"
VENDOR = '\n[[vendor]]\nname = "torch"\nversion = "9.1.0+v1"\nindex = "https://wheels.example/x u"\n'
KNOWN = {("numpy", "1.26.4"): Licence("BSD-3-Clause"), ("tomli", "2.0.1"): Licence(names=("MIT License", "Other"))}


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    """The bill of a stack with a vendor's wheel, a hashed package, and one for older Pythons."""
    folder = fakes.stack(tmp_path, definition=fakes.TINY + VENDOR)
    (folder / "requirements.in").write_text("torch==9.1.0+v1\nnumpy<2\n", encoding="utf-8")
    fakes.lock(folder, LOCK)
    stack = stacks.load("tiny", tmp_path / "stacks")
    return sbom.bill(stack, lockfile.read(stack.lock), KNOWN)


def properties(part: dict[str, Any]) -> dict[str, str]:
    """Return the properties of a part."""
    return {row["name"].removeprefix("stackproof:"): row["value"] for row in part.get("properties", [])}


def test_every_pin_is_a_component(made: dict[str, Any]) -> None:
    parts = {part["name"]: part for part in made["components"]}
    assert parts["torch"]["purl"] == "pkg:pypi/torch@9.1.0%2Bv1?repository_url=https%3A%2F%2Fwheels.example%2Fx%20u"
    assert (parts["numpy"]["purl"], parts["numpy"]["version"]) == ("pkg:pypi/numpy@1.26.4", "1.26.4")
    (root,) = made["dependencies"]
    assert root["ref"] == made["metadata"]["component"]["bom-ref"]
    assert root["dependsOn"] == [part["bom-ref"] for part in made["components"]]
    assert len(set(root["dependsOn"])) == 3


def test_digests_licences_and_what_is_not_known(made: dict[str, Any]) -> None:
    parts = {part["name"]: part for part in made["components"]}
    (reference,) = parts["numpy"]["externalReferences"]
    assert [row["content"] for row in reference["hashes"]] == ["a" * 64, "b" * 64]
    assert parts["numpy"]["licenses"] == [{"expression": "BSD-3-Clause", "acknowledgement": "declared"}]
    assert [row["license"]["name"] for row in parts["tomli"]["licenses"]] == ["MIT License", "Other"]
    assert properties(parts["tomli"]) == {"marker": "python_version < '3.11'"}
    assert properties(parts["torch"]) == {"unhashed": "true", "licence": "unknown"}
    assert "externalReferences" not in parts["torch"] and "licenses" not in parts["torch"]


def test_the_lock_is_named(made: dict[str, Any], tmp_path: Path) -> None:
    stack = stacks.load("tiny", tmp_path / "stacks")
    lock = lockfile.read(stack.lock)
    told = properties(made["metadata"]["component"])
    assert (told["lock.sha256"], told["unhashed"], told["lock"]) == (lock.digest, "1", "requirements.lock")
    assert sbom.bill(stack, lock, KNOWN) == made
    fakes.lock(stack.folder, "torch==9.1.0+v1\n")
    assert sbom.bill(stack, lockfile.read(stack.lock), KNOWN)["serialNumber"] != made["serialNumber"]


def test_packages_by_licence(made: dict[str, Any], tmp_path: Path) -> None:
    lock = lockfile.read(stacks.load("tiny", tmp_path / "stacks").lock)
    found = sbom.summary(lock, KNOWN)
    assert found == {"BSD-3-Clause": ["numpy"], "MIT License / Other": ["tomli"], "unknown": ["torch"]}
    assert list(found)[-1] == "unknown"


def test_of_two_versions_the_installed_one_speaks(tmp_path: Path) -> None:
    folder = fakes.stack(tmp_path)
    other = PINNED.replace("1.26.4", "2.2.6 ; python_version < '3.11'")
    fakes.lock(folder, LOCK.replace("numpy==1.26.4", "numpy==1.26.4 ; python_version >= '3.11'") + other)
    lock = lockfile.read(folder / "requirements.lock")
    assert [pin.version for pin in lock.pins if pin.name == "numpy"] == ["1.26.4", "2.2.6"]
    assert sbom.summary(lock, KNOWN)["unknown"] == ["torch"]
    assert sbom.summary(lock, {})["unknown"].count("numpy") == 2
