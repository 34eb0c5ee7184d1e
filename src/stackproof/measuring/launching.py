"""The one place where measuring touches the launcher of ranks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..distributed.launch import Arrangement, arrange, launch
from ..distributed.rank import Rank
from ..session import SESSION

__all__ = ["Arrangement", "Rank", "arrange", "launch", "workspace"]


@contextmanager
def workspace(name: str) -> Iterator[Path]:
    """Give a folder for the ranks' logs: beside those of the run where there is one, and kept if something goes wrong."""
    beside = Path(os.environ[SESSION]).parent if SESSION in os.environ else None
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=beside))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
