"""Batches from a loader with workers, onto the device: seconds a sample, shown as samples/s.

It is bound by processes of the host, not by the device, and is here so that a slow epoch is not blamed on the card.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("loading"))
