"""The YOLO step under ultralytics' trainer: it finds the job's pictures and boxes, and its side effects are undone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from stackproof.bench import agree
from stackproof.device.devices import HOST
from stackproof.workloads import inputs
from stackproof.workloads.training import SEED
from stackproof.workloads.yolo import setting_of


def test_the_data_set_holds_the_jobs_pictures(tmp_path: Path) -> None:
    path = agree._data_set(tmp_path, "tiny")
    layout = setting_of("tiny").layout
    made = inputs.detection(SEED, setting_of("tiny").samples * agree._BATCHES, layout)
    pictures = sorted((tmp_path / "images" / "train").iterdir())
    assert len(pictures) == len(made.images)
    assert np.array_equal(np.asarray(Image.open(pictures[3])).transpose(2, 0, 1), made.images[3])
    rows = [line.split() for line in (tmp_path / "labels" / "train" / "0003.txt").read_text().splitlines()]
    first = made.corners[made.owners == 3][0] / layout.size
    assert [float(word) for word in rows[0][1:3]] == pytest.approx(
        [(first[0] + first[2]) / 2, (first[1] + first[3]) / 2], abs=1e-5
    )
    assert f"path: {tmp_path}" in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_ultralytics_trains_and_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    data = agree._data_set(tmp_path, "tiny")
    before = (torch.get_num_threads(), dict(os.environ), torch.save)
    began = time.perf_counter()
    seconds = agree._trainer("yolov8n", HOST, "tiny", data)()
    assert 0 < seconds < time.perf_counter() - began
    assert (torch.get_num_threads(), dict(os.environ), torch.save) == before
