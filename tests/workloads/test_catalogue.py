"""The list of workloads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackproof import ROOT, workloads
from stackproof.base.errors import Refusal
from stackproof.workloads import catalogue

MODULE = """
from stackproof.workloads.classifier import Classifier
class Other(Classifier):
    name = "{name}"
WORKLOADS = (Other(),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(tmp_path)])
    catalogue._known.cache_clear()
    yield tmp_path
    catalogue._known.cache_clear()
    sys.modules.pop("stackproof.workloads.dropped_in", None)


def test_the_issues_workloads_are_listed() -> None:
    assert set(catalogue.names()) >= {"yolov8n", "yolov8x", "qwen3-0.6b-lora", "llama3-8b-lora", "classifier"}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match=r"no workload 'yolo8n' \(did you mean 'yolov8n'\?\); there are: classifier"):
        catalogue.get("yolo8n")


@pytest.mark.slow
def test_a_listing_imports_no_model_library() -> None:
    program = (
        "import sys; from stackproof.workloads import catalogue; catalogue.names();"
        "sys.exit(', '.join({'ultralytics', 'transformers', 'peft'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "src", check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_workload_is_a_file(folder: Path) -> None:
    (folder / "dropped_in.py").write_text(MODULE.format(name="dropped-in"), encoding="utf-8")

    assert catalogue.get("dropped-in").name in catalogue.names()


def test_a_name_cannot_be_taken_twice(folder: Path) -> None:
    (folder / "dropped_in.py").write_text(MODULE.format(name="yolov8n"), encoding="utf-8")

    with pytest.raises(Refusal, match=r"dropped_in.py: the workload 'yolov8n' exists already"):
        catalogue.names()


def test_what_has_no_closed_form_is_told() -> None:
    assert catalogue.unanchored("qwen3-0.6b-lora") == ""
    assert catalogue.unanchored("yolov8n").endswith("no closed form of yolov8n is known")
