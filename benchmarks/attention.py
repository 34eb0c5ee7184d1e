"""Attention by dtype, direction and kernel: seconds for 1e12 floating-point operations, shown as TFLOP/s.

The same shapes through the kernel that torch picks, and through each that can be asked for by name: where the two part ways, a stack has
silently taken a slow path (docs/users-reports.md C5). A kernel that a stack does not have is skipped with its reason.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("attention"))
