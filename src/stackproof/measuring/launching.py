"""The one place where measuring touches the launcher of ranks."""

from __future__ import annotations

from ..launch import Arrangement, arrange, launch
from ..rank import Rank

__all__ = ["Arrangement", "Rank", "arrange", "launch"]
