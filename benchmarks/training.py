"""Training steps of the users' own models: seconds a sample, shown as samples/s.

A step is forward, backward and the optimiser over all micro-batches, as `workloads/` builds them for the suites that verify them;
the loss is read outside. Small presets are bound by launches and by Python, the full ones by arithmetic and memory traffic, so
a change in one and not in the other says where to look: tiny alone points at the host, full alone at kernels, clocks or the driver.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("training"))
