"""What a workload must offer: each thing that can lack is one sentence with the file's name, before anything runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base import places
from stackproof.base.errors import Refusal
from stackproof.base.places import EXAMPLE
from stackproof.project import projects
from stackproof.workloads import catalogue, contract

GOOD = (EXAMPLE / "workloads" / "gru.py").read_text(encoding="utf-8")
BERT = (EXAMPLE / "workloads" / "bert.py").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "stackproof.toml").write_text("", encoding="utf-8")
    (tmp_path / "workloads").mkdir()
    monkeypatch.setenv(places.PROJECT, str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for cached in (projects.current, catalogue._known):
        cached.cache_clear()
    yield tmp_path
    for cached in (projects.current, catalogue._known):
        cached.cache_clear()


def held(folder: Path, text: str, name: str = "gru") -> str:
    (folder / "workloads" / "mine.py").write_text(text, encoding="utf-8")
    projects.current.cache_clear()
    return contract.check(catalogue.get(name))


def test_a_file_is_a_workload(folder: Path) -> None:
    assert "5763 trainable numbers, Adam" in held(folder, GOOD)
    assert set(catalogue.theirs()) == {"gru"}
    assert {"gru", "yolov8n"} <= set(catalogue.names())
    assert "gru" in catalogue.taking_part("models") and "gru" not in catalogue.taking_part("recompute")
    assert [path.name for path in (folder / "workloads").iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("was", "slip", "words"),
    [
        ("import torch\n", "import torch\nimport nowhere\n", "cannot be imported: ModuleNotFoundError: No module named 'nowhere' (line 6)"),
        ("import torch\n", "import torch\nraise SystemExit(3)\n", "cannot be imported: SystemExit"),
        ("import torch\n", "import torch\ndef f(:\n", "cannot be imported: SyntaxError"),
        ("WORKLOADS = (Gru(),)", "", "has no WORKLOADS"),
        ("WORKLOADS = (Gru(),)", "WORKLOADS = Gru()", "end it with a tuple"),
        ("WORKLOADS = (Gru(),)", "WORKLOADS = (Gru,)", "make an object of it"),
        ("WORKLOADS = (Gru(),)", "WORKLOADS = (3,)", "holds 3, which is no Workload"),
        ('name = "gru"', 'name = "My GRU"', "it must be a word in lower case"),
        ('name = "gru"', 'name = "yolov8n"', "the workload 'yolov8n' exists already, in "),
        ('name = "gru"', 'name = "gru"\n    offer = 3', "it must be an Offer(...)"),
        ("import torch\n", "import torch\nfrom stackproof.project.offers import Offer\nOffer(parts=('smok',))\n", "'parts' has 'smok'"),
        ("return _Job(recipe", "return None and _Job(recipe", "assemble() returns NoneType"),
        ('batch["waves"][:, :-1]', 'batch["img"][:, :-1]', "evaluate() raises KeyError: 'img' (line"),
        ("lr=3e-3)", "lr=3e-3, betas=3)", "building it in torch.float32 raises TypeError"),
        ("model.parameters(), lr", "[model.head.bias], lr", "the optimiser does not have 'memory.weight_ih_l0'"),
        ("recipe.share(waves)", "waves", "batch 0 'waves' is torch.float32 where torch.float64 was asked for"),
        ("[{\"waves\": recipe.share(waves)}]", "[]", "has no batches"),
        ("[{\"waves\": recipe.share(waves)}]", "{\"waves\": recipe.share(waves)}", "the batches are of type dict; write a list"),
        ("[{\"waves\": recipe.share(waves)}]", "[recipe.share(waves)]", "a batch is of type Tensor; write a mapping"),
        ("[{\"waves\": recipe.share(waves)}]", "[{\"waves\": 3}]", "'waves' of a batch is of type int; it must be a tensor"),
        ('name = "gru"', 'name = "g" * 5000', "lower case of at most 60 characters"),
        (".to(foretold.dtype))", ".to(foretold.dtype)).item()", "evaluate() returns tuple of (Tensor, float); it must return two tensors"),
        ("foretold, functional", "functional", "returns Tensor; it must return two tensors"),
        (".to(foretold.dtype))", ".to(foretold.dtype), reduction='none')", "it must be a scalar"),
        ("foretold = model", "foretold = torch.nn.functional.dropout(model", "two forward passes on the same batch differ"),
        ("manual_seed(recipe.seed)", "manual_seed(torch.seed() % 99991)", "differs between two builds from one seed"),
        ("Units(len(waves), 0, 6 * matrices * len(waves) * (waves.shape[1] - 1))", "3", "units are 3"),
        (".to(recipe.device, recipe.dtype)", ".to(recipe.device)", "where torch.float64 was asked for"),
        ("(features, width).to", "(features, width).requires_grad_(False).to", "no parameter of the model requires a gradient"),
    ],
)  # fmt: skip
def test_what_lacks_is_one_sentence(folder: Path, was: str, slip: str, words: str) -> None:
    assert was in GOOD
    text = GOOD.replace(was, slip, 1)
    if "dropout" in slip:
        text = text.replace("[:, :-1])", "[:, :-1]))", 1)
    with pytest.raises(Refusal) as refused:
        held(folder, text)
    assert words in str(refused.value)
    assert str(folder / "workloads" / "mine.py") in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("was", "slip", "words"),
    [
        ("self.norm =", "self.unused = nn.Linear(3, 3)\n        self.norm =", "get no gradient, such as 'unused.weight'"),
        ("return logits, functional", "return logits.argmax(-1), functional", "the output is torch.int64"),
        ("cross_entropy(logits[hidden]", "cross_entropy(logits[hidden].bfloat16()", "the loss of the float64 job is torch.bfloat16"),
    ],
)  # fmt: skip
def test_what_a_reference_needs(folder: Path, was: str, slip: str, words: str) -> None:
    assert was in BERT
    with pytest.raises(Refusal, match=re.escape(words)):
        held(folder, BERT.replace(was, slip, 1), "bert")


def test_helpers_beside_a_file_are_found(folder: Path) -> None:
    (folder / "workloads" / "_sizes.py").write_text("WIDTH = 24\n", encoding="utf-8")
    (folder / "mypackage.py").write_text("LAYERS = 2\n", encoding="utf-8")
    text = GOOD.replace("LAYERS = 2", "from ._sizes import WIDTH\nfrom mypackage import LAYERS")
    assert "5763 trainable numbers" in held(folder, text)


@pytest.mark.slow
def test_the_module_prints_what_is_there(folder: Path) -> None:
    (folder / "workloads" / "mine.py").write_text(GOOD, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "stackproof.workloads.catalogue"]
    good = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    *_, answer = good.stdout.splitlines()
    assert set(json.loads(answer)) == {"gru"}
    (folder / "workloads" / "mine.py").write_text("1 / 0\n", encoding="utf-8")
    bad = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout.splitlines()) == (2, [str(folder / "workloads" / "mine.py")])
    assert bad.stderr.strip().endswith("ZeroDivisionError: division by zero (line 1); mend it, or take it out")
