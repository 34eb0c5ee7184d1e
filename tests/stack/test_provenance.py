"""Provenance: flat facts, the variables that matter and no others, the driver under each of its names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stackproof.base import git
from stackproof.device.devices import torch_facts
from stackproof.stack import provenance, stacks
from stackproof.stack.environment_proof import Proof
from stackproof.stack.stacks import Driver


def test_facts_are_flat_and_fit_a_record() -> None:
    facts = {**provenance.host_facts(stacks.load("cpu")), **torch_facts(stacks.load("cpu"))}
    assert all(isinstance(value, (int, float, str, bool)) for value in facts.values())
    json.dumps(facts)


def test_only_variables_that_change_a_stack_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_PROTO", "simple")
    monkeypatch.setenv("MY_TOKEN", "secret")
    facts = provenance.host_facts(stacks.load("cpu"))
    assert facts["env.NCCL_PROTO"] == "simple"
    assert "secret" not in json.dumps(facts)


def test_what_changes_results_is_a_fact_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    facts = provenance.host_facts(stacks.load("cpu"))
    assert (facts["env.NVIDIA_TF32_OVERRIDE"], facts["changes results"]) == ("0", "NVIDIA_TF32_OVERRIDE=0")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    assert "changes results" not in provenance.host_facts(stacks.load("cpu"))


def test_a_default_of_the_stack_is_told_from_the_users_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCL_ATL_TRANSPORT", raising=False)
    assert provenance.host_facts(stacks.load("xpu"))["env.CCL_ATL_TRANSPORT (default of the stack)"] == "ofi"
    monkeypatch.setenv("CCL_ATL_TRANSPORT", "mpi")
    facts = provenance.host_facts(stacks.load("xpu"))
    assert facts["env.CCL_ATL_TRANSPORT"] == "mpi"
    assert "env.CCL_ATL_TRANSPORT (default of the stack)" not in facts


def test_a_rehearsal_says_what_it_was_verified_on() -> None:
    facts = provenance.host_facts(stacks.load("xpu").rehearse())
    assert (True, "xpu", "cpu") == (facts["rehearsed"], facts["hardware"], facts["verified on"])


def test_the_driver_is_read_from_files_and_tool(tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text("NVRM version: 580.1\nmore\n")
    stack = replace(stacks.load("cuda"), driver=Driver((str(version), "/nonexistent"), ("echo", "580.1, L40S")))
    facts = provenance.host_facts(stack)
    assert facts[f"driver.{version}"] == "NVRM version: 580.1"
    assert facts["driver.echo"] == "580.1, L40S"
    assert "driver./nonexistent" not in facts


def test_an_unpinned_environment_is_said() -> None:
    facts = provenance.proof_facts(Proof(False, "", (), 12, "2.11.0", {"cuda": "13.0"}))
    assert (False, "unpinned", "13.0") == (facts["pinned"], facts["lock"], facts["torch.version.cuda"])


HIDDEN: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: None,
    "assume-unchanged": lambda root: git.output(root, "update-index", "--assume-unchanged", FILE),
    "skip-worktree": lambda root: git.output(root, "update-index", "--skip-worktree", FILE),
    "committed settings": lambda root: git.output(root, "config", "core.fsmonitor", "true"),
    "an untracked file": lambda root: git.output(root, "config", "status.showUntrackedFiles", "no"),
    "an excluded file": lambda root: (root / ".git" / "info" / "exclude").write_text("conftest.py\n"),
    "a replaced commit": lambda root: git.output(root, "replace", "HEAD", git.output(root, "stash", "create").strip()),
}
FILE = "suites/smoke/test_1.py"


@pytest.mark.parametrize("name", HIDDEN)
def test_no_setting_of_git_hides_what_differs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text("whole\n", encoding="utf-8")
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x"), ("config", "user.email", "x@y")):
        git.output(tmp_path, *words)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    clean = provenance.code_facts()
    assert "code.differs" not in clean and git.is_reachable(str(clean["commit"]))
    changed = path.with_name("conftest.py") if "file" in name else path
    if name != "a replaced commit":
        HIDDEN[name](tmp_path)
    changed.write_text("gutted\n", encoding="utf-8")
    if name == "a replaced commit":
        HIDDEN[name](tmp_path)
    seen = provenance.code_facts()
    assert seen["commit"] == f"{clean['commit']} (with local changes)" and seen["code"] != clean["code"]
    assert seen["code.differs"] == changed.relative_to(tmp_path).as_posix()
