"""The optimiser's step alone: seconds an iteration, shown as it/s.

It reads and writes each parameter and its moments once, so memory bandwidth bounds it where kernels are fused, and the number of
launches where they are not. If it moves with torch and the models did not, an optimiser has changed its default implementation.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("optimiser"))
