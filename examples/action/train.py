"""A training script as anybody has one: it knows nothing of stackproof, and prints its losses and its speed."""

from __future__ import annotations

import argparse
import json
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
steps = parser.parse_args().steps

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
data, wanted = torch.randn(256, 64), torch.randn(256, 1)

began = time.perf_counter()
for _ in range(steps):
    loss = torch.nn.functional.mse_loss(model(data), wanted)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    print(f"loss: {loss.item():.6f}")  # noqa: T201
print(json.dumps({"train": {"samples_per_second": 256 * steps / (time.perf_counter() - began)}}))  # noqa: T201
