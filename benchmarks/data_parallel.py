"""Training steps of several ranks with DistributedDataParallel: seconds a sample of the whole, shown as samples/s.

All ranks' samples over the slowest rank's time. Against `training` of the same model it says what communication costs.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("data-parallel"))
