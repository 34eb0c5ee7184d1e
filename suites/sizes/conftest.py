"""What is computed in float32 is compared in float32: tf32 is a question of the suite `precision`."""

from __future__ import annotations

from suites.plain import plain_float32

__all__ = ["plain_float32"]
