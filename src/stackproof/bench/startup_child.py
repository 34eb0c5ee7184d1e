"""The process that only starts up: `python -m stackproof.bench.startup_child JSON` prints the seconds of its phases.

Nothing that this module imports imports torch.
"""

from __future__ import annotations

import importlib
import json
import sys
import time


def main(told: str) -> None:
    """Import what the stack imports, run a first kernel on the device, and print how long each took."""
    wanted = json.loads(told)
    if "torch" in sys.modules:
        raise RuntimeError("torch was imported before its import could be timed")
    began = time.perf_counter()
    for name in wanted["imports"]:
        importlib.import_module(name)
    imported = time.perf_counter()
    import torch

    from stackproof.device import devices

    place = devices.parse(f"{wanted['kind']}:{wanted['index']}", wanted["kind"])
    ready = time.perf_counter()
    found = float(torch.arange(8, dtype=torch.float32, device=place.torch).sum().item())
    done = time.perf_counter()
    sys.stdout.write(json.dumps({"import": imported - began, "kernel": done - ready, "sum": found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
