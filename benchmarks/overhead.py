"""What the engine itself adds to a step of known length, as a share.

It is the only figure that says something of stackproof and nothing of a stack: 0 is a bare loop.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("overhead"))
