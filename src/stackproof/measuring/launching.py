"""The one place where measuring touches the launcher of ranks."""

from __future__ import annotations

from ..distributed.launch import Arrangement, arrange, launch
from ..distributed.rank import Rank

__all__ = ["Arrangement", "Rank", "arrange", "launch"]
