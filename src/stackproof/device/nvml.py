"""The energy that an NVIDIA card has used since its driver was loaded: `python -m stackproof.device.nvml GPU-UUID` prints millijoules.

NVML is a part of the driver, and tells what nvidia-smi does not (nvmlDeviceGetTotalEnergyConsumption). Needs no torch.
"""

from __future__ import annotations

import ctypes
import sys

_LIBRARY = "libnvidia-ml.so.1"


def millijoules(uuid: str) -> int:
    """Return what the card's counter says.

    Raises:
        OSError: there is no driver, or it does not know this card or its energy.
    """
    library, card, counted = ctypes.CDLL(_LIBRARY), ctypes.c_void_p(), ctypes.c_ulonglong()
    _require(library.nvmlInit_v2())
    try:
        _require(library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(card)))
        _require(library.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(counted)))
    finally:
        library.nvmlShutdown()
    return counted.value


def _require(code: int) -> None:
    if code:
        raise OSError(f"NVML answers with error {code}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{millijoules(sys.argv[1])}\n")
    except OSError as error:
        sys.exit(str(error))
