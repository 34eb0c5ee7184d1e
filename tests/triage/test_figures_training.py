"""Figures from what trainers print, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackproof.triage.figures import Training, number
from tools import triage_corpus

from .making import report


def read(folder: Path, text: str) -> Training:
    """Return the training of a log."""
    found = report(folder, text).training
    assert found is not None
    return found


def test_llamafactory_on_two_cards() -> None:
    found = triage_corpus.judge("xpu-lora-two-cards.log").training
    assert found is not None
    assert (found.steps, found.world_size, found.samples_per_second, found.steps_per_second) == (207, 2, 5.881, 0.372)
    assert (found.series["loss"][0], found.figures.get("train_loss"), found.figures.get("train_runtime")) == (
        1.745,
        1.3686,
        556.03,
    )
    assert (found.figures.get("trainable"), found.figures.get("parameters")) == (5046272, 601096192)
    assert found.words == {"model": "Qwen3-0.6B", "dtype": "bfloat16", "device": "xpu"}
    assert set(found.trainers) == {"transformers", "peft", "LLaMA-Factory"}


def test_world_size_follows_from_the_batches() -> None:
    found = triage_corpus.judge("dcu-lora-eight-cards.log").training
    assert found is not None
    assert (found.world_size, found.samples_per_second, found.series["loss"][-1]) == (8, 11.045, 0.894)
    found.figures.pop("world_size")
    assert found.world_size == 8


def test_ultralytics(tmp_path: Path) -> None:
    found = triage_corpus.judge("yolo-xpu.log").training
    assert found is not None
    assert (found.series["loss"], found.memory_gb, found.figures.get("parameters")) == (
        [1.21, 1.15, 1.09],
        1.18,
        3157200,
    )
    assert found.seconds == pytest.approx(43.2)
    own = "        1/3      1.18G      1.210       2.81      1.402         26        640: 100% ━━━━━━━━━━━━ 8/8 3.4it/s 2.3s\n"
    assert read(tmp_path, own).series["loss"] == [1.21]


def test_deepspeed() -> None:
    found = triage_corpus.judge("deepspeed-training.log").training
    assert found is not None
    assert (found.steps, found.samples_per_second, found.memory_gb) == (200, 25.02, 38.49)


def test_megatron_and_a_plain_log(tmp_path: Path) -> None:
    assert read(tmp_path, "step 1 loss 2\n" * 1001 + "step 2 loss 1\n").series["loss"] == [2.0] * 1001 + [1.0]
    text = " iteration   199/ 3178 | elapsed time per iteration (ms): 14.5 | learning rate: 1.0E-04 | lm loss: 1.25E+00 |\n"
    assert read(tmp_path, text).series["loss"] == [1.25]


def test_newer_transformers_quotes_its_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "{'loss': '1.745', 'learning_rate': '4.3e-05', 'epoch': '0.15'}\n").series[
        "learning_rate"
    ] == [4.3e-05]


def test_one_rank_speaks_for_all(tmp_path: Path) -> None:
    text = "".join(f"[rank{rank}]: {{'loss': {2 - step / 10}, 'epoch': 1}}\n" for step in range(3) for rank in range(4))
    assert read(tmp_path, text).series["loss"] == [2.0, 1.9, 1.8]


def test_progress_is_that_of_the_main_loop(tmp_path: Path) -> None:
    text = (
        "Loading: 100%|##########| 4/4 [00:02<00:00,  1.61it/s]\n Total optimization steps = 3\n"
        "\r 33%|###| 1/3 [00:02<00:04,  2.00s/it]\r 33%|###| 1/3 [00:02<00:04,  2.00s/it, loss=1]\r 67%|###| 2/3 [01:04<00:02,  2.00s/it]"
        "\r100%|###| 3/3 [01:06<00:00,  2.00s/it]\nSaving: 100%|##########| 40/40 [00:02<00:00, 20.00it/s]\n"
    )
    assert [(row.step, row.elapsed) for row in read(tmp_path, text).progress] == [(1, 2.0), (2, 64.0), (3, 66.0)]


def test_log_without_training_has_none(tmp_path: Path) -> None:
    assert report(tmp_path, "Loading: 100%|###| 4/4 [00:02<00:00,  1.61it/s]\nloss of connection\n").training is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("5,046,272", 5046272.0), ("0:09:16.03", 556.03), ("09:16", 556.0), ("1.", 1.0), ("x", None), ("-", None)],
)
def test_numbers_as_trainers_print_them(text: str, value: float | None) -> None:
    assert number(text) == value
