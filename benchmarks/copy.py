"""Copies within the device, and between host and device: seconds for 1e9 bytes, shown as GB/s.

Within the device the memory bounds it; across, the link and whether the host's pages are locked. A loss in one direction
only is a link that came up narrower, or a driver that stages what it used to send at once.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("copy"))
