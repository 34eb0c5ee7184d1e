"""Start-up: seconds until torch is imported, until the first kernel has run, until ranks can talk.

Nothing is shown as a rate here, less is better. A communicator that takes long comes back with every split (docs/users-reports.md E3).
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("start-up"))
