"""Callbacks write a line a step, on real trainers with tiny random models, and are inert where nobody asked."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest

from stackproof.jobs.callbacks import StepLog, hugging_face, ultralytics
from stackproof.jobs.metrics import STEPS_FILE, rows_of


def test_a_loop_of_ones_own_writes_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STEPS_FILE, str(tmp_path / "steps"))
    monkeypatch.delenv("RANK", raising=False)
    log = StepLog()
    log.begin()
    log.step(loss=2.0)
    log.step(loss=math.nan)
    rows = rows_of(tmp_path / "steps")
    assert [sorted(row) for row in rows] == [["loss", "seconds"]] * 2
    assert [str(row["loss"]) for row in rows] == ["2.0", "nan"]


def test_it_is_inert_where_nobody_asked_and_on_other_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STEPS_FILE, raising=False)
    StepLog().step("no device at all", loss=1.0)
    monkeypatch.setenv(STEPS_FILE, str(tmp_path / "steps"))
    monkeypatch.setenv("RANK", "1")
    StepLog().step(loss=1.0)
    assert not (tmp_path / "steps").exists()


@pytest.mark.slow
def test_the_trainer_of_transformers_tells_every_step(tmp_path: Path) -> None:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    config = transformers.BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = transformers.BertForSequenceClassification(config)
    rows = [{"input_ids": torch.arange(8), "labels": torch.tensor(number % 2)} for number in range(8)]
    asked = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=4, per_device_train_batch_size=2, logging_steps=1, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.Trainer(
            model, asked, train_dataset=rows, callbacks=[hugging_face(str(tmp_path / "steps"))]
        ).train()
    found = rows_of(tmp_path / "steps")
    assert [row["seconds"] > 0 for row in found if "seconds" in row] == [True] * 4
    assert len([row for row in found if "loss" in row]) == 4


@pytest.mark.slow
def test_a_yolo_tells_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yolo: Any = pytest.importorskip("ultralytics")
    numpy, images = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    dice = numpy.random.default_rng(1)
    for split in ("train", "val"):
        for kind in ("a", "b"):
            folder = tmp_path / "data" / split / kind
            folder.mkdir(parents=True)
            for number in range(4):
                pixels = dice.integers(0, 255, (32, 32, 3), dtype="uint8")
                images.fromarray(pixels).save(folder / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ultralytics(yolo.YOLO("yolov8n-cls.yaml"), str(tmp_path / "steps")).train(
            data=str(tmp_path / "data"), epochs=1, imgsz=32, batch=4, device="cpu", workers=0, amp=False, plots=False, val=False,
            project=str(tmp_path / "runs"), verbose=False,
        )  # fmt: skip
    found = rows_of(tmp_path / "steps")
    assert len([row for row in found if row["loss"] > 0 and row["seconds"] > 0]) == 2
