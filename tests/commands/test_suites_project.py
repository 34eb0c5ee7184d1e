"""A project's own models go through the suites beside ours: four kinds that nobody here had in mind, each one file."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT, cli
from stackproof.base.places import EXAMPLE

FOUR = ("bert", "gru", "resnet18", "vit")


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a verb of this checkout."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "stackproof", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_four_kinds_of_models_pass(tmp_path: Path) -> None:
    only = [word for name in FOUR for word in ("--only", f"models/*[[]{name}]")]
    words = ["verify", "--stack", "cpu", "--suite", "models", "--project", str(EXAMPLE), *only]
    ended = run([*words, "--json", str(tmp_path / "record.json"), "--results", str(tmp_path)], tmp_path)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    passed = {check["id"] for check in record["checks"] if check["verdict"] == "passed"}
    wanted = {f"models/reference::{what}[{name}]" for what in ("training", "steps", "evaluation") for name in FOUR}
    assert wanted | {"models/reference::channels_last[resnet18]", "project"} <= passed
    facts = record["provenance"]
    assert facts["project.folder"] == str(EXAMPLE)
    assert facts["workload.vit"].startswith("workloads/vit.py ") and len(facts["workload.vit"].split()[1]) == 64


@pytest.mark.slow
def test_four_kinds_of_models_train_over_ranks(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "project")
    for path in (tmp_path / "project" / "workloads").glob("*.py"):
        text = path.read_text(encoding="utf-8") + "\nfrom dataclasses import replace\n"
        text += "for one in WORKLOADS:\n    type(one).offer = replace(one.offer, parts=(*one.offer.parts, 'data-parallel'))\n"
        path.write_text(text, encoding="utf-8")
    kinds = ("gradients", "ranks_equal")
    only = [word for name in FOUR for kind in kinds for word in ("--only", f"convergence/gradients::{kind}[[]{name}]")]
    words = ["ddp", "--stack", "cpu", "--suite", "convergence", "--project", str(tmp_path / "project"), *only]
    ended = run([*words, "--json", str(tmp_path / "record.json"), "--results", str(tmp_path)], tmp_path)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    passed = {check["id"] for check in record["checks"] if check["verdict"] == "passed"}
    assert {f"convergence/gradients::{kind}[{name}]" for kind in kinds for name in FOUR} <= passed


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR)
def test_the_presets_that_cards_run_can_be_built(name: str) -> None:
    words = [sys.executable, "-c", BUILD, str(EXAMPLE), name]
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    tiny, full, loss = (float(word) for word in ended.stdout.split())
    assert full > 20 * tiny
    assert math.isfinite(loss)


BUILD = """
import sys, torch
from stackproof.project import projects
from stackproof.workloads import catalogue
projects.choose(sys.argv[1])
built = {preset: catalogue.get(sys.argv[2]).build(torch.device("cpu"), preset, seed=1) for preset in ("tiny", "full")}
print(*(sum(one.numel() for one in job.model.parameters()) for job in built.values()))
job = built["full"]
small = {name: one[:2] for name, one in job.batches[0].items()}
print(float(job.evaluate(job.model, small)[1]))
"""


TIED = """
import torch
from torch import nn
from torch.nn import functional
from stackproof.workloads.base import Job, Units, Workload


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.memory = nn.Embedding(30, 24), nn.GRU(24, 24, batch_first=True)

    def forward(self, text):
        return functional.linear(self.memory(self.table(text))[0], self.table.weight)


class Tied(Job):
    def evaluate(self, model, batch):
        logits = model(batch["text"][:, :-1])
        return logits, functional.cross_entropy(logits.flatten(0, 1), batch["text"][:, 1:].flatten())

    units = Units(8, 0, 1000)


class Letters(Workload):
    name = "tied"

    def assemble(self, recipe):
        model = Speller().to(recipe.device, recipe.dtype)
        text = torch.randint(30, (8 * recipe.scale, 16), generator=torch.Generator().manual_seed(recipe.seed))
        return Tied(recipe, model, torch.optim.Adam(model.parameters(), lr=3e-3), [{"text": recipe.share(text)}])


WORKLOADS = (Letters(),)
"""


@pytest.mark.slow
def test_a_model_without_layers_is_judged_by_its_products(tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "tied.py").write_text(TIED, encoding="utf-8")
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    check = "smoke/workloads::autocast[[]tied-bfloat16]"
    words = ["verify", "--stack", "cpu", "--suite", "smoke", "--suite", "precision", "--results", str(tmp_path)]
    words += ["--json", str(tmp_path / "record.json")]
    found = run([*words, "--only", check, "--only", "precision/training::training[[]tied-*"], tmp_path)
    assert found.returncode == 0, found.stdout
    assert "matrix products computed in torch.bfloat16" in (tmp_path / "record.json").read_text(encoding="utf-8")
    off = "\nimport contextlib\ntorch.autocast = lambda *_, **__: contextlib.nullcontext()\n"
    (tmp_path / "workloads" / "tied.py").write_text(TIED + off, encoding="utf-8")
    broken = run(["smoke", "--stack", "cpu", "--only", check, "--results", str(tmp_path)], tmp_path)
    assert broken.returncode == 1
    said = " ".join(broken.stdout.split())
    assert re.search(
        r"did not cast: none of \d+ matrix products computed in torch.bfloat16, others in torch.float32", said
    )


@pytest.mark.slow
def test_a_suite_of_its_own_runs_and_is_counted(tmp_path: Path) -> None:
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    suite = tmp_path / "suites" / "mine"
    suite.mkdir(parents=True)
    text = "def test_{}(figures):\n    '''It adds.'''\n    figures['summary'] = str(1 + 1)\n"
    (suite / "test_1_sums.py").write_text(text.format("adds") + text.format("adds_again"), encoding="utf-8")
    words = ["verify", "--stack", "cpu", "--suite", "mine", "--results", str(tmp_path)]
    said = run(words, tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "mine/sums" in said.stdout and "adds, adds_again" in said.stdout
    assert "2 of 2 checks" in said.stdout and "none would be missed" in " ".join(said.stdout.split())
    assert run(["expect", "--stack", "cpu"], tmp_path).returncode == 0
    assert run(words, tmp_path).returncode == 0
    (suite / "test_1_sums.py").write_text(text.format("adds"), encoding="utf-8")
    missed = run(words, tmp_path)
    assert missed.returncode == 1
    assert "1 checks of mine/sums were collected" in " ".join(missed.stdout.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["smoke", "--project", "{}/stackproof.toml"], "is a file; name the folder"),
        (["--project", "{}/gone", "doctor"], "does not exist (No such file or directory); name a folder"),
        (["smoke", "--project", "{}/workloads"], "holds no stackproof.toml"),
    ],
)
def test_a_folder_that_is_no_project_is_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_PROJECT", "")
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    (tmp_path / "workloads").mkdir()
    assert cli.main([word.format(tmp_path) for word in words]) == 2
    assert told in capsys.readouterr().err


def test_a_broken_file_is_one_sentence_for_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKPROOF_PROJECT", "")
    monkeypatch.delenv("STACKPROOF_PROJECT")
    (tmp_path / "stackproof.toml").write_text("worklods = 3\n", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    for verb in (["smoke", "--stack", "cpu"], ["gate", "--stack", "cpu"], ["doctor"]):
        assert cli.main(verb) == 2
        said = capsys.readouterr().err
        assert "'worklods' is not a known key (did you mean 'workloads'?)" in said and said.count("\n") == 1
    assert cli._project(["watch", "--", "train.py", "--project", "theirs"]) is None
