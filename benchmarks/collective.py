"""Collectives between ranks, by call, size and world size: seconds for 1e9 bytes of the tensor, shown as GB/s.

What is verified is the data that arrived. Small sizes are bound by latency and large ones by the links; the time is that of the slowest
rank. A loss at all sizes is the transport (`sweep` says which setting), at large ones alone a link.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("collective"))
